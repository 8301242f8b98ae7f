"""What `elasticd replay` prints: how many decisions came out how, and those that came out otherwise.

Knows the terminal; knows nothing of how decisions are made again.
"""

from collections.abc import Iterable, Iterator

from rich.console import Console, RenderableType
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from elasticd.base.shapes import moment
from elasticd.base.text import counted, one_line
from elasticd.journal import Record
from elasticd.lab.replay.again import Difference, Summary
from elasticd.model.policy import Policy
from elasticd.model.records import Decision
from elasticd.ui.terminal import make_table, seconds

SHOWN = 20
"""Differences that are shown, unless all are asked for."""


def replayed(found: Summary, instead: Policy | None, *, everything: bool) -> Iterator[RenderableType]:
    """How many decisions came out how, and a row for those in a row that came out otherwise in the same way."""
    times = f"{moment(found.begin)} to {moment(found.end)}"
    head = f"{counted(found.decisions, 'decision')} about {counted(len(found.workloads), 'workload')}, {times}"
    yield Text(head, style="bold")
    by = "" if instead is None else f" by {instead.name}"
    came = {
        "same": f"came out the same{by}",
        "otherwise": f"came out otherwise{by}",
        "not asked": "asked no strategy: the workload was not there, or could not be judged",
    }
    for how, text in came.items():
        if found.came.get(how, 0) or how == "otherwise":
            yield Text(f"{found.came.get(how, 0):>8} {text}")
    for why, times_seen in sorted(found.why.items()):
        yield Text(f"{times_seen:>8} are not known: {one_line(why)}", style="yellow")
    shown = found.differences if everything else found.differences[:SHOWN]
    if shown:
        yield Text()
        yield make_table("at", "for", "workload", "policy", "was", "again", "why", rows=map(_difference, shown))
    if len(shown) < len(found.differences):
        yield Text(f"and {len(found.differences) - len(shown)} more: --all shows them")


def _difference(difference: Difference) -> list[str]:
    first = difference.first
    decision, made = first.decision, first.made
    lasts = f"{seconds(difference.until - decision.at)}, {difference.decisions} x" if difference.decisions > 1 else "-"
    why = "" if made is None else one_line(": ".join(filter(None, (made.reason, made.message))))
    return [
        moment(decision.at) or "-",
        lasts,
        str(decision.workload),
        decision.policy,
        _change(decision),
        _change(made),
        why,
    ]


def _change(decision: Decision | None) -> str:
    if decision is None:
        return "-"
    return f"{decision.verdict} {decision.current} -> {decision.replicas}"


def with_count(records: Iterable[Record]) -> Iterator[Record]:
    """The same records, which are counted on a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.completed:.0f} records"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(records)
