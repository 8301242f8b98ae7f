"""Moves pods off nodes that no longer suit them: observe a pool, plan moves, begin them.

Knows when a pool is looked at, and what must be remembered of it; knows no strategy and no wire format. Where a pod
goes is decided when it is placed again, by the Placer or by another scheduler.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from elasticd.base.clock import Clock, pause
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.finished_moves import dropped, over
from elasticd.decision.pool.moves import KEEPS_RETURNING, plan_moves
from elasticd.journal import Journal
from elasticd.kit.surge import BEGUN
from elasticd.model.actions import Announce, Answer, Evict, outdated
from elasticd.model.listener import Listener, MovesPlanned, MoveTakenBack, Notice, tell
from elasticd.model.moves import ENOUGH, FAILING, NOT_WANTED, Look, MoveDecision, MovesPlan, Underway
from elasticd.model.policy import PoolPolicy
from elasticd.model.workload import Failure, Node, Pod, reasons_to_leave
from elasticd.ports.cluster import Cluster, Pretending, Snapshot
from elasticd.runtime.actions import Actions, attempt, record
from elasticd.runtime.execute import given_up, pod_outcome
from elasticd.runtime.pools.history import Latest, PoolHistory
from elasticd.runtime.pools.placer import Placer
from elasticd.runtime.pools.pool import OURSELVES, Pool
from elasticd.runtime.pools.surges import Surging
from elasticd.runtime.workers import Worker, at_once

SETTLE = 1.0
"""Seconds between an event of a node and the evaluation of its pool: events seldom come alone."""


class _Judged(NamedTuple):
    """A pod to be moved, as it was seen when that was decided; what it uses, and the node that it is on."""

    pod: Pod | None
    node: Node | None
    use: Mapping[str, float]


class Mover:
    """All pool policies that move pods, on one cluster. The pools are the placer's."""

    def __init__(
        self,
        cluster: Cluster,
        placer: Placer,
        journal: Journal,
        clock: Clock,
        listeners: Sequence[Listener] = (),
        planner: Worker[PoolCase, MovesPlan] | None = None,
    ) -> None:
        self.actions: Actions[str] = Actions()
        self.surging = Surging(cluster, placer.look, journal, clock, [self, *listeners], self.actions)
        self._cluster, self._placer = cluster, placer
        self._journal, self._clock, self._listeners = journal, clock, listeners
        self._planner = planner or at_once(plan_moves)
        self._histories: dict[str, PoolHistory] = {}
        self._recreated: dict[str, MoveDecision] = {}
        """The moves of pods that are created again under their own names, by UID."""
        self._earlier_movers = journal.movers()
        """Policies that moved pods before this daemon started, until the first look shows which still do."""
        self._changed = asyncio.Event()
        cluster.on_change(self._changed.set)

    def on(self, record: Notice) -> None:
        """Forget a move that was taken back."""
        if isinstance(record, MoveTakenBack):
            for history in self._histories.values():
                history.take_back(record.uid)

    def _look_now(self, *histories: PoolHistory) -> None:
        for history in histories:
            history.due = self._clock.now()
        self._changed.set()

    def trigger(self) -> str:
        """Evaluate every pool now; returns the answer for the person who requested it."""
        if not self._cluster.leading:
            return "this elasticd does not lead: another looks at the pools"
        pools = len(self._moving_pools())
        if not pools:
            return "no policy in force has a strategy that moves pods"
        self._look_now(*self._histories.values())
        return f"{pools} {'pool is' if pools == 1 else 'pools are'} looked at now"

    async def run(self) -> None:
        while True:
            await self.step()

    async def step(self) -> None:
        await pause(self._clock, self.due(), self._changed, self.due)
        await self.turn()

    def due(self) -> float:
        """The time of the next look, if nothing happens before. Without the lead it only checks whether it leads."""
        now = self._clock.now()
        histories = self._histories.values() if self._cluster.leading else ()
        until = min([max(history.due, now) for history in histories] or [now + SETTLE])
        return min(until, now + SETTLE) if self._changed.is_set() else until

    async def turn(self) -> None:
        """Tick now, and count every event so far as handled."""
        self._changed.clear()
        await self.tick(self._clock.now())

    def _moving_pools(self) -> list[Pool]:
        """The pools with a strategy that moves pods; closes the moves of policies that have none any more."""
        pools = [pool for pool in self._placer.pools if pool.moves]
        names = {pool.policy.name for pool in pools}
        for name in (self._histories.keys() | self._earlier_movers) - names:
            self._write_finished(dropped(self._journal.moves(name), self._clock.now()))
        self._earlier_movers = frozenset()
        self._histories = {name: history for name, history in self._histories.items() if name in names}
        return pools

    async def tick(self, now: float) -> None:
        """Plan for every pool that is due, or whose nodes changed, or pods failed; and begin what was decided."""
        pools = self._moving_pools()
        if not pools or not self._cluster.leading:
            self._journal.flush()  # the moves that have ended with their policy
            return
        self._write_given_up(now)
        snapshot = await self._placer.look(now)
        for pool in pools:
            if pool not in self._placer.pools:
                return  # others are in force by now
            history = self._histories.get(pool.policy.name)
            if history is None or history.policy != pool.policy:
                history = history.edited(pool.policy, now) if history else PoolHistory(pool.policy, now)
                self._histories[pool.policy.name] = history
            history.rejected(self._cluster.restoring(), now)
            nodes = pool.nodes("", snapshot.nodes())
            changed = history.note(nodes, snapshot.on_nodes(), now, pool.hooks.labels_of_nodes)
            if changed or history.due <= now:
                history.due = now + pool.policy.moves.every
                await self._plan(pool, history, snapshot, now)
        self._journal.flush()

    async def _plan(self, pool: Pool, history: PoolHistory, snapshot: Snapshot, now: float) -> None:
        case = await self._placer.case(pool, snapshot, now, partial(self._look_now, history))
        if case is None or pool.blocked:
            return
        if looks_back := pool.hooks.looks_back:
            use = {name: np.array(case.columns.measured(name)) for name in pool.wants.nodes}
            history.look(Look(now, case.columns.names, use), looks_back)
        for outcome in history.stayed(snapshot.on_nodes(), now):
            record(outcome, self._journal, self._listeners)
        history.forget(snapshot.on_nodes(), now)
        leaving = self._leaving_pods(history, snapshot, now)
        for uid, node in leaving:
            case.columns.leave(case.columns.index(node), uid)
        started = self._clock.now()
        (plan,) = await self._planner([replace(case, past=history.past(now))])
        if pool not in self._placer.pools:
            return  # other policies are in force by now
        if isinstance(plan, str):
            pool.blocked = f"{plan}; it is not called again until reload"
            pool.count_failure("moving", [Failure(OURSELVES, "", pool.blocked)], ())
            return
        failures = [failure for failure in plan.failures if failure.hook != "explain_nodes"]
        placed = any(decision.target for decision in plan.decisions)
        asked = ("select_nodes", "filter_nodes", "score_nodes") if placed else ()
        pool.count_failure("moving", failures, ("rebind_pods", "rebalance_nodes", *asked))
        history.planned(plan, now)
        self._settle(history, plan.decisions, snapshot, case)
        before, leaving_uids = self._journal.moves(pool.policy.name), {uid for uid, _ in leaving}
        self._write_finished(over(before, plan.decisions, case.columns, snapshot.on_nodes(), leaving_uids, now))
        tell(self._listeners, MovesPlanned(pool.policy.name, self._clock.now() - started, history.failing))

    def _leaving_pods(self, history: PoolHistory, snapshot: Snapshot, now: float) -> list[tuple[str, str]]:
        """The pods (UID and node) that leave their nodes, now or when their replacement is ready; a move that was taken
        back is not among them."""
        underway = self.surging.in_flight(snapshot)
        for move in underway:
            if move.stays:
                history.take_back(move.uid)
        return [*((move.uid, move.node) for move in underway if not move.stays), *history.begun(now)]

    def _write_finished(self, decisions: Iterable[MoveDecision]) -> None:
        """Write down the end of moves. Listeners hear only of those that are no longer wanted: they know who has
        left."""
        for decision in decisions:
            self._journal.append(decision)
            if decision.reason == NOT_WANTED:
                tell(self._listeners, decision)

    def _write_given_up(self, now: float) -> None:
        """Write down which evicted pods are not created again. Where that is known of no decision (another daemon made
        it) nothing is written."""
        underway = {move.uid: move for move in self._cluster.restoring()}
        for uid, decision in list(self._recreated.items()):
            move = underway.get(uid)
            if move is None or move.over:
                del self._recreated[uid]
            if move is not None and move.over:
                self._journal.append(given_up(decision, move, now))

    def _settle(
        self, history: PoolHistory, decisions: Sequence[MoveDecision], snapshot: Snapshot, case: PoolCase
    ) -> None:
        """Write down the decisions that are news, and begin their moves. `case`: what they were made by. The snapshot
        may be live: it shows nodes as they are by now."""
        for decision in decisions:
            news = (decision.verdict, decision.strategy, decision.reason, decision.refusal, decision.node)
            waits_again = decision.refusal in (ENOUGH, FAILING) and history.was_refused(decision.uid)
            is_news = not waits_again and history.reported.changed(news, decision.uid)
            if is_news:
                self._publish(decision)
                if decision.refusal == KEEPS_RETURNING and decision.mode == "act":
                    event = Announce(decision.pod, decision.uid, KEEPS_RETURNING, decision.message, warning=True)
                    self.actions.announce(self._cluster, event, decision.id)
            action = decision.action
            if action is not None and decision.mode == "act" and decision.uid not in self.actions:
                pods = snapshot.on_nodes().get(decision.node, ())
                pod = next((pod for pod in pods if pod.uid == decision.uid), None)
                name = decision.pod.full_name
                use = case.observation.use
                pod_use = {series: by_pod[name] for series, by_pod in use.items() if name in by_pod}
                index = case.columns.index(decision.node)
                judged = _Judged(pod, None if index is None else case.columns.nodes[index], pod_use)
                act = self._act(history, decision, action, judged, written=is_news)
                self.actions.begin(decision.uid, decision.id, act)
        history.reported.keep({decision.uid for decision in decisions})

    def _publish(self, decision: MoveDecision) -> None:
        self._journal.append(decision)
        tell(self._listeners, decision)

    async def _act(
        self,
        history: PoolHistory,
        decision: MoveDecision,
        action: Evict,
        judged: _Judged,
        *,
        written: bool,
    ) -> None:
        """Begin a move. `written`: its decision is written down. One that was held back at first was written down then;
        when the pod goes at last, the decision is written again, with its own time and target."""
        pod, _, use = judged
        answer = await attempt(self._clock, self._carry_out(history.policy, action, decision, judged))
        self.actions.end(decision.uid)
        outcome = pod_outcome(decision, action, answer)
        self._placer.promises.answered(decision.uid, outcome)
        if outcome.result == "done" and outcome.message == BEGUN:
            self._placer.views.replaced(action, outcome.at)
        elif outcome.result == "done":
            self._placer.views.evicted(action, outcome)
            if action.restore:
                self._recreated[action.uid] = decision
        if use and pod is not None and outcome.result == "done":
            self._placer.views.moved_with(pod, use, outcome.at)
        is_news = history.did(decision, action, pod, outcome)
        if not (is_news or written):  # what is written has an outcome of its own
            return
        if outcome.result == "done" and not written:
            self._publish(decision)
        record(outcome, self._journal, self._listeners)

    def _promise(self, policy: PoolPolicy, action: Evict, pod: Pod | None, use: Mapping[str, float]) -> None:
        """Promise the target of a move to the pod's replacement."""
        if pod is not None and action.target:
            now, own = self._clock.now(), policy.pool.has(pod)
            self._placer.promises.make(pod, action.target, now, use, own=own)

    async def _carry_out(self, policy: PoolPolicy, action: Evict, decision: MoveDecision, judged: _Judged) -> Answer:
        """Evict the pod, or surge if the policy says so. A dry run does not surge, and promises nothing: it counts the
        pod as moved. The promise is made first: others see the pod go before the answer comes."""
        snapshot = await self._placer.look(self._clock.now())
        pretends = isinstance(snapshot, Pretending)
        node = next((node for node in snapshot.nodes() if node.name == decision.node), None)
        if reasons_to_leave(node) != reasons_to_leave(judged.node):  # while sources were asked, and the moves planned
            return outdated(decision.node)
        promise = partial(self._promise, policy, action, judged.pod, judged.use)
        moves = policy.moves
        if moves.surge and decision.how == "reschedule" and not pretends:
            answer = await self.surging.begin(action, moves.surge_within, decision.id)
            if answer is not None:
                if answer.message == BEGUN:
                    promise()
                return answer
        if not pretends:
            promise()
        return await self._cluster.act(action)

    def latest(self, policy: str) -> Latest:
        history = self._histories.get(policy)
        look = history.latest() if history else Latest()
        earlier = {decision.uid: decision for decision in self._journal.moves(policy)}  # also of a daemon before
        return replace(look, going={**earlier, **look.going})

    async def underway(self) -> list[Underway]:
        """The moves in flight, as the cluster shows them now."""
        return self.in_flight(await self._placer.look(self._clock.now()))

    def in_flight(self, snapshot: Snapshot | None) -> list[Underway]:
        """The moves in flight: surges, restorations, and pods that are ending on their node."""
        underway = self.surging.in_flight(snapshot)
        if snapshot is None:
            return underway
        names = {(move.pod.namespace, move.pod.name) for move in underway}
        leaving = [move for history in self._histories.values() for move in history.leaving(snapshot.on_nodes())]
        return [*underway, *(move for move in leaving if (move.pod.namespace, move.pod.name) not in names)]
