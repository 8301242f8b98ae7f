"""That a stream of bytes is cut into packets as paho-mqtt would, wherever it is cut, and that garbage is left to it."""

import struct

import paho.mqtt.client as paho
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from elasticd.sources.mqtt.packets import Message, acknowledgement, packets

NOW = 1_700_000_000.0


def packet(first: int, body: bytes) -> bytes:
    """A packet, its length in sevens of bits."""
    length, written = len(body), b""
    while True:
        length, low = length >> 7, length & 127
        written += bytes([low | (128 if length else 0)])
        if not length:
            return bytes([first]) + written + body


def publish(
    topic: bytes, payload: bytes, identifier: int | None, more: int = 0, properties: bytes | None = None
) -> bytes:
    """PUBLISH; `more` are flags, `properties` MQTT 5's, None with 3.1.1."""
    body = struct.pack("!H", len(topic)) + topic
    body += b"" if identifier is None else struct.pack("!H", identifier)
    body += b"" if properties is None else properties
    return packet(0x30 | (0 if identifier is None else 2) | more, body + payload)


def told(data: bytes, version_5: bool = False) -> list[tuple[int, Message | None, bytes | None]]:
    found = packets(bytearray(data), version_5, NOW)
    return [(end, message, None if mark is None else bytes(mark)) for end, message, mark in found]


def user_properties(count: int) -> bytes:
    made = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    made.UserProperty = [("name", "value" * 5)] * count
    return bytes(made.pack())  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("data", "version_5", "message", "identifier"),
    [
        pytest.param(publish(b"a/b", b"1", None), False, Message("a/b", b"1", False, False, NOW), None, id="QoS 0"),
        pytest.param(publish(b"a", b"1", 258), False, Message("a", b"1", False, False, NOW), b"\1\2", id="QoS 1"),
        pytest.param(publish(b"a", b"", 1, 9), False, Message("a", b"", True, True, NOW), b"\0\1", id="RETAIN, DUP"),
        pytest.param(publish(b"a", b"1", 1, 0, b"\0"), True, Message("a", b"1", False, False, NOW), b"\0\1", id="5"),
        pytest.param(
            publish(b"a", b"1", 1, 0, user_properties(2)),
            True,
            Message("a", b"1", False, False, NOW),
            b"\0\1",
            id="few",
        ),
        pytest.param(
            publish(b"a", b"1", None, 0, user_properties(99)),
            True,
            Message("a", b"1", False, False, NOW),
            None,
            id="many",
        ),
        pytest.param(
            publish(b"a", b"x" * 70_000, None), False, Message("a", b"x" * 70_000, False, False, NOW), None, id="long"
        ),
        pytest.param(publish(b"\xff", b"1", 1), False, Message("", b"1", False, False, NOW), b"\0\1", id="no UTF-8"),
        pytest.param(packet(0x34, b"\0\1a\0\x011"), False, None, None, id="QoS 2 is paho's"),
        pytest.param(publish(b"", b"1", None, 0, b"\3\x23\0\1"), True, None, None, id="an alias of a topic is paho's"),
        pytest.param(packet(0x90, b"\0\1\1"), False, None, None, id="SUBACK"),
        pytest.param(packet(0xD0, b""), False, None, None, id="PINGRESP"),
        pytest.param(packet(0x30, b""), False, None, None, id="without a topic"),
        pytest.param(packet(0x30, b"\0\5a"), False, None, None, id="shorter than its topic"),
        pytest.param(packet(0x32, b"\0\1a\0"), False, None, None, id="without a whole identifier"),
        pytest.param(packet(0x30, b"\0\1a"), True, None, None, id="without properties"),
        pytest.param(packet(0x30, b"\0\1a\x09b"), True, None, None, id="shorter than its properties"),
    ],
)
def test_only_plain_publish_packets_are_read(
    data: bytes, version_5: bool, message: Message | None, identifier: bytes | None
) -> None:
    assert told(data, version_5) == [(len(data), message, identifier)]
    assert told(data + data, version_5) == [(len(data), message, identifier), (2 * len(data), message, identifier)]
    assert all(told(data[:end], version_5) == [] for end in range(min(len(data), 100)))


def test_a_length_that_cannot_be_is_left_to_paho() -> None:
    data = b"\x30\xff\xff\xff\xff\x7f" + b"x" * 10
    assert told(data) == [(len(data), None, None)]


def test_an_acknowledgement_is_as_pahos() -> None:
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client._send_puback(258)
    assert acknowledgement(b"\1\2") == client._out_packet[0]["packet"]


MESSAGES = st.lists(st.tuples(st.text("ab/é", min_size=1), st.binary(max_size=300), st.none() | st.integers(1, 65535)))


@given(MESSAGES, st.booleans(), st.data())
def test_wherever_a_stream_is_cut_the_same_messages_come(
    messages: list[tuple[str, bytes, int | None]], version_5: bool, data: st.DataObject
) -> None:
    properties = b"\0" if version_5 else None
    stream = b"".join(publish(name.encode(), said, number, 0, properties) for name, said, number in messages)
    waiting, got, at = bytearray(), list[tuple[str, bytes]](), 0
    while at < len(stream):
        size = data.draw(st.integers(1, 200))
        waiting, at = waiting + stream[at : at + size], at + size
        whole = list(packets(waiting, version_5, NOW))
        got += [(message.topic, message.payload) for _, message, _ in whole if message is not None]
        del waiting[: whole[-1][0] if whole else 0]
    assert got == [(name, said) for name, said, _ in messages]


@given(st.binary(max_size=200), st.booleans())
def test_garbage_raises_nothing_and_ends_where_it_ends(data: bytes, version_5: bool) -> None:
    ends = [end for end, _, _ in told(data, version_5)]
    assert ends == sorted(set(ends))
    assert all(0 < end <= len(data) for end in ends)
