"""What a Prometheus server remembers of workloads, for who makes a series of another's past.

Knows range queries in portions, and asks only for what it has not heard; knows nothing of what is made of the past.
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

if TYPE_CHECKING:  # it offers what is here
    from elasticd.sources.prometheus import Prometheus

ROWS = 20_000
"""About so many are taken in at once: the daemon's other work waits for that."""

OVERLAP = 5
"""Steps that are asked for again, as a server may come to know a sample late."""


class Remembering:
    """A memory. What was asked for once is kept, for as long as it is asked for again."""

    def __init__(self, source: "Prometheus", clock: Clock) -> None:
        self._source, self._clock = source, clock
        self._known: dict[str, dict[str, Points]] = {}
        self._asked: dict[str, tuple[frozenset[str], TimeRange]] = {}

    async def past(self, series: str, workloads: Collection[str], span: TimeRange) -> Mapping[str, Points]:
        """The series' samples between the two times, those of these workloads alone. Raises UnavailableError."""
        wanted = frozenset(workloads)
        before, asked = self._asked.pop(series, (frozenset(), span))
        goes_on = wanted <= before and asked.first <= span.first <= asked.last and asked.step == span.step
        known = self._known.get(series, {}) if goes_on else {}
        first = max(span.first, asked.last - OVERLAP * span.step) if goes_on else span.first
        await self._read(series, wanted, TimeRange(first, span.last, span.step), known)
        self._known[series] = {key: _since(points, span.first) for key, points in known.items() if key in wanted}
        self._asked[series] = wanted, span
        return self._known[series]

    async def _read(self, series: str, wanted: Collection[str], span: TimeRange, known: dict[str, Points]) -> None:
        label = self._source.label
        try:
            async with history(self._source, (series,), self._clock.now()) as past:
                past.plans = [plan for plan in past.plans if plan.subject == "workload"]
                if not past.plans:
                    raise UnavailableError(f'{label}: "{series}" must be a series of workloads, is not')
                async for rows in portions(past, Steps(*span), ROWS):
                    _take(rows, wanted, known)
                    await asyncio.sleep(0)
        except KeyError as error:
            raise UnavailableError(f'{label}: has no series "{error.args[0]}"') from None
        except (QueryFault, HttpFault) as fault:
            raise UnavailableError(f"{label}: {fault}") from None


def _take(rows: Iterable[PastSample], wanted: Collection[str], known: dict[str, Points]) -> None:
    """Add what is newer than what is known."""
    for row in rows:
        if row.key in wanted:
            points = known.setdefault(row.key, Points(array("d"), array("d")))
            if not points.times or row.time > points.times[-1]:
                points.times.append(row.time)
                points.values.append(row.value)


def _since(points: Points, first: float) -> Points:
    start = bisect_left(points.times, first)
    return Points(points.times[start:], points.values[start:]) if start else points
