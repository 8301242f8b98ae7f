"""Carries out what was decided, and tells what came of it.

Knows a cluster, and that whatever happens to one action is told and harms no other; knows nothing of who is next.
"""

import asyncio
import contextlib

from elasticd.clock import Clock
from elasticd.cluster import Cluster
from elasticd.decide import condition_after
from elasticd.model import Announce, Answer, Decision, Outcome, Scale
from elasticd.words import raised


async def announce(cluster: Cluster, announcement: Announce) -> None:
    """Tell it at the workload. It is in the journal too, and nothing waits for it."""
    with contextlib.suppress(Exception):
        await cluster.act(announcement)


async def carry_out(cluster: Cluster, clock: Clock, decision: Decision, action: Scale) -> Outcome:
    """Do it, unless the policy only observes; cancelled, the outcome says so and is given all the same."""
    begun, answer = clock.now(), Answer("observed", message="mode = observe")
    if decision.mode == "act":
        try:
            answer = await cluster.act(action)
        except asyncio.CancelledError:
            answer = Answer("failed", message="elasticd stopped before the answer came", reason="Stopped")
        except Exception as error:
            answer = Answer("failed", message=raised(error), reason=type(error).__name__)
    now = clock.now()
    return Outcome(
        decision=decision.id,
        at=now,
        policy=decision.policy,
        workload=decision.workload,
        result=answer.result,
        before=action.before,
        after=action.after,
        code=answer.code,
        message=answer.message,
        reason=answer.reason,
        condition=condition_after(answer),
        seconds=now - begun,
    )
