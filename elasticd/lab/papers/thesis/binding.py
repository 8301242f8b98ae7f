"""Binding, Tables 6-3 to 6-8 of the thesis: where five pods go, and where they are after labels of nodes change.

Knows the pods and labels of the thesis; knows nothing of how a binding is read.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from elasticd.kit import BINDING
from elasticd.lab.papers import Claim, judged
from elasticd.lab.papers.thesis.pool import (
    GIB,
    LONG_AGO,
    MIB,
    make_node,
    make_pod,
    moved,
    placed,
    strategies_of,
    table_of,
)
from elasticd.model.moves import PoolPast
from elasticd.model.policy import Strategy
from elasticd.model.workload import Node, Pod
from elasticd.registry import Registry

MODES = ("paper", "product")


def labelled(**tiers: str) -> list[Node]:
    """node1, node2 and node3: 1, 2 and 4 cores, twice as many GiB, and each a tier."""
    return [
        make_node(name, 2.0**index, 2.0 ** (index + 1) * GIB, {"tier": tier}, pods=110)
        for index, (name, tier) in enumerate(sorted(tiers.items()))
    ]


def _bound(name: str, *expressions: Mapping[str, Any], **more: str) -> Pod:
    text = json.dumps({"expressions": expressions, **more})
    return make_pod(name, 0.01, 64 * MIB, annotations={BINDING: text})


def _to(*hosts: str) -> dict[str, Any]:
    return {"key": "hostname", "operator": "in", "values": hosts}


PODS = (
    _bound("pod1", _to("node1"), nodeLabelChange="reschedule"),
    _bound("pod2", {"key": "tier", "operator": "notIn", "values": ["backend"]}, nodeLabelChange="still"),
    _bound(
        "pod3",
        _to("node1", "node2"),
        {"key": "tier", "operator": "in", "values": ["frontend"]},
        nodeLabelChange="reschedule",
    ),
    _bound("pod4", _to("node4"), collectionIsEmpty="default"),
    _bound("pod5", _to("node4"), collectionIsEmpty="reschedule"),
)
BEFORE = {"node1": "frontend", "node2": "backend", "node3": "frontend"}
AFTER = {"node1": "backend", "node2": "frontend", "node3": "backend"}

PLACES = {"pod1": 1, "pod2": 3, "pod3": 1, "pod4": 3, "pod5": 0}
"""The number of each pod's node in the thesis; 0: it waits."""
PLACES_AFTER = {"pod1": 1, "pod2": 3, "pod3": 2}
"""The same after the labels have changed; the thesis shows no more of them."""

WHY = {
    "pod2": "of the nodes that match, all idle, it is the largest",
    "pod4": "no node matches, and its binding is weak",
    "pod5": "no node matches, and its binding is strong",
}
WHY_AFTER = {"pod2": "its node no longer matches, and nodeLabelChange is still", "pod3": "the only node that matches"}


def run(registry: Registry, mode: str) -> tuple[dict[str, int], dict[str, int]]:
    """The number of each pod's node before and after the labels change."""
    tables = ({"type": "filters"}, {"type": "binding", "mode": mode}, {"type": "load-balance", "mode": mode})
    placing = strategies_of(registry, tables)
    moving = (*placing, *strategies_of(registry, [{"type": "rebind", "mode": mode, "dwell": 0}]))
    running = _place(placing, labelled(**BEFORE), (), PODS)
    nodes = labelled(**AFTER)
    past = PoolPast(labelled={node.name: LONG_AGO for node in nodes})
    decisions = moved(moving, table_of(nodes, running, _idle(nodes)), past)
    leave = {decision.pod.name for decision in decisions if decision.verdict == "move"}
    stay = [pod for pod in running if pod.name not in leave]
    again = _place(placing, nodes, stay, [pod for pod in PODS if pod.name in leave])
    return _numbers(running), _numbers([*stay, *again])


def _idle(nodes: Sequence[Node]) -> dict[str, dict[str, float]]:
    return {series: dict.fromkeys((node.name for node in nodes), 0.0) for series in ("cpu", "memory")}


def _place(
    strategies: Sequence[Strategy], nodes: Sequence[Node], running: Sequence[Pod], pending: Sequence[Pod]
) -> list[Pod]:
    """The pods that find a node, as they run there."""
    decisions = placed(strategies, table_of(nodes, running, _idle(nodes)), pending)
    places = {decision.pod.name: decision.node for decision in decisions if decision.verdict == "bind"}
    found = [replace(pod, node=places[pod.name]) for pod in pending if pod.name in places]
    return [replace(pod, phase="Running", created=LONG_AGO, started=LONG_AGO, ready=True) for pod in found]


def _numbers(pods: Sequence[Pod]) -> dict[str, int]:
    """0 for one that is on no node."""
    return dict.fromkeys(PLACES, 0) | {pod.name: int(pod.node.removeprefix("node")) for pod in pods}


def claims(registry: Registry) -> Iterator[Claim]:
    """The node of each pod, before and after, in both modes."""
    for mode in MODES:
        before, after = run(registry, mode)
        part = f'binding, mode "{mode}": the number of the pod\'s node, 0 if it waits'
        for name, place in PLACES.items():
            holds = judged([before[name] == place])
            yield Claim(part, name, str(place), (before[name],), holds, note=WHY.get(name, ""))
        for name, place in PLACES_AFTER.items():
            what, holds = f"{name}, after labels have changed", judged([after[name] == place])
            yield Claim(part, what, str(place), (after[name],), holds, note=WHY_AFTER.get(name, ""))
