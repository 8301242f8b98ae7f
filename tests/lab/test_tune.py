"""`elasticd tune`: the search over options, its limits, and that it goes on where it was."""

import json
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from elasticd.base.errors import ConfigError
from elasticd.lab.figures import figures
from elasticd.lab.runs import Change, Run, WorkloadTrack
from elasticd.lab.tune import (
    IMPOSSIBLE,
    Limits,
    Point,
    SearchRange,
    Study,
    Trial,
    cost,
    search,
    search_range,
    trade_off,
    violation,
    with_options,
)
from elasticd.model.workload import Ref
from tests.kit.daemons import called
from tests.lab.test_backtest import POLICY, rows

RANGES = (SearchRange("a", 0, 100, whole=True), SearchRange("b", 0, 1, whole=False))
NONE = replace(IMPOSSIBLE, replica_hours=0.0, unserved=0.0)
TABLES = {"interval": 15, "strategy": [{"type": "hpa", "metrics": [{"utilization": 60}]}]}


def trial(*point: float, hours: float = 1.0, unserved: float = 0.0, changes: int = 0) -> Trial:
    return Trial(point, replace(NONE, replica_hours=hours, unserved=unserved, changes=changes))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("interval=5:60", SearchRange("interval", 5, 60, whole=True), id="whole numbers"),
        pytest.param("strategy[0].a.b=0.5:2", SearchRange("strategy[0].a.b", 0.5, 2, whole=False), id="any numbers"),
        pytest.param("limit[1].x=-5:5", SearchRange("limit[1].x", -5, 5, whole=True), id="negative numbers"),
    ],
)
def test_a_range_names_an_option_and_two_values(text: str, expected: SearchRange) -> None:
    assert search_range(text) == expected


@pytest.mark.parametrize(
    "text", ["", "interval", "interval=5", "interval=60:5", "interval=5:5", "=5:6", "a b=5:6", "a=x:y"]
)
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--search: must"):
        search_range(text)


def test_options_are_set_where_their_path_leads() -> None:
    ranges = [search_range("strategy[0].metrics[0].utilization=1:9"), search_range("strategy[0].tolerance=0.1:0.2")]
    tables = with_options(TABLES, ranges, (7.0, 0.15))
    assert tables["strategy"][0]["metrics"] == [{"utilization": 7}]
    assert tables["strategy"][0]["tolerance"] == 0.15
    assert TABLES["strategy"] == [{"type": "hpa", "metrics": [{"utilization": 60}]}]


@pytest.mark.parametrize("path", ["strategy[1].x", "limit[0].x", "interval.x", "strategy.x"])
def test_a_path_into_nothing_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="must name a table of the policy"):
        with_options(TABLES, [search_range(f"{path}=1:2")], (1.0,))


@pytest.mark.parametrize(
    ("unserved", "changes", "expected"),
    [
        pytest.param(0.01, 10, 0.0, id="kept"),
        pytest.param(0.02, 10, 1.0, id="twice as much unserved"),
        pytest.param(0.01, 15, 0.5, id="half as many changes more"),
        pytest.param(0.02, 15, 1.5, id="both"),
    ],
)
def test_limits_are_exceeded_by_a_share(unserved: float, changes: int, expected: float) -> None:
    came = trial(unserved=unserved, changes=changes * 2).figures
    assert violation(came, Limits(0.01, 10), days=2) == pytest.approx(expected)


def test_what_keeps_the_limits_costs_less_than_what_does_not() -> None:
    limits = Limits(0.01)
    trials = [trial(hours=900), trial(hours=1, unserved=0.011), trial(hours=1, unserved=0.5), Trial((), IMPOSSIBLE)]
    costs = [cost(each, limits, 1.0) for each in trials]
    assert costs == sorted(costs)


