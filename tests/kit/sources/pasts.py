"""Pasts to make forecasts of, and what governs them."""

from array import array
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import numpy as np

from elasticd.base.errors import UnavailableError
from elasticd.model.workload import Ref
from elasticd.ports.source import Points, TimeRange
from elasticd.sources.forecast import ForecastSource
from elasticd.sources.forecasting.arrays import Floats
from tests.kit.waves import START, wave

WEB, CART = Ref("shop", "Deployment", "web"), Ref("shop", "Deployment", "cart")
NOW = START + 7 * 86400.0


def source(**options: Any) -> ForecastSource:
    table = {"type": "forecast", "of": "journal", "series": "requests", "step": 300, "valid": 3600, **options}
    return msgspec.convert(table, ForecastSource)


def points(values: Floats, first: float = START, step: float = 300.0) -> Points:
    return Points(array("d", (first + step * np.arange(len(values))).tolist()), array("d", values.tolist()))


def daily(days: float = 7) -> Points:
    """A daily wave, in steps of 5 minutes."""
    return points(wave(days, each=288))


class Remembered:
    """A memory that says what the test says, and counts how often it is asked."""

    def __init__(self, **series: Mapping[str, Points]) -> None:
        self.series = series
        self.asked: list[tuple[str, TimeRange]] = []
        self.trouble = ""

    async def past(self, series: str, workloads: Collection[str], span: TimeRange) -> Mapping[str, Points]:
        self.asked.append((series, span))
        if self.trouble:
            raise UnavailableError(self.trouble)
        return {key: one for key, one in self.series.get(series, {}).items() if key in workloads}
