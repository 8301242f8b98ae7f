"""The types of arrays, and numbers of them that stand in for others. Knows nothing of loads."""

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
