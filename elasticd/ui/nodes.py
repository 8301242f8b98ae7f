"""Prints pools: what `elasticd nodes` shows of all of them, or of one node.

Knows the reports and the terminal; knows nothing of where a report came from.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elasticd.base.text import one_line, tallied
from elasticd.model.moves import NodeLevel
from elasticd.model.reports import HeapPod, Moving, NextMove, NodeReport, NodeView, PoolReport
from elasticd.model.workload import Failure
from elasticd.ui.decisions import amount
from elasticd.ui.terminal import add_row, ago, make_table, seconds

MOST = 20
"""Rows of moves that are shown; what else stays is counted."""

_STATES = {"gives": "bold red", "high": "yellow", "unknown": "yellow", "takes": "green", "level": "default"}
_HEAPS = (
    ("never", "Of restartPolicy Never"),
    ("on_failure", "Of restartPolicy OnFailure"),
    ("always", "Of restartPolicy Always"),
)
_LEGEND = 6
"""Messages that are shown below a table of moves."""


def shown(reports: Sequence[PoolReport | NodeView], now: float) -> RenderableType:
    """Each pool, or each view of a node, one below the other, and before them what is not current."""
    lines = dict.fromkeys(line for report in reports for line in report.stale)
    parts = [_pool(report, now) if isinstance(report, PoolReport) else _view(report, now) for report in reports]
    apart = chain.from_iterable(part if place == 0 else (Text(), *part) for place, part in enumerate(parts))
    old = [Text(one_line(line), style="yellow") for line in lines]
    return Group(*old, *apart)


def _pool(pool: PoolReport, now: float) -> list[RenderableType]:
    """A pool: its nodes, and then its moves, last because the end of a long output stays in sight."""
    head = Text.assemble((f"pool {one_line(pool.pool)}", "bold"), f" ({pool.mode})")
    return [head, nodes(pool.nodes), *([Text(), *_moving("Next", pool.moving, now)] if pool.moving else [])]


def nodes(reports: Sequence[NodeReport]) -> RenderableType:
    """A row for each node: what is requested of it, what it really uses, and where it stands."""
    if not reports:
        return Text("no node has the labels that it asks for", style="yellow")
    levels = any(report.level for report in reports)
    numbers = ("pods", "cpu\nasked", "cpu\nused", "memory\nasked", "memory\nused")
    table = _tight(make_table("node", "state", *numbers, "moves" if levels else "score"), 2, 7)
    for report in reports:
        state = Text(one_line(report.state), style="default" if report.state == "ready" else "yellow")
        cells = [
            _share(amounts, report.allocatable, resource)
            for resource in ("cpu", "memory")
            for amounts in (report.requested, report.used)
        ]
        score = "-" if report.score is None else f"{report.score:+.2f}"
        last = _mark(report.level) if levels else score
        add_row(table, report.node, state, f"{report.pods}/{report.most_pods}", *cells, last)
    return table


def _tight(table: Table, first: int, end: int) -> Table:
    """The table with the columns from `first` to `end` never wrapped: in a narrow terminal only texts are."""
    for column in table.columns[first:end]:
        column.no_wrap = True
    return table


def _mark(level: NodeLevel | None) -> Text:
    if level is None:
        return Text("-")
    return Text(one_line(" ".join((level.state, ", ".join(level.resources))).strip()), style=_STATES[level.state])


def _moving(title: str, moving: Moving, now: float) -> list[RenderableType]:
    """What would move next, and why; or why nothing does."""
    last_look = f"looked {ago(moving.at, now)}" if moving.at else ""
    due = f"looks again in {seconds(max(0.0, moving.due - now))}" if moving.due else ""
    when = ", ".join(filter(None, (last_look, due)))
    head = Text.assemble((title, "bold"), (f"  {when}" if when else "", "dim"))
    parts: list[RenderableType] = [head, Text(one_line(moving.summary))]
    parts += map(_failure, moving.failures)
    if moving.moves:
        parts += _moves(moving.moves[:MOST])
    if hidden := moving.moves[MOST:]:
        counts = Counter(move.held[0] or "moving" for move in hidden)
        parts.append(Text(f"and {len(hidden)} more: {tallied(counts)}; --json has them all", style="dim"))
    return parts


def _failure(failure: Failure) -> Text:
    return Text(one_line(f"plugin {failure.plugin}: {failure.hook} {failure.message}"), style="yellow")


def _moves(moves: Iterable[NextMove]) -> Iterator[RenderableType]:
    """A row for each move, and below the table what the reasons mean, once for all moves that share one."""
    table, legend = make_table("pod", "from", "to", "why"), dict[tuple[str, str], None]()
    for move in moves:
        decision, (word, why) = move.decision, move.held
        to, progress = Text("stays", style="yellow"), ""
        if not word:
            nowhere = "(waits)" if decision.how == "release" else "(ends)"
            gone = decision.target or ("on the way" if move.begun else nowhere)
            to = Text(one_line(gone), style="bold green")
            # Of a pod that is leaving, the plan says why it is not evicted again.
            why = "" if decision.verdict == "refuse" else decision.message
            word = f"{decision.reason} ({decision.strategy})"
            progress = _progress(move)
        add_row(table, decision.pod.full_name, decision.node, to, word + progress)
        if why:
            legend[word, why] = None
    yield table
    yield from (Text(one_line(f"{word}: {why}"), style="dim") for word, why in islice(legend, _LEGEND))


def _progress(move: NextMove) -> str:
    if move.underway is not None:
        how = "another is made first" if move.awaited else move.underway.how
        return f"; {'another was made first' if move.underway.ends else how}: {move.underway.step}"
    if move.begun:
        return "; it is leaving"
    return f"; {move.outcome.message}" if move.outcome and move.outcome.message else ""


def _view(view: NodeView, now: float) -> list[RenderableType]:
    node = view.node
    where = one_line(f"pool {node.pool} ({view.mode}), {node.state}, {node.pods} of {node.most_pods} pods")
    parts: list[RenderableType] = [Text.assemble((one_line(node.node), "bold"), "  ", where)]
    if node.level is not None:
        level = Text.assemble(_mark(node.level), one_line(f": {node.level.message}" if node.level.message else ""))
        parts.append(level)
    parts += [_load(node)]
    parts += [Text(one_line(f"taint {taint}"), style="yellow") for taint in view.taints]
    parts += [Text(one_line(f"label {key}={value}"), style="dim") for key, value in view.labels.items()]
    parts += [Text(), _eviction_rule(view), *map(_failure, view.failures)]
    for heap, title in _HEAPS:
        parts += _heap(title, getattr(view, heap), view)
    parts += _legend(view)
    if view.leaving:
        parts += [Text(), Text("On their way", style="bold"), _reason_table(view.leaving)]
    if view.rooted:
        parts += [Text(), Text("Never preempted or moved", style="bold"), _reason_table(view.rooted)]
    return [*parts, *([Text(), *_moving("Next in its pool", view.moving, now)] if view.moving else [])]


def _load(node: NodeReport) -> Table:
    table = make_table("", "has", "asked", "", "used", "")
    for resource in ("cpu", "memory"):
        columns = (node.allocatable, node.requested, node.used)
        has, requested, used = (_amount(resource, amounts.get(resource)) for amounts in columns)
        shares = [_share(amounts, node.allocatable, resource) for amounts in (node.requested, node.used)]
        add_row(table, resource, has, requested, shares[0], used, shares[1] if resource in node.used else "")
    return table


def _eviction_rule(view: NodeView) -> Text:
    if view.yields:
        return Text(one_line(f"Pods are preempted {view.rule}".strip()))
    moved = "" if view.moving else ", nor is anybody moved: none of its strategies makes pods leave"
    return Text(f"No pod is preempted in this pool{moved}", style="dim")


def _heap(title: str, pods: Sequence[HeapPod], view: NodeView) -> list[RenderableType]:
    """A table of one group of pods, the first to be preempted first."""
    if not pods:
        return [Text(), Text.assemble((title, "bold"), (", nobody", "dim"))]
    columns = [*(["victim\nno."] if view.yields else []), *(["moved\nnow?"] if view.moving else [])]
    table = _tight(make_table("pod", "priority", "memory\nasked", "cpu\nused", "memory\nused", *columns), 1, 5)
    for pod in pods:
        requested = _amount("memory", pod.requested.get("memory", 0.0))
        used = [_amount(resource, pod.used.get(resource)) for resource in ("cpu", "memory")]
        turn = str(pod.turn) if pod.turn else Text(one_line(pod.spared or "unknown"), style="yellow")
        stays = Text(one_line(pod.stays), style="yellow") if pod.stays else Text("may be", style="dim")
        cells = [*([turn] if view.yields else []), *([stays] if view.moving else [])]
        add_row(table, f"{pod.namespace}/{pod.name}", str(pod.priority), requested, *used, *cells)
    return [Text(), Text(title, style="bold"), table]


def _legend(view: NodeView) -> Iterator[Text]:
    pods = [pod for heap, _ in _HEAPS for pod in getattr(view, heap)]
    spared = (f"{pod.spared}: {pod.spared_why}" for pod in pods if pod.spared and view.yields)
    lines = dict.fromkeys((*spared, *(f"{pod.stays}: {pod.why}" for pod in pods if pod.stays and view.moving)))
    yield from ((Text(), *[Text(one_line(line), style="dim") for line in lines]) if lines else ())


def _reason_table(pods: Iterable[HeapPod]) -> Table:
    rows = ((f"{pod.namespace}/{pod.name}", f"{pod.stays}: {pod.why}") for pod in pods)
    return make_table("pod", "why", rows=rows)


def _amount(resource: str, value: float | None) -> str:
    return "unknown" if value is None else amount(resource, value)


def _share(amounts: Mapping[str, float], allocatable: Mapping[str, float], resource: str) -> str:
    """A share of a node in percent; unknown where either amount is."""
    if resource not in amounts or not allocatable.get(resource):
        return "unknown"
    return f"{100 * amounts[resource] / allocatable[resource]:.0f} %"
