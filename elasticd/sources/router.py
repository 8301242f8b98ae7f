"""All sources of a daemon: which of them serve a policy, who waits for which, and when they have something new.

Knows pollers and policies; knows nothing of what is decided.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Generic, TypeVar

from elasticd.model.policy import Policy, PoolPolicy
from elasticd.model.workload import Readings
from elasticd.sources.poller import PATIENCE, SourcePoller, SourceReport

K = TypeVar("K")

WAIT = 0.05
"""Seconds that a tick waits for its sources. A key whose source takes longer is evaluated when that has answered, and
delays no other."""


class SourceRouter(Generic[K]):
    """The pollers, in the order of elasticd.toml, and which of them each policy reads.

    `ready` is called with the keys whose source has answered late."""

    def __init__(
        self, pollers: Sequence[SourcePoller], ready: Callable[[Iterable[K]], None], wait: float | None = WAIT
    ) -> None:
        """`wait`: seconds of real time; None: until all have answered, as in virtual time, which stands still."""
        self._pollers, self._ready, self._wait = tuple(pollers), ready, wait
        self._serving: dict[str, tuple[SourcePoller, ...]] = {}
        self._served_before: frozenset[SourcePoller] = frozenset()

    def forget(self) -> None:
        """Forget which sources serve which policy: the policies have changed."""
        self._served_before = frozenset(chain.from_iterable(self._serving.values()))
        self._serving.clear()

    def known(self, policy: str) -> tuple[SourcePoller, ...] | None:
        """The sources that `serving` gave for this policy; None if it has not been asked yet."""
        return self._serving.get(policy)

    def serving(self, policy: Policy | PoolPolicy, reads: frozenset[str] | None) -> tuple[SourcePoller, ...]:
        """The sources that may have a series that the policy reads, in its own order."""
        pollers = self._serving.get(policy.name)
        if pollers is None:
            served = self._served_before.union(*self._serving.values())
            pollers = self._serving[policy.name] = self.having(policy, reads)
            for poller in pollers:
                if poller not in served:
                    poller.begin_anew()
        return pollers

    def having(self, policy: Policy | PoolPolicy, names: Iterable[str] | None) -> tuple[SourcePoller, ...]:
        """The sources that may have one of these series, in the policy's order."""
        by_name = {poller.name: poller for poller in self._pollers}
        trusted = [by_name[name] for name in policy.trust.sources if name in by_name]
        order = trusted if policy.trust.sources else self._pollers
        return tuple(poller for poller in order if poller.has_any(names))

    async def read(
        self, pollers_of: Mapping[K, tuple[SourcePoller, ...]], now: float, watched: Iterable[SourcePoller] = ()
    ) -> dict[K, list[Readings]]:
        """The readings of each key's sources.

        A key that still waits for one of its sources is left out, and passed to `ready` when that has answered. Of the
        `watched` sources, those for which an update is expected are read as well."""
        # Not a set, whose order would not be reproducible.
        distinct = dict.fromkeys(pollers_of.values())  # far fewer than keys
        needed = dict.fromkeys(chain.from_iterable(distinct))
        tasks: dict[SourcePoller, asyncio.Task[None]] = {}
        if self._wait is not None:
            tasks = await self._begin_reads(needed, watched, now, self._wait)
        else:  # most ticks of virtual time are between two reads
            for poller in _due(needed, watched, now):
                await poller.read_to_end(now)
        latest = {poller: poller.take(now) for poller in needed}
        served: dict[tuple[SourcePoller, ...], list[Readings]] = {}
        for pollers in distinct:
            readings = [reading for poller in pollers if (reading := latest[poller]) is not None]
            if len(readings) == len(pollers):
                served[pollers] = readings
        if len(served) == len(distinct):
            return {key: served[pollers] for key, pollers in pollers_of.items()}
        complete = {key: served[pollers] for key, pollers in pollers_of.items() if pollers in served}
        for poller, task in tasks.items():
            waiting = [key for key, pollers in pollers_of.items() if poller in pollers and key not in complete]
            if waiting and not task.done():
                task.add_done_callback(lambda _, keys=waiting: self._ready(keys))  # type: ignore[misc]
        return complete

    @staticmethod
    async def _begin_reads(
        needed: Iterable[SourcePoller], watched: Iterable[SourcePoller], now: float, wait: float
    ) -> dict[SourcePoller, "asyncio.Task[None]"]:
        """Read what is due, and wait for it. Returns the reads that had to be waited for."""
        tasks = {poller: task for poller in needed if (task := poller.ask(now)) is not None}
        tasks |= {poller: task for poller in watched if (task := poller.renew(now)) is not None}
        if tasks:
            await asyncio.wait(tasks.values(), timeout=wait)
        return tasks

    async def read_or_last(
        self, pollers_of: Mapping[K, tuple[SourcePoller, ...]], now: float
    ) -> dict[K, list[Readings]]:
        """Like `read`, for keys that an update of one source triggered: a slow source contributes its last reading."""
        if not pollers_of:
            return {}
        complete = await self.read(pollers_of, now)
        return {key: complete.get(key) or [poller.last for poller in pollers] for key, pollers in pollers_of.items()}

    @staticmethod
    def next(pollers: Sequence[SourcePoller], now: float, when: float) -> float:
        """The last time between `now` and `when` at which one of these has an update; `when` if that is not known."""
        for poller in pollers:
            when = poller.next(now, when)
        return when

    @staticmethod
    async def look(pollers: Sequence[SourcePoller], now: float) -> list[Readings]:
        """The readings for a caller between ticks, who waits up to PATIENCE for reads that are due."""
        tasks = [task for poller in pollers if (task := poller.ask(now)) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE)
        return [poller.last for poller in pollers]

    def report(self, now: float) -> list[SourceReport]:
        return [poller.report(now) for poller in self._pollers]


def _due(needed: Iterable[SourcePoller], watched: Iterable[SourcePoller], now: float) -> Iterator[SourcePoller]:
    """Those that are read now: one that is watched may have been read just before because it is needed."""
    for poller in needed:
        if poller.reads_to_end(now, asked=True):
            yield poller
    for poller in watched:
        if poller.reads_to_end(now, asked=False):
            yield poller
