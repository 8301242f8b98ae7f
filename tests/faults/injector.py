"""A proxy between a daemon and the API server that injects the faults of a plan.

Knows HTTP, lists and watches; knows nothing of what the daemon does with them.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from random import Random
from typing import Any

import aiohttp
from aiohttp import web

from tests.faults.plan import Fault
from tests.kube.between import Between
from tests.kube.control_plane import ControlPlane

PIECE = re.compile(r"/apis?/(?:[^/]+/)?v[^/]+/(?:namespaces/[^/]+/(?=[^/]))?([^/]+)(?:/([^/]+))?(?:/([^/]+))?$")


def resource_of(path: str) -> tuple[str, bool]:
    """The resource of a request, or its subresource, and whether it is about all of a kind."""
    found = PIECE.match(path)
    if found is None:
        return "", False
    resource, name, subresource = found.groups()
    return subresource or resource, name is None


class Injector(Between):
    """The proxy of one daemon. `written` are the bodies of its writes that the server may have seen."""

    def __init__(self, plane: ControlPlane, number: int, seed: int) -> None:
        super().__init__(plane)
        self.number, self._random = number, Random(seed * 1000 + number)
        self._faults: Sequence[Fault] = ()
        self._began = 0.0
        self._lists: dict[str, tuple[int, bytes, dict[str, str]]] = {}
        self.injected: Counter[str] = Counter()
        self.written: list[tuple[str, str, Any]] = []

    def begin(self, faults: Sequence[Fault]) -> None:
        """Inject these from now on; none of them: it is over."""
        self._faults = [fault for fault in faults if fault.daemon == self.number]
        self._began = asyncio.get_running_loop().time()

    def forget(self) -> None:
        """What was injected and written until now counts no more."""
        self.injected.clear()
        self.written.clear()

    def _draw(self, verb: str, resource: str) -> Fault | None:
        at = asyncio.get_running_loop().time() - self._began
        fault = next((one for one in self._faults if one.meets(verb, resource, at)), None)
        if fault is None or self._random.random() >= fault.share:
            return None
        self.injected[f"{verb} {fault.kind}"] += 1
        return fault

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        resource, of_all = resource_of(request.path)
        if request.query.get("watch"):
            fault = self._draw("watch", resource)
            return await (self._cut(request) if fault and fault.kind in ("refused", "cut") else self._stream(request))
        fault = self._draw(request.method, resource)
        kind = fault.kind if fault else ""
        body = await request.read()
        if kind == "refused":
            return await self._cut(request)
        if fault and kind == "status":
            return _status(fault, request)
        if fault and kind == "late":
            await asyncio.sleep(fault.value)
        return await self._pass_on(request, body, kind, of_all=of_all)

    async def _pass_on(self, request: web.Request, body: bytes, kind: str, *, of_all: bool) -> web.StreamResponse:
        if body:
            self.written.append((request.method, request.path, json.loads(body)))
        try:
            answer = await self._ask(request, body)
        except aiohttp.ClientError:
            return await self._cut(request)
        if request.method == "GET" and of_all:
            first = self._lists.setdefault(request.path_qs, answer)
            answer = first if kind == "old list" else answer
        if kind == "lost":
            return await self._cut(request)
        return await (self._truncate(request, answer) if kind == "truncated" else _respond(answer))

    async def _cut(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _truncate(self, request: web.Request, answer: tuple[int, bytes, dict[str, str]]) -> web.StreamResponse:
        code, body, headers = answer
        response = web.StreamResponse(status=code, headers={**headers, "Content-Length": str(len(body) + 1)})
        await response.prepare(request)
        await response.write(body[: len(body) // 2])
        return await self._cut(request)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        resource, _ = resource_of(request.path)
        try:
            async with self._open(request) as answer:
                response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
                await response.prepare(request)
                async for chunk in _chunks(answer):
                    fault = self._draw("watch", resource)
                    if fault is not None and not await self._spoil(response, fault, chunk):
                        return await self._cut(request)
                    if chunk and fault is None:
                        await response.write(chunk)
                return response
        except aiohttp.ClientError:
            return await self._cut(request)

    async def _spoil(self, response: web.StreamResponse, fault: Fault, chunk: bytes) -> bool:
        """Pass a chunk of a watch on as the fault has it; False: the connection is to be cut."""
        if fault.kind == "gone":
            status = {"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired", "message": "too old"}
            await response.write(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
            return False
        if fault.kind in ("silent", "drip"):
            end = self._began + fault.begins + fault.lasts
            while asyncio.get_running_loop().time() < end:
                await asyncio.sleep(0.05)
                if fault.kind == "drip":
                    await response.write(b"\n")
            return False
        if fault.kind == "late" and chunk:
            await asyncio.sleep(fault.value)
        if chunk:
            await response.write(chunk)
        if fault.kind == "twice" and chunk.endswith(b"\n") and chunk.count(b"\n") == 1:
            await response.write(chunk)
        return fault.kind in ("late", "twice")


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


def _status(fault: Fault, request: web.Request) -> web.Response:
    """The answer of a server that repeats the credentials of the request."""
    reasons = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}
    body = {"kind": "Status", "apiVersion": "v1", "code": fault.code, "reason": reasons[fault.code]}
    body["message"] = f"not now, {request.headers.get('Authorization')}"
    headers = {"Retry-After": f"{fault.value:.0f}"} if fault.value and fault.code in (429, 503) else {}
    return web.json_response(body, status=fault.code, headers=headers)


async def _respond(answer: tuple[int, bytes, dict[str, str]]) -> web.StreamResponse:
    code, body, headers = answer
    return web.Response(status=code, body=body, headers=headers)
