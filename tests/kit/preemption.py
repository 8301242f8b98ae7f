"""Pods that may be preempted, and what a pool asks of preemption."""

from collections.abc import Iterable
from typing import Any

import msgspec
from hypothesis import strategies as some

from elasticd.api import (
    DisruptionBudget,
    Node,
    Pod,
    PoolObservation,
    Port,
    Spared,
    Victims,
)
from elasticd.kit.node_table import NodeTable
from elasticd_plugins.preemption import Preemption
from tests.kit.pools import GIB, MIB, NOW, columns, node, pod

OLD = NOW - 1000


def decode(**options: Any) -> Preemption:
    return msgspec.convert({"type": "preemption", **options}, Preemption)


PAPER = decode(mode="paper")


def running(name: str, restart: str = "Never", cpu: float = 0.1, memory: float = 64 * MIB, **more: Any) -> Pod:
    """One that has run on node a for long."""
    return pod(name, cpu, memory, **{"on": "a", "restart": restart, "started": OLD, **more})


def chosen(
    strategy: Preemption, waiting: Pod, there: Iterable[Pod], has: Node | None = None, forced: bool = False, **more: Any
) -> Victims | None:
    """The victims on a node of one core with 8 GiB; None: no pod is preempted."""
    found = asked(strategy, waiting, there, has, forced, **more)
    return found if isinstance(found, Victims) else None


def asked(
    strategy: Preemption, waiting: Pod, there: Iterable[Pod], has: Node | None = None, forced: bool = False, **more: Any
) -> Victims | Spared | None:
    """The answer about the same."""
    seen = PoolObservation(NOW, (waiting,), confirmed=NOW, **more)
    return strategy.select_victims(waiting, 0, columns([has or node("a", cpu=1)], there), seen, forced, {})


def names(victims: Victims | None) -> list[str] | None:
    return None if victims is None else [one.name for one in victims.pods]


# Random pools.
KINDS = some.sampled_from(["Always", "OnFailure", "Never"])


@some.composite
def pods_on(draw: some.DrawFn, name: str, on: str) -> Pod:
    own: dict[str, Any] = draw(
        some.sampled_from(
            [
                *({}, {}, {}, {"static": True}, {"owner": ("DaemonSet", "d", "u")}, {"namespace": "kube-system"}),
                *({"annotations": {"elasticd.io/do-not-disrupt": "true"}}, {"deleted": True}, {"local": True}),
            ]
        )
    )
    return pod(
        name,
        draw(some.sampled_from([0.0, 0.1, 0.5, 1.0])),
        draw(some.sampled_from([0.0, 0.5, 1.0, 2.0])) * GIB,
        on=on,
        restart=draw(KINDS),
        priority=draw(some.sampled_from([-5, 0, 0, 7, 2_000_000_000])),
        scheduler=draw(some.sampled_from(["elasticd", "elasticd", "elasticd", "default-scheduler"])),
        started=draw(some.sampled_from([None, NOW - 10, NOW - 100, NOW - 1000])),
        ports=draw(some.sampled_from([(), (), (Port(80),), (Port(81),)])),
        **own,
    )


@some.composite
def pools(draw: some.DrawFn) -> tuple[NodeTable, list[Pod], list[Pod], tuple[DisruptionBudget, ...]]:
    """Up to three nodes with pods and budgets, and pods that wait."""
    nodes = [node(name, cpu=draw(some.sampled_from([1.0, 2.0])), memory=4 * GIB, pods=6) for name in "abc"]
    there = [
        draw(pods_on(f"{one.name}{index}", one.name))
        for one in nodes[: draw(some.integers(1, 3))]
        for index in range(draw(some.integers(0, 6)))
    ]
    waiting = [
        pod(
            f"w{index}",
            draw(some.sampled_from([0.1, 0.5, 1.0, 2.0])),
            draw(some.sampled_from([0.5, 2.0, 4.0])) * GIB,
            restart=draw(KINDS),
            priority=draw(some.sampled_from([-5, 0, 7, 100])),
            ports=draw(some.sampled_from([(), (Port(80),)])),
        )
        for index in range(draw(some.integers(1, 4)))
    ]
    uids = some.sampled_from([one.uid for one in there if one.namespace == "shop"] or ["none"])
    groups = draw(some.lists(some.tuples(some.frozensets(uids), some.integers(-1, 2)), max_size=2))
    budgets = tuple(DisruptionBudget("shop", f"b{index}", *group) for index, group in enumerate(groups))
    return columns(nodes, there), there, waiting, budgets


OTHERS: dict[str, Any] = {"scheduler": "default-scheduler"}
ASKS: dict[str, Any] = {"annotations": {"elasticd.io/do-not-disrupt": "true"}}
