"""Gathers what people are shown of pools, from whoever places and moves their pods.

Knows where each part is found; knows nothing of what it says, nor of how it is shown.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from elasticd.base.clock import Clock
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
from elasticd.runtime.pools.next_moves import LatestLook, moving
from elasticd.runtime.pools.node_report import Heaps, PodStandings, Why, asked_labels, report
from elasticd.runtime.pools.placer import Placer
from elasticd.runtime.pools.pool import OURSELVES, Pool

LineUp = Callable[[Sequence[LineCase]], Awaitable[Sequence[Queue | str]]]
"""Who gives way on nodes; a string instead says where one got stuck."""

Asked = Callable[[Pod], Why | None]
"""Why a pod may not go now, in a word and a sentence."""


async def line_up_at_once(cases: Sequence[LineCase]) -> list[Queue | str]:
    """Ask here and now."""
    return [gives_way(case) for case in cases]


class PoolReports:
    """All pools of a daemon."""

    def __init__(
        self, cluster: Cluster, placer: Placer, mover: Mover, clock: Clock, line_up: LineUp = line_up_at_once
    ) -> None:
        self._cluster, self._placer, self._mover, self._clock = cluster, placer, mover, clock
        self._line_up, self._asking = line_up, asyncio.Lock()

    async def nodes(self, node: str = "") -> Sequence[PoolReport | NodeView]:
        """Every pool; with a node's name, that node in each pool that has it."""
        now = self._clock.now()
        snapshot = await self._placer.look(now)
        cases = [(pool, await self._placer.shown(pool, snapshot, now)) for pool in self._placer.pools]
        if node:
            return [await self._view(*one, snapshot, node) for one in cases if one[1].columns.index(node) is not None]
        return [self._report(pool, case, snapshot) for pool, case in cases]

    def _report(self, pool: Pool, case: PoolCase, snapshot: Snapshot) -> PoolReport:
        levels = self._mover.latest(pool.policy.name).plan.levels
        found = self._moving(pool, case, snapshot)
        return PoolReport(
            pool.policy.name, pool.policy.mode, tuple(report(pool.policy.name, case.columns, levels)), found
        )

    def _moving(self, pool: Pool, case: PoolCase, snapshot: Snapshot) -> Moving | None:
        """The latest look for pods that should move; None where none is ever moved."""
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
            found = (why(pod) for pod in (() if index is None else case.columns.pods(index)))
            return Counter(one[0] if one else "" for one in found)

        underway = {one.uid: one for one in self._mover.in_flight(snapshot)}
        return moving(latest.at, latest.due, LatestLook(latest.plan, latest.outcomes, underway, latest.going), reasons)

    async def _view(self, pool: Pool, case: PoolCase, snapshot: Snapshot, name: str) -> NodeView:
        index = case.columns.index(name) or 0
        levels = self._mover.latest(pool.policy.name).plan.levels
        (shown,) = (one for one in report(pool.policy.name, case.columns, levels) if one.node == name)
        node, pods = case.columns.nodes[index], case.columns.pods(index)
        queue = await self._queue(pool, LineCase(case, index))
        standing = await self._standing(pool, case, snapshot, index, queue)
        heaps = Heaps(pods, case.observation.use, standing)
        waiting = (pod for pod in snapshot.pending() if pool.policy.pool.has(pod))
        return NodeView(
            pool.policy.mode,
            shown,
            heaps.of("Never"),
            heaps.of("OnFailure"),
            heaps.of("Always"),
            heaps.rooted(),
            tuple(f"{one.key}{'=' * bool(one.value)}{one.value}:{one.effect}" for one in node.taints),
            asked_labels(node, {*pool.policy.pool.nodes, *pool.hooks.labels_of_nodes}, chain[Pod](pods, waiting)),
            _about(self._moving(pool, case, snapshot), name),
            heaps.leaving(),
            queue.line is not None,
            queue.line.rule if queue.line else "",
            queue.failures,
        )

    async def _queue(self, pool: Pool, case: LineCase) -> Queue:
        """Who gives way on a node. One at a time is asked: where a plugin does not come back, whoever waits here is
        told so too, and no other thread is lost to it."""
        if not pool.hooks.implements("select_victims"):
            return Queue()
        async with self._asking:
            why = f"is not asked: {pool.blocked}" if pool.blocked else pool.mute
            if not why:
                (found,) = await self._line_up([case])
                if not isinstance(found, str):
                    return found
                why = pool.mute = f"does not answer: {found}; it is not called again until reload"
        return Queue(EvictionOrder(()), (Failure(OURSELVES, "explain_victims", why),))

    async def _standing(self, pool: Pool, case: PoolCase, snapshot: Snapshot, index: int, queue: Queue) -> PodStandings:
        """Which pods of a node are on their way, who gives way, and what keeps the others from being moved."""
        pods, name = case.columns.pods(index), case.columns.names[index]
        underway = {one.uid: one for one in self._mover.in_flight(snapshot)}
        leaving = {one.uid: why for one in pods if (why := _leaving(one, name, underway))}
        staying = {one.uid: one for one in pods if one.uid not in leaving}
        moved = await _all(staying.values(), self._keeps(pool, case, snapshot)) if moves(pool) else {}
        if queue.line is None:
            return PodStandings(leaving, moved)
        line = [turn for turn in queue.line.turns if turn.pod.uid in staying]
        shut = await _all(
            (turn.pod for turn in line if not turn.stays), lambda pod: self._shut(pool) or self._door(pod)
        )
        return PodStandings(leaving, moved, [_kept(turn, shut.get(turn.pod.uid)) for turn in line])

    def _keeps(self, pool: Pool, case: PoolCase, snapshot: Snapshot) -> Asked:
        """What keeps a pod from being moved: the plan's rules, then whoever is asked before it is done, and then what
        came of the last attempt."""
        why, outcomes = restraint(case), self._mover.latest(pool.policy.name).outcomes

        def keeps(pod: Pod) -> Why | None:
            if found := why(pod) or self._shut(pool) or self._mover.refusal(pool.policy, pod, snapshot):
                return found
            last = outcomes.get(pod.uid)
            if last is None or last.result == "done":
                return None
            return last.reason or last.result, f"{last.message or last.result}, at the last look"

        return keeps

    def _door(self, pod: Pod) -> Why | None:
        return self._cluster.refusal([Evict(pod.ref, pod.uid, pod.node, "", owner=pod.owner[2])])

    def _shut(self, pool: Pool) -> Why | None:
        """Why nobody of a pool is made to leave."""
        if not self._cluster.leading:
            return _NOT_LEADING
        if pool.blocked:
            return "PluginBlocked", pool.blocked
        return ("Observe", 'mode is "observe": nobody is made to go') if pool.policy.mode == "observe" else None


_NOT_LEADING = "NotLeading", "this elasticd does not lead: another moves pods"


async def _all(pods: Iterable[Pod], why: Asked) -> dict[str, Why]:
    """What keeps each of those that something keeps. Others have their turn meanwhile, for to ask this of a pod takes a
    while where there are many workloads."""
    found = dict[str, Why]()
    for pod in pods:
        if said := why(pod):
            found[pod.uid] = said
        await asyncio.sleep(0)
    return found


def _kept(turn: Turn, why: Why | None) -> Turn:
    return turn if why is None else replace(turn, stays=why[0], why=why[1])


def _leaving(pod: Pod, node: str, underway: Mapping[str, Underway]) -> Why | None:
    """Whether a pod is on its way from a node, or to it, in a word and a sentence."""
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


def _about(found: Moving | None, node: str) -> Moving | None:
    """Of the moves, those from a node or to it."""
    if found is None:
        return None
    mine = tuple(one for one in found.moves if node in (one.decision.node, one.decision.target))
    return replace(found, moves=mine)
