"""Pods that have no controller are moved on a genuine API server by daemons that are killed at every step, whose
answers are cut off, and of which two believe to lead: exactly one copy is there in the end, as it was.

`pytest -m e2e -s tests/kube/test_moves.py` prints the times of which docs/measured.md has the longest.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from tests.kube.between import Moment
from tests.kube.client import JSON, wait_until
from tests.kube.conftest import Kube
from tests.kube.moving import OURS, Daemon, Stage, returned, stage, table

WRITES = ("try", "record", "evict", "record again", "create", "note", "bind", "clear")
READS = ("see it gone", "see it run")


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def scene(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The pool of all tests."""
    async with stage(kube, tmp_path_factory.mktemp("moves")) as made:
        yield made
        print("\n" + table(made.rows))


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def first(scene: Stage) -> AsyncIterator[Daemon]:
    """A daemon."""
    async with scene.daemon("one") as one:
        yield one


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def pair(scene: Stage, first: Daemon) -> AsyncIterator[tuple[Daemon, Daemon]]:
    """It, and another that waits to lead."""
    async with scene.daemon("two") as other:
        yield first, other


def at(step: str) -> tuple[str, int]:
    """The step as the proxy counts it."""
    return ("record", 2) if step == "record again" else (step, 1)


def cuts() -> list[Any]:
    """Every step and moment at which a process is killed."""
    found = [pytest.param(step, moment, id=f"{moment} {step}") for step in WRITES for moment in ("before", "after")]
    return found + [pytest.param(step, "after", id=f"after {step}") for step in READS]


async def moved(scene: Stage, pod: JSON) -> int:
    """Wait until a pod runs on the other node and nothing is left behind; gives how many copies there are then."""
    name = pod["metadata"]["name"]
    again = await scene.runs(name, not_uid=pod["metadata"]["uid"])

    async def cleared() -> bool:
        return not await scene.records()

    await wait_until(cleared, within=90, what="its record is removed")
    copies = await scene.copies(name)
    again = await scene.runs(name, not_uid=pod["metadata"]["uid"])
    assert {again["spec"]["nodeName"], pod["spec"]["nodeName"]} == {*scene.nodes}
    assert without_ours(again) == without_ours(pod)
    return len(copies)


def without_ours(pod: JSON) -> JSON:
    """What must not change."""
    noted = {key: value for key, value in pod["metadata"].get("annotations", {}).items() if key not in OURS}
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    return pod["metadata"]["labels"], noted, spec


async def begun(scene: Stage) -> JSON:
    """A pod that runs, with no move in its way."""
    await scene.cordon()
    return await scene.pod(scene.name("batch"))


async def ended(scene: Stage, pod: JSON) -> None:
    """It is out of the way of the next."""
    await scene.kube.client.delete(f"{scene.pods}/{pod['metadata']['name']}", grace=0)


def evictions(scene: Stage, pod: JSON) -> int:
    """How often it was evicted."""
    return scene.written("pods", "eviction").count(pod["metadata"]["name"])


async def test_a_move_that_nobody_disturbs_takes_these_steps(scene: Stage, first: Daemon) -> None:
    pod = await begun(scene)
    network = {"k8s.ovn.org/pod-networks": "{}", "cni.projectcalico.org/podIP": "10.244.1.7/32"}  # as plugins write it
    await scene.kube.client.patch(f"{scene.pods}/{pod['metadata']['name']}", {"metadata": {"annotations": network}})
    first.proxy.passed.clear()
    began = time.monotonic()
    async with scene.never_lost(pod["metadata"]["name"]):
        await scene.cordon(pod["spec"]["nodeName"])
        copies = await moved(scene, pod)
    scene.note("bare pod", "-", "undisturbed", copies, evictions(scene, pod), began)
    again = [("record again" if step == "record" and "evict" in first.proxy.passed[:index] else step)
             for index, step in enumerate(first.proxy.passed)]  # fmt: skip
    assert sorted(again) == sorted(WRITES)
    assert (copies, evictions(scene, pod)) == (1, 1)
    await ended(scene, pod)


