"""Builds the reports of pools that people are shown, from the placer, the mover and the cluster.

Knows where each part comes from; knows nothing of how it is shown.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from elasticd.base.clock import Clock
from elasticd.decision.disruption import refusal
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.eviction_order import LineCase, Queue, gives_way
from elasticd.decision.pool.moves import restraint
from elasticd.model.actions import Evict
from elasticd.model.moves import LEAVING, Underway
from elasticd.model.placement import EvictionOrder, Turn
from elasticd.model.reports import Moving, NodeView, PoolReport
from elasticd.model.workload import Failure, Pod
from elasticd.ports.cluster import Cluster, Snapshot
from elasticd.runtime.pools.mover import Mover, moves
from elasticd.runtime.pools.next_moves import moving
from elasticd.runtime.pools.node_report import Heaps, PodStandings, Why, asked_labels, report
from elasticd.runtime.pools.placer import Placer
from elasticd.runtime.pools.pool import OURSELVES, Pool

LineUp = Callable[[Sequence[LineCase]], Awaitable[Sequence[Queue | str]]]
"""Finds the eviction order of nodes; a string instead of an order says where it got stuck."""

Asked = Callable[[Pod], Why | None]
"""Why a pod may not leave now, one word and a sentence; None: it may."""


async def line_up_at_once(cases: Sequence[LineCase]) -> list[Queue | str]:
    """Ask here and now."""
    return [gives_way(case) for case in cases]


class PoolReports:
    """Reports on all pools of a daemon."""

    def __init__(
        self, cluster: Cluster, placer: Placer, mover: Mover, clock: Clock, line_up: LineUp = line_up_at_once
    ) -> None:
        self._cluster, self._placer, self._mover, self._clock = cluster, placer, mover, clock
        self._line_up, self._asking = line_up, asyncio.Lock()

    async def nodes(self, node: str = "") -> Sequence[PoolReport | NodeView]:
        """Report every pool; with a node's name, that node in each pool that has it."""
        now = self._clock.now()
        snapshot = await self._placer.look(now)
        cases = [(pool, await self._placer.shown(pool, snapshot, now)) for pool in self._placer.pools]
        if node:
            return [
                await self._view(pool, case, snapshot, node)
                for pool, case in cases
                if case.columns.index(node) is not None
            ]
        return [self._report(pool, case, snapshot) for pool, case in cases]

    def _report(self, pool: Pool, case: PoolCase, snapshot: Snapshot) -> PoolReport:
        levels = self._mover.latest(pool.policy.name).plan.levels
        next_moves = self._moving(pool, case, snapshot)
        return PoolReport(
            pool.policy.name, pool.policy.mode, tuple(report(pool.policy.name, case.columns, levels)), next_moves
        )

    def _moving(self, pool: Pool, case: PoolCase, snapshot: Snapshot) -> Moving | None:
        """Report the latest look for pods to move; None where the pool's strategies move none."""
        if not moves(pool):
            return None
        latest, why = self._mover.latest(pool.policy.name), restraint(case)
        if not self._cluster.leading:
            return Moving(0.0, 0.0, _NOT_LEADING[1])
        if pool.blocked:
            return Moving(latest.at, 0.0, f"nothing moves: {pool.blocked}")
        if not latest.at:
            return Moving(0.0, latest.due, "not looked at yet: nodes, pods or a source are waited for")

        def reasons(node: str) -> Mapping[str, int]:
            index = case.columns.index(node)
            answers = (why(pod) for pod in (() if index is None else case.columns.pods(index)))
            return Counter(answer[0] if answer else "" for answer in answers)

        underway = {move.uid: move for move in self._mover.in_flight(snapshot)}
        return moving(latest, underway, reasons)

    async def _view(self, pool: Pool, case: PoolCase, snapshot: Snapshot, name: str) -> NodeView:
        index = case.columns.index(name) or 0
        levels = self._mover.latest(pool.policy.name).plan.levels
        (node_report,) = (row for row in report(pool.policy.name, case.columns, levels) if row.node == name)
        node, pods = case.columns.nodes[index], case.columns.pods(index)
        queue = await self._line_of(pool, LineCase(case, index))
        standing = await self._standing(pool, case, snapshot, index, queue)
        heaps = Heaps(pods, case.observation.use, standing)
        waiting = (pod for pod in snapshot.pending() if pool.policy.pool.has(pod))
        return NodeView(
            pool.policy.mode,
            node_report,
            heaps.of("Never"),
            heaps.of("OnFailure"),
            heaps.of("Always"),
            heaps.rooted(),
            tuple(f"{taint.key}{'=' * bool(taint.value)}{taint.value}:{taint.effect}" for taint in node.taints),
            asked_labels(node, {*pool.policy.pool.nodes, *pool.hooks.labels_of_nodes}, chain[Pod](pods, waiting)),
            _moves_of_node(self._moving(pool, case, snapshot), name),
            heaps.leaving(),
            queue.line is not None,
            queue.line.rule if queue.line else "",
            queue.failures,
        )

    async def _line_of(self, pool: Pool, case: LineCase) -> Queue:
        """Find the eviction order of a node. One request at a time: where a plugin does not come back, the requests
        that wait here learn that too, and only one thread is lost to it."""
        if not pool.hooks.implements("select_victims"):
            return Queue()
        async with self._asking:
            why = f"is not asked: {pool.blocked}" if pool.blocked else pool.mute
            if not why:
                (queue,) = await self._line_up([case])
                if not isinstance(queue, str):
                    return queue
                why = pool.mute = f"does not answer: {queue}; it is not called again until reload"
        return Queue(EvictionOrder(()), (Failure(OURSELVES, "explain_victims", why),))

    async def _standing(self, pool: Pool, case: PoolCase, snapshot: Snapshot, index: int, queue: Queue) -> PodStandings:
        """Which pods of a node are leaving or coming, in which order they give way, and what keeps the others."""
        pods, name = case.columns.pods(index), case.columns.names[index]
        underway = {move.uid: move for move in self._mover.in_flight(snapshot)}
        leaving = {pod.uid: why for pod in pods if (why := _departure_of(pod, name, underway))}
        staying = {pod.uid: pod for pod in pods if pod.uid not in leaving}
        moved = await _reasons_of(staying.values(), self._obstacles(pool, case, snapshot)) if moves(pool) else {}
        if queue.line is None:
            return PodStandings(leaving, moved)
        line = [turn for turn in queue.line.turns if turn.pod.uid in staying]
        shut = await _reasons_of(
            (turn.pod for turn in line if not turn.stays),
            lambda pod: self._pool_refusal(pool) or refusal(case.observation.disruption, [_eviction_of(pod)]),
        )
        return PodStandings(leaving, moved, [_mark_staying(turn, shut.get(turn.pod.uid)) for turn in line])

    def _obstacles(self, pool: Pool, case: PoolCase, snapshot: Snapshot) -> Asked:
        """Returns a function: what keeps a pod from being moved, by the plan's rules, then by budgets and the cluster,
        then by the outcome of the last attempt."""
        why, outcomes = restraint(case), self._mover.latest(pool.policy.name).outcomes

        def keeps(pod: Pod) -> Why | None:
            obstacle = why(pod) or self._pool_refusal(pool)
            if obstacle := obstacle or self._mover.refusal(pool.policy, pod, snapshot, case.observation.disruption):
                return obstacle
            last = outcomes.get(pod.uid)
            if last is None or last.result == "done":
                return None
            return last.reason or last.result, f"{last.message or last.result}, at the last look"

        return keeps

    def _pool_refusal(self, pool: Pool) -> Why | None:
        """Why no pod of a pool is made to leave, one word and a sentence; None: pods may be."""
        if not self._cluster.leading:
            return _NOT_LEADING
        if pool.blocked:
            return "PluginBlocked", pool.blocked
        return ("Observe", 'mode is "observe": nobody is made to go') if pool.policy.mode == "observe" else None


