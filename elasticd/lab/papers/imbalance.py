"""How unevenly servers are used, as TBESK measures it (Geng, Wang 2023, equations (32) to (34)).

Knows only parts of what nodes have, (nodes, resources).
"""

from collections.abc import Mapping

import numpy as np

from elasticd.kit.node_table import NodeTable
from elasticd.model.placement import Column


def average_use(used: Column) -> Column:
    """A_avg(i): of each server the mean over its resources of the part that is used. Equation (32)."""
    return np.asarray(used.mean(axis=1))


def imbalances(used: Column) -> Column:
    """Z(i): of each server, how far its resources are from their mean. Equation (33): called a standard deviation
    there, but without 1/m, so that it grows with the root of the number of resources. How far servers are from each
    other is not in it."""
    return np.asarray(np.sqrt(((used - average_use(used)[:, np.newaxis]) ** 2).sum(axis=1)))


def imbalance(used: Column) -> float:
    """Z_avg: the mean of Z(i) over the servers. Equation (34)."""
    return float(imbalances(used).mean())


def used_parts(view: NodeTable, use: Mapping[str, Mapping[str, float]]) -> Column:
    """Which part of each node is used, by node and resource, where `use` is by resource and node's name."""
    return np.array(
        [[by_node[node.name] / node.allocatable[name] for name, by_node in use.items()] for node in view.nodes]
    )
