"""The loop that moves pods: when a pool is looked at, what is remembered, and what is done."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.actions import Action, Answer, Evict
from elasticd.api import Move, Nodes, PoolObservation, PoolPast, Strategy, hookimpl
from elasticd.clock import VirtualClock
from elasticd.journal import Journal
from elasticd.model import Node, Pod
from elasticd.mover import Mover, MovesPlanner, moves_at_once
from elasticd.moves import MoveDecision
from elasticd.placements import PodOutcome
from elasticd.placer import Placer
from elasticd.placing.ask import PoolCase
from elasticd.policy import MovesTable, PoolPolicy, PoolSelect
from tests.board import Board
from tests.pools import NOW, node, pod

OWNED = ("ReplicaSet", "web", "rs-1")


class Leave(Strategy, tag="leave", frozen=True):
    """Wants all pods off nodes with a label, two looks after it was seen to have it; notes what it was shown."""

    @hookimpl
    def rebind_pods(self, nodes: Nodes, observation: PoolObservation, past: PoolPast) -> Sequence[Move]:
        SHOWN.append((observation.at - NOW, past))
        found = [index for index, one in enumerate(nodes.nodes) if one.labels.get("leave")]
        return [Move(one, "Leaves") for index in found for one in nodes.pods(index)]

    def looks_back(self) -> int:
        return 2


SHOWN: list[tuple[float, PoolPast]] = []


class Heard:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.decisions: list[MoveDecision] = []
        self.outcomes: list[PodOutcome] = []

    def moving(self, decision: MoveDecision) -> None:
        self.decisions.append(decision)

    def placed(self, outcome: PodOutcome) -> None:
        self.outcomes.append(outcome)


class Bench:
    """A mover over a board, in virtual time, that looks every 30 s."""

    def __init__(
        self, nodes: Sequence[Node], pods: Sequence[Pod], planner: MovesPlanner = moves_at_once, **more: Any
    ) -> None:
        SHOWN.clear()
        self.clock, self.heard = VirtualClock(NOW), Heard()
        self.board = Board(self.clock, nodes, pods)
        journal = Journal()
        self.placer = Placer(self.board, self.board.observe, journal, self.clock)
        policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=(Leave(),), mode="act", moves=MovesTable(**more))
        self.placer.adopt([policy])
        self.mover = Mover(self.board, self.placer, journal, self.clock, [self.heard], planner)

    async def until(self, seconds: float) -> None:
        while self.clock.now() < NOW + seconds:
            await self.mover.step()
            for _ in range(10):
                await asyncio.sleep(0)


@asynccontextmanager
async def bench(nodes: Sequence[Node], pods: Sequence[Pod], **more: Any) -> AsyncIterator[Bench]:
    made = Bench(nodes, pods, **more)
    try:
        yield made
    finally:
        await made.mover.drain(0)


def running(name: str, on: str) -> Pod:
    return pod(name, on=on, owner=OWNED, started=NOW - 600, ready=True)


LEAVE = {"leave": "yes"}


async def test_a_pool_is_looked_at_every_period() -> None:
    async with bench([node("a")], [running("p", "a")]) as it:
        await it.until(91)
    assert [round(at) for at, _ in SHOWN] == [1, 31, 61, 91]


async def test_a_label_that_changes_is_looked_at_at_once_and_its_time_is_known() -> None:
    async with bench([node("a"), node("b")], [running("p", "a"), running("q", "b")]) as it:
        await it.until(31)
        changed = replace(it.board.nodes["a"], labels={**it.board.nodes["a"].labels, **LEAVE})
        it.board.add(changed)
        await it.until(32)
    at, past = SHOWN[-1]
    assert at == 32
    assert past.labelled["a"] == NOW + at
    assert past.labelled["b"] < NOW + 2


async def test_looks_are_remembered_as_far_as_a_strategy_asks() -> None:
    async with bench([node("a")], [running("p", "a")]) as it:
        await it.until(91)
    assert [len(past.looks) for _, past in SHOWN] == [1, 2, 2, 2]
    assert [look.at - NOW for look in SHOWN[-1][1].looks] == [SHOWN[-2][0], SHOWN[-1][0]]


async def test_a_look_that_something_brought_is_not_remembered_beside_one_in_its_time() -> None:
    async with bench([node("a")], [running("p", "a")]) as it:
        await it.until(31)
        it.board.add(node("b"))
        await it.until(62)
    assert [round(at) for at, _ in SHOWN] == [1, 31, 32, 62]
    assert [[round(look.at - NOW) for look in past.looks] for _, past in SHOWN] == [[1], [1, 31], [1, 31], [31, 62]]


async def test_a_move_is_done_once_told_and_remembered() -> None:
    async with bench([node("a", labels=LEAVE), node("b")], [running("p", "a"), running("q", "b")]) as it:
        await it.until(40)
        assert it.board.tried(Evict) == [(SHOWN[0][0] + NOW, "p")]
        assert [(one.verdict, one.target) for one in it.heard.decisions] == [("move", "b")]
        assert [one.result for one in it.heard.outcomes] == ["done"]
    assert [(one.whose, one.node) for one in SHOWN[-1][1].moved] == [("rs-1", "a")]


async def test_a_refusal_of_the_api_is_told_and_remembered_as_no_move() -> None:
    async with bench([node("a", labels=LEAVE), node("b")], [running("p", "a"), running("q", "b")]) as it:
        it.board.refuse = lambda _: Answer("refused", 429, "a budget", "Budget")
        await it.until(35)
        assert {one.reason for one in it.heard.outcomes} == {"Budget"}
    assert SHOWN[-1][1].moved == ()


async def test_what_stays_is_told_once() -> None:
    async with bench([node("a", labels=LEAVE)], [running("p", "a")]) as it:
        await it.until(100)
        assert [one.refusal for one in it.heard.decisions] == ["Single"]


async def test_on_command_every_pool_is_looked_at_now() -> None:
    async with bench([node("a")], [running("p", "a")], every=3600.0) as it:
        await it.until(10)
        it.mover.hurry()
        await it.until(12)
    assert len(SHOWN) == 2


@pytest.mark.parametrize(
    ("answer", "evicted"),
    [
        pytest.param(Answer("done", 200), 0, id="it has begun"),
        pytest.param(Answer("refused", reason="Volumes"), 0, id="it is refused"),
        pytest.param(None, 1, id="no other need be made"),
    ],
)
async def test_another_is_made_first_where_that_is_wanted(
    monkeypatch: pytest.MonkeyPatch, answer: Answer | None, evicted: int
) -> None:
    asked: list[tuple[str, float]] = []

    async def begin(evict: Evict, within: float, decision: str) -> Answer | None:
        asked.append((evict.workload.name, within))
        return answer

    nodes, pods = [node("a", labels=LEAVE), node("b")], [running("p", "a"), running("q", "b")]
    async with bench(nodes, pods, surge=True, surge_within=7.0) as it:
        monkeypatch.setattr(it.mover.surging, "begin", begin)
        await it.until(5)
        assert set(asked) == {("p", 7.0)}
        assert len(it.board.tried(Evict)) == evicted
        assert it.heard.outcomes[0].result == ("done" if answer is None else answer.result)


async def test_on_command_it_is_said_how_many_pools_are_looked_at() -> None:
    async with bench([node("a")], [running("p", "a")]) as it:
        await it.until(2)
        assert it.mover.hurry() == "1 pool is looked at now"
        it.placer.adopt([])
        assert it.mover.hurry() == "no policy in force has a strategy that moves pods"
        it.board.leading = False
        assert it.mover.hurry() == "this elasticd does not lead: another looks at the pools"


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        pytest.param([("refused", "Budget")] * 3, ["Budget"], id="the same"),
        pytest.param([("refused", "Budget"), ("refused", "Breaker")], ["Budget", "Breaker"], id="another reason"),
        pytest.param([("refused", "Busy"), ("conflict", "Busy")], ["Busy", "Busy"], id="another result"),
        pytest.param([("refused", "Budget"), ("done", "")], ["Budget", ""], id="done at last"),
        pytest.param([("failed", "Timeout")] * 2, ["Timeout"], id="a failure"),
    ],
)
async def test_what_is_not_done_is_told_once_for_as_long_as_it_says_the_same(
    answers: list[tuple[Any, str]], told: list[str]
) -> None:
    async with bench([node("a", labels=LEAVE), node("b")], [running("p", "a"), running("q", "b")], every=1.0) as it:
        left = iter(answers)

        def answer(_: Action) -> Answer:
            result, reason = next(left)
            return Answer(result, reason=reason)

        it.board.refuse = answer
        async with asyncio.timeout(10):
            while len(it.board.tried(Evict)) < len(answers):
                await it.until(it.clock.now() - NOW + 1)
        assert [one.reason for one in it.heard.outcomes] == told


async def test_what_was_not_done_is_told_again_where_it_was_not_wanted_meanwhile() -> None:
    async with bench([node("a", labels=LEAVE), node("b")], [running("p", "a"), running("q", "b")]) as it:
        it.board.refuse = lambda _: Answer("refused", 429, "a budget", "Budget")
        await it.until(5)
        for labels in ({}, LEAVE):
            it.board.add(replace(it.board.nodes["a"], labels=labels))
            await it.until(it.clock.now() - NOW + 5)
        assert [one.reason for one in it.heard.outcomes] == ["Budget", "Budget"]


class Broken(Strategy, tag="broken", frozen=True):
    """Wants nothing moved: it fails."""

    @hookimpl
    def rebalance_nodes(self) -> Sequence[Move]:
        raise RuntimeError("no idea")


async def test_a_plugin_that_fails_where_nobody_is_to_be_moved_is_told_and_switched_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with bench([node("a")], [running("p", "a")], every=1.0) as it:
        pool = it.placer.pools[0]
        it.placer.adopt([replace(pool.policy, strategies=(Broken(),))])
        await it.until(20)
        assert it.placer.pools[0].off() == {"broken"}
    assert caplog.messages == [
        "policy pool: plugin broken: rebalance_nodes raised RuntimeError: no idea",
        "policy pool: plugin broken is switched off until reload",
    ]


async def test_a_plugin_that_does_not_come_back_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def lost(cases: Sequence[PoolCase]) -> list[Any]:
        return ["stuck in slow.py:7 rebind_pods"]

    async with bench([node("a")], [running("p", "a")], every=1.0, planner=lost) as it:
        await it.until(10)
    assert caplog.messages == ["policy pool: stuck in slow.py:7 rebind_pods; it is not called again until reload"]
