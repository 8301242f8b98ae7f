"""Pools for tests of rebalance: nodes of 4 cores and 8 GiB, pods that use so much, and what is wanted of them.

Knows the model and how a plan of moves is asked for; knows nothing of what is right.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from elasticd.api import DisruptionBudget, Look, Move, Moved, Nodes, Pod, PoolPast, Strategy
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.moves import plan_moves
from elasticd.kit.node_table import NodeTable
from elasticd.model.moves import MoveDecision
from elasticd.model.placement import PoolObservation
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect
from elasticd.model.workload import Node
from elasticd.registry import Hooks
from elasticd_plugins.rebalance import Rebalance
from tests.kit.pools import GIB, NOW, columns, node, pod

CPU, MEMORY = 4.0, 8 * GIB

By = dict[str, dict[str, float]]

Using = tuple[Pod, float, float]
"""A pod, and the cores and bytes that it uses."""


class Pool(Struct, eq=False):
    """Nodes with pods on them, and what both use."""

    view: NodeTable
    nodes: tuple[Node, ...]
    use: By
    measured: By


def app(name: str, on: str, *, of: str = "", **more: Any) -> Pod:
    """A pod of a ReplicaSet, ready for an hour; `of` is its controller, its own if none is named."""
    owner = ("ReplicaSet", of or name, f"rs-{of or name}")
    return pod(name, on=on, **{"owner": owner, "started": NOW - 3600, "ready": True, **more})


def job(name: str, on: str, restart: str = "Never", **more: Any) -> Pod:
    """A pod that may end, without a controller."""
    return pod(name, on=on, **{"restart": restart, "started": NOW - 3600, "ready": True, **more})


def pool(
    nodes: Mapping[str, tuple[float, float]],
    pods: Iterable[Using] = (),
    records: Sequence[Node] | None = None,
    young: Mapping[str, float] | None = None,
) -> Pool:
    """`nodes`: by name, which part of its cpu and of its memory each uses. Those that are other than of 4 cores and
    8 GiB are given as `records`. `young`: by name, which further part of both pods are thought to use that are too
    young to be measured."""
    records, known = records or [node(name, CPU, MEMORY) for name in nodes], list(pods)
    sizes = {one.name: one.allocatable for one in records}
    measured: By = {
        "cpu": {name: cpu * sizes[name]["cpu"] for name, (cpu, _) in nodes.items()},
        "memory": {name: memory * sizes[name]["memory"] for name, (_, memory) in nodes.items()},
    }
    use: By = {
        "cpu": {f"{one.namespace}/{one.name}": cpu for one, cpu, _ in known},
        "memory": {f"{one.namespace}/{one.name}": memory for one, _, memory in known},
    }
    thought = {
        series: {name: value + (young or {}).get(name, 0.0) * sizes[name][series] for name, value in by_node.items()}
        for series, by_node in measured.items()
    }
    view = columns(records, [one for one, _, _ in known], thought, measured=measured)
    return Pool(view, tuple(records), use, measured)


def observed(found: Pool, at: float = NOW, budgets: Sequence[DisruptionBudget] = ()) -> PoolObservation:
    """What is known beside the nodes."""
    return PoolObservation(at, use=found.use, budgets=tuple(budgets), confirmed=at)


def wanted(
    strategy: Rebalance, found: Pool, past: PoolPast | None = None, movable: Callable[[Pod], bool] = lambda _: True
) -> list[Move]:
    """What the strategy wants; without a past, after as many looks like this one as it asks for."""
    remembered = looks(found, *[found.measured] * strategy.observations) if past is None else past
    return list(strategy.rebalance_nodes(found.view, observed(found), remembered, movable))


def looks(found: Pool, *measured: By, moved: Iterable[Moved] = (), every: float = 30.0) -> PoolPast:
    """A past in which these were measured, the last of them now."""
    begun = NOW - every * (len(measured) - 1)
    return PoolPast(
        tuple(look(found.view, begun + every * index, one) for index, one in enumerate(measured)), tuple(moved)
    )


def look(view: Nodes, at: float, measured: By) -> Look:
    """What was measured at a time."""
    return Look(
        at, view.names, {name: np.array([by.get(one, np.nan) for one in view.names]) for name, by in measured.items()}
    )


def planned(
    strategies: Sequence[Strategy],
    found: Pool,
    past: PoolPast,
    budgets: Sequence[DisruptionBudget] = (),
    **table: Any,
) -> tuple[MoveDecision, ...]:
    """The plan. The thesis moves pods of restartPolicy Never too."""
    moves = MovesTable(**{"rerun": True, **table})
    policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=tuple(strategies), mode="act", moves=moves)
    case = PoolCase(policy, observed(found, budgets=budgets), found.view, Hooks(strategies), past=past)
    return plan_moves(case).decisions


def names(moves: Iterable[Move]) -> list[str]:
    """Of their pods."""
    return [move.pod.name for move in moves]


def needed(moves: Iterable[Move]) -> list[str]:
    """Of the pods that go if each finds a place: as many as take all that their node must give up."""
    found, left = list[str](), dict[str, list[float]]()
    for move in moves:
        sums = left.setdefault(move.pod.node, [0.0] * len(move.relief))
        if min(sums) < 1 - 1e-9:
            found.append(move.pod.name)
            left[move.pod.node] = [one + more for one, more in zip(sums, move.relief, strict=True)]
    return found
