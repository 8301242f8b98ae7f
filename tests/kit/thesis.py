"""The cluster and the pods of the thesis's table 6-5 (algorithms T-5).

Knows what is bound to what; knows no strategy.
"""

import json
from typing import Any

from elasticd.api import Pod
from elasticd.kit import BINDING
from elasticd.lab.papers.thesis.binding import PODS, labelled
from tests.kit.pools import MIB, pod

thesis = labelled


def bound(name: str, *expressions: dict[str, Any], needs: dict[str, Any] | None = None, **more: Any) -> Pod:
    """A pod whose annotation binds it."""
    text = json.dumps({"expressions": list(expressions), **more})
    return pod(name, **{"cpu": 0.01, "memory": 64 * MIB, "annotations": {BINDING: text}, **(needs or {})})


def to(*hosts: str) -> dict[str, Any]:
    """Bound to these nodes."""
    return {"key": "hostname", "operator": "in", "values": list(hosts)}


FRONT = {"key": "tier", "operator": "in", "values": ["frontend"]}
POD1, POD2, POD3, POD4, POD5 = PODS