def test_the_trade_off_has_what_no_other_beats() -> None:
    cheap, middle, safe = trial(1, hours=1, unserved=0.3), trial(2, hours=2, unserved=0.1), trial(3, hours=3)
    beaten = [trial(4, hours=2, unserved=0.2), trial(5, hours=4), trial(6, hours=3)]
    assert trade_off([*beaten, safe, cheap, middle]) == [cheap, middle, safe]


def bowl(points: Sequence[Point], seen: list[Point]) -> list[Trial]:
    """Cheapest at 30 and 0.25."""
    seen += points
    return [trial(a, b, hours=(a - 30) ** 2 + 100 * (b - 0.25) ** 2) for a, b in points]


def test_the_search_finds_the_bottom_of_a_bowl_and_repeats() -> None:
    price = partial(cost, limits=Limits(), days=1.0)
    first, second = list[Point](), list[Point]()
    trials = search(RANGES, price, partial(bowl, seen=first), 15)
    assert search(RANGES, price, partial(bowl, seen=second), 15) == trials
    best = min(trials, key=price).point
    assert best == pytest.approx((30, 0.25), abs=2)
    assert first == second
    assert all(a == round(a) for a, _ in first)


def test_a_study_goes_on_where_it_was(tmp_path: Path) -> None:
    path, one, two = tmp_path / "study.jsonl", list[Point](), list[Point]()
    trials = Study(path, {"a": 1}).play(partial(bowl, seen=one), [(1.0, 0.1), (2.0, 0.2)])
    with path.open("ab") as file:
        file.write(b'{"point":[3')  # it was killed while it wrote
    again = Study(path, {"a": 1}).play(partial(bowl, seen=two), [(1.0, 0.1), (2.0, 0.2), (3.0, 0.3)])
    assert again[:2] == trials
    assert (one, two) == ([(1.0, 0.1), (2.0, 0.2)], [(3.0, 0.3)])
    assert list(Study(path, {"a": 1}).trials.values()) == again
    with pytest.raises(ConfigError, match=r"line 1: must be of the same search, is of another one"):
        Study(path, {"a": 2})


def test_a_part_of_a_run_begins_at_its_time() -> None:
    ref = Ref("shop", "Deployment", "web")
    track = WorkloadTrack([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [0.0, 0.5, 0.0], [0.0, 30.0, 0.0], [1, 2, 3], [1, 1, 3])
    run = Run(0.0, 60.0, {ref: track}, changes={ref: [Change(30.0, 1, 2), Change(100.0, 2, 3)]})
    part = run.since(60.0)
    assert (part.begun, part.workloads[ref].demand, part.workloads[ref].replicas) == (60.0, [2.0, 3.0], [2, 3])
    assert part.changes[ref] == [Change(100.0, 2, 3)]
    before = run.until(60.0)
    assert (before.begun, before.workloads[ref].demand, before.workloads[ref].replicas) == (0.0, [1.0], [1])
    assert before.changes[ref] == [Change(30.0, 1, 2)]
    whole, parts = figures(run), [figures(each) for each in (before, part)]
    assert sum(each.replica_hours for each in parts) == pytest.approx(whole.replica_hours)
    assert sum(each.unserved * each.demand for each in parts) == pytest.approx(whole.unserved * whole.demand)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Half an hour in which two pods become five and then two, and a policy."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recording.csv").write_text(rows(30, {0: 2, 10: 5, 15: 2, 20: 5, 25: 2}))
    (tmp_path / "web.toml").write_text(POLICY % ("web", 30))
    return tmp_path


ASKED = ("tune", "web.toml", "--recording", "recording.csv", "--cpu", "500m")
SEARCHED = ("--search", "strategy[0].metrics[0].utilization=30:95", "--generations", "1", "--jobs", "1")


