"""Carries out what was decided, and tells what came of it.

Knows a cluster, and that whatever happens to one action is told and harms no other; knows nothing of who is next.
"""

import asyncio
import contextlib

from msgspec.structs import replace

from elasticd.clock import Clock
from elasticd.cluster import Cluster
from elasticd.decide import condition_after
from elasticd.model import Announce, Answer, Decision, Mark, Outcome
from elasticd.words import raised


async def announce(cluster: Cluster, announcement: Announce) -> None:
    """Tell it at the workload. It is in the journal too, and nothing waits for it."""
    with contextlib.suppress(Exception):
        await cluster.act(announcement)


async def carry_out(cluster: Cluster, clock: Clock, decision: Decision) -> Outcome:
    """Do it, unless the policy only observes; cancelled, the outcome says so and is given all the same."""
    begun, answer = clock.now(), Answer("observed", message="mode = observe")
    if decision.mode == "act":
        try:
            answer = await _do(cluster, decision)
        except asyncio.CancelledError:
            answer = Answer("failed", message="elasticd stopped before the answer came", reason="Stopped")
        except Exception as error:
            answer = Answer("failed", message=raised(error), reason=type(error).__name__)
    now, action = clock.now(), decision.action
    return Outcome(
        decision=decision.id,
        at=now,
        policy=decision.policy,
        workload=decision.workload,
        result=answer.result,
        before=action.before if action else decision.current,
        after=action.after if action else decision.current,
        code=answer.code,
        message=answer.message,
        reason=answer.reason,
        condition=condition_after(answer) if action else None,
        seconds=now - begun,
    )


async def _do(cluster: Cluster, decision: Decision) -> Answer:
    """The marks, and then the action: without them the wrong pods would go, or nobody would wake what sleeps."""
    answer = Answer("done")
    for mark in decision.marks:
        answer = await cluster.act(mark)
        if answer.result != "done" and answer.reason != "NotFound" and not (decision.action and _tidies(mark)):
            why = f" ({mark.reason})" if mark.reason else ""
            return replace(answer, message=f"{mark.pod or mark.workload} could not be marked{why}: {answer.message}")
    return await cluster.act(decision.action) if decision.action else answer


def _tidies(mark: Mark) -> bool:
    """Whether it only takes away what a workload no longer needs, which no change of a count waits for."""
    return not mark.pod and all(value is None for value in mark.annotations.values())
