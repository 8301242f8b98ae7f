"""How sources fare, in words: a row for each that fits a narrow terminal, and below what each says of itself.

Knows reports of sources; knows nothing of what any kind of source does.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from elasticd.base.text import one_line
from elasticd.sources.poller import SourceReport
from elasticd.ui.decisions import add_row, make_table, seconds

_MANY = 8
_WORD = 10
"""Characters of a health that stands in its column; what is longer stands below."""


def sources(reports: Sequence[SourceReport]) -> RenderableType:
    """A row for each source of a running daemon, and then a line or two about each."""
    if not reports:
        return Text("elasticd.toml has no source")
    table = make_table("source", "health", "age", "renewed", "reads", "failed", "takes", "subjects")
    for one in reports:
        age = "-" if one.age is None else seconds(one.age)
        renewed = "-" if one.resolution is None else f"every {seconds(one.resolution)}"
        takes = f"{one.seconds * 1000:.0f} ms" if one.reads else "-"
        health = Text(_word(one.health), style="default" if one.health == "ok" else "yellow")
        add_row(table, one.name, health, age, renewed, str(one.reads), str(one.failures), takes, str(one.samples))
    return Group(table, Text(), *(line for one in reports for line in _about(one)))


def _word(health: str) -> str:
    return health if len(health) <= _WORD and health.isascii() and " " not in health else "fails"


def _about(one: SourceReport) -> Iterator[Text]:
    """Its type and series, why it fails, and what it says of itself."""
    name = one_line(one.name)
    kind = f", a source of type {one.type}" if one.type != one.name else ""
    more = f" and {len(one.series) - _MANY} more" if len(one.series) > _MANY else ""
    yield Text(one_line(f"{name}{kind}: {', '.join(one.series[:_MANY]) or 'no series yet'}{more}"))
    if _word(one.health) != one.health:
        yield Text(f"  {one_line(one.health)}", style="yellow")
    if told := _told(one.details):
        yield Text(f"  {one_line(told)}", style="dim")


def _told(details: Any) -> str:
    """What a source says of itself, however deep, as words: what is false, 0 or empty is left out."""
    if isinstance(details, dict):
        return ", ".join(_entries(details.items()))
    if isinstance(details, list | tuple):
        return ", ".join(filter(None, map(_told, details)))
    return "" if details is None else f"{details:.6g}" if isinstance(details, float) else str(details)


def _entries(entries: Iterable[tuple[Any, Any]]) -> Iterator[str]:
    for key, value in entries:
        name = str(key).replace("_", " ")
        if not value or key == "since":
            continue
        if value is True:
            yield name
        elif isinstance(value, dict | list | tuple):
            yield f"{name} ({_told(value)})"
        else:
            yield f"{name} {_told(value)}"
