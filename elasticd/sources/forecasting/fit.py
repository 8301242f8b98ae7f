"""Fits a forecast to a past: the one function that the fitting process runs.

Knows the order of things, and how to treat missing and impossible values; knows nothing of where a past comes from.
"""

from typing import NamedTuple

import numpy as np

from elasticd.model.forecast import SAME_TIME, Forecast, PerPod
from elasticd.sources.forecasting.arrays import Floats
from elasticd.sources.forecasting.per_pod import learnt
from elasticd.sources.forecasting.request import DAY, PackedSamples, Question, Reply, Wish
from elasticd.sources.forecasting.select import WAYS, Chosen, choose

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


def answer(question: Question) -> Reply:
    """A forecast of the load, perhaps with a doubt, and what was learnt of its pods; or why there can be none."""
    wish = question.wish
    load = _by_steps(question.load, wish.step)
    gapless = filled(load, wish.longest_gap)
    values = without_outliers(gapless.values)
    if len(values) < 2:
        return Reply(problem="there is no past: no sample, or all is before a gap")
    chosen = choose(values, wish)
    if chosen is None:
        seconds = len(values) * wish.step
        return Reply(
            problem=f"the past is too short, or has no period, for {wish.method}: {seconds:.0f} s without a gap"
        )
    return Reply(_continue(Regular(gapless.first, wish.step, values), chosen, wish, *_learn_per_pod(question, load)))


def _by_steps(track: PackedSamples, step: float) -> Regular:
    """The samples by whole steps, without a last step that had not ended when the last sample was measured."""
    times = np.frombuffer(track.times)
    regular = on_grid(times, np.frombuffer(track.values), step)
    early = len(regular.values) and times.max() < regular.last - step * SAME_TIME
    return regular._replace(values=regular.values[:-1]) if early else regular


def _continue(past: Regular, chosen: Chosen, wish: Wish, per_pod: PerPod | None, untaught: str) -> Forecast:
    """The chosen method on all of the past, from its last sample on."""
    steps = max(1, round((wish.horizon + wish.valid) / wish.step)) + 1
    hour = max(1, round(3600 / wish.step))
    expected = np.maximum(WAYS[chosen.method](past.values, chosen.period, hour, steps), 0.0)
    # The last value is known; a window that begins now begins with it.
    expected = np.r_[past.values[-1], expected]
    low, high = _error_bounds(chosen.off, wish.quantile)
    return Forecast(
        method=chosen.method,
        fitted=past.last,
        expires=past.last + wish.valid,
        first=past.last,
        step=wish.step,
        values=_round(expected),
        lower=_round(np.maximum(expected + low, 0.0)),
        upper=_round(expected + high),
        quantile=wish.quantile,
        period=chosen.period * wish.step,
        skill=round(chosen.skill, 4),
        error=chosen.error,
        doubt=chosen.doubt,
        per_pod=per_pod,
        untaught=untaught,
    )


def _error_bounds(off: Floats, quantile: float) -> tuple[float, float]:
    """By how much the load was below and above the forecast, at the quantiles; at most 0, and at least 0."""
    low, high = np.quantile(off, [1 - quantile, quantile])
    return min(0.0, float(low)), max(0.0, float(high))


def _round(values: Floats) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in values)


def _learn_per_pod(question: Question, load: Regular) -> tuple[PerPod | None, str]:
    """The use of one pod, learnt from the steps at which load, use and replicas are known."""
    if question.used is None or question.replicas is None:
        return None, ""
    used, replicas = (_by_steps(track, load.step) for track in (question.used, question.replicas))
    held_out = min(round(DAY / load.step), len(load.values) // 3)
    return learnt(load.values, _align(used, load), _align(replicas, load), held_out)


def _align(series: Regular, like: Regular) -> Floats:
    """Its values at the times of another; NaN where it has none."""
    aligned = np.full(len(like.values), np.nan)
    shift = round((series.first - like.first) / like.step)
    places = np.arange(len(series.values)) + shift
    inside = (places >= 0) & (places < len(aligned))
    aligned[places[inside]] = series.values[inside]
    return aligned
