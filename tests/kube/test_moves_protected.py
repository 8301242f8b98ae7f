"""Pods that stay on a node that is drained, by the API server's own log: who is protected, and all while nodes fail."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.moving import Daemon, Stage, stage
from tests.kube.test_moves import moved

PROTECTED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "scaler": ("DoNotDisrupt", {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}, {}),
    "karpenter": ("DoNotDisrupt", {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, {}),
    "disk": ("Disks", {}, {"volumes": [{"name": "disk", "gcePersistentDisk": {"pdName": "disk"}}]}),
    "once": ("RunsOnce", {}, {"restartPolicy": "Never"}),
    "own": ("Own", {"labels": {"app.kubernetes.io/name": "elasticd"}}, {}),
}
"""Who must stay, by name: why, metadata, spec."""


async def held_back(daemon: Daemon) -> dict[str, str]:
    """Why pods stay, by `elasticd moves`."""
    shown = json.loads(await asyncio.to_thread(daemon.running.elasticd, "moves", "--json"))
    return {each["decision"]["pod"]["name"]: each["reason"] for each in shown["held_back"]}


async def created(scene: Stage) -> dict[str, str]:
    """Create those who must stay; their uids once they run."""
    for name, (_, meta, spec) in PROTECTED.items():
        body = {"metadata": {"name": name, **meta}, "spec": scene.spec(**{"restartPolicy": "OnFailure", **spec})}
        await scene.kube.client.create(scene.pods, body)
    return {name: (await scene.runs(name))["metadata"]["uid"] for name in PROTECTED}


async def test_protected_pods_stay_on_a_node_that_is_drained(kube: Kube, tmp_path: Path) -> None:
    async with stage(kube, tmp_path) as scene, scene.daemon("one") as one:
        node, other = scene.nodes
        await scene.cordon(other)
        before = await created(scene)
        pod = await scene.pod("batch")
        await scene.cordon(node)
        assert await moved(scene, pod) == 1
        expected = {name: why for name, (why, _, _) in PROTECTED.items()}

        async def told() -> bool:
            return await held_back(one) == expected

        await wait_until(told, what="it is said why each stays", every=1.0)
        assert scene.written("pods", "eviction") == ["batch"]
        assert {name: (await scene.runs(name))["metadata"]["uid"] for name in before} == before


async def test_no_pod_is_moved_while_half_of_the_nodes_fail(kube: Kube, tmp_path: Path) -> None:
    async with stage(kube, tmp_path, "abcd") as scene, scene.daemon("one") as one:
        pod = await scene.pod("batch")
        node = pod["spec"]["nodeName"]
        spare = next(name for name in scene.nodes if name != node)
        every = [each["metadata"]["name"] for each in await kube.client.list("/api/v1/nodes")]
        others = sorted(set(every) - {node, spare}, key=lambda name: name not in scene.nodes)
        async with AsyncExitStack() as stack:
            for name in others[: (len(every) + 1) // 2]:
                await kube.nodes.set_ready(name, ready=False)
                stack.push_async_callback(kube.nodes.set_ready, name, True)
            await scene.cordon(node)

            async def refused() -> bool:
                return await held_back(one) == {"batch": "Breaker"}

            await wait_until(refused, within=60, what="it stays while so many nodes fail", every=1.0)
            await asyncio.sleep(5)
            assert scene.written("pods", "eviction") == []
        again = await scene.runs("batch", not_uid=pod["metadata"]["uid"])
        assert again["spec"]["nodeName"] != node
