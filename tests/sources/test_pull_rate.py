"""How fast nodes pull images."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from elasticd.base.clock import VirtualClock
from elasticd.model.workload import Readings
from elasticd.ports.metrics_api import Pull
from elasticd.ports.source import Reader
from elasticd.sources import pull_rate as module
from elasticd.sources.pull_rate import RATE, SECONDS, PullRate, mean_rate, register_sources
from elasticd.testing import site
from tests.kit.clusters import Scripted

NOW = 10_000.0


def pull(key: str = "u/1", node: str = "n1", ago: float = 0.0, seconds: float = 2.0, size: int | None = 100) -> Pull:
    return Pull(key, node, NOW - ago, seconds, size)


@asynccontextmanager
async def told(*pulls: Pull, window: float = 600.0) -> AsyncIterator[tuple[Reader, Scripted]]:
    """A reader that was told of these pulls."""
    cluster = Scripted()
    async with PullRate(window=window).open(site(cluster, VirtualClock(NOW))) as reader:
        assert cluster.pulled is not None
        for one in pulls:
            cluster.pulled(one)
        yield reader, cluster


def values(readings: Readings, series: str) -> dict[str, float]:
    return {node: sample.value for node, (sample,) in readings.nodes[series].items()}


@pytest.mark.parametrize(
    ("pulls", "rate"),
    [
        pytest.param([(2.0, 100)], 50.0, id="one"),
        pytest.param([(1.0, 100), (9.0, 900), (10.0, 1000)], 100.0, id="large ones count for more"),
        pytest.param([(2.0, 100), (500.0, None)], 50.0, id="one without a size does not slow the rest"),
        pytest.param([(2.0, None), (3.0, None)], None, id="no size is no rate"),
        pytest.param([(0.0, 100)], None, id="no time is no rate"),
        pytest.param([], None, id="no pull is no rate"),
    ],
)
def test_rate_is_all_bytes_by_all_seconds(pulls: list[tuple[float, int | None]], rate: float | None) -> None:
    assert mean_rate([Pull("u", "n", 0.0, seconds, size) for seconds, size in pulls]) == rate


async def test_each_node_has_its_rate_and_its_mean_time() -> None:
    pulls = [
        pull("a", ago=30),
        pull("b", seconds=4, ago=10),
        pull("c", "n2", seconds=8, ago=20),
        pull("d", "n3", size=None),
    ]
    async with told(*pulls) as (reader, _):
        found = await reader.read(NOW)
    assert (found.source, found.error, found.faults) == ("pull-rate", "", {})
    assert values(found, RATE) == {"n1": pytest.approx(200 / 6), "n2": 12.5}
    assert values(found, SECONDS) == {"n1": 3.0, "n2": 8.0, "n3": 2.0}
    (sample,) = found.nodes[RATE]["n1"]
    assert (sample.measured, sample.received, sample.window) == (NOW - 10, NOW, 600.0)


async def test_pull_that_is_reported_again_counts_once() -> None:
    async with told(pull(seconds=1), pull(seconds=1), pull("other", seconds=3)) as (reader, _):
        assert values(await reader.read(NOW), SECONDS) == {"n1": 2.0}


async def test_pull_counts_as_long_as_the_window() -> None:
    async with told(pull("a", ago=601), pull("b", ago=600, seconds=1), pull("c", "n2")) as (reader, _):
        assert values(await reader.read(NOW), SECONDS) == {"n1": 1.0, "n2": 2.0}
        assert values(await reader.read(NOW + 1), SECONDS) == {"n2": 2.0}
        assert values(await reader.read(NOW + 601), SECONDS) == {}


async def test_pull_of_the_future_does_not_count() -> None:
    async with told(pull(ago=-3600)) as (reader, _):
        assert values(await reader.read(NOW), SECONDS) == {}


async def test_only_so_many_are_kept_the_newest_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    async with told(*[pull(str(index), f"n{index}") for index in range(10)]) as (reader, _):
        assert list(values(await reader.read(NOW), SECONDS)) == ["n7", "n8", "n9"]


async def test_what_was_told_stands_while_events_cannot_be_followed() -> None:
    async with told(pull()) as (reader, cluster):
        cluster.following.problem = "403 Forbidden"
        found = await reader.read(NOW)
        assert (values(found, RATE), found.error) == ({"n1": 50.0}, "")
        assert found.faults == {RATE: "403 Forbidden", SECONDS: "403 Forbidden"}
        assert await reader.read(NOW + 601) == Readings("pull-rate", NOW + 601, error="403 Forbidden")


async def test_a_simulated_cluster_pulls_nothing_and_says_so() -> None:
    async with PullRate(name="pulls").open(site()) as reader:
        assert await reader.read(NOW) == Readings("pulls", NOW, error="a simulated cluster pulls no images")


async def test_following_ends_with_the_source() -> None:
    async with told() as (_, cluster):
        assert cluster.pulled is not None
    assert cluster.pulled is None


def test_it_is_registered_under_its_name_in_toml() -> None:
    (source,) = register_sources()
    assert msgspec.convert({"type": "pull-rate", "window": 60}, source) == PullRate(window=60)
    assert PullRate().offers() == (RATE, SECONDS)
