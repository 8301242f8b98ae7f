"""The nodes of a pool as a person looks at them.

Pure. Knows columns and the score of a node's load; knows nothing of how it is shown.
"""

from math import isfinite

import numpy as np

from elasticd.columns import PODS, Columns
from elasticd.load_score import idleness, load_score
from elasticd.placements import Column, NodeReport


def report(pool: str, columns: Columns) -> list[NodeReport]:
    """Each node, as a person looks at it."""
    found, scores = [], _scores(columns)
    for index, node in enumerate(columns.nodes):
        state = "not ready" if not node.ready else "cordoned" if node.unschedulable else "ready"
        tainted = f", {len(node.taints)} taint{'s' * (len(node.taints) > 1)}" if node.taints else ""
        requested = {
            "cpu": int(columns.requested("cpu")[index]) / 1000,
            "memory": float(columns.requested("memory")[index]),
        }
        used = {series: float(columns.use(series)[index]) for series in ("cpu", "memory")}
        found.append(
            NodeReport(
                pool,
                node.name,
                state + tainted,
                int(columns.requested(PODS)[index]),
                int(columns.allocatable(PODS)[index]),
                {name: amount for name, amount in node.allocatable.items() if name in requested},
                requested,
                {series: value for series, value in used.items() if isfinite(value)},
                float(scores[index]) if isfinite(scores[index]) else None,
            )
        )
    return found


def _scores(columns: Columns) -> Column:
    """How each stands beside the others, by what is used of cpu and memory; NaN where that is not known."""
    factors = []
    for series, unit in (("cpu", 1000.0), ("memory", 1.0)):
        whole = columns.allocatable(series) / unit
        use = columns.use(series) / np.maximum(whole, 1e-9)
        factors.append((0.5, idleness(use, whole)))
    return load_score(factors)
