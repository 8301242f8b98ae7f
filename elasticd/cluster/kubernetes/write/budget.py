"""Limits how often the API server is written to.

`Bucket` is arithmetic on times it is given; `Budget` waits by a clock. Scales reserve their turn in order;
whatever is less urgent may only take what scales will not miss.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from elasticd.base.clock import Clock
from elasticd.cluster.kubernetes.write.answers import spent
from elasticd.model.actions import Answer

Allowed = Callable[[], Answer | None]
"""Asked just before each write; an answer forbids it, None allows it."""


class Bucket:
    """A token bucket whose level may be negative: reserved, and paid back as time passes."""

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self.rate, self.burst = rate, burst
        self._level, self._at = float(burst), now
        self.paused_until = now
        """When the server's last request for quiet ends."""

    def level(self, now: float) -> float:
        """The tokens that are there now."""
        return min(self.burst, self._level + max(0.0, now - self._at) * self.rate)

    def wait(self, now: float) -> float:
        """Seconds until a token that is reserved now may be used."""
        return max((1 - self.level(now)) / self.rate, self.paused_until - now, 0.0)

    def reserve(self, now: float) -> float:
        """Take a token, perhaps of the future, and return when it may be used."""
        when = now + self.wait(now)
        self._level, self._at = self.level(now) - 1, max(now, self._at)
        return when

    def give_back(self) -> None:
        """Undo one reservation that was not used."""
        self._level = min(self.burst, self._level + 1)

    def spare(self, now: float) -> bool:
        """Take a token if more than half of the burst remains for scales; whether it was taken."""
        if now < self.paused_until or self.level(now) < 1 + self.burst / 2:
            return False
        self.reserve(now)
        return True

    def pause(self, until: float) -> None:
        """Nothing may be written before then: the server asked for it."""
        self.paused_until = max(self.paused_until, until)


class Budget:
    """A bucket and a clock to wait by. `patience` is how many seconds a write may wait for its turn."""

    patience = 30.0

    def __init__(self, clock: Clock, rate: float, burst: int) -> None:
        self._clock = clock
        self.bucket = Bucket(rate, burst, clock.now())
        self._urgent = 0
        self.calm = asyncio.Event()
        """Set while nothing urgent is being written."""
        self.calm.set()

    @contextmanager
    def urgent(self) -> Iterator[None]:
        """Something urgent is being written for as long as the block runs."""
        self._urgent += 1
        self.calm.clear()
        try:
            yield
        finally:
            self._urgent -= 1
            if not self._urgent:
                self.calm.set()

    async def take(self, patience: float) -> bool:
        """Wait for the turn of one urgent write. False, at once, if it would take longer than `patience` seconds."""
        now = self._clock.now()
        if self.bucket.wait(now) > patience:
            return False
        when = self.bucket.reserve(now)
        try:
            await self._wait(when)
        except BaseException:
            self.bucket.give_back()
            raise
        return True

    async def turn(self, allowed: Allowed | None = None) -> Answer | None:
        """Wait for the turn of one urgent write, with patience; an answer: it must not be written."""
        if not await self.take(self.patience):
            return spent(f"the write budget is spent for the next {self.patience:g} s")
        return allowed() if allowed else None

    async def _wait(self, when: float) -> None:
        # The server may ask for quiet while this write waits for its turn, so look again on waking.
        while (when := max(when, self.bucket.paused_until)) > self._clock.now():
            await self._clock.sleep_until(when)

    def spare(self) -> bool:
        """Take a token for something that can be left out; whether there was one to spare."""
        return self.bucket.spare(self._clock.now())

    def pause(self, seconds: float) -> None:
        """Write nothing for that long; 0 changes nothing."""
        self.bucket.pause(self._clock.now() + seconds)
