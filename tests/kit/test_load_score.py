"""The load score: the thesis's tables, to the digits it prints, and what must hold of any pool."""

from math import exp, isnan, log, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.kit.load_score import average, average_score, balance_score, idleness, load_score, std_score, swiftness
from elasticd.model.placement import Column

HALF = (0.5, 0.5)


def column(*values: float) -> Column:
    return np.array(values, dtype=np.float64)


# Table 6-12: node1, node2 and node3, with 10, 16 and 34 pods.
CPU_SCORES, MEM_SCORES = column(0.94, 1.12, 1.06), column(1.01, 1.07, 0.84)
TABLE_6_12 = column(-0.26, 0.90, -0.58)


def test_t_1_table_6_12_comes_out_as_printed() -> None:
    scores = load_score(zip(HALF, (CPU_SCORES, MEM_SCORES), strict=True))
    assert scores == pytest.approx([-0.2596, 0.9049, -0.5804], abs=5e-5)
    assert np.round(scores, 2).tolist() == TABLE_6_12.tolist()
    assert average_score(scores) == pytest.approx(0.0216, abs=5e-5)
    assert std_score(scores) == pytest.approx(0.6382, abs=5e-5)


def uses(mean: float, ratios: Column) -> Column:
    return mean / ratios


@pytest.mark.parametrize(
    ("coefficients", "cpu", "mem"),
    [
        pytest.param((1, 2, 4), 0.946, 1.089, id="1 to 2 to 4, as table 6-1 has the nodes"),
        pytest.param((4, 2, 1), 0.998, 1.003, id="4 to 2 to 1, as the means were reckoned"),
    ],
)
def test_t_2_only_reversed_coefficients_explain_the_printed_means(
    coefficients: tuple[float, ...], cpu: float, mem: float
) -> None:
    """(5-8) makes sum(w / cpuScore) = sum(w); rounding explains 0.005 of difference."""
    weights = column(*coefficients)
    assert (weights / CPU_SCORES).sum() / weights.sum() == pytest.approx(cpu, abs=5e-4)
    assert (weights / MEM_SCORES).sum() / weights.sum() == pytest.approx(mem, abs=5e-4)


@pytest.mark.parametrize(
    ("coefficients", "cpu", "mem", "scores"),
    [
        pytest.param((4, 2, 1), (0.94, 1.12, 1.06), (1.01, 1.07, 0.84), (-0.26, 0.90, -0.58), id="reversed: printed"),
        pytest.param((1, 2, 4), (0.889, 1.060, 1.003), (1.100, 1.165, 0.915), (-0.11, 1.05, -0.43), id="right"),
    ],
)
def test_t_2_table_6_12_scores_follow_either_coefficient_order(
    coefficients: tuple[float, ...], cpu: tuple[float, ...], mem: tuple[float, ...], scores: tuple[float, ...]
) -> None:
    weights = column(*coefficients)
    ratios = [idleness(uses(0.3, printed), weights) for printed in (CPU_SCORES, MEM_SCORES)]
    assert ratios[0] == pytest.approx(cpu, abs=4e-3)
    assert ratios[1] == pytest.approx(mem, abs=4e-3)
    assert load_score(zip(HALF, ratios, strict=True)) == pytest.approx(scores, abs=2e-2)


def test_the_balance_score_of_the_thesis_example() -> None:
    assert balance_score(column(0.7), column(0.3)) == pytest.approx([6.0])


def test_the_balance_score_uses_the_two_resources_farthest_apart() -> None:
    assert balance_score(column(0.7, nan), column(0.3, 0.5), column(0.1, 0.5)) == pytest.approx([4.0, nan], nan_ok=True)


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        pytest.param((0.3, 0.6, 0.9), (2.0, 1.0, 2 / 3), id="by the mean"),
        pytest.param((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), id="idle pool"),
        pytest.param((0.0, 0.01, 0.0099), (1.0, 1.0, 1.0), id="as good as idle"),
        pytest.param((0.0, 0.6, 0.3), (30.333, 0.506, 1.011), id="one idle counts as 1 %"),
        pytest.param((nan, 0.2, 0.4), (nan, 1.5, 0.75), id="one unknown is not in the mean"),
        pytest.param((nan, nan, nan), (nan, nan, nan), id="all unknown"),
        pytest.param((0.01, 0.01, 60.0), (1000.0, 1000.0, 1 / 3), id="at most a thousand times"),
    ],
)
def test_idleness_is_the_mean_use_over_ones_own(use: tuple[float, ...], expected: tuple[float, ...]) -> None:
    assert idleness(column(*use), np.ones(3)) == pytest.approx(expected, abs=5e-4, nan_ok=True)


def test_a_node_without_a_coefficient_is_excluded_from_the_mean() -> None:
    assert idleness(column(0.2, 0.4, 0.9), column(1, 1, nan)) == pytest.approx([1.5, 0.75, 1 / 3])
    assert np.isnan(idleness(column(0.2, 0.4), column(nan, nan))).all()


def test_with_what_is_expected_of_each_node_the_mean_stays() -> None:
    now, then = column(0.2, 0.4), column(0.3, 0.6)
    assert idleness(now, np.ones(2), then) == pytest.approx([1.0, 0.5])


