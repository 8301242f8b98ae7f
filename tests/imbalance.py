"""How unevenly a cluster is used, as TBESK measures it (Geng, Wang 2023, equations (32) to (34)).

Knows only parts of what nodes have; tests of placing and benchmarks compare strategies by it.
"""

from collections.abc import Mapping

import numpy as np

from elasticd.columns import Columns
from elasticd.placements import Column


def average_use(used: Column) -> Column:
    """A_avg(i): of each resource (a row) the mean over the nodes (the columns) of the part that is used. Equation
    (32)."""
    return np.asarray(used.mean(axis=1))


def imbalances(used: Column) -> Column:
    """Z(i): of each resource, how far nodes are from the mean. Equation (33): called a standard deviation there, but
    without 1/m, so that it grows with the root of the number of nodes."""
    return np.asarray(np.sqrt(((used - average_use(used)[:, np.newaxis]) ** 2).sum(axis=1)))


def imbalance(used: Column) -> float:
    """Z_avg: the mean of Z(i) over the resources. Equation (34)."""
    return float(imbalances(used).mean())


def requested_parts(view: Columns, resources: tuple[str, ...]) -> Column:
    """Which part of each node pods request, by resource (rows) and node (columns)."""
    return np.array([view.requested(one) / view.allocatable(one) for one in resources])


def used_parts(view: Columns, use: Mapping[str, Mapping[str, float]]) -> Column:
    """Which part of each node is used, by resource and node, where `use` is by resource and node's name."""
    return np.array(
        [[by_node[node.name] / node.allocatable[name] for node in view.nodes] for name, by_node in use.items()]
    )
