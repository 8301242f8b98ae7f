"""The source kafka: how many messages of a topic a group of consumers has not read yet.

Knows offsets; knows nothing of who reads the lag. The client comes with elasticd[kafka], and is imported when a source
is opened.
"""

import asyncio
import importlib
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Annotated, Any, Literal

from msgspec import Meta

from elasticd.api import hookimpl
from elasticd.base.errors import ConfigError
from elasticd.base.secrets import read_secret
from elasticd.base.text import raised
from elasticd.ports.source import Every, Reader, Site, Source
from elasticd.sources.queues.lengths import Lengths, Queue, QueueSource, check_library, check_queues
from elasticd.sources.rounds import Fault
from elasticd.sources.tls import Tls, check_files, tls_context

NONE_COMMITTED = -1
"""The offset of a partition for which a group has committed none."""


class KafkaTopic(Queue, frozen=True):
    """A topic, and the group of consumers that reads it."""

    topic: Annotated[str, Meta(min_length=1, max_length=249, description="its name")]
    group: Annotated[str, Meta(min_length=1, description="of consumers, whose committed offsets count")]
    uncommitted: Annotated[
        Literal["unknown", "all", "none"],
        Meta(description="what counts of a partition of which the group has committed nothing yet"),
    ] = "unknown"


Mechanism = Annotated[
    Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"], Meta(description="of SASL, where there is a username")
]
Server = Annotated[str, Meta(pattern=r"^[^/@\s:]+:[0-9]{1,5}$", description="HOST:PORT of a broker")]


class Kafka(QueueSource, frozen=True, kw_only=True, tag="kafka"):
    """Lags of groups of consumers in one Kafka cluster."""

    servers: Annotated[tuple[Server, ...], Meta(min_length=1, description="brokers that know the others")]
    username: Annotated[str, Meta(description="empty: none is sent")] = ""
    password_file: Annotated[str, Meta(description="file of the password, or credential:NAME; empty: none")] = ""
    mechanism: Mechanism = "SCRAM-SHA-512"
    tls: Tls | None = None
    timeout: Annotated[float, Meta(ge=0.1, le=60, description="seconds for the answers about one topic")] = 10.0
    series: Annotated[tuple[KafkaTopic, ...], Meta(min_length=1, description="topics, each the series of a workload")]
    every: Every = 5.0

    def __post_init__(self) -> None:
        check_library("aiokafka", "kafka")
        check_queues(self.series)
        if bool(self.username) != bool(self.password_file):
            raise ValueError("password_file: must be given with username, and only with it")

    def examine(self) -> None:
        check_files(self.password_file, self.tls)

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        """Connections to the brokers, which need not be up."""
        lags = Lags(self)
        lengths = Lengths(self.label, self.series, lags.lag, site.clock)
        async with aclosing(lags), aclosing(lengths):
            yield lengths


def _arguments(options: Kafka) -> dict[str, Any]:
    """The arguments that all clients of the cluster share. Reads the password each time, so that it may be rotated."""
    protocol = ("SASL_" if options.username else "") + ("SSL" if options.tls else "PLAINTEXT")
    arguments: dict[str, Any] = {
        "bootstrap_servers": list(options.servers),
        "client_id": "elasticd",
        "security_protocol": protocol,
        "request_timeout_ms": int(options.timeout * 1000),
    }
    if options.tls:
        arguments["ssl_context"] = tls_context(options.tls)
    if options.username:
        arguments |= {
            "sasl_mechanism": options.mechanism,
            "sasl_plain_username": options.username,
            "sasl_plain_password": read_secret(options.password_file),
        }
    return arguments


class Lags:
    """Asks for lags, by connections that are opened when they are first needed, and again after a failure."""

    def __init__(self, options: Kafka) -> None:
        self._options = options
        self._library = importlib.import_module("aiokafka")
        self._admin_library = importlib.import_module("aiokafka.admin")
        self._error: type[Exception] = importlib.import_module("aiokafka.errors").KafkaError
        self._opening = asyncio.Lock()
        self._clients: tuple[Any, Any] | None = None

    async def lag(self, topic: KafkaTopic) -> float:
        """The messages that the group has not read, over all partitions. Raises Fault where that is not known."""
        clients = None
        try:
            async with asyncio.timeout(self._options.timeout):
                clients = await self._connected()
                return float(await self._lag(topic, *clients))
        except TimeoutError:
            why = f"no answer within {self._options.timeout:g} s"
        except (self._error, OSError, ConfigError) as error:
            why = raised(error)
        if self._clients is clients or clients is None:  # not those that another question has opened since
            await self.aclose()
        raise Fault(f"topic {topic.topic}: {why}")

    async def _lag(self, topic: KafkaTopic, admin: Any, consumer: Any) -> int:
        (described,) = await admin.describe_topics([topic.topic])
        numbers = sorted(partition["partition"] for partition in described["partitions"])
        if described["error_code"] or not numbers:
            raise Fault(f"topic {topic.topic}: the brokers have no such topic, or do not show it")
        partitions = [self._library.TopicPartition(topic.topic, number) for number in numbers]
        committed = await admin.list_consumer_group_offsets(topic.group, partitions=partitions)
        first, end = await asyncio.gather(consumer.beginning_offsets(partitions), consumer.end_offsets(partitions))
        offsets = {number: committed[partition].offset for number, partition in zip(numbers, partitions, strict=True)}
        bounds = {number: (first[each], end[each]) for number, each in zip(numbers, partitions, strict=True)}
        return unread(topic, offsets, bounds)

    async def _connected(self) -> tuple[Any, Any]:
        async with self._opening:
            if self._clients is None:
                arguments = _arguments(self._options)
                admin = self._admin_library.AIOKafkaAdminClient(**arguments)
                consumer = self._library.AIOKafkaConsumer(**arguments)
                self._clients = (admin, consumer)
                await asyncio.gather(admin.start(), consumer.start())
            return self._clients

    async def aclose(self) -> None:
        """Close the connections; the next question opens others."""
        clients, self._clients = self._clients, None
        if clients is not None:
            admin, consumer = clients
            for close in (admin.close, consumer.stop):
                with suppress(self._error, OSError):
                    await close()


def unread(topic: KafkaTopic, offsets: dict[int, int], bounds: dict[int, tuple[int, int]]) -> int:
    """The messages from a group's offset to the end, over all partitions. `offsets`: what the group committed, by
    partition; `bounds`: the first offset that is kept, and the end. What is not kept any more is not counted, as nobody
    can read it. Raises Fault where a partition has no offset and the topic does not say what that means, or one beyond
    its end, as where its log was lost: what the group reads then depends on its `auto.offset.reset`."""
    total = 0
    for number, committed in offsets.items():
        first, end = bounds[number]
        if committed == NONE_COMMITTED and topic.uncommitted == "unknown":
            raise Fault(f"topic {topic.topic}: group {topic.group} has committed nothing of partition {number}")
        if committed > end:
            what = f"group {topic.group} has committed {committed} of partition {number}, which ends at {end}"
            raise Fault(f"topic {topic.topic}: {what}")
        begins = first if topic.uncommitted == "all" else end
        total += max(0, end - (begins if committed == NONE_COMMITTED else max(committed, first)))
    return total


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [Kafka]
