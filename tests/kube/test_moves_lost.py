"""Copies of pods that go before they ran, on a genuine API server: whoever takes them away, they are made again, and
one that has run is not.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from tests.kube.between import Moment
from tests.kube.client import JSON, ApiError, wait_until
from tests.kube.conftest import Kube
from tests.kube.moving import TAINT, Daemon, Stage, stage
from tests.kube.reports import NodeSpec
from tests.kube.test_moves import begun, ended, moved, without_ours


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def scene(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The pool of all tests."""
    async with stage(kube, tmp_path_factory.mktemp("lost")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def first(scene: Stage) -> AsyncIterator[Daemon]:
    """A daemon."""
    async with scene.daemon("one") as one:
        yield one


def starts(scene: Stage, monkeypatch: pytest.MonkeyPatch, *, never: bool) -> None:
    """Let pods that come to a node from now on start, or not."""
    monkeypatch.setattr(scene.kube.nodes, "startup", lambda _: None if never else 0.2)


async def copy_on_node(scene: Stage, pod: JSON) -> JSON:
    """Wait until a copy of a pod is on a node, whose kubelet has reported it: a report that comes later would undo what
    a test writes into its status."""

    async def found() -> JSON:
        copy = await scene.read(f"{scene.pods}/{pod['metadata']['name']}")
        there = copy is not None and copy["metadata"]["uid"] != pod["metadata"]["uid"]
        return copy if there and copy["status"].get("containerStatuses") else None

    return await wait_until(found, within=90, what="a copy is on a node")


async def noted(scene: Stage, copy: JSON) -> None:
    """Wait until the record knows of a copy."""

    async def found() -> bool:
        return copy["metadata"]["uid"] in [one["data"].get("made") for one in await scene.records()]

    await wait_until(found, what="its copy is noted")


async def leaving(scene: Stage, monkeypatch: pytest.MonkeyPatch) -> tuple[JSON, JSON]:
    """A pod that was moved, and its copy, which does not start."""
    starts(scene, monkeypatch, never=False)
    pod = await begun(scene)
    starts(scene, monkeypatch, never=True)
    await scene.cordon(pod["spec"]["nodeName"])
    copy = await copy_on_node(scene, pod)
    await noted(scene, copy)
    return pod, copy


async def deleted(scene: Stage, copy: JSON) -> None:
    """A person deletes it; its kubelet confirms that."""
    await scene.kube.client.delete(f"{scene.pods}/{copy['metadata']['name']}")


async def forced(scene: Stage, copy: JSON) -> None:
    """It is deleted at once, as the garbage collector does when its node is gone."""
    await scene.kube.client.delete(f"{scene.pods}/{copy['metadata']['name']}", grace=0)


async def refused(scene: Stage, copy: JSON) -> None:
    """Its kubelet does not take it."""
    status = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource"}
    await scene.kube.client.patch(f"{scene.pods}/{copy['metadata']['name']}/status", {"status": status}, "merge")


LOSSES = [
    pytest.param(deleted, id="deleted"),
    pytest.param(forced, id="deleted at once"),
    pytest.param(refused, id="refused by its kubelet"),
]
Lose = Callable[[Stage, JSON], Awaitable[None]]


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("absent", [False, True], ids=["daemon there", "daemon killed"])
async def test_a_copy_that_goes_before_it_ran_is_made_again(
    scene: Stage, first: Daemon, monkeypatch: pytest.MonkeyPatch, lose: Lose, absent: bool
) -> None:
    pod, copy = await leaving(scene, monkeypatch)
    async with scene.never_lost(pod["metadata"]["name"]):
        if absent:
            await first.kill()
        starts(scene, monkeypatch, never=False)
        await lose(scene, copy)
        if absent:
            first.start()
        assert await moved(scene, pod) == 1
    again = await scene.runs(pod["metadata"]["name"])
    assert again["metadata"]["uid"] != copy["metadata"]["uid"]
    assert again["metadata"]["annotations"]["elasticd.io/restored-from"] == pod["metadata"]["uid"]
    await ended(scene, pod)


async def bound(scene: Stage, pod: JSON) -> None:
    """Somebody else puts the copy of a pod on the other node, where that has not been done."""
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    (other,) = set(scene.nodes) - {node}
    with contextlib.suppress(ApiError):
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": other}}
        await scene.kube.client.create(f"{scene.pods}/{name}/binding", binding)


@pytest.mark.parametrize(("step", "moment"), [("create", "after"), ("note", "after"), ("clear", "before")])
async def test_a_copy_deleted_during_downtime_after_running_is_not_recreated(
    scene: Stage, first: Daemon, step: str, moment: Moment
) -> None:
    await wait_until(first.leads, what="it leads")
    pod = await begun(scene)
    name = pod["metadata"]["name"]
    await scene.killed(first.kill, first, (step, moment, 1), pod["spec"]["nodeName"])
    await bound(scene, pod)
    await scene.runs(name, not_uid=pod["metadata"]["uid"])
    await scene.kube.client.delete(f"{scene.pods}/{name}", grace=0)
    first.start()

    async def cleared() -> bool:
        return not await scene.records()

    await wait_until(cleared, within=60, what="the record is removed")
    assert await scene.copies(name) == []


async def test_an_evicted_pod_is_recreated_though_its_policy_is_gone(scene: Stage, first: Daemon) -> None:
    await wait_until(first.leads, what="it leads")
    pod = await begun(scene)
    name, policy = pod["metadata"]["name"], scene.folder / "one" / "policies" / "pool.toml"
    await scene.killed(first.kill, first, ("evict", "after", 1), pod["spec"]["nodeName"])
    text = policy.read_text()
    policy.unlink()
    try:
        first.start()

        async def told() -> bool:
            code, text = await first.running.page("/moves")
            return code == 200 and [move["pod"]["name"] for move in json.loads(text)["in_flight"]] == [name]

        async def recreated() -> bool:
            copies = await scene.copies(name)
            return [copy["metadata"]["uid"] == pod["metadata"]["uid"] for copy in copies] == [False]

        await wait_until(told, within=60, what="moves tells of it")
        await wait_until(recreated, within=60, what="it is recreated")
    finally:
        policy.write_text(text)
    assert await moved(scene, pod) == 1
    await ended(scene, pod)


async def test_a_pod_that_owns_others_is_moved_after_them(scene: Stage, first: Daemon) -> None:
    await wait_until(first.leads, what="it leads")
    pod = await begun(scene)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    meta = {"name": scene.name("executor"), "ownerReferences": [owner]}
    await scene.kube.client.create(scene.pods, {"metadata": meta, "spec": scene.spec(schedulerName="nobody")})
    await scene.cordon(pod["spec"]["nodeName"])

    async def held() -> bool:
        moves = json.loads(await asyncio.to_thread(first.running.elasticd, "moves", "--json"))
        return [(one["decision"]["pod"]["name"], one["reason"]) for one in moves["held_back"]] == [
            (owner["name"], "OwnsPods")
        ]

    await wait_until(held, within=60, what="it stays, and moves says why")
    assert await scene.read(f"{scene.pods}/{meta['name']}"), "and so does what it owns"
    await scene.kube.client.delete(f"{scene.pods}/{meta['name']}", grace=0)
    assert await moved(scene, pod) == 1
    await ended(scene, pod)


async def test_a_copy_that_does_not_start_stays_recorded_and_reported(
    scene: Stage, first: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod, copy = await leaving(scene, monkeypatch)
    name, node = pod["metadata"]["name"], copy["spec"]["nodeName"]
    wanted = f"{scene.namespace}/Pod/{name} was recreated and has yet to run, its record is ConfigMap "

    async def told() -> bool:
        return wanted in str((await first.running.status())["cluster"]["problems"])

    await wait_until(told, within=90, what="status tells of it")
    (shown,) = json.loads(await asyncio.to_thread(first.running.elasticd, "moves", "--json"))["in_flight"]
    assert (shown["pod"]["name"], shown["how"], shown["step"]) == (name, "anew", f"starting on {node}")
    assert "(ContainerCreating)" in shown["fault"]
    assert 'elasticd_moves_in_trouble{how="anew"} 1.0' in (await first.running.page("/metrics"))[1]
    assert f"starting on {node}" in await asyncio.to_thread(first.running.elasticd, "moves")
    assert [one["data"]["made"] for one in await scene.records()] == [copy["metadata"]["uid"]]
    starts(scene, monkeypatch, never=False)
    await deleted(scene, copy)
    assert await moved(scene, pod) == 1
    await ended(scene, pod)


async def test_copies_starting_on_a_deleted_node_are_recreated_elsewhere(
    scene: Stage, first: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The genuine garbage collector takes them away, after some 40 s."""
    await wait_until(first.leads, what="it leads")
    old, other = scene.nodes
    await scene.cordon(other)
    pods = [await scene.pod(scene.name("batch")) for _ in range(4)]
    assert {pod["spec"]["nodeName"] for pod in pods} == {old}
    doomed = NodeSpec(f"{scene.namespace}-doomed", labels={"pool": scene.namespace}, taints=[TAINT])
    monkeypatch.setattr(
        scene.kube.nodes, "startup", lambda pod: None if pod["spec"]["nodeName"] == doomed.name else 0.2
    )
    await scene.kube.nodes.add(doomed)
    await scene.cordon(old, other)
    copies = [await copy_on_node(scene, pod) for pod in pods]
    assert {copy["spec"]["nodeName"] for copy in copies} == {doomed.name}
    await scene.kube.nodes.remove(doomed.name)
    await scene.cordon(old)

    async def all_run() -> list[JSON]:
        found = [await scene.read(f"{scene.pods}/{pod['metadata']['name']}") for pod in pods]
        run = [pod for pod in found if pod and pod["status"].get("phase") == "Running"]
        return run if len(run) == len(pods) and not await scene.records() else []

    again = await wait_until(all_run, within=180, what="all run elsewhere, and their records are removed")
    assert {pod["spec"]["nodeName"] for pod in again} == {other}
    assert [without_ours(pod) for pod in again] == [without_ours(pod) for pod in pods]
    for pod in pods:
        await ended(scene, pod)


async def test_a_late_eviction_takes_no_pod_without_a_record(scene: Stage, first: Daemon) -> None:
    """The network delivers it after its daemon was killed, and another has removed the record of a pod that stays."""
    await wait_until(first.leads, what="it leads")
    pod = await begun(scene)
    await scene.killed(first.kill, first, ("evict", "late", 1), pod["spec"]["nodeName"])
    await scene.cordon()
    first.start()

    async def cleared() -> bool:
        return not await scene.records()

    await wait_until(cleared, within=60, what="the record is removed")
    assert await first.proxy.deliver() == 409
    stays = await scene.runs(pod["metadata"]["name"])
    assert stays["metadata"]["uid"] == pod["metadata"]["uid"]


async def test_a_refused_eviction_that_comes_again_late_is_refused(scene: Stage, first: Daemon) -> None:
    """A proxy has sent it twice; the second is on its way until the record of the pod is removed."""
    await wait_until(first.leads, what="it leads")
    pod = await begun(scene)
    first.proxy.denied = "evict"

    async def cleared() -> bool:
        return first.proxy.keeps and not await scene.records()

    try:
        await scene.cordon(pod["spec"]["nodeName"])
        await wait_until(cleared, what="it is refused, and the record is removed")
        await scene.cordon()
        assert await first.proxy.deliver() == 409
    finally:
        first.proxy.denied = ""
    stays = await scene.runs(pod["metadata"]["name"])
    assert stays["metadata"]["uid"] == pod["metadata"]["uid"]


@pytest.mark.parametrize(
    "says",
    [
        pytest.param("<html>no such backend</html>", id="a page"),
        pytest.param({"kind": "Status", "code": 404, "message": 'cluster "prod" not found'}, id="a Status of its own"),
    ],
)
async def test_a_404_instead_of_the_record_loses_no_pod(scene: Stage, first: Daemon, says: str | JSON) -> None:
    """A proxy has no way to the API server for a while, once the eviction was carried out."""
    await wait_until(first.leads, what="it leads")
    pod = await begun(scene)
    name = pod["metadata"]["name"]

    async def is_leaving() -> bool:
        found = await scene.read(f"{scene.pods}/{name}")
        return found is None or "deletionTimestamp" in found["metadata"]

    async with scene.never_lost(name):
        await scene.cordon(pod["spec"]["nodeName"])
        await wait_until(is_leaving, what="it is evicted", every=0.01)
        first.proxy.misrouted, first.proxy.misroutes_by = "/configmaps/elasticd-restore-", says
        await asyncio.sleep(5)
        first.proxy.misrouted = ""
        await scene.runs(name, not_uid=pod["metadata"]["uid"])
    await ended(scene, pod)


async def test_a_pod_whose_eviction_is_sent_twice_comes_back(scene: Stage, first: Daemon) -> None:
    """A proxy gives the second answer, 409: the first has changed the pod."""
    await wait_until(first.leads, what="it leads")
    pod = await begun(scene)
    first.proxy.twice = "evict"
    try:
        await scene.cordon(pod["spec"]["nodeName"])
        again = await scene.runs(pod["metadata"]["name"], not_uid=pod["metadata"]["uid"])
    finally:
        first.proxy.twice = ""
    assert again["spec"]["nodeName"] != pod["spec"]["nodeName"]
    await ended(scene, pod)
