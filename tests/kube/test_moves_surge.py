"""Pods of a Deployment are moved by making another first, on a genuine API server, by daemons that are killed at every
step and whose answers are cut off: never fewer are ready than before, and in the end there are as many, elsewhere.

When as many as before are ready without the pod, it is marked as the one to go; then it is evicted where controllers
heed no deletion costs (until 1.21), and elsewhere the count is lowered. A policy scales the same Deployment meanwhile.
`pytest -m e2e -s tests/kube/test_moves_surge.py` prints the times of which docs/measured.md has the longest.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from elasticd.cluster.kubernetes.write.pods import OTHERS_NOT_READY
from elasticd.journal import read
from elasticd.kit.surge import LEAST
from elasticd.model.placement import PodOutcome
from tests.kube.between import COST, SURGE, Moment
from tests.kube.client import JSON, wait_until
from tests.kube.conftest import Kube
from tests.kube.moving import Daemon, Stage, returned, stage, table

STEPS: Mapping[str, tuple[str, int]] = {
    "claim": ("claim up", 1),
    "one more": ("scale", 1),
    "wait": ("claim wait", 1),
    "mark": ("mark", 1),
    "turn": ("claim out", 1),
    "evict": ("evict", 1),
    "turn down": ("claim down", 1),
    "one fewer": ("scale", 2),
    "clear": ("clear", 1),
}
EVICTING = pytest.mark.until("1.21", "later controllers heed deletion costs")
MARKING = pytest.mark.since("1.22", "controllers heed deletion costs")
ONLY = {"turn": EVICTING, "evict": EVICTING, "turn down": MARKING}
COUNT = 2
MIN_READY = 6
FREEZE = "elasticd.io/freeze"
SCALER = """
mode = "act"
interval = 1
[select]
namespaces = ["{namespace}"]
[replicas]
min = 1
max = 9
[[strategy]]
type = "schedule"
default = 2
[[strategy.windows]]
name = "never"
start = "0 0 29 2 1"
duration = 60
replicas = 2
"""


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def scene(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The pool of all tests."""
    async with stage(kube, tmp_path_factory.mktemp("surge")) as made:
        yield made
        print("\n" + table(made.rows))


def scaler(scene: Stage) -> str:
    """The policy that wants two replicas, and nothing else."""
    return SCALER.format(namespace=scene.namespace)


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def first(scene: Stage) -> AsyncIterator[Daemon]:
    """A daemon."""
    async with scene.daemon("one", scaler=scaler(scene)) as one:
        yield one


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def pair(scene: Stage, first: Daemon) -> AsyncIterator[tuple[Daemon, Daemon]]:
    """It, and another that waits to lead."""
    async with scene.daemon("two", scaler=scaler(scene)) as other:
        yield first, other


