"""A node that is to be emptied while the genuine kube-scheduler puts the pods back there."""

import asyncio
import json
from pathlib import Path

from tests.kube.client import JSON, wait_until
from tests.kube.conftest import Kube
from tests.kube.moving import POLICY, Daemon, Stage, stage

OTHERS = POLICY.replace("surge = true", "others = true")
assert OTHERS != POLICY


async def deploy(scene: Stage, node: str) -> None:
    """A Deployment of kube-scheduler's, two pods that prefer this node, cordoned or not, and run."""
    prefers = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": prefers}]}
    spec = scene.spec(
        schedulerName="default-scheduler", tolerations=[{"operator": "Exists"}], affinity={"nodeAffinity": affinity}
    )
    labels = {"app": "stubborn"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    await scene.kube.client.create(scene.deployments, {"metadata": {"name": "stubborn"}, "spec": body})
    await wait_until(lambda: running_on(scene, node, 2), within=60, what="both run there")


async def running_on(scene: Stage, node: str, count: int) -> list[JSON]:
    """The pods that run on a node, where they are so many."""
    pods = [pod for pod in await scene.copies("stubborn") if pod["status"].get("phase") == "Running"]
    there = [pod for pod in pods if pod["spec"].get("nodeName") == node]
    return there if len(there) == count else []


async def rests(daemon: Daemon) -> bool:
    """Whether both pods stay because they came back."""
    shown = json.loads(await asyncio.to_thread(daemon.running.elasticd, "moves", "--json"))
    return [entry["reason"] for entry in shown["held_back"]] == ["Returned", "Returned"]


async def test_pods_that_kube_scheduler_puts_back_rest(kube: Kube, tmp_path: Path) -> None:
    async with stage(kube, tmp_path) as scene:
        node = scene.nodes[0]
        await deploy(scene, node)
        async with scene.daemon("one", pool=OTHERS.format(namespace=scene.namespace)) as one:
            await scene.cordon(node)
            await wait_until(lambda: rests(one), within=90, what="both are held back", every=1.0)
            evicted = len(scene.written("pods", "eviction"))
            assert evicted in (2, 3)  # the taint that follows the cordon is a change of the node
            assert await running_on(scene, node, 2)
            await kube.client.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"kernel": "new"}}})
            await wait_until(lambda: len(scene.written("pods", "eviction")) > evicted, what="it is tried again")
