"""Nodes, pods and pools in few words, and the plans that strategies make of them.

Knows the model and how a plan is asked for; knows no strategy. See elasticd.testing.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.moves import plan_moves
from elasticd.decision.pool.plan import plan
from elasticd.kit.node_table import NodeTable, NodeTableBuilder
from elasticd.kit.volume_view import VolumeView
from elasticd.model.moves import MoveDecision, PoolPast
from elasticd.model.placement import DisruptionBudget, PodDecision, PoolObservation
from elasticd.model.pod_spec import Needs
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect, Strategy
from elasticd.model.volumes import Storage
from elasticd.model.workload import Container, Node, Pod
from elasticd.registry import Hooks

NOW = 1_700_000_000.0
"""A time to test at, in seconds since the epoch."""
GIB = 2.0**30
MIB = 2.0**20


def node(name: str, cpu: float = 4.0, memory: float = 8 * GIB, pods: int = 110, **more: Any) -> Node:
    """A node that is ready and has so many cores, bytes and places for pods; `resources` adds others, `labels` more
    than its hostname. All else is a field of a Node."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": float(pods), **more.pop("resources", {})}
    labels = {"kubernetes.io/hostname": name, **more.pop("labels", {})}
    return Node(name, f"uid-{name}", more.pop("ready", True), labels=labels, allocatable=allocatable, **more)


def pod(name: str, cpu: float = 0.1, memory: float = 64 * MIB, on: str = "", **more: Any) -> Pod:
    """A pod that waits for elasticd to place it or, with `on`, has run on that node for an hour. It requests so many
    cores and bytes; `resources` adds others. All else is a field of a Pod or of its Needs, such as `priority`."""
    fields = {key: more.pop(key) for key in list(more) if key in Pod.__struct_fields__}
    requests = {"cpu": cpu, "memory": memory, **more.pop("resources", {})}
    return Pod(
        **{
            "namespace": "default",
            "name": name,
            "uid": f"uid-{name}",
            "phase": "Running" if on else "Pending",
            "node": on,
            "containers": (Container("main", requests),),
            "needs": Needs(**{"scheduler": "elasticd", "requests": requests, **more}),
            "created": NOW - 3600,
            "started": NOW - 3600 if on else None,
            "ready": True if on else None,
            **fields,
        }
    )


def node_table(
    nodes: Iterable[Node],
    pods: Iterable[Pod] = (),
    use: Mapping[str, Mapping[str, float]] | None = None,
    peaks: Mapping[str, Mapping[str, float]] | None = None,
    measured: Mapping[str, Mapping[str, float]] | None = None,
    storage: Storage | None = None,
) -> NodeTable:
    """These nodes, by name, as the `nodes` that hooks are given, with the pods that run on them.

    `use` is what each node uses, by series and node's name: `{"cpu": {"node-a": 3.5}}`, in cores or bytes; `peaks` the
    most that it used; `measured` is `use` without estimates for new pods, where that differs. `storage`: the claims and
    volumes that pods with claims need.
    """
    on: dict[str, list[Pod]] = {}
    for running in pods:
        on.setdefault(running.node, []).append(running)
    by_name = tuple(sorted(nodes, key=lambda node: node.name))
    table = NodeTableBuilder().columns(by_name, on, use, peaks, measured)
    table.volumes = None if storage is None else VolumeView(storage)
    return table


def pool_observation(pending: Iterable[Pod] = (), *, at: float = NOW, **more: Any) -> PoolObservation:
    """What is known of a pool beside its nodes: these pods wait for a place. `use` is what pods use, by series and
    "namespace/name"; all else is a field of a PoolObservation."""
    return PoolObservation(at, tuple(pending), **{"confirmed": at, **more})


def judge_pods(
    *strategies: Strategy, nodes: NodeTable, seen: PoolObservation, pool: PoolSelect | None = None
) -> tuple[PodDecision, ...]:
    """The decisions that a policy of these strategies makes about the pods that wait, in the order of the plan.

    What is placed counts on its node from then on, so a table serves one plan.
    """
    policy = PoolPolicy(name="test", pool=pool or PoolSelect(), strategies=strategies, mode="act")
    return plan(PoolCase(policy, seen, nodes, Hooks(strategies)))


def judge_moves(
    *strategies: Strategy,
    nodes: NodeTable,
    past: PoolPast | None = None,
    budgets: tuple[DisruptionBudget, ...] = (),
    at: float = NOW,
    **moves: Any,
) -> tuple[MoveDecision, ...]:
    """The decisions that a policy of these strategies makes about the pods that it wants moved; `moves` are settings of
    its table [moves], such as `per_look`."""
    policy = PoolPolicy(name="test", pool=PoolSelect(), strategies=strategies, mode="act", moves=MovesTable(**moves))
    seen = pool_observation(at=at, budgets=budgets)
    return plan_moves(PoolCase(policy, seen, nodes, Hooks(strategies), past=past or PoolPast())).decisions
