"""One row of a recording: its columns, and what must hold of each.

Knows what a time, a subject and a key look like; knows nothing of how files are read or of what is done with rows.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from elasticd.base.errors import ConfigError, nearest
from elasticd.base.text import shown
from elasticd.base.units import parse_time

Row = tuple[int, float, str, str, str, float, float, str]
"""The row's line in the file, time, series, subject, key, value, window and container."""

NEEDED = ("time", "series", "subject", "key", "value")
COLUMNS = (*NEEDED, "window", "container")
"""Other columns must begin with an underscore, and are ignored."""

SHAPES = {"pod": ("NAMESPACE/NAME", 2), "workload": ("NAMESPACE/KIND/NAME", 3), "node": ("NAME", 1)}
"""The form of each subject's key, and its number of parts."""

PARQUET = ".parquet"

Where = tuple[Path, int]
"""A file and a line of it; of a Parquet file, a row, or 0 for its schema."""


def wrong(where: Where, problem: str) -> ConfigError:
    """The error for a line; of a Parquet file, for its schema or a row."""
    path, line = where
    if path.suffix.lower() != PARQUET:
        return ConfigError(str(path), f"line {line}", problem)
    return ConfigError(str(path), f"row {line}" if line else "schema", problem)


def check_columns(where: Where, names: Sequence[str]) -> None:
    """Refuse columns that are unknown, given twice or missing."""
    for index, name in enumerate(names):
        if name in names[:index]:
            raise wrong(where, f"{shown(name)}: must be given once, is given twice")
        if name not in COLUMNS and not name.startswith("_"):
            raise wrong(where, f"{shown(name)}: no such column{nearest(name[:60], COLUMNS)}")
    check_needed(where, names, NEEDED)


def check_needed(where: Where, names: Sequence[str], needed: Sequence[str]) -> None:
    """Refuse a table without one of the columns that it needs."""
    for name in needed:
        if name not in names:
            raise wrong(where, f"{name}: must be given, is missing")


def check_place(where: Where, series: str, subject: str, key: str) -> None:
    """Refuse a row without a series, or with a malformed subject or key."""
    if not series:
        raise wrong(where, "series: must not be empty")
    if subject not in SHAPES:
        problem = f"must be one of {', '.join(SHAPES)}, is {shown(subject)}{nearest(subject[:60], SHAPES)}"
        raise wrong(where, f"subject: {problem}")
    shape, parts = SHAPES[subject]
    pieces = key.split("/")
    if len(pieces) != parts or not all(pieces):
        raise wrong(where, f"key: must be {shape} for a {subject}, is {shown(key)}")


def row_of(where: Where, cells: Iterable[Any]) -> Row:
    """The row of a line with these cells, in the order of COLUMNS. Refuses a time, value or window that is none."""
    time, series, subject, key, value, window, container = cells
    seconds, number = to_time(where, time), to_value(where, value)
    return where[1], seconds, series, subject, key, number, _to_window(where, window), container


def to_time(where: Where, value: float | str | None) -> float:
    """Seconds since the epoch."""
    try:
        time = math.nan if value is None else float(value)
    except ValueError:
        time = parse_time(str(value))
    if not math.isfinite(time):
        problem = "must be seconds since the epoch, or RFC 3339 with its offset from UTC"
        raise wrong(where, f"time: {problem}, is {shown(value)}")
    return time


def to_value(where: Where, value: float | str | None) -> float:
    """Any number. NaN and infinities stay as they are; nothing at all is NaN, for it is not zero."""
    if value is None or value == "":
        return math.nan
    try:
        return float(value)
    except ValueError:
        raise wrong(where, f"value: must be a number, is {shown(value)}") from None


def _to_window(where: Where, value: float | str | None) -> float:
    """Seconds; nothing is an instant."""
    try:
        window = float(value or 0.0)
    except ValueError:
        window = math.nan
    if not 0.0 <= window < math.inf:
        raise wrong(where, f"window: must be seconds, >= 0, is {shown(value)}")
    return window
