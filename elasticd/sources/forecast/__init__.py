"""The source forecast: forecasts loads from another source's past.

Knows its options, when a fit is due, which past it needs and how failures are reported; the modules of this package
know the process that fits and the journal as a past, elasticd.sources.forecasting the arithmetic. Knows nothing of who
reads a forecast.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from elasticd.api import hookimpl
from elasticd.base.backoff import Backoff
from elasticd.base.clock import VirtualClock
from elasticd.base.decode import shared_fields
from elasticd.base.errors import ConfigError, ElasticdError
from elasticd.base.tasks import cancel
from elasticd.base.text import raised
from elasticd.model.forecast import Forecast
from elasticd.model.workload import Readings
from elasticd.ports.source import JOURNAL, Every, History, Points, Reader, Site, Source, TimeRange
from elasticd.sources.forecast.fitter import Apart, Fitter, Here, Lost, lacking
from elasticd.sources.forecast.journal import JournalMemory
from elasticd.sources.forecasting.request import DAY, WEEK, Method, PackedSamples, Quantile, Question, Reply, Wish

MOST_POINTS = 50_000

LOOK = 1.0
"""Seconds between checks whether a round is due: there may be new workloads."""

FIRST_PAUSE, LONGEST_PAUSE = 15.0, 15360.0
"""Seconds after rounds that failed; they double, also up to `refit` at most."""

Opens = Callable[[], AbstractAsyncContextManager[Fitter]]

Name = Annotated[str, Meta(min_length=1)]
Period = Annotated[float, Meta(gt=0, description="seconds")]


class Learn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The series of which it is learnt what one pod uses at which load. Both of the workload as a whole, of the same
    past as the load."""

    used: Annotated[str, Meta(min_length=1, description="what all pods use together, such as cores")]
    replicas: Annotated[str, Meta(min_length=1, description='how many pods there were; of the journal: "replicas"')]


class ForecastSource(Source, frozen=True, kw_only=True, tag="forecast"):
    """A load of each governed workload as it is expected to be, learnt from the past of one series.

    A forecast counts while it beats the repetition of the last period on the newest part of the past, and until it
    expires; the strategy forecast reads it. It is fitted in a process of its own. A workload's first one is waited for,
    `valid` seconds at most."""

    pushes: ClassVar[bool] = True
    complete: ClassVar[bool] = False
    forecasts: ClassVar[bool] = True

    of: Annotated[Name, Meta(description='name of a source with a past (prometheus, recording), or "journal"')]
    series: Annotated[Name, Meta(description="the load, a series of workloads")]
    as_: Annotated[str, Meta(description="the series it becomes; empty: the load's name with _forecast")] = field(
        default="", name="as"
    )
    days: Annotated[float, Meta(gt=0, le=366, description="days of past that are looked at")] = 14.0
    step: Annotated[float, Meta(ge=1, le=86400, description="seconds between the values of past and forecast")] = 60.0
    horizon: Annotated[float, Meta(gt=0, le=604800, description="seconds that can always be looked ahead")] = 3600.0
    refit: Annotated[float, Meta(ge=10, le=86400, description="seconds between fits")] = 600.0
    valid: Annotated[float, Meta(gt=0, le=604800, description="seconds after its last sample that one counts")] = 1800.0
    method: Annotated[
        Method, Meta(description="auto: the best of robust-stl, fft and naive, or holt without period")
    ] = "auto"
    periods: Annotated[tuple[Period, ...], Meta(description="that the load may have, in seconds")] = (DAY, WEEK)
    quantile: Quantile = 0.95
    max_error: Annotated[float, Meta(gt=0, le=10, description="mean error, as a part of the mean load")] = 0.3
    longest_gap: Annotated[float, Meta(ge=0, description="seconds; a longer gap drops all before it")] = 3600.0
    patience: Annotated[float, Meta(ge=1, le=600, description="seconds that one fit may take")] = 30.0
    learn: Annotated[Learn | None, Meta(description="from what is learnt what one pod uses at which load")] = None
    every: Every = 0.0

    def __post_init__(self) -> None:
        if library := lacking():
            raise ValueError(f"type: must be with {library}, which is not installed: pip install elasticd[forecast]")
        points = self.days * DAY / self.step
        if points > MOST_POINTS:
            raise ValueError(
                f"step: must be >= {self.days * DAY / MOST_POINTS:g} for {self.days:g} days, is {self.step:g}"
            )
        least = self.refit + 2 * self.step
        if self.valid < least:
            raise ValueError(
                f"valid: must be >= refit + 2 steps = {least:g}, or forecasts expire unrenewed, is {self.valid:g}"
            )
        if self.horizon < self.step:
            raise ValueError(f"horizon: must be >= step = {self.step:g}, is {self.horizon:g}")
        for period in self.periods:
            if not 4 * self.step <= period <= self.days * DAY / 2:
                most = self.days * DAY / 2
                raise ValueError(
                    f"periods: must be from 4 steps to half of days, {4 * self.step:g} to {most:g}, is {period:g}"
                )
        if self.result == self.series:
            raise ValueError(f'as: must differ from series = "{self.series}", is the same')

    @property
    def result(self) -> str:
        return self.as_ or f"{self.series}_forecast"

    def offers(self) -> tuple[str, ...]:
        return (self.result,)

    def offers_of_nodes(self) -> tuple[str, ...]:
        return ()

    def derives(self) -> str:
        return self.of

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        """Open the past, and start the rounds. In virtual time, which must not pass meanwhile, reads run them."""
        async with AsyncExitStack() as stack:
            memory = await self._memory(site, stack)
            if isinstance(site.clock, VirtualClock):
                yield ForecastKeeper(self, memory, site, lambda: nullcontext(Here()), virtual=True)
                return
            keeper = ForecastKeeper(self, memory, site, lambda: aclosing(Apart(self.patience)))
            rounds = asyncio.create_task(keeper.run(), name=f"fit {self.label}")
            try:
                yield keeper
            finally:
                await cancel(rounds)

    async def _memory(self, site: Site, stack: AsyncExitStack) -> History:
        source = site.beside.get(self.of)
        if source is not None and source.remembers:
            return await stack.enter_async_context(source.memory(site))
        if self.of == JOURNAL and site.journal is not None:
            return JournalMemory(site.journal)
        raise ConfigError("", "of", f'must be a source with a past, or a journal on disk, is "{self.of}"')


