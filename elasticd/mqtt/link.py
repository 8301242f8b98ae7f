"""One connection to a broker, made to read fast.

Knows aiomqtt and paho-mqtt, whose costs a message dominate; knows nothing of what messages say. What it overrides
of aiomqtt is not public: checked with aiomqtt 2.5.1 and paho-mqtt 2.2.0, and tests/mqtt/test_link.py checks that the
names are still there. Where a release moves them, aiomqtt's own way takes over, which is slower and loses nothing.

At 10,000 QoS 1 messages a second aiomqtt's own way costs 52 us of CPU a message, of which its queue and its
iterator (a task and a wait for each message) are 17; reading on, as long as there are messages, instead of
returning to the event loop after each, and writing acknowledgements in one go saves 9 with MQTT 5 and 18 with 3.1.1.
What is left is paho's parser (26 us with MQTT 5, whose properties alone cost 9; 17 with 3.1.1). Its locks and its
logging cost nothing that can be measured.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import aiomqtt
import paho.mqtt.client as paho

T = TypeVar("T")

SLICE = 0.005
"""Seconds of reading after which it is another's turn."""

PAUSE = 0.0025
"""Seconds without reading after a full slice, which may be followed by as much decoding: of the loop's time a flood
gets four fifths at most, and the rest is for others."""

CONNECT = 5.0
"""Seconds for the broker to answer; paho's own for TCP and TLS is the same."""


class Message(NamedTuple):
    """What was published. `retained`: the broker kept it from before. `again`: it may have been here already."""

    topic: str
    payload: bytes
    retained: bool
    again: bool
    received: float


class Link(aiomqtt.Client):
    """A client that hands each message on at once, and says when a slice of reading has ended.

    `take` must not raise. A QoS 1 message is acknowledged when `take` has returned: paho queues the acknowledgement
    after the callback, and it leaves at the end of the slice.
    """

    def __init__(
        self,
        take: Callable[[Message], None] | None = None,
        rested: Callable[[], bool] | None = None,
        now: Callable[[], float] = time.time,
        **told: Any,
    ) -> None:
        """`rested`: called when a slice has ended; whether all that was taken has been dealt with."""
        super().__init__(timeout=CONNECT, **told)
        self._taking, self._rested, self._now = take, rested, now
        self._taken = 0
        self._resuming: asyncio.TimerHandle | None = None

    def _on_message(self, client: paho.Client, userdata: Any, message: paho.MQTTMessage) -> None:
        self._taken += 1
        if self._taking is None:
            return
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = ""  # no topic has this name, so it is refused, and counted, as any other stranger's
        self._taking(Message(topic, bytes(message.payload), message.retain, message.dup, self._now()))

    def _on_disconnect(
        self, client: paho.Client, userdata: Any, flags: Any, reason_code: Any, properties: Any = None
    ) -> None:
        """A broker that hangs up instead of accepting is told at once: aiomqtt would wait until its time is over."""
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
        """Read until there is nothing more, or the slice is over; then acknowledge all of it."""
        try:
            more = self._slice(client)
            if client.want_write():
                client.loop_write()
            if self._rested is not None and not self._rested():
                more = True
            if more and client.socket() is sock:
                self._loop.remove_reader(descriptor)
                self._resuming = self._loop.call_later(PAUSE, self._resume, client, sock, descriptor)
        except Exception as error:
            self._broken(error)

    def _slice(self, client: paho.Client) -> bool:
        """Whether there may be more to read."""
        end = time.monotonic() + SLICE
        while (sock := client.socket()) is not None:
            before = self._taken
            if client.loop_read() != paho.MQTT_ERR_SUCCESS:
                return False
            # loop_read does not say whether it has read: a message does. TLS may hold what the socket no longer shows.
            pending = getattr(sock, "pending", None)
            if self._taken == before and not (pending is not None and client.socket() is sock and pending()):
                return False
            if time.monotonic() >= end:
                return True
        return False

    def _resume(self, client: paho.Client, sock: Any, descriptor: int) -> None:
        self._resuming = None
        if client.socket() is sock:
            self._loop.add_reader(descriptor, self._readable, client, sock, descriptor)
            self._readable(client, sock, descriptor)

    def _on_socket_register_write(self, client: paho.Client, userdata: Any, sock: Any) -> None:
        """At once, when on the loop: registered later, as aiomqtt does, it may come after the unregistering of what
        has been written meanwhile, and the loop would then spin on a socket with nothing to write."""
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
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

    async def _wait_for(self, fut: Awaitable[T], timeout: float | None) -> T:  # noqa: ASYNC109 - aiomqtt's
        """As aiomqtt's, but for asyncio.wait_for: before Python 3.12 it swallows a cancellation that comes together
        with what is waited for, and whoever cancelled would wait for ever."""
        try:
            async with asyncio.timeout(self.timeout if timeout is None else timeout):
                return await fut
        except TimeoutError:
            raise aiomqtt.MqttError("Operation timed out") from None

    async def lost(self) -> None:
        """Wait until the connection is lost; raises MqttError then, whose cause is the reason."""
        async for _ in self.messages:  # there are none: they are taken as they come
            pass

    async def abandon(self) -> None:
        """Let go of whatever is left of a connection that was refused, broken off or cancelled."""
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
                ended.exception()  # told already, or of no interest: asyncio must not complain
        task = self._misc_task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
