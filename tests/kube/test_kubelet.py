"""The sources kubelet and node-rates through the genuine API server's node proxy, and what goes wrong with a node."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import pytest_asyncio

from elasticd.base.clock import WallClock
from elasticd.cluster.kubernetes import Kubernetes, KubernetesCluster
from elasticd.decision.quality import grade
from elasticd.model.workload import Quality, Readings, Ref, Sample
from elasticd.ports.cluster import Snapshot
from elasticd.sources.kubelet import Kubelet as KubeletSource
from elasticd.sources.node_rates import NodeRates
from elasticd.testing import site
from tests.kube import pki
from tests.kube.client import JSON, wait_until
from tests.kube.conftest import Kube
from tests.kube.hollow import HollowNodes
from tests.kube.kubelet import Kubelet
from tests.kube.rights import FOLDER, granted_from, shipped_rights
from tests.kube.test_cluster import ALONE, DEPLOYMENT, manifest, opened

pytestmark = pytest.mark.until("1.20", "since 1.21 the API server's proxy reaches no kubelet on a loopback address")
NODES = ("kubelet-a", "kubelet-b")
SOURCE = KubeletSource(timeout=2.0)
# So that no other test's pods come to these nodes.
ONLY_HERE = {"key": "kubelet", "effect": "NoSchedule"}


@dataclass
class Scene:
    """A Deployment of four pods on two nodes that have kubelets."""

    kube: Kube
    namespace: str
    cluster: KubernetesCluster
    snapshot: Snapshot
    kubelets: dict[str, Kubelet]
    clock: WallClock = field(default_factory=WallClock)
    source: KubeletSource = SOURCE

    @property
    def ref(self) -> Ref:
        """The Deployment."""
        return Ref(self.namespace, "Deployment", "web")

    def site(self, cluster: KubernetesCluster | None = None) -> Any:
        """What a source finds."""
        return site(cluster or self.cluster, self.clock, governed=[self.ref], snapshot=self.snapshot)

    async def read(self) -> Readings:
        """One reading by a source that was just opened."""
        async with self.source.open(self.site()) as reader:
            return await reader.read(self.clock.now())

    def quality(self, readings: Readings, max_age: float = 30.0) -> Quality:
        """What the series cpu is worth to judgement."""
        keys = [f"{self.namespace}/{name}" for one in self.kubelets.values() for _, name in one.pods]
        samples: list[Sample] = [one for key in keys for one in readings.pods.get("cpu", {}).get(key, ())]
        names = {key.partition("/")[2] for key in keys}
        return grade("cpu", "kubelet", samples, self.clock.now(), max_age, names).quality


@pytest_asyncio.fixture(loop_scope="session")
async def scene(kube: Kube, namespace: str) -> AsyncIterator[Scene]:
    """It."""
    certificate = pki.make_server_certificate(kube.plane.folder, "kubelet", kube.plane.authority)
    async with AsyncExitStack() as stack:
        kubelets = {name: await stack.enter_async_context(Kubelet(name, certificate)) for name in NODES}
        specs = [replace(one.spec, taints=[ONLY_HERE], labels={"kubelet": "yes"}) for one in kubelets.values()]
        nodes = await stack.enter_async_context(HollowNodes(kube.client, specs))
        cluster = await stack.enter_async_context(opened(kube, namespace))
        await kube.client.apply(spread_over_them(), namespace)
        ref = Ref(namespace, "Deployment", "web")
        snapshot = await cluster.observe(0.0, frozenset({DEPLOYMENT}))

        def placed() -> bool:
            workload = snapshot.workload(ref)
            pods = snapshot.pods(workload) if workload else ()
            for name, one in kubelets.items():
                one.pods = [(pod.namespace, pod.name) for pod in pods if pod.node == name]
            return sum(len(one.pods) for one in kubelets.values()) == 4 and all(one.pods for one in kubelets.values())

        await wait_until(placed, what="pods are on both nodes")
        yield Scene(kube, namespace, cluster, snapshot, kubelets)
        await nodes.remove(*NODES)


def spread_over_them() -> JSON:
    """A Deployment of two pods on each node."""
    found = manifest(DEPLOYMENT, replicas=4)
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    found["spec"]["template"]["spec"] |= {
        "nodeSelector": {"kubelet": "yes"},
        "tolerations": [{"operator": "Exists"}],
        "topologySpreadConstraints": [spread | {"labelSelector": {"matchLabels": {"app": "web"}}}],
    }
    return found


async def test_figures_of_pods_and_nodes_come_through_the_api_server(scene: Scene) -> None:
    readings = await scene.read()
    assert (readings.source, readings.error, readings.faults) == ("kubelet", "", {})
    cpu = readings.pods["cpu"]
    assert len(cpu) == len(readings.pods["memory"]) == 4
    assert {(one.value, one.container) for samples in cpu.values() for one in samples} == {(0.25, "main")}
    assert all(abs(one.measured - scene.clock.now()) < 5 for samples in cpu.values() for one in samples)
    assert scene.quality(readings) == Quality.FRESH
    assert set(readings.nodes) == set(scene.source.offers())
    assert {node: one.value for node, (one,) in readings.nodes["cpu"].items()} == dict.fromkeys(NODES, 0.5)
    assert set(readings.nodes["network_receive_bytes"]) == set(NODES)


async def test_a_hanging_node_delays_no_other_and_costs_its_pods(scene: Scene) -> None:
    held = scene.kubelets["kubelet-b"].held = asyncio.Event()
    time = asyncio.get_running_loop().time
    async with scene.source.open(scene.site()) as reader:

        async def read() -> tuple[Readings, float]:
            begun = time()
            return await reader.read(scene.clock.now()), time() - begun

        readings, seconds = await read()
        assert seconds < 1.5
        assert [(await read())[1] < 0.5 for _ in range(2)] == [True, True]  # it is waited for once
    assert (len(readings.pods["cpu"]), scene.quality(readings)) == (2, Quality.PARTIAL)
    assert "1 of 2 nodes did not answer: kubelet-b" in readings.faults["cpu"]
    held.set()
    scene.kubelets["kubelet-b"].held = None
    assert scene.quality(await scene.read()) == Quality.FRESH


async def test_a_missing_kubelet_is_reported_in_the_api_servers_words(scene: Scene) -> None:
    await scene.kubelets["kubelet-b"].__aexit__(None, None, None)
    readings = await scene.read()
    assert scene.quality(readings) == Quality.PARTIAL
    assert "connection refused" in readings.faults["cpu"]


def pods(change: Callable[[JSON], JSON]) -> Callable[[JSON], JSON]:
    """A twist of what is said of pods."""
    return lambda answer: {**answer, "pods": change(answer["pods"])}


def used(cores: Any) -> Callable[[JSON], JSON]:
    """A twist of what pods use."""

    def twist(found: JSON) -> JSON:
        for pod in found:
            pod["containers"][0]["cpu"]["usageNanoCores"] = cores
        return found

    return pods(twist)


@pytest.mark.parametrize(
    ("twist", "quality"),
    [
        pytest.param(pods(lambda found: []), Quality.PARTIAL, id="no pods"),
        pytest.param(pods(lambda found: found[:1]), Quality.PARTIAL, id="a pod is missing"),
        pytest.param(used(None), Quality.PARTIAL, id="no value yet"),
        pytest.param(used("250m"), Quality.PARTIAL, id="no number"),
        pytest.param(used(-1), Quality.PARTIAL, id="negative"),
        pytest.param(lambda answer: {**answer, "node": {"nodeName": "else"}}, Quality.PARTIAL, id="of another node"),
        pytest.param(lambda answer: "x" * 100, Quality.PARTIAL, id="no summary"),
    ],
)
async def test_answer_that_is_not_right_is_never_taken_for_zero(
    scene: Scene, twist: Callable[[JSON], JSON], quality: Quality
) -> None:
    scene.kubelets["kubelet-b"].twist = twist
    readings = await scene.read()
    assert scene.quality(readings) == quality
    assert all(one.value != 0 for samples in readings.pods["cpu"].values() for one in samples)


async def test_figures_that_are_frozen_grow_old(scene: Scene) -> None:
    for one in scene.kubelets.values():
        one.measured = scene.clock.now() - 600
    readings = await scene.read()
    assert (scene.quality(readings), readings.faults) == (Quality.STALE, {})


async def test_rates_are_of_what_went_over_the_network(scene: Scene) -> None:
    source, start = NodeRates(labels={"kubelet": "yes"}), scene.clock.now() - 100

    def count(name: str, seconds: float, received: int) -> None:
        scene.kubelets[name].measured, scene.kubelets[name].received = start + seconds, received

    async with source.open(scene.site()) as reader:
        found = []
        for seconds, first, second in ((0, 10_000, 500), (10, 30_000, 1500), (20, 40_000, 100), (30, 40_000, 300)):
            count("kubelet-a", seconds, first)
            count("kubelet-b", seconds, second)
            readings = await reader.read(scene.clock.now())
            assert (readings.error, readings.faults) == ("", {})
            found.append({node: one.value for node, (one,) in readings.nodes["network_receive"].items()})
    assert found == [{}, {"kubelet-a": 2000, "kubelet-b": 100}, {"kubelet-a": 1000}, {"kubelet-a": 0, "kubelet-b": 20}]


async def test_the_shipped_rights_file_grants_what_the_source_needs(scene: Scene) -> None:
    async with shipped_rights(scene.kube.plane, "elasticd", scene.namespace) as rights:
        table = Kubernetes(kubeconfig=str(rights.kubeconfig), lease=ALONE)
        async with table.open(scene.clock) as cluster:
            scene.cluster = cluster
            assert "403 Forbidden" in (await scene.read()).error
            async with granted_from(
                scene.kube.plane, FOLDER / "components/kubelet/rbac.yaml", "elasticd", scene.namespace
            ):

                async def allowed() -> bool:
                    return scene.quality(await scene.read()) == Quality.FRESH

                await wait_until(allowed, what="the rights are in force")
