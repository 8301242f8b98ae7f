"""The loop of moves that make another first: begun once, gone on with by whoever finds them, told, and not tried again
at once where they were in vain."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest
from msgspec.structs import replace

from elasticd.base.clock import VirtualClock
from elasticd.decision.workload.vetoes import FREEZE
from elasticd.journal import Journal
from elasticd.kit.evictability import SPARE
from elasticd.kit.surge import HASH, LEAST, SURGE, Note, noted, own_count
from elasticd.model.actions import Action, Announce, Answer, Evict, Mark, Scale
from elasticd.model.disruption import Disruption, DisruptionState
from elasticd.model.listener import MoveTakenBack, Notice
from elasticd.model.moves import Underway
from elasticd.model.placement import PodOutcome
from elasticd.model.workload import COST, UNSEEN, Pod, Ref, Workload
from elasticd.ports.cluster import Kind, Snapshot
from elasticd.runtime.actions import Actions
from elasticd.runtime.pools.surges import ALARM, Surging
from tests.kit.clusters import Scripted, Shown
from tests.kit.pools import NOW, node, pod
from tests.kit.surges import OLD, REF, World, one

EVICT = Evict(OLD.ref, OLD.uid, OLD.node, "Cordoned", owner="rs")


class Site(Scripted):
    """A cluster with one Deployment, whose controllers act every second."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world, self.honours_deletion_costs = world, world.heeds
        self.acts: list[Action] = []
        self.answer: Callable[[Action], Answer | None] = lambda _: None
        self.also: tuple[Pod, ...] = ()
        self.lost: frozenset[str] = frozenset()
        """Nodes that are gone though pods of them are there."""
        self.nodes_confirmed = NOW
        self.hpa = ""
        self.state = DisruptionState()
        self.begun: tuple[Underway, ...] = (Underway(Ref("shop", "Pod", "bare", "v1"), "x", "anew", "gone", NOW),)

    def restoring(self) -> tuple[Underway, ...]:
        return self.begun

    def disruption(self, now: float) -> DisruptionState:
        return self.state

    async def observe(self, now: float, kinds: frozenset[Kind] = frozenset()) -> Snapshot:
        return Seen(self)

    async def act(self, action: Action) -> Answer:
        self.acts.append(action)
        if said := self.answer(action):
            return said
        self.world.do(action)
        return Answer("done", 200)


class Seen(Shown):
    """The site as it is."""

    def __init__(self, site: Site) -> None:
        names = {pod.node for pod in site.world.pods} - site.lost
        nodes = tuple([node(name) for name in sorted(names)])
        super().__init__((site.world.workload, site.world.selected), nodes=nodes)
        self._site, self.nodes_confirmed = site, site.nodes_confirmed

    def on_nodes(self) -> dict[str, list[Pod]]:
        found: dict[str, list[Pod]] = {}
        for each in (*self._site.world.pods, *self._site.world.released, *self._site.also):
            found.setdefault(each.node, []).append(each)
        return found

    def autoscaler(self, ref: Ref) -> str:
        return self._site.hpa


def note_of(workload: Workload) -> Note:
    """The note of a move that is under way."""
    note = noted(workload.annotations)
    assert note is not None
    return note


def spent(controller: str) -> DisruptionState:
    """The budget of one controller is spent."""
    gone = Disruption(NOW, "z", controller, "shop", "uid-z")
    return DisruptionState(within=60.0, most={"per_controller": 1}, recent=(gone,))


class Bench:
    """A loop over a site, in virtual time."""

    def __init__(self, *, ready: bool = True, heeds: bool = True, cost: str | None = None) -> None:
        self.clock, self.site = VirtualClock(NOW), Site(World(2, ready=ready, beside=False, heeds=heeds, cost=cost))
        self.outcomes: list[PodOutcome] = []
        self.taken_back: list[str] = []
        self.disruption = DisruptionState()
        self.loop = self.another()

    def another(self) -> Surging:
        """Another daemon's loop."""
        return Surging(self.site, self.site.observe, Journal(), self.clock, [self], Actions())

    def on(self, record: Notice) -> None:
        if isinstance(record, PodOutcome):
            self.outcomes.append(record)
        elif isinstance(record, MoveTakenBack):
            self.taken_back.append(record.uid)

    async def steps(self, lease: str) -> list[str]:
        """What a daemon of this Lease does, and shows, of the moves in flight."""
        self.site.lease = lease
        loop, before = self.another(), len(self.site.acts)
        await loop.tick(self.clock.now())
        await asyncio.sleep(0)
        shown = [move.how for move in loop.in_flight(await self.site.observe(self.clock.now()))]
        return [type(action).__name__ for action in self.site.acts[before:]] + shown

    async def begin(self, within: float = 60.0) -> Answer | None:
        return await self.loop.begin(EVICT, within, "pool:shop/Pod/old@1")

    async def in_flight(self) -> list[Underway]:
        """The moves in flight, as the cluster shows them now."""
        return self.loop.in_flight(await self.site.observe(self.clock.now()))

    async def turn(self, seconds: int) -> None:
        """So much time passes."""
        for _ in range(seconds):
            await self.loop.tick(self.clock.now())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await self.clock.sleep_until(self.clock.now() + 1)
            self.site.world.turn()

    @property
    def surging(self) -> bool:
        return SURGE in self.site.world.workload.annotations


