"""What a recording holds: tracks by series and key, in order of time, under the names that were asked for."""

import sys
from pathlib import Path

import pytest

from elasticd.base.errors import ConfigError
from elasticd.sources.recorded import Track, load

HEADER = "time,series,subject,key,value,window,container\n"
ROWS = """\
30,cpu,pod,shop/web-1,3,15,web
10,cpu,pod,shop/web-1,1,0,web
20,cpu,pod,shop/web-1,2,10,web
20,cpu,pod,shop/web-1,2.5,12,web
10,cpu,pod,shop/web-1,0.1,0,log
40,queue,workload,shop/Deployment/web,7,0,
15,rx,node,shop,9,0,
"""


def written(folder: Path, rows: str = ROWS) -> Path:
    path = folder / "day.csv"
    path.write_text(HEADER + rows)
    return path


def test_rows_are_sorted_and_the_last_of_equal_times_counts(tmp_path: Path) -> None:
    web, log = load(written(tmp_path)).pods["cpu"]["shop/web-1"]
    assert (web.container, log.container) == ("web", "log")
    assert (list(web.times), list(web.values)) == ([10, 20, 20, 30], [1, 2, 2.5, 3])
    assert [web.window(index) for index in range(4)] == [0, 10, 12, 15]
    assert [web.latest(time) for time in (9, 10, 19.9, 20, 29, 1000)] == [-1, 0, 0, 2, 2, 3]
    assert (list(log.times), log.window(0)) == ([10], 0)


def test_a_recording_knows_its_first_and_last_time(tmp_path: Path) -> None:
    found = load(written(tmp_path))
    assert (found.first, found.last) == (10, 40)
    assert (set(found.pods), set(found.workloads), set(found.nodes)) == ({"cpu"}, {"queue"}, {"rx"})


def test_only_the_requested_series_are_loaded_and_counted(tmp_path: Path) -> None:
    found = load(written(tmp_path), series=["queue"], most=1)
    assert (set(found.workloads), found.pods, found.nodes) == ({"queue"}, {}, {})
    assert (found.first, found.last) == (10, 40)  # of the whole file: two who read it must not drift apart
    with pytest.raises(ConfigError, match="must have a sample of the series lag, load, has none"):
        load(written(tmp_path), series=["load", "lag"])


def test_more_samples_than_may_be_held_are_refused(tmp_path: Path) -> None:
    assert load(written(tmp_path), most=7).last == 40
    with pytest.raises(ConfigError, match=r"day.csv: must have at most 6 samples \(max_samples\), has more"):
        load(written(tmp_path), most=6)


def test_namespaces_and_whole_keys_are_renamed(tmp_path: Path) -> None:
    rename = {"shop": "test", "shop/Deployment/web": "front/StatefulSet/web"}
    found = load(written(tmp_path), rename=rename)
    assert set(found.pods["cpu"]) == {"test/web-1"}
    assert set(found.workloads["queue"]) == {"front/StatefulSet/web"}
    assert set(found.nodes["rx"]) == {"test"}  # a node of that very name is meant too


def test_two_subjects_never_become_one(tmp_path: Path) -> None:
    path = written(tmp_path, ROWS + "50,cpu,pod,test/web-1,1,0,web\n")
    with pytest.raises(ConfigError) as problem:
        load(path, rename={"test": "shop"})
    told = 'line 9: key: must not become "shop/web-1" by rename, as "shop/web-1" does, is "test/web-1"'
    assert str(problem.value) == f"{path}: {told}"


def test_a_sample_takes_16_bytes_or_24_with_its_window() -> None:
    for window, bytes_each in ((0.0, 16), (15.0, 24)):
        track = Track()
        for time in range(10_000):
            track.add(float(time), 1.0, window)
        held = sum(sys.getsizeof(column) for column in (track.times, track.values, track.windows))
        assert held / 10_000 < bytes_each * 1.15
