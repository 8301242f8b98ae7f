"""Pods are moved only as fast as others run that were moved, or rolled out, before them."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kube.client import JSON, wait_until
from tests.kube.conftest import Kube
from tests.kube.moving import DISRUPTION, POLICY, Daemon, Stage, stage
from tests.kube.pools import stays_ready

EVERY = 1.0
"""Seconds between looks of POLICY."""

Startup = Callable[[JSON], float | None]


@contextmanager
def starting(kube: Kube, startup: Startup) -> Iterator[None]:
    """Pods start as this says."""
    before, kube.nodes.startup = kube.nodes.startup, startup
    try:
        yield
    finally:
        kube.nodes.startup = before


async def held_back(daemon: Daemon) -> list[str]:
    """Why pods that should leave are held back, a word for each."""
    moves = json.loads(await asyncio.to_thread(daemon.running.elasticd, "moves", "--json"))
    return [move["reason"] for move in moves["held_back"]]


async def test_bare_pods_wait_for_copies_that_never_start(kube: Kube, tmp_path: Path) -> None:
    """Their image is gone: two are away, and the others stay until these run."""
    few = DISRUPTION.replace("per_controller = 1000", "per_controller = 2")
    async with stage(kube, tmp_path) as scene, scene.daemon("one", disruption=few) as one:
        await scene.cordon(scene.nodes[1])
        names = [scene.name("batch") for _ in range(5)]
        for name in names:
            await scene.pod(name)
        with starting(kube, lambda pod: None if pod["spec"]["nodeName"] == scene.nodes[1] else 0.2):
            await scene.cordon(scene.nodes[0])
            await wait_until(lambda: len(scene.written("pods")) == 2, within=90, what="copies of two are created")

            async def three_wait() -> bool:
                return await held_back(one) == ["NotReplaced"] * 3

            await wait_until(three_wait, within=90, what="the others are held back")
            await asyncio.sleep(3 * EVERY)
        gone = scene.written("pods", "eviction")
        assert len(gone) == 2, "after three more looks too"
        for name in gone:
            await kube.client.delete(f"{scene.pods}/{name}", grace=0)

        async def all_there() -> bool:
            pods = [await scene.read(f"{scene.pods}/{name}") for name in names]
            return all(pod and stays_ready(pod) and pod["spec"]["nodeName"] == scene.nodes[1] for pod in pods)

        await wait_until(all_there, within=90, what="all run on the other node")


async def partitioned(scene: Stage) -> None:
    """A StatefulSet of which a rollout replaces the last pod alone."""
    labels = {"app": "web"}
    spec = {
        "replicas": 3,
        "serviceName": "web",
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}},
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": scene.spec()},
    }
    path = f"/apis/apps/v1/namespaces/{scene.namespace}/statefulsets"
    await scene.kube.client.create(path, {"metadata": {"name": "web"}, "spec": spec})

    async def all_run() -> bool:
        pods = await scene.copies("web")
        return len(pods) == 3 and all(map(stays_ready, pods))

    await wait_until(all_run, within=90, what="they run")
    template = {"template": {"metadata": {"annotations": {"version": "2"}}}}
    await scene.kube.client.patch(f"{path}/web", {"spec": template})


async def test_a_pod_above_a_partition_is_waited_for(kube: Kube, tmp_path: Path) -> None:
    """The rollout goes no further, and its new pod never starts."""
    async with stage(kube, tmp_path) as scene:
        pool = POLICY.replace("surge = true", "surge = false").format(namespace=scene.namespace)
        async with scene.daemon("one", pool=pool) as one:
            await scene.cordon(scene.nodes[1])
            with starting(kube, lambda pod: None if "version" in pod["metadata"].get("annotations", {}) else 0.2):
                await partitioned(scene)

                async def begun() -> JSON:
                    pod = await scene.read(f"{scene.pods}/web-2")
                    is_new = pod and "version" in pod["metadata"].get("annotations", {})
                    return pod["spec"].get("nodeName") if is_new else None

                await wait_until(begun, within=90, what="the new pod has a node")
                await scene.cordon(scene.nodes[0])

                async def two_wait() -> bool:
                    return await held_back(one) == ["RollingOut"] * 2

                await wait_until(two_wait, within=90, what="the ready ones are held back")
                await asyncio.sleep(3 * EVERY)
                assert set(scene.written("pods", "eviction")) <= {"web-2"}, "after three more looks too"
            await kube.client.delete(f"{scene.pods}/web-2", grace=0)

            async def all_moved() -> bool:
                pods = await scene.copies("web")
                return len(pods) == 3 and all(
                    stays_ready(pod) and pod["spec"]["nodeName"] == scene.nodes[1] for pod in pods
                )

            await wait_until(all_moved, within=90, what="all run on the other node")
