"""Pool policies for tests of placing in virtual time, and a listener that keeps what it is told.

Knows what makes a pod fit and who is less important; knows no strategy that is shipped.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from elasticd.api import Nodes, Pod, PoolObservation, Refusal, Scores, Strategy, Victims, hookimpl
from elasticd.kit import needed
from elasticd.model.listener import Notice, PodsWaiting, PoolsApplied
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.model.policy import PoolPolicy, PoolSelect
from tests.kit.loops import Told


class Fits(Strategy, tag="fits", frozen=True):
    """Refuses nodes that are not open or have too little left, and likes the emptiest of the others."""

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def filter_nodes(self, pod: Pod, nodes: Nodes) -> Sequence[Refusal]:
        closed = nodes.matching("closed", lambda node: node.unschedulable or not node.ready)
        lacks = [
            Refusal(f"Insufficient {name}", nodes.requested(name) + amount > nodes.allocatable(name), curable=True)
            for name, amount in needed(pod).items()
        ]
        return [Refusal("node(s) were closed", closed), *lacks]

    @hookimpl
    def score_nodes(self, nodes: Nodes) -> Scores:
        return Scores((nodes.allocatable("cpu") - nodes.requested("cpu")).astype(np.float64))


class Lesser(Strategy, tag="lesser", frozen=True):
    """Lets as many pods of lower priority go as it takes, the least important first, if budgets allow it."""

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def select_victims(self, pod: Pod, node: int, nodes: Nodes, observation: PoolObservation) -> Victims | None:
        spent = frozenset[str]().union(*[one.pods for one in observation.budgets or () if one.allowed < 1])
        lesser = [one for one in nodes.pods(node) if one.needs.priority < pod.needs.priority and not one.deleted]
        going: list[Pod] = []
        for one in sorted(lesser, key=lambda one: (one.needs.priority, one.name)):
            if one.uid not in spent:
                going.append(one)
            if self._suffice(pod, node, nodes, going):
                return Victims(tuple(going), (float(len(going)),))
        return None

    def _suffice(self, pod: Pod, node: int, nodes: Nodes, going: Sequence[Pod]) -> bool:
        return all(
            nodes.requested(name)[node] - sum(needed(one)[name] for one in going) + amount
            <= nodes.allocatable(name)[node]
            for name, amount in needed(pod).items()
        )


def pool(*strategies: Strategy, **changes: Any) -> PoolPolicy:
    """A policy that acts, about all nodes and all pods of elasticd."""
    found = strategies or (Fits(), Lesser())
    return PoolPolicy(**{"name": "pool", "pool": PoolSelect(), "strategies": found, "mode": "act", **changes})


class Heard(Told):
    """A listener that keeps what it is told of workloads and of pods."""

    def __init__(self) -> None:
        super().__init__()
        self.placings: list[PodDecision] = []
        self.placeds: list[PodOutcome] = []
        self.counts: dict[str, dict[str, int]] = {}
        self.names: set[str] = set()

    def on(self, record: Notice) -> None:
        match record:
            case PodDecision():
                self.placings.append(record)
            case PodOutcome():
                self.placeds.append(record)
            case PodsWaiting(policy, counts):
                self.counts[policy] = dict(counts)
            case PoolsApplied(names):
                self.names = set(names)
            case _:
                super().on(record)

    def did(self, action: str) -> list[tuple[float, str, str]]:
        """When an action was done, about which pod, and on which node."""
        return [
            (one.at, one.about.name, one.node) for one in self.placeds if (one.action, one.result) == (action, "done")
        ]
