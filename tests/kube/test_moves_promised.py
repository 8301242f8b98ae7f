"""Of two pods that exclude each other the one that runs is moved, and keeps its place; of two that need each other's
node none is moved."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.mounts import a_claim, a_volume
from tests.kube.moving import POLICY, Stage, granted, stage
from tests.kube.provisioner import VOLUMES

NO_SURGE = POLICY.replace("surge = true", "claims = true")
VOLUME_RIGHTS = ("components/volumes/rbac.yaml",)
ONE_POD, ONE_NODE = "ReadWriteOncePod", "ReadWriteOnce"


@asynccontextmanager
async def apart(scene: Stage) -> AsyncIterator[dict[str, Any]]:
    """What keeps two pods of one application out of one pool."""
    term = {"topologyKey": "pool", "labelSelector": {"matchLabels": {"tier": "batch"}}}
    yield {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


@asynccontextmanager
async def one_claim(scene: Stage, mode: str = ONE_POD) -> AsyncIterator[dict[str, Any]]:
    """A bound claim of this access mode."""
    client, name = scene.kube.client, scene.namespace
    ref = {"namespace": name, "name": "data"}
    await client.create(VOLUMES, a_volume(name, storageClassName="", claimRef=ref, accessModes=[mode]))
    path = f"/api/v1/namespaces/{name}/persistentvolumeclaims"
    await client.create(path, a_claim("data", volumeName=name, accessModes=[mode]))

    async def bound() -> bool:
        return bool((await client.get(f"{path}/data"))["status"].get("phase") == "Bound")

    await wait_until(bound, what="the claim is bound")
    try:
        yield {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    finally:
        await client.delete(f"{VOLUMES}/{name}")


@pytest.mark.parametrize(
    "excluding",
    [
        pytest.param(apart, id="anti-affinity"),
        pytest.param(one_claim, id="claim", marks=pytest.mark.since("1.36", "1.20 knows no ReadWriteOncePod")),
    ],
)
async def test_a_waiting_pod_does_not_take_a_moved_ones_place(kube: Kube, tmp_path: Path, excluding: Any) -> None:
    async with (
        stage(kube, tmp_path) as scene,
        excluding(scene) as spec,
        granted(kube, scene.namespace, VOLUME_RIGHTS),
        scene.daemon("one", pool=NO_SURGE.format(namespace=scene.namespace)),
    ):
        moved = await scene.pod("moved", **spec)
        await scene.create("waits", **spec)
        await scene.cordon(moved["spec"]["nodeName"])
        await scene.runs("moved", not_uid=moved["metadata"]["uid"])
        waits = await scene.read(f"{scene.pods}/waits")
        assert not waits["spec"].get("nodeName")


async def test_a_daemon_killed_after_the_eviction_keeps_the_place(kube: Kube, tmp_path: Path) -> None:
    """The pod is gone, and has no copy yet, when the next process looks for the first time."""
    async with (
        stage(kube, tmp_path) as scene,
        apart(scene) as spec,
        scene.daemon("one", pool=NO_SURGE.format(namespace=scene.namespace)) as one,
    ):
        moved = await scene.pod("moved", **spec)
        await scene.create("waits", **spec)
        await scene.killed(one.kill, one, ("evict", "after", 1), moved["spec"]["nodeName"])

        async def is_gone() -> bool:
            return "moved" not in [pod["metadata"]["name"] for pod in await kube.client.list(scene.pods)]

        await wait_until(is_gone, what="it has ended")
        one.start()
        await scene.runs("moved", not_uid=moved["metadata"]["uid"])
        waits = await scene.read(f"{scene.pods}/waits")
        assert not waits["spec"].get("nodeName")


async def test_a_pod_stays_while_another_needs_its_volume(kube: Kube, tmp_path: Path) -> None:
    async with (
        stage(kube, tmp_path) as scene,
        one_claim(scene, ONE_NODE) as spec,
        granted(kube, scene.namespace, VOLUME_RIGHTS),
        scene.daemon("one", pool=NO_SURGE.format(namespace=scene.namespace)) as one,
    ):
        here, there = scene.nodes
        await scene.cordon(there)
        first, _ = await scene.pod("first", **spec), await scene.pod("second", **spec)
        await scene.cordon(here)

        async def refused() -> bool:
            return 'reason="SharedVolume",verdict="refuse"} 2.0' in (await one.running.page("/metrics"))[1]

        await wait_until(refused, what="neither may go")
        moves = json.loads(await asyncio.to_thread(one.running.elasticd, "moves", "--json"))
        why = {each["decision"]["pod"]["name"]: each["why"] for each in moves["held_back"]}
        assert "its claim data is used by pod second of this node too" in why["first"]
        assert "(ReadWriteOnce) allow no second node" in why["second"]
        await kube.client.delete(f"{scene.pods}/second", grace=0)
        moved = await scene.runs("first", not_uid=first["metadata"]["uid"])
        assert moved["spec"]["nodeName"] == there
