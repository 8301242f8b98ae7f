"""The past of workloads in Prometheus, cached, for sources that derive from it.

Knows range queries in portions, and queries only what is new; knows nothing of what is made of the past.
"""

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from elasticd.base.clock import Clock
from elasticd.base.errors import UnavailableError
from elasticd.ports.source import Points, TimeRange
from elasticd.sources.http import HttpFault
from elasticd.sources.prometheus.answers import QueryFault
from elasticd.sources.prometheus.history import PastSample, Steps, history, portions

if TYPE_CHECKING:  # it imports this module
    from elasticd.sources.prometheus import Prometheus

ROWS = 20_000
"""About so many rows are processed at once, while the daemon's other work waits."""

OVERLAP = 5
"""Steps that are queried again, as a sample may reach the server late."""


class Remembering:
    """The past of a Prometheus source. Samples are cached for as long as they are asked for again."""

    def __init__(self, source: "Prometheus", clock: Clock) -> None:
        self._source, self._clock = source, clock
        self._points: dict[str, dict[str, Points]] = {}
        self._last_requests: dict[str, tuple[frozenset[str], TimeRange]] = {}

    async def past(self, series: str, workloads: Collection[str], span: TimeRange) -> Mapping[str, Points]:
        """The series' samples of these workloads between the two times. Raises UnavailableError."""
        keys = frozenset(workloads)
        last_keys, last_span = self._last_requests.pop(series, (frozenset(), span))
        continues = (
            keys <= last_keys and last_span.first <= span.first <= last_span.last and last_span.step == span.step
        )
        by_key = self._points.get(series, {}) if continues else {}
        first = max(span.first, last_span.last - OVERLAP * span.step) if continues else span.first
        await self._read(series, keys, TimeRange(first, span.last, span.step), by_key)
        self._points[series] = {key: _since(points, span.first) for key, points in by_key.items() if key in keys}
        self._last_requests[series] = keys, span
        return self._points[series]

    async def _read(self, series: str, keys: Collection[str], span: TimeRange, by_key: dict[str, Points]) -> None:
        label = self._source.label
        try:
            async with history(self._source, (series,), self._clock.now()) as past:
                past.plans = [plan for plan in past.plans if plan.subject == "workload"]
                if not past.plans:
                    raise UnavailableError(f'{label}: "{series}" must be a series of workloads, is not')
                async for rows in portions(past, Steps(*span), ROWS):
                    _take(rows, keys, by_key)
                    await asyncio.sleep(0)
        except KeyError as error:
            raise UnavailableError(f'{label}: has no series "{error.args[0]}"') from None
        except (QueryFault, HttpFault) as fault:
            raise UnavailableError(f"{label}: {fault}") from None


def _take(rows: Iterable[PastSample], keys: Collection[str], by_key: dict[str, Points]) -> None:
    """Append the rows that are newer than the known ones."""
    for row in rows:
        if row.key in keys:
            points = by_key.setdefault(row.key, Points(array("d"), array("d")))
            if not points.times or row.time > points.times[-1]:
                points.times.append(row.time)
                points.values.append(row.value)


def _since(points: Points, first: float) -> Points:
    start = bisect_left(points.times, first)
    return Points(points.times[start:], points.values[start:]) if start else points
