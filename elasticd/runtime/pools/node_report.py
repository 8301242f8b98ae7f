"""The nodes of a pool as a person looks at them, and the pods of one of them in the order in which they give way.

Pure. Knows columns, the score of a node's load and what keeps pods where they are; knows nothing of how it is shown.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

import numpy as np

from elasticd.kit.bindings import binding_of
from elasticd.kit.evictability import rooted
from elasticd.kit.load_score import idleness, load_score
from elasticd.kit.node_table import PODS, NodeTable
from elasticd.model.moves import NodeLevel
from elasticd.model.placement import Column, Turn
from elasticd.model.reports import HeapPod, NodeReport
from elasticd.model.workload import Node, Pod

SERIES = ("cpu", "memory")

TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type")
"""Labels that matter whoever asks for them."""

Use = Mapping[str, Mapping[str, float]]
"""What pods use, by series and "namespace/name"."""

Why = tuple[str, str]
"""One word, and a sentence."""


def report(pool: str, columns: NodeTable, levels: Sequence[NodeLevel] = ()) -> list[NodeReport]:
    """Each node, as a person looks at it: in the order of the levels, and those about which there is none by load."""
    order = {one.node: place for place, one in enumerate(levels)}
    found, scores = list[NodeReport](), _scores(columns)
    for index, node in enumerate(columns.nodes):
        place = order.get(node.name)
        level = None if place is None else levels[place]
        score = float(scores[index])
        found.append(_report(pool, columns, index, score if isfinite(score) else None, level))
    return sorted(found, key=lambda one: (order.get(one.node, len(order)), -one.load, one.node))


def _report(pool: str, columns: NodeTable, index: int, score: float | None, level: NodeLevel | None) -> NodeReport:
    node = columns.nodes[index]
    tainted = f", {len(node.taints)} taint{'s' * (len(node.taints) > 1)}" if node.taints else ""
    used = {series: float(columns.measured(series)[index]) for series in SERIES}
    requested = {
        "cpu": int(columns.requested("cpu")[index]) / 1000,
        "memory": float(columns.requested("memory")[index]),
    }
    return NodeReport(
        pool,
        node.name,
        _state(node) + tainted,
        int(columns.requested(PODS)[index]),
        int(columns.allocatable(PODS)[index]),
        {name: amount for name, amount in node.allocatable.items() if name in requested},
        requested,
        {series: value for series, value in used.items() if isfinite(value)},
        score,
        level,
    )


def _state(node: Node) -> str:
    if not node.ready:
        return "not ready"
    return "cordoned" if node.unschedulable else "ready"


def _scores(columns: NodeTable) -> Column:
    """How each stands beside the others, by what is used of cpu and memory; NaN where that is not known."""
    factors = []
    for series, unit in (("cpu", 1000.0), ("memory", 1.0)):
        whole = columns.allocatable(series) / unit
        use = columns.measured(series) / np.maximum(whole, 1e-9)
        factors.append((0.5, idleness(use, whole)))
    return load_score(factors)


class PodStandings(NamedTuple):
    """What is known of a node's pods, by their UIDs, each one word and a sentence: which leave it or come to it, and
    what keeps the others from being moved now. `line`: who gives way, in that order; None: nobody ever does."""

    leaving: Mapping[str, Why] = {}
    moved: Mapping[str, Why] = {}
    line: Sequence[Turn] | None = None


class Heaps:
    """The pods of a node by restartPolicy: of each those first that nothing keeps, in the order in which they give way.
    Where nobody does, the lowest priority first, then the largest memory request, then the largest use of cpu (thesis,
    4.3; of one whose use is not known, its request), then by name. Those that never give way are apart, and so are
    those that are leaving already."""

    def __init__(self, pods: Iterable[Pod], use: Use, standing: PodStandings) -> None:
        self._use, self._standing = use, standing
        self._turns = {turn.pod.uid: turn for turn in standing.line or ()}
        free = (uid for uid, turn in self._turns.items() if not turn.stays)
        self._places = {uid: place for place, uid in enumerate(free, 1)}
        self._order_of = {uid: place for place, uid in enumerate(self._turns)}
        self._pods = sorted(pods, key=self._order)

    def of(self, restart: str) -> tuple[HeapPod, ...]:
        """One heap, the first to give way first."""
        staying = (pod for pod in self._pods if pod.uid not in self._standing.leaving and rooted(pod) is None)
        return tuple(
            [self._pod(pod, self._standing.moved.get(pod.uid)) for pod in staying if pod.needs.restart == restart]
        )

    def rooted(self) -> tuple[HeapPod, ...]:
        """Those that are in none."""
        staying = (pod for pod in self._pods if pod.uid not in self._standing.leaving)
        return tuple([self._pod(pod, why) for pod in staying if (why := rooted(pod))])

    def leaving(self) -> tuple[HeapPod, ...]:
        """Those that are on their way."""
        found = self._standing.leaving
        return tuple([self._pod(pod, found[pod.uid]) for pod in self._pods if pod.uid in found])

    def _order(self, pod: Pod) -> tuple[bool, int, int, float, float, str, str]:
        requested, used = pod.counted, self._used(pod)
        cpu = used.get("cpu", requested.get("cpu", 0.0))
        thesis = pod.needs.priority, -requested.get("memory", 0.0), -cpu, pod.namespace, pod.name
        if self._standing.line is None:
            return pod.uid in self._standing.moved, 0, *thesis
        return pod.uid not in self._places, self._order_of.get(pod.uid, len(self._order_of)), *thesis

    def _used(self, pod: Pod) -> dict[str, float]:
        key = f"{pod.namespace}/{pod.name}"
        known = {series: self._use.get(series, {}).get(key) for series in SERIES}
        return {series: value for series, value in known.items() if value is not None and isfinite(value)}

    def _pod(self, pod: Pod, why: Why | None) -> HeapPod:
        requested = {series: amount for series, amount in pod.counted.items() if series in SERIES}
        needs, stays, turn = pod.needs, why or ("", ""), self._turns.get(pod.uid)
        return HeapPod(
            pod.namespace,
            pod.name,
            needs.restart,
            needs.priority,
            requested,
            self._used(pod),
            stays[0],
            stays[1],
            self._places.get(pod.uid, 0),
            turn.stays if turn else "",
            turn.why if turn else "",
        )


def asked_labels(node: Node, asked: Iterable[str], pods: Iterable[Pod]) -> dict[str, str]:
    """The labels of a node that its policy (`asked`) or one of these pods asks for, and where it stands."""
    keys = {*asked, *TOPOLOGY, *(key for pod in pods for key in _keys(pod))}
    return {key: value for key, value in sorted(node.labels.items()) if key in keys}


def _keys(pod: Pod) -> Iterator[str]:
    """The labels of nodes that a pod names."""
    yield from pod.needs.selector
    yield from (one.key for term in pod.needs.affinity or () for one in term.labels)
    yield from (one.topology for one in pod.needs.repels)
    try:
        binding = binding_of(pod)
    except ValueError:  # it waits, and explain says why
        return
    yield from (rule.key for rule in (binding.expressions if binding else ()))
