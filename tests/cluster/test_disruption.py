"""The one door: what is let through to a cluster, and what is not."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from elasticd.base.clock import VirtualClock
from elasticd.cluster.disruption import DisruptionGuard, DisruptionSettings
from elasticd.cluster.replacements import ECHO, REPLACING
from elasticd.cluster.rollouts import YOUNG
from elasticd.decision.disruption import refusal
from elasticd.journal import Journal
from elasticd.kit.calendars import Hours
from elasticd.kit.surge import SURGE, Note, Phase
from elasticd.model.actions import GIVES_WAY, OUTDATED, Action, Answer, Bind, Evict, Mark, Scale
from elasticd.model.listener import MoveTakenBack
from elasticd.model.moves import NAME_TAKEN, Underway
from elasticd.model.policy import MOST
from elasticd.model.workload import REVISION, Node, Pod, Quality, Ref, Series, Workload
from elasticd.ports.cluster import RECORDS, Kind
from tests.kit.clusters import Scripted, Shown
from tests.kit.pools import NOW, node, pod
from tests.kit.records import decision

WEB = Workload(Ref("shop", "Deployment", "web"), "uid-web", "1", 3, 3)
OTHER = Ref("shop", "Deployment", "other")
PODS = (pod("p0", on="a"), pod("p1", on="b"))


class Beside(Shown):
    """With pods of controllers that nobody watches."""

    loose: tuple[Pod, ...] = ()
    passes = 0
    """How often all were asked for."""

    gone: frozenset[Ref] = frozenset()

    def workload(self, ref: Ref) -> Workload | None:
        """Those whose series were decided about are there, unless they are gone."""
        return super().workload(ref) or (None if ref in self.gone else Workload(ref, ref.name, "1", 4))

    def pods(self, workload: Workload) -> tuple[Pod, ...]:
        return self._pods.get(workload.ref, ())

    def on_nodes(self) -> Mapping[str, Sequence[Pod]]:
        Beside.passes += 1
        return {"a": self.loose}


class Behind(Scripted):
    """A cluster that notes what comes through."""

    def __init__(self, nodes: Collection[Node], workload: Workload = WEB) -> None:
        super().__init__()
        self.nodes, self.workload = tuple(nodes), workload
        self.pods: tuple[Pod, ...] = PODS
        self.loose: tuple[Pod, ...] = ()
        self.gone: frozenset[Ref] = frozenset()
        self.done: list[Action] = []
        self.answer = Answer("done")
        self.lasts: Callable[[], Awaitable[object]] | None = None
        """What is waited for before the answer."""
        self.unread: Mapping[Kind, str] = {}
        self.away: Sequence[Underway] = ()

    def problems(self) -> Mapping[Kind, str]:
        return self.unread

    def restoring(self) -> Sequence[Underway]:
        return self.away

    async def observe(self, now: float, kinds: frozenset[tuple[str, str]]) -> Shown:
        seen = Beside((self.workload, self.pods), nodes=self.nodes)
        seen.loose, seen.gone = self.loose, self.gone
        return seen

    async def act(self, action: Action) -> Answer:
        self.done.append(action)
        if self.lasts is not None:
            await self.lasts()
        return self.answer


class Door:
    """Disruption budgets before a cluster, in virtual time."""

    def __init__(self, workload: Workload = WEB, journal: Journal | None = None, **table: Any) -> None:
        self.clock = VirtualClock(NOW)
        self.behind = Behind([node(name) for name in "abcd"], workload)
        self.measured: dict[str, Callable[[], tuple[int, int]]] = {}
        settings = DisruptionSettings(**table)
        self.disruption = DisruptionGuard(self.behind, settings, self.clock, self.measured, journal)

    async def look(self) -> None:
        await self.disruption.observe(self.clock.now(), frozenset())

    def refusal(self, *evictions: Evict) -> tuple[str, str] | None:
        return refusal(self.disruption.disruption(self.clock.now()), evictions)

    async def wait(self, seconds: float) -> None:
        await self.clock.sleep_until(self.clock.now() + seconds)
        await self.look()


def evict(name: str = "p0", on: str = "a", owner: str = "rs", namespace: str = "shop") -> Evict:
    return Evict(Ref(namespace, "Pod", name, "v1"), f"uid-{name}", on, owner=owner)


def moved(name: str, on: str = "a") -> Evict:
    """An eviction of a pod for whose replacement there is another place."""
    return replace(evict(name, on), target="c")


def scale(before: int, after: int, reason: str = "why") -> Scale:
    return Scale(WEB.ref, WEB.uid, "1", before, after, reason)


@pytest.mark.parametrize(
    ("table", "first", "second", "words"),
    [
        pytest.param({"per_node": 1}, evict(), evict("x", owner="other"), "of node a", id="node"),
        pytest.param({"per_controller": 1}, evict(), evict("x", on="b"), "of its controller", id="controller"),
        pytest.param({"per_namespace": 1}, evict(), evict("x", "b", "o"), "of namespace shop", id="namespace"),
        pytest.param({"total": 1}, evict(), evict("x", "b", "o", "bank"), "of the cluster", id="cluster"),
    ],
)
async def test_a_spent_budget_refuses_until_its_time_has_passed(
    table: dict[str, Any], first: Evict, second: Evict, words: str
) -> None:
    door = Door(**table)
    await door.look()
    assert (await door.disruption.act(first)).result == "done"
    refused = await door.disruption.act(second)
    assert (refused.result, refused.reason) == ("refused", "Disturbed")
    assert refused.message == f"1 pod {words} went within 60 s, and 1 may"
    await door.wait(60)
    assert (await door.disruption.act(second)).result == "done"


async def test_an_eviction_counts_from_when_it_is_done() -> None:
    door = Door(per_node=1)
    await door.look()
    door.behind.lasts = lambda: door.wait(30)  # the server was slow, or asked for a pause
    assert (await door.disruption.act(evict())).result == "done"
    assert door.refusal(evict("x", owner="other")) is not None
    await door.wait(59)
    assert door.refusal(evict("x", owner="other")) is not None
    await door.wait(1)
    assert door.refusal(evict("x", owner="other")) is None


async def test_an_eviction_under_way_counts_however_long_it_takes() -> None:
    door, gate = Door(per_node=1), asyncio.Event()
    await door.look()
    door.behind.lasts = gate.wait
    evicting = asyncio.create_task(door.disruption.act(evict()))
    await door.wait(600)
    assert door.refusal(evict("x", owner="other")) == ("Disturbed", "1 pod of node a went within 60 s, and 1 may")
    gate.set()
    assert (await evicting).result == "done"
    await door.wait(60)
    assert door.refusal(evict("x", owner="other")) is None


async def test_a_slow_eviction_that_is_refused_counts_no_more() -> None:
    door = Door(per_node=1)
    await door.look()
    door.behind.answer, door.behind.lasts = Answer("refused"), lambda: door.wait(30)
    await door.disruption.act(evict())
    assert door.refusal(evict("x", owner="other")) is None


@pytest.mark.parametrize(
    ("gone", "together", "message"),
    [
        pytest.param(0, 2, "", id="as many as may"),
        pytest.param(2, 1, "2 pods of node a went within 60 s, and 2 may", id="all have gone"),
        pytest.param(
            1, 2, "1 pod of node a went within 60 s, 2 would have to go at once, and 2 may", id="too many with those"
        ),
        pytest.param(
            0,
            3,
            "3 pods of node a would have to go at once, and 2 may: per_node of [disruption] never lets more go",
            id="more than ever may",
        ),
    ],
)
async def test_simultaneous_evictions_are_checked_together_against_the_budget(
    gone: int, together: int, message: str
) -> None:
    door = Door(per_node=2)
    await door.look()
    for index in range(gone):
        await door.disruption.act(evict(f"gone{index}", owner=f"g{index}"))
    said = door.refusal(*[evict(f"x{index}", owner=f"o{index}") for index in range(together)])
    assert said == (("Disturbed", message) if message else None)
    assert door.refusal(evict("one", owner="o")) == (
        None if gone < 2 else ("Disturbed", "2 pods of node a went within 60 s, and 2 may")
    ), "nobody is counted who only would have gone"


@pytest.mark.parametrize(
    ("answer", "then"),
    [
        pytest.param(Answer("refused", 429, "a budget", "Budget"), "done", id="refused: it was not done"),
        pytest.param(Answer("conflict", 409, "gone", "Conflict"), "done", id="conflict: it was not done"),
        pytest.param(Answer("failed", 0, "no reply", "NoReply"), "refused", id="failed: it may have been"),
    ],
)
async def test_what_was_not_done_is_not_counted(answer: Answer, then: str) -> None:
    door = Door(total=1)
    door.behind.answer = answer
    await door.disruption.act(evict())
    door.behind.answer = Answer("done")
    assert (await door.disruption.act(evict("x"))).result == then


async def test_a_pod_without_a_controller_counts_for_itself() -> None:
    door = Door(per_controller=1)
    assert [(await door.disruption.act(evict(name, owner=""))).result for name in "xyz"] == ["done"] * 3


BUSINESS = Hours(start="0 0 * * *", duration=86400.0)


async def test_a_blackout_stops_evictions_but_not_scaling_or_binding() -> None:
    door = Door(blackout=(BUSINESS,))
    assert (await door.disruption.act(evict())).reason == "Blackout"
    assert (await door.disruption.act(scale(3, 2))).result == "done"
    assert (await door.disruption.act(Bind(evict().workload, "u", "a"))).result == "done"


@pytest.mark.parametrize(
    ("workload", "reason"),
    [
        pytest.param(replace(WEB, rollout="1 of 3 updated"), "RollingOut", id="rollout"),
        pytest.param(WEB, "", id="at rest"),
    ],
)
async def test_no_pod_of_a_workload_in_rollout_is_moved(workload: Workload, reason: str) -> None:
    door = Door(workload)
    await door.look()
    assert (await door.disruption.act(evict())).reason == reason


def away(name: str, **changes: Any) -> Underway:
    """A pod without a controller that was evicted and does not run again yet."""
    return replace(Underway(Ref("shop", "Pod", name, "v1"), f"uid-{name}", "anew", "starting", NOW), **changes)


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        pytest.param([away("x"), away("y")], "NotReplaced", id="two do not run again yet"),
        pytest.param([away("x")], "", id="one does not"),
        pytest.param([away("x"), away("y", over=True)], "", id="one was given up"),
        pytest.param([away("x"), away("y", stays=True)], "", id="one stays after all"),
        pytest.param([away("x"), away("y", runs=True)], "", id="of one only the record is left"),
        pytest.param([away("x"), away("y", step=NAME_TAKEN)], "", id="another runs in place of one"),
        pytest.param([away("x"), away("y", why=f"{GIVES_WAY} shop/high")], "", id="one was preempted"),
        pytest.param([away("x"), away("y", pod=Ref("far", "Pod", "y", "v1"))], "", id="one is of another namespace"),
    ],
)
async def test_moved_pods_without_a_controller_are_waited_for(others: Sequence[Underway], reason: str) -> None:
    """Their copies may never start, as where a registry is down."""
    door = Door(per_controller=2)
    door.behind.away = others
    await door.look()
    assert (await door.disruption.act(replace(moved("p9"), owner=""))).reason == reason
    assert (await door.disruption.act(replace(evict("p8"), owner=""))).result == "done", "it is preempted"


@pytest.mark.parametrize(
    ("lost", "there", "after", "reason"),
    [
        pytest.param(600, ("x", "y"), 600, "", id="they are on a lost node"),
        pytest.param(599, ("x", "y"), 599, "NotReplaced", id="it may come back"),
        pytest.param(900, ("x", "y"), 599, "NotReplaced", id="they are so only of late"),
        pytest.param(1, ("x", "y"), 900, "NotReplaced", id="it is lost only of late"),
        pytest.param(600, ("x",), 600, "", id="one is, and the other is away"),
        pytest.param(600, (), 600, "NotReplaced", id="they have ended"),
        pytest.param(0, ("x", "y"), 600, "NotReplaced", id="their node is ready"),
    ],
)
@pytest.mark.parametrize("old", [True, False], ids=["the old pods do not end", "their copies do not start"])
async def test_bare_pods_that_a_lost_node_keeps_hold_no_other(
    lost: float, there: Sequence[str], after: float, reason: str, *, old: bool
) -> None:
    """Those of a node that has been lost for so long end when a person removes it: others can be drained before."""
    door = Door(per_controller=2)
    door.behind.loose = tuple(replace(pod(name, on="a"), deleted=old, uid=f"{name}-{old}") for name in there)
    door.behind.nodes = (replace(door.behind.nodes[0], ready=not lost), *door.behind.nodes[1:])
    await door.look()
    await door.wait(lost)
    door.behind.away = [away(name, since=door.clock.now() - after) for name in "xy"]
    await door.look()
    assert (await door.disruption.act(replace(moved("p9"), owner=""))).reason == reason


async def test_a_pod_that_is_being_evicted_is_away() -> None:
    """Before its record shows it: several are evicted at a time."""
    door, go = Door(per_controller=2), asyncio.Event()
    await door.look()
    door.behind.lasts = go.wait
    bare = [replace(moved(f"q{number}"), owner="") for number in range(3)]
    going = [asyncio.create_task(door.disruption.act(one)) for one in bare[:2]]
    await asyncio.sleep(0)
    assert (await door.disruption.act(bare[2])).reason == "NotReplaced"
    go.set()
    assert [(await one).result for one in going] == ["done", "done"]
    assert (await door.disruption.act(bare[2])).result == "done"


def of(revision: str, name: str, **changes: Any) -> Pod:
    """A StatefulSet's pod of a revision of its template; it was created long ago unless the test says otherwise."""
    made = {"on": "c", "ready": True, "created": NOW - YOUNG, "labels": {REVISION: revision}, **changes}
    return pod(name, **made)


