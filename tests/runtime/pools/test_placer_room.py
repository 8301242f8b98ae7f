"""The loop for pods, where some are preempted for others: what may happen between a plan and its end."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.api import DisruptionBudget, Pod, PoolObservation, Strategy, hookimpl
from elasticd.base.clock import VirtualClock
from elasticd.journal import Journal
from elasticd.model.actions import Action, Answer, Bind, Evict, Nominate
from elasticd.model.listener import Notice
from elasticd.model.placement import PodOutcome
from elasticd.model.pod_spec import Expression, PodClaim, PodTerm
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.model.workload import Node
from elasticd.ports.cluster import Snapshot
from elasticd.runtime.pools.placer import BACKOFF, Placer
from elasticd.runtime.pools.usage_view import BACKOFF as VICTIMS_BACKOFF
from elasticd.runtime.pools.usage_view import SPARED
from elasticd_plugins.filters import Filters
from elasticd_plugins.preemption import Preemption
from tests.kit.board import Board
from tests.kit.pools import NOW, node, pod
from tests.kit.volumes import claim, storage, volume

REFUSED = Answer("refused", 429, "Cannot evict pod as it would violate the pod's disruption budget.", "Budget")


class Bench:
    """A placer over a board, in virtual time. While `frozen`, what it is shown stays as it was."""

    def __init__(self, nodes: Sequence[Node], pods: Sequence[Pod], *strategies: Strategy) -> None:
        self.clock, self.journal = VirtualClock(NOW), Journal()
        self.board = Board(self.clock, nodes, pods)
        self.frozen: dict[str, Pod] | None = None
        self.outcomes: list[PodOutcome] = []
        self.placer = Placer(self.board, self._look, self.journal, self.clock, [self])
        used = (Filters(), *(strategies or (Preemption(),)))
        self.placer.apply([PoolPolicy(name="pool", pool=PoolSelect(), strategies=used, mode="act")])

    def on(self, record: Notice) -> None:
        """Keep outcomes; decisions show in what is done."""
        if isinstance(record, PodOutcome):
            self.outcomes.append(record)

    async def _look(self, now: float) -> Snapshot:
        seen = await self.board.observe(now)
        if self.frozen is not None:
            still = Board(self.clock, self.board.nodes.values(), self.frozen.values())
            seen = await still.observe(now)
        return seen

    def freeze(self) -> None:
        self.frozen = dict(self.board.pods)

    async def tick(self, after: float = 0.0) -> None:
        """Plan after so many seconds, and let what is begun come to its end."""
        await self.clock.sleep_until(self.clock.now() + after)
        await self.placer.tick(self.clock.now())
        await self.settle()

    async def settle(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0)

    async def run(self, seconds: float) -> None:
        until = self.clock.now() + seconds
        while self.clock.now() < until:
            await self.placer.step()
            await self.settle()

    def done(self) -> list[str]:
        """What was asked of the cluster, in order."""
        return [_word(action) for _, action in self.board.done]


def _word(action: Action) -> str:
    match action:
        case Bind() | Evict():
            return f"{type(action).__name__.lower()} {action.workload.name}"
        case Nominate():
            return f"note {action.node or 'nothing'} on {action.workload.name}"
        case _:
            raise AssertionError(action)


@asynccontextmanager
async def bench(nodes: Sequence[Node], pods: Sequence[Pod], *strategies: Strategy) -> AsyncIterator[Bench]:
    made = Bench(nodes, pods, *strategies)
    try:
        yield made
    finally:
        await made.placer.actions.drain(0)


def old(name: str, cpu: float = 1.0, on: str = "a", **more: Any) -> Pod:
    """A pod that has run for long."""
    return pod(name, cpu, **{"on": on, "started": NOW - 1000, **more})


def urgent(name: str = "urgent", cpu: float = 1.0, priority: int = 9, **more: Any) -> Pod:
    return pod(name, cpu, priority=priority, **more)


ONE = [node("a", cpu=1)]
TWO = [node("a", cpu=1), node("b", cpu=1)]


async def test_victims_go_and_then_the_pod_comes() -> None:
    async with bench(ONE, [old("x"), urgent()]) as it:
        await it.run(3)
        assert it.done() == ["note a on urgent", "evict x", "bind urgent"]


@pytest.mark.slow
async def test_f32_no_second_victim_is_evicted_while_the_first_terminates() -> None:
    async with bench(TWO, [old("x"), old("y", on="b"), urgent()]) as it:
        it.board.lingers = True
        await it.run(3600)
        assert it.done() == ["note a on urgent", "evict x"]
        it.board.remove("x")
        await it.run(3)
        assert it.done()[2:] == ["bind urgent"]


async def test_f32_a_stale_snapshot_leads_to_no_second_victim() -> None:
    async with bench(TWO, [old("x"), old("y", on="b"), urgent()]) as it:
        it.board.lingers = True
        it.freeze()
        for _ in range(5):
            await it.tick(1)
        assert it.done() == ["note a on urgent", "evict x"]


async def test_f32_another_pod_picks_another_victim_during_a_slow_eviction(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(TWO, [old("x"), old("y", on="b"), urgent()]) as it:
        gate, act = asyncio.Event(), it.board.act

        async def slowly(action: Action) -> Answer:
            if isinstance(action, Evict):
                await gate.wait()
            return await act(action)

        monkeypatch.setattr(it.board, "act", slowly)
        await it.tick()
        it.board.add(urgent("second"))
        await it.tick(1)
        gate.set()
        await it.settle()
        assert it.board.tried(Evict) == [(NOW + 1, "x"), (NOW + 1, "y")]


async def test_a_daemon_that_stops_while_it_evicts_writes_nothing_more() -> None:
    async with bench(ONE, [old("x"), urgent()]) as it:
        it.board.silent = (Evict,)
        await it.tick()
        await it.placer.actions.drain(0)
        assert it.done() == ["note a on urgent"]
        assert [(one.action, one.reason) for one in it.outcomes] == [("nominate", ""), ("evict", "Stopped")]


async def test_f34_nobody_more_is_evicted_once_the_pod_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    there = [old(name, 0.25) for name in "wxyz"]
    async with bench(ONE, [*there, urgent()]) as it:
        act = it.board.act

        async def then_goes(action: Action) -> Answer:
            answer = await act(action)
            if isinstance(action, Evict) and action.workload.name == "x":
                it.board.remove("urgent")
            return answer

        monkeypatch.setattr(it.board, "act", then_goes)
        await it.run(5)
        assert it.done() == ["note a on urgent", "evict w", "evict x"]
        refused = [one for one in it.outcomes if one.result != "done"]
        assert [(one.about.name, one.result, one.reason) for one in refused] == [("y", "conflict", "NotWanted")]


async def test_f34_freed_room_goes_to_the_next_pod_without_eviction() -> None:
    async with bench(ONE, [old("x"), urgent()]) as it:
        it.board.lingers = True
        await it.tick()
        it.board.remove("urgent")
        it.board.remove("x")
        it.board.add(pod("next", 1))
        await it.run(3)
        assert it.done() == ["note a on urgent", "evict x", "bind next"]


async def test_f34_a_higher_pod_takes_the_room_clearing_the_nomination() -> None:
    async with bench(ONE, [old("x"), urgent()]) as it:
        it.board.lingers = True
        await it.tick()
        it.board.remove("x")
        it.board.add(urgent("higher", priority=99))
        await it.run(3)
        assert it.done() == ["note a on urgent", "evict x", "bind higher", "note nothing on urgent"]
        assert it.board.pods["urgent"].nominated == ""


async def test_f34_most_victims_bounds_all_evictions_for_one_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(ONE, [old("x0"), urgent()], Preemption(most_victims=3)) as it:
        act, count = it.board.act, 0

        async def another_comes(action: Action) -> Answer:
            nonlocal count
            answer = await act(action)
            if isinstance(action, Evict):
                count += 1
                it.board.add(old(f"x{count}"))
            return answer

        monkeypatch.setattr(it.board, "act", another_comes)
        await it.run(120)
        assert len(it.board.tried(Evict)) == 3
        assert it.board.pods["urgent"].node == ""
        told = [one.message for one in it.board.announced]
        assert any("shop/x1 is preempted on a: 1 of lower priority" in one for one in told)
        assert any(one.endswith("; 1 has been preempted for it already") for one in told)
        assert told[-1].endswith("more would have to go than most_victims = 3, as 3 have been preempted for it already")


async def test_nominated_room_is_kept_from_lower_pods_until_the_bind() -> None:
    async with bench(ONE, [old("x", 0.5), old("y", 0.5), urgent()]) as it:
        it.board.lingers = True
        await it.tick()
        it.board.remove("x")
        it.board.add(*(pod(f"small{index}", 0.5) for index in range(3)))
        for _ in range(20):
            await it.tick(0.1)  # the urgent one rests most of the time
        assert it.board.tried(Bind) == []
        it.board.remove("y")
        await it.tick(0.1)
        assert it.board.tried(Bind)[0][1] == "urgent"


async def test_f31_a_victim_kept_by_a_budget_is_skipped_temporarily() -> None:
    async with bench(TWO, [old("x"), old("y", on="b"), urgent()]) as it:
        it.board.refuse = lambda one: REFUSED if isinstance(one, Evict) and one.workload.name == "x" else None
        await it.run(10)
        assert [name for _, name in it.board.tried(Evict)] == ["x", "y"]
        assert it.board.pods["urgent"].node == "b"


KEPT = Answer("refused", 403, "it might not come back: no PriorityClass was found", "NotRestorable")


@pytest.mark.slow
@pytest.mark.parametrize("which", ["x", "y"])
async def test_no_victim_goes_while_the_trial_of_another_fails(which: str) -> None:
    async with bench(ONE, [old("x", 0.5), old("y", 0.5), urgent()]) as it:
        it.board.refuse = lambda one: KEPT if isinstance(one, Evict) and one.workload.name == which else None
        await it.run(3600)
        assert it.board.tried(Evict) == []
        times = [at for at, name in it.board.trials if name == which]
        pauses = [after - before for before, after in pairwise(times)]
        longest = VICTIMS_BACKOFF.longest + BACKOFF.longest
        assert all(VICTIMS_BACKOFF.delay(tries) <= pause <= longest for tries, pause in enumerate(pauses, 1))
        assert len(times) in range(8, 12)  # not sixty, as once a minute
        assert it.board.pods["urgent"].nominated == ""
        refused = [(one.about.name, one.reason) for one in it.outcomes if one.result != "done"]
        assert refused == [(which, "NotRestorable")] * len(times)
        it.board.refuse = lambda _: None
        await it.run(VICTIMS_BACKOFF.longest + 60)
        assert it.board.pods["urgent"].node == "a"


async def test_victims_that_are_judged_anew_go_within_seconds() -> None:
    """As once others of their controllers were changed, of which a killed leader's eviction might come late."""
    outdated = {"x", "y"}

    def refuse(action: Action) -> Answer | None:
        if not isinstance(action, Evict) or action.workload.name not in outdated:
            return None
        outdated.remove(action.workload.name)
        return Answer("refused", message="changed first", reason="Outdated")

    async with bench(ONE, [old("x", 0.5), old("y", 0.5), urgent()]) as it:
        it.board.refuse = refuse
        await it.run(20)
        assert it.board.pods["urgent"].node == "a"