@pytest.mark.parametrize("heeds", [True, False], ids=["costs are heeded", "costs are not heeded"])
async def test_a_surge_goes_step_by_step_and_reports_every_step(heeds: bool) -> None:
    bench = Bench(heeds=heeds)
    assert await bench.begin() == Answer("done", 200, "another is made first")
    await bench.turn(15)
    assert OLD.uid not in {one.uid for one in bench.site.world.pods}
    assert (bench.surging, bench.site.world.least, bench.site.world.workload.replicas) == (False, 2, 2)
    way = ["Mark", "Ready", *([] if heeds else ["Evict"]), "Lower"]
    assert [one.reason for one in bench.outcomes] == ["Raise", "Raised", *way, "Moved"]
    assert {(one.action, one.policy, one.decision, one.node) for one in bench.outcomes} == {
        ("surge", "pool", "pool:shop/Pod/old@1", "a")
    }


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        pytest.param(lambda bench: None, None, id="nothing"),
        pytest.param(
            lambda bench: setattr(bench.site, "hpa", "HPA web"),
            ("ForeignOwner", "HPA web scales shop/Deployment/web, and would undo it"),
            id="another autoscaler",
        ),
        pytest.param(
            lambda bench: setattr(
                bench.site.world, "workload", replace(bench.site.world.workload, annotations={FREEZE: "x"})
            ),
            ("Frozen", f"shop/Deployment/web is annotated {FREEZE}"),
            id="frozen",
        ),
        pytest.param(
            lambda bench: bench.site.world.pods.append(one("stranger")),
            ("Strangers", "shop/Deployment/web has 2 pods, and 3 look like its own"),
            id="a pod that is not its own",
        ),
        pytest.param(
            lambda bench: setattr(bench, "disruption", spent("w")),
            ("Disturbed", "1 pod of its controller went within 60 s, and 1 may"),
            id="the budget of the Deployment",
        ),
    ],
)
async def test_a_refusal_is_explained_without_beginning_the_move(
    prepare: Callable[[Bench], None], told: tuple[str, str] | None
) -> None:
    bench = Bench()
    prepare(bench)
    assert bench.loop.refusal(EVICT, await bench.site.observe(NOW), bench.disruption) == told
    assert bench.site.acts == []


async def test_a_pod_without_deployment_counts_against_its_controllers_budget() -> None:
    bench = Bench()
    bench.site.also = (pod("bare", on="a", owner=("StatefulSet", "db", "sts")),)
    evict = replace(EVICT, uid="uid-bare", owner="sts")
    told = "Disturbed", "1 pod of its controller went within 60 s, and 1 may"
    assert bench.loop.refusal(evict, await bench.site.observe(NOW), spent("sts")) == told


async def test_another_daemon_goes_on_with_what_it_finds() -> None:
    bench = Bench()
    await bench.begin()
    for _ in range(12):
        bench.loop = bench.another()
        await bench.turn(1)
    assert (bench.surging, OLD.uid in {one.uid for one in bench.site.world.pods}) == (False, False)
    assert [one.after for one in bench.site.acts if isinstance(one, Scale)] == [3, 2]


@pytest.mark.parametrize("heeds", [True, False], ids=["costs are heeded", "costs are not heeded"])
@pytest.mark.parametrize("turns", range(9))
async def test_a_protected_pod_stays_from_every_phase_on(turns: int, *, heeds: bool) -> None:
    """Whoever goes on with it: each look is that of another daemon."""
    bench = Bench(heeds=heeds)
    world = bench.site.world
    await bench.begin()
    for _ in range(turns):
        bench.loop = bench.another()
        await bench.turn(1)
    is_kept = OLD.uid in {one.uid for one in world.pods}
    world.pods = [
        replace(one, annotations={**one.annotations, SPARE: "true"}) if one.uid == OLD.uid else one
        for one in world.pods
    ]
    for _ in range(15):
        bench.loop = bench.another()
        await bench.turn(1)
    assert (bench.surging, world.least, world.workload.replicas, len(world.pods)) == (False, 2, 2, 2)
    assert (OLD.uid in {one.uid for one in world.pods}) == is_kept
    assert all(COST not in one.annotations for one in world.pods)
    assert (bench.taken_back == [OLD.uid]) == is_kept