YOUNG_ONE: dict[str, Any] = {"created": NOW - YOUNG + 10, "ready": False}
STOPPED: dict[str, Any] = {"new_revision": "new", "unfinished": True, "replaces_from": 2}
"""A rollout that ends at its partition."""
PAUSED = {**STOPPED, "replaces_from": 3}
"""It replaces none any more, as a person has raised the partition."""
ON_DELETE = {**STOPPED, "replaces_from": MOST}
UNDONE: dict[str, Any] = {"new_revision": "new"}
"""The template was changed back: the status counts too few, and says that it is over."""


@pytest.mark.parametrize(
    ("spec", "last", "why"),
    [
        pytest.param(STOPPED, of("new", "p-2"), "", id="it is ready"),
        pytest.param(STOPPED, of("new", "p-2", ready=False), "p-2 is not ready", id="it is not ready"),
        pytest.param(STOPPED, of("new", "p-2", ready=None), "p-2 is not ready", id="it has just begun"),
        pytest.param(STOPPED, of("new", "p-2", ready=False, on=""), "", id="it waits for room, as of a scale-out"),
        pytest.param(STOPPED, of("new", "p-2", deleted=True), "p-2 has yet to end", id="it ends"),
        pytest.param(STOPPED, of("new", "p-3", deleted=True), "", id="one ends that a scale-in removes"),
        pytest.param(PAUSED, of("old", "p-2", ready=False), "", id="an old one is not ready"),
        pytest.param(PAUSED, of("old", "p-2", **YOUNG_ONE), "p-2 is not ready", id="it was replaced by an old one"),
        pytest.param(ON_DELETE, of("old", "p-2", deleted=True), "p-2 has yet to end", id="a person deletes one"),
        pytest.param(ON_DELETE, of("new", "p-2", **YOUNG_ONE), "p-2 is not ready", id="it has just been created"),
        pytest.param(ON_DELETE, of("new", "p-2", ready=False), "", id="one fails long after, of which nothing tells"),
        pytest.param(UNDONE, of("old", "p-2"), "p-2 is of an earlier template", id="it will be replaced"),
        pytest.param(
            UNDONE, of("old", "p-2", deleted=True), "p-2 is of an earlier template", id="it is being replaced"
        ),
        pytest.param(UNDONE, of("new", "p-2", deleted=True), "", id="it is moved, and counts no longer"),
        pytest.param({**UNDONE, "replaces_from": 3}, of("old", "p-2"), "", id="below the partition"),
        pytest.param(UNDONE, of("old", "p-3"), "", id="one more than it should have"),
        pytest.param({}, of("new", "p-2", **YOUNG_ONE), "", id="without a rollout"),
    ],
)
async def test_no_pod_of_a_stateful_set_goes_during_its_rollout(spec: dict[str, Any], last: Pod, why: str) -> None:
    """Its status says nothing of it: it goes no further by itself, or goes back."""
    door = Door(replace(WEB, ref=replace(WEB.ref, kind="StatefulSet"), **spec))
    revision = "new" if spec == UNDONE else "old"
    door.behind.pods = (*(of(revision, name) for name in ("p-0", "p-1")), last)
    await door.look()
    refused = await door.disruption.act(evict("p-0", "c"))
    assert refused.message == (f"shop/StatefulSet/web is being rolled out: {why}" if why else "")
    assert refused.reason == ("RollingOut" if why else "")
    if not last.ready and "new" in last.labels.values():
        assert (await door.disruption.act(evict(last.name, "c"))).result == "done", "it is no loss"


