"""A control plane whose etcd is restored from a backup, and the daemon's client, which has seen what came after."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from elasticd.base.clock import WallClock
from elasticd.cluster.kubernetes import Kubernetes, KubernetesCluster, LeaseSettings
from elasticd.model.actions import Answer, Evict
from elasticd.model.moves import RESTORED
from elasticd.model.workload import Ref
from tests.kube.client import JSON, ApiError, Client, wait_until
from tests.kube.control_plane import ControlPlane, NoControlPlane
from tests.kube.test_cluster import DEPLOYMENT, PATHS, manifest

PODS = "/api/v1/namespaces/default/pods"
BARE = f"{PODS}/bare"
BINDING = {"metadata": {"name": "kept"}, "target": {"kind": "Node", "name": "node-0"}}
WEB = f"{PATHS[DEPLOYMENT].format('default')}/web"


@pytest_asyncio.fixture(loop_scope="session")
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """An API server with its own etcd, and nobody else."""
    try:
        async with ControlPlane(tmp_path / "kube", controllers=False, scheduler=False) as started:
            async with started.client() as client:
                await wait_until(partial(has_default, client), what="its first namespace is there")
            yield started
    except NoControlPlane as missing:
        pytest.skip(str(missing))


async def has_default(client: Client) -> bool:
    """An API server makes it a moment after it has started."""
    return any(one["metadata"]["name"] == "default" for one in await client.list("/api/v1/namespaces"))


def pod(name: str) -> JSON:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "example.test/main:1"}]}}


def opened(plane: ControlPlane, identity: str = "one") -> AbstractAsyncContextManager[KubernetesCluster]:
    """The cluster as a daemon sees it that may lead."""
    lease = LeaseSettings(namespace="default", duration=6, renew=4, retry=0.5)
    return Kubernetes(kubeconfig=str(plane.kubeconfig()), lease=lease, identity=identity).open(WallClock())


async def eviction_of_bare(client: Client, cluster: KubernetesCluster) -> Evict:
    """The eviction of a bare pod that runs, once it may be carried out."""
    await client.create("/api/v1/namespaces", {"metadata": {"name": "elasticd"}})
    made = await client.create(PODS, pod("bare"))
    await client.create(f"{BARE}/binding", {**BINDING, "metadata": {"name": "bare"}})
    await client.patch(f"{BARE}/status", {"status": {"phase": "Running"}})
    await cluster.observe(0.0, frozenset())
    await wait_until(lambda: cluster.leading)
    return Evict(Ref("default", "Pod", "bare", "v1"), made["metadata"]["uid"], "node-0", "drained", restore=True)


async def terminates(client: Client) -> bool:
    return "deletionTimestamp" in (await client.get(BARE))["metadata"]


async def recreated(client: Client, evict: Evict) -> bool:
    """Whether the bare pod is there as a copy of the one that was evicted."""
    found = [one for one in await client.list(PODS) if one["metadata"]["name"] == "bare"]
    return bool(found) and found[0]["metadata"].get("annotations", {}).get(RESTORED) == evict.uid


async def records(client: Client) -> list[JSON]:
    """The records of evicted pods."""
    return await client.list("/api/v1/configmaps", labelSelector="elasticd.io/restore")


async def test_a_pod_terminating_at_a_restore_of_etcd_is_recreated(plane: ControlPlane) -> None:
    """Its kubelet ends it all the same: etcd knows neither of its eviction nor of its record."""
    async with plane.client() as client, opened(plane) as cluster:
        evict = await eviction_of_bare(client, cluster)
        plane.back_up()
        assert await cluster.act(evict) == Answer("done", 201)
        assert await terminates(client)
        await plane.restore()
        async with asyncio.timeout(60):
            await wait_until(partial(terminates, client), what="it is evicted again")
            await client.delete(BARE, grace=0)
            await wait_until(partial(recreated, client, evict), what="it is recreated")


async def test_another_can_check_records_after_a_restore(plane: ControlPlane) -> None:
    """The backup is from before the first move: it does not have the key that who evicted knows."""
    async with plane.client() as client:
        async with opened(plane) as cluster:
            evict = await eviction_of_bare(client, cluster)
            plane.back_up()
            assert await cluster.act(evict) == Answer("done", 201)
            await plane.restore()
            await wait_until(partial(terminates, client), within=60, what="it is evicted again")
        await client.delete(BARE, grace=0)
        assert not await recreated(client, evict)
        async with opened(plane, "two") as cluster:
            await cluster.observe(0.0, frozenset())
            await wait_until(partial(recreated, client, evict), within=60, what="the other recreates it")


@pytest.mark.parametrize("forgotten", [False, True], ids=["with-its-server", "without-its-server"])
async def test_a_pod_away_at_a_restore_of_etcd_is_recreated(plane: ControlPlane, forgotten: bool) -> None:
    """The daemon had brought it back, and removed its record: the backup has the record, and no pod.

    An API server that goes on all the while remembers that the pod has run.
    """
    quotas = f"{PODS.rpartition('/')[0]}/resourcequotas"

    async def back() -> bool:
        with suppress(ApiError):  # it is gone already
            await client.delete(f"{quotas}/full")
        return await recreated(client, evict)

    async def is_over() -> bool:
        return not await records(client)

    async with plane.client() as client, opened(plane) as cluster:
        evict = await eviction_of_bare(client, cluster)
        assert await cluster.act(evict) == Answer("done", 201)
        await client.create(quotas, {"metadata": {"name": "full"}, "spec": {"hard": {"pods": "0"}}})
        await client.delete(BARE, grace=0)
        plane.back_up()
        await wait_until(back, what="it is recreated")
        await client.patch(f"{BARE}/status", {"status": {"phase": "Running"}})
        await wait_until(is_over, within=60, what="its record is removed")
        await plane.restore(forgotten=forgotten)
        await wait_until(back, within=90, what="it is recreated once more")


async def test_after_a_restore_of_etcd_everything_is_listed_anew(
    plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    """Also that a pod is on no node, and that nobody leads who led after the backup; and it is told in one line."""
    ref, kinds = Ref("default", "Deployment", "web", "apps/v1"), frozenset({DEPLOYMENT})
    async with plane.client() as client, opened(plane) as cluster:
        await client.apply(manifest(DEPLOYMENT), "default")
        for name in ("kept", "gone"):
            await client.create(PODS, pod(name))
        snapshot = await cluster.observe(0.0, kinds)

        def known() -> Any:
            workload = snapshot.workload(ref)
            nodes = {one.name: one.node for one in (*snapshot.pending(), *snapshot.on_nodes().get("node-0", ()))}
            return workload and workload.replicas, nodes

        await wait_until(lambda: known() == (2, {"kept": "", "gone": ""}) and cluster.leading)
        plane.back_up()
        await client.patch(WEB, {"spec": {"replicas": 6}})
        await client.create(f"{PODS}/kept/binding", BINDING)
        await client.delete(f"{PODS}/gone", grace=0)
        await client.create(PODS, pod("new"))
        await wait_until(lambda: known() == (6, {"kept": "node-0", "new": ""}))
        await plane.restore()
        async with asyncio.timeout(20):
            await wait_until(lambda: known() == (2, {"kept": "", "gone": ""}) and cluster.leading)
        await client.create(PODS, pod("newer"))
        await wait_until(lambda: known() == (2, {"kept": "", "gone": "", "newer": ""}))
        assert len([record for record in caplog.records if "resourceVersions went back" in record.message]) == 1
        assert not [record for record in caplog.records if record.levelname == "ERROR"]
        assert "went back" in cluster.problems()["", "resourceVersions"]