class ForecastKeeper:
    """The reader: holds the forecasts by workload, and renews them in rounds."""

    def __init__(
        self, options: ForecastSource, memory: History, site: Site, opens: Opens, *, virtual: bool = False
    ) -> None:
        """`virtual`: a read runs the round that is due, as nobody calls `run`."""
        self._options, self._memory, self._site, self._opens = options, memory, site, opens
        self._wish = Wish(**shared_fields(options, Wish))
        self._virtual = virtual
        self._forecasts: dict[str, Forecast] = {}
        self._newest: dict[str, float] = {}
        self._since: dict[str, float] = {}
        self._looked = float("-inf")
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
        self._give_up(now)
        name = self._options.result
        faults = {name: self.error} if self.error else {}
        newest = max((forecast.fitted for forecast in self._forecasts.values()), default=None)
        forecasts = {name: dict(self._forecasts)}
        return Readings(self._options.label, now, faults=faults, newest=newest, forecasts=forecasts)

    def _give_up(self, now: float) -> None:
        """Every LOOK seconds, doubt the first forecasts that have not come within `valid` seconds, so that no scale-in
        waits on. Had a daemon before this one fitted them, they would have expired by now as well."""
        if now < self._looked + LOOK:
            return
        self._looked, valid = now, self._options.valid
        self._since = {key: self._since.get(key, now) for key in self._governed()}
        for key in self._awaited():
            since = self._since[key]
            if now >= since + valid:
                why = f"none could be fitted within {valid:g} s" + (f": {self.error}" if self.error else "")
                self._forecasts[key] = Forecast("", since, since + valid, doubt=why)

    def _awaited(self) -> list[str]:
        """The governed workloads of which neither a forecast nor a reason against one is known yet."""
        return [key for key in self._since if key not in self._forecasts]

    def describe(self) -> dict[str, object]:
        believed = sum(not forecast.doubt for forecast in self._forecasts.values())
        return {
            "forecasts": len(self._forecasts),
            "believed": believed,
            "awaited": len(self._awaited()),
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
        backoff = Backoff(FIRST_PAUSE, min(LONGEST_PAUSE, self._options.refit))
        self.due = now + (backoff.delay(self._failures_in_a_row) if self.error else self._options.refit)

    async def _round(self, governed: frozenset[str], now: float) -> str:
        """Fit all governed workloads. Returns the first thing that went wrong; empty if nothing did."""
        loads, used, replicas = await self._pasts(governed, now)
        trouble = ""
        async with self._opens() as fitter:
            for key in sorted(governed):
                load = loads.get(key)
                if load is None or not load.times:
                    self._keep(key, now, Reply(problem=f'there is no past of "{self._options.series}"'))
                elif load.times[-1] > self._newest.get(key, float("-inf")):
                    question = Question(
                        self._wish, PackedSamples.of(*load), _track(used.get(key)), _track(replicas.get(key))
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
        options, span = self._options, TimeRange(now - self._options.days * DAY, now, self._options.step)
        names = [options.series] + ([options.learn.used, options.learn.replicas] if options.learn else [])
        pasts = [await self._memory.past(name, governed, span) for name in names]
        return pasts + [{}] * (3 - len(pasts))

    def _keep(self, key: str, now: float, reply: Reply) -> None:
        self._fits += 1
        old = self._forecasts.get(key)
        if reply.forecast is None and old is not None and not old.doubt and now < old.expires:
            return  # a good one goes on until it expires
        none = Forecast("", now, now + self._options.valid, doubt=reply.problem)
        self._forecasts[key] = reply.forecast or none
        self._site.wake("workload", key)


def _track(points: Points | None) -> PackedSamples | None:
    return None if points is None else PackedSamples.of(points.times, points.values)


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [ForecastSource]
