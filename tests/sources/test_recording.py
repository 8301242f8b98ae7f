"""A recording played again: what it says at which time, and how its options change that."""

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from elasticd.base.clock import VirtualClock
from elasticd.base.errors import ConfigError
from elasticd.cluster.simulated import Simulated
from elasticd.config import load_settings
from elasticd.model.listener import Notice
from elasticd.model.policy import Bounds, Policy, Target
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Sample
from elasticd.ports.source import Reader
from elasticd.registry import discover
from elasticd.sources.recording import RecordingSource, Tape, register_sources
from elasticd.testing import simulate, site
from elasticd_plugins.hpa import Hpa

HEADER = "time,series,subject,key,value,window,container\n"
ROWS = """\
1000,cpu,pod,shop/web-1,0.25,15,web
1000,cpu,pod,shop/web-1,0.01,15,log
1010,queue,workload,shop/Deployment/web,7,0,
1015,cpu,pod,shop/web-1,0.5,15,web
1015,cpu,pod,shop/web-2,nan,15,web
1060,queue,workload,shop/Deployment/web,9,0,
1060,rx,node,worker-1,-5,0,
"""
WEB = "shop/Deployment/web"


def recording(folder: Path, rows: str = ROWS, **options: Any) -> RecordingSource:
    path = folder / "day.csv"
    path.write_text(HEADER + rows)
    return msgspec.convert({"type": "recording", "file": str(path), **options}, RecordingSource)


async def queue(reader: Reader, now: float) -> tuple[float, float] | None:
    """What the queue was and when, of what is said at that time."""
    found = (await reader.read(now)).workloads["queue"].get(WEB)
    return None if found is None else (found[0].measured, found[0].value)


async def test_a_recording_returns_the_newest_sample_with_its_own_time(tmp_path: Path) -> None:
    async with recording(tmp_path, start="recorded").open(site(clock=VirtualClock(500))) as reader:
        said = await reader.read(1059.9)
    assert (said.source, said.received, said.error) == ("recording", 1059.9, "")
    assert said.pods["cpu"]["shop/web-1"] == (
        Sample(0.5, 1015, 1059.9, 15, "web-1", "web"),
        Sample(0.01, 1000, 1059.9, 15, "web-1", "log"),
    )
    assert said.workloads["queue"][WEB] == (Sample(7, 1010, 1059.9),)
    assert math.isnan(said.pods["cpu"]["shop/web-2"][0].value)
    assert (list(said.pods["cpu"]), len(said.pods["cpu"])) == (["shop/web-1", "shop/web-2"], 2)
    assert (dict(said.nodes["rx"]), said.nodes["rx"].get("worker-1")) == ({}, None)
    async with recording(tmp_path, start="recorded").open(site()) as reader:
        assert (await reader.read(1e9)).nodes["rx"]["worker-1"] == (Sample(-5, 1060, 1e9),)


async def test_a_recording_is_empty_before_its_start_and_ages_afterwards(tmp_path: Path) -> None:
    async with recording(tmp_path, start="recorded").open(site()) as reader:
        assert [await queue(reader, now) for now in (0, 1009.9, 1010, 1e9)] == [None, None, (1010, 7), (1060, 9)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, [None, (60, 7), (60, 7), (110, 9), (110, 9)], id="as it was"),
        pytest.param({"speed": 2}, [None, (55, 7), (80, 9), (80, 9), (80, 9)], id="twice as fast"),
        pytest.param({"speed": 0.5}, [None, None, (70, 7), (70, 7), (170, 9)], id="half as fast"),
        pytest.param({"repeat": 60}, [None, (60, 7), (60, 7), (110, 9), (170, 9)], id="again at once"),
        pytest.param({"repeat": 100}, [None, (60, 7), (60, 7), (110, 9), (160, 7)], id="again after a pause"),
        pytest.param({"repeat": 100, "speed": 2}, [None, (55, 7), (80, 9), (105, 7), (155, 7)], id="again, faster"),
    ],
)
async def test_it_begins_when_it_is_opened(
    options: dict[str, Any], expected: list[tuple[float, float] | None], tmp_path: Path
) -> None:
    async with recording(tmp_path, **options).open(site(clock=VirtualClock(50))) as reader:
        assert [await queue(reader, now) for now in (50, 60, 80, 110, 175)] == expected


async def test_a_window_is_as_much_shorter_as_time_is_faster(tmp_path: Path) -> None:
    async with recording(tmp_path, speed=5).open(site(clock=VirtualClock(0))) as reader:
        assert (await reader.read(3)).pods["cpu"]["shop/web-1"][0].window == 3


async def test_recorded_times_stay_exact_and_looped_times_nearly_so() -> None:
    tape = Tape(1700000000.123, 1700000000.123)
    times = [1700000000.123, 1700000033.457, 1700086400.789]
    assert [(tape.at(time), tape.when(time, 0)) for time in times] == [((time, 0), time) for time in times]
    fast = Tape(1700000000.0, 50.0, 7.0, 86400.0)
    for now in (50.0, 51.3, 12345.6, 99999.9):
        assert fast.when(*fast.at(now)) == pytest.approx(now, abs=1e-5)


async def test_some_series_under_other_names(tmp_path: Path) -> None:
    source = recording(tmp_path, start="recorded", series=["queue"], rename={"shop": "test"}, name="monday")
    async with source.open(site()) as reader:
        said = await reader.read(2000)
    assert (said.source, list(said.workloads["queue"])) == ("monday", ["test/Deployment/web"])
    assert (said.pods, said.nodes) == ({}, {})
    assert (source.offers(), recording(tmp_path).offers()) == (("queue",), None)