async def test_a_delayed_pod_goes_when_nothing_keeps_it() -> None:
    bench = Bench()
    await bench.begin()
    bench.site.state = DisruptionState(blackout="nightly")
    await bench.turn(10)
    assert [(one.result, one.reason) for one in bench.outcomes][2:] == [("refused", "Blackout")]
    (event,) = [act for act in bench.site.acts if isinstance(act, Announce)]
    assert (event.workload, event.uid, event.reason, event.warning) == (OLD.ref, OLD.uid, "Blackout", False)
    assert (await bench.in_flight())[1].step == "wait: no pod is moved: nightly"
    bench.site.state = DisruptionState(blackout="daily")
    await bench.turn(2)
    assert (await bench.in_flight())[1].step == "wait: no pod is moved: daily"
    assert len(bench.outcomes) == 3, "it is the same reason"
    bench.site.state = DisruptionState()
    await bench.turn(10)
    assert (bench.outcomes[-1].reason, bench.site.world.least) == ("Moved", 2)


@pytest.mark.parametrize("heeds", [True, False], ids=["costs are heeded", "costs are not heeded"])
async def test_a_pod_delayed_for_all_its_time_stays(*, heeds: bool) -> None:
    bench = Bench(heeds=heeds)
    await bench.begin(within=20.0)
    bench.site.state = DisruptionState(unknown="who led?")
    await bench.turn(30)
    assert (bench.surging, bench.site.world.least, bench.taken_back) == (False, 2, [OLD.uid])
    late = next(one for one in bench.outcomes if one.reason == "TooLate")
    assert late.message == "old could not go within 20 s: who led?"


async def test_who_does_not_lead_does_nothing() -> None:
    bench = Bench()
    await bench.begin()
    bench.site.leading = False
    await bench.turn(5)
    assert len(bench.site.acts) == 1


async def test_an_annotation_copied_to_a_replica_set_is_no_move() -> None:
    """The controller of Deployments copies annotations to ReplicaSets, and never takes them away."""
    bench = Bench()
    await bench.begin()
    copy = replace(bench.site.world.workload, ref=Ref("shop", "ReplicaSet", "web-1"), replicas=3)
    bench.site.world.workload = copy
    await bench.turn(5)
    assert (len(bench.site.acts), await bench.in_flight()) == (1, [*bench.site.begun])


async def test_a_move_in_vain_is_retried_after_growing_pauses() -> None:
    bench = Bench(ready=False)
    for pause in (60, 120):
        await bench.begin(within=3.0)
        await bench.turn(20)
        assert (bench.surging, bench.outcomes[-1].reason) == (False, "TakenBack")
        answer = await bench.begin()
        assert answer is not None
        assert (answer.result, answer.reason) == ("refused", "InVain")
        await bench.turn(pause)
        bench.outcomes.clear()
    bench.site.world.ready = True
    await bench.begin()
    await bench.turn(20)
    assert bench.outcomes[-1].reason == "Moved"


async def test_repeated_moves_in_vain_are_told_as_a_fault() -> None:
    bench = Bench(ready=False)
    for tries in range(1, ALARM + 1):
        assert bench.loop.faults() == []
        await bench.begin(within=3.0)
        await bench.turn(20 + 60 * 2 ** (tries - 1) * (tries < ALARM))
    text = "3 moves of its pods in a row were in vain; the last: no other pod was ready within 3 s"
    assert bench.loop.faults() == [f"shop/Deployment/web: {text}"]
    events = [act for act in bench.site.acts if isinstance(act, Announce) and act.reason == "InVain"]
    assert [(event.workload, event.message, event.warning) for event in events] == [(REF, text, True)]
    await bench.turn(240)
    bench.site.world.ready = True
    await bench.begin()
    await bench.turn(20)
    assert (bench.outcomes[-1].reason, bench.loop.faults()) == ("Moved", [])


async def test_a_surge_ends_though_every_pod_has_the_least_cost() -> None:
    """Another pod may go in its place, and no mark tells them apart."""
    bench = Bench(cost=LEAST)
    await bench.begin()
    await bench.turn(15)
    assert (bench.surging, bench.site.world.least, bench.outcomes[-1].reason) == (False, 2, "Moved")


