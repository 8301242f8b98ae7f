"""The plan for one pool: the node of each pending pod, its victims, or why it waits.

Each pod counts those planned before it.
"""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from elasticd.decision.disruption import refusal
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.filter_score import UNRANKED, Filtered, Scored, look, rank
from elasticd.decision.pool.order import in_order
from elasticd.decision.pool.preemption import UNKNOWN, Budgets, NoVictims, Preemption, make_room, suffices
from elasticd.decision.pool.remedies import lacking
from elasticd.model.actions import Bind, Evict, Nominate
from elasticd.model.disruption import Refused
from elasticd.model.placement import FORCED, Candidate, Mask, Placement, PodDecision, PodVerdict, Selection
from elasticd.model.workload import Failure, Pod

NEVER = "nobody gives way for it, as its preemptionPolicy is Never"

QUESTIONS = 10_000
"""Nodes on which one plan looks for pods to give way, for all its pods together, so that it ends."""


def plan(case: PoolCase) -> tuple[PodDecision, ...]:
    """Decisions about all pending pods, in the order in which they were made."""
    state = Draft(case)
    pods = in_order(case.observation.pending, case.policy.pool.order, case.observation.moved, case.observation.returned)
    if case.hooks.implements("place_pods"):
        return state.decide_together(pods)
    return tuple([state.decide(pod) for pod in pods])


def stuck(case: PoolCase, reason: str, message: str) -> tuple[PodDecision, ...]:
    """The decisions if no plan could be made: every pod waits, with the reason."""
    state = Draft(case)
    failures = (Failure("elasticd", "", message),)
    return tuple([state.decision(pod, "wait", reason, message, failures=failures) for pod in case.observation.pending])


SUPPOSED = 500
"""Nodes on which one plan looks for pods that would give way if the pending pod were different, to tell what would
help. Of a pod that would need more of them nothing is told."""

