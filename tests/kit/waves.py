"""Loads to forecast, the same each time."""

from typing import Any

import numpy as np

from elasticd.model.forecast import Forecast
from elasticd.sources.forecasting.arrays import Floats
from elasticd.sources.forecasting.fit import answer
from elasticd.sources.forecasting.request import PackedSamples, Question, Reply, Wish

START = 1_699_920_000.0
"""A midnight, UTC."""
DAY, WEEK = 1440, 10080
"""Samples, a minute apart."""


def noise(count: int, deviation: float, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(0, deviation, count)


def wave(days: float, deviation: float = 5.0, seed: int = 0, each: int = DAY) -> Floats:
    """50 + 30 sin over a day, and noise: the series of Period-1."""
    count = round(days * each)
    return 50 + 30 * np.sin(2 * np.pi * np.arange(count) / each) + noise(count, deviation, seed)


def track(values: Floats, step: float = 60.0) -> PackedSamples:
    times = START + step * np.arange(len(values))
    return PackedSamples(times.tobytes(), np.asarray(values, np.float64).tobytes())


def ask(values: Floats, *, used: Floats | None = None, replicas: Floats | None = None, **wish: Any) -> Reply:
    made = Wish(**wish)
    others = [None if one is None else track(one, made.step) for one in (used, replicas)]
    return answer(Question(made, track(values, made.step), *others))


def forecast(values: Floats, **wish: Any) -> Forecast:
    reply = ask(values, **wish)
    assert reply.forecast is not None, reply.problem
    return reply.forecast
