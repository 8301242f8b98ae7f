"""Bounds the connections to the pages, so that a client that opens many, or sends nothing, does not lock out others,
and what is logged of requests that are no HTTP.

Knows connections and requests; knows nothing of what the pages show.
"""

import asyncio
import logging
import math
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.log import server_logger
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler

from elasticd.base.files import share_of_files
from elasticd.base.text import one_line

MOST = 256
"""Connections at a time, where the process may open four times as many files."""

AT_WORK = 32
"""Requests that are answered at a time, beside those of probes."""

PROBES = frozenset({"/healthz", "/readyz"})

STREAMING = frozenset({"/events"})
"""Their answers last; how many there are at a time is bounded where they are made."""

HEADERS = 10.0
"""Seconds from a connection to its first request."""

IDLE = 85.0
"""Seconds from an answer, which must be read in them too, to the next request: Prometheus asks each minute."""

SWEEP = 1.0
"""Seconds between two looks for connections that have waited for too long."""

MOST_SENT = 32_768
"""Bytes that a client may send for one answer: no page takes a body, and aiohttp keeps what it cannot read."""

MINUTE = 60.0
"""Seconds in which malformed requests are logged once."""

MOST_QUOTED = 100
"""Characters of what is said of a malformed request."""


def most_connections() -> int:
    """As many as leave three quarters of the files that this process may open to everything else."""
    return share_of_files(4, 4, MOST)


class Connections:
    """The connections of one server, `most` at a time.

    Where one too many comes, the one that has waited longest for a request is closed; where all are at work, the new
    one. One that sends no request within `headers` seconds is closed too.
    """

    def __init__(self, most: int, headers: float = HEADERS) -> None:
        self._most, self._headers = most, headers
        self._waiting: dict[RequestHandler, float] = {}
        """Until when each may wait for a request; those that have waited longest come first."""
        self._working: set[RequestHandler] = set()
        self._sent: dict[RequestHandler, int] = {}
        """Bytes that came by each since its last answer."""
        self._pages = 0

    @asynccontextmanager
    async def accepted(self, server: web.Server, host: str, port: int) -> AsyncIterator[int]:
        """Accept connections for a server for as long as the block runs; yields the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        # So many are accepted before those that are closed for them give their descriptors back.
        listener = await loop.create_server(
            lambda: self._accept(server, loop.time()), host, port, backlog=max(4, self._most // 4)
        )
        sweeping = asyncio.create_task(self._sweep())
        try:
            yield listener.sockets[0].getsockname()[1]
        finally:
            sweeping.cancel()
            for waiting in listener.sockets:
                with suppress(OSError):  # a process that a plugin forked has it too, and keeps the port otherwise
                    waiting.shutdown(socket.SHUT_RDWR)
            listener.close()

    @web.middleware
    async def attend(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, or say that too many are being answered; probes are always answered."""
        page, connection = request.path not in PROBES | STREAMING, request.protocol
        if page and self._pages >= AT_WORK:
            self._rest(connection)
            return web.Response(status=503, text="too many requests at a time\n", headers={"Retry-After": "1"})
        self._waiting.pop(connection, None)
        self._working.add(connection)
        self._pages += page
        try:
            response = await handler(request)
            async with asyncio.timeout(HEADERS):  # whoever does not read it is at work, and holds it in memory
                with suppress(ConnectionError):  # who asked has gone: nothing to log
                    await response.prepare(request)
                    await response.write_eof()
            return response
        except TimeoutError:
            self._abort(connection)
            raise
        finally:
            self._pages -= page
            self._working.discard(connection)
            self._rest(connection)

    def _rest(self, connection: RequestHandler) -> None:
        """Wait for the next request of an answered connection."""
        self._sent.pop(connection, None)
        self._waiting.pop(connection, None)  # those that have waited longest come first
        self._waiting[connection] = asyncio.get_running_loop().time() + IDLE

    def _accept(self, server: web.Server, now: float) -> asyncio.BaseProtocol:
        if self._full():
            self._forget_closed(now)
        if self._full():
            # One that was accepted a moment ago has no transport yet, and could not be closed.
            oldest = next((connection for connection in self._waiting if connection.transport is not None), None)
            if oldest is None:
                return _Refusal()
            self._close(oldest)
        connection = server()
        self._waiting[connection] = now + self._headers
        return _Bounded(connection, self._sent)

    def _full(self) -> bool:
        return len(self._waiting) + len(self._working) >= self._most

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            now = asyncio.get_running_loop().time()
            self._forget_closed(now)
            for connection in [connection for connection, until in self._waiting.items() if until < now]:
                self._close(connection)

    def _forget_closed(self, now: float) -> None:
        """One without a transport has been closed, unless it was accepted a moment ago."""
        recent = now + self._headers - SWEEP
        self._waiting = {
            connection: until
            for connection, until in self._waiting.items()
            if connection.transport is not None or recent < until <= recent + SWEEP
        }

    def _close(self, connection: RequestHandler) -> None:
        del self._waiting[connection]
        self._abort(connection)

    def _abort(self, connection: RequestHandler) -> None:
        if connection.transport is not None:
            connection.transport.abort()


class _Bounded(asyncio.Protocol):
    """A connection that is ended at once where more is sent than a request needs. `sent`: by connection, how much was
    since its last answer."""

    def __init__(self, connection: RequestHandler, sent: dict[RequestHandler, int]) -> None:
        self._connection, self._sent = connection, sent

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.connection_made(transport)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def eof_received(self) -> None:
        self._connection.eof_received()

    def data_received(self, data: bytes) -> None:
        connection = self._connection
        sent = self._sent[connection] = self._sent.get(connection, 0) + len(data)
        if sent <= MOST_SENT:
            connection.data_received(data)
        elif connection.transport is not None:
            connection.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._sent.pop(self._connection, None)
        self._connection.connection_lost(exc)


class _Refusal(asyncio.Protocol):
    """Closes a connection at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class RequestLog(logging.LoggerAdapter[logging.Logger]):
    """aiohttp's log of a server. Requests that are malformed cost one line a minute, without a traceback; any other
    error is logged as it is."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(server_logger)
        self._now = now
        self._logged, self._more = -math.inf, 0

    def exception(self, msg: object, *args: object, exc_info: Any = True, **kwargs: Any) -> None:
        """Log an error, if it is not the client's."""
        if isinstance(exc_info, ConnectionError):
            return  # who asked has gone
        if not isinstance(exc_info, HttpProcessingError | web.RequestPayloadError):
            super().exception(msg, *args, exc_info=exc_info, **kwargs)
        elif (now := self._now()) < self._logged + MINUTE:
            self._more += 1
        else:
            since = f" ({self._more} more before it)" if self._more else ""
            # The rest of the message quotes the request.
            why = str(getattr(exc_info, "message", exc_info)).partition("\n")[0].rstrip(":")[:MOST_QUOTED]
            client = next((f" from {one_line(str(arg))}" for arg in args if arg), "")
            self.warning("malformed request%s: %s%s", client, one_line(why), since)
            self._logged, self._more = now, 0