PREEMPTS = "its preemptionPolicy is not Never"
FORCE = "its binding says resourceNotFit force"
UNFORCED = "nobody gives way on the nodes that it is bound to"


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

    def decide_together(self, pods: Sequence[Pod]) -> tuple[PodDecision, ...]:
        """Decide about all pods by one call of place_pods, then check each where it was put. One that was put nowhere
        waits, or has others give way."""
        filtered = {pod.uid: look(self._case, pod) for pod in pods if not _why_skipped(pod)}
        open_ = [pod for pod in pods if pod.uid in filtered]
        candidates = [Candidate(pod, filtered[pod.uid].allowed()) for pod in open_]
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
        filtered = look(self._case, pod)
        failures += filtered.failures
        if failures:
            return self.decision(pod, "wait", "PluginFailed", failures[0].message, filtered, failures=failures)
        if filtered.bound is not None and filtered.bound.fault:
            mend = _binding_remedy(filtered.bound)
            return self.decision(pod, "wait", "InvalidBinding", filtered.bound.fault, filtered, mend=mend)
        if why := self.stale():
            return self.decision(pod, "wait", why[0], f"nothing is done while {why[1]}", filtered)
        allowed = filtered.allowed()
        either = filtered.bound is not None and filtered.bound.full == "preempt_or_any"
        must_rank = either or allowed.any() or self._case.hooks.implements("select_victims")
        ranked = rank(self._case, pod) if must_rank else UNRANKED
        if ranked.failures:
            return self.decision(pod, "wait", "PluginFailed", ranked.failures[0].message, filtered, ranked)
        return (
            self._bind(pod, allowed, place, filtered, ranked)
            if allowed.any()
            else self._no_place(pod, filtered, ranked)
        )

    def _bind(
        self, pod: Pod, allowed: Mask, place: Placement | None, filtered: Filtered, ranked: Scored, message: str = ""
    ) -> PodDecision:
        chosen = self._choose_nodes(pod, allowed, place)
        if not chosen.any():
            text = "was put nowhere when all were placed together"
            return self.decision(pod, "wait", "LeftOut", text, filtered, ranked)
        best = ranked.best(chosen, self.columns)
        node = self.columns.names[best[0]]
        self._take(best[0], pod)
        bind = Bind(pod.ref, pod.uid, node, "")
        scores = tuple(ranked.shown(index, self.columns) for index in best)
        actions = (bind,) if pod.nominated == node else (bind, *_clear_nomination(pod))
        return self.decision(
            pod, "bind", "Placed", message, filtered, ranked, node=node, scores=scores, actions=actions
        )

    def _choose_nodes(self, pod: Pod, allowed: Mask, place: Placement | None) -> Mask:
        """Narrow the allowed nodes: to the node that was made free for the pod, if that may take it; else, where all
        pods were placed together, to the one it was put on."""
        nominated = self.columns.index(pod.nominated) if pod.nominated else None
        if nominated is not None and allowed[nominated]:
            return _only_node(allowed, nominated)
        together = self._case.hooks.implements("place_pods")
        return _only_node(allowed, place.node if place else None) if together else allowed

    def _no_place(self, pod: Pod, filtered: Filtered, ranked: Scored) -> PodDecision:
        """Decide about a pod that fits nowhere it may go: it waits for those that are leaving, others give way, or it
        just waits."""
        bound, columns = filtered.bound, self.columns
        if bound is not None and not bound.nodes.any() and bound.unmatched == "wait":
            return self._wait(pod, "NoNodeMatches", filtered, ranked)
        places, _ = filtered.places()
        node = columns.index(pod.nominated) if pod.nominated else None
        if node is not None and places is not None and places[node] and self._empties_enough(pod, bound, node):
            return self._await_leaving(pod, filtered, ranked, node)
        if places is None or not places.any() or not self._case.hooks.implements("select_victims"):
            return self._no_victims(pod, filtered, ranked)
        if not pod.needs.preempts:
            return self._no_victims(pod, filtered, ranked, NEVER)
        return self._make_room(pod, filtered, ranked)

    def _empties_enough(self, pod: Pod, bound: Selection | None, node: int) -> bool:
        """Whether a node will have room for a pod when those that are leaving it have left."""
        leaving = any(resident.deleted for resident in self.columns.pods(node))
        return leaving and suffices(self._case, pod, bound, Preemption(node, ()))

    def _make_room(self, pod: Pod, filtered: Filtered, ranked: Scored) -> PodDecision:
        """Have others give way, if any can and elasticd's own budgets let them."""
        if why := self._refused.get(self._like(pod)):
            return self._wait_for_budget(pod, filtered, ranked, why)
        if self._nodes_searched > QUESTIONS:
            return self._wait(pod, "Unschedulable", filtered, ranked, "who could give way is asked at a later look")
        if why := self._why_blind():
            return self._wait(pod, why[0], filtered, ranked, f"nobody gives way while {why[1]}")
        room = self._find_room(pod, filtered, ranked)
        if isinstance(room, Preemption):
            return self._preempt(pod, filtered, ranked, room)
        if failures := room.failures:
            return self.decision(pod, "wait", "PluginFailed", failures[0].message, filtered, failures=failures)
        text = ": ".join(filter(None, ("no others can give way for it", room.why)))
        return self._no_victims(pod, filtered, ranked, text, room.mends)

    def _like(self, pod: Pod) -> Hashable:
        """A key that is equal for pods for which the same others would give way."""
        return _equivalence(pod), self._case.observation.gave_way.get(pod.uid, 0)

    def _wait_for_budget(self, pod: Pod, filtered: Filtered, ranked: Scored, why: Refused) -> PodDecision:
        return self._wait(pod, why[0], filtered, ranked, f"those who would give way are not let go: {why[1]}")

    def _no_victims(
        self, pod: Pod, filtered: Filtered, ranked: Scored, detail: str = "", yields: Mapping[str, int] | None = None
    ) -> PodDecision:
        """Without victims: the pod waits, or goes to any node with room, as its binding says."""
        bound = filtered.bound
        if bound is not None and bound.full == "preempt_or_any":
            allowed = replace(filtered, bound=replace(bound, full="any")).allowed()
            if allowed.any():
                place = Placement(0, ranked.first(allowed, self.columns))
                return self._bind(pod, allowed, place, filtered, ranked, UNFORCED)
        return self._wait(pod, "Unschedulable", filtered, ranked, detail, yields)

    def _why_blind(self) -> Refused | None:
        """Why too little is known to have anybody give way; None: enough is known."""
        return None if self.budgets.known else UNKNOWN

    def stale(self) -> Refused | None:
        """Why what is known of pods and nodes is too old to act on; None: it is not."""
        observation = self._case.observation
        if observation.at - observation.confirmed <= self._case.policy.max_age:
            return None
        return "StaleView", "what is known of the pods and nodes is older than max_age"

    def _find_room(self, pod: Pod, filtered: Filtered, ranked: Scored) -> Preemption | NoVictims:
        """Find victims. Skips a pod equivalent to one that already found none in this plan."""
        like = _equivalence(pod)
        again = self._case.observation.gave_way.get(pod.uid, 0) > 0
        if like in self._without_victims and not again:
            return self._without_victims[like]
        room = make_room(self._case, pod, filtered, ranked.total, self.budgets)
        self._nodes_searched += room.asked
        if isinstance(room, NoVictims) and not again:
            self._without_victims[like] = room
        return room

    def _wait(
        self,
        pod: Pod,
        reason: str,
        filtered: Filtered,
        ranked: Scored,
        detail: str = "",
        yields: Mapping[str, int] | None = None,
    ) -> PodDecision:
        """Let a pod wait, and remove the note of a node that it has not got. `yields`: what would have to change for
        others to give way, on how many nodes."""
        message = f"{filtered.unavailable()}; {detail}" if detail else filtered.unavailable()
        like = _equivalence(pod)
        if like not in self._remedies:
            own = self._suppose(pod, filtered, ranked)
            self._remedies[like] = lacking(self._case, pod, filtered, yields or {}, own)
        return self.decision(
            pod, "wait", reason, message, filtered, ranked, mend=self._remedies[like], actions=_clear_nomination(pod)
        )

    def _suppose(self, pod: Pod, filtered: Filtered, ranked: Scored) -> tuple[str, ...]:
        """What would have to change about the pod alone for others to give way; tried on some nodes, and once for
        equivalent pods."""
        bound = filtered.bound
        if not self._case.hooks.implements("select_victims") or self._why_blind():
            return ()
        if not pod.needs.preempts:
            mend, then = PREEMPTS, filtered
        elif bound is not None and bound.nodes.any() and bound.full not in FORCED:
            mend, then = FORCE, replace(filtered, bound=replace(bound, full="preempt"))
        else:
            return ()
        like = _equivalence(pod)
        if like not in self._supposed:
            places, _ = then.places()
            count = 0 if places is None else int(np.count_nonzero(places))
            able = 0 < count <= SUPPOSED - self._nodes_supposed
            self._nodes_supposed += count if able else 0
            room = make_room(self._case, pod, then, ranked.total, self.budgets) if able else NoVictims()
            self._supposed[like] = (mend,) if isinstance(room, Preemption) and room.victims else ()
        return self._supposed[like]

    def _take(self, node: int, pod: Pod) -> None:
        """Promise a node to a pod; what equivalent pods lacked, and who would give way, has changed with it."""
        self._remedies.clear()
        self._refused.clear()
        self.columns.take(node, pod)

    def _await_leaving(self, pod: Pod, filtered: Filtered, ranked: Scored, node: int) -> PodDecision:
        """Let a pod wait for those that are leaving a node, and keep for it what they have left so far."""
        self._take(node, pod)
        name = self.columns.names[node]
        actions = Preemption(node, ()).actions(pod, name)
        text = f"waits until others have left {name}"
        return self.decision(pod, "wait", "Nominated", text, filtered, ranked, node=name, actions=actions)

    def _preempt(self, pod: Pod, filtered: Filtered, ranked: Scored, room: Preemption) -> PodDecision:
        if not room.victims:
            return self._await_leaving(pod, filtered, ranked, room.node)
        name = self.columns.names[room.node]
        actions = room.actions(pod, name)
        evictions = [action for action in actions if isinstance(action, Evict)]
        if why := refusal(self._case.observation.disruption, evictions):
            self._refused[self._like(pod)] = why
            return self._wait_for_budget(pod, filtered, ranked, why)
        for victim in room.victims:
            self.columns.leave(room.node, victim.uid)  # until it has left, what it has is nobody else's
            self.budgets.spend(victim)
        self._take(room.node, pod)
        scores = (ranked.shown(room.node, self.columns),)
        gone = ", ".join(f"{victim.namespace}/{victim.name}" for victim in room.victims)
        gives = "gives" if len(room.victims) == 1 else "give"
        message = f"{gone} {gives} way on {name}" + (f": {room.why}" if room.why else "")
        return self.decision(
            pod, "preempt", "Preempts", message, filtered, ranked, node=name, scores=scores, actions=actions
        )

    def decision(
        self,
        pod: Pod,
        verdict: PodVerdict,
        reason: str,
        message: str,
        filtered: Filtered | None = None,
        ranked: Scored | None = None,
        **fields: object,
    ) -> PodDecision:
        policy, at = self._case.policy, self._case.observation.at
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
            refusals=filtered.refusals if filtered else {},
            binding=filtered.bound.why if filtered and filtered.bound and not filtered.bound.fault else "",
            failures=(filtered.failures if filtered else ()) + (ranked.failures if ranked else ()),
        )
        return replace(decision, **fields)


def _equivalence(pod: Pod) -> Hashable:
    """A key that is equal for pods about which plugins must say the same."""
    return id(pod.needs), pod.namespace, pod.owner, *map(frozenset, (pod.labels.items(), pod.annotations.items()))


def _why_skipped(pod: Pod) -> Refused | None:
    """Why a pod is not looked at, a reason and a sentence; None: it is."""
    if pod.needs.gated:
        return "SchedulingGated", "a scheduling gate holds it back"
    if pod.needs.unsupported:
        asks = ", ".join(pod.needs.unsupported)
        return "Unsupported", f"elasticd does not know {asks}: leave it to kube-scheduler (schedulerName)"
    return None


def _binding_remedy(bound: Selection) -> str:
    return f"{bound.why} would have to be mended, or taken away: {bound.fault.removeprefix(f'{bound.why}: ')}"


def _clear_nomination(pod: Pod) -> tuple[Nominate, ...]:
    return (Nominate(pod.ref, pod.uid, ""),) if pod.nominated else ()


def _only_node(allowed: Mask, node: int | None) -> Mask:
    only = np.zeros_like(allowed)
    if node is not None:
        only[node] = allowed[node]
    return only
