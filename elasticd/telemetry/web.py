"""The daemon's pages: the status page for people with its stream /events, /metrics, /healthz, /readyz, and JSON: never
an action.

Knows HTTP; knows of the daemon only the questions it is given.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from inspect import isawaitable

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler
from msgspec import Struct

from elasticd.base import shapes
from elasticd.base.errors import UnavailableError
from elasticd.telemetry.access import UNASKED, Access, Guard
from elasticd.telemetry.assets import Assets
from elasticd.telemetry.connections import Connections, RequestLog, most_connections
from elasticd.telemetry.events import Events, TooManyStreamsError

PATIENCE = 20.0
"""Seconds that a reader of a stream may take for a message."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Of every answer: nothing is loaded from elsewhere, no script stands in a page, and nobody else may show one."""


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
    history: Callable[[str, str, float], Awaitable[object]]
    explain: Callable[[str, str, float], Awaitable[object]]
    plugins: Callable[[], object]
    events: Events


@asynccontextmanager
async def serve(pages: Pages, host: str, port: int, access: Access = UNASKED) -> AsyncIterator[str]:
    """Serve the pages for as long as the block runs, to whom `access` lets through; yields their address."""

    async def metrics(_: web.Request) -> web.Response:
        body = await asyncio.to_thread(pages.metrics())
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    connections, assets, events = Connections(most_connections()), Assets(), pages.events
    app = web.Application(client_max_size=1024, middlewares=[connections.attend, Guard(access, host).attend])
    app.on_response_prepare.append(_harden)
    app.on_shutdown.append(lambda _: _ended(events))
    app.router.add_get("/", assets.index)
    app.router.add_get("/page/{name}", assets.file)
    app.router.add_get("/events", _stream(events))
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", _check(pages.health))
    app.router.add_get("/readyz", _check(pages.readiness))
    app.router.add_get("/status", _page(lambda _: pages.status()))
    app.router.add_get("/sources", _page(lambda _: pages.sources()))
    app.router.add_get("/query", _page(lambda asked: pages.query(asked.get("series", ""), asked.get("workload", ""))))
    app.router.add_get("/nodes", _page(lambda asked: pages.nodes(asked.get("node", ""))))
    app.router.add_get("/moves", _page(lambda _: pages.moves()))
    app.router.add_get("/pod", _page(lambda asked: pages.pod(asked.get("pod", ""))))
    app.router.add_get("/plugins", _page(lambda _: pages.plugins()))
    app.router.add_get("/history", _page(lambda asked: pages.history(*_workload(asked), _number(asked, "seconds"))))
    app.router.add_get("/explain", _page(lambda asked: pages.explain(*_workload(asked), _number(asked, "at"))))
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


async def _harden(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")


async def _ended(events: Events) -> None:
    events.close()


def _workload(asked: Mapping[str, str]) -> tuple[str, str]:
    """The workload and the policy that are asked for."""
    workload = asked.get("workload", "")
    if workload.count("/") != 2:
        raise web.HTTPBadRequest(text="workload: must be NAMESPACE/KIND/NAME\n")
    return workload, asked.get("policy", "")


def _number(asked: Mapping[str, str], name: str) -> float:
    """A number of seconds that is asked for; inf where it is left out."""
    try:
        return float(asked.get(name, "inf"))
    except ValueError:
        raise web.HTTPBadRequest(text=f"{name}: must be a number of seconds\n") from None


def _stream(events: Events) -> Handler:
    """Everything once, and then what changes."""

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        try:
            async with events.opened(request.query.get("workload", "")) as messages:
                await response.prepare(request)
                async for message in messages.messages():
                    async with asyncio.timeout(PATIENCE):
                        await response.write(message)
        except TooManyStreamsError:
            text = "too many readers at a time\n"
            return web.Response(status=503, text=text, headers={"Retry-After": "5"})
        except (ConnectionError, TimeoutError):  # the reader has gone, or does not read: nothing to log
            if request.transport is not None:
                request.transport.abort()
        return response

    return stream


def _page(answer: Callable[[Mapping[str, str]], object]) -> Handler:
    """A page of JSON. It is encoded in a thread, because a thousand decisions would hold up the loop; who asks the same
    meanwhile gets the same bytes."""
    under_way: dict[tuple[str, bool], asyncio.Task[bytes]] = {}

    async def body(asked: Mapping[str, str], *, records: bool) -> bytes:
        content = answer(asked)
        content = await content if isawaitable(content) else content
        return msgspec.json.encode(content) if records else await asyncio.to_thread(shapes.encode, content)

    async def page(request: web.Request) -> web.StreamResponse:
        key = request.query_string, request.headers.get("Accept") == shapes.RECORDS
        if key not in under_way:
            under_way[key] = asyncio.create_task(body(request.query, records=key[1]))
            under_way[key].add_done_callback(lambda done: (under_way.pop(key), done.cancelled() or done.exception()))
        try:
            return web.Response(body=await asyncio.shield(under_way[key]), content_type="application/json")
        except UnavailableError as error:
            return web.Response(status=503, text=f"{error}\n")

    return page


def _check(problem: Callable[[], str]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def check(_: web.Request) -> web.Response:
        fault = problem()
        return web.Response(status=503 if fault else 200, text=f"{fault or 'ok'}\n")

    return check
