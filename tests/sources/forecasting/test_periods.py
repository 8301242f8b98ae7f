"""Is there a period: the checks Period-1, Fisher and Crane-3, and the edges."""

import numpy as np
import pytest

from elasticd.sources.forecasting.arrays import Floats
from elasticd.sources.forecasting.periods import acf_period, autocorrelation, crane_period, trend_of
from tests.kit.waves import DAY, WEEK, noise, wave
from tests.sources.forecasting.test_robust_stl import SEASON, TREND, noisy

HOUR = 60


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(TREND + SEASON, 24, id="the series of RSTL-1"),
        pytest.param(noisy(), 24, id="with its noise and spikes"),
        pytest.param(50 + noise(2000, 5), None, id="white noise"),
        pytest.param(50 + noise(WEEK, 5), None, id="a week of white noise"),
        pytest.param(np.full(500, 7.0), None, id="a constant"),
        pytest.param(np.zeros(500), None, id="nothing"),
        pytest.param(np.arange(500.0), None, id="a ramp"),
        pytest.param(np.r_[np.zeros(250), np.ones(250)], None, id="a level shift"),
        pytest.param(np.array([1.0]), None, id="one sample"),
        pytest.param(np.empty(0), None, id="no sample"),
    ],
)
def test_check_period_1_the_period_of_a_short_series(values: Floats, expected: int | None) -> None:
    assert acf_period(values) == expected


@pytest.mark.slow
def test_check_period_1_a_day_is_exact_only_when_expected() -> None:
    # Without a prior the table has 1424 for one draw of the noise; ten draws give 1426 to 1434, and never the day.
    found = [acf_period(wave(7, seed=seed)) for seed in range(10)]
    assert all(one is not None and abs(one - 1424) <= 10 for one in found)
    assert DAY not in found
    assert {acf_period(wave(7, seed=seed), DAY) for seed in range(10)} == {DAY}


def test_a_period_that_is_not_the_expected_one_is_none() -> None:
    times = np.arange(7 * DAY)
    assert acf_period(np.sin(2 * np.pi * times / 1200), DAY) is None


def test_the_authors_lower_threshold_finds_a_day_in_much_noise() -> None:
    assert acf_period(wave(7, 30), DAY) is None
    assert acf_period(wave(7, 30), DAY, 0.15) == DAY


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(wave(7), DAY, id="check Crane-3: a week of a daily wave"),
        pytest.param(50 + noise(WEEK, 5), None, id="check Crane-3: white noise"),
        pytest.param(wave(2), DAY, id="two days are enough"),
        pytest.param(wave(1.9), None, id="less are not"),
        pytest.param(wave(14) * np.where(np.arange(2 * WEEK) // DAY % 7 < 5, 1.0, 0.2), WEEK, id="weekends are a week"),
        pytest.param(np.sin(2 * np.pi * np.arange(WEEK) / 720), None, id="half a day is not one of the two"),
        pytest.param(np.full(WEEK, 7.0), None, id="a constant"),
        pytest.param(np.empty(0), None, id="nothing"),
    ],
)
def test_cranes_detector_knows_a_day_and_a_week(values: Floats, expected: int | None) -> None:
    assert crane_period(values, DAY, WEEK, HOUR) == expected


def test_cranes_detector_shuffles_the_same_way_each_time() -> None:
    values = wave(3, 60)
    assert len({crane_period(values, DAY, WEEK, HOUR) for _ in range(3)}) == 1


def test_the_trend_of_a_straight_line_is_the_line() -> None:
    assert trend_of(np.arange(1000.0)) == pytest.approx(np.arange(1000.0), abs=1e-2)


def test_the_trend_of_three_values_is_their_mean() -> None:
    assert trend_of(np.array([1.0, 2, 6])).tolist() == [3, 3, 3]


def test_autocorrelation_is_one_at_lag_zero_and_omits_the_tail() -> None:
    found = autocorrelation(np.sin(np.arange(100.0)))
    assert (found[0], len(found)) == (pytest.approx(1.0), 90)
    assert not autocorrelation(np.zeros(10)).any()
