"""Groups the pods of a node: those that may be evicted, those that never are and why. Cached until one changes."""

from collections.abc import Iterable, Mapping, Sequence

from elasticd.api import Pod, Struct
from elasticd.kit import Derived, rooted

CLASSES: Mapping[str, int] = {"Always": 2, "OnFailure": 1, "Never": 0}
"""How important a pod is by its restartPolicy (thesis, 4.3)."""

Rank = tuple[int, int]
_HIGHEST: Rank = (2**31, 3)
"""Above the rank of any pod."""

_FIXED = {
    "Static": "belong to their node",
    "DaemonSet": "belong to their node",
    "Critical": "are of system-critical priority",
    "Own": "are elasticd's own",
}
"""Text for pods that are never evicted, by why they are node-bound."""


class Group(Struct, frozen=True, gc=False):
    """Pods of a node that are equally evictable, and the lowest rank among them."""

    pods: tuple[Pod, ...]
    lowest: Rank
    lowest_class: int


class NodePods(Struct, frozen=True, gc=False):
    """A node's pods: those that may be evicted, those that an annotation asks to leave alone, those that never are and
    why, and those that are being deleted."""

    movable: Group
    asking: Group
    fixed: tuple[tuple[str, Group], ...]
    leaving: tuple[Pod, ...]


def _group(pods: Iterable[Pod]) -> Group:
    pods = tuple(pods)
    ranks = [(pod.needs.priority, CLASSES[pod.needs.restart]) for pod in pods]
    return Group(pods, min(ranks, default=_HIGHEST), min((kind for _, kind in ranks), default=_HIGHEST[1]))


def _group_pods(name: str, pods: Sequence[Pod]) -> NodePods:
    by_cause: dict[str, list[Pod]] = {}
    for pod in pods:
        if not pod.deleted and pod.node == name:
            by_cause.setdefault((rooted(pod) or ("",))[0], []).append(pod)
    fixed: dict[str, list[Pod]] = {}
    for kind, why in _FIXED.items():
        fixed.setdefault(why, []).extend(by_cause.get(kind, ()))
    never = tuple((why, _group(group)) for why, group in fixed.items() if group)
    leaving = tuple(pod for pod in pods if pod.deleted)
    return NodePods(_group(by_cause.get("", ())), _group(by_cause.get("DoNotDisrupt", ())), never, leaving)


node_pods: Derived[str, Sequence[Pod], NodePods] = Derived(_group_pods)
