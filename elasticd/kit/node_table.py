"""A pool's nodes as columns of numbers, so that thousands are looked at at once.

Knows nodes, the pods on them and what they are promised within one plan; knows nothing of rules or scores. What did not
change from one plan to the next is not counted again.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil, nan
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from elasticd.base.memo import Memo
from elasticd.base.units import milli
from elasticd.kit.pod_index import IndexHolder, Likeness, likeness
from elasticd.kit.volume_view import VolumeView
from elasticd.model.placement import Column, Mask, Whole
from elasticd.model.pod_spec import PodPreference, PodTerm
from elasticd.model.workload import Node, Pod

ESTIMATE: Mapping[str, float] = {"cpu": 0.85, "memory": 0.70}
"""Of what a pod requests, how much it is thought to use before that is known (Koordinator's load-aware scheduling)."""

ASSUMED: Mapping[str, int] = {"cpu": 100, "memory": 200 * 2**20}
"""What a pod that requests none of a resource counts for where nodes are compared, in thousandths of a core and bytes
(kube-scheduler, GetNonzeroRequests). Otherwise any number of such pods would go to one node."""

PODS = "pods"

T = TypeVar("T", bound=NDArray[Any])

LARGEST = 10**15
"""What an amount counts for at most: a petabyte, a million million cores. 9,000 of them fit in a column together."""


def whole(resource: str, amount: float) -> int:
    """An amount as kube-scheduler counts it: thousandths of a core, ones of all else; rounded up, LARGEST at most."""
    return min(LARGEST, milli(amount) if resource == "cpu" else ceil(amount))


def _whole(_: int, requests: Mapping[str, float]) -> Mapping[str, int]:
    return {**{resource: whole(resource, amount) for resource, amount in requests.items()}, PODS: 1}


_amounts: Memo[int, Mapping[str, float], Mapping[str, int]] = Memo(_whole)
"""Memoized by the requests' identity: pods of one template share them."""


def needed(pod: Pod) -> Mapping[str, int]:
    """What a pod takes of its node: what it requests, and one of `pods`. Not to be changed."""
    requests = pod.counted
    return _amounts(id(requests), requests)


def weighed(pod: Pod, resource: str) -> int:
    """What a pod counts for where nodes are compared: its request, or what is assumed of one that has none."""
    if resource == PODS:
        return 1
    return whole(resource, pod.counted.get(resource, 0.0)) or ASSUMED.get(resource, 0)


def estimated(pod: Pod, series: str) -> float:
    """What a pod that is not measured yet is estimated to use, in cores or bytes; 0 for any other series."""
    if series not in ESTIMATE:
        return 0.0
    request = pod.counted.get(series, 0.0)
    return ESTIMATE[series] * request if request else ASSUMED[series] / (1000 if series == "cpu" else 1)


class _Frame:
    """The cache while nodes do not change: records, allocatable resources, and masks of tests."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.nodes = nodes
        self.names = tuple(node.name for node in nodes)
        self.index = {name: place for place, name in enumerate(self.names)}
        self.masks: dict[Hashable, Mask] = {}
        self._allocatable: dict[str, Whole] = {}

    def allocatable(self, resource: str) -> Whole:
        column = self._allocatable.get(resource)
        if column is None:
            amounts = [whole(resource, node.allocatable.get(resource, 0.0)) for node in self.nodes]
            column = self._allocatable[resource] = _freeze(np.array(amounts, dtype=np.int64))
        return column


class NodeTableBuilder:
    """Builds node tables from one plan to the next: only nodes whose pods changed are counted again."""

    def __init__(self) -> None:
        self._frame = _Frame(())
        self._pods: list[Sequence[Pod]] = []
        self._special: list[tuple[Pod, ...]] = []
        self._sums: list[dict[str, int]] = []
        self._requested: dict[str, Whole] = {}
        self._siblings: dict[str, int] = {}
        self._with_terms: list[bool] = []
        self._with_claims: list[bool] = []
        self._holder = IndexHolder(0)

    def columns(
        self,
        nodes: tuple[Node, ...],
        pods: Mapping[str, Sequence[Pod]],
        use: Mapping[str, Mapping[str, float]] | None = None,
        peaks: Mapping[str, Mapping[str, float]] | None = None,
        measured: Mapping[str, Mapping[str, float]] | None = None,
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
    ) -> "NodeTable":
        """The table of these nodes. `pods`: those on each, by node's name, the same sequence while nothing changed.
        `use` and `peaks`: what each node uses, by series and node. `measured`: `use` without estimates, where it
        differs. `namespaces`: the labels of each, None where they are not known."""
        if nodes != self._frame.nodes:
            self._renew(nodes)
        for index, name in enumerate(self._frame.names):
            residents = pods.get(name, ())
            if residents is not self._pods[index]:
                self._count(index, residents)
        requested = {resource: column.copy() for resource, column in self._requested.items()}
        use_by_kind = {"use": use or {}, "peak": peaks or {}, "measured": (use if measured is None else measured) or {}}
        pods_on_nodes = PodsOnNodes(
            list(self._pods), list(self._special), self._holder, any(self._with_terms), any(self._with_claims)
        )
        return NodeTable(self._frame, requested, pods_on_nodes, use_by_kind, dict(self._siblings), namespaces)

    def _renew(self, nodes: tuple[Node, ...]) -> None:
        """Begin anew, with the counts of pods where only what is known of the nodes has changed."""
        names, self._frame = self._frame.names, _Frame(nodes)
        if names == self._frame.names:
            return
        self._pods, self._special = [()] * len(nodes), [()] * len(nodes)
        self._sums, self._requested, self._siblings = [{}] * len(nodes), {}, {}
        self._with_terms, self._with_claims = [False] * len(nodes), [False] * len(nodes)
        self._holder = IndexHolder(len(nodes))

    def _count(self, index: int, pods: Sequence[Pod]) -> None:
        self._count_siblings(self._pods[index], -1)
        self._count_siblings(pods, 1)
        self._pods[index], self._special[index] = pods, tuple([pod for pod in pods if _special(pod)])
        self._with_terms[index] = any(pod.needs.has_pod_terms for pod in pods)
        self._with_claims[index] = any(pod.volume_claims for pod in self._special[index])
        sums = dict.fromkeys(self._sums[index], 0)
        for pod in pods:
            for resource, amount in _taken(pod).items():
                sums[resource] = sums.get(resource, 0) + amount
        self._sums[index] = sums
        for resource, amount in sums.items():
            if resource not in self._requested:
                self._requested[resource] = np.zeros(len(self._frame.nodes), dtype=np.int64)
            self._requested[resource][index] = amount

    def _count_siblings(self, pods: Sequence[Pod], sign: int) -> None:
        siblings = self._siblings
        for pod in pods:
            if pod.ready and not pod.deleted and (uid := pod.owner[2]):
                count = siblings[uid] = siblings.get(uid, 0) + sign
                if not count:
                    del siblings[uid]


class PodsOnNodes(NamedTuple):
    """The pods on each node, and of those the ones with ports, disks or claims, or that repel others; what indexes
    them; and whether any has terms about other pods, and any has claims."""

    all: list[Sequence[Pod]]
    special: list[tuple[Pod, ...]]
    holder: IndexHolder
    with_terms: bool
    with_claims: bool


class NodeTable:
    """The nodes within one plan: see placement.Nodes. `take`, `release`, `leave`, `without` are the planner's."""

    def __init__(
        self,
        frame: _Frame,
        requested: dict[str, Whole],
        pods: PodsOnNodes,
        use_by_kind: Mapping[str, Mapping[str, Mapping[str, float]]],
        siblings: Mapping[str, int],
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """`use_by_kind`: by kind (use, peak, measured), series and node. `siblings`: by controller. `namespaces`: the
        labels of each."""
        self.names, self.nodes = frame.names, frame.nodes
        self._frame, self._requested = frame, requested
        self._pods, self._special, self._holder, self._with_terms, self.with_claims = pods
        self._use_by_kind, self._siblings, self._namespaces = use_by_kind, siblings, namespaces
        self.volumes: VolumeView | None = None
        """Set by who knows that a pod needs them."""
        self.outside: NodeTable | None = None
        """Set by who knows that there are other nodes."""
        self._columns: dict[tuple[str, str], Column] = {}
        self._views: dict[tuple[str, str], Column] = {}
        self._promised: dict[str, tuple[int, Pod]] = {}
        self._used: dict[str, Mapping[str, float]] = {}
        self._holding: dict[Hashable, Mask] = {}
        self._tests: dict[Hashable, Callable[[Pod], bool]] = {}
        self._rules: dict[str, frozenset[tuple[str, Any]]] = {}
        self._totals: dict[Hashable, _Total] = {}
        self._weights: dict[Likeness, tuple[Pod, list[tuple[_Total, int]]]] = {}

    def index(self, name: str) -> int | None:
        return self._frame.index.get(name)

    def with_node(self, name: str) -> "tuple[NodeTable, int] | None":
        """The table that has a node, this or that of the nodes outside, and its index there; None: there is none."""
        if (index := self.index(name)) is not None:
            return self, index
        return self.outside.with_node(name) if self.outside is not None else None

    def allocatable(self, resource: str) -> Whole:
        return self._frame.allocatable(resource)

    def requested(self, resource: str) -> Whole:
        return _read_only(self._own(resource))

    def weighed(self, resource: str) -> Whole:
        assumed = self._requested.get(_ASSUMED + resource)
        return self.requested(resource) if assumed is None else _freeze(self._own(resource) + assumed)

    def leaving(self, resource: str) -> Whole:
        return _read_only(self._own(_LEAVING + resource))

    def _own(self, resource: str) -> Whole:
        column = self._requested.get(resource)
        if column is None:
            column = self._requested[resource] = np.zeros(len(self.nodes), dtype=np.int64)
        return column

    def use(self, series: str) -> Column:
        return self._view("use", series)

    def peak(self, series: str) -> Column:
        return self._view("peak", series)

    def measured(self, series: str) -> Column:
        return self._view("measured", series)

    def _view(self, kind: str, series: str) -> Column:
        view = self._views.get((kind, series))
        if view is None:
            view = self._views[kind, series] = _read_only(self._column(kind, series))
        return view

    def _column(self, kind: str, series: str) -> Column:
        column = self._columns.get((kind, series))
        if column is None:
            by_node = self._use_by_kind[kind].get(series, {})
            column = np.array([by_node.get(name, nan) for name in self.names], dtype=np.float64)
            if kind != "measured":
                for index, pod in self._promised.values():
                    column[index] += self._use_of(pod, series)
            self._columns[kind, series] = column
        return column

    def matching(self, key: Hashable, test: Callable[[Node], bool]) -> Mask:
        mask = self._frame.masks.get(key)
        if mask is None:
            if len(self._frame.masks) >= _KEPT:
                self._frame.masks.clear()
            mask = self._frame.masks[key] = _freeze(_mask([test(node) for node in self.nodes]))
        return mask

    def pods(self, index: int) -> Sequence[Pod]:
        return self._pods[index]

    def siblings(self, controller: str) -> int:
        return self._siblings.get(controller, 0)

    def holding(self, key: Hashable, test: Callable[[Pod], bool]) -> Mask:
        mask = self._holding.get(key)
        if mask is None:
            self._tests[key] = test
            mask = self._holding[key] = _mask([any(map(test, pods)) for pods in self._special])
        return _read_only(mask)

    def claiming(self, index: int) -> Sequence[Pod]:
        return [pod for pod in self._special[index] if pod.volume_claims]

    def repels(self) -> Collection[tuple[str, PodTerm]]:
        return self._rules_of("repels")

    def attracts(self) -> Collection[tuple[str, PodTerm]]:
        return self._rules_of("attracts")

    def prefers(self) -> Collection[tuple[str, PodPreference]]:
        return self._rules_of("prefers")

    def _rules_of(self, kind: str) -> frozenset[Any]:
        if (rules := self._rules.get(kind)) is None:
            rules = self._rules[kind] = frozenset(
                rule for table in filter(None, (self, self.outside)) for rule in table.own_rules(kind)
            )
        return rules

    def own_rules(self, kind: str) -> Iterator[tuple[str, Any]]:
        """The terms, or preferences, of pods on these nodes alone, each with its home."""
        for pod in self._holder.of(self._pods).with_terms() if self._with_terms else ():
            yield from _rules(pod, kind)

    def total(self, key: Hashable, weigh: Callable[[Pod], int], namespaces: Collection[str] | None = None) -> Whole:
        found = self._totals.get(key)
        if found is None:
            found = self._totals[key] = _Total(self._holder.of(self._pods).total(weigh, namespaces), weigh)
            self._weights.clear()
        return _freeze(found.column.astype(np.int64))

    def namespace(self, name: str) -> Mapping[str, str] | None:
        return None if self._namespaces is None else self._namespaces.get(name, _NO_LABELS)

    def take(self, index: int, pod: Pod, use: Mapping[str, float] | None = None) -> None:
        """Promise a node to a pod; `use` is what it uses, by series, where that need not be estimated."""
        if use:
            self._used[pod.uid] = use
        self._promised[pod.uid] = index, pod
        self._change(index, pod, 1)
        self._pods[index] = (*self._pods[index], pod)

    def release(self, index: int, pod: Pod) -> None:
        """Take a pod off its node, within this plan."""
        self._promised.pop(pod.uid, None)
        self._change(index, pod, -1)
        self._pods[index] = tuple(resident for resident in self._pods[index] if resident.uid != pod.uid)

    def leave(self, index: int | None, uid: str) -> bool:
        """Count a pod as leaving its node before the cluster shows it; False: it is not there, or is shown to leave."""
        pods = () if index is None else self._pods[index]
        resident = next((pod for pod in pods if pod.uid == uid), None)
        if index is None or resident is None or resident.deleted:
            return False
        going = replace(resident, deleted=True)
        for resource, amount in needed(resident).items():
            self._own(_LEAVING + resource)[index] += amount
        self._pods[index] = tuple(going if pod.uid == uid else pod for pod in self._pods[index])
        self._special[index] = tuple(going if pod.uid == uid else pod for pod in self._special[index])
        self._count(index, resident, -1)
        self._count(index, going, 1)
        return True

    @contextmanager
    def without(
        self, index: int, pods: Sequence[Pod], less: Mapping[str, int] = MappingProxyType({})
    ) -> Iterator[None]:
        """Within this block these pods are not on their node, and the others request so much less."""
        original, gone = (self._pods[index], self._special[index]), {pod.uid for pod in pods}
        used = {key: float(column[index]) for key, column in self._columns.items()}
        self._pods[index] = tuple(pod for pod in self._pods[index] if pod.uid not in gone)
        for pod in pods:
            self._change(index, pod, -1)
        self._relieve(index, less, -1)
        try:
            yield
        finally:
            self._relieve(index, less, 1)
            for pod in pods:
                self._change(index, pod, 1)
            self._pods[index], self._special[index] = original
            self._columns = {key: column for key, column in self._columns.items() if key in used}
            self._views.clear()
            for key, value in used.items():  # a double less another and more it is not always what it was
                self._columns[key][index] = value

    def _relieve(self, index: int, less: Mapping[str, int], sign: int) -> None:
        for resource, amount in less.items():
            self._own(resource)[index] += sign * amount

    def _change(self, index: int, pod: Pod, sign: int) -> None:
        for resource, amount in _taken(pod).items():
            self._own(resource)[index] += sign * amount
        self._views = {key: view for key, view in self._views.items() if key[0] == "measured"}
        for (kind, series), column in self._columns.items():
            if kind != "measured":
                column[index] += sign * self._use_of(pod, series)
        if self._totals:
            self._count(index, pod, sign)
        if sign > 0 and pod.needs.has_pod_terms:
            self._learn_rules(pod)
        if _special(pod):
            special = tuple(resident for resident in self._special[index] if resident.uid != pod.uid)
            self._special[index] = (*special, pod) if sign > 0 else special
            for key, test in self._tests.items():
                self._holding[key][index] = any(map(test, self._special[index]))

    def _count(self, index: int, pod: Pod, sign: int) -> None:
        """A pod came to a node or went, so totals that it is part of change."""
        key = likeness(pod)
        if (found := self._weights.get(key)) is None:
            weights = [(total, weight) for total in self._totals.values() if (weight := total.weigh(pod))]
            found = self._weights[key] = pod, weights  # the pod is held, so that its key stays valid
        for total, weight in found[1]:
            total.add(index, sign * weight)

    def _learn_rules(self, pod: Pod) -> None:
        self._with_terms = True
        for kind, rules in self._rules.items():
            if not rules.issuperset(own := _rules(pod, kind)):
                self._rules[kind] = rules.union(own)

    def _use_of(self, pod: Pod, series: str) -> float:
        use = self._used.get(pod.uid, {}).get(series)
        return estimated(pod, series) if use is None else use


_KEPT = 4096


class _Total:
    """A sum over the pods of each node. There are several for each kind of constrained pod, and what they count is
    mostly 0 or 1, so they are stored in the smallest type that holds all of them."""

    __slots__ = ("column", "weigh")

    def __init__(self, column: Whole, weigh: Callable[[Pod], int]) -> None:
        most = int(np.abs(column).max(initial=0))
        self.column: NDArray[np.signedinteger[Any]] = column.astype(np.min_scalar_type(-most - 1))
        self.weigh = weigh

    def add(self, index: int, amount: int) -> None:
        changed = int(self.column[index]) + amount
        if changed.bit_length() >= 8 * self.column.itemsize:
            self.column = self.column.astype(np.min_scalar_type(-abs(changed) - 1))
        self.column[index] = changed


_ASSUMED, _LEAVING = "assumed ", "leaving "


def _with_assumed(_: int, requests: Mapping[str, float]) -> Mapping[str, int]:
    amounts = _whole(0, requests)
    return {
        **amounts,
        **{_ASSUMED + resource: amount for resource, amount in ASSUMED.items() if not amounts.get(resource)},
    }


_counted: Memo[int, Mapping[str, float], Mapping[str, int]] = Memo(_with_assumed)


def _with_leaving(_: int, counted: Mapping[str, int]) -> Mapping[str, int]:
    return {
        **counted,
        **{_LEAVING + resource: amount for resource, amount in counted.items() if not resource.startswith(_ASSUMED)},
    }


_going: Memo[int, Mapping[str, int], Mapping[str, int]] = Memo(_with_leaving)


def _taken(pod: Pod) -> Mapping[str, int]:
    """What a pod takes of its node; under keys of their own what is assumed, and what it gives back soon."""
    requests = pod.counted
    counted = _counted(id(requests), requests)
    return _going(id(counted), counted) if pod.deleted else counted


def _special(pod: Pod) -> bool:
    return bool(pod.needs.ports or pod.needs.disks or pod.needs.repels or pod.volume_claims)


def _rules(pod: Pod, kind: str) -> list[tuple[str, Any]]:
    return [(pod.namespace, rule) for rule in getattr(pod.needs, kind)]


_NO_LABELS: Mapping[str, str] = MappingProxyType({})


def _mask(values: list[bool]) -> Mask:
    return np.array(values, dtype=np.bool_)


def _freeze(array: T) -> T:
    array.flags.writeable = False
    return array


def _read_only(array: T) -> T:
    view = array.view()
    view.flags.writeable = False
    return view
