"""Pools in words: what `nodes` prints of all of them, or of one node.

Knows the reports and the terminal; knows nothing of where a report came from.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elasticd.base.text import one_line
from elasticd.model.moves import NodeLevel
from elasticd.model.reports import HeapPod, Moving, NextMove, NodeReport, NodeView, PoolReport
from elasticd.runtime.pools.next_moves import held, words
from elasticd.ui.decisions import add_row, amount, make_table, seconds

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


def shown(found: Sequence[PoolReport | NodeView], now: float) -> RenderableType:
    """Each pool, or each view of a node, one below the other."""
    parts = [_pool(one, now) if isinstance(one, PoolReport) else _view(one, now) for one in found]
    return Group(*chain.from_iterable(part if place == 0 else (Text(), *part) for place, part in enumerate(parts)))


def _pool(one: PoolReport, now: float) -> list[RenderableType]:
    """Its nodes, and then what would move, which is what is seen of a long list."""
    head = Text.assemble((f"pool {one_line(one.pool)}", "bold"), f" ({one.mode})")
    return [head, nodes(one.nodes), *([Text(), *_moving("Next", one.moving, now)] if one.moving else [])]


def nodes(reports: Sequence[NodeReport]) -> RenderableType:
    """A row for each node: what is requested of it, what it really uses, and where it stands."""
    if not reports:
        return Text("no node has the labels that it asks for", style="yellow")
    levels = any(one.level for one in reports)
    numbers = ("pods", "cpu\nasked", "cpu\nused", "memory\nasked", "memory\nused")
    table = _tight(make_table("node", "state", *numbers, "moves" if levels else "score"), 2, 7)
    for one in reports:
        state = Text(one_line(one.state), style="default" if one.state == "ready" else "yellow")
        cells = [_share(one.requested, one.allocatable, "cpu"), _share(one.used, one.allocatable, "cpu")]
        cells += [_share(one.requested, one.allocatable, "memory"), _share(one.used, one.allocatable, "memory")]
        score = "-" if one.score is None else f"{one.score:+.2f}"
        add_row(table, one.node, state, f"{one.pods}/{one.most_pods}", *cells, _mark(one.level) if levels else score)
    return table


def _tight(table: Table, first: int, end: int) -> Table:
    """The same with columns that are never wrapped: only names and words are, where the terminal is narrow."""
    for column in table.columns[first:end]:
        column.no_wrap = True
    return table


def _mark(level: NodeLevel | None) -> Text:
    if level is None:
        return Text("-")
    return Text(one_line(" ".join((level.state, ", ".join(level.resources))).strip()), style=_STATES[level.state])


def _moving(title: str, found: Moving, now: float) -> list[RenderableType]:
    """What would move next, and why; or why nothing does."""
    looked = f"looked {seconds(max(0.0, now - found.at))} ago" if found.at else ""
    due = f"looks again in {seconds(max(0.0, found.due - now))}" if found.due else ""
    when = ", ".join(filter(None, (looked, due)))
    head = Text.assemble((title, "bold"), (f"  {when}" if when else "", "dim"))
    parts: list[RenderableType] = [head, Text(one_line(found.summary))]
    parts += [_failure(one.plugin, one.hook, one.message) for one in found.failures]
    if found.moves:
        parts += _moves(found.moves[:MOST])
    if rest := found.moves[MOST:]:
        counts = Counter(held(one)[0] or "moving" for one in rest)
        parts.append(Text(f"and {len(rest)} more: {words(counts)}; --json has them all", style="dim"))
    return parts


def _failure(plugin: str, hook: str, message: str) -> Text:
    return Text(one_line(f"plugin {plugin}: {hook} {message}"), style="yellow")


def _moves(moves: Iterable[NextMove]) -> Iterator[RenderableType]:
    """A row for each, and below what their words mean, for many say the same."""
    table, legend = make_table("pod", "from", "to", "why"), dict[tuple[str, str], None]()
    for one in moves:
        decision, (word, why) = one.decision, held(one)
        to, told = Text("stays", style="yellow"), ""
        if not word:
            nowhere = "(waits)" if decision.how == "release" else "(ends)"
            gone = decision.target or ("on the way" if one.begun else nowhere)
            to = Text(one_line(gone), style="bold green")
            # Of one that is leaving the plan says why it is not told to go again.
            why = "" if decision.verdict == "refuse" else decision.message
            word = f"{decision.reason} ({decision.strategy})"
            told = _far(one)
        add_row(table, f"{decision.pod.namespace}/{decision.pod.name}", decision.node, to, word + told)
        if why:
            legend[word, why] = None
    yield table
    yield from (Text(one_line(f"{word}: {why}"), style="dim") for word, why in islice(legend, _LEGEND))


def _far(one: NextMove) -> str:
    """How far a move is that nothing keeps."""
    if one.underway is not None:
        how = "another is made first" if one.awaited else one.underway.how
        return f"; {'another was made first' if one.underway.ends else how}: {one.underway.step}"
    if one.begun:
        return "; it is leaving"
    return f"; {one.outcome.message}" if one.outcome and one.outcome.message else ""


def _view(one: NodeView, now: float) -> list[RenderableType]:
    """A node: its load, where it stands, who would give way, and which of its moves are next."""
    node = one.node
    where = one_line(f"pool {node.pool} ({one.mode}), {node.state}, {node.pods} of {node.most_pods} pods")
    parts: list[RenderableType] = [Text.assemble((one_line(node.node), "bold"), "  ", where)]
    if node.level is not None:
        said = Text.assemble(_mark(node.level), one_line(f": {node.level.message}" if node.level.message else ""))
        parts.append(said)
    parts += [_load(node)]
    parts += [Text(one_line(f"taint {taint}"), style="yellow") for taint in one.taints]
    parts += [Text(one_line(f"label {key}={value}"), style="dim") for key, value in one.labels.items()]
    parts += [Text(), _who(one), *[_failure(failed.plugin, failed.hook, failed.message) for failed in one.failures]]
    for heap, title in _HEAPS:
        parts += _heap(title, getattr(one, heap), one)
    parts += _legend(one)
    if one.leaving:
        parts += [Text(), Text("On their way", style="bold"), _rooted(one.leaving)]
    if one.rooted:
        parts += [Text(), Text("Never give way, nor are moved", style="bold"), _rooted(one.rooted)]
    return [*parts, *([Text(), *_moving("Next in its pool", one.moving, now)] if one.moving else [])]


def _load(node: NodeReport) -> Table:
    table = make_table("", "has", "asked", "", "used", "")
    for resource in ("cpu", "memory"):
        asked, used, whole = (amounts.get(resource) for amounts in (node.requested, node.used, node.allocatable))
        shares = [_share(amounts, node.allocatable, resource) for amounts in (node.requested, node.used)]
        amounts = [_amount(resource, value) for value in (whole, asked, used)]
        add_row(table, resource, amounts[0], amounts[1], shares[0], amounts[2], "" if used is None else shares[1])
    return table


def _who(one: NodeView) -> Text:
    """To whom pods give way, and whether they are moved."""
    if one.yields:
        return Text(one_line(f"Pods give way {one.rule}".strip()))
    moved = "" if one.moving else ", nor is anybody moved: none of its strategies makes pods leave"
    return Text(f"Nobody gives way in this pool{moved}", style="dim")


def _heap(title: str, pods: Sequence[HeapPod], view: NodeView) -> list[RenderableType]:
    """The first to give way first."""
    if not pods:
        return [Text(), Text.assemble((title, "bold"), (", nobody", "dim"))]
    more = [*(["gives\nway"] if view.yields else []), *(["moved\nnow?"] if view.moving else [])]
    table = _tight(make_table("pod", "priority", "memory\nasked", "cpu\nused", "memory\nused", *more), 1, 5)
    for one in pods:
        asked = _amount("memory", one.requested.get("memory", 0.0))
        used = [_amount(resource, one.used.get(resource)) for resource in ("cpu", "memory")]
        turn = str(one.turn) if one.turn else Text(one_line(one.spared or "unknown"), style="yellow")
        stays = Text(one_line(one.stays), style="yellow") if one.stays else Text("may be", style="dim")
        said = [*([turn] if view.yields else []), *([stays] if view.moving else [])]
        add_row(table, f"{one.namespace}/{one.name}", str(one.priority), asked, *used, *said)
    return [Text(), Text(title, style="bold"), table]


def _legend(view: NodeView) -> Iterator[Text]:
    """What the words mean that keep pods where they are."""
    pods = [pod for heap, _ in _HEAPS for pod in getattr(view, heap)]
    spared = (f"{one.spared}: {one.spared_why}" for one in pods if one.spared and view.yields)
    said = dict.fromkeys((*spared, *(f"{one.stays}: {one.why}" for one in pods if one.stays and view.moving)))
    yield from ((Text(), *[Text(one_line(line), style="dim") for line in said]) if said else ())


def _rooted(pods: Iterable[HeapPod]) -> Table:
    table = make_table("pod", "why")
    for one in pods:
        add_row(table, f"{one.namespace}/{one.name}", f"{one.stays}: {one.why}")
    return table


def _amount(resource: str, value: float | None) -> str:
    return "unknown" if value is None else amount(resource, value)


def _share(amounts: Mapping[str, float], whole: Mapping[str, float], resource: str) -> str:
    """A part of a node, in hundredths; what is not known is no 0."""
    if resource not in amounts or not whole.get(resource):
        return "unknown"
    return f"{100 * amounts[resource] / whole[resource]:.0f} %"
