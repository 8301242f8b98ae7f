"""What nodes lack for a pod, put together: of each node the first reason, and what would mend it.

Knows masks of nodes; knows no filter.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from types import MappingProxyType

import numpy as np

from elasticd.api import Mask, Mend, Nodes, Refusal, Struct, Whole

Mended = tuple[tuple[Mend, ...], Mask]
"""What would have to be otherwise, whichever of it, and for which nodes that would do."""


class Lack(Struct, frozen=True, eq=False):
    """Nodes that lack something; all nodes that would have it if they were empty, None: it is no matter of room.
    `mends`: what would do where nothing else is in the way. `missing`: see Refusal."""

    reason: str
    nodes: Mask
    curable: Mask | None = None
    mends: Callable[[], Mended] | None = None
    missing: Mapping[str, Whole] = {}


def refusals_of(unfit: Sequence[Lack], stages: Sequence[Sequence[Lack]], nodes: Nodes) -> list[Refusal]:
    """Each node by the first that it lacks, in this order; all of one stage count. `unfit` is what no room would
    mend. Of a node that lacks several things, one of which fewer pods would not mend, nothing is curable. `crowded` are
    nodes where one thing and pods are in the way."""
    full = [one for stage in stages for one in stage]
    alone = _once([one.nodes for one in chain(unfit, full)], nodes)
    hopeless = any_of((one.nodes & ~one.curable for one in full if one.curable is not None), alone)
    crowded = _once([one.nodes for one in unfit], nodes) & ~(alone | hopeless) if full else None
    missing = {resource: lack for one in full for resource, lack in one.missing.items()}
    found: list[Refusal] = []
    left = all_of(nodes)
    for one in unfit:
        there = one.nodes & left
        if crowded is not None:
            found += _told(one, there & crowded, crowded, " and pods there leave")
            there = there & ~crowded
        found += _told(one, there, alone)
        left = left & ~one.nodes
    for stage in filter(None, stages):
        for one in stage:
            there = one.nodes & left
            found += [
                *_told(one, there & ~hopeless, alone, curable=True, missing=missing),
                *_told(one, there & hopeless, alone),
            ]
        left = left & ~any_of((one.nodes for one in stage), left)
    return found


def _told(
    lack: Lack,
    nodes: Mask,
    alone: Mask,
    besides: str = "",
    *,
    curable: bool = False,
    missing: Mapping[str, Whole] = MappingProxyType({}),
) -> Iterator[Refusal]:
    """Those that its mends would do for, which are alone, apart from those where something else is in the way too;
    `besides`: what would have to be besides."""
    if not nodes.any():
        return
    if lack.mends is not None and (helped := nodes & alone).any():
        found, able = lack.mends()
        helped = helped & able
        if besides:
            found = tuple([Mend(one.text + besides, one.resource, one.most, one.least) for one in found])
        if helped.any():
            yield Refusal(lack.reason, helped, curable=curable, mends=found, missing=missing)
        nodes = nodes & ~helped
    if nodes.any():
        yield Refusal(lack.reason, nodes, curable=curable, missing=missing)


def _once(masks: Sequence[Mask], nodes: Nodes) -> Mask:
    """The nodes that one of these has, and no other."""
    once, more = any_of(masks[:1], all_of(nodes)), ~all_of(nodes)
    for mask in masks[1:]:
        more |= once & mask
        once |= mask
    return once & ~more


def all_of(nodes: Nodes) -> Mask:
    """Every node."""
    return np.ones(len(nodes.names), dtype=np.bool_)


def any_of(masks: Iterable[Mask], like: Mask) -> Mask:
    """The nodes of any of these."""
    return reduce(np.logical_or, masks, np.zeros_like(like))
