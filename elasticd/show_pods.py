"""Placements and nodes in words: what `explain pod` and `nodes` print.

Knows the records and the terminal; knows nothing of where a record came from.
"""

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from elasticd.moves import MoveDecision, Underway
from elasticd.placements import NodeReport, NodeScore, PodDecision, PodOutcome
from elasticd.pod_words import DID
from elasticd.show import add_row, make_table, seconds
from elasticd.words import one_line


def placing(
    decision: PodDecision, outcomes: Sequence[PodOutcome], head: Text, *, current: bool = True
) -> list[RenderableType]:
    """Everything a decision about a pod was made of, in the order it was made, and what came of it. What would have to
    change is told as long as that is `current`."""
    parts: list[RenderableType] = [head, Text()]
    fits = decision.nodes - sum(decision.refusals.values())
    parts.append(Text(f"Nodes: {decision.nodes} in the pool, {max(0, fits)} not refused", style="bold"))
    refused = make_table("refused", "why")
    for reason, count in sorted(decision.refusals.items(), key=lambda one: (-one[1], one[0])):
        add_row(refused, str(count), reason)
    parts += [refused] if refused.row_count else []
    if decision.binding:
        parts += [Text(), Text("Bound to nodes with", style="bold"), Text(f"  {one_line(decision.binding)}")]
    if decision.scores:
        parts += [Text(), Text("Scores, the best nodes", style="bold"), _scores(decision.scores)]
    for failure in decision.failures:
        parts.append(Text(one_line(f"plugin {failure.plugin}: {failure.hook} {failure.message}"), style="yellow"))
    if decision.mend and current:
        parts += [Text(), Text("What would have to change", style="bold"), Text(f"  {one_line(decision.mend)}")]
    return [*parts, Text(), *done(decision, outcomes)]


def _scores(scores: Iterable[NodeScore]) -> Table:
    scores = tuple(scores)
    names = sorted({name for one in scores for name in one.parts})
    table = make_table("node", "score", *names)
    for one in scores:
        add_row(table, one.node, _number(one.total), *[_number(one.parts.get(name)) for name in names])
    return table


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def done(decision: PodDecision | MoveDecision, outcomes: Sequence[PodOutcome]) -> list[RenderableType]:
    """A row for each thing that was done, or not."""
    if not outcomes:
        untold = {"act": "nothing was done", "observe": "nothing is done: mode = observe"}[decision.mode]
        return [Text(untold, style="dim")]
    table = make_table("done", "pod", "node", "result", "answer", "took")
    for one in outcomes:
        answer = " ".join(filter(None, (str(one.code or ""), one.reason, one.message)))
        about = f"{one.about.namespace}/{one.about.name}"
        add_row(table, DID[one.action], about, one.node, one.result, answer, seconds(one.seconds))
    return [table]


def nodes(reports: Iterable[NodeReport]) -> Table:
    """A row for each node of a pool, the most loaded first: what is requested of it, and what it really uses."""
    table = make_table("pool", "node", "state", "pods", "cpu asked", "cpu used", "memory asked", "memory used", "score")
    for one in sorted(reports, key=lambda one: (one.pool, -one.load, one.node)):
        state = Text(one_line(one.state), style="default" if one.state == "ready" else "yellow")
        cells = [_share(one.requested, one.allocatable, "cpu"), _share(one.used, one.allocatable, "cpu")]
        cells += [_share(one.requested, one.allocatable, "memory"), _share(one.used, one.allocatable, "memory")]
        score = "-" if one.score is None else f"{one.score:+.2f}"
        add_row(table, one.pool, one.node, state, f"{one.pods}/{one.most_pods}", *cells, score)
    return table


def moves(found: Iterable[Underway], now: float) -> Table:
    """A row for each move in flight: of which pod, how, and how far it is."""
    table = make_table("pod", "from", "how", "step", "for", "trouble")
    for one in sorted(found, key=lambda one: one.pod):
        how = {"anew": "made anew", "surge": "another first"}[one.how]
        waited = seconds(max(0.0, now - one.since))
        add_row(table, f"{one.pod.namespace}/{one.pod.name}", one.node, how, one.step, waited, one.fault)
    return table


def _share(amounts: dict[str, float], whole: dict[str, float], resource: str) -> str:
    """A part of a node, in hundredths; what is not known is no 0."""
    if resource not in amounts or not whole.get(resource):
        return "unknown"
    return f"{100 * amounts[resource] / whole[resource]:.0f} %"