class Web:
    """A Deployment whose pods are to leave a node."""

    def __init__(self, scene: Stage, name: str) -> None:
        self.scene, self.name, self.path = scene, name, f"{scene.deployments}/{name}"
        self.least = COUNT
        self.available: list[int] = []
        self.before: set[str] = set()
        self.node = ""

    async def pods(self) -> list[JSON]:
        """Those that are not going."""
        return [one for one in await self.scene.copies(self.name) if "deletionTimestamp" not in one["metadata"]]

    async def ready(self) -> list[JSON]:
        """Those that are ready."""
        return [one for one in await self.pods() if _ready(one)]

    async def all_ready(self) -> list[JSON]:
        """All of them, if they are; with one on each node.

        Two daemons that both lead, of which one saw a pod earlier than the other, may each bind one to the same node:
        then one is made again, which all of them place on the node that is left.
        """
        found = await self.ready()
        if len(found) < COUNT:
            return []
        if {one["spec"]["nodeName"] for one in found} == {*self.scene.nodes}:
            return found
        await self.scene.kube.client.delete(f"{self.scene.pods}/{found[0]['metadata']['name']}", grace=0)
        return []

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Note how few were ready."""

        async def look() -> None:
            while True:
                self.least = min(self.least, len(await self.ready()))
                await asyncio.sleep(0.05)

        task = asyncio.create_task(look())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def moved(self) -> int:
        """Wait until none is on the node and nothing is left behind; gives how many there are then."""

        async def done() -> bool:
            deployment, pods = await self.scene.kube.client.get(self.path), await self.ready()
            clear = SURGE not in deployment["metadata"].get("annotations", {})
            as_before = deployment["spec"]["replicas"] == deployment["status"].get("replicas") == len(pods) == COUNT
            return clear and as_before and self.node not in {one["spec"]["nodeName"] for one in pods}

        await wait_until(done, within=90, what=f"no pod of {self.name} is on {self.node}")
        pods = await self.pods()
        assert not any(COST in one["metadata"].get("annotations", {}) for one in pods)
        stayed = self.before & {one["metadata"]["uid"] for one in pods}
        assert len(stayed) == COUNT - 1, "only the one that was to go has gone"
        return len(pods)

    async def deployment(self) -> JSON:
        """It, as it is; notes how many pods of it are available."""
        deployment = await self.scene.kube.client.get(self.path)
        self.available.append(deployment["status"].get("availableReplicas", 0))
        return deployment

    async def is_available(self) -> bool:
        """Whether as many of its pods are available as it is to have."""
        await self.deployment()
        return self.available[-1] == COUNT

    async def waits(self) -> bool:
        """Whether a surge of it waits though all are ready, as they have not been for long enough."""
        deployment = await self.deployment()
        is_waiting = '"phase":"wait"' in deployment["metadata"].get("annotations", {}).get(SURGE, "")
        return is_waiting and len(await self.ready()) == COUNT + 1

    async def old(self) -> JSON:
        """The pod that is to leave its node."""
        (pod,) = [one for one in await self.pods() if one["spec"]["nodeName"] == self.node]
        return pod

    async def is_told(self, reason: str) -> bool:
        """Whether an Event of that pod says so."""
        path, uid = f"/api/v1/namespaces/{self.scene.namespace}/events", (await self.old())["metadata"]["uid"]
        events = await self.scene.kube.client.list(path, fieldSelector=f"involvedObject.uid={uid}")
        return any(event["reason"] == reason for event in events)

    async def without_note(self) -> JSON | None:
        """It, if there is no note of a surge."""
        deployment = await self.deployment()
        return None if SURGE in deployment["metadata"].get("annotations", {}) else deployment

    async def is_as_before(self) -> bool:
        """Whether its surge was taken back."""
        deployment = await self.deployment()
        clear = SURGE not in deployment["metadata"].get("annotations", {})
        return clear and deployment["spec"]["replicas"] == len(await self.pods()) == COUNT

    def counts(self) -> int:
        """How often its count was set by a daemon."""
        return self.scene.written("deployments", "scale", "patch").count(self.name)


def _ready(pod: JSON) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))


@asynccontextmanager
async def deployed(scene: Stage, **more: Any) -> AsyncIterator[Web]:
    """Two pods, one on each node; watched from then on. `more` is in the Deployment's spec."""
    await scene.cordon()
    web = Web(scene, scene.name("web"))
    meta = {"name": web.name, "labels": {"app": web.name}}
    labels = {"app": web.name}
    template = {"metadata": {"labels": labels}, "spec": scene.spec()}
    spec = {"replicas": COUNT, "selector": {"matchLabels": labels}, "template": template, **more}
    await scene.kube.client.create(scene.deployments, {"metadata": meta, "spec": spec})
    pods = await wait_until(web.all_ready, what=f"{web.name} is ready, on both nodes")
    web.before, web.node = {one["metadata"]["uid"] for one in pods}, scene.nodes[0]
    async with web.watched():
        yield web
    await scene.kube.client.delete(web.path)
    await wait_until(lambda: _none(web), what="its pods are gone")


async def _none(web: Web) -> bool:
    return not await web.scene.copies(web.name)


async def test_a_move_that_nobody_disturbs_takes_these_steps(scene: Stage, first: Daemon) -> None:
    async with deployed(scene) as web:
        first.proxy.passed.clear()
        began = time.monotonic()
        await scene.cordon(web.node)
        copies = await web.moved()
        scene.note("make before break", "-", "undisturbed", copies, web.counts(), began)
        marking = scene.kube.plane.version >= (1, 22)
        other = EVICTING if marking else MARKING
        steps = {name for step, (name, _) in STEPS.items() if ONLY.get(step) != other} | {"bind"}
        assert set(first.proxy.passed) == steps
        assert (copies, web.least, web.counts()) == (COUNT, COUNT, 2)
        assert len(scene.written("pods", "eviction")) == (0 if marking else 1)


