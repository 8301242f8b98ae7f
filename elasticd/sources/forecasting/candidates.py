"""The ways to forecast, each as a function of a past, a period and a number of steps.

Knows which method needs how much past; knows nothing of which is the best.
"""

from collections.abc import Callable, Mapping

import numpy as np

from elasticd.sources.forecasting import dsp, robust_stl
from elasticd.sources.forecasting.arrays import Floats
from elasticd.sources.forecasting.holt import damped

Way = Callable[[Floats, int, int, int], Floats]
"""Of values, their period, the samples of an hour and the number of steps: what comes next, in the unit of the load.
The period is at least 2, and there are at least as many periods as PERIODS says."""


def repeated(values: Floats, period: int, hour: int, steps: int) -> Floats:
    """Seasonal-naive: the last period again."""
    return np.asarray(values[-period:][np.arange(steps) % period])


def decomposed(values: Floats, period: int, hour: int, steps: int) -> Floats:
    """RobustSTL's season on a damped trend."""
    return robust_stl.continued(robust_stl.taken_apart(values, period), period, steps)


def filtered(values: Floats, period: int, hour: int, steps: int) -> Floats:
    """The last period without its weak fast frequencies, as many kept as Crane's second filter does."""
    return repeated(dsp.strongest(values, period, dsp.FILTERS[1], hour), period, hour, steps)


def crane(values: Floats, period: int, hour: int, steps: int) -> Floats:
    """Crane's choice of eight estimators, with its margin."""
    estimate = dsp.estimated(values, period, hour)
    return repeated(estimate.values * (1 + estimate.margin), period, hour, steps)


def crane_max(values: Floats, period: int, hour: int, steps: int) -> Floats:
    """The highest of past periods at the same phase, with the least of Crane's margins."""
    return repeated(dsp.highest(values, period, dsp.MARGINS[0]), period, hour, steps)


WAYS: Mapping[str, Way] = {
    "naive": repeated,
    "robust-stl": decomposed,
    "fft": filtered,
    "crane": crane,
    "crane-max": crane_max,
    "holt": lambda values, _period, _hour, steps: damped(values, steps),
}
PERIODS: Mapping[str, int] = {"naive": 1, "robust-stl": 2, "fft": 1, "crane": 2, "crane-max": 1}
"""Whole periods of past that a method needs at least."""

AUTOMATIC = ("robust-stl", "fft", "naive")
"""Those that the method auto chooses among."""

CAUTIOUS = ("crane", "crane-max")
"""Those that aim too high on purpose, and are therefore measured with the lopsided error."""
