"""The source rabbitmq: lengths of queues by the management API of a RabbitMQ server.

Knows the API's paths and what it says of a queue; knows nothing of who reads it.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, ClassVar, Literal
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct

from elasticd.api import hookimpl
from elasticd.base.errors import UNREADABLE
from elasticd.base.text import shown
from elasticd.ports.source import Every, Reader, Site, Source
from elasticd.sources.http import HttpClient, HttpFault, HttpSource
from elasticd.sources.queues.lengths import Lengths, Queue, check_queues, names_of
from elasticd.sources.rounds import Fault

_SERVING = ("running", "idle", "flow")
"""States in which the figures of a queue are those of now; of a queue that is down they are its last, or none."""


class RabbitQueue(Queue, frozen=True):
    """A queue of a virtual host."""

    queue: Annotated[str, Meta(min_length=1, max_length=255, description="its name")]
    vhost: Annotated[str, Meta(min_length=1, description="its virtual host")] = "/"
    count: Annotated[
        Literal["all", "ready", "unacknowledged", "publish_rate"],
        Meta(description="messages that wait or are worked on, one of both, or messages that come in a second"),
    ] = "all"


class RabbitMq(HttpSource, frozen=True, kw_only=True, tag="rabbitmq"):
    """What the management API of RabbitMQ (plugin rabbitmq_management) says of queues.

    The server updates its figures every 5 s (or as `resolution` says), and does not say when it has: a sample counts
    as measured so long before it was read.
    """

    complete: ClassVar[bool] = False
    usual: ClassVar[float] = 5.0

    series: Annotated[tuple[RabbitQueue, ...], Meta(min_length=1, description="queues, each the series of a workload")]
    every: Every = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_queues(self.series)

    def offers(self) -> tuple[str, ...]:
        return names_of(self.series)

    def offers_of_nodes(self) -> tuple[str, ...]:
        return ()

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        """Connections to the server, which need not be up."""
        async with HttpClient(self) as http, aclosing(_lengths(self, http, site)) as lengths:
            yield lengths


def _lengths(options: RabbitMq, http: HttpClient, site: Site) -> Lengths[RabbitQueue]:
    async def ask(queue: RabbitQueue) -> float:
        path = f"/api/queues/{quote(queue.vhost, safe='')}/{quote(queue.queue, safe='')}"
        try:
            body = await http.ask(path)
        except HttpFault as fault:
            raise Fault(f"queue {queue.queue}: {fault}") from None
        return count_in(body, queue)

    behind = options.usual if options.resolution is None else options.resolution
    return Lengths(options.label, options.series, ask, site.clock, behind)


class _Rate(Struct, frozen=True):
    rate: float | None = None


class _Rates(Struct, frozen=True):
    publish_details: _Rate = _Rate()


class _Queue(Struct, frozen=True):
    """What is used of a queue's figures; all of them are missing until the server has collected some."""

    name: str = ""
    vhost: str = ""
    state: str = ""
    messages: int | None = None
    messages_ready: int | None = None
    messages_unacknowledged: int | None = None
    message_stats: _Rates = _Rates()


_QUEUE = msgspec.json.Decoder(_Queue)


def count_in(body: bytes, queue: RabbitQueue) -> float:
    """The number that a queue's series is, from the answer about it. Raises Fault where the answer has none."""
    try:
        figures = _QUEUE.decode(body)
    except UNREADABLE:
        raise Fault(f"queue {queue.queue}: the answer is not what RabbitMQ says of a queue") from None
    if (figures.vhost, figures.name) != (queue.vhost, queue.queue):
        about = f"{shown(figures.name)} of {shown(figures.vhost)}"
        raise Fault(f"queue {queue.queue}: the answer must be about it, is about {about}")
    if figures.state not in _SERVING:
        raise Fault(f"queue {queue.queue} must be running, is {shown(figures.state)}")
    value = {
        "all": figures.messages,
        "ready": figures.messages_ready,
        "unacknowledged": figures.messages_unacknowledged,
        "publish_rate": figures.message_stats.publish_details.rate,
    }[queue.count]
    if value is None:
        raise Fault(f"queue {queue.queue}: the server has no figure of it yet")
    return float(value)


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [RabbitMq]
