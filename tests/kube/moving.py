"""A pool of a few nodes, and daemons as processes that move pods between them, each with a proxy of its own.

Knows how daemons are started, killed and told what to do, and what must be true of a pod in the end; knows nothing of
where they are cut in on.
"""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.kube.between import RESTORED, Between, Moment
from tests.kube.client import JSON, ApiError, wait_until
from tests.kube.conftest import Kube
from tests.kube.reports import NodeSpec
from tests.kube.rights import FOLDER, granted_from, shipped_rights
from tests.kube.running import Running, running

USER = "elasticd"
TAINT = {"key": "moving", "value": "tests", "effect": "NoSchedule"}
RIGHTS = (
    "components/placing/rbac.yaml",
    "components/restore/rbac.yaml",
    "components/scale-to-zero/rbac.yaml",
    "components/victims/rbac.yaml",
)
OURS = (RESTORED, "elasticd.io/resumed")
POLICY = """
mode = "act"
interval = 0.2
[pool]
namespaces = ["{namespace}"]
nodes = {{ pool = "{namespace}" }}
[moves]
every = 1
min_age = 0
surge = true
[[strategy]]
type = "filters"
[[strategy]]
type = "least-requested"
[[strategy]]
type = "leave"
"""
USED = """
[[source]]
type = "resource-metrics"
"""
"""The source that there is where none is named."""
QUEUE = """
[[source]]
type = "external-metrics"
every = 0.2
series = [{ name = "queue_length", metric = "videos" }]
"""
"""A source of how many messages wait."""
USAGE = """
[[source]]
type = "usage-histogram"
each = 1
enough = 0.001
file = "learnt/usage.json"
save = 1
"""
"""A source of what pods should request."""
# So many moves in so short a time are none that a cluster should see.
DISRUPTION = "within = 1\nper_node = 1000\nper_namespace = 1000\ntotal = 1000\nper_controller = 1000\n"
# Lets a process find the plugin `leave`, as it finds that of any third party.
METADATA = {
    "METADATA": "Metadata-Version: 2.1\nName: elasticd-leave\nVersion: 1\n",
    "entry_points.txt": "[elasticd]\nleave = tests.kube.leaving\n",
}


Cut = tuple[str, Moment, int]
"""A step as the proxy counts it: its name, the moment, and which of that name."""


class Row(NamedTuple):
    """What came of one run."""

    what: str
    step: str
    run: str
    copies: int
    evictions: int
    seconds: float


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """Processes that are started meanwhile find the plugin `leave`."""
    info = folder / "elasticd_leave-1.dist-info"
    info.mkdir()
    for name, text in METADATA.items():
        (info / name).write_text(text)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), str(Path.cwd()), before)))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


class Daemon(NamedTuple):
    """A process and its way to the API server."""

    running: Running
    proxy: Between

    async def kill(self) -> None:
        """As a crash would."""
        await self.running.program.kill()

    async def end(self) -> None:
        """As systemd and kubelets end it: by SIGTERM, and in time."""
        program = self.running.program
        program.signal(signal.SIGTERM)
        await wait_until(lambda: program.code is not None, within=25, what="it ends by itself")

    async def stop(self) -> None:
        """As a machine that stands still does."""
        self.running.program.signal(signal.SIGSTOP)

    def wake(self) -> None:
        """It goes on."""
        self.running.program.signal(signal.SIGCONT)

    async def part(self) -> None:
        """As where its network fails: it goes on, and reaches nobody."""
        await self.proxy.part()

    def join(self) -> None:
        """Its network is whole again."""
        self.proxy.join()

    def start(self) -> None:
        """Again."""
        self.running.program.start()

    async def follows(self) -> bool:
        """Whether it is there and reads the cluster, and another leads."""
        ready, _ = await self.running.page("/readyz")
        code, text = await self.running.page("/status")
        return ready == code == 200 and not json.loads(text)["leading"]

    async def leads(self) -> bool:
        """Whether it says so."""
        code, text = await self.running.page("/status")
        return code == 200 and bool(json.loads(text)["leading"])


