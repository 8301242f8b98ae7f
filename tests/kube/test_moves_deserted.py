"""The namespace, the owner or the controller of a pod is deleted while it is moved, on a genuine API server."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from elasticd.journal import read
from elasticd.model.disruption import Disruption
from elasticd.model.placement import PodOutcome
from tests.kube.client import JSON, wait_until
from tests.kube.conftest import Kube
from tests.kube.moving import POLICY, USER, Daemon, Stage, stage
from tests.kube.pools import stays_ready
from tests.kube.rights import FOLDER, granted_from

RESTORE = FOLDER / "components/restore/rbac.yaml"


async def test_a_later_namespace_gets_no_pod_of_an_earlier_one(kube: Kube, tmp_path: Path) -> None:
    """The daemon is killed between eviction and creation, and may create pods in both."""
    async with stage(kube, tmp_path) as scene:
        made = await kube.client.create("/api/v1/namespaces", {"metadata": {"generateName": "tenant-"}})
        tenant = made["metadata"]["name"]
        path, pods = f"/api/v1/namespaces/{tenant}", f"/api/v1/namespaces/{tenant}/pods"
        pool = POLICY.format(namespace=scene.namespace).replace(f'= ["{scene.namespace}"]', f'= ["{tenant}"]')

        async def node_of() -> str:
            pod = await scene.read(f"{pods}/old")
            return pod["spec"].get("nodeName", "") if pod["status"].get("phase") == "Running" else ""

        async def is_gone() -> bool:
            return await scene.read(path) is None

        async with scene.daemon("one", pool=pool) as one:
            async with granted_from(kube.plane, RESTORE, USER, tenant):
                await kube.client.create(pods, {"metadata": {"name": "old"}, "spec": scene.spec()})
                node = await wait_until(node_of, within=90, what="it runs")
                await scene.killed(one.kill, one, ("evict", "after", 1), node)
                await kube.client.delete(path)
                await wait_until(is_gone, within=90, what="the namespace is gone")
            await kube.client.create("/api/v1/namespaces", {"metadata": {"name": tenant}})
            async with granted_from(kube.plane, RESTORE, USER, tenant):
                (record,) = await scene.records()
                assert record["data"]["namespace"] == made["metadata"]["uid"]
                one.start()

                async def cleared() -> bool:
                    return not await scene.records()

                await wait_until(cleared, within=60, what="its record is removed")
                moves = json.loads(await asyncio.to_thread(one.running.elasticd, "moves", "--json"))["in_flight"]
                assert [(move["pod"]["name"], move["step"]) for move in moves] == [
                    ("old", "given up: its namespace was deleted")
                ]
                assert await kube.client.list(pods) == []
        log = (one.running.folder / "elasticd.log").read_text()
        assert log.count(f"{tenant}/Pod/old is not recreated: its namespace was deleted") == 1
        await kube.client.delete(path)


async def test_a_pod_whose_owner_goes_meanwhile_is_created_once(kube: Kube, tmp_path: Path) -> None:
    """The daemon is killed between eviction and creation; Kubernetes deletes whatever names only that owner."""
    async with stage(kube, tmp_path) as scene, scene.daemon("one") as one:
        owners = f"/api/v1/namespaces/{scene.namespace}/configmaps"
        owner = await kube.client.create(owners, {"metadata": {"name": "settings"}})
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings", "uid": owner["metadata"]["uid"]}
        meta = {"name": "owned", "labels": {"app": "owned"}, "ownerReferences": [reference]}
        await kube.client.create(scene.pods, {"metadata": meta, "spec": scene.spec()})
        pod = await scene.runs("owned")
        await scene.killed(one.kill, one, ("evict", "after", 1), pod["spec"]["nodeName"])
        await kube.client.delete(f"{owners}/settings")
        one.start()
        copy = await scene.runs("owned", not_uid=pod["metadata"]["uid"])
        assert copy["metadata"].get("ownerReferences", []) == []

        async def told() -> bool:
            events = await kube.client.list(f"/api/v1/namespaces/{scene.namespace}/events")
            return [event["reason"] for event in events if event["reason"] == "OwnerGone"] == ["OwnerGone"]

        await wait_until(told, what="an Event tells of it")
        assert scene.written("pods") == ["owned"]


KINDS = {
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "ReplicationController": "/api/v1/namespaces/{}/replicationcontrollers",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
}


async def run(scene: Stage, kind: str, *finalizers: str, count: int = 2) -> Callable[[], Awaitable[bool]]:
    """Create a controller of so many pods; returns whether all run."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": scene.spec()}
    spec: JSON = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
    if kind == "ReplicationController":
        spec["selector"] = labels
    elif kind == "StatefulSet":
        spec["serviceName"] = "web"
    elif kind == "Job":
        template["spec"]["restartPolicy"] = "OnFailure"
        spec = {"parallelism": count, "template": template}
    body = {"metadata": {"name": "web", "finalizers": finalizers}, "spec": spec}
    await scene.kube.client.create(KINDS[kind].format(scene.namespace), body)

    async def all_run() -> bool:
        pods = await scene.copies("web")
        return len(pods) == count and all(map(stays_ready, pods))

    return all_run


