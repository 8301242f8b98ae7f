"""A metrics server behind the genuine aggregation layer.

Knows how an APIService is registered and served; what it answers is metrics_wire's to know.  It must not know
who reads it.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self

from aiohttp import web

from tests.kube.client import JSON, Client, wait_until
from tests.kube.load import Load, Loads, SeenPod
from tests.kube.metrics_wire import (
    CUSTOM,
    EXTERNAL,
    RESOURCE,
    CustomMetrics,
    ExternalMetrics,
    Measurements,
    ResourceMetrics,
    Routes,
)
from tests.kube.pki import Certificate
from tests.kube.processes import free_port

GROUPS = (RESOURCE, CUSTOM, EXTERNAL)
_SERVICE = "elasticd-test-metrics"


@dataclass
class MetricsApi:
    """A metrics server for as long as its `async with` lasts.

    measured: when the metrics are measured; may be changed at any time, as may the following.
    loads: what the pods use.
    custom: values by (namespace, resource, object or "*", metric), as ("shop", "pods", "web-1", "requests").
    external: values by (namespace or "*", metric).
    failure: an HTTP status that answers every request of metrics while it is set.
    twist: makes of a right answer the one that is given.
    held: while there is one, requests of metrics wait for this event.
    groups: which of the three APIs there are.
    """

    client: Client
    certificate: Certificate
    groups: Sequence[str] = GROUPS
    measured: Measurements = field(default_factory=Measurements)
    loads: Loads = field(default_factory=Loads)
    custom: dict[tuple[str, str, str, str], Load] = field(default_factory=dict)
    external: dict[tuple[str, str], Load] = field(default_factory=dict)
    failure: int | None = None
    twist: Callable[[JSON], JSON] = lambda answer: answer
    held: asyncio.Event | None = None

    async def __aenter__(self) -> Self:
        self._nodes: dict[str, str] = {}
        async with AsyncExitStack() as stack:
            for following in (self._follow_pods(), self._follow_nodes()):
                stack.push_async_callback(_end, asyncio.create_task(following))
            port = await self._serve(stack)
            await self._register(port)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _routes(self) -> dict[str, Routes]:
        return {
            RESOURCE: ResourceMetrics(self.loads, self._nodes, self.measured).routes(),
            CUSTOM: CustomMetrics(self.custom, self.loads, self.measured).routes(),
            EXTERNAL: ExternalMetrics(self.external, self.measured).routes(),
        }

    async def _serve(self, stack: AsyncExitStack) -> int:
        application = web.Application()
        for group, routes in self._routes().items():
            for path, handler in routes.items():
                application.router.add_get(f"/apis/{group}/v1beta1{path}", self._answering(handler))
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(self.certificate.certificate, self.certificate.key)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        port = free_port()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
        return port

    def _answering(
        self, handler: Callable[[web.Request], Awaitable[JSON]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            # Discovery goes on, or the aggregation layer itself would answer instead.
            if self.failure is not None and not request.path.endswith("/v1beta1"):
                return web.json_response({"kind": "Status", "code": self.failure}, status=self.failure)
            if request.path.endswith("/v1beta1"):
                return web.json_response(await handler(request))
            if self.held is not None:
                await self.held.wait()
            return web.json_response(self.twist(await handler(request)))

        return answer

    async def _register(self, port: int) -> None:
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": _SERVICE, "namespace": "kube-system"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
        }
        await self.client.apply([service, *(_registration(group, port) for group in self.groups)])
        for group in self.groups:
            # The answer itself: its condition is set before every part of the API server has seen it.
            await wait_until(partial(self.client.get, f"/apis/{group}/v1beta1"), what=f"{group} answers")

    async def _follow_pods(self) -> None:
        async with aclosing(self.client.follow("/api/v1/pods")) as changes:
            async for kind, pod in changes:
                if kind == "DELETED":
                    self.loads.pods.pop(pod["metadata"]["uid"], None)
                else:
                    self.loads.pods[pod["metadata"]["uid"]] = SeenPod.of(pod)

    async def _follow_nodes(self) -> None:
        async with aclosing(self.client.follow("/api/v1/nodes")) as changes:
            async for kind, node in changes:
                if kind == "DELETED":
                    self._nodes.pop(node["metadata"]["uid"], None)
                else:
                    self._nodes[node["metadata"]["uid"]] = node["metadata"]["name"]


def _registration(group: str, port: int) -> JSON:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1beta1.{group}"},
        "spec": {
            "group": group,
            "version": "v1beta1",
            "service": {"namespace": "kube-system", "name": _SERVICE, "port": port},
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task that runs for ever; if it failed before, the failure is raised."""
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(outcome, Exception):
        raise outcome
