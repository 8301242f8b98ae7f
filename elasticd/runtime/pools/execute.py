"""Does something to a pod, and tells what came of it.

Knows that whatever happens to one action is told and harms no other; knows nothing of why it is done. See acting for
workloads.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

from elasticd.base.clock import Clock
from elasticd.base.text import raised
from elasticd.model.actions import Answer, Bind, Evict, Nominate
from elasticd.model.moves import MoveDecision
from elasticd.model.placement import PodDecision, PodOutcome

PodAction = Bind | Evict | Nominate


async def carry_out(
    clock: Clock, decision: PodDecision | MoveDecision, action: PodAction, work: Callable[[], Awaitable[Answer]]
) -> PodOutcome:
    """What came of it; one that was cancelled is told as failed, for it may have been done."""
    begun = clock.now()
    try:
        answer = await work()
    except asyncio.CancelledError:
        answer = Answer("failed", message="elasticd stopped before the answer came", reason="Stopped")
    except Exception as error:
        answer = Answer("failed", message=raised(error), reason=type(error).__name__)
    now = clock.now()
    return PodOutcome(
        decision=decision.id,
        at=now,
        policy=decision.policy,
        pod=decision.pod,
        about=action.workload,
        action=_word(action),
        node=action.node,
        result=answer.result,
        code=answer.code,
        message=answer.message,
        reason=answer.reason,
        seconds=now - begun,
    )


def _word(action: PodAction) -> Literal["bind", "evict", "nominate"]:
    match action:
        case Bind():
            return "bind"
        case Evict():
            return "evict"
        case Nominate():
            return "nominate"
