"""Loads that repeat by the day and the week, with noise, holidays and anomalies: the same for the same seed.

Knows curves; knows nothing of forecasts or pods.
"""

from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEP = 1800.0
"""Seconds between two values."""

DAY = round(86400 / STEP)
WEEK = 7 * DAY
PAST = 3
"""Weeks before the one that is played."""

BEGUN = datetime(2026, 3, 2, tzinfo=UTC)
"""The Monday on which the week begins."""

CORES = 12.0
"""What a working day needs at most, without noise."""

NOISE = 0.03
"""Standard deviation, as a part of the load."""

HOLIDAY, ANOMALIES = 2, 3
"""The days of the week, from 0 on, that are a holiday, and that have a crowd and an outage."""

CROWD, OUTAGE = 1.8, 0.1
"""By what an anomaly multiplies the load."""


class Load(NamedTuple):
    """Cores at each step of the past and of the week, and when the anomalies of the week begin, in steps of it."""

    past: Floats
    week: Floats
    crowd: int
    outage: int


def make_load(seed: int) -> Load:
    """Working days climb within half an hour in the morning and fall in the evening; weekends have a third. Each past
    week has a crowd of an hour somewhere, too. In the week, Wednesday is a holiday, which nothing in the past shows,
    and Thursday has a crowd of an hour and an outage of one."""
    chance = np.random.default_rng(seed)
    steps = np.arange((PAST + 1) * WEEK)
    hour, day = steps % DAY * STEP / 3600, steps // DAY
    busy = 1 / (1 + np.exp(-(hour - 9) * 8)) / (1 + np.exp((hour - 19) * 1.5)) * (1 + 0.15 * np.sin(hour * 1.3))
    factor = np.where(day % 7 < 5, 1.0, 0.33)
    factor[day == PAST * 7 + HOLIDAY] = 0.33
    cores = CORES * (0.12 + 0.88 * busy / busy.max() * factor)
    cores *= 1 + chance.normal(0, NOISE, len(steps))
    for week in range(PAST):
        _multiply(cores, week * WEEK + int(chance.integers(0, 5)) * DAY + int(chance.integers(20, 36)), CROWD)
    crowd, outage = (ANOMALIES * DAY + int(chance.integers(*hours)) for hours in ((26, 30), (32, 36)))
    _multiply(cores, PAST * WEEK + crowd, CROWD)
    _multiply(cores, PAST * WEEK + outage, OUTAGE)
    cores = np.maximum(cores, 0.01).round(3)
    return Load(cores[: PAST * WEEK], cores[PAST * WEEK :], crowd, outage)


def _multiply(cores: Floats, first: int, factor: float) -> None:
    """An hour of anomaly."""
    cores[first : first + round(3600 / STEP)] *= factor
