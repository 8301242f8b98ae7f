"""A kubelet's HTTPS server, as far as the API server's node proxy is used: /stats/summary.

Knows the wire format of the summary. It must not know who asks, nor run anything.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from aiohttp import web

from tests.kube.client import JSON
from tests.kube.pki import Certificate
from tests.kube.processes import free_port
from tests.kube.reports import NodeSpec, timestamp


@dataclass
class Kubelet:
    """The kubelet of one node, for as long as its `async with` lasts.

    cores: what each container of each of its pods uses; `pods` are (namespace, name).
    received: the bytes its network received; as many were sent. All may be changed at any time, as may the following.
    measured: when it measured, in seconds since 1970; None: now.
    twist: makes of a right answer the one that is given.
    held: while there is one, requests wait for this event.
    """

    node: str
    certificate: Certificate
    cores: float = 0.25
    pods: list[tuple[str, str]] = field(default_factory=list)
    received: int = 1_000_000
    measured: float | None = None
    twist: Callable[[JSON], JSON] = lambda answer: answer
    held: asyncio.Event | None = None
    asked: int = 0

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            application = web.Application()
            application.router.add_get("/stats/summary", self._summary)
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(self.certificate.certificate, self.certificate.key)
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            self.port = free_port()
            await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=tls).start()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def spec(self) -> NodeSpec:
        """The node that says where this kubelet is."""
        return NodeSpec(self.node, kubelet_port=self.port)

    async def _summary(self, request: web.Request) -> web.Response:
        self.asked += 1
        if self.held is not None:
            await self.held.wait()
        time = timestamp(self.measured)
        answer = {"node": self._node(time), "pods": [self._pod(*pod, time) for pod in self.pods]}
        return web.json_response(self.twist(answer))

    def _usage(self, count: int, time: str) -> JSON:
        nano = round(self.cores * count * 1e9)
        cpu = {"time": time, "usageNanoCores": nano, "usageCoreNanoSeconds": 1}
        return {"cpu": cpu, "memory": {"time": time, "workingSetBytes": 2**26 * count, "usageBytes": 2**27}}

    def _node(self, time: str) -> JSON:
        network = {"time": time, "name": "eth0", "rxBytes": self.received, "txBytes": self.received, "interfaces": []}
        fs = {"time": time, "usedBytes": 2**30, "availableBytes": 2**31, "capacityBytes": 2**32}
        return {"nodeName": self.node, **self._usage(len(self.pods), time), "network": network, "fs": fs}

    def _pod(self, namespace: str, name: str, time: str) -> JSON:
        reference = {"namespace": namespace, "name": name, "uid": "not-looked-at"}
        return {"podRef": reference, "startTime": time, "containers": [{"name": "main", **self._usage(1, time)}]}
