"""All sources of a daemon: which of them serve a policy, who waits for which, and when they have something new.

Knows shelves and policies; knows nothing of what is decided.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from elasticd.model.policy import Policy, PoolPolicy
from elasticd.model.workload import Readings
from elasticd.sources.poller import PATIENCE, SourcePoller, SourceReport

K = TypeVar("K")

WAIT = 0.05
"""Seconds that everybody waits for the sources of a tick. Whoever needs one that takes longer is looked at when it has
answered, and keeps nobody else."""


class SourceRouter(Generic[K]):
    """The shelves, in the order of elasticd.toml. `ready` is told of keys whose source has answered late."""

    def __init__(
        self, pollers: Sequence[SourcePoller], ready: Callable[[Iterable[K]], None], wait: float | None = WAIT
    ) -> None:
        """`wait`: seconds of real time; None: until all have answered, as in virtual time, which stands still."""
        self._pollers, self._ready, self._wait = tuple(pollers), ready, wait
        self._serving: dict[str, tuple[SourcePoller, ...]] = {}

    def forget(self) -> None:
        """The policies have changed."""
        self._serving.clear()

    def known(self, policy: str) -> tuple[SourcePoller, ...] | None:
        """What `serving` has said of it; None before."""
        return self._serving.get(policy)

    def serving(self, policy: Policy | PoolPolicy, reads: frozenset[str] | None) -> tuple[SourcePoller, ...]:
        """The sources that may have a series that the policy reads, in its own order."""
        pollers = self._serving.get(policy.name)
        if pollers is None:
            pollers = self._serving[policy.name] = self.having(policy, reads)
        return pollers

    def having(self, policy: Policy | PoolPolicy, names: Iterable[str] | None) -> tuple[SourcePoller, ...]:
        """The sources that may have one of these series, in the policy's order."""
        by_name = {poller.name: poller for poller in self._pollers}
        trusted = [by_name[name] for name in policy.trust.sources if name in by_name]
        order = trusted if policy.trust.sources else self._pollers
        return tuple(poller for poller in order if poller.has_any(names))

    async def read(
        self, wanted: Mapping[K, tuple[SourcePoller, ...]], now: float, watched: Iterable[SourcePoller] = ()
    ) -> dict[K, list[Readings]]:
        """The readings of each key's sources. A key one of whose sources is still being waited for is left out, and
        told to `ready` when that has answered. Of the `watched`, those that have something new are read as well."""
        needed = dict.fromkeys(poller for pollers in wanted.values() for poller in pollers)  # in an order that repeats
        tasks = {poller: task for poller in needed if (task := poller.ask(now)) is not None}
        tasks |= {poller: task for poller in watched if (task := poller.renew(now)) is not None}
        if tasks:
            await asyncio.wait(tasks.values(), timeout=self._wait)
        latest = {poller: poller.take(now) for poller in needed}
        served: dict[tuple[SourcePoller, ...], list[Readings]] = {}
        for pollers in dict.fromkeys(wanted.values()):  # few beside the keys
            readings = [reading for poller in pollers if (reading := latest[poller]) is not None]
            if len(readings) == len(pollers):
                served[pollers] = readings
        complete = {key: served[pollers] for key, pollers in wanted.items() if pollers in served}
        for poller, task in tasks.items():
            waiting = [key for key, pollers in wanted.items() if poller in pollers and key not in complete]
            if waiting and not task.done():
                task.add_done_callback(lambda _, keys=waiting: self._ready(keys))  # type: ignore[misc]
        return complete

    async def read_or_last(self, wanted: Mapping[K, tuple[SourcePoller, ...]], now: float) -> dict[K, list[Readings]]:
        """The same for who is looked at now because of one source: where another takes its time, its last reading."""
        if not wanted:
            return {}
        complete = await self.read(wanted, now)
        return {key: complete.get(key) or [poller.last for poller in pollers] for key, pollers in wanted.items()}

    def on_read(self, callback: Callable[[SourcePoller], None]) -> None:
        """Call this whenever a read of any of them has ended."""
        for poller in self._pollers:
            poller.on_read(callback)

    @staticmethod
    def next(pollers: Sequence[SourcePoller], now: float, when: float) -> float:
        """The last time between the two at which one of these has something new; `when` if that is not known."""
        for poller in pollers:
            when = poller.next(now, when)
        return when

    @staticmethod
    async def look(pollers: Sequence[SourcePoller], now: float) -> list[Readings]:
        """The readings as they are for somebody who asks in between, and has the patience to wait for them."""
        tasks = [task for poller in pollers if (task := poller.ask(now)) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE)
        return [poller.last for poller in pollers]

    def report(self, now: float) -> list[SourceReport]:
        """How each source fares."""
        return [poller.report(now) for poller in self._pollers]
