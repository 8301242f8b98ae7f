"""RobustSTL's trend: what a seasonal series rises and falls by, level shifts included.

Knows one linear program; knows nothing of seasons but their length.
"""

import numpy as np
from scipy import optimize, sparse

from elasticd.sources.forecasting.arrays import Floats

MOST_POINTS = 2_520
"""The program is solved for about so many points at most; more are averaged in groups, as the author does in groups of
6 or 8."""


def relative_trend(values: Floats, period: int, first: float, second: float) -> Floats:
    """The trend, its first value 0: least sum of |seasonal difference - trend's| + `first` x |differences| + `second` x
    |second differences|. Source: RobustSTL, section on the trend, as one program ||P tau - q||_1 over
    the trend itself, where a row of M has two entries and not a period of ones.

    A series of fewer than two periods has none: zeros.
    """
    count = len(values)
    if count < 2 * period:
        return np.zeros(count)
    seasonal = values[period:] - values[:-period]
    rows = sparse.vstack(
        [_difference(count, period), first * _difference(count, 1), second * _second_difference(count)]
    ).tocsc()[:, 1:]
    targets = np.r_[seasonal, np.zeros(rows.shape[0] - len(seasonal))]
    return np.concatenate([[0.0], _least_absolute(rows, targets)])


def relative_trend_of_many(values: Floats, period: int, first: float, second: float) -> Floats:
    """The same of a long series: solved for the means of groups, and a straight line between their middles."""
    size = _group(len(values), period)
    if size == 1:
        return relative_trend(values, period, first, second)
    groups = len(values) // size
    start = len(values) - groups * size  # the newest must be in full
    means = values[start:].reshape(groups, size).mean(axis=1)
    coarse = relative_trend(means, period // size, first, second)
    middles = start + (size - 1) / 2 + size * np.arange(groups)
    fine = np.interp(np.arange(len(values)), middles, coarse)
    return np.asarray(fine - fine[0])


def _group(count: int, period: int) -> int:
    """How many samples a group has: the least divisor of the period that makes few enough points."""
    least = -(-count // MOST_POINTS)
    return next((size for size in range(least, period // 4 + 1) if period % size == 0), max(1, least))


def _difference(count: int, lag: int) -> "sparse.csr_array":
    units = np.ones(count - lag)
    return sparse.diags_array([-units, units], offsets=[0, lag], shape=(count - lag, count), format="csr")


def _second_difference(count: int) -> "sparse.csr_array":
    units = np.ones(count - 2)
    return sparse.diags_array([units, -2 * units, units], offsets=[0, 1, 2], shape=(count - 2, count), format="csr")


def _least_absolute(rows: "sparse.csc_array", targets: Floats) -> Floats:
    """The x with the least sum |rows x - targets|, by HiGHS' interior point method.

    It solves the dual program: maximise targets y with rows' y = 0 and -1 <= y <= 1, where x are the multipliers of the
    equations. That has a third of the columns, and no second column for each error's sign.
    """
    errors, free = rows.shape
    bounds = np.tile([-1.0, 1.0], (errors, 1))
    solution = optimize.linprog(-targets, A_eq=rows.T.tocsc(), b_eq=np.zeros(free), bounds=bounds, method="highs-ipm")
    if solution.x is None:
        raise ArithmeticError(f"the trend's linear program has no solution: {solution.message}")
    return np.asarray(-solution.eqlin.marginals)