async def check_all_stay(scene: Stage, daemon: Daemon, before: set[str]) -> None:
    """Wait until a daemon has wanted to move pods twice; it moved none, as no controller would recreate them."""
    records = daemon.running.folder / "state"

    def tries() -> int:
        return sum(isinstance(each, Disruption) and each.undone for each in read(records))

    await wait_until(lambda: tries() > 1, what="it would move them, again and again")
    outcomes = [each for each in read(records) if isinstance(each, PodOutcome)]
    assert {each.reason for each in outcomes if each.result == "refused"} == {"NoController"}
    assert {pod["metadata"]["uid"] for pod in await scene.copies("web")} == before
    assert scene.written("pods", "eviction") == []


@pytest.mark.parametrize("kind", KINDS)
async def test_pods_stay_while_their_controller_is_being_deleted(kube: Kube, tmp_path: Path, kind: str) -> None:
    """A finalizer keeps it so; the pods would stay for good with `--cascade=orphan`."""
    async with stage(kube, tmp_path) as scene:
        path = KINDS[kind].format(scene.namespace)
        pool = POLICY.format(namespace=scene.namespace).replace("surge = true", "surge = false\nrerun = true")
        async with scene.daemon("one", pool=pool) as one:
            await scene.cordon(scene.nodes[1])
            both_run = await run(scene, kind, "example.test/kept")
            await wait_until(both_run, within=90, what="both run")
            options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
            await kube.client.request("DELETE", f"{path}/web", body=options)
            before = {pod["metadata"]["uid"] for pod in await scene.copies("web")}
            await scene.cordon(scene.nodes[0])
            await check_all_stay(scene, one, before)
        await kube.client.patch(f"{path}/web", {"metadata": {"finalizers": None}})


async def test_a_pod_that_is_isolated_is_moved_once_released(kube: Kube, tmp_path: Path) -> None:
    """While the controllers stand still it still has an owner, which would recreate another instead of it."""
    async with AsyncExitStack() as stack:
        scene = await stack.enter_async_context(stage(kube, tmp_path))
        pool = POLICY.format(namespace=scene.namespace).replace("surge = true", "surge = false")
        one = await stack.enter_async_context(scene.daemon("one", pool=pool))
        await scene.cordon(scene.nodes[1])
        both_run = await run(scene, "ReplicaSet")
        await wait_until(both_run, within=90, what="both run")
        meta, other = (pod["metadata"] for pod in await scene.copies("web"))
        keep = {"metadata": {"annotations": {"elasticd.io/do-not-disrupt": "true"}}}
        await kube.client.patch(f"{scene.pods}/{other['name']}", keep)
        with kube.plane.controllers_suspended():
            await kube.client.patch(f"{scene.pods}/{meta['name']}", {"metadata": {"labels": {"app": "debug"}}})
            await scene.cordon(scene.nodes[0])

            def is_refused() -> bool:
                outcomes = [each for each in read(one.running.folder / "state") if isinstance(each, PodOutcome)]
                return (meta["name"], "NoController") in [(each.about.name, each.reason) for each in outcomes]

            await wait_until(is_refused, what="it would move it")
            assert meta["name"] not in scene.written("pods", "eviction")
        await scene.runs(meta["name"], not_uid=meta["uid"])


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
async def test_without_controllers_a_restart_lets_no_other_pod_go(kube: Kube, tmp_path: Path, kind: str) -> None:
    """The controller's count of its pods is the one that it wrote last."""
    async with AsyncExitStack() as stack:
        scene = await stack.enter_async_context(stage(kube, tmp_path, "abc"))
        pool = POLICY.format(namespace=scene.namespace).replace("surge = true", "surge = false")
        one = await stack.enter_async_context(scene.daemon("one", pool=pool))
        await scene.cordon(*scene.nodes[1:])
        all_run = await run(scene, kind, count=3)
        await wait_until(all_run, within=90, what="all run")
        with kube.plane.controllers_suspended():
            await scene.cordon(scene.nodes[0])
            await wait_until(lambda: scene.written("pods", "eviction"), what="one is evicted")

            async def is_gone() -> bool:
                return len(await scene.copies("web")) == 2

            await wait_until(is_gone, what="it is gone")
            await one.end()
            restarted = time.time()
            one.start()

            def is_refused() -> bool:
                outcomes = [each for each in read(one.running.folder / "state") if isinstance(each, PodOutcome)]
                return [each.reason for each in outcomes if each.at > restarted] == ["NotReplaced"]

            await wait_until(is_refused, what="it would move another")
            assert len(scene.written("pods", "eviction")) == 1
        await wait_until(lambda: len(scene.written("pods", "eviction")) > 1, within=110, what="another goes")
