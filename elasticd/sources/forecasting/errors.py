"""How wrong a forecast was. Knows two series of one length; knows nothing of how one was made."""

import math

import numpy as np

from elasticd.sources.forecasting.arrays import Floats

SMALLEST = 0.001
"""An actual value below it makes relative errors meaningless."""


def amplified(under: float) -> float:
    """What a forecast that is too low by this fraction (0 to 1) counts as: -ln(1 - x) / ln 1.25.

    Source: Crane, pkg/prediction/dsp: 0.1 is 0.4722, 0.5 is 3.1063.
    """
    return -math.log1p(-min(under, 1 - 1e-9)) / math.log(1.25)


def lopsided(actual: Floats, forecast: Floats) -> float:
    """The mean relative error, what was too low amplified; where an actual value is next to nothing, the mean absolute
    error instead. Source: Crane, pkg/prediction/dsp."""
    if (actual < SMALLEST).any():
        return mean_absolute(actual, forecast)
    off = (forecast - actual) / actual
    low = np.minimum(np.maximum(-off, 0.0), 1 - 1e-9)
    return float(np.mean(np.where(off < 0, -np.log1p(-low) / math.log(1.25), off)))


def mean_absolute(actual: Floats, forecast: Floats) -> float:
    """The mean of the errors' sizes, in the unit of the series."""
    return float(np.mean(np.abs(actual - forecast)))
