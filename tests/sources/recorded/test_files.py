"""Recordings in files: the same rows from every format, and what is wrong with a file, in one line."""

import importlib
import math
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.base.errors import ConfigError
from elasticd.sources.recorded import load
from elasticd.sources.recorded.files import FORMATS, Row
from tests.kit.damage import torn

HEADER = "time,series,subject,key,value,window,container\n"
CSV = HEADER + (
    "1700000000,cpu,pod,shop/web-1,0.25,15,web\n"
    "2023-11-14T22:13:35Z,cpu,pod,shop/web-1,0.5,15,web\n"
    "1700000015.5,queue,workload,shop/Deployment/web,7,,\n"
    "2023-11-14T23:13:35+01:00,rx,node,worker-1,-1e9,,\n"
    "1700000030,queue,workload,shop/Deployment/web,nan,0,\n"
    "1700000031,queue,workload,shop/Deployment/web,,0,\n"
    "1700000032,queue,workload,shop/Deployment/web,-inf,0,\n"
)
JSON = """
{"time": 1700000000, "series": "cpu", "subject": "pod", "key": "shop/web-1", "value": 0.25, "window": 15, "container": "web"}
{"time": "2023-11-14T22:13:35Z", "series": "cpu", "subject": "pod", "key": "shop/web-1", "value": 0.5, "window": 15.0, "container": "web", "_note": [1]}
{"time": 1700000015.5, "series": "queue", "subject": "workload", "key": "shop/Deployment/web", "value": 7}

{"time": "2023-11-14T23:13:35+01:00", "series": "rx", "subject": "node", "key": "worker-1", "value": -1e9, "window": null}
{"time": 1700000030, "series": "queue", "subject": "workload", "key": "shop/Deployment/web", "value": "NaN", "window": 0}
{"time": 1700000031, "series": "queue", "subject": "workload", "key": "shop/Deployment/web", "value": null}
{"time": 1700000032, "series": "queue", "subject": "workload", "key": "shop/Deployment/web", "value": "-Infinity"}
"""  # noqa: E501
EXPECTED = [
    (1700000000.0, "cpu", "pod", "shop/web-1", "0.25", 15.0, "web"),
    (1700000015.0, "cpu", "pod", "shop/web-1", "0.5", 15.0, "web"),
    (1700000015.5, "queue", "workload", "shop/Deployment/web", "7.0", 0.0, ""),
    (1700000015.0, "rx", "node", "worker-1", "-1000000000.0", 0.0, ""),
    (1700000030.0, "queue", "workload", "shop/Deployment/web", "nan", 0.0, ""),
    (1700000031.0, "queue", "workload", "shop/Deployment/web", "nan", 0.0, ""),
    (1700000032.0, "queue", "workload", "shop/Deployment/web", "-inf", 0.0, ""),
]
needs_pyarrow = pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed")


def rows(path: Path) -> list[Row]:
    return list(FORMATS[path.suffix](path))


def plain(found: list[Row]) -> list[tuple[object, ...]]:
    """Without line numbers, and with values that can be compared though they are NaN."""
    return [(*row[1:5], str(row[5]), *row[6:]) for row in found]


def written(folder: Path, text: str | bytes, name: str = "day.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refused(path: Path, **options: Any) -> str:
    with pytest.raises(ConfigError) as problem:
        load(path, **options)
    assert "\n" not in str(problem.value)
    assert str(problem.value).startswith(f"{path}: ")
    return str(problem.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("day.csv", CSV, id="csv"),
        pytest.param("day.csv", "\ufeff" + CSV.replace("\n", "\r\n"), id="csv of a spreadsheet"),
        pytest.param("day.csv", CSV.replace("\n", "\n\n"), id="csv with empty lines"),
        pytest.param("day.jsonl", JSON, id="jsonl"),
        pytest.param("day.ndjson", JSON.rstrip(), id="ndjson without a last line end"),
    ],
)
def test_every_format_gives_the_same_rows(name: str, text: str, tmp_path: Path) -> None:
    assert plain(rows(written(tmp_path, text, name))) == EXPECTED


def test_column_order_is_free_and_underscored_columns_are_ignored(tmp_path: Path) -> None:
    path = written(tmp_path, "value,_host,key,subject,series,time\n3,here,worker-1,node,rx,5\n")
    assert rows(path) == [(2, 5.0, "rx", "node", "worker-1", 3.0, 0.0, "")]


