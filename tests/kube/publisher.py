"""Publishes readings to a broker at a rate, or as fast as it goes: `python publisher.py PORT RATE SECONDS QOS BATCH
[SUBJECTS]`. What each tells is the number of its message.

Speaks MQTT 3.1.1 in a few lines of its own, for a client library costs more than what it would help to measure. Prints,
as JSON, how many messages were sent and acknowledged.  It must not know who listens.
"""

import json
import select
import socket
import struct
import sys
import time

UNACKNOWLEDGED = 20_000
CHUNK = 200


def packet(kind: int, body: bytes) -> bytes:
    """A packet of MQTT: its first byte, the length in sevens of bits, the body."""
    length, written = len(body), bytearray()
    while True:
        length, low = length >> 7, length & 127
        written.append(low | (128 if length else 0))
        if not length:
            return bytes([kind]) + bytes(written) + body


def publish(number: int, qos: int, batch: int, subjects: int) -> bytes:
    """The packet of one reading, or of a batch of them."""
    topic = b"agents/n%d/pods" % (number % 8) if batch else b"sensors/shop/w%d/load" % (number % subjects)
    said: dict[str, object] = {"value": number, "at": time.time(), "n": number}
    if batch:
        said["pods"] = {f"p{index}": number for index in range(batch)}
    identifier = struct.pack("!H", number % 65535 + 1) if qos else b""
    return packet(0x30 | qos << 1, struct.pack("!H", len(topic)) + topic + identifier + json.dumps(said).encode())


def main(port: int, rate: float, seconds: float, qos: int, batch: int, subjects: int = 1000) -> None:
    """Publish for so many seconds; a rate of 0 is as fast as it goes. Then wait for the acknowledgements."""
    link = socket.create_connection(("127.0.0.1", port))
    link.sendall(packet(0x10, b"\0\4MQTT\4\2\0\x3c\0\5bench"))
    assert link.recv(4)[0] == 0x20, "the broker must accept"
    link.setblocking(False)
    sent = acknowledged = 0
    waiting, begun = b"", time.monotonic()
    chunk = 1 if batch else CHUNK
    while (elapsed := time.monotonic() - begun) < seconds or waiting or (qos and acknowledged < sent):
        due = sent if elapsed >= seconds else int(elapsed * rate) if rate else sent + chunk
        if elapsed >= seconds and rate:
            due = int(seconds * rate)
        if len(waiting) < 1 << 20 and not (qos and sent - acknowledged > UNACKNOWLEDGED):
            end = min(due, sent + chunk)
            waiting += b"".join(publish(number, qos, batch, subjects) for number in range(sent, end))
            sent = max(sent, end)
        readable, writable, _ = select.select([link], [link] if waiting else [], [], 0.001)
        if writable:
            waiting = waiting[link.send(waiting) :]
        if readable:
            answered = link.recv(1 << 16)
            assert answered, "the broker hung up"
            acknowledged += len(answered) // 4  # PUBACK has four bytes
    print(json.dumps({"sent": sent, "acknowledged": acknowledged, "seconds": time.monotonic() - begun}))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), *(int(word) for word in sys.argv[4:]))
