"""The source mqtt: sensors publish readings, and each reading triggers its users at once.

Knows the source's options; knows nothing of who reads it.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, ClassVar

from msgspec import Meta
from msgspec.structs import replace

from elasticd.api import hookimpl
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
    Tls,
    Username,
)
from elasticd.sources.mqtt.reader import Listening, ReaderBounds
from elasticd.sources.mqtt.topics import Topic


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
        return Subscribed(**{name: getattr(self, name) for name in Subscribed.__struct_fields__})

    def apart(self) -> Source:
        """A copy without client_id, which would disconnect the daemon, and without group, which would take messages."""
        return replace(self, client_id="", session_expiry=0, share="")

    def examine(self) -> None:
        self.broker.examine()

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        """Begin to connect: the readings report a broker that is down."""
        broker = self.broker
        broker.examine()
        bounds = ReaderBounds(self.queue, self.subjects, self.ttl, self.max_skew)
        reader = Listening(self.label, broker, self.topic, self.share, bounds, site)
        async with reader.keeper.kept():
            yield reader


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [Mqtt]
