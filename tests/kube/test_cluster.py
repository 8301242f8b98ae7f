"""The daemon's client of a genuine control plane: it scales, conflicts, follows, hands over and measures."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.base.clock import WallClock
from elasticd.cluster.kubernetes import Kubernetes, KubernetesCluster, LeaseSettings
from elasticd.model.actions import Announce, Answer, Scale
from elasticd.model.workload import Ref, Workload
from elasticd.ports.cluster import Kind
from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.rights import shipped_rights

DEPLOYMENT: Kind = ("apps/v1", "Deployment")
STATEFUL_SET: Kind = ("apps/v1", "StatefulSet")
REPLICA_SET: Kind = ("apps/v1", "ReplicaSet")
GADGET: Kind = ("elasticd.example/v1", "Gadget")
PATHS = {
    DEPLOYMENT: "/apis/apps/v1/namespaces/{}/deployments",
    STATEFUL_SET: "/apis/apps/v1/namespaces/{}/statefulsets",
    REPLICA_SET: "/apis/apps/v1/namespaces/{}/replicasets",
    GADGET: "/apis/elasticd.example/v1/namespaces/{}/gadgets",
}
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.elasticd.example"},
    "spec": {
        "group": "elasticd.example",
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                "subresources": {
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    }
                },
            }
        ],
    },
}
ALONE = LeaseSettings(enabled=False)


def manifest(kind: Kind, name: str = "web", replicas: int = 2) -> dict[str, Any]:
    """A workload of the kind; a custom one says itself what it selects."""
    spec: dict[str, Any] = {"replicas": replicas}
    found: dict[str, Any] = {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": name}, "spec": spec}
    if kind == GADGET:
        return {**found, "status": {"replicas": replicas, "selector": f"app={name}"}}
    container = {"name": "main", "image": "example.test/main:1", "resources": {"requests": {"cpu": "50m"}}}
    labels = {"app": name}
    pod = {"containers": [container], "terminationGracePeriodSeconds": 0}
    spec |= {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    if kind == STATEFUL_SET:
        spec |= {"serviceName": name}
    return found


@asynccontextmanager
async def opened(kube: Kube, namespace: str, **options: Any) -> AsyncIterator[KubernetesCluster]:
    """The client under test, confined to the namespace of the test."""
    table = Kubernetes(
        kubeconfig=str(kube.plane.kubeconfig()), **{"namespaces": (namespace,), "lease": ALONE, **options}
    )
    async with table.open(WallClock()) as cluster:
        yield cluster


async def made(kube: Kube, cluster: KubernetesCluster, namespace: str, kind: Kind) -> Callable[[], Workload]:
    """Make a workload of the kind; gives what the client knows of it."""
    if kind == GADGET:
        await kube.client.apply(CRD)
        await wait_until(lambda: kube.client.get(PATHS[GADGET].format(namespace)))
        # Discovery tells of a new kind later than the server serves it.
        await wait_until(lambda: kube.client.path_of(manifest(kind), namespace))
    await kube.client.apply(manifest(kind), namespace)
    ref = Ref(namespace, kind[1], "web", kind[0])
    snapshot = await cluster.observe(0.0, frozenset({kind}))
    await wait_until(lambda: snapshot.workload(ref), what=f"{ref} is known")

    def known() -> Workload:
        workload = snapshot.workload(ref)
        assert workload is not None
        return workload

    return known


def scale_of(workload: Workload, after: int, **changes: Any) -> Scale:
    """Scale what is known."""
    action = Scale(workload.ref, workload.uid, workload.version, workload.replicas, after, "cpu above target")
    return replace(action, **changes)


async def replicas_of(kube: Kube, workload: Workload) -> int:
    """What the server says."""
    ref = workload.ref
    path = PATHS[ref.api_version, ref.kind].format(ref.namespace)
    return int((await kube.client.get(f"{path}/{ref.name}"))["spec"]["replicas"])


KINDS = pytest.mark.parametrize("kind", list(PATHS), ids=lambda kind: kind[1])


@KINDS
async def test_workload_is_scaled_and_told_in_an_event(kube: Kube, namespace: str, kind: Kind) -> None:
    async with opened(kube, namespace) as cluster:
        known = await made(kube, cluster, namespace, kind)
        assert known().selector == "app=web"
        assert await cluster.act(scale_of(known(), 4)) == Answer("done", 200)
        assert known().replicas == 4
        assert await replicas_of(kube, known()) == 4

        async def told() -> Any:
            events = await kube.client.list(f"/api/v1/namespaces/{namespace}/events")
            return [one for one in events if one["source"].get("component") == "elasticd"]

        (event,) = await wait_until(told)
        assert event["message"] == "New size: 4; reason: cpu above target"
        assert (event["reason"], event["involvedObject"]["uid"]) == ("SuccessfulRescale", known().uid)


@KINDS
async def test_workload_scales_to_zero_and_back(kube: Kube, namespace: str, kind: Kind) -> None:
    async with opened(kube, namespace) as cluster:
        known = await made(kube, cluster, namespace, kind)
        for after in (0, 3):
            assert (await cluster.act(scale_of(known(), after))).result == "done"
            assert await replicas_of(kube, known()) == after


@KINDS
async def test_a_scale_of_a_workload_changed_since_judgement_conflicts(kube: Kube, namespace: str, kind: Kind) -> None:
    async with opened(kube, namespace) as cluster:
        known = await made(kube, cluster, namespace, kind)
        judged = known()
        path = f"{PATHS[kind].format(namespace)}/web"
        await kube.client.patch(f"{path}/scale", {"spec": {"replicas": 7}})
        answer = await cluster.act(scale_of(judged, 4))
        assert answer == Answer("conflict", 409, "it has 7 replicas, not 2", "Conflict")
        assert await replicas_of(kube, judged) == 7


@KINDS
async def test_change_that_is_none_of_the_count_is_no_conflict(kube: Kube, namespace: str, kind: Kind) -> None:
    async with opened(kube, namespace) as cluster:
        known = await made(kube, cluster, namespace, kind)
        judged = known()
        await kube.client.patch(f"{PATHS[kind].format(namespace)}/web", {"metadata": {"labels": {"touched": "yes"}}})
        assert (await cluster.act(scale_of(judged, 4))).result == "done"
        assert await replicas_of(kube, judged) == 4


@KINDS
async def test_workload_recreated_under_its_name_is_another_one(kube: Kube, namespace: str, kind: Kind) -> None:
    async with opened(kube, namespace) as cluster:
        known = await made(kube, cluster, namespace, kind)
        judged = known()
        path = PATHS[kind].format(namespace)
        await kube.client.delete(f"{path}/web")

        async def gone() -> bool:
            return not await kube.client.list(path)

        await wait_until(gone)
        await kube.client.apply(manifest(kind), namespace)
        for version in (judged.version, ""):
            answer = await cluster.act(scale_of(judged, 4, version=version))
            code = 409 if version else 0
            assert answer == Answer("conflict", code, "it was deleted and recreated", "Conflict")
        assert await replicas_of(kube, judged) == 2


async def test_pods_are_followed_through_the_restart_of_the_api_server(kube: Kube, namespace: str) -> None:
    clock = WallClock()
    async with opened(kube, namespace) as cluster:
        known = await made(kube, cluster, namespace, DEPLOYMENT)
        snapshot = await cluster.observe(0.0, frozenset({DEPLOYMENT}))
        await wait_until(lambda: len([pod for pod in snapshot.pods(known()) if pod.ready]) == 2)
        await kube.plane.stop_apiserver()
        stopped = clock.now()
        await wait_until(lambda: len(cluster.problems()) == 4, what="all four watches know")
        assert snapshot.confirmed <= stopped
        assert len(snapshot.pods(known())) == 2
        assert (await cluster.act(scale_of(known(), 4))).result == "failed"
        assert (await cluster.usage(clock.now())).error
        await kube.plane.start_apiserver()
        ref = known().ref
        await wait_until(lambda: snapshot.confirmed_for(ref) > stopped and not cluster.problems())
        await wait_until(lambda: cluster.act(scale_of(known(), 4)), what="it writes again")
        await wait_until(lambda: len([pod for pod in snapshot.pods(known()) if pod.ready]) == 4)


async def test_nodes_are_known_with_what_they_offer(kube: Kube, namespace: str) -> None:
    async with opened(kube, namespace) as cluster:
        snapshot = await cluster.observe(0.0, frozenset())
        nodes = {node.name: node for node in snapshot.nodes()}
        assert nodes["node-0"].ready
        assert nodes["node-0"].allocatable["cpu"] == 4.0


async def test_lease_is_handed_over_at_once_when_the_leader_leaves(kube: Kube, namespace: str) -> None:
    lease = LeaseSettings(namespace=namespace, retry=0.2)
    async with opened(kube, namespace, lease=lease, identity="two") as two:
        async with opened(kube, namespace, lease=lease, identity="one") as one:
            await wait_until(lambda: one.leading or two.leading)
            first, second = (one, two) if one.leading else (two, one)
            known = await made(kube, second, namespace, DEPLOYMENT)
            refused = Answer("refused", message="not the leader", reason="NotLeader")
            assert await second.act(scale_of(known(), 4)) == refused
            assert (first.leading, second.leading) == (True, False)
        # Whichever led, the one that is left does.
        await wait_until(lambda: two.leading, within=10)
        known = await made(kube, two, namespace, DEPLOYMENT)
        assert (await two.act(scale_of(known(), 4))).result == "done"
    spec = (await kube.client.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/elasticd"))["spec"]
    assert not spec.get("holderIdentity")


async def test_a_leader_that_is_cut_off_stops_before_another_leads(
    kube: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = LeaseSettings(namespace=namespace, duration=3, renew=2, retry=0.3)
    async with opened(kube, namespace, lease=lease, identity="one") as one:
        await wait_until(lambda: one.leading)
        async with opened(kube, namespace, lease=lease, identity="two") as two:
            elector = one._parts.elector
            assert elector is not None

            async def hang() -> None:
                await asyncio.Event().wait()

            monkeypatch.setattr(elector, "step", hang)
            both = []
            async with asyncio.timeout(20):
                while not two.leading:
                    both.append(one.leading and two.leading)
                    await asyncio.sleep(0.05)
            assert not any(both)
            assert not one.leading


async def test_usage_is_what_the_metrics_api_says(kube: Kube, namespace: str) -> None:
    clock = WallClock()
    kube.loads.set_load(namespace, "web", cpu=0.5, memory=2.0**28)
    async with opened(kube, namespace) as cluster:
        known = await made(kube, cluster, namespace, DEPLOYMENT)
        snapshot = await cluster.observe(0.0, frozenset({DEPLOYMENT}))
        await wait_until(lambda: len([pod for pod in snapshot.pods(known()) if pod.ready]) == 2)

        async def measured() -> bool:
            return len((await cluster.usage(clock.now())).pods.get("cpu", {})) == 2

        await wait_until(measured)
        readings = await cluster.usage(clock.now())
        keys = {f"{namespace}/{pod.name}" for pod in snapshot.pods(known())}
        assert set(readings.pods["cpu"]) == set(readings.pods["memory"]) == keys
        samples = [sample for one in readings.pods["cpu"].values() for sample in one]
        assert [sample.value for sample in samples] == [0.25, 0.25]
        assert all(abs(sample.measured - clock.now()) < 30 for sample in samples)
        assert all((sample.window, sample.container) == (30.0, "main") for sample in samples)
        nodes = await cluster.node_usage(clock.now())
        assert set(nodes.nodes["cpu"]) >= {"node-0", "node-1", "node-2"}
        kube.metrics.failure = 503
        try:
            assert "503" in (await cluster.usage(clock.now())).error
        finally:
            kube.metrics.failure = None


async def test_shipped_rights_are_all_that_it_takes(kube: Kube, namespace: str) -> None:
    async with shipped_rights(kube.plane, "elasticd", namespace) as rights:
        table = Kubernetes(kubeconfig=str(rights.kubeconfig), lease=LeaseSettings(namespace=namespace))
        async with table.open(WallClock()) as cluster:
            known = await made(kube, cluster, namespace, DEPLOYMENT)
            await wait_until(lambda: cluster.leading)
            assert await cluster.act(scale_of(known(), 4)) == Answer("done", 200)
            announced = Announce(known().ref, known().uid, "Hello", "there")
            results = [(await cluster.act(announced)).result for _ in range(2)]
            assert results == ["done", "done"]
            assert (await cluster.usage(0.0)).error == (await cluster.node_usage(0.0)).error == ""
            assert cluster.problems() == {}


async def test_user_without_rights_holds_and_says_why(kube: Kube, namespace: str) -> None:
    kubeconfig = str(kube.plane.kubeconfig("elasticd"))
    async with Kubernetes(kubeconfig=kubeconfig, namespaces=(namespace,), lease=ALONE).open(WallClock()) as cluster:
        snapshot = await cluster.observe(0.0, frozenset({DEPLOYMENT}))
        assert snapshot.confirmed == snapshot.confirmed_for(Ref(namespace, "Deployment", "web")) == 0.0
        assert 'User "elasticd" cannot list resource "pods"' in cluster.problems()["v1", "Pod"]
        action = Scale(Ref(namespace, "Deployment", "web"), "u", "1", 1, 2, "")
        answer = await cluster.act(action)
        assert (answer.code, answer.reason) == (403, "Forbidden")
