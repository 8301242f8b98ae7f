"""Pods off nodes that do not suit them any more: observe a pool, plan moves, begin them.

Knows when a pool is looked at, and what must be remembered of it; knows no strategy and no wire format. Where a pod
goes is decided when it is placed anew, by the Placer or by whoever else places it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf

import numpy as np
from msgspec.structs import replace

from elasticd.base.clock import Clock, pause
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.finished_moves import dropped, over
from elasticd.decision.pool.moves import plan_moves
from elasticd.journal import Journal
from elasticd.kit.surge import BEGUN
from elasticd.model.actions import Answer, Evict
from elasticd.model.moves import NOT_WANTED, Look, MoveDecision, MovesPlan, PoolPast, Underway
from elasticd.model.policy import MovesTable, PoolPolicy
from elasticd.model.pool_listener import MovingListener
from elasticd.model.workload import Failure, Pod
from elasticd.ports.cluster import Cluster, Pretending, Snapshot
from elasticd.runtime.pools.execute import carry_out
from elasticd.runtime.pools.history import Latest, PoolHistory
from elasticd.runtime.pools.placer import Placer
from elasticd.runtime.pools.pool import OURSELVES, Pool, asked_to_move
from elasticd.runtime.pools.surges import Surging
from elasticd.runtime.pools.usage_view import By

SETTLE = 1.0
"""Seconds after something happened to a node before its pool is looked at: it seldom comes alone."""

MovesPlanner = Callable[[Sequence[PoolCase]], Awaitable[list[MovesPlan | str]]]


async def moves_at_once(cases: Sequence[PoolCase]) -> list[MovesPlan | str]:
    """Plan here and now."""
    return [plan_moves(case) for case in cases]


def moves(pool: Pool) -> bool:
    """Whether one of a pool's strategies may want pods moved."""
    return any(pool.hooks.implements(hook) for hook in ("rebind_pods", "rebalance_nodes"))


