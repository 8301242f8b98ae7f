"""The loop that moves pods: when a pool is looked at, what is remembered, and what is done."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.api import Move, Nodes, PoolObservation, PoolPast, Refusal, Strategy, hookimpl
from elasticd.base.clock import VirtualClock
from elasticd.daemon import Daemon
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.moves import plan_moves
from elasticd.journal import Journal, read
from elasticd.kit.surge import BEGUN
from elasticd.model.actions import OUTDATED, Answer, Evict
from elasticd.model.listener import MovesPlanned, MoveTakenBack, Notice
from elasticd.model.moves import MoveDecision, MovesPlan, Underway
from elasticd.model.placement import DisruptionBudget, PodOutcome
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect
from elasticd.model.reports import NodeView
from elasticd.model.workload import Node, Pod, Readings, Ref
from elasticd.ports.cluster import Kind, Snapshot
from elasticd.ports.source import Source
from elasticd.runtime.loop import Loop
from elasticd.runtime.pools.history import REJECTING
from elasticd.runtime.pools.mover import Mover
from elasticd.runtime.pools.next_moves import moving
from elasticd.runtime.pools.placer import Placer
from elasticd.runtime.pools.report import PoolReports
from elasticd.runtime.workers import Worker
from elasticd.sources.poller import SourcePoller
from elasticd.telemetry.metrics import DaemonMetrics
from elasticd.ui.journaled import held
from tests.kit.board import Board, Standing
from tests.kit.pools import NOW, node, pod
from tests.kit.volumes import claim, claiming, storage, volume

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

    def labels_of_nodes(self) -> tuple[str, ...]:
        return ("leave",)


SHOWN: list[tuple[float, PoolPast]] = []


class Heard:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.decisions: list[MoveDecision] = []
        self.outcomes: list[PodOutcome] = []
        self.looks: list[str] = []
        self.failing = 0

    def on(self, record: Notice) -> None:
        match record:
            case MovesPlanned(policy, _, failing):
                self.looks.append(policy)
                self.failing = failing
            case MoveDecision():
                self.decisions.append(record)
            case PodOutcome():
                self.outcomes.append(record)
            case _:
                pass


class Bench:
    """A mover over a board, in virtual time, that looks every 30 s."""

    def __init__(
        self,
        nodes: Sequence[Node],
        pods: Sequence[Pod],
        journal: Journal | None = None,
        planner: Worker[PoolCase, MovesPlan] | None = None,
        strategy: Strategy | None = None,
        **more: Any,
    ) -> None:
        SHOWN.clear()
        self.clock, self.heard = VirtualClock(NOW), Heard()
        self.board = Board(self.clock, nodes, pods)
        journal = self.journal = journal or Journal()
        placer = self.placer = Placer(self.board, self.board.observe, journal, self.clock)
        given, moves = (strategy or Leave(),), MovesTable(**more)
        policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=given, mode="act", moves=moves)
        placer.apply([policy])
        self.mover = Mover(self.board, placer, journal, self.clock, [self.heard], planner)

    def select(self, nodes: dict[str, str]) -> None:
        """The same policy with nodes of these labels."""
        placer = self.placer
        placer.apply([replace(placer.pools[0].policy, pool=PoolSelect(nodes=nodes))])

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
        await made.mover.actions.drain(0)


def running(name: str, on: str) -> Pod:
    return pod(name, on=on, owner=OWNED, started=NOW - 600, ready=True)


LEAVE, IN = {"leave": "yes"}, {"pool": "a"}


async def test_a_pool_is_looked_at_every_period() -> None:
    async with bench([node("a")], [running("p", "a")]) as it:
        await it.until(91)
        assert it.heard.looks == ["pool"] * 4
    assert [round(at) for at, _ in SHOWN] == [1, 31, 61, 91]


async def test_a_changed_label_is_looked_at_and_timed_at_once() -> None:
    async with bench([node("a"), node("b")], [running("p", "a"), running("q", "b")]) as it:
        await it.until(31)
        changed = replace(it.board.nodes["a"], labels={**it.board.nodes["a"].labels, **LEAVE})
        it.board.add(changed)
        await it.until(32)
    at, past = SHOWN[-1]
    assert at == 32
    assert past.labelled["a"] == NOW + at
    assert past.labelled["b"] < NOW + 2
    assert past.earlier_labels == {pod("p").uid: (node("a").labels,)}


async def test_pods_that_came_under_another_leader_saw_no_earlier_labels() -> None:
    async with bench([node("a")], [running("p", "a")]) as it:
        await it.until(31)
        it.board.leading = False
        it.board.add(node("a", labels=LEAVE))
        it.board.add(running("q", "a"))
        await it.until(300)
        it.board.leading = True
        await it.until(331)
    assert SHOWN[-1][1].earlier_labels == {pod("p").uid: (node("a").labels,)}


async def test_a_policys_edit_keeps_what_was_seen_of_nodes() -> None:
    async with bench([node("a"), node("b")], [running("p", "a")]) as it:
        await it.until(31)
        it.board.add(node("a", labels=LEAVE))
        await it.until(33)
        before, looks = dict(SHOWN[-1][1].labelled), len(SHOWN)
        policy = it.placer.pools[0].policy
        it.placer.apply([replace(policy, moves=replace(policy.moves, per_look=2))])
        await it.mover.turn()
    (_, past), *_ = SHOWN[looks:]
    assert past.labelled == before
    assert past.earlier_labels == {pod("p").uid: (node("a").labels,)}


@pytest.mark.parametrize(
    ("change", "look"),
    [
        pytest.param({"ready": False}, 32, id="one fails"),
        pytest.param({"labels": {"a": "b"}}, 61, id="one is changed"),
        pytest.param({"ready": False, "deleted": True}, 61, id="one is being deleted"),
    ],
)
async def test_a_pod_that_fails_is_looked_at_at_once(change: dict[str, Any], look: int) -> None:
    async with bench([node("a")], [running("p", "a")]) as it:
        await it.until(31)
        it.board.add(replace(it.board.pods["p"], **change))
        await it.until(33)
    assert [round(at) for at, _ in SHOWN[:3]] == [1, 31, look]


async def test_looks_are_remembered_as_far_as_a_strategy_asks() -> None:
    async with bench([node("a")], [running("p", "a")]) as it:
        await it.until(91)
    assert [len(past.looks) for _, past in SHOWN] == [1, 2, 2, 2]
    assert [look.at - NOW for look in SHOWN[-1][1].looks] == [SHOWN[-2][0], SHOWN[-1][0]]


async def test_a_triggered_look_is_not_remembered_beside_a_regular_one() -> None:
    async with bench([node("a")], [running("p", "a")]) as it:
        await it.until(31)
        it.board.add(node("b"))
        await it.until(62)
    assert [round(at) for at, _ in SHOWN] == [1, 31, 32, 62]
    assert [[round(look.at - NOW) for look in past.looks] for _, past in SHOWN] == [[1], [1, 31], [1, 31], [31, 62]]


async def test_a_pod_goes_once_it_has_its_volume_alone() -> None:
    pods = [claiming(name, "data", on="a", started=NOW - 600, ready=True) for name in ("p", "q")]
    async with bench([node("a", labels=LEAVE), node("b")], pods, claims=True) as it:
        it.board.storage = storage(claim("data", volume="pv"), volume("pv"))
        await it.until(31)
        assert {(decision.pod.name, decision.refusal) for decision in it.heard.decisions} == {
            ("p", "SharedVolume"),
            ("q", "SharedVolume"),
        }
        (view,) = await PoolReports(it.board, it.placer, it.mover, it.clock).nodes("a")
        assert isinstance(view, NodeView)
        assert [(row.name, row.stays) for row in view.always] == [("p", "SharedVolume"), ("q", "SharedVolume")]
        it.board.remove("q")
        await it.until(62)
        assert [name for _, name in it.board.tried(Evict)] == ["p"]


async def test_a_move_is_done_once_told_and_remembered() -> None:
    async with bench([node("a", labels=LEAVE), node("b")], [running("p", "a"), running("q", "b")]) as it:
        await it.until(40)
        assert it.board.tried(Evict) == [(SHOWN[0][0] + NOW, "p")]
        assert [(one.verdict, one.target) for one in it.heard.decisions] == [("move", "b")]
        assert [one.result for one in it.heard.outcomes] == ["done"]
    assert [(one.whose, one.node) for one in SHOWN[-1][1].moved] == [("rs-1", "a")]


async def test_an_api_refusal_is_reported_but_remembered_as_no_move() -> None:
    async with bench([node("a", labels=LEAVE), node("b")], [running("p", "a"), running("q", "b")]) as it:
        it.board.refuse = lambda _: Answer("refused", 429, "a budget", "Budget")
        await it.until(35)
        assert {one.reason for one in it.heard.outcomes} == {"Budget"}
    assert SHOWN[-1][1].moved == ()


async def test_pods_that_may_never_go_take_no_turn_of_others() -> None:
    pods = [pod(name, on="a", started=NOW - 600, ready=True) for name in ("p", "q", "r", "s", "t")]
    async with bench([node("a", labels=LEAVE), node("b")], pods, per_look=2) as it:
        # t is refused once, by a budget that has room again: it is one of many that were refused then.
        it.board.refuse = lambda evict: (
            Answer("refused", 403, "", "NotRestorable" if evict.workload.name < "t" else "Disturbed")
            if evict.workload.name < "t" or it.clock.now() < NOW + 100
            else None
        )
        await it.until(300)
        assert ("t", "done") in [(one.pod.name, one.result) for one in it.heard.outcomes]


async def test_what_was_refused_stays_so_while_others_are_tried(tmp_path: Path) -> None:
    pods = [pod(name, on="a", started=NOW - 600, ready=True) for name in ("p", "q", "r")]
    with closing(Journal(tmp_path)) as journal:
        async with bench([node("a", labels=LEAVE), node("b")], pods, per_look=2, journal=journal) as it:
            it.board.refuse = lambda _: Answer("refused", 403, "no", "NotRestorable")
            await it.until(40)
            records = len(list(read(tmp_path)))
            await it.until(300)
            assert len(list(read(tmp_path))) == records
            shown = moving(it.mover.latest("pool"), {}, lambda _: {})
    assert [(one.decision.pod.name, one.reason) for one in held(tmp_path)] == [
        (name, "NotRestorable") for name in ("p", "q", "r")
    ]
    assert [move.held for move in shown.moves] == [("NotRestorable", "no")] * 3


async def test_what_several_budgets_forbid_is_tried_ever_later(tmp_path: Path) -> None:
    with closing(Journal(tmp_path)) as journal:
        pods = [running("p", "a"), running("q", "b")]
        async with bench([node("a", labels=LEAVE), node("b")], pods, journal=journal, every=2.0) as it:
            it.board.refuse = lambda _: Answer("refused", 500, "more than one PodDisruptionBudget", "Budgets")
            await it.until(200)
            times = [at for at, _ in it.board.tried(Evict)]
            shown = moving(it.mover.latest("pool"), {}, lambda _: {})
    assert [round(after - before) for before, after in pairwise(times)] == [2, 2, 4, 8, 16, 32, 64]
    assert [entry.reason for entry in held(tmp_path)] == ["Budgets"]
    assert [move.held[0] for move in shown.moves] == ["Budgets"]


async def test_a_pod_that_its_eviction_leaves_is_evicted_ever_later(tmp_path: Path) -> None:
    with closing(Journal(tmp_path)) as journal:
        pods = [running("p", "a"), running("q", "b")]
        async with bench([node("a", labels=LEAVE), node("b")], pods, journal=journal, every=2.0) as it:
            it.board.lingers, failing = True, []
            for seconds in range(20, 901, 2):
                await it.until(seconds)
                it.board.put(running("p", "a"))  # the API server was asked: a webhook has kept it
                it.placer.views.forget((), it.clock.now())
                failing.append(it.heard.failing)
            times = [at for at, _ in it.board.tried(Evict)]
            shown = moving(it.mover.latest("pool"), {}, lambda _: {})
    pauses = [after - before for before, after in pairwise(times)]
    assert [round(seconds) for seconds in pauses] == [34, 34, 34, 38, 46, 62, 94, 158, 286]
    assert set(failing[failing.index(1) :]) == {1}
    assert [entry.reason for entry in held(tmp_path)] == ["Failing"]
    assert [move.held[0] for move in shown.moves] == ["Failing"]
    assert "as before" in shown.moves[0].held[1]


async def test_a_pod_that_ends_late_has_not_stayed() -> None:
    async with bench([node("a", labels=LEAVE), node("b")], [running("p", "a"), running("q", "b")], every=2.0) as it:
        it.board.lingers = True
        await it.until(600)
    assert len(it.board.tried(Evict)) == 1
    assert (it.heard.failing, {outcome.result for outcome in it.heard.outcomes}) == (0, {"done"})


async def test_a_pod_that_ends_late_counts_as_failing_no_longer() -> None:
    async with bench([node("a", labels=LEAVE), node("b")], [running("p", "a"), running("q", "b")], every=2.0) as it:
        it.board.refuse = lambda _: Answer("failed", 500, "the list of ReplicaSets", "InternalError")
        await it.until(20)
        it.board.refuse, it.board.lingers = lambda _: None, True
        await it.until(90)
    assert it.heard.outcomes[-1].result == "done"
    assert it.heard.failing == 0


class Level(Strategy, tag="level", frozen=True):
    """Wants one pod off nodes with a label, of those that may go."""

    @hookimpl
    def rebalance_nodes(
        self, nodes: Nodes, observation: PoolObservation, past: PoolPast, movable: Callable[[Pod], bool]
    ) -> Sequence[Move]:
        found = [index for index, one in enumerate(nodes.nodes) if one.labels.get("leave")]
        return [Move(one, "Hot") for index in found for one in nodes.pods(index) if movable(one)][:1]

    def labels_of_nodes(self) -> tuple[str, ...]:
        return ("leave",)


async def test_pods_that_rest_after_a_failure_count_as_failing() -> None:
    """A strategy that balances load does not name them meanwhile."""
    pods = [*(running(name, "a") for name in "prst"), running("q", "b")]
    async with bench([node("a", labels=LEAVE), node("b")], pods, strategy=Level()) as it:
        it.board.refuse = lambda _: Answer("failed", 500, "the list of ReplicaSets", "InternalError")
        failing = []
        for seconds in range(61, 1800, 30):
            await it.until(seconds)
            failing.append(it.heard.failing)
    assert min(failing) > 0


async def test_a_pod_that_another_is_made_for_has_not_stayed() -> None:
    async with bench([node("a", labels=LEAVE), node("b")], [running("p", "a"), running("q", "b")], every=2.0) as it:
        it.board.refuse = lambda _: Answer("done", message=BEGUN)
        await it.until(600)
    assert {outcome.result for outcome in it.heard.outcomes} == {"done"}


async def test_a_move_judged_anew_thrice_counts_as_failing() -> None:
    async with bench([node("a", labels=LEAVE), node("b")], [running("p", "a"), running("q", "b")], every=2.0) as it:
        it.board.refuse = lambda _: Answer("refused", 0, "it has waited 3.0 s, and is judged anew", OUTDATED)
        failing = []
        for seconds in (1, 3, 5, 7, 60):
            await it.until(seconds)
            failing.append(it.heard.failing)
        it.board.refuse = lambda _: None
        await it.until(70)
    assert failing == [0, 0, 0, 1, 1]
    assert it.heard.failing == 0
    times = [at for at, _ in it.board.tried(Evict)]
    assert max(after - before for before, after in pairwise(times)) <= 2.0


async def test_a_failed_move_no_longer_wanted_is_not_counted() -> None:
    async with bench([node("a", labels=LEAVE), node("b")], [running("p", "a"), running("q", "b")], every=2.0) as it:
        it.board.refuse = lambda _: Answer("failed", 500, "the list of ReplicaSets", "InternalError")
        await it.until(60)
        assert it.heard.failing == 1
        it.board.add(node("a"))
        await it.until(70)
    assert it.heard.failing == 0


async def test_moves_that_fail_are_counted_until_they_are_done() -> None:
    async with bench([node("a", labels=LEAVE), node("b")], [running("p", "a"), running("q", "b")], every=2.0) as it:
        it.board.refuse = lambda _: Answer("failed", 500, "the list of ReplicaSets", "InternalError")
        await it.until(60)
        assert it.heard.failing == 1
        it.board.refuse = lambda _: None
        await it.until(200)
    assert (it.heard.failing, [name for _, name in it.board.tried(Evict)][-1]) == (0, "p")


async def test_what_stays_is_reported_once() -> None:
    async with bench([node("a", labels=LEAVE)], [running("p", "a")]) as it:
        await it.until(100)
        assert [one.refusal for one in it.heard.decisions] == ["Single"]


async def test_what_is_held_back_ends_with_the_policy() -> None:
    async with bench([node("a", labels=LEAVE)], [running("p", "a")]) as it:
        await it.until(2)
        assert len(it.journal.moves("pool")) == 1
        it.placer.apply([])
        await it.mover.turn()
        assert it.journal.moves("pool") == []
        assert [one.verdict for one in it.heard.decisions] == ["refuse", "over"]


async def test_moves_no_longer_wanted_are_reported_and_their_refusals_cleared() -> None:
    async with bench([node("a", labels=LEAVE)], [running("p", "a")]) as it:
        await it.until(40)
        assert [one.refusal for one in it.journal.moves("pool")] == ["Single"]
        it.board.add(node("a"))
        await it.until(100)
        assert [(one.verdict, one.reason) for one in it.heard.decisions[1:]] == [("over", "NotWanted")]
        assert it.journal.moves("pool") == []
        it.board.add(node("a", labels=LEAVE))
        await it.until(140)
        assert [one.refusal for one in it.journal.moves("pool")] == ["Single"]


async def test_a_move_ended_by_its_policy_is_journaled_at_once(tmp_path: Path) -> None:
    with closing(Journal(tmp_path)) as journal:
        async with bench([node("a", labels=LEAVE)], [running("p", "a")], journal=journal) as it:
            await it.until(2)
            it.placer.apply([])
            await it.mover.turn()
            verdicts = [one.verdict for one in read(tmp_path) if isinstance(one, MoveDecision)]
    assert verdicts == ["refuse", "over"]


@pytest.mark.parametrize(
    ("policies", "told"),
    [
        pytest.param(["pool"], [], id="theirs still moves pods"),
        pytest.param([], ["over"], id="it does not any more"),
        pytest.param(["other"], ["over"], id="another does"),
    ],
)
async def test_what_a_daemon_before_held_back_ends_with_its_policy(policies: list[str], told: list[str]) -> None:
    async with bench([node("a", labels=LEAVE)], [running("p", "a")]) as it:
        await it.until(2)
        placer, heard = it.placer, Heard()
        placer.apply([replace(placer.pools[0].policy, name=name) for name in policies])
        again = Mover(it.board, placer, it.journal, it.clock, [heard])
        again.trigger()
        assert [one.verdict for one in heard.decisions] == told
        again.trigger()
        assert [one.verdict for one in heard.decisions] == told


NO_MORE = "a is not in the pool any more"


async def test_a_held_move_ends_when_its_node_leaves_the_pool() -> None:
    async with bench([node("a", labels=LEAVE | IN), node("b", labels=IN)], [running("p", "a")]) as it:
        it.select(IN)
        await it.until(2)
        assert [one.refusal for one in it.journal.moves("pool")] == ["Single"]
        it.board.add(node("a", labels=LEAVE))
        await it.mover.step()
        assert [(one.verdict, one.message) for one in it.heard.decisions[1:]] == [("over", NO_MORE)]
        assert it.journal.moves("pool") == []


async def test_a_held_move_ends_when_the_policy_selects_other_nodes() -> None:
    async with bench([node("a", labels=LEAVE), node("b", labels=IN)], [running("p", "a")]) as it:
        await it.until(2)
        assert [one.refusal for one in it.journal.moves("pool")] == ["Single"]
        it.select(IN)
        await it.mover.turn()
        assert [(one.verdict, one.message) for one in it.heard.decisions[1:]] == [("over", NO_MORE)]


async def test_a_held_move_ends_when_the_pool_becomes_empty() -> None:
    async with bench([node("a", labels=LEAVE)], [running("p", "a")]) as it:
        await it.until(2)
        it.select(IN)
        await it.mover.turn()
        assert [(one.verdict, one.message) for one in it.heard.decisions[1:]] == [("over", NO_MORE)]


async def test_one_that_has_left_is_wanted_no_longer() -> None:
    async with bench([node("a", labels=LEAVE), node("b")], [running("p", "a"), running("q", "b")]) as it:
        await it.until(40)
        assert [one.verdict for one in it.heard.decisions] == ["move"]
        assert it.journal.moves("pool") == []


async def test_on_command_every_pool_is_looked_at_now() -> None:
    async with bench([node("a")], [running("p", "a")], every=3600.0) as it:
        await it.until(10)
        it.mover.trigger()
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


class Begins:
    """Another is made first for whoever is to go."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.then: list[Underway] = []

    async def begin(self, evict: Evict, within: float, decision: str) -> Answer:
        self.asked.append(SHOWN[-1][0])
        return Answer("done", 200, BEGUN)

    def in_flight(self, _: object) -> list[Underway]:
        return self.then