async def test_a_repetition_that_is_shorter_than_the_recording_is_refused(tmp_path: Path) -> None:
    source = recording(tmp_path, repeat=59)
    with pytest.raises(ConfigError) as problem:
        async with source.open(site()):
            pass
    told = "repeat: must be 0 or >= 60, the seconds from its first row to its last, is 59"
    assert str(problem.value) == f"{source.file}: {told}"


async def test_a_faulty_recording_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"day\.csv: line 2: subject: must be one of pod, workload, node"):
        async with recording(tmp_path, "5,cpu,cluster,a,1,,\n").open(site()):
            pass
    with pytest.raises(ConfigError, match=r"must have at most 6 samples \(max_samples\), has more"):
        async with recording(tmp_path, max_samples=6).open(site()):
            pass


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param({"file": "day.txt"}, 'file: must end in one of .csv, .jsonl, .ndjson, .parquet, is "', id="file"),
        pytest.param(
            {"file": "x.csv", "start": "recorded", "speed": 2},
            'speed: must be 1 with start = "recorded", is 2',
            id="speed",
        ),
        pytest.param(
            {"file": "x.csv", "start": "later"}, 'start: must be one of now, recorded, is "later"', id="start"
        ),
        pytest.param({"file": "x.csv", "speed": 0}, "speed: must be > 0, is 0", id="no speed"),
        pytest.param(
            {"file": "x.csv", "rename": {"a": "b/c"}},
            'rename: must give "a" a name of as many parts, is "b/c"',
            id="rename",
        ),
        pytest.param(
            {"file": "x.csv", "rename": {"a": ""}}, 'rename: must give "a" a name of as many parts, is ""', id="no name"
        ),
        pytest.param({}, "file: must be given, is missing", id="no file"),
        pytest.param({"file": "x.csv", "repat": 1}, 'repat: no such key, did you mean "repeat"?', id="misspelt"),
    ],
)
def test_wrong_options_are_refused_naming_the_key(options: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, options)
    assert f"source[0].{problem}" in str(refused.value)


def load(folder: Path, options: dict[str, Any]) -> RecordingSource:
    """The source as it comes from elasticd.toml."""
    lines = ["[[source]]", 'type = "recording"']
    for key, value in options.items():
        lines.append(f"{key} = {_toml(value)}")
    path = folder / "elasticd.toml"
    path.write_text("\n".join(lines))
    (source,) = load_settings(path, discover()).sources
    assert isinstance(source, RecordingSource)
    return source


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}" = {_toml(entry)}' for key, entry in value.items()) + "}"
    return f"'{value}'" if isinstance(value, str) else str(value)


def test_its_file_is_found_beside_elasticd_toml(tmp_path: Path) -> None:
    source = load(tmp_path, {"file": "day.csv", "repeat": 86400})
    assert source == RecordingSource(file=str(tmp_path / "day.csv"), repeat=86400)
    assert register_sources() == [RecordingSource]


DAY = 86400
MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC).timestamp()


def waiting(time: float) -> int:
    """How many wait in the queue: few at night, many at noon."""
    return round(55 - 45 * math.cos(2 * math.pi * time / DAY))


class Told:
    """A listener that keeps every decision."""

    def __init__(self) -> None:
        self.made: list[Decision] = []

    def on(self, record: Notice) -> None:
        if isinstance(record, Decision):
            self.made.append(record)
        elif isinstance(record, Outcome):
            assert record.result == "done"


async def followed(source: RecordingSource, start: float) -> list[Decision]:
    """What a policy that wants a replica for every ten that wait decides in a day of virtual time."""
    cluster = msgspec.convert(
        {
            "type": "simulated",
            "nodes": [{"name": "n", "cpu": "64", "memory": "256Gi"}],
            "workloads": [{"name": "web", "namespace": "shop", "replicas": 1}],
        },
        Simulated,
    )
    metric = {"type": "External", "series": "queue", "average_value": 10}
    hpa = msgspec.convert({"type": "hpa", "metrics": [metric], "tolerance": 0}, Hpa)
    policy = Policy(
        name="web",
        replicas=Bounds(min=1, max=20),
        strategies=(hpa,),
        workload=Target("shop", "web"),
        mode="act",
        interval=30.0,
    )
    told = Told()
    await simulate(cluster, [policy], DAY, sources=[source], start=start, listeners=[told])
    return told.made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "start"),
    [
        pytest.param({"start": "recorded"}, MIDNIGHT, id="at its own time"),
        pytest.param({}, 0.0, id="from now on"),
        pytest.param({"repeat": DAY, "rename": {"production": "shop"}}, 7.0, id="for ever and of another cluster"),
    ],
)
async def test_a_policy_follows_a_recorded_day_in_virtual_time(
    options: dict[str, Any], start: float, tmp_path: Path
) -> None:
    of = "production" if "rename" in options else "shop"
    rows = "".join(
        f"{datetime.fromtimestamp(MIDNIGHT + time, UTC)},queue,workload,{of}/Deployment/web,{waiting(time)},,\n"
        for time in range(0, DAY, 30)
    )
    made = await followed(recording(tmp_path, rows, **options), start)
    assert len(made) > DAY / 30
    wished = [math.ceil(waiting((one.at - start) // 30 * 30) / 10) for one in made if one.at < start + DAY]
    assert [one.wish for one in made if one.at < start + DAY] == wished
    assert {one.current for one in made} == set(range(1, 11))
    scaled = [one.replicas - one.current for one in made if one.verdict == "scale"]
    assert scaled == [1] * 9 + [-1] * 9
    assert {one.series[0].source for one in made} == {"recording"}
