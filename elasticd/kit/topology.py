"""Pods counted by the values of a label of nodes, such as zones: for spread constraints and inter-pod affinity.

Pure. Knows which pods and nodes count as kube-scheduler counts them; knows nothing of refusals and scores.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from functools import reduce
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from elasticd.base.memo import Memo
from elasticd.kit.node_selection import BothNodes, ByNeeds, every_node, selected, tolerated
from elasticd.model.placement import Mask, Nodes, Whole
from elasticd.model.pod_spec import Expression, Needs, PodPreference, PodTerm, TopologySpread
from elasticd.model.workload import Node, Pod

HOSTNAME = "kubernetes.io/hostname"

R = TypeVar("R", PodTerm, PodPreference)


class PodCounts(Struct, frozen=True, eq=False):
    """Counts of pods on each node of a pool, and on each node outside it; None: there is no such node."""

    here: Whole
    outside: Whole | None = None


class Domains(Struct, frozen=True, eq=False):
    """The values of a label: for each node the number of its value, from 1 on; 0 where it has not the label."""

    of_node: Whole
    of_outside: Whole
    """The same for the nodes outside the pool."""
    size: int
    """The numbers there are, with 0."""
    labelled: Mask

    def sums(self, counts: PodCounts) -> Whole:
        """For each node of the pool, the sum of these counts over all nodes with its value; 0 where it has not the
        label."""
        return self.totals(counts)[self.of_node]

    def totals(self, counts: PodCounts) -> Whole:
        """The sum of these counts by number of the value; of 0 it is 0."""
        totals: Whole = np.bincount(self.of_node, weights=counts.here, minlength=self.size).astype(np.int64)
        if counts.outside is not None:
            totals += np.bincount(self.of_outside, weights=counts.outside, minlength=self.size).astype(np.int64)
        totals[0] = 0
        return totals

    def present(self, nodes: Mask, outside: Mask | None = None) -> Mask:
        """The numbers of values that some of these nodes of the pool, or of those outside it, have."""
        present = np.zeros(self.size, dtype=np.bool_)
        present[self.of_node[nodes]] = True
        if outside is not None:
            present[self.of_outside[outside]] = True
        present[0] = False
        return present


def _domains(label: str, nodes: tuple[Node, ...], outside: tuple[Node, ...]) -> Domains:
    numbers: dict[str | None, int] = {None: 0}

    def numbered(those: tuple[Node, ...]) -> Whole:
        values = (node.labels.get(label) for node in those)
        return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)

    of_node, of_outside = numbered(nodes), numbered(outside)
    return Domains(of_node, of_outside, len(numbers), of_node > 0)


_by_label = BothNodes(_domains)


def domains(label: str, nodes: Nodes) -> Domains:
    """The values of a label of these nodes and of those outside; memoized while they do not change."""
    return _by_label(label, nodes)


def count_pods(
    key: Hashable, weigh: Callable[[Pod], int], nodes: Nodes, namespaces: Collection[str] | None = None
) -> PodCounts:
    """The sums that `Nodes.total` gives, for these nodes and those outside."""
    outside = nodes.outside
    return PodCounts(
        nodes.total(key, weigh, namespaces), None if outside is None else outside.total(key, weigh, namespaces)
    )


def matching_pods(
    key: Hashable, rules: Callable[[Pod], bool], nodes: Nodes, namespaces: Collection[str] | None = None
) -> PodCounts:
    """How many pods on each node obey rules that this key stands for."""
    return count_pods(("pods", key), lambda pod: int(rules(pod)), nodes, namespaces)


def selected_by(home: str, term: PodTerm, nodes: Nodes) -> Callable[[Pod], bool]:
    """Whether a term of a pod in the namespace `home` selects a pod."""
    if term.among is None:
        return lambda pod: term.selects(home, pod.namespace, pod.labels)
    return lambda pod: term.selects(home, pod.namespace, pod.labels, nodes.namespace(pod.namespace))


def spaces_of(home: str, terms: Sequence[PodTerm]) -> Collection[str] | None:
    """The namespaces of the pods that any of these terms may select; None: any."""
    if any(term.namespaces is None or term.among is not None for term in terms):
        return None
    return {name for term in terms for name in (term.namespaces or (home,))}


def near(home: str, term: PodTerm, nodes: Nodes) -> tuple[Whole, Whole]:
    """How many pods that a term selects are on each node, and on all nodes with the same value of its label."""
    counts = matching_pods((home, term), selected_by(home, term, nodes), nodes, spaces_of(home, (term,)))
    return counts.here, domains(term.topology, nodes).sums(counts)


def holders(home: str, term: PodTerm, nodes: Nodes) -> PodCounts:
    """How many pods in the namespace `home` on each node have this term in their required anti-affinity."""
    return count_pods(("repels", home, term), lambda pod: int(term in pod.needs.repels), nodes, (home,))


def concerning(rules: Collection[tuple[str, R]], pod: Pod, nodes: Nodes) -> list[tuple[str, R]]:
    """Of the terms, or preferences, that pods on the nodes have, those that select a pod; each with its home."""
    if not rules:
        return []
    own, cached = nodes.namespace(pod.namespace), _by_labels(id(rules), rules)
    key = pod.namespace, id(pod.labels)
    found = cached.get(key)
    if found is None or found[0] is not pod.labels or found[1] != own:
        by_home: dict[str, list[tuple[str, R]]] = _by_namespace(id(rules), rules)
        selected: list[tuple[str, R]] = [
            (home, rule)
            for home, rule in (*by_home.get(pod.namespace, ()), *by_home.get("", ()))
            if _term_of(rule).selects(home, pod.namespace, pod.labels, own)
        ]
        found = cached[key] = pod.labels, own, selected  # the labels are held, so that their identity stays their own
    return found[2]


def _term_of(rule: PodTerm | PodPreference) -> PodTerm:
    return rule if isinstance(rule, PodTerm) else rule.term


def _group(_: int, rules: Collection[tuple[str, Any]]) -> dict[str, list[tuple[str, Any]]]:
    """Rules by the namespace that they may select; those that may select several by the empty name."""
    groups: dict[str, list[tuple[str, Any]]] = {}
    for home, rule in rules:
        spaces = spaces_of(home, (_term_of(rule),))
        for name in ("",) if spaces is None else spaces:
            groups.setdefault(name, []).append((home, rule))
    return groups


_by_namespace = Memo(_group, most=16)
_by_labels: Memo[int, object, dict[tuple[str, int], tuple[Any, Any, list[Any]]]] = Memo(lambda _, __: {}, most=16)
"""For each collection of rules what `concerning` found: pods of one controller share their labels."""


class SpreadDefault(Struct, frozen=True, forbid_unknown_fields=True):
    """A spread constraint for pods that have none of their own."""

    topology: Annotated[str, Meta(min_length=1, description="label of nodes")]
    max_skew: Annotated[int, Meta(ge=1, description="how many more pods one of its values may have than another")]
    hard: Annotated[bool, Meta(description="a node where that does not hold is refused; else it is only worse")] = False


Defaults = tuple[SpreadDefault, ...] | Literal["system"]
DefaultSpread = Annotated[
    Defaults,
    Meta(
        description="for pods with a controller and without constraints, which count the pods of that controller; "
        '"system": kube-scheduler\'s own, softly at most 3 more on a host and 5 more in a zone'
    ),
]

_SYSTEM = (
    TopologySpread(HOSTNAME, 3, (), hard=False, of_controller=True, needs_all=False),
    TopologySpread("topology.kubernetes.io/zone", 5, (), hard=False, of_controller=True, needs_all=False),
)


def spread_needs(pod: Pod, defaults: Defaults) -> Needs:
    """A pod's needs with the spread constraints that apply to it: its own, or these."""
    if not defaults or pod.needs.spread or not pod.owner[2]:
        return pod.needs
    return _with_defaults((defaults, id(pod.needs)), pod.needs)


