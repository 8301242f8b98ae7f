"""A surge of every workload at once: when elasticd and the HPA controller write the new counts.

`python tests/bench/surge.py [DEPLOYMENTS ...]`, 300 and 1,000 by default. Genuine parts: a Kubernetes control plane
with its HPA controller, limited as it is shipped (20 queries a second, every 15 s), and the daemon as a process with
`hpa` and `cadence` at their defaults. Both govern the same Deployments in turn, with the same metrics API, whose
samples are renewed every second or, as metrics-server's, every 15 s. The latency is from the renewal that first shows
the surge to the moment at which the API server received the write, by its audit log. Beside them stands what this API
server takes for the writes alone, as many at a time as elasticd begins. Nothing here passes or fails.
"""

import asyncio
import json
import os
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from pathlib import Path
from time import time

from aiohttp import web

from elasticd.cluster.kubernetes.write.scale import AT_ONCE
from tests.bench.bind import cpu
from tests.kit.measuring import machine
from tests.kube import pki
from tests.kube.client import JSON, Client, wait_until
from tests.kube.control_plane import CONTROLLER_MANAGER, ControlPlane, ExtraFlags, HpaTiming
from tests.kube.hollow import HollowNodes
from tests.kube.load import Loads, SeenPod
from tests.kube.metrics_api import MetricsApi
from tests.kube.metrics_wire import RESOURCE, Measurements, ResourceMetrics, Routes
from tests.kube.reports import NodeSpec
from tests.kube.running import running

SIZES, ROUNDS, NAMESPACE = (300, 1000), 2, "surge"
RESOLUTIONS = (1.0, 15.0)
REPLICAS, REQUEST = 2, 0.2
CALM, BUSY = 0.45 * REPLICAS * REQUEST, 0.8 * REPLICAS * REQUEST
"""Cores of all pods of a workload before and after; at a target of 60 % the second asks for three pods."""
WINDOW = 15.0
AS_SHIPPED = ExtraFlags(controller_manager=("--kube-api-qps=20", "--kube-api-burst=30"))
POLICY = f"""
mode = "act"
select = {{ namespaces = ["{NAMESPACE}"] }}
replicas = {{ min = {REPLICAS}, max = 10 }}
[[strategy]]
type = "hpa"
metrics = [{{ type = "Resource", resource = "cpu", utilization = 60 }}]
[[strategy]]
type = "cadence"
"""


class PodsByApp(dict[str, SeenPod]):
    """Pods by uid, and by their label `app` beside: the HPA controller asks for each workload's alone."""

    def __init__(self) -> None:
        super().__init__()
        self.by_app: dict[str, dict[str, SeenPod]] = {}

    def __setitem__(self, uid: str, pod: SeenPod) -> None:
        super().__setitem__(uid, pod)
        self.by_app.setdefault(pod.labels.get("app", ""), {})[uid] = pod

    def pop(self, uid: str, default: SeenPod | None = None) -> SeenPod | None:  # type: ignore[override]
        """Forget a pod."""
        pod = super().pop(uid, default)
        if pod is not None:
            self.by_app[pod.labels.get("app", "")].pop(uid, None)
        return pod


@dataclass
class SurgeMetrics(ResourceMetrics):
    """Resource metrics of pods among which a workload's total is shared. `surge`: from when on that is `BUSY`."""

    surge: float = float("inf")

    def routes(self) -> Routes:
        """The lists of pods, by namespace or of all."""
        return {"": self.discover, "/pods": self.list_pods, "/namespaces/{namespace}/pods": self.list_pods}

    async def list_pods(self, request: web.Request) -> JSON:
        """The running pods of one workload or of all."""
        pods = self.loads.pods
        assert isinstance(pods, PodsByApp)
        app = request.query.get("labelSelector", "").partition("app=")[2]
        stamp, total = self.measured.stamp(), BUSY if self.measured.time() >= self.surge else CALM
        workloads = [pods.by_app.get(app, {})] if app else list(pods.by_app.values())
        items = [item for one in workloads for item in _items([*one.values()], total, stamp)]
        return {"kind": "PodMetricsList", "apiVersion": f"{RESOURCE}/v1beta1", "metadata": {}, "items": items}


def _items(pods: Sequence[SeenPod], total: float, stamp: JSON) -> list[JSON]:
    pods = [pod for pod in pods if pod.running]
    ready = sum(pod.ready for pod in pods)
    return [
        {
            "metadata": {"name": pod.name, "namespace": pod.namespace, "labels": dict(pod.labels)},
            **stamp,
            "containers": [
                {
                    "name": name,
                    "usage": {"cpu": f"{round(total / ready * 1e9) if pod.ready else 0}n", "memory": "65536Ki"},
                }
                for name in pod.containers
            ],
        }
        for pod in pods
    ]


