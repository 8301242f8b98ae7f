"""Which nodes a pod's own rules select: nodeSelector, node affinity, tolerations.

Pure. Masks are cached for each rule, not for each combination of rules.
Knows labels, names and taints of nodes; knows nothing of the pods on them.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable
from functools import reduce
from typing import Any, Generic, TypeVar

import numpy as np

from elasticd.base.memo import Memo
from elasticd.model.placement import Mask, Nodes
from elasticd.model.pod_spec import Expression, Needs, Term, Toleration
from elasticd.model.workload import Node

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def every_node(nodes: Nodes) -> Mask:
    """A mask of all nodes."""
    return np.ones(len(nodes.names), dtype=np.bool_)


def any_of(masks: Iterable[Mask], like: Mask) -> Mask:
    """The union of these masks."""
    return reduce(np.logical_or, masks, np.zeros_like(like))


def selected(needs: Needs, nodes: Nodes) -> Mask:
    """The nodes that match nodeSelector and required node affinity."""
    mask = every_node(nodes)
    for key, value in needs.selector.items():
        mask &= with_label(Expression(key, "In", (value,)), nodes)
    if needs.affinity is not None:
        mask &= any_of((matching(term, nodes) for term in needs.affinity), mask)
    return mask


def matching(term: Term, nodes: Nodes) -> Mask:
    """The nodes that a term matches; one without rules matches none."""
    mask = np.full(len(nodes.names), bool(term.labels or term.fields), dtype=np.bool_)
    for rule in term.labels:
        mask &= with_label(rule, nodes)
    for rule in term.fields:
        mask &= _with_name(rule, nodes)
    return mask


def with_label(rule: Expression, nodes: Nodes) -> Mask:
    """The nodes whose labels obey a rule."""
    return nodes.matching(("label", rule), lambda node: rule.matches(node.labels))


def _with_name(rule: Expression, nodes: Nodes) -> Mask:
    """The nodes with these names. Not cached, as there are as many names as nodes."""
    mask = np.full(len(nodes.names), rule.operator == "NotIn" and rule.names(""), dtype=np.bool_)
    for value in rule.values:
        position = bisect_left(nodes.names, value)
        if nodes.names[position : position + 1] == (value,):
            mask[position] = rule.names(value)
    return mask


def tolerated(tolerations: tuple[Toleration, ...], nodes: Nodes) -> Mask:
    """The nodes without a taint, of effect NoSchedule or NoExecute, that these tolerations do not tolerate."""
    needs = Needs(tolerations=tolerations)
    return nodes.matching(("tolerated", tolerations), lambda node: needs.tolerates(node.taints) is None)


def lasting(needs: Needs, nodes: Nodes) -> Mask:
    """The nodes without a taint that is tolerated only for a time, after which Kubernetes deletes the pod."""
    if all(toleration.seconds is None for toleration in needs.tolerations):
        return every_node(nodes)
    return nodes.matching(("lasting", needs.tolerations), lambda node: needs.time_limit(node.taints) is None)


class BothNodes(Generic[K, T]):
    """Memoizes a pure function of a key, a pool's nodes as such, and those outside, while both are the same."""

    def __init__(self, function: Callable[[K, tuple[Node, ...], tuple[Node, ...]], T], most: int = 64) -> None:
        def by_outside(key: K, nodes: tuple[Node, ...]) -> Memo[str, tuple[Node, ...], T]:
            return Memo(lambda _, outside: function(key, nodes, outside))

        self._cached = Memo(by_outside, most)

    def __call__(self, key: K, nodes: Nodes) -> T:
        return self._cached(key, nodes.nodes)("", () if nodes.outside is None else nodes.outside.nodes)


class ByNeeds(Generic[T]):
    """Memoizes a pure function of what a pod needs and of the nodes as such, by the identities of both."""

    def __init__(self, function: Callable[[Needs, Nodes], T], most: int = 1024) -> None:
        self._function, self._most = function, most
        self._cached = BothNodes[str, dict[int, tuple[Any, T]]](lambda *_: {})

    def __call__(self, needs: Needs, nodes: Nodes) -> T:
        cached = self._cached("", nodes)
        found = cached.get(id(needs))
        if found is None or found[0] is not needs:
            if len(cached) >= self._most:
                cached.clear()
            found = cached[id(needs)] = needs, self._function(needs, nodes)  # held, so that its identity stays its own
        return found[1]