@asynccontextmanager
async def surging(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Bench, Begins]]:
    begins = Begins()
    nodes, pods = [node("a", labels=LEAVE), node("b")], [running("p", "a"), running("q", "b")]
    async with bench(nodes, pods, surge=True, every=5.0) as it:
        monkeypatch.setattr(it.mover.surging, "begin", begins.begin)
        monkeypatch.setattr(it.mover.surging, "in_flight", begins.in_flight)
        await it.until(2)
        yield it, begins


async def states(it: Bench) -> list[tuple[str, bool]]:
    """The pods of node a, as those see it who place others, and whether they are leaving."""
    placer = it.placer
    now = it.clock.now()
    columns = (await placer.shown(placer.pools[0], await placer.look(now), now)).columns
    index = columns.index("a")
    assert index is not None
    return [(one.name, one.deleted) for one in columns.pods(index)]


async def test_a_pod_in_a_surge_stays_and_is_not_reconsidered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it takes is nobody else's until it really goes: perhaps that is not soon, or never."""
    async with surging(monkeypatch) as (it, begins):
        assert await states(it) == [("p", False)]
        assert it.placer.views.moved([replace(running("new", "b"), node="", created=NOW + 3)]) == {
            "uid-new": it.heard.outcomes[0].at
        }, "what is made first waits in its place"
        await it.until(20)
        assert len(begins.asked) == 1, "though it is not seen in the cluster yet"
    assert SHOWN[-1][1].moved[0].node == "a"


