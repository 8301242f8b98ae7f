"""Combines the reasons against nodes: for each node the first reason, and the remedy.

Knows masks of nodes; knows no filter.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType

from elasticd.api import Mask, Mend, Nodes, Refusal, Struct, Whole
from elasticd.kit import any_of, every_node

Mended = tuple[tuple[Mend, ...], Mask]
"""Remedies, any of which would do, and the nodes for which they would."""


class Lack(Struct, frozen=True, eq=False):
    """Nodes that lack something. `curable`: all nodes that would have it if they were empty; None: it is not a matter
    of room. `mends`: the remedies where nothing else is in the way. `missing`: see Refusal."""

    reason: str
    nodes: Mask
    curable: Mask | None = None
    mends: Callable[[], Mended] | None = None
    missing: Mapping[str, Whole] = {}


def refusals_of(unfit: Sequence[Lack], stages: Sequence[Sequence[Lack]], nodes: Nodes) -> list[Refusal]:
    """Refuse each node for the first reason in this order; all reasons of one stage count. `unfit` are reasons that no
    free room would remove.

    A node with several reasons, one of which the eviction of pods would not remove, is not curable. `crowded` are the
    nodes with exactly one reason of `unfit` besides pods in the way.
    """
    shortages = [lack for stage in stages for lack in stage]
    alone = _exactly_one([lack.nodes for lack in chain(unfit, shortages)], nodes)
    hopeless = any_of((lack.nodes & ~lack.curable for lack in shortages if lack.curable is not None), alone)
    crowded = _exactly_one([lack.nodes for lack in unfit], nodes) & ~(alone | hopeless) if shortages else None
    missing = {resource: amount for lack in shortages for resource, amount in lack.missing.items()}
    refusals: list[Refusal] = []
    undecided = every_node(nodes)
    for lack in unfit:
        lacking = lack.nodes & undecided
        if crowded is not None:
            refusals += _refuse(lack, lacking & crowded, crowded, " and pods there leave")
            lacking = lacking & ~crowded
        refusals += _refuse(lack, lacking, alone)
        undecided = undecided & ~lack.nodes
    for stage in filter(None, stages):
        for lack in stage:
            lacking = lack.nodes & undecided
            refusals += [
                *_refuse(lack, lacking & ~hopeless, alone, curable=True, missing=missing),
                *_refuse(lack, lacking & hopeless, alone),
            ]
        undecided = undecided & ~any_of((lack.nodes for lack in stage), undecided)
    return refusals


def _refuse(
    lack: Lack,
    nodes: Mask,
    alone: Mask,
    besides: str = "",
    *,
    curable: bool = False,
    missing: Mapping[str, Whole] = MappingProxyType({}),
) -> Iterator[Refusal]:
    """Refusals for these nodes: those that are `alone` with this reason and that its remedies would help, apart from
    the others. `besides`: text that a remedy gets for what else would be necessary."""
    if not nodes.any():
        return
    if lack.mends is not None and (helped := nodes & alone).any():
        mends, able = lack.mends()
        helped = helped & able
        if besides:
            mends = tuple([Mend(mend.text + besides, mend.resource, mend.most, mend.least) for mend in mends])
        if helped.any():
            yield Refusal(lack.reason, helped, curable=curable, mends=mends, missing=missing)
        nodes = nodes & ~helped
    if nodes.any():
        yield Refusal(lack.reason, nodes, curable=curable, missing=missing)


def _exactly_one(masks: Sequence[Mask], nodes: Nodes) -> Mask:
    once, several = any_of(masks[:1], every_node(nodes)), ~every_node(nodes)
    for mask in masks[1:]:
        several |= once & mask
        once |= mask
    return once & ~several
