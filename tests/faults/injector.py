"""Proxies between a daemon and its servers (the API server, a Prometheus, a broker) that inject the faults of a plan.

Knows HTTP, lists, watches and how packets of MQTT begin; knows nothing of what the daemon does with them.
"""

import asyncio
import contextlib
import json
import re
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Protocol, Self

import aiohttp
from aiohttp import web

from tests.faults.plan import Fault, Server
from tests.kube.between import kubeconfig_by
from tests.kube.control_plane import ControlPlane
from tests.kube.proxy import Proxy, Reply, cut

PIECE = re.compile(r"/apis?/(?:[^/]+/)?v[^/]+/(?:namespaces/[^/]+/(?=[^/]))?([^/]+)(?:/([^/]+))?(?:/([^/]+))?$")
DRIP = 0.2
"""Seconds between two pieces of what drips."""


def resource_of(path: str) -> tuple[str, bool]:
    """The resource of a request, or its subresource, and whether it is about all of a kind."""
    found = PIECE.match(path)
    if found is None:
        return "", False
    resource, name, subresource = found.groups()
    return subresource or resource, name is None


class Faults:
    """The faults of the way from one daemon to one server, drawn for each thing that passes."""

    def __init__(self, server: Server, number: int, seed: int) -> None:
        self._server, self._number, self._random = server, number, Random(f"{server} {seed * 1000 + number}")
        self._faults: Sequence[Fault] = ()
        self._began, self._replaced = 0.0, asyncio.Event()
        self._met: Counter[int] = Counter()
        self.injected: Counter[str] = Counter()
        """How often each was injected."""

    def begin(self, faults: Sequence[Fault]) -> None:
        """Inject these from now on; none of them: it is over."""
        self._faults = [one for one in faults if (one.daemon, one.server) == (self._number, self._server)]
        self._began = asyncio.get_running_loop().time()
        self._met.clear()
        self._replaced.set()
        self._replaced = asyncio.Event()

    def draw(self, verb: str, resource: str = "") -> Fault | None:
        """The first of them that is about this, if it is injected."""
        at = asyncio.get_running_loop().time() - self._began
        fault = next((one for one in self._faults if one.meets(verb, resource, at) and self._counts(one)), None)
        if fault is None or self._random.random() >= fault.share:
            return None
        self.injected[f"{verb} {fault.kind}"] += 1
        return fault

    def _counts(self, fault: Fault) -> bool:
        """Whether it is about the next of all that it meets."""
        self._met[id(fault)] += 1
        return fault.skipped < self._met[id(fault)] <= fault.skipped + (fault.most or float("inf"))

    async def over(self, fault: Fault) -> None:
        """Return when it is over, or others have begun."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._began + fault.begins + fault.lasts):
                await self._replaced.wait()


class Injects(Protocol):
    """What has faults to inject."""

    faults: Faults


class HttpInjector(Proxy):
    """The proxy of one daemon before an HTTP server."""

    def __init__(self, server: str, faults: Faults, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(server, tls)
        self.faults = faults
        self._first: dict[tuple[str, str, bytes], Reply] = {}

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        resource, _ = resource_of(request.path)
        fault = self.faults.draw(request.method, resource)
        return await self._spoil(request, await request.read(), fault)

    async def _spoil(self, request: web.Request, body: bytes, fault: Fault | None) -> web.StreamResponse:
        """Answer a request as the fault has it."""
        if fault is None:
            return await self._pass_on(request, body, None)
        match fault.kind:
            case "refused":
                return cut(request)
            case "status":
                return self._status(fault, request)
            case "expired":
                return self._status(fault._replace(code=410), request)
            case "silent":
                await self.faults.over(fault)
                return cut(request)
            case "late":
                await asyncio.sleep(fault.value)
            case _:
                pass
        return await self._pass_on(request, body, fault)

    async def _pass_on(self, request: web.Request, body: bytes, fault: Fault | None) -> web.StreamResponse:
        try:
            reply = await self._ask(request, body)
        except aiohttp.ClientError:
            return cut(request)
        kind = fault.kind if fault else ""
        if self._repeats(request):
            first = self._first.setdefault((request.method, request.path_qs, body), reply)
            reply = first if kind == "old answer" else reply
        if kind == "lost":
            return cut(request)
        if kind in ("truncated", "drip"):
            return await self._part(request, reply, drips=kind == "drip")
        return web.Response(status=reply.code, body=reply.body, headers=reply.headers)

    def _repeats(self, _: web.Request) -> bool:
        """Whether an earlier answer to the same may be given again."""
        return True

    def _status(self, fault: Fault, _: web.Request) -> web.Response:
        body = {"status": "error", "errorType": "execution", "error": "not now"}
        return web.json_response(body, status=fault.code, headers=fault.retry_after)

    async def _part(self, request: web.Request, reply: Reply, *, drips: bool) -> web.StreamResponse:
        """Half of an answer, or the answer byte by byte, which takes longer than anybody waits."""
        response = web.StreamResponse(
            status=reply.code, headers={**reply.headers, "Content-Length": str(len(reply.body) + 1)}
        )
        await response.prepare(request)
        if not drips:
            await response.write(reply.body[: len(reply.body) // 2])
            return cut(request)
        for position in range(len(reply.body)):
            await response.write(reply.body[position : position + 1])
            await asyncio.sleep(DRIP)
        return cut(request)


class ApiInjector(HttpInjector):
    """The proxy of one daemon before the API server. `written` are the bodies of its writes that the server may have
    seen."""

    def __init__(self, plane: ControlPlane, number: int, seed: int) -> None:
        super().__init__(plane.server, Faults("API server", number, seed), plane.client().tls)
        self._plane = plane
        self.written: list[tuple[str, str, Any]] = []

    def kubeconfig(self, user: str, folder: Path) -> Path:
        """A kubeconfig by which a user comes this way."""
        return kubeconfig_by(self._plane, self.url, user, folder)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if not request.query.get("watch"):
            return await super()._handle(request)
        fault = self.faults.draw("watch", resource_of(request.path)[0])
        return cut(request) if fault and fault.kind in ("refused", "cut") else await self._stream(request)

    async def _pass_on(self, request: web.Request, body: bytes, fault: Fault | None) -> web.StreamResponse:
        if body:
            self.written.append((request.method, request.path, json.loads(body)))
        return await super()._pass_on(request, body, fault)

    def _repeats(self, request: web.Request) -> bool:
        return request.method == "GET" and resource_of(request.path)[1]

    def _status(self, fault: Fault, request: web.Request) -> web.Response:
        """The answer of a server that repeats the credentials of the request."""
        body = {"kind": "Status", "apiVersion": "v1", "code": fault.code, "reason": REASONS[fault.code]}
        body["message"] = f"not now, {request.headers.get('Authorization')}"
        return web.json_response(body, status=fault.code, headers=fault.retry_after)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        resource, _ = resource_of(request.path)
        try:
            async with self._open(request) as answer:
                response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
                await response.prepare(request)
                order = Order()
                async for came in _chunks(answer):
                    fault = self.faults.draw("watch", resource)
                    chunk = order.passed(came, waits=fault is not None and fault.kind == "reordered")
                    if fault is not None and not await self._spoil_chunk(response, fault, chunk):
                        return cut(request)
                    if chunk and fault is None:
                        await response.write(chunk)
                return response
        except aiohttp.ClientError:
            return cut(request)

    async def _spoil_chunk(self, response: web.StreamResponse, fault: Fault, chunk: bytes) -> bool:
        """Pass a chunk of a watch on as the fault has it; False: the connection is to be cut."""
        if fault.kind == "gone":
            status = {"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired", "message": "too old"}
            await response.write(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
            return False
        if fault.kind in ("silent", "drip"):
            dripping = asyncio.create_task(_drip(response)) if fault.kind == "drip" else None
            await self.faults.over(fault)
            if dripping:
                dripping.cancel()
            return False
        if fault.kind == "late" and chunk:
            await asyncio.sleep(fault.value)
        if chunk:
            await response.write(chunk)
        if fault.kind == "twice" and chunk.endswith(b"\n") and chunk.count(b"\n") == 1:
            await response.write(chunk)
        return fault.kind in ("late", "twice", "reordered")


class Order:
    """In which order the events of a watch are passed on: one that waits is passed by the next, if that is of another
    object. Of one object, no server ever tells the later one first."""

    def __init__(self) -> None:
        self._waiting = b""

    def passed(self, chunk: bytes, *, waits: bool) -> bytes:
        """What is passed on now that this has come, which may be nothing; `waits`: it is to let the next one pass."""
        waiting, self._waiting = self._waiting, b""
        about = _object_of(chunk)
        if waits and (about if not waiting else not chunk):
            self._waiting = chunk or waiting
            return b""
        return chunk + waiting if about and waiting and about != _object_of(waiting) else waiting + chunk


def _object_of(chunk: bytes) -> str:
    """The uid of the object that the event is about; empty: it is not one whole event about an object."""
    try:
        event = json.loads(chunk)
    except ValueError:
        return ""
    return str(event["object"]["metadata"].get("uid", "")) if event["type"] in ("ADDED", "MODIFIED", "DELETED") else ""


async def _drip(response: web.StreamResponse) -> None:
    with contextlib.suppress(aiohttp.ClientError):  # nobody listens any more
        while True:
            await response.write(b"\n")
            await asyncio.sleep(0.05)


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """What comes, and nothing ten times a second while nothing comes."""
    reading = asyncio.ensure_future(answer.content.readany())
    try:
        while True:
            done, _ = await asyncio.wait([reading], timeout=0.1)
            if not done:
                yield b""
                continue
            chunk = reading.result()
            if not chunk:
                return
            yield chunk
            reading = asyncio.ensure_future(answer.content.readany())
    finally:
        reading.cancel()


REASONS: Mapping[int, str] = {
    401: "Unauthorized",
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}

PACKETS = {1: "CONNECT", 2: "CONNACK", 3: "PUBLISH", 4: "PUBACK", 8: "SUBSCRIBE", 9: "SUBACK", 12: "PINGREQ"}
"""Packets of MQTT that faults are about, by the number that they begin with."""
_DUPLICATE = 0x08


class MqttInjector:
    """The proxy of one daemon before a broker."""

    def __init__(self, port: int, faults: Faults) -> None:
        self.faults, self._broker = faults, port
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        try:
            back, forth = await asyncio.open_connection("127.0.0.1", self._broker)
        except OSError:
            writer.transport.abort()
            return
        ways = [asyncio.create_task(self._relay(reader, forth)), asyncio.create_task(self._relay(back, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            forth.transport.abort()
            writer.transport.abort()

    async def _relay(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Pass packets on until one side ends the connection, or a fault does."""
        try:
            while await self._pass_on(await packet(source), target):
                await target.drain()
        except (OSError, EOFError):
            return

    async def _pass_on(self, data: bytes, target: asyncio.StreamWriter) -> bool:
        """Pass a packet on as its fault has it; False: the connection is to be cut."""
        fault = self.faults.draw(PACKETS.get(data[0] >> 4, "other"))
        match fault.kind if fault else "":
            case "refused":
                return False
            case "silent" if fault:
                await self.faults.over(fault)
                return False
            case "truncated":
                target.write(data[: len(data) // 2])
                await target.drain()
                return False
            case "drip":
                for position in range(len(data)):
                    target.write(data[position : position + 1])
                    await asyncio.sleep(DRIP / 10)
                return True
            case "late" if fault:
                await asyncio.sleep(fault.value)
            case _:
                pass
        target.write(data)
        if fault and fault.kind == "twice":
            # As a broker delivers again what it has no acknowledgement of; of those without one it has no duplicates.
            target.write(bytes([data[0] | (_DUPLICATE if data[0] & 0x06 else 0)]) + data[1:])
        return True


async def packet(source: asyncio.StreamReader) -> bytes:
    """The next packet of MQTT. Raises IncompleteReadError, which is an EOFError, where the connection ends."""
    data = await source.readexactly(2)
    while data[-1] & 0x80:
        data += await source.readexactly(1)
    length = sum((byte & 0x7F) << 7 * index for index, byte in enumerate(data[1:]))
    return data + await source.readexactly(length)