class Mover:
    """All pool policies that move pods, on one cluster. The pools are the placer's."""

    def __init__(
        self,
        cluster: Cluster,
        placer: Placer,
        journal: Journal,
        clock: Clock,
        listeners: Sequence[MovingListener] = (),
        planner: MovesPlanner = moves_at_once,
    ) -> None:
        self.surging = Surging(cluster, placer.look, journal, clock, listeners)
        self._cluster, self._placer = cluster, placer
        self._journal, self._clock, self._listeners, self._planner = journal, clock, listeners, planner
        self._memories: dict[str, PoolHistory] = {}
        self._before = journal.movers()
        """Policies of a daemon before of which it is to be seen whether they still move pods."""
        self._acting: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        cluster.on_change(self._changed.set)
        placer.answered.append(self._answered)
        self.surging.stayed.append(self._stayed)

    def _stayed(self, uid: str) -> None:
        """What was begun with a pod was in vain."""
        for memory in self._memories.values():
            memory.stayed(uid)

    def _answered(self) -> None:
        """A source that was waited for has answered: its pools are looked at now, while that is new."""
        for memory in self._memories.values():
            if memory.waits:
                memory.due = -inf
                self._changed.set()

    def trigger(self) -> str:
        """Look at every pool now; what to say to whoever asked for it."""
        if not self._cluster.leading:
            return "this elasticd does not lead: another looks at the pools"
        pools = len(self._moving())
        if not pools:
            return "no policy in force has a strategy that moves pods"
        for memory in self._memories.values():
            memory.due = -inf
        self._changed.set()
        return f"{pools} {'pool is' if pools == 1 else 'pools are'} looked at now"

    async def run(self) -> None:
        """Tick whenever something has happened, or is due, until cancelled."""
        while True:
            await self.step()

    async def step(self) -> None:
        """Wait for something to do, and tick."""
        until = self.due()
        if not self._changed.is_set():
            await pause(self._clock, until, self._changed)
        if self._changed.is_set():
            await self._clock.sleep_until(self.due())
        await self.turn()

    def due(self) -> float:
        """When it looks next, from now on, if nothing happens before. Who does not lead only looks whether he does."""
        now = self._clock.now()
        memories = self._memories.values() if self._cluster.leading else ()
        until = min([max(memory.due, now) for memory in memories] or [now + SETTLE])
        return min(until, now + SETTLE) if self._changed.is_set() else until

    async def turn(self) -> None:
        """Tick now, for what has happened meanwhile too."""
        self._changed.clear()
        await self.tick(self._clock.now())

    def _moving(self) -> list[Pool]:
        """The pools from which somebody may want pods moved."""
        found = [pool for pool in self._placer.pools if moves(pool)]
        names = {pool.policy.name for pool in found}
        for name in (self._memories.keys() | self._before) - names:
            self._end(dropped(self._journal.moves(name), self._clock.now()))
        self._before = frozenset()
        self._memories = {name: memory for name, memory in self._memories.items() if name in names}
        return found

    async def tick(self, now: float) -> None:
        """Plan for every pool that is due, or whose nodes changed, or pods failed; and begin what was decided."""
        pools = self._moving()
        if not pools or not self._cluster.leading:
            self._journal.flush()  # what has ended with its policy
            return
        snapshot = await self._placer.look(now)
        for pool in pools:
            if pool not in self._placer.pools:
                return  # others are in force by now
            memory = self._memories.get(pool.policy.name)
            if memory is None or memory.policy != pool.policy:
                memory = self._memories[pool.policy.name] = PoolHistory(pool.policy, now)
            nodes = pool.nodes("", snapshot.nodes())
            changed, failed = memory.note(nodes, now), memory.failed(nodes, snapshot.on_nodes())
            if changed or failed or memory.due <= now:
                memory.due = now + pool.policy.moves.every
                await self._plan(pool, memory, snapshot, now)
        self._journal.flush()

    async def _plan(self, pool: Pool, memory: PoolHistory, snapshot: Snapshot, now: float) -> None:
        memory.waits = True
        case = await self._placer.case(pool, snapshot, (), now)
        memory.waits = case is None
        if case is None or pool.blocked:
            return
        looks_back = max((one.looks_back() for one in pool.policy.strategies), default=0)
        if looks_back:
            use = {name: np.array(case.columns.measured(name)) for name in pool.wants.nodes}
            memory.look(Look(now, case.columns.names, use), looks_back)
        memory.forget(snapshot.on_nodes(), now)
        leaving = self._leaving(memory, snapshot, now)
        memory.promise(case.columns, now)
        for uid, node in leaving:
            if (index := case.columns.index(node)) is not None:
                case.columns.leave(index, uid)
        begun = self._clock.now()
        (found,) = await self._planner([_with(case, memory.past(now))])
        if pool not in self._placer.pools:
            return  # what other policies say is not done
        if isinstance(found, str):
            pool.blocked = f"{found}; it is not called again until reload"
            pool.count_failure("moving", [Failure(OURSELVES, "", pool.blocked)], ())
            return
        failures = [failure for failure in found.failures if failure.hook != "explain_nodes"]
        pool.count_failure("moving", failures, asked_to_move(found.decisions))
        memory.planned(found, now)
        self._settle(memory, found.decisions, snapshot, case.observation.use)
        before, go = self._journal.moves(pool.policy.name), {uid for uid, _ in leaving}
        self._end(over(before, found.decisions, case.columns, snapshot.on_nodes(), go, now))
        for listener in self._listeners:
            listener.looked(pool.policy.name, self._clock.now() - begun)

    def _leaving(self, memory: PoolHistory, snapshot: Snapshot, now: float) -> list[tuple[str, str]]:
        """The pods that leave their nodes, however long another is waited for; not those of which that is taken
        back."""
        found = self.surging.in_flight(snapshot)
        for one in found:
            if one.stays:
                memory.stayed(one.uid)
        return [*((one.uid, one.node) for one in found if not one.stays), *memory.begun(now)]

    def _end(self, decisions: Iterable[MoveDecision]) -> None:
        """Write down who is wanted moved no longer. That one has left is told already."""
        for decision in decisions:
            self._journal.append(decision)
            for listener in self._listeners if decision.reason == NOT_WANTED else ():
                listener.moving(decision)

    def _settle(self, memory: PoolHistory, decisions: Sequence[MoveDecision], snapshot: Snapshot, use: By) -> None:
        """Write down what is news, and begin the moves. `use`: what pods use."""
        told: dict[str, tuple[object, ...]] = {}
        for decision in decisions:
            news = (decision.verdict, decision.strategy, decision.reason, decision.refusal, decision.node)
            told[decision.uid] = news
            is_news = memory.told.get(decision.uid) != news
            if is_news:
                self._say(decision)
            if decision.action is not None and decision.mode == "act" and decision.uid not in self._acting:
                there = snapshot.on_nodes().get(decision.node, ())
                pod = next((one for one in there if one.uid == decision.uid), None)
                known = _used(use, decision)
                task = asyncio.create_task(self._act(memory, decision, pod, known, said=is_news), name=decision.id)
                self._acting[decision.uid] = task
        memory.told = told

    def _say(self, decision: MoveDecision) -> None:
        self._journal.append(decision)
        for listener in self._listeners:
            listener.moving(decision)

    async def _act(
        self, memory: PoolHistory, decision: MoveDecision, pod: Pod | None, use: Mapping[str, float], *, said: bool
    ) -> None:
        """Begin a move. What was held back before is `said` already; the decision by which the pod goes at last is said
        with its own time and target."""
        action = decision.action
        if action is None:
            return
        try:
            begin = partial(self._carry_out, memory.policy.moves, action, decision)
            outcome = await carry_out(self._clock, decision, action, begin)
        finally:
            del self._acting[decision.uid]
        if outcome.result == "done" and outcome.message == BEGUN:
            self._placer.views.replaced(action, outcome.at)
        elif outcome.result == "done":
            self._placer.views.evicted(action, outcome)
        if use and pod is not None and outcome.result == "done":
            self._placer.views.moved_with(pod, use, outcome.at)
        if not memory.did(decision, action, pod, outcome, use):
            return
        if outcome.result == "done" and not said:
            self._say(decision)
        self._journal.append(outcome)
        self._journal.flush()
        for listener in self._listeners:
            listener.placed(outcome)

    async def _carry_out(self, moves: MovesTable, action: Evict, decision: MoveDecision) -> Answer:
        """Let the pod go, or make another first where that is wanted; not in a dry run, where no other would come."""
        surges = moves.surge and decision.how == "reschedule"
        if surges and not isinstance(await self._placer.look(self._clock.now()), Pretending):
            answer = await self.surging.begin(action, moves.surge_within, decision.id)
            if answer is not None:
                return answer
        return await self._cluster.act(action)

    def latest(self, policy: str) -> Latest:
        """The latest look at a pool."""
        memory = self._memories.get(policy)
        found = memory.latest() if memory else Latest()
        before = {one.uid: one for one in self._journal.moves(policy)}  # also of a daemon before
        return replace(found, going={**before, **found.going})

    def refusal(self, policy: PoolPolicy, pod: Pod, snapshot: Snapshot) -> tuple[str, str] | None:
        """Why a pod that a plan wants moved would not be let go now, one word and a sentence, as far as it is known
        before it is tried: by `[disruption]`, or by how another is made first."""
        evict = Evict(pod.ref, pod.uid, pod.node, "", owner=pod.owner[2])
        if policy.moves.surge and not isinstance(snapshot, Pretending):
            return self.surging.refusal(evict, snapshot)
        return self._cluster.refusal([evict])

    async def underway(self) -> list[Underway]:
        """What is in flight now, by what is found in the cluster."""
        return self.in_flight(await self._placer.look(self._clock.now()))

    def in_flight(self, snapshot: Snapshot | None) -> list[Underway]:
        """What is in flight: with steps of its own, or ending on a node."""
        found = self.surging.in_flight(snapshot)
        if snapshot is None:
            return found
        known = {(one.pod.namespace, one.pod.name) for one in found}
        leaving = [one for memory in self._memories.values() for one in memory.leaving(snapshot.on_nodes())]
        return [*found, *(one for one in leaving if (one.pod.namespace, one.pod.name) not in known)]

    async def drain(self, patience: float | None = None) -> None:
        """Wait for what is under way, at most `patience` seconds."""
        tasks = list(self._acting.values())
        waits = [asyncio.wait(tasks, timeout=patience)] if tasks else []
        await asyncio.gather(self.surging.drain(patience), *waits)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _used(use: By, decision: MoveDecision) -> Mapping[str, float]:
    """What a pod uses, by series, as far as it is known."""
    name = f"{decision.pod.namespace}/{decision.pod.name}"
    return {series: by_pod[name] for series, by_pod in use.items() if name in by_pod}


def _with(case: PoolCase, past: PoolPast) -> PoolCase:
    return PoolCase(case.policy, case.observation, case.columns, case.hooks, case.off, past)
