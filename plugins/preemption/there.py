"""Groups the pods of a node: those that may be evicted, those that never are and why.

Knows what can be cached for a node until one of its pods comes or goes; knows no waiting pod, and no option.
"""

from collections.abc import Iterable, Mapping, Sequence

from elasticd.api import Pod, Struct
from elasticd.kit import Memo, rooted

CLASSES: Mapping[str, int] = {"Always": 2, "OnFailure": 1, "Never": 0}
"""How important a pod is by its restartPolicy (thesis, 4.3)."""

Rank = tuple[int, int]
_MOST: Rank = (2**31, 3)
"""Above the rank of any pod."""


_FIXED = {
    "Static": "belong to their node",
    "DaemonSet": "belong to their node",
    "Critical": "are of system-critical priority",
}
"""Text for pods that are never evicted, by why they are node-bound."""


class Cause(Struct, frozen=True, gc=False):
    """What keeps pods, as a clause that follows "lesser pods", and the remedy; empty where there is none."""

    why: str
    mend: str = ""


class Group(Struct, frozen=True, gc=False):
    """Pods of a node that are equally evictable, and the lowest rank among them."""

    pods: tuple[Pod, ...]
    lowest: Rank
    lowest_class: int


def _group(pods: Iterable[Pod]) -> Group:
    pods = tuple(pods)
    ranks = [(pod.needs.priority, CLASSES[pod.needs.restart]) for pod in pods]
    kinds = [kind for _, kind in ranks]
    return Group(pods, min(ranks, default=_MOST), min(kinds, default=_MOST[1]))


class There(Struct, frozen=True, gc=False):
    """The groups of a node's pods, until one comes or goes: those that may be evicted, those that have the annotation
    do-not-disrupt, those that never are and why, and those that are being deleted."""

    movable: Group
    asking: Group
    fixed: tuple[tuple[str, Group], ...]
    leaving: tuple[Pod, ...]


def _sort_pods(name: str, pods: Sequence[Pod]) -> There:
    by_cause: dict[str, list[Pod]] = {}
    for pod in pods:
        if not pod.deleted and pod.node == name:
            by_cause.setdefault((rooted(pod) or ("",))[0], []).append(pod)
    fixed = {
        why: [pod for kind, group in by_cause.items() if _FIXED.get(kind) == why for pod in group]
        for why in _FIXED.values()
    }
    leaving = tuple(pod for pod in pods if pod.deleted)
    never = tuple((why, _group(group)) for why, group in fixed.items() if group)
    return There(_group(by_cause.get("", ())), _group(by_cause.get("DoNotDisrupt", ())), never, leaving)


there_is: Memo[str, Sequence[Pod], There] = Memo(_sort_pods)
