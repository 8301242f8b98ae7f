"""Hollow nodes: what a kubelet does towards the API server, without a kubelet.

Knows the life of a Node object and of a pod that is bound to one: start, Running and Ready, end, by itself or deleted.
It runs nothing, and must not know what the pods are for.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

import aiohttp

from tests.kube import reports
from tests.kube.client import JSON, ApiError, Client
from tests.kube.reports import NodeSpec, Pull

LASTS = "hollow.test/lasts"
"""The annotation of a pod whose containers end by themselves: after how many seconds. With a minus, they fail."""
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}

STARTING = "not yet ready to handle request"
"""What an API server that has just started says with 403, before its admission plugins are ready."""


def _is_gone_or_replaced(error: ApiError) -> bool:
    # A patch with another object's uid is no conflict to the API server, but a change of what cannot change.
    return error.status in (404, 409) or (error.status == 422 and "metadata.uid" in str(error))


@dataclass
class HollowNodes:
    """Nodes, and the kubelets' side of the pods bound to them, for as long as its `async with` lasts.

    startup(pod): the seconds from binding to Ready, or None for a pod that never gets ready.
    shutdown(pod): the seconds that its containers take to end, cut at its grace.
    pull(image): what to tell in a Pulled event, or None for no event.
    refuse(pod): why a running pod is not given what it requests now, Deferred or Infeasible; empty: it is given that.
    ended(pod): called when its containers have ended by themselves, before anybody is told.
    at_once: the most writes at a time.
    """

    client: Client
    nodes: Iterable[NodeSpec] = ()
    startup: Callable[[JSON], float | None] = lambda _: 0.2
    shutdown: Callable[[JSON], float] = lambda _: 0.2
    pull: Callable[[str], Pull | None] = lambda _: None
    refuse: Callable[[JSON], str] = lambda _: ""
    ended: Callable[[JSON], None] = lambda _: None
    at_once: int = 32

    async def __aenter__(self) -> Self:
        self._alive: dict[str, asyncio.Event] = {}
        self._specs: dict[str, NodeSpec] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._wanted: dict[str, JSON] = {}
        self._addresses = 0
        self._places = asyncio.Semaphore(self.at_once)
        await self.add(*self.nodes)
        self._watching = asyncio.create_task(self._watch_pods())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = [self._watching, *self._tasks.values()]
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            # A task that failed before it was cancelled would otherwise be silent.
            if isinstance(outcome, Exception):
                raise outcome

    async def add(self, *nodes: NodeSpec) -> None:
        """Add nodes; they are ready at the end."""
        for node in nodes:
            self._specs[node.name] = node
            self._alive[node.name] = asyncio.Event()
        await asyncio.gather(*(self._add(node) for node in nodes))

    async def remove(self, *names: str) -> None:
        """Take nodes away; the controller manager deletes their pods in its own time."""
        for name in names:
            del self._specs[name], self._alive[name]
            await self.client.delete(f"/api/v1/nodes/{name}")

    @asynccontextmanager
    async def having(self, *nodes: NodeSpec) -> AsyncIterator[None]:
        """Further nodes, for as long as the `async with` lasts."""
        await self.add(*nodes)
        try:
            yield
        finally:
            await self.remove(*(node.name for node in nodes))

    async def set_ready(self, name: str, ready: bool) -> None:
        """Let a node fail or recover: while it is not ready, its pods neither start nor end.

        The taint is the one that the node lifecycle controller sets, which is not run here.
        """
        await self._report(self._specs[name], ready)

    async def _add(self, node: NodeSpec) -> None:
        await self._insist(lambda: self.client.create("/api/v1/nodes", node.manifest()))
        await self._report(node, ready=True)

    async def _report(self, node: NodeSpec, ready: bool) -> None:
        path = f"/api/v1/nodes/{node.name}"
        await self._insist(lambda: self.client.patch(f"{path}/status", {"status": node.status(ready)}, "strategic"))
        taints = [*node.taints, *([] if ready else [NOT_READY])]
        await self._insist(lambda: self.client.patch(path, {"spec": {"taints": taints or None}}))
        if ready:
            self._alive[node.name].set()
        else:
            self._alive[node.name].clear()

    async def _watch_pods(self) -> None:
        bound = self.client.follow("/api/v1/pods", fieldSelector="spec.nodeName!=")
        async with aclosing(bound) as changes:
            async for kind, pod in changes:
                uid = pod["metadata"]["uid"]
                if kind == "DELETED":
                    self._forget(uid)
                elif pod["spec"]["nodeName"] in self._specs:
                    self._play(uid, pod)

    def _forget(self, uid: str) -> None:
        self._wanted.pop(uid, None)
        for part in ("begin", "resize", "end"):
            if task := self._tasks.pop((uid, part), None):
                task.cancel()

    def _play(self, uid: str, pod: JSON) -> None:
        ending = "deletionTimestamp" in pod["metadata"]
        if not ending and pod["status"].get("phase") == "Running":
            self._play_resize(uid, pod)
        if not ending and pod["status"].get("phase", "Pending") != "Pending":
            return
        part = "end" if ending else "begin"
        if ending and (beginning := self._tasks.pop((uid, "begin"), None)):
            beginning.cancel()
        if (uid, part) not in self._tasks:
            self._tasks[uid, part] = asyncio.create_task(self._end(pod) if ending else self._begin(pod))

    async def _begin(self, pod: JSON) -> None:
        started = reports.timestamp()
        delay = self.startup(pod)
        self._addresses += 1
        # Beside the range of the services.
        address = f"10.{64 + (self._addresses >> 16)}.{self._addresses >> 8 & 255}.{self._addresses & 255}"
        if delay != 0:
            await self._patch_status(pod, reports.waiting(pod, started))
        if delay is None:
            return
        await asyncio.sleep(delay)
        for image in {container["image"] for container in pod["spec"]["containers"]}:
            if pulled := self.pull(image):
                await self._insist(partial(self._create_event, reports.pulled(pod, image, pulled)))
        await self._patch_status(pod, reports.running(pod, started, address))
        if lasts := pod["metadata"].get("annotations", {}).get(LASTS):
            await asyncio.sleep(abs(float(lasts)))
            self.ended(pod)
            await self._patch_status(pod, reports.ended(pod, started, address, well=not lasts.startswith("-")))

    def _play_resize(self, uid: str, pod: JSON) -> None:
        wanted = reports.requested(pod)
        if reports.is_resized(pod) and self._wanted.get(uid) != wanted:
            self._wanted[uid] = wanted
            if former := self._tasks.pop((uid, "resize"), None):
                former.cancel()
            self._tasks[uid, "resize"] = asyncio.create_task(self._resize(pod))

    async def _resize(self, pod: JSON) -> None:
        told = ""
        while reason := self.refuse(pod):
            if reason != told:
                message = f"the node has no room for {reports.requested(pod)}"
                await self._patch_status(pod, reports.resizing("Pending", reason, message))
                told = reason
            await asyncio.sleep(0.1)
        await self._patch_status(pod, reports.resizing("InProgress"))
        await self._patch_status(pod, reports.resized(pod))

    async def _end(self, pod: JSON) -> None:
        metadata = pod["metadata"]
        await asyncio.sleep(min(self.shutdown(pod), metadata["deletionGracePeriodSeconds"]))
        await self._is_alive(pod)
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        await self._insist(lambda: self.client.delete(path, grace=0, uid=metadata["uid"]))

    async def _patch_status(self, pod: JSON, status: JSON) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        # With the uid, so that a pod recreated under the same name is left alone.
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        await self._is_alive(pod)
        await self._insist(lambda: self.client.patch(path, body, "strategic"))

    async def _create_event(self, event: JSON) -> JSON:
        return await self.client.create(f"/api/v1/namespaces/{event['metadata']['namespace']}/events", event)

    async def _is_alive(self, pod: JSON) -> None:
        if alive := self._alive.get(pod["spec"]["nodeName"]):
            await alive.wait()

    async def _insist(self, write: Callable[[], Awaitable[JSON]]) -> None:
        """Write, over restarts of the API server; an object that is gone or was replaced needs no write."""
        while True:
            try:
                async with self._places:
                    await write()
            except ApiError as error:
                if _is_gone_or_replaced(error):
                    return
                if error.status != 429 and error.status < 500 and STARTING not in str(error):
                    raise
            except (aiohttp.ClientError, TimeoutError):
                pass
            else:
                return
            await asyncio.sleep(0.2)
