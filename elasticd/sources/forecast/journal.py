"""Reads past loads from the decisions in the daemon's own journal.

Knows the journal's files and what a decision holds of a series; knows nothing of forecasts. After the first time, only
new lines are read.
"""

import asyncio
import math
from array import array
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from elasticd.base.errors import UNREADABLE, UnavailableError
from elasticd.journal.lines import AHEAD
from elasticd.journal.reading import lines_after
from elasticd.model.workload import Ref, Sample
from elasticd.ports.source import Points, TimeRange

REPLICAS = "replicas"
"""The series that every decision has: how many replicas there were."""


class _Series(Struct, gc=False):
    """The fields of a series that give a load."""

    name: str
    quality: str
    samples: list[Sample] = []


class _Decision(Struct, gc=False, tag="decision"):
    """The fields of a decision that give loads."""

    at: float
    workload: Ref
    current: int
    series: list[_Series] = []


class _Again(_Decision, gc=False, tag="decision-again"):
    """The same fields of a shortened decision, which has them too."""


_decode = msgspec.json.Decoder(_Decision | _Again).decode


class JournalMemory:
    """Loads by series and workload: the sum over the workload's pods at each decision that could trust it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._position: tuple[int, int] = (0, 0)
        self._points: dict[tuple[str, str], Points] = {}
        self._series_read: set[str] = set()

    async def past(self, series: str, workloads: Collection[str], span: TimeRange) -> Mapping[str, Points]:
        """Raises UnavailableError for a folder that cannot be read."""
        if series not in self._series_read:  # start over: earlier reads skipped this series
            self._series_read.add(series)
            self._position, self._points = (0, 0), {}
        try:
            await asyncio.to_thread(self._read, span)
        except OSError as error:
            raise UnavailableError(f"{self._folder}: the journal must be readable: {error.strerror}") from None
        by_key = {key: self._points[series, key] for key in workloads if (series, key) in self._points}
        return {key: points.within(span.first, span.last) for key, points in by_key.items()}

    def _read(self, span: TimeRange) -> None:
        for place, line in lines_after(self._folder, self._position):
            self._position = place
            try:
                decision = _decode(line)
            except UNREADABLE:  # an outcome, or a damaged line
                continue
            if span.first <= decision.at <= span.last + AHEAD:
                self._take(decision)
        for key, points in self._points.items():
            self._points[key] = points.within(span.first)

    def _take(self, decision: _Decision) -> None:
        for name, value in _loads(decision):
            if name in self._series_read and math.isfinite(value):
                points = self._points.setdefault((name, str(decision.workload)), Points(array("d"), array("d")))
                points.add(decision.at, value)  # two policies may look at one workload, or one look twice at one time


def _loads(decision: _Decision) -> Iterator[tuple[str, float]]:
    """The loads of the whole workload. A series that lacks some of the pods gives none."""
    yield REPLICAS, float(decision.current)
    for series in decision.series:
        if series.quality == "fresh" and series.samples:
            yield series.name, sum(sample.value for sample in series.samples)
