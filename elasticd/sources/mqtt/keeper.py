"""Keeps a connection to a broker: reconnects for as long as it is open, and says what is wrong meanwhile.

Knows when to try again; knows nothing of topics. A connection that does not last counts as a failure, so that two
clients with one client_id, each of which disconnects the other, do so less and less often.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiomqtt
from paho.mqtt.reasoncodes import ReasonCode

from elasticd.base.backoff import Backoff
from elasticd.base.errors import ConfigError
from elasticd.base.news import LastReported
from elasticd.base.tasks import finished
from elasticd.base.text import one_line, raised
from elasticd.sources.mqtt.broker import BrokerOptions
from elasticd.sources.mqtt.link import Link

log = logging.getLogger("elasticd.mqtt")

BACKOFF = Backoff(0.5, 30.0, (0.5, 1.0))
"""Between two connections."""

STABLE = 30.0
"""Seconds after which the loss of a connection does not count as a failure."""

TAKEN_OVER = 0x8E
"""MQTT 5's reason code when another client connects with the same client identifier. Mosquitto 2.0.11 does not send
it, so several short connections in a row are taken as a sign of the same."""

UNSPECIFIED = 0x80
"""paho-mqtt's reason code when a connection ends without one."""


class Connection:
    """A connection that is restored when lost. `connected` since `since` (epoch s), or else `trouble` says why."""

    def __init__(
        self,
        label: str,
        broker: BrokerOptions,
        make: Callable[[dict[str, Any]], Link],
        session: Callable[[Link], Awaitable[None]],
    ) -> None:
        """`session` uses a connection; it raises MqttError when that is lost."""
        self._label, self._broker, self._make, self._session = label, broker, make, session
        self._failures = self._short_lived = 0
        self._reported = LastReported("")
        self._closing = False
        self.connected, self.since, self.connections = False, 0.0, 0
        self.trouble = f"broker {broker.address}: not connected yet"

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Connected, or trying to be, for as long as the block runs."""
        task = asyncio.create_task(self._keep(), name=f"mqtt {self._label}")
        try:
            yield
        finally:
            self._closing = True
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _keep(self) -> None:
        while not self._closing:
            begun, connections = time.monotonic(), self.connections
            try:
                await self._connect_once()
            except Exception as error:  # whatever goes wrong with one connection, the next is tried
                lasted = time.monotonic() - begun
                self._note_lost(error, lasted, self.connections > connections)
            self._failures += 1
            await asyncio.sleep(BACKOFF.delay(self._failures, random.random()))  # noqa: S311

    async def _connect_once(self) -> None:
        link = self._make(await asyncio.to_thread(self._broker.arguments))
        try:
            # It connects in a thread, which goes on when cancelled: unless it is waited for, its socket stays open.
            await finished(link.__aenter__())
            try:
                self._note_connected()
                await self._session(link)
            finally:  # why is known only when the session has ended, and that may take a while
                self.connected, self.trouble = False, f"broker {self._broker.address}: the connection was lost"
                with suppress(aiomqtt.MqttError):
                    await link.__aexit__(None, None, None)
        finally:
            await link.abandon()

    def _note_connected(self) -> None:
        self.connected, self.since, self.trouble = True, time.time(), ""
        self.connections += 1
        if self._reported.changed(""):
            log.info("%s: connected to broker %s again", self._label, self._broker.address)

    def _note_lost(self, error: Exception, lasted: float, was_connected: bool) -> None:
        """Remember why the connection was lost, and log each change of the reason."""
        if was_connected and lasted >= STABLE:
            self._failures = self._short_lived = 0
        self._short_lived = self._short_lived + 1 if was_connected else 0
        why = self._why(error)
        self.trouble = f"broker {self._broker.address}: {why}"
        if self._short_lived > 1 and self._broker.client_id:
            self.trouble += f"; {self._short_lived} connections in a row did not last: is client_id another's too?"
        if self._reported.changed(why):
            log.warning("%s: %s", self._label, self.trouble)

    def _why(self, error: BaseException) -> str:
        """The reason in one line, without anything secret: neither library puts the password in its messages."""
        cause = error.__cause__ if isinstance(error.__cause__, aiomqtt.MqttError | OSError) else error
        code = getattr(cause, "rc", None)
        if isinstance(code, ReasonCode) and code.value == TAKEN_OVER:
            return f'another client took over client_id "{self._broker.client_id}"'
        if isinstance(code, ReasonCode) and code.value == UNSPECIFIED:
            return "the connection was lost"
        if isinstance(cause, aiomqtt.MqttError | ConfigError):
            return one_line(str(cause)) or "lost"
        return raised(cause)
