"""Pods on nodes, grouped by all that a rule about pods can tell apart, so that few questions count thousands.

Pods of one controller share their labels and needs, so there are about as many groups as templates. Knows pods and the
numbers of nodes; knows no rule.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from elasticd.model.placement import Whole
from elasticd.model.workload import Pod

Likeness = tuple[str, int, int, str, bool]
"""What pods of a group have in common: namespace, labels, needs, controller, and whether they are being deleted."""


def likeness(pod: Pod) -> Likeness:
    """The key of a pod's group. It is valid as long as somebody holds a pod of the group."""
    return pod.namespace, id(pod.labels), id(pod.needs), pod.owner[2], pod.deleted


class Group:
    """Pods that are alike: one of them, and how many there are by the index of their node."""

    __slots__ = ("counts", "pod")

    def __init__(self, pod: Pod, counts: dict[int, int]) -> None:
        self.pod, self.counts = pod, counts


Groups = dict[Likeness, Group]

_FEW = 32
"""Nodes of a group up to which a loop is faster than arrays."""


class PodIndex:
    """The pods on a number of nodes, by group. It never changes: `after` makes another that shares what is the same."""

    def __init__(self, pods: Sequence[Sequence[Pod]], by_namespace: dict[str, Groups], with_terms: Groups) -> None:
        self._pods, self._by_namespace, self._with_terms = pods, by_namespace, with_terms

    @classmethod
    def empty(cls, nodes: int) -> "PodIndex":
        return cls([()] * nodes, {}, {})

    def after(self, pods: Sequence[Sequence[Pod]]) -> "PodIndex":
        """The index of these pods by node: only nodes with another sequence than before are counted again."""
        changed = [index for index, (old, new) in enumerate(zip(self._pods, pods, strict=True)) if old is not new]
        if not changed:
            return self
        known, changes = dict[Likeness, Pod](), dict[Likeness, dict[int, int]]()
        for index in changed:
            for sign, residents in ((-1, self._pods[index]), (1, pods[index])):
                for pod in residents:
                    key = likeness(pod)
                    known[key] = pod
                    by_node = changes.setdefault(key, {})
                    by_node[index] = by_node.get(index, 0) + sign
        return self._changed(pods, known, changes)

    def _changed(
        self, pods: Sequence[Sequence[Pod]], known: dict[Likeness, Pod], changes: dict[Likeness, dict[int, int]]
    ) -> "PodIndex":
        by_namespace, with_terms = dict(self._by_namespace), dict(self._with_terms)
        copied, fresh = set[str](), set[Likeness]()
        for key, by_node in changes.items():
            if not any(by_node.values()):
                continue
            if key[0] not in copied:
                copied.add(key[0])
                by_namespace[key[0]] = dict(by_namespace.get(key[0], {}))
            groups = by_namespace[key[0]]
            fresh.add(key)
            before = groups.get(key)
            groups[key] = Group(before.pod if before else known[key], _sum(before.counts if before else {}, by_node))
        for key in fresh:
            group = by_namespace[key[0]][key]
            if not group.counts:
                del by_namespace[key[0]][key]
                with_terms.pop(key, None)
            elif group.pod.needs.has_pod_terms:
                with_terms[key] = group
        return PodIndex(list(pods), by_namespace, with_terms)

    def with_terms(self) -> Iterator[Pod]:
        """A pod of each group that has terms about other pods."""
        return (group.pod for group in self._with_terms.values())

    def total(self, weigh: Callable[[Pod], int], namespaces: Collection[str] | None) -> Whole:
        """For each node the sum of what its pods weigh; those of these namespaces alone, None: of all."""
        column = np.zeros(len(self._pods), dtype=np.int64)
        for group in self._groups(namespaces):
            if weight := weigh(group.pod):
                _add(column, group.counts, weight)
        return column

    def _groups(self, namespaces: Collection[str] | None) -> Iterable[Group]:
        if namespaces is None:
            return chain.from_iterable(groups.values() for groups in self._by_namespace.values())
        return chain.from_iterable(self._by_namespace.get(name, {}).values() for name in namespaces)


def _sum(counts: dict[int, int], changes: dict[int, int]) -> dict[int, int]:
    """These counts with these changes, without those that become zero."""
    changed = dict(counts)
    for index, change in changes.items():
        changed[index] = changed.get(index, 0) + change
        if not changed[index]:
            del changed[index]
    return changed


def _add(column: Whole, counts: dict[int, int], weight: int) -> None:
    if len(counts) <= _FEW:
        for index, count in counts.items():
            column[index] += weight * count
        return
    size = len(counts)
    places = np.fromiter(counts.keys(), dtype=np.intp, count=size)
    column[places] += weight * np.fromiter(counts.values(), dtype=np.int64, count=size)


class IndexHolder:
    """The latest index of a pool's pods, from one node table to the next. It is made when somebody first asks."""

    def __init__(self, nodes: int) -> None:
        self._index = PodIndex.empty(nodes)

    def of(self, pods: Sequence[Sequence[Pod]]) -> PodIndex:
        index = self._index = self._index.after(pods)
        return index
