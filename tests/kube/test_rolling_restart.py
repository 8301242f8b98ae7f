"""Three API servers on one etcd, behind a load balancer, are restarted in turn while pods leave a node and a workload
follows its load: what the daemon does is done once, and nothing is lost."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_asyncio

from elasticd.journal import read
from elasticd.model.records import Outcome
from tests.faults import oracle
from tests.kube import pki
from tests.kube.between import kubeconfig_by
from tests.kube.client import TROUBLE, Client, wait_until
from tests.kube.conftest import Kube
from tests.kube.control_plane import ApiServer, ControlPlane, NoControlPlane
from tests.kube.hollow import HollowNodes
from tests.kube.metrics_api import MetricsApi
from tests.kube.moving import DISRUPTION, POLICY, QUEUE, USER, Stage, granted, stage
from tests.kube.relay import Relay
from tests.kube.running import Running, running

SCALER = """
mode = "act"
interval = 1
jitter = 0
workload = {{ namespace = "{namespace}", name = "web" }}
replicas = {{ min = 1, max = 9 }}
[[strategy]]
type = "hpa"
metrics = [{{ type = "External", series = "queue_length", average_value = 10 }}]
behavior = {{ scale_down = {{ stabilization_window = 0 }} }}
"""
SOURCES = ("components/sources/rbac.yaml",)
HOSTNAME = "kubernetes.io/hostname"
BATCH = 2
FIRST, *COUNTS = 2, 5, 3, 6
"""What the load asks for: at first, and from each restart on."""
CONVERGED = 3 + 30
"""Seconds: three intervals, and the longest pause after failures."""


@pytest_asyncio.fixture(loop_scope="session")
async def scene(tmp_path: Path) -> AsyncIterator[Stage]:
    """A pool of three nodes, on a control plane without the scheduler: where a pod is gone and made again on another
    node while that has no watch, it takes both for one, and ends."""
    try:
        async with ControlPlane(tmp_path / "kube", scheduler=False) as plane, plane.client() as client:
            certificate = pki.make_server_certificate(plane.folder, "metrics", plane.authority)
            async with HollowNodes(client) as nodes, MetricsApi(client, certificate) as metrics:
                kube = Kube(plane, client, nodes, metrics)
                async with stage(kube, tmp_path, "abc") as made, granted(kube, made.namespace, SOURCES):
                    yield made
    except NoControlPlane as missing:
        pytest.skip(str(missing))


@asynccontextmanager
async def three_servers(scene: Stage) -> AsyncIterator[tuple[Relay, Sequence[ApiServer]]]:
    """Three API servers, and the load balancer before them."""
    plane = scene.kube.plane
    async with plane.further_apiservers(2) as further:
        servers = [plane.apiserver, *further]
        async with Relay(*(one.port for one in servers)) as relay:
            yield relay, servers


@asynccontextmanager
async def daemon_behind(relay: Relay, scene: Stage) -> AsyncIterator[Running]:
    """A daemon that reaches the API servers by way of the load balancer alone."""
    config = kubeconfig_by(scene.kube.plane, relay.url, USER, scene.folder)
    policies = {name: text.format(namespace=scene.namespace) for name, text in (("pool", POLICY), ("web", SCALER))}
    folder, cluster = scene.folder / "one", "request_timeout = 2"
    async with running(
        folder, config, scene.namespace, policies, QUEUE, cluster=cluster, disruption=DISRUPTION
    ) as daemon:
        await wait_until(daemon.leads, what="it leads")
        yield daemon


async def restarted(relay: Relay, server: ApiServer) -> None:
    """End an API server, and its connections in the middle of what is asked by them, and start it again."""
    assert relay.cut(server.port), "the daemon has connections to it"
    await server.program.stop()
    await server.start()


@asynccontextmanager
async def never_lost(scene: Stage, relay: Relay, names: Sequence[str]) -> AsyncIterator[None]:
    """At every look there is each pod, or what it is made again from."""
    plane = scene.kube.plane
    async with Client(relay.url, plane.token("admin"), plane.authority.certificate) as client:
        looking = asyncio.create_task(_look(client, scene, names))
        try:
            yield
            assert not looking.done() or looking.result()
        finally:
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking


async def _look(client: Client, scene: Stage, names: Sequence[str]) -> bool:
    configs = f"/api/v1/namespaces/{scene.namespace}/configmaps"
    missing: Iterable[str] = ()
    while True:
        with contextlib.suppress(*TROUBLE):
            pods = [pod["metadata"]["name"] for pod in await client.list(scene.pods)]
            records = await client.list(configs, labelSelector="elasticd.io/restore")
            recorded = [json.loads(record["data"]["pod"])["metadata"]["name"] for record in records]
            before, missing = missing, oracle.lost(names, pods, recorded)
            # Between the two reads it may have been made, and its record removed.
            assert not (before and missing), missing
        await asyncio.sleep(0.05)


async def crowd(scene: Stage, node: str) -> list[str]:
    """Pods without a controller that run on a node and may leave it; gives their names."""
    await scene.cordon(*({*scene.nodes} - {node}))
    where = {"matchExpressions": [{"key": HOSTNAME, "operator": "NotIn", "values": [scene.nodes[2]]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [where]}}
    names = [scene.name("batch") for _ in range(BATCH)]
    for name in names:
        await scene.create(name, affinity={"nodeAffinity": required})
    for name in names:
        assert (await scene.runs(name))["spec"]["nodeName"] == node
    return names


async def have_left(scene: Stage, node: str) -> bool:
    """Whether all of them run elsewhere, and nothing is written down of them any more."""
    pods = await scene.kube.client.list(scene.pods, labelSelector="tier=batch")
    there = [pod for pod in pods if pod["status"].get("phase") == "Running" and pod["spec"]["nodeName"] != node]
    return len(pods) == len(there) == BATCH and not await scene.records()


async def is_scaled(scene: Stage, count: int) -> bool:
    """Whether the Deployment has so many pods, and all are ready."""
    web = await scene.kube.client.get(f"{scene.deployments}/web")
    return bool(web["spec"]["replicas"] == web["status"].get("readyReplicas") == count)


def set_load(scene: Stage, count: int) -> None:
    """Let the Deployment need so many."""
    scene.kube.metrics.external[scene.namespace, "videos"] = 10 * count


async def test_three_api_servers_restarted_in_turn_lose_and_repeat_nothing(scene: Stage) -> None:
    """At each restart two pods leave a node, and the load changes."""
    set_load(scene, FIRST)
    moved: list[str] = []
    async with three_servers(scene) as (relay, servers), daemon_behind(relay, scene) as daemon:
        await scene.deploy("web", FIRST, nodeSelector={HOSTNAME: scene.nodes[2]})
        await wait_until(lambda: is_scaled(scene, FIRST), what="it is as at first")
        for server, count in zip(servers, COUNTS, strict=True):
            names = await crowd(scene, scene.nodes[0])
            async with never_lost(scene, relay, names):
                set_load(scene, count)
                await scene.cordon(scene.nodes[0])
                await restarted(relay, server)
                async with asyncio.timeout(CONVERGED):
                    await wait_until(lambda: have_left(scene, scene.nodes[0]), what="the pods have left")
                    await wait_until(lambda: is_scaled(scene, count), what="the count is right")  # noqa: B023
            for name in names:
                await scene.kube.client.delete(f"{scene.pods}/{name}", grace=0)
            moved += names
        web = await scene.kube.client.get(f"{scene.deployments}/web")
    outcomes = [one for one in read(daemon.folder / "state") if isinstance(one, Outcome) and one.result == "done"]
    assert [(one.before, one.after) for one in outcomes] == [*pairwise((FIRST, *COUNTS))]
    patches = scene.written("deployments", "scale", "patch")
    assert len(patches) == web["metadata"]["generation"] - 1 == len(COUNTS), "none was written twice"
    assert Counter(scene.written("pods", "eviction")) == Counter(scene.written("pods")) == dict.fromkeys(moved, 1)
    bound = Counter(scene.written("pods", "binding"))
    assert {name: bound[name] for name in moved} == dict.fromkeys(moved, 2), "at first, and after the move"
