"""Pods are placed on a genuine API server, with no more rights than are shipped: bound once, evicted within budgets,
nominated, and recreated where nobody else would."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest_asyncio

from elasticd.api import Nodes, Victims, hookimpl
from elasticd.base.clock import WallClock
from elasticd.cluster.kubernetes import Kubernetes, KubernetesCluster, LeaseSettings
from elasticd.cluster.kubernetes.cluster import LiveSnapshot
from elasticd.cluster.kubernetes.credentials import Credentials
from elasticd.cluster.kubernetes.restore.records import Records, Restoration
from elasticd.cluster.kubernetes.session import Session
from elasticd.journal import Journal
from elasticd.model.actions import Answer, Bind, Evict, Nominate
from elasticd.model.placement import DisruptionBudget
from elasticd.model.policy import PoolPolicy, PoolSelect, Strategy
from elasticd.model.workload import Pod, Ref
from elasticd.runtime.pools.placer import Placer
from elasticd_plugins.filters import Filters
from elasticd_plugins.least_requested import LeastRequested
from tests.kube.client import JSON, ApiError, wait_until
from tests.kube.conftest import Kube
from tests.kube.reports import NodeSpec
from tests.kube.rights import FOLDER, granted_from, shipped_rights

USER = "elasticd"
TAINT = {"key": "placing", "value": "tests", "effect": "NoSchedule"}


class Lesser(Strategy, tag="lesser", frozen=True):
    """Lets all pods of lower priority go."""

    @hookimpl
    def select_victims(self, pod: Pod, node: int, nodes: Nodes) -> Victims | None:
        found = tuple(one for one in nodes.pods(node) if one.needs.priority < pod.needs.priority)
        return Victims(found, (float(len(found)),)) if found else None


class Scene:
    """A pool of two nodes, the daemon's client of the API server, and the namespace of its pods."""

    def __init__(self, kube: Kube, namespace: str, cluster: KubernetesCluster, snapshot: LiveSnapshot) -> None:
        self.kube, self.namespace, self.cluster, self.snapshot = kube, namespace, cluster, snapshot
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.nodes = (f"{namespace}-a", f"{namespace}-b")
        self.calls: Counter[tuple[str, str, int]] = Counter()

    async def create(self, name: str, cpu: str = "100m", **spec: Any) -> Ref:
        """A pod that waits for elasticd, unless it says otherwise."""
        container = {"name": "main", "image": "example.test/main:1", "resources": {"requests": {"cpu": cpu}}}
        tolerates = [{"key": TAINT["key"], "operator": "Exists"}]
        wanted = {"schedulerName": "elasticd", "containers": [container], "tolerations": tolerates, **spec}
        wanted.setdefault("terminationGracePeriodSeconds", 1)
        labels = {"app": name.partition("-")[0]}
        await self.kube.client.create(self.pods, {"metadata": {"name": name, "labels": labels}, "spec": wanted})
        await wait_until(lambda: self.known(name), what=f"{name} is seen")
        return Ref(self.namespace, "Pod", name, "v1")

    def known(self, name: str) -> Pod | None:
        """What the daemon knows of a pod."""
        return self.cluster.snapshot.pod_store.get(self.namespace, name)

    async def read(self, name: str) -> JSON:
        """What the server says of it; None: it has none."""
        try:
            return await self.kube.client.get(f"{self.pods}/{name}")
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def runs(self, name: str, node: str = "") -> JSON:
        """Wait until a pod runs, on this node."""

        async def running() -> JSON:
            pod = await self.read(name)
            there = pod and pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
            return pod if there and node in ("", pod["spec"]["nodeName"]) else None

        pod = await wait_until(running, what=f"{name} runs")
        await wait_until(lambda: self._seen(name, pod["metadata"]["uid"]), what=f"{name} is seen to run")
        return pod

    def _seen(self, name: str, uid: str) -> bool:
        known = self.known(name)
        return known is not None and known.uid == uid and known.phase == "Running"

    async def bound(self, name: str, cpu: str = "100m", **spec: Any) -> Pod:
        """A pod that was put on the first node and runs there."""
        ref = await self.create(name, cpu, **spec)
        known = self.known(name)
        assert known is not None
        answer = await self.cluster.act(Bind(ref, known.uid, self.nodes[0]))
        assert answer == Answer("done", 201)
        await self.runs(name)
        known = self.known(name)
        assert known is not None
        return known

    @asynccontextmanager
    async def placing(self, *more: Strategy) -> AsyncIterator[None]:
        """A placer at work."""
        strategies = (Filters(), LeastRequested(), *more)
        select = PoolSelect(namespaces=(self.namespace,), nodes={"pool": self.namespace})
        policy = PoolPolicy(name="pool", pool=select, strategies=strategies, mode="act", interval=0.2)
        placer = Placer(self.cluster, lambda now: self.cluster.observe(now, frozenset()), Journal(), WallClock())
        placer.apply([policy])
        task = asyncio.create_task(placer.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await placer.actions.drain(5.0)

    def writes(self, subresource: str, code: int = 201) -> list[str]:
        """The pods of which the server wrote a subresource for the daemon, by its own log."""
        return [
            entry["objectRef"]["name"]
            for entry in self.kube.plane.audit()
            if entry["user"]["username"] == USER
            and entry.get("objectRef", {}).get("namespace") == self.namespace
            and entry["objectRef"].get("subresource", "") == subresource
            and entry["objectRef"]["resource"] == "pods"
            and entry["responseStatus"]["code"] == code
        ]

    async def events(self, reason: str) -> list[str]:
        """What was told for this reason."""
        path = f"/api/v1/namespaces/{self.namespace}/events"
        found = await self.kube.client.list(path, fieldSelector=f"reason={reason}")
        return [one["message"] for one in found]

    async def records(self) -> Sequence[JSON]:
        """What is written down of pods to be recreated."""
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        return await self.kube.client.list(path, labelSelector="elasticd.io/restore")


GIVEN = {
    ("create", "pods/binding"),
    ("create", "pods/eviction"),
    ("patch", "pods/status"),
    ("get", "pods"),
    ("create", "pods"),
    *((verb, "poddisruptionbudgets") for verb in ("list", "watch")),
    *((verb, "configmaps") for verb in ("get", "list", "create", "patch", "delete")),
    *((verb, "secrets") for verb in ("get", "create")),
}
RIGHTS = ("components/placing/rbac.yaml", "components/restore/rbac.yaml")


@asynccontextmanager
async def staged(kube: Kube, namespace: str, rights: Sequence[str] = RIGHTS) -> AsyncIterator[Scene]:
    """A scene, with the shipped rights and those of these files."""
    nodes = [NodeSpec(f"{namespace}-{one}", cpu="2", labels={"pool": namespace}, taints=[TAINT]) for one in "ab"]
    calls: Counter[tuple[str, str, int]] = Counter()
    lease = LeaseSettings(enabled=False, namespace=namespace)
    table = Kubernetes(kubeconfig=str(kube.plane.kubeconfig(USER)), lease=lease, writes_per_second=1000)

    def count(verb: str, resource: str, code: int, _: float) -> None:
        calls[verb, resource, code] += 1

    async with (
        shipped_rights(kube.plane, USER, namespace),
        _granted(kube, namespace, list(rights)),
        kube.nodes.having(*nodes),
        table.open(WallClock(), count) as cluster,
    ):
        scene = Scene(kube, namespace, cluster, await cluster.observe(0.0, frozenset()))
        scene.calls = calls
        await wait_until(lambda: {one.name for one in scene.snapshot.nodes() if one.ready} >= {*scene.nodes})
        try:
            yield scene
        finally:
            for pod in await kube.client.list(scene.pods):
                await kube.client.delete(f"{scene.pods}/{pod['metadata']['name']}", grace=0)


@asynccontextmanager
async def _granted(kube: Kube, namespace: str, files: list[str]) -> AsyncIterator[None]:
    if not files:
        yield
        return
    async with granted_from(kube.plane, FOLDER / files[0], USER, namespace), _granted(kube, namespace, files[1:]):
        yield


@pytest_asyncio.fixture(loop_scope="session")
async def scene(kube: Kube, namespace: str) -> AsyncIterator[Scene]:
    async with staged(kube, namespace) as made:
        yield made
        forbidden = [call for call in made.calls if call[2] in (401, 403)]
        assert forbidden == [], "the shipped rights are enough"


async def test_pending_pods_are_each_bound_once_where_there_is_room(scene: Scene) -> None:
    async with scene.placing():
        names = [f"web-{number}" for number in range(6)]
        await asyncio.gather(*(scene.create(name, "500m") for name in names))
        pods = await asyncio.gather(*(scene.runs(name) for name in names))
    assert Counter(pod["spec"]["nodeName"] for pod in pods) == dict.fromkeys(scene.nodes, 3)
    assert sorted(scene.writes("binding")) == names
    on = scene.snapshot.on_nodes()
    assert [len(on[node]) for node in scene.nodes] == [3, 3]


async def test_a_waiting_pod_takes_the_room_of_a_deleted_pod(scene: Scene) -> None:
    async with scene.placing():
        await asyncio.gather(*(scene.create(f"web-{number}", "2") for number in range(2)))
        await asyncio.gather(*(scene.runs(f"web-{number}") for number in range(2)))
        await scene.create("late", "2")
        await wait_until(lambda: scene.events("FailedScheduling"), what="an Event about the pod that waits")
        await scene.kube.client.delete(f"{scene.pods}/web-0")
        await scene.runs("late")


async def test_a_binding_that_loses_a_race_conflicts_and_assumes_nothing(scene: Scene) -> None:
    ref = await scene.create("web")
    known = scene.known("web")
    assert known is not None
    target = {"apiVersion": "v1", "kind": "Node", "name": scene.nodes[1]}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": target}
    await scene.kube.client.create(f"{scene.pods}/web/binding", binding)
    answer = await scene.cluster.act(Bind(ref, known.uid, scene.nodes[0]))
    # 409 where the API server says it, 0 where the watch told it before: either way nothing was bound twice.
    assert (answer.result, answer.reason) == ("conflict", "Conflict")
    await scene.runs("web", scene.nodes[1])
    assert scene.known("web").node == scene.nodes[1]  # type: ignore[union-attr]


async def test_a_different_pod_of_the_same_name_is_left_alone(scene: Scene) -> None:
    ref = await scene.create("web")
    gone = "00000000-0000-0000-0000-000000000000"
    for action in (Bind(ref, gone, scene.nodes[0]), Nominate(ref, gone, scene.nodes[0])):
        answer = await scene.cluster.act(action)
        assert (answer.result, answer.reason) == ("conflict", "NotFound"), answer
    pod = await scene.read("web")
    assert ("nodeName" in pod["spec"], "nominatedNodeName" in pod["status"]) == (False, False)
    running = await scene.bound("api")
    answer = await scene.cluster.act(Evict(running.ref, gone, running.node))
    assert (answer.result, answer.reason) == ("conflict", "NotFound"), answer
    assert "deletionTimestamp" not in (await scene.read("api"))["metadata"]


async def test_a_node_failed_or_cordoned_after_planning_gets_no_pod(scene: Scene) -> None:
    ref = await scene.create("web")
    known = scene.known("web")
    assert known is not None
    bad, good = scene.nodes
    await scene.kube.client.patch(f"/api/v1/nodes/{bad}", {"spec": {"unschedulable": True}})
    await wait_until(lambda: any(one.unschedulable for one in scene.snapshot.nodes()))
    assert await scene.cluster.act(Bind(ref, known.uid, bad)) == Answer("conflict", 0, f"{bad} is cordoned", "Conflict")
    await scene.kube.client.patch(f"/api/v1/nodes/{bad}", {"spec": {"unschedulable": None}})
    await scene.kube.nodes.set_ready(bad, ready=False)
    await wait_until(lambda: any(one.name == bad and not one.ready for one in scene.snapshot.nodes()))
    answer = await scene.cluster.act(Bind(ref, known.uid, bad))
    assert answer == Answer("conflict", 0, f"{bad} is not ready", "Conflict")
    async with scene.placing():
        await scene.runs("web", good)
    await scene.kube.nodes.set_ready(bad, ready=True)


async def test_an_eviction_keeps_disruption_budgets_and_says_so(scene: Scene) -> None:
    pod = await scene.bound("web")
    action = Evict(pod.ref, pod.uid, pod.node, "is preempted for shop/x")
    for name in ("first", "second"):
        await budget(scene, name, {"app": "web"})

    def known() -> list[DisruptionBudget]:
        """Those of this namespace alone: one of a namespace that is being deleted may be there for long."""
        found = [one for one in scene.snapshot.budgets() or () if one.namespace == scene.namespace]
        return found if len(found) == 2 else []

    found = await wait_until(known, what="both budgets are known")
    assert [(one.name, one.pods, one.allowed) for one in found] == [
        ("first", frozenset({pod.uid}), 0),
        ("second", frozenset({pod.uid}), 0),
    ]
    answer = await scene.cluster.act(action)
    assert (answer.result, answer.reason) == ("refused", "Budgets"), answer
    await scene.kube.client.delete(await scene.kube.client.path_of(pdb("second"), scene.namespace))
    answer = await scene.cluster.act(action)
    assert (answer.result, answer.code, answer.reason) == ("refused", 429, "Budget"), answer
    assert "deletionTimestamp" not in (await scene.read("web"))["metadata"]
    await scene.kube.client.delete(await scene.kube.client.path_of(pdb("first"), scene.namespace))
    assert (await scene.cluster.act(action)).result == "done"
    assert scene.known("web") is None or scene.known("web").deleted  # type: ignore[union-attr]
    await wait_until(lambda: scene.known("web") is None, what="the pod has left")
    assert (await scene.cluster.act(action)) == Answer("done", 404, "it was gone already", "NotFound")
    await wait_until(lambda: scene.events("Preempted"), what="an Event about the eviction")
    assert scene.writes("", code=200) == [], "no pod was deleted"


def pdb(name: str, labels: dict[str, str] | None = None) -> JSON:
    """A budget that lets no pod go."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": labels or {}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}


async def budget(scene: Scene, name: str, labels: dict[str, str]) -> None:
    """Such a budget, once its controller has counted."""
    manifest = pdb(name, labels)
    await scene.kube.client.apply(manifest, scene.namespace)
    path = await scene.kube.client.path_of(manifest, scene.namespace)

    async def counted() -> bool:
        return bool((await scene.kube.client.get(path)).get("status", {}).get("currentHealthy"))

    await wait_until(counted, what=f"{name} is counted")


async def test_a_nominated_node_is_written_to_a_pod_and_cleared(scene: Scene) -> None:
    ref = await scene.create("web")
    known = scene.known("web")
    assert known is not None
    for node in (scene.nodes[0], ""):
        assert (await scene.cluster.act(Nominate(ref, known.uid, node))).result == "done"
        assert scene.known("web").nominated == node  # type: ignore[union-attr]
        assert (await scene.read("web"))["status"].get("nominatedNodeName", "") == node


async def test_a_bare_pod_returns_under_its_name_without_leftovers(
    scene: Scene,
) -> None:
    before = await scene.bound("batch", restartPolicy="OnFailure", nodeSelector={"pool": scene.namespace})
    first = await scene.read("batch")
    answer = await scene.cluster.act(
        Evict(before.ref, before.uid, before.node, "is preempted for shop/x", restore=True)
    )
    assert answer == Answer("done", 201)

    async def back() -> JSON:
        pod = await scene.read("batch")
        return pod if pod and pod["metadata"]["uid"] != before.uid else None

    again = await wait_until(back, what="it is recreated")
    assert again["metadata"]["annotations"]["elasticd.io/restored-from"] == before.uid
    assert again["metadata"]["labels"] == first["metadata"]["labels"]
    assert {key: value for key, value in first["spec"].items() if key != "nodeName"} == again["spec"]
    assert await scene.records() != [], "until it runs"
    async with scene.placing():
        await scene.runs("batch")
        await wait_until(lambda: _none(scene), what="its record is removed")
    assert scene.cluster.problems() == {}


async def _none(scene: Scene) -> bool:
    return not await scene.records()


async def test_a_record_left_by_a_daemon_is_resumed_by_another(kube: Kube, scene: Scene) -> None:
    """As after a kill between the eviction and the creation."""
    pod = await scene.bound("batch")
    found = await scene.read("batch")
    worked_out = ("nodeName", "priority", "preemptionPolicy")
    spec = {key: value for key, value in found["spec"].items() if key not in worked_out}
    noted = {"elasticd.io/restored-from": pod.uid, "elasticd.io/resumed": "1.0"}
    made = {"metadata": {"name": "batch", "namespace": scene.namespace, "annotations": noted}, "spec": spec}
    manifest = json.dumps({"apiVersion": "v1", "kind": "Pod", **made})
    async with Session(Credentials(str(kube.plane.kubeconfig(USER))), 10.0) as session:
        records = Records(session, scene.namespace, time.time)
        assert await records.claim(Restoration(pod.ref, pod.uid, manifest, "killed")) is not None
    await kube.client.delete(f"{scene.pods}/batch")
    scene.snapshot.pending()  # whoever places pods looks for what was left
    async with scene.placing():
        await wait_until(lambda: _none(scene), what="the record is done with")
    assert (await scene.read("batch"))["metadata"]["annotations"] == noted


async def test_without_the_create_right_a_bare_pod_is_not_evicted(kube: Kube, namespace: str) -> None:
    async with staged(kube, namespace, RIGHTS[:1]) as scene:
        pod = await scene.bound("batch")
        answer = await scene.cluster.act(Evict(pod.ref, pod.uid, pod.node, "is preempted for shop/x", restore=True))
        assert (answer.result, answer.code, answer.reason) == ("refused", 403, "NotRestorable"), answer
        assert "deletionTimestamp" not in (await scene.read("batch"))["metadata"]
        assert await scene.records() == []


async def test_without_the_placing_rights_the_missing_rights_are_reported(kube: Kube, namespace: str) -> None:
    async with staged(kube, namespace, ()) as scene:
        ref = await scene.create("web")
        known = scene.known("web")
        assert known is not None
        answer = await scene.cluster.act(Bind(ref, known.uid, scene.nodes[0]))
        assert (answer.result, answer.reason) == ("failed", "Forbidden")
        assert scene.snapshot.budgets() is None
        await wait_until(lambda: ("policy", "PodDisruptionBudget") in scene.cluster.problems())
        assert scene.snapshot.budgets() is None


async def test_a_pod_of_higher_priority_gets_room_and_victims_return(scene: Scene) -> None:
    client = scene.kube.client
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    high = f"high-{scene.namespace}"
    await client.create(classes, {"metadata": {"name": high}, "value": 1000})
    try:
        async with scene.placing(Lesser()):
            for name in ("low-0", "low-1"):
                await scene.create(name, "1500m", restartPolicy="OnFailure")
                await scene.runs(name)
            await scene.create("urgent", "1500m", priorityClassName=high)
            urgent = await scene.runs("urgent")
            gone = [name for name in ("low-0", "low-1") if await _waits(scene, name)]
            assert len(gone) == 1
            await wait_until(lambda: _anew(scene, gone[0]), what="it is recreated")
            await client.delete(f"{scene.pods}/urgent")
            await scene.runs(gone[0], urgent["spec"]["nodeName"])
            await wait_until(lambda: _none(scene), what="its record is removed")
        assert scene.writes("eviction") == gone
        assert {call[:2] for call in scene.calls} >= GIVEN, "every right that is given is one that is used"
    finally:
        await client.delete(f"{classes}/{high}")


def _anew(scene: Scene, name: str) -> bool:
    found = scene.known(name)
    return found is not None and "elasticd.io/resumed" in found.annotations


async def _waits(scene: Scene, name: str) -> bool:
    pod = await scene.read(name)
    return pod is None or not pod["spec"].get("nodeName")
