"""The source mqtt: sensors publish readings, and each reading triggers its users at once.

Knows the source's options, and the order of connecting and subscribing; how a message becomes a reading is the
intake's. Knows nothing of who reads it.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct
from msgspec.structs import replace

from elasticd.api import hookimpl
from elasticd.base.clock import ServerTime
from elasticd.base.decode import shared_fields
from elasticd.base.text import one_line
from elasticd.model.workload import Readings
from elasticd.ports.source import Reader, Site, Source
from elasticd.sources.mqtt.broker import (
    ClientId,
    Host,
    Keepalive,
    MaxPayload,
    PasswordFile,
    Port,
    Protocol,
    SessionExpiry,
    Subscribed,
    Username,
)
from elasticd.sources.mqtt.intake import Inbox, Intake
from elasticd.sources.mqtt.keeper import Connection
from elasticd.sources.mqtt.link import Link
from elasticd.sources.mqtt.table import SensorTable
from elasticd.sources.mqtt.topics import Topic
from elasticd.sources.tls import Tls

AGAIN = 30.0
"""Seconds after which a subscription that was denied is tried again."""

SWEEP = 1.0
"""Seconds between checks for subjects that have gone silent."""


class Mqtt(Source, frozen=True, kw_only=True, tag="mqtt"):
    """What sensors publish to an MQTT broker, of version 5 or 3.1.1."""

    pushes: ClassVar[bool] = True
    """Messages come by themselves: a read costs nothing, and none is too soon."""

    complete: ClassVar[bool] = False
    """A sensor that is silent is not one that measures 0."""

    topic: Annotated[tuple[Topic, ...], Meta(min_length=1, description="what to listen to: [[source.topic]]")]
    host: Host = "localhost"
    port: Port = 0
    protocol: Protocol = "5"
    client_id: ClientId = ""
    session_expiry: SessionExpiry = 0
    keepalive: Keepalive = 30
    username: Username = ""
    password_file: PasswordFile = ""
    tls: Tls | None = None
    max_payload: MaxPayload = 1 << 20
    share: Annotated[
        str,
        Meta(pattern="^[^/+#]*$", max_length=100, description="group in which each message goes to one; empty: none"),
    ] = ""
    max_skew: Annotated[
        float, Meta(gt=0, le=86400, description="seconds that a sender's clock may differ from the daemon's")
    ] = 60.0
    ttl: Annotated[float, Meta(ge=1, le=604800, description="seconds after which a silent subject is forgotten")] = (
        600.0
    )
    subjects: Annotated[int, Meta(ge=1, le=1_000_000, description="readings that are kept, at most")] = 50_000
    queue: Annotated[int, Meta(ge=10, le=1_000_000, description="messages that wait to be decoded, at most")] = 20_000

    def __post_init__(self) -> None:
        _ = self.broker  # checks options that exclude each other
        if self.share and any(topic.consecutive for topic in self.topic):
            # A member of a group does not get every message.
            raise ValueError("share: must be empty where a topic is consecutive, is not")

    def offers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(topic.series for topic in self.topic))

    @property
    def broker(self) -> Subscribed:
        return Subscribed(**shared_fields(self, Subscribed))

    def apart(self) -> Source:
        """A copy without client_id, which would disconnect the daemon, and without group, which would take messages."""
        return replace(self, client_id="", session_expiry=0, share="")

    def examine(self) -> None:
        self.broker.examine()

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        """Begin to connect: the readings report a broker that is down."""
        self.examine()
        reader = Listening(self, site)
        async with reader.keeper.kept():
            yield reader


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


class Listening:
    """The reader. Readings are live views: reading costs the same for one subject and for fifty thousand."""

    def __init__(self, options: Mqtt, site: Site) -> None:
        self._label, self._topics, self._clock = options.label, options.topic, site.clock
        self._prefix = f"$share/{options.share}/" if options.share else ""
        self._table = SensorTable(options.subjects, options.ttl, options.max_skew)
        self._inbox = Inbox(options.queue)
        self.intake = Intake(
            self._topics,
            self._table,
            self._inbox,
            max_payload=options.max_payload,
            wake=site.wake,
            offset=ServerTime(site.clock).offset,
        )
        self.keeper = Connection(self._label, options.broker, self._link, self._listen)
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
        faults = dict.fromkeys(self._table.silent(), "no reading has come, or the last is older than ttl")
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


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [Mqtt]
