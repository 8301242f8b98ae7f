"""Pods off nodes that do not suit them any more: observe a pool, plan moves, begin them.

Knows when a pool is looked at, and what must be remembered of it; knows no strategy and no wire format. Where a pod
goes is decided when it is placed anew, by the Placer or by whoever else places it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from math import inf
from typing import Any

import numpy as np

from elasticd.actions import Answer, Evict
from elasticd.asking import Answers, Asks
from elasticd.clock import Clock, pause
from elasticd.cluster import Cluster, Snapshot
from elasticd.journal import Journal
from elasticd.model import Failure, Node
from elasticd.moves import Look, Moved, MoveDecision, PoolPast
from elasticd.placements import PodOutcome
from elasticd.placer import Placer
from elasticd.placing.ask import PoolCase
from elasticd.placing.moving import plan_moves
from elasticd.pod_acting import carry_out
from elasticd.pod_listeners import MovingListener
from elasticd.policy import MovesTable, PoolPolicy
from elasticd.pool import OURSELVES, Pool
from elasticd.surging import Surging

REMEMBERED = 3600.0
"""Seconds for which a move is remembered."""

SETTLE = 1.0
"""Seconds after something happened to a node before its pool is looked at: it seldom comes alone."""

MovesPlan = tuple[MoveDecision, ...]
MovesPlanner = Callable[[Sequence[PoolCase]], Awaitable[list[MovesPlan | str]]]


async def moves_at_once(cases: Sequence[PoolCase]) -> list[MovesPlan | str]:
    """Plan here and now."""
    return [plan_moves(case) for case in cases]


def moves(pool: Pool) -> bool:
    """Whether one of a pool's strategies may want pods moved."""
    return any(pool.hooks.heeds(hook) for hook in ("rebind_pods", "rebalance_nodes"))


class _Memory:
    """What is remembered of one pool."""

    def __init__(self, policy: PoolPolicy, begun: float) -> None:
        self.policy, self.due = policy, begun
        self.looks: deque[Look] = deque()
        self.moved: deque[Moved] = deque()
        self.labelled: dict[str, float] = {}
        self.told: dict[str, tuple[object, ...]] = {}
        self._undone: dict[str, tuple[object, ...]] = {}
        self._seen: dict[str, Node] = {}

    def note(self, nodes: Sequence[Node], now: float) -> bool:
        """See the nodes; whether one came, went, changed its labels or taints, or is ready no more or again."""
        before, self._seen = self._seen, {node.name: node for node in nodes}
        changed = before.keys() != self._seen.keys()
        for name, node in self._seen.items():
            old = before.get(name)
            if old is node:
                continue
            if old is None or old.labels != node.labels:
                self.labelled[name] = now
            changed = changed or old is None or _state(old) != _state(node)
        for name in before.keys() - self._seen.keys():
            self.labelled.pop(name, None)
        return changed

    def news(self, uid: str, outcome: PodOutcome) -> bool:
        """Whether what came of a pod's move is to be told: not where it was not done for the same reason as before."""
        found = (outcome.result, outcome.code, outcome.reason)
        if outcome.result == "done":
            self._undone.pop(uid, None)
            return True
        before, self._undone[uid] = self._undone.get(uid), found
        return found != before

    def forget(self, uids: AbstractSet[str]) -> None:
        """Only these are still to be moved: what came of the others is news when it comes again."""
        self._undone = {uid: one for uid, one in self._undone.items() if uid in uids}

    def past(self, now: float) -> PoolPast:
        """As strategies see it."""
        while self.moved and self.moved[0].at < now - REMEMBERED:
            self.moved.popleft()
        return PoolPast(tuple(self.looks), tuple(self.moved), self.labelled)


