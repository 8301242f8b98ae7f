"""Polls one source: one read serves all policies that are due.

Knows how fresh a reading must be to be shared, when a source can have something new, and how long to wait for it; knows
nothing of what it says.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import islice
from math import inf
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.backoff import Backoff
from elasticd.base.clock import Clock
from elasticd.base.news import LastReported
from elasticd.base.text import one_line, raised, shown
from elasticd.model.workload import Readings
from elasticd.ports.source import Describes, Reader, Site, Source
from elasticd.sources.bounds import MOST_SAMPLES, within
from elasticd.sources.pace import Pace
from elasticd.sources.threads import ThreadReader, readers

logger = logging.getLogger(__name__)

PATIENCE = 2.0
"""Seconds that a read may take before callers get the last reading instead."""

LONGEST_PAUSE = 15.0
"""Longest pause, in seconds, between reads of a failing source; the pause doubles from its `every` on."""

SLACK = 0.1
"""Seconds by which a tick may come early and still count as being in time."""

NOT_READ = "not read yet"

LEFT = 240.0
"""Seconds for which nobody asks for a source until it counts as unread; less than the 5 minutes of its alert, so that
one failure of the last read before that raises none."""

UNWANTED = 35.0
"""Seconds for which nobody asks for a source after which its reads begin anew: more than between two of those that ask
most seldom by default."""

_RECENT = 10
"""Times between two askings that are remembered: of policies with a longer interval."""

_FIRST_PAUSE = 0.5
_NEAR = 1e-6
"""Seconds by which sums of times may differ."""

_INSPECTED = 1000
"""How many subjects of a series `newest` looks at: they are updated together."""

ReadObserver = Callable[[str, float, bool], None]
"""Called after every read with the source's name, the seconds it took and whether it succeeded."""


class SourceReport(Struct, frozen=True):
    """The state of a source, for reports. `age` counts from its newest measurement, None without one; `seconds` is the
    mean duration of a read; `details` is what the source says of itself. `quiet` is why `health` tells of no failure,
    whatever it is: nobody asks for the source, or it has not been read yet, or
    it has seen too few samples so far."""

    name: str
    type: str
    health: str
    resolution: float | None
    age: float | None
    reads: int
    failures: int
    seconds: float
    samples: int
    series: tuple[str, ...]
    details: Any = None
    quiet: Literal["", "unread", "learning"] = ""


@asynccontextmanager
async def opened(
    sources: Sequence[Source],
    site: Site,
    observe_read: ReadObserver = lambda name, seconds, ok: None,
    most: int = MOST_SAMPLES,
    *,
    threads: bool = False,
) -> AsyncIterator[list["SourcePoller"]]:
    """Open the sources, with a poller for each, for as long as the block runs. `most`, `threads`: see `readers`."""
    site, pollers = replace(site, beside={source.label: source for source in sources}), list[SourcePoller]()

    def site_of(source: Source) -> Site:
        """Its reads also begin when somebody asks for it again."""

        def since() -> float:
            return max([site.since(), *[poller.wanted_since for poller in pollers if poller.name == source.label]])

        return replace(site, since=since)

    async with readers(sources, site_of, most, threads=threads) as opened_readers, AsyncExitStack() as stack:
        for source, reader, trouble in opened_readers:
            poller = SourcePoller(reader, source, site.clock, observe_read=observe_read, most=most)
            stack.push_async_callback(poller.close)
            poller.warn(trouble)
            pollers.append(poller)
        yield pollers