async def test_a_pod_whose_move_is_undone_counts_as_not_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    async with surging(monkeypatch) as (it, begins):
        begins.then = [Underway(pod("p").ref, "uid-p", "surge", "back", NOW, "a", stays=True)]
        await it.until(8)
        assert len(begins.asked) == 2, "whether it may be moved again is for who would begin it to say"
        assert SHOWN[-1][1].moved == ()
        assert await states(it) == [("p", False)]


async def test_a_move_taken_back_is_reported_and_not_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with surging(monkeypatch) as (it, _):
        it.mover.on(MoveTakenBack("uid-p"))
        it.mover.on(MoveTakenBack("uid-of-nobody"))
        latest = it.mover.latest("pool")
        outcome = latest.outcomes["uid-p"]
        assert (outcome.result, outcome.reason) == ("refused", "TakenBack")
        await it.until(8)
    past = SHOWN[-1][1]
    assert (past.moved, [*past.refused]) == ((), ["uid-p"])


async def test_a_triggered_look_answers_how_many_pools_it_covers() -> None:
    async with bench([node("a")], [running("p", "a")]) as it:
        await it.until(2)
        assert it.mover.trigger() == "1 pool is looked at now"
        it.placer.apply([])
        assert it.mover.trigger() == "no policy in force has a strategy that moves pods"
        it.board.leading = False
        assert it.mover.trigger() == "this elasticd does not lead: another looks at the pools"


