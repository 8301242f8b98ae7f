"""The cadence: 30, 10 or 1 s by the base thresholds of the double-threshold paper."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from elasticd.api import Container, Observation, Quality
from elasticd_plugins.cadence import Cadence, register_strategies
from tests.kit.plugins.builders import before, decode, pod, pods, sample, seen, series, use

FAST, MEDIUM, SLOW = 1.0, 10.0, 30.0


def loaded(*values: float | None, quality: Quality = Quality.FRESH) -> Observation:
    return seen(len(values), pods(len(values)), series(use(*values), "cpu", quality))


@pytest.mark.parametrize(
    ("load", "interval", "expected"),
    [
        pytest.param(0.5, None, SLOW, id="at alpha"),
        pytest.param(0.501, None, MEDIUM, id="above alpha"),
        pytest.param(0.8, None, MEDIUM, id="at beta"),
        pytest.param(0.801, None, FAST, id="above beta"),
        pytest.param(0.0, None, SLOW, id="idle"),
        pytest.param(5.0, SLOW, FAST, id="up at once"),
        pytest.param(0.501, SLOW, MEDIUM, id="up one step"),
        pytest.param(0.8, SLOW, MEDIUM, id="no hysteresis on the way up"),
        pytest.param(0.75, FAST, FAST, id="fast stays at beta - hysteresis"),
        pytest.param(0.749, FAST, MEDIUM, id="fast is left below it"),
        pytest.param(0.45, FAST, MEDIUM, id="not slow yet"),
        pytest.param(0.449, FAST, SLOW, id="two steps down"),
        pytest.param(0.45, MEDIUM, MEDIUM, id="medium stays at alpha - hysteresis"),
        pytest.param(0.449, MEDIUM, SLOW, id="medium is left below it"),
        pytest.param(0.75, MEDIUM, MEDIUM, id="medium does not get faster"),
        pytest.param(0.46, 15.0, SLOW, id="another's 15 s is slow"),
        pytest.param(0.46, 5.0, MEDIUM, id="another's 5 s is medium"),
    ],
)
def test_thresholds_with_hysteresis(load: float, interval: float | None, expected: float) -> None:
    assert Cadence().poll_interval(loaded(load), before(interval=interval)) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([0.3, 0.3], MEDIUM, id="0.6 in all"),
        pytest.param([0.25, 0.25], SLOW, id="exactly alpha"),
        pytest.param([0.4, 0.4], MEDIUM, id="exactly beta"),
        pytest.param([0.5, 0.5], FAST, id="1.0 in all"),
    ],
)
def test_the_papers_mode_adds_up_and_has_no_hysteresis(values: list[float], expected: float) -> None:
    paper = Cadence(mode="paper")
    for interval in (None, FAST, MEDIUM, SLOW):
        assert paper.poll_interval(loaded(*values), before(interval=interval)) == expected


def test_the_papers_worked_example() -> None:
    """DHPA-1: 3.49 % at 1 s polls every 30 s, 100 % at 30 s every second."""
    paper = Cadence(mode="paper")
    assert [paper.poll_interval(loaded(load), before()) for load in (0.0349, 0.99999999999)] == [SLOW, FAST]


UNKNOWN = [
    pytest.param(seen(2, pods(2)), id="no series"),
    pytest.param(loaded(None, None), id="no samples"),
    pytest.param(loaded(0.9, 0.9, quality=Quality.STALE), id="stale"),
    pytest.param(loaded(0.9, 0.9, quality=Quality.INVALID), id="invalid"),
    pytest.param(loaded(0.9, 0.9, quality=Quality.ERROR), id="failed"),
    pytest.param(seen(1, pods(1, None), series(use(0.9))), id="no requests"),
    pytest.param(seen(1, pods(1, 0.0), series(use(0.9))), id="requests of 0"),
    pytest.param(seen(1, [], series(use(0.9))), id="no pods"),
]


@pytest.mark.parametrize("observation", UNKNOWN)
@pytest.mark.parametrize(("interval", "expected"), [(None, MEDIUM), (FAST, FAST), (SLOW, SLOW), (15.0, 15.0)])
def test_the_unknown_keeps_the_interval(observation: Observation, interval: float | None, expected: float) -> None:
    assert Cadence().poll_interval(observation, before(interval=interval)) == expected


def test_only_pods_with_both_count_and_containers_add_up() -> None:
    two = (Container("a", {"cpu": 0.5}), Container("b", {"cpu": 0.5}))
    of = [pod("p0", containers=two), pod("p1", None), pod("p2", requests={"cpu": 9.0}), pod("p3")]
    samples = [sample("p0", 0.3, "a"), sample("p0", 0.3, "b"), sample("p1", 9.0), sample("p2", 5.4)]
    assert Cadence().poll_interval(seen(4, of, series(samples)), before()) == MEDIUM  # 6 of 10


def test_the_requests_are_those_of_the_pods_that_are_shown() -> None:
    samples = series([sample("p0", 0.6)])
    small, large = (
        seen(1, [pod("p0", requests={"cpu": 0.6})], samples),
        seen(1, [pod("p0", requests={"cpu": 6.0})], samples),
    )
    assert [Cadence().poll_interval(one, before()) for one in (small, large, small)] == [FAST, SLOW, FAST]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.8}, "^beta: must be > alpha = 0.8, is 0.8"),
        ({"hysteresis": 0.5}, "^hysteresis: must be < alpha = 0.5, is 0.5"),
        ({"hysteresis": -0.1}, ">= 0"),
        ({"fast": 11}, "^fast: must be <= medium = 10, is 11"),
        ({"medium": 31}, "^medium: must be <= slow = 30, is 31"),
        ({"alpha": 0}, "> 0"),
        ({"fast": 0}, ">= 0.1"),
        ({"mode": "quick"}, "quick"),
    ],
)
def test_what_contradicts_itself_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        decode(Cadence, **options)


def test_one_interval_for_all_is_accepted() -> None:
    assert decode(Cadence, fast=5, medium=5, slow=5).poll_interval(loaded(0.9), before()) == 5


def test_it_is_registered() -> None:
    assert register_strategies() == [Cadence]
    assert Cadence(series="memory").reads() == ("memory",)


@given(load=some.floats(0, 2), more=some.floats(0, 2), interval=some.sampled_from([None, FAST, MEDIUM, SLOW]))
def test_more_load_never_slows(load: float, more: float, interval: float | None) -> None:
    past = before(interval=interval)
    assert Cadence().poll_interval(loaded(load + more), past) <= Cadence().poll_interval(loaded(load), past)
