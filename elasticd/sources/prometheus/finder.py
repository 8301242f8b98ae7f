"""Searches periodically for the series that rules select.

Knows how often to search and how many series to take; knows nothing of what a rule makes of them. Only names are asked
for (the values of the label __name__): a list of the series themselves would be as long as there are pods.
"""

import asyncio
import time
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from elasticd.sources.http import HttpClient, HttpFault
from elasticd.sources.prometheus.answers import QueryFault, names_of
from elasticd.sources.prometheus.rules import Search
from elasticd.sources.prometheus.tables import SeriesTable

if TYPE_CHECKING:  # it imports this module
    from elasticd.sources.prometheus import Prometheus

NAMES = "/api/v1/label/__name__/values"
_RETRY = 15.0
_RECENT = 3600.0


class Finder:
    """The series of a source, then those that its rules find, and why a rule finds none. The result of a search counts
    until the next one succeeds."""

    def __init__(self, http: HttpClient, source: "Prometheus") -> None:
        self.tables: Sequence[SeriesTable] = source.series
        self.faults: dict[str, str] = {}
        self._http, self._source = http, source
        self._taken = {(table.name, table.subject) for table in source.series}
        self._searches = [
            (f"rule[{index}]", search) for index, rule in enumerate(source.rule) for search in rule.searches()
        ]
        self._found_names: dict[int, list[str]] = {}
        self._due = float("-inf")

    async def search(self, now: float) -> None:
        """Search, if it is due. A failed search is repeated sooner; until then the last result counts."""
        if not self._searches or now < self._due:
            return
        failed: dict[str, str] = {}
        answers = await asyncio.gather(*(self._names(search) for _, search in self._searches), return_exceptions=True)
        for index, ((rule, _), names) in enumerate(zip(self._searches, answers, strict=True)):
            if isinstance(names, QueryFault | HttpFault):
                failed[rule] = f"the search for its series: {names}"
            elif isinstance(names, BaseException):
                raise names
            else:
                self._found_names[index] = names
        self._due = now + (min(self._source.find_every, _RETRY) if failed else self._source.find_every)
        self._collect(failed)

    async def _names(self, search: Search) -> list[str]:
        query = urlencode({"match[]": search.selector, "start": f"{time.time() - _RECENT:.0f}"})
        return names_of(await self._http.ask(f"{NAMES}?{query}"))

    def _collect(self, faults: dict[str, str]) -> None:
        """Collect the series. A name that another series has is not queried again, and becomes a fault."""
        tables: dict[tuple[str, str], SeriesTable] = {}
        empty = {rule for rule, _ in self._searches} - {*faults}
        for index, (rule, search) in enumerate(self._searches):
            for table in search.tables(self._found_names.get(index, ())):
                key = (table.name, table.subject)
                empty.discard(rule)
                if key in self._taken or key in tables:
                    faults[table.name] = f"{rule} finds another series of this name for each {table.subject}; not read"
                else:
                    tables[key] = table
        faults.update(dict.fromkeys(empty, "there are no series that it means"))
        most = self._source.max_found
        if len(tables) > most:
            faults["rule"] = f"the rules find {len(tables)} series, at most {most} are read (max_found)"
        self.tables, self.faults = [*self._source.series, *islice(tables.values(), most)], faults
