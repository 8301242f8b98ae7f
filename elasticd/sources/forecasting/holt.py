"""Holt's linear smoothing with a damped slope, for what has no period.

Knows the recursion and its three constants. Written out, as the constants are given (level 0.5, slope 0.3) and only the
damping is fitted: statsmodels would bring pandas for these lines. Source: Gardner and McKenzie 1985; the constants are
those of AHPA's forecaster (alibaba/SREWorks, generalSTL.py).
"""

import numpy as np

from elasticd.sources.forecasting.arrays import Floats

LEVEL, SLOPE = 0.5, 0.3
_DAMPINGS = (0.8, 0.85, 0.9, 0.95, 0.98)
_FITTED_ON = 2_000


def damped(values: Floats, steps: int, damping: float | None = None) -> Floats:
    """The next values: the last level and a slope that fades by `damping` a step (1: not at all).

    None: the damping of 0.8 to 0.98 that would have forecast the newest 2,000 values best, one step ahead. The level
    starts as the first value, the slope as the first difference. One value is repeated; none gives NaN.
    """
    if not len(values):
        return np.full(steps, np.nan)
    recent = values[-_FITTED_ON:]
    fitted = min(_DAMPINGS, key=lambda factor: _smooth(recent, factor)[2]) if damping is None else damping
    level, slope, _ = _smooth(recent, fitted)
    return np.asarray(level + slope * np.cumsum(fitted ** np.arange(1, steps + 1)))


def _smooth(values: Floats, damping: float) -> tuple[float, float, float]:
    """The last level and slope, and the sum of squared errors of one step on the way."""
    numbers = values.tolist()
    level, slope, squares = numbers[0], (numbers[1] - numbers[0] if len(numbers) > 1 else 0.0), 0.0
    for value in numbers[1:]:
        expected = level + damping * slope
        off = value - expected
        squares += off * off
        before, level = level, expected + LEVEL * off
        slope = SLOPE * (level - before) + (1 - SLOPE) * damping * slope
    return level, slope, squares
