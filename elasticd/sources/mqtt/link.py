"""One connection to a broker, made to read fast.

Knows aiomqtt and paho-mqtt, whose cost for each message dominates; knows nothing of what messages say. It overrides
private parts of both: checked with aiomqtt 2.5.1 and paho-mqtt 2.2.0, and tests/sources/mqtt/test_link.py checks that
the names are still there.

More may be published than can be decoded, and the broker silently drops what is not read in time, the newest first.
So reading comes before decoding, and must cost little: bytes are read from the socket in large pieces, the messages in
them are handed on and acknowledged, and paho-mqtt gets the other packets, one by one. The taker of the messages drops
the older ones of each topic, and counts them. `PYTHONPATH=. python tests/bench/mqtt.py` prints what that costs.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiomqtt
import paho.mqtt.client as paho

from elasticd.sources.mqtt.packets import PUBACK, Message, acknowledgement, packets

SLICE = 0.005
"""Seconds of reading, and of decoding, before other tasks get their turn."""

BRIEF = 0.001
"""Seconds of decoding after a full slice of reading: more waits to be read, and read messages can be dropped."""

PAUSE = 0.0025
"""Seconds without reading after a full slice, which may be followed by as much decoding: a flood gets at most four
fifths of the loop's time."""

PIECE = 1 << 14
"""Bytes that are read at once: some hundred small messages, so that a slice is not much longer than it should be."""

CONNECT = 5.0
"""Seconds for the broker to answer; paho's own for TCP and TLS is the same."""


class Taker:
    """Takes messages off a link; this one drops them, for a link that subscribes to nothing. No method may raise."""

    @property
    def room(self) -> bool:
        """Whether it can take one more; while not, the broker must wait."""
        return True

    def put(self, message: Message) -> None:
        """Take a message, for later."""

    def work(self, seconds: float) -> bool:
        """Process messages that were put, for at most so many seconds. Returns whether none is left."""
        return True