@pytest.mark.parametrize(("seconds", "reason"), [(YOUNG - 1, "RollingOut"), (YOUNG, "")])
async def test_a_pod_that_never_ends_is_not_waited_for(seconds: float, reason: str) -> None:
    """Its node is lost. With OnDelete the rollout never is over."""
    door = Door(replace(WEB, ref=replace(WEB.ref, kind="StatefulSet"), **ON_DELETE))
    door.behind.pods = (of("new", "p-0"), of("new", "p-1"), of("new", "p-2", deleted=True))
    await door.look()
    await door.wait(seconds)
    assert (await door.disruption.act(evict("p-0", "c"))).reason == reason


async def test_the_last_pod_of_a_rollout_taken_back_is_awaited() -> None:
    """Once it is created the status is as if nothing had been; and after ten minutes it is one that fails."""
    door = Door(replace(WEB, ref=replace(WEB.ref, kind="StatefulSet"), **UNDONE))
    others = (of("new", "p-0"), of("new", "p-1"))
    door.behind.pods = (*others, of("old", "p-2", deleted=True))
    await door.look()
    door.behind.workload = replace(door.behind.workload, new_revision="")
    door.behind.pods = (*others, of("new", "p-2", ready=None, created=NOW))
    await door.wait(20)
    assert (await door.disruption.act(evict("p-0", "c"))).reason == "RollingOut"
    door.behind.pods = (*others, of("new", "p-2", created=NOW))
    await door.wait(20)
    assert (await door.disruption.act(evict("p-0", "c"))).reason == ""


@pytest.mark.parametrize(("preempts", "reason"), [(False, "RollingOut"), (True, "")])
async def test_who_preempts_waits_for_no_canary(preempts: bool, reason: str) -> None:
    """It may never be ready."""
    door = Door(replace(WEB, ref=replace(WEB.ref, kind="StatefulSet"), **STOPPED))
    door.behind.pods = (of("old", "p-0"), of("old", "p-1"), of("new", "p-2", ready=False))
    await door.look()
    action = evict("p-0", "c")
    action = replace(action, reason=f"{GIVES_WAY} shop/Pod/vip") if preempts else action
    assert (await door.disruption.act(action)).reason == reason


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        pytest.param(pod("p2", on="c", ready=False), "RollingOut", id="it starts"),
        pytest.param(pod("p2", ready=None), "RollingOut", id="it waits for a node"),
        pytest.param(pod("p2", on="c", ready=True), "", id="it is ready: the controller will say so"),
        pytest.param(pod("p2", on="c", ready=False, phase="Failed"), "", id="it was rejected, and another is there"),
    ],
)
async def test_the_last_pods_of_a_rollout_are_waited_for(last: Pod, reason: str) -> None:
    """No old pod is left, as with maxSurge 0, so nothing else says that it is under way."""
    door = Door(replace(WEB, unfinished=True))
    door.behind.pods = (*(replace(one, ready=True) for one in PODS), last)
    await door.look()
    assert (await door.disruption.act(evict())).reason == reason


async def test_no_pod_of_a_workload_being_scaled_is_moved() -> None:
    door = Door(replace(WEB, replicas=5, status_replicas=3))
    await door.look()
    await door.disruption.act(scale(3, 5))
    assert (await door.disruption.act(evict())).reason == "Scaling"
    await door.wait(61)
    assert (await door.disruption.act(evict())).reason == "NotReplaced"
    door.behind.workload = replace(WEB, replicas=5, status_replicas=5)
    await door.look()
    assert (await door.disruption.act(evict())).result == "done"


LEAVING, WAITING, ENDED = (
    replace(PODS[0], name="other", uid="uid-other", **change)
    for change in ({"deleted": True}, {"phase": "Pending", "node": ""}, {"phase": "Failed"})
)


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        pytest.param(PODS, "", id="all are there"),
        pytest.param((*PODS[1:], WAITING), "", id="one waits for a node"),
        pytest.param((*PODS[1:], WAITING, LEAVING), "", id="one is replaced and leaves"),
        pytest.param(PODS[1:], "NotReplaced", id="one is missing"),
        pytest.param((*PODS[1:], LEAVING), "NotReplaced", id="one leaves and is not replaced"),
        pytest.param((*PODS[1:], ENDED), "NotReplaced", id="one has ended"),
    ],
)
async def test_no_pod_goes_before_those_that_went_are_replaced(pods: tuple[Pod, ...], reason: str) -> None:
    """As with a quota, or a webhook that refuses new pods."""
    door = Door(replace(WEB, replicas=len(PODS), status_replicas=len(PODS) - 1))
    door.behind.pods = pods
    await door.look()
    answer = await door.disruption.act(evict("p1", on="b"))
    assert answer.reason == reason
    if reason:
        words = "1 of 2 pods of shop/Deployment/web are there: its controller has not replaced the others"
        assert answer.message == words


FOUR = tuple(pod(f"p{index}", on="a", ready=True) for index in range(4))
STARTING, REPLACED, BROKEN, SMALLER = (
    (*FOUR[1:], pod("new", on="b", ready=False)),
    (*FOUR[1:], pod("new", on="b", ready=True)),
    (*FOUR[2:], pod("new", on="b", ready=True), pod("p1", on="a", ready=False)),
    FOUR[1:],
)


