"""The files of recordings, CSV, JSON lines and Parquet: their rows, and what must hold of each.

Knows how text and Arrow's columns become rows, and in which line what is wrong; knows nothing of what rows are for.
Parquet is read by pyarrow, which comes with elasticd[parquet]. It is imported when such a file is read: it takes 40 ms
and 50 MB.
"""

import csv
import importlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from elasticd.base.decode import convert
from elasticd.base.errors import UNREADABLE, ConfigError, nearest
from elasticd.base.files import linked
from elasticd.base.text import one_line, shown
from elasticd.base.units import parse_time

Row = tuple[int, float, str, str, str, float, float, str]
"""The row's line in the file, time, series, subject, key, value, window and container."""

NEEDED = ("time", "series", "subject", "key", "value")
COLUMNS = (*NEEDED, "window", "container")
"""Other columns must begin with an underscore, and are ignored."""

SHAPES = {"pod": ("NAMESPACE/NAME", 2), "workload": ("NAMESPACE/KIND/NAME", 3), "node": ("NAME", 1)}
"""The form of each subject's key, and its number of parts."""

PARQUET = ".parquet"
_PARTS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_TEXT = ("string", "large_string", "string_view", "dictionary<values=string", "dictionary<values=large_string")
_NUMBER = ("int", "uint", "halffloat", "float", "double", "decimal")

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


def unreadable(path: Path, kind: str, problem: Exception) -> ConfigError:
    """The error for a file that is not what its ending says."""
    reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    return ConfigError(str(path), "", f"must be a readable {kind} file, is not: {one_line(reason)}")


def csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line of a CSV file, and its number; the header, if only an empty one, is the first."""
    try:
        with open(path, encoding="utf-8-sig", newline="", opener=linked) as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            yield 1, header
            for cells in reader:
                if len(cells) == len(header):
                    yield reader.line_num, cells
                elif cells:
                    problem = f"must have {len(header)} cells as the header has, has {len(cells)}"
                    raise wrong((path, reader.line_num), problem)
            if _is_cut(path):
                raise wrong((path, reader.line_num), "must end with a line end, does not: it may be cut off")
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise unreadable(path, "CSV", problem) from None


def _is_cut(path: Path) -> bool:
    """Whether the last line has no end: its last number may lack digits without looking wrong."""
    with open(path, "rb", opener=linked) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read() not in (b"\n", b"\r", b"")


def read_csv(path: Path) -> Iterator[Row]:
    """The rows of a CSV file with a header, in any order of columns."""
    lines = csv_lines(path)
    _, header = next(lines)
    check_columns((path, 1), header)
    pick = itemgetter(*[header.index(name) if name in header else len(header) for name in COLUMNS])
    for line, cells in lines:
        cells.append("")  # that of a column that is not there
        yield row_of((path, line), pick(cells))


class _Line(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A line, in the order of COLUMNS. JSON has no NaN and no infinity: null is NaN, both may be written as text."""

    time: float | str
    series: str
    subject: str
    key: str
    value: float | str | None
    window: float | str | None = 0.0
    container: str = ""


def read_json_lines(path: Path) -> Iterator[Row]:
    """The rows of a file with a JSON object in each line. Empty lines are none."""
    decoder = msgspec.json.Decoder(_Line)
    try:
        with open(path, "rb", opener=linked) as file:
            for line, text in enumerate(file, 1):
                try:
                    row = decoder.decode(text)
                except UNREADABLE:
                    if not text.strip():
                        continue
                    row = _repair((path, line), text)
                yield row_of((path, line), msgspec.structs.astuple(row))
    except OSError as problem:
        raise unreadable(path, "JSON lines", problem) from None


def _repair(where: tuple[Path, int], text: bytes) -> _Line:
    """A line without the fields that begin with an underscore; or what is wrong with it."""
    try:
        table = msgspec.json.decode(text)
    except UNREADABLE as problem:
        cut = "" if text.endswith(b"\n") else ", and has no line end: it may be cut off"
        raise wrong(where, f"must be JSON, is not: {problem}{cut}") from None
    if isinstance(table, dict):
        table = {name: value for name, value in table.items() if not name.startswith("_")}
    try:
        return convert(table, _Line, "")
    except ConfigError as error:
        raise wrong(where, f"{error.key}: {error.problem}" if error.key else error.problem) from None


def read_parquet(path: Path) -> Iterator[Row]:
    """The rows of a Parquet file. Raises ConfigError, also where pyarrow is not installed."""
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        problem = "must be read by pyarrow, which is not installed: pip install elasticd[parquet]"
        raise ConfigError(str(path), "", problem) from None
    try:
        with parquet.ParquetFile(path) as file:
            names = [str(name) for name in file.schema_arrow.names]
            check_columns((path, 0), names)
            _check_types((path, 0), file.schema_arrow)
            columns = [name for name in COLUMNS if name in names]
            row = 0
            for batch in file.iter_batches(columns=columns):
                yield from _rows(path, row, batch)
                row += batch.num_rows
    except (OSError, ValueError, NotImplementedError) as problem:  # pyarrow's own errors are among these
        raise unreadable(path, "Parquet", problem) from None


def _check_types(where: Where, schema: Any) -> None:
    for name in COLUMNS:
        if name not in schema.names:
            continue
        kind = schema.field(name).type
        if name == "time" and str(kind).startswith("timestamp"):
            if kind.tz is None:
                raise wrong(where, f"time: must be a timestamp with its time zone, is {kind}")
        elif name in ("time", "value", "window"):
            if not str(kind).startswith(_NUMBER):
                raise wrong(where, f"{name}: must be a number, is {kind}")
        elif not str(kind).startswith(_TEXT):
            raise wrong(where, f"{name}: must be text, is {kind}")


def _rows(path: Path, before: int, batch: Any) -> Iterator[Row]:
    """The rows of a batch; `before` rows came before it."""
    count = batch.num_rows
    columns: dict[str, list[Any]] = {"window": [0.0] * count, "container": [""] * count}
    for name in batch.schema.names:
        columns[name] = _column(batch.column(name))
    rows = zip(*(columns[name] for name in COLUMNS), strict=True)
    for row, cells in enumerate(rows, before + 1):
        yield row_of((path, row), cells)


def _column(column: Any) -> list[Any]:
    """Its values; times as seconds since the epoch, missing texts as empty ones."""
    kind = str(column.type)
    if kind.startswith(_TEXT):
        return [text or "" for text in column.to_pylist()]
    if not kind.startswith("timestamp"):
        return list(column.to_pylist())
    parts = _PARTS[column.type.unit]
    return [None if ticks is None else ticks / parts for ticks in column.cast("int64").to_pylist()]


FORMATS: Mapping[str, Callable[[Path], Iterator[Row]]] = {
    ".csv": read_csv,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    PARQUET: read_parquet,
}
"""How a file is read, by its ending."""
