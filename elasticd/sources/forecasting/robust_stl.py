"""RobustSTL: a series taken apart into trend, season and remainder, and put together again for the time to come.

Knows the paper's four steps, of which the trend is a linear program; knows nothing of what the series is of.
Source: Wen et al., RobustSTL, AAAI 2019, and its author's forecaster (alibaba/SREWorks, time_series_prediction).
"""

from typing import NamedTuple

import numpy as np
from scipy import optimize, sparse

from elasticd.sources.forecasting.arrays import Floats, standardised, windows
from elasticd.sources.forecasting.holt import damped

MOST_POINTS = 2_520
"""The program is solved for about so many points at most; more are averaged in groups, as by the author (6 or 8)."""


def relative_trend(values: Floats, period: int, first: float, second: float) -> Floats:
    """The trend, its first value 0: least sum of |seasonal difference - trend's| + `first` x |differences| + `second` x
    |second differences|. Source: RobustSTL, section on the trend, as one program ||P tau - q||_1 over
    the trend itself, where a row of M has two entries and not a period of ones.

    A series of fewer than two periods has none: zeros.
    """
    count = len(values)
    if count < 2 * period:
        return np.zeros(count)
    seasonal, step = values[period:] - values[:-period], _difference(count, 1)
    rows = sparse.vstack(
        [_difference(count, period), first * step, second * (_difference(count - 1, 1) @ step)]
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


class StlSettings(NamedTuple):
    """Windows in samples; deviations of time in samples, of intensity in units of the series that is taken apart.
    `standardise`: that is the series with mean 0 and deviation 1, and its trend is found on groups of samples."""

    noise_window: int
    noise_time: float
    noise_intensity: float
    first: float
    second: float
    seasons: int
    season_window: int
    season_time: float
    season_intensity: float
    standardise: bool


PRODUCT = StlSettings(10, 5.0, 0.2, 50.0, 5.0, 2, 20, 2.0, 0.2, standardise=True)
"""The author's for data of a minute with a period of a day. Theirs denoises with what came before alone; here both
sides count, as the paper has it."""


class Decomposition(NamedTuple):
    """They add up to the series."""

    trend: Floats
    season: Floats
    remainder: Floats


def denoised(values: Floats, half: int, time: float, intensity: float) -> Floats:
    """The bilateral filter: neighbours weigh less the farther they are in time and in value. Equation of step 1."""
    around, exists = windows(values, half)
    apart = np.arange(-half, half + 1) ** 2 / (2 * time**2)
    weights = np.exp(-apart - (around - values[:, None]) ** 2 / (2 * intensity**2)) * exists
    return np.asarray((weights * around).sum(axis=1) / weights.sum(axis=1))


def season_of(values: Floats, period: int, settings: StlSettings) -> Floats:
    """The non-local season: of each sample, those around its place in the last periods, by distance from that place and
    from the sample's own value. Equation of step 3, with j - t' and y_t, as the author's code has it: the papers'
    printed forms differ. The first period has none before it, and takes its own neighbours."""
    half, count = settings.season_window, len(values)
    around, exists = windows(values, half)
    apart = np.arange(-half, half + 1) ** 2 / (2 * settings.season_time**2)
    total, weight = np.zeros(count), np.zeros(count)
    for back in range(settings.seasons + 1):
        now = slice(back * period, count if back else min(period, count))
        then = slice(0, count - back * period if back else min(period, count))
        if back * period >= count:
            break
        near = (around[then] - values[now, None]) ** 2 / (2 * settings.season_intensity**2)
        weights = np.exp(-apart - near) * exists[then]
        total[now] += (weights * around[then]).sum(axis=1)
        weight[now] += weights.sum(axis=1)
    return np.where(weight > 1e-300, total / np.maximum(weight, 1e-300), values)


def taken_apart(values: Floats, period: int, settings: StlSettings = PRODUCT) -> Decomposition:
    """Trend, season and remainder, in the unit of the series; `period` in samples, of which there must be two. One
    pass: the recombined series equals the series, so that further ones change nothing."""
    flat, mean, deviation = standardised(values) if settings.standardise else (values, 0.0, 1.0)
    quiet = denoised(flat, settings.noise_window, settings.noise_time, settings.noise_intensity)
    solve = relative_trend_of_many if settings.standardise else relative_trend
    relative = solve(quiet, period, settings.first, settings.second)
    season = season_of(quiet - relative, period, settings)
    level = float(season[: len(season) // period * period].mean())
    trend, season = (relative + level) * deviation + mean, (season - level) * deviation
    return Decomposition(trend, season, values - trend - season)


def continued(parts: Decomposition, period: int, steps: int) -> Floats:
    """The last period's season again, on a damped trend that goes on from where it is, for so many steps.

    Source: the author's forecaster (generalSTL.py), but for its interval of twice the remainder's mean
    deviation: what came true on a held-out period says more (fit).
    """
    last = parts.season[-period:]
    season = last[np.arange(steps) % period]
    return season + damped(parts.trend[-period:], steps)