class Link(aiomqtt.Client):
    """A client that hands each message on at once, and lets the taker work when a slice of reading has ended.

    A QoS 1 message is acknowledged when it was put: the acknowledgements leave at the end of the slice.
    """

    def __init__(self, taker: Taker | None = None, now: Callable[[], float] = time.time, **options: Any) -> None:
        super().__init__(timeout=CONNECT, **options)
        self._taker, self._now = taker or Taker(), now
        self._resuming: asyncio.TimerHandle | None = None
        self._receive: Callable[[int], bytes] = self._client._sock_recv  # noqa: SLF001 - knows how TLS says "not now"
        self._client._sock_recv = self._recv_for_paho  # type: ignore[method-assign]  # noqa: SLF001
        self._version_5 = options.get("protocol") is aiomqtt.ProtocolVersion.V5
        self._read = bytearray()
        """Bytes that were read from the socket, and not yet taken."""
        self._paho_input = b""
        """The packet that paho-mqtt is to read."""
        self._ended = False

    def _on_message(self, client: paho.Client, userdata: Any, message: paho.MQTTMessage) -> None:
        """Take a message that paho-mqtt has read itself, which is rare."""
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = ""
        self._taker.put(Message(topic, bytes(message.payload), message.retain, message.dup, self._now()))

    def _on_disconnect(
        self, client: paho.Client, userdata: Any, flags: Any, reason_code: Any, properties: Any = None
    ) -> None:
        """Report at once a broker that hangs up instead of accepting: aiomqtt would wait for its timeout."""
        if not self._connected.done():
            self._connected.set_exception(aiomqtt.MqttCodeError(reason_code, "the connection was refused"))
        else:
            super()._on_disconnect(client, userdata, flags, reason_code, properties)

    def _on_socket_open(self, client: paho.Client, userdata: Any, sock: Any) -> None:
        def begin() -> None:
            self._misc_task = self._loop.create_task(self._misc_loop())
            self._loop.add_reader(sock.fileno(), self._readable, client, sock, sock.fileno())

        self._loop.call_soon_threadsafe(begin)  # paho connects in a thread

    def _readable(self, client: paho.Client, sock: Any, descriptor: int) -> None:
        """Read and acknowledge until nothing is left or the slice is over; then let the taker work."""
        try:
            pending = self._slice(client, sock)
            if client.want_write():
                client.loop_write()
            if not self._taker.work(BRIEF if pending and self._taker.room else SLICE):
                pending = True
            if pending and client.socket() is sock:
                self._loop.remove_reader(descriptor)
                self._resuming = self._loop.call_later(PAUSE, self._resume, client, sock, descriptor)
        except Exception as error:
            self._broken(error)

    def _slice(self, client: paho.Client, sock: Any) -> bool:
        """Read for one slice. Returns whether there may be more to read."""
        end = time.monotonic() + SLICE
        while self._take(client) and client.socket() is sock:
            if time.monotonic() >= end:
                return True
            try:
                piece = self._receive(PIECE)
            except BlockingIOError:
                return False
            except OSError:
                piece = b""
            if not piece:
                self._ended = True
                client.loop_read()  # which then says that the connection is lost
                return False
            self._read += piece
            client._last_bytes_received = paho.time_func()  # noqa: SLF001 - or it would ask whether the broker is there
        return client.socket() is sock

    def _take(self, client: paho.Client) -> bool:
        """Hand on the packets that have been read. Returns whether there was room for all of them."""
        taker, consumed, complete = self._taker, 0, True
        acknowledged = list[bytes]()
        for end, message, identifier in packets(self._read, self._version_5, self._now()):
            if not taker.room:
                complete = False
                break
            if message is None:
                self._acknowledge(client, acknowledged)
                self._paho_input = bytes(self._read[consumed:end])
                client.loop_read()
                if client.socket() is None:
                    return False
            else:
                taker.put(message)
                if identifier is not None:
                    acknowledged.append(acknowledgement(identifier))
            consumed = end
        self._acknowledge(client, acknowledged)
        del self._read[:consumed]
        return complete

    def _acknowledge(self, client: paho.Client, acknowledged: list[bytes]) -> None:
        """Queue the acknowledgements, as if they were one packet, and forget them."""
        if acknowledged:
            client._packet_queue(PUBACK, b"".join(acknowledged), 0, 0)  # noqa: SLF001 - there is no other way
            acknowledged.clear()

    def _recv_for_paho(self, bufsize: int) -> bytes:
        """Stands in for paho-mqtt's socket: gives one packet at a time, or the end of the stream."""
        if not self._paho_input and not self._ended:
            raise BlockingIOError
        chunk, self._paho_input = self._paho_input[:bufsize], self._paho_input[bufsize:]
        return chunk

    def _resume(self, client: paho.Client, sock: Any, descriptor: int) -> None:
        self._resuming = None
        if client.socket() is sock:
            self._loop.add_reader(descriptor, self._readable, client, sock, descriptor)
            self._readable(client, sock, descriptor)

    def _on_socket_register_write(self, client: paho.Client, userdata: Any, sock: Any) -> None:
        """Register the writer at once when on the loop. aiomqtt does so later, which may be after the data was written
        and the writer removed: the loop would then spin on a socket with nothing to write."""
        try:
            on_loop = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            on_loop = False
        if on_loop:
            self._loop.add_writer(sock.fileno(), self._writable, client)
        else:
            super()._on_socket_register_write(client, userdata, sock)

    def _writable(self, client: paho.Client) -> None:
        try:
            client.loop_write()
        except Exception as error:
            self._broken(error)

    def _broken(self, error: Exception) -> None:
        if not self._disconnected.done():
            self._disconnected.set_exception(error)

    async def _wait_for(self, fut: Awaitable[Any], timeout: float | None) -> Any:  # noqa: ASYNC109 - it is aiomqtt's
        """As aiomqtt's own, which before Python 3.12 swallows a cancellation that comes together with the answer: a
        task that is cancelled then would stay connected for ever."""
        try:
            async with asyncio.timeout(CONNECT if timeout is None else timeout):
                return await fut
        except TimeoutError:
            raise aiomqtt.MqttError("Operation timed out") from None

    async def lost(self) -> None:
        """Wait until the connection is lost; raises MqttError then, whose cause is the reason."""
        async for _ in self.messages:  # there are none: they are taken as they come
            pass

    async def abandon(self) -> None:
        """Release whatever is left of a connection that was refused, broken off or cancelled."""
        if self._resuming is not None:
            self._resuming.cancel()
        client = self._client
        if client.socket() is not None:
            client.disconnect()
            client.loop_write()
        if client.socket() is not None:
            client._sock_close()  # noqa: SLF001 - its only way to close a socket that takes no more
        for ended in (self._connected, self._disconnected):
            if ended.done() and not ended.cancelled():
                ended.exception()  # reported already, or of no interest: retrieved so that asyncio does not log it
        task = self._misc_task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