def cuts(*moments: Moment) -> list[Any]:
    """Every step, at these moments."""
    return [
        pytest.param(step, moment, id=f"{moment} {step}", marks=ONLY.get(step, ()))
        for step in STEPS
        for moment in moments
    ]


@pytest.mark.parametrize(("step", "moment"), cuts("before", "after"))
async def test_a_restart_after_any_kill_leaves_as_many_pods(
    scene: Stage, first: Daemon, step: str, moment: Moment
) -> None:
    async with deployed(scene) as web:
        await wait_until(first.leads, what="it leads")
        name, nth = STEPS[step]
        began = await scene.killed(first.kill, first, (name, moment, nth), web.node)
        first.start()
        copies = await web.moved()
        scene.note("make before break", f"{moment} {step}", "killed, restart", copies, web.counts(), began)
        assert (copies, web.least, web.counts()) == (COUNT, COUNT, 2)


@pytest.mark.parametrize(("step", "moment"), cuts("lost", "undone"))
async def test_a_lost_answer_is_looked_up_so_nothing_happens_twice(
    scene: Stage, first: Daemon, step: str, moment: Moment
) -> None:
    async with deployed(scene) as web:
        await wait_until(first.leads, what="it leads")
        name, nth = STEPS[step]
        first.proxy.cut(name, moment, nth=nth)
        began = time.monotonic()
        await scene.cordon(web.node)
        copies = await web.moved()
        assert first.proxy.fired.is_set()
        said = "answer lost" if moment == "lost" else "request lost"
        scene.note("make before break", step, said, copies, web.counts(), began)
        assert (copies, web.least, web.counts()) == (COUNT, COUNT, 2)


@pytest.mark.parametrize(("step", "moment"), cuts("before", "after"))
async def test_a_takeover_after_any_kill_leaves_as_many_pods(
    scene: Stage, pair: tuple[Daemon, Daemon], step: str, moment: Moment
) -> None:
    victim = await scene.leader(*pair)
    async with deployed(scene) as web:
        name, nth = STEPS[step]
        began = await scene.killed(victim.kill, victim, (name, moment, nth), web.node)
        copies = await web.moved()
        victim.start()
        scene.note("make before break", f"{moment} {step}", "killed, take-over", copies, web.counts(), began)
        assert (copies, web.least, web.counts()) == (COUNT, COUNT, 2)


@pytest.mark.parametrize(("step", "moment"), cuts("undone", "lost"))
async def test_a_leader_away_at_a_step_changes_nothing_when_back(
    scene: Stage, pair: tuple[Daemon, Daemon], step: str, moment: Moment
) -> None:
    """It is stopped before a write, or cut off after it."""
    victim = await scene.leader(*pair)
    leave, back = (victim.stop, victim.wake) if moment == "undone" else (victim.part, victim.join)
    async with deployed(scene) as web:
        name, nth = STEPS[step]
        began = await scene.killed(leave, victim, (name, moment, nth), web.node)
        await web.moved()
        await returned(victim, pair, back)
        copies = await web.moved()
        how = "stopped" if moment == "undone" else "cut off"
        scene.note("make before break", f"at {step}", f"{how}, take-over, back", copies, web.counts(), began)
        assert (copies, web.least, web.counts()) == (COUNT, COUNT, 2)


