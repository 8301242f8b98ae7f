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
    for reason, count in sorted(decision.refusals.items(), key=lambda pair: (-pair[1], pair[0])):
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
    names = sorted({name for score in scores for name in score.parts})
    table = make_table("node", "score", *names)
    for score in scores:
        add_row(table, score.node, _number(score.total), *[_number(score.parts.get(name)) for name in names])
    return table


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def done(decision: PodDecision | MoveDecision, outcomes: Sequence[PodOutcome]) -> list[RenderableType]:
    """A row for each thing that was done, or not."""
    if not outcomes:
        untold = {"act": "nothing was done", "observe": "nothing is done: mode = observe"}[decision.mode]
        return [Text(untold, style="dim")]
    table = make_table("done", "pod", "node", "result", "answer", "took")
    for outcome in outcomes:
        answer = " ".join(filter(None, (str(outcome.code or ""), outcome.reason, outcome.message)))
        about = f"{outcome.about.namespace}/{outcome.about.name}"
        add_row(table, did(outcome), about, outcome.node, outcome.result, answer, seconds(outcome.seconds))
    return [table]


def moves(in_flight: Iterable[Underway], now: float) -> Table:
    """A row for each move in flight: of which pod, how, and how far it is."""
    table = make_table("pod", "from", "how", "step", "for", "trouble")
    for move in sorted(in_flight, key=lambda move: move.pod):
        how = {"anew": "made anew", "surge": "another first", "evicted": "evicted"}[move.how]
        how = f"{how}: {move.why}" if move.why else how
        waited = seconds(max(0.0, now - move.since))
        add_row(table, f"{move.pod.namespace}/{move.pod.name}", move.node, how, move.step, waited, move.fault)
    return table
