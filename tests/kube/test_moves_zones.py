"""Pods without a controller are moved between zones on a genuine API server, which since 1.35 labels each pod with the
zone and region of its node.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.kube.client import JSON, wait_until
from tests.kube.conftest import Kube
from tests.kube.moving import Daemon, Stage, stage
from tests.kube.test_moves import ended

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def scene(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The pool of all tests: each node is in a zone of its own."""
    async with stage(kube, tmp_path_factory.mktemp("zones")) as made:
        for node in made.nodes:
            labels = {ZONE: f"zone-{node[-1]}", REGION: "here"}
            await kube.client.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
        yield made


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def first(scene: Stage) -> AsyncIterator[Daemon]:
    """A daemon."""
    async with scene.daemon("one") as one:
        yield one


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def labels_pods(scene: Stage) -> bool:
    """Whether the server labels pods so."""
    version = await scene.kube.client.get("/version")
    return int(version["minor"].rstrip("+")) >= 35


def zones(pod: JSON) -> JSON:
    """Its labels of this kind."""
    return {key: value for key, value in pod["metadata"]["labels"].items() if key in (ZONE, REGION)}


def manifest(scene: Stage, pod: JSON) -> JSON:
    """By which somebody has made a pod, and makes it again."""
    meta = {"name": pod["metadata"]["name"], "labels": {"app": pod["metadata"]["name"], "tier": "batch"}}
    return {"metadata": meta, "spec": scene.spec(restartPolicy="OnFailure")}


async def no_records(scene: Stage) -> None:
    """Wait until nothing is left to do."""

    async def none() -> bool:
        return not await scene.records()

    await wait_until(none, within=60, what="its record is removed")


async def gone(scene: Stage, pod: JSON) -> None:
    """Wait until a pod of this name is not there."""

    async def found() -> bool:
        return await scene.read(f"{scene.pods}/{pod['metadata']['name']}") is None

    await wait_until(found, what="it is gone")


async def test_a_moved_pod_takes_the_zone_of_its_new_node(scene: Stage, first: Daemon, labels_pods: bool) -> None:
    await scene.cordon()
    pod = await scene.pod(scene.name("batch"))
    await scene.cordon(pod["spec"]["nodeName"])
    again = await scene.runs(pod["metadata"]["name"], not_uid=pod["metadata"]["uid"])
    await no_records(scene)
    assert again["spec"]["nodeName"] != pod["spec"]["nodeName"]
    for one in (pod, again):
        zone = {ZONE: f"zone-{one['spec']['nodeName'][-1]}", REGION: "here"}
        assert zones(one) == (zone if labels_pods else {})
    assert again["metadata"]["labels"].keys() == pod["metadata"]["labels"].keys()
    await ended(scene, pod)


async def test_a_pod_recreated_and_deleted_by_others_is_not_recreated(scene: Stage, first: Daemon) -> None:
    await scene.cordon()
    pod: Any = await scene.pod(scene.name("batch"))
    first.proxy.denied = "create"
    await scene.cordon(pod["spec"]["nodeName"])
    await gone(scene, pod)
    await scene.kube.client.create(scene.pods, manifest(scene, pod))
    await scene.runs(pod["metadata"]["name"])
    await no_records(scene)
    first.proxy.denied = ""
    await ended(scene, pod)
    await gone(scene, pod)
    await scene.cordon()
    after = await scene.pod(scene.name("batch"))  # the daemon has looked meanwhile
    assert await scene.copies(pod["metadata"]["name"]) == []
    await ended(scene, after)
