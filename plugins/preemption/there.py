"""Who is on a node: those that may have to go, those that never go, and why.

Knows what is kept of a node until one of its pods comes or goes; knows no pod that waits, and no option.
"""

from collections.abc import Iterable, Mapping, Sequence

from elasticd.api import Pod, Struct
from elasticd.kit import Derived, rooted

CLASSES: Mapping[str, int] = {"Always": 2, "OnFailure": 1, "Never": 0}
"""How much a pod matters by its restartPolicy (thesis, 4.3)."""

Rank = tuple[int, int]
_MOST: Rank = (2**31, 3)
"""More than any pod matters."""


_FIXED = {
    "Static": "belong to their node",
    "DaemonSet": "belong to their node",
    "Critical": "are of system-critical priority",
}
"""What keeps pods that never go, whoever wants it, by why they are rooted."""


class Cause(Struct, frozen=True, gc=False):
    """What keeps pods, in a clause that follows "lesser pods", and what would have to be otherwise for it not to; empty
    where nothing can be."""

    why: str
    mend: str = ""


class Group(Struct, frozen=True, gc=False):
    """Pods of a node that are alike in whether they may go, and how much the least of them matters."""

    pods: tuple[Pod, ...]
    lowest: Rank
    lowest_class: int


def _group(pods: Iterable[Pod]) -> Group:
    pods = tuple(pods)
    ranks = [(pod.needs.priority, CLASSES[pod.needs.restart]) for pod in pods]
    kinds = [kind for _, kind in ranks]
    return Group(pods, min(ranks, default=_MOST), min(kinds, default=_MOST[1]))


class There(Struct, frozen=True, gc=False):
    """What does not change on a node until a pod comes or goes: who may ever have to go, who asked to be left alone,
    who never goes and why, and who is leaving."""

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


there_is: Derived[str, Sequence[Pod], There] = Derived(_sort_pods)
