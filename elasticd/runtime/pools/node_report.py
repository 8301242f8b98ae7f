"""Reports the nodes of a pool, and the pods of one node in the order in which they give way.

Pure. Knows the node table, the load score and which pods cannot be evicted; knows nothing of how it is shown.
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
"""Labels that are always shown."""

Use = Mapping[str, Mapping[str, float]]
"""The usage of pods, by series and "namespace/name"."""

Why = tuple[str, str]
"""One word, and a sentence."""


def report(pool: str, columns: NodeTable, levels: Sequence[NodeLevel] = ()) -> list[NodeReport]:
    """Report each node: first those with a level, in the order of the levels, then the others by load."""
    order = {level.node: place for place, level in enumerate(levels)}
    rows, scores = list[NodeReport](), _scores(columns)
    for index, node in enumerate(columns.nodes):
        place = order.get(node.name)
        level = None if place is None else levels[place]
        score = float(scores[index])
        rows.append(_node_report(pool, columns, index, score if isfinite(score) else None, level))
    return sorted(rows, key=lambda row: (order.get(row.node, len(order)), -row.load, row.node))


def _node_report(pool: str, columns: NodeTable, index: int, score: float | None, level: NodeLevel | None) -> NodeReport:
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
    """The load score of each node by its usage of cpu and memory; NaN where that is not known."""
    factors = []
    for series, unit in (("cpu", 1000.0), ("memory", 1.0)):
        allocatable = columns.allocatable(series) / unit
        used_part = columns.measured(series) / np.maximum(allocatable, 1e-9)
        factors.append((0.5, idleness(used_part, allocatable)))
    return load_score(factors)


class PodStandings(NamedTuple):
    """By the UIDs of a node's pods, one word and a sentence each: how pods leave it or come to it (`leaving`), and what
    keeps the others from being moved now (`moved`). `line` is the eviction order; None: no pod ever gives way."""

    leaving: Mapping[str, Why] = {}
    moved: Mapping[str, Why] = {}
    line: Sequence[Turn] | None = None


class Heaps:
    """The pods of a node, one heap for each restartPolicy, the first to give way first and those that something keeps
    last.

    Without an eviction order the lowest priority comes first, then the largest memory request, then the largest use of
    cpu (thesis, 4.3; the request where the use is not known), then the name. Pods that never give way are apart, and so
    are those that are leaving already.
    """

    def __init__(self, pods: Iterable[Pod], use: Use, standing: PodStandings) -> None:
        self._use, self._standing = use, standing
        self._turns = {turn.pod.uid: turn for turn in standing.line or ()}
        free = (uid for uid, turn in self._turns.items() if not turn.stays)
        self._places = {uid: place for place, uid in enumerate(free, 1)}
        self._order_of = {uid: place for place, uid in enumerate(self._turns)}
        self._pods = sorted(pods, key=self._order)

    def of(self, restart: str) -> tuple[HeapPod, ...]:
        """The heap of a restartPolicy, the first to give way first."""
        staying = (pod for pod in self._pods if pod.uid not in self._standing.leaving and rooted(pod) is None)
        return tuple(
            [self._pod(pod, self._standing.moved.get(pod.uid)) for pod in staying if pod.needs.restart == restart]
        )

    def rooted(self) -> tuple[HeapPod, ...]:
        """The pods that never give way, which are in no heap."""
        staying = (pod for pod in self._pods if pod.uid not in self._standing.leaving)
        return tuple([self._pod(pod, why) for pod in staying if (why := rooted(pod))])

    def leaving(self) -> tuple[HeapPod, ...]:
        """The pods that are leaving the node or coming to it."""
        leaving = self._standing.leaving
        return tuple([self._pod(pod, leaving[pod.uid]) for pod in self._pods if pod.uid in leaving])

    def _order(self, pod: Pod) -> tuple[bool, int, int, float, float, str, str]:
        requested, used = pod.counted, self._usage_of(pod)
        cpu = used.get("cpu", requested.get("cpu", 0.0))
        thesis = pod.needs.priority, -requested.get("memory", 0.0), -cpu, pod.namespace, pod.name
        if self._standing.line is None:
            return pod.uid in self._standing.moved, 0, *thesis
        return pod.uid not in self._places, self._order_of.get(pod.uid, len(self._order_of)), *thesis

    def _usage_of(self, pod: Pod) -> dict[str, float]:
        key = f"{pod.namespace}/{pod.name}"
        usage = {series: self._use.get(series, {}).get(key) for series in SERIES}
        return {series: value for series, value in usage.items() if value is not None and isfinite(value)}

    def _pod(self, pod: Pod, why: Why | None) -> HeapPod:
        requested = {series: amount for series, amount in pod.counted.items() if series in SERIES}
        needs, stays, turn = pod.needs, why or ("", ""), self._turns.get(pod.uid)
        return HeapPod(
            pod.namespace,
            pod.name,
            needs.restart,
            needs.priority,
            requested,
            self._usage_of(pod),
            stays[0],
            stays[1],
            self._places.get(pod.uid, 0),
            turn.stays if turn else "",
            turn.why if turn else "",
        )


def asked_labels(node: Node, asked: Iterable[str], pods: Iterable[Pod]) -> dict[str, str]:
    """The labels of a node that its policy (`asked`) or one of these pods asks for, and those of its topology."""
    keys = {*asked, *TOPOLOGY, *(key for pod in pods for key in _labels_named_by(pod))}
    return {key: value for key, value in sorted(node.labels.items()) if key in keys}


def _labels_named_by(pod: Pod) -> Iterator[str]:
    """The keys of node labels that a pod's scheduling rules name."""
    yield from pod.needs.selector
    yield from (expression.key for term in pod.needs.affinity or () for expression in term.labels)
    yield from (repel.topology for repel in pod.needs.repels)
    try:
        binding = binding_of(pod)
    except ValueError:  # it waits, and explain says why
        return
    yield from (rule.key for rule in (binding.expressions if binding else ()))
