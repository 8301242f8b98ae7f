"""All sources of a daemon: which of them serve a policy, who waits for which, and when they have something new.

Knows shelves and policies; knows nothing of what is decided.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from elasticd.model.policy import Policy, PoolPolicy
from elasticd.model.workload import Readings
from elasticd.sources.poller import PATIENCE, Shelf, SourceReport

K = TypeVar("K")

WAIT = 0.05
"""Seconds that everybody waits for the sources of a tick. Whoever needs one that takes longer is looked at when it has
answered, and keeps nobody else."""


class Stock(Generic[K]):
    """The shelves, in the order of elasticd.toml. `ready` is told of keys whose source has answered late."""

    def __init__(
        self, shelves: Sequence[Shelf], ready: Callable[[Iterable[K]], None], wait: float | None = WAIT
    ) -> None:
        """`wait`: seconds of real time; None: until all have answered, as in virtual time, which stands still."""
        self._shelves, self._ready, self._wait = tuple(shelves), ready, wait
        self._serving: dict[str, tuple[Shelf, ...]] = {}

    def forget(self) -> None:
        """The policies have changed."""
        self._serving.clear()

    def known(self, policy: str) -> tuple[Shelf, ...] | None:
        """What `serving` has said of it; None before."""
        return self._serving.get(policy)

    def serving(self, policy: Policy | PoolPolicy, reads: frozenset[str] | None) -> tuple[Shelf, ...]:
        """The sources that may have a series that the policy reads, in its own order."""
        found = self._serving.get(policy.name)
        if found is None:
            found = self._serving[policy.name] = self.having(policy, reads)
        return found

    def having(self, policy: Policy | PoolPolicy, names: Iterable[str] | None) -> tuple[Shelf, ...]:
        """The sources that may have one of these series, in the policy's order."""
        by_name = {shelf.name: shelf for shelf in self._shelves}
        named = [by_name[name] for name in policy.trust.sources if name in by_name]
        order = named if policy.trust.sources else self._shelves
        return tuple(shelf for shelf in order if shelf.has_any(names))

    async def read(
        self, wanted: Mapping[K, tuple[Shelf, ...]], now: float, watched: Iterable[Shelf] = ()
    ) -> dict[K, list[Readings]]:
        """The readings of each key's sources. A key one of whose sources is still being waited for is left out, and
        told to `ready` when that has answered. Of the `watched`, those that have something new are read as well."""
        needed = dict.fromkeys(shelf for shelves in wanted.values() for shelf in shelves)  # in an order that repeats
        tasks = {shelf: task for shelf in needed if (task := shelf.ask(now)) is not None}
        tasks |= {shelf: task for shelf in watched if (task := shelf.renew(now)) is not None}
        if tasks:
            await asyncio.wait(tasks.values(), timeout=self._wait)
        taken = {shelf: shelf.take(now) for shelf in needed}
        served: dict[tuple[Shelf, ...], list[Readings]] = {}
        for shelves in dict.fromkeys(wanted.values()):  # few beside the keys
            readings = [said for shelf in shelves if (said := taken[shelf]) is not None]
            if len(readings) == len(shelves):
                served[shelves] = readings
        found = {key: served[shelves] for key, shelves in wanted.items() if shelves in served}
        for shelf, task in tasks.items():
            waiting = [key for key, shelves in wanted.items() if shelf in shelves and key not in found]
            if waiting and not task.done():
                task.add_done_callback(lambda _, keys=waiting: self._ready(keys))  # type: ignore[misc]
        return found

    async def read_or_last(self, wanted: Mapping[K, tuple[Shelf, ...]], now: float) -> dict[K, list[Readings]]:
        """The same for who is looked at now because of one source: where another takes its time, its last reading."""
        if not wanted:
            return {}
        found = await self.read(wanted, now)
        return {key: found.get(key) or [shelf.last for shelf in shelves] for key, shelves in wanted.items()}

    def heed(self, heard: Callable[[Shelf], None]) -> None:
        """Call this whenever a read of any of them has ended."""
        for shelf in self._shelves:
            shelf.heed(heard)

    @staticmethod
    def next(shelves: Sequence[Shelf], now: float, when: float) -> float:
        """The last time between the two at which one of these has something new; `when` if that is not known."""
        for shelf in shelves:
            when = shelf.next(now, when)
        return when

    @staticmethod
    async def look(shelves: Sequence[Shelf], now: float) -> list[Readings]:
        """The readings as they are for somebody who asks in between, and has the patience to wait for them."""
        tasks = [task for shelf in shelves if (task := shelf.ask(now)) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE)
        return [shelf.last for shelf in shelves]

    def report(self, now: float) -> list[SourceReport]:
        """How each source fares."""
        return [shelf.report(now) for shelf in self._shelves]