class SurgeApi(MetricsApi):
    """The metrics server of this benchmark."""

    def _routes(self) -> dict[str, Routes]:
        self.served = SurgeMetrics(self.loads, self._nodes, self.measured)
        return {RESOURCE: self.served.routes()}


def deployment(name: str) -> JSON:
    """A workload of two pods."""
    resources = {"requests": {"cpu": f"{REQUEST * 1000:g}m", "memory": "64Mi"}}
    container = {"name": "main", "image": "registry.example/pause", "resources": resources}
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    return {
        "metadata": {"name": name},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def autoscaler(name: str) -> JSON:
    """The HorizontalPodAutoscaler that says the same as the policy."""
    target = {"type": "Utilization", "averageUtilization": 60}
    return {
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": REPLICAS,
            "maxReplicas": 10,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


@dataclass
class Lab:
    """What is measured in."""

    folder: Path
    plane: ControlPlane
    client: Client
    metrics: SurgeApi
    names: Sequence[str]
    autoscaling: str
    rounds: int = field(default=0)

    async def each(self, work: Callable[[str], object], seconds: float = 0.0, at_once: int = 16) -> None:
        """Do something for every workload, so many at a time; spread over so many seconds."""
        places = asyncio.Semaphore(at_once)

        async def one(index: int, name: str) -> None:
            await asyncio.sleep(seconds * index / len(self.names))
            async with places:
                await work(name)  # type: ignore[misc]

        await asyncio.gather(*[one(index, name) for index, name in enumerate(self.names)])

    async def calm(self) -> None:
        """As at the beginning: every workload has its two pods, ready for a whole window of samples."""
        self.metrics.served.surge = float("inf")
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
        await self.each(lambda name: self.client.patch(f"{path}/{name}/scale", {"spec": {"replicas": REPLICAS}}))

        async def all_ready() -> bool:
            await asyncio.sleep(1)
            counts = [item["status"].get("readyReplicas", 0) for item in await self.client.list(path)]
            pods = [pod for pod in self.metrics.loads.pods.values() if pod.ready]
            return counts == [REPLICAS] * len(self.names) and len(pods) == REPLICAS * len(self.names)

        await wait_until(all_ready, within=600, what="every workload has its pods")
        await asyncio.sleep(WINDOW + 5)

    async def surge(self, user: str, pid: int) -> tuple[list[float], float]:
        """Let all loads step at a renewal; the seconds until each write by this user, and the CPU of a process."""
        await asyncio.sleep(random.uniform(0, 15))
        resolution = self.metrics.measured.resolution
        offset = self.plane.audit_log.stat().st_size
        used = cpu(pid)
        at = self.metrics.served.surge = ceil((time() + 1) / resolution) * resolution
        writes: dict[str, float] = {}

        def all_written() -> bool:
            nonlocal offset
            offset = self._take(offset, user, at, writes)
            return len(writes) == len(self.names)

        await wait_until(all_written, every=0.5, within=240, what="every workload is written")
        return sorted(writes.values()), cpu(pid) - used

    async def write_alone(self) -> list[float]:
        """The seconds until each write where nobody looks at anything: as soon as this API server takes them."""
        path, offset = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", self.plane.audit_log.stat().st_size
        begun, writes = time(), dict[str, float]()
        scale = {"spec": {"replicas": REPLICAS + 1}}
        await self.each(lambda name: self.client.patch(f"{path}/{name}/scale", scale), at_once=AT_ONCE)

        def all_written() -> bool:
            nonlocal offset
            offset = self._take(offset, "admin", begun, writes)
            return len(writes) == len(self.names)

        await wait_until(all_written, every=0.5, what="every write is in the audit log")
        return sorted(writes.values())

    def _take(self, offset: int, user: str, at: float, writes: dict[str, float]) -> int:
        """Read what has come to the audit log since the offset; gives the next."""
        with self.plane.audit_log.open("rb") as log:
            log.seek(offset)
            whole = log.read().rpartition(b"\n")[0]
        for line in whole.splitlines():
            if b'"subresource":"scale"' not in line:
                continue
            entry = json.loads(line)
            received = datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()
            if entry["user"]["username"] == user and entry["responseStatus"]["code"] == 200 and received >= at:
                writes.setdefault(entry["objectRef"]["name"], received - at)
        return offset + len(whole) + bool(whole)

    @asynccontextmanager
    async def hpa(self) -> AsyncIterator[tuple[str, int]]:
        """The HPA controller governs; its user and process. Its passes are spread over its 15 s."""
        fast, self.plane.extra = self.plane.extra, AS_SHIPPED
        await self.plane.restart_controllers(HpaTiming())
        path = f"/apis/{self.autoscaling}/namespaces/{NAMESPACE}/horizontalpodautoscalers"
        await self.each(lambda name: self.client.create(path, autoscaler(name)), seconds=15)

        async def all_read() -> bool:
            await asyncio.sleep(1)
            found = await self.client.list(path)
            return all((one.get("status") or {}).get("currentMetrics") for one in found)

        await wait_until(all_read, within=300, what="every HorizontalPodAutoscaler has read its metrics")
        try:
            yield CONTROLLER_MANAGER, self.plane.program("kube-controller-manager").pid
        finally:
            await self.each(lambda name: self.client.delete(f"{path}/{name}"))
            self.plane.extra = fast
            await self.plane.restart_controllers(HpaTiming())

    @asynccontextmanager
    async def elasticd(self) -> AsyncIterator[tuple[str, int]]:
        """The daemon governs; its user and process."""
        self.rounds += 1
        folder = self.folder / f"elasticd-{self.rounds}"
        folder.mkdir()
        async with running(folder, self.plane.kubeconfig(), "default", {"surge": POLICY}, options=()) as daemon:

            async def settled() -> bool:
                await asyncio.sleep(1)
                sources = json.loads((await daemon.page("/sources"))[1])
                decisions = (await daemon.status())["decisions"]
                return len(decisions) == len(self.names) and sources[0]["resolution"] is not None

            await wait_until(settled, within=300, what="every workload is looked at and the source's pace is known")
            # For as long as its slowest pace, so that no look is from before the pace was known.
            await asyncio.sleep(30)
            yield "admin", daemon.program.pid


@asynccontextmanager
async def lab(folder: Path, size: int) -> AsyncIterator[Lab]:
    """The genuine parts, and so many Deployments."""
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(ControlPlane(folder / "plane", hpa=HpaTiming()))
        client = await stack.enter_async_context(plane.client())
        nodes = [NodeSpec(f"node-{number}", cpu="256", memory="1Ti", pods=1000) for number in range(ceil(size / 100))]
        hollow = HollowNodes(client, nodes, startup=lambda _: 0, shutdown=lambda _: 0)
        await stack.enter_async_context(hollow)
        certificate = pki.make_server_certificate(plane.folder, "metrics", plane.authority)
        metrics = SurgeApi(client, certificate, groups=(RESOURCE,), measured=Measurements(1.0, WINDOW))
        metrics.loads = Loads()
        metrics.loads.pods = PodsByApp()
        await stack.enter_async_context(metrics)
        await client.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        groups = await client.get("/apis/autoscaling")
        served = [version["groupVersion"] for version in (groups or {}).get("versions", ())]
        autoscaling = next(one for one in ("autoscaling/v2", "autoscaling/v2beta2") if one in served)
        made = Lab(folder, plane, client, metrics, [f"web-{number:04d}" for number in range(size)], autoscaling)
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
        await made.each(lambda name: client.create(path, deployment(name)))
        yield made


def report(who: str, resolution: float, size: int, latencies: Sequence[float], used: float) -> None:
    """Print one line."""
    part = [latencies[min(len(latencies) - 1, int(len(latencies) * share))] for share in (0.5, 0.99)]
    metrics = f", metrics every {resolution:g} s" if resolution else ""
    print(
        f"{size} Deployments{metrics}, {who}: median {part[0]:.2f} s, 99th percentile "
        f"{part[1]:.2f} s, longest {latencies[-1]:.2f} s; {used:.1f} s of CPU",
        flush=True,
    )


async def run(size: int) -> None:
    """Both in turn, some times over."""
    with tempfile.TemporaryDirectory() as name:
        async with lab(Path(name), size) as made:
            print(f"Kubernetes {made.plane.version[0]}.{made.plane.version[1]}", flush=True)
            for turn in range(ROUNDS):
                await made.calm()
                begun = cpu(os.getpid())
                latencies = await made.write_alone()
                report(f"nothing but the writes, round {turn + 1}", 0, size, latencies, cpu(os.getpid()) - begun)
            for resolution in RESOLUTIONS:
                made.metrics.measured.resolution = resolution
                for turn in range(ROUNDS):
                    for who, govern in (("HPA controller", made.hpa), ("elasticd", made.elasticd)):
                        await made.calm()
                        async with govern() as (user, pid):
                            latencies, used = await made.surge(user, pid)
                        report(f"{who}, round {turn + 1}", resolution, size, latencies, used)


def main(arguments: Sequence[str]) -> None:
    """Print all figures."""
    print(machine())
    for size in map(int, arguments) if arguments else SIZES:
        asyncio.run(run(size))


if __name__ == "__main__":
    main(sys.argv[1:])
