"""What people are shown of a running pool: from the same look, the same placer and the same mover that act."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from elasticd.api import Move, NodeLevel, Nodes, PoolObservation, Strategy, hookimpl
from elasticd.base.clock import VirtualClock
from elasticd.cluster.disruption import DisruptionGuard, DisruptionSettings
from elasticd.decision.pool.preemption import NodeOrder
from elasticd.journal import Journal
from elasticd.kit.calendars import Hours
from elasticd.model.actions import Answer, Evict
from elasticd.model.moves import MovesPlan, Underway
from elasticd.model.placement import DisruptionBudget, EvictionOrder
from elasticd.model.pod_spec import Taint
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect
from elasticd.model.reports import NodeView, PoolReport
from elasticd.model.workload import Failure, Node, Pod
from elasticd.ports.cluster import Snapshot, View
from elasticd.runtime.pools.mover import Mover
from elasticd.runtime.pools.placer import Placer
from elasticd.runtime.pools.report import PoolReports
from elasticd.runtime.workers import EvictionOrderWorker
from elasticd_plugins.preemption import Preemption
from tests.kit.board import Board
from tests.kit.placers import Fits
from tests.kit.pools import GIB, NOW, node, pod
from tests.runtime.pools.test_next_moves import decided

OWNED = ("ReplicaSet", "web", "rs-1")
LEAVE = {"leave": "yes"}
ALWAYS = (Hours(start="0 0 * * *", duration=86400.0),)


class Leave(Strategy, tag="leave", frozen=True):
    """Wants all pods off nodes with a label, and says who that is."""

    @hookimpl
    def rebalance_nodes(self, nodes: Nodes) -> Sequence[Move]:
        found = [index for index, one in enumerate(nodes.nodes) if one.labels.get("leave")]
        return [Move(one, "Leaves", f"{nodes.names[index]} empties") for index in found for one in nodes.pods(index)]

    @hookimpl
    def explain_nodes(self, nodes: Nodes) -> Sequence[NodeLevel]:
        leaving = [one.name for one in nodes.nodes if one.labels.get("leave")]
        return [NodeLevel(name, "gives") for name in leaving]


class Rests(Strategy, tag="rests", frozen=True):
    """Wants nobody moved."""

    @hookimpl
    def rebalance_nodes(self, nodes: Nodes) -> Sequence[Move]:
        return []


class Tired(Strategy, tag="tired", frozen=True):
    """Cannot say what should move."""

    @hookimpl
    def rebalance_nodes(self, observation: PoolObservation) -> Sequence[Move]:
        raise ValueError("too tired")


class Certified(Strategy, tag="test-certified", frozen=True):
    """Has an opinion about one label, which no pod names."""

    def labels_of_nodes(self) -> tuple[str, ...]:
        return ("cert",)


class Bench:
    """A mover and what is shown of it, over a board, in virtual time."""

    def __init__(self, nodes: Sequence[Node], pods: Sequence[Pod], *strategies: Strategy, **changes: Any) -> None:
        self.clock = VirtualClock(NOW)
        self.board = Board(self.clock, nodes, pods)
        self.journal = Journal()
        door = DisruptionGuard(self.board, DisruptionSettings(**changes.pop("disruption", {})), self.clock)

        async def look(now: float) -> Snapshot:
            return await door.observe(now, frozenset())

        self.placer = Placer(door, look, self.journal, self.clock)
        planner = changes.pop("planner", None)
        moves = MovesTable(**{"every": 30.0, **changes.pop("moves", {})})
        own: dict[str, Any] = {"name": "pool", "pool": PoolSelect(), "mode": "act", "moves": moves}
        self.placer.apply([PoolPolicy(strategies=strategies or (Fits(), Leave()), **{**own, **changes})])
        self.mover = Mover(door, self.placer, self.journal, self.clock, planner=planner)
        self.reports = PoolReports(door, self.placer, self.mover, self.clock)

    async def look(self) -> None:
        """One look of the mover, and all that it does."""
        await self.mover.turn()
        await self.mover.actions.drain()

    async def pool(self) -> PoolReport:
        (found,) = await self.reports.nodes()
        assert isinstance(found, PoolReport)
        return found

    async def summary(self) -> str:
        moving = (await self.pool()).moving
        assert moving is not None
        return moving.summary

    async def node(self, name: str) -> NodeView:
        (found,) = await self.reports.nodes(name)
        assert isinstance(found, NodeView)
        return found


@asynccontextmanager
async def bench(nodes: Sequence[Node], pods: Sequence[Pod], *strategies: Strategy, **more: Any) -> AsyncIterator[Bench]:
    made = Bench(nodes, pods, *strategies, **more)
    try:
        yield made
    finally:
        await made.mover.actions.drain(0)


def running(name: str, on: str, **more: Any) -> Pod:
    return pod(name, on=on, **{"owner": OWNED, "started": NOW - 600, "ready": True, **more})


TWO = (node("a", labels=LEAVE), node("b"))


async def test_next_moves_are_those_of_the_latest_look_with_outcomes() -> None:
    others = [running(name, on, owner=("ReplicaSet", "other", "other")) for name, on in (("q", "a"), ("s", "b"))]
    async with bench(TWO, [running("p", "a"), running("r", "b"), *others]) as it:
        assert await it.summary() == "not looked at yet: nodes, pods or a source are waited for"
        await it.look()
        found = await it.pool()
        assert found.moving is not None
        assert (found.moving.at, found.moving.due, found.moving.summary) == (NOW, NOW + 30, "2 pods move")
        assert [(one.decision.pod.name, one.decision.target, one.goes) for one in found.moving.moves] == [
            ("p", "b", True),
            ("q", "b", True),
        ]
        assert {one.outcome and one.outcome.result for one in found.moving.moves} == {"done"}
        assert [(one.node, one.level and one.level.state) for one in found.nodes] == [("a", "gives"), ("b", None)]


async def test_a_report_can_be_read_while_a_look_is_due() -> None:
    async with bench(TWO, [running("p", "a")]) as it:
        await it.look()
        it.mover.trigger()
        read = msgspec.json.decode(msgspec.json.encode(await it.pool()), type=PoolReport)
        assert read.moving is not None
        assert read.moving.due == NOW


async def test_what_was_refused_on_the_way_stays_for_its_reason() -> None:
    async with bench(TWO, [running("p", "a"), running("r", "b")]) as it:
        it.board.refuse = lambda _: Answer("refused", 0, "no pod is moved: night", "Blackout")
        await it.look()
        assert await it.summary() == "nothing moves: 1 pod should, and stays: Blackout"


async def test_outcomes_are_those_of_pods_that_still_should_move() -> None:
    async with bench(TWO, [running("p", "a"), running("r", "b")]) as it:
        await it.look()
        it.mover.trigger()
        await it.look()
        latest = it.mover.latest("pool")
        assert (latest.plan.decisions, latest.outcomes) == ((), {})


@pytest.mark.parametrize(
    ("more", "told"),
    [
        pytest.param({"mode": "observe"}, "1 pod would move, but mode is observe", id="observe"),
        pytest.param({"moves": {"per_look": 1, "bare": False}}, "1 pod moves", id="act"),
    ],
)
async def test_who_only_observes_says_what_would_be(more: dict[str, Any], told: str) -> None:
    async with bench(TWO, [running("p", "a"), running("r", "b")], **more) as it:
        await it.look()
        assert await it.summary() == told


async def test_who_does_not_lead_says_so() -> None:
    async with bench(TWO, [running("p", "a"), running("r", "b")]) as it:
        await it.look()
        it.board.leading = False
        found = await it.pool()
        assert found.moving is not None
        assert (found.moving.summary, found.moving.moves) == ("this elasticd does not lead: another moves pods", ())


@pytest.mark.parametrize(
    ("old", "summary"),
    [
        pytest.param(100.0, "nothing moves: no pod should", id="the view is current"),
        pytest.param(
            900.0,
            "nothing moves, and whether a pod should is unknown: "
            "what is known of the pods and nodes is older than max_age",
            id="it is not",
        ),
    ],
)
async def test_whether_pods_should_move_is_unknown_on_old_views(old: float, summary: str) -> None:
    async with bench((node("a"), node("b")), [running("p", "a")], Fits(), Rests()) as it:
        await it.look()
        it.board.behind = old
        it.board.watched = [View(("v1", "Node"), it.clock.now() - old, "500 InternalError: x")]
        found, view = await it.pool(), await it.node("a")
        assert found.moving is not None
        assert view.moving is not None
        assert (found.moving.summary, view.moving.summary) == (summary, summary)
        stale = [re.sub("since .* UTC", "since then", line) for line in (*found.stale, *view.stale)]
        assert stale == (["Node: not current since then: 500 InternalError: x"] * 2 if old > 120 else [])


async def test_where_nothing_is_ever_moved_nothing_is_said_of_it() -> None:
    async with bench(TWO, [running("p", "a")], Fits()) as it:
        await it.look()
        assert (await it.pool()).moving is None
        assert (await it.node("a")).moving is None


async def test_a_stuck_or_failing_plugin_explains_why_nothing_moves() -> None:
    async with bench(TWO, [running("p", "a")], Tired()) as it:
        await it.look()
        assert await it.summary() == "nothing moves: plugin tired: rebalance_nodes raised ValueError: too tired"
        it.placer.pools[0].blocked = "stuck in tired.py:7 rebalance_nodes"
        assert await it.summary() == "nothing moves: stuck in tired.py:7 rebalance_nodes"


async def test_a_plugin_is_switched_off_though_no_pod_is_concerned() -> None:
    async with bench(TWO, [running("p", "a")], Tired()) as it:
        for _ in range(6):
            it.mover.trigger()
            await it.look()
        assert it.placer.pools[0].failures.off == {"tired"}


async def test_one_that_cannot_explain_is_not() -> None:
    failure = Failure("leave", "explain_nodes", "raised ValueError")

    async def planner(cases: Any) -> list[MovesPlan | str]:
        return [MovesPlan(failures=(failure,)) for _ in cases]

    async with bench(TWO, [running("p", "a")], planner=planner) as it:
        await it.look()
        for _ in range(6):
            it.mover.trigger()
            await it.look()
        assert it.placer.pools[0].failures.off == frozenset()
        found = await it.pool()
        assert found.moving is not None
        assert (found.moving.summary, found.moving.failures) == ("nothing moves: no pod should", (failure,))


async def test_a_node_without_movable_pods_says_why_they_stay() -> None:
    class Picky(Leave, tag="picky", frozen=True):
        @hookimpl
        def rebalance_nodes(self, nodes: Nodes) -> Sequence[Move]:
            return []

        @hookimpl
        def explain_nodes(self, nodes: Nodes) -> Sequence[NodeLevel]:
            return [NodeLevel("a", "gives", ("cpu",), "cpu 90%"), NodeLevel("b", "takes")]

    pods = [running("p", "a", started=NOW), running("q", "a", started=NOW), running("r", "a", namespace="kube-system")]
    async with bench(TWO, pods, Fits(), Picky()) as it:
        await it.look()
        told = "nothing moves: a should give pods, but all its 3 stay (2 Young, 1 Spared); cpu 90%"
        assert await it.summary() == told


async def test_a_node_report_has_heaps_taints_labels_and_moves() -> None:
    taint = Taint("gpu", "NoSchedule", "yes")
    nodes = [
        node("a", labels={**LEAVE, "disk": "ssd", "rack": "7"}, taints=(taint, Taint("old", "NoExecute"))),
        node("b"),
    ]
    pods = [
        running("web", "a"),
        running("other", "b"),
        running("job", "a", owner=("", "", ""), restart="Never", selector={"disk": "ssd"}),
        running("small", "a", owner=("Job", "j", "u"), restart="OnFailure"),
        running("set", "a", owner=("DaemonSet", "d", "d-1")),
        pod("waits", selector={"leave": "yes"}),
    ]
    async with bench(nodes, pods, mode="observe") as it:
        await it.look()
        found = await it.node("a")
        assert [[one.name for one in heap] for heap in (found.never, found.on_failure, found.always)] == [
            ["job"],
            ["small"],
            ["web"],
        ]
        assert [(one.name, one.stays) for one in found.rooted] == [("set", "DaemonSet")]
        assert (found.on_failure[0].stays, found.always[0].stays) == ("RunsOnce", "Observe")
        assert (found.yields, found.on_failure[0].turn) == (False, 0)
        assert found.taints == ("gpu=yes:NoSchedule", "old:NoExecute")
        assert found.labels == {"disk": "ssd", "leave": "yes"}
        assert found.moving is not None
        assert {one.decision.node for one in found.moving.moves} == {"a"}
        other = await it.node("b")
        assert other.moving is not None
        assert {one.decision.target for one in other.moving.moves} <= {"b"}


async def test_a_node_report_shows_the_labels_its_policy_uses() -> None:
    labels = {"pool": "x", "cert": "pci", "rack": "7"}
    async with bench((node("a", labels=labels),), (), Fits(), Certified(), pool=PoolSelect(nodes={"pool": "x"})) as it:
        await it.look()
        assert (await it.node("a")).labels == {"pool": "x", "cert": "pci"}


async def test_a_pod_kept_only_by_the_broker_reports_its_reason() -> None:
    async with bench(TWO, [running("p", "a"), running("q", "a"), running("r", "b")], disruption={"per_node": 1}) as it:
        assert [one.stays for one in (await it.node("a")).always] == ["", ""]
        it.board.lingers = True
        await it.look()
        found = await it.node("a")
        told = "1 pod of node a went within 60 s, and 1 may"
        assert [(one.name, one.stays, one.why) for one in found.always] == [("q", "Disturbed", told)]
        assert [(one.name, one.stays) for one in found.leaving] == [("p", "Leaving")]
        assert [one.stays for one in (await it.node("b")).always] == [""]


async def test_a_budgets_refusal_is_reported_as_of_the_last_look() -> None:
    async with bench(TWO, [running("p", "a"), running("r", "b")]) as it:
        it.board.refuse = lambda _: Answer("refused", 429, "the budget web allows none", "Budget")
        await it.look()
        (one,) = (await it.node("a")).always
        assert (one.stays, one.why) == ("Budget", "the budget web allows none, at the last look")


@pytest.mark.parametrize(
    ("how", "told"),
    [
        pytest.param("observe", ("Observe", 'mode is "observe": nobody is made to go'), id="observe"),
        pytest.param("follows", ("NotLeading", "this elasticd does not lead: another moves pods"), id="does not lead"),
        pytest.param("blocked", ("PluginBlocked", "stuck in tired.py:7"), id="a plugin got stuck"),
    ],
)
async def test_a_freely_movable_pod_reports_why_nobody_is_evicted(how: str, told: tuple[str, str]) -> None:
    pods = [running("p", "a"), running("r", "b"), running("young", "a", started=NOW)]
    strategies = (Fits(), Leave(), Preemption())
    async with bench(TWO, pods, *strategies, mode="observe" if how == "observe" else "act") as it:
        it.board.leading = how != "follows"
        it.placer.pools[0].blocked = "stuck in tired.py:7" if how == "blocked" else ""
        p, young = (await it.node("a")).always
        line = (p.spared, p.spared_why), young.spared
        assert (p.stays, p.why, young.stays) == (*told, "Young")
        assert line == ((("", ""), "") if how == "blocked" else (told, "Young")), "its plugins are not called again"


async def test_without_moves_a_node_report_shows_the_rules_of_preemption() -> None:
    pods = [
        running("kept", "a", memory=GIB, restart="Never", owner=("Job", "j", "j-1")),
        running("free", "a", restart="Never", owner=("Job", "j", "j-1")),
        running("young", "a", restart="Never", owner=("Job", "k", "k-1"), started=NOW - 30),
        running("web", "a"),
    ]
    async with bench(TWO, pods, Fits(), Preemption(min_run=40)) as it:
        it.board.limits = (DisruptionBudget("shop", "j", frozenset({"uid-kept"}), 0),)
        found = await it.node("a")
        assert (found.moving, found.yields) == (None, True)
        assert found.rule.startswith("for those of higher priority")
        assert [(one.name, one.turn, one.spared, one.stays) for one in (*found.never, *found.always)] == [
            ("free", 1, "", ""),
            ("kept", 0, "Budget", ""),
            ("young", 0, "Young", ""),
            ("web", 2, "", ""),
        ]
        assert found.never[2].spared_why == "it has run for less than min_run = 40 s"


async def test_a_preemption_candidate_may_be_spared_by_the_broker() -> None:
    pods = [running("p", "a"), running("q", "a")]
    async with bench(TWO, pods, Fits(), Preemption(), disruption={"blackout": ALWAYS}) as it:
        found = await it.node("a")
        assert [(one.turn, one.spared) for one in found.always] == [(0, "Blackout")] * 2
        assert found.always[0].spared_why.startswith("no pod is moved: ")


async def test_a_node_report_says_when_explain_victims_does_not_answer() -> None:
    async def stuck(_: Any) -> list[NodeOrder | str]:
        return ["stuck in slow.py:7 explain_victims"]

    async with bench(TWO, [running("p", "a")], Fits(), Preemption()) as it:
        it.reports.find_order = stuck
        found = await it.node("a")
        why = "does not answer: stuck in slow.py:7 explain_victims; it is not called again until reload"
        assert [(one.hook, one.message) for one in found.failures] == [("explain_victims", why)]
        assert (found.yields, [(one.turn, one.spared) for one in found.always]) == (True, [(0, "")])


class Hangs(Strategy, tag="hangs", frozen=True):
    """Says which pods are preempted when the gate is opened."""

    @hookimpl
    def select_victims(self) -> None:
        return None

    @hookimpl
    def explain_victims(self) -> EvictionOrder:
        CAME.append(threading.current_thread())
        GATE.wait()
        return EvictionOrder(())


CAME: list[threading.Thread] = []
GATE = threading.Event()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    CAME.clear()
    GATE.clear()
    yield GATE
    GATE.set()


async def test_a_hanging_plugin_costs_one_thread_for_all_reports(gate: threading.Event) -> None:
    async with bench(TWO, [running("p", "a"), running("r", "b")], Fits(), Hangs()) as it:
        it.reports.find_order = EvictionOrderWorker(patience=0.05)
        together = await asyncio.gather(it.node("a"), it.node("b"), it.node("a"))
        found = [*together, await it.node("a"), await it.node("b")]
        assert len(CAME) == 1
        told = [failure.message for one in found for failure in one.failures]
        pattern = r"does not answer: stuck in test_report\.py:\d+ explain_victims; it is not called again until reload"
        assert [bool(re.fullmatch(pattern, one)) for one in told] == [True] * 5
        assert it.placer.pools[0].blocked == "", "nothing is decided by that: pods are placed and moved as before"
        it.placer.apply([pool.policy for pool in it.placer.pools])
        gate.set()
        assert (await it.node("a")).failures == (), "after a reload it is asked again"


async def test_a_pool_with_a_stuck_plugin_is_asked_nothing(gate: threading.Event) -> None:
    async with bench(TWO, [running("p", "a")], Fits(), Hangs()) as it:
        it.reports.find_order = EvictionOrderWorker(patience=0.05)
        it.placer.pools[0].blocked = "stuck in tired.py:7 filter_nodes; it is not called again until reload"
        (failure,) = (await it.node("a")).failures
        assert failure.message == f"is not asked: {it.placer.pools[0].blocked}"
        assert CAME == []


async def test_a_pool_without_preemption_is_not_asked_for_victims() -> None:
    async with bench(TWO, [running("p", "a")]) as it:
        it.placer.pools[0].blocked = "stuck in tired.py:7"
        found = await it.node("a")
        assert (found.yields, found.failures) == (False, ())


async def test_a_nominated_pod_is_no_victim_on_its_node() -> None:
    noted = replace(pod("waits", cpu=1.0, memory=GIB), nominated="b")
    async with bench(TWO, [noted], Fits(), Preemption()) as it:
        found = await it.node("b")
        assert ([one.name for one in found.always], [(one.name, one.stays) for one in found.leaving]) == (
            [],
            [("waits", "Coming")],
        )


async def test_a_surging_pod_is_reported_as_awaiting_its_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(TWO, [running("p", "a"), running("q", "a"), running("r", "b")]) as it:
        going = Underway(pod("p").ref, "uid-p", "surge", "wait: 1 of 2 are ready without p", NOW, "a")
        monkeypatch.setattr(it.mover.surging, "in_flight", lambda _: [going])
        await it.look()
        found = await it.pool()
        assert found.moving is not None
        assert found.moving.summary == "1 pod moves; 1 more is on the way: another is made first, and awaited"
        assert [name for _, name in it.board.tried(Evict)] == ["q"], "and it is not told to go again"
        view = await it.node("a")
        told = "another is made first, and awaited: wait: 1 of 2 are ready without p"
        assert [(one.name, one.stays, one.why) for one in view.leaving] == [("p", "Replaced", told)]
        going = replace(going, step="down: p is ending", ends=True)
        view, told = await it.node("a"), "another was made first: down: p is ending"
        assert ("p", "Leaving", told) in [(one.name, one.stays, one.why) for one in view.leaving]


async def test_a_surge_being_taken_back_is_reported_as_staying(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(TWO, [running("p", "a"), running("q", "a"), running("r", "b")], moves={"per_look": 1}) as it:
        going = Underway(pod("p").ref, "uid-p", "surge", "wait", NOW, "a")
        monkeypatch.setattr(it.mover.surging, "in_flight", lambda _: [going])
        it.journal.append(decided("p"))
        it.board.refuse = lambda _: Answer("refused", 0, "its own move is being taken back", "UnderWay")
        await it.look()
        going = replace(going, step="back: one fewer", stays=True)
        view = await it.node("a")
        assert ([one.name for one in view.leaving], [one.name for one in view.always]) == ([], ["p", "q"])
        it.mover.trigger()
        await it.look()
        assert it.board.tried(Evict)[-1] == (NOW, "p"), "as nothing leaves, one may go, and it is the first"
        found = (await it.pool()).moving
        assert found is not None
        assert found.summary == "nothing moves: 2 pods should, and stay: 1 TakenBack, 1 UnderWay"


async def test_a_previous_daemons_move_is_shown_with_its_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = (node("a"), node("b"))
    async with bench(nodes, [running("p", "a"), running("q", "a"), running("r", "b")]) as it:
        it.journal.append(decided("p"))
        going = Underway(pod("p").ref, "uid-p", "surge", "wait: 1 of 2 are ready without p", NOW, "a")
        monkeypatch.setattr(it.mover.surging, "in_flight", lambda _: [going])
        await it.look()
        found = (await it.pool()).moving
        assert found is not None
        assert found.summary == "1 pod is on the way: another is made first, and awaited"
        assert [(one.decision.pod.name, one.decision.target, one.underway) for one in found.moves] == [
            ("p", "b", going)
        ]


async def test_a_bare_pods_preemption_is_not_shown_as_a_move(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, bare = (node("a", labels=LEAVE), node("b")), {"owner": ("", "", "")}
    async with bench(nodes, [running("p", "a", **bare), running("r", "b")], moves={"bare": False}) as it:
        await it.look()
        assert await it.summary() == "nothing moves: 1 pod should, and stays: Bare"
        assert [one.refusal for one in it.journal.moves("pool")] == ["Bare"]
        it.board.remove("p")
        anew = Underway(pod("p").ref, "uid-p", "anew", "gone", NOW, why="is preempted for shop/high")
        monkeypatch.setattr(it.board, "restoring", lambda: [anew])
        found = (await it.pool()).moving
        assert found is not None
        assert (found.moves, found.summary[:14]) == ((), "nothing moves:"), "before the next look"
        it.mover.trigger()
        await it.look()
        found = (await it.pool()).moving
        assert found is not None
        assert found.moves == (), "and after it"
        assert it.mover.in_flight(await it.placer.look(NOW)) == [anew]


async def test_a_node_that_no_pool_has_is_not_there() -> None:
    async with bench(TWO, []) as it:
        assert await it.reports.nodes("none") == []


async def test_a_nominated_pod_counts_towards_its_nodes_requests() -> None:
    noted = replace(pod("waits", cpu=1.0, memory=GIB), nominated="b")
    async with bench(TWO, [noted]) as it:
        found = await it.pool()
        assert {one.node: one.requested["cpu"] for one in found.nodes} == {"a": 0.0, "b": 1.0}