async def test_a_surge_ends_where_another_pod_went_instead() -> None:
    bench = Bench(cost=LEAST)
    await bench.begin()
    await bench.turn(2)
    world = bench.site.world
    lowered = msgspec.json.encode(replace(note_of(world.workload), phase="down")).decode()
    world.pods = [one for one in world.pods if one.uid in (OLD.uid, "s0")]
    world.workload = replace(world.workload, replicas=2, annotations={SURGE: lowered})
    before = len(bench.site.acts)
    await bench.turn(30)
    assert (bench.surging, len(bench.site.acts) - before, bench.taken_back) == (False, 1, [OLD.uid])
    assert bench.outcomes[-1].reason == "AnotherWent"


LOST_LABELS = {key: value for key, value in OLD.labels.items() if key != HASH}


@pytest.mark.parametrize(("ready", "turns"), [(True, turns) for turns in range(1, 4)] + [(False, 3)])
@pytest.mark.parametrize("heeds", [True, False], ids=["costs are heeded", "costs are not heeded"])
@pytest.mark.parametrize("labels", [LOST_LABELS, {}], ids=["without its hash", "without labels"])
async def test_a_surge_whose_pod_is_isolated_ends(
    ready: bool, turns: int, labels: dict[str, str], *, heeds: bool
) -> None:
    """Its ReplicaSet releases it, it stays where it is, and another of its Deployment may be moved at once."""
    bench = Bench(ready=ready, heeds=heeds)
    await bench.begin()
    await bench.turn(turns)
    world = bench.site.world
    (isolated,) = [replace(pod, labels=labels, owner=("", "", "")) for pod in world.pods if pod.uid == OLD.uid]
    world.release(isolated)
    await bench.turn(30)
    assert (bench.surging, world.workload.replicas, world.released[0].annotations) == (False, 2, {})
    assert (bench.outcomes[-1].result, bench.taken_back) == ("done", [OLD.uid])
    next_pod = world.pods[0]
    answer = await bench.loop.begin(Evict(next_pod.ref, next_pod.uid, next_pod.node), 60.0, "d")
    assert answer == Answer("done", 200, "another is made first")


async def test_a_pod_of_another_controller_is_left_out() -> None:
    """A canary's, and one without a controller: neither stands for a replica of the Deployment."""
    bench = Bench(ready=False)
    world = bench.site.world
    canary = one("canary", labels={"app": "web", HASH: "9"}, owner=("ReplicaSet", "web-canary-9", "c"))
    world.released = [canary, one("bare", "a", labels={"app": "web"}, owner=("", "", ""))]
    evict = Evict(canary.ref, canary.uid, canary.node, owner="c")
    answer = await bench.loop.begin(evict, 60.0, "d")
    assert (answer and answer.reason) == "NoDeployment"
    await bench.begin(within=10.0)
    await bench.turn(5)
    assert (await bench.in_flight())[1].step == "wait: 1 of 2 are ready without old"
    await bench.turn(30)
    assert (bench.surging, world.workload.replicas, bench.taken_back) == (False, 2, [OLD.uid])


async def test_a_surge_whose_marked_pod_never_goes_ends() -> None:
    """As in a rollout that began meanwhile, and is stuck: its ReplicaSet has as many as it may."""
    bench = Bench()
    await bench.begin(within=20.0)
    await bench.turn(2)
    world = bench.site.world
    lowered = msgspec.json.encode(replace(note_of(world.workload), phase="down")).decode()
    world.workload = replace(world.workload, replicas=2, annotations={SURGE: lowered})
    world.pods = [replace(OLD, annotations={COST: LEAST}), *[one(name) for name in ("s0", "stuck")]]
    world.stuck = True
    await bench.turn(100)
    assert bench.surging
    await bench.turn(50)
    assert (bench.surging, world.pods[0].annotations, bench.taken_back) == (False, {}, [OLD.uid])
    assert bench.outcomes[-1].reason == "TooLate"


async def test_a_surge_ends_though_somebody_marks_its_pod_each_time() -> None:
    bench = Bench(ready=False)
    await bench.begin(within=3.0)
    for _ in range(80):
        bench.site.world.do(Mark(REF, OLD.uid, {COST: LEAST}, OLD.name))
        await bench.turn(1)
    unmarkings = [act for act in bench.site.acts if isinstance(act, Mark) and act.annotations == {COST: None}]
    assert (bench.surging, bench.site.world.workload.replicas, len(unmarkings)) == (False, 2, 5)


