"""The plan for one pool: for each pending pod, where it goes, who gives way for it, or why it waits.

Pure. Each pod sees those before it in place. Knows the order of the questions; knows no rule and no score.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from elasticd.actions import Bind
from elasticd.columns import Columns
from elasticd.model import Failure, Pod
from elasticd.placements import (
    Candidate,
    Column,
    Mask,
    NodeScore,
    Placement,
    PodDecision,
    PodVerdict,
    Refusal,
    Selection,
)
from elasticd.placing.ask import PoolCase
from elasticd.placing.lack import lacking
from elasticd.placing.order import in_order
from elasticd.placing.room import Budgets, Room, make_room

SHOWN = 3
"""Of the nodes that were compared, how many a decision names."""


class Found(Struct, frozen=True, eq=False):
    """What plugins said of the nodes for a pod: where it fits, where it would if fewer pods were there, what it is
    bound to, and the counts of nodes by reason."""

    fits: Mask
    curable: Mask
    refusals: dict[str, int]
    bound: Selection | None = None
    failures: tuple[Failure, ...] = ()


class Ranked(Struct, frozen=True, eq=False):
    """The sum of all scores, NaN where nothing is known, and each strategy's part."""

    total: Column
    parts: dict[str, Column]
    failures: tuple[Failure, ...] = ()


def plan(case: PoolCase) -> tuple[PodDecision, ...]:
    """Decisions about all pending pods, in the order in which they were made."""
    state = Draft(case)
    pods = in_order(case.observation.pending, case.policy.pool.order, case.observation.moved)
    if case.hooks.heeds("place_pods"):
        return state.together(pods)
    return tuple([state.one(pod) for pod in pods])


def stuck(case: PoolCase, reason: str, message: str) -> tuple[PodDecision, ...]:
    """The plan where none could be made: every pod waits, and is told why."""
    state = Draft(case)
    failures = (Failure("elasticd", "", message),)
    return tuple([state.decision(pod, "wait", reason, message, failures=failures) for pod in case.observation.pending])


