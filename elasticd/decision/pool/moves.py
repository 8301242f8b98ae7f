"""Decides which pods of a pool are moved, of those that strategies want moved.

Each move sees those before it done, must be worth it, and needs a place elsewhere first.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from msgspec.structs import replace

from elasticd.base.backoff import Backoff
from elasticd.base.text import counted, raised
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.filter_score import look, rank
from elasticd.decision.pool.plan import Draft, outdated
from elasticd.kit.evictability import has_run_for, rooted
from elasticd.kit.mounts import local_claim, shared_claim
from elasticd.kit.node_selection import lasting
from elasticd.kit.node_table import NodeTable
from elasticd.model.actions import Evict
from elasticd.model.controllers import BUILT_IN, JOB, recreates
from elasticd.model.disruption import Refused
from elasticd.model.moves import (
    ENOUGH,
    FAILING,
    LEAVING,
    Comebacks,
    Failing,
    How,
    Move,
    MoveDecision,
    MovesPlan,
    NodeLevel,
    Stand,
    whose,
)
from elasticd.model.placement import Column, Mask, Places
from elasticd.model.policy import MovesTable
from elasticd.model.workload import Failure, Pod, Ref

URGENT: tuple[Stand, ...] = ("gives", "high", "unknown", "level", "takes")
"""The most urgent level first: a node takes pods only if no strategy objects."""

ALL = 1 - 1e-9
"""All of what a node is to give up, but for the rounding of sums."""

NOWHERE = "NoOtherNode"
"""Why a pod stays for which no place was found."""

FAULTY = "its strategy cannot say where it fits"

KEEPS_RETURNING = "KeepsReturning"
"""Why no more pods of a controller leave a node: others came there in their place, time and again."""

RETURNS = Backoff(60.0)
"""Before a pod leaves a node to which it came in place of one that was moved from there, by how many did so before."""

MOST_RETURNS = 4
"""Pods that leave so, until the node changes or a day has passed."""

TRIES = 100
"""Pods for which one plan seeks a place in vain, beside four for each that may be moved: where nodes are full, it would
find none for thousands."""


def plan_moves(case: PoolCase) -> MovesPlan:
    """Decide about every pod that strategies want moved, those first whose nodes no longer suit them.

    Of two strategies that want the same pod moved the first decides, unless it waits. Pods whose namespace or labels
    are not the policy's are left out. Pods that were not let through last time come last, and of these those that were
    told to go last, so that all have their turn. Where a strategy could not say what it wants, a decision about no pod
    says so first.
    """
    places = Draft(case)
    for promise in case.promises:
        places.keep(promise)
    levels, mutes = _levels(case)  # before anything is moved
    draft, decisions, failures = _Draft(case), list[MoveDecision](), tuple[Failure, ...]()
    considered = {promise.pod.uid for promise in case.promises}  # that have yet to come
    waiting: list[tuple[str, Move]] = []

    def consider(name: str, move: Move) -> None:
        about = case.policy.pool.names(move.pod)
        if about and move.pod.uid not in considered and draft.needed(name, move):
            considered.add(move.pod.uid)
            decisions.append(draft.decide(name, move))

    for hook in ("rebind_pods", "rebalance_nodes"):
        answers = case.ask(hook, movable=draft.movable)
        failures += answers.failures
        for name, moves in answers.values:
            for move in sorted(moves, key=lambda candidate: case.past.refused.get(candidate.pod.uid, 0.0)):
                if move.waits:
                    waiting.append((name, move))
                else:
                    consider(name, move)
    for name, move in waiting:
        consider(name, move)
    failed = [_report_failures(case, failures)] if failures else []
    return MovesPlan((*failed, *decisions), levels, (*failures, *mutes))


def _levels(case: PoolCase) -> tuple[tuple[NodeLevel, ...], tuple[Failure, ...]]:
    """The most urgent level of each node that a strategy judges, in the order of the first strategy; and who failed."""
    if not case.hooks.implements("explain_nodes"):
        return (), ()
    answers, by_node = case.ask("explain_nodes"), dict[str, NodeLevel]()
    for level in (level for _, node_levels in answers.values for level in node_levels):
        previous = by_node.get(level.node, level)
        if case.columns.index(level.node) is not None:
            by_node[level.node] = min(previous, level, key=lambda level: URGENT.index(level.state))
    return tuple(by_node.values()), answers.failures


def restraint(case: PoolCase) -> Callable[[Pod], Refused | None]:
    """A function that tells why a pod may not be moved though it need not, as things stand, wherever it would go; None:
    it may."""
    return _Draft(case).restraint


class _Draft:
    def __init__(self, case: PoolCase) -> None:
        self._case, self._draft = case, Draft(case)
        self._remaining = case.policy.moves.per_look
        self._tries = TRIES + 4 * self._remaining
        self._ready_gone = Counter[str]()
        """By controller, how many of its ready pods go."""
        self._surging = set[str]()
        """The controllers of which a pod is to be replaced first: their Deployments take one such at a time."""
        self._use_by_series: dict[str, Column] = {}
        self._relieved: dict[tuple[str, str], Sequence[float]] = {}
        self._hopeful = True  # that there is a place for the next pod, as there was for the last one

    def movable(self, pod: Pod) -> bool:
        """Whether a pod that need not be moved may be, after the moves planned so far, wherever it would go."""
        return self._case.policy.pool.has(pod) and self._why_bound(pod) is None

    def restraint(self, pod: Pod) -> Refused | None:
        return self._why_bound(pod) or self._why_foreign(pod, optional=True)

    def needed(self, strategy: str, move: Move) -> bool:
        """Whether the pod's node still has something to give up after the moves planned so far."""
        relieved = self._relieved.get((strategy, move.pod.node))
        return not move.relief or relieved is None or min(relieved) < ALL

    def _relieve(self, strategy: str, move: Move) -> None:
        if move.relief:
            key = strategy, move.pod.node
            before = self._relieved.get(key, (0.0,) * len(move.relief))
            self._relieved[key] = [sum(pair) for pair in zip(before, move.relief, strict=False)]

    def decide(self, strategy: str, move: Move) -> MoveDecision:
        pod, draft = move.pod, self._draft
        decision = _refusal(
            self._case,
            pod.ref,
            strategy=strategy,
            reason=move.reason,
            message=move.message,
            uid=pod.uid,
            node=pod.node,
            how=move.how,
            benefit=move.benefit,
            disruption=move.disruption,
        )
        if why := self._why_stays(move):
            if why == self._why_enough:
                self._relieve(strategy, move)  # counted as gone, so that no more pods of its node are proposed
            return replace(decision, refusal=why[0], message=_join(move.message, why[1]))
        index = draft.columns.index(pod.node)
        if index is None:
            return replace(decision, refusal="NoSuchNode", message=f"{pod.node} is not in the pool any more")
        target = ""
        if move.how == "reschedule":
            draft.columns.release(index, pod)
            place = self._find_place(move, index)
            if not isinstance(place, int):
                self._tries -= 1
                draft.columns.take(index, pod)
                return replace(decision, refusal=place[0], message=_join(move.message, place[1]))
            draft.columns.take(place, replace(pod, node=""))
            for series, amount in move.use.items():
                self._use_of(series)[place] += amount
                self._use_of(series)[index] -= amount
            target = draft.columns.names[place]
        draft.budgets.spend(pod)
        self._remaining -= 1
        self._ready_gone[pod.owner[2]] += bool(pod.ready)
        if self._surges(pod, move.how):
            self._surging.add(pod.owner[2])
        self._relieve(strategy, move)
        restore = not pod.owner[0] and move.how != "kill"
        first = pod.needs.restart == "OnFailure"
        evict = Evict(pod.ref, pod.uid, pod.node, move.reason, restore, first, pod.owner[2], target)
        return replace(decision, verdict="move", target=target, action=evict)

    def _why_stays(self, move: Move) -> Refused | None:
        """Why a move is refused, before a place is sought; None: it is not."""
        if why := self._why_bound(move.pod, move.how):
            return why
        if why := self._why_foreign(move.pod, optional=bool(move.benefit or move.disruption)):
            return why
        if move.how == "release" and move.pod.needs.unsupported:
            return "Unsupported", f"elasticd could not place it again, as it does not know {_unsupported(move.pod)}"
        if move.waits:
            return "NotYet", move.waits
        if move.benefit < self._case.policy.moves.worth * move.disruption:
            return "NotWorth", f"it brings {move.benefit:.3g} and costs {move.disruption:.3g}"
        return self._why_later(move.pod)

    def _why_later(self, pod: Pod) -> Refused | None:
        """Why a pod waits for others that are moved at this look; None: it need not."""
        if pod.owner[2] in self._surging:
            return ENOUGH, "another pod of its controller is replaced first"
        return self._why_enough if self._remaining <= 0 else None

    def _why_foreign(self, pod: Pod, *, optional: bool) -> Refused | None:
        """Why a pod is not this policy's to move; `optional`: it need not go."""
        policy = self._case.policy
        if not policy.pool.names(pod):
            return "Foreign", "its namespace or labels are not those of this policy"
        if not policy.pool.has(pod) and (optional or not policy.moves.others):
            suffix = ": it goes only where it must leave its node" if policy.moves.others else ", not this policy"
            return "Foreign", f"{pod.needs.scheduler} places it{suffix}"
        return None

    def _why_bound(self, pod: Pod, how: How = "reschedule") -> Refused | None:
        """Why a pod must stay, whatever a move would bring; None: it may be moved."""
        policy = self._case.policy
        at, past = self._case.observation.at, self._case.past
        why = outdated(self._case) or rooted(pod) or _why_unfit(pod, policy.moves, at)
        why = why or self._why_local(pod) or self._why_shared(pod)
        why = why or _why_returned(pod, past.comebacks.get((whose(pod), pod.node)), at)
        if why := why or _why_failing(past.failing.get(pod.uid), at):
            return why
        return self._why_single(pod, how) or self._draft.budgets.refusal(pod)

    def _why_single(self, pod: Pod, how: How) -> Refused | None:
        """Why a pod stays without which none of its controller would be ready, on nodes of the pool or others."""
        table, uid, columns = self._case.policy.moves, pod.owner[2], self._draft.columns
        if not uid or table.single or self._surges(pod, how):
            return None
        ready = columns.siblings(uid) + (columns.outside.siblings(uid) if columns.outside else 0)
        others = ready - bool(pod.ready)
        if others < 1:
            return "Single", "no other of its controller would be ready"
        return (ENOUGH, "the others of its controller go first") if others <= self._ready_gone[uid] else None

    def _surges(self, pod: Pod, how: How) -> bool:
        """Whether another is made first for a pod that is moved."""
        return self._case.policy.moves.surge and how == "reschedule" and pod.owner[0] == "ReplicaSet"

    def _why_local(self, pod: Pod) -> Refused | None:
        """Why a pod stays whose claim is bound to a folder of its node."""
        local = None if self._case.policy.moves.local_storage else local_claim(pod, self._draft.columns.volumes)
        if local is None:
            return None
        return "LocalStorage", f"its claim {local[0]} is bound to {local[1]}, a folder of its node (hostPath)"

    def _why_shared(self, pod: Pod) -> Refused | None:
        """Why a pod stays that shares a claim with another of its node, where no other node might have the volume."""
        columns = self._draft.columns
        index = columns.index(pod.node)
        shared = None if index is None else shared_claim(pod, columns.pods(index), columns.volumes)
        if shared is None:
            return None
        claim, modes, other = shared
        text = f"its claim {claim} is used by pod {other.name} of this node too, and its access modes"
        return "SharedVolume", f"{text} ({', '.join(modes)}) allow no second node" if modes else f"{text} are not known"

    @property
    def _why_enough(self) -> Refused:
        most = self._case.policy.moves.per_look
        return ENOUGH, f"{most} {'is' if most == 1 else 'are'} moved at a time"

    def _find_place(self, move: Move, index: int) -> int | Refused:
        """Another node that can take a pod, as things stand without it; or why there is none."""
        pod = replace(move.pod, node="", nominated="")
        if pod.needs.unsupported:
            return NOWHERE, f"elasticd does not know {_unsupported(pod)}, nor where it could go"
        if self._tries <= 0:
            return NOWHERE, "none was found for too many others"
        filtered = cache(partial(look, self._case, pod))
        ranked = cache(lambda: rank(self._case, pod, filtered().allowed()))

        def best(candidates: Mask) -> int | None:
            allowed = filtered().allowed() & candidates
            if (allowed & starting).any():
                allowed &= starting
            none = filtered().failures or not allowed.any()
            return None if none else ranked().first(allowed, self._case.columns)

        columns = self._draft.columns
        starting = _others(columns, self._case.past.rejecting)
        elsewhere = _others(columns, move.not_to)
        elsewhere[index] = False
        elsewhere &= lasting(pod.needs, columns)
        if (
            self._hopeful
            and (place := best(elsewhere)) is not None
            and self._find_fitting(move, np.array([place]))[0].all()
        ):
            return place  # it fits on the best node of all, so that the others need not be checked
        fit, why = self._find_fitting(move, slice(None))
        self._hopeful = hopeful = bool((elsewhere & fit).any())
        if not hopeful:
            return self._why_none_fits(move, index, fit, why)
        if (place := best(elsewhere & fit)) is not None:
            return place
        return NOWHERE, filtered().failures[0].message if filtered().failures else filtered().unavailable()

    def _why_none_fits(self, move: Move, index: int, fit: Mask, why: str) -> Refused:
        """Why no node is left: pods of its controller have left those that could take it, or all use too much."""
        columns = self._draft.columns
        if move.fits is None or why.startswith(FAULTY):
            return NOWHERE, why
        others = np.arange(len(columns.names)) != index
        if (left := int((others & fit).sum())) > 0:
            nodes = counted(left, "node")
            return "LeftRecently", f"pods of its controller left {nodes} that could take it too short a time ago"
        unknown = others & np.logical_or.reduce([~np.isfinite(columns.use(series)) for series in move.use])
        young = others & np.logical_or.reduce([columns.use(series) > columns.measured(series) for series in move.use])
        hints = [f"what {counted(int(unknown.sum()), 'node')} use is not known"] if unknown.any() else []
        if young.any():
            hints.append(f"what came to {counted(int(young.sum()), 'node')} of late is not measured yet, and estimated")
        return NOWHERE, _join(why, "; ".join(hints))

    def _find_fitting(self, move: Move, places: Places) -> tuple[Mask, str]:
        """Which of these nodes have room for what the pod uses; and why none has."""
        fit = np.ones(len(self._draft.columns.names), dtype=np.bool_)[places]
        if move.fits is None:
            return fit, "there is no other node that it should go to"
        try:
            fit &= move.fits(
                {series: self._use_of(series)[places] + amount for series, amount in move.use.items()}, places
            )
        except Exception as error:  # whatever a stranger's rule does
            return np.zeros_like(fit), f"{FAULTY}: {raised(error)}"
        return fit, "no other node is free enough for what it uses"

    def _use_of(self, series: str) -> Column:
        usage = self._use_by_series.get(series)
        if usage is None:
            usage = self._use_by_series[series] = self._draft.columns.use(series).copy()
        return usage


