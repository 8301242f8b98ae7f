"""Builds the reports of pools and pods that people are shown, from the placer, the mover and the cluster.

Knows where each part comes from; knows nothing of how it is shown.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple

from msgspec.structs import replace

from elasticd.base.clock import Clock
from elasticd.base.errors import near
from elasticd.decision.disruption import refusal
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.moves import restraint
from elasticd.decision.pool.plan import outdated
from elasticd.decision.pool.preemption import NodeOrder, eviction_order
from elasticd.model.actions import Evict
from elasticd.model.moves import LEAVING, Underway
from elasticd.model.placement import EvictionOrder, PodDecision, Turn
from elasticd.model.policy import PoolPolicy
from elasticd.model.reports import Moving, NodeReport, NodeView, PodFound, PodStatus, PoolAbout, PoolReport
from elasticd.model.workload import Failure, Pod
from elasticd.ports.cluster import Cluster, Pretending, Snapshot, Stray
from elasticd.runtime.pools import next_moves
from elasticd.runtime.pools.history import Latest
from elasticd.runtime.pools.mover import Mover
from elasticd.runtime.pools.node_report import Why, asked_labels, heaps, report
from elasticd.runtime.pools.placer import Placer
from elasticd.runtime.pools.pool import OURSELVES, Pool
from elasticd.runtime.views import stale
from elasticd.runtime.workers import Worker, at_once

Finder = Worker[PoolCase, NodeOrder]

Asked = Callable[[Pod], Why | None]
"""Why a pod may not leave now, one word and a sentence; None: it may."""

COMPARED = 20_000
"""Names that are compared with a name that is not found, at most."""

_NOT_LEADING = "NotLeading", "this elasticd does not lead: another moves pods"


class _Look(NamedTuple):
    """A pool as it is shown: what is known of it now, the latest look for pods to move, and the moves in flight."""

    pool: Pool
    case: PoolCase
    snapshot: Snapshot
    latest: Latest
    underway: Mapping[str, Underway]
    stale: tuple[str, ...]

    def nodes(self) -> list[NodeReport]:
        return report(self.pool.policy.name, self.case.columns, self.latest.plan.levels)


class PoolReports:
    """Reports on all pools of a daemon, and on their pods."""

    def __init__(
        self, cluster: Cluster, placer: Placer, mover: Mover, clock: Clock, find_order: Finder | None = None
    ) -> None:
        self._cluster, self._placer, self._mover, self._clock = cluster, placer, mover, clock
        self.find_order, self._asking = find_order or at_once(eviction_order), asyncio.Lock()

    async def nodes(self, node: str = "") -> Sequence[PoolReport | NodeView]:
        """Report every pool; with a node's name, that node in each pool that has it."""
        now = self._clock.now()
        snapshot = await self._placer.look(now)
        looks, old = list[_Look](), tuple(stale(self._cluster.views(), now).values())
        for pool in self._placer.pools:
            case = await self._placer.shown(pool, snapshot, now)
            underway = {move.uid: move for move in self._mover.in_flight(snapshot) if not move.over}
            looks.append(_Look(pool, case, snapshot, self._mover.latest(pool.policy.name), underway, old))
        if node:
            indexes = [(look, look.case.columns.index(node)) for look in looks]
            return [await self._view(look, index) for look, index in indexes if index is not None]
        return [
            PoolReport(look.pool.policy.name, look.pool.policy.mode, tuple(look.nodes()), self._moving(look), old)
            for look in looks
        ]

    def _moving(self, look: _Look) -> Moving | None:
        """Report the latest look for pods to move; None where the pool's strategies move none."""
        latest, columns, why = look.latest, look.case.columns, restraint(look.case)
        if not look.pool.moves:
            return None
        if not self._cluster.leading:
            return Moving(0.0, 0.0, _NOT_LEADING[1])
        if look.pool.blocked:
            return Moving(latest.at, 0.0, f"nothing moves: {look.pool.blocked}")
        if not latest.at:
            return Moving(0.0, latest.due, "not looked at yet: nodes, pods or a source are waited for")

        def reasons(node: str) -> Mapping[str, int]:
            index = columns.index(node)
            answers = (why(pod) for pod in (() if index is None else columns.pods(index)))
            return Counter(answer[0] if answer else "" for answer in answers)

        moving = next_moves.moving(latest, look.underway, reasons)
        if moving.moves or not (refusal := outdated(look.case)):
            return moving
        return replace(moving, summary=f"nothing moves, and whether a pod should is unknown: {refusal[1]}")

    async def _view(self, look: _Look, index: int) -> NodeView:
        pool, case = look.pool, look.case
        node, pods = case.columns.nodes[index], case.columns.pods(index)
        (node_report,) = (row for row in look.nodes() if row.node == node.name)
        found = await self._eviction_order(pool, replace(case, node=index))
        groups = heaps(pods, case.observation.use, *await self._standing(look, index, found.order))
        if (moving := self._moving(look)) is not None:
            moves = tuple(move for move in moving.moves if node.name in (move.decision.node, move.decision.target))
            moving = replace(moving, moves=moves)
        waiting = (pod for pod in look.snapshot.pending() if pool.policy.pool.has(pod))
        return NodeView(
            pool.policy.mode,
            node_report,
            never=groups.get("Never", ()),
            on_failure=groups.get("OnFailure", ()),
            always=groups.get("Always", ()),
            rooted=groups.get("rooted", ()),
            taints=tuple(f"{taint.key}{'=' * bool(taint.value)}{taint.value}:{taint.effect}" for taint in node.taints),
            labels=asked_labels(
                node, {*pool.policy.pool.nodes, *pool.hooks.labels_of_nodes}, chain[Pod](pods, waiting)
            ),
            moving=moving,
            leaving=groups.get("leaving", ()),
            yields=found.order is not None,
            rule=found.order.rule if found.order else "",
            failures=found.failures,
            stale=look.stale,
        )

    async def _eviction_order(self, pool: Pool, case: PoolCase) -> NodeOrder:
        """Find the eviction order of a node. One request at a time: where a plugin does not come back, the requests
        that wait here learn that too, and only one thread is lost to it."""
        if not pool.hooks.implements("select_victims"):
            return NodeOrder()
        async with self._asking:
            why = f"is not asked: {pool.blocked}" if pool.blocked else pool.mute
            if not why:
                (found,) = await self.find_order([case])
                if not isinstance(found, str):
                    return found
                why = pool.mute = f"does not answer: {found}; it is not called again until reload"
        return NodeOrder(EvictionOrder(()), (Failure(OURSELVES, "explain_victims", why),))

    async def _standing(
        self, look: _Look, index: int, order: EvictionOrder | None
    ) -> tuple[dict[str, Why], dict[str, Why], list[Turn] | None]:
        """How pods of a node are leaving or coming, what keeps the others from being moved, and in which order they
        are preempted."""
        pods, name = look.case.columns.pods(index), look.case.columns.names[index]
        leaving = {pod.uid: why for pod in pods if (why := _departure_of(pod, name, look.underway))}
        staying = {pod.uid: pod for pod in pods if pod.uid not in leaving}
        moved = await _reasons_of(staying.values(), self._obstacles(look)) if look.pool.moves else {}
        if order is None:
            return leaving, moved, None
        turns, state = [turn for turn in order.turns if turn.pod.uid in staying], look.case.observation.disruption
        shut = await _reasons_of(
            (turn.pod for turn in turns if not turn.stays),
            lambda pod: self._pool_refusal(look.pool) or refusal(state, [_eviction_of(pod)]),
        )
        for place, turn in enumerate(turns):
            if why := shut.get(turn.pod.uid):
                turns[place] = Turn(turn.pod, *why)
        return leaving, moved, turns

    def _obstacles(self, look: _Look) -> Asked:
        """Returns a function: what keeps a pod from being moved, by the plan's rules, then by budgets and the cluster,
        as far as they are known before it is tried, then by the outcome of the last attempt."""
        why, state = restraint(look.case), look.case.observation.disruption
        surges = look.pool.policy.moves.surge and not isinstance(look.snapshot, Pretending)

        def keeps(pod: Pod) -> Why | None:
            if obstacle := why(pod) or self._pool_refusal(look.pool):
                return obstacle
            evict, surging = _eviction_of(pod), self._mover.surging
            if obstacle := surging.refusal(evict, look.snapshot, state) if surges else refusal(state, [evict]):
                return obstacle
            last = look.latest.outcomes.get(pod.uid)
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

    async def pod(self, full_name: str) -> PodStatus:
        """What is known of a pod, NAMESPACE/NAME; without a name, only which pools there are."""
        now = self._clock.now()
        snapshot = await self._placer.look(now)
        policies = [pool.policy for pool in self._placer.pools]
        status = PodStatus(
            at=now,
            confirmed=min(snapshot.confirmed, snapshot.nodes_confirmed),
            leading=self._cluster.leading,
            pools=tuple([pool_about(policy, self._mover.latest(policy.name).at or None) for policy in policies]),
        )
        namespace, _, name = full_name.partition("/")
        if not name:
            return status
        strays = {stray.pod.uid: stray for stray in snapshot.strays()} if isinstance(snapshot, Pretending) else {}
        pods = [pod for pod in _all_pods(snapshot, strays) if pod.namespace == namespace]
        pod = next((candidate for candidate in pods if candidate.name == name), None)
        if pod is not None:
            pod_found = found_pod(pod, policies, self._placer.decisions.latest(pod.uid), strays.get(pod.uid))
            return replace(status, found=pod_found, inhabited=True)
        names = [f"{pod.namespace}/{pod.name}" for pod in pods]
        candidates = names or sorted({pod.namespace for pod in _all_pods(snapshot, strays)})
        suggestion = await asyncio.to_thread(
            near, full_name if names else namespace, list(islice(candidates, COMPARED))
        )
        return replace(status, inhabited=bool(pods), near=suggestion)


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


