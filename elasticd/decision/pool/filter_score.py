"""Filters and scores a pool's nodes for one pod: where it fits, what it is bound to, and how good each node is."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from elasticd.decision.pool.asking import PoolCase
from elasticd.kit.node_selection import lasting
from elasticd.kit.node_table import NodeTable
from elasticd.model.moves import is_copy
from elasticd.model.placement import FORCED, Column, Mask, Mend, NodeScore, Refusal, Selection
from elasticd.model.workload import Failure, Pod

SHOWN = 3
"""How many of the compared nodes a decision names."""

UNBOUND = "node(s) didn't match its binding"

FLEETING = "node(s) had a NoExecute taint that it tolerates only for a time"


class Scored(Struct, frozen=True, eq=False):
    """The sum of all scores, NaN where nothing is known, and each strategy's part."""

    total: Column
    parts: dict[str, Column]
    failures: tuple[Failure, ...] = ()

    def best(self, allowed: Mask, columns: NodeTable) -> list[int]:
        """The best nodes, best first. Where the score is not known it is the worst; equal ones go by the room left,
        then by name."""
        places = np.flatnonzero(allowed)
        scores = np.nan_to_num(self.total[places], nan=-np.inf)
        if len(places) > 2 * SHOWN:
            least = np.partition(scores, -SHOWN)[-SHOWN]
            top = scores >= least
            places, scores = places[top], scores[top]
        order = np.lexsort((places, -_room_left(places, columns), -scores))
        return [int(places[index]) for index in order[:SHOWN]]

    def first(self, allowed: Mask, columns: NodeTable) -> int:
        """The best allowed node; at least one must be allowed."""
        scores = np.where(allowed, self.total, np.nan)
        most = np.fmax.reduce(scores)
        places = np.flatnonzero(allowed if np.isnan(most) else scores == most)
        return int(places[np.argmax(_room_left(places, columns))] if len(places) > 1 else places[0])

    def shown(self, index: int, columns: NodeTable) -> NodeScore:

        def known(value: float) -> float | None:
            return None if np.isnan(value) else float(value)

        parts = {name: known(part[index]) for name, part in self.parts.items()}
        return NodeScore(columns.names[index], known(self.total[index]), parts)


class Filtered(Struct, frozen=True, eq=False):
    """Where a pod fits, where it would if fewer pods were there (`curable`), what it is bound to, how many nodes refuse
    it by reason, and their scores."""

    pod: Pod
    fits: Mask
    curable: Mask
    counts: dict[str, int]
    bound: Selection | None = None
    failures: tuple[Failure, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    ranked: Scored = Scored(np.zeros(0, dtype=np.float64), {})
    """Without scores where no node is to be chosen."""

    def allowed(self) -> Mask:
        """Where it may go: where it fits, of the nodes it is bound to, if any of those counts (thesis, 4.2)."""
        bound = self.bound
        if bound is None or (bound.unmatched == "any" and not bound.nodes.any()):
            return self.fits
        within = self.fits & bound.nodes
        return self.fits if bound.full == "any" and bound.nodes.any() and not within.any() else within

    def places(self) -> tuple[Mask | None, bool]:
        """The nodes where others may be preempted for it, None for nowhere; and whether its binding asks for that."""
        bound = self.bound
        if bound is None or not bound.nodes.any() or bound.full == "any":
            return self.curable, False
        return (self.curable & bound.nodes, True) if bound.full in FORCED else (None, False)

    def only_where(self, other: "Filtered", reason: str) -> "Filtered":
        """The same, but that nodes also refuse the pod, for this reason, that do so by the other one."""
        refused = self.fits & ~other.fits
        if not refused.any() and not (self.curable & ~other.fits & ~other.curable).any():
            return replace(self, failures=self.failures + other.failures)
        refusals = (*self.refusals, Refusal(reason, refused))
        return replace(
            self,
            fits=self.fits & other.fits,
            curable=self.curable & (other.fits | other.curable),
            counts=_count_by_reason(refusals),
            failures=self.failures + other.failures,
            refusals=refusals,
        )

    def missing(self, node: int) -> dict[str, int]:
        """What filters say that this node lacks for the pod, beyond what the pods there request; the most of
        several."""
        lacks: dict[str, int] = {}
        for refusal in self.refusals:
            for name, lack in refusal.missing.items() if refusal.nodes[node] else ():
                if lack[node] > lacks.get(name, 0):
                    lacks[name] = int(lack[node])
        return lacks

    def unavailable(self) -> str:
        """Why it may go nowhere, in one line: the reasons in the order of their texts."""
        reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in self.counts.items()))
        text = f"0/{len(self.fits)} nodes are available"
        text = f"{text}: {reasons}" if reasons else text
        return text if self.bound is None else f"{text}; it is bound to {self.bound.why}"