class Broken(Strategy, tag="broken", frozen=True):
    """Cannot say what it wants moved; what it says of nodes is well."""

    @hookimpl
    def rebalance_nodes(self) -> Sequence[Move]:
        raise RuntimeError("no load")

    @hookimpl
    def filter_nodes(self) -> Sequence[Refusal]:
        return []


async def test_a_failing_strategy_is_reported_once_and_switched_off() -> None:
    it = Bench([node("a")], [running("p", "a")])
    placer = it.placer
    placer.apply([replace(placer.pools[0].policy, strategies=(Broken(),))])
    for looked in range(1, 6):
        assert placer.pools[0].failures.off == frozenset()
        await it.mover.tick(NOW + 30 * looked)
        it.board.add(pod(f"waits{looked}"))
        await placer.tick(NOW + 30 * looked)
    assert placer.pools[0].failures.off == {"broken"}
    (told,) = it.heard.decisions
    assert (told.refusal, told.strategy, told.uid) == ("PluginFailed", "broken", "")
    assert told.message == "broken: rebalance_nodes raised RuntimeError: no load"
    await placer.actions.drain(0)


class Turned(Bench):
    """Counts how often it turns."""

    turns = 0

    async def run(self, seconds: float) -> None:
        until = self.clock.now() + seconds
        while self.clock.now() < until:
            await self.mover.step()
            self.turns += 1
            assert self.turns < 1000, "it turns and turns, and no time passes"


