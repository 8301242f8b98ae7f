"""The daemon's pages: /metrics, /healthz, /readyz, /status, /sources, /query, /nodes, /moves and /pod: never an action.

Knows HTTP; knows of the daemon only the questions it is given.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from inspect import isawaitable
from ipaddress import ip_address

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from msgspec import Struct

from elasticd.base import shapes
from elasticd.base.errors import UnavailableError
from elasticd.telemetry.connections import Connections, RequestLog, most_connections


class Pages(Struct, frozen=True):
    """Functions that give what the pages show. `health` and `readiness` give what is wrong, or an empty string;
    `metrics` gives a function that makes the exposition, which takes long and so runs in a thread."""

    metrics: Callable[[], Callable[[], bytes]]
    health: Callable[[], str]
    readiness: Callable[[], str]
    status: Callable[[], object]
    sources: Callable[[], object]
    query: Callable[[str, str], Awaitable[object]]
    nodes: Callable[[str], Awaitable[object]]
    moves: Callable[[], Awaitable[object]]
    pod: Callable[[str], Awaitable[object]]


@asynccontextmanager
async def serve(pages: Pages, host: str, port: int) -> AsyncIterator[str]:
    """Serve the pages for as long as the block runs; yields their address."""

    async def metrics(_: web.Request) -> web.Response:
        body = await asyncio.to_thread(pages.metrics())
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    connections = Connections(most_connections())
    app = web.Application(client_max_size=1024, middlewares=[connections.attend, *_guards(host)])
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", _check(pages.health))
    app.router.add_get("/readyz", _check(pages.readiness))
    app.router.add_get("/status", _page(lambda _: pages.status()))
    app.router.add_get("/sources", _page(lambda _: pages.sources()))
    app.router.add_get("/query", _page(lambda asked: pages.query(asked.get("series", ""), asked.get("workload", ""))))
    app.router.add_get("/nodes", _page(lambda asked: pages.nodes(asked.get("node", ""))))
    app.router.add_get("/moves", _page(lambda _: pages.moves()))
    app.router.add_get("/pod", _page(lambda asked: pages.pod(asked.get("pod", ""))))
    runner = web.AppRunner(app, access_log=None, logger=RequestLog(), shutdown_timeout=1.0)
    await runner.setup()
    try:
        assert runner.server is not None, "it is set up"  # noqa: S101
        async with AsyncExitStack() as stack:
            try:
                bound = await stack.enter_async_context(connections.accepted(runner.server, host, port))
            except OSError as error:
                why = f"must be free to listen on, is not: {error.strerror}"
                raise UnavailableError(f"http: {host}:{port} {why}") from None
            yield f"http://{host}:{bound}"
    finally:
        await runner.cleanup()


def _guards(host: str) -> list[Middleware]:
    """Where the pages are for this machine alone, a browser must not be led to them by another's name for it."""
    return [_by_its_own_name] if host == "localhost" or _is_address(host, loopback=True) else []


@web.middleware
async def _by_its_own_name(request: web.Request, handler: Handler) -> web.StreamResponse:
    name = request.url.host or ""
    if name == "localhost" or _is_address(name):
        return await handler(request)
    return web.Response(status=421, text="the Host header must be localhost or an address\n")


def _is_address(host: str, *, loopback: bool = False) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or not loopback


def _page(answer: Callable[[Mapping[str, str]], object]) -> Callable[[web.Request], Awaitable[web.Response]]:
    """A page of JSON. It is encoded in a thread, because a thousand decisions would hold up the loop."""

    async def page(request: web.Request) -> web.Response:
        content = answer(request.query)
        content = await content if isawaitable(content) else content
        wants_records = request.headers.get("Accept") == shapes.RECORDS
        body = msgspec.json.encode(content) if wants_records else await asyncio.to_thread(shapes.encode, content)
        return web.Response(body=body, content_type="application/json")

    return page


def _check(problem: Callable[[], str]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def check(_: web.Request) -> web.Response:
        fault = problem()
        return web.Response(status=503 if fault else 200, text=f"{fault or 'ok'}\n")

    return check
