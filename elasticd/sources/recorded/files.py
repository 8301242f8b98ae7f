"""Files of rows: CSV and JSON lines.

Knows how text becomes rows, and in which line it is wrong; knows nothing of what rows are for.
"""

import csv
import os
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path

import msgspec

from elasticd.base.decode import convert
from elasticd.base.errors import UNREADABLE, ConfigError
from elasticd.base.files import linked
from elasticd.base.text import one_line
from elasticd.sources.recorded.rows import COLUMNS, Row, check_columns, row_of, wrong


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
