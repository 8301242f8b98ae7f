"""Reads the past of a series from Prometheus: its samples between two times, as if they had been read then.

Knows range queries in portions, and caches what is asked for again; knows nothing of files. A sample has the time at
which it was measured, where that can be queried, and is returned once, however many steps include it.
"""

import asyncio
from array import array
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from elasticd.base.clock import Clock
from elasticd.base.errors import UnavailableError
from elasticd.ports.source import Points, TimeRange
from elasticd.sources.http import HttpClient, HttpFault
from elasticd.sources.prometheus.answers import QueryAnswer, QueryFault, Tally, answer_of, chunks, number, parts
from elasticd.sources.prometheus.finder import Finder
from elasticd.sources.prometheus.tables import SeriesTable

if TYPE_CHECKING:  # it imports this module
    from elasticd.sources.prometheus import Prometheus

RANGE = "/api/v1/query_range"

_POINTS = 11_000
"""Prometheus refuses a query of more steps."""
_FIRST_POINTS = 100
MOST_ROWS, ROWS = 200_000, 20_000
"""About so many rows are held in memory at once by a command; and by the daemon, whose other work waits meanwhile."""

OVERLAP = 5
"""Steps that are queried again, as a sample may reach the server late."""

EARLIER, LATER = 366 * 86400.0, 60.0
"""Seconds by which a sample may be measured before, and by a clock that is ahead after, the step that has it: another
time is none, as of a `measured` in milliseconds."""

_Subject = tuple[str, str]
"""A subject's key, and a container, empty where there is none."""


class PastSample(NamedTuple):
    """A sample of the past: its time in seconds since the epoch, by the server's clock."""

    time: float
    table: SeriesTable
    key: str
    container: str
    value: float


class TooMuch(QueryFault):
    """The answer is too large; a query of fewer steps may succeed."""


class PrometheusHistory:
    """Queries the past of series, oldest first: each query must begin after the last one ended."""

    def __init__(self, http: HttpClient, tables: Sequence[SeriesTable], most: int) -> None:
        self.tables = tables
        self.faults: dict[str, str] = {}
        self._http, self._most = http, most
        self._last: dict[tuple[str, str, str], float] = {}

    async def samples(self, table: SeriesTable, steps: TimeRange) -> list[PastSample]:
        """All samples of one series at these steps. Raises QueryFault, HttpFault, or TooMuch if fewer may succeed."""
        answer = await self._ask(table, table.query, steps)
        times = None
        if table.times and answer.items:
            times = self._points(table, await self._ask(table, table.times, steps), Tally(table))
        tally = Tally(table)
        by_subject = self._points(table, answer, tally)
        if problem := tally.summary(len(answer.items)):
            self.faults[table.name] = problem
        return [past for subject, points in by_subject.items() for past in self._past(table, subject, points, times)]

    async def _ask(self, table: SeriesTable, query: str, steps: TimeRange) -> QueryAnswer:
        form = {"query": query, "start": f"{steps.first:.3f}", "end": f"{steps.last:.3f}", "step": f"{steps.step:.3f}"}
        try:
            answer = await answer_of(await self._http.ask(RANGE, form), self._most)
        except HttpFault as fault:
            if fault.too_much or "too many samples" in str(fault):
                raise TooMuch(str(fault)) from None
            raise
        if answer.warning and not table.accept_warnings:
            raise QueryFault(f"a partial answer (accept_warnings): {answer.warning}")
        return answer

    @staticmethod
    def _points(table: SeriesTable, answer: QueryAnswer, tally: Tally) -> dict[_Subject, dict[float, float]]:
        """Values by subject and time; none where two label sets name one subject at one time."""
        by_subject: dict[_Subject, dict[float, float]] = {}
        for raws in chunks(answer, table):
            for key, container, points in parts(raws, table, tally):
                numbers = {point.at: number(point.value) for point in points}
                before = by_subject.get((key, container), {})
                if doubled := before.keys() & numbers.keys():
                    tally.doubled.add(key)
                both = before | numbers if before else numbers
                by_subject[key, container] = {at: both[at] for at in both if at not in doubled} if doubled else both
        return by_subject

    def _past(
        self,
        table: SeriesTable,
        subject: _Subject,
        numbers: Mapping[float, float],
        times: Mapping[_Subject, Mapping[float, float]] | None,
    ) -> Iterator[PastSample]:
        place = (table.name, *subject)
        last = self._last.get(place, float("-inf"))
        measured = None if times is None else times.get(subject, {})
        for step in sorted(numbers):
            at = step if measured is None else measured.get(step)
            if at is not None and at > last and step - EARLIER <= at <= step + LATER:
                last = self._last[place] = at
                yield PastSample(at, table, *subject, numbers[step])


@asynccontextmanager
async def history(source: "Prometheus", series: Sequence[str], now: float) -> AsyncIterator[PrometheusHistory]:
    """The history of those series, those found by rules among them. Raises KeyError with the first name that the
    source has no series of, and the names that it has."""
    async with HttpClient(source) as http:
        finder = Finder(http, source)
        await finder.search(now)
        names = [table.name for table in finder.tables]
        for name in series:
            if name not in names:
                raise KeyError(name, names, finder.faults)
        yield PrometheusHistory(http, [table for table in finder.tables if table.name in series], source.max_samples)


async def portions(past: PrometheusHistory, steps: TimeRange, most: int = MOST_ROWS) -> AsyncIterator[list[PastSample]]:
    """All rows by time, about `most` at once: each query has as many steps as give that, or as the server accepts."""
    points, index, total = _FIRST_POINTS, 0, int((steps.last - steps.first) / steps.step + 1e-9) + 1
    while index < total:
        count = min(points, total - index)
        first = steps.first + index * steps.step
        part = TimeRange(first, first + (count - 1) * steps.step, steps.step)
        try:
            rows = [row for table in past.tables for row in await past.samples(table, part)]
        except TooMuch:
            if count == 1:
                raise
            points = max(1, count // 4)
            continue
        rows.sort(key=lambda row: row.time)
        yield rows
        index += count
        points = max(1, min(_POINTS, int(count * min(4.0, most / max(len(rows), 1)))))


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
        self._points[series] = {key: points.within(span.first) for key, points in by_key.items() if key in keys}
        self._last_requests[series] = keys, span
        return self._points[series]

    async def _read(self, series: str, keys: Collection[str], span: TimeRange, by_key: dict[str, Points]) -> None:
        label = self._source.label
        try:
            async with history(self._source, (series,), self._clock.now()) as past:
                past.tables = [table for table in past.tables if table.subject == "workload"]
                if not past.tables:
                    raise UnavailableError(f'{label}: "{series}" must be a series of workloads, is not')
                async for rows in portions(past, span, ROWS):
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
            by_key.setdefault(row.key, Points(array("d"), array("d"))).add(row.time, row.value)
