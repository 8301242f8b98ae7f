"""That what a broker sends is read before it is dealt with, acknowledged, and left with it where there is no room."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiomqtt
import pytest

from elasticd.sources.mqtt.link import PAUSE, Link, Taker
from elasticd.sources.mqtt.packets import Message
from tests.cluster.kubernetes.fake import until
from tests.sources.mqtt.test_packets import packet, publish

CONNACK = {False: packet(0x20, b"\0\0"), True: packet(0x20, b"\0\0\0")}
VERSIONS = {False: aiomqtt.ProtocolVersion.V311, True: aiomqtt.ProtocolVersion.V5}
version = pytest.mark.parametrize("version_5", [pytest.param(False, id="3.1.1"), pytest.param(True, id="5")])


class Hesitant(Taker):
    """Takes so many messages, and deals with none before it is told to."""

    def __init__(self, most: int = 1_000_000) -> None:
        self.most, self.asked = most, list[float]()
        self.taken: list[Message] = []

    @property
    def room(self) -> bool:
        return len(self.taken) < self.most

    def put(self, message: Message) -> None:
        assert self.room
        self.taken.append(message)

    def work(self, seconds: float) -> bool:
        self.asked.append(seconds)
        return self.room


class Scripted:
    """A broker that accepts whoever comes, then sends what it is given, and keeps what it is told."""

    def __init__(self, *, version_5: bool) -> None:
        self._version_5, self.heard, self._writer = version_5, bytearray(), None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        await reader.read(1000)
        writer.write(CONNACK[self._version_5])
        while data := await reader.read(1 << 16):
            self.heard += data
        writer.close()

    def say(self, number: int, payload: bytes = b"1") -> bytes:
        """A message of QoS 1 with this identifier."""
        return publish(b"t%d" % number, payload, number, 0, b"\0" if self._version_5 else None)

    @property
    def acknowledged(self) -> list[int]:
        """The identifiers in the order in which they were acknowledged; nothing else may be between them."""
        marks = [bytes(self.heard[at : at + 4]) for at in range(0, len(self.heard), 4)]
        assert all(mark[:2] == b"\x40\x02" for mark in marks)
        return [int.from_bytes(mark[2:]) for mark in marks]


@asynccontextmanager
async def linked(taker: Hesitant, *, version_5: bool) -> AsyncIterator[tuple[Link, Scripted]]:
    broker = Scripted(version_5=version_5)
    async with await asyncio.start_server(broker.serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        link = Link(taker, lambda: 5.0, hostname="127.0.0.1", port=port, protocol=VERSIONS[version_5])
        await link.__aenter__()
        try:
            yield link, broker
        finally:
            await link.abandon()
            broker.writer.close()


@pytest.mark.slow
@version
async def test_messages_come_in_order_and_each_is_acknowledged_once(version_5: bool) -> None:
    taker = Hesitant()
    async with linked(taker, version_5=version_5) as (_, broker):
        broker.writer.write(b"".join(broker.say(number) for number in range(1, 20_001)))
        await until(lambda: len(taker.taken) == 20_000)
        await until(lambda: len(broker.heard) == 80_000)
        assert [one.topic for one in taker.taken] == [f"t{number}" for number in range(1, 20_001)]
        assert broker.acknowledged == list(range(1, 20_001))


@version
async def test_a_message_in_pieces_is_one_message(version_5: bool) -> None:
    taker = Hesitant()
    async with linked(taker, version_5=version_5) as (link, broker):
        said = broker.say(1, b"x" * 100_000)
        for part in (said[:1], said[1:2], said[2:5], said[5:50_000]):
            broker.writer.write(part)
            held = len(link._read)
            await until(lambda held=held: len(link._read) > held)  # type: ignore[misc]
        assert taker.taken == []
        broker.writer.write(said[50_000:] + broker.say(2))
        await until(lambda: len(taker.taken) == 2)
        assert taker.taken[0] == Message("t1", b"x" * 100_000, False, False, 5.0)
        assert not link._read


@version
async def test_messages_wait_at_the_broker_while_there_is_no_room(version_5: bool) -> None:
    taker = Hesitant(100)
    async with linked(taker, version_5=version_5) as (link, broker):
        broker.writer.write(b"".join(broker.say(number) for number in range(1, 1001)))
        await until(lambda: len(broker.acknowledged) == 100)
        seen = len(taker.asked)
        await until(lambda: len(taker.asked) > seen + 3)
        assert len(broker.acknowledged) == 100 == len(taker.taken)
        taker.most = 10_000
        await until(lambda: len(broker.acknowledged) == 1000)
        assert [one.topic for one in taker.taken] == [f"t{number}" for number in range(1, 1001)]
        assert not link._read


async def test_other_packets_among_messages_are_pahos() -> None:
    taker = Hesitant()
    async with linked(taker, version_5=False) as (link, broker):
        asking = asyncio.create_task(link.subscribe("a", qos=1))
        await until(lambda: b"\0\1a\1" in broker.heard)
        mark = bytes(broker.heard[2:4])
        broker.writer.write(broker.say(1) + packet(0x90, mark + b"\1") + packet(0xD0, b"") + broker.say(2))
        assert tuple(await asking) == (1,)
        await until(lambda: len(taker.taken) == 2)


async def test_a_message_that_only_paho_can_read_is_taken_too() -> None:
    taker = Hesitant()
    async with linked(taker, version_5=False) as (_, broker):
        broker.writer.write(packet(0x34, b"\0\1a\0\x071"))  # QoS 2, whose message comes with the broker's release
        await until(lambda: b"\x50\x02\0\7" in broker.heard)
        broker.writer.write(packet(0x62, b"\0\7"))
        await until(lambda: len(taker.taken) == 1)
        assert taker.taken[0] == Message("a", b"1", False, False, 5.0)


def _hung_up(broker: Scripted) -> None:
    broker.writer.close()


def _garbage(broker: Scripted) -> None:
    broker.writer.write(packet(0x30, b"\0\xffa"))


def _endless(broker: Scripted) -> None:
    broker.writer.write(b"\x30\xff\xff\xff\xff\x7f")


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(_hung_up, id="hung up"),
        pytest.param(_garbage, id="malformed"),
        pytest.param(_endless, id="a length that cannot be"),
    ],
)
async def test_a_closed_connection_is_lost_after_its_messages_were_taken(end: Callable[[Scripted], None]) -> None:
    taker = Hesitant()
    async with linked(taker, version_5=False) as (link, broker):
        broker.writer.write(broker.say(1) + broker.say(2))
        end(broker)
        with pytest.raises(aiomqtt.MqttError):
            async with asyncio.timeout(10):
                await link.lost()
        assert [one.topic for one in taker.taken] == ["t1", "t2"]


@pytest.mark.slow
async def test_while_more_is_to_be_read_little_is_decoded() -> None:
    taker = Hesitant()
    async with linked(taker, version_5=False) as (_, broker):
        for _ in range(20):
            broker.writer.write(b"".join(broker.say(number) for number in range(1, 10_001)))
        await until(lambda: len(taker.taken) == 200_000, 30)
        assert min(taker.asked) < 0.005 == max(taker.asked)


async def test_an_abandoned_link_reads_no_more() -> None:
    taker = Hesitant()
    async with linked(taker, version_5=True) as (link, broker):
        taker.most = 0
        broker.writer.write(broker.say(1))
        await until(lambda: len(taker.asked) > 3)  # it comes back again and again, as there is no room
        await link.abandon()
        taker.most, asked = 10, len(taker.asked)
        await asyncio.sleep(5 * PAUSE)
        assert (taker.taken, len(taker.asked)) == ([], asked)
