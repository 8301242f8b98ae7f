"""What an autoscaler did with a workload, and what elasticd would have done, from the journal of a policy in shadow.

A policy is in shadow while it only observes, or yields to an autoscaler. Its count is the recommendation within what
delays it (stabilization, cooldowns) and the policy's bounds. Rates are left out: they count from the present count, and
that is the other's. Pure. Knows the journal's records; knows nothing of how they are shown.
"""

from collections.abc import Iterable, Mapping
from math import inf, isfinite
from typing import NamedTuple

from msgspec import Struct

from elasticd.decision.basis import Remade, folded
from elasticd.journal.lines import Record
from elasticd.kit.handover import AUTOSCALER, FENCED, UNREAD
from elasticd.model.records import FOREIGN_OWNER, Basis, Decision
from elasticd.model.workload import Observation, Ref

LONGEST = 300.0
"""Seconds for which a decision stands, at most: after them it is not known what was."""

_VETOES = frozenset({"freeze", "owner", AUTOSCALER, "surge", FENCED})
"""Names of what holds a count whatever the policy wants."""

_NEEDED = frozenset({"workload", "fault", "autoscaler", "nodes", "rooms"})
"""Parts without which it is not known what a decision saw."""

_HOUR = 3600.0


class Comparison(Struct, kw_only=True):
    """A workload under one policy, and its autoscaler. Replica-hours, theirs and ours; demand, and what of it the
    requests of so many pods do not cover, in core-hours; `seconds` for which the counts are known, and
    `demand_seconds` for which the demand is known too. `changes`: how often each count changed."""

    workload: Ref
    policy: str
    beside: str = ""
    since: float = 0.0
    until: float = 0.0
    seconds: float = 0.0
    theirs: float = 0.0
    ours: float = 0.0
    their_changes: int = 0
    our_changes: int = 0
    demand_seconds: float = 0.0
    demand: float = 0.0
    their_unserved: float = 0.0
    our_unserved: float = 0.0

    def add(self, moment: "_Moment", seconds: float) -> None:
        """Count a moment for so long."""
        hours = seconds / _HOUR
        self.seconds += seconds
        self.theirs += moment.current * hours
        self.ours += moment.would_be * hours
        if moment.demand is None or not moment.each:
            return
        self.demand_seconds += seconds
        self.demand += moment.demand * hours
        self.their_unserved += max(0.0, moment.demand - moment.current * moment.each) * hours
        self.our_unserved += max(0.0, moment.demand - moment.would_be * moment.each) * hours


class _Moment(NamedTuple):
    """One decision: the count, and what it would be; the demand and what a pod requests, in cores (None: not known)."""

    at: float
    current: int
    would_be: int
    demand: float | None
    each: float | None


_Key = tuple[str, Ref]


def compared(records: Iterable[Record], begin: float = -inf, wanted: str = "") -> list[Comparison]:
    """The workloads that policies in shadow have decided about since a time, by name; `wanted`: NAMESPACE/KIND/NAME of
    one alone."""
    parts: dict[_Key, dict[str, bytes]] = {}
    comparisons: dict[_Key, Comparison] = {}
    moments: dict[_Key, _Moment] = {}
    for record in records:
        if isinstance(record, Basis) and record.workload is not None:
            key = record.policy, record.workload
            parts[key] = folded(parts.get(key, {}), record)
        elif isinstance(record, Decision) and wanted in ("", str(record.workload)) and record.at >= begin:
            key = record.policy, record.workload
            _take(record, parts.get(key, {}), key, comparisons, moments)
    return [comparisons[key] for key in sorted(comparisons, key=lambda key: (str(key[1]), key[0]))]


def _take(
    decision: Decision,
    parts: Mapping[str, bytes],
    key: _Key,
    comparisons: dict[_Key, Comparison],
    moments: dict[_Key, _Moment],
) -> None:
    """Count the last moment until this decision, and begin the next one, if the policy is in shadow."""
    last = moments.pop(key, None)
    if last is not None:
        comparisons[key].add(last, min(decision.at - last.at, LONGEST))
        comparisons[key].until = decision.at
    if not _is_in_shadow(decision) or decision.confirmed is None:
        return
    known = parts.keys() >= _NEEDED
    observation = Remade(decision, parts, {}).observation() if known else None
    comparison = comparisons.setdefault(
        key, Comparison(workload=decision.workload, policy=decision.policy, since=decision.at, until=decision.at)
    )
    if observation and observation.autoscaler not in ("", UNREAD):
        comparison.beside = observation.autoscaler
    moment = _moment(decision, observation, last)
    if last is not None:
        comparison.their_changes += moment.current != last.current
        comparison.our_changes += moment.would_be != last.would_be
    moments[key] = moment


def _is_in_shadow(decision: Decision) -> bool:
    return decision.mode == "observe" or any(limit.reason == FOREIGN_OWNER for limit in decision.limits)


def _moment(decision: Decision, observation: Observation | None, last: _Moment | None) -> _Moment:
    """The moment of a decision. Where it is not known what is needed, our count stays."""
    would_be = _would_be(decision, decision.current if last is None else last.would_be)
    demand = each = None
    if observation is not None:
        series = observation.series.get("cpu")
        samples = [sample.value for sample in series.samples if sample.pod] if series and series.usable else []
        requests = [pod.requested().get("cpu", 0.0) for pod in observation.pods]
        demand = sum(samples) if samples and isfinite(sum(samples)) else None
        each = sum(requests) / len(requests) if requests else None
    each = each or (None if last is None else last.each)
    return _Moment(decision.at, decision.current, would_be, demand, each)


def _would_be(decision: Decision, before: int) -> int:
    """Where the policy would go, if nobody else did."""
    count = decision.asked
    if count is None:
        return decision.replicas if decision.verdict == "scale" else before
    for limit in decision.limits:
        delays = limit.condition == "AbleToScale" and limit.name.partition("#")[0] not in _VETOES
        if delays or limit.name == "bounds":
            count = limit.clamp(count)
    return count
