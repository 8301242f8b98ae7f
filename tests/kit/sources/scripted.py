"""A scripted HTTP server on loopback: real HTTP and TLS, answers as the test wrote them, faults included.

Knows HTTP and how Prometheus words its answers; knows nothing of the client it is asked by.
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import msgspec
from aiohttp import web

NOW = 1_700_000_000.0


class Seen(NamedTuple):
    """A request that came in."""

    method: str
    path: str
    form: dict[str, str]
    headers: dict[str, str]


class Say(NamedTuple):
    """An answer other than a plain 200 with JSON."""

    code: int
    body: Any = b""
    headers: Mapping[str, str] = MappingProxyType({})
    content_type: str = "application/json"


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Reply = dict[str, Any] | bytes | Say | Handler


async def drop(request: web.Request) -> web.StreamResponse:
    """No answer: the connection is reset."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


class Scripted:
    """Answers by path, or by path and query, in the order written; the last one for ever."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.seen: list[Seen] = []
        self.url = ""
        self._tls = tls
        self._answers: dict[tuple[str, str], list[Reply]] = {}

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.05, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        self.port: int = self._runner.addresses[0][1]
        self.url = f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def on(self, path: str, *answers: Reply, query: str = "") -> None:
        """What to answer; with a query, to that alone."""
        self._answers[path, query] = list(answers)

    def forms(self, path: str) -> list[dict[str, str]]:
        """What was asked at a path so far."""
        return [one.form for one in self.seen if one.path == path]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        form = {key: str(value) for key, value in {**request.query, **await request.post()}.items()}
        self.seen.append(Seen(request.method, request.path, form, dict(request.headers)))
        answers = self._answers.get((request.path, form.get("query", ""))) or self._answers.get((request.path, ""))
        if answers is None:
            return web.Response(status=404, text="nothing here")
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return _response(answer) if isinstance(answer, dict | bytes | Say) else await answer(request)


def _response(answer: dict[str, Any] | bytes | Say) -> web.Response:
    said = answer if isinstance(answer, Say) else Say(200, answer)
    body = said.body if isinstance(said.body, bytes) else msgspec.json.encode(said.body)
    return web.Response(status=said.code, body=body, headers=said.headers, content_type=said.content_type)


class Stalls:
    """Measures for how long, at most, nothing else on the loop got its turn."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._tick())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _tick(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            self.longest = max(self.longest, time.perf_counter() - before - 0.001)


def vector(*samples: tuple[dict[str, str], object], at: float = NOW, **more: Any) -> dict[str, Any]:
    """An instant vector: labels and value of each sample."""
    result = [{"metric": labels, "value": [at, str(value)]} for labels, value in samples]
    return {"status": "success", "data": {"resultType": "vector", "result": result}, **more}


def matrix(*rows: tuple[dict[str, str], Sequence[tuple[float, object]]]) -> dict[str, Any]:
    """A range vector: labels and points of each series."""
    result = [{"metric": labels, "values": [[at, str(value)] for at, value in points]} for labels, points in rows]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


def scalar(value: object, kind: str = "scalar", at: float = NOW) -> dict[str, Any]:
    """A scalar, or a string."""
    return {"status": "success", "data": {"resultType": kind, "result": [at, str(value)]}}
