"""Carries out one action on a pod, and returns its outcome.

Knows that a failure becomes an outcome and harms no other action; knows nothing of why it is done. For workloads see
runtime/execute.
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
    """Carry out an action. A cancelled one counts as failed, because it may have been done."""
    started = clock.now()
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
        action=_action_name(action),
        node=action.node,
        result=answer.result,
        code=answer.code,
        message=answer.message,
        reason=answer.reason,
        seconds=now - started,
    )


def _action_name(action: PodAction) -> Literal["bind", "evict", "nominate"]:
    match action:
        case Bind():
            return "bind"
        case Evict():
            return "evict"
        case Nominate():
            return "nominate"