async def test_a_policy_that_raises_the_count_ends_a_surge() -> None:
    bench = Bench(ready=False)
    await bench.begin()
    await bench.turn(4)
    workload = bench.site.world.workload
    assert (workload.replicas, SURGE in workload.annotations) == (3, True)
    await bench.site.act(Scale(REF, workload.uid, workload.version, 3, 9, "AboveTarget"))
    await bench.turn(4)
    workload = bench.site.world.workload
    assert (workload.replicas, SURGE in workload.annotations) == (9, False)
    assert OLD.uid in {one.uid for one in bench.site.world.pods if not one.deleted}
    assert bench.taken_back == [OLD.uid]
    assert bench.outcomes[-1].reason == "Overtaken"


@pytest.mark.parametrize("text", [None, "{"], ids=["removed", "garbled"])
@pytest.mark.parametrize("ready", [False, True], ids=["while it waits", "while its pod is marked"])
async def test_a_surge_whose_note_somebody_changed_is_taken_back(
    caplog: pytest.LogCaptureFixture, text: str | None, *, ready: bool
) -> None:
    bench = Bench(ready=ready)
    await bench.begin()
    await bench.turn(3)
    world = bench.site.world
    while ready and not any(COST in one.annotations for one in world.pods):
        await bench.turn(1)
    assert (world.workload.replicas, bench.surging) == (3, True)
    world.workload = replace(world.workload, annotations={} if text is None else {SURGE: text})
    await bench.turn(8)
    assert (world.workload.replicas, bench.surging, world.least) == (2, False, 2)
    assert OLD.uid in {one.uid for one in world.pods if COST not in one.annotations}
    assert bench.taken_back == [OLD.uid]
    told = "shop/Deployment/web: somebody changed the annotation elasticd.io/surge: what the move of old has done"
    assert [line.startswith(told) for line in caplog.messages] == [True]
    (event,) = [act for act in bench.site.acts if isinstance(act, Announce)]
    assert (event.reason, event.warning) == ("NoteRestored", True)


LATER = [
    pytest.param(2, "Leftover", "no pod is being moved", id="as many as before"),
    pytest.param(3, "NotOurs", "a replica more than before may stay", id="one more was set since"),
    pytest.param(4, "Leftover", "no pod is being moved", id="two more were set since"),
]


@pytest.mark.parametrize("restarts", [False, True], ids=["while it runs", "after a restart"])
@pytest.mark.parametrize("seconds", [0, 100], ids=["at once", "later"])
@pytest.mark.parametrize(("count", "word", "end"), LATER)
async def test_a_rollback_to_an_earlier_surge_lowers_no_count(
    caplog: pytest.LogCaptureFixture, count: int, word: str, end: str, seconds: int, *, restarts: bool
) -> None:
    """It brings back the note that the ReplicaSet was given while the surge was under way."""
    caplog.set_level("INFO")
    bench, world, copy = await surged_once()
    await bench.turn(seconds)
    bench.outcomes.clear()
    if restarts:
        bench.loop = bench.another()
    world.workload = replace(
        world.workload, replicas=count, annotations={SURGE: copy}, surge_writer="kubectl-rollout", rollout="1 of 2"
    )
    assert (await bench.in_flight(), own_count(world.workload)) == ([*bench.site.begun], count)
    await bench.turn(5)
    assert (world.workload.replicas, bench.surging, bench.outcomes, bench.taken_back) == (count, False, [], [])
    text = f"the annotation {SURGE} was written by kubectl-rollout, not by elasticd, and is removed: {end}"
    (event,) = [act for act in bench.site.acts if isinstance(act, Announce)]
    assert (event.reason, event.message, event.warning) == (word, text, word == "NotOurs")
    assert caplog.messages == [f"shop/Deployment/web: {text}"]
    assert bench.loop.refusal(EVICT, await bench.site.observe(NOW), DisruptionState()) is None, "it was not in vain"


async def surged_once() -> tuple[Bench, World, str]:
    """A surge that has ended, and what its note said in phase down."""
    bench = Bench()
    await bench.begin()
    copy = ""
    while bench.surging:
        await bench.turn(1)
        copy = bench.site.world.workload.annotations.get(SURGE, copy)
    assert '"phase":"down"' in copy
    return bench, bench.site.world, copy


async def test_a_rollback_during_a_surge_has_it_taken_back() -> None:
    """The note that it brings is of an earlier surge, of other pods."""
    bench, world, copy = await surged_once()
    bench.site.world.pods[0] = replace(OLD, uid="next")
    await bench.loop.begin(replace(EVICT, uid="next"), 60.0, "d")
    bench.site.world.ready = False
    await bench.turn(3)
    assert (world.workload.replicas, note_of(world.workload).uid) == (3, "next")
    world.workload = replace(world.workload, annotations={SURGE: copy}, surge_writer="kubectl-rollout")
    await bench.turn(8)
    assert (world.workload.replicas, bench.surging, bench.taken_back) == (2, False, ["next"])