async def test_a_brokers_refusal_is_not_reported_as_a_budget() -> None:
    async with bench(ONE, [old("x"), urgent()]) as it:
        it.board.refuse = lambda one: Answer("refused", 0, "2 may", "Disturbed") if isinstance(one, Evict) else None
        await it.run(10)
        told = [one.message for one in it.board.announced if "not let go" in one.message]
        assert told[0].endswith("on 1 node lesser pods were not let go when last tried (Disturbed)")
        assert it.placer.views.spared() == (
            DisruptionBudget(
                "shop",
                "x",
                frozenset({"uid-x"}),
                0,
                "not let go when last tried (Disturbed)",
                "[disruption] lets more pods go",
            ),
        )


async def test_a_victim_that_another_scheduler_would_replace_is_not_evicted() -> None:
    async with bench(ONE, [old("x", scheduler="default-scheduler", restart="Always"), urgent()]) as it:
        await it.run(600)
        assert it.done() == []
        (told,) = it.board.announced
        assert told.message.endswith("on 1 node lesser pods are placed by another scheduler")


async def test_f31_a_budget_that_always_refuses_is_never_bypassed() -> None:
    async with bench(ONE, [old("x"), urgent(), pod("small", 0.0)]) as it:
        it.board.refuse = lambda one: REFUSED if isinstance(one, Evict) else None
        await it.run(10 * SPARED)
        times = [at for at, _ in it.board.tried(Evict)]
        assert 5 <= len(times) <= 11
        assert all(after - before >= SPARED for before, after in pairwise(times))
        assert "x" in it.board.pods
        assert it.board.pods["small"].node == "a"  # others go on