_NOT_LEADING = "NotLeading", "this elasticd does not lead: another moves pods"


async def _reasons_of(pods: Iterable[Pod], why: Asked) -> dict[str, Why]:
    """By UID, what keeps each pod that something keeps. It yields to the event loop after each pod, because the
    question takes a while where there are many workloads."""
    reasons = dict[str, Why]()
    for pod in pods:
        if reason := why(pod):
            reasons[pod.uid] = reason
        await asyncio.sleep(0)
    return reasons


def _eviction_of(pod: Pod) -> Evict:
    return Evict(pod.ref, pod.uid, pod.node, "", owner=pod.owner[2])


def _mark_staying(turn: Turn, why: Why | None) -> Turn:
    return turn if why is None else replace(turn, stays=why[0], why=why[1])


def _departure_of(pod: Pod, node: str, underway: Mapping[str, Underway]) -> Why | None:
    """How a pod is leaving a node or coming to it, one word and a sentence; None: neither."""
    going = underway.get(pod.uid)
    if going is not None and going.node == pod.node and not going.stays:
        if going.ends:
            return LEAVING, f"another was made first: {going.step}"
        if going.how == "surge":
            return "Replaced", f"another is made first, and awaited: {going.step}"
        why = f" ({going.why})" if going.why else ""
        return LEAVING, f"it was evicted{why}{', and is made anew' if going.how == 'anew' else ''}: {going.step}"
    if pod.node != node:
        return "Coming", "it is to run here, and does not yet"
    return (LEAVING, "it is being deleted") if pod.deleted else None


def _moves_of_node(moving: Moving | None, node: str) -> Moving | None:
    """The report with only the moves from this node or to it."""
    if moving is None:
        return None
    mine = tuple(move for move in moving.moves if node in (move.decision.node, move.decision.target))
    return replace(moving, moves=mine)
