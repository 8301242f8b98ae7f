"""What `make demo` promises, in virtual time: the shipped settings and policies, through the daemon's own loop."""

import asyncio
from itertools import groupby
from pathlib import Path

import pytest

from elasticd.cluster.simulated import Simulated
from elasticd.config import load_policies, load_settings
from elasticd.plugins import discover
from elasticd.records import Decision, Outcome
from elasticd.testing import simulate
from tests.test_loop import Told

DEMO = Path(__file__).parent.parent / "config" / "demo" / "elasticd.toml"
SECONDS = 120.0


@pytest.fixture(scope="module")
def told() -> Told:
    """What the demo decides and does in its first two minutes."""
    registry, told = discover(), Told()
    settings = load_settings(DEMO, registry)
    policies, errors = load_policies(settings.policies, registry)
    assert errors == []
    assert isinstance(settings.cluster, Simulated)
    asyncio.run(simulate(settings.cluster, policies, SECONDS, sources=settings.sources, listeners=[told]))
    return told


def decisions(told: Told, name: str) -> list[Decision]:
    return [one for one in told.made if one.workload.name == name]


def outcomes(told: Told, name: str) -> list[Outcome]:
    return [one for one in told.outcomes if one.workload.name == name]


def appears(wanted: list[float], found: list[float]) -> bool:
    """Whether these are among those in this order, whatever is between them."""
    rest = iter(found)
    return all(value in rest for value in wanted)


def test_the_shop_is_looked_at_every_30_10_and_1_s_and_back_as_its_rush_comes_and_goes(told: Told) -> None:
    intervals = [interval for interval, _ in groupby(one.interval for one in decisions(told, "checkout"))]
    assert set(intervals) == {1, 10, 30}
    assert appears([30, 10, 1, 10, 30], intervals), intervals
    assert {one.interval_by for one in decisions(told, "checkout")} == {"cadence"}


def test_no_plugin_fails(told: Told) -> None:
    assert [one.failures for one in told.made if one.failures] == []


def test_each_video_has_a_job_of_its_own_and_six_at_most_run_at_once(told: Told) -> None:
    created = sum(max(0, one.after - one.before) for one in outcomes(told, "transcode"))
    assert created == 16  # of two times eight
    assert max(one.current for one in decisions(told, "transcode")) == 6


@pytest.mark.parametrize("name", ["checkout", "mailer"])
def test_both_workloads_scale_out_and_in(told: Told, name: str) -> None:
    changes = [(one.before, one.after) for one in outcomes(told, name)]
    assert {one.result for one in outcomes(told, name)} == {"done"}
    assert any(after > before for before, after in changes)
    assert any(after < before for before, after in changes)
