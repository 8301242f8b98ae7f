"""What would have to change for a pod that found no place.

Pure. Knows what was refused and how much is missing; knows no rule.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from elasticd.columns import PODS, Columns, needed
from elasticd.model import Pod
from elasticd.placements import Whole
from elasticd.placing.look import Found
from elasticd.units import format_milli

_GIB, _MIB = 2.0**30, 2.0**20
_TOLD = 3


def lacking(columns: Columns, pod: Pod, found: Found, yields: Mapping[str, int]) -> str:
    """In a sentence, of the node that lacks least, of those where only what other pods take is in the way; or what
    would have to be otherwise for those to give way (`yields`, with how many nodes that is said of). Where there is no
    such node, or one has room, what filters say would have to be otherwise. Empty where nothing simple can be said."""
    bound = found.bound
    if not columns.names:
        return "a node would have to be in the pool: it has none"
    if bound is not None and not bound.nodes.any():
        return f"a node would have to match {bound.why}"
    places = np.flatnonzero(found.curable if bound is None or bound.full == "any" else found.curable & bound.nodes)
    need = needed(pod)
    if not len(places):
        return _too_large(columns, need) or _otherwise(found.mends)
    best, short = _nearest(columns, need, places)
    name = columns.names[best]
    if short:
        amounts = " and ".join(f"{_said(resource, amount)} {resource}" for resource, amount in short.items())
        nearest = f"{name} is nearest: pods that stay there would have to request {amounts} less"
        return "; or ".join(filter(None, (nearest, _otherwise(yields))))
    if any(columns.requested(one)[best] + amount > columns.allocatable(one)[best] for one, amount in need.items()):
        room = f"{name} has room once those that are leaving it have left"
    else:
        room = f"{name} has room: what else is in the way there would have to leave it"
    return "; or ".join(filter(None, (_otherwise(found.mends), room)))


def _nearest(columns: Columns, need: Mapping[str, int], places: NDArray[np.intp]) -> tuple[int, dict[str, int]]:
    """The node that lacks the smallest share of what it has, and how much of what, once all that leave have left."""
    share = np.zeros(len(places), dtype=np.float64)
    short: dict[str, Whole] = {}
    for resource, amount in need.items():
        whole = columns.allocatable(resource)[places]
        short[resource] = np.maximum(columns.staying(resource)[places] + amount - whole, 0)
        share += short[resource] / np.maximum(whole, 1)
    best = int(np.argmin(share))
    return int(places[best]), {name: int(missing[best]) for name, missing in short.items() if missing[best]}


def _too_large(columns: Columns, need: Mapping[str, int]) -> str:
    """What no node has so much of."""
    for resource, amount in need.items():
        most = int(columns.allocatable(resource).max())
        if amount > most:
            return (
                f"it requests {_said(resource, amount)} {resource}, and no node has more than {_said(resource, most)}"
            )
    return ""


def _otherwise(mends: Mapping[str, int]) -> str:
    """What helps on most nodes first."""
    told = sorted(mends.items(), key=lambda one: (-one[1], one[0]))[:_TOLD]
    return "; or ".join(f"{mend} ({count} {'node' if count == 1 else 'nodes'})" for mend, count in told)


def _said(resource: str, amount: int) -> str:
    """A whole amount as a person writes it."""
    if resource == "cpu":
        return format_milli(amount)
    if resource == PODS or amount < _MIB:
        return str(amount)
    return f"{amount / _GIB:.1f}Gi" if amount >= _GIB else f"{amount / _MIB:.0f}Mi"
