"""Nodes, pods and plans for tests of placing.

Knows the model and how a plan is asked for; knows no strategy.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from elasticd import testing
from elasticd.base.errors import ConfigError
from elasticd.base.units import format_amount
from elasticd.config import load_policy
from elasticd.kit.node_table import NodeTable
from elasticd.model.moves import MoveDecision, PoolPast
from elasticd.model.placement import DisruptionBudget, Mend, PodDecision, Refusal
from elasticd.model.policy import PoolSelect, Strategy
from elasticd.model.workload import Pod
from elasticd.testing import GIB, MIB

__all__ = ["GIB", "MIB", "NOW", "PROTECTED", "columns", "mends", "moving", "node", "planned", "pod", "refused"]

NOW = 1_000_000.0
columns, node = testing.node_table, testing.node

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


def pod(name: str, cpu: float = 0.1, memory: float = 64 * MIB, on: str = "", **more: Any) -> Pod:
    """A pod of the shop that was just made, and of which nobody said that it is ready."""
    began = more.get("started")
    created = NOW if began is None else min(NOW, began)
    fields: dict[str, Any] = {"namespace": "shop", "created": created, "started": None, "ready": None}
    return testing.pod(name, cpu, memory, on, **(fields | more))


def planned(
    strategies: Sequence[Strategy],
    view: NodeTable,
    pending: Iterable[Pod],
    budgets: tuple[DisruptionBudget, ...] = (),
    pool: PoolSelect | None = None,
    **more: Any,
) -> tuple[PodDecision, ...]:
    """The plan for these pods."""
    seen = testing.pool_observation(pending, **{"at": NOW, "budgets": budgets, **more})
    return testing.judge_pods(*strategies, nodes=view, seen=seen, pool=pool)


def moving(
    strategies: Sequence[Strategy],
    view: NodeTable,
    past: PoolPast | None = None,
    budgets: tuple[DisruptionBudget, ...] = (),
    at: float = NOW,
    **table: Any,
) -> tuple[MoveDecision, ...]:
    """What is decided about the pods that strategies want moved, under these settings of [moves]."""
    moves = {"per_look": 1000, **table}
    return testing.judge_moves(*strategies, nodes=view, past=past, budgets=budgets, at=at, **moves)


def refused(folder: Path, plugin: ModuleType, table: str) -> str:
    """The one line by which a pool policy with this strategy is refused, without the file's name."""
    path = folder / "pool.toml"
    path.write_text(f"[pool]\n[[strategy]]\n{table}\n")
    with pytest.raises(ConfigError) as caught:
        load_policy(path, testing.registry(plugin))
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")
