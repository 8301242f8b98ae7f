"""Carries out what was decided, and tells what came of it.

Knows a cluster, and that whatever happens to one action is told and harms no other; knows nothing of who is next.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from msgspec.structs import replace

from elasticd.clock import Clock
from elasticd.cluster import Cluster
from elasticd.decide import condition_after
from elasticd.model import Announce, Answer, Decision, Outcome
from elasticd.resources import Resize
from elasticd.words import raised


async def announce(cluster: Cluster, announcement: Announce) -> None:
    """Tell it at the workload. It is in the journal too, and nothing waits for it."""
    with contextlib.suppress(Exception):
        await cluster.act(announcement)


async def carry_out(cluster: Cluster, clock: Clock, decision: Decision) -> Outcome:
    """Do it, unless the policy only observes; cancelled, the outcome says so and is given all the same."""
    begun, answer, sent = clock.now(), Answer("observed", message="mode = observe"), list[str]()
    if decision.mode == "act":
        try:
            answer = await _do(cluster, decision)
            if answer.result == "done" and decision.sizing.resizes:
                answer = await _resize(cluster, decision.sizing.resizes, sent)
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
        resized=tuple(sent),
    )


async def _do(cluster: Cluster, decision: Decision) -> Answer:
    """The marks, and then the action: without all of them, the wrong pods would go."""
    answer = Answer("done")
    for mark in decision.marks:
        answer = await cluster.act(mark)
        if answer.result != "done" and answer.reason != "NotFound":
            return replace(answer, message=f"{mark.pod or mark.workload} could not be marked: {answer.message}")
    return await cluster.act(decision.action) if decision.action else answer


async def _resize(cluster: Cluster, resizes: Sequence[Resize], sent: list[str]) -> Answer:
    """One after the other, up to the first that is refused or fails; one that is gone or has changed harms no other.
    What is `sent` is noted first, so that it is known though the answer never comes."""
    answer, done = Answer("done"), list[str]()
    for resize in resizes:
        sent.append(resize.uid)
        said = await cluster.act(resize)
        if said.result == "refused":
            sent.pop()
        if said.result == "done":
            done.append(resize.pod)
            continue
        if answer.result == "done":
            answer = replace(said, message=f"{resize.pod} could not be resized: {said.message}")
        if said.result != "conflict":
            break
    return answer if answer.result != "done" else replace(answer, message=f"resized {', '.join(done)}")
