"""Placements and moves in words: what `explain pod` and `moves` print.

Knows the records and the terminal; knows nothing of where a record came from.
"""

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from elasticd.base.text import one_line
from elasticd.model.moves import MoveDecision, Underway
from elasticd.model.placement import NodeScore, PodDecision, PodOutcome
from elasticd.ui.decisions import add_row, make_table, seconds
from elasticd.ui.pod_words import did


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
        add_row(table, did(one), about, one.node, one.result, answer, seconds(one.seconds))
    return [table]


def moves(found: Iterable[Underway], now: float) -> Table:
    """A row for each move in flight: of which pod, how, and how far it is."""
    table = make_table("pod", "from", "how", "step", "for", "trouble")
    for one in sorted(found, key=lambda one: one.pod):
        how = {"anew": "made anew", "surge": "another first", "evicted": "evicted"}[one.how]
        how = f"{how}: {one.why}" if one.why else how
        waited = seconds(max(0.0, now - one.since))
        add_row(table, f"{one.pod.namespace}/{one.pod.name}", one.node, how, one.step, waited, one.fault)
    return table
