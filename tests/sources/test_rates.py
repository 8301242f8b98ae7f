"""Counters made into rates."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.model.workload import Sample
from elasticd.sources.rates import CounterRates


def look(value: float, at: float) -> Sample:
    return Sample(value, at, at + 0.25)


def rated(*looks: tuple[float, float]) -> list[float | None]:
    """The rates after each look: (value, seconds)."""
    rates = CounterRates()
    found = [rates.rate("c", look(value, at)) for value, at in looks]
    return [None if one is None else one.value for one in found]


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        pytest.param([(100, 0)], [None], id="first look"),
        pytest.param([(100, 0), (300, 10)], [None, 20], id="two looks"),
        pytest.param([(100, 0), (300, 10), (300, 20)], [None, 20, 0], id="nothing moved"),
        pytest.param([(0, 0), (10, 10), (10, 10), (10, 10)], [None, 1, 1, 1], id="the same look again"),
        pytest.param([(100, 0), (300, 10), (5, 20), (25, 30)], [None, 20, None, 2], id="it began anew"),
        pytest.param([(100, 0), (300, 10), (5, 10.125), (25, 20.125)], [None, 20, None, 2], id="it began anew at once"),
        pytest.param([(100, 0), (300, 200), (310, 210)], [None, None, 1], id="after a gap"),
        pytest.param([(0, 0), (10, 10), (11, 10.2), (20, 20)], [None, 1, 1, 1], id="looks in a hurry count as one"),
        pytest.param([(0, 0), (20, 20), (10, 10), (30, 30)], [None, 1, 1, 1], id="out of order"),
        pytest.param([(0, 1000), (20, 1020), (30, 10), (50, 20)], [None, 1, None, 2], id="a clock set back"),
        pytest.param([(0, 0), (math.nan, 10), (20, 20), (40, 30)], [None, None, None, 2], id="NaN"),
        pytest.param([(0, 0), (math.inf, 10), (20, 20), (40, 30)], [None, None, None, 2], id="infinite"),
        pytest.param([(0, 0), (-5, 10), (20, 20), (40, 30)], [None, None, None, 2], id="negative"),
    ],
)
def test_rate_is_known_or_not(looks: list[tuple[float, float]], expected: list[float | None]) -> None:
    assert rated(*looks) == expected


def test_a_rate_has_the_later_timestamp_and_its_window() -> None:
    rates = CounterRates()
    rates.rate("c", look(0, 100))
    assert rates.rate("c", look(50, 110)) == Sample(5.0, 110, 110.25, 10.0)


def test_counters_are_apart_and_may_be_forgotten() -> None:
    rates = CounterRates()
    for key in ("a", "b"):
        rates.rate(key, look(0, 0))
    rates.retain(["b"])
    assert rates.rate("a", look(10, 10)) is None
    assert rates.rate("b", look(10, 10)) is not None


@given(st.lists(st.tuples(st.floats(), st.floats(0, 1e6)), max_size=30))
def test_no_rate_is_ever_negative_or_no_number(looks: list[tuple[float, float]]) -> None:
    assert all(rate is None or rate >= 0 for rate in rated(*looks))


@given(st.lists(st.tuples(st.floats(0, 1e12), st.floats(1, 100)), min_size=2, max_size=30), st.integers(1, 29))
def test_no_rate_is_above_the_steepest_step(steps: list[tuple[float, float]], reset: int) -> None:
    value, at, looks = 0.0, 0.0, [(0.0, 0.0)]
    for index, (growth, seconds) in enumerate(steps):
        value, at = (0.0 if index == reset else value) + growth, at + seconds
        looks.append((value, at))
    steepest = max(growth / seconds for growth, seconds in steps)
    assert all(rate is None or rate <= steepest * 1.001 + 1e-3 for rate in rated(*looks))
