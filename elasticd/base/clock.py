"""Time, real and virtual, and times of day as others write them. Knows nothing of what it is used for.

All times in elasticd are seconds since the epoch, so that they can be compared with those of sources; but they
advance with the monotonic clock, so that a step of the system's clock moves no window and no interval.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from elasticd.base.tasks import cancel

_STEP, _TOLERANCE = 0.125, 0.1


class Clock(Protocol):
    """Something to tell the time and to wait by."""

    def now(self) -> float:
        """Seconds since the epoch; never goes back."""

    async def sleep_until(self, when: float) -> None:
        """Return at that time, or at once when it is past."""


def _elapsed() -> float:
    """Seconds of a clock that is never set. Where there is one, it also counts the time a machine sleeps: a virtual
    machine that was suspended would otherwise see every sample as one from the future."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class WallClock:
    """Real time: the system's clock as it was at start, advanced by one that is never set."""

    def __init__(self) -> None:
        self._offset = time.time() - _elapsed()

    def now(self) -> float:
        return _elapsed() + self._offset

    async def sleep_until(self, when: float) -> None:
        await asyncio.sleep(max(0.0, when - self.now()))


class VirtualClock:
    """Time that passes only by waiting: a day takes as long as its decisions do."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    async def sleep_until(self, when: float) -> None:
        self._now = max(self._now, when)
        await asyncio.sleep(0)


class ServerTime:
    """What to add to a time of day to get a time of the clock, which no step of the system's clock moves. Every time
    that is read from elsewhere is converted so, and a pod's times and a sample's can be compared.

    The API writes whole seconds and judgement compares them for equality, so the difference is kept while it moves by
    no more than a tenth of a second, and is a multiple of 1/8 s: sums and differences of such times are exact.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = 0.0

    def offset(self) -> float:
        """Seconds to add to a time of day that is received now, to get a time of the clock."""
        difference = self._clock.now() - time.time()
        if abs(difference - self._offset) > _TOLERANCE:
            self._offset = round(difference / _STEP) * _STEP
        return self._offset


async def pause(clock: Clock, until: float, changed: asyncio.Event, gathered: Callable[[], float]) -> None:
    """Wait for that time, or for a change; after a change until `gathered()`, so that what comes meanwhile shares a
    tick."""
    if not changed.is_set():
        await _due_or_changed(clock, until, changed)
    if changed.is_set():
        await clock.sleep_until(gathered())


async def _due_or_changed(clock: Clock, until: float, changed: asyncio.Event) -> None:
    if isinstance(clock, VirtualClock):  # where nothing happens while time passes
        await clock.sleep_until(until)
        return
    waits = [asyncio.ensure_future(clock.sleep_until(until)), asyncio.ensure_future(changed.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel(*waits)