async def test_a_failed_eviction_is_retried_after_growing_pauses() -> None:
    async with bench(ONE, [old("x"), urgent()]) as it:
        it.board.refuse = lambda one: Answer("failed", 0, "no answer", "Lost") if isinstance(one, Evict) else None
        await it.run(60)
        times = [at for at, _ in it.board.tried(Evict)]
        pauses = [round(after - before) for before, after in pairwise(times)]
        assert pauses[:4] == [1, 2, 4, 8]
        assert set(pauses[4:]) == {BACKOFF.longest}


async def test_nobody_gives_way_while_budgets_are_not_known() -> None:
    async with bench(ONE, [old("x"), urgent()]) as it:
        it.board.limits = None
        await it.run(60)
        assert it.done() == []
        (told,) = it.board.announced
        assert told.message.endswith("no pod is preempted while PodDisruptionBudgets are not known")


async def test_a_budget_of_the_cluster_is_kept() -> None:
    async with bench(ONE, [old("x"), urgent()]) as it:
        it.board.limits = (DisruptionBudget("shop", "b", frozenset({"uid-x"}), 0),)
        await it.run(60)
        assert it.done() == []


async def test_freed_room_goes_to_the_pod_ahead_in_the_queue() -> None:
    async with bench(ONE, [old("x", priority=99), pod("behind", 1, created=NOW - 5)]) as it:
        await it.tick()
        it.board.add(pod("ahead", 1, created=NOW - 9))
        await it.tick(0.5)
        it.board.remove("x")
        await it.tick(0.6)  # only the one behind has rested long enough
        assert it.board.tried(Bind) == [(NOW + 1.1, "ahead")]


