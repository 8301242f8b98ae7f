"""Moves that make another pod first: begin them, and go on with all that are found in the cluster, whoever began them.

Knows when it looks, and what is written down of each step; knows no rule of what comes next, which is in surge.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from elasticd.base.clock import Clock
from elasticd.base.text import raised
from elasticd.decision.workload.vetoes import FREEZE
from elasticd.journal import Journal
from elasticd.kit.surge import BEGUN, DEPLOYMENT, Note, Step, begin, next_step, noted, stays, surged
from elasticd.model.actions import Answer, Evict, Mark
from elasticd.model.moves import Underway
from elasticd.model.placement import PodOutcome
from elasticd.model.workload import Pod, Ref, Workload
from elasticd.ports.cluster import Cluster, Snapshot

ROLLING = frozenset({DEPLOYMENT, ("apps/v1", "StatefulSet")})
"""The kinds that replace pods of an old template by themselves."""

EVERY = 1.0
"""Seconds between looks for moves in flight."""

SOON = 0.2
"""The same while there are some."""

REST = 2.0
"""Seconds in which a step that was done is not done again: so long it may take to be seen."""

FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0
"""Seconds before a pod of the same workload is moved again after one that did not go; they double."""


class OutcomeListener(Protocol):
    """Someone who is told what has been written to the journal. Must not block or raise."""

    def placed(self, outcome: PodOutcome) -> None:
        """Something was done for a pod, or not."""


class Surging:
    """All moves in flight, on one cluster. `look` gives the cluster as it is."""

    def __init__(
        self,
        cluster: Cluster,
        look: Callable[[float], Awaitable[Snapshot]],
        journal: Journal,
        clock: Clock,
        listeners: Sequence[OutcomeListener] = (),
    ) -> None:
        self._cluster, self._look, self._journal, self._clock = cluster, look, journal, clock
        self._listeners = listeners
        self._acting: dict[str, asyncio.Task[None]] = {}
        self._last: dict[str, tuple[str, float]] = {}
        self._steps: dict[str, tuple[Step, float]] = {}
        self._ending: dict[str, Underway] = {}
        """The pods, by UID, that were told to go last, and may take their time to end when the note is gone."""
        self._pauses: dict[str, tuple[float, float]] = {}
        self._undone: dict[str, tuple[object, ...]] = {}
        """Why the last step of each was not done."""
        self.stayed: list[Callable[[str], None]] = []
        """Who is told of a pod, its UID, of which a move was begun in vain."""

    async def begin(self, evict: Evict, within: float, decision: str) -> Answer | None:
        """Begin to move a pod; None: it is of no ReplicaSet, and no other need be made first."""
        now = self._clock.now()
        mark = self._first(evict, await self._look(now), now, within, decision)
        if not isinstance(mark, Mark):
            return mark
        until, pause = self._pauses.get(mark.uid, (0.0, 0.0))
        if now > until + 2 * pause:
            self._pauses.pop(mark.uid, None)
        answer = await self._cluster.act(mark)
        return replace(answer, message=BEGUN) if answer.result == "done" else answer

    def refusal(self, evict: Evict, snapshot: Snapshot) -> tuple[str, str] | None:
        """Why a pod would not begin to be moved now, one word and a sentence, as far as it is known."""
        mark = self._first(evict, snapshot, self._clock.now(), 0.0, "")
        if isinstance(mark, Answer):
            return mark.reason, mark.message
        # It is the Deployment that is disturbed then.
        return self._cluster.refusal([replace(evict, owner=mark.uid) if mark else evict])

    def _first(
        self, evict: Evict, snapshot: Snapshot, now: float, within: float, decision: str
    ) -> Mark | Answer | None:
        """With what a move begins, or why it does not; None: as `begin` has it."""
        pod = next((one for one in snapshot.on_nodes().get(evict.node, ()) if one.uid == evict.uid), None)
        if pod is None or pod.owner[0] != "ReplicaSet":
            return None
        workload = _workload_of(snapshot, pod)
        if workload is None:
            return Answer("refused", message="no Deployment is seen that it belongs to", reason="NoDeployment")
        if FREEZE in workload.annotations:
            return Answer("refused", message=f"{workload.ref} is annotated {FREEZE}", reason="Frozen")
        until, _ = self._pauses.get(workload.uid, (0.0, 0.0))
        if now < until:
            told = f"a pod of {workload.ref} was moved in vain; again in {until - now:.0f} s"
            return Answer("refused", message=told, reason="InVain")
        mark = begin(workload, pod, snapshot.autoscaler(workload.ref), now, within, decision)
        return Answer("refused", message=mark[1], reason=mark[0]) if isinstance(mark, tuple) else mark

    async def underway(self) -> list[Underway]:
        """What is in flight now, by what is found in the cluster."""
        return self.in_flight(await self._look(self._clock.now()))

    def in_flight(self, snapshot: Snapshot | None) -> list[Underway]:
        """What is in flight, of either kind."""
        found, ending = list(self._cluster.restoring()), self._still(snapshot) if snapshot else {}
        for workload in _surging(snapshot) if snapshot else ():
            note = noted(workload.annotations)
            if note is not None and note.uid not in ending:
                ref = Ref(workload.ref.namespace, "Pod", note.pod, "v1")
                step, since = self._steps.get(workload.uid, (None, note.at))
                told = f"{note.phase}: {step.message}" if step else note.phase
                back = stays(workload, snapshot.pods(workload)) if snapshot else False
                found.append(Underway(ref, note.uid, "surge", told, since, node=note.node, stays=back))
        return [*found, *ending.values()]

    def _still(self, snapshot: Snapshot) -> dict[str, Underway]:
        """Those of the pods that end that are still there."""
        there = snapshot.on_nodes() if self._ending else {}
        return {uid: one for uid, one in self._ending.items() if any(pod.uid == uid for pod in there.get(one.node, ()))}

    async def run(self) -> None:
        """Go on with all that is found, until cancelled."""
        while True:
            busy = await self.tick(self._clock.now())
            await self._clock.sleep_until(self._clock.now() + (SOON if busy else EVERY))

    async def tick(self, now: float) -> bool:
        """One step of each; whether there are any."""
        if not self._cluster.leading:
            return False
        snapshot = await self._look(now)
        found = _surging(snapshot)
        uids = {workload.uid for workload in found}
        self._steps = {uid: one for uid, one in self._steps.items() if uid in uids}
        self._last = {uid: one for uid, one in self._last.items() if uid in uids}
        self._undone = {uid: one for uid, one in self._undone.items() if uid in uids}
        self._ending = self._still(snapshot)
        for workload in found:
            if workload.uid not in self._acting:
                self._advance(workload, snapshot.pods(workload), now)
        return bool(found)

    def _advance(self, workload: Workload, pods: Sequence[Pod], now: float) -> None:
        step = next_step(workload, pods, now, honours_costs=self._cluster.honours_deletion_costs)
        before = self._steps.get(workload.uid)
        if before is None or before[0].word != step.word:
            self._steps[workload.uid] = step, now
            if step.done:
                self._ends(workload, now)
        word, at = self._last.get(workload.uid, ("", 0.0))
        if step.action is not None and not (word == step.word and now - at < REST):
            task = asyncio.create_task(self._act(workload, pods, step), name=f"surge {workload.ref}")
            self._acting[workload.uid] = task

    def _ends(self, workload: Workload, now: float) -> None:
        """The pod of a move goes."""
        if note := noted(workload.annotations):
            ref, step = Ref(workload.ref.namespace, "Pod", note.pod, "v1"), f"{note.phase}: {note.pod} is ending"
            self._ending[note.uid] = Underway(ref, note.uid, "surge", step, now, node=note.node, ends=True)

    async def _act(self, workload: Workload, pods: Sequence[Pod], step: Step) -> None:
        if step.action is None:
            return
        begun = self._clock.now()
        try:
            answer = await self._cluster.act(step.action)
        except asyncio.CancelledError:
            answer = Answer("failed", 0, "elasticd stopped before the answer came", "Stopped")
        except Exception as error:
            answer = Answer("failed", 0, raised(error), type(error).__name__)
        finally:
            del self._acting[workload.uid]
        self._last[workload.uid] = step.word, self._clock.now()
        if step.last and answer.result == "done":
            self._ended(workload, pods, step)
        before = self._undone.pop(workload.uid, None)
        if answer.result != "done":
            self._undone[workload.uid] = (step.word, answer.result, answer.code, answer.reason)
        note = noted(workload.annotations)
        if note is not None and (before is None or before != self._undone.get(workload.uid)):
            self._tell(_outcome(workload, note, step, answer, (begun, self._clock.now())))

    def _ended(self, workload: Workload, pods: Sequence[Pod], step: Step) -> None:
        """Whether it was worth it: what did not go is not tried again at once."""
        _, pause = self._pauses.pop(workload.uid, (0.0, FIRST_PAUSE / 2))
        if not step.done:
            pause = min(2 * pause, LONGEST_PAUSE)
            self._pauses[workload.uid] = self._clock.now() + pause, pause
            note = noted(workload.annotations)
            if note is not None and any(pod.uid == note.uid and not pod.deleted for pod in pods):
                for tell in self.stayed:
                    tell(note.uid)

    def _tell(self, outcome: PodOutcome) -> None:
        self._journal.append(outcome)
        self._journal.flush()
        for listener in self._listeners:
            listener.placed(outcome)

    async def drain(self, patience: float | None = None) -> None:
        """Wait for what is under way, at most `patience` seconds."""
        tasks = list(self._acting.values())
        if tasks:
            await asyncio.wait(tasks, timeout=patience)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _surging(snapshot: Snapshot) -> list[Workload]:
    return [workload for workload in snapshot.workloads() if surged(workload) is not None]


def _workload_of(snapshot: Snapshot, pod: Pod) -> Workload | None:
    """The Deployment of a pod: of those whose selector matches it there is only one whose ReplicaSet has its name."""
    for workload in snapshot.workloads():
        ref = workload.ref
        ours = ref.namespace == pod.namespace and (ref.api_version, ref.kind) == DEPLOYMENT
        named = ours and pod.owner[1].startswith(f"{ref.name}-")
        if named and any(one.uid == pod.uid for one in snapshot.pods(workload)):
            return workload
    return None


def _outcome(workload: Workload, note: Note, step: Step, answer: Answer, times: tuple[float, float]) -> PodOutcome:
    pod = Ref(workload.ref.namespace, "Pod", note.pod, "v1")
    return PodOutcome(
        decision=note.decision,
        at=times[1],
        policy=note.decision.partition(":")[0],
        pod=pod,
        about=pod,
        action="surge",
        node=note.node,
        result=answer.result,
        code=answer.code,
        message=step.message if answer.result == "done" else answer.message,
        reason=step.word if answer.result == "done" else answer.reason,
        seconds=times[1] - times[0],
    )
