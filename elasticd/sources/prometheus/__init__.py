"""The source prometheus: queries to a Prometheus server become series.

Knows the options, which requests belong to one series, and that a failed one affects no other; the modules of this
package know PromQL's answers and how their labels name pods, workloads and nodes. Knows nothing of who reads them.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from math import nan
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from elasticd.api import hookimpl
from elasticd.base.clock import ServerTime
from elasticd.base.news import LastReported
from elasticd.base.tasks import cancel
from elasticd.model.workload import Readings, Sample
from elasticd.ports.source import History, Reader, Site, Source
from elasticd.sources.http import HttpClient, HttpFault, HttpSource
from elasticd.sources.prometheus.answers import QueryAnswer, QueryFault, answer_of, samples_in, times_in
from elasticd.sources.prometheus.finder import Finder
from elasticd.sources.prometheus.history import Remembering
from elasticd.sources.prometheus.rules import RuleTable
from elasticd.sources.prometheus.silences import Beginning, Silences, full_after
from elasticd.sources.prometheus.tables import SeriesTable

logger = logging.getLogger("elasticd.sources.prometheus.reader")  # whoever filters logs knows it by this name

QUERY = "/api/v1/query"

_LOOKS = 40
"""How often in a window the server looks for its latest scrape."""


class Prometheus(HttpSource, frozen=True, tag="prometheus"):
    """What a Prometheus server (or one that speaks as it does) answers to queries: one for all subjects of a series."""

    remembers: ClassVar[bool] = True

    series: Annotated[tuple[SeriesTable, ...], Meta(description="queries, each a series of all subjects")] = ()
    rule: Annotated[tuple[RuleTable, ...], Meta(description="finds series, as prometheus-adapter's rules do")] = ()
    find_every: Annotated[float, Meta(ge=10, le=86400, description="seconds between searches for rules' series")] = 600
    max_found: Annotated[int, Meta(ge=1, le=1000, description="series that all rules may find, at most")] = 100
    max_samples: Annotated[int, Meta(ge=1, le=5_000_000, description="samples of one answer, at most")] = 200_000

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [(table.name, table.subject) for table in self.series]
        if twice := next((name for name, subject in names if names.count((name, subject)) > 1), ""):
            raise ValueError(f'series: must be given once for each name and subject, "{twice}" is given twice')
        if not self.series and not self.rule:
            raise ValueError("series: must be given, or else rules that find some, neither is")

    def offers(self) -> tuple[str, ...] | None:
        """The series it has; None with rules, as theirs are not found yet."""
        return None if self.rule else tuple(dict.fromkeys(table.name for table in self.series))

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        """Connections to the server, which need not be up."""
        async with HttpClient(self) as http, aclosing(Queries(self, http, site)) as queries:
            yield queries

    @asynccontextmanager
    async def memory(self, site: Site) -> AsyncIterator[History]:
        """The server's past; it is connected to only when that is asked for."""
        yield Remembering(self, site.clock)


class QueryResult(Struct, frozen=True):
    """The result of one series: samples, or None if it failed. `fault` says what is wrong, which both may have."""

    table: SeriesTable
    samples: Mapping[str, tuple[Sample, ...]] | None
    fault: str = ""