def _report_failures(case: PoolCase, failures: tuple[Failure, ...]) -> MoveDecision:
    """A decision about no pod, which says that strategies failed: there may be no decision about a pod to show it."""
    return _refusal(
        case,
        Ref("", "Pod", "", "v1"),
        strategy=failures[0].plugin,
        reason="PluginFailed",
        message="; ".join(f"{failure.plugin}: {failure.hook} {failure.message}" for failure in failures),
        refusal="PluginFailed",
        failures=failures,
    )


def _refusal(case: PoolCase, pod: Ref, **fields: Any) -> MoveDecision:
    policy, at = case.policy, case.observation.at
    about = str(pod) if pod.name else ""
    return MoveDecision(f"{policy.name}:{about}@{at:.3f}", at, policy.name, pod, policy.mode, "refuse", **fields)


def _why_unfit(pod: Pod, table: MovesTable, at: float) -> Refused | None:
    """Why a pod may not be moved under these settings."""
    needs = pod.needs
    disk = f"it uses {needs.disks[0].kind} {needs.disks[0].name}" if needs.disks else ""
    refusals = (
        (pod.deleted, LEAVING, "it is being deleted"),
        (pod.namespace in table.spared, "Spared", f"pods of {pod.namespace} stay"),
        (needs.local and not table.local_storage, "LocalStorage", "what it has stored on its node would be lost"),
        (needs.claims and not table.claims, "Claims", "it uses persistent volume claims"),
        (disk and not table.claims, "Disks", disk),
    )
    if why := next(((word, why) for holds, word, why in refusals if holds), None) or _why_lost(pod, table):
        return why
    return ("Young", f"it has not run for {table.min_age:g} s") if _is_young(pod, table, at) else None


