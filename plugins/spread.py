"""Spread: keeps a fixed part of the pods on some nodes and an elastic part on others; the elastic part is removed
first.

Knows nodes by their labels, and how many pods each subset of nodes should have; knows nothing of load. `spread` ranks
the pods that go when the count falls, and reports where pods are; `subsets` places new pods, in a pool.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import inf
from typing import Annotated, ClassVar

import numpy as np

from elasticd.api import (
    Limit,
    Mask,
    Meta,
    Node,
    Nodes,
    Observation,
    Pod,
    Policy,
    PoolObservation,
    PoolStrategy,
    Rank,
    Refusal,
    Room,
    Scores,
    Strategy,
    Struct,
    field,
    hookimpl,
)
from elasticd.kit import Memo, unheeded

Share = Annotated[int, Meta(ge=1)] | str
_PERCENT = frozenset(f"{percent}%" for percent in range(1, 101))


class Subset(Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that have all of these labels and are in no earlier subset."""

    name: Annotated[str, Meta(min_length=1, description="what it is called in decisions")]
    labels: Annotated[dict[str, str], Meta(description="labels of its nodes; none: all that are left")] = field(
        default_factory=dict
    )
    max: Annotated[
        Share | None,
        Meta(description='pods it takes at most, or part of the count ("50%", rounded up); none: the rest'),
    ] = None

    def __post_init__(self) -> None:
        if isinstance(self.max, str) and self.max not in _PERCENT:
            raise ValueError(f'max: must be a number of pods or from "1%" to "100%", is "{self.max}"')


def check_subsets(subsets: Sequence[Subset]) -> None:
    """Refuse subsets that no pod could reach, and shares of more than 100 %."""
    for index, subset in enumerate(subsets):
        key, last = f"subsets[{index}]", index == len(subsets) - 1
        for earlier in subsets[:index]:
            if earlier.name == subset.name:
                raise ValueError(f"{key}.name: must be given once, is {subset.name!r} again")
            if earlier.labels.items() <= subset.labels.items():
                raise ValueError(f"{key}.labels: must not be part of subset {earlier.name}, is {subset.labels}")
        if (subset.max is None) != last:
            problem = f"be left out of the last subset, is {subset.max}" if last else "be given, is missing"
            raise ValueError(f"{key}.max: must {problem}")
    percent = sum(int(subset.max[:-1]) for subset in subsets if isinstance(subset.max, str))
    if percent > 100:
        raise ValueError(f"subsets: must have at most 100 % together, have {percent} %")


