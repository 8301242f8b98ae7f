"""Surges: moves that make a replacement pod before the old one leaves. Begins them, and continues every one that it
finds in the cluster.

Knows when it looks, and what is written down of each step; the rules of what comes next are in kit/surge.
"""

import logging
from collections.abc import Awaitable, Callable, Container, Sequence
from functools import partial
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.backoff import Backoff
from elasticd.base.clock import Clock
from elasticd.decision.disruption import eviction_of, refusal
from elasticd.decision.pool.departures import Departures
from elasticd.decision.workload.vetoes import FREEZE, annotated_freeze
from elasticd.journal import Journal
from elasticd.kit.surge import (
    BEGUN,
    DEPLOYMENT,
    LEAST,
    LEFTOVER,
    STRANGERS,
    Earlier,
    Note,
    Origin,
    Step,
    begin,
    is_annotated,
    next_step,
    noted,
    owns,
    read_note,
    resume,
    rolling,
    stays,
    strangers,
)
from elasticd.model.actions import Action, Announce, Answer, Evict, Mark
from elasticd.model.disruption import DisruptionState, Refused
from elasticd.model.listener import Listener, MoveTakenBack, tell
from elasticd.model.moves import Underway
from elasticd.model.placement import PodOutcome
from elasticd.model.workload import COST, Pod, Ref, Workload
from elasticd.ports.cluster import Budgeted, Cluster, Snapshot
from elasticd.runtime.actions import Actions, Attempt, attempt, record

logger = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between looks for surges while there are none."""

SOON = 0.2
"""Seconds between looks while there are some."""

REST = Backoff(2.0, 30.0)
"""Before a step is repeated: the cluster may not show it yet, or somebody undoes it each time."""

UNMARKINGS = 5
"""Times that the mark of a pod that stays is taken away; then somebody else makes it, and the surge ends."""

ALARM = 3
"""Surges of a workload in a row that were in vain before this is told as a fault."""

TROUBLED = 10.0
"""Seconds for which a step has failed before this is told as a fault."""

LINGERING = 60.0
"""Seconds for which a surge is taken back before this is told as a fault."""

BACKOFF = Backoff(60.0, 3600.0)
"""Before a workload's next surge after a failed one."""


class _Surge(Struct):
    """A surge in flight: its workload; its step and since when; the step that was tried last, when, how often in a row
    it was done, why it failed, and since when; its note as last seen, and whether this daemon has removed that, or told
    that somebody else did; why it is taken back, and since when; and the workload's version, and since when it has
    that."""

    workload: Ref | None = None
    step: Step | None = None
    since: float = 0.0
    tried: str = ""
    tried_at: float = 0.0
    times: int = 0
    unmarkings: int = 0
    failure: tuple[object, ...] | None = None
    trouble: str = ""
    troubled_since: float = inf
    note: Note | None = None
    ended: bool = False
    told: bool = False
    cause: str = ""
    back_since: float = inf
    version: str = ""
    version_since: float = inf

    def look(self, workload: Workload, now: float) -> None:
        """Take in how the workload is now."""
        if workload.version != self.version:
            self.version, self.version_since = workload.version, now
        note = read_note(workload) or self.note
        self.back_since = min(self.back_since, now) if note is not None and note.phase == "back" else inf

    def earlier(self, now: float) -> Earlier:
        """What was seen of it before."""
        return Earlier(unmarks=self.unmarkings < UNMARKINGS, still=now - self.version_since)

    def lingers(self, now: float) -> str:
        """Why it is not taken back after long; empty: it is not taken back, or is told to be in trouble, or not yet."""
        is_long = self.step is not None and not self.trouble and now - self.back_since >= LINGERING
        return self.step.message if self.step is not None and is_long else ""

    def fault(self, now: float) -> str:
        """What keeps the pod of a surge, for long, in a line; empty: nothing."""
        if self.note is None:
            return ""
        if (lasts := now - self.troubled_since) >= TROUBLED:
            return f"the move of {self.note.pod} has not gone on for {lasts:.0f} s: {self.trouble}"
        why, lasts = self.lingers(now), now - self.back_since
        return f"the move of {self.note.pod} is not taken back after {lasts:.0f} s: {why}" if why else ""

    def rests(self, step: Step, now: float) -> bool:
        """Whether it is too soon to repeat this step."""
        return self.tried == step.word and now - self.tried_at < REST.delay(self.times)

    def calm(self) -> None:
        """Nothing is tried in vain."""
        self.trouble, self.troubled_since = "", inf

    def note_answer(self, step: Step, answer: Answer, at: float) -> bool:
        """Take in what came of a step; whether it failed, and not as it did before."""
        earlier, self.times = self.failure, self.times + 1 if self.tried == step.word else 1
        self.tried, self.tried_at = step.word, at
        if answer.result == "done":
            self.failure = None
            self.calm()
            return False
        self.failure = (step.word, answer.result, answer.code, answer.reason)
        self.trouble = f"{step.word} {answer.result}: {answer.message or answer.reason}"
        self.troubled_since = min(self.troubled_since, at)
        return self.failure != earlier


