"""A proxy between one daemon and the API server, which knows what each request is for, and can cut in on one of them.

Knows HTTP, and the requests of a move by their names; knows nothing of what is tested with it.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import yaml
from aiohttp import web

from elasticd.kit.handover import FENCE, STOPPED
from tests.kube.client import JSON
from tests.kube.control_plane import ControlPlane
from tests.kube.proxy import Proxy, cut

Moment = Literal["before", "after", "lost", "undone", "late", "overtaken"]
"""When a process is killed: before or after the request was carried out; or no process is: the answer to a request that
was carried out is cut off (lost), or the request itself is (undone), or comes once it is delivered (late); or it comes
after something else was done (overtaken)."""

SURGE = "elasticd.io/surge"
COST = "controller.kubernetes.io/pod-deletion-cost"
RESTORED = "elasticd.io/restored-from"


# Which request is which step: method, the end of its path, and its name.
_WRITES = (
    ("POST", r"/pods", "create"),
    ("POST", r"/configmaps", "record"),
    ("POST", r"/pods/[^/]+/eviction", "evict"),
    ("POST", r"/pods/[^/]+/binding", "bind"),
    ("PATCH", r"/configmaps/elasticd-restore-[^/]+", "note"),
    ("PATCH", r"/(?:deployments|statefulsets)/[^/]+/scale", "scale"),
    ("PATCH", r"/pods/[^/]+/status", "nominate"),
    ("PATCH", r"/pods/[^/]+/resize", "resize"),
    ("PATCH", r"/persistentvolumeclaims/[^/]+", "select node"),
    ("POST", r"/jobs", "create Job"),
    ("DELETE", r"/jobs/[^/]+", "delete Job"),
    ("DELETE", r"/configmaps/elasticd-restore-[^/]+", "clear"),
)
_NAMESPACE = r"/api(?:/v1|s/apps/v1|s/batch/v1)/namespaces/[^/]+"


def step_of_write(method: str, path: str, query: Mapping[str, str], sent: Any) -> str:
    """What a request is for, in a word or two; empty: it is no step that is cut in on."""
    for known, end, name in _WRITES:
        if method == known and re.fullmatch(_NAMESPACE + end, path):
            return _step_of_trial(name, sent) if query.get("dryRun") else name
    if method == "PATCH" and re.fullmatch(r"/api/v1/persistentvolumes/[^/]+", path):
        return "keep volume"
    noted = ((sent or {}).get("metadata") or {}).get("annotations") or {}
    if method == "PATCH" and (step := _step_of_takeover(path, noted)):
        return step
    if method != "PATCH" or not noted.keys() & {SURGE, COST}:
        return ""
    if COST in noted:
        return "mark" if noted[COST] else "unmark"
    return f"claim {json.loads(noted[SURGE])['phase']}" if noted[SURGE] else "clear"


def _step_of_trial(name: str, sent: Any) -> str:
    """A second trial, by the pod's own name, follows the first; an eviction is tried before a count is lowered."""
    return "" if name != "create" or "name" in sent["metadata"] else "try"


def _step_of_takeover(path: str, noted: Mapping[str, Any]) -> str:
    if FENCE in noted:
        return "fence" if noted[FENCE] else "unfence"
    if STOPPED in noted:
        return "stop" if noted[STOPPED] else "restore"
    return "forget" if re.fullmatch(r".*/horizontalpodautoscalers/[^/]+/status", path) else ""


def step_of_read(path: str, code: int, found: Any) -> str:
    """The same of a read, which is told by its answer."""
    if not re.fullmatch(_NAMESPACE + r"/pods/[^/]+", path):
        return ""
    if code == 404:
        return "see it gone"
    runs = code == 200 and found.get("status", {}).get("phase") == "Running"
    return "see it run" if runs and RESTORED in found["metadata"].get("annotations", {}) else ""


def kubeconfig_by(plane: ControlPlane, url: str, user: str, folder: Path) -> Path:
    """A kubeconfig by which a user comes to the API server by way of a proxy."""
    config = yaml.safe_load(plane.kubeconfig(user).read_text())
    config["clusters"][0]["cluster"]["server"] = url
    path = folder / f"{url.rpartition(':')[2]}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def _not_found(said: str | JSON) -> web.Response:
    if isinstance(said, str):
        return web.Response(status=404, text=said, content_type="text/html")
    return web.json_response(said, status=404)


