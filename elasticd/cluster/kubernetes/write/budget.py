"""Limits how often the API server is written to: a token bucket, and a clock to wait by.

Scales reserve their turn in order; whatever is less urgent may only take what scales will not miss.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from elasticd.base.clock import Clock
from elasticd.cluster.kubernetes.write.answers import spent
from elasticd.model.actions import Answer

Allowed = Callable[[], Answer | None]
"""Asked just before each write; an answer forbids it, None allows it."""


class Budget:
    """A token bucket. Its level may be negative: reserved, and paid back as time passes. `patience` is how many seconds
    a write may wait for its turn."""

    patience = 30.0

    def __init__(self, clock: Clock, rate: float, burst: int) -> None:
        self._clock, self._rate, self._burst = clock, rate, burst
        self._level, self._at = float(burst), clock.now()
        self._paused_until = self._at
        """When the server's last request for quiet ends."""
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

    def level(self, now: float) -> float:
        """The tokens that are there now."""
        return min(self._burst, self._level + max(0.0, now - self._at) * self._rate)

    def wait(self, now: float) -> float:
        """Seconds until a token that is reserved now may be used."""
        return max((1 - self.level(now)) / self._rate, self._paused_until - now, 0.0)

    def _reserve(self, now: float) -> None:
        """Take a token, perhaps of the future."""
        self._level, self._at = self.level(now) - 1, max(now, self._at)

    async def take(self, patience: float) -> bool:
        """Wait for the turn of one urgent write. False, at once, if it would take longer than `patience` seconds."""
        now = self._clock.now()
        if (wait := self.wait(now)) > patience:
            return False
        self._reserve(now)
        when = now + wait
        try:
            # The server may ask for quiet while this write waits for its turn, so look again on waking.
            while (when := max(when, self._paused_until)) > self._clock.now():
                await self._clock.sleep_until(when)
        except BaseException:
            self._level = min(self._burst, self._level + 1)  # its turn was not used
            raise
        return True

    async def turn(self, allowed: Allowed | None = None, patience: float | None = None) -> Answer | None:
        """Wait for the turn of one urgent write, with patience (in seconds; None: that of all writes); an answer: it
        must not be written. One whose turn would come later takes no turn."""
        wait = self.wait(self._clock.now())
        if not await self.take(self.patience if patience is None else patience):
            return spent(f"the write budget is spent for the next {wait:.1f} s")
        return allowed() if allowed else None

    def spare(self) -> bool:
        """Take a token for something that can be left out, if more than half of the burst remains for scales; whether
        it was taken."""
        now = self._clock.now()
        if now < self._paused_until or self.level(now) < 1 + self._burst / 2:
            return False
        self._reserve(now)
        return True

    def pause(self, seconds: float) -> None:
        """Write nothing for that long, because the server asked for it; 0 changes nothing."""
        self._paused_until = max(self._paused_until, self._clock.now() + seconds)