def shares_of(subsets: Sequence[Subset], replicas: int) -> tuple[int, ...]:
    """How many of `replicas` pods each subset should have."""
    shares, remaining = [], replicas
    for subset in subsets:
        most = -(-replicas * int(subset.max[:-1]) // 100) if isinstance(subset.max, str) else subset.max
        shares.append(remaining if most is None else min(most, remaining))
        remaining -= shares[-1]
    return tuple(shares)


def subset_of(subsets: Sequence[Subset], node: Node) -> int | None:
    """The index of the first subset that contains the node; None: no subset does."""
    labels = node.labels.items()
    return next((index for index, subset in enumerate(subsets) if subset.labels.items() <= labels), None)


class _Layout(Struct, frozen=True, gc=False):
    """Where the pods of a workload are. `serving`: ready pods by subset; `elsewhere`: ready pods on nodes of no subset;
    `placed`: how many pods each subset has; `idle`: pods that are not ready, by name, with their subset; `unknown`:
    pods on nodes that are not known."""

    serving: tuple[tuple[Pod, ...], ...]
    elsewhere: tuple[Pod, ...]
    placed: tuple[int, ...]
    idle: dict[str, int | None]
    unknown: tuple[Pod, ...]

    @property
    def served(self) -> int:
        return sum(map(len, self.serving)) + len(self.elsewhere) + len(self.unknown)


class Spread(Strategy, tag="spread", frozen=True):
    """Each subset of nodes takes its share of the count, in order; the last one takes the rest.

    When the count falls, pods on nodes of no subset go first, then those beyond their subset's share, the last subset
    first. Shares are computed from the new count, and percentages are rounded up, so that the shares always add up to
    the count. A strategy of lower priority chooses among the pods of a subset; only where pods of several subsets must
    go at once, the youngest of all but the first subset go. Pods without a node and pods that are not ready go before
    all of them, because their ReplicaSet ignores deletion costs there. A pod on a node that is not known stays.

    It also limits: while a pod has found no node for `patience` seconds the count does not grow (NoRoomInSubsets).
    Every decision reports where the pods are: SubsetsFilled, or SubsetsOverflow where one subset has less than its
    share and a later one more than its own, or a pod is on a node of no subset. Without nodes it ranks nothing:
    SubsetsUnknown.

    It places no pod: `subsets` does in a pool. Where kube-scheduler does, prefer the first subset's labels in the pod
    template's node affinity.

    Source: OpenKruise, WorkloadSpread (rescheduleCriticalSeconds is `patience`; its webhook is not here).
    """

    looks_at_nodes: ClassVar[bool] = True

    subsets: Annotated[tuple[Subset, ...], Meta(min_length=2, description="in the order in which they are filled")]
    patience: Annotated[
        float, Meta(gt=0, le=86400, description="seconds that a pod may wait for a node before growth stops")
    ] = 300.0

    def __post_init__(self) -> None:
        check_subsets(self.subsets)

    def reads(self) -> tuple[str, ...]:
        return ()

    def check(self, policy: Policy) -> str | None:
        return unheeded(policy)

    @hookimpl
    def rank_pods(self, observation: Observation, replicas: int) -> Mapping[str, Rank] | None:
        """Ranks below 0 for pods beyond a share, above 0 for the rest; the first subset's pods have the highest."""
        if not observation.rooms:
            return None
        layout, shares = self._layout(observation.pods, observation.rooms), shares_of(self.subsets, replicas)
        size = len(self.subsets)
        ranks = {pod.name: Rank(size + 1, "its node is not known") for pod in layout.unknown}
        for name, subset in layout.idle.items():
            ranks[name] = Rank(-1 - size, "in no subset") if subset is None else self._stays(subset)
        spare = layout.served - replicas
        going = max(0, min(spare, len(layout.elsewhere)))
        ranks |= {pod.name: Rank(-1 - size, "in no subset") for pod in layout.elsewhere}
        for index in reversed(range(size)):
            spare -= going
            pods = layout.serving[index]
            going = max(0, min(spare, len(pods) - shares[index]))
            why = f"{self.subsets[index].name} has {len(pods)}, its share is {shares[index]}"
            # Where no earlier subset loses pods, the next strategy may choose among all pods of this one.
            first = pods if 0 < going == spare else sorted(pods, key=_age)[:going]
            ranks |= {pod.name: self._stays(index) for pod in pods}
            ranks |= {pod.name: Rank(-1 - index, why) for pod in first}
        return ranks

    @hookimpl
    def limit(self, observation: Observation) -> Limit | None:
        """At most the current count while pods wait for too long; else a report of where the pods are."""
        if not observation.rooms:
            return Limit("SubsetsUnknown", "no nodes are known, so that it does not limit")
        current = observation.workload.replicas
        layout, shares = self._layout(observation.pods, observation.rooms), shares_of(self.subsets, current)
        parts = zip(self.subsets, layout.placed, shares, strict=True)
        summary = ", ".join(f"{subset.name} {placed} of {share}" for subset, placed, share in parts)
        elsewhere = sum(1 for index in layout.idle.values() if index is None) + len(layout.elsewhere)
        for name, count in (("elsewhere", elsewhere), ("unknown", len(layout.unknown))):
            summary += f", {name} {count}" if count else ""
        late = _count_late(observation, self.patience)
        if late:
            message = f"no node for {late} pods for more than {self.patience:g} s; {summary}"
            return Limit("NoRoomInSubsets", message, None, current)
        short = next((index for index, share in enumerate(shares) if layout.placed[index] < share), len(shares))
        overflow = elsewhere or any(
            placed > share for placed, share in zip(layout.placed[short:], shares[short:], strict=True)
        )
        return Limit("SubsetsOverflow" if overflow else "SubsetsFilled", summary)

    def _stays(self, index: int) -> Rank:
        return Rank(len(self.subsets) - index, f"in {self.subsets[index].name}")

    def _layout(self, pods: Sequence[Pod], rooms: tuple[Room, ...]) -> _Layout:
        nodes = _by_name("", rooms)
        serving: list[list[Pod]] = [[] for _ in self.subsets]
        placed, idle = [0] * len(self.subsets), dict[str, int | None]()
        elsewhere: list[Pod] = []
        unknown: list[Pod] = []
        for pod in pods:
            if not pod.node or not pod.is_active:
                continue
            node = nodes.get(pod.node)
            index = None if node is None else subset_of(self.subsets, node)
            if index is not None:
                placed[index] += 1
            if node is None:
                unknown.append(pod)
            elif pod.phase != "Running" or pod.ready is not True:
                idle[pod.name] = index
            else:
                (elsewhere if index is None else serving[index]).append(pod)
        return _Layout(tuple(map(tuple, serving)), tuple(elsewhere), tuple(placed), idle, tuple(unknown))


def _count_late(observation: Observation, patience: float) -> int:
    waits = (pod.waits for pod in observation.pods if not pod.deleted and not pod.node)
    return sum(1 for since in waits if since is not None and observation.at - since > patience)


def _age(pod: Pod) -> tuple[float, str]:
    """Sort key: the last started first."""
    return -inf if pod.started is None else -pod.started, pod.name


_by_name: Memo[str, tuple[Room, ...], dict[str, Node]] = Memo(
    lambda _, rooms: {room.node.name: room.node for room in rooms}
)


class Subsets(PoolStrategy, tag="subsets", frozen=True):
    """The pods of each controller fill subsets of the pool's nodes in order, and take no more of one than its share.

    It places pods by the same subsets by which `spread` removes them: a node of a subset that has its share of the
    controller's pods is refused, and nodes of earlier subsets score higher. The share is computed from the controller's
    pods on the pool's nodes and those that wait. The last subset takes the rest, also pods that find no room in the
    others. Pods without a controller go anywhere.
    """

    subsets: Annotated[tuple[Subset, ...], Meta(min_length=2, description="in the order in which they are filled")]
    weight: Annotated[
        float, Meta(ge=0, le=1000, description="times its score, from 10 for the first subset to 0 outside all")
    ] = 10.0

    def __post_init__(self) -> None:
        check_subsets(self.subsets)

    def reads(self) -> tuple[str, ...]:
        return ()

    def labels_of_nodes(self) -> tuple[str, ...]:
        return tuple(sorted({key for subset in self.subsets for key in subset.labels}))

    @hookimpl
    def filter_nodes(self, pod: Pod, nodes: Nodes, observation: PoolObservation) -> Sequence[Refusal]:
        if not pod.owner[2]:
            return []
        counts, siblings = self._count_siblings(pod, nodes)
        waiting = {sibling.uid for sibling in observation.pending if sibling.owner[2] == pod.owner[2]}
        shares = shares_of(self.subsets, len(siblings | waiting | {pod.uid}))
        full = [index for index in range(len(self.subsets) - 1) if counts[index] >= shares[index]]
        return [
            Refusal(f"node(s) were of subset {self.subsets[index].name}, which has its share", self._mask(index, nodes))
            for index in full
        ]

    @hookimpl
    def score_nodes(self, nodes: Nodes) -> Scores:
        """10 for the first subset, less for each later one, and 0 outside all."""
        size, values = len(self.subsets), np.zeros(len(nodes.names))
        for index in range(size):
            values[self._mask(index, nodes)] = 10 * (size - index) / size
        return Scores(values, self.weight)

    def _count_siblings(self, pod: Pod, nodes: Nodes) -> tuple[list[int], set[str]]:
        """How many other pods of its controller each subset has, and their UIDs."""
        counts, siblings, owner = [0] * len(self.subsets), set[str](), pod.owner[2]
        for index, node in enumerate(nodes.nodes):
            for resident in nodes.pods(index):
                if resident.owner[2] != owner or resident.uid == pod.uid:
                    continue
                if not resident.is_active:
                    continue
                siblings.add(resident.uid)
                subset = subset_of(self.subsets, node)
                if subset is not None:
                    counts[subset] += 1
        return counts, siblings

    @cached_property
    def _labels(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """The labels of all subsets, the key by which masks of nodes are cached."""
        return tuple(tuple(sorted(subset.labels.items())) for subset in self.subsets)

    def _mask(self, index: int, nodes: Nodes) -> Mask:
        return nodes.matching(("subset", index, self._labels), lambda node: subset_of(self.subsets, node) == index)


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    return [Spread, Subsets]
