"""Crane's estimators: the check Crane-1, margins, the filter and the errors they are chosen by."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from elasticd.sources.forecasting.arrays import lopsided, mean_absolute
from elasticd.sources.forecasting.dsp import FILTERS, LEAST, MARGINS, FrequencyFilter, estimated, highest, strongest
from tests.kit.waves import DAY, noise, wave

HOUR = 60


@pytest.mark.parametrize(("under", "expected"), [(0.1, 0.4722), (0.5, 3.1063), (0.0, 0.0)])
def test_check_crane_1_how_much_too_low_counts(under: float, expected: float) -> None:
    assert lopsided(np.array([10.0]), np.array([10 * (1 - under)])) == pytest.approx(expected, abs=5e-5)


def test_too_much_counts_as_what_it_is() -> None:
    assert lopsided(np.array([10.0, 10.0]), np.array([11.0, 12.0])) == pytest.approx(0.15)


def test_nothing_at_all_for_a_load_is_bad_but_finite() -> None:
    assert 50 < lopsided(np.array([10.0]), np.array([0.0])) < 100


def test_the_absolute_error_counts_for_loads_near_zero() -> None:
    assert (
        lopsided(np.array([0.0, 10.0]), np.array([2.0, 9.0]))
        == mean_absolute(np.array([0.0, 10.0]), np.array([2.0, 9.0]))
        == 1.5
    )


def test_the_highest_of_past_periods_is_taken_at_each_phase() -> None:
    values = np.array([9.0, 1, 2, 3, 4, 3, 2])  # the first is no whole period
    assert highest(values, 3).tolist() == [4, 3, 3]
    assert highest(values, 3, 0.1) == pytest.approx(highest(values, 3) * 1.1)


def test_a_weak_slow_component_keeps_both_of_its_bins() -> None:
    """Upstream drops the mirror of a weak slow bin, so that the component comes back halved."""
    times = np.arange(4 * DAY)
    slow = np.sin(2 * np.pi * times / (DAY / 2))
    values = 1000 + 100 * np.sin(2 * np.pi * times / DAY) + slow
    left = strongest(values, DAY, FrequencyFilter(3, 10.0), HOUR) - 1000 - 100 * np.sin(2 * np.pi * times[:DAY] / DAY)
    assert left == pytest.approx(slow[:DAY], abs=1e-6)


def test_weak_fast_components_are_taken_out() -> None:
    times = np.arange(4 * DAY)
    values = 1000 + 100 * np.sin(2 * np.pi * times / DAY) + 0.01 * np.sin(2 * np.pi * times / 10)
    smooth = strongest(values, DAY, FrequencyFilter(3, 1.0), HOUR)
    assert smooth == pytest.approx(1000 + 100 * np.sin(2 * np.pi * times[:DAY] / DAY), abs=1e-9)


def test_so_many_items_are_kept_however_weak() -> None:
    values = wave(4, 0) + 0.01 * np.sin(2 * np.pi * np.arange(4 * DAY) / 10)
    assert strongest(values, DAY, FrequencyFilter(50, 1.0), HOUR) == pytest.approx(values[-DAY:], abs=1e-6)


def test_what_falls_to_nothing_becomes_a_hundredth() -> None:
    values = np.tile(np.r_[np.zeros(700), np.full(740, 100.0)], 3)
    smooth = strongest(values, DAY, FILTERS[1], HOUR)
    assert (smooth > 0).all()
    assert LEAST in smooth


def test_the_margin_with_the_smallest_past_error_is_chosen() -> None:
    growing = wave(4, 0) * np.repeat([1.0, 1.0, 1.0, 1.15], DAY)
    assert estimated(growing, DAY, HOUR).margin == 0.15
    assert estimated(wave(4, 0), DAY, HOUR).margin == MARGINS[0]


@given(some.integers(0, 20))
def test_a_noisy_wave_is_forecast_better_than_by_repeating_it(seed: int) -> None:
    values = wave(5, 5, seed)
    actual, past = wave(6, 0)[-DAY:], values[-DAY:]
    assert mean_absolute(actual, strongest(values, DAY, FILTERS[1], HOUR)) < 0.7 * mean_absolute(actual, past)


def test_noise_alone_needs_no_more_than_finite_numbers() -> None:
    assert np.isfinite(estimated(np.abs(noise(3 * DAY, 5)), DAY, HOUR).values).all()
