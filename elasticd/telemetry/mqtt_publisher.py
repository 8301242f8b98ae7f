"""Publishes decisions and outcomes to an MQTT broker, as the journal's records.

Knows topics, and that a broker that is slow or away must cost the loop nothing. Decides nothing.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any

import aiomqtt
import msgspec
from msgspec import Meta, Struct

from elasticd.base.news import LastReported
from elasticd.base.tasks import cancel
from elasticd.model.listener import Governed, Notice
from elasticd.model.records import Decision, Outcome
from elasticd.sources.mqtt.broker import BrokerOptions
from elasticd.sources.mqtt.keeper import Connection
from elasticd.sources.mqtt.link import Link

PATIENCE = 1.0
"""Seconds at the end for records that still wait to be published."""

TRIES = 3
"""Times that a record is sent, if connections break over it, before it is dropped."""

_LEVEL = 253
"""Characters of the longest name in Kubernetes; a policy's may be longer."""

_UNFIT = str.maketrans("/+#\0", "____")
"""Characters that a level of a topic cannot have; no name in Kubernetes has them, but a policy's might."""


class PublisherSettings(BrokerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table [outlet]: the broker's options, and what is published to it."""

    prefix: Annotated[
        str, Meta(pattern="^[^+#$]+$", max_length=200, description="topics begin with it; each daemon needs its own")
    ] = "elasticd"
    all: Annotated[bool, Meta(description="every decision, not only changes, holds and new poll rates")] = False
    qos: Annotated[int, Meta(ge=0, le=1, description="quality of service")] = 1
    queue: Annotated[int, Meta(ge=1, le=1_000_000, description="records that wait, at most; then the oldest go")] = (
        10_000
    )

    @asynccontextmanager
    async def open(self) -> AsyncIterator["MqttPublisher"]:
        """Open a listener that publishes for as long as the block runs. Raises ConfigError for a file that is wrong."""
        self.examine()
        publisher = MqttPublisher(self)
        async with publisher.keeper.kept():
            try:
                yield publisher
            finally:
                await publisher.finish()


class PublisherReport(Struct, frozen=True):
    """The state of the publisher; `shed` counts records dropped because too many waited, or because no connection
    survived them."""

    connected: bool
    since: float
    published: int
    waiting: int
    shed: int
    trouble: str = ""


class MqttPublisher:
    """Listens to the loop, and publishes its records."""

    def __init__(self, outlet: PublisherSettings) -> None:
        self._outlet = outlet
        self.waiting: deque[Decision | Outcome] = deque()
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._reported = LastReported()
        self._tried: tuple[Decision | Outcome | None, int] = (None, 0)
        self.published = self.shed = 0
        self.keeper = Connection("outlet", outlet, self._link, self._run)

    def on(self, record: Notice) -> None:
        """Publish decisions that are news, and outcomes. Forget workloads that are no longer governed."""
        match record:
            case Decision():
                self._note_decision(record)
            case Outcome():
                self._enqueue(record)
            case Governed(keys):
                self._reported.keep(keys)
            case _:
                pass

    def _note_decision(self, decision: Decision) -> None:
        """Publish a decision if it is news: that a count is still right is none."""
        news = (decision.reason if decision.verdict == "hold" else "", decision.interval)
        is_news = self._reported.changed(news, (decision.policy, decision.workload))
        if self._outlet.all or decision.verdict == "scale" or is_news:
            self._enqueue(decision)

    def describe(self) -> PublisherReport:
        keeper = self.keeper
        return PublisherReport(
            keeper.connected, keeper.since, self.published, len(self.waiting), self.shed, keeper.trouble
        )

    def _enqueue(self, record: Decision | Outcome) -> None:
        if len(self.waiting) >= self._outlet.queue:
            self.waiting.popleft()
            self.shed += 1
        self.waiting.append(record)
        self._news.set()
        self._idle.clear()

    def _link(self, options: dict[str, Any]) -> Link:
        return Link(will=aiomqtt.Will(self._status, b"offline", qos=1, retain=True), **options)

    @property
    def _status(self) -> str:
        return f"{self._outlet.prefix}/status"

    async def _run(self, link: Link) -> None:
        """Say online and publish whatever waits, until the connection is lost. Say offline at an orderly end, after
        which the broker forgets the will."""
        await link.publish(self._status, b"online", qos=1, retain=True)
        tasks = [asyncio.create_task(link.lost()), asyncio.create_task(self.publish(link))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await cancel(*tasks)
            with suppress(aiomqtt.MqttError):
                await link.publish(self._status, b"offline", qos=1, retain=True, timeout=PATIENCE)
            raise
        raise next(end for end in await cancel(*tasks) if isinstance(end, Exception))

    async def publish(self, link: Link) -> None:
        """Publish all that waits, the oldest first. A record stays until it is sent; after a loss it is sent again."""
        while True:
            while self.waiting:
                record = self.waiting[0]
                if self._count_try(record) > TRIES:  # a broker may hang up on what is too large for it
                    self.shed += 1
                else:
                    await link.publish(self.topic(record), msgspec.json.encode(record), qos=self._outlet.qos)
                    self.published += 1
                if self.waiting and self.waiting[0] is record:  # else it has been shed meanwhile
                    self.waiting.popleft()
            self._idle.set()
            self._news.clear()
            await self._news.wait()

    def _count_try(self, record: Decision | Outcome) -> int:
        self._tried = (record, self._tried[1] + 1 if self._tried[0] is record else 1)
        return self._tried[1]

    def topic(self, record: Decision | Outcome) -> str:
        """The topic of a record: its kind and its workload, without characters that topics may not have."""
        kind = "decisions" if isinstance(record, Decision) else "outcomes"
        ref = record.workload
        levels = [level[:_LEVEL].translate(_UNFIT) for level in (ref.namespace, ref.kind, ref.name)]
        return "/".join([self._outlet.prefix, kind, *levels])

    async def finish(self) -> None:
        """Give waiting records a moment to be published, if the broker is connected."""
        if self.keeper.connected:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._idle.wait()