@pytest.mark.parametrize(
    ("pods", "replicas", "seconds", "said"),
    [
        pytest.param(FOUR, 4, 59, "3 of 4", id="it has not been seen to leave"),
        pytest.param(FOUR, 4, 60, "", id="nor has it left for long: its eviction failed"),
        pytest.param(STARTING, 4, 3600, "3 of 4", id="what replaces it is not ready"),
        pytest.param(BROKEN, 4, 3600, "3 of 4", id="another is ready no more"),
        pytest.param(REPLACED, 4, 3600, "", id="what replaces it is ready"),
        pytest.param(SMALLER, 3, 3600, "", id="fewer are wanted"),
    ],
)
async def test_no_ready_pod_is_moved_before_those_moved_are_ready(
    pods: tuple[Pod, ...], replicas: int, seconds: float, said: str
) -> None:
    door = Door(replace(WEB, replicas=4, status_replicas=4))
    door.behind.pods = FOUR
    await door.look()
    assert (await door.disruption.act(moved("p0"))).result == "done"
    door.behind.pods, door.behind.workload = pods, replace(WEB, replicas=replicas, status_replicas=replicas)
    await door.wait(1)
    await door.wait(seconds - 1)
    answer = await door.disruption.act(moved("p2"))
    assert answer.reason == ("NotReplaced" if said else "")
    assert answer.message.startswith(f"{said} pods of shop/Deployment/web are ready" if said else "")
    assert (await door.disruption.act(evict("p3"))).result == "done", "who preempts is not held up by it"


RECENT, EARLIER = (pod("new", on="b", ready=True, ready_changed=NOW + at) for at in (1.0, 0.0))


@pytest.mark.parametrize(
    ("replacement", "said"),
    [
        pytest.param(RECENT, "3 of 4", id="ready too short a time"),
        pytest.param(EARLIER, "", id="ready long enough"),
        pytest.param(replace(EARLIER, ready_changed=0.0), "3 of 4", id="since when is not known"),
    ],
)
async def test_no_pod_is_moved_before_replacements_are_available(replacement: Pod, said: str) -> None:
    workload = replace(WEB, replicas=4, status_replicas=4, min_ready=40.0)
    door = Door(workload)
    door.behind.pods = before = tuple(pod(f"p{index}", on="a", ready=True, ready_changed=1.0) for index in range(4))
    await door.look()
    assert (await door.disruption.act(moved("p0"))).result == "done"
    door.behind.pods = (*before[1:], replacement)
    await door.wait(40)
    answer = await door.disruption.act(moved("p2"))
    ready = f"{said} pods of shop/Deployment/web are ready, for 40 s (minReadySeconds): "
    assert answer.message == (f"{ready}what replaces the others is not yet" if said else "")


@pytest.mark.parametrize(
    ("action", "ordered", "reason"),
    [
        pytest.param(moved("web-10"), True, "NotReplaced", id="behind it"),
        pytest.param(moved("web-10"), False, "", id="in any order"),
        pytest.param(moved("web-1"), True, "", id="before it"),
        pytest.param(moved("web-2"), True, "", id="the one that is not ready"),
        pytest.param(moved("web-5"), True, "", id="not ready either"),
        pytest.param(evict("web-10"), True, "", id="preempted"),
    ],
)
async def test_no_stateful_pod_goes_whose_predecessor_is_not_ready(action: Evict, ordered: bool, reason: str) -> None:
    ref = Ref("shop", "StatefulSet", "web")
    door = Door(Workload(ref, "rs", "1", 11, 11, ordered=ordered))
    door.behind.pods = tuple(pod(f"web-{index}", on="a", ready=index not in {2, 5}) for index in range(11))
    await door.look()
    answer = await door.disruption.act(action)
    why = "web-2 is not available, and shop/StatefulSet/web would not create it again before"
    assert (answer.reason, answer.message) == (reason, why if reason else "")


@pytest.mark.parametrize(
    ("kind", "ready", "seconds", "reason"),
    [
        pytest.param("ReplicationController", 3, 1, "NotReplaced", id="what replaces it is not ready"),
        pytest.param("apps.kruise.io/v1alpha1/CloneSet", 3, 1, "NotReplaced", id="of a CloneSet neither"),
        pytest.param("ReplicationController", 4, 1, "", id="it is ready"),
        pytest.param("ReplicationController", 3, REPLACING, "", id="it never is: perhaps fewer are wanted"),
        pytest.param("Job", 3, 1, "", id="of a Job, whose pods end"),
    ],
)
async def test_pods_of_an_unwatched_controller_wait_too(kind: str, ready: int, seconds: float, reason: str) -> None:
    door = Door()
    mine = [replace(pod(f"r{index}", on="a", ready=True), owner=(kind, "rc", "rc")) for index in range(5)]
    door.behind.loose = tuple(mine[:4])
    await door.look()
    assert (await door.disruption.act(replace(moved("r0"), owner="rc"))).result == "done"
    at_once = "" if kind == "Job" else "NotReplaced"
    assert (await door.disruption.act(replace(moved("r1"), owner="rc"))).reason == at_once
    door.behind.loose = tuple(mine[1 : ready + 1])
    await door.wait(seconds)
    assert (await door.disruption.act(replace(moved("r2"), owner="rc"))).reason == reason


async def test_all_unwatched_controllers_cost_one_pass_over_pods() -> None:
    passes = []
    for count in (1, 8):
        door = Door(per_node=9, per_controller=9)
        mine = [replace(pod(f"r{n}", on="a", ready=True), owner=("CloneSet", f"c{n}", f"c{n}")) for n in range(count)]
        door.behind.loose = tuple(mine)
        await door.look()
        for index in range(count):
            assert (await door.disruption.act(replace(moved(f"r{index}"), owner=f"c{index}"))).result == "done"
        door.behind.loose = tuple(replace(pod, ready=False) for pod in mine)
        await door.look()
        Beside.passes = 0
        door.disruption.disruption(door.clock.now())
        passes.append(Beside.passes)
    assert passes[0] == passes[1]


async def test_a_watched_controller_is_not_taken_for_an_unwatched_one() -> None:
    """What its ReplicaSet had before is not wanted when the Deployment is smaller."""
    door = Door(replace(WEB, replicas=4, status_replicas=4))
    door.behind.pods = door.behind.loose = tuple(replace(pod, owner=("ReplicaSet", "web-1", "rs")) for pod in FOUR)
    await door.look()
    assert (await door.disruption.act(moved("p0"))).result == "done"
    door.behind.workload = replace(WEB, replicas=3, status_replicas=3)
    door.behind.pods = door.behind.loose = door.behind.pods[1:]
    await door.wait(ECHO)
    await door.wait(ECHO)
    assert (await door.disruption.act(moved("p1"))).reason == ""


@pytest.mark.parametrize("owner", ["rs", "rc"], ids=["watched", "not watched"])
async def test_a_refused_move_is_none(owner: str) -> None:
    door = Door(replace(WEB, replicas=4, status_replicas=4))
    door.behind.pods = FOUR if owner == "rs" else ()
    door.behind.loose = tuple(replace(pod, owner=("ReplicationController", "rc", "rc")) for pod in FOUR)
    door.behind.answer = Answer("refused", 429, "a budget", "Budget")
    await door.look()
    await door.disruption.act(replace(moved("p0"), owner=owner))
    door.behind.answer = Answer("done")
    assert (await door.disruption.act(replace(moved("p1"), owner=owner))).result == "done"


async def test_pods_that_only_became_ready_are_moved_one_by_one() -> None:
    """None is available yet, so none of those that go is missed by that; but they serve."""
    door = Door(replace(WEB, replicas=4, status_replicas=4, min_ready=40.0))
    door.behind.pods = tuple(pod(f"p{index}", on="a", ready=True, ready_changed=NOW - 1) for index in range(4))
    await door.look()
    assert [(await door.disruption.act(moved(name))).reason for name in ("p0", "p1")] == ["", "NotReplaced"]