async def test_a_rollout_during_a_surge_keeps_no_replica_more() -> None:
    """The note stays as elasticd wrote it, and a daemon that begins to lead then continues."""
    bench = Bench(ready=False)
    await bench.begin(within=5.0)
    await bench.turn(3)
    world = bench.site.world
    world.workload = replace(world.workload, rollout="1 of 3 pods are of the newest template")
    world.pods = [replace(one, uid=f"new-{one.uid}", name=f"new-{one.name}") for one in world.pods]
    bench.loop = bench.another()
    await bench.turn(20)
    assert (world.workload.replicas, bench.surging) == (3, True), "lowering it might cost a ready pod"
    world.workload = replace(world.workload, rollout="")
    await bench.turn(20)
    assert (world.workload.replicas, bench.surging) == (2, False)


async def refused_replica(bench: Bench, seconds: int) -> World:
    """The ReplicaSet is not let have one more, so the Deployment's controller stands still; after so long a time."""
    world = bench.site.world
    await bench.begin(within=5.0)
    world.stuck = True
    await bench.turn(1)
    world.workload = replace(world.workload, rollout=UNSEEN)
    await bench.turn(seconds)
    return world


async def test_a_refused_replica_is_taken_back_though_unseen() -> None:
    bench = Bench(ready=False)
    world = await refused_replica(bench, 30)
    assert (world.workload.replicas, bench.surging, world.least, bench.taken_back) == (2, False, 2, [OLD.uid])
    assert [one.reason for one in bench.outcomes] == ["Raise", "Raised", "TooLate", "TakeBack", "TakenBack"]


async def test_a_workload_that_changes_meanwhile_is_waited_for() -> None:
    """As while its controller writes that it sees a rollout."""
    bench = Bench(ready=False)
    world = await refused_replica(bench, 6)
    for version in range(30):
        world.workload = replace(world.workload, version=f"{version}")
        await bench.turn(5)
    assert (world.workload.replicas, bench.surging) == (3, True)
    await bench.turn(20)
    assert (world.workload.replicas, bench.surging) == (2, False)


async def test_a_replica_that_stays_long_is_told() -> None:
    bench = Bench(ready=False)
    await bench.begin(within=5.0)
    await bench.turn(3)
    world, rollout = bench.site.world, "1 of 3 pods are of the newest template"
    world.workload = replace(world.workload, rollout=rollout)
    await bench.turn(50)
    assert ((await bench.in_flight())[-1].fault, bench.loop.faults()) == ("", [])
    await bench.turn(20)
    why = f"shop/Deployment/web is being rolled out: {rollout}"
    (fault,) = bench.loop.faults()
    assert fault.startswith("shop/Deployment/web: the move of old is not taken back after ")
    assert fault.endswith(f" s: {why}")
    assert (await bench.in_flight())[-1].fault == f"it is not taken back: {why}"
    world.workload = replace(world.workload, rollout="")
    await bench.turn(20)
    assert (bench.surging, bench.loop.faults()) == (False, [])


async def test_a_count_raised_by_another_leader_is_left_alone() -> None:
    """This daemon led before, and knows of a surge that the other has ended since."""
    bench = Bench(ready=False)
    await bench.begin()
    await bench.turn(4)
    bench.site.leading = False
    await bench.turn(1)
    world = bench.site.world
    world.workload = replace(world.workload, annotations={}, replicas=3)
    bench.site.leading = True
    await bench.turn(5)
    assert (world.workload.replicas, bench.surging) == (3, False)


async def test_a_refused_step_is_reported_once_and_retried() -> None:
    bench = Bench()
    await bench.begin()
    bench.site.answer = lambda one: Answer("refused", reason="Breaker") if isinstance(one, Scale) else None
    await bench.turn(6)
    assert [one.reason for one in bench.outcomes] == ["Breaker"]
    assert sum(isinstance(one, Scale) for one in bench.site.acts) > 1
    bench.site.answer = lambda _: None
    await bench.turn(15)
    assert bench.outcomes[-1].reason == "Moved"


