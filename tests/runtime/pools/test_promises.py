"""Between the eviction of a pod and the binding of its replacement no waiting pod takes its place."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.base.clock import VirtualClock
from elasticd.journal import Journal
from elasticd.kit.surge import BEGUN
from elasticd.model.actions import Action, Answer, Bind, Evict
from elasticd.model.moves import Promise, Underway
from elasticd.model.pod_spec import Expression, PodClaim, PodTerm, Taint, Toleration
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect
from elasticd.model.reports import NodeView
from elasticd.model.volumes import ONE_POD
from elasticd.model.workload import Node, Pod
from elasticd.runtime.pools.mover import Mover
from elasticd.runtime.pools.placer import Placer
from elasticd.runtime.pools.promises import PROMISED
from elasticd.runtime.pools.report import PoolReports
from elasticd_plugins.drain import Drain
from elasticd_plugins.filters import Filters
from elasticd_plugins.least_requested import LeastRequested
from tests.kit.board import Board
from tests.kit.placers import Heard
from tests.kit.pools import NOW, node, pod
from tests.kit.volumes import claim, storage, volume

ONE = PodTerm("zone", (Expression("app", "In", ("one",)),))
APART: dict[str, Any] = {"labels": {"app": "one"}, "repels": (ONE,)}
CLAIMS: dict[str, Any] = {"volume_claims": (PodClaim("data"),), "claims": True}
BARE, WEB, DB = ("", "", ""), ("ReplicaSet", "web-1", "rs-1"), ("StatefulSet", "db", "sts-1")
ROOM: dict[str, Any] = {"cpu": 3.0}


class Recorded(Board):
    """A board that says which pods have records."""

    records: tuple[Underway, ...] = ()
    recorded: tuple[Promise, ...] = ()

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.bindings: list[Bind] = []
        self.answers = asyncio.Event()
        """Set unless bindings take long."""
        self.answers.set()

    def restoring(self) -> Sequence[Underway]:
        return self.records

    async def promises(self) -> Sequence[Promise]:
        return self.recorded

    async def act(self, action: Action) -> Answer:
        if isinstance(action, Bind):
            self.bindings.append(action)
            await self.answers.wait()
        return await super().act(action)


class Pool:
    """A placer and a mover on one board, in virtual time. Evicted pods are gone at once; what replaces them comes when
    the test says so."""

    def __init__(self, pods: Sequence[Pod], nodes: Sequence[Node], **more: Any) -> None:
        self.clock = VirtualClock(NOW)
        self.board = Recorded(self.clock, nodes, pods)
        self.board.storage = storage(claim("data", volume="pv", bound=True, modes=(ONE_POD,)), volume("pv"))
        self.start(**more)

    def start(self, **more: Any) -> None:
        """Start the daemon; again: what it has in memory is lost."""
        self.heard, self.journal = Heard(), Journal()
        self.placer = Placer(self.board, self.board.observe, self.journal, self.clock, [self.heard])
        moves = MovesTable(**{"every": 5.0, "claims": True, "single": True, "min_age": 0.0, **more})
        strategies = (Filters(), LeastRequested(), Drain())
        self.placer.apply([PoolPolicy(name="pool", pool=PoolSelect(), strategies=strategies, mode="act", moves=moves)])
        self.mover = Mover(self.board, self.placer, self.journal, self.clock)

    async def run(self, seconds: float) -> None:
        """Let both look every half a second."""
        for _ in range(round(2 * seconds)):
            for turn in (self.placer.turn, self.mover.turn):
                await turn()
                for _ in range(10):
                    await asyncio.sleep(0)
            await self.clock.sleep_until(self.clock.now() + 0.5)

    def record(self, moved: Pod) -> None:
        """elasticd has a record of a bare pod, as it writes before it evicts it."""
        if not moved.owner[2]:
            self.board.records = (Underway(moved.ref, moved.uid, "anew", "gone", NOW),)
            self.board.recorded = (Promise(moved, "b", moved.uid, "a"),)

    def cordon(self, name: str) -> None:
        self.board.add(replace(self.board.nodes[name], unschedulable=True))

    def replaced(self, moved: Pod, **changes: Any) -> Pod:
        """What its controller, or elasticd, makes in place of an evicted pod, now."""
        fresh = {"uid": f"{moved.uid}-again", "node": "", "phase": "Pending", "ready": None, "started": None}
        again = replace(moved, created=self.clock.now() // 1, **{**fresh, **changes})
        self.board.add(again)
        return again

    def message(self, about: Pod) -> str:
        """What was decided last about a pod."""
        return [decision.message for decision in self.heard.placings if decision.uid == about.uid][-1]

    def bound(self) -> dict[str, str]:
        """The nodes that pods were to be bound to, in that order."""
        return {action.workload.name: action.node for action in self.board.bindings}


def zoned(*names: str) -> list[Node]:
    return [node(name, labels={"zone": "z"}) for name in names]


def running(name: str, **more: Any) -> Pod:
    """A pod that runs on node a."""
    return pod(name, on="a", **{"started": NOW - 600, "ready": True, "created": NOW - 600, **more})


def waiting(name: str, **more: Any) -> Pod:
    return pod(name, **{"created": NOW - 300, **more})


OWNERS = [
    pytest.param(BARE, id="bare"),
    pytest.param(WEB, id="a Deployment's"),
    pytest.param(DB, id="a StatefulSet's"),
]
SHARED = [
    pytest.param(CLAIMS, id="a claim of one pod"),
    pytest.param(APART, id="an anti-affinity"),
    pytest.param(ROOM, id="room"),
]


async def evicted(x: Pod, *others: Pod, nodes: Sequence[Node] = (), **more: Any) -> Pool:
    """Node a was cordoned, and pod x of it evicted: it is gone, and nothing is in its place."""
    it = Pool([x, *others], nodes or zoned("a", "b"), **more)
    it.record(x)
    await it.run(3)
    it.cordon("a")
    await it.run(2)
    assert [name for _, name in it.board.tried(Evict)] == [x.name]
    return it


@pytest.mark.parametrize("priority", [pytest.param(0, id="equal"), pytest.param(-100, id="lower")])
@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("owner", OWNERS)
async def test_no_waiting_pod_takes_the_place_of_a_moved_one(
    owner: tuple[str, str, str], shared: dict[str, Any], priority: int
) -> None:
    x, y = running("x", owner=owner, **shared), waiting("y", priority=priority, **shared)
    early = [] if shared is ROOM else [y]  # it would have gone to b
    it = await evicted(x, *early)
    it.board.add(y)
    await it.run(3)
    assert it.bound() == {}
    it.replaced(x)
    await it.run(3)
    assert it.bound() == {"x": "b"}


@pytest.mark.parametrize("shared", SHARED)
async def test_a_pod_of_higher_priority_takes_a_promised_place(shared: dict[str, Any]) -> None:
    x = running("x", **shared)
    it = await evicted(x)
    it.board.add(waiting("y", priority=1, **shared))
    await it.run(1)
    assert it.bound() == {"y": "b"}
    it.replaced(x)
    await it.run(3)
    assert it.bound() == {"y": "b"}


async def test_a_replacement_prefers_the_promised_node() -> None:
    x = running("x", owner=WEB, **ROOM)
    it = await evicted(x, nodes=[node("a"), node("b"), node("c", cpu=3.5)])
    it.board.add(node("d", cpu=64.0))
    again = it.replaced(x, name="x-2")
    await it.run(1)
    assert it.bound() == {"x-2": "b"}
    assert it.message(again) == "b was kept for it"


def near(app: str) -> dict[str, Any]:
    """A pod that must be on a node with one of these."""
    return {"attracts": (PodTerm("name", (Expression("app", "In", (app,)),)),)}


NAMED = [node(name, labels={"name": name}) for name in "abc"]


async def partners() -> tuple[Pool, Pod, Pod]:
    """Node a was cordoned, and a pod of it evicted that others are near to, and one of these: both are gone."""
    db = running("db", owner=WEB, labels={"app": "db"}, priority=9)
    near_it = running("near", owner=("ReplicaSet", "near", "rs-2"), **near("db"))
    it = Pool([db, near_it], NAMED)
    await it.run(3)
    it.cordon("a")
    await it.run(8)
    assert [name for _, name in it.board.tried(Evict)] == ["db", "near"], "a kept place counts where moves are judged"
    return it, db, near_it


async def test_no_pod_is_bound_beside_a_place_just_kept() -> None:
    it, db, near_it = await partners()
    again = it.replaced(near_it)
    await it.run(20)
    assert it.bound() == {}
    assert "1 node(s) only had places kept for the pods that its affinity selects" in it.message(again)
    assert "b is kept for it until pods that its affinity selects are bound" in it.message(again)
    it.replaced(db)
    await it.run(12)
    assert it.bound() == {"db": "b", "near": "b"}


async def test_the_first_of_a_group_joins_a_kept_place() -> None:
    group = {"labels": {"app": "x"}, **near("x")}
    x = running("x", owner=WEB, **group)
    it = await evicted(x, nodes=NAMED)
    it.board.add(waiting("first", owner=("ReplicaSet", "other", "rs-2"), **group))
    await it.run(3)
    it.replaced(x)
    await it.run(12)
    assert it.bound() == {"first": "b", "x": "b"}


async def test_each_promise_is_for_one_replacement() -> None:
    nodes = [node("a", cpu=8.0), node("b"), node("c")]
    x, y = (running(name, owner=WEB, **ROOM) for name in ("x", "y"))
    it = Pool([x, y], nodes)
    it.cordon("a")
    await it.run(2)
    assert sorted(name for _, name in it.board.tried(Evict)) == ["x", "y"]
    it.replaced(x, name="x-2")
    await it.run(2)
    it.board.add(waiting("other", **ROOM))
    await it.run(2)
    assert [*it.bound()] == ["x-2"]
    it.replaced(y, name="y-2")
    await it.run(2)
    assert sorted(it.bound().items()) in ([("x-2", "b"), ("y-2", "c")], [("x-2", "c"), ("y-2", "b")])


async def test_an_older_sibling_that_waits_is_no_replacement() -> None:
    x, sibling = running("x", owner=WEB, **ROOM), waiting("sibling", owner=WEB, cpu=3.5)
    it = await evicted(x, sibling, nodes=[node("a"), node("b", cpu=3.2)])
    it.board.add(replace(sibling, needs=x.needs))
    await it.run(3)
    assert it.bound() == {}


async def test_a_stateful_replacement_has_the_same_name() -> None:
    x = running("x", owner=DB, **ROOM)
    it = await evicted(x)
    it.board.add(waiting("w", owner=DB, **ROOM | {"created": it.clock.now()}))
    await it.run(12)
    assert it.bound() == {}


async def test_a_place_for_another_scheduler_is_kept_for_a_while() -> None:
    x = running("x", scheduler="other", **ROOM)
    it = await evicted(x, others=True)
    it.replaced(x)
    it.board.add(waiting("y", **ROOM))
    await it.run(20)
    assert it.bound() == {}
    await it.run(20)
    assert it.bound() == {"y": "b"}


async def test_a_surge_keeps_a_place_for_its_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    x = running("x", owner=WEB, **ROOM)
    it = Pool([x], zoned("a", "b"), surge=True)

    async def begin(evict: Evict, within: float, decision: str) -> Answer:
        return Answer("done", 200, BEGUN)

    monkeypatch.setattr(it.mover.surging, "begin", begin)
    it.cordon("a")
    await it.run(2)
    it.board.add(waiting("y", **ROOM))
    await it.run(2)
    assert it.bound() == {}
    it.replaced(x, name="x-2")
    await it.run(2)
    assert it.bound() == {"x-2": "b"}


async def test_a_replacement_that_is_being_bound_counts_once() -> None:
    x = running("x", cpu=1.5)
    it = await evicted(x)
    it.board.answers.clear()
    it.replaced(x)
    await it.run(1)
    it.board.add(waiting("y", cpu=2.5))
    await it.run(2)
    assert it.bound() == {"x": "b", "y": "b"}
    it.board.answers.set()
    await it.run(1)


@pytest.mark.parametrize(
    ("owner", "seconds", "ends"),
    [
        pytest.param(WEB, 25, False, id="a controller makes none yet"),
        pytest.param(WEB, 35, True, id="a controller makes none"),
        pytest.param(BARE, 300, False, id="a bare pod has its record"),
    ],
)
async def test_a_place_is_kept_until_no_replacement_can_be_expected(
    owner: tuple[str, str, str], seconds: float, ends: bool
) -> None:
    it = await evicted(running("x", owner=owner, **ROOM))
    await it.run(seconds)
    it.board.add(waiting("y", **ROOM))
    await it.run(2)
    assert it.bound() == ({"y": "b"} if ends else {})


@pytest.mark.parametrize("given_up", [pytest.param(False, id="deleted"), pytest.param(True, id="given up")])
async def test_a_place_is_free_once_nobody_recreates_the_pod(given_up: bool) -> None:
    it = await evicted(running("x", **ROOM))
    it.board.add(waiting("y", **ROOM))
    await it.run(3)
    assert it.bound() == {}
    it.board.records = tuple(replace(record, over=True) for record in it.board.records) if given_up else ()
    await it.run(12)
    assert it.bound() == {"y": "b"}


async def test_a_stateful_pod_that_ends_slowly_keeps_its_place() -> None:
    x = running("x", owner=DB, **ROOM)
    it = Pool([x], zoned("a", "b"))
    it.board.lingers = True
    it.cordon("a")
    await it.run(60)
    it.board.add(waiting("y", **ROOM))
    await it.run(12)
    it.board.remove("x")
    await it.run(20)
    it.replaced(x)
    await it.run(2)
    assert it.bound() == {"x": "b"}


async def test_a_replacement_kept_off_by_its_forerunner_keeps_its_place() -> None:
    x = running("x", owner=WEB, **APART, **ROOM)
    it = Pool([x], zoned("a", "b"))
    it.board.lingers = True
    it.cordon("a")
    await it.run(2)
    again = it.replaced(x, name="x-2")
    it.board.add(waiting("y", priority=0, **ROOM))
    await it.run(60)
    assert it.bound() == {}
    assert "b is kept for it until the pod that it replaces has gone" in it.message(again)
    it.board.remove("x")
    await it.run(12)
    assert it.bound() == {"x-2": "b"}


@pytest.mark.parametrize("change", ["deleted", "cordoned", "filled"])
async def test_a_promise_does_not_count_on_an_unsuitable_node(change: str) -> None:
    x = running("x", **APART)
    it = await evicted(x, waiting("y", **APART), nodes=[*zoned("a", "b"), node("c", cpu=0.05, labels={"zone": "z"})])
    if change == "deleted":
        del it.board.nodes["b"]
    elif change == "cordoned":
        it.cordon("b")
    else:
        it.board.add(pod("foreign", cpu=4.0, on="b", scheduler="other"))
    it.board.add(node("d", labels={"zone": "z"}))
    await it.run(12)
    assert it.bound() == {"y": "d"}


async def test_a_replacement_goes_elsewhere_if_its_node_is_gone() -> None:
    x = running("x", **APART)
    it = await evicted(x)
    del it.board.nodes["b"]
    it.board.add(node("c", labels={"zone": "z"}))
    it.replaced(x)
    it.board.add(waiting("y", **APART))
    await it.run(3)
    assert it.bound() == {"x": "c"}


@pytest.mark.parametrize(
    ("owner", "seconds", "node_of_x"),
    [
        pytest.param(BARE, 15.0, "d", id="bare, and the taint is tolerated only for a time"),
        pytest.param(BARE, None, "c", id="bare, and the taint is tolerated"),
        pytest.param(DB, 15.0, "c", id="with a controller, which would make another"),
    ],
)
async def test_a_copy_goes_where_kubernetes_lets_it_stay(
    owner: tuple[str, str, str], seconds: float | None, node_of_x: str
) -> None:
    x = running("x", owner=owner, tolerations=(Toleration("maint", "Exists", seconds=seconds),))
    it = await evicted(x)
    it.cordon("b")
    it.board.add(node("c", cpu=8.0, taints=(Taint("maint", "NoExecute"),)))
    it.replaced(x, annotations={} if owner is DB else {"elasticd.io/restored-from": x.uid})
    await it.run(15)
    assert it.bound() == ({} if node_of_x == "d" else {"x": "c"})
    it.board.add(node("d"))
    await it.run(12)
    assert it.bound() == {"x": node_of_x}


@pytest.mark.parametrize("owner", OWNERS)
async def test_a_replacement_goes_elsewhere_if_its_node_rejects_it(owner: tuple[str, str, str]) -> None:
    x = running("x", owner=owner)
    it = await evicted(x)
    it.board.add(node("c", cpu=0.5))
    again = it.replaced(x)
    refusal = Answer("failed", 422, "b is reserved", "Invalid")
    it.board.refuse = lambda action: refusal if isinstance(action, Bind) and action.node == "b" else None
    await it.run(5)
    assert [action.node for action in it.board.bindings] == ["b", "c"]
    assert it.message(again) == "b rejected it, or another of its controller"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        pytest.param(401, "Unauthorized", id="a token that has expired"),
        pytest.param(403, 'User "elasticd" cannot create resource "pods/binding"', id="no right"),
        pytest.param(429, "too many requests", id="too many requests"),
        pytest.param(500, "etcdserver: request timed out", id="a server in trouble"),
        pytest.param(503, "the service is unavailable", id="a server that is away"),
    ],
)
async def test_what_is_not_about_a_node_counts_not_against_it(code: int, message: str) -> None:
    x = running("x")
    it = await evicted(x)
    it.board.add(node("c", cpu=0.5))
    it.replaced(x)
    it.board.refuse = lambda action: Answer("failed", code, message, "") if isinstance(action, Bind) else None
    await it.run(15)
    assert {action.node for action in it.board.bindings} == {"b"}


CALL_FAILED = Answer("failed", 500, 'Internal error occurred: failed calling webhook "x": EOF', "ServerError")


@pytest.mark.parametrize(
    ("failing", "tried"),
    [
        pytest.param({"b"}, ["b", "c"], id="for one node"),
        pytest.param({"b", "c", "d"}, ["b", "c", "b", "c"], id="for all nodes"),
    ],
)
async def test_a_node_for_which_a_webhook_failed_is_tried_last(failing: set[str], tried: list[str]) -> None:
    x = running("x")
    it = await evicted(x)
    it.board.add(node("c", cpu=0.5), node("d", cpu=0.2))
    it.replaced(x)
    it.board.refuse = lambda action: CALL_FAILED if isinstance(action, Bind) and action.node in failing else None
    await it.run(10)
    assert [action.node for action in it.board.bindings][:4] == tried


async def test_a_copy_goes_elsewhere_if_a_kubelet_rejects_it() -> None:
    x = running("x")
    it = await evicted(x)
    it.board.add(node("c", cpu=0.5))
    it.board.records = tuple(replace(record, rejected_by=frozenset({"b"})) for record in it.board.records)
    it.replaced(x)
    await it.run(3)
    assert it.bound() == {"x": "c"}


async def test_a_node_that_rejected_a_pod_is_tried_again() -> None:
    x = running("x")
    it = await evicted(x)
    answers = [Answer("failed", 422, "b is reserved", "Invalid")] * 3
    it.board.refuse = lambda action: answers.pop() if isinstance(action, Bind) and answers else None
    it.replaced(x)
    await it.run(15)
    assert it.board.pods["x"].node == "b"


async def test_a_replacement_that_others_bind_ends_the_promise() -> None:
    x = running("x", owner=WEB, **ROOM)
    it = await evicted(x)
    it.board.add(node("c", cpu=3.2))
    it.board.add(replace(running("x-2", owner=WEB, **ROOM), node="c", created=it.clock.now()))
    await it.run(1)
    it.board.add(waiting("y", **ROOM))
    await it.run(2)
    assert it.bound() == {"y": "b"}


@pytest.mark.parametrize(
    ("answer", "gone", "kept"),
    [
        pytest.param(Answer("refused", 429, "a budget", "Budget"), False, False, id="refused"),
        pytest.param(Answer("failed", 0, "no answer"), False, False, id="unclear, and it stays"),
        pytest.param(Answer("failed", 0, "no answer"), True, True, id="unclear, and it goes"),
    ],
)
async def test_a_place_is_kept_only_after_a_possible_eviction(answer: Answer, gone: bool, kept: bool) -> None:
    x = running("x", owner=WEB, **ROOM)
    it = Pool([x], zoned("a", "b"))

    def refuse(action: Action) -> Answer | None:
        if isinstance(action, Evict) and gone:
            it.board.remove("x")
        return answer if isinstance(action, Evict) else None

    it.board.refuse = refuse
    it.cordon("a")
    await it.run(2)
    it.board.add(waiting("y", **ROOM))
    await it.run(2)
    assert it.bound() == ({} if kept else {"y": "b"})


async def test_a_failed_binding_keeps_the_place() -> None:
    x = running("x", **CLAIMS)
    it = await evicted(x, waiting("y", **CLAIMS))
    again = it.replaced(x)
    it.board.refuse = lambda action: Answer("refused", 403, "no") if isinstance(action, Bind) else None
    await it.run(20)
    assert {name for _, name in it.board.tried(Bind)} == {again.name}


@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("moment", ["it is gone", "its copy waits", "it is ending"])
async def test_a_restart_keeps_the_place_of_a_bare_pod(shared: dict[str, Any], moment: str) -> None:
    x, y = running("x", **shared), waiting("y", **shared)
    it = await evicted(x)
    if moment == "it is ending":
        it.board.add(replace(x, deleted=True))
    elif moment == "its copy waits":
        it.replaced(x)
    it.board.add(y)
    it.start()
    await it.run(3)
    if moment == "it is ending":
        it.board.remove("x")
        await it.run(1)
    if moment != "its copy waits":
        assert it.bound() == {}
        it.replaced(x)
        await it.run(12)
    assert it.bound() == {"x": "b"}


async def test_a_place_is_as_large_as_the_recorded_copy() -> None:
    x, y = running("x"), waiting("y", **ROOM)
    it = await evicted(x)
    larger = replace(x, needs=replace(x.needs, requests={"cpu": 3.0}))
    it.board.recorded = (Promise(larger, "b", x.uid, "a"),)
    it.board.add(y)
    await it.run(2)
    assert it.bound() == {}


async def test_a_restart_with_a_record_gone_keeps_no_place() -> None:
    it = await evicted(running("x", **ROOM))
    it.board.records = it.board.recorded = ()
    it.board.add(waiting("y", **ROOM))
    it.start()
    await it.run(2)
    assert it.bound() == {"y": "b"}


@pytest.mark.parametrize("stays", [pytest.param(True, id="not evicted"), pytest.param(False, id="its copy runs")])
async def test_a_record_alone_promises_nothing_after_a_restart(stays: bool) -> None:
    x = running("x", **ROOM)
    it = await evicted(x, nodes=[*zoned("a", "b"), node("c", cpu=3.2)])
    it.board.add(x if stays else replace(x, uid="x-again", node="c", created=it.clock.now() // 1))
    it.board.add(waiting("y", **ROOM), waiting("z", **ROOM))
    it.start()
    await it.run(2)
    assert set(it.bound().values()) == ({"b", "c"} if stays else {"b"})


async def test_a_promise_taken_over_ends_with_its_replacement() -> None:
    x = running("x", **ROOM)
    it = await evicted(x, nodes=[*zoned("a", "b"), node("c", cpu=3.2)])
    it.start()
    await it.run(1)
    it.board.add(replace(running("x", **ROOM), uid="x-again", node="c", created=it.clock.now() // 1))
    await it.run(1)
    it.board.add(waiting("y", **ROOM))
    await it.run(2)
    assert it.bound() == {"y": "b"}


async def test_a_promise_ends_also_where_no_pool_is_left() -> None:
    """Whoever asks for the promised places gets those of now: the policies with pools were removed right after."""
    x = running("x", owner=WEB, **ROOM)
    it = await evicted(x)
    it.placer.apply([])
    snapshot, now = await it.board.observe(it.clock.now(), frozenset()), it.clock.now()
    assert [promise.leaving for promise in it.placer.promised(snapshot, now)] == [x.uid]
    assert it.placer.promised(snapshot, now + PROMISED + 1) == ()


async def test_what_is_coming_to_a_node_is_shown() -> None:
    it = await evicted(running("x", **ROOM))
    (view,) = await PoolReports(it.board, it.placer, it.mover, it.clock).nodes("b")
    assert isinstance(view, NodeView)
    assert [(row.name, row.stays) for row in view.leaving] == [("x", "Coming")]


async def test_no_other_move_is_planned_for_a_promised_place() -> None:
    x, y = running("x", **ROOM), pod("y", cpu=3.0, on="c", started=NOW - 600, ready=True)
    it = await evicted(x, y, nodes=[node("a"), node("b"), node("c")])
    it.cordon("c")
    await it.run(12)
    assert [name for _, name in it.board.tried(Evict)] == ["x"]


@settings(max_examples=40, deadline=None)
@given(
    moved=st.sampled_from([BARE, WEB, DB]),
    others=st.lists(
        st.tuples(st.sampled_from([CLAIMS, APART, ROOM, {"cpu": 1.0}]), st.integers(-2, 0), st.booleans()), max_size=5
    ),
    shared=st.sampled_from([CLAIMS, APART, ROOM, {**APART, **CLAIMS, **ROOM}]),
    gap=st.integers(0, 20),
)
def test_whatever_waits_a_replacement_is_bound(
    moved: tuple[str, str, str], others: list[tuple[dict[str, Any], int, bool]], shared: dict[str, Any], gap: int
) -> None:
    async def play() -> None:
        x = running("x", owner=moved, **shared)
        rivals = [waiting(f"y{number}", priority=rank, **wants) for number, (wants, rank, _) in enumerate(others)]
        it = Pool([x], zoned("a", "b"))
        it.record(x)
        it.cordon("a")
        await it.run(2)
        it.board.add(*(one for one, (*_, early) in zip(rivals, others, strict=True) if early))
        await it.run(gap)
        it.board.add(*(one for one, (*_, early) in zip(rivals, others, strict=True) if not early))
        it.replaced(x)
        await it.run(12)
        assert it.bound()["x"] == "b"

    asyncio.run(play())
