"""Disruption budgets outlive the daemon: however often it is killed, no more pods go. Nor do those that still wait for
their turn when their node is uncordoned."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from elasticd.journal import read
from elasticd.model.placement import PodOutcome
from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.moving import POLICY, USER, Daemon, Stage, stage

WITHIN, MOST = 12, 2
SLOWLY = "writes_per_second = 3\nburst = 2"
BUDGET = f"within = {WITHIN}\ntotal = {MOST}"


def evicted_at(scene: Stage) -> list[float]:
    """When each eviction was carried out, by the server's own log."""
    entries = [entry for entry in scene.kube.plane.audit() if entry["user"]["username"] == USER]
    done = [
        entry["requestReceivedTimestamp"]
        for entry in entries
        if entry.get("objectRef", {}).get("namespace") == scene.namespace
        and entry["objectRef"].get("subresource") == "eviction"
        and entry["responseStatus"]["code"] < 300
    ]
    return sorted(datetime.fromisoformat(at).timestamp() for at in done)


async def test_kills_let_no_more_pods_go(kube: Kube, tmp_path: Path) -> None:
    async with stage(kube, tmp_path) as scene, scene.daemon("one", disruption=BUDGET) as one:
        await scene.cordon(scene.nodes[1])
        pods = [await scene.pod(scene.name("batch")) for _ in range(5)]
        assert {pod["spec"]["nodeName"] for pod in pods} == {scene.nodes[0]}
        await scene.cordon(scene.nodes[0])
        for count in range(1, 2 * MOST + 1):
            await wait_until(lambda: len(evicted_at(scene)) >= count, within=90, what=f"{count} have gone")  # noqa: B023
            await one.kill()
            one.start()
        times = evicted_at(scene)
    assert all(later - before >= WITHIN - 0.5 for before, later in zip(times, times[MOST:], strict=False))


@asynccontextmanager
async def deployed(kube: Kube, folder: Path) -> AsyncIterator[tuple[Stage, Daemon]]:
    """A Deployment of three on the first node, and a daemon that evicts one of them in WITHIN seconds."""
    budget, pool = f"within = {WITHIN}\nper_controller = 1", POLICY.replace("surge = true", "surge = false")
    async with (
        stage(kube, folder) as scene,
        scene.daemon("one", disruption=budget, pool=pool.format(namespace=scene.namespace)) as one,
    ):
        await scene.cordon(scene.nodes[1])
        await scene.deploy("web", 3)

        async def all_run() -> bool:
            pods = await scene.copies("web")
            return [pod["status"].get("phase") for pod in pods] == ["Running"] * 3

        await wait_until(all_run, what="they run")
        yield scene, one


async def test_a_refused_eviction_of_three_comes_not_late(kube: Kube, tmp_path: Path) -> None:
    """A proxy has sent it twice, and delivers the second once another pod of the Deployment has gone."""
    async with deployed(kube, tmp_path) as (scene, one):
        one.proxy.denied = "evict"
        await scene.cordon(scene.nodes[0])
        await wait_until(lambda: one.proxy.keeps, what="one is refused")
        one.proxy.denied = ""
        await wait_until(lambda: evicted_at(scene), what="another has gone")
        assert await one.proxy.deliver() == 409


async def test_evictions_that_are_sent_twice_count(kube: Kube, tmp_path: Path) -> None:
    """A proxy gives the second answer, 409: the first was carried out."""
    async with deployed(kube, tmp_path) as (scene, one):
        one.proxy.twice = "evict"
        await scene.cordon(scene.nodes[0])
        await wait_until(lambda: len(evicted_at(scene)) >= 2, within=90, what="two have gone")
        times = evicted_at(scene)
    assert times[1] - times[0] >= WITHIN - 0.5


async def test_pods_that_wait_stay_on_an_uncordoned_node(kube: Kube, tmp_path: Path) -> None:
    """The record of each is written first: their evictions come seconds after they were judged."""
    async with stage(kube, tmp_path) as scene, scene.daemon("one", writes=SLOWLY) as one:
        await scene.cordon(scene.nodes[1])
        names = [scene.name("batch") for _ in range(8)]
        for name in names:
            await scene.create(name)
        for name in names:
            await scene.runs(name)

        def reasons() -> list[str]:
            found = [each for each in read(one.running.folder / "state") if isinstance(each, PodOutcome)]
            return [each.reason for each in found]

        await scene.cordon(scene.nodes[0])
        await wait_until(lambda: evicted_at(scene), what="one has gone")
        await scene.cordon()
        at = time.time()
        await wait_until(lambda: "Outdated" in reasons(), what="those that waited stay")
        for name in names:
            await scene.runs(name)

        async def settled() -> bool:
            return not await scene.records()

        await wait_until(settled, what="no record is left")
        assert [seconds - at for seconds in evicted_at(scene) if seconds > at + 0.5] == []