async def test_what_refuses_a_step_is_told_until_it_is_done() -> None:
    bench = Bench()
    await bench.begin()
    broken = Answer("failed", 500, "failed calling webhook", "InternalError")
    bench.site.answer = lambda one: broken if isinstance(one, Scale) else None
    await bench.turn(6)
    trouble = "Raise failed: failed calling webhook"
    assert [move.fault for move in await bench.in_flight()][-1] == trouble
    assert bench.loop.faults() == []
    await bench.turn(8)
    fault = "shop/Deployment/web: the move of old has not gone on for "
    assert [(text.startswith(fault), text.endswith(trouble)) for text in bench.loop.faults()] == [(True, True)]
    bench.site.answer = lambda _: None
    await bench.turn(16)
    assert ("Raise", bench.loop.faults()) == (bench.outcomes[1].reason, [])
    assert bench.outcomes[-1].reason == "Moved"


async def test_what_refused_an_earlier_step_is_told_no_longer() -> None:
    bench = Bench()
    await bench.begin()
    forbidden = Answer("failed", 403, "may not patch pods", "Forbidden")
    bench.site.answer = lambda one: forbidden if isinstance(one, Mark) and one.pod else None
    await bench.turn(20)
    assert [text.endswith("Mark failed: may not patch pods") for text in bench.loop.faults()] == [True]
    world = bench.site.world
    world.ready, world.pods = False, [replace(pod, ready=pod.uid == "old") for pod in world.pods]
    await bench.turn(1)
    assert ((await bench.in_flight())[-1].fault, bench.loop.faults(), bench.surging) == ("", [], True)


async def test_a_move_whose_pod_cannot_be_marked_is_taken_back() -> None:
    """No right to mark pods, say: or there would be one too many, and the count held, for ever."""
    bench = Bench()
    await bench.begin(within=5.0)
    forbidden = Answer("failed", 403, "may not patch pods", "Forbidden")
    bench.site.answer = lambda one: forbidden if isinstance(one, Mark) and one.pod else None
    await bench.turn(80)
    assert (bench.surging, bench.site.world.workload.replicas) == (False, 2)
    assert "TooLate" in {one.reason for one in bench.outcomes}
    assert bench.outcomes[-1].reason == "TakenBack"


async def test_a_cluster_that_raises_is_reported_and_ends_nothing() -> None:
    bench = Bench()
    await bench.begin()

    def fail(_: Action) -> Answer:
        raise RuntimeError("gone")

    bench.site.answer = fail
    await bench.turn(2)
    assert {(one.result, one.reason) for one in bench.outcomes} == {("failed", "RuntimeError")}


@pytest.mark.parametrize(
    ("owner", "answer"),
    [
        pytest.param(("StatefulSet", "web", "s"), None, id="of a StatefulSet: it is evicted plainly"),
        pytest.param(("", "", ""), None, id="of nobody"),
        pytest.param(("ReplicaSet", "other-1", "r"), "NoDeployment", id="of a ReplicaSet of no Deployment"),
    ],
)
async def test_only_pods_of_deployments_are_moved_so(owner: tuple[str, str, str], answer: str | None) -> None:
    bench = Bench()
    stranger = replace(pod("stranger", on="a", owner=owner), uid="stranger")
    bench.site.also = (stranger,)
    found = await bench.loop.begin(Evict(stranger.ref, "stranger", "a"), 60.0, "d")
    assert (found and found.reason, bench.site.acts) == (answer, [])


async def test_a_pod_already_gone_is_left_to_the_eviction() -> None:
    bench = Bench()
    assert await bench.loop.begin(Evict(OLD.ref, "another", "a"), 60.0, "d") is None


async def test_where_another_scales_it_is_refused() -> None:
    bench = Bench()
    bench.site.hpa = "HorizontalPodAutoscaler web"
    answer = await bench.begin()
    assert answer is not None
    assert (answer.result, answer.reason) == ("refused", "ForeignOwner")


async def test_where_a_person_has_frozen_the_count_it_is_refused() -> None:
    bench = Bench()
    bench.site.world.workload = replace(bench.site.world.workload, annotations={FREEZE: "down"})
    answer = await bench.begin()
    assert answer is not None
    assert (answer.result, answer.reason, bench.site.acts) == ("refused", "Frozen", [])


async def test_what_is_in_flight_is_shown_whoever_began_it() -> None:
    bench = Bench()
    await bench.begin()
    assert [(one.pod.name, one.how, one.step) for one in bench.another().in_flight(await bench.site.observe(NOW))] == [
        ("bare", "anew", "gone"),
        ("old", "surge", "up"),
    ]
    await bench.turn(1)
    assert (await bench.in_flight())[1].step == "up: one more is made first"
    assert bench.loop.in_flight(None) == [*bench.site.begun]


