"""Pods with claims are placed on a genuine API server, whose own controllers bind the claims."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.kube.client import JSON, Objects, wait_until
from tests.kube.conftest import Kube
from tests.kube.mounts import a_claim, a_class, a_volume
from tests.kube.provisioner import SELECTED, VOLUMES, provisioning
from tests.kube.test_placing import RIGHTS, TAINT, Scene, staged

pytestmark = pytest.mark.since("1.36", "what controllers do with claims is the same in all versions")

CLASSES, CSI_NODES = "/apis/storage.k8s.io/v1/storageclasses", "/apis/storage.k8s.io/v1/csinodes"
DRIVER = "volumes.example.com"
WITH_VOLUMES = (*RIGHTS, "components/volumes/rbac.yaml")


@asynccontextmanager
async def with_class(scene: Scene, provisioner: str = DRIVER) -> AsyncIterator[str]:
    """The name of a storage class, and of nothing else; its volumes are gone at the end."""
    client, name = scene.kube.client, scene.namespace
    await client.create(CLASSES, a_class(name, provisioner))
    try:
        yield name
    finally:
        await client.delete(f"{CLASSES}/{name}")
        for volume in await client.list(VOLUMES):
            if volume["spec"].get("storageClassName") == name:
                await client.delete(f"{VOLUMES}/{volume['metadata']['name']}")


def claims_path(scene: Scene) -> str:
    return f"/api/v1/namespaces/{scene.namespace}/persistentvolumeclaims"


async def claims_of(scene: Scene) -> Objects:
    return await scene.kube.client.list(claims_path(scene))


def mounted(claim: str) -> dict[str, Any]:
    """What a pod's spec says of a claim that it uses."""
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


def stateful_set(name: str, of_class: str, replicas: int) -> JSON:
    """Pods with a claim each."""
    container = {"name": "main", "image": "example.test/main:1", "resources": {"requests": {"cpu": "100m"}}}
    tolerates = [{"key": TAINT["key"], "operator": "Exists"}]
    spec = {"schedulerName": "elasticd", "containers": [container], "tolerations": tolerates}
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
            "volumeClaimTemplates": [a_claim("data", of_class)],
        },
    }


async def _none(scene: Scene) -> bool:
    return not await scene.kube.client.list(scene.pods)


async def test_each_pod_of_a_stateful_set_runs_beside_its_volume(kube: Kube, namespace: str) -> None:
    async with staged(kube, namespace, WITH_VOLUMES) as scene, with_class(scene) as name:
        drivers = [{"name": DRIVER, "nodeID": "a", "allocatable": {"count": 1}}]
        few = {"metadata": {"name": scene.nodes[0]}, "spec": {"drivers": drivers}}
        await kube.client.create(CSI_NODES, few)
        async with provisioning(kube.client, DRIVER), scene.placing():
            await kube.client.apply(stateful_set("db", name, 3), namespace)
            pods = [await scene.runs(f"db-{number}") for number in range(3)]
        await kube.client.delete(f"{CSI_NODES}/{scene.nodes[0]}")
        claims = {claim["metadata"]["name"]: claim for claim in await claims_of(scene)}
        assert {claim["status"]["phase"] for claim in claims.values()} == {"Bound"}
        for pod in pods:
            noted = claims[f"data-{pod['metadata']['name']}"]["metadata"]["annotations"]
            assert noted[SELECTED] == pod["spec"]["nodeName"]
        on_first = [pod for pod in pods if pod["spec"]["nodeName"] == scene.nodes[0]]
        assert len(on_first) <= 1, "the node takes one volume of the driver"
        assert [call for call in scene.calls if call[2] in (401, 403)] == [], "the shipped rights are enough"
        await kube.client.delete(f"/apis/apps/v1/namespaces/{namespace}/statefulsets/db")
        await wait_until(lambda: _none(scene), what="its pods are gone")


async def test_a_pod_runs_where_the_volume_of_its_claim_is(kube: Kube, namespace: str) -> None:
    async with (
        staged(kube, namespace, WITH_VOLUMES) as scene,
        with_class(scene, "kubernetes.io/no-provisioner") as name,
    ):
        host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [scene.nodes[1]]}
        there = {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}}
        for size in (5, 2):
            volume = a_volume(f"{name}-{size}", size, storageClassName=name, nodeAffinity=there)
            await kube.client.create(VOLUMES, volume)
        await kube.client.create(claims_path(scene), a_claim("data", name))
        async with scene.placing():
            await scene.create("web", **mounted("data"))
            await scene.runs("web", scene.nodes[1])
        (claim,) = await claims_of(scene)
        assert claim["spec"]["volumeName"] == f"{name}-2"


async def test_a_node_is_selected_again_when_the_provisioner_gives_up(kube: Kube, namespace: str) -> None:
    async with staged(kube, namespace, WITH_VOLUMES) as scene, with_class(scene) as name, scene.placing():
        path = f"{claims_path(scene)}/data"
        await kube.client.create(claims_path(scene), a_claim("data", name))
        await scene.create("web", **mounted("data"))

        async def selected() -> str:
            claim = await kube.client.get(path)
            return str(claim["metadata"].get("annotations", {}).get(SELECTED, ""))

        first = await wait_until(selected, what="a node is selected")
        await kube.client.patch(f"/api/v1/nodes/{first}", {"spec": {"unschedulable": True}})
        await wait_until(lambda: any(node.unschedulable for node in scene.snapshot.nodes()))
        await kube.client.patch(path, {"metadata": {"annotations": {SELECTED: None}}})
        async with provisioning(kube.client, DRIVER):
            pod = await scene.runs("web")
        assert pod["spec"]["nodeName"] == next(node for node in scene.nodes if node != first)


async def test_without_the_rights_a_pod_waits_and_says_why(kube: Kube, namespace: str) -> None:
    async with staged(kube, namespace) as scene, with_class(scene) as name, scene.placing():
        await kube.client.create(claims_path(scene), a_claim("data", name))
        await scene.create("web", **mounted("data"))
        (told,) = await wait_until(lambda: scene.events("FailedScheduling"), what="an Event about the pod that waits")
        assert "its volumes are not known, as persistentvolumeclaims, persistentvolumes" in told