async def test_who_leads_no_more_waits_until_he_does() -> None:
    it = Turned([node("a")], [running("p", "a")])
    await it.until(1)
    it.board.leading = False
    await it.run(300)
    assert len(SHOWN) == 1
    it.board.leading = True
    await it.run(1)
    assert [round(at) for at, _ in SHOWN[:2]] == [1, 301]


@pytest.mark.slow
async def test_looks_before_a_long_pause_are_forgotten() -> None:
    async with bench([node("a")], [running("p", "a")]) as it:
        await it.until(31)
        it.board.leading = False
        await it.until(7200)
        it.board.leading = True
        await it.until(7202)
    assert [round(at) for at, _ in SHOWN[:3]] == [1, 31, 7200]
    assert [len(past.looks) for _, past in SHOWN[:3]] == [1, 2, 1]


async def test_one_look_that_fell_out_breaks_no_row() -> None:
    async with bench([node("a")], [running("p", "a")]) as it:
        await it.until(31)
        it.board.leading = False
        await it.until(65)
        it.board.leading = True
        await it.until(68)
    assert len(SHOWN[-1][1].looks) == 2


class Meters(Source, tag="meters", frozen=True):
    """What a meter is, in TOML."""


class Meter:
    """A source that answers when it is let."""

    def __init__(self) -> None:
        self.asked, self.open = 0, asyncio.Event()

    async def read(self, now: float) -> Readings:
        self.asked += 1
        await self.open.wait()
        return Readings("meters", now)


