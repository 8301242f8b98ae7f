"""The plan for one pool: the node of each pending pod, its victims, or why it waits.

Each pod counts those planned before it.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack, nullcontext

import numpy as np
from msgspec.structs import replace

from elasticd.base.text import counted
from elasticd.decision.disruption import refusal
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.claims import claim_actions
from elasticd.decision.pool.filter_score import Filtered, fits_without, look, rank
from elasticd.decision.pool.order import in_order
from elasticd.decision.pool.preemption import UNKNOWN, Budgets, NoVictims, Preemption, make_room
from elasticd.decision.pool.remedies import lacking
from elasticd.kit.mounts import Blocked, match_claims, mounts_of
from elasticd.kit.topology import selected_by
from elasticd.model.actions import Bind, Evict, Nominate
from elasticd.model.disruption import Refused
from elasticd.model.moves import Promise
from elasticd.model.placement import FORCED, Candidate, Mask, Placement, PodDecision, PodVerdict
from elasticd.model.volumes import VolumeClaim, Volumes
from elasticd.model.workload import Failure, Pod

NEVER = "no pod is preempted for it, as its preemptionPolicy is Never"

RESERVED = "node(s) only had places kept for the pods that its affinity selects"
"""Why a node takes no pod that must be near others: none of those has been bound there."""

UNBOUND = "VolumesNotBound"
"""Why a pod waits that has a node, but claims that are not bound for it yet."""

GIVEN_UP = "VolumesNotBoundInTime"
"""Why a pod waits that has no node any more, as its claims were not bound for it."""

BIND_TIMEOUT = 600.0
"""Seconds for which the place of a pod is kept until its claims are bound. Source: kube-scheduler, plugin
VolumeBinding, bindTimeoutSeconds."""

QUESTIONS = 10_000
"""Nodes on which one plan looks for pods to be preempted, for all its pods together, so that it ends."""


def plan(case: PoolCase) -> tuple[PodDecision, ...]:
    """Decisions about all pending pods, in the order in which they were made."""
    state, seen, by = Draft(case), case.observation, case.policy.pool.order
    promised = {promise.pod.uid: promise for promise in case.promises}
    pending = {pod.uid for pod in seen.pending} if promised else ()
    absent = [promise for uid, promise in promised.items() if uid not in pending]
    if case.hooks.implements("place_pods"):
        for promise in absent:
            state.keep(promise)
        return state.decide_together(in_order(seen.pending, by, seen.moved, seen.returned, promised))
    pods = (*seen.pending, *(promise.pod for promise in absent))
    decisions = list[PodDecision]()
    for pod in in_order(pods, by, seen.moved, seen.returned, promised):
        if pod.uid in promised and pod.uid not in pending:
            state.keep(promised[pod.uid])  # in its turn: pods of higher priority are before it
        else:
            decisions.append(state.decide(pod))
    return tuple(decisions)


def stuck(case: PoolCase, reason: str, message: str) -> tuple[PodDecision, ...]:
    """The decisions if no plan could be made: every pod waits, with the reason."""
    state = Draft(case)
    failures = (Failure("elasticd", "", message),)
    return tuple([state.decision(pod, "wait", reason, message, failures=failures) for pod in case.observation.pending])


def outdated(case: PoolCase) -> Refused | None:
    """Why what is known of pods and nodes is too old to act on; None: it is not."""
    if case.observation.at - case.observation.confirmed <= case.policy.max_age:
        return None
    return "StaleView", "what is known of the pods and nodes is older than max_age"


SUPPOSED = 500
"""Nodes on which one plan looks for pods that would be preempted if the pending pod were different, to tell what would
help. Of a pod that would need more of them nothing is told."""

PREEMPTS = "its preemptionPolicy is not Never"
FORCE = "its binding says resourceNotFit force"
UNFORCED = "no pod is preempted on the nodes that it is bound to"


class Draft:
    """A plan that is being made: `columns` and `budgets` change with each decision."""

    def __init__(self, case: PoolCase) -> None:
        self._case, self.columns = case, case.columns
        self.budgets = Budgets(case.observation.budgets, known=case.observation.budgets_known)
        self._without_victims: dict[Hashable, NoVictims] = {}
        self._refused: dict[Hashable, Refused] = {}
        self._supposed: dict[Hashable, tuple[str, ...]] = {}
        self._remedies: dict[Hashable, str] = {}
        self._nodes_searched = self._nodes_supposed = 0
        self._promises = {promise.pod.uid: promise for promise in case.promises}
        self._reserved = defaultdict[int, list[Pod]](list)
        """By node, the pods that are counted there and are not being bound: they may never come."""
        for name, pod in case.reserved:
            if (index := case.columns.index(name)) is not None:
                self._reserved[index].append(pod)

    def keep(self, promise: Promise) -> bool:
        """Keep a promised node for its pod, as one that is planned for it; return whether it suits. It does if it takes
        the pod once the one that this replaces has gone."""
        index, left = self.columns.index(promise.node), self.columns.index(promise.left)
        if index is None:
            return False
        leaving = [] if left is None else [pod for pod in self.columns.pods(left) if pod.uid == promise.leaving]
        with self.columns.without(left or 0, leaving) if leaving else nullcontext():
            filtered = look(self._case, promise.pod)
        suits = bool(filtered.failures or filtered.allowed()[index])
        if suits:
            self._reserve(index, promise.pod, promise.use)
        return suits

    def _look(self, pod: Pod) -> Filtered:
        """Filter the nodes for a pod. One that must be near others goes only where some of these are or are being
        bound: those for which a place is just kept may never come. As kube-scheduler does for nominated pods."""
        filtered = look(self._case, pod)
        if not pod.needs.attracts or not (filtered.fits | filtered.curable).any():
            return filtered
        rules = [selected_by(pod.namespace, term, self.columns) for term in pod.needs.attracts]
        partners = {
            node: [other for other in others if all(rule(other) for rule in rules)]
            for node, others in self._reserved.items()
        }
        with ExitStack() as stack:
            for node, others in partners.items():
                if others:
                    stack.enter_context(self.columns.without(node, others))
            alone = look(self._case, pod) if any(partners.values()) else filtered
        return filtered if alone is filtered else filtered.only_where(alone, RESERVED)

    def decide_together(self, pods: Sequence[Pod]) -> tuple[PodDecision, ...]:
        """Decide about all pods by one call of place_pods, then check each where it was put. One that was put nowhere
        waits, or preempts others."""
        filtered = {pod.uid: self._look(pod) for pod in pods if not _why_skipped(pod)}
        open_ = [pod for pod in pods if pod.uid in filtered]
        candidates = [Candidate(pod, self._allowed(filtered[pod.uid])) for pod in open_]
        answers = self._case.ask("place_pods", pods=candidates)
        places: dict[str, Placement] = {}
        for _, placements in answers.values:
            for placement in placements:
                if placement.pod < len(open_):
                    places.setdefault(open_[placement.pod].uid, placement)
        return tuple([self.decide(pod, places.get(pod.uid), answers.failures) for pod in pods])

    def decide(self, pod: Pod, place: Placement | None = None, failures: tuple[Failure, ...] = ()) -> PodDecision:
        """The decision about a pod, as things stand after those before it."""
        if why := _why_skipped(pod):
            return self.decision(pod, "wait" if pod.needs.gated else "leave", *why)
        filtered = self._look(pod)
        allowed, bound = self._allowed(filtered), filtered.bound
        if failures := failures + filtered.failures:
            return self.decision(pod, "wait", "PluginFailed", failures[0].message, filtered, failures=failures)
        if bound is not None and bound.fault:
            mend = f"{bound.why} would have to be mended, or taken away: {bound.fault.removeprefix(f'{bound.why}: ')}"
            return self.decision(pod, "wait", "InvalidBinding", bound.fault, filtered, mend=mend)
        if why := outdated(self._case):
            return self.decision(pod, "wait", why[0], f"nothing is done while {why[1]}", filtered)
        either = bound is not None and bound.full == "preempt_or_any"
        if either or allowed.any() or self._case.hooks.implements("select_victims"):
            filtered = replace(filtered, ranked=rank(self._case, pod, allowed if allowed.any() else filtered.curable))
        if failures := filtered.ranked.failures:
            return self.decision(pod, "wait", "PluginFailed", failures[0].message, filtered)
        return self._bind(filtered, allowed, place) if allowed.any() else self._no_place(filtered)

    def _allowed(self, filtered: Filtered) -> Mask:
        """Where a pod may go. Nodes that have rejected it count only where there is no other: they may do so again."""
        allowed, rejecting = filtered.allowed(), self._rejecting(filtered)
        if rejecting:
            allowed = allowed.copy()
            allowed[[*rejecting.values()]] = False
        return allowed

    def _rejecting(self, filtered: Filtered) -> dict[str, int]:
        """The nodes, with their indices, that would do for a pod but have rejected it, if others would do too."""
        allowed, found = filtered.allowed(), dict[str, int]()
        for name in self._case.rejected_by.get(filtered.pod.uid, ()):
            if (index := self.columns.index(name)) is not None and allowed[index]:
                found[name] = index
        return found if found and allowed.sum() > len(found) else {}

    def _bind(self, filtered: Filtered, allowed: Mask, place: Placement | None, message: str = "") -> PodDecision:
        pod, ranked = filtered.pod, filtered.ranked
        chosen = self._choose_nodes(pod, allowed, place)
        if not chosen.any():
            return self.decision(pod, "wait", "LeftOut", "was put nowhere when all were placed together", filtered)
        best = ranked.best(chosen, self.columns)
        node = self.columns.names[best[0]]
        if pod.volume_claims and (waits := self._bind_claims(filtered, best[0])):
            return waits
        self._take(best[0], pod)
        scores = tuple(ranked.shown(index, self.columns) for index in best)
        message = message or self._why_there(filtered, node)
        actions = (Bind(pod.ref, pod.uid, node, ""), *(() if pod.nominated == node else _clear_nomination(pod)))
        return self.decision(pod, "bind", "Placed", message, filtered, node=node, scores=scores, actions=actions)

    def _why_there(self, filtered: Filtered, node: str) -> str:
        """What else than scores speaks for a node; empty: nothing."""
        promise = self._promises.get(filtered.pod.uid)
        if promise is not None and promise.node == node:
            return f"{node} was kept for it"
        if not (rejecting := self._rejecting(filtered)):
            return ""
        names = min(rejecting) if len(rejecting) == 1 else counted(len(rejecting), "node")
        return f"{names} rejected it, or another of its controller"

    def _bind_claims(self, filtered: Filtered, node: int) -> PodDecision | None:
        """Let a pod that has unbound claims wait for these on a node, which is kept for it; None: all are bound."""
        pod, name, view = filtered.pod, self.columns.names[node], self.columns.volumes
        mounts = mounts_of(pod, view)
        if view is None or isinstance(mounts, Blocked):
            return self._wait(filtered, UNBOUND, mounts.why if isinstance(mounts, Blocked) else "")
        if not mounts.pending:
            return None
        at = self._case.observation.at
        if at - self._case.observation.kept_since.get(pod.uid, at) >= BIND_TIMEOUT:
            return self._give_up(filtered, name, mounts.pending, view)
        match = match_claims(mounts.pending, self.columns)
        if not match.fits[node]:
            return self._wait(filtered, UNBOUND, f"its claims cannot be bound for {name}")
        steps = claim_actions(match.at(node), name, view)
        self._reserve(node, pod)
        names = ", ".join(claim.name for claim in mounts.pending)
        text = f"waits until its claims are bound for {name}: {names}"
        nominate = () if pod.nominated == name else (Nominate(pod.ref, pod.uid, name),)
        return self.decision(pod, "wait", UNBOUND, text, filtered, node=name, actions=(*nominate, *steps))

    def _give_up(self, filtered: Filtered, node: str, pending: Sequence[VolumeClaim], volumes: Volumes) -> PodDecision:
        """Let others have the place of a pod whose claims nobody binds; it is tried again."""
        classes = [volumes.storage_class(claim.class_name) for claim in pending if claim.node]
        makers = sorted({found.provisioner for found in classes if found})
        silent = f" by {', '.join(makers)}" if makers else ""
        names = ", ".join(claim.name for claim in pending)
        text = (
            f"its claims were not bound for {node} in {BIND_TIMEOUT:g} s{silent}, so others may take its place: {names}"
        )
        return self.decision(filtered.pod, "wait", GIVEN_UP, text, filtered, actions=_clear_nomination(filtered.pod))

    def _choose_nodes(self, pod: Pod, allowed: Mask, place: Placement | None) -> Mask:
        """Narrow the allowed nodes: to the node that was made free for the pod, or promised to it, if that may take it;
        else, where all pods were placed together, to the one it was put on."""
        promise = self._promises.get(pod.uid)
        for name in (pod.nominated, promise.node if promise else ""):
            if name and (index := self.columns.index(name)) is not None and allowed[index]:
                return _only_node(allowed, index)
        together = self._case.hooks.implements("place_pods")
        return _only_node(allowed, place.node if place else None) if together else allowed

    def _no_place(self, filtered: Filtered) -> PodDecision:
        """Decide about a pod that fits nowhere it may go: it waits for those that are leaving, preempts others, or just
        waits."""
        pod, bound = filtered.pod, filtered.bound
        if bound is not None and not bound.nodes.any() and bound.unmatched == "wait":
            return self._wait(filtered, "NoNodeMatches")
        promise = self._promises.get(pod.uid)
        if promise is not None and self.keep(promise):
            partners = RESERVED in filtered.counts
            what = "pods that its affinity selects are bound" if partners else "the pod that it replaces has gone"
            text = f"{filtered.unavailable()}; {promise.node} is kept for it until {what}"
            return self.decision(pod, "wait", "Unschedulable", text, filtered, actions=_clear_nomination(pod))
        places, _ = filtered.places()
        node = self.columns.index(pod.nominated) if pod.nominated else None
        if node is not None and places is not None and places[node]:
            leaving = any(resident.deleted for resident in self.columns.pods(node))
            if leaving and fits_without(self._case, filtered, node):
                return self._await_leaving(filtered, node)
        if places is None or not places.any() or not self._case.hooks.implements("select_victims"):
            return self._no_victims(filtered)
        return self._make_room(filtered) if pod.needs.preempts else self._no_victims(filtered, NEVER)

    def _make_room(self, filtered: Filtered) -> PodDecision:
        if why := self._refused.get(self._like(filtered.pod)):
            return self._wait_for_budget(filtered, why)
        if self._nodes_searched > QUESTIONS:
            return self._wait(filtered, "Unschedulable", "which pods could be preempted is asked at a later look")
        if not self.budgets.known:
            return self._wait(filtered, UNKNOWN[0], f"no pod is preempted while {UNKNOWN[1]}")
        room = self._find_room(filtered)
        if isinstance(room, Preemption):
            return self._preempt(filtered, room)
        if failures := room.failures:
            return self.decision(filtered.pod, "wait", "PluginFailed", failures[0].message, filtered, failures=failures)
        text = ": ".join(filter(None, ("no other pods can be preempted for it", room.why)))
        return self._no_victims(filtered, text, room.mends)

    def _like(self, pod: Pod) -> Hashable:
        """A key that is equal for pods for which the same others would be preempted."""
        return _equivalence(pod), self._case.observation.gave_way.get(pod.uid, 0)

    def _wait_for_budget(self, filtered: Filtered, why: Refused) -> PodDecision:
        return self._wait(filtered, why[0], f"the pods that would be preempted may not be evicted: {why[1]}")

    def _no_victims(self, filtered: Filtered, detail: str = "", yields: Mapping[str, int] | None = None) -> PodDecision:
        """Without victims: the pod waits, or goes to any node with room, as its binding says."""
        bound = filtered.bound
        if bound is not None and bound.full == "preempt_or_any":
            allowed = replace(filtered, bound=replace(bound, full="any")).allowed()
            if allowed.any():
                place = Placement(0, filtered.ranked.first(allowed, self.columns))
                return self._bind(filtered, allowed, place, UNFORCED)
        return self._wait(filtered, "Unschedulable", detail, yields)

    def _find_room(self, filtered: Filtered) -> Preemption | NoVictims:
        """Find victims. Skips a pod equivalent to one that already found none in this plan."""
        like = _equivalence(filtered.pod)
        again = self._case.observation.gave_way.get(filtered.pod.uid, 0) > 0
        if like in self._without_victims and not again:
            return self._without_victims[like]
        room = make_room(self._case, filtered, self.budgets)
        self._nodes_searched += room.asked
        if isinstance(room, NoVictims) and not again:
            self._without_victims[like] = room
        return room

    def _wait(
        self, filtered: Filtered, reason: str, detail: str = "", yields: Mapping[str, int] | None = None
    ) -> PodDecision:
        """Let a pod wait, and remove the note of a node that it has not got. `yields`: what would have to change for
        others to be preempted, on how many nodes."""
        pod, message = filtered.pod, "; ".join(filter(None, (filtered.unavailable(), detail)))
        like = _equivalence(pod)
        if like not in self._remedies:
            self._remedies[like] = lacking(self._case, filtered, yields or {}, self._suppose(filtered))
        mend, actions = self._remedies[like], _clear_nomination(pod)
        return self.decision(pod, "wait", reason, message, filtered, mend=mend, actions=actions)

    def _suppose(self, filtered: Filtered) -> tuple[str, ...]:
        """What would have to change about the pod alone for others to be preempted; tried on some nodes, and once for
        equivalent pods."""
        pod, bound = filtered.pod, filtered.bound
        if not self._case.hooks.implements("select_victims") or not self.budgets.known:
            return ()
        if not pod.needs.preempts:
            mend = PREEMPTS
        elif bound is not None and bound.nodes.any() and bound.full not in FORCED:
            mend, filtered = FORCE, replace(filtered, bound=replace(bound, full="preempt"))
        else:
            return ()
        like = _equivalence(pod)
        if like not in self._supposed:
            places, _ = filtered.places()
            count = 0 if places is None else int(np.count_nonzero(places))
            able = 0 < count <= SUPPOSED - self._nodes_supposed
            self._nodes_supposed += count if able else 0
            room = make_room(self._case, filtered, self.budgets) if able else NoVictims()
            self._supposed[like] = (mend,) if isinstance(room, Preemption) and room.victims else ()
        return self._supposed[like]

    def _take(self, node: int, pod: Pod, use: Mapping[str, float] | None = None) -> None:
        """Promise a node to a pod; what equivalent pods lacked, and which pods would be preempted, has changed."""
        self._remedies.clear()
        self._refused.clear()
        self.columns.take(node, pod, use)

    def _reserve(self, node: int, pod: Pod, use: Mapping[str, float] | None = None) -> None:
        """Promise a node to a pod that is not bound yet."""
        self._take(node, pod, use)
        self._reserved[node].append(pod)

    def _await_leaving(self, filtered: Filtered, node: int) -> PodDecision:
        """Let a pod wait for those that are leaving a node, and keep for it what they have left so far."""
        pod, name = filtered.pod, self.columns.names[node]
        self._reserve(node, pod)
        actions, text = Preemption(node, ()).actions(pod, name), f"waits until others have left {name}"
        return self.decision(pod, "wait", "Nominated", text, filtered, node=name, actions=actions)

    def _preempt(self, filtered: Filtered, room: Preemption) -> PodDecision:
        if not room.victims:
            return self._await_leaving(filtered, room.node)
        pod, name = filtered.pod, self.columns.names[room.node]
        actions = room.actions(pod, name)
        evictions = [action for action in actions if isinstance(action, Evict)]
        if why := refusal(self._case.observation.disruption, evictions):
            self._refused[self._like(pod)] = why
            return self._wait_for_budget(filtered, why)
        for victim in room.victims:
            self.columns.leave(room.node, victim.uid)  # until it has left, what it has is nobody else's
            self.budgets.spend(victim)
        self._reserve(room.node, pod)
        scores = (filtered.ranked.shown(room.node, self.columns),)
        gone = ", ".join(f"{victim.namespace}/{victim.name}" for victim in room.victims)
        are = "is" if len(room.victims) == 1 else "are"
        message = f"{gone} {are} preempted on {name}" + (f": {room.why}" if room.why else "")
        return self.decision(pod, "preempt", "Preempts", message, filtered, node=name, scores=scores, actions=actions)

    def decision(
        self,
        pod: Pod,
        verdict: PodVerdict,
        reason: str,
        message: str,
        filtered: Filtered | None = None,
        **fields: object,
    ) -> PodDecision:
        policy, at = self._case.policy, self._case.observation.at
        bound = filtered.bound if filtered else None
        decision = PodDecision(
            id=f"{policy.name}:{pod.ref}@{at:.3f}",
            at=at,
            policy=policy.name,
            pod=pod.ref,
            mode=policy.mode,
            verdict=verdict,
            reason=reason,
            message=message,
            uid=pod.uid,
            nodes=len(self.columns.names),
            refusals=filtered.counts if filtered else {},
            binding=bound.why if bound and not bound.fault else "",
            failures=filtered.failures + filtered.ranked.failures if filtered else (),
        )
        return replace(decision, **fields)


def _equivalence(pod: Pod) -> Hashable:
    """A key that is equal for pods about which plugins must say the same."""
    return (
        id(pod.needs),
        pod.namespace,
        pod.owner,
        pod.volume_claims,
        *map(frozenset, (pod.labels.items(), pod.annotations.items())),
    )


def _why_skipped(pod: Pod) -> Refused | None:
    """Why a pod is not looked at, a reason and a sentence; None: it is."""
    if pod.needs.gated:
        return "SchedulingGated", "a scheduling gate holds it back"
    if pod.needs.unsupported:
        asks = ", ".join(pod.needs.unsupported)
        return "Unsupported", f"elasticd does not know {asks}: leave it to kube-scheduler (schedulerName)"
    return None


def _clear_nomination(pod: Pod) -> tuple[Nominate, ...]:
    return (Nominate(pod.ref, pod.uid, ""),) if pod.nominated else ()


def _only_node(allowed: Mask, node: int | None) -> Mask:
    only = np.zeros_like(allowed)
    if node is not None:
        only[node] = allowed[node]
    return only