def _replaced(defaults: Defaults, needs: Needs) -> Needs:
    if defaults == "system":
        return replace(needs, spread=_SYSTEM)
    spread = [TopologySpread(row.topology, row.max_skew, (), hard=row.hard, of_controller=True) for row in defaults]
    return replace(needs, spread=tuple(spread))


_with_defaults: Memo[tuple[Defaults, int], Needs, Needs] = Memo(lambda key, needs: _replaced(key[0], needs))


class Spreading(Struct, frozen=True, eq=False):
    """How pods are spread by one constraint, if the pod that has it came to each node."""

    domains: Domains
    counts: Whole
    """The pods that count, on each node."""
    there: Whole
    """The pods that count, on all nodes with the node's value."""
    fewest: int
    """The pods of the value that has the fewest."""
    own: int
    """1 if the pod itself counts, else 0."""

    @property
    def skew(self) -> Whole:
        """How many more pods the node's value would have than the one with the fewest."""
        return self.there + (self.own - self.fewest)

    @property
    def least_skew(self) -> Whole:
        """The same, if all pods that count left the node."""
        left: Whole = self.there - self.counts
        return left - np.minimum(left, self.fewest) + self.own


NONE_COUNTS = 2**31 - 1
"""The fewest pods where there is no value at all, so that nothing is refused."""


