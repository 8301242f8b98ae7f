"""An HTTP proxy on loopback before one server: each request passes through `_handle`.

Knows HTTP; knows nothing of which requests there are, and of what becomes of them.
"""

import ssl
from abc import abstractmethod
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import NamedTuple, Self

import aiohttp
from aiohttp import web

_KEPT = ("Content-Type", "Retry-After", "Cache-Control")


class Reply(NamedTuple):
    """What a server answered."""

    code: int
    body: bytes
    headers: dict[str, str]


class Proxy:
    """The proxy, for as long as its `async with` lasts."""

    def __init__(self, server: str, tls: ssl.SSLContext | None = None) -> None:
        self._server, self._tls = server, tls

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            self._server,
            connector=aiohttp.TCPConnector(ssl=self._tls or True, limit=0),
            headers={"Accept-Encoding": "identity"},
        )
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.05, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        await self._session.close()

    @abstractmethod
    async def _handle(self, request: web.Request) -> web.StreamResponse: ...

    async def _ask(self, request: web.Request, body: bytes) -> Reply:
        """Ask the server what was asked here. Raises aiohttp.ClientError where it cannot be asked."""
        async with self._session.request(
            request.method, request.path, params=request.query, data=body or None, headers=_headers(request)
        ) as answer:
            kept = {key: answer.headers[key] for key in _KEPT if key in answer.headers}
            return Reply(answer.status, await answer.read(), kept)

    def _open(self, request: web.Request) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """The same for an answer without an end."""
        forever = aiohttp.ClientTimeout(total=None)
        return self._session.get(request.path, params=request.query, headers=_headers(request), timeout=forever)


def cut(request: web.Request) -> web.Response:
    """End the connection of a request without an answer, or in the middle of it."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _headers(request: web.Request) -> dict[str, str]:
    return {key: request.headers[key] for key in ("Authorization", "Accept", "Content-Type") if key in request.headers}
