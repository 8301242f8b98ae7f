"""The samples of several subjects at once are those that each of them has, in whatever order they are asked for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.model.workload import Sample, one_by_one, samples_of
from tests.cluster.simulated.test_kit import START, Play, web

CONTAINERS = [{"name": "app", "share": 3}, {"name": "log"}]
KEYS = [f"default/{name}-00000{number}" for name in ("web", "other", "none") for number in range(1, 5)]


def sample(pod: str) -> tuple[Sample, ...]:
    return (Sample(1.0, 1.0, 1.0, pod=pod),)


def test_lookup_in_a_plain_table_skips_subjects_without_samples() -> None:
    table = {"a": sample("a"), "b": (*sample("b"), *sample("c"))}
    assert samples_of(table, ("b", "z", "a")) == (*table["b"], *table["a"])
    assert samples_of(table, ()) == ()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="of one container"),
        pytest.param({"containers": CONTAINERS}, id="of several containers"),
        pytest.param({"demand": {"formula": "1 / (t - 61)"}}, id="of none, as the demand cannot be told"),
        pytest.param({"replicas": 0}, id="of no pod"),
    ],
)
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("series", ["cpu", "memory"])
async def test_a_simulated_series_gives_equal_samples_in_bulk_and_singly(
    options: dict[str, Any], noise: float, series: str
) -> None:
    play = Play(web(**{"replicas": 3, **options}), {"name": "other", "replicas": 2}, metrics={"noise": noise})
    await play.look(61)
    for keys in (tuple(KEYS[:3]), tuple(KEYS[:2]), tuple(KEYS[2::-1]), tuple(KEYS), tuple(KEYS[3:4]), ()):
        at_once, apart = [(await play.cluster.usage(START + t)).pods[series] for t in (61, 61)]
        assert samples_of(at_once, keys) == one_by_one(apart, keys)
        assert samples_of(at_once, keys) == one_by_one(at_once, keys)


@given(st.lists(st.sampled_from(KEYS), max_size=9).map(tuple))
async def test_whatever_is_asked_for_in_one_reading_of_it(keys: tuple[str, ...]) -> None:
    play = Play(web(replicas=3), {"name": "other", "replicas": 2, "start_seconds": 99})
    await play.look(60)
    series = (await play.cluster.usage(START + 60)).pods["cpu"]
    assert samples_of(series, keys) == one_by_one(series, keys)
    assert [one.pod for one in samples_of(series, keys)] == [
        key.removeprefix("default/") for key in keys if key in KEYS[:3]
    ]