class CountingNodes(Struct, frozen=True, eq=False):
    """What counts for a spread constraint: nodes of the pool, nodes outside it, and the numbers of its label's values
    (see `Domains`)."""

    here: Mask
    outside: Mask | None
    values: Mask


def spreading(pod: Pod, spread: TopologySpread, nodes: Nodes, counted: CountingNodes) -> Spreading:
    """How a pod's constraint stands. `counted`: see `counting_nodes`."""
    values = domains(spread.topology, nodes)
    on_nodes, own = counted_pods(pod, spread, nodes)
    counts: Whole = np.where(counted.here, on_nodes.here, 0)
    outside = None
    if on_nodes.outside is not None and counted.outside is not None:
        outside = np.where(counted.outside, on_nodes.outside, 0)
    totals = values.totals(PodCounts(counts, outside))
    number = int(np.count_nonzero(counted.values))
    fewest = int(totals[counted.values].min()) if number else NONE_COUNTS
    return Spreading(values, counts, totals[values.of_node], 0 if number < spread.min_domains else fewest, own)


def counted_pods(pod: Pod, spread: TopologySpread, nodes: Nodes) -> tuple[PodCounts, int]:
    """How many pods on each node count for a pod's constraint; and 1 if the pod itself does, else 0."""
    if spread.of_controller:
        uid = pod.owner[2]
        same = matching_pods(("controller", uid), lambda other: other.owner[2] == uid and not other.deleted, nodes)
        return same, 1
    rules = spread.selector(pod.labels)
    if not rules:  # an empty selector selects the pod itself, and no other, as in current versions
        return PodCounts(np.zeros(len(nodes.names), dtype=np.int64)), int(rules is not None)
    counts = matching_pods(("spread", pod.namespace, rules), _staying(rules), nodes, (pod.namespace,))
    return counts, int(all(rule.matches(pod.labels) for rule in rules))


def _staying(rules: Sequence[Expression]) -> Callable[[Pod], bool]:
    def counts(pod: Pod) -> bool:
        return not pod.deleted and all(rule.matches(pod.labels) for rule in rules)

    return counts


def _counting(needs: Needs, nodes: Nodes) -> tuple[CountingNodes, ...]:
    """For each constraint what counts. Where it honours node affinity, which the pool's selector is a part of, only
    values that a node of the pool has do."""
    found = list[CountingNodes]()
    for spread in needs.spread:
        here = _counted(needs, spread, nodes)
        outside = None if nodes.outside is None else _counted(needs, spread, nodes.outside)
        values = domains(spread.topology, nodes).present(here, None if spread.honours_affinity else outside)
        found.append(CountingNodes(here, outside, values))
    return tuple(found)


def _counted(needs: Needs, spread: TopologySpread, nodes: Nodes) -> Mask:
    """The nodes with the labels of all constraints of a constraint's kind (hard or soft) that its policies do not
    exclude."""
    kind = [each for each in needs.spread if each.hard == spread.hard] if spread.needs_all else [spread]
    alike = [domains(each.topology, nodes).labelled for each in kind]
    return reduce(np.logical_and, alike, included(needs, spread, nodes))


def included(needs: Needs, spread: TopologySpread, nodes: Nodes) -> Mask:
    """The nodes that a constraint's policies do not exclude."""
    mask = selected(needs, nodes) if spread.honours_affinity else every_node(nodes)
    return mask & tolerated(needs.tolerations, nodes) if spread.honours_taints else mask


counting_nodes = ByNeeds(_counting)
"""For each spread constraint of a pod's needs, in their order, the nodes that count."""
