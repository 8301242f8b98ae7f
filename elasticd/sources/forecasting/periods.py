"""Finds the period of a series, if it has one.

Knows two detectors, the autocorrelation's peaks and Crane's; not what is made of a period. Periods are in samples.
"""

import math

import numpy as np
from scipy import linalg, signal

from elasticd.sources.forecasting.arrays import TINY, Floats, standardised

TOLERANCE = 0.05
"""How far, as a fraction, a detected period may be from an expected one."""

SMOOTHNESS = 1e10
"""Of the trend that is taken off before the autocorrelation is looked at."""

_SEED = 0
_SHUFFLES = 100


def trend_of(values: Floats, smoothness: float = SMOOTHNESS) -> Floats:
    """The Hodrick-Prescott trend: least squared distance plus `smoothness` times the squared second differences."""
    count = len(values)
    if count < 4:
        return np.full(count, values.mean() if count else 0.0)
    band = np.zeros((3, count))
    outer = np.ones(count)
    band[0] = 1 + smoothness * np.r_[1.0, 5.0, 6 * outer[4:], 5.0, 1.0]
    band[1, :-1] = smoothness * np.r_[-2.0, -4 * outer[3:], -2.0]
    band[2, :-2] = smoothness * outer[2:]
    return np.asarray(linalg.solveh_banded(band, values, lower=True))


def autocorrelation(values: Floats) -> Floats:
    """Of the first nine tenths of the lags, each sum divided by its number of pairs, 1 at lag 0; by the periodogram of
    the series padded to twice its length. Source: ACF_Med of AHPA's forecaster."""
    count = len(values)
    power = np.abs(np.fft.rfft(values, 2 * count)) ** 2 / (2 * count)
    sums = np.fft.irfft(power, 2 * count)[:count] / (count - np.arange(count))
    leading = sums[: int(0.9 * count)]
    return np.asarray(leading / leading[0]) if len(leading) and leading[0] > TINY else np.zeros(len(leading))


def acf_period(values: Floats, prior: int | None = None, threshold: float = 0.5) -> int | None:
    """The median distance of the autocorrelation's peaks, at least three of them; None: no period.

    With a `prior`, only one within 5 % of it counts, and the prior is returned. Peaks are at least `threshold` high
    (0.15 where the author's forecaster runs), stand out by half of that, and with a prior are at least 2/3 of it apart.
    Source: ACF_Med of AHPA's forecaster (alibaba/SREWorks, periodogram_acf_fun.py).
    """
    if len(values) < 8:
        return None
    flat, _, _ = standardised(values)
    flat = np.clip(flat, *np.percentile(flat, [1, 99]))
    correlation = autocorrelation(flat - trend_of(flat))
    apart = 1.0 if prior is None else max(1.0, prior * 2 / 3)
    peaks, _ = signal.find_peaks(correlation, height=threshold, prominence=threshold / 2, distance=apart)
    if len(peaks) < 3:
        return None
    period = round(float(np.median(np.diff(np.r_[0, peaks]))))
    if prior is None:
        return period
    return prior if abs(period - prior) <= TOLERANCE * prior else None


def crane_period(values: Floats, day: int, week: int, hour: int) -> int | None:
    """A day or a week, where the spectrum of the newest whole weeks (or days), at least two of them, stands above that
    of shuffled copies, and the circular autocorrelation has a hill there, higher than at other candidates.

    `hour`, `day` and `week` are in samples. The shuffles have a fixed seed, so the answer is always the same.
    Source: Crane, pkg/prediction/dsp.
    """
    cycle = week if len(values) >= 2 * week else day
    count = len(values) // cycle * cycle
    if count < 2 * cycle:
        return None
    flat, _, _ = standardised(values[len(values) - count :])
    if not flat.any():
        return None
    spectrum = np.abs(np.fft.rfft(flat))
    above = np.flatnonzero(spectrum > _threshold(flat))
    correlation = np.fft.irfft(np.abs(np.fft.rfft(flat)) ** 2, count) / count
    candidates = {count // int(k) for k in above if k >= 2}
    hills = [period for period in candidates if _is_hill(correlation, period, 4 * hour)]
    best = max(hills, key=lambda period: (correlation[period], period), default=None)
    return best if best in (day, week) else None


def _threshold(flat: Floats) -> float:
    """The 99th of the greatest amplitudes of a hundred shuffled copies, in order."""
    chance = np.random.default_rng(_SEED)
    peaks = [float(np.abs(np.fft.rfft(chance.permutation(flat))[1:]).max()) for _ in range(_SHUFFLES)]
    return sorted(peaks)[math.ceil(0.99 * _SHUFFLES) - 1]


def _is_hill(correlation: Floats, period: int, widest: int) -> bool:
    """Whether it rises on the left of a lag and falls on its right, by a straight line through each side."""
    side = min(widest, period // 2)
    rising, falling = correlation[period - side : period + 1], correlation[period : period + side + 1]
    if side < 1 or len(falling) < 2:
        return False
    rise, fall = (float(np.polyfit(np.arange(len(part)), part, 1)[0]) for part in (rising, falling))
    return rise > 0 > fall
