"""What people are shown of a running pool: from the same look, the same placer and the same mover that act."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.actions import Answer
from elasticd.api import Move, NodeLevel, Nodes, PoolObservation, Strategy, hookimpl
from elasticd.clock import VirtualClock
from elasticd.journal import Journal
from elasticd.model import Failure, Node, Pod
from elasticd.mover import Mover
from elasticd.moves import MovesPlan
from elasticd.needs import Taint
from elasticd.placer import Placer
from elasticd.policy import MovesTable, PoolPolicy, PoolSelect
from elasticd.pool_report import PoolReports
from elasticd.reports import NodeView, PoolReport
from tests.board import Board
from tests.placers import Fits
from tests.pools import GIB, NOW, node, pod

OWNED = ("ReplicaSet", "web", "rs-1")
LEAVE = {"leave": "yes"}


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


class Tired(Strategy, tag="tired", frozen=True):
    """Cannot say what should move."""

    @hookimpl
    def rebalance_nodes(self, observation: PoolObservation) -> Sequence[Move]:
        raise ValueError("too tired")


class Bench:
    """A mover and what is shown of it, over a board, in virtual time."""

    def __init__(self, nodes: Sequence[Node], pods: Sequence[Pod], *strategies: Strategy, **changes: Any) -> None:
        self.clock = VirtualClock(NOW)
        self.board = Board(self.clock, nodes, pods)
        journal = Journal()
        self.placer = Placer(self.board, self.board.observe, journal, self.clock)
        moves = MovesTable(**{"every": 30.0, **changes.pop("moves", {})})
        own: dict[str, Any] = {"name": "pool", "pool": PoolSelect(), "mode": "act", "moves": moves}
        self.placer.adopt([PoolPolicy(strategies=strategies or (Fits(), Leave()), **{**own, **changes})])
        self.mover = Mover(self.board, self.placer, journal, self.clock)
        self.reports = PoolReports(self.board, self.placer, self.mover, self.clock)

    async def look(self) -> None:
        """One look of the mover, and all that it does."""
        await self.mover.turn()
        await self.mover.drain()

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
        await made.mover.drain(0)


def running(name: str, on: str, **more: Any) -> Pod:
    return pod(name, on=on, **{"owner": OWNED, "started": NOW - 600, "ready": True, **more})


TWO = (node("a", labels=LEAVE), node("b"))


async def test_what_moves_next_is_that_of_the_latest_look_with_what_came_of_it() -> None:
    async with bench(TWO, [running("p", "a"), running("q", "a"), running("r", "b")]) as it:
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


async def test_what_was_refused_on_the_way_stays_for_its_reason() -> None:
    async with bench(TWO, [running("p", "a"), running("r", "b")]) as it:
        it.board.refuse = lambda _: Answer("refused", 0, "no pod is moved: night", "Blackout")
        await it.look()
        assert await it.summary() == "nothing moves: 1 pod should, and stays: Blackout"


async def test_outcomes_are_those_of_pods_that_still_should_move() -> None:
    async with bench(TWO, [running("p", "a"), running("r", "b")]) as it:
        await it.look()
        it.mover.hurry()
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


async def test_where_nothing_is_ever_moved_nothing_is_said_of_it() -> None:
    async with bench(TWO, [running("p", "a")], Fits()) as it:
        await it.look()
        assert (await it.pool()).moving is None
        assert (await it.node("a")).moving is None


async def test_a_plugin_that_got_stuck_or_fails_is_why_nothing_moves() -> None:
    async with bench(TWO, [running("p", "a")], Tired()) as it:
        await it.look()
        assert await it.summary() == "nothing moves: plugin tired: rebalance_nodes raised ValueError: too tired"
        it.placer.pools[0].blocked = "stuck in tired.py:7 rebalance_nodes"
        assert await it.summary() == "nothing moves: stuck in tired.py:7 rebalance_nodes"


async def test_one_that_fails_again_and_again_is_switched_off_though_no_pod_is_concerned() -> None:
    async with bench(TWO, [running("p", "a")], Tired()) as it:
        for _ in range(6):
            it.mover.hurry()
            await it.look()
        assert it.placer.pools[0].off() == {"tired"}


async def test_one_that_cannot_explain_is_not() -> None:
    async with bench(TWO, [running("p", "a")]) as it:
        await it.look()
        failure = Failure("leave", "explain_nodes", "raised ValueError")

        async def planner(cases: Any) -> list[MovesPlan | str]:
            return [MovesPlan(failures=(failure,)) for _ in cases]

        it.mover._planner = planner
        for _ in range(6):
            it.mover.hurry()
            await it.look()
        assert it.placer.pools[0].off() == frozenset()
        found = await it.pool()
        assert found.moving is not None
        assert (found.moving.summary, found.moving.failures) == ("nothing moves: no pod should", (failure,))


async def test_a_node_that_gives_and_has_nobody_to_give_says_what_keeps_them() -> None:
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


async def test_a_node_has_its_heaps_its_taints_its_labels_and_its_moves() -> None:
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
        assert found.on_failure[0].stays == "Single"
        assert found.taints == ("gpu=yes:NoSchedule", "old:NoExecute")
        assert found.labels == {"disk": "ssd", "leave": "yes"}
        assert found.moving is not None
        assert {one.decision.node for one in found.moving.moves} == {"a"}
        other = await it.node("b")
        assert other.moving is not None
        assert {one.decision.target for one in other.moving.moves} <= {"b"}


async def test_a_node_that_no_pool_has_is_not_there() -> None:
    async with bench(TWO, []) as it:
        assert await it.reports.nodes("none") == []


async def test_what_is_on_its_way_to_a_node_is_counted_there() -> None:
    noted = replace(pod("waits", cpu=1.0, memory=GIB), nominated="b")
    async with bench(TWO, [noted]) as it:
        found = await it.pool()
        assert {one.node: one.requested["cpu"] for one in found.nodes} == {"a": 0.0, "b": 1.0}
