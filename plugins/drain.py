"""Drain: empties nodes that are cordoned, tainted for it, or marked.

Knows which nodes are to be emptied; knows nothing of what keeps a pod on its node, nor of where it goes.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np

from elasticd.api import Mask, Mend, Meta, Move, Node, Nodes, Pod, PoolStrategy, Refusal, Taint, hookimpl
from elasticd.kit import stationary

MARK = "elasticd.io/drain"
"""Label or annotation of a node that is to be emptied: "true"."""

Key = Annotated[str, Meta(min_length=1)]

_CORDONED = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


class Drain(PoolStrategy, tag="drain", frozen=True):
    """Moves all pods off nodes that are to be emptied, as far as it is safe: a pod leaves when another node has a place
    for it, within PodDisruptionBudgets and the policy's [moves]. Until then it stays, and the decision says why. No pod
    goes to another node that is to be emptied.

    A node is to be emptied if it is cordoned or being deleted, has one of `taints`, or has one of `marks`. No pod is
    placed on a marked node, which Kubernetes itself does not know to avoid. A pod that tolerates the taint by which its
    node is emptied (of a cordoned node: node.kubernetes.io/unschedulable) stays, as with Karpenter; a mark cannot be
    tolerated. Pods of DaemonSets and static pods stay and are not reported.

    Use taints with effect NoSchedule. NoExecute is Kubernetes' own eviction: it deletes at once all pods that do not
    tolerate the taint, without budgets, and nothing recreates those without a controller. One that tolerates it for
    some seconds (`tolerationSeconds`) is deleted after them: it is moved before, if there is time and a place.

    Pods of higher priority go first, as places may be few. Among equal ones those of the first node by name go first,
    and of these the largest, which are the hardest to place.

    Source: kubectl drain, without its force; Karpenter, node termination.
    """

    cordoned: Annotated[bool, Meta(description="whether nodes are emptied that are cordoned")] = True
    taints: Annotated[tuple[Key, ...], Meta(description="keys of taints by which nodes are emptied")] = (
        MARK,
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "node.cloudprovider.kubernetes.io/shutdown",
    )
    marks: Annotated[
        tuple[Key, ...],
        Meta(description='labels of nodes to be emptied, or annotations that begin with elasticd.io/: "true"'),
    ] = (MARK,)

    def __post_init__(self) -> None:
        if not self.cordoned and not self.taints and not self.marks:
            raise ValueError("cordoned: must be true where taints and marks are empty, is false")

    def reads(self) -> tuple[str, ...]:
        return ()

    def labels_of_nodes(self) -> tuple[str, ...]:
        return self.marks

    @hookimpl
    def filter_nodes(self, nodes: Nodes) -> Sequence[Refusal]:
        marked = self._matching(nodes)[1]
        mends = (Mend("nodes are no longer marked to be emptied"),)
        return [Refusal("node(s) were marked to be emptied", marked, mends=mends)] if marked.any() else []

    @hookimpl
    def rebalance_nodes(self, nodes: Nodes) -> Sequence[Move]:
        """The moves of all pods that should leave, those of higher priority first."""
        drained = self._matching(nodes)[0]
        places = np.flatnonzero(drained).tolist()
        names = frozenset(nodes.names[place] for place in places)
        moves = [move for place in places for move in self._leaving(nodes, place, names)]
        return sorted(moves, key=lambda move: -move.pod.needs.priority)

    def _matching(self, nodes: Nodes) -> tuple[Mask, Mask]:
        """The nodes that are to be emptied, and those of them that are marked."""
        key = ("drain", self.cordoned, self.taints, self.marks)
        marked = nodes.matching((*key, "marked"), lambda node: bool(self._marks(node)))
        return nodes.matching(key, lambda node: bool(self._marks(node) or self._keeping_off(node))), marked

    def _marks(self, node: Node) -> tuple[str, ...]:
        return tuple(mark for mark in self.marks if "true" in (node.labels.get(mark), node.annotations.get(mark)))

    def _keeping_off(self, node: Node) -> tuple[Taint, ...]:
        hard = tuple(taint for taint in node.taints if taint.key in self.taints and taint.effect != "PreferNoSchedule")
        return (_CORDONED, *hard) if self.cordoned and node.unschedulable else hard

    def _leaving(self, nodes: Nodes, place: int, emptied: frozenset[str]) -> Iterator[Move]:
        node = nodes.nodes[place]
        marks, taints = self._marks(node), self._keeping_off(node)
        for pod in sorted(nodes.pods(place), key=_size):
            taint = pod.needs.tolerates(taints)
            if taint is not None:
                why = "cordoned" if taint == _CORDONED else f"tainted {taint.key}"
            elif limit := pod.needs.time_limit(taints):
                why = f"tainted {limit[0].key}, which it tolerates for {limit[1]:g} s"
            elif marks:
                why = f"marked {marks[0]}"
            else:
                continue
            if not pod.deleted and not stationary(pod):
                yield Move(pod, "Drain", f"{node.name} is {why}", not_to=emptied)


def _size(pod: Pod) -> tuple[float, float, str, str]:
    requests = pod.counted
    return -requests.get("memory", 0.0), -requests.get("cpu", 0.0), pod.namespace, pod.name


@hookimpl
def register_strategies() -> list[type[PoolStrategy]]:
    return [Drain]
