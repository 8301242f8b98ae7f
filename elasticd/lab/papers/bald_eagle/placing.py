"""Ways to place the bald eagle paper's pods: the scores that it compares with, TOPSIS, and its search with options.

Knows how each is asked; knows nothing of what is measured of the result.
"""

from collections.abc import Mapping, Sequence
from math import nan
from statistics import fmean
from typing import Any

import msgspec
import numpy as np

from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.plan import plan
from elasticd.kit.node_table import NodeTable, NodeTableBuilder
from elasticd.lab.papers.bald_eagle.pool import balanced_allocation, least_requested, one_by_one
from elasticd.model.placement import Candidate, PoolObservation
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.model.workload import Node, Pod
from elasticd.registry import Hooks, Registry

Pool = tuple[Sequence[Node], Sequence[Pod]]
Places = dict[int, int]
"""The node of each pod, both by index; a pod without one is left out."""

LRA, BRA, TOPSIS = "least-requested (LRA)", "balanced (BRA)", "TOPSIS"
TBESK, GREEDY, PRINTED = "TBESK (greedy = false)", "TBESK, greedy (the default)", "TBESK, swoop as printed"
BEST, PLAIN = "each pod on its best node by S_N", "BES"

SEARCHES: Mapping[str, dict[str, Any]] = {
    BEST: {"type": "bald-eagle", "batch": 1, "iterations": 1, "eagles": 2},
    PLAIN: {"type": "bald-eagle-plain"},
    TBESK: {"type": "bald-eagle", "greedy": False},
    PRINTED: {"type": "bald-eagle", "greedy": False, "printed": True},
    GREEDY: {"type": "bald-eagle"},
}
"""The tables of strategies that place many pods together. BEST is hardly a search: what it begins with."""

SCORES = {LRA: least_requested, BRA: balanced_allocation}
WAYS = (LRA, BRA, TOPSIS, *SEARCHES)


def place(registry: Registry, way: str, pool: Pool) -> tuple[Places, float]:
    """Where this way puts the pods of a pool, and their mean score: S_N of the searches, NaN of all others."""
    if way in SCORES:
        return one_by_one(SCORES[way], *pool), nan
    if way == TOPSIS:
        return _by_plan(registry, ({"type": "filters"}, {"type": "topsis"}), pool), nan
    return _together(registry, SEARCHES[way], pool)


def _table(nodes: Sequence[Node]) -> NodeTable:
    return NodeTableBuilder().columns(tuple(nodes), {}, None, None, None)


def _strategy(registry: Registry, table: Mapping[str, Any]) -> Any:
    return msgspec.convert(table, registry.strategies[table["type"]].type)


def _together(registry: Registry, table: Mapping[str, Any], pool: Pool) -> tuple[Places, float]:
    nodes, pods = pool
    mask = np.ones(len(nodes), dtype=np.bool_)
    found = _strategy(registry, table).place_pods(pods=[Candidate(pod, mask) for pod in pods], nodes=_table(nodes))
    score = fmean(placement.score for placement in found) if found else nan
    return {placement.pod: placement.node for placement in found}, score


def _by_plan(registry: Registry, tables: Sequence[Mapping[str, Any]], pool: Pool) -> Places:
    """As the daemon plans: one pod after another, each on the node with the highest score where it fits."""
    nodes, pods = pool
    strategies = tuple(_strategy(registry, table) for table in tables)
    policy = PoolPolicy(name="paper", pool=PoolSelect(), strategies=strategies, mode="act")
    seen = PoolObservation(0.0, tuple(pods), confirmed=0.0)
    by_node = {node.name: index for index, node in enumerate(nodes)}
    by_pod = {pod.name: index for index, pod in enumerate(pods)}
    decisions = plan(PoolCase(policy, seen, _table(nodes), Hooks(strategies)))
    return {by_pod[decision.pod.name]: by_node[decision.node] for decision in decisions if decision.node}
