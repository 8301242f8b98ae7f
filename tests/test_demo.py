"""What `make demo` promises, in virtual time: the shipped settings and policies, through the daemon's own loop."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from elasticd.config import load_settings
from elasticd.model.records import Decision, Outcome
from elasticd.registry import discover
from tests.kit.daemons import PATIENCE
from tests.kit.demos import DAY, DEMO, START, play
from tests.kit.placers import Heard
from tests.kit.policies import read_right

STARTS_UP = 12.0
"""Seconds that a pod of the catalog takes."""


@pytest.fixture(scope="module")
def told() -> Heard:
    return play()


def decisions(told: Heard, name: str) -> list[Decision]:
    return [one for one in told.made if one.workload.name == name]


def outcomes(told: Heard, name: str) -> list[Outcome]:
    return [one for one in told.outcomes if one.workload.name == name]


def changes(told: Heard, name: str) -> list[tuple[float, int, int]]:
    """When the count changed, in seconds since the start, and from what to what."""
    begun = told.made[0].at
    return [(one.at - begun, one.before, one.after) for one in outcomes(told, name) if one.before != one.after]


def appears(wanted: list[float], found: list[float]) -> bool:
    """Whether these are among those in this order, whatever is between them."""
    rest = iter(found)
    return all(value in rest for value in wanted)


@pytest.mark.slow
def test_the_shop_is_polled_faster_during_its_rush(told: Heard) -> None:
    intervals = [interval for interval, _ in groupby(one.interval for one in decisions(told, "checkout"))]
    assert set(intervals) == {1, 10, 30}
    assert appears([30, 10, 1, 10, 30], intervals), intervals
    assert {one.interval_by for one in decisions(told, "checkout")} == {"cadence"}


def test_no_plugin_fails(told: Heard) -> None:
    assert [one.failures for one in told.made if one.failures] == []
    assert [one.failures for one in told.placings if one.failures] == []


def test_it_has_a_policy_for_each_family_of_strategies() -> None:
    registry = discover()
    policies, _ = read_right(load_settings(DEMO, registry).policies, registry)
    used = {str(type(one).__struct_config__.tag) for policy in policies for one in policy.strategies}
    reactive, others = {"hpa", "cadence", "step-tolerance", "burst"}, {"schedule", "forecast", "event", "jobs"}
    assert used >= reactive | others | {"vertical", "spread"}


def test_each_video_gets_a_job_and_at_most_six_run() -> None:
    told = play(only="transcode", seconds=140)  # until the last of the second eight has run
    created = sum(max(0, one.after - one.before) for one in outcomes(told, "transcode"))
    assert created == 16  # of two times eight
    assert max(one.current for one in decisions(told, "transcode")) == 6


@pytest.mark.parametrize("name", ["checkout", "mailer", "search", "api", "thumbnails", "catalog"])
def test_every_workload_scales_out_and_in(told: Heard, name: str) -> None:
    found = changes(told, name)
    assert {one.result for one in outcomes(told, name)} == {"done"}
    assert any(after > before for _, before, after in found)
    assert any(after < before for _, before, after in found)


def test_the_search_scales_up_in_one_step_and_down_gradually(told: Heard) -> None:
    (rush, before, after), *gradual = changes(told, "search")
    assert (before, after) == (2, 9)
    assert 30 <= rush <= 41  # its rush comes at 30 s, and it is looked at every 10
    assert gradual
    assert all(0 < before - after <= 4 for _, before, after in gradual)
    assert gradual[-1][2] == 2


def test_the_searchs_pods_on_elastic_nodes_are_removed_first(told: Heard) -> None:
    first, *_ = [one for one in decisions(told, "search") if one.action and one.replicas < one.current]
    chosen = [mark.reason for mark in first.marks if mark.pod]
    assert len(chosen) == 4
    assert all("elastic has" in reason for reason in chosen)


def test_the_api_follows_its_burst_and_holds_for_the_window(told: Heard) -> None:
    ups = [at for at, before, after in changes(told, "api") if after > before]
    downs = [at for at, before, after in changes(told, "api") if after < before]
    assert 42 <= ups[0] <= 44  # the burst lasts from 42 s to 50 s
    assert ups[-1] <= 46
    assert min(downs) >= 42 + 20  # the first second of the burst leaves the window of 20 s
    assert max(after for _, _, after in changes(told, "api")) == 9


def test_thumbnails_scale_to_zero_and_wake_with_the_first_picture(told: Heard) -> None:
    found = [(before, after) for _, before, after in changes(told, "thumbnails")]
    assert found == [(1, 0), (0, 4), (4, 1), (1, 0)]
    wakes = changes(told, "thumbnails")[1][0]
    assert 25 <= wakes <= 31  # the pictures come at 25 s


def test_the_warehouse_requests_what_it_uses_and_its_count_stays(told: Heard) -> None:
    resized = [one for made in decisions(told, "warehouse") for one in made.sizing.resizes]
    assert {one.pod for one in resized} == {"warehouse-000001", "warehouse-000002"}
    for pod in ("warehouse-000001", "warehouse-000002"):
        last = [one.after["warehouse"] for one in resized if one.pod == pod]
        cpu = [one["cpu"] for one in last if "cpu" in one][-1]
        memory = [one["memory"] for one in last if "memory" in one][-1]
        assert 0.2 <= cpu < 0.8  # of 0.175 to 0.225 cores that it uses, and 0.8 that it requested
        assert memory > 400 * 2**20  # that it uses, and 256 MiB that it requested
    assert {one.current for one in decisions(told, "warehouse")} == {2}


def test_each_film_frame_is_bound_on_arrival_where_allowed(told: Heard) -> None:
    placed = [(round(at - START), name, node) for at, name, node in told.did("bind") if name.startswith("frame")]
    assert {node for _, _, node in placed} == {"render-1", "render-2"}
    first = {name: at for at, name, _ in reversed(placed)}
    assert first == {f"frame-{number}": 6 * (number - 1) for number in range(1, len(first) + 1)}
    assert len(first) == 20


def test_a_poster_waiting_for_a_better_card_is_reported_once(told: Heard) -> None:
    found = [(round(one.at - START), one.verdict, one.reason) for one in told.placings if one.pod.name == "poster"]
    assert found == [(10, "wait", "NoNodeMatches"), (40, "bind", "Placed")]
    assert {node for _, name, node in told.did("bind") if name == "poster"} == {"render-2"}


def test_frames_give_way_for_the_trailer_and_come_back(told: Heard) -> None:
    verdicts = [one.verdict for one in told.placings if one.pod.name == "trailer-1"]
    assert (verdicts[0], verdicts[-1]) == ("preempt", "bind")
    gone = told.did("evict")
    assert gone
    assert all(name.startswith("frame") for _, name, _ in gone)
    again = [(at, name) for at, name, _ in told.did("bind") if name in {name for _, name, _ in gone}]
    assert sorted(name for _, name in again) == sorted([name for _, name, _ in gone] * 2), "each twice"
    assert all(at - START < 80 for at, _ in again)


@pytest.mark.slow
@pytest.mark.parametrize("begun", [0, 35, 70], ids=lambda begun: f"begun {begun} s after an even minute")
def test_the_catalog_is_ready_before_its_crowd_at_any_start(begun: int) -> None:
    found = play(START + begun, "catalog")
    crowd = START + DAY * (begun > 40) + 60  # the first of which the demo sees what comes before
    ready = [
        (one.after, one.at + STARTS_UP)
        for one in found.outcomes
        if crowd - 20 <= one.at <= crowd and one.after > one.before
    ]
    assert [count for count, _ in ready] == [5]
    assert ready[0][1] <= crowd
    raised = [one for one in found.made if one.at <= crowd and one.reason == "ForecastAbove" and one.action]
    assert raised, "a forecast counts"


@pytest.mark.parametrize(
    ("reason", "holds"),
    [
        pytest.param("ScheduledFloor", lambda one: one.replicas == 3, id="the schedule raises it before the day"),
        pytest.param("ForecastAbove", lambda one: one.replicas == 5, id="the forecast before the crowd"),
        pytest.param("ScheduledBounds", lambda one: one.replicas == 5 < one.wish, id="the database bounds it"),
        pytest.param("All metrics below target", lambda one: one.replicas == 2, id="the HPA lets go"),
    ],
)
def test_each_strategy_and_limit_of_the_catalog_counts_in_turn(
    told: Heard, reason: str, holds: Callable[[Decision], bool]
) -> None:
    assert any(holds(one) for one in decisions(told, "catalog") if one.reason == reason)


def requests(second: int) -> float:
    """What catalog.csv was made by. A crowd between seconds 60 and 100 of a day; and 5 % either way by chance, the same
    chance every time."""
    crowd = 60 <= second % DAY < 100
    chance = (second * 7919 % 1009) / 1009 - 0.5
    return round((36 + 120 * crowd) * (1 + 0.1 * chance), 1)


def test_the_catalog_s_recording_is_its_formula() -> None:
    first, days, step = 1_577_836_800, 12, 2
    rows = [f"{first + s},requests,workload,shop/Deployment/catalog,{requests(s)}" for s in range(0, days * DAY, step)]
    expected = "\n".join(["time,series,subject,key,value", *rows, ""])
    assert (DEMO.parent / "catalog.csv").read_text() == expected
    assert first % (days * DAY) == 0  # so that a day begins with an even minute


def test_the_demo_begins_with_what_to_watch_and_where(tmp_path: Path) -> None:
    elasticd = tmp_path / "elasticd"
    elasticd.write_text('#!/bin/sh\necho "runs $4"\n')
    elasticd.chmod(0o755)
    environment = {**os.environ, "DEMO_PORT": "12345", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["sh", DEMO.parent / "demo.sh", elasticd, DEMO],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "Watch http://127.0.0.1:12345/:" in done.stdout
    (config,) = re.findall(rf"^In another terminal: {elasticd} explain \S+ --config (\S+)$", done.stdout, re.MULTILINE)
    assert f"runs {config}\n" in done.stdout
    settings, shipped = load_settings(Path(config), discover()), load_settings(DEMO, discover())
    assert settings.http.port == 12345
    assert settings.policies == shipped.policies
    assert settings.sources == shipped.sources
    assert settings.state.resolve() == shipped.state.resolve().with_name("demo-12345")


@pytest.mark.parametrize(
    ("broker", "daemon"),
    [
        pytest.param("kill $PPID; sleep 0.1", "exec sleep 60", id="before there is a daemon"),
        pytest.param("exec sleep 60", "kill $PPID; exec sleep 60", id="as the daemon begins"),
    ],
)
def test_the_demo_ends_whenever_it_is_told(tmp_path: Path, broker: str, daemon: str) -> None:
    for name, text in (("mosquitto", broker), ("elasticd", daemon)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "DEMO_PORT": "12345", "PATH": f"{tmp_path}:/usr/bin:/bin"}
    command: list[str | Path] = ["sh", DEMO.parent / "demo.sh", tmp_path / "elasticd", DEMO]
    # A process that is left would keep the pipe open.
    done = subprocess.run(command, check=False, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, timeout=PATIENCE)
    assert done.returncode == 128 + signal.SIGTERM


@pytest.mark.slow
def test_two_runs_are_equal_under_different_hash_seeds() -> None:
    code = """
from tests.kit.demos import play
told = play(told_by_others=False)
print([(one.at, one.id, one.replicas, one.interval) for one in told.made])
print([(one.at, one.id, one.verdict, one.node, one.message) for one in told.placings])
"""
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parent.parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(runs[0]) > 1000
    assert runs[0] == runs[1]
