"""The reader of an open MQTT source: subscribes, stays subscribed, and returns the newest readings.

Knows the order of connecting and subscribing; how a message becomes a reading is the intake's.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from elasticd.base.server_time import ServerTime
from elasticd.base.text import one_line
from elasticd.model.workload import Readings
from elasticd.ports.source import Site
from elasticd.sources.mqtt.broker import Subscribed
from elasticd.sources.mqtt.inbox import Inbox
from elasticd.sources.mqtt.intake import Intake
from elasticd.sources.mqtt.keeper import Connection
from elasticd.sources.mqtt.link import Link
from elasticd.sources.mqtt.table import SensorTable
from elasticd.sources.mqtt.topics import Topic

AGAIN = 30.0
"""Seconds after which a subscription that was denied is tried again."""

SWEEP = 1.0
"""Seconds between checks for subjects that have gone silent."""


class Described(Struct, frozen=True):
    """How the connection and the readings are. `since` is when it was connected, in seconds since the epoch. Of the
    messages `received`, those that do not wait were either `decoded`, or `shed`: they came faster than they could be
    decoded, and were replaced by newer; or they were too large. `refused` counts by reason; `missed` the numbers that
    consecutive sequences have skipped, wherever they were lost."""

    connected: bool
    since: float
    reconnects: int
    received: int
    decoded: int
    refused: dict[str, int]
    duplicates: int
    late: int
    shed: int
    missed: int
    subjects: int
    trouble: str = ""

    def counts(self) -> Mapping[str, int]:
        names = ("received", "decoded", "duplicates", "late", "shed", "missed")
        return {name: getattr(self, name) for name in names} | {"refused": sum(self.refused.values())}


class ReaderBounds(Struct, frozen=True):
    """What keeps memory bounded, and readings honest."""

    queue: int
    subjects: int
    ttl: float
    max_skew: float


class Listening:
    """The reader. Readings are live views: reading costs the same for one subject and for fifty thousand."""

    def __init__(
        self, label: str, broker: Subscribed, topics: Sequence[Topic], share: str, bounds: ReaderBounds, site: Site
    ) -> None:
        self._label, self._topics, self._clock = label, topics, site.clock
        self._prefix = f"$share/{share}/" if share else ""
        self._table = SensorTable(bounds.subjects, bounds.ttl, bounds.max_skew)
        self._inbox = Inbox(bounds.queue)
        self.intake = Intake(
            topics,
            self._table,
            self._inbox,
            max_payload=broker.max_payload,
            wake=site.wake,
            offset=ServerTime(site.clock).offset,
        )
        self.keeper = Connection(label, broker, self._link, self._listen)
        self._swept = float("-inf")
        self._answered = False
        self._denied: dict[str, str] = {}
        """Filters that the broker does not let us subscribe to, and why."""
        self._views = tuple(self._table.views(subject) for subject in ("pod", "workload", "node"))

    def _link(self, options: dict[str, Any]) -> Link:
        return Link(self.intake, self._clock.now, **options)

    async def _listen(self, link: Link) -> None:
        """Subscribe, and stay connected. Denied subscriptions are retried: the broker's rights may change."""
        self._answered, filters = False, self._filters()
        while True:
            await self._subscribe(link, filters)
            self._answered = True
            if not self._denied:
                await link.lost()
            filters = {filter_: qos for filter_, qos in filters.items() if filter_ in self._denied}
            # Not wait_for: before Python 3.12 it may swallow a cancellation that comes as the time is over.
            try:
                async with asyncio.timeout(AGAIN):
                    await link.lost()
            except TimeoutError:
                continue

    @property
    def subscribed(self) -> bool:
        """Whether the broker has answered to every subscription."""
        return self.keeper.connected and self._answered

    def _filters(self) -> dict[str, int]:
        """The filters to subscribe to, each with its quality of service."""
        filters: dict[str, int] = {}
        for topic in self._topics:
            for filter_ in self._filters_of(topic):
                filters[filter_] = max(topic.qos, filters.get(filter_, 0))
        return filters

    def _filters_of(self, topic: Topic) -> list[str]:
        """The filters of a topic. Every member of a group needs the last wills, so those are not shared."""
        readings, *wills = topic.filters
        return [self._prefix + readings, *wills]

    async def _subscribe(self, link: Link, filters: dict[str, int]) -> None:
        for filter_, qos in filters.items():
            codes = await link.subscribe(filter_, qos=qos)
            failed = [str(code) for code in codes if not isinstance(code, int) and code.is_failure]
            if failed:
                self._denied[filter_] = one_line(f"the broker denies SUBSCRIBE to {filter_}: {failed[0]}")
            else:
                self._denied.pop(filter_, None)

    async def read(self, now: float) -> Readings:
        """The newest readings, and what is wrong with them."""
        if now - self._swept >= SWEEP:
            self._swept = now
            self._table.sweep(now)
        self.intake.work()  # what came before the connection was lost
        pods, workloads, nodes = self._views
        return Readings(self._label, now, pods, workloads, nodes, faults=self._faults())

    def _faults(self) -> dict[str, str]:
        """Why series may lack new readings, and which series have none at all: no reading is not zero."""
        if self.keeper.trouble:
            return dict.fromkeys((topic.series for topic in self._topics), self.keeper.trouble)
        faults = dict.fromkeys(self._table.silent(), "no reading has come")
        if self._denied:
            for topic in self._topics:
                for why in (self._denied[filter_] for filter_ in self._filters_of(topic) if filter_ in self._denied):
                    faults[topic.series] = why
        return faults

    def describe(self) -> Described:
        intake, keeper = self.intake, self.keeper
        refused = intake.refused | {
            word: intake.verdicts[word] for word in ("clock", "subjects") if intake.verdicts[word]
        }
        return Described(
            connected=keeper.connected,
            since=keeper.since,
            reconnects=max(0, keeper.connections - 1),
            received=intake.received,
            decoded=intake.decoded,
            refused=dict(refused),
            duplicates=intake.verdicts["duplicate"],
            late=intake.verdicts["late"],
            shed=self._inbox.shed,
            missed=self._table.missed,
            subjects=self._table.size,
            trouble=keeper.trouble or "; ".join(self._denied.values()),
        )