class _InVain(Struct, frozen=True):
    """Surges of a workload that came to nothing: until when it has no other, how many in a row, and why the last."""

    workload: Ref
    until: float
    in_a_row: int
    cause: str

    @property
    def text(self) -> str:
        return f"{self.in_a_row} moves of its pods in a row were in vain; the last: {self.cause}"

    def is_forgotten(self, now: float) -> bool:
        return now > self.until + 2 * BACKOFF.delay(self.in_a_row)


class Surging:
    """All surges in flight on one cluster. `look` gives the cluster as it is."""

    def __init__(
        self,
        cluster: Cluster,
        look: Callable[[float], Awaitable[Snapshot]],
        journal: Journal,
        clock: Clock,
        listeners: Sequence[Listener],
        actions: Actions[str],
    ) -> None:
        """`actions`, by UID, may be shared with one who evicts pods."""
        self._cluster, self._look, self._journal, self._clock = cluster, look, journal, clock
        self._listeners, self.actions = listeners, actions
        self._surges: dict[str, _Surge] = {}
        """By the workload's UID."""
        self._ending: dict[str, Underway] = {}
        """Pods, by UID, at the last step of their surge: they may still be ending when its note is gone."""
        self._in_vain: dict[str, _InVain] = {}
        """By a workload's UID."""
        self._due = clock.now()

    async def begin(self, evict: Evict, within: float, decision: str) -> Answer | None:
        """Begin to move a pod by a surge; None: it belongs to no ReplicaSet, so no surge is possible."""
        now = self._clock.now()
        mark = self._first_mark(evict, await self._look(now), now, within, decision)
        if not isinstance(mark, Mark):
            return mark and Answer("refused", message=mark[1], reason=mark[0])
        if (in_vain := self._in_vain.get(mark.uid)) and in_vain.is_forgotten(now):
            del self._in_vain[mark.uid]
        answer = await self._cluster.act(mark)
        return replace(answer, message=BEGUN) if answer.result == "done" else answer

    def refusal(self, evict: Evict, snapshot: Snapshot, disruption: DisruptionState) -> Refused | None:
        """Why a surge of this pod would be refused now, as far as it is known."""
        mark = self._first_mark(evict, snapshot, self._clock.now(), 0.0, "")
        if isinstance(mark, tuple):
            return mark
        # A surge counts for the budget of the Deployment, not of the ReplicaSet.
        return refusal(disruption, [replace(evict, owner=mark.uid) if mark else evict])

    def _first_mark(
        self, evict: Evict, snapshot: Snapshot, now: float, within: float, decision: str
    ) -> Mark | Refused | None:
        """The mark that begins a surge, or a refusal; None: the pod belongs to no ReplicaSet."""
        pod = next((pod for pod in snapshot.on_nodes().get(evict.node, ()) if pod.uid == evict.uid), None)
        if pod is None or pod.owner[0] != "ReplicaSet":
            return None
        workload = _workload_of(snapshot, pod)
        if workload is None:
            return "NoDeployment", "no Deployment is seen that it belongs to"
        if annotated_freeze(workload.annotations, now):
            return "Frozen", f"{workload.ref} is annotated {FREEZE}"
        pods = snapshot.pods(workload)
        for word, why in ((STRANGERS, strangers(workload, pods)), ("RollingOut", rolling(workload, pods))):
            if why:
                return word, why
        in_vain = self._in_vain.get(workload.uid)
        if in_vain is not None and now < in_vain.until:
            return "InVain", f"a pod of {workload.ref} was moved in vain; again in {in_vain.until - now:.0f} s"
        origin = Origin(decision, self._cluster.lease)
        return begin(workload, pod, snapshot.autoscaler(workload.ref), now, within, origin)

    def faults(self) -> list[str]:
        """Surges whose steps are refused, or which are taken back, for long, and workloads of which pods are moved in
        vain again and again, in a line each."""
        now = self._clock.now()
        troubled = [f"{surge.workload}: {text}" for surge in self._surges.values() if (text := surge.fault(now))]
        in_vain = [
            f"{in_vain.workload}: {in_vain.text}"
            for uid, in_vain in self._in_vain.items()
            if in_vain.in_a_row >= ALARM and (uid in self._surges or now < in_vain.until + BACKOFF.first)
        ]
        return troubled + in_vain

    def in_flight(self, snapshot: Snapshot | None) -> list[Underway]:
        """The moves in flight: restorations, surges, and pods that are ending after a surge."""
        underway, ending = list(self._cluster.restoring()), self._still_ending(snapshot) if snapshot else {}
        for workload in self._surging_workloads(snapshot) if snapshot else ():
            note = read_note(workload)
            if note is not None and note.uid not in ending:
                ref, surge = _pod_ref(workload, note), self._surges.get(workload.uid)
                step, since = (surge.step, surge.since) if surge and surge.step else (None, note.at)
                step_text = f"{note.phase}: {step.message}" if step else note.phase
                is_staying = stays(workload, _pods_of(snapshot, workload, note)) if snapshot else False
                trouble = _explain_trouble(surge, self._clock.now()) if surge else ""
                move = Underway(ref, note.uid, "surge", step_text, since, note.node, trouble, stays=is_staying)
                underway.append(move)
        return [*underway, *ending.values()]

    def _still_ending(self, snapshot: Snapshot) -> dict[str, Underway]:
        pods_on_nodes = snapshot.on_nodes() if self._ending else {}
        return {
            uid: move
            for uid, move in self._ending.items()
            if any(pod.uid == uid for pod in pods_on_nodes.get(move.node, ()))
        }

    async def run(self) -> None:
        """Continue every surge that is found, until cancelled."""
        while True:
            await self.turn()
            await self._clock.sleep_until(self.due())

    def due(self) -> float:
        """The time of the next look."""
        return self._due

    async def turn(self) -> None:
        """Tick now, and look again soon if there are surges."""
        busy = await self.tick(self._clock.now())
        self._due = self._clock.now() + (SOON if busy else EVERY)

    async def tick(self, now: float) -> bool:
        """Take one step of each surge, once the nodes were read; whether there are any."""
        if not self._cluster.leading:
            self._surges = {}  # who leads may end them meanwhile
            return False
        snapshot = await self._look(now)
        workloads = [*self._surging_workloads(snapshot), *self._without_note(snapshot)]
        self._surges = {workload.uid: self._surge_of(workload) for workload in workloads}
        self._ending = self._still_ending(snapshot)
        if not workloads or snapshot.nodes_confirmed <= 0:  # else all nodes would count as gone
            return bool(workloads)
        departures = Departures(now, partial(self._disruption, now), snapshot.budgets())
        nodes = {node.name for node in snapshot.nodes()}
        for workload in workloads:
            if workload.uid not in self.actions:
                surge = self._surges[workload.uid]
                surge.look(workload, now)
                pods = _pods_of(snapshot, workload, read_note(workload) or surge.note)
                self._advance(surge, workload, _without_ghosts(pods, nodes), departures, now)
        return True

    def _surge_of(self, workload: Workload) -> _Surge:
        """What is known of the surge of a workload. The note of one that has ended may be seen once more; any other is
        of another."""
        surge, note = self._surges.get(workload.uid) or _Surge(), read_note(workload)
        is_over = surge.ended and (surge.note and surge.note.uid) != (note and note.uid)
        surge = _Surge() if is_over else surge
        surge.workload = workload.ref
        return surge

    def _disruption(self, now: float) -> DisruptionState:
        return self._cluster.disruption(now) if isinstance(self._cluster, Budgeted) else DisruptionState()

    def _surging_workloads(self, snapshot: Snapshot) -> list[Workload]:
        """Those of which a pod is being moved, but by no daemon of another Lease, which has budgets of its own."""
        return [
            workload
            for workload in snapshot.workloads()
            if is_annotated(workload)
            and ((note := noted(workload.annotations)) is None or note.lease in ("", self._cluster.lease))
        ]

    def _without_note(self, snapshot: Snapshot) -> list[Workload]:
        """Workloads whose note somebody removed while a pod of them was moved, as far as something is left of that."""
        under_way = {uid: surge.note for uid, surge in self._surges.items() if surge.note and not surge.ended}
        return [
            workload
            for workload in (snapshot.workloads() if under_way else ())
            if (note := under_way.get(workload.uid))
            and not is_annotated(workload)
            and resume(workload, _pods_of(snapshot, workload, note), note)
        ]

    def _next_step(
        self, surge: _Surge, workload: Workload, pods: Sequence[Pod], departures: Departures, now: float
    ) -> Step:
        """The next step by the note; by the one last seen, if somebody removed or replaced it, or it cannot be read."""
        honours_costs, earlier = self._cluster.honours_deletion_costs, surge.earlier(now)
        step = next_step(workload, pods, now, departures, honours_costs=honours_costs, earlier=earlier)
        if (note := read_note(workload)) is not None:
            surge.note, surge.told = note, False
            return step
        step = (surge.note and resume(workload, pods, surge.note)) or step
        if not surge.told:
            surge.told, is_warning = True, step.word != LEFTOVER
            logger.log(logging.WARNING if is_warning else logging.INFO, "%s: %s", workload.ref, step.message)
            event = Announce(workload.ref, workload.uid, step.word, step.message, warning=is_warning)
            self.actions.announce(self._cluster, event, f"surge {workload.ref}")
        return step

    def _advance(
        self, surge: _Surge, workload: Workload, pods: Sequence[Pod], departures: Departures, now: float
    ) -> None:
        step = self._next_step(surge, workload, pods, departures, now)
        if surge.step is None or surge.step.word != step.word:
            begun = read_note(workload)
            # A daemon that begins to lead cannot know when a step began, only the surge.
            surge.since = begun.at if surge.step is None and begun else now
            if step.restrained:
                self._report(workload, step, now)
            if step.done and (note := read_note(workload)):
                text = f"{note.phase}: {note.pod} is ending"
                ref = _pod_ref(workload, note)
                self._ending[note.uid] = Underway(ref, note.uid, "surge", text, now, node=note.node, ends=True)
        surge.step = step
        if step.action is None:
            surge.calm()
        elif not surge.rests(step, now):
            if evict := eviction_of(step.action):
                departures.let_go(next(pod for pod in pods if pod.uid == evict.uid), evict)
            act = self._act(surge, workload, pods, step, step.action)
            self.actions.begin(workload.uid, f"surge {workload.ref}", act)

    def _report(self, workload: Workload, step: Step, now: float) -> None:
        """Say what keeps a pod from going: by an Event of the pod; and in the journal, where no action follows."""
        note = read_note(workload)
        if note is None:
            return
        event = Announce(_pod_ref(workload, note), note.uid, step.word, step.message, warning=step.action is not None)
        self.actions.announce(self._cluster, event, f"surge {workload.ref}")
        if step.action is None:
            refused = Attempt(Answer("refused", message=step.message, reason=step.word), now, 0.0)
            record(_outcome(workload, note, step, refused), self._journal, self._listeners)

    async def _act(self, surge: _Surge, workload: Workload, pods: Sequence[Pod], step: Step, action: Action) -> None:
        result = await attempt(self._clock, self._cluster.act(action))
        self.actions.end(workload.uid)
        done, fails_anew = result.answer.result == "done", surge.note_answer(step, result.answer, result.at)
        if isinstance(action, Mark) and done:
            surge.unmarkings += bool(action.pod) and action.annotations.get(COST) != LEAST
            if (marked := noted(action.annotations)) and marked.phase == "back":
                surge.cause = step.message
        if step.last and done:
            surge.ended = True
            if surge.note is not None:  # else there was a note of no move that is known
                self._finish(surge, workload, pods, step)
        note = read_note(workload) or surge.note
        if note is not None and (done or fails_anew):
            record(_outcome(workload, note, step, result), self._journal, self._listeners)

    def _finish(self, surge: _Surge, workload: Workload, pods: Sequence[Pod], step: Step) -> None:
        """End a surge: after a failed one, whose pod is still of the workload, delay the workload's next; and notify
        listeners that a pod stays."""
        before, note = self._in_vain.pop(workload.uid, None), read_note(workload) or surge.note
        present = [pod for pod in pods if note is not None and pod.uid == note.uid and not pod.deleted]
        if not step.done and any(owns(workload, pod) for pod in present):
            in_a_row = before.in_a_row + 1 if before is not None else 1
            until = self._clock.now() + BACKOFF.delay(in_a_row)
            in_vain = _InVain(workload.ref, until, in_a_row, surge.cause or step.message)
            self._in_vain[workload.uid] = in_vain
            if in_a_row >= ALARM:
                event = Announce(workload.ref, workload.uid, "InVain", in_vain.text, warning=True)
                self.actions.announce(self._cluster, event, f"surge {workload.ref}")
        for pod in present:
            tell(self._listeners, MoveTakenBack(pod.uid))


