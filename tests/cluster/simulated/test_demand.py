"""Demand over time: formulas, tables, recordings, and what is wrong with them."""

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from elasticd.base.errors import ConfigError
from elasticd.cluster.simulated.demand import Demand, read_total, remember

RAMP = [[0, 1.0], [60, 4.0], [120, 2.0]]


def demand(**table: Any) -> Demand:
    return msgspec.convert(table, Demand)


@pytest.mark.parametrize(
    ("formula", "t", "value"),
    [
        pytest.param("2", 5, 2.0, id="a constant"),
        pytest.param("2 + 1.5*sin(2*pi*t/600)", 150, 3.5, id="a wave"),
        pytest.param("max(0, min(9, exp(0) + sqrt(t) - abs(-1)))", 16, 4.0, id="functions"),
        pytest.param("floor(t / 60) % 2 + cos(0)", 119, 2.0, id="a square wave"),
        pytest.param("5 if t >= 300 else 1", 300, 5.0, id="a step"),
        pytest.param("1 + (t > 10)", 11, 2.0, id="truth counts one"),
    ],
)
def test_a_formula_gives_its_value_at_t(formula: str, t: float, value: float) -> None:
    assert demand(formula=formula).curve()(t) == pytest.approx(value)


@pytest.mark.parametrize(
    ("options", "values"),
    [
        pytest.param({}, [1, 1, 1, 4, 4, 2, 2], id="steps"),
        pytest.param({"interpolate": "linear"}, [1, 1, 2.5, 4, 3, 2, 2], id="linear"),
        pytest.param({"repeat": 120}, [4, 1, 1, 4, 4, 1, 1], id="steps repeated"),
        pytest.param({"repeat": 120, "interpolate": "linear"}, [3, 1, 2.5, 4, 3, 1, 2.5], id="linear repeated"),
        pytest.param({"repeat": 200}, [2, 1, 1, 4, 4, 2, 2], id="the last value lasts until the repetition"),
    ],
)
def test_a_table_gives_its_values(options: dict[str, Any], values: list[float]) -> None:
    curve = demand(table=RAMP, **options).curve()
    assert [curve(t) for t in (-30, 0, 30, 60, 90, 120, 150)] == values


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        pytest.param({}, "formula: must be given, or else table or recording, none is", id="none"),
        pytest.param(
            {"formula": "1", "table": RAMP},
            "formula: must be given, or else table or recording, formula and table are",
            id="two",
        ),
        pytest.param({"formula": "1 +"}, "formula: must have a finite value at t = 0: ", id="no expression"),
        pytest.param({"formula": ""}, "formula: must have a finite value at t = 0: ", id="empty"),
        pytest.param({"formula": "2 * x"}, "'x' is not defined", id="unknown name"),
        pytest.param({"formula": "open('a')"}, "'open' not defined", id="unknown function"),
        pytest.param({"formula": "'a'"}, "a str is no number", id="text"),
        pytest.param({"formula": "x = 1"}, "formula: must have", id="assignment"),
        pytest.param({"formula": "1; 2"}, "formula: must have", id="two statements"),
        pytest.param({"formula": "1/t"}, "at t = 0: float division by zero", id="division by zero"),
        pytest.param({"formula": "exp(t)"}, "at t = 3600: math range error", id="overflow later"),
        pytest.param({"formula": "sqrt(59 - t)"}, "at t = 60: math domain error", id="no root"),
        pytest.param({"formula": "1", "repeat": 5}, "formula: must stand without interpolate and repeat", id="repeat"),
        pytest.param({"table": []}, "length >= 1", id="no rows"),
        pytest.param({"table": [[0, 1], [0, 2]]}, "table[1]: must be later than 0, is at 0", id="equal times"),
        pytest.param({"table": [[0, math.inf]]}, "table[0]: must be finite, is [0.0, inf]", id="infinite"),
        pytest.param(
            {"table": RAMP, "repeat": 119},
            "repeat: must be >= 120, the time of the last row, is 119",
            id="repeat before the end",
        ),
        pytest.param({"recording": "x.csv", "series": "cpu"}, "series: must be given together with key", id="no key"),
        pytest.param({"recording": "x.csv", "key": "a/b"}, "key: must be given together with series", id="no series"),
        pytest.param(
            {"table": RAMP, "series": "cpu", "key": "a/b"}, "series: must be left out without recording", id="series"
        ),
        pytest.param(
            {"recording": "x.txt", "series": "cpu", "key": "a/b"}, "recording: must end in one of .csv", id="ending"
        ),
        pytest.param({"table": RAMP, "interpolate": "cubic"}, "cubic", id="unknown interpolation"),
    ],
)
def test_a_wrong_demand_is_refused_naming_the_key(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        demand(**table)
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "formula", ["1 / (t - 77)", "'a' if t == 77 else 1", "x if t == 77 else 1", "(0 - (t == 77)) ** 0.5 + 1"]
)
def test_formula_without_a_value_is_nan_and_not_zero(formula: str) -> None:
    curve = demand(formula=formula).curve()
    assert math.isnan(curve(77))
    assert curve(78) == 1.0


def test_a_curve_is_computed_once_for_equal_consecutive_times() -> None:
    asked: list[float] = []

    def ask(t: float) -> float:
        asked.append(t)
        return t

    curve = remember(ask)
    assert [curve(t) for t in (1.0, 1.0, 2.0, 2.0, 1.0)] == [1.0, 1.0, 2.0, 2.0, 1.0]
    assert asked == [1.0, 2.0, 1.0]


