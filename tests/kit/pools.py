"""Nodes, pods and plans for tests of placing.

Knows the model and how a plan is asked for; knows no strategy.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from elasticd import testing
from elasticd.base.errors import ConfigError
from elasticd.base.units import format_amount
from elasticd.config.pools import load_pool
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.moves import plan_moves
from elasticd.decision.pool.plan import plan
from elasticd.kit.node_table import NodeTable, NodeTableBuilder
from elasticd.model.moves import MoveDecision, PoolPast
from elasticd.model.placement import DisruptionBudget, Mend, PodDecision, PoolObservation, Refusal
from elasticd.model.pod_spec import Needs
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect, Strategy
from elasticd.model.workload import Container, Node, Pod
from elasticd.registry import Hooks

NOW = 1_000_000.0
GIB = 2.0**30
MIB = 2.0**20

PROTECTED: dict[str, dict[str, Any]] = {
    "static": {"static": True},
    "DaemonSet": {"owner": ("DaemonSet", "d", "u")},
    "critical": {"priority": 2_000_000_000},
    "annotated": {"annotations": {"elasticd.io/do-not-disrupt": "true"}},
    "in kube-system": {"namespace": "kube-system"},
    "local storage": {"local": True},
    "claims": {"claims": True},
}
"""What makes a pod one that is never moved, unless a policy allows it."""


def mends(refusal: Refusal, index: int) -> list[str]:
    """What would do for a node, each in words."""
    return [told for told in (_mend(one, index) for one in refusal.mends) if told]


def _mend(mend: Mend, index: int) -> str:
    if mend.most is None:
        return mend.text
    most = int(mend.most[index])
    return mend.text.format(format_amount(mend.resource, most, up=False)) if most >= mend.least else ""


def node(name: str, cpu: float = 4.0, memory: float = 8 * GIB, pods: int = 110, **more: Any) -> Node:
    """A node, ready but for what is said."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": float(pods), **more.pop("resources", {})}
    labels = {"kubernetes.io/hostname": name, **more.pop("labels", {})}
    return Node(name, f"uid-{name}", more.pop("ready", True), labels=labels, allocatable=allocatable, **more)


def pod(name: str, cpu: float = 0.1, memory: float = 64 * MIB, on: str = "", **more: Any) -> Pod:
    """A pod that waits for elasticd, or runs on a node. What is no field of a Pod is one of its Needs."""
    own = {key: more.pop(key) for key in list(more) if key in Pod.__struct_fields__}
    requests = {"cpu": cpu, "memory": memory, **more.pop("resources", {})}
    return Pod(
        **{
            "namespace": "shop",
            "name": name,
            "uid": f"uid-{name}",
            "phase": "Running" if on else "Pending",
            "node": on,
            "containers": (Container("main", requests),),
            "needs": Needs(**{"scheduler": "elasticd", "requests": requests, **more}),
            "created": NOW,
            **own,
        }
    )


def columns(
    nodes: Iterable[Node], pods: Iterable[Pod] = (), use: Mapping[str, Mapping[str, float]] | None = None, **more: Any
) -> NodeTable:
    """These nodes with these pods on them."""
    on: dict[str, list[Pod]] = {}
    for one in pods:
        on.setdefault(one.node, []).append(one)
    return NodeTableBuilder().columns(tuple(sorted(nodes, key=lambda one: one.name)), on, use, **more)


def planned(
    strategies: Sequence[Strategy],
    view: NodeTable,
    pending: Iterable[Pod],
    budgets: tuple[DisruptionBudget, ...] = (),
    pool: PoolSelect | None = None,
    **more: Any,
) -> tuple[PodDecision, ...]:
    """The plan for these pods."""
    policy = PoolPolicy(name="pool", pool=pool or PoolSelect(), strategies=tuple(strategies), mode="act")
    observation = PoolObservation(NOW, tuple(pending), budgets=budgets, **{"confirmed": NOW, **more})
    return plan(PoolCase(policy, observation, view, Hooks(strategies)))


def moving(
    strategies: Sequence[Strategy],
    view: NodeTable,
    past: PoolPast | None = None,
    budgets: tuple[DisruptionBudget, ...] = (),
    at: float = NOW,
    **table: Any,
) -> tuple[MoveDecision, ...]:
    """What is decided about the pods that strategies want moved, under these settings of [moves]."""
    moves = MovesTable(**{"per_look": 1000, **table})
    policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=tuple(strategies), mode="act", moves=moves)
    observation = PoolObservation(at, budgets=budgets, confirmed=at)
    return plan_moves(PoolCase(policy, observation, view, Hooks(strategies), past=past or PoolPast())).decisions


def refused(folder: Path, plugin: ModuleType, table: str) -> str:
    """The one line by which a pool policy with this strategy is refused, without the file's name."""
    path = folder / "pool.toml"
    path.write_text(f"[pool]\n[[strategy]]\n{table}\n")
    with pytest.raises(ConfigError) as caught:
        load_pool(path, testing.registry(plugin))
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")