async def test_a_pool_is_examined_when_its_late_source_answers() -> None:
    """It would not be at the next period: the reading is old then, and another one as late."""
    async with bench([node("a")], [running("p", "a")]) as it:
        meter = Meter()
        placer = it.placer
        placer.set_sources([SourcePoller(meter, Meters(), it.clock, patience=1e9)], wait=0.0)
        await it.mover.step()
        assert (meter.asked, SHOWN) == (1, [])
        meter.open.set()
        for _ in range(5):
            await asyncio.sleep(0)
        now = it.clock.now()
        await it.mover.step()
        assert (meter.asked, [at + NOW for at, _ in SHOWN]) == (1, [now])


async def test_policies_no_longer_in_force_are_not_examined() -> None:
    """Others were adopted while the first pool was planned for."""

    async def reloaded(cases: Sequence[PoolCase]) -> list[MovesPlan | str]:
        placer.apply([replace(one, interval=7.0) for one in old])
        asked.extend(case.policy.name for case in cases)
        return [MovesPlan() for _ in cases]

    asked: list[str] = []
    it = Bench([node("a")], [running("p", "a")], planner=reloaded)
    placer = it.placer
    old = [replace(placer.pools[0].policy, name=name) for name in ("x", "y")]
    placer.apply(old)
    await it.mover.tick(NOW)
    assert asked == ["x"]