class Between(Proxy):
    """The proxy, for as long as its `async with` lasts."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane.server, plane.client().tls)
        self._plane = plane
        self.passed: list[str] = []
        """The steps that the server has seen, in order."""
        self._at, self._moment = "", "before"
        self._kill: Callable[[], Awaitable[None]] | None = None
        self._left = 0
        self.fired = asyncio.Event()
        self.twice = ""
        """The step that is sent twice, as a proxy does that tries again; the second answer is given."""
        self.misrouted = ""
        """While set, reads of a path with this in it are answered by the proxy, with 404 and what follows."""
        self.misroutes_by: str | JSON = "<html>no such backend</html>"
        self.denied = ""
        """The step that is refused, as an admission webhook or a quota refuses it, and kept to be delivered late."""
        self.alone = False
        """Whether the daemon is told that it keeps its lease, whoever has it."""
        self._lease: Any = None
        self._late: tuple[web.Request, bytes] | None = None
        self._parted = False
        self._sees = asyncio.Event()
        self._sees.set()
        self._deaf_to, self._hears = "-", asyncio.Event()
        self._hears.set()
        self._transports: set[asyncio.Transport] = set()

    def kubeconfig(self, user: str, folder: Path) -> Path:
        """A kubeconfig by which a user comes this way."""
        return kubeconfig_by(self._plane, self.url, user, folder)

    def cut(self, step: str, moment: Moment, kill: Callable[[], Awaitable[None]] | None = None, nth: int = 1) -> None:
        """Cut in on the nth step of this name from now on, once; `kill` is what is done then."""
        self._at, self._moment, self._kill, self._left = step, moment, kill, nth
        self.fired.clear()
        self.passed.clear()

    @property
    def waits(self) -> bool:
        """Whether the step to cut in on is yet to come."""
        return bool(self._at)

    @property
    def keeps(self) -> bool:
        """Whether there is a request to deliver."""
        return self._late is not None

    async def deliver(self) -> int:
        """Send the request that was kept, as a network does that delivers it late; gives the server's code."""
        assert self._late is not None
        return (await self._ask(*self._late)).code

    async def part(self) -> None:
        """From now on nothing gets through, neither requests nor answers nor watches."""
        self._parted = True
        for transport in self._transports:
            transport.abort()

    def join(self) -> None:
        """Everything gets through again."""
        self._parted = False

    async def hide(self) -> None:
        """From now on nothing that is read gets an answer, and no watch goes on: but for the Lease, and writes."""
        self._sees.clear()
        for transport in self._transports:
            transport.abort()

    def show(self) -> None:
        """What is read is answered again."""
        self._sees.set()

    @contextmanager
    def deaf_to(self, resource: str) -> Iterator[None]:
        """Keep the news of watches of this resource back for as long as the block runs."""
        self._deaf_to = resource
        self._hears.clear()
        try:
            yield
        finally:
            self._hears.set()

    def _cuts(self, step: str) -> bool:
        if not step or step != self._at:
            return False
        self._left -= 1
        if self._left:
            return False
        self._at = ""
        return True

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        if self._parted:
            return cut(request)
        self._transports.add(request.transport)
        try:
            if request.method == "GET" and "/leases" not in request.path:
                await self._sees.wait()
                if self.misrouted and self.misrouted in request.path:
                    return _not_found(self.misroutes_by)
            return await self._answer(request)
        finally:
            self._transports.discard(request.transport)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self.alone and "/leases" in request.path:
            return await self._pretend(request)
        if request.query.get("watch"):
            return await self._stream(request)
        body = await request.read()
        sent = json.loads(body) if body else None
        query = dict(request.query)
        early = step_of_write(request.method, request.path, query, sent)
        if early and early == self.denied:
            self._late = (request, body)
            told = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": f"may not {early}"}
            return web.json_response(told, status=403)
        cuts = self._cuts(early)
        if cuts and self._moment == "overtaken":
            await self._die()
            cuts = False
        if cuts and self._moment in ("before", "undone", "late"):
            self._late = (request, body)
            return await self._break(request)
        if early and early == self.twice:
            await self._ask(request, body)
        code, reply, headers = await self._ask(request, body)
        if request.method == "GET" and request.path.count("/") == 6:
            found = json.loads(reply) if "json" in headers.get("Content-Type", "") else {}
            cuts = self._cuts(step_of_read(request.path, code, found))
        elif early:
            self.passed.append(early)
        if cuts:
            return await self._break(request)
        return web.Response(status=code, body=reply, headers=headers)

    async def _break(self, request: web.Request) -> web.StreamResponse:
        self._dying = asyncio.create_task(self._die())
        await asyncio.shield(self._dying)  # the connection, and with it this handler, ends with the process
        return cut(request)

    async def _die(self) -> None:
        if self._kill is not None:
            await self._kill()
        self.fired.set()

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        async with self._open(request) as answer:
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                if request.path.endswith(f"/{self._deaf_to}"):
                    await self._hears.wait()
                await response.write(chunk)
            return response

    async def _pretend(self, request: web.Request) -> web.StreamResponse:
        """A lease that is the daemon's own for as long as it likes."""
        if request.method != "GET":
            self._lease = await request.json()
        if self._lease is None:
            return _not_found(
                {
                    "kind": "Status",
                    "code": 404,
                    "reason": "NotFound",
                    "details": {"name": request.path.rpartition("/")[2]},
                }
            )
        return web.json_response({"kind": "Lease", **self._lease})
