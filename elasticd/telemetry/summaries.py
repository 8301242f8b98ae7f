"""What the status page shows of the daemon, and of a decision: a row of its table, a point of a workload's chart.

Pure. Knows the records; knows nothing of who looks at them.
"""

from math import isfinite

from msgspec import Struct

from elasticd.base.text import one_line
from elasticd.model.moves import Underway
from elasticd.model.records import Decision, Outcome, Verdict
from elasticd.model.reports import PolicyInForce
from elasticd.sources.poller import SourceReport

LONGEST = 240
"""Characters of a sentence in a row; the explanation of the decision has all of it."""

MOST_FAILURES = 8
"""Plugin failures in a row."""


class DaemonSummary(Struct, frozen=True):
    """The state of the daemon as a whole.

    `unready`, `memory` and `kept` say what is wrong, or are empty; `confirmed` is when the cluster last proved current
    what is known of its pods, `faults` what keeps evicted pods from running again, `problems` what of the cluster
    cannot be watched, that it was restored, that who leads has other policies, that it does not answer bindings, and
    that nobody scales a workload since a takeover.
    """

    at: float
    leading: bool
    leader: str
    dry_run: bool
    unready: str
    confirmed: float
    faults: tuple[str, ...]
    problems: tuple[str, ...]
    memory: str
    kept: str
    policies: tuple[PolicyInForce, ...]
    sources: tuple[SourceReport, ...]
    moves: tuple[Underway, ...]
    outlet: object = None


class WorkloadRow(Struct, frozen=True, gc=False, omit_defaults=True):
    """A workload under a policy, and what was last decided about it, without the times, which change each time.

    `id` is its number in this stream. `limited` says which limits the wish stopped at, `missing` which series cannot be
    trusted, `refused` what became of the last action if it was not done.
    """

    id: int
    policy: str
    workload: str
    mode: str
    verdict: Verdict
    current: int
    replicas: int
    reason: str
    message: str = ""
    wish: int | None = None
    blind: bool = False
    limited: str = ""
    missing: str = ""
    failures: tuple[tuple[str, str], ...] = ()
    refused: str = ""
    interval: float = 0.0
    interval_by: str = ""


class ChartPoint(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a decision adds to a chart: the replicas that there were, that were wanted and that were left of the wish
    after all limits, and the total of each series. `at` is in seconds since the epoch."""

    at: float
    current: int
    replicas: int
    wish: int | None = None
    demand: dict[str, float] = {}


def row_of(number: int, decision: Decision, refused: str = "") -> WorkloadRow:
    """The row of a decision; `refused`: what became of an action that was not done."""
    limited = decision.wish is not None and decision.wish != decision.replicas
    bound = [f"{limit.name or limit.reason}: {limit.message}" for limit in decision.limits if limit.bound]
    missing = [f"{series.name} {series.quality.value}" for series in decision.series if not series.trusted]
    failures = [(failure.plugin, brief(failure.message)) for failure in decision.failures[:MOST_FAILURES]]
    return WorkloadRow(
        number,
        decision.policy,
        str(decision.workload),
        decision.mode,
        decision.verdict,
        decision.current,
        decision.replicas,
        brief(decision.reason),
        brief(decision.message),
        decision.wish,
        decision.blind,
        brief("; ".join(bound)) if limited and bound else "",
        brief(", ".join(missing)) if missing else "",
        tuple(failures),
        refused,
        decision.interval,
        decision.interval_by,
    )


_FIELDS = WorkloadRow.__struct_fields__[1:]


def changes(before: WorkloadRow, after: WorkloadRow) -> dict[str, object]:
    """The fields of a row that differ from before, and its id: most often a message, and perhaps a count."""
    fields = {name: value for name in _FIELDS if (value := getattr(after, name)) != getattr(before, name)}
    fields["id"] = after.id
    return fields


def data_age(decision: Decision) -> float | None:
    """How old the oldest of the trusted series was when they were decided upon, in seconds; None: there is none."""
    measured = [series.measured for series in decision.series if series.measured and series.trusted]
    return round(max(0.0, decision.at - min(measured)), 1) if measured else None


def point_of(decision: Decision) -> ChartPoint:
    """The point of a decision in its workload's chart."""
    totals = {
        series.name: total
        for series in decision.series
        if series.samples and isfinite(total := sum(sample.value for sample in series.samples))
    }
    return ChartPoint(round(decision.at, 3), decision.current, decision.replicas, decision.wish, totals)


def refusal_of(outcome: Outcome) -> str:
    """What became of an action that was not done, in a line; empty: it was, or would have been."""
    if outcome.result in ("done", "observed"):
        return ""
    return brief(": ".join(filter(None, (outcome.result, outcome.reason, outcome.message))))


def brief(text: str) -> str:
    """A text on one line of at most LONGEST characters, without what cannot be printed or encoded."""
    # Most are so already, and this is asked of each a thousand times a second.
    return text if len(text) <= LONGEST and text.isprintable() else one_line(text, LONGEST)
