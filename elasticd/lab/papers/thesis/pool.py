"""Nodes and pods of the thesis's experiments, and the plans that strategies make of them.

Knows the model and how a plan is asked for; knows no strategy and nothing of what is measured.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.moves import plan_moves
from elasticd.decision.pool.plan import plan
from elasticd.kit.node_table import NodeTable, NodeTableBuilder
from elasticd.model.moves import MoveDecision, PoolPast
from elasticd.model.placement import PodDecision, PoolObservation
from elasticd.model.pod_spec import Needs, Restart
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect, Strategy
from elasticd.model.workload import Container, Node, Pod
from elasticd.registry import Hooks, Registry

MIB, GIB = 2.0**20, 2.0**30
NOW = 1_000_000.0
"""Seconds since the epoch at which an experiment begins."""
LONG_AGO = NOW - 3600

By = Mapping[str, Mapping[str, float]]
"""What is used, in cores and bytes: by series, then by node or by "namespace/name" of a pod."""


def make_node(name: str, cpu: float, memory: float, labels: Mapping[str, str] | None = None, pods: int = 1000) -> Node:
    """A node that is ready, with so many cores, bytes and places for pods."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": float(pods)}
    return Node(name, f"uid-{name}", True, labels={"hostname": name, **(labels or {})}, allocatable=allocatable)


def make_pod(name: str, cpu: float, memory: float, restart: Restart = "Always", **more: Any) -> Pod:
    """A pod without a controller that waits for a place, or that runs on `node`; it requests so many cores and bytes.
    All else is a field of a Pod."""
    requests, runs = {"cpu": cpu, "memory": memory}, bool(more.get("node"))
    return Pod(
        **{
            "namespace": "default",
            "name": name,
            "uid": f"uid-{name}",
            "phase": "Running" if runs else "Pending",
            "containers": (Container("main", requests),),
            "needs": Needs(scheduler="elasticd", requests=requests, restart=restart),
            "created": LONG_AGO if runs else NOW,
            "started": LONG_AGO if runs else None,
            "ready": True if runs else None,
            **more,
        }
    )


def strategies_of(registry: Registry, tables: Iterable[Mapping[str, Any]]) -> tuple[Strategy, ...]:
    """The strategies that these tables of a policy describe."""
    return tuple(msgspec.convert(table, registry.strategies[table["type"]].type) for table in tables)


def table_of(nodes: Sequence[Node], pods: Iterable[Pod] = (), use: By | None = None) -> NodeTable:
    """The nodes with these pods on them; `use` is what each node uses."""
    on: dict[str, list[Pod]] = {}
    for pod in pods:
        on.setdefault(pod.node, []).append(pod)
    return NodeTableBuilder().columns(tuple(nodes), on, use, None, None)


def placed(
    strategies: Sequence[Strategy], nodes: NodeTable, pending: Sequence[Pod], at: float = NOW
) -> tuple[PodDecision, ...]:
    """The plan for these pods, the oldest first, as the thesis's queue is."""
    policy = PoolPolicy(name="paper", pool=PoolSelect(order="fifo"), strategies=tuple(strategies), mode="act")
    seen = PoolObservation(at, tuple(pending), confirmed=at)
    return plan(PoolCase(policy, seen, nodes, Hooks(strategies)))


def moved(
    strategies: Sequence[Strategy], nodes: NodeTable, past: PoolPast, use: By | None = None, at: float = NOW
) -> tuple[MoveDecision, ...]:
    """The plan of moves, without a limit. `use` is what each pod uses. Pods of restartPolicy Never move too, as in the
    thesis, however young."""
    moves = MovesTable(rerun=True, per_look=250, min_age=0)
    policy = PoolPolicy(name="paper", pool=PoolSelect(), strategies=tuple(strategies), mode="act", moves=moves)
    seen = PoolObservation(at, use=use or {}, confirmed=at)
    return plan_moves(PoolCase(policy, seen, nodes, Hooks(strategies), past=past)).decisions