async def returned(victim: Daemon, pair: Sequence[Daemon], back: Callable[[], None]) -> None:
    """Let a leader that was away come back once another leads, and wait until it sees that."""
    (other,) = [daemon for daemon in pair if daemon is not victim]
    await wait_until(other.leads, what="the other leads")
    back()
    await wait_until(victim.follows, what="it is back, and sees that it does not lead")


class Stage:
    """The pool, its namespace and the daemons."""

    def __init__(self, kube: Kube, namespace: str, folder: Path, nodes: Sequence[str]) -> None:
        self.kube, self.namespace, self.folder, self.nodes = kube, namespace, folder, tuple(nodes)
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        self.rows: list[Row] = []
        self.patience = 2
        """Seconds that daemons wait for an answer of the API server."""
        self._count = 0

    def name(self, what: str) -> str:
        """One that no other run has."""
        self._count += 1
        return f"{what}-{self._count}"

    @asynccontextmanager
    async def daemon(
        self, name: str, sources: str = "", disruption: str = DISRUPTION, writes: str = "", **policies: str
    ) -> AsyncIterator[Daemon]:
        """A daemon that has read the cluster, with the last part of its name as identity. `sources` are tables of
        elasticd.toml, `disruption` is one, `writes` says in `[cluster]` how many there may be."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True, parents=True)
        found = {"pool": POLICY.format(namespace=self.namespace), **policies}
        async with Between(self.kube.plane) as proxy:
            config, cluster = proxy.kubeconfig(USER, folder), f"request_timeout = {self.patience}\n{writes}"
            async with running(
                folder, config, self.namespace, found, sources, cluster=cluster, disruption=disruption
            ) as started:
                yield Daemon(started, proxy)

    def spec(self, **more: Any) -> JSON:
        """A pod's, that waits for elasticd."""
        return {
            "schedulerName": "elasticd",
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"key": TAINT["key"], "operator": "Exists"}],
            **sized("100m"),
            **more,
        }

    async def read(self, path: str) -> JSON:
        """What the server says; None: there is none."""
        try:
            return await self.kube.client.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def deploy(self, name: str, replicas: int, **spec: Any) -> None:
        """A Deployment whose pods elasticd places, with this in their spec too."""
        template = {"metadata": {"labels": {"app": name}}, "spec": self.spec(**spec)}
        body = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        await self.kube.client.create(self.deployments, {"metadata": {"name": name}, "spec": body})

    async def create(self, name: str, **spec: Any) -> None:
        """A pod without a controller, with this in its spec too."""
        meta = {"name": name, "labels": {"app": name, "tier": "batch"}, "annotations": {"example.test/kept": "yes"}}
        body = {"metadata": meta, "spec": self.spec(restartPolicy="OnFailure", **spec)}
        await self.kube.client.create(self.pods, body)

    async def pod(self, name: str, **spec: Any) -> JSON:
        """The same, once it runs."""
        await self.create(name, **spec)
        return await self.runs(name)

    async def runs(self, name: str, not_uid: str = "") -> JSON:
        """Wait until a pod of this name runs, another than this one."""

        async def found() -> JSON:
            pod = await self.read(f"{self.pods}/{name}")
            there = pod and pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
            return pod if there and pod["metadata"]["uid"] != not_uid else None

        return await wait_until(found, within=90, what=f"{name} runs")

    async def leader(self, *daemons: Daemon) -> Daemon:
        """The one of them that leads."""

        async def found() -> list[Daemon]:
            return [one for one in daemons if await one.leads()]

        (one,) = await wait_until(found, what="one leads")
        return one

    async def killed(self, end: Callable[[], Awaitable[None]], victim: Daemon, at: Cut, node: str) -> float:
        """Cordon a node, and end the daemon so at this step of the move that follows; gives when that was."""
        victim.proxy.cut(*at[:2], end, at[2])
        await self.cordon(node)
        await wait_until(victim.proxy.fired.is_set, what=f"{at[0]} is reached")
        return time.monotonic()

    async def copies(self, app: str) -> list[JSON]:
        """All pods of an application."""
        return await self.kube.client.list(self.pods, labelSelector=f"app={app}")

    async def records(self) -> list[JSON]:
        """What is written down of pods to be recreated."""
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        return await self.kube.client.list(path, labelSelector="elasticd.io/restore")

    async def cordon(self, *nodes: str) -> None:
        """Cordon these, and no others."""
        for node in self.nodes:
            body = {"spec": {"unschedulable": True if node in nodes else None}}
            await self.kube.client.patch(f"/api/v1/nodes/{node}", body)

    def written(self, resource: str, subresource: str = "", verb: str = "create") -> list[str]:
        """The names of what the server wrote for a daemon, once for each time, by its own log."""
        return [
            entry["objectRef"]["name"]
            for entry in self.kube.plane.audit()
            if entry["user"]["username"] == USER
            and entry["verb"] == verb
            and entry.get("objectRef", {}).get("namespace") == self.namespace
            and entry["objectRef"]["resource"] == resource
            and entry["objectRef"].get("subresource", "") == subresource
            and entry["responseStatus"]["code"] < 300
            and "dryRun" not in entry["requestURI"]
        ]

    @asynccontextmanager
    async def never_lost(self, name: str) -> AsyncIterator[None]:
        """At every look there is the pod, or what it is recreated from."""

        async def look() -> None:
            while True:
                for _ in range(2):  # it may be created between the two reads
                    if await self.read(f"{self.pods}/{name}") or await self.records():
                        break
                else:
                    raise AssertionError(f"neither {name} nor a record of it is there")
                await asyncio.sleep(0.05)

        task = asyncio.create_task(look())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def note(self, what: str, step: str, run: str, copies: int, evictions: int, began: float) -> None:
        """A row of the table."""
        self.rows.append(Row(what, step, run, copies, evictions, time.monotonic() - began))


