"""Sends all queries to Prometheus at once, and combines the answers.

Knows which requests belong to one series, and that a failed one affects no other; knows nothing of labels or formats.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from msgspec import Struct

from elasticd.base.clock import Clock
from elasticd.base.news import LastReported
from elasticd.base.server_time import ServerTime
from elasticd.model.workload import Readings, Sample
from elasticd.sources.http import HttpClient, HttpFault
from elasticd.sources.prometheus.answers import QueryAnswer, QueryFault, answer_of
from elasticd.sources.prometheus.plans import QueryPlan
from elasticd.sources.prometheus.samples import samples_in, times_in

logger = logging.getLogger(__name__)

QUERY = "/api/v1/query"


class QueryResult(Struct, frozen=True):
    """The result of one plan: samples, or None if it failed. `fault` says what is wrong, which both may have."""

    plan: QueryPlan
    samples: Mapping[str, tuple[Sample, ...]] | None
    fault: str = ""


class Asker:
    """Sends the queries of plans to the server."""

    def __init__(self, http: HttpClient, clock: Clock, timeout: float, most: int) -> None:
        self.http = http
        self._clock, self._times = clock, ServerTime(clock)
        self._timeout, self._most = timeout, most
        self._reported = LastReported()

    async def find(self, plan: QueryPlan) -> QueryResult:
        """The samples of a plan now. Faults of the server are returned, not raised."""
        try:
            return await self._find(plan)
        except (QueryFault, HttpFault) as fault:
            return QueryResult(plan, None, str(fault))

    async def _find(self, plan: QueryPlan) -> QueryResult:
        answer = await self._ask(plan, plan.query)
        received, offset = self._clock.now(), self._times.offset()
        times = None
        if plan.measured and answer.kind != "matrix" and answer.items:
            # At the same time, so that value and timestamp are of one sample.
            try:
                times_answer = await self._ask(plan, plan.measured, answer.at)
                times = await times_in(times_answer, plan)
            except (QueryFault, HttpFault) as fault:
                raise QueryFault(f"measured: {fault}") from None
        samples, problem = await samples_in(answer, plan, times, received, offset)
        partial = f"partial, accepted: {answer.warning}" if answer.warning else ""
        return QueryResult(plan, samples, "; ".join(filter(None, (partial, problem))))

    async def _ask(self, plan: QueryPlan, query: str, at: float | None = None) -> QueryAnswer:
        form = {"query": query, "timeout": f"{self._timeout:g}s"}
        if at is not None:
            form["time"] = f"{at:.3f}"
        answer = await answer_of(await self.http.ask(QUERY, form), self._most)
        if answer.warning and not plan.accept_warnings:
            raise QueryFault(f"a partial answer (accept_warnings): {answer.warning}")
        if answer.note and self._reported.changed(answer.note, plan.name):
            logger.info("series %s: the server notes: %s", plan.name, answer.note)
        return answer


async def ask_all(asker: Asker, plans: Sequence[QueryPlan]) -> list[QueryResult]:
    """All answers, in the order of the plans."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(asker.find(plan), name=f"query {plan.name}") for plan in plans]
    return [task.result() for task in tasks]


def readings(source: str, received: float, results: Sequence[QueryResult], faults: Mapping[str, str]) -> Readings:
    """The results as one reading. `faults` has the series that failed, or partly; `error` is set only if all failed."""
    maps: dict[str, dict[str, Mapping[str, tuple[Sample, ...]]]] = {"pod": {}, "workload": {}, "node": {}}
    problems = dict(faults)
    for result in results:
        if result.samples is not None:
            maps[result.plan.subject][result.plan.name] = result.samples
        if result.fault:
            before = problems.get(result.plan.name)
            problems[result.plan.name] = f"{before}; {result.fault}" if before else result.fault
    error = _error(problems) if problems and not any(result.samples is not None for result in results) else ""
    return Readings(source, received, maps["pod"], maps["workload"], maps["node"], error, problems)


def _error(faults: Mapping[str, str]) -> str:
    """Why nothing could be read; a reason that all series share is given once."""
    (name, first), *_ = faults.items()
    return first if len(set(faults.values())) == 1 else f"{len(faults)} series failed; {name}: {first}"
