"""Damped Holt: the check Holt-1, and the edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from elasticd.sources.forecasting.holt import damped


def test_check_holt_1_an_undamped_straight_line_continues() -> None:
    assert damped(np.array([10.0, 12, 14, 16, 18]), 3, damping=1.0) == pytest.approx([20, 22, 24])


def test_a_damped_slope_fades() -> None:
    steps = np.diff(damped(np.arange(50.0), 100))
    assert (steps > 0).all()
    assert (np.diff(steps) < 0).all()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], [np.nan, np.nan], id="no value: not known, and not zero"),
        pytest.param([3.0], [3.0, 3.0], id="one value is repeated"),
        pytest.param([3.0] * 10, [3.0, 3.0], id="a constant"),
        pytest.param([0.0] * 10, [0.0, 0.0], id="nothing"),
    ],
)
def test_short_and_flat_series(values: list[float], expected: list[float]) -> None:
    assert damped(np.array(values), 2) == pytest.approx(expected, nan_ok=True)


def test_after_a_level_shift_it_follows_the_new_level() -> None:
    assert damped(np.r_[np.full(100, 10.0), np.full(30, 50.0)], 10) == pytest.approx(np.full(10, 50.0), abs=2)


@given(some.lists(some.floats(0, 1e6), min_size=1, max_size=60), some.integers(1, 50))
def test_it_stays_finite_and_moves_with_the_series(values: list[float], steps: int) -> None:
    series = np.array(values)
    found = damped(series, steps, damping=0.9)
    assert np.isfinite(found).all()
    assert damped(series + 10, steps, damping=0.9) == pytest.approx(found + 10, rel=1e-6, abs=1e-6)
