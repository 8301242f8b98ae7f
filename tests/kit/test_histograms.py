"""Decayed histograms: the papers' worked examples, and what must hold for any."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.kit.histograms import (
    CPU_BOUNDS,
    CPU_HALF_LIFE,
    DAY,
    MEMORY_BOUNDS,
    MEMORY_HALF_LIFE,
    PERCENTILES,
    STATISTICS,
    Content,
    Histogram,
    after_kill,
    confidence,
    exponential,
    weight,
)

HOUR = 3600.0
START = 1_700_000_000.0


def filled(values: list[float], half_life: float = CPU_HALF_LIFE, bounds: tuple[float, ...] = CPU_BOUNDS) -> Histogram:
    """A minute between each."""
    made = Histogram(bounds, half_life)
    for index, value in enumerate(values):
        made.add(value, START + 60 * index)
    return made


def test_check_ap_1_load_percentiles_show_a_rare_high_use() -> None:
    """The paper prints h[10] = 10 * 10; by its own formula, and its "9/19", it is 10 * 1. Either gives the same p90."""
    made = Histogram((1.0, 10.0), 1e12)
    for value in [1.0] * 9 + [10.0]:
        made.add(value, START)
    assert made.percentiles([0.9], "time") == [1.0]
    assert made.percentiles([0.9], "load") == [10.0]
    assert made.table("load") == [(1.0, 9.0), (10.0, 10.0)]
    printed = [(1.0, 9.0), (10.0, 10.0 * 10.0)]
    assert sum(value for _, value in made.table("load")) == 19
    assert sum(value for _, value in printed) == 109
    assert printed[0][1] < 0.9 * 109


@pytest.mark.parametrize(
    ("hours", "half_life", "expected"),
    [
        pytest.param(0, CPU_HALF_LIFE, 1, id="cpu now"),
        pytest.param(6, CPU_HALF_LIFE, 0.7071, id="cpu 6 h"),
        pytest.param(12, CPU_HALF_LIFE, 0.5, id="cpu 12 h"),
        pytest.param(24, CPU_HALF_LIFE, 0.25, id="cpu 24 h"),
        pytest.param(24, MEMORY_HALF_LIFE, 0.7071, id="memory 24 h"),
        pytest.param(48, MEMORY_HALF_LIFE, 0.5, id="memory 48 h"),
    ],
)
def test_check_ap_2_weights_halve_in_each_half_life(hours: float, half_life: float, expected: float) -> None:
    assert weight(hours * HOUR, half_life) == pytest.approx(expected, abs=5e-5)


def test_buckets_are_those_of_the_vertical_pod_autoscaler() -> None:
    assert CPU_BOUNDS[:3] == pytest.approx((0.01, 0.0205, 0.031525))
    assert CPU_BOUNDS[-2] < 1000 <= CPU_BOUNDS[-1]
    assert MEMORY_BOUNDS[:2] == pytest.approx((1e7, 2.05e7))
    assert MEMORY_BOUNDS[-2] < 1e12 <= MEMORY_BOUNDS[-1]
    assert exponential(1.0, 1.0) == (1.0,)


@pytest.mark.parametrize(
    ("days", "lower", "upper"),
    [
        pytest.param(1, 0.998, 2.0, id="a day"),
        pytest.param(0.01, 0.8264, 101.0, id="a quarter of an hour"),
        pytest.param(8, 0.99975, 1.125, id="eight days"),
        pytest.param(0, 0.0, 1e9, id="nothing yet"),
    ],
)
def test_bounds_of_confidence_close_with_history(days: float, lower: float, upper: float) -> None:
    found = confidence(1.0, 1.0, days)
    assert found[0] == pytest.approx(lower, rel=1e-3, abs=1e-6)
    assert found[1] == pytest.approx(upper, rel=1e-3)


@pytest.mark.parametrize(("memory", "more"), [(0, 1e8), (1e8, 2e8), (5e8, 6e8), (1e9, 1.2e9)])
def test_an_oom_kill_adds_a_fifth_or_100_mb_memory(memory: float, more: float) -> None:
    assert after_kill(memory) == pytest.approx(more)


def test_old_use_fades() -> None:
    made = Histogram(CPU_BOUNDS, CPU_HALF_LIFE)
    for minute in range(60):
        made.add(4.0, START + 60 * minute)
    high = made.percentiles([0.5], "time")[0]
    for minute in range(60):
        made.add(1.0, START + 3 * DAY + 60 * minute)
    assert made.percentiles([0.5, 0.98], "time")[1] < high
    assert made.mean() == pytest.approx(1.0, rel=0.06)
    assert made.highest() == high  # of the days that are remembered
    made.forget(START + 2 * DAY)
    assert made.highest() < high


def test_weights_stay_finite_over_years() -> None:
    made = Histogram(CPU_BOUNDS, CPU_HALF_LIFE)
    for day in range(4000):
        made.add(1.0 if day < 3999 else 3.0, START + day * DAY)
    assert 2 < made.mean() < 3
    assert max(made.content.weights.values()) < 1e30
    assert len(made.content.weights) == 2


def test_a_value_that_was_taken_back_never_was() -> None:
    one, other = filled([1.0, 2.0]), filled([1.0])
    one.take(2.0, START + 60)
    assert [bound for bound, _ in one.table()] == [bound for bound, _ in other.table()]
    assert sum(value for _, value in one.table()) == pytest.approx(sum(value for _, value in other.table()))
    assert one.mean() == pytest.approx(other.mean())
    assert one.content.count == 1


@pytest.mark.parametrize("ask", [Histogram.mean, lambda one: one.percentiles([0.5]), Histogram.statistics])
def test_an_empty_one_says_so(ask: object) -> None:
    with pytest.raises(ValueError, match="is empty"):
        ask(Histogram(CPU_BOUNDS, 60.0))  # type: ignore[operator]


def test_the_table_of_uses_has_each_of_its_statistics() -> None:
    found = filled([0.1] * 92 + [1.0] * 7 + [6.0]).statistics("time")
    assert set(found) == set(STATISTICS)
    assert found["mean"] == pytest.approx((9.2 + 7 + 6) / 100, rel=0.05)
    assert found["p90"] == pytest.approx(0.1, rel=0.15)
    assert found["p98"] == pytest.approx(1.0, rel=0.06)
    assert found["max"] == found["p99"] == pytest.approx(6.0, rel=0.06)
    assert found["intermediate"] == found["max"] / 2


def test_intermediate_is_p60_where_that_is_the_larger() -> None:
    found = filled([1.0] * 100).statistics()
    assert found["intermediate"] == found["p60"] == found["max"]


values = st.lists(st.floats(0, 2000), min_size=1, max_size=40)


@given(values, st.sampled_from(["load", "time"]))
def test_percentiles_rise_and_stay_within_the_range_of_their_buckets(used: list[float], weigh: object) -> None:
    made = filled(used)
    found = made.percentiles(PERCENTILES.values(), weigh)  # type: ignore[arg-type]
    assert found == sorted(found)
    assert made.table("time")[0][0] <= found[0]
    assert found[-1] <= made.highest()
    assert min(used) * (1 - 1e-9) <= made.mean() <= max(used) * (1 + 1e-9) + 1e-9


@given(values)
def test_a_value_is_at_most_a_bucket_below_its_bound(used: list[float]) -> None:
    top, most = filled(used).highest(), min(max(used), 1000)
    assert most <= top <= most * 1.05 + 0.011


@given(values)
def test_the_load_s_percentile_is_never_below_the_time_s(used: list[float]) -> None:
    made = filled(used)
    pairs = zip(made.percentiles([0.5, 0.95], "load"), made.percentiles([0.5, 0.95], "time"), strict=True)
    assert all(load >= time for load, time in pairs)


@given(values)
def test_what_was_remembered_goes_on_as_it_was(used: list[float]) -> None:
    first = filled(used)
    again = Histogram(CPU_BOUNDS, CPU_HALF_LIFE, first.content)
    assert again.statistics() == first.statistics()
    assert Content() == Histogram(CPU_BOUNDS, 60.0).content
