"""Options of an MQTT broker and the credentials for it, shared by the source and the publisher.

Knows files of keys and passwords, and the arguments of aiomqtt's client; connects to nothing.
"""

import re
import ssl
from typing import Annotated, Any, Literal

import aiomqtt
from msgspec import Meta, Struct
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from elasticd.base.secrets import read_secret
from elasticd.sources.tls import Tls, check_files, tls_context

RECEIVE_MAXIMUM = 20_000
"""QoS 1 messages that the broker may send before the first is acknowledged. With Mosquitto's own 20, and the 1,000 that
it queues, more than a tenth of a second of other work at 10,000 messages a second is a loss; with this, two seconds are
none. With 65,535 a longer pause left Mosquitto 2.0.11 three times as busy for good (all measured). MQTT 3.1.1 has no
such option: there the broker's max_queued_messages must be raised."""

ENVELOPE = 70_000
"""Bytes of a packet that are not payload: a topic has at most 65,535, and there are properties."""

Host = Annotated[str, Meta(min_length=1, max_length=255, description="name or address of the broker, no URL")]
Port = Annotated[int, Meta(ge=0, le=65535, description="TCP port; 0: 8883 with tls, else 1883")]
Protocol = Annotated[Literal["5", "3.1.1"], Meta(description="version of MQTT")]
ClientId = Annotated[
    str, Meta(max_length=200, description="by which the broker knows a session; empty: one that the broker makes up")
]
SessionExpiry = Annotated[
    int,
    Meta(
        ge=0,
        le=0xFFFF_FFFF,
        description="seconds that the broker keeps subscriptions and messages while the connection is lost; 0: none",
    ),
]
Keepalive = Annotated[int, Meta(ge=5, le=65535, description="seconds of silence after which the broker is asked")]
Username = Annotated[str, Meta(description="empty: none is sent")]
PasswordFile = Annotated[
    str, Meta(description="file with the password, closed to others, or credential:NAME of systemd; empty: none")
]
MaxPayload = Annotated[int, Meta(ge=64, le=1 << 27, description="bytes of the largest message that is taken")]


class BrokerOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A broker, and the daemon's identity there. Holds the locations of secrets, never their content."""

    host: Host = "localhost"
    port: Port = 0
    protocol: Protocol = "5"
    client_id: ClientId = ""
    keepalive: Keepalive = 30
    username: Username = ""
    password_file: PasswordFile = ""
    tls: Tls | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w.:%-]+", self.host) or (":" in self.host and self.host.count(":") < 2):
            # The message leaves it out: whoever writes a URL may have written a password into it.
            raise ValueError("host: must be a name or an address, without scheme, user and port, is something else")
        if self.password_file and not self.username:
            raise ValueError("username: must be given with password_file, is empty")

    @property
    def address(self) -> str:
        """For messages: never a URL, which might hold a password."""
        return f"{self.host}:{self._port}"

    @property
    def _port(self) -> int:
        return self.port or (8883 if self.tls else 1883)

    def examine(self) -> None:
        """Raise ConfigError for a file that is missing, or open to others, before anything is begun."""
        check_files(self.password_file, self.tls)

    def arguments(self) -> dict[str, Any]:
        """The arguments of aiomqtt's Client. Reads the secrets each time, so that they may be rotated."""
        arguments: dict[str, Any] = {
            "hostname": self.host,
            "port": self._port,
            "identifier": self.client_id or None,
            "keepalive": self.keepalive,
            "username": self.username or None,
            "password": read_secret(self.password_file) if self.password_file else None,
            "tls_context": _tls(self.tls) if self.tls else None,
        }
        if self.protocol == "3.1.1":
            return arguments | {"protocol": aiomqtt.ProtocolVersion.V311, "clean_session": True}
        return arguments | {"protocol": aiomqtt.ProtocolVersion.V5, "clean_start": True}


class Subscribed(BrokerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A broker that one listens to."""

    session_expiry: SessionExpiry = 0
    max_payload: MaxPayload = 1 << 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.session_expiry and not self.client_id:
            raise ValueError("client_id: must be given with session_expiry > 0, is empty")

    def arguments(self) -> dict[str, Any]:
        """With MQTT 5 the broker holds back messages that are too large: they do not cross the network."""
        arguments, fresh = super().arguments(), self.session_expiry == 0
        if self.protocol == "3.1.1":
            return arguments | {"clean_session": fresh}
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.ReceiveMaximum = RECEIVE_MAXIMUM
        properties.MaximumPacketSize = self.max_payload + ENVELOPE
        properties.SessionExpiryInterval = self.session_expiry
        return arguments | {"clean_start": fresh, "properties": properties}


def _tls(tls: Tls) -> ssl.SSLContext:
    """A context whose sockets are closed when they cannot agree with the broker."""
    context = tls_context(tls)
    context.sslsocket_class = _Closing
    return context


class _Closing(ssl.SSLSocket):
    """A socket that is closed when the handshake fails; paho-mqtt 2.2.0 does not always do that."""

    def do_handshake(self, block: bool = False) -> None:
        """Agree with the broker, or close."""
        try:
            super().do_handshake(block)
        except BaseException:
            self.close()
            raise