async def test_what_forbids_a_move_meanwhile_keeps_its_pod(scene: Stage, first: Daemon) -> None:
    """All replacements are ready, and have yet to be so for as long as the Deployments ask for."""
    client = scene.kube.client
    async with AsyncExitStack() as stack:
        await wait_until(first.leads, what="it leads")
        free, spared, guarded = [
            await stack.enter_async_context(deployed(scene, minReadySeconds=MIN_READY)) for _ in range(3)
        ]
        for web in (free, spared, guarded):
            await wait_until(web.is_available, what=f"{web.name} is available")
            web.available.clear()
        await scene.cordon(free.node)
        for web in (free, spared, guarded):
            await wait_until(web.waits, what=f"a surge of {web.name} waits")
        old = f"{scene.pods}/{(await spared.old())['metadata']['name']}"
        await client.patch(old, {"metadata": {"annotations": {"elasticd.io/do-not-disrupt": "true"}}})
        (budget,) = await client.apply(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": guarded.name, "namespace": scene.namespace},
                "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": guarded.name}}},
            }
        )
        await wait_until(lambda: spared.is_told("DoNotDisrupt"), what="an Event says why it stays")
        await wait_until(spared.is_as_before, what="its surge is taken back")
        await wait_until(lambda: guarded.is_told("Budget"), what="an Event says what it waits for")
        await wait_until(free.is_as_before, what="the move of the other has ended")
        assert await free.moved() == COUNT
        assert {one["spec"]["nodeName"] for one in await spared.pods()} == {*scene.nodes}
        assert (await guarded.deployment())["spec"]["replicas"] == COUNT + 1
        await client.delete(await client.path_of(budget))
        assert await guarded.moved() == COUNT
        assert [web.least for web in (free, spared, guarded)] == [COUNT] * 3
        assert [min(web.available) for web in (free, spared, guarded)] == [COUNT] * 3


async def test_pods_of_another_deployment_end_no_surge_early(scene: Stage, first: Daemon) -> None:
    """A canary's pods have the labels by which the other Deployment selects its own."""
    client = scene.kube.client
    await wait_until(first.leads, what="it leads")
    async with deployed(scene) as web:
        canary = Web(scene, f"{web.name}-canary")
        labels = {"app": web.name, "track": "canary"}
        template = {"metadata": {"labels": labels}, "spec": scene.spec()}
        spec = {"replicas": COUNT, "selector": {"matchLabels": labels}, "template": template}
        await client.create(scene.deployments, {"metadata": {"name": canary.name}, "spec": spec})

        async def moved() -> bool:
            deployments = [await one.without_note() for one in (web, canary)]
            nodes = [one["spec"]["nodeName"] for one in await web.ready()]
            counts = [one and one["spec"]["replicas"] for one in deployments]
            return (
                counts == [COUNT, COUNT] and len(nodes) == len(await web.pods()) == 2 * COUNT and web.node not in nodes
            )

        web.node = ""
        await wait_until(moved, what="all pods of both are ready")
        canaries = [one["spec"]["nodeName"] for one in await web.pods() if "track" in one["metadata"]["labels"]]
        web.node, before = canaries[0], (web.counts(), canary.counts())
        await scene.cordon(web.node)
        await wait_until(moved, within=60, what=f"all pods have left {web.node}")
        assert web.counts() - before[0] == 2
        assert canary.counts() - before[1] == 2 * canaries.count(web.node)
        await client.delete(canary.path)


async def test_a_surge_whose_pod_is_isolated_is_taken_back(scene: Stage, first: Daemon) -> None:
    """As to look into it: it belongs to nobody then, and is moved as such a pod."""
    client = scene.kube.client
    await wait_until(first.leads, what="it leads")
    async with deployed(scene, minReadySeconds=MIN_READY) as web:
        await wait_until(web.is_available, what=f"{web.name} is available")
        await scene.cordon(web.node)
        await wait_until(web.waits, what="a surge of it waits")
        isolated = f"{scene.pods}/{(await web.old())['metadata']['name']}"
        await client.patch(isolated, {"metadata": {"labels": {"pod-template-hash": None}}})
        deployment: JSON = await wait_until(web.without_note, what="the note is removed")
        assert deployment["spec"]["replicas"] == COUNT

        async def left() -> bool:
            pod = await scene.read(isolated)
            return bool(pod) and _ready(pod) and pod["spec"]["nodeName"] != web.node and not await scene.records()

        await wait_until(left, what="it is moved as a pod without a controller")
        await client.delete(isolated)
        await wait_until(web.is_as_before, what="as many pods as before are left")


