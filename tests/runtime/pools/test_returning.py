"""Pods that another scheduler puts back on the node that they were moved from: ever longer pauses, then an end."""

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.decision.pool.moves import KEEPS_RETURNING, MOST_RETURNS
from elasticd.model.actions import Action, Answer, Evict
from elasticd.model.moves import MoveDecision
from elasticd.model.placement import PodOutcome
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.runtime.pools.history import PoolHistory
from tests.kit.pools import NOW, node, pod
from tests.runtime.pools.test_mover import LEAVE, Bench, Leave, bench, running

NODES = [node("a", labels=LEAVE), node("b")]
HOUR = 3600.0


def put_back(it: Bench, later: float = 1.0) -> None:
    """Somebody replaces each pod that is evicted on the node that it was evicted from, after so many seconds."""

    def replaced(action: Action) -> Answer | None:
        if isinstance(action, Evict):
            old = it.board.pods[action.workload.name]
            at = (it.clock.now() + later) // 1
            it.board.put(replace(old, created=at, started=at, uid=f"{old.uid}+"))
            it.board.callback()
            return Answer("done")
        return None

    it.board.refuse = replaced


def evicted(it: Bench) -> list[float]:
    """When each eviction was."""
    return [at - NOW for at, _ in it.board.tried(Evict)]


async def test_what_is_put_back_moves_ever_later_then_stays() -> None:
    async with bench(NODES, [running("p", "a"), running("q", "b")], min_age=0.0) as it:
        put_back(it)
        await it.until(2 * HOUR)
        times = evicted(it)
        pauses = [later - before for before, later in pairwise(times)]
        assert len(times) == 1 + MOST_RETURNS
        assert all(pause >= least for pause, least in zip(pauses, (60, 120, 240, 480), strict=True))
        (last,) = [decision for decision in it.heard.decisions if decision.refusal == KEEPS_RETURNING]
        assert "4 like it were moved from this node and replaced there" in last.message
        assert [(event.reason, event.warning) for event in it.board.announced] == [(KEEPS_RETURNING, True)]


@pytest.mark.parametrize("every", [30.0, 310.0, 3600.0])
async def test_what_is_put_back_in_the_same_second_stays_too(every: float) -> None:
    """The first one may have been there before, as far as the API server tells."""
    async with bench(NODES, [running("p", "a"), running("q", "b")], min_age=0.0, every=every) as it:
        put_back(it, later=0.0)
        await it.until(12 * HOUR)
        assert len(evicted(it)) <= 2 + MOST_RETURNS


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"unschedulable": True}, id="cordoned"),
        pytest.param({"labels": {**LEAVE, "zone": "b"}}, id="labelled"),
    ],
)
async def test_it_goes_on_when_the_node_changes(change: dict[str, object]) -> None:
    async with bench(NODES, [running("p", "a"), running("q", "b")], min_age=0.0) as it:
        put_back(it)
        await it.until(HOUR)
        before = len(evicted(it))
        it.board.add(replace(it.board.nodes["a"], **change))
        await it.until(HOUR + 10)
        assert len(evicted(it)) == before + 1


async def test_it_goes_on_after_a_day() -> None:
    async with bench(NODES, [running("p", "a"), running("q", "b")], min_age=0.0, every=600.0) as it:
        put_back(it)
        await it.until(23 * HOUR)
        before = len(evicted(it))
        await it.until(47 * HOUR)
        assert len(evicted(it)) == 2 * before


async def test_pods_that_come_long_after_a_move_are_moved() -> None:
    async with bench(NODES, [running("p", "a"), running("q", "b")], min_age=0.0) as it:
        for hours in range(1, 9):
            await it.until(hours * HOUR)
            it.board.add(replace(running("p", "a"), uid=f"p-{hours}", created=it.clock.now()))
        await it.until(10 * HOUR)
        assert len(evicted(it)) == 9
        assert {decision.refusal for decision in it.heard.decisions} == {""}


async def test_moves_taken_back_are_no_comebacks() -> None:
    history = PoolHistory(PoolPolicy(name="pool", pool=PoolSelect(), strategies=(Leave(),)), NOW)
    pod = replace(running("p", "a"), created=NOW + 60)
    for second, uid in ((0.0, "first"), (70.0, "p"), (90.0, "p")):
        decision = MoveDecision(
            "id", NOW + second, "pool", pod.ref, "act", "move", "leave", "Leaves", uid=uid, node="a"
        )
        action = Evict(pod.ref, uid, "a", owner=pod.owner[2])
        outcome = PodOutcome("id", NOW + second, "pool", pod.ref, pod.ref, "evict", "a", "done")
        moved = replace(pod, uid=uid, created=NOW - 600) if uid == "first" else pod
        history.did(decision, action, moved, outcome)
        if uid == "p":
            assert history.past(NOW + 100).comebacks["rs-1", "a"].count == 1
            history.take_back(uid)
        assert history.past(NOW + 100).comebacks["rs-1", "a"].count == 0


async def test_many_pods_of_one_controller_leave_a_node_unhindered() -> None:
    pods = [running(f"p{index}", "a") for index in range(12)]
    async with bench(NODES, [*pods, running("q", "b")], per_look=3) as it:
        await it.until(120)
        assert len(evicted(it)) == len(pods)


async def test_another_controller_on_the_same_node_is_moved() -> None:
    owned: dict[str, Any] = {"owner": ("ReplicaSet", "y", "rs-2"), "started": NOW - 600, "ready": True}
    async with bench(NODES, [running("p", "a"), running("q", "b")], min_age=0.0) as it:
        put_back(it)
        await it.until(HOUR)
        it.board.refuse = lambda _: None
        it.board.add(pod("other", on="a", **owned), pod("beside", on="b", **owned))
        await it.until(HOUR + 60)
        assert "other" in {name for _, name in it.board.tried(Evict)}