def _departure_of(pod: Pod, node: str, underway: Mapping[str, Underway]) -> Why | None:
    """How a pod is leaving a node or coming to it, one word and a sentence; None: neither."""
    going = underway.get(pod.uid)
    if going is not None and going.node == pod.node and not going.stays:
        if going.ends:
            return LEAVING, f"another was made first: {going.step}"
        if going.how == "surge":
            return "Replaced", f"another is made first, and awaited: {going.step}"
        why = f" ({going.why})" if going.why else ""
        return LEAVING, f"it was evicted{why}{', and is recreated' if going.how == 'anew' else ''}: {going.step}"
    if pod.node != node:
        return "Coming", "it is to run here, and does not yet"
    return (LEAVING, "it is being deleted") if pod.deleted else None


def _all_pods(snapshot: Snapshot, strays: Mapping[str, Stray]) -> chain[Pod]:
    """All pods that wait or run, and those that left only in a dry run."""
    gone = (stray.pod for stray in strays.values() if not stray.seen)
    return chain(snapshot.pending(), *snapshot.on_nodes().values(), gone)


def pool_about(policy: PoolPolicy, looked: float | None) -> PoolAbout:
    """Which pods a policy is about."""
    pool = policy.pool
    return PoolAbout(policy.name, policy.mode, pool.scheduler, pool.namespaces, pool.labels, looked)


def found_pod(
    pod: Pod, policies: Sequence[PoolPolicy], latest: PodDecision | None, stray: Stray | None = None
) -> PodFound:
    """A pod, and which policies are about it; as a dry run has it, where that differs from the cluster."""
    mine = next((policy.name for policy in policies if policy.pool.has(pod)), "")
    all_of = tuple(
        [policy.name for policy in policies if policy.pool.has(pod) or (policy.moves.others and policy.pool.names(pod))]
    )
    pod_found = PodFound(pod.uid, pod.needs.scheduler, pod.node, pod.phase, pod.deleted, mine, latest, policies=all_of)
    if stray is None:
        return pod_found
    if not stray.really:
        return replace(pod_found, node="", phase="Pending", pretended="bound", seen=stray.seen)
    return replace(pod_found, node=stray.really, pretended="moved" if stray.seen else "evicted", seen=stray.seen)