class Draft:
    """A plan that is being made: `columns` and `budgets` change with each decision."""

    def __init__(self, case: PoolCase) -> None:
        self._case, self.columns = case, case.columns
        self.budgets = Budgets(case.observation.budgets, known=case.observation.budgets_known)

    def together(self, pods: Sequence[Pod]) -> tuple[PodDecision, ...]:
        """Ask about all at once, and then check each where it was put. One that was put nowhere waits, or has others
        give way."""
        found = {pod.uid: self.look(pod) for pod in pods if not _left(pod)}
        open_ = [pod for pod in pods if pod.uid in found]
        candidates = [Candidate(pod, self.allowed(found[pod.uid])) for pod in open_]
        heard = self._case.ask("place_pods", pods=candidates)
        places: dict[str, Placement] = {}
        for _, placements in heard.values:
            for one in placements:
                if one.pod < len(open_):
                    places.setdefault(open_[one.pod].uid, one)
        return tuple([self.one(pod, places.get(pod.uid), heard.failures) for pod in pods])

    def one(self, pod: Pod, place: Placement | None = None, failures: tuple[Failure, ...] = ()) -> PodDecision:
        """The decision about a pod, as things stand after those before it."""
        if why := _left(pod):
            return self.decision(pod, "wait" if pod.needs.gated else "leave", *why)
        found = self.look(pod)
        failures += found.failures
        if failures:
            return self.decision(pod, "wait", "PluginFailed", failures[0].message, found, failures=failures)
        if found.bound is not None and found.bound.fault:
            return self.decision(pod, "wait", "InvalidBinding", found.bound.fault, found)
        allowed = self.allowed(found)
        if self._case.hooks.heeds("place_pods"):
            allowed = _only(allowed, place)
        ranked = self.rank(pod)
        if ranked.failures:
            return self.decision(pod, "wait", "PluginFailed", ranked.failures[0].message, found, ranked)
        if allowed.any():
            return self._bind(pod, allowed, found, ranked)
        return self._no_place(pod, found, ranked)

    def look(self, pod: Pod) -> Found:
        """What stands against each node, and what the pod is bound to."""
        filters, selections = self._case.ask("filter_nodes", pod=pod), self._case.ask("select_nodes", pod=pod)
        bound = _narrowed([selection for _, selection in selections.values])
        refusals = [_yielding(refusal, bound) for _, said in filters.values for refusal in said]
        size = len(self.columns.names)
        cured, refused = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
        for one in refusals:
            (cured if one.curable else refused).__ior__(one.nodes)
        failures = filters.failures + selections.failures
        return Found(~(cured | refused), cured & ~refused, _counts(refusals), bound, failures)

    def allowed(self, found: Found) -> Mask:
        """Where it may go: where it fits, of the nodes it is bound to, if any of those counts (thesis, 4.2)."""
        bound = found.bound
        if bound is None or (bound.unmatched == "any" and not bound.nodes.any()):
            return found.fits
        within = found.fits & bound.nodes
        return found.fits if bound.full == "any" and bound.nodes.any() and not within.any() else within

    def rank(self, pod: Pod) -> Ranked:
        """The scores of all nodes for a pod."""
        heard = self._case.ask("score_nodes", pod=pod)
        total = np.zeros(len(self.columns.names), dtype=np.float64)
        parts = {name: scores.weight * scores.values for name, scores in heard.values}
        for part in parts.values():
            total += part
        return Ranked(total, parts, heard.failures)

    def _bind(self, pod: Pod, allowed: Mask, found: Found, ranked: Ranked) -> PodDecision:
        best = self.best(allowed, ranked.total)
        node = self.columns.names[best[0]]
        self.columns.take(best[0], pod)
        bind = Bind(pod.ref, pod.uid, node, "")
        shown = tuple(_shown(index, self.columns, ranked) for index in best)
        return self.decision(pod, "bind", "Placed", "", found, ranked, node=node, scores=shown, actions=(bind,))

    def best(self, allowed: Mask, total: Column) -> list[int]:
        """The best nodes, best first. Where the score is not known it is the worst; equal ones go by the room left, as
        a part of what there is, then by name."""
        places = np.flatnonzero(allowed)
        scores = np.nan_to_num(total[places], nan=-np.inf)
        if len(places) > 2 * SHOWN:
            least = np.partition(scores, -SHOWN)[-SHOWN]
            kept = scores >= least
            places, scores = places[kept], scores[kept]
        order = np.lexsort((places, -self._room_left(places), -scores))
        return [int(places[index]) for index in order[:SHOWN]]

    def _room_left(self, places: "np.ndarray[tuple[int], np.dtype[np.intp]]") -> Column:
        """How much of cpu and memory nodes have left, in cores and in GiB, so that the larger of two empty ones counts
        for more."""
        left = np.zeros(len(places), dtype=np.float64)
        for resource, unit in (("cpu", 1000.0), ("memory", 2.0**30)):
            columns = self.columns
            left += (columns.allocatable(resource)[places] - columns.requested(resource)[places]) / unit
        return left

    def _no_place(self, pod: Pod, found: Found, ranked: Ranked) -> PodDecision:
        """It fits nowhere it may go: others give way, or it waits."""
        bound, columns = found.bound, self.columns
        message = unavailable(len(columns.names), found)
        if bound is not None and not bound.nodes.any() and bound.unmatched == "wait":
            mend = lacking(columns, pod, found.curable, bound)
            return self.decision(pod, "wait", "NoNodeMatches", message, found, ranked, mend=mend)
        node = columns.index(pod.nominated) if pod.nominated else None
        if node is not None and any(one.deleted for one in columns.pods(node)):
            columns.take(node, pod)  # what has been freed so far is not another's
            text = f"waits until others have left {pod.nominated}"
            return self.decision(pod, "wait", "Nominated", text, found, ranked, node=pod.nominated)
        places, forced = _places(found)
        if places is not None and pod.needs.preempts and self._case.hooks.heeds("select_victims"):
            if places.any() and not self.budgets.known:
                text = f"{message}; nobody gives way while PodDisruptionBudgets are not known"
                return self.decision(pod, "wait", "BudgetsUnknown", text, found, ranked)
            room, failures = make_room(self._case, pod, places, ranked.total, self.budgets, forced=forced)
            if room is not None:
                return self._preempt(pod, found, ranked, room)
            if failures:
                return self.decision(pod, "wait", "PluginFailed", failures[0].message, found, failures=failures)
        mend = lacking(columns, pod, found.curable, bound)
        return self.decision(pod, "wait", "Unschedulable", message, found, ranked, mend=mend)

    def _preempt(self, pod: Pod, found: Found, ranked: Ranked, room: Room) -> PodDecision:
        for victim in room.victims:
            self.columns.release(room.node, victim)
            self.budgets.spend(victim)
        self.columns.take(room.node, pod)
        name = self.columns.names[room.node]
        shown = (_shown(room.node, self.columns, ranked),)
        actions = room.actions(pod, name)
        gone = ", ".join(f"{one.namespace}/{one.name}" for one in room.victims)
        message = f"{gone} give way on {name}" + (f": {room.why}" if room.why else "")
        return self.decision(
            pod, "preempt", "Preempts", message, found, ranked, node=name, scores=shown, actions=actions
        )

    def decision(
        self,
        pod: Pod,
        verdict: PodVerdict,
        reason: str,
        message: str,
        found: Found | None = None,
        ranked: Ranked | None = None,
        **more: object,
    ) -> PodDecision:
        """A record of what was found."""
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
            refusals=found.refusals if found else {},
            binding=found.bound.why if found and found.bound else "",
            failures=(found.failures if found else ()) + (ranked.failures if ranked else ()),
        )
        return replace(decision, **more)


