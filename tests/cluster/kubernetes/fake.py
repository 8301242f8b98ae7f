"""A scripted API server on loopback: real HTTP, answers as the test wrote them, faults included.

Knows HTTP and the shape of lists and watches; knows nothing of the client it is asked by.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Self

import msgspec
from aiohttp import web

from elasticd.cluster.kubernetes.credentials import Credentials
from elasticd.cluster.kubernetes.session import Calls, Session

PODS = "/api/v1/pods"
DEPLOYMENTS = "/apis/apps/v1/deployments"

APPS: dict[str, Any] = {
    "kind": "APIResourceList",
    "groupVersion": "apps/v1",
    "resources": [
        {"name": "deployments", "kind": "Deployment", "namespaced": True},
        {"name": "deployments/scale", "kind": "Scale", "namespaced": True},
        {"name": "daemonsets", "kind": "DaemonSet", "namespaced": True},
    ],
}


NO_LIST: dict[str, bytes] = {
    "an empty object": b"{}",
    "words of a proxy": b'{"message": "please sign in"}',
    "a Status": b'{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}',
    "an object": b'{"kind": "Pod", "metadata": {"name": "web", "resourceVersion": "7"}}',
    "no kind": b'{"metadata": {"resourceVersion": "7"}, "items": []}',
    "no items": b'{"kind": "PodList", "metadata": {"resourceVersion": "7"}}',
}
"""JSON that is no list, by what it is."""


class Seen(NamedTuple):
    """A request that came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class Say(NamedTuple):
    """An answer other than a plain 200."""

    code: int
    body: Any = None
    headers: Mapping[str, str] = MappingProxyType({})


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Reply = dict[str, Any] | bytes | Say | Handler


def status(code: int, reason: str = "", message: str = "", **details: Any) -> Say:
    """A refusal as the API words it."""
    body = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return Say(code, {**body, "details": details} if details else body)


async def hang(_: web.Request) -> web.StreamResponse:
    """Answer nothing."""
    await asyncio.Event().wait()
    raise AssertionError