async def test_an_unready_pod_is_moved_whatever_is_ready() -> None:
    door = Door(replace(WEB, replicas=4, status_replicas=4))
    door.behind.pods = FOUR
    await door.look()
    await door.disruption.act(moved("p0"))
    door.behind.pods = STARTING
    await door.look()
    assert (await door.disruption.act(moved("new", on="b"))).result == "done"


async def test_of_many_pods_a_tenth_is_moved_at_once() -> None:
    door = Door(replace(WEB, replicas=30, status_replicas=30), per_node=30, per_controller=30)
    door.behind.pods = tuple(pod(f"p{index}", on="a", ready=True) for index in range(30))
    await door.look()
    answers = [await door.disruption.act(moved(f"p{index}")) for index in range(5)]
    assert [answer.reason for answer in answers] == ["", "", "", "NotReplaced", "NotReplaced"]


async def test_a_pod_that_was_not_moved_after_all_is_there() -> None:
    door = Door(replace(WEB, replicas=4, status_replicas=4))
    door.behind.pods, door.behind.answer = FOUR, Answer("refused", 429, "a budget", "Budget")
    await door.look()
    await door.disruption.act(moved("p0"))
    door.behind.answer = Answer("done")
    assert (await door.disruption.act(moved("p1"))).result == "done"


async def test_of_many_pods_of_an_unwatched_controller_too() -> None:
    door = Door(per_node=30, per_controller=30)
    owner = ("ReplicationController", "rc", "rc")
    door.behind.loose = tuple(replace(pod(f"r{index}", on="a", ready=True), owner=owner) for index in range(30))
    await door.look()
    answers = [await door.disruption.act(replace(moved(f"r{index}"), owner="rc")) for index in range(5)]
    assert [answer.reason for answer in answers] == ["", "", "", "NotReplaced", "NotReplaced"]


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        pytest.param(20, "NotReplaced", id="while it is asked for"),
        pytest.param(30 + ECHO - 1, "NotReplaced", id="right after that"),
        pytest.param(30 + ECHO, "", id="a while after that"),
    ],
)
async def test_no_deployment_shrinks_right_after_a_slow_eviction(at: float, reason: str) -> None:
    """Its controller learns that the pod goes when the server answers, which may be slow."""
    door = Door(replace(WEB, replicas=4, status_replicas=4))
    door.behind.pods = FOUR
    await door.look()
    answers: list[Answer] = []

    async def shrink() -> None:
        door.behind.lasts = None
        answers.append(await door.disruption.act(scale(4, 3)))

    async def slow() -> None:
        if at < 30:
            await door.wait(at)
            await shrink()
        await door.clock.sleep_until(NOW + 30)

    door.behind.lasts = slow
    await door.disruption.act(moved("p0"))
    door.behind.pods = STARTING
    if at >= 30:
        await door.wait(at - 30)
        await shrink()
    assert [answer.reason for answer in answers] == [reason]


async def test_a_move_that_is_refused_delays_nothing_longer() -> None:
    door = Door(replace(WEB, replicas=4, status_replicas=4))
    door.behind.pods = FOUR
    await door.look()
    await door.disruption.act(moved("p0"))
    door.behind.pods = STARTING
    await door.wait(ECHO - 1)
    door.behind.answer = Answer("refused", 429, "a budget", "Budget")
    assert (await door.disruption.act(moved("new", "b"))).reason == "Budget"
    door.behind.answer = Answer("done")
    await door.wait(1)
    assert (await door.disruption.act(scale(4, 3))).result == "done"


STATEFUL = Ref("shop", "StatefulSet", "web")


def numbered(pods: Collection[Pod]) -> tuple[Pod, ...]:
    """The pods under names that a StatefulSet gives them; the new one is the first."""
    return tuple(replace(pod, name=f"web-{pod.name[1:]}") for pod in pods)


@pytest.mark.parametrize(
    ("ref", "pods", "after", "seconds", "reason"),
    [
        pytest.param(STATEFUL, FOUR, 3, 1, "NotReplaced", id="it has not been seen to leave"),
        pytest.param(STATEFUL, FOUR, 3, 60, "", id="nor has it left for long: its eviction failed"),
        pytest.param(STATEFUL, STARTING, 3, REPLACING - 1, "NotReplaced", id="what replaces it is not ready"),
        pytest.param(STATEFUL, STARTING, 3, REPLACING, "", id="nor will it be"),
        pytest.param(STATEFUL, STARTING, 5, 1, "", id="more are wanted"),
        pytest.param(STATEFUL, REPLACED, 3, 1, "", id="what replaces it is ready"),
        pytest.param(WEB.ref, STARTING, 3, ECHO - 1, "NotReplaced", id="of a Deployment, which may not know yet"),
        pytest.param(WEB.ref, STARTING, 3, ECHO, "", id="of a Deployment, which loses the unready one"),
    ],
)
async def test_no_ready_pod_is_scaled_in_before_the_moved_returns(
    ref: Ref, pods: tuple[Pod, ...], after: int, seconds: float, reason: str
) -> None:
    door = Door(Workload(ref, "uid-web", "1", 4, 4))
    door.behind.pods = numbered(FOUR)
    await door.look()
    assert (await door.disruption.act(moved("p0"))).result == "done"
    door.behind.pods = numbered(pods)
    await door.wait(seconds)
    answer = await door.disruption.act(replace(scale(4, after), workload=ref))
    assert answer.reason == reason
    assert answer.message == (f"3 of 4 pods of {ref} are ready: a ready one would be removed" if reason else "")


@pytest.mark.parametrize(
    ("name", "why", "reason"),
    [
        pytest.param("p0", "why", "NotReplaced", id="it stays, and the last, which is ready, goes"),
        pytest.param("p3", "why", "", id="it goes"),
        pytest.param("p0", "RolledBack: it went bad", "", id="a bad change is taken back"),
    ],
)
async def test_a_moved_pod_delays_only_what_costs_others(name: str, why: str, reason: str) -> None:
    door = Door(Workload(STATEFUL, "uid-web", "1", 4, 4))
    door.behind.pods = numbered(FOUR)
    await door.look()
    assert (await door.disruption.act(moved(name))).result == "done"
    door.behind.pods = numbered([replace(pod, ready=pod.name != name) for pod in FOUR])
    await door.wait(1)
    assert (await door.disruption.act(replace(scale(4, 3, why), workload=STATEFUL))).reason == reason


@pytest.mark.parametrize(
    ("before", "answer", "reason"),
    [
        pytest.param(4, Answer("done"), "Scaling", id="scaled in"),
        pytest.param(4, Answer("done", 409), "Scaling", id="scaled in, and answered 409"),
        pytest.param(4, Answer("failed", 403, reason="Forbidden"), "", id="not scaled in: it may not be"),
        pytest.param(4, Answer("conflict", 409, reason="Conflict"), "", id="not scaled in: somebody else was first"),
        pytest.param(2, Answer("done"), "", id="scaled out"),
    ],
)
async def test_no_pod_is_moved_right_after_a_scale_in(before: int, answer: Answer, reason: str) -> None:
    """Its controller has done it, and the PodDisruptionBudget may not have been counted again."""
    door = Door()
    await door.look()
    door.behind.answer = answer
    door.behind.lasts = partial(door.clock.sleep_until, NOW + 10.0)
    await door.disruption.act(scale(before, 3))
    door.behind.answer = Answer("done")
    await door.wait(ECHO - 1)
    assert (await door.disruption.act(moved("p0"))).reason == reason
    await door.wait(1)
    assert (await door.disruption.act(moved("p1", "b"))).reason == ""


