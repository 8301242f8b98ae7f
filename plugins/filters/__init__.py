"""Filters: refuses the nodes that cannot take a pod, and says why.

Knows what a pod requests, and what nodes are and have left; knows nothing of which node is better, nor of what the plan
does about full nodes. See node_conditions for the nodes themselves, conflicts for the pods on them, and refusals for
how reasons are combined.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np

from elasticd.api import Mend, Meta, Needs, Nodes, Pod, PoolStrategy, Refusal, Term, Whole, field, hookimpl
from elasticd.kit import (
    LARGEST,
    DefaultSpread,
    any_of,
    every_node,
    matching,
    needed,
    parse_quantity,
    selected,
    spread_needs,
    whole,
)

from .conflicts import amount_of, disk_taken, free_of, port_taken, room_beside
from .neighbours import apart_from_wanted, kept_off, too_near, uneven, unknown, unlabelled
from .node_conditions import CORDONED, FAILED, READY, SIGNS, failed, relabelled, tainted
from .refusals import Lack, Mended, refusals_of
from .storage import in_the_way, too_many, unreachable

Part = Literal[
    "unschedulable",
    "not-ready",
    "taints",
    "affinity",
    "ports",
    "resources",
    "pods",
    "disks",
    "volume-limits",
    "spread",
    "pod-affinity",
    "anti-affinity",
]


class Filters(PoolStrategy, tag="filters", frozen=True):
    """Refuses the nodes that kube-scheduler would refuse: without it a pod goes anywhere.

    The order is that of kube-scheduler's plugins NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts,
    NodeResourcesFit, VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone, PodTopologySpread and
    InterPodAffinity, but that what no eviction would mend comes first. The first plugin that refuses a node gives the
    reason; NodeResourcesFit gives one for each resource that does not suffice. The texts are elasticd's own,
    as kube-scheduler's change from version to version. Pods that are being deleted still take their room, but do not
    count for spread constraints. Pods on nodes outside the pool count as those on its nodes; but zones (or the like)
    without a node of the pool do not, for a spread constraint with nodeAffinityPolicy Honor, as if the pool's selector
    were a node affinity of the pod.

    Two rules differ. A node whose condition Ready is not True is refused before it has the taint for this, unless the
    pod tolerates that taint. A pod that does not request a resource is not refused where that resource is
    overcommitted, as in current versions; 1.20 refused it.
    """

    keeps_off: ClassVar[bool] = True

    skip: Annotated[
        tuple[Part, ...],
        Meta(description="filters that are off; without resources or pods nodes may be filled beyond what they have"),
    ] = ()
    keep_free: Annotated[
        dict[str, str], Meta(description='of each node, by resource, what pods placed here leave free ("500m", "1Gi")')
    ] = field(default_factory=dict)

    default_spread: DefaultSpread = ()
    added_affinity: Annotated[
        tuple[Term, ...],
        Meta(description="node affinity of all pods beside their own: terms of which one must hold"),
    ] = ()

    def __post_init__(self) -> None:
        for resource, amount in self.keep_free.items():
            try:
                quantity = parse_quantity(amount)
            except ValueError as error:
                raise ValueError(f"keep_free.{resource}: {error}") from None
            if quantity < 0:
                raise ValueError(f"keep_free.{resource}: must be >= 0, is {amount!r}")
            if whole(resource, quantity) >= LARGEST:
                most = "1T" if resource == "cpu" else "1P"
                raise ValueError(f"keep_free.{resource}: must be < {most}, is {amount!r}")

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def filter_nodes(self, pod: Pod, nodes: Nodes) -> Sequence[Refusal]:
        """A refusal for each reason; none where no node is refused."""
        unfit = [*self._unfit(pod.needs, nodes), *self._misplaced(pod, nodes)]
        unfit = [lack for lack in unfit if lack.nodes.any()]
        kinds = (self._ports, self._shortages, self._disks, self._unattachable, self._uneven, self._repelled)
        stages = [list(stage(pod, nodes)) for stage in kinds]
        return refusals_of(unfit, stages, nodes) if unfit or any(stages) else []

    def _unfit(self, needs: Needs, nodes: Nodes) -> Iterator[Lack]:
        """Nodes that no free room would make fit, each with what would."""
        explained = frozenset[str]()
        if "unschedulable" not in self.skip and needs.tolerates((CORDONED,)):
            explained |= {CORDONED.key}
            closed = nodes.matching("filters: cordoned", lambda node: node.unschedulable)
            yield Lack("node(s) were unschedulable", closed, mends=partial(_always, "nodes are uncordoned", nodes))
        if "not-ready" not in self.skip and needs.tolerates((FAILED,)):
            explained |= SIGNS
            down = nodes.matching("filters: failed", failed)
            yield Lack("node(s) were not ready", down, mends=partial(_always, READY, nodes))
        if "taints" not in self.skip:
            for reason, mend, mask in tainted((needs.tolerations, explained), nodes.nodes):
                yield Lack(reason, mask, mends=partial(_always, mend, nodes) if mend else None)
        if "affinity" not in self.skip and (needs.selector or needs.affinity is not None):
            text = "node(s) didn't match Pod's node affinity/selector"
            yield Lack(text, ~selected(needs, nodes), mends=partial(relabelled, needs, nodes))
        if "affinity" not in self.skip and self.added_affinity:
            added = any_of((matching(term, nodes) for term in self.added_affinity), ~every_node(nodes))
            mend = "nodes have the labels of added_affinity of strategy filters"
            yield Lack("node(s) didn't match added_affinity", ~added, mends=partial(_always, mend, nodes))

    def _misplaced(self, pod: Pod, nodes: Nodes) -> Iterator[Lack]:
        """Nodes that volumes or other pods make unfit, which no eviction would mend."""
        if pod.volume_claims:
            yield from unreachable(pod, nodes)
        if "spread" not in self.skip:
            yield from unlabelled(spread_needs(pod, self.default_spread), nodes)
        if pod.needs.has_pod_terms:
            yield from unknown(pod, nodes)
            if "pod-affinity" not in self.skip:
                yield from apart_from_wanted(pod, nodes)

    def _ports(self, pod: Pod, nodes: Nodes) -> Iterator[Lack]:
        if pod.needs.ports and "ports" not in self.skip:
            clash = any_of((port_taken(port, nodes) for port in pod.needs.ports), every_node(nodes))
            yield Lack("node(s) didn't have free ports for the requested pod ports", clash, every_node(nodes))

    def _shortages(self, pod: Pod, nodes: Nodes) -> Iterator[Lack]:
        for resource, amount in needed(pod).items():
            if amount <= 0 or ("pods" if resource == "pods" else "resources") in self.skip:
                continue
            limit, requested = self._most(resource, nodes), nodes.requested(resource)
            short = requested > room_beside((resource, amount), limit)
            if not short.any():
                continue
            reason = "Too many pods" if resource == "pods" else f"Insufficient {resource}"
            fixes = partial(_less, resource, limit, requested)
            if resource not in self.keep_free:
                yield Lack(reason, short, limit >= amount, fixes)
                continue
            after, allocatable = requested + amount, nodes.allocatable(resource)
            missing, reserved = {resource: after - limit}, short & (after <= allocatable)
            yield Lack(reason, short & ~reserved, limit >= amount, fixes, missing)
            reason = f"{reason} (keep_free keeps {self.keep_free[resource]})"
            fixes = partial(_less, resource, limit, requested, allocatable - after)
            yield Lack(reason, reserved, limit >= amount, fixes, missing)

    def _disks(self, pod: Pod, nodes: Nodes) -> Iterator[Lack]:
        if pod.needs.disks and "disks" not in self.skip:
            clash = any_of((disk_taken(disk, nodes) for disk in pod.needs.disks), every_node(nodes))
            yield Lack("node(s) had no available disk", clash, every_node(nodes))

    def _unattachable(self, pod: Pod, nodes: Nodes) -> Iterator[Lack]:
        if pod.volume_claims:
            yield from in_the_way(pod, nodes)
            if "volume-limits" not in self.skip:
                yield from too_many(pod, nodes)

    def _uneven(self, pod: Pod, nodes: Nodes) -> Iterator[Lack]:
        if "spread" not in self.skip and (needs := spread_needs(pod, self.default_spread)).spread:
            yield from uneven(pod, needs, nodes)

    def _repelled(self, pod: Pod, nodes: Nodes) -> Iterator[Lack]:
        if "anti-affinity" not in self.skip:
            yield from too_near(pod, nodes)
            yield from kept_off(pod, nodes)

    def _most(self, resource: str, nodes: Nodes) -> Whole:
        reserve = self.keep_free.get(resource)
        allocatable = nodes.allocatable(resource)
        return allocatable if reserve is None else free_of((resource, amount_of(resource, reserve)), allocatable)


def _less(resource: str, most: Whole, before: Whole, left: Whole | None = None) -> Mended:
    """Remedies: a smaller request where something is left, and a smaller keep_free where that suffices."""
    room, mends = most - before, list[Mend]()
    if resource != "pods":
        mends.append(Mend(f"it requests at most {{}} {resource}", resource, room, least=1))
    if left is not None:
        mends.append(Mend(f"keep_free.{resource} of strategy filters is at most {{}}", resource, left))
    return tuple(mends), np.ones_like(room, dtype=np.bool_)


def _always(mend: str, nodes: Nodes) -> Mended:
    return (Mend(mend),), every_node(nodes)


@hookimpl
def register_strategies() -> list[type[PoolStrategy]]:
    return [Filters]
