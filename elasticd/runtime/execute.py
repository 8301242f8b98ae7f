"""Carries out a decision about a workload, and returns the outcomes.

Knows a cluster, and that a failure becomes an outcome and harms no other action; knows nothing of who is next.
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
    """Write an event about the workload. A failure is ignored: the journal has it too, and nothing waits for it."""
    with contextlib.suppress(Exception):
        await cluster.act(announcement)


async def carry_out_all(
    cluster: Cluster, clock: Clock, decision: Decision, job: JobSet | None
) -> AsyncIterator[Outcome]:
    """Carry out the action with its marks, then delete Jobs, then resize pods; yields an outcome each. Stops after one
    that was cancelled."""
    last_reason = ""
    if decision.action or decision.marks:
        outcome = await carry_out(cluster, clock, decision, job)
        last_reason = outcome.reason
        yield outcome
    for removal in decision.removals:
        if last_reason != STOPPED:
            outcome = await _attempt(clock, decision, partial(cluster.act, removal), (removal.before, removal.after))
            last_reason = outcome.reason
            yield replace(outcome, condition=None)
    for resize in decision.sizing.resizes if decision.mode == "act" else ():
        if last_reason in (STOPPED, NO_RESIZE):
            return
        outcome = await _attempt(clock, decision, partial(cluster.act, resize), (decision.current, decision.current))
        last_reason = outcome.reason
        resized = "" if outcome.result == "refused" else resize.uid
        message = f"{resize.pod}: {outcome.message}" if outcome.message else ""
        yield replace(outcome, condition=None, resized=resized, message=message)


async def carry_out(cluster: Cluster, clock: Clock, decision: Decision, job: JobSet | None = None) -> Outcome:
    """Carry out the decision's marks and action; `job` has the template for new Jobs."""
    action = decision.action
    count = (action.before, action.after) if action else (decision.current, decision.current)
    outcome = await _attempt(clock, decision, partial(_mark_and_act, cluster, decision, job), count)
    return outcome if action else replace(outcome, condition=None)


async def _attempt(
    clock: Clock, decision: Decision, work: Callable[[], Awaitable[Answer]], count: tuple[int, int]
) -> Outcome:
    """Do the work unless the policy only observes. A cancelled attempt has an outcome too, with reason STOPPED."""
    started, answer = clock.now(), Answer("observed", message="mode = observe")
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
        seconds=now - started,
    )


async def _mark_and_act(cluster: Cluster, decision: Decision, job: JobSet | None) -> Answer:
    """Write the marks, then act: without marks the wrong pods would go, or a sleeping workload would never wake.

    The manifest of a Job is added only now, because it may hold what belongs in no record.
    """
    answer, action = Answer("done"), decision.action
    for mark in decision.marks:
        answer = await cluster.act(mark)
        if answer.result != "done" and answer.reason != "NotFound" and not (action and _only_removes(mark)):
            why = f" ({mark.reason})" if mark.reason else ""
            return replace(answer, message=f"{mark.pod or mark.workload} could not be marked{why}: {answer.message}")
    if isinstance(action, Create) and job is not None:
        action = replace(action, manifest=job.manifest)
    return await cluster.act(action) if action else answer


def _only_removes(mark: Mark) -> bool:
    """Whether a mark only removes annotations of a workload: no change of its count needs to wait for that."""
    return not mark.pod and all(value is None for value in mark.annotations.values())
