"""What the loop for pods does when an attempt fails, takes long, or is overtaken by other policies."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest
from msgspec.structs import replace

from elasticd.base.clock import VirtualClock
from elasticd.cluster.disruption import DisruptionGuard, DisruptionSettings
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.plan import plan
from elasticd.journal import Journal
from elasticd.model.actions import Action, Answer, Bind, Evict
from elasticd.model.placement import PodDecision
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.runtime.pools import placer as module
from elasticd.runtime.pools.placer import Placer
from elasticd_plugins.filters import Filters
from elasticd_plugins.preemption import Preemption
from tests.kit.board import Board
from tests.kit.pools import NOW, node, pod
from tests.runtime.pools.test_placer import Fits, Heard, bench

FORBIDDEN = Answer("failed", 403, "no right to bind", "Forbidden")


async def test_a_bind_that_keeps_failing_is_tried_ever_less_often() -> None:
    async with bench([node("a", cpu=1)], [pod("p", cpu=0.6)]) as it:
        it.board.refuse = lambda _: FORBIDDEN
        await it.until(40)
        times = [at for at, _ in it.board.tried(Bind)]
        assert [round(after - before) for before, after in pairwise(times)][:5] == [1, 2, 4, 8, 10]


async def test_each_attempt_has_a_decision_of_its_own() -> None:
    async with bench([node("a", cpu=1)], [pod("p", cpu=0.6)]) as it:
        answers = [FORBIDDEN]
        it.board.refuse = lambda _: answers.pop() if answers else None
        await it.until(5)
        assert [one.result for one in it.heard.outcomes] == ["failed", "done"]
        assert [one.decision for one in it.heard.outcomes] == [one.id for one in it.heard.decisions]


async def test_a_bind_that_may_have_been_done_keeps_its_room() -> None:
    async with bench([node("a", cpu=1), node("b", cpu=1)], [pod("p0", cpu=0.6)]) as it:
        it.board.refuse = lambda _: Answer("failed", 0, "connection reset", "NoReply")
        await it.placer.tick(NOW)
        await it.settle()
        it.board.refuse = lambda _: None
        it.board.add(pod("p1", cpu=0.6))
        await it.placer.tick(NOW + 0.5)
        await it.settle()
        assert it.board.pods["p1"].node == "b"


async def test_queue_order_holds_beyond_the_size_of_one_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    young = [pod(f"young{number}", cpu=1, created=NOW - 1, priority=5) for number in range(3)]
    async with bench([node("a", cpu=1)], [pod("old", cpu=1, created=NOW - 100), *young]) as it:
        it.placer.apply([PoolPolicy(name="pool", pool=PoolSelect(order="fifo"), strategies=(Fits(),), mode="act")])
        await it.until(3)
        assert [name for _, name in it.board.tried(Bind)] == ["old"]


@pytest.mark.parametrize("waiting", [6, 40], ids=["a few plans", "many plans"])
async def test_pods_that_fit_nowhere_keep_no_other_waiting(monkeypatch: pytest.MonkeyPatch, waiting: int) -> None:
    """Those that came first are due again before the next plan is made, as one takes longer than they rest."""
    monkeypatch.setattr(module, "MOST", 4)
    monkeypatch.setattr(module, "AHEAD", 2)
    clock = VirtualClock(NOW)

    async def slowly(cases: Sequence[PoolCase]) -> list[tuple[PodDecision, ...] | str]:
        await clock.sleep_until(clock.now() + 2.0)
        return [plan(case) for case in cases]

    huge = [pod(f"huge{number}", cpu=9, created=NOW - 100) for number in range(waiting)]
    board = Board(clock, [node("a", cpu=1)], huge)
    placer = Placer(board, board.observe, Journal(), clock, [Heard()], slowly)
    placer.apply([PoolPolicy(name="pool", pool=PoolSelect(), strategies=(Fits(),), mode="act")])
    for _ in range(waiting):
        await placer.step()
    board.add(pod("small", cpu=0.5, created=clock.now()))
    for _ in range(2):
        await placer.step()
    await placer.actions.drain(1)
    assert board.pods["small"].node == "a"


async def test_a_plan_made_under_replaced_policies_is_not_carried_out() -> None:
    gate = asyncio.Event()

    async def slowly(cases: Sequence[PoolCase]) -> list[tuple[PodDecision, ...] | str]:
        await gate.wait()
        return [plan(case) for case in cases]

    clock = VirtualClock(NOW)
    board = Board(clock, [node("a")], [pod("p")])
    placer = Placer(board, board.observe, Journal(), clock, [Heard()], slowly)
    policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=(Fits(),), mode="act")
    placer.apply([policy])
    tick = asyncio.create_task(placer.tick(NOW))
    await asyncio.sleep(0)
    placer.apply([replace(policy, mode="observe")])
    gate.set()
    await tick
    await placer.actions.drain(1)
    assert board.done == []


async def test_a_waiting_pod_is_reported_again_only_under_another_policy() -> None:
    async with bench([node("a", cpu=1)], [pod("p", cpu=9)]) as it:
        await it.until(3)
        for policies in ((mine := it.placer.pools[0].policy), mine, replace(mine, mode="observe")):
            it.placer.apply([policies])
            await it.until(it.clock.now() - NOW + 15)
        assert [one.mode for one in it.heard.decisions] == ["act", "observe"]


async def test_nobody_gives_way_where_not_all_would_be_let() -> None:
    old = [pod(f"x{i}", cpu=0.1, on="a", owner=("ReplicaSet", "rs", "rs"), started=NOW - 600) for i in range(8)]
    clock, heard = VirtualClock(NOW), Heard()
    board = Board(clock, [node("a", cpu=0.8)], [*old, pod("new", cpu=0.8, priority=5)])
    broker = DisruptionGuard(board, DisruptionSettings(per_controller=5), clock)
    placer = Placer(broker, board.observe, Journal(), clock, [heard])
    strategies = (Filters(), Preemption())
    placer.apply([PoolPolicy(name="pool", pool=PoolSelect(), strategies=strategies, mode="act")])
    await placer.tick(NOW)
    await placer.actions.drain(1)
    assert board.done == []
    assert heard.outcomes == []
    (decision,) = heard.decisions
    assert (decision.verdict, decision.reason) == ("wait", "Disturbed")
    assert decision.message.endswith(
        "the pods that would be preempted may not be evicted: "
        "8 pods of its controller would have to go at once, and 5 may: "
        "per_controller of [disruption] never lets more go"
    )


async def test_a_plan_sure_to_be_refused_takes_no_others_place() -> None:
    """The urgent one would take the place that is being made for the other, in vain."""
    crowd = [pod(f"x{i}", cpu=0.4, on="a", owner=("ReplicaSet", "rs", "rs"), started=NOW - 600) for i in range(4)]
    lone = pod("lone", cpu=1, on="b", started=NOW - 600)
    clock, heard = VirtualClock(NOW), Heard()
    waiting = [pod("high", cpu=1.6, priority=9), pod("job", cpu=0.4, priority=5)]
    board = Board(clock, [node("a", cpu=1.6), node("b", cpu=1)], [*crowd, lone, *waiting])
    placer = Placer(
        DisruptionGuard(board, DisruptionSettings(per_controller=3), clock), board.observe, Journal(), clock, [heard]
    )
    strategies = (Filters(), Preemption())
    placer.apply([PoolPolicy(name="pool", pool=PoolSelect(), strategies=strategies, mode="act")])
    await placer.tick(NOW)
    await placer.actions.drain(1)
    told = {one.pod.name: (one.verdict, one.reason, one.node) for one in heard.decisions}
    assert told == {"high": ("wait", "Disturbed", ""), "job": ("preempt", "Preempts", "a")}
    assert [name for _, name in board.tried(Evict)] == ["x0"]


async def test_it_waits_for_those_who_leave_only_where_that_suffices() -> None:
    there = [
        pod("q", cpu=0.9, on="a", priority=9),
        pod("tiny", cpu=0.05, on="a", priority=9, deleted=True),
        pod("victim", cpu=1, on="b"),
    ]
    nodes = [node("a", cpu=1), node("b", cpu=1)]
    async with bench(nodes, [*there, pod("p", cpu=1, priority=5, nominated="a")]) as it:
        await it.until(5)
        assert [name for _, name in it.board.tried(Evict)] == ["victim"]
        assert it.board.pods["p"].node == "b"


async def test_an_eviction_that_was_not_needed_counts_for_nobody() -> None:
    async with bench([node("a", cpu=1)], [pod("x", cpu=1, on="a"), pod("p", cpu=1, priority=5)]) as it:

        def gone(action: Action) -> Answer | None:
            return Answer("done", 404, "it is gone", "NotFound") if isinstance(action, Evict) else None

        it.board.refuse = gone
        await it.placer.tick(NOW)
        await it.settle()
        assert it.placer.views.gave_way == {}


@pytest.mark.parametrize("namespaces", ["a", "abc"])
async def test_bindings_that_hang_leave_slots_to_other_namespaces(
    namespaces: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = [pod(f"{name}{number}", 0.01, namespace=name) for name in namespaces for number in range(100)]
    async with bench([node("n", cpu=100)], hanging) as it:
        act = it.board.act

        async def act_in_the_shop(action: Action) -> Answer:
            return await (act(action) if action.workload.namespace == "shop" else asyncio.Future[Answer]())

        monkeypatch.setattr(it.board, "act", act_in_the_shop)
        await it.until(1)
        it.board.add(pod("p", 0.01))
        await it.until(2)
        assert it.board.pods["p"].node == "n"
