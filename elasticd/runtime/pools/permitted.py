"""A plan by which nobody gives way who would not be let go.

Knows what disruption budgets say of evictions before they are asked for; knows no rule of who gives way.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from elasticd.model.actions import Evict
from elasticd.model.placement import PodDecision

TIMES = 4
"""Plans that are made at most for one look; by the last one somebody may be asked for in vain."""

Refused = Mapping[str, tuple[str, str]]
"""Pods, by UID, for which nobody gives way, and why, one word and a sentence."""

Plan = Callable[[Refused], Awaitable[tuple[PodDecision, ...]]]
"""Makes a plan that lets nobody give way for these."""

Refusal = Callable[[Sequence[Evict]], tuple[str, str] | None]
"""Why not all of these would be let go, one word and a sentence; None: they would."""


async def permitted(plan: Plan, refusal: Refusal) -> tuple[PodDecision, ...]:
    """It is made anew without those for whom others would go in vain: what is kept for them is room that others have,
    for whom somebody else would have to go."""
    refused: dict[str, tuple[str, str]] = {}
    decisions = await plan(refused)
    for _ in range(TIMES - 1):
        found = {one.uid: why for one in decisions if (why := _in_vain(one, refusal))}
        if not found:
            break
        refused.update(found)
        decisions = await plan(refused)
    return decisions


def _in_vain(decision: PodDecision, refusal: Refusal) -> tuple[str, str] | None:
    evictions = [action for action in decision.actions if isinstance(action, Evict)]
    return refusal(evictions) if evictions and decision.mode == "act" else None