@pytest.mark.parametrize(
    ("speed", "expected"),
    [
        pytest.param((10.0, 20.0, 30.0), (0.5, 1.0, 1.5), id="by the mean"),
        pytest.param((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), id="all stand still"),
        pytest.param((0.0, 30.0, 30.0), (0.001, 1.5, 1.5), id="one stands still: a thousandth"),
        pytest.param((nan, 10.0, 30.0), (nan, 0.5, 1.5), id="one unknown"),
        pytest.param((nan, nan, nan), (nan, nan, nan), id="all unknown"),
    ],
)
def test_swiftness_is_ones_own_speed_over_the_mean(speed: tuple[float, ...], expected: tuple[float, ...]) -> None:
    assert swiftness(column(*speed)) == pytest.approx(expected, nan_ok=True)


NOTHING = column(nan, nan)


@pytest.mark.parametrize(
    ("loads", "speeds", "expected"),
    [
        pytest.param([(0.5, column(2, 0.5)), (0.5, column(2, 0.5))], [], (10 * log(2), -10 * log(2)), id="all known"),
        pytest.param([(0.5, column(2, 0.5)), (0.5, NOTHING)], [], (10 * log(2), -10 * log(2)), id="a load of nobody"),
        pytest.param([(0.5, column(2, 0.5)), (0.5, column(1, nan))], [], (5 * log(2), nan), id="a load of one"),
        pytest.param([(0.5, column(2, 0.5))], [(0.5, NOTHING)], (10 * log(2), -10 * log(2)), id="a speed of nobody"),
        pytest.param([(0.5, column(2, 0.5))], [(0.5, column(nan, 2))], (5 * log(2), 0.0), id="a speed of one: mean"),
        pytest.param([(0.5, NOTHING)], [(0.5, column(2, 1))], (10 * log(2), 0.0), id="speeds alone"),
        pytest.param([(0.5, NOTHING)], [(0.5, NOTHING)], (nan, nan), id="nothing known"),
        pytest.param([(1.0, column())], [], (), id="no nodes"),
    ],
)
def test_what_is_not_known_is_never_taken_for_idle(
    loads: list[tuple[float, Column]], speeds: list[tuple[float, Column]], expected: tuple[float, ...]
) -> None:
    assert load_score(loads, speeds) == pytest.approx(expected, nan_ok=True)


def test_a_difference_of_rounding_is_none() -> None:
    assert load_score([(1.0, np.nextafter(np.ones(2), column(0, 2)))]).tolist() == [0.0, 0.0]
    assert load_score([(1.0, column(1 - 1e-6, 1 + 1e-6))]).tolist() != [0.0, 0.0]


@given(st.floats(0.01, 1.0), st.lists(st.floats(0.1, 64.0), min_size=1, max_size=20))
def test_equally_loaded_nodes_have_exactly_0(use: float, weights: list[float]) -> None:
    assert not load_score([(1.0, idleness(np.full(len(weights), use), np.array(weights)))]).any()


def test_a_load_10_5_percent_above_mean_scores_minus_1() -> None:
    ratio = column(1 / exp(0.1))
    assert load_score([(0.5, ratio), (0.5, ratio)]) == pytest.approx([-1.0])
    assert exp(0.1) == pytest.approx(1.105, abs=5e-4)


def test_of_no_scores_there_is_no_average_and_no_deviation() -> None:
    assert isnan(average_score(NOTHING))
    assert isnan(std_score(NOTHING))
    assert isnan(average(column(), column()))


def test_averages_and_deviations_are_of_what_is_known() -> None:
    assert average_score(column(1, nan, 3)) == 2.0
    assert std_score(column(1, nan, 3)) == 1.0


SIZES = st.integers(1, 20)
PARTS = st.floats(0.01, 1.0)


@st.composite
def pools(draw: st.DrawFn) -> tuple[Column, Column]:
    """What each node uses, and how large it is."""
    size = draw(SIZES)
    use = draw(st.lists(PARTS, min_size=size, max_size=size))
    weights = draw(st.lists(st.sampled_from([1.0, 2.0, 4.0, 64.0]), min_size=size, max_size=size))
    return np.array(use), np.array(weights)


@given(pools())
def test_the_mean_over_the_ratios_is_the_mean_again(pool: tuple[Column, Column]) -> None:
    use, weights = pool
    assert (weights / idleness(use, weights)).sum() == pytest.approx(weights.sum())


@given(pools())
def test_at_least_one_node_scores_no_worse_than_the_mean(
    pool: tuple[Column, Column],
) -> None:
    use, weights = pool
    assert load_score([(1.0, idleness(use, weights))]).max() >= 0


@given(pools(), st.sampled_from([0.001, 3.0, 2.0**30]))
def test_the_unit_of_the_coefficients_does_not_matter(pool: tuple[Column, Column], unit: float) -> None:
    use, weights = pool
    assert idleness(use, weights * unit) == pytest.approx(idleness(use, weights))


@given(pools(), st.data())
def test_who_uses_less_has_a_higher_score(pool: tuple[Column, Column], data: st.DataObject) -> None:
    use, weights = pool
    scores = load_score([(1.0, idleness(use, weights))])
    one, other = (data.draw(st.integers(0, len(use) - 1)) for _ in range(2))
    if use[one] <= use[other]:
        assert scores[one] >= scores[other]
