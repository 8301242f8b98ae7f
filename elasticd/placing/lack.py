"""What would have to change for a pod that found no place.

Pure. Knows what was refused and how much is missing; knows no rule.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from elasticd.columns import Columns, needed
from elasticd.model import Pod
from elasticd.placements import Mask, Refusal, Whole
from elasticd.placing.look import UNBOUND, Found
from elasticd.units import format_amount
from elasticd.words import counted

_TOLD = 3

NOTHING = "no one thing alone would do"


def lacking(columns: Columns, pod: Pod, found: Found, yields: Mapping[str, int]) -> str:
    """In a sentence: what is missing on the node that lacks least, of those where only what other pods take is in the
    way; or what else would do, where it alone is in the way, on how many nodes; or what would let those others give way
    (`yields`). Empty where nobody has said why."""
    if not columns.names:
        return "a node would have to be in the pool: it has none"
    bound = found.bound
    if bound is not None and not bound.nodes.any() and bound.unmatched == "any":
        bound = None  # as if it were bound to none
    if bound is not None and not bound.nodes.any():
        room = "" if found.fits.any() else ", and have room for it"
        return f"a node would have to match {bound.match or bound.why}{room}"
    within = np.ones(len(columns.names), dtype=np.bool_) if bound is None or bound.full == "any" else bound.nodes
    places = np.flatnonzero(found.curable & within)
    mends = _helpful(found.said, within)
    if len(places):
        told = [_nearest(columns, pod, places, found.said), _otherwise(mends), _otherwise(yields)]
    else:
        told = [_otherwise(mends) or _too_large(columns, needed(pod))]
    return "; or ".join(filter(None, told)) or (NOTHING if found.said else "")


def _helpful(said: Sequence[Refusal], within: Mask) -> Mapping[str, int]:
    """What would have to be otherwise, on how many nodes; nodes to which the pod is not bound do not help, but if they
    were among those it is bound to. Of nodes that several refuse nothing is said."""
    once, more = np.zeros((2, len(within)), dtype=np.bool_)
    for one in said:
        more |= once & one.nodes
        once |= one.nodes
    counts: Counter[str] = Counter()
    for one in said:
        if one.mend:
            nodes = one.nodes & ~more & (within | (one.reason == UNBOUND))
            counts[one.mend] += int(np.count_nonzero(nodes))
    return counts


def _nearest(columns: Columns, pod: Pod, places: NDArray[np.intp], said: Sequence[Refusal]) -> str:
    """The node that lacks the smallest share of what it has, and how much of what, once all that leave have left."""
    share = np.zeros(len(places), dtype=np.float64)
    missing = {resource: _missing(columns, resource, amount, said) for resource, amount in needed(pod).items()}
    short = {name: np.maximum(lack - columns.leaving(name), 0)[places] for name, lack in missing.items()}
    for name, lack in short.items():
        share += lack / np.maximum(columns.allocatable(name)[places], 1)
    best = int(np.argmin(share))
    index = int(places[best])
    amounts = [f"{format_amount(name, int(lack[best]), up=True)} {name}" for name, lack in short.items() if lack[best]]
    node = columns.names[index]
    if amounts:
        return f"{node} is nearest: pods that stay there would have to request {' and '.join(amounts)} less"
    if any(lack[index] > 0 for lack in missing.values()):
        return f"{node} has room once those that are leaving it have left"
    return f"{node} has room: what else is in the way there would have to leave it"


def _missing(columns: Columns, resource: str, amount: int, said: Sequence[Refusal]) -> Whole:
    """How much of a resource each node lacks; less than 0: it has more."""
    found = columns.requested(resource) + amount - columns.allocatable(resource)
    for one in said:
        if resource in one.missing:
            found[one.nodes] = one.missing[resource][one.nodes]
    return found


def _too_large(columns: Columns, need: Mapping[str, int]) -> str:
    """What no node has so much of, be it of one or of all together."""
    for resource, amount in need.items():
        most = int(columns.allocatable(resource).max())
        if amount > most:
            asked, has = format_amount(resource, amount, up=True), format_amount(resource, most, up=False)
            return f"it requests {asked} {resource}, and no node has more than {has}"
    if not np.logical_and.reduce([columns.allocatable(name) >= amount for name, amount in need.items()]).any():
        return "no node has as much as it requests of everything at once"
    return ""


def _otherwise(mends: Mapping[str, int]) -> str:
    """What helps on most nodes first."""
    told = sorted(((mend, count) for mend, count in mends.items() if count), key=lambda one: (-one[1], one[0]))
    return "; or ".join(f"{mend} ({counted(count, 'node')})" for mend, count in told[:_TOLD])
