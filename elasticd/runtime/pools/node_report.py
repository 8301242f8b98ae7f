"""Reports the nodes of a pool, and the pods of one node in the order in which they are preempted.

Pure. Knows the node table, the load score and which pods cannot be evicted; knows nothing of how it is shown.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite

import numpy as np

from elasticd.base.text import counted
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
    scores, rows = _scores(columns), list[NodeReport]()
    for index, node in enumerate(columns.nodes):
        used = {series: float(columns.measured(series)[index]) for series in SERIES}
        cpu, memory = (columns.requested(resource)[index] for resource in ("cpu", "memory"))
        row = NodeReport(
            pool,
            node.name,
            _state(node),
            int(columns.requested(PODS)[index]),
            int(columns.allocatable(PODS)[index]),
            {name: amount for name, amount in node.allocatable.items() if name in SERIES},
            {"cpu": int(cpu) / 1000, "memory": float(memory)},
            {series: value for series, value in used.items() if isfinite(value)},
            float(scores[index]) if isfinite(scores[index]) else None,
            levels[order[node.name]] if node.name in order else None,
        )
        rows.append(row)
    return sorted(rows, key=lambda row: (order.get(row.node, len(order)), -row.load, row.node))


def _state(node: Node) -> str:
    state = "not ready" if not node.ready else "cordoned" if node.unschedulable else "ready"
    return f"{state}, {counted(len(node.taints), 'taint')}" if node.taints else state


def _scores(columns: NodeTable) -> Column:
    """The load score of each node by its usage of cpu and memory; NaN where that is not known."""
    factors = []
    for series, unit in (("cpu", 1000.0), ("memory", 1.0)):
        allocatable = columns.allocatable(series) / unit
        used_part = columns.measured(series) / np.maximum(allocatable, 1e-9)
        factors.append((0.5, idleness(used_part, allocatable)))
    return load_score(factors)


def heaps(
    pods: Iterable[Pod], use: Use, leaving: Mapping[str, Why], moved: Mapping[str, Why], order: Sequence[Turn] | None
) -> Mapping[str, tuple[HeapPod, ...]]:
    """The pods of a node, one heap for each restartPolicy, the first to be preempted first and those that something
    keeps last. Apart are those that are "leaving", and the "rooted", which are never preempted.

    By the UIDs of pods, one word and a sentence each: how they leave the node or come to it (`leaving`), and what keeps
    the others from being moved now (`moved`). `order` is the eviction order; None: no pod is ever preempted, and the
    lowest priority comes first, then the largest memory request, then the largest use of cpu (thesis, 4.3; the request
    where the use is not known), then the name.
    """
    turns = {turn.pod.uid: (place, turn) for place, turn in enumerate(order or ())}
    free = (uid for uid, (_, turn) in turns.items() if not turn.stays)
    places = {uid: place for place, uid in enumerate(free, 1)}

    def key(pod: Pod) -> tuple[bool, int, int, float, float, str, str]:
        requested = pod.counted
        cpu = _usage_of(pod, use).get("cpu", requested.get("cpu", 0.0))
        thesis = pod.needs.priority, -requested.get("memory", 0.0), -cpu, pod.namespace, pod.name
        if order is None:
            return pod.uid in moved, 0, *thesis
        return pod.uid not in places, turns[pod.uid][0] if pod.uid in turns else len(turns), *thesis

    groups = defaultdict[str, list[HeapPod]](list)
    for pod in sorted(pods, key=key):
        departure, obstacle, needs = leaving.get(pod.uid), rooted(pod), pod.needs
        why = departure or obstacle or moved.get(pod.uid) or ("", "")
        group = "leaving" if departure else "rooted" if obstacle else needs.restart
        turn = turns[pod.uid][1] if pod.uid in turns else Turn(pod)
        requested = {series: amount for series, amount in pod.counted.items() if series in SERIES}
        row = pod.namespace, pod.name, needs.restart, needs.priority, requested, _usage_of(pod, use)
        groups[group].append(HeapPod(*row, *why, places.get(pod.uid, 0), turn.stays, turn.why))
    return {group: tuple(heap) for group, heap in groups.items()}


def _usage_of(pod: Pod, use: Use) -> dict[str, float]:
    key = f"{pod.namespace}/{pod.name}"
    usage = {series: use.get(series, {}).get(key) for series in SERIES}
    return {series: value for series, value in usage.items() if value is not None and isfinite(value)}


def asked_labels(node: Node, asked: Iterable[str], pods: Iterable[Pod]) -> dict[str, str]:
    """The labels of a node that its policy (`asked`) or one of these pods asks for, and those of its topology."""
    keys = {*asked, *TOPOLOGY, *(key for pod in pods for key in _labels_named_by(pod))}
    return {key: value for key, value in sorted(node.labels.items()) if key in keys}


def _labels_named_by(pod: Pod) -> Iterator[str]:
    """The keys of node labels that a pod's scheduling rules name."""
    needs = pod.needs
    yield from needs.selector
    preferred = (each.term for each in needs.prefers_nodes)
    yield from (expression.key for term in (*(needs.affinity or ()), *preferred) for expression in term.labels)
    yield from (term.topology for term in (*needs.repels, *needs.attracts, *(each.term for each in needs.prefers)))
    yield from (spread.topology for spread in needs.spread)
    try:
        binding = binding_of(pod)
    except ValueError:  # it waits, and explain says why
        return
    yield from (rule.key for rule in (binding.expressions if binding else ()))
