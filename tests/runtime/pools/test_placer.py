"""The loop for pods: who is asked about when, and what comes of what is decided."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from msgspec.structs import replace

from elasticd.api import Nodes, Refusal, Strategy, Victims, hookimpl
from elasticd.base.clock import VirtualClock
from elasticd.journal import Journal
from elasticd.model.actions import Action, Answer, Bind, Evict, Nominate
from elasticd.model.listener import Notice, PodsPlanned, PodsWaiting, PoolsApplied
from elasticd.model.placement import PodDecision, PodOutcome, PoolObservation
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.model.workload import Node, Pod
from elasticd.runtime.pools.placer import BACKOFF, Placer
from elasticd.runtime.workers import PlanWorker
from tests.kit.board import Board
from tests.kit.pools import NOW, node, pod


class Fits(Strategy, tag="fits", frozen=True):
    """Refuses nodes with too little cpu left."""

    @hookimpl
    def filter_nodes(self, pod: Pod, nodes: Nodes) -> Sequence[Refusal]:
        need = round(pod.counted["cpu"] * 1000)
        return [Refusal("Insufficient cpu", nodes.requested("cpu") + need > nodes.allocatable("cpu"), curable=True)]


class Lesser(Strategy, tag="lesser", frozen=True):
    """Lets all pods of lower priority go."""

    @hookimpl
    def select_victims(self, pod: Pod, node: int, nodes: Nodes) -> Victims | None:
        found = tuple(one for one in nodes.pods(node) if one.needs.priority < pod.needs.priority)
        return Victims(found) if found else None


class Heard:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.decisions: list[PodDecision] = []
        self.outcomes: list[PodOutcome] = []
        self.waits: list[dict[str, int]] = []
        self.waiting: dict[str, dict[str, int]] = {}
        self.policies = {"pool"}

    def on(self, record: Notice) -> None:
        match record:
            case PodDecision():
                self.decisions.append(record)
            case PodOutcome():
                self.outcomes.append(record)
            case PodsPlanned(policy):
                assert policy in self.policies
            case PodsWaiting(policy, counts):
                self.waits.append(dict(counts))
                self.waiting[policy] = dict(counts)
            case PoolsApplied(names):
                assert names == self.policies
            case _:
                pass


MOVES = (Bind, Evict, Nominate)


class Bench:
    """A placer over a board, in virtual time."""

    def __init__(self, nodes: Sequence[Node], pods: Sequence[Pod], mode: str = "act") -> None:
        self.clock, self.heard = VirtualClock(NOW), Heard()
        self.board = Board(self.clock, nodes, pods)
        self.journal = Journal()
        self.placer = Placer(self.board, self.board.observe, self.journal, self.clock, [self.heard])
        strategies = (Fits(), Lesser())
        policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=strategies, mode=mode)  # type: ignore[arg-type]
        self.placer.apply([policy])

    async def settle(self) -> None:
        """Let what was begun come to its end."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def until(self, when: float) -> None:
        """Step until so many seconds have passed."""
        while self.clock.now() < NOW + when:
            await self.placer.step()
            await self.settle()


@asynccontextmanager
async def bench(nodes: Sequence[Node], pods: Sequence[Pod], mode: str = "act") -> AsyncIterator[Bench]:
    made = Bench(nodes, pods, mode)
    try:
        yield made
    finally:
        await made.placer.actions.drain(0)


async def test_pending_pods_are_bound_and_each_sees_those_before_it() -> None:
    async with bench([node("a", cpu=1), node("b", cpu=1)], [pod(f"p{i}", cpu=0.6) for i in range(3)]) as it:
        await it.placer.tick(NOW)
        await it.settle()
        assert [one.node for one in it.board.pods.values()] == ["a", "b", ""]
        assert [one.result for one in it.heard.outcomes] == ["done", "done"]
        assert it.heard.waits == [{"Unschedulable": 1}]


