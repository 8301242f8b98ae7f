"""Since when this daemon has led and run without a pause: what happened before, it has not seen.

Knows clocks; knows nothing of who leads, and of who asks.
"""

import asyncio
import time

from elasticd.base.clock import Clock

BEAT = 0.5
"""Seconds between two looks at the clocks."""

PAUSE = 3.0
"""Seconds without a look after which the process, or its machine, was suspended. What stops both this daemon and a
server that it reads, such as a virtual machine that is moved, shows in no read."""


class Presence:
    """Takes note of pauses while `run` runs, also of those that only show in the time of day: a virtual machine may be
    stopped together with its clocks, and be told the time afterwards."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._since = clock, clock.now()
        self._looked: tuple[float, float] | None = None

    def begin(self, now: float) -> None:
        """The daemon begins to lead."""
        self._since = now

    def since(self) -> float:
        """Since when it has led and run. Right also for who asks in the moment in which the process goes on."""
        if self._looked is not None:
            self._look(*self._looked)
        return self._since

    def _look(self, clock: float, day: float) -> None:
        """Look at both clocks, which said this the last time."""
        now, today = self._clock.now(), time.time()
        if max(now - clock, today - day) > PAUSE:
            self._since = now
        self._looked = now, today

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        self._looked = self._clock.now(), time.time()
        while True:
            self._look(*self._looked)
            await asyncio.sleep(BEAT)
