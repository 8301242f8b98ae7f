"""Carries out what was decided, and tells what came of it.

Knows a cluster, and that whatever happens to one action is told and harms no other; knows nothing of who is next.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from elasticd.base.clock import Clock
from elasticd.base.text import raised
from elasticd.decision.decide import condition_after
from elasticd.kit.history import NO_RESIZE
from elasticd.model.actions import Announce, Answer, Create, Mark
from elasticd.model.policy import JobSet
from elasticd.model.records import Decision, Outcome
from elasticd.ports.cluster import Cluster

STOPPED = "Stopped"
"""The reason of an outcome that was cancelled."""


async def announce(cluster: Cluster, announcement: Announce) -> None:
    """Tell it at the workload. It is in the journal too, and nothing waits for it."""
    with contextlib.suppress(Exception):
        await cluster.act(announcement)


async def carry_out_all(
    cluster: Cluster, clock: Clock, decision: Decision, job: JobSet | None
) -> AsyncIterator[Outcome]:
    """The action with its marks, then the Jobs to delete, then pods to resize; what came of each. After one that was
    cancelled no more."""
    last = ""
    if decision.action or decision.marks:
        outcome = await carry_out(cluster, clock, decision, job)
        last = outcome.reason
        yield outcome
    for removal in decision.removals:
        if last != STOPPED:
            outcome = await _told(clock, decision, partial(cluster.act, removal), (removal.before, removal.after))
            last = outcome.reason
            yield replace(outcome, condition=None)
    for resize in decision.sizing.resizes if decision.mode == "act" else ():
        if last in (STOPPED, NO_RESIZE):
            return
        outcome = await _told(clock, decision, partial(cluster.act, resize), (decision.current, decision.current))
        last = outcome.reason
        sent = "" if outcome.result == "refused" else resize.uid
        told = f"{resize.pod}: {outcome.message}" if outcome.message else ""
        yield replace(outcome, condition=None, resized=sent, message=told)


async def carry_out(cluster: Cluster, clock: Clock, decision: Decision, job: JobSet | None = None) -> Outcome:
    """Do what it asks for, of a job set from its template."""
    action = decision.action
    count = (action.before, action.after) if action else (decision.current, decision.current)
    outcome = await _told(clock, decision, partial(_do, cluster, decision, job), count)
    return outcome if action else replace(outcome, condition=None)


async def _told(
    clock: Clock, decision: Decision, work: Callable[[], Awaitable[Answer]], count: tuple[int, int]
) -> Outcome:
    """Do it, unless the policy only observes; cancelled, the outcome says so and is given all the same."""
    begun, answer = clock.now(), Answer("observed", message="mode = observe")
    if decision.mode == "act":
        try:
            answer = await work()
        except asyncio.CancelledError:
            answer = Answer("failed", message="elasticd stopped before the answer came", reason=STOPPED)
        except Exception as error:
            answer = Answer("failed", message=raised(error), reason=type(error).__name__)
    now = clock.now()
    return Outcome(
        decision=decision.id,
        at=now,
        policy=decision.policy,
        workload=decision.workload,
        result=answer.result,
        before=count[0],
        after=count[1] if answer.after is None else answer.after,
        code=answer.code,
        message=answer.message,
        reason=answer.reason,
        condition=condition_after(answer),
        seconds=now - begun,
    )


async def _do(cluster: Cluster, decision: Decision, job: JobSet | None) -> Answer:
    """The marks, and then the action: without them the wrong pods would go, or nobody would wake what sleeps.

    The manifest of a Job is given only now: what it may hold belongs in no record.
    """
    answer, action = Answer("done"), decision.action
    for mark in decision.marks:
        answer = await cluster.act(mark)
        if answer.result != "done" and answer.reason != "NotFound" and not (action and _tidies(mark)):
            why = f" ({mark.reason})" if mark.reason else ""
            return replace(answer, message=f"{mark.pod or mark.workload} could not be marked{why}: {answer.message}")
    if isinstance(action, Create) and job is not None:
        action = replace(action, manifest=job.manifest)
    return await cluster.act(action) if action else answer


def _tidies(mark: Mark) -> bool:
    """Whether it only takes away what a workload no longer needs, which no change of a count waits for."""
    return not mark.pod and all(value is None for value in mark.annotations.values())
