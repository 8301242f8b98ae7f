"""Resamples raw samples to a regular series without gaps.

Knows how to treat missing and impossible values; knows nothing of their use.
"""

from typing import NamedTuple

import numpy as np

from elasticd.sources.forecasting.arrays import Floats

HOUR = 3600.0


class Regular(NamedTuple):
    """Values at `first`, `first + step` and so on, in seconds since the epoch, each for the step that ends then."""

    first: float
    step: float
    values: Floats

    @property
    def last(self) -> float:
        """The time of the last value; where there is none, a step before the first."""
        return self.first + (len(self.values) - 1) * self.step


def on_grid(times: Floats, values: Floats, step: float) -> Regular:
    """The mean of each step's samples, by whole steps since the epoch; NaN: none that is finite and >= 0."""
    good = np.isfinite(times) & np.isfinite(values) & (values >= 0)
    if not good.any():
        return Regular(0.0, step, np.empty(0))
    places = np.ceil(np.round(times[good] / step, 6)).astype(np.int64)
    first = int(places.min())
    count = np.bincount(places - first)
    total = np.bincount(places - first, weights=values[good])
    means = np.full(len(count), np.nan)
    np.divide(total, count, out=means, where=count > 0)
    return Regular(first * step, step, means)


def filled(series: Regular, longest: float = HOUR) -> Regular:
    """Gaps filled linearly; one of more than `longest` seconds drops all that is before it. Source: Crane,
    pkg/prediction/dsp (its `longest` is an hour)."""
    known_places = np.flatnonzero(~np.isnan(series.values))
    if not len(known_places):
        return Regular(series.first, series.step, np.empty(0))
    wide = np.flatnonzero(np.diff(known_places) * series.step > longest + series.step / 2)
    start = int(known_places[wide[-1] + 1]) if len(wide) else int(known_places[0])
    trimmed = series.values[start : int(known_places[-1]) + 1]
    measured = ~np.isnan(trimmed)
    places = np.arange(len(trimmed))
    return Regular(
        series.first + start * series.step, series.step, np.interp(places, places[measured], trimmed[measured])
    )


def without_outliers(values: Floats, low: float = 0.1, high: float = 99.9) -> Floats:
    """What is below percentile `low` or above `high` takes the value before it, the first one the nearest good one.
    Source: Crane, pkg/prediction/dsp."""
    if not len(values):
        return values
    least, most = np.percentile(values, [low, high])
    good = (values >= least) & (values <= most)
    before = np.maximum.accumulate(np.where(good, np.arange(len(values)), -1))
    return np.asarray(values[np.where(before >= 0, before, int(np.argmax(good)))])
