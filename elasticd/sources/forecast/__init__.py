"""The source forecast: forecasts loads from another source's past.

Knows its options and when rounds begin; the modules of this package know the process that fits and the journal as a
past, elasticd.sources.forecasting the arithmetic. Knows nothing of who reads a forecast.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from typing import Annotated, ClassVar

from msgspec import Meta, field

from elasticd.api import hookimpl
from elasticd.base.clock import VirtualClock
from elasticd.base.errors import ConfigError
from elasticd.ports.source import JOURNAL, History, Reader, Site, Source
from elasticd.sources.forecast.fitter import Apart, Here, lacking
from elasticd.sources.forecast.journal import JournalMemory
from elasticd.sources.forecast.keeper import ForecastKeeper, ForecastPlan, Learn
from elasticd.sources.forecasting.request import DAY, WEEK, Method, Quantile, Wish

MOST_POINTS = 50_000

Name = Annotated[str, Meta(min_length=1)]
Days = Annotated[float, Meta(gt=0, le=366, description="days of past that are looked at")]
Step = Annotated[float, Meta(ge=1, le=86400, description="seconds between the values of past and forecast")]
Period = Annotated[float, Meta(gt=0, description="seconds")]


class ForecastSource(Source, frozen=True, kw_only=True, tag="forecast"):
    """A load of each governed workload as it is expected to be, learnt from the past of one series.

    A forecast counts while it beats the repetition of the last period on the newest part of the past, and until it
    expires; the strategy forecast reads it. It is fitted in a process of its own."""

    pushes: ClassVar[bool] = True
    complete: ClassVar[bool] = False
    forecasts: ClassVar[bool] = True

    of: Annotated[Name, Meta(description='name of a source with a past (prometheus, recording), or "journal"')]
    series: Annotated[Name, Meta(description="the load, a series of workloads")]
    as_: Annotated[str, Meta(description="the series it becomes; empty: the load's name with _forecast")] = field(
        default="", name="as"
    )
    days: Days = 14.0
    step: Step = 60.0
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
    every: Annotated[float, Meta(ge=0, le=3600, description="seconds between reads, at least")] = 0.0

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

    def plan(self) -> ForecastPlan:
        """The options in the form that the keeper takes."""
        wish = Wish(**{name: getattr(self, name) for name in Wish.__struct_fields__})
        return ForecastPlan(self.label, self.result, self.series, self.learn, wish, self.days * DAY, self.refit)

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        """Open the past, and start the rounds. In virtual time, which must not pass meanwhile, reads run them."""
        async with AsyncExitStack() as stack:
            memory = await self._memory(site, stack)
            if isinstance(site.clock, VirtualClock):
                yield ForecastKeeper(self.plan(), memory, site, lambda: nullcontext(Here()), virtual=True)
                return
            keeper = ForecastKeeper(self.plan(), memory, site, lambda: aclosing(Apart(self.patience)))
            rounds = asyncio.create_task(keeper.run(), name=f"fit {self.label}")
            try:
                yield keeper
            finally:
                rounds.cancel()
                await asyncio.gather(rounds, return_exceptions=True)

    async def _memory(self, site: Site, stack: AsyncExitStack) -> History:
        source = site.beside.get(self.of)
        if source is not None and source.remembers:
            return await stack.enter_async_context(source.memory(site))
        if self.of == JOURNAL and site.journal is not None:
            return JournalMemory(site.journal)
        raise ConfigError("", "of", f'must be a source with a past, or a journal on disk, is "{self.of}"')


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [ForecastSource]