def _is_young(pod: Pod, table: MovesTable, at: float) -> bool:
    """Whether it has not run for `min_age` seconds."""
    seconds = has_run_for(pod, at)
    return seconds is None or seconds < table.min_age


def _why_lost(pod: Pod, table: MovesTable) -> Refused | None:
    """Why a pod may not be moved that might not be recreated, or would do all again; None: it may."""
    kind, name, _ = pod.owner
    if kind in BUILT_IN:
        return None
    if not kind and not table.bare:
        return "Bare", "it has no controller"
    if kind and kind != JOB and not recreates(kind, table.controllers):
        return "UnknownController", f"it is not known whether its controller, {kind} {name}, would recreate it"
    if table.rerun:
        return None
    if kind == JOB:
        return "RunsOnce", f"Job {name} would count its eviction as a failure, and it would do all again"
    what = "" if kind else " and without a controller"
    never = pod.needs.restart == "Never"
    return ("RunsOnce", f"of restartPolicy Never{what}, it would do all again") if never else None


def _why_returned(pod: Pod, comebacks: Comebacks | None, at: float) -> Refused | None:
    """Why a pod stays, for now or for good, that came to its node in place of one that was moved from there."""
    if comebacks is None or not comebacks.includes(pod):
        return None
    if comebacks.count >= MOST_RETURNS:
        again = f"{comebacks.count} like it were moved from this node and replaced there"
        return KEEPS_RETURNING, f"{again}: it stays until the node changes or a day has passed"
    rest = comebacks.last + RETURNS.delay(comebacks.count + 1) - at
    again = "it came in place of one that was moved from this node"
    return ("Returned", f"{again}, and rests for another {rest:.0f} s") if rest > 0 else None


def _why_failing(failing: Failing | None, at: float) -> Refused | None:
    if failing is None or failing.until <= at:
        return None
    return FAILING, f"its eviction failed, and is tried again in {failing.until - at:.0f} s: {failing.why}"


def _unsupported(pod: Pod) -> str:
    return ", ".join(pod.needs.unsupported)


def _others(columns: NodeTable, names: Iterable[str]) -> Mask:
    """All nodes but these."""
    others = np.ones(len(columns.names), dtype=np.bool_)
    others[[place for name in names if (place := columns.index(name)) is not None]] = False
    return others


def _join(*texts: str) -> str:
    return ": ".join(filter(None, texts))