def test_a_recording_begins_with_its_first_row_whatever_its_epoch(tmp_path: Path) -> None:
    file = tmp_path / "load.csv"
    file.write_text("value,time,note\n0.5,1700000000,a\n2,1700000060,b\n")
    curve = demand(recording=str(file), interpolate="linear").curve()
    assert [curve(t) for t in (0, 30, 60, 90)] == [0.5, 1.25, 2.0, 2.0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "line 1: time: must be given, is missing", id="empty"),
        pytest.param("time,cpu\n0,1\n", "line 1: value: must be given, is missing", id="column"),
        pytest.param("time,value\n", "line 2: must be a row below the header, is missing", id="no row"),
        pytest.param("time,value\n0,1\n1,many\n", 'line 3: value: must be a number, is "many"', id="text"),
        pytest.param("time,value\n0\n", "line 2: must have 2 cells as the header has, has 1", id="short row"),
        pytest.param("time,value\n0,nan\n", 'line 2: value: must be finite, is "nan"', id="not a number"),
        pytest.param("time,value\n5,1\n5,2\n", "line 3: time: must be later than 5, is 5", id="equal times"),
        pytest.param("time,value\n0,\n", 'line 2: value: must be finite, is ""', id="no value"),
        pytest.param("time,value\n0,1\n60,1", "line 3: must end with a line end, does not: it may be", id="cut off"),
        pytest.param('time,value\n0,"1\n', "must be a readable CSV file, is not: unexpected end of data", id="quote"),
    ],
)
def test_a_bad_recording_is_refused_naming_file_and_line(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "load.csv"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        demand(recording=str(file)).curve()
    assert str(refused.value).startswith(f"{file}: {problem}")


def test_a_missing_recording_is_refused_naming_the_file(tmp_path: Path) -> None:
    file = tmp_path / "none.csv"
    with pytest.raises(ConfigError) as refused:
        demand(recording=str(file)).curve()
    assert str(refused.value) == f"{file}: must be a readable CSV file, is not: No such file or directory"


def test_a_recording_that_is_longer_than_its_repetition_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "load.csv"
    file.write_text("time,value\n0,1\n60,2\n")
    with pytest.raises(ConfigError, match="repeat: must be >= 60, the time of the last row, is 30"):
        demand(recording=str(file), repeat=30).curve()


RECORDING = """\
time,series,subject,key,value,window,container
0,cpu,pod,shop/web-a,1,15,web
0,cpu,pod,shop/web-a,0.25,15,log
0,cpu,pod,shop/web-b,2,15,web
0,cpu,pod,shop/job-1,50,15,web
0,cpu,pod,other/web-a,50,15,web
0,cpu,workload,shop/Deployment/web,9,0,
0,cpu,node,web-1,7,0,
0,memory,pod,shop/web-a,1e9,15,web
60,cpu,pod,shop/web-a,3,15,web
120,cpu,pod,shop/web-a,4,15,web
120,cpu,pod,shop/web-c,NAN,15,web
180,cpu,pod,shop/web-c,1,15,web
500,cpu,pod,shop/web-a,6,15,web
"""


def recorded(folder: Path, **options: Any) -> Demand:
    file = folder / "monday.csv"
    file.write_text(RECORDING)
    return demand(recording=str(file), **options)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        # web-b is gone at 100, web-a's log too; at 120 nobody knows web-c; at 220 web-a was not heard of for 100 s, at
        # 280 nobody is left; at 500 the recording ends, and what was known last stays.
        pytest.param("shop/web-*", [3.25, 5.25, 3.0, None, 5.0, 1.0, None, 6.0, 6.0], id="all its pods"),
        pytest.param("shop/web-b", [2.0, 2.0, None, None, None, None, None, None, None], id="one pod"),
        pytest.param("shop/Deployment/*", [9.0, 9.0, None, None, None, None, None, None, None], id="the workload"),
        pytest.param("web-?", [7.0, 7.0, None, None, None, None, None, None, None], id="a node"),
    ],
)
def test_what_a_cluster_recorded_is_demanded_again(key: str, expected: list[float | None], tmp_path: Path) -> None:
    curve = recorded(tmp_path, series="cpu", key=key, max_age=100).curve()
    found = [curve(t) for t in (0, 60, 100, 120, 180, 220, 280, 500, 9000)]
    assert [None if math.isnan(value) else value for value in found] == expected


def test_all_that_is_recorded_begins_when_the_recording_does(tmp_path: Path) -> None:
    file = tmp_path / "monday.csv"
    file.write_text(RECORDING.replace("\n0,memory", "\n-30,memory"))
    curve = demand(recording=str(file), series="cpu", key="shop/web-b", max_age=1000, repeat=600).curve()
    assert [math.isnan(curve(t)) for t in (0, 29, 600, 629)] == [True] * 4
    assert [curve(t) for t in (30, 599, 630)] == [2, 2, 2]


def test_a_recording_without_such_a_subject_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'must have samples of "shop/web" in series cpu, has none'):
        recorded(tmp_path, series="cpu", key="shop/web").curve()


@pytest.mark.parametrize(
    ("ends", "counts_until"),
    [
        pytest.param(40, 52.5, id="it ends"),
        pytest.param(90, 100, id="it lives to the end"),
    ],
)
def test_a_pod_whose_rows_end_counts_a_little_longer(tmp_path: Path, ends: int, counts_until: float) -> None:
    """Rows come every 10 s, and a pod that ended is not waited for as long as one that is merely silent."""
    rows = [f"{time},cpu,pod,shop/web-a,1" for time in range(0, 110, 10)]
    rows += [f"{time},cpu,pod,shop/web-b,2" for time in range(0, ends + 10, 10)]
    path = tmp_path / "r.csv"
    path.write_text("\n".join(["time,series,subject,key,value", *rows, ""]))
    total = read_total(path, "cpu", "shop/web-*", 120.0)
    assert [time for time, value in total if value == 1.0][:1] == ([counts_until] if ends == 40 else [])