async def test_an_early_attempt_does_not_prolong_the_backoff() -> None:
    async with bench(ONE, [old("x", priority=99), pod("a", 1, created=NOW - 9)]) as it:
        await it.tick()  # until 1
        it.board.add(pod("b", 1, created=NOW))
        await it.tick(0.5)  # a comes along
        it.board.remove("x")
        await it.tick(0.5)
        assert it.board.tried(Bind) == [(NOW + 1, "a")]


class Sees(Strategy, tag="sees", frozen=True):
    """Notes what it is told of pods that were evicted."""

    @hookimpl
    def filter_nodes(self, observation: PoolObservation) -> None:
        SEEN.append((dict(observation.moved), dict(observation.gave_way)))


SEEN: list[tuple[dict[str, float], dict[str, int]]] = []


async def test_a_controllers_replacement_for_a_victim_is_recognised_once() -> None:
    SEEN.clear()
    owner = ("Job", "job", "uid-job")
    async with bench(ONE, [old("x", owner=owner), urgent()], Preemption(), Sees()) as it:
        await it.tick()
        at = it.clock.now()
        it.board.add(pod("x2", 1, owner=owner, created=at + 0.5), pod("x3", 1, owner=owner, created=at + 2))
        await it.tick(3)
        assert SEEN[-1][0] == {"uid-x2": at}
        it.board.remove("x2")
        await it.tick(10)
        assert SEEN[-1][0] == {}


async def test_no_pod_is_bound_beside_one_that_waits_for_room() -> None:
    near = pod("near", 0.0, attracts=(PodTerm("host", (Expression("app", "In", ("u",)),)),))
    async with bench([node("a", cpu=1, labels={"host": "a"})], [old("x"), urgent(labels={"app": "u"}), near]) as it:
        it.board.lingers = True
        await it.run(30)
        assert it.board.tried(Bind) == []
        it.board.remove("x")
        await it.run(15)
        assert [name for _, name in it.board.tried(Bind)] == ["urgent", "near"]


async def test_how_many_gave_way_is_forgotten_with_the_pod() -> None:
    SEEN.clear()
    async with bench(ONE, [old("x"), urgent()], Preemption(), Sees()) as it:
        it.board.lingers = True
        await it.tick()
        await it.tick(2)
        assert SEEN[-1][1] == {"uid-urgent": 1}
        it.board.remove("urgent")
        it.board.add(pod("other", 1))
        await it.tick(2)
        assert SEEN[-1][1] == {}


@pytest.mark.parametrize("lost", [Answer("conflict", 409, "", "Conflict"), Answer("failed", 500, "", "Server")])
async def test_a_lost_bind_is_retried_without_another_eviction(lost: Answer) -> None:
    async with bench(TWO, [old("x"), old("y", on="b"), urgent()]) as it:
        left = [lost]
        it.board.refuse = lambda one: left.pop() if isinstance(one, Bind) and left else None
        await it.run(10)
        assert it.done() == ["note a on urgent", "evict x", "bind urgent", "bind urgent"]


async def test_a_node_lost_while_its_pods_leave_is_given_up() -> None:
    async with bench(TWO, [old("x"), old("y", on="b"), urgent()]) as it:
        it.board.lingers = True
        await it.tick()
        it.board.add(replace(it.board.nodes["a"], ready=False))
        await it.tick(2)
        assert it.done() == ["note a on urgent", "evict x", "note b on urgent", "evict y"]


@pytest.mark.parametrize(
    ("local", "expected"), [pytest.param(True, [], id="a folder"), pytest.param(False, ["x"], id="a disk")]
)
async def test_volumes_of_victims_are_looked_at(local: bool, expected: list[str]) -> None:
    victim = old("x", volume_claims=(PodClaim("data"),))
    async with bench([*ONE, node("b", cpu=0.5)], [victim, urgent()]) as it:
        it.board.storage = storage(claim("data", volume="pv"), volume("pv", local=local))
        await it.run(10)
        assert [name for _, name in it.board.tried(Evict)] == expected