class Queries:
    """The reader of an open Prometheus source: sends all queries at once, and combines the answers."""

    def __init__(self, options: Prometheus, http: HttpClient, site: Site) -> None:
        self._options, self._http, self._clock, self._times = options, http, site.clock, ServerTime(site.clock)
        self._finder = Finder(http, options)
        self._search: asyncio.Task[None] | None = None
        self._reported = LastReported()
        self._led_since, self._beginning, self._silences = site.since, Beginning(), Silences()

    async def read(self, now: float) -> Readings:
        asked = self._clock.now()
        if self._search is None:
            self._search = asyncio.create_task(self._finder.search(now))
            await self._search  # there are no earlier series to go on with
        elif self._search.done():
            self._search.result()
            self._search = asyncio.create_task(self._finder.search(now))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._find(table), name=f"query {table.name}") for table in self._finder.tables]
        results = [task.result() for task in tasks]
        doubts = await self._doubts(asked, results)
        return _readings(self._options.label, self._clock.now(), results, self._finder.faults, doubts)

    async def _doubts(self, asked: float, results: Sequence[QueryResult]) -> dict[str, str]:
        """Which averages may be too low, and why: the server had no answer to any query a short while ago, or it is
        not known whether it had some before the daemon began to lead."""
        now = self._clock.now()
        self._beginning.begin(self._led_since(), now)
        if any(result.samples is not None for result in results):
            self._silences.answered(now)
            windows = self._beginning.unknown([result.table.window for result in results], now)
            await asyncio.gather(*map(self._look_back, windows))
        elif results:
            self._silences.failed(asked)
        doubts = {result.table.name: self._doubt(result.table.window, now) for result in results}
        return {name: doubt for name, doubt in doubts.items() if doubt}

    def _doubt(self, window: float, now: float) -> str:
        return self._silences.doubt(window, now) or self._beginning.doubt(window, now)

    async def _look_back(self, window: float) -> None:
        """Ask for how long the server scraped nothing: whatever it scrapes shows that it did."""
        past, step = round(full_after(window) * 1000), max(1, round(window / _LOOKS * 1000))
        query = f"max_over_time((time() - (max(timestamp(up)) or vector(0)))[{past}ms:{step}ms])"
        form = {"query": query, "timeout": f"{self._options.timeout:g}s"}
        try:
            answer = await answer_of(await self._http.ask(QUERY, form), self._options.max_samples)
            self._beginning.note(window, nan if answer.warning else answer.number, answer.warning)
        except (QueryFault, HttpFault) as fault:
            self._beginning.note(window, nan, str(fault))

    async def _find(self, table: SeriesTable) -> QueryResult:
        """The samples of a series now. Faults of the server are returned, not raised."""
        try:
            return await self._samples(table)
        except (QueryFault, HttpFault) as fault:
            return QueryResult(table, None, str(fault))

    async def _samples(self, table: SeriesTable) -> QueryResult:
        answer = await self._ask(table, table.query)
        received, offset = self._clock.now(), self._times.offset()
        times = None
        if table.times and answer.kind != "matrix" and answer.items:
            # At the same time, so that value and timestamp are of one sample.
            try:
                times_answer = await self._ask(table, table.times, answer.at)
                times = await times_in(times_answer, table)
            except (QueryFault, HttpFault) as fault:
                raise QueryFault(f"measured: {fault}") from None
        samples, problem = await samples_in(answer, table, times, received, offset)
        partial = f"partial, accepted: {answer.warning}" if answer.warning else ""
        return QueryResult(table, samples, "; ".join(filter(None, (partial, problem))))

    async def _ask(self, table: SeriesTable, query: str, at: float | None = None) -> QueryAnswer:
        form = {"query": query, "timeout": f"{self._options.timeout:g}s"}
        if at is not None:
            form["time"] = f"{at:.3f}"
        answer = await answer_of(await self._http.ask(QUERY, form), self._options.max_samples)
        if answer.warning and not table.accept_warnings:
            raise QueryFault(f"a partial answer (accept_warnings): {answer.warning}")
        if answer.note and self._reported.changed(answer.note, table.name):
            logger.info("series %s: the server notes: %s", table.name, answer.note)
        return answer

    async def aclose(self) -> None:
        """End a search that is under way."""
        if self._search is not None:
            await cancel(self._search)


def _readings(
    source: str,
    received: float,
    results: Sequence[QueryResult],
    faults: Mapping[str, str],
    doubts: Mapping[str, str],
) -> Readings:
    """The results as one reading. `faults` has the series that failed, or partly; `error` is set only if all failed."""
    maps: dict[str, dict[str, Mapping[str, tuple[Sample, ...]]]] = {"pod": {}, "workload": {}, "node": {}}
    problems = dict(faults)
    for result in results:
        if result.samples is not None:
            maps[result.table.subject][result.table.name] = result.samples
        if result.fault:
            before = problems.get(result.table.name)
            problems[result.table.name] = f"{before}; {result.fault}" if before else result.fault
    error = _error(problems) if problems and not any(result.samples is not None for result in results) else ""
    return Readings(source, received, maps["pod"], maps["workload"], maps["node"], error, problems, doubts=doubts)


def _error(faults: Mapping[str, str]) -> str:
    """Why nothing could be read; a reason that all series share is given once."""
    (name, first), *_ = faults.items()
    return first if len(set(faults.values())) == 1 else f"{len(faults)} series failed; {name}: {first}"


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [Prometheus]
