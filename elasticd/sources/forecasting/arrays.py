"""The types of arrays, what stands in for one, and how wrong one was as a forecast. Knows nothing of loads."""

import math
from typing import Annotated, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = Annotated[NDArray[np.float64], "one dimension, regular in time, oldest first"]
Bools: TypeAlias = NDArray[np.bool_]

TINY = 1e-12
"""What rounding leaves of nothing, of numbers about as large as 1."""


def standardised(values: Floats) -> tuple[Floats, float, float]:
    """The values with mean 0 and deviation 1, and those they had. A constant becomes zeros, with deviation 1."""
    mean, deviation = float(values.mean()), float(values.std())
    if deviation <= TINY * max(1.0, abs(mean)):
        return np.zeros_like(values), mean, 1.0
    return (values - mean) / deviation, mean, deviation


def windows(values: Floats, half: int) -> tuple[Floats, Bools]:
    """For each value those at most `half` places from it, one row each, and which of these exist."""
    around = np.lib.stride_tricks.sliding_window_view(np.pad(values, half), 2 * half + 1)
    exists = np.lib.stride_tricks.sliding_window_view(np.pad(np.ones(len(values), bool), half), 2 * half + 1)
    return around, exists


SMALLEST = 0.001
"""An actual value below it makes relative errors meaningless."""


def lopsided(actual: Floats, forecast: Floats) -> float:
    """The mean relative error, where x too low (0 to 1) counts as -ln(1 - x) / ln 1.25; where an actual value is next
    to nothing, the mean absolute error instead. Source: Crane, pkg/prediction/dsp: 0.1 is 0.4722, 0.5 is 3.1063."""
    if (actual < SMALLEST).any():
        return mean_absolute(actual, forecast)
    off = (forecast - actual) / actual
    low = np.minimum(np.maximum(-off, 0.0), 1 - 1e-9)
    return float(np.mean(np.where(off < 0, -np.log1p(-low) / math.log(1.25), off)))


def mean_absolute(actual: Floats, forecast: Floats) -> float:
    """The mean of the errors' sizes, in the unit of the series."""
    return float(np.mean(np.abs(actual - forecast)))