async def killed(scene: Stage, victim: Daemon, step: str, moment: Moment) -> tuple[JSON, float]:
    """A pod whose move has cost its daemon its life, and when."""
    pod, (name, nth) = await begun(scene), at(step)
    await wait_until(victim.leads, what="it leads")
    return pod, await scene.killed(victim.kill, victim, (name, moment, nth), pod["spec"]["nodeName"])


@pytest.mark.parametrize(("step", "moment"), cuts())
async def test_a_restart_after_any_kill_leaves_exactly_one_pod(
    scene: Stage, first: Daemon, step: str, moment: Moment
) -> None:
    pod, began = await killed(scene, first, step, moment)
    async with scene.never_lost(pod["metadata"]["name"]):
        first.start()
        copies = await moved(scene, pod)
    scene.note("bare pod", f"{moment} {step}", "killed, restart", copies, evictions(scene, pod), began)
    assert (copies, evictions(scene, pod)) == (1, 1)
    await ended(scene, pod)


@pytest.mark.parametrize("step", WRITES)
async def test_a_daemon_stopped_at_a_write_ends_in_time(scene: Stage, first: Daemon, step: str) -> None:
    """The answer to the write has yet to come. What it has begun is gone on with when it is started again."""
    pod, (name, nth) = await begun(scene), at(step)
    await wait_until(first.leads, what="it leads")
    began = await scene.killed(first.end, first, (name, "after", nth), pod["spec"]["nodeName"])
    assert first.running.program.code == 0
    async with scene.never_lost(pod["metadata"]["name"]):
        first.start()
        copies = await moved(scene, pod)
    scene.note("bare pod", f"at {step}", "SIGTERM, restart", copies, evictions(scene, pod), began)
    assert (copies, evictions(scene, pod)) == (1, 1)
    await ended(scene, pod)


@pytest.mark.parametrize(("step", "moment"), [
    pytest.param(step, moment, id=f"{step} {moment}") for step in WRITES for moment in ("lost", "undone")
])  # fmt: skip
async def test_a_lost_answer_is_looked_up_so_nothing_happens_twice(
    scene: Stage, first: Daemon, step: str, moment: Moment
) -> None:
    pod = await begun(scene)
    await wait_until(first.leads, what="it leads")
    name, nth = at(step)
    first.proxy.cut(name, moment, nth=nth)
    began = time.monotonic()
    async with scene.never_lost(pod["metadata"]["name"]):
        await scene.cordon(pod["spec"]["nodeName"])
        copies = await moved(scene, pod)
    assert first.proxy.fired.is_set()
    said = "answer lost" if moment == "lost" else "request lost"
    scene.note("bare pod", step, said, copies, evictions(scene, pod), began)
    assert (copies, evictions(scene, pod)) == (1, 1)
    await ended(scene, pod)


async def test_a_pod_that_cannot_be_recreated_stays_recorded_and_reported(scene: Stage, first: Daemon) -> None:
    pod = await begun(scene)
    name = pod["metadata"]["name"]
    first.proxy.denied = "create"
    began = time.monotonic()
    await scene.cordon(pod["spec"]["nodeName"])
    wanted = f"{scene.namespace}/Pod/{name} has yet to be recreated, from ConfigMap {scene.namespace}/elasticd-restore-"

    async def told() -> bool:
        return wanted in str((await first.running.status())["cluster"]["problems"])

    await wait_until(told, what="status tells of it")
    (shown,) = json.loads(await asyncio.to_thread(first.running.elasticd, "moves", "--json"))["in_flight"]
    assert (shown["pod"]["name"], shown["how"], shown["step"]) == (name, "anew", "gone")
    assert "403 Forbidden: may not create" in shown["fault"]
    assert 'elasticd_moves_in_trouble{how="anew"} 1.0' in (await first.running.page("/metrics"))[1]
    assert name in await asyncio.to_thread(first.running.elasticd, "moves")
    assert wanted in await asyncio.to_thread(first.running.elasticd, "status")
    assert len(await scene.records()) == 1
    first.proxy.denied = ""
    copies = await moved(scene, pod)
    scene.note("bare pod", "create", "denied for a while", copies, evictions(scene, pod), began)
    assert (copies, evictions(scene, pod)) == (1, 1)
    await wait_until(lambda: nothing_in_flight(first), what="no move is in flight")
    await ended(scene, pod)