ROW = "5,cpu,pod,shop/web-1,1,15,web\n"
EPOCH = "must be seconds since the epoch, or RFC 3339 with its offset from UTC"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "line 1: time: must be given, is missing", id="empty"),
        pytest.param("time,series,subject,value\n", "line 1: key: must be given, is missing", id="column lacking"),
        pytest.param(
            HEADER.replace("window", "windw"), 'line 1: "windw": no such column, did you mean "window"?', id="misspelt"
        ),
        pytest.param(
            HEADER.replace("window", "value"), 'line 1: "value": must be given once, is given twice', id="twice"
        ),
        pytest.param(HEADER, "must have a sample, has none", id="no row"),
        pytest.param(HEADER + "x" + ROW, f'line 2: time: {EPOCH}, is "x5"', id="time"),
        pytest.param(
            HEADER + "2026-01-01T00:00:00" + ROW[1:],
            f'line 2: time: {EPOCH}, is "2026-01-01T00:00:00"',
            id="time without offset",
        ),
        pytest.param(HEADER + "inf" + ROW[1:], f'line 2: time: {EPOCH}, is "inf"', id="time without end"),
        pytest.param(HEADER + ROW[1:], f'line 2: time: {EPOCH}, is ""', id="no time"),
        pytest.param(HEADER + "5,,pod,a/b,1,,\n", "line 2: series: must not be empty", id="no series"),
        pytest.param(
            HEADER + "5,cpu,pods,a/b,1,,\n",
            'line 2: subject: must be one of pod, workload, node, is "pods", did you mean "pod"?',
            id="subject",
        ),
        pytest.param(
            HEADER + ROW + "5,cpu,pod,web,1,,\n", 'line 3: key: must be NAMESPACE/NAME for a pod, is "web"', id="pod"
        ),
        pytest.param(
            HEADER + "5,cpu,workload,shop/web,1,,\n",
            'line 2: key: must be NAMESPACE/KIND/NAME for a workload, is "shop/web"',
            id="workload",
        ),
        pytest.param(HEADER + "5,cpu,node,,1,,\n", 'line 2: key: must be NAME for a node, is ""', id="node"),
        pytest.param(HEADER + "5,cpu,pod,a/b,many,,\n", 'line 2: value: must be a number, is "many"', id="value"),
        pytest.param(HEADER + "5,cpu,pod,a/b,1,-1,\n", 'line 2: window: must be seconds, >= 0, is "-1"', id="window"),
        pytest.param(HEADER + "5,cpu,pod,a/b,1,nan,\n", 'line 2: window: must be seconds, >= 0, is "nan"', id="nan"),
        pytest.param(HEADER + ROW + "5,cpu\n", "line 3: must have 7 cells as the header has, has 2", id="short"),
        pytest.param(
            HEADER + ROW + ROW[:-1], "line 3: must end with a line end, does not: it may be cut off", id="cut off"
        ),
        pytest.param(HEADER + '5,cpu,"a', "must be a readable CSV file, is not: unexpected end of data", id="quote"),
        pytest.param(HEADER.encode() + b"5,c\xff\n", "must be a readable CSV file, is not: 'utf-8'", id="no text"),
    ],
)  # fmt: skip
def test_a_bad_csv_file_is_refused_naming_line_and_field(text: str | bytes, problem: str, tmp_path: Path) -> None:
    assert refused(written(tmp_path, text)).startswith(problem)


GOOD = '{"time": 5, "series": "cpu", "subject": "pod", "key": "a/b", "value": 1}\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            GOOD + GOOD[:40],
            "line 2: must be JSON, is not: Input data was truncated, and has no line end: it may be cut off",
            id="cut off",
        ),
        pytest.param(GOOD + "time,series\n", "line 2: must be JSON, is not: JSON is malformed", id="no JSON"),
        pytest.param(GOOD.replace("1}", "NaN}"), "line 1: must be JSON, is not: JSON is malformed", id="bare NaN"),
        pytest.param("[1]\n", "line 1: must be a table, is [1]", id="no object"),
        pytest.param(
            GOOD.replace("value", "valu"), 'line 1: valu: no such key, did you mean "value"?', id="misspelt"
        ),
        pytest.param(
            GOOD.replace(', "value": 1', ""), "line 1: value: must be given, is missing", id="value lacking"
        ),
        pytest.param(
            GOOD.replace('"key": "a/b"', '"key": 7'), "line 1: key: must be a string, is 7", id="key of another type"
        ),
        pytest.param(GOOD.replace("1}", "true}"), "line 1: value: must be a number or a string, is true", id="true"),
        pytest.param(GOOD.replace("1}", '"1.2.3"}'), 'line 1: value: must be a number, is "1.2.3"', id="text"),
        pytest.param(GOOD.replace("5", '"5 pm"'), f'line 1: time: {EPOCH}, is "5 pm"', id="time"),
        pytest.param("\n\n" + GOOD.replace("pod", "pot"), "line 3: subject: must be one of pod, ", id="subject"),
        pytest.param("", "must have a sample, has none", id="empty"),
    ],
)  # fmt: skip
def test_bad_json_lines_are_refused_naming_line_and_field(text: str, problem: str, tmp_path: Path) -> None:
    assert refused(written(tmp_path, text, "day.jsonl")).startswith(problem)


@pytest.mark.parametrize("name", ["none.csv", "none.jsonl", pytest.param("none.parquet", marks=needs_pyarrow)])
def test_a_file_that_is_not_there_is_reported(name: str, tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / name)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "day.jsonl").mkdir()
    assert refused(tmp_path / "day.jsonl") == "must be a readable JSON lines file, is not: it is a folder"