@pytest.mark.parametrize(
    ("after", "changes", "seconds", "reason"),
    [
        pytest.param(2, False, REPLACING - 1, "Scaling", id="it names the version that there is"),
        pytest.param(2, False, REPLACING, "", id="not for ever"),
        pytest.param(2, True, 60, "", id="it names an earlier version by now"),
        pytest.param(4, False, 60, "", id="a scale-out"),
    ],
)
async def test_no_pod_moves_while_a_lost_scale_in_may_come(
    after: int, changes: bool, seconds: float, reason: str
) -> None:
    """The network may deliver it long after elasticd has given it up."""
    door = Door()
    await door.look()
    door.behind.answer = Answer("failed", 0, reason="NoReply")
    await door.disruption.act(scale(3, after))
    door.behind.answer = Answer("done")
    if changes:
        door.behind.workload = replace(WEB, version="2")
    await door.wait(seconds)
    assert (await door.disruption.act(moved("p0"))).reason == reason


async def test_no_pod_is_moved_right_after_a_late_scale_in() -> None:
    """Its controller was away when somebody lowered the count, and does it only now."""
    door = Door(replace(WEB, replicas=2))
    await door.look()
    await door.wait(60)
    assert (await door.disruption.act(moved("p0"))).reason == "Scaling"
    door.behind.workload = replace(WEB, replicas=2, status_replicas=2)
    await door.wait(ECHO - 1)
    assert (await door.disruption.act(moved("p0"))).reason == "Scaling"
    await door.wait(1)
    assert (await door.disruption.act(moved("p0"))).result == "done"


@pytest.mark.parametrize(("kind", "reason"), [("Deployment", "Scaling"), ("Job", "")])
async def test_no_pod_is_moved_right_after_somebody_elses_scale_in(kind: str, reason: str) -> None:
    """Such as an HPA's, which its controller may carry out between two looks. Of a set of Jobs one has ended."""
    workload = replace(WEB, ref=replace(WEB.ref, kind=kind))
    door = Door(workload)
    await door.look()
    door.behind.workload = replace(workload, replicas=2, status_replicas=2)
    await door.wait(0.1)
    assert (await door.disruption.act(moved("p1", "b"))).reason == reason
    await door.wait(ECHO)
    assert (await door.disruption.act(moved("p0"))).result == "done"


@pytest.mark.parametrize(
    ("kind", "owner", "reason"),
    [
        pytest.param("StatefulSet", ("StatefulSet", "db", "rs"), "ControllersUnread", id="its own kind"),
        pytest.param("Deployment", ("ReplicaSet", "web-1", "rs"), "ControllersUnread", id="that of its ReplicaSet"),
        pytest.param("StatefulSet", ("ReplicaSet", "web-1", "rs"), "", id="another"),
    ],
)
async def test_no_pod_is_moved_whose_controllers_cannot_be_read(
    kind: str, owner: tuple[str, str, str], reason: str
) -> None:
    """How many of them are wanted, and in which order it creates them, is not known."""
    door = Door()
    door.behind.loose = (pod("p0", on="a", owner=owner),)
    door.behind.unread = {("apps/v1", kind): f"{kind} is forbidden"}
    await door.look()
    answer = await door.disruption.act(moved("p0"))
    assert answer.reason == reason
    assert f"{kind} is forbidden" in answer.message or not reason
    assert (await door.disruption.act(evict("p0"))).result == "done", "preemption does not wait"


@pytest.mark.parametrize(("owner", "reason"), [("", "RecordsUnread"), ("rs", "")])
async def test_no_bare_pod_is_moved_while_records_are_unread(owner: str, reason: str) -> None:
    """After a restart only they tell how many are away."""
    door = Door()
    door.behind.loose = (pod("p0", on="a", owner=("ReplicaSet", "rs", owner) if owner else ("", "", "")),)
    door.behind.unread = {RECORDS: "they cannot be listed: 500"}
    await door.look()
    answer = await door.disruption.act(replace(moved("p0"), owner=owner))
    assert (answer.reason, answer.message) == (reason, "they cannot be listed: 500" if reason else "")
    assert (await door.disruption.act(replace(evict("p0"), owner=owner))).result == "done", "preemption does not wait"


async def test_a_stuck_rollout_keeps_no_pod_for_ever() -> None:
    """Its Deployment has one pod more than it should, for as long as nobody mends it."""
    door = Door(replace(WEB, status_replicas=4))
    await door.look()
    await door.wait(REPLACING - 1)
    answer = await door.disruption.act(moved("p0"))
    assert (answer.reason, answer.message) == ("Scaling", "shop/Deployment/web has 4 pods, and is to have 3")
    for _ in range(3):
        await door.wait(ECHO)
    assert (await door.disruption.act(moved("p0"))).result == "done"


@pytest.mark.parametrize("answer", [Answer("conflict", 409), Answer("failed", 403)], ids=["conflict", "refused"])
async def test_a_scale_in_in_vain_hides_no_other(answer: Answer) -> None:
    """An HPA was first."""
    door = Door()
    await door.look()
    door.behind.workload = replace(WEB, replicas=2, status_replicas=2)
    await door.wait(1)
    door.behind.answer = answer
    await door.disruption.act(scale(3, 2))
    door.behind.answer = Answer("done")
    assert (await door.disruption.act(moved("p0"))).reason == "Scaling"


@pytest.mark.parametrize("begins", [False, True], ids=["a scale-in", "a surge"])
async def test_no_pod_is_moved_while_a_change_is_asked_for(begins: bool) -> None:
    """As where a webhook takes its time."""
    door, reasons = Door(), list[str]()
    await door.look()

    async def move_meanwhile() -> None:
        door.behind.lasts = None
        await door.wait(2 * ECHO)
        reasons.append((await door.disruption.act(moved("p0"))).reason)

    door.behind.lasts = move_meanwhile
    asked = replace(surge(), uid=WEB.uid) if begins else scale(3, 2)
    reason = "BeingMoved" if begins else "Scaling"
    assert (await door.disruption.act(asked)).result == "done"
    assert reasons == [reason]
    await door.wait(ECHO - 1)
    assert (await door.disruption.act(moved("p1", "b"))).reason == reason
    await door.wait(1)
    assert (await door.disruption.act(moved("p1", "b"))).reason == ""


async def test_no_pod_is_evicted_right_after_a_surge_begins() -> None:
    """As where policies of two pools look at the Deployment at once: the snapshot does not show its annotation yet."""
    door = Door()
    await door.look()
    assert (await door.disruption.act(replace(surge(), uid=WEB.uid))).result == "done"
    assert (await door.disruption.act(moved("p1", "b"))).reason == "BeingMoved"
    await door.wait(ECHO)
    assert (await door.disruption.act(moved("p1", "b"))).reason == ""


@pytest.mark.parametrize(
    ("phase", "after", "reason"),
    [
        pytest.param("back", 2, "", id="fewer than before the move"),
        pytest.param("back", 3, "BeingMoved", id="as many: its replica is taken back after the rollout"),
        pytest.param("wait", 2, "BeingMoved", id="not taken back yet"),
    ],
)
async def test_a_move_that_waits_for_a_rollout_gives_way(phase: Phase, after: int, reason: str) -> None:
    note = Note("p0", "p0", "a", 3, phase, NOW, NOW + 300)
    annotations = {SURGE: msgspec.json.encode(note).decode()}
    door = Door(replace(WEB, annotations=annotations, replicas=4, rollout="1 of 4 pods"))
    await door.look()
    assert (await door.disruption.act(scale(4, after))).reason == reason