def _left(pod: Pod) -> tuple[str, str] | None:
    """Why a pod is not looked at, a reason and a sentence; None: it is."""
    if pod.needs.gated:
        return "SchedulingGated", "a scheduling gate holds it back"
    if pod.needs.unsupported:
        asks = ", ".join(pod.needs.unsupported)
        return "Unsupported", f"elasticd does not know {asks}: leave it to kube-scheduler (schedulerName)"
    return None


def _narrowed(selections: Sequence[Selection]) -> Selection | None:
    """Of several bindings, the nodes of all; what is strictest of each counts."""
    if len(selections) <= 1:
        return selections[0] if selections else None
    nodes = np.logical_and.reduce([one.nodes for one in selections])
    wait = "wait" if any(one.unmatched == "wait" for one in selections) else "any"
    full = next((kind for kind in ("wait", "preempt", "any") if any(one.full == kind for one in selections)), "wait")
    why = "; ".join(one.why for one in selections)
    return Selection(nodes, why, wait, full, next((one.fault for one in selections if one.fault), ""))  # type: ignore[arg-type]


def _yielding(refusal: Refusal, bound: Selection | None) -> Refusal:
    """A refusal as it counts for a pod that is bound."""
    if bound is None or not refusal.yields:
        return refusal
    return replace(refusal, nodes=refusal.nodes & ~bound.nodes)


def _places(found: Found) -> tuple[Mask | None, bool]:
    """Where others may give way for a pod, None for nowhere; and whether its binding asks for it."""
    bound = found.bound
    if bound is None or not bound.nodes.any() or bound.full == "any":
        return found.curable, False
    return (found.curable & bound.nodes, True) if bound.full == "preempt" else (None, False)


def _counts(refusals: Sequence[Refusal]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in refusals:
        if count := int(np.count_nonzero(one.nodes)):
            counts[one.reason] = counts.get(one.reason, 0) + count
    return counts


def _only(allowed: Mask, place: Placement | None) -> Mask:
    only = np.zeros_like(allowed)
    if place is not None:
        only[place.node] = allowed[place.node]
    return only


def _shown(index: int, columns: Columns, ranked: Ranked) -> NodeScore:
    def known(value: float) -> float | None:
        return None if np.isnan(value) else float(value)

    parts = {name: known(part[index]) for name, part in ranked.parts.items()}
    return NodeScore(columns.names[index], known(ranked.total[index]), parts)


def unavailable(nodes: int, found: Found) -> str:
    """As kube-scheduler says it: the most frequent reason is not first, but the first by name."""
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in found.refusals.items()))
    fits = int(np.count_nonzero(found.fits))
    bound = found.bound
    if bound is not None and fits:
        return f"{fits}/{nodes} nodes would take it, none that matches {bound.why}"
    told = f"0/{nodes} nodes are available"
    return f"{told}: {reasons}" if reasons else told