async def drop(request: web.Request) -> web.StreamResponse:
    """No answer: the connection is reset."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


class Feed:
    """An open watch: push lines into it, or bytes, or close it."""

    def __init__(self) -> None:
        self.opened = 0
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue()

    def push(self, kind: str, item: dict[str, Any]) -> None:
        """An event."""
        self.write(msgspec.json.encode({"type": kind, "object": item}) + b"\n")

    def write(self, chunk: bytes) -> None:
        """Bytes, which reach the client as one chunk."""
        self._chunks.put_nowait(chunk)

    def close(self) -> None:
        """End the watch, as its server-side timeout does."""
        self._chunks.put_nowait(None)

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        self.opened += 1
        while (chunk := await self._chunks.get()) is not None:
            await response.write(chunk)
            await asyncio.sleep(0.002)  # a chunk of its own
        return response


class FakeApi:
    """Answers are given in the order written; the last one for ever. A watch is scripted apart from its list."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.url = ""
        self._answers: dict[tuple[str, str], list[Reply]] = {}
        self.on("GET", "/version", {"gitVersion": "v1.2.3"})
        self.on("GET", "/apis/apps/v1", APPS)
        self.on("GET", "/apis", {"groups": [{"name": "apps", "versions": [{"groupVersion": "apps/v1"}]}]})

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.05, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port: int = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Accept no more connections."""
        await self._runner.cleanup()

    def on(self, method: str, path: str, *answers: Reply) -> None:
        """What to answer; method WATCH is a GET with watch=1, ASK one that only asks how far a list is by now: if no
        answer is given, further than ever."""
        self._answers[method, path] = list(answers)

    def feed(self, path: str) -> Feed:
        """A watch that the test writes into."""
        feed = Feed()
        self.on("WATCH", path, feed)
        return feed

    def asked(self, method: str, path: str) -> list[Seen]:
        """The requests of this kind so far."""
        return [one for one in self.seen if (one.method, one.path) == (method, path)]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        method = "WATCH" if request.query.get("watch") == "1" else request.method
        method = "ASK" if request.query == {"limit": "1"} else method
        body = await request.read()
        decoded = msgspec.json.decode(body) if body else None
        self.seen.append(Seen(method, request.path, dict(request.query), dict(request.headers), decoded))
        missing = page(version=1 << 62) if method == "ASK" else status(404, "NotFound", f"no {method} {request.path}")
        answers = self._answers.get((method, request.path), [missing])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, dict | bytes | Say):
            return _response(answer, request.path)
        return _as_genuine(await answer(request), request.path)


def _response(answer: dict[str, Any] | bytes | Say, path: str) -> web.Response:
    said = answer if isinstance(answer, Say) else Say(200, answer)
    body = said.body if isinstance(said.body, bytes) else msgspec.json.encode(_genuine(said.body, said.code, path))
    return web.Response(status=said.code, body=body, headers=said.headers, content_type="application/json")


def _as_genuine(response: web.StreamResponse, path: str) -> web.StreamResponse:
    """What a function answers, if that is JSON."""
    if isinstance(response, web.Response) and response.content_type == "application/json":
        with suppress(msgspec.DecodeError):  # the lines of a watch
            body = msgspec.json.decode(response.text or "")
            response.body = msgspec.json.encode(_genuine(body, response.status, path))
    return response


def _genuine(body: Any, code: int, path: str) -> Any:
    """Each answer says of what kind it is, and a 404 what is not there, as a genuine server's does. Bytes are sent as
    they are."""
    if not isinstance(body, dict):
        return body
    kinds = {"items": "List", "resources": "APIResourceList", "groups": "APIGroupList", "preferredVersion": "APIGroup"}
    kinds["versions"] = "APIGroup"
    kind = next((kind for key, kind in kinds.items() if key in body), "Object")
    named = {"details": {"name": path.rpartition("/")[2]}} if code == 404 else {}
    return {"kind": kind, **named, **body}


class HurriedClock:
    """Real time, twenty times as fast if not told otherwise, so that pauses are short but still in order."""

    def __init__(self, speed: float = 20.0) -> None:
        self._started, self._speed = time.monotonic(), speed

    def now(self) -> float:
        """Seconds since the epoch; never goes back."""
        return 1e9 + (time.monotonic() - self._started) * self._speed

    async def sleep_until(self, when: float) -> None:
        """Return at that time, or at once when it is past."""
        await asyncio.sleep(max(0.0, (when - self.now()) / self._speed))


class Anchored:
    """A clock that stands away from the time of day, as after a step of it: by an hour, if not told otherwise."""

    def __init__(self, away: float = 3600.0) -> None:
        self.away = away

    def now(self) -> float:
        """The time of day, and as much on."""
        return time.time() + self.away

    async def sleep_until(self, when: float) -> None:
        """Return at that time, or at once when it is past."""
        await asyncio.sleep(max(0.0, when - self.now()))


async def until(condition: Callable[[], Any], within: float = 10.0) -> None:
    """Return once the condition holds."""
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, f"not reached within {within} s"
        await asyncio.sleep(0.002)


def write_kubeconfig(folder: Path, server: str, token: str = "secret", name: str = "kubeconfig", **more: object) -> str:
    """A kubeconfig for the server, which says `more` of it; its path."""
    path = folder / name
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fake",
        "clusters": [{"name": "fake", "cluster": {"server": server, **more}}],
        "users": [{"name": "fake", "user": {"token": token}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
    }
    path.write_bytes(msgspec.json.encode(config))  # JSON is YAML
    return str(path)


def connect(api: FakeApi, folder: Path, timeout: float = 2.0, calls: Calls | None = None) -> Session:
    """A session with the fake server."""
    return Session(Credentials(write_kubeconfig(folder, api.url)), timeout, calls)


def pod(name: str, version: int = 1, namespace: str = "shop", **labels: str) -> dict[str, Any]:
    """A Pod as the API shows it."""
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": {**meta, "labels": labels or {"app": "web"}}, "spec": {}, "status": {"phase": "Running"}}


def page(*items: dict[str, Any], version: int = 1, more: str = "") -> dict[str, Any]:
    """A page of a list."""
    return {"kind": "List", "metadata": {"resourceVersion": str(version), "continue": more}, "items": list(items)}


def scale(replicas: int, version: str = "7", uid: str = "u", **more: Any) -> dict[str, Any]:
    """A Scale as the API shows it; like the API it leaves out a 0."""
    return {
        "kind": "Scale",
        "metadata": {"name": "web", "namespace": "shop", "uid": uid, "resourceVersion": version},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": replicas, "selector": "app=web", **more},
    }