@pytest.mark.parametrize("owner", [OWNED, ("", "", "")], ids=["controlled", "bare"])
async def test_no_pod_goes_whose_node_changes_while_moves_are_planned(owner: tuple[str, str, str]) -> None:
    """Planning takes a while, in a process of its own, and a snapshot shows the cluster as it is by then."""

    class Live(Standing):
        def nodes(self) -> tuple[Node, ...]:
            return tuple(it.board.nodes.values())

    async def observe(now: float, kinds: frozenset[Kind] = frozenset()) -> Snapshot:
        return Live(it.board, now)

    async def planned(cases: Sequence[PoolCase]) -> list[MovesPlan | str]:
        plans = [plan_moves(case) for case in cases]
        it.board.add(node("a"))
        decisions.extend(plans[0].decisions)
        return [*plans]

    decisions = list[MoveDecision]()
    pods = [replace(running("p", "a"), owner=owner)]
    async with bench([node("a", labels=LEAVE), node("b")], pods, planner=planned, surge=True) as it:
        it.placer.look = observe
        await it.until(100)
    assert [decision.verdict for decision in decisions[:1]] == ["move"]
    assert [outcome.reason for outcome in it.heard.outcomes] == ["Outdated"]
    assert it.board.tried(Evict) == []


async def test_all_actions_under_way_share_one_drain_timeout() -> None:
    clock, journal = VirtualClock(NOW), Journal()
    board = Board(clock, [], [])
    loop = Loop(board, journal, clock)
    placer = Placer(board, loop.look, journal, clock)
    mover = Mover(board, placer, journal, clock)
    ended = list[str]()

    async def hang(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    loop.actions.begin(("p", Ref("ns", "Deployment", "w")), "scale", hang("scale"))
    placer.actions.begin("uid", "bind", hang("bind"))
    mover.actions.begin("uid", "evict", hang("evict"))
    await asyncio.sleep(0)
    began = time.monotonic()
    await Daemon(loop, placer, mover, board, journal, DaemonMetrics(), clock).drain(0.3)
    assert time.monotonic() - began < 0.6
    assert ended == ["scale", "bind", "evict"]


class Scores(Strategy, tag="scores", frozen=True):
    """Wants no pod moved."""

    @hookimpl
    def filter_nodes(self) -> Sequence[Refusal]:
        return []


class Asked(Board):
    """Remembers which kinds it was asked for."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.kinds: list[AbstractSet[Kind]] = []

    async def observe(self, now: float, kinds: frozenset[Kind] = frozenset()) -> Snapshot:
        self.kinds.append(kinds)
        return await super().observe(now, kinds)


@pytest.mark.parametrize(
    ("strategy", "kinds"),
    [
        pytest.param(Leave(), {("apps/v1", "Deployment"), ("apps/v1", "StatefulSet")}, id="pods may have to leave"),
        pytest.param(Scores(), set(), id="none ever has"),
    ],
)
async def test_rollouts_are_observed_where_pods_may_have_to_leave(strategy: Strategy, kinds: set[Kind]) -> None:
    """Also without a policy about such workloads: else nobody knew that one is being rolled out."""
    clock, journal = VirtualClock(NOW), Journal()
    board = Asked(clock, [], [])
    loop = Loop(board, journal, clock)
    placer = Placer(board, loop.look, journal, clock)
    mover = Mover(board, placer, journal, clock)
    daemon = Daemon(loop, placer, mover, board, journal, DaemonMetrics(), clock)
    pool = PoolPolicy(name="pool", pool=PoolSelect(), strategies=(strategy,), mode="act")
    for policies in ([pool], []):
        daemon.apply(policies)
        await loop.look(NOW)
    assert board.kinds == [kinds, set()]


async def test_a_pod_that_is_not_created_again_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = replace(running("p", "a"), owner=("", "", ""))
    async with bench([node("a", labels=LEAVE), node("b")], [bare, running("q", "b")], bare=True) as it:
        going = Underway(bare.ref, bare.uid, "anew", "gone", NOW)
        monkeypatch.setattr(it.board, "restoring", lambda: [going])
        await it.until(31)
        going = replace(going, step="given up: its namespace was deleted", over=True)
        written: list[object] = []
        monkeypatch.setattr(it.journal, "append", written.append)
        await it.until(91)
    outcomes = [record for record in written if isinstance(record, PodOutcome)]
    assert [(one.about, one.result, one.reason, one.message) for one in outcomes] == [
        (bare.ref, "done", "NotRecreated", "given up: its namespace was deleted")
    ]


async def test_a_rejecting_node_counts_for_ten_minutes_once_a_move(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench([node("a"), node("b")], []) as it:
        rejected = Underway(pod("x").ref, "uid-x", "anew", "waiting for a node", NOW, rejected_by=frozenset({"b"}))
        monkeypatch.setattr(it.board, "restoring", lambda: [rejected])
        await it.until(REJECTING / 2)
        policy = it.placer.pools[0].policy
        it.placer.apply([replace(policy, moves=replace(policy.moves, per_look=2))])
        await it.until(REJECTING + 60)
        monkeypatch.setattr(it.board, "restoring", list)
        await it.until(2 * REJECTING + 60)
    assert {at for at, past in SHOWN if past.rejecting} == {at for at, _ in SHOWN if at <= 1 + REJECTING}
    assert all(past.rejecting <= {"b"} for _, past in SHOWN)


async def test_pods_that_are_refused_in_turn_stay_listed(tmp_path: Path) -> None:
    pods = [running("p", "a"), running("q", "a")]
    with closing(Journal(tmp_path)) as journal:
        async with bench([node("a", labels=LEAVE), node("b")], pods, every=2, journal=journal) as it:
            it.board.refuse = lambda _: Answer("refused", 500, "more than one", "Budgets")
            for at in range(4, 60, 2):
                await it.until(at)
                assert [(one.decision.pod.name, one.reason) for one in held(tmp_path)] == [
                    ("p", "Budgets"),
                    ("q", "Budgets"),
                ]


async def test_a_move_that_is_decided_anew_has_its_own_outcome(tmp_path: Path) -> None:
    shut = DisruptionBudget("shop", "web", frozenset({"uid-p"}), 0)
    pods = [running("p", "a"), running("q", "b")]
    with closing(Journal(tmp_path)) as journal:
        async with bench([node("a", labels=LEAVE), node("b")], pods, journal=journal) as it:
            it.board.refuse = lambda _: Answer("refused", 403, "no", "Forbidden")
            reasons = []
            for at, limits in ((31, ()), (61, (shut,)), (91, ())):
                it.board.limits = limits
                await it.until(at)
                reasons += [one.reason for one in held(tmp_path)]
    assert reasons == ["Forbidden", "Budget", "Forbidden"]
