"""Which pods go first when a count falls: the order that strategies want, as deletion costs.

Pure. Knows what a ReplicaSet looks at when it has pods to spare; knows nothing of why a count falls. The costs are
written before the count, and removed when no pod is to spare any more, also those that a crash has left behind.
"""

from collections.abc import Mapping, Sequence

from elasticd.base.memo import Memo
from elasticd.model.actions import Mark
from elasticd.model.workload import COST, HEEDING, Pod, Rank, Ref, Workload

VICTIM = "elasticd.io/victim-of"
"""The policy that has chosen the pod. A cost without it is somebody else's, and left alone."""

Ranks = Mapping[str, Mapping[str, Rank]]
"""By the name of who ranks, in the order in which they count, then by pod."""

_FIRST = -1_000_000
_LEFT_OUT = Rank(0.0)


def chosen(workload: Workload, pods: Sequence[Pod], ranks: Ranks, spare: int) -> list[Pod]:
    """The `spare` pods that go first. A ReplicaSet's own preferences come before the ranks, lowest first; the first
    rank that tells two pods apart decides. Empty for kinds whose controller would not follow it, and without ranks."""
    if workload.ref.kind not in HEEDING or not ranks:
        return []
    live = [pod for pod in pods if pod.is_active and not (COST in pod.annotations and VICTIM not in pod.annotations)]
    return sorted(
        live, key=lambda pod: (*_spared_first(pod), *(rank.value for rank in _ranks_of(ranks, pod)), pod.name)
    )[:spare]


def _ranks_of(ranks: Ranks, pod: Pod) -> list[Rank]:
    return [rank.get(pod.name, _LEFT_OUT) for rank in ranks.values()]


def _spared_first(pod: Pod) -> tuple[bool, bool, bool]:
    """Kubernetes: without a node before with one, not running before running, not ready before ready; then by cost."""
    return bool(pod.node), pod.phase == "Running", pod.ready is True


def choice(
    ref: Ref, policy: str, first: Sequence[Pod], pods: Sequence[Pod], ranks: Ranks | None = None
) -> tuple[Mark, ...]:
    """Costs for these pods, each with why, and none for others that were chosen before."""
    costs = {pod.uid: str(_FIRST + index) for index, pod in enumerate(first)}
    marks = [
        Mark(ref, pod.uid, {COST: costs[pod.uid], VICTIM: policy}, pod.name, _explain_place(index, pod, ranks or {}))
        for index, pod in enumerate(first, 1)
        if pod.annotations.get(COST) != costs[pod.uid]
    ]
    return (*marks, *(_unmark(ref, pod) for pod in _chosen_before(ref, tuple(pods)) if pod.uid not in costs))


def _explain_place(number: int, pod: Pod, ranks: Ranks) -> str:
    """The place of a pod in the order, and what each strategy that ranks says of it."""
    opinions = [
        f"{name} {rank.value:g}" + f" ({rank.why})" * bool(rank.why)
        for name, rank in zip(ranks, _ranks_of(ranks, pod), strict=True)
    ]
    return ": ".join([f"goes as number {number}", *(["; ".join(opinions)] if opinions else [])])


def leftover(workload: Workload, pods: tuple[Pod, ...]) -> tuple[Mark, ...]:
    """Remove the deletion costs of pods once none is to spare."""
    marked = _chosen_before(workload.ref, pods)
    if not marked or max(workload.status_replicas, _count_live(pods)) > workload.replicas:
        return ()
    return tuple(_unmark(workload.ref, pod) for pod in marked)


def going(workload: Workload, pods: tuple[Pod, ...]) -> int:
    """How many of the marked pods their controller has yet to delete."""
    marked = _chosen_before(workload.ref, pods)
    return min(len(marked), max(0, _count_live(pods) - workload.replicas)) if marked else 0


def _count_live(pods: Sequence[Pod]) -> int:
    return sum(pod.is_active for pod in pods)


_chosen_before: Memo[Ref, tuple[Pod, ...], tuple[Pod, ...]] = Memo(
    lambda _, pods: tuple(pod for pod in pods if VICTIM in pod.annotations and not pod.deleted)
)


def _unmark(ref: Ref, pod: Pod) -> Mark:
    return Mark(ref, pod.uid, {COST: None, VICTIM: None}, pod.name, "need not go")
