"""Finds MQTT packets in a stream of bytes, and decodes those that publish.

Knows the wire format of one kind of packet, PUBLISH of QoS 0 and 1 (MQTT 5 and 3.1.1, section 3.3), which nearly all
are; knows no connection. Of any other packet it finds only the end, so that paho-mqtt may read it.

Our own sixty lines, because under a flood the reading must be what costs least: paho-mqtt 2.2.0 takes each message off
its socket by four calls and more, and makes a record of its properties. The package mqtt5, which is fast, knows
MQTT 5 alone.
"""

from collections.abc import Iterator
from typing import NamedTuple

PUBLISH_0, PUBLISH_1 = 0x30, 0x32
"""The first byte of PUBLISH without flags; RETAIN and DUP are the bits 1 and 8."""

PUBACK = 0x40
LONGEST = 4
"""Bytes that a length may have."""


class Message(NamedTuple):
    """What was published. `retained`: the broker kept it from before. `again`: it may have been here already."""

    topic: str
    payload: bytes
    retained: bool
    again: bool
    received: float


Packet = tuple[int, Message | None, bytearray | None]
"""Where it ends; what it publishes, None for what is not plainly PUBLISH; its identifier, None with QoS 0."""


def packets(data: bytearray, properties: bool, now: float) -> Iterator[Packet]:
    """The whole packets at the beginning of the data. `properties`: whether it is MQTT 5; `now`: when they came."""
    at, size = 0, len(data)
    while at + 2 <= size:
        length, body = data[at + 1], at + 2
        if length > 127:
            length, body = _length(data, at + 1)
        end = body + length
        if end > size:
            return
        yield _packet(data, data[at], body, end, properties, now)
        at = end


def acknowledgement(identifier: bytes | bytearray) -> bytes:
    """PUBACK for a message that came with this identifier."""
    return b"\x40\x02" + identifier


def _packet(data: bytearray, first: int, body: int, end: int, properties: bool, now: float) -> Packet:
    kind, topic = first & 0xF6, body + 2
    payload = after = topic + (data[body] << 8 | data[body + 1]) if end >= topic else end + 1
    identified = kind == PUBLISH_1
    if identified:
        payload += 2
    if properties and payload < end:
        length, payload = (data[payload], payload + 1) if data[payload] < 128 else _length(data, payload)
        payload += length
    elif properties:
        payload = end + 1  # MQTT 5 requires the properties
    if (kind != PUBLISH_0 and not identified) or payload > end or after == topic:
        return end, None, None  # paho-mqtt knows what to do, also with what is malformed
    try:
        name = data[topic:after].decode()
    except UnicodeDecodeError:
        name = ""  # no topic has this name, so the message is refused and counted, as with any unknown topic
    message = Message(name, bytes(data[payload:end]), first & 1 == 1, first & 8 == 8, now)
    return end, message, data[after : after + 2] if identified else None


def _length(data: bytearray, at: int) -> tuple[int, int]:
    """A number in sevens of bits, least first, and where it ends. What is longer than it may be, or not yet whole, is
    taken for one that ends with the data or beyond."""
    length = 0
    for place in range(LONGEST):
        if at + place >= len(data):
            return 1, len(data)
        length |= (data[at + place] & 127) << 7 * place
        if data[at + place] < 128:
            return length, at + place + 1
    return 0, len(data)
