"""Crane's estimators of a periodic series: the highest of past periods, and its strongest frequencies.

Knows one period's forecast from whole periods; knows nothing of how the period was found.
Source: Crane, pkg/prediction/dsp, and its page on time series forecasting by DSP.
"""

from typing import NamedTuple

import numpy as np

from elasticd.sources.forecasting.arrays import Floats, lopsided

MARGINS = (0.01, 0.10, 0.15, 0.20)
LEAST = 0.01
"""What a forecast of nothing or less becomes."""

_MOST_ITEMS = 100


class FrequencyFilter(NamedTuple):
    """At least so many frequencies are kept, and of the others those with at least this amplitude."""

    items: int
    amplitude: float


FILTERS = (FrequencyFilter(3, 1.0), FrequencyFilter(50, 0.05))


class Estimate(NamedTuple):
    """One period to come, without its margin, and the margin that it had when it was chosen."""

    values: Floats
    margin: float
    filter: FrequencyFilter


def highest(values: Floats, period: int, margin: float = 0.0) -> Floats:
    """The greatest value of the past periods at each phase, for the next period."""
    periods = len(values) // period
    return np.asarray(values[len(values) - periods * period :].reshape(periods, period).max(axis=0) * (1 + margin))


def strongest(values: Floats, period: int, filter_: FrequencyFilter, hour: int) -> Floats:
    """The last period of the series without its weak fast frequencies, for the next one.

    Taken out is what is weaker than the cut and faster than once in `hour` samples. Upstream looks at bin N - k as if
    it were a fast one, and so halves slow weak components; here k and N - k go together.
    """
    whole_periods = values[len(values) // period * -period :]
    spectrum = np.fft.rfft(whole_periods)
    amplitudes = np.abs(spectrum) / len(whole_periods)
    ordered = np.sort(np.abs(np.fft.fft(whole_periods)) / len(whole_periods))[::-1]
    cut = max(float(ordered[min(_MOST_ITEMS, len(ordered)) - 1]), filter_.amplitude)
    cut = min(cut, float(ordered[min(filter_.items, len(ordered)) - 1]))
    weak = (amplitudes < cut) & (np.arange(len(spectrum)) / len(whole_periods) > 1 / hour)
    smooth = np.fft.irfft(np.where(weak, 0, spectrum), len(whole_periods))[-period:]
    return np.where(smooth <= 0, LEAST, smooth)


def estimated(values: Floats, period: int, hour: int) -> Estimate:
    """By the filter and margin, of eight pairs, with the least lopsided error on the last of two or more periods."""
    actual = values[-period:]
    past = {filter_: strongest(values[:-period], period, filter_, hour) for filter_ in FILTERS}
    pairs = [(filter_, margin) for filter_ in FILTERS for margin in MARGINS]
    filter_, margin = min(pairs, key=lambda pair: lopsided(actual, past[pair[0]] * (1 + pair[1])))
    return Estimate(strongest(values, period, filter_, hour), margin, filter_)
