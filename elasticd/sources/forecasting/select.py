"""Chooses a method and a period, and whether to believe them, by how they would have forecast the newest part.

Knows which method needs how much past, and the forecasts that cost nothing; knows nothing of how a method works.
Source: Crane's choice by the last period (pkg/prediction/dsp), Kapacity's gate on the last day.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from elasticd.sources.forecasting import dsp, robust_stl
from elasticd.sources.forecasting.arrays import Floats, lopsided, mean_absolute
from elasticd.sources.forecasting.holt import damped
from elasticd.sources.forecasting.periods import acf_period, crane_period
from elasticd.sources.forecasting.request import DAY, WEEK, Wish

EXACT = 0.01
"""A forecast with a smaller error than this part of the mean load needs no skill: no baseline is much better."""

DRIFT, SLACK = 4.0, 0.05
"""The newest errors are as usual up to so many times the median, plus this part of the mean load."""

FOLDS = 6
"""The horizons that are held out where there is no period."""

_THRESHOLD = 0.15
"""Of the autocorrelation's peaks, as the author's forecaster has it."""


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


class Chosen(NamedTuple):
    """A method and what it did on the held-out part. `period` in samples, 0: none. `off` is what was missed there,
    positive where the load was higher, oldest first."""

    method: str
    period: int
    skill: float
    error: float
    off: Floats
    doubt: str


def periods_of(values: Floats, wish: Wish) -> list[int]:
    """The expected periods that the series has, in samples, shortest first."""
    periods = set()
    for period in {round(seconds / wish.step) for seconds in wish.periods}:
        if 4 <= period <= len(values) // 2 and acf_period(values, period, _THRESHOLD) == period:
            periods.add(period)
    day, week, hour = (round(seconds / wish.step) for seconds in (DAY, WEEK, 3600.0))
    if {DAY, WEEK} & set(wish.periods) and hour >= 1 and day >= 4:
        detected = crane_period(values, day, week, hour)
        if detected is not None and any(round(seconds / wish.step) == detected for seconds in wish.periods):
            periods.add(detected)
    return sorted(periods)


def choose(values: Floats, wish: Wish) -> Chosen | None:
    """The method with the least lopsided error on the held-out part; None where the past is too short for any."""
    periods = [] if wish.method == "holt" else periods_of(values, wish)
    trials = [trial for period in periods for trial in _by_period(values, period, periods[0], wish)]
    if not trials and wish.method in ("auto", "holt"):
        return _without_period(values, wish)
    return min(trials, key=lambda trial: (trial[1], trial[0].period), default=(None, 0.0))[0]


def _by_period(values: Floats, period: int, held_out: int, wish: Wish) -> list[tuple[Chosen, float]]:
    """The methods that can do it, with their lopsided errors; the newest `held_out` samples are held out."""
    past, actual, hour = values[:-held_out], values[-held_out:], max(1, round(3600 / wish.step))
    names = AUTOMATIC if wish.method == "auto" else (wish.method,)
    trials = []
    for name in names:
        if len(past) >= PERIODS[name] * period:
            try:
                forecast = np.maximum(WAYS[name](past, period, hour, held_out), 0.0)
            except ArithmeticError:  # a program without a solution: the others go on
                continue
            measure = lopsided if name in CAUTIOUS else mean_absolute
            reference = (
                _last_horizon(values, held_out, wish) if name == "naive" else repeated(past, period, hour, held_out)
            )
            baselines = [reference, np.full(held_out, past[-period:].mean())]
            skill = _skill(measure(actual, forecast), min(measure(actual, baseline) for baseline in baselines))
            trials.append((_judge(name, period, skill, actual, actual - forecast, wish), lopsided(actual, forecast)))
    return trials


def _last_horizon(values: Floats, held_out: int, wish: Wish) -> Floats:
    """The baseline for naive: the load one horizon before each held-out value, as a policy without forecasts sees it.
    Measured by the last period, naive would only be compared with itself."""
    steps = min(max(1, round(wish.horizon / wish.step)), len(values) - held_out)
    return values[len(values) - held_out - steps : len(values) - steps]


def _without_period(values: Floats, wish: Wish) -> Chosen | None:
    """Damped Holt on the newest horizons, one after the other, against the last value and the mean of a day."""
    steps, day = max(1, round(wish.horizon / wish.step)), round(DAY / wish.step)
    if len(values) < (FOLDS + 2) * steps:
        return None
    off, last, mean = [], [], []
    for fold in range(FOLDS, 0, -1):
        end = len(values) - fold * steps
        past, actual = values[:end], values[end : end + steps]
        off.append(actual - np.maximum(WAYS["holt"](past, 0, 0, steps), 0.0))
        last.append(actual - past[-1])
        mean.append(actual - past[-day:].mean())
    missed, baselines = np.concatenate(off), [np.concatenate(last), np.concatenate(mean)]
    skill = _skill(float(np.abs(missed).mean()), min(float(np.abs(misses).mean()) for misses in baselines))
    return _judge("holt", 0, skill, values[-len(missed) :], missed, wish)


def _skill(error: float, free: float) -> float:
    """1 - error / error of the best forecast that costs nothing. Where that has none, 0 for one without error too."""
    if free > 0:
        return 1 - error / free
    return 0.0 if error == 0 else -1.0


def _judge(method: str, period: int, skill: float, actual: Floats, off: Floats, wish: Wish) -> Chosen:
    error, level = float(np.abs(off).mean()), float(actual.mean())
    doubt = _doubt(method, skill, error, level, wish) or _drift(off, level, wish)
    return Chosen(method, period, skill, error, off, doubt)


def _doubt(method: str, skill: float, error: float, level: float, wish: Wish) -> str:
    """Why it must not be believed, by all of the held-out part; empty: it may be."""
    if error <= EXACT * level:
        return ""
    if skill <= 0:
        return f"{method} is no better than {_baselines_of(method, wish)} (skill {skill:.2f})"
    if method not in CAUTIOUS and error > wish.max_error * level:
        return f"{method} is wrong by {error / level:.0%} of the load on average, at most {wish.max_error:.0%}"
    return ""


def _baselines_of(method: str, wish: Wish) -> str:
    if method == "holt":
        return "the last value, or the mean"
    if method == "naive":
        return f"the load of {wish.horizon:g} s before, or its mean"
    return "the last period again, or its mean"


def _drift(off: Floats, level: float, wish: Wish) -> str:
    """Why the newest part shows that the load is no longer what it was; empty: it is as usual."""
    recent = max(1, min(round(wish.horizon / wish.step), len(off) // 4))
    usual, now = float(np.median(np.abs(off[:-recent]))), float(np.median(np.abs(off[-recent:])))
    if now <= DRIFT * usual + SLACK * level:
        return ""
    return f"the last {recent * wish.step:g} s are not as forecast: off by {now:.4g}, usually by {usual:.4g}"
