"""What a pod uses at which load, learnt as a straight line that never falls.

Knows three series of one length; knows nothing of forecasts. Source: Kapacity's linear model and its gate
(algorithm/kapacity/portrait), by non-negative least squares instead of ElasticNet: there is one input, so nothing is
to be chosen among. Its second model, of the residuals, is left out.
"""

import math

import numpy as np
from scipy import optimize, special

from elasticd.model.forecast import PerPod
from elasticd.sources.forecasting.arrays import Bools, Floats

CORRELATION, CHANCE, MOST_UNDER, MOST_SQUARED = 0.9, 0.01, 10.0, 10.0
"""The gate's limits, on the use of one pod scaled to 0 to 100."""

LEAST = 50
"""Times at which all three must be known, before and in the held-out part."""


def line_of(load: Floats, used: Floats) -> tuple[float, float]:
    """Slope and intercept, neither negative, with the least squared error."""
    (slope, intercept), _ = optimize.nnls(np.column_stack([load, np.ones(len(load))]), used)
    return float(slope), float(intercept)


def learnt(load: Floats, used: Floats, replicas: Floats, held_out: int) -> tuple[PerPod | None, str]:
    """The line of use over load, each divided by the pods; or why none fits. All three have the same times; NaN is what
    is not known. The newest `held` samples are held out, and then counted in."""
    with np.errstate(divide="ignore", invalid="ignore"):
        x, y = load / replicas, used / replicas
    usable = np.isfinite(x) & np.isfinite(y) & (replicas > 0)
    late = np.arange(len(x)) >= len(x) - held_out
    if min(int((usable & late).sum()), int((usable & ~late).sum())) < LEAST:
        return None, f"load, use and replicas must be known together {LEAST} times, before and in the last day, are not"
    correlation, problem = _gate(x, y, usable, late)
    if problem:
        return None, problem
    return PerPod(*line_of(x[usable], y[usable]), correlation), ""


def _gate(x: Floats, y: Floats, usable: Bools, late: Bools) -> tuple[float, str]:
    """Pearson's correlation on the held-out part, and why the line is refused."""
    slope, intercept = line_of(x[usable & ~late], y[usable & ~late])
    actual, predicted = y[usable & late], slope * x[usable & late] + intercept
    scale = 100 / max(float(y[usable].max()), 1e-300)
    off = (actual - predicted) * scale
    correlation, chance = pearson(actual, predicted)
    if correlation < CORRELATION or chance >= CHANCE:
        return (
            correlation,
            f"use must follow the load with a correlation of {CORRELATION:g}, does with {correlation:.2f}",
        )
    if off.max() > MOST_UNDER:
        return correlation, f"use must be at most {MOST_UNDER:g} % above the line, was {off.max():.0f} %"
    if (off**2).mean() > MOST_SQUARED:
        return correlation, f"the mean squared error must be <= {MOST_SQUARED:g}, is {(off**2).mean():.0f}"
    return correlation, ""


def pearson(first: Floats, second: Floats) -> tuple[float, float]:
    """The correlation of two series, and the chance of one as high without any; (0, 1) where one is constant."""
    if len(first) < 3 or first.std() == 0 or second.std() == 0:
        return 0.0, 1.0
    r = float(np.clip(np.corrcoef(first, second)[0, 1], -1, 1))
    freedom = len(first) - 2
    return r, float(special.betainc(freedom / 2, 0.5, 1 - r * r)) if math.isfinite(r) else 1.0