@EVICTING
async def test_a_pod_stays_whose_replacement_has_just_gone(scene: Stage, first: Daemon) -> None:
    """The daemon does not see that: its watch is late."""
    await wait_until(first.leads, what="it leads")
    async with deployed(scene) as web:

        async def lose_the_replacement() -> None:
            stack.enter_context(first.proxy.deaf_to("pods"))
            (new,) = [one for one in await web.pods() if one["metadata"]["uid"] not in web.before]
            await scene.kube.client.delete(f"{scene.pods}/{new['metadata']['name']}", grace=0)

        def refused() -> bool:
            records = read(first.running.folder / "state")
            return OTHERS_NOT_READY in [one.reason for one in records if isinstance(one, PodOutcome)]

        with ExitStack() as stack:
            await scene.killed(lose_the_replacement, first, ("claim out", "undone", 1), web.node)
            await wait_until(refused, what="the eviction is not sent")
        assert (await web.moved(), web.least) == (COUNT, COUNT)


async def test_a_rollback_after_a_surge_lowers_no_count(scene: Stage, first: Daemon) -> None:
    """It brings back the note of the surge, which the ReplicaSet has kept, as `kubectl rollout undo` does."""
    client = scene.kube.client
    await wait_until(first.leads, what="it leads")
    async with deployed(scene) as web:
        await scene.cordon(web.node)
        await web.moved()
        await scene.cordon()
        sets = await client.list(scene.deployments.replace("deployments", "replicasets"))
        (copy,) = [one for one in sets if one["metadata"]["ownerReferences"][0]["name"] == web.name]
        annotations = copy["metadata"]["annotations"]
        assert SURGE in annotations
        kept = {FREEZE: "down"}  # from the policy, which wants fewer
        spec = {"replicas": COUNT + 1, "template": {"metadata": {"annotations": {"next": "true"}}}}
        await client.patch(web.path, {"metadata": {"annotations": kept}, "spec": spec})
        undo = [
            {"op": "replace", "path": "/metadata/annotations", "value": {**annotations, **kept}},
            {"op": "replace", "path": "/spec/template", "value": copy["spec"]["template"]},
        ]
        undone = await client.patch(web.path, undo, kind="json", fieldManager="kubectl-rollout")
        assert SURGE in undone["metadata"]["annotations"]
        before = web.counts()
        deployment: JSON = await wait_until(web.without_note, what="the note is removed")
        assert (deployment["spec"]["replicas"], web.counts() - before) == (COUNT + 1, 0)


async def test_a_late_eviction_takes_no_pod_that_stays(scene: Stage, pair: tuple[Daemon, Daemon]) -> None:
    """The network delivers it after its daemon was killed, and another has taken the surge back."""
    client, victim = scene.kube.client, await scene.leader(*pair)
    async with deployed(scene) as web:
        # Where deletion costs count, pods are evicted only if another has the lowest too.
        (other,) = [one for one in await web.pods() if one["spec"]["nodeName"] != web.node]
        old = (await web.old())["metadata"]["uid"]
        cost = {"metadata": {"annotations": {COST: LEAST}}}
        await client.patch(f"{scene.pods}/{other['metadata']['name']}", cost, "merge")
        await scene.killed(victim.kill, victim, ("evict", "late", 1), web.node)
        await client.patch(web.path, {"metadata": {"annotations": {FREEZE: "both"}}}, "merge")
        await wait_until(web.is_as_before, within=90, what="it is taken back")
        assert await victim.proxy.deliver() == 409
        assert old in [one["metadata"]["uid"] for one in await web.ready()]
        assert web.least == COUNT
    victim.start()


async def test_two_daemons_believing_they_lead_set_no_count_twice(scene: Stage) -> None:
    """Each is told that it has the lease."""
    async with AsyncExitStack() as stack:
        both = [await stack.enter_async_context(scene.daemon(name, scaler=scaler(scene))) for name in ("left", "right")]
        for one in both:
            one.proxy.alone = True
        for one in both:
            await wait_until(one.leads, what="it believes to lead")
        for _ in range(3):
            async with deployed(scene) as web:
                began = time.monotonic()
                await scene.cordon(web.node)
                copies = await web.moved()
                assert all([await one.leads() for one in both])
                scene.note("make before break", "-", "two that lead", copies, web.counts(), began)
                assert (copies, web.least, web.counts()) == (COUNT, COUNT, 2)