def test_without_pyarrow_a_parquet_file_is_refused_with_install_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    problem = "must be read by pyarrow, which is not installed: pip install elasticd[parquet]"
    assert refused(tmp_path / "day.parquet") == problem


def parquet(path: Path, columns: dict[str, list[Any]], types: dict[str, Any] | None = None) -> Path:
    arrow, files = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    arrays = {name: arrow.array(values, type=(types or {}).get(name)) for name, values in columns.items()}
    files.write_table(arrow.table(arrays), path, row_group_size=2)
    return path


def columns(**changes: list[Any]) -> dict[str, list[Any]]:
    names = ("time", "series", "subject", "key", "value", "window", "container")
    found = dict(zip(names, map(list, zip(*EXPECTED, strict=True)), strict=True))
    return found | {"value": [float(text) for text in found["value"]]} | changes


Types = Callable[[Any], dict[str, Any]]


@needs_pyarrow
@pytest.mark.parametrize(
    ("changes", "types"),
    [
        pytest.param({}, lambda _: {}, id="numbers"),
        pytest.param({"_note": list(range(7))}, lambda _: {}, id="a column of one's own"),
        pytest.param(
            {"time": [int(row[0] * 1e9) for row in EXPECTED]},
            lambda arrow: {"time": arrow.timestamp("ns", "UTC")},
            id="timestamps in nanoseconds",
        ),
        pytest.param(
            {"time": [int(row[0] * 1e3) for row in EXPECTED]},
            lambda arrow: {"time": arrow.timestamp("ms", "Europe/Berlin")},
            id="timestamps in milliseconds",
        ),
        pytest.param(
            {"container": ["web", "web", None, None, None, None, None], "window": [15, 15, None, None, 0, 0, 0]},
            lambda arrow: {"key": arrow.dictionary(arrow.int32(), arrow.string()), "series": arrow.large_string()},
            id="dictionaries and nulls",
        ),
    ],
)
def test_parquet_gives_the_same_rows(changes: dict[str, list[Any]], types: Types, tmp_path: Path) -> None:
    path = parquet(tmp_path / "day.parquet", columns(**changes), types(importlib.import_module("pyarrow")))
    assert plain(rows(path)) == EXPECTED
    assert [row[0] for row in rows(path)] == [1, 2, 3, 4, 5, 6, 7]


@needs_pyarrow
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param({"valu": [1.0] * 7}, 'schema: "valu": no such column, did you mean "value"?', id="misspelt"),
        pytest.param({"key": [1] * 7}, "schema: key: must be text, is int64", id="key of numbers"),
        pytest.param({"value": ["1"] * 7}, "schema: value: must be a number, is string", id="value of text"),
        pytest.param({"time": [5.0] * 6 + [None]}, f"row 7: time: {EPOCH}, is null", id="no time"),
        pytest.param({"key": ["shop/web-1"] * 6 + [None]}, "row 3: key: must be NAMESPACE/KIND/NAME", id="no key"),
    ],
)
def test_a_bad_parquet_file_is_refused_naming_row_and_field(
    changes: dict[str, list[Any]], problem: str, tmp_path: Path
) -> None:
    assert refused(parquet(tmp_path / "day.parquet", columns(**changes))).startswith(problem)


@needs_pyarrow
def test_timestamps_without_a_zone_are_refused(tmp_path: Path) -> None:
    types = {"time": importlib.import_module("pyarrow").timestamp("us")}
    path = parquet(tmp_path / "day.parquet", columns(time=[1, 2, 3, 4, 5, 6, 7]), types)
    assert refused(path) == "schema: time: must be a timestamp with its time zone, is timestamp[us]"


@needs_pyarrow
def test_a_parquet_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    whole = parquet(tmp_path / "whole.parquet", columns()).read_bytes()
    path = written(tmp_path, whole[:-20], "day.parquet")
    assert refused(path).startswith("must be a readable Parquet file, is not: ")


def test_nan_is_kept_and_is_not_zero(tmp_path: Path) -> None:
    track = load(written(tmp_path, CSV), series=["queue"]).workloads["queue"]["shop/Deployment/web"][0]
    assert [math.isfinite(value) for value in track.values] == [True, False, False, False]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"), [pytest.param("day.csv", CSV, id="csv"), pytest.param("day.jsonl", JSON, id="json lines")]
)
@given(st.data())
def test_a_torn_file_is_refused_or_read(name: str, text: str, data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data.draw(torn(text.encode())))
        with suppress(ConfigError):
            load(path)


@pytest.mark.slow
@needs_pyarrow
@given(st.data())
def test_a_torn_parquet_file_is_refused_or_read(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        path = parquet(Path(folder) / "day.parquet", columns())
        path.write_bytes(data.draw(torn(path.read_bytes())))
        with suppress(ConfigError):
            load(path)