async def nothing_in_flight(daemon: Daemon) -> bool:
    """Whether it says so."""
    return await asyncio.to_thread(daemon.running.elasticd, "moves") == "no move is in flight\n"


async def test_on_command_the_pools_are_looked_at_now(first: Daemon) -> None:
    await wait_until(first.leads, what="it leads")
    assert await asyncio.to_thread(first.running.elasticd, "rebalance", "--now") == "1 pool is looked at now\n"


@pytest.mark.parametrize(("step", "moment"), cuts())
async def test_a_takeover_after_any_kill_leaves_exactly_one_pod(
    scene: Stage, pair: tuple[Daemon, Daemon], step: str, moment: Moment
) -> None:
    victim = await scene.leader(*pair)
    pod, began = await killed(scene, victim, step, moment)
    async with scene.never_lost(pod["metadata"]["name"]):
        copies = await moved(scene, pod)
    scene.note("bare pod", f"{moment} {step}", "killed, take-over", copies, evictions(scene, pod), began)
    victim.start()
    assert (copies, evictions(scene, pod)) == (1, 1)
    await ended(scene, pod)


async def away(scene: Stage, pair: tuple[Daemon, Daemon], step: str, moment: Moment, how: str) -> None:
    """The leader is stopped, or cut off, at a write of a move, and returns when another has finished it."""
    victim = await scene.leader(*pair)
    pod, (name, nth) = await begun(scene), at(step)
    leave, back = (victim.stop, victim.wake) if how == "stopped" else (victim.part, victim.join)
    began = await scene.killed(leave, victim, (name, moment, nth), pod["spec"]["nodeName"])
    async with scene.never_lost(pod["metadata"]["name"]):
        again = await moved(scene, pod)
        await returned(victim, pair, back)
        copies = await moved(scene, pod)
    scene.note("bare pod", f"at {step}", f"{how}, take-over, back", copies, evictions(scene, pod), began)
    assert (again, copies, evictions(scene, pod)) == (1, 1, 1)
    await ended(scene, pod)


@pytest.mark.parametrize("step", WRITES)
async def test_a_stopped_leader_changes_nothing_when_woken_after_a_takeover(
    scene: Stage, pair: tuple[Daemon, Daemon], step: str
) -> None:
    await away(scene, pair, step, "undone", "stopped")


@pytest.mark.parametrize("step", WRITES)
async def test_a_leader_cut_off_after_a_write_changes_nothing_later(
    scene: Stage, pair: tuple[Daemon, Daemon], step: str
) -> None:
    await away(scene, pair, step, "lost", "cut off")


@pytest.mark.parametrize(
    "names",
    [pytest.param(("left", "right"), id="two names"), pytest.param(("left/twin", "right/twin"), id="one name")],
)
async def test_two_daemons_believing_they_lead_act_on_no_object_twice(scene: Stage, names: tuple[str, str]) -> None:
    """Each is told that it has the lease."""
    async with AsyncExitStack() as stack:
        both = [await stack.enter_async_context(scene.daemon(name)) for name in names]
        for one in both:
            one.proxy.alone = True
        for one in both:
            await wait_until(one.leads, what="it believes to lead")
        await scene.cordon()
        pods = [await scene.pod(scene.name("twice")) for _ in range(6)]
        began = time.monotonic()
        crowded = scene.nodes[0]
        await scene.cordon(crowded)
        leave = [pod for pod in pods if pod["spec"]["nodeName"] == crowded]
        copies = [await moved(scene, pod) for pod in leave]
        assert all([await one.leads() for one in both])
        left = {pod["metadata"]["name"] for pod in leave}
        evicted = Counter(name for name in scene.written("pods", "eviction") if name in left)
        made = Counter(name for name in scene.written("pods") if name in left)
        bound = Counter(name for name in scene.written("pods", "binding") if name in left)
        scene.note("bare pods", "-", f"two that lead, {len(left)} pods", max(copies), max(evicted.values()), began)
        assert (evicted, made) == (dict.fromkeys(left, 1), dict.fromkeys(left, 1))
        assert bound == dict.fromkeys(left, 2), "once at first, once after the move"
        for pod in pods:
            await ended(scene, pod)