async def test_only_the_mover_shrinks_a_workload_with_moving_pods() -> None:
    door = Door(replace(WEB, annotations={SURGE: "p0"}))
    await door.look()
    assert (await door.disruption.act(scale(4, 3))).reason == "BeingMoved"
    assert (await door.disruption.act(scale(4, 9))).result == "done"
    assert (await door.disruption.act(scale(4, 3, f"{SURGE}: done"))).result == "done"


@pytest.mark.parametrize(
    ("gone", "text"),
    [
        pytest.param(0, "2 of 4 nodes are ready", id="not ready"),
        pytest.param(1, "2 of 4 nodes are ready; 1 disappeared within 10 minutes", id="not ready or gone"),
        pytest.param(2, "2 of 4 nodes are ready; 2 disappeared within 10 minutes", id="gone"),
    ],
)
async def test_breaker_stops_eviction_and_shrinking_when_half_the_nodes_fail(gone: int, text: str) -> None:
    door = Door()
    await door.look()
    nodes = door.behind.nodes
    door.behind.nodes = (*nodes[:2], *[replace(one, ready=False) for one in nodes[2 : 4 - gone]])
    await door.wait(10)
    refused = await door.disruption.act(evict())
    assert (refused.reason, refused.message) == ("Breaker", text)
    assert (await door.disruption.act(scale(3, 2))).reason == "Breaker"
    assert (await door.disruption.act(scale(3, 4))).result == "done"


async def test_nodes_that_went_long_ago_are_not_missed() -> None:
    door = Door()
    await door.look()
    door.behind.nodes = door.behind.nodes[:2]
    for _ in range(70):
        await door.wait(10)
    assert (await door.disruption.act(evict())).result == "done"


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        pytest.param((10, 10), (5, 10), "Breaker", id="half of them at once"),
        pytest.param((10, 10), (6, 10), "", id="less than half"),
        pytest.param((5, 10), (5, 10), "", id="they never could be"),
        pytest.param((0, 10), (0, 10), "", id="none ever could be"),
        pytest.param((10, 10), (0, 10), "Breaker", id="all of them at once"),
        pytest.param((10, 10), (4, 4), "", id="the others are not looked at any more"),
        pytest.param((3, 3), (0, 3), "", id="too few to be a sign"),
    ],
)
async def test_breaker_stops_eviction_when_half_of_the_series_are_lost(
    before: tuple[int, int], now: tuple[int, int], reason: str
) -> None:
    door = Door()
    door.measured["series"] = lambda: before
    await door.look()
    door.measured["series"] = lambda: now
    await door.wait(10)
    assert (await door.disruption.act(evict())).reason == reason


async def test_what_nodes_use_is_missed_for_itself() -> None:
    door = Door()
    door.measured |= {"series": lambda: (1000, 1000), "series of nodes": lambda: (8, 8)}
    await door.look()
    door.measured["series of nodes"] = lambda: (4, 8)
    await door.wait(10)
    refused = await door.disruption.act(evict())
    said = "4 of 8 series of nodes can be trusted, and 8 could be before"
    assert (refused.reason, refused.message) == ("Breaker", said)


@pytest.mark.parametrize("left", [0, 3])
async def test_series_that_went_long_ago_are_not_missed(left: int) -> None:
    door = Door()
    door.measured["series"] = lambda: (10, 10)
    await door.look()
    door.measured["series"] = lambda: (left, 10)
    await door.wait(10)
    assert (await door.disruption.act(evict())).reason == "Breaker"
    for _ in range(70):
        await door.wait(10)
    assert (await door.disruption.act(evict())).result == "done"


def surge(phase: Phase = "up", name: str = "p0") -> Mark:
    """A note that says how far a move is."""
    note = Note(name, f"uid-{name}", "a", 3, phase, NOW, NOW + 60)
    return Mark(WEB.ref, WEB.uid, {SURGE: msgspec.json.encode(note).decode()}, reason=SURGE)


KNOWN = Series("q", "s", Quality.FRESH)
LOST_SERIES, FAILED = replace(KNOWN, presumed=True), replace(KNOWN, quality=Quality.ERROR)


def decide(journal: Journal, at: float, lost: int, of: int = 20, gone: Series = LOST_SERIES, **changes: Any) -> None:
    """Decide about so many workloads, of which the last ones have lost their series."""
    for number in range(of):
        series = KNOWN if number < of - lost else gone
        journal.append(decision(at, workload=Ref("shop", "Deployment", f"w{number}"), series=(series,), **changes))


FALL = replace(scale(4, 1), workload=Ref("shop", "Deployment", "w0"))


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        pytest.param(0, "", id="nothing"),
        pytest.param(1, "", id="one alone: perhaps nothing is needed"),
        pytest.param(9, "", id="less than half"),
        pytest.param(10, "Breaker", id="half"),
        pytest.param(20, "Breaker", id="all"),
    ],
)
async def test_no_count_falls_while_half_of_the_series_are_lost(lost: int, reason: str) -> None:
    journal = Journal()
    door = Door(journal=journal)
    await door.look()
    decide(journal, NOW, lost=0)
    await door.wait(5)
    decide(journal, door.clock.now(), lost)
    assert (await door.disruption.act(FALL)).reason == reason
    assert (await door.disruption.act(replace(FALL, after=5))).result == "done", "it may rise"


@pytest.mark.parametrize(
    ("first", "then", "after", "reason"),
    [
        pytest.param(12, 8, 5.0, "Breaker", id="some are back"),
        pytest.param(12, 1, 5.0, "Breaker", id="all but one are back"),
        pytest.param(12, 0, 5.0, "", id="all are back"),
        pytest.param(12, 1, 610.0, "", id="one is gone for good"),
        pytest.param(9, 8, 5.0, "", id="they were less than half"),
    ],
)
@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
async def test_what_was_lost_together_counts_until_it_is_back(
    tmp_path: Path, first: int, then: int, after: float, reason: str, *, restarted: bool
) -> None:
    """A Prometheus comes back without its data, and then one series after the other."""
    journal = Journal(tmp_path)
    door = Door(journal=journal)
    await door.look()
    decide(journal, NOW, lost=0)
    decide(journal, NOW + 1, lost=first)
    await door.wait(6)
    decide(journal, NOW + 6, lost=then)
    if restarted:
        journal.close()
        journal = Journal(tmp_path)
        door = Door(journal=journal)
    await door.wait(after)
    refused = await door.disruption.act(FALL)
    journal.close()
    said = f"not back yet of the series that were lost together within 10 minutes: {then}"
    assert (refused.reason, refused.message) == (reason, said if reason else "")


async def after_a_loss(journal: Journal, still: int) -> Door:
    """Twelve of twenty series were lost together, and so many still are."""
    door = Door(journal=journal)
    await door.look()
    decide(journal, NOW, lost=0)
    decide(journal, NOW + 1, lost=12)
    await door.wait(6)
    decide(journal, door.clock.now(), lost=still)
    return door


async def test_series_of_a_deleted_workload_are_not_waited_for() -> None:
    """A person deletes the one that did not come back."""
    door = await after_a_loss(Journal(), still=1)
    assert (await door.disruption.act(FALL)).reason == "Breaker"
    door.behind.gone = frozenset({Ref("shop", "Deployment", "w19")})
    await door.wait(1)
    assert (await door.disruption.act(FALL)).result == "done"


@pytest.mark.parametrize("leading", [True, False])
async def test_only_who_leads_notes_that_series_were_lost_together(tmp_path: Path, *, leading: bool) -> None:
    """Who leads again after long is to forget what was lost: notes of its own would make it seem a moment."""
    journal = Journal(tmp_path)
    door = Door(journal=journal)
    door.behind.leading = leading
    await door.look()
    for at, lost in ((NOW, 0), (NOW + 1, 12)):
        decide(journal, at, lost)
    await door.wait(6)
    journal.close()
    again = Journal(tmp_path)
    assert (again.known_series.counts(door.clock.now()).together > 0) is leading
    again.close()


