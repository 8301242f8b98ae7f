"""A daemon that is killed at each write for a pod whose claims wait for it, on a genuine API server: in the end the pod
runs, each claim has a volume of its own, and nothing is written twice."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.kube.between import Moment
from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.mounts import a_claim, a_class, a_volume
from tests.kube.moving import Daemon, Stage, granted, stage
from tests.kube.provisioner import SELECTED, VOLUMES, provisioning
from tests.kube.test_interrupted import POOL
from tests.kube.test_volumes import CLASSES, DRIVER

pytestmark = pytest.mark.since("1.36", "what controllers do with claims is the same in all versions")

LOCAL, MADE = "kept", "made"
"""The claim that gets a volume which is there, and the one for which a volume is made."""


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def scene(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Two nodes, a class of volumes that are there, one of volumes that are made, and who makes them."""
    client = kube.client
    async with stage(kube, tmp_path_factory.mktemp("volumes")) as made:
        classes = {LOCAL: "kubernetes.io/no-provisioner", MADE: DRIVER}
        for name, provisioner in classes.items():
            await client.create(CLASSES, a_class(f"{made.namespace}-{name}", provisioner))
        async with granted(kube, made.namespace, ("components/volumes/rbac.yaml",)), provisioning(client, DRIVER):
            yield made
        for name in classes:
            await client.delete(f"{CLASSES}/{made.namespace}-{name}")
        for volume in await client.list(VOLUMES):
            if volume["spec"].get("storageClassName", "").startswith(made.namespace):
                await client.delete(f"{VOLUMES}/{volume['metadata']['name']}")


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def daemon(scene: Stage) -> AsyncIterator[Daemon]:
    """A daemon that places pods there."""
    async with scene.daemon("one", pool=POOL.format(namespace=scene.namespace)) as made:
        yield made


async def begin(scene: Stage, name: str) -> None:
    """Two volumes that are there, two claims, and a pod with both."""
    client, path = scene.kube.client, f"/api/v1/namespaces/{scene.namespace}/persistentvolumeclaims"
    for number in range(2):
        volume = a_volume(f"{name}-{number}", driver=DRIVER, storageClassName=f"{scene.namespace}-{LOCAL}")
        volume["metadata"]["labels"]["for"] = name
        await client.create(VOLUMES, volume)
    mine = {"matchLabels": {"for": name}}
    await client.create(path, a_claim(f"{name}-{LOCAL}", f"{scene.namespace}-{LOCAL}", selector=mine))
    await client.create(path, a_claim(f"{name}-{MADE}", f"{scene.namespace}-{MADE}"))
    volumes = [{"name": kind, "persistentVolumeClaim": {"claimName": f"{name}-{kind}"}} for kind in (LOCAL, MADE)]
    meta = {"name": name, "labels": {"app": name}}
    await client.create(scene.pods, {"metadata": meta, "spec": scene.spec(volumes=volumes)})


async def each_claim_has_its_volume(scene: Stage, name: str, node: str) -> None:
    """One volume is kept for the claim that needs one, one was made for the other, for the pod's node."""
    client, path = scene.kube.client, f"/api/v1/namespaces/{scene.namespace}/persistentvolumeclaims"
    volumes = {each["metadata"]["name"]: each for each in await client.list(VOLUMES)}
    claims = {kind: await client.get(f"{path}/{name}-{kind}") for kind in (LOCAL, MADE)}
    for claim in claims.values():
        uid = claim["metadata"]["uid"]
        holders = [key for key, each in volumes.items() if each["spec"].get("claimRef", {}).get("uid") == uid]
        assert holders == [claim["spec"]["volumeName"]]
        assert claim["status"]["phase"] == "Bound"
    assert claims[MADE]["metadata"]["annotations"][SELECTED] == node
    free = [key for key in (f"{name}-0", f"{name}-1") if "claimRef" not in volumes[key]["spec"]]
    assert len(free) == 1, "the other volume stays free"


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", ["keep volume", "select node", "bind"])
async def test_after_a_kill_each_claim_has_its_own_volume(
    scene: Stage, daemon: Daemon, step: str, moment: Moment
) -> None:
    await wait_until(daemon.leads, what="it leads")
    name = scene.name("db")
    daemon.proxy.cut(step, moment, daemon.kill)
    await begin(scene, name)
    async with asyncio.timeout(60):
        await daemon.proxy.fired.wait()
    daemon.start()
    pod = await scene.runs(name)
    await each_claim_has_its_volume(scene, name, pod["spec"]["nodeName"])
    assert scene.written("pods", "binding").count(name) == 1
    assert scene.written("persistentvolumeclaims", verb="patch").count(f"{name}-{MADE}") == 1
    await scene.kube.client.delete(f"{scene.pods}/{name}", grace=0)
