"""The cluster and the pods of the thesis's table 6-5 (algorithms T-5).

Knows what is bound to what; knows no strategy.
"""

import json
from typing import Any

from elasticd.api import Node, Pod
from elasticd.kit import BINDING
from tests.kit.pools import GIB, MIB, node, pod


def thesis(**tiers: str) -> list[Node]:
    """Nodes of 1, 2 and 4 cores and twice as many GiB."""
    return [
        node(name, cpu=2.0**index, memory=2.0 ** (index + 1) * GIB, labels={"hostname": name, "tier": tier})
        for index, (name, tier) in enumerate(sorted(tiers.items()))
    ]


def bound(name: str, *expressions: dict[str, Any], needs: dict[str, Any] | None = None, **more: Any) -> Pod:
    """A pod whose annotation binds it."""
    text = json.dumps({"expressions": list(expressions), **more})
    return pod(name, **{"cpu": 0.01, "memory": 64 * MIB, "annotations": {BINDING: text}, **(needs or {})})


def to(*hosts: str) -> dict[str, Any]:
    """Bound to these nodes."""
    return {"key": "hostname", "operator": "in", "values": list(hosts)}


FRONT = {"key": "tier", "operator": "in", "values": ["frontend"]}
POD1 = bound("pod1", to("node1"), nodeLabelChange="reschedule")
POD2 = bound("pod2", {"key": "tier", "operator": "notIn", "values": ["backend"]}, nodeLabelChange="still")
POD3 = bound("pod3", to("node1", "node2"), FRONT, nodeLabelChange="reschedule")
POD4 = bound("pod4", to("node4"), collectionIsEmpty="default")
POD5 = bound("pod5", to("node4"), collectionIsEmpty="reschedule")