async def test_a_series_lost_later_is_not_one_of_them() -> None:
    journal = Journal()
    door = await after_a_loss(journal, still=0)
    await door.wait(10)
    decide(journal, door.clock.now(), lost=2)
    assert (await door.disruption.act(FALL)).result == "done"


@pytest.mark.parametrize(
    ("gone", "every", "interval", "reason"),
    [
        pytest.param(LOST_SERIES, 7, 30, "", id="as queues that are absent while they are empty"),
        pytest.param(LOST_SERIES, 7, 300, "", id="which is seen at once, however rarely they are looked at"),
        pytest.param(LOST_SERIES, 4, 30, "Breaker", id="within a minute"),
        pytest.param(FAILED, 7, 30, "", id="sources that fail"),
        pytest.param(FAILED, 20, 300, "Breaker", id="a source that fails, seen when each is looked at"),
    ],
)
async def test_series_that_go_one_by_one_are_not_lost_together(
    gone: Series, every: int, interval: float, reason: str
) -> None:
    """While half of them are away no count falls; then it does, although some still are."""
    journal = Journal()
    door = Door(journal=journal)
    await door.look()
    for lost in range(13):
        decide(journal, door.clock.now(), lost, gone=gone, interval=interval)
        await door.wait(every)
        await door.disruption.act(FALL)
    assert (await door.disruption.act(FALL)).reason == "Breaker"
    decide(journal, door.clock.now(), lost=2, gone=gone, interval=interval)
    assert (await door.disruption.act(FALL)).reason == reason


@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
async def test_a_second_loss_does_not_hide_the_first(tmp_path: Path, *, restarted: bool) -> None:
    """A Prometheus crashes again and again, and four series have not been back between."""
    journal = Journal(tmp_path)
    door = await after_a_loss(journal, still=4)
    await door.wait(80)
    for lost in (20, 4):
        decide(journal, door.clock.now(), lost)
        await door.wait(10)
    if restarted:
        journal.close()
        journal = Journal(tmp_path)
        door = Door(journal=journal)
        await door.wait(100)
    refused = await door.disruption.act(FALL)
    journal.close()
    assert refused.message == "not back yet of the series that were lost together within 10 minutes: 4"


async def test_a_surge_move_counts_once_when_it_begins() -> None:
    door = Door(per_node=1)
    assert (await door.disruption.act(surge())).result == "done"
    assert (await door.disruption.act(surge("wait"))).result == "done"
    out = replace(evict(), reason=f"{SURGE} out")
    assert (await door.disruption.act(out)).result == "done"
    assert (await door.disruption.act(surge(name="p1"))).reason == "Disturbed"


OUT = replace(evict(), reason=f"{SURGE} out")
DOWN = replace(scale(4, 3, f"{SURGE} down"), removes=replace(OUT, reason=f"{SURGE} down"))
ENDS = [pytest.param(OUT, id="an eviction"), pytest.param(DOWN, id="a lowered count")]


@pytest.mark.parametrize("out", ENDS)
async def test_a_surge_counts_again_from_its_end_on(out: Action) -> None:
    door = Door(within=60.0, total=1)
    assert (await door.disruption.act(surge())).result == "done"
    await door.wait(50)
    assert (await door.disruption.act(out)).result == "done"
    await door.wait(20)
    assert (await door.disruption.act(evict("p1"))).reason == "Disturbed", "p0 went 20 s ago"
    await door.wait(41)
    assert (await door.disruption.act(evict("p1"))).result == "done"


@pytest.mark.parametrize("out", ENDS)
async def test_a_surge_whose_end_is_refused_counts_from_its_begin(out: Action) -> None:
    """As where an earlier eviction may come late, and its pod is changed first."""
    door = Door(within=60.0, total=1)
    assert (await door.disruption.act(surge())).result == "done"
    await door.wait(10)
    door.behind.answer = Answer("refused", reason=OUTDATED)
    assert (await door.disruption.act(out)).reason == OUTDATED
    door.behind.answer = Answer("done")
    assert (await door.disruption.act(surge(name="p1"))).reason == "Disturbed"
    await door.wait(51)
    assert (await door.disruption.act(surge(name="p1"))).result == "done"


@pytest.mark.parametrize("out", ENDS)
async def test_a_late_surge_waits_for_what_went_meanwhile(out: Action) -> None:
    door = Door(within=60.0, total=1)
    await door.disruption.act(surge())
    await door.wait(61)
    assert (await door.disruption.act(evict("p1"))).result == "done"
    assert (await door.disruption.act(out)).reason == "Disturbed"
    await door.wait(61)
    assert (await door.disruption.act(out)).result == "done"


async def test_a_pod_that_stays_after_all_counts_no_more() -> None:
    door = Door(per_node=1)
    await door.disruption.act(surge())
    assert (await door.disruption.act(surge("back"))).result == "done"
    assert (await door.disruption.act(surge(name="p1"))).reason == "Disturbed", "it is not known yet that it stays"
    door.disruption.on(MoveTakenBack("uid-other"))
    assert (await door.disruption.act(surge(name="p1"))).reason == "Disturbed", "another one does"
    door.disruption.on(MoveTakenBack("uid-p0"))
    assert (await door.disruption.act(surge(name="p1"))).result == "done"


@pytest.mark.parametrize("end", ENDS)
async def test_a_surge_neither_begins_nor_ends_in_a_blackout(end: Action) -> None:
    door = Door(blackout=(BUSINESS,))
    assert (await door.disruption.act(surge())).reason == "Blackout"
    assert (await door.disruption.act(end)).reason == "Blackout"
    assert (await door.disruption.act(surge("back"))).result == "done"
    assert (await door.disruption.act(scale(4, 3, f"{SURGE} back"))).result == "done"


async def test_surge_annotation_copied_to_a_replica_set_holds_nothing() -> None:
    found = replace(WEB, ref=Ref("shop", "ReplicaSet", "web-1"), annotations={SURGE: "p0"})
    door = Door(found)
    await door.look()
    assert (await door.disruption.act(evict())).result == "done"
    assert (await door.disruption.act(Scale(found.ref, found.uid, "1", 4, 3, "why"))).result == "done"


async def test_no_other_pod_of_it_is_evicted_meanwhile() -> None:
    door = Door(replace(WEB, annotations={SURGE: "p0"}))
    await door.look()
    assert (await door.disruption.act(evict())).reason == "BeingMoved"
    assert (await door.disruption.act(replace(evict(), reason=f"{SURGE} out"))).result == "done"


async def test_bounds_change_so_many_replicas_of_all_workloads_in_time() -> None:
    door = Door(bounds_total=20)
    await door.look()
    above, below = "TooManyReplicas: 19 replicas are above max = 9", "TooFewReplicas: 1 replicas are below min = 11"
    assert (await door.disruption.act(scale(19, 9, above))).result == "done"
    assert (await door.disruption.act(scale(1, 11, below))).result == "done"
    refused = await door.disruption.act(scale(1, 2, below))
    assert (refused.result, refused.reason) == ("refused", "BoundsPaced")
    assert refused.message == (
        "the policies' bounds changed 20 replicas of all workloads within 60 s, 1 would follow, "
        "and 20 may (bounds_total of [disruption])"
    )
    assert (await door.disruption.act(scale(3, 300, "cpu: the load has grown"))).result == "done"
    await door.wait(60)
    assert (await door.disruption.act(scale(1, 900, below))).result == "done", "what was confirmed is not held for ever"
