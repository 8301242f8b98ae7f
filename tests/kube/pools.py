"""Pods for elasticd to place on a genuine cluster, and what was decided about them.

Knows manifests and the daemon's journal; knows no strategy.
"""

import json
from collections.abc import Mapping
from typing import Any

from elasticd.api import BINDING
from elasticd.journal import read
from elasticd.placements import PodDecision
from tests.kube.client import JSON, wait_until
from tests.kube.conftest import Kube
from tests.kube.reports import NodeSpec
from tests.kube.running import Running

PODS = "/api/v1/namespaces/{}/pods"


def manifest(
    name: str, cpu: str = "10m", memory: str = "64Mi", annotations: Mapping[str, Any] | None = None, **spec: Any
) -> JSON:
    """A pod that asks for elasticd, of one container. Annotations that are no strings are written as JSON."""
    texts = {key: one if isinstance(one, str) else json.dumps(one) for key, one in (annotations or {}).items()}
    container = {
        "name": "main",
        "image": "registry.example/pause",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    own = {"schedulerName": "elasticd", "automountServiceAccountToken": False, "containers": [container]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": texts},
        "spec": {**own, **spec},
    }


def thesis(namespace: str, **tiers: str) -> list[NodeSpec]:
    """The nodes of the thesis: 1, 2 and 4 cores, and twice as many GiB."""
    return [
        NodeSpec(
            f"{name}-{namespace}",
            cpu=str(2**index),
            memory=f"{2 ** (index + 1)}Gi",
            labels={"for": namespace, "tier": tier, "hostname": name},
        )
        for index, (name, tier) in enumerate(tiers.items())
    ]


def bound(name: str, *expressions: JSON, **more: Any) -> JSON:
    """A pod whose annotation binds it."""
    return manifest(name, annotations={BINDING: {"expressions": expressions, **more}})


def to(*hosts: str) -> JSON:
    """Bound to these nodes."""
    return {"key": "hostname", "operator": "in", "values": hosts}


FRONT: JSON = {"key": "tier", "operator": "in", "values": ["frontend"]}


def five() -> list[JSON]:
    """The pods of the thesis's table 6-5 (algorithms T-5)."""
    return [
        bound("pod1", to("node1"), nodeLabelChange="reschedule"),
        bound("pod2", {"key": "tier", "operator": "notIn", "values": ["backend"]}, nodeLabelChange="still"),
        bound("pod3", to("node1", "node2"), FRONT, nodeLabelChange="reschedule"),
        bound("pod4", to("node4"), collectionIsEmpty="default"),
        bound("pod5", to("node4"), collectionIsEmpty="reschedule"),
    ]


async def create(kube: Kube, namespace: str, *manifests: JSON) -> None:
    """Create these pods, one after the other."""
    for one in manifests:
        await kube.client.create(PODS.format(namespace), one)


async def places(kube: Kube, namespace: str) -> dict[str, str]:
    """The node of each pod that is not being deleted, by name; empty where it has none."""
    found = await kube.client.list(PODS.format(namespace))
    return {
        pod["metadata"]["name"]: pod["spec"].get("nodeName", "")
        for pod in found
        if "deletionTimestamp" not in pod["metadata"]
    }


async def uids(kube: Kube, namespace: str) -> dict[str, str]:
    """Of all pods, by name."""
    found = await kube.client.list(PODS.format(namespace))
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


async def all_run(kube: Kube, namespace: str, *names: str) -> None:
    """Wait until these pods run."""

    async def run() -> bool:
        found = await kube.client.list(PODS.format(namespace), fieldSelector="status.phase=Running")
        return {pod["metadata"]["name"] for pod in found}.issuperset(names)

    await wait_until(run, what=f"{', '.join(names)} run")


def decisions(daemon: Running) -> list[PodDecision]:
    """All about pods, in the order in which they were made."""
    return [one for one in read(daemon.folder / "state") if isinstance(one, PodDecision)]


async def decided(daemon: Running, name: str, verdict: str) -> PodDecision:
    """The latest decision about a pod that says this, once there is one."""

    def latest() -> PodDecision | None:
        found = [one for one in decisions(daemon) if (one.pod.name, one.verdict) == (name, verdict)]
        return found[-1] if found else None

    found = await wait_until(latest, what=f"{verdict} is decided about {name}")
    assert found is not None
    return found
