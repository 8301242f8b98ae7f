"""Holds the forecasts of a source, and refits them in rounds.

Knows when a fit is due, which past it needs and how failures are reported; knows no arithmetic and no query.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Annotated

from msgspec import Meta, Struct

from elasticd.base.backoff import Backoff
from elasticd.base.errors import ElasticdError
from elasticd.base.text import raised
from elasticd.model.forecast import Forecast
from elasticd.model.workload import Readings
from elasticd.ports.source import History, Points, Site, TimeRange
from elasticd.sources.forecast.fitter import Fitter, Lost
from elasticd.sources.forecasting.request import PackedSamples, Question, Reply, Wish

LOOK = 1.0
"""Seconds between checks whether a round is due: there may be new workloads."""

FIRST_PAUSE, LONGEST_PAUSE = 15.0, 15360.0
"""Seconds after rounds that failed; they double, also up to `refit` at most."""

Opens = Callable[[], AbstractAsyncContextManager[Fitter]]


class Learn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The series of which it is learnt what one pod uses at which load. Both of the workload as a whole, of the same
    past as the load."""

    used: Annotated[str, Meta(min_length=1, description="what all pods use together, such as cores")]
    replicas: Annotated[str, Meta(min_length=1, description='how many pods there were; of the journal: "replicas"')]


class ForecastPlan(Struct, frozen=True):
    """What is forecast from what: `series` of the memory becomes the series `name` of the source `label`. Times in
    seconds: `back` is how far the past is looked at, `refit` the time between rounds."""

    label: str
    name: str
    series: str
    learn: Learn | None
    wish: Wish
    back: float
    refit: float


class ForecastKeeper:
    """The reader: holds the forecasts by workload, and renews them in rounds."""

    def __init__(self, plan: ForecastPlan, memory: History, site: Site, opens: Opens, *, virtual: bool = False) -> None:
        """`virtual`: a read runs the round that is due, as nobody calls `run`."""
        self._plan, self._memory, self._site, self._opens = plan, memory, site, opens
        self._virtual = virtual
        self._forecasts: dict[str, Forecast] = {}
        self._newest: dict[str, float] = {}
        self._failures_in_a_row = self._fits = self._losses = 0
        self._tried: frozenset[str] = frozenset()
        self.error = ""
        self.due = float("-inf")

    async def run(self) -> None:
        """A round whenever one is due, until cancelled."""
        clock = self._site.clock
        while True:
            now = clock.now()
            if self.is_due(now):
                await self.round(now)
            await clock.sleep_until(clock.now() + LOOK)

    async def read(self, now: float) -> Readings:
        """All present forecasts."""
        if self._virtual and self.is_due(now):
            await self.round(now)
        plan = self._plan
        faults = {plan.name: self.error} if self.error else {}
        newest = max((forecast.fitted for forecast in self._forecasts.values()), default=None)
        forecasts = {plan.name: dict(self._forecasts)}
        return Readings(plan.label, now, faults=faults, newest=newest, forecasts=forecasts)

    def describe(self) -> dict[str, object]:
        believed = sum(not forecast.doubt for forecast in self._forecasts.values())
        return {
            "forecasts": len(self._forecasts),
            "believed": believed,
            "fits": self._fits,
            "lost": self._losses,
            "doubts": {key: forecast.doubt for key, forecast in sorted(self._forecasts.items())[:10] if forecast.doubt},
        }

    def is_due(self, now: float) -> bool:
        """Whether a round should begin: it is time, or a workload is governed that the last round did not know."""
        governed = self._governed()
        return bool(governed) and (now >= self.due or (not self.error and not governed <= self._tried))

    def _governed(self) -> frozenset[str]:
        return frozenset(str(ref) for ref in self._site.governed())

    async def round(self, now: float) -> None:
        """Read the past of all governed workloads, and fit those that have a new sample. Trouble is reported in
        `error`; present forecasts go on until they expire."""
        governed = self._governed()
        self._forecasts = {key: forecast for key, forecast in self._forecasts.items() if key in governed}
        self._newest = {key: at for key, at in self._newest.items() if key in governed}
        try:
            self.error = await self._round(governed, now)
        except ElasticdError as error:
            self.error = str(error)
        except Exception as error:  # an error of ours must not end the rounds
            self.error = raised(error)
        self._tried = governed
        self._failures_in_a_row = self._failures_in_a_row + 1 if self.error else 0
        backoff = Backoff(FIRST_PAUSE, min(LONGEST_PAUSE, self._plan.refit))
        self.due = now + (backoff.delay(self._failures_in_a_row) if self.error else self._plan.refit)

    async def _round(self, governed: frozenset[str], now: float) -> str:
        """Fit all governed workloads. Returns the first thing that went wrong; empty if nothing did."""
        loads, used, replicas = await self._pasts(governed, now)
        trouble = ""
        async with self._opens() as fitter:
            for key in sorted(governed):
                load = loads.get(key)
                if load is None or not load.times:
                    self._keep(key, now, Reply(problem=f'there is no past of "{self._plan.series}"'))
                elif load.times[-1] > self._newest.get(key, float("-inf")):
                    question = Question(
                        self._plan.wish, PackedSamples.of(*load), _track(used.get(key)), _track(replicas.get(key))
                    )
                    try:
                        self._keep(key, now, await fitter.fit(question))
                        self._newest[key] = load.times[-1]
                    except Lost as lost:
                        self._losses += 1
                        trouble = trouble or f"{key}: {lost}"
        return trouble

    async def _pasts(self, governed: Collection[str], now: float) -> list[Mapping[str, Points]]:
        """The pasts of the load, of what pods used and of how many there were; empty for what is not to be learnt."""
        plan, span = self._plan, TimeRange(now - self._plan.back, now, self._plan.wish.step)
        names = [plan.series] + ([plan.learn.used, plan.learn.replicas] if plan.learn else [])
        pasts = [await self._memory.past(name, governed, span) for name in names]
        return pasts + [{}] * (3 - len(pasts))

    def _keep(self, key: str, now: float, reply: Reply) -> None:
        """Store a reply, and wake the workload's policies."""
        self._fits += 1
        old = self._forecasts.get(key)
        if reply.forecast is None and old is not None and not old.doubt and now < old.expires:
            return  # a good one goes on until it expires
        none = Forecast("", now, now + self._plan.wish.valid, doubt=reply.problem)
        self._forecasts[key] = reply.forecast or none
        self._site.wake("workload", key)


def _track(points: Points | None) -> PackedSamples | None:
    return None if points is None else PackedSamples.of(points.times, points.values)
