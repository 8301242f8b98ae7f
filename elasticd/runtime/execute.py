"""Carries out decisions, and returns the outcomes.

Knows a cluster, and in which order one decision's actions go; knows nothing of who is next.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Literal

from msgspec.structs import replace

from elasticd.base.clock import Clock
from elasticd.decision.decide import condition_after
from elasticd.kit.history import NO_RESIZE
from elasticd.model.actions import NO_ROOM, Answer, Bind, BindClaim, Create, Evict, Mark, Nominate
from elasticd.model.moves import MoveDecision, Underway
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.model.policy import JobSet
from elasticd.model.records import Decision, Outcome
from elasticd.ports.cluster import Cluster
from elasticd.runtime.actions import STOPPED, Attempt, attempt

PodAction = Bind | BindClaim | Evict | Nominate

_NAMES: Mapping[type, Literal["bind", "claim", "evict", "nominate"]] = {
    Bind: "bind",
    BindClaim: "claim",
    Evict: "evict",
    Nominate: "nominate",
}


async def carry_out(
    cluster: Cluster, clock: Clock, decision: Decision, job: JobSet | None = None
) -> AsyncIterator[Outcome]:
    """Carry out the action with its marks, then delete Jobs, then resize pods; yields an outcome each. Stops after one
    that was cancelled. `job` has the template for new Jobs."""
    action, acts, same, last_reason = decision.action, decision.mode == "act", (decision.current, decision.current), ""
    if action or decision.marks:
        answer = _mark_and_act(cluster, decision, job) if acts else _observed()
        outcome = _outcome(decision, await attempt(clock, answer), (action.before, action.after) if action else same)
        last_reason = outcome.reason
        yield outcome if action else replace(outcome, condition=None)
    for removal in decision.removals:
        if last_reason != STOPPED:
            answer = cluster.act(removal) if acts else _observed()
            outcome = _outcome(decision, await attempt(clock, answer), (removal.before, removal.after))
            last_reason = outcome.reason
            yield replace(outcome, condition=None)
    for resize in decision.sizing.resizes if acts else ():
        if last_reason in (STOPPED, NO_RESIZE):
            return
        outcome = _outcome(decision, await attempt(clock, cluster.act(resize)), same)
        last_reason = outcome.reason
        # One without room rests as if it had been resized: others of the workload may have some.
        resized = "" if outcome.result == "refused" and outcome.reason != NO_ROOM else resize.uid
        message = f"{resize.pod}: {outcome.message}" if outcome.message else ""
        yield replace(outcome, condition=None, resized=resized, message=message)


async def _observed() -> Answer:
    return Answer("observed", message="mode = observe")


async def _mark_and_act(cluster: Cluster, decision: Decision, job: JobSet | None) -> Answer:
    """Write the marks, then act: without marks the wrong pods would go, or a sleeping workload would never wake. The
    manifest of a Job is added only now, because it may hold what belongs in no record."""
    answer, action, is_changed = Answer("done"), decision.action, False
    for mark in decision.marks:
        # The version that was judged is there no more once the workload has an earlier mark.
        answer = await cluster.act(replace(mark, version="") if is_changed and not mark.pod else mark)
        is_changed = is_changed or (answer.result == "done" and not mark.pod)
        if answer.result != "done" and answer.reason != "NotFound" and not (action and _only_removes(mark)):
            why = f" ({mark.reason})" if mark.reason else ""
            return replace(answer, message=f"{mark.pod or mark.workload} could not be marked{why}: {answer.message}")
    if isinstance(action, Create) and job is not None:
        action = replace(action, manifest=job.manifest)
    return await cluster.act(action) if action else answer


def _only_removes(mark: Mark) -> bool:
    """Whether a mark only removes annotations of a workload: no change of its count needs to wait for that."""
    return not mark.pod and all(value is None for value in mark.annotations.values())


def not_begun(decision: Decision, at: float, answer: Answer) -> Outcome:
    """What came of a decision of which nothing was done, for this reason."""
    count = (decision.action.before, decision.action.after) if decision.action else (decision.current, decision.current)
    return _outcome(decision, Attempt(answer, at, 0.0), count)


def _outcome(decision: Decision, attempt: Attempt, count: tuple[int, int]) -> Outcome:
    answer = attempt.answer
    return Outcome(
        decision=decision.id,
        at=attempt.at,
        policy=decision.policy,
        workload=decision.workload,
        result=answer.result,
        before=count[0],
        after=count[1] if answer.after is None else answer.after,
        code=answer.code,
        message=answer.message,
        reason=answer.reason,
        condition=condition_after(answer),
        seconds=attempt.seconds,
    )


def pod_outcome(decision: PodDecision | MoveDecision, action: PodAction, attempt: Attempt) -> PodOutcome:
    """What came of one action of a decision about a pod."""
    answer = attempt.answer
    return PodOutcome(
        decision=decision.id,
        at=attempt.at,
        policy=decision.policy,
        pod=decision.pod,
        about=action.workload,
        action=_NAMES[type(action)],
        node=action.node,
        result=answer.result,
        code=answer.code,
        message=answer.message,
        reason=answer.reason,
        seconds=attempt.seconds,
    )


def given_up(decision: MoveDecision, move: Underway, at: float) -> PodOutcome:
    """That a pod which was evicted is not created again."""
    return PodOutcome(
        decision=decision.id,
        at=at,
        policy=decision.policy,
        pod=decision.pod,
        about=decision.pod,
        action="evict",
        node=decision.node,
        result="done",
        message=move.step,
        reason="NotRecreated",
    )
