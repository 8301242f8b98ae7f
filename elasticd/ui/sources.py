"""Prints the state of sources: a row for each that fits a narrow terminal, and details below.

Knows reports of sources; knows nothing of what any kind of source does.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from elasticd.base.text import one_line
from elasticd.sources.poller import SourceReport
from elasticd.ui.terminal import add_row, make_table, seconds

_MANY = 8
_WORD = 10
"""Characters of a health that stands in its column; what is longer stands below."""


def sources(reports: Sequence[SourceReport]) -> RenderableType:
    """A row for each source of a running daemon, and then a line or two about each."""
    if not reports:
        return Text("elasticd.toml has no source")
    table = make_table("source", "health", "age", "renewed", "reads", "failed", "takes", "subjects")
    for report in reports:
        age = "-" if report.age is None else seconds(report.age)
        renewed = "-" if report.resolution is None else f"every {seconds(report.resolution)}"
        takes = f"{report.seconds * 1000:.0f} ms" if report.reads else "-"
        health = Text(_word(report), style="default" if report.health == "ok" else "yellow")
        reads = str(report.reads), str(report.failures), takes
        add_row(table, report.name, health, age, renewed, *reads, str(report.samples))
    return Group(table, Text(), *(line for report in reports for line in _about(report)))


def _word(report: SourceReport) -> str:
    health = report.health
    if report.quiet:  # as unread on a daemon that waits to lead
        return report.quiet
    return health if len(health) <= _WORD and health.isascii() and " " not in health else "fails"


def _about(report: SourceReport) -> Iterator[Text]:
    """Its type and series, why it fails, and what it says of itself."""
    name = one_line(report.name)
    kind = f", a source of type {report.type}" if report.type != report.name else ""
    hidden = f" and {len(report.series) - _MANY} more" if len(report.series) > _MANY else ""
    yield Text(one_line(f"{name}{kind}: {', '.join(report.series[:_MANY]) or 'no series yet'}{hidden}"))
    if report.health not in ("ok", _word(report)):
        yield Text(f"  {one_line(report.health)}", style="yellow")
    if details := _in_words(report.details):
        yield Text(f"  {one_line(details)}", style="dim")


def _in_words(details: Any) -> str:
    """A source's nested details as one line. What is false, 0 or empty is left out."""
    if isinstance(details, dict):
        return ", ".join(_entries(details.items()))
    if isinstance(details, list | tuple):
        return ", ".join(filter(None, map(_in_words, details)))
    return "" if details is None else f"{details:.6g}" if isinstance(details, float) else str(details)


def _entries(entries: Iterable[tuple[Any, Any]]) -> Iterator[str]:
    for key, value in entries:
        name = str(key).replace("_", " ")
        if not value or key == "since":
            continue
        if value is True:
            yield name
        elif isinstance(value, dict | list | tuple):
            yield f"{name} ({_in_words(value)})"
        else:
            yield f"{name} {_in_words(value)}"
