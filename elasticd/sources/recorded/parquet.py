"""Parquet files of rows, by pyarrow, which comes with elasticd[parquet].

Knows Arrow's columns and types; knows nothing of what rows are for. pyarrow is imported when such a file is read: it is
an extra, and takes 40 ms and 50 MB.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elasticd.base.errors import ConfigError
from elasticd.sources.recorded.files import unreadable
from elasticd.sources.recorded.rows import COLUMNS, Row, Where, check_columns, row_of, wrong

_PARTS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_TEXT = ("string", "large_string", "string_view", "dictionary<values=string", "dictionary<values=large_string")
_NUMBER = ("int", "uint", "halffloat", "float", "double", "decimal")


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