async def test_a_pod_being_bound_reserves_its_room_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench([node("a", cpu=1)], [pod("p0", cpu=0.6)]) as it:
        gate = asyncio.Event()

        async def slowly(action: Action) -> Answer:
            await gate.wait()
            return Answer("done")

        monkeypatch.setattr(it.board, "act", slowly)
        await it.placer.tick(NOW)
        it.board.add(pod("p1", cpu=0.6))
        await it.placer.tick(NOW + 1)
        assert it.heard.decisions[-1].message.startswith("0/1 nodes are available: 1 Insufficient cpu")
        gate.set()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Answer("conflict", 409, "it is bound already", "Conflict"), id="another bound it"),
        pytest.param(Answer("failed", 403, "no right to bind", "Forbidden"), id="no right"),
        pytest.param(Answer("refused", 0, "the write budget is spent", "Budget"), id="no budget"),
    ],
)
async def test_a_failed_bind_frees_its_room_and_is_retried(answer: Answer) -> None:
    async with bench([node("a", cpu=1)], [pod("p0", cpu=0.6)]) as it:
        it.board.refuse = lambda _: answer
        await it.placer.tick(NOW)
        await it.settle()
        it.board.refuse = lambda _: None
        it.board.add(pod("p1", cpu=0.6))
        await it.placer.tick(NOW + 0.5)  # p0 rests: the room is p1's
        await it.settle()
        assert it.board.pods["p1"].node == "a"
        assert it.heard.outcomes[0].reason == answer.reason


class Tells(Strategy, tag="tells", frozen=True):
    """Refuses everything, and notes that it was asked."""

    @hookimpl
    def filter_nodes(self, nodes: Nodes, observation: PoolObservation) -> Sequence[Refusal]:
        ASKED.append(observation.at - NOW)
        return [Refusal("no", nodes.matching("all", lambda _: True))]


ASKED: list[float] = []


async def test_an_unplaced_pod_is_retried_after_growing_pauses() -> None:
    async with bench([node("a", cpu=1)], [pod("big", cpu=2)]) as it:
        it.placer.apply([PoolPolicy(name="pool", pool=PoolSelect(), strategies=(Tells(),), mode="act")])
        ASKED.clear()
        await it.until(40)
        assert [round(after - before) for before, after in pairwise(ASKED)][:6] == [1, 2, 4, 8, 10, 10]
        assert len(it.heard.decisions) == 1


async def test_a_new_node_wakes_who_waits() -> None:
    async with bench([node("a", cpu=1)], [pod("big", cpu=2)]) as it:
        await it.until(20)
        at = it.clock.now()
        it.board.add(node("b", cpu=4))
        await it.until(at - NOW + 1.5)
        assert it.board.pods["big"].node == "b"


async def test_who_only_observes_decides_and_binds_nothing() -> None:
    async with bench([node("a")], [pod("p")], mode="observe") as it:
        await it.until(5)
        assert [one.verdict for one in it.heard.decisions] == ["bind"]
        assert it.board.done == []


async def test_who_does_not_lead_looks_at_nothing() -> None:
    async with bench([node("a")], [pod("p")]) as it:
        it.board.leading = False
        await it.until(5)
        assert it.heard.decisions == []


async def test_pods_of_another_scheduler_are_left_alone() -> None:
    async with bench([node("a")], [pod("p", scheduler="default-scheduler")]) as it:
        await it.until(3)
        assert it.heard.decisions == []


async def test_victims_are_evicted_in_order_before_the_pod_is_bound() -> None:
    old = [pod("x", cpu=0.5, on="a"), pod("y", cpu=0.5, on="a")]
    async with bench([node("a", cpu=1)], [*old, pod("new", cpu=1, priority=5)]) as it:
        await it.until(3)
        kinds = [(type(action), action.workload.name) for _, action in it.board.done if isinstance(action, MOVES)]
        assert kinds == [(Nominate, "new"), (Evict, "x"), (Evict, "y"), (Bind, "new")]
        assert it.board.pods["new"].node == "a"