@pytest.mark.slow
def test_tuned_options_cost_less_afterwards(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*ASKED, *SEARCHED, "--unserved", "20", "--study", "study"]
    code, out, err = called(capsys, *arguments, "--json")
    said = json.loads(out)
    hours = {name: each["replica_hours"] for name, each in said["held_out"].items()}
    assert (code, err) == (0, "")
    assert hours["tuned"] < hours["as it is"]
    assert said["best"]["options"]["strategy[0].metrics[0].utilization"] > 30
    assert said["best"]["figures"]["replica_hours"] < said["as_it_is"]["replica_hours"]
    (kept,) = (folder / "study").iterdir()
    assert len(kept.read_text().splitlines()) == len(said["trials"]) + 1
    assert json.loads(called(capsys, *arguments, "--json")[1]) == said
    text = called(capsys, *arguments)[1]
    assert "set in the policy" in text
    assert text.count("as it is") == 2
    assert "no point keeps the limits" not in text


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param(["--search", "strategy[0]=1:2"], "strategy[0]: must be a table, is 1", id="a table"),
        pytest.param(["--search", "nothing=1:2"], "nothing: no such key", id="no option"),
        pytest.param(["--search", "limit[0].x=1:2"], "--search: must name a table of the policy", id="no table"),
        pytest.param([*SEARCHED, "--held-out", "1"], "--held-out: must be from 0.05 to 0.9, is 1", id="no rest"),
        pytest.param([*SEARCHED, "--generations", "0"], "--generations: must be from 1 to 1000, is 0", id="no search"),
        pytest.param([*SEARCHED, "--unserved", "-1"], "--unserved: must be from 0 to 100, is -1", id="a share"),
        pytest.param([*SEARCHED, "--changes", "nan"], "--changes: must be >= 0, is nan", id="no count"),
        pytest.param([*SEARCHED, "--changes", "-3"], "--changes: must be >= 0, is -3", id="a negative count"),
        pytest.param(
            [*SEARCHED, "--search", "strategy[0].metrics[0].utilization=40:50"],
            "--search: must name an option once, names strategy[0].metrics[0].utilization again",
            id="an option twice",
        ),
        pytest.param([*SEARCHED, "--study", "web.toml"], "--study: must be a folder, web.toml is not", id="no study"),
    ],
)
def test_what_cannot_be_tuned_costs_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], problem: str
) -> None:
    code, out, err = called(capsys, *ASKED, *options)
    assert (code, out, err.count("\n")) == (78, "", 1)
    assert problem in err


RUSH = """
interval = 60
workload = { namespace = "shop", name = "web" }
replicas = { min = 2, max = 30 }

[[strategy]]
type = "step-tolerance"
target = 60
tolerance = 15
"""


def rush(at: int) -> float:
    """The cores of a quiet day with a rush: five times the load within a minute, from noon until two."""
    hour = at % 86400 / 3600
    peak = 0.5 * (math.tanh((hour - 12) * 120) - math.tanh((hour - 14) * 120))
    return 0.8 - 0.4 * math.cos(2 * math.pi * hour / 24) + 3.2 * peak


@pytest.mark.slow
def test_tuned_options_cost_less_and_serve_more_afterwards(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["time,series,subject,key,value,window"]
    for at in range(0, 2 * 86400 + 1, 60):
        lines += [f"{1771977600 + at},cpu,pod,shop/web-{pod},{rush(at) / 4:.4f},60" for pod in range(4)]
    (folder / "days.csv").write_text("\n".join([*lines, ""]))
    (folder / "rush.toml").write_text(RUSH)
    words = ["rush.toml", "--recording", "days.csv", "--cpu", "500m", "--resolution", "60", "--start-seconds", "120"]
    words += ["--search", "strategy[0].target=40:75", "--search", "strategy[0].up=2:8", "--generations", "1"]
    words += ["--held-out", "0.5", "--unserved", "0.15", "--jobs", "1", "--json"]
    code, out, err = called(capsys, "tune", *words)
    assert (code, err) == (0, "")
    before, after = json.loads(out)["held_out"].values()
    assert after["replica_hours"] < 0.9 * before["replica_hours"]
    assert after["unserved"] < 0.9 * before["unserved"]