def look(case: PoolCase, pod: Pod) -> Filtered:
    """Filter the nodes for a pod: what is against each, and what the pod is bound to."""
    selections = case.ask("select_nodes", pod=pod)
    bound = _intersect([selection for _, selection in selections.values])
    refusals, failures = _refusals_for(case, pod, bound)
    size = len(case.columns.names)
    cured, refused = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
    for refusal in refusals:
        (cured if refusal.curable else refused).__ior__(refusal.nodes)
    fits = ~(cured | refused)
    if bound is not None and (bound.nodes.any() or bound.unmatched == "wait"):
        refusals.append(Refusal(UNBOUND, fits & ~bound.nodes, mends=(Mend(f"nodes match {bound.match or bound.why}"),)))
    failures += selections.failures
    return Filtered(pod, fits, cured & ~refused, _count_by_reason(refusals), bound, failures, tuple(refusals))


def _refusals_for(case: PoolCase, pod: Pod, bound: Selection | None) -> tuple[list[Refusal], tuple[Failure, ...]]:
    """The refusals of filters, as they count for a pod with this binding; and who failed."""
    answers = case.ask("filter_nodes", pod=pod)
    refusals = [refusal for _, refusals in answers.values for refusal in refusals]
    if is_copy(pod):
        refusals += _fleeting(case, pod, refusals)
    if bound is not None:  # a refusal that yields does not count on nodes the pod is bound to
        refusals = [
            replace(refusal, nodes=refusal.nodes & ~bound.nodes) if refusal.yields else refusal for refusal in refusals
        ]
    return refusals, answers.failures


def _fleeting(case: PoolCase, pod: Pod, refusals: Sequence[Refusal]) -> list[Refusal]:
    """Refuse the nodes where Kubernetes would delete a copy of an evicted pod, which nothing would create again; but
    those that are refused for good."""
    fleeting = ~lasting(pod.needs, case.columns)
    for refusal in refusals:
        fleeting &= refusal.curable | refusal.yields | ~refusal.nodes
    mend = Mend("nodes lose the taints that it tolerates only for a time")
    return [Refusal(FLEETING, fleeting, mends=(mend,))] if fleeting.any() else []


def fits_without(
    case: PoolCase, filtered: Filtered, node: int, victims: Iterable[Pod] = (), less: Mapping[str, int] | None = None
) -> bool:
    """Whether all filters accept a node for a pod once these victims and those already leaving have gone, and the
    others request so much `less`."""
    going = [resident for resident in case.columns.pods(node) if resident.deleted]
    with case.columns.without(node, (*victims, *going), less or {}):
        refusals, failures = _refusals_for(case, filtered.pod, filtered.bound)
        return not failures and not any(refusal.nodes[node] for refusal in refusals)


def rank(case: PoolCase, pod: Pod, fits: Mask) -> Scored:
    """Score all nodes for a pod. `fits`: those that are to be compared."""
    answers = case.ask("score_nodes", pod=pod, fits=fits)
    parts = {
        name: scores.values if scores.weight == 1 else scores.weight * scores.values for name, scores in answers.values
    }
    zeros = np.zeros(len(case.columns.names), dtype=np.float64)
    return Scored(reduce(np.add, parts.values()) if parts else zeros, parts, answers.failures)


def _room_left(places: NDArray[np.intp], columns: NodeTable) -> Column:
    """The free cpu of nodes plus their free memory, in cores and GiB, so that the larger of two empty nodes has
    more."""
    room = np.zeros(len(places), dtype=np.float64)
    for resource, unit in (("cpu", 1000.0), ("memory", 2.0**30)):
        room += (columns.allocatable(resource)[places] - columns.requested(resource)[places]) / unit
    return room


def _intersect(selections: Sequence[Selection]) -> Selection | None:
    """Combine several bindings: the nodes that all of them allow, and the strictest option of each kind."""
    if len(selections) <= 1:
        return selections[0] if selections else None
    nodes = np.logical_and.reduce([selection.nodes for selection in selections])
    wait = "wait" if any(selection.unmatched == "wait" for selection in selections) else "any"
    full = next(
        (kind for kind in ("wait", *FORCED, "any") if any(selection.full == kind for selection in selections)), "wait"
    )
    why, match = (
        "; ".join(texts)
        for texts in zip(*((selection.why, selection.match or selection.why) for selection in selections), strict=True)
    )
    fault = next((selection.fault for selection in selections if selection.fault), "")
    return Selection(nodes, why, wait, full, fault, match)  # type: ignore[arg-type]


def _count_by_reason(refusals: Iterable[Refusal]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for refusal in refusals:
        if count := int(np.count_nonzero(refusal.nodes)):
            counts[refusal.reason] = counts.get(refusal.reason, 0) + count
    return counts