def sized(cores: object) -> JSON:
    """What in a pod's spec says that it requests so many cores."""
    container = {"name": "main", "image": "example.test/main:1", "resources": {"requests": {"cpu": str(cores)}}}
    return {"containers": [container]}


def table(rows: Sequence[Row]) -> str:
    """The rows as a table of Markdown."""
    lines = ["| move | step | run | copies | done | seconds |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {row.what} | {row.step} | {row.run} | {row.copies} | {row.evictions} | {row.seconds:.1f} |" for row in rows
    ]
    return "\n".join(lines)


@asynccontextmanager
async def stage(
    kube: Kube, folder: Path, names: str = "ab", cpu: str = "4", memory: str = "16Gi"
) -> AsyncIterator[Stage]:
    """A stage with no daemon yet, and a node of this size for each letter of `names`."""
    made = await kube.client.create("/api/v1/namespaces", {"metadata": {"generateName": "moves-"}})
    namespace = made["metadata"]["name"]
    nodes = [NodeSpec(f"{namespace}-{one}", cpu, memory, labels={"pool": namespace}, taints=[TAINT]) for one in names]
    async with (
        shipped_rights(kube.plane, USER, namespace),
        granted(kube, namespace, RIGHTS),
        kube.nodes.having(*nodes),
    ):
        with installed(folder):
            yield Stage(kube, namespace, folder, [one.name for one in nodes])
            await kube.client.request("DELETE", f"/apis/apps/v1/namespaces/{namespace}/deployments")
            for pod in await kube.client.list(f"/api/v1/namespaces/{namespace}/pods"):
                path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
                with contextlib.suppress(ApiError):
                    await kube.client.delete(path, grace=0)
    await kube.client.delete(f"/api/v1/namespaces/{namespace}")


@asynccontextmanager
async def granted(kube: Kube, namespace: str, files: Sequence[str]) -> AsyncIterator[None]:
    """The user has the rights of these files of config/kubernetes too."""
    if not files:
        yield
        return
    async with granted_from(kube.plane, FOLDER / files[0], USER, namespace), granted(kube, namespace, files[1:]):
        yield