async def test_an_eviction_that_is_refused_ends_that_attempt() -> None:
    old = [pod("x", cpu=0.5, on="a"), pod("y", cpu=0.5, on="a")]
    async with bench([node("a", cpu=1)], [*old, pod("new", cpu=1, priority=5)]) as it:
        it.board.refuse = lambda _: Answer("refused", 429, "budget", "Budget") if it.board.tried(Evict) else None
        await it.placer.tick(NOW)
        await it.settle()
        assert it.board.trials == [(NOW, "x"), (NOW, "y")], "both may go, until they are to"
        assert it.board.tried(Evict) == [(NOW, "x")]
        assert {"x", "y"} <= it.board.pods.keys()
        assert it.board.tried(Nominate) == [(NOW, "new"), (NOW, "new")], "no room is kept free that nobody makes"


async def test_room_freed_by_preemption_is_kept_while_the_pod_rests() -> None:
    """The one that was preempted is recreated, and would take its old place."""
    async with bench([node("a", cpu=1)], [pod("x", cpu=1, on="a"), pod("new", cpu=1, priority=5)]) as it:
        await it.placer.tick(NOW)
        await it.settle()
        assert it.board.pods.keys() == {"new"}
        it.board.add(replace(pod("x", cpu=1), uid="anew"))
        await it.until(3)
        assert [name for _, name in it.board.tried(Bind)] == ["new"]
        assert it.board.pods["x"].node == ""


async def test_unknown_budgets_prevent_preemption_but_not_binding() -> None:
    async with bench([node("a", cpu=1)], [pod("x", cpu=1, on="a"), pod("new", cpu=1, priority=5)]) as it:
        it.board.limits = None
        await it.placer.tick(NOW)
        await it.settle()
        assert it.board.done == []
        (told,) = it.heard.decisions
        assert (told.verdict, told.reason) == ("wait", "BudgetsUnknown")
        assert told.message.endswith("no pod is preempted while PodDisruptionBudgets are not known")
        it.board.limits = ()
        await it.until(2)
        assert it.board.tried(Evict) == [(NOW + BACKOFF.first, "x")]
    async with bench([node("a", cpu=1)], [pod("new", cpu=1)]) as it:
        it.placer.apply([PoolPolicy(name="pool", pool=PoolSelect(), strategies=(Fits(),), mode="act")])
        it.board.limits = None
        await it.placer.tick(NOW)
        await it.settle()
        assert it.board.tried(Bind) == [(NOW, "new")]


async def test_waiting_is_reported_at_the_pod() -> None:
    async with bench([node("a", cpu=1)], [pod("big", cpu=2)]) as it:
        await it.placer.tick(NOW)
        await it.settle()
        (told,) = it.board.announced
        assert (told.reason, told.warning, str(told.workload)) == ("FailedScheduling", True, "shop/Pod/big")


class Stuck(Strategy, tag="stuck", frozen=True):
    """Never comes back."""

    @hookimpl
    def filter_nodes(self) -> Sequence[Refusal]:
        while not RELEASED:
            pass
        return []


RELEASED: list[bool] = []


@pytest.mark.slow
async def test_a_plugin_that_hangs_is_named_and_not_called_again() -> None:
    clock, heard = VirtualClock(NOW), Heard()
    board = Board(clock, [node("a")], [pod("p")])
    placer = Placer(board, board.observe, Journal(), clock, [heard], PlanWorker(patience=0.2))
    placer.apply([PoolPolicy(name="pool", pool=PoolSelect(), strategies=(Stuck(),), mode="act")])
    try:
        await placer.tick(NOW)
    finally:
        RELEASED.append(True)
    (decision,) = heard.decisions
    assert decision.reason == "PluginBlocked"
    assert "stuck in test_placer.py" in decision.message
    board.add(replace(pod("q"), created=NOW + 1))
    await placer.tick(NOW + 5)
    assert heard.decisions[-1].reason == "PluginBlocked"
    await placer.actions.drain(0)


async def test_who_leads_no_more_waits_for_no_pod() -> None:
    """Each step would last but a moment, for as long as another leads."""
    async with bench([node("a", cpu=1)], [pod("large", cpu=2)]) as it:
        await it.until(2)
        it.board.leading = False
        await it.placer.turn()  # handles the events so far
        begun = it.clock.now()
        for _ in range(3):
            await it.placer.step()
        assert it.clock.now() - begun >= 3 * it.placer.pools[0].policy.interval
