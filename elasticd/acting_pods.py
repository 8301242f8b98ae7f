"""Carries out what was decided about a pod, and tells what came of it.

Knows a cluster, and that nobody is evicted for a pod that waits no longer; knows nothing of who is next. See
elasticd.acting for workloads.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

from elasticd.acting import STOPPED
from elasticd.actions import Answer, Bind, Evict, Nominate
from elasticd.clock import Clock
from elasticd.cluster import Cluster, Snapshot
from elasticd.model import Pod
from elasticd.placements import PodDecision, PodOutcome
from elasticd.words import raised

IN_FLIGHT = 32
"""Requests that bind and evict at a time."""

NOT_WANTED = "NotWanted"
"""The reason of an eviction that was left out."""

Doing = Bind | Evict | Nominate
Tell = Callable[[Pod, Doing, PodOutcome], None]


class PodActions:
    """All that is done about pods. `tell` is given each outcome, at once."""

    def __init__(
        self, cluster: Cluster, look: Callable[[float], Awaitable[Snapshot]], clock: Clock, tell: Tell
    ) -> None:
        self._cluster, self._look, self._clock, self._tell = cluster, look, clock, tell
        self._slots = asyncio.Semaphore(IN_FLIGHT)

    async def carry_out(self, decision: PodDecision, pod: Pod) -> bool:
        """What was decided, in order, until one thing cannot be done; whether all was."""
        for action in decision.actions:
            outcome = await self._do(decision, action, pod)
            if outcome.result != "done":
                if isinstance(action, Evict) and outcome.reason not in (NOT_WANTED, STOPPED):
                    # No room is made, so none is kept free.
                    await self._do(decision, Nominate(pod.ref, pod.uid, ""), pod)
                return False
        return True

    async def _do(self, decision: PodDecision, action: Doing, pod: Pod) -> PodOutcome:
        async with self._slots:
            begun = self._clock.now()
            answer = await self._answer(action, pod)
        outcome = PodOutcome(
            decision=decision.id,
            at=self._clock.now(),
            policy=decision.policy,
            pod=decision.pod,
            about=action.workload,
            action=_word(action),
            node=action.node,
            result=answer.result,
            code=answer.code,
            message=answer.message,
            reason=answer.reason,
            seconds=self._clock.now() - begun,
        )
        self._tell(pod, action, outcome)
        return outcome

    async def _answer(self, action: Doing, pod: Pod) -> Answer:
        try:
            if isinstance(action, Evict) and not await self._waits(pod):
                text = f"{pod.namespace}/{pod.name} does not wait for a node any more"
                return Answer("conflict", message=text, reason=NOT_WANTED)
            return await self._cluster.act(action)
        except asyncio.CancelledError:
            return Answer("failed", message="elasticd stopped before the answer came", reason=STOPPED)
        except Exception as error:
            return Answer("failed", message=raised(error), reason=type(error).__name__)

    async def _waits(self, pod: Pod) -> bool:
        snapshot = await self._look(self._clock.now())
        return any(one.uid == pod.uid for one in snapshot.pending())


def _word(action: Doing) -> Literal["bind", "evict", "nominate"]:
    match action:
        case Bind():
            return "bind"
        case Evict():
            return "evict"
        case Nominate():
            return "nominate"