async def test_a_restart_leaves_the_time_since_a_surge_began() -> None:
    bench = Bench(ready=False)
    bench.site.begun = ()
    await bench.begin(within=600.0)
    await bench.turn(30)
    bench.loop = bench.another()
    await bench.turn(1)
    assert [(move.step[:4], move.since) for move in await bench.in_flight()] == [("wait", NOW)]


async def test_a_pod_whose_move_is_taken_back_does_not_leave() -> None:
    bench = Bench(ready=False)
    bench.site.begun = ()
    await bench.begin(within=3.0)
    await bench.turn(2)
    assert [(one.step[:4], one.stays) for one in await bench.in_flight()] == [("wait", False)]
    fewer = Answer("refused", reason="Breaker")
    bench.site.answer = lambda one: fewer if isinstance(one, Scale) and one.after < one.before else None
    await bench.turn(5)
    (found,) = await bench.in_flight()
    assert (found.step, found.stays) == ("back: the additional replica is taken back", True)
    sibling = next(one for one in bench.site.world.pods if one.name == "s0")
    evict = Evict(sibling.ref, sibling.uid, sibling.node, "Cordoned", owner="rs")
    told = ("UnderWay", "the move of old is being taken back")
    assert bench.loop.refusal(evict, await bench.site.observe(NOW), bench.disruption) == told


@pytest.mark.parametrize(
    ("ready", "gone", "told"),
    [
        pytest.param(False, False, [OLD.uid], id="in vain"),
        pytest.param(True, False, [], id="it was moved"),
        pytest.param(False, True, [], id="it went by itself meanwhile"),
    ],
)
async def test_of_a_pod_that_stays_after_all_it_is_reported(ready: bool, gone: bool, told: list[str]) -> None:
    bench = Bench(ready=ready)
    await bench.begin(within=4.0)
    await bench.turn(2)
    if gone:
        bench.site.world.pods = [one for one in bench.site.world.pods if one.uid != OLD.uid]
    await bench.turn(15)
    assert (bench.surging, bench.taken_back) == (False, told)


async def test_a_step_is_not_repeated_before_its_effect_is_visible() -> None:
    bench = Bench()
    await bench.begin()
    bench.site.answer = lambda _: Answer("done", 200)  # and nothing is seen of it
    for _ in range(9):
        await bench.loop.tick(bench.clock.now())
        await asyncio.sleep(0)
        await bench.clock.sleep_until(bench.clock.now() + 0.2)
    assert [type(one) for one in bench.site.acts] == [Mark, Scale]
    assert bench.site.world.workload.ref == REF


async def test_the_loop_turns_until_it_is_stopped() -> None:
    bench = Bench()
    await bench.begin()
    task = asyncio.create_task(bench.loop.run())
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await bench.loop.actions.drain(0)
    assert len(bench.site.acts) > 1


@pytest.mark.parametrize(
    ("begun_by", "lease", "found"),
    [
        pytest.param("ops/elasticd", "ops/elasticd", ["Scale", "anew", "surge"], id="its-own"),
        pytest.param("ops/elasticd", "trial/elasticd", ["anew"], id="of-another-installation"),
        pytest.param("ops/elasticd", "", ["anew"], id="of-an-installation-where-it-has-no-lease"),
        pytest.param("", "ops/elasticd", ["Scale", "anew", "surge"], id="of-an-earlier-version"),
    ],
)
async def test_only_daemons_of_its_lease_continue_a_surge(begun_by: str, lease: str, found: list[str]) -> None:
    bench = Bench()
    bench.site.lease = begun_by
    assert await bench.begin() == Answer("done", 200, "another is made first")
    assert await bench.steps(lease) == found


async def test_a_replacement_on_a_gone_node_is_not_ready() -> None:
    it = Bench()
    await it.begin()
    it.site.lost = frozenset({"c"})
    await it.turn(20)
    assert (it.surging, OLD.uid in [pod.uid for pod in it.site.world.pods]) == (True, True)
    it.site.lost = frozenset()
    await it.turn(10)
    assert (it.surging, OLD.uid in [pod.uid for pod in it.site.world.pods]) == (False, False)


async def test_a_surge_stands_still_until_the_nodes_were_read() -> None:
    it = Bench()
    await it.begin(within=100)
    it.site.lost, it.site.nodes_confirmed = frozenset("abc"), 0.0
    await it.turn(60)
    assert (it.surging, it.taken_back, len(it.site.acts)) == (True, [], 1)
    it.site.lost, it.site.nodes_confirmed = frozenset(), NOW
    await it.turn(10)
    assert (it.surging, OLD.uid in [pod.uid for pod in it.site.world.pods]) == (False, False)
