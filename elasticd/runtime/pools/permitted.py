"""Makes a plan whose evictions would all be let through.

Knows what the disruption budgets say of evictions before they are tried; knows no rule of who gives way.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from elasticd.model.actions import Evict
from elasticd.model.placement import PodDecision

TIMES = 4
"""Plans for one look, at most; an eviction of the last one may still be refused."""

Refused = Mapping[str, tuple[str, str]]
"""By UID, the pods for which no other may be evicted, and why, one word and a sentence."""

Plan = Callable[[Refused], Awaitable[tuple[PodDecision, ...]]]
"""Makes a plan that evicts no pod for these."""

Refusal = Callable[[Sequence[Evict]], tuple[str, str] | None]
"""Why not all of these evictions would be let through, one word and a sentence; None: they would."""


async def permitted(plan: Plan, refusal: Refusal) -> tuple[PodDecision, ...]:
    """Plan, and plan again without preemption for the pods whose evictions would be refused: room kept for them in vain
    would make other pods evict more."""
    refused: dict[str, tuple[str, str]] = {}
    decisions = await plan(refused)
    for _ in range(TIMES - 1):
        in_vain = {decision.uid: why for decision in decisions if (why := _refusal_of(decision, refusal))}
        if not in_vain:
            break
        refused.update(in_vain)
        decisions = await plan(refused)
    return decisions


def _refusal_of(decision: PodDecision, refusal: Refusal) -> tuple[str, str] | None:
    evictions = [action for action in decision.actions if isinstance(action, Evict)]
    return refusal(evictions) if evictions and decision.mode == "act" else None