class SourcePoller:
    """A source's last reading, and the read that will replace it.

    `ask` begins a read when there can be something new, `take` gives the reading, or None while one that is worth
    waiting for is under way. A read that takes longer than `patience` seconds goes on by itself: meanwhile everyone
    gets the last reading, whose samples then look as old as they are. Nobody waits for the reads after it, until one is
    in time again.
    """

    def __init__(
        self,
        reader: Reader,
        source: Source,
        clock: Clock,
        patience: float = PATIENCE,
        observe_read: ReadObserver | None = None,
        most: int = MOST_SAMPLES,
    ) -> None:
        self.name, self._type, self._every = source.label, str(source.__struct_config__.tag), source.every
        self.offers = source.offers()
        self._reader, self._clock, self.patience, self._observe_read = reader, clock, patience, observe_read
        self._most, self._backoff = most, Backoff(max(source.every, _FIRST_PAUSE), LONGEST_PAUSE)
        self.last = Readings(self.name, 0.0, error=NOT_READ, offers=self.offers)
        """The last reading, whatever is under way."""
        self._complete = source.complete
        self._pushes, self._pace = source.pushes, Pace(source.resolution, source.every)
        self._on_read: list[Callable[[SourcePoller], None]] = []
        self.wanted_since = -inf
        """Since when somebody asks for it again and again; before that it was not read for a while."""
        self._askings: deque[float] = deque(maxlen=_RECENT)
        self._wanted_at = self._asked_at = self._retry_at = self._served_until = float("-inf")
        self._task: asyncio.Task[None] | None = None
        self._begun_at = 0.0
        self._closing = False
        self._late = False
        self._reads = self._failures = self._failures_in_a_row = 0
        self._seconds = 0.0
        self._reported = LastReported(("",))

    def has_any(self, names: Iterable[str] | None) -> bool:
        """Whether it may have one of these series; None stands for all there are."""
        return names is None or self.offers is None or not set(self.offers).isdisjoint(names)

    def next(self, now: float, when: float) -> float:
        """The last time between `now` and `when` at which an update is expected; `when` if that is not known."""
        return when if self._pushes or self._failures_in_a_row else self._pace.before(now, when)

    def on_read(self, callback: "Callable[[SourcePoller], None]") -> None:
        """Call this whenever a read has ended."""
        self._on_read.append(callback)

    def begin_anew(self) -> None:
        """No policy has read it until now, so nobody has seen whether it could be read meanwhile."""
        self._wanted_at = -inf

    def _want(self, now: float) -> None:
        """Somebody asks for it."""
        pause = now - self._wanted_at
        if pause > max(UNWANTED, 2 * max(self._askings, default=0.0)):
            self.wanted_since = now
        if 0 < pause < inf:
            self._askings.append(pause)
        self._wanted_at = now

    def _is_due(self, now: float) -> bool:
        """Whether a read may begin: a failing source is retried ever less often, any other is read at its pace. Whoever
        waited for the last read gets that first."""
        if now - self._asked_at < self._every or now < self._served_until:
            return False
        return now + (SLACK if self._failures_in_a_row else _NEAR) >= (
            self._retry_at if self._failures_in_a_row else self._pace.due
        )

    @property
    def due(self) -> float:
        """When to read the source without being asked, because an update is expected; infinity while a read is under
        way, and for a source that pushes."""
        if self._pushes or self._task is not None:
            return inf
        due = self._retry_at if self._failures_in_a_row else self._pace.unasked
        return max(due, self._asked_at + self._every, self._served_until)

    def ask(self, now: float) -> "asyncio.Task[None] | None":
        """Begin a read if one is due. Returns the read under way, if it is worth waiting for."""
        self._want(now)
        if self._task is None:
            if not self._is_due(now):
                return None
            self._begin(now)
        return None if self._late else self._task

    def renew(self, now: float) -> "asyncio.Task[None] | None":
        """Begin a read that is due without being asked, and return it."""
        self._want(now)
        if now < self.due:
            return None
        self._begin(now)
        return self._task

    def _begin(self, now: float) -> None:
        self._asked_at, self._begun_at = now, self._clock.now()
        self._task = asyncio.create_task(self._read(now), name=f"read {self.name}")

    def reads_to_end(self, now: float, *, asked: bool) -> bool:
        """Whether to `read_to_end` now: a read is due, and none is under way."""
        return self._task is None and (self._is_due(now) if asked else now >= self.due)

    async def read_to_end(self, now: float) -> None:
        """Read now as virtual time allows, which stands still meanwhile: no task is needed."""
        self._want(now)
        self._asked_at, self._begun_at = now, self._clock.now()
        await self._read(now)

    def take(self, now: float) -> Readings | None:
        """The reading to decide by; None as long as a newer one can be expected soon."""
        if self._task is not None and not self._late:
            if self._clock.now() - self._begun_at < self.patience:
                return None
            self._late = True
        return self.last

    async def _read(self, now: float) -> None:
        """Read once. Whatever the source raises becomes a reading with an error, so that other sources go on."""
        try:
            readings = await self._reader.read(now)
            if not isinstance(readings, Readings):
                readings = Readings(self.name, now, error=f"must answer with Readings, did with {shown(readings)}")  # type: ignore[unreachable]
        except asyncio.CancelledError:
            if self._closing or self._task is None:  # the caller is cancelled
                raise
            readings = Readings(self.name, now, error="the read was cancelled")
        except Exception as error:
            readings = Readings(self.name, now, error=raised(error))
        self._finish(within(readings, self._most))

    def _finish(self, readings: Readings) -> None:
        """Store a reading that has just come, and schedule the next read."""
        took = self._clock.now() - self._begun_at
        ended = self._asked_at + took
        if took > self._every:
            self._served_until = ended + SLACK
        self._task, self._late = None, took > self.patience
        self._reads += 1
        self._seconds += took
        if readings.error:
            self._failures += 1
            self._failures_in_a_row += 1
            self._retry_at = ended + self._backoff.delay(self._failures_in_a_row)
        else:
            self._failures_in_a_row = 0
            if not self._pushes:
                # Capped at the end of the read: timestamps from the future say nothing about the pace.
                self._pace.saw(self._asked_at, min(newest(readings), ended), took)
        self.last = replace(readings, source=self.name, offers=self.offers, complete=self._complete)
        self._note(readings)
        if self._observe_read is not None:
            self._observe_read(self.name, took, not readings.error)
        for callback in self._on_read:
            callback(self)

    def warn(self, trouble: str) -> None:
        """Report why the source cannot be read yet; an empty `trouble` means that it can."""
        if trouble:
            self.last = replace(self.last, error=trouble)
            self._note(self.last)

    def reopen(self) -> None:
        """Open a stuck source again, in a fresh thread."""
        if isinstance(self._reader, ThreadReader) and self._reader.reopen():
            self._retry_at = self._served_until = float("-inf")
            self.warn("is reopened")

    def _note(self, readings: Readings) -> None:
        """Log that the source or some of its series fail, once for each change."""
        trouble = (readings.error.partition(":")[0],) if readings.error else ("", *sorted(readings.faults))
        if not self._reported.changed(trouble):
            return
        if problem := _trouble(readings):
            logger.warning("source %s: %s", self.name, problem)
        else:
            logger.info("source %s: all is well again", self.name)

    def report(self, now: float) -> SourceReport:
        """The state of the source."""
        last, latest = self.last, newest(self.last)
        trouble = _trouble(last)
        return SourceReport(
            name=self.name,
            type=self._type,
            health="late" if self._is_late() and trouble in ("", NOT_READ) else trouble or "ok",
            resolution=self._pace.resolution,
            age=None if latest == float("-inf") else max(0.0, now - latest),
            reads=self._reads,
            failures=self._failures,
            seconds=self._seconds / self._reads if self._reads else 0.0,
            samples=sum(len(subjects) for table in (*_tables(last), last.forecasts) for subjects in table.values()),
            series=tuple(sorted({name for table in (*_tables(last), last.forecasts) for name in table})),
            details=self._reader.describe() if isinstance(self._reader, Describes) else None,
            quiet=self._why_quiet(now),
        )

    def _why_quiet(self, now: float) -> Literal["", "unread", "learning"]:
        """Why what is known of it tells of no failure: nobody waits for a read, because its policies were removed, or
        are still to come, or its pools have nothing to plan; the first is under way; or it is learning."""
        if now - self._wanted_at > LEFT or (self.last.error == NOT_READ and not self._is_late()):
            return "unread"
        return "learning" if self.last.learning and not (self.last.error or self._is_late()) else ""

    def _is_late(self) -> bool:
        """Whether the last read, or the one under way, took longer than `patience`."""
        return self._late or (self._task is not None and self._clock.now() - self._begun_at >= self.patience)

    async def close(self) -> None:
        """End a read that is still under way."""
        self._closing = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._task


def _trouble(readings: Readings) -> str:
    by_fault: dict[str, list[str]] = {}
    for name, fault in sorted(readings.faults.items()):
        by_fault.setdefault(fault, []).append(name)
    return one_line(readings.error or "; ".join(f"{_list_names(names)}: {fault}" for fault, names in by_fault.items()))


def _list_names(names: Sequence[str]) -> str:
    """All of up to three names, else two and a count: dozens of series may share a fault."""
    return ", ".join(names) if len(names) < 4 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def _tables(readings: Readings) -> tuple[Any, Any, Any]:
    return readings.pods, readings.workloads, readings.nodes


def newest(readings: Readings) -> float:
    """The newest time of measurement among some samples of each series; minus infinity for none."""
    if readings.newest is not None:
        return readings.newest
    return max(
        (
            sample.measured
            for table in _tables(readings)
            for subjects in table.values()
            for samples in islice(subjects.values(), _INSPECTED)
            for sample in samples
        ),
        default=float("-inf"),
    )
