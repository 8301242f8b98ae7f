"""Where a pod may be by its volumes: claims, node affinity and zones of volumes, and how many of them nodes take.

Knows what would have to change; knows nothing of how a claim is bound.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from elasticd.api import Mend, Nodes, Pod
from elasticd.kit import (
    Blocked,
    beyond_limits,
    every_node,
    in_use,
    in_use_outside,
    match_claims,
    mounts_of,
    stranded,
    within_reach,
    within_zones,
)

from .refusals import Lack, Mended

AFFINITY = "node(s) had volume node affinity conflict"
ZONES = "node(s) had no available volume zone"
UNMATCHED = "node(s) didn't find available persistent volumes to bind"
LIMITS = "node(s) exceed max volume count"
IN_USE = "node(s) cannot be used: another pod uses a claim of access mode ReadWriteOncePod"


def unreachable(pod: Pod, nodes: Nodes) -> Iterator[Lack]:
    """Nodes where the volumes of a pod cannot be used, which no eviction would mend."""
    mounts = mounts_of(pod, nodes.volumes)
    if isinstance(mounts, Blocked):
        yield Lack(f"node(s) cannot be used: {mounts.why}", every_node(nodes), mends=partial(_once, mounts.mend, nodes))
        return
    yield Lack(AFFINITY, ~within_reach(mounts.bound, nodes))
    yield Lack(ZONES, ~within_zones(mounts.bound, nodes))
    if why := stranded(mounts.pending, nodes):
        yield Lack(f"node(s) cannot be used: {why.why}", every_node(nodes), mends=partial(_once, why.mend, nodes))
    elif mounts.pending:
        yield Lack(UNMATCHED, ~match_claims(mounts.pending, nodes).fits)


def in_the_way(pod: Pod, nodes: Nodes) -> Iterator[Lack]:
    """All nodes while another pod uses a claim of the pod's that only one may use; if that is on one node alone, it may
    be evicted there."""
    users = in_use(pod, nodes)
    if in_use_outside(pod, nodes):
        yield Lack(IN_USE, every_node(nodes), ~every_node(nodes))
    elif users.any():
        yield Lack(IN_USE, every_node(nodes), users & (np.count_nonzero(users) == 1))


def too_many(pod: Pod, nodes: Nodes) -> Iterator[Lack]:
    """Nodes that cannot take as many more volumes."""
    yield Lack(LIMITS, *beyond_limits(pod, nodes))


def _once(mend: str, nodes: Nodes) -> Mended:
    return (Mend(mend),), every_node(nodes)
