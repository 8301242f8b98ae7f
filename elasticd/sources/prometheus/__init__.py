"""The source prometheus: queries to a Prometheus server become series.

Knows the options; the modules of this package know PromQL's answers and how their labels name pods, workloads and
nodes. Knows nothing of who reads them.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, ClassVar

from msgspec import Meta

from elasticd.api import hookimpl
from elasticd.base.clock import Clock
from elasticd.model.workload import Readings
from elasticd.ports.source import History, Reader, Site, Source
from elasticd.sources.http import HttpClient, HttpSource
from elasticd.sources.prometheus.finder import Finder
from elasticd.sources.prometheus.history import Remembering
from elasticd.sources.prometheus.plans import plan_of
from elasticd.sources.prometheus.reader import Asker, ask_all, readings
from elasticd.sources.prometheus.rules import RuleTable
from elasticd.sources.prometheus.tables import SeriesTable


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
        async with HttpClient(self) as http, aclosing(Queries(self, http, site.clock)) as queries:
            yield queries

    @asynccontextmanager
    async def memory(self, site: Site) -> AsyncIterator[History]:
        """The server's past; it is connected to only when that is asked for."""
        yield Remembering(self, site.clock)


class Queries:
    """The reader of an open Prometheus source."""

    def __init__(self, options: Prometheus, http: HttpClient, clock: Clock) -> None:
        self._label, self._clock = options.label, clock
        self._asker = Asker(http, clock, options.timeout, options.max_samples)
        self._plans = [plan_of(table) for table in options.series]
        self._search: asyncio.Task[None] | None = None
        self._finder = Finder(http, options.rule, self._plans, options.find_every, options.max_found)

    async def read(self, now: float) -> Readings:
        if self._search is None:
            self._search = asyncio.create_task(self._finder.search(now))
            await self._search  # there are no earlier plans to go on with
        elif self._search.done():
            self._search.result()
            self._search = asyncio.create_task(self._finder.search(now))
        results = await ask_all(self._asker, [*self._plans, *self._finder.plans])
        return readings(self._label, self._clock.now(), results, self._finder.faults)

    async def aclose(self) -> None:
        """End a search that is under way."""
        if self._search is not None:
            self._search.cancel()
            await asyncio.gather(self._search, return_exceptions=True)


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [Prometheus]
