"""Where commands print, a terminal or a pipe, and the tables and durations that all of them print.

Knows rich; knows nothing of what is printed.
"""

import argparse
import re
import sys
from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from elasticd.base import shapes
from elasticd.base.text import one_line

PIPE = 100_000
"""Characters: no row is longer."""


class Terminal(Console):
    """A terminal, or a pipe, where lines are as long as they are and have no colours. Square brackets and colons are
    what they are."""

    def __init__(self, file: IO[str] | None = None) -> None:
        """Print into this file; default: stdout."""
        pipe: dict[str, Any] = {} if (file or sys.stdout).isatty() else {"width": PIPE, "color_system": None}
        super().__init__(file=file, highlight=False, markup=False, emoji=False, **pipe)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, in a pipe without the spaces that fill up the rows of a table."""
        if self.is_terminal or all(isinstance(item, str | Text) for item in objects):
            super().print(*objects, **options)
            return
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write(re.sub(r" +$", "", captured.get(), flags=re.MULTILINE))

    def on_broken_pipe(self) -> None:
        """Leave it to `main`."""
        raise BrokenPipeError


def show(arguments: argparse.Namespace, record: object, *parts: RenderableType) -> int:
    """Print a record for a machine, or what says the same to a person. Returns the exit code."""
    if arguments.json:
        sys.stdout.write(f"{shapes.encode(record).decode()}\n")
        return 0
    for part in parts:
        Terminal().print(part)
    return 0


def seconds(value: float) -> str:
    """A duration as a person says it: 0.4 s, 12 s, 3 min, 5 h."""
    if value < 10:
        return f"{value:.1f} s"
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.0f} h"


def ago(at: float, now: float) -> str:
    """How long ago a time is; one that is to come is now."""
    return f"{seconds(max(0.0, now - at))} ago"


def make_table(*columns: str, rows: Iterable[Iterable[str | Text]] = ()) -> Table:
    """A table as all commands print them."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        add_row(table, *row)
    return table


def add_row(table: Table, *cells: str | Text) -> None:
    """Add a row. Names and messages come from strangers: no line break or escape of theirs reaches the terminal."""
    table.add_row(*(one_line(cell) if isinstance(cell, str) else cell for cell in cells))
