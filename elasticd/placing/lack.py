"""What would have to change for a pod that found no place.

Pure. Knows what was refused and how much is missing; knows no rule.
"""

from collections.abc import Mapping

import numpy as np

from elasticd.columns import PODS, Columns, needed
from elasticd.model import Pod
from elasticd.placements import Mask, Selection, Whole
from elasticd.units import format_milli

_GIB, _MIB = 2.0**30, 2.0**20
_TOLD = 3


def lacking(
    columns: Columns, pod: Pod, curable: Mask, bound: Selection | None, mends: Mapping[str, int] | None = None
) -> str:
    """In a sentence, of the node that lacks least. `curable` are the nodes where only what other pods take is in the
    way; where there is none, or one of them has room, what filters say would have to be otherwise (`mends`), on how
    many nodes. Empty where nothing simple can be said."""
    if not columns.names:
        return "a node would have to be in the pool: it has none"
    if bound is not None and not bound.nodes.any():
        return f"a node would have to match {bound.why}"
    places = np.flatnonzero(curable if bound is None or bound.full == "any" else curable & bound.nodes)
    need = needed(pod)
    if not len(places):
        return _too_large(columns, need) or _otherwise(mends or {})
    share = np.zeros(len(places), dtype=np.float64)
    short: dict[str, Whole] = {}
    for resource, amount in need.items():
        missing = (columns.requested(resource) + amount - columns.allocatable(resource))[places]
        short[resource] = missing
        share += np.maximum(missing, 0) / np.maximum(columns.allocatable(resource)[places], 1)
    best = int(np.argmin(share))
    amounts = [f"{_said(name, int(missing[best]))} {name}" for name, missing in short.items() if missing[best] > 0]
    name = columns.names[int(places[best])]
    if not amounts:
        room = f"{name} has room: what else is in the way there would have to leave it"
        return "; or ".join(filter(None, (_otherwise(mends or {}), room)))
    return f"{name} is nearest: pods there would have to request {' and '.join(amounts)} less"


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
