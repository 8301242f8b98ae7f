"""Pods for elasticd to place on a genuine cluster, and what was decided about them.

Knows manifests and the daemon's journal; knows no strategy.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

from elasticd.journal import read
from elasticd.kit import BINDING
from elasticd.model.moves import MoveDecision
from elasticd.model.placement import PodDecision
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


def deployment(name: str, replicas: int, cpu: str = "10m", memory: str = "64Mi", **spec: Any) -> JSON:
    """A Deployment of pods for elasticd."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": manifest(name, cpu, memory, **spec)["spec"]},
        },
    }


async def create_budget(kube: Kube, namespace: str, app: str, least: int, allowed: int = 1) -> str:
    """A PodDisruptionBudget by which so many pods may go, once the controller has counted them. Returns its path."""
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app}, "spec": spec}
    path = await kube.client.path_of(budget, namespace)
    await kube.client.apply(budget, namespace)

    async def has_been_counted() -> bool:
        found = await kube.client.get(path)
        status = found.get("status", {})
        return bool(status.get("expectedPods") and status["disruptionsAllowed"] == allowed)

    await wait_until(has_been_counted, what="the disruption controller has counted the pods")
    return path


@asynccontextmanager
async def counting(kube: Kube, namespace: str) -> AsyncIterator[list[Counter[str]]]:
    """How many pods of each app were ready and stayed, after each change of one."""
    counts: list[Counter[str]] = []

    async def follow() -> None:
        ready: dict[str, str] = {}
        async with aclosing(kube.client.follow(PODS.format(namespace))) as changes:
            async for kind, pod in changes:
                metadata = pod["metadata"]
                ready.pop(metadata["uid"], None)
                if kind != "DELETED" and stays_ready(pod):
                    ready[metadata["uid"]] = metadata.get("labels", {}).get("app", "")
                counts.append(Counter(ready.values()))

    task = asyncio.create_task(follow())
    try:
        yield counts
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def stays_ready(pod: JSON) -> bool:
    """Whether a pod is ready and is not being deleted."""
    conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


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


def moves(daemon: Running) -> list[MoveDecision]:
    """All decisions about pods that a strategy wanted moved, in the order in which they were made; but those that say
    that it wants it no more."""
    found = [one for one in read(daemon.folder / "state") if isinstance(one, MoveDecision)]
    return [one for one in found if one.verdict != "over"]


async def decided(daemon: Running, name: str, verdict: str) -> PodDecision:
    """The latest decision about a pod that says this, once there is one."""

    def latest() -> PodDecision | None:
        found = [one for one in decisions(daemon) if (one.pod.name, one.verdict) == (name, verdict)]
        return found[-1] if found else None

    found = await wait_until(latest, what=f"{verdict} is decided about {name}")
    assert found is not None
    return found