def _explain_trouble(surge: _Surge, now: float) -> str:
    lingers = surge.lingers(now)
    return f"it is not taken back: {lingers}" if lingers else surge.trouble


def _without_ghosts(pods: Sequence[Pod], nodes: Container[str]) -> list[Pod]:
    """The pods, those as not ready whose nodes are gone: a kubelet may say otherwise until they are deleted too."""
    return [replace(pod, ready=False) if pod.node and pod.node not in nodes else pod for pod in pods]


def _pods_of(snapshot: Snapshot, workload: Workload, note: Note | None) -> Sequence[Pod]:
    """The pods that a workload's selector matches, and the one that is moved, which it may match no longer."""
    pods = snapshot.pods(workload)
    if note is None or any(pod.uid == note.uid for pod in pods):
        return pods
    return [*pods, *(pod for pod in snapshot.on_nodes().get(note.node, ()) if pod.uid == note.uid)]


def _pod_ref(workload: Workload, note: Note) -> Ref:
    return Ref(workload.ref.namespace, "Pod", note.pod, "v1")


def _workload_of(snapshot: Snapshot, pod: Pod) -> Workload | None:
    """The Deployment of a pod, of whose ReplicaSets one owns it."""
    for workload in snapshot.workloads():
        is_owner = (workload.ref.api_version, workload.ref.kind) == DEPLOYMENT and owns(workload, pod)
        if is_owner and any(selected.uid == pod.uid for selected in snapshot.pods(workload)):
            return workload
    return None


def _outcome(workload: Workload, note: Note, step: Step, attempt: Attempt) -> PodOutcome:
    answer = attempt.answer
    pod = _pod_ref(workload, note)
    return PodOutcome(
        decision=note.decision,
        at=attempt.at,
        policy=note.decision.partition(":")[0],
        pod=pod,
        about=pod,
        action="surge",
        node=note.node,
        result=answer.result,
        code=answer.code,
        message=step.message if answer.result == "done" else answer.message,
        reason=step.word if answer.result == "done" else answer.reason,
        seconds=attempt.seconds,
    )