def _state(node: Node) -> tuple[object, ...]:
    return (node.labels, node.ready, node.unschedulable, node.taints, node.annotations)


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
        self._memories: dict[str, _Memory] = {}
        self._acting: dict[str, asyncio.Task[None]] = {}
        self._stirred = asyncio.Event()
        cluster.heed(self._stirred.set)

    def hurry(self) -> str:
        """Look at every pool now; what to say to whoever asked for it."""
        if not self._cluster.leading:
            return "this elasticd does not lead: another looks at the pools"
        pools = len(self._moving())
        if not pools:
            return "no policy in force has a strategy that moves pods"
        for memory in self._memories.values():
            memory.due = -inf
        self._stirred.set()
        return f"{pools} {'pool is' if pools == 1 else 'pools are'} looked at now"

    async def run(self) -> None:
        """Tick whenever something has happened, or is due, until cancelled."""
        while True:
            await self.step()

    async def step(self) -> None:
        """Wait for something to do, and tick."""
        until = self.due()
        if not self._stirred.is_set():
            await pause(self._clock, until, self._stirred)
        if self._stirred.is_set():
            await self._clock.sleep_until(min(until, self._clock.now() + SETTLE))
        await self.turn()

    def due(self) -> float:
        """When it looks next, from now on, if nothing happens before."""
        now = self._clock.now()
        until = min([max(memory.due, now) for memory in self._memories.values()] or [now + SETTLE])
        return min(until, now + SETTLE) if self._stirred.is_set() else until

    async def turn(self) -> None:
        """Tick now, for what has happened meanwhile too."""
        self._stirred.clear()
        await self.tick(self._clock.now())

    def _moving(self) -> list[Pool]:
        """The pools from which somebody may want pods moved."""
        found = [pool for pool in self._placer.pools if moves(pool)]
        names = {pool.policy.name for pool in found}
        self._memories = {name: memory for name, memory in self._memories.items() if name in names}
        return found

    async def tick(self, now: float) -> None:
        """Plan for every pool that is due, or whose nodes have changed, and begin what was decided."""
        pools = self._moving()
        if not pools or not self._cluster.leading:
            return
        snapshot = await self._placer.look(now)
        for pool in pools:
            memory = self._memories.get(pool.policy.name)
            if memory is None or memory.policy != pool.policy:
                memory = self._memories[pool.policy.name] = _Memory(pool.policy, now)
            changed = memory.note(pool.nodes("", snapshot.nodes()), now)
            if changed or memory.due <= now:
                memory.due = now + pool.policy.moves.every
                await self._plan(pool, memory, snapshot, now)
        self._journal.flush()

    async def _plan(self, pool: Pool, memory: _Memory, snapshot: Snapshot, now: float) -> None:
        case = await self._placer.case(pool, snapshot, (), now)
        if case is None or pool.blocked:
            return
        looks_back = max((one.looks_back() for one in pool.policy.strategies), default=0)
        # What happens to nodes comes in rows: a look that it brings between two in their time is not remembered, so
        # that so many looks in a row mean so much time.
        if looks_back and not (memory.looks and now < memory.looks[-1].at + pool.policy.moves.every / 2):
            use = {name: np.array(case.columns.use(name)) for name in pool.wants.nodes}
            memory.looks.append(Look(now, case.columns.names, use))
            while len(memory.looks) > looks_back:
                memory.looks.popleft()
        heard = _Heard(case.hooks)
        (found,) = await self._planner([_with(case, heard, memory.past(now))])
        if pool not in self._placer.pools:
            return  # what other policies say is not done
        if isinstance(found, str):
            pool.blocked = f"{found}; it is not called again until reload"
            pool.strike([Failure(OURSELVES, "", pool.blocked)], "moving")
            return
        pool.strike(heard.failures, "moving")
        self._settle(memory, found, now)

    def _settle(self, memory: _Memory, decisions: Iterable[MoveDecision], now: float) -> None:
        """Write down what is news, and begin the moves."""
        told: dict[str, tuple[object, ...]] = {}
        for decision in decisions:
            news = (decision.verdict, decision.strategy, decision.reason, decision.refusal, decision.node)
            told[decision.uid] = news
            if memory.told.get(decision.uid) != news:
                self._journal.append(decision)
                for listener in self._listeners:
                    listener.moving(decision)
            if decision.action is not None and decision.mode == "act" and decision.uid not in self._acting:
                task = asyncio.create_task(self._act(memory, decision), name=decision.id)
                self._acting[decision.uid] = task
        memory.told = told
        memory.forget(told.keys())

    async def _act(self, memory: _Memory, decision: MoveDecision) -> None:
        action = decision.action
        if action is None:
            return
        try:
            begin = partial(self._carry_out, memory.policy.moves, action, decision)
            outcome = await carry_out(self._clock, decision, action, begin)
        finally:
            del self._acting[decision.uid]
        if outcome.result == "done":
            self._placer.views.evicted(action, outcome)
            key = action.owner or f"{decision.pod.namespace}/{decision.pod.name}"
            memory.moved.append(Moved(outcome.at, key, decision.node))
        if not memory.news(decision.uid, outcome):
            return
        self._journal.append(outcome)
        self._journal.flush()
        for listener in self._listeners:
            listener.placed(outcome)

    async def _carry_out(self, moves: MovesTable, action: Evict, decision: MoveDecision) -> Answer:
        """Let the pod go, or make another first where that is wanted."""
        if moves.surge and decision.how == "reschedule":
            answer = await self.surging.begin(action, moves.surge_within, decision.id)
            if answer is not None:
                return answer
        return await self._cluster.act(action)

    async def drain(self, patience: float | None = None) -> None:
        """Wait for what is under way, at most `patience` seconds."""
        await self.surging.drain(patience)
        tasks = list(self._acting.values())
        if tasks:
            await asyncio.wait(tasks, timeout=patience)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Heard:
    """A policy's hooks, and which of them failed: where a plugin fails there may be no decision that could say so."""

    def __init__(self, hooks: Asks) -> None:
        self._hooks, self.failures = hooks, list[Failure]()
        self.priorities, self.recalls, self.heeds = hooks.priorities, hooks.recalls, hooks.heeds

    def ask(
        self, hook: str, arguments: dict[str, Any], off: frozenset[str], read: Callable[[Any, str], Any]
    ) -> Answers:
        found = self._hooks.ask(hook, arguments, off, read)
        self.failures += found.failures
        return found


def _with(case: PoolCase, hooks: Asks, past: PoolPast) -> PoolCase:
    return PoolCase(case.policy, case.observation, case.columns, hooks, case.off, past)
