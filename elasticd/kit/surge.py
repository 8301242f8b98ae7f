"""Moving a pod of a Deployment by creating its replacement first: the state found, and the one next step.

Pure. The state is in the cluster, as an annotation of the workload (and the deletion cost of the pod), so that any
daemon can continue where another has stopped:

    up      request one replica more
    wait    wait until as many pods as before are ready without the one to be moved
            then give that pod the lowest deletion cost
    down    request one replica fewer
    out     if controllers ignore deletion costs, or another pod has the lowest too: evict that pod, then request one
            replica fewer; the replacement that its controller creates in between is not ready, and is removed first
    back    it took too long, or failed: request one replica fewer, and the pod stays

Pods of the Deployment are those that its ReplicaSets own, whatever else its selector matches. A pod that is none of
them any more, as somebody has taken its label away, ends the move like one that is gone.

An eviction names the version of the pod, so that one which the network delivers late is refused once the pod has lost
its mark: what takes a move back begins with that.

Ready means for the minReadySeconds of the workload. Until the pod goes, each step asks whether anything keeps it
(Restraints): what protects it leads to back at once, what only delays it is waited for. While the Deployment is being
rolled out, its count is not lowered, however long that takes, but by a policy that asks for fewer than before the move
(`gives_way`); unless only its controller has not seen the newest spec, and no pod can be too many: where admission
refuses the additional replica, or the note, at the ReplicaSet, that never sees it.

Knows these steps and when they are refused; knows nothing of why a pod is moved, what keeps it, and how steps are
carried out.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.errors import UNREADABLE
from elasticd.base.text import counted
from elasticd.kit.handover import FENCE
from elasticd.model.actions import Evict, Mark, Ready, Scale
from elasticd.model.disruption import Refused
from elasticd.model.moves import LEAVING
from elasticd.model.records import FOREIGN_OWNER
from elasticd.model.workload import COST, UNSEEN, Pod, Workload

SURGE = "elasticd.io/surge"
"""Annotation of a workload of which a pod is being moved by making another first; also how the reasons of actions begin
that belong to such a move."""

DEPLOYMENT = ("apps/v1", "Deployment")
"""The kind of which pods are moved so."""

MOVED = "BeingMoved"
"""The reason of what holds the count of such a workload."""

LEAST = "-2147483648"
"""The deletion cost of the pod that is to go: less than any other can be."""

MARKING = 60.0
"""Seconds after the time that another may take to be ready in which the pod must be marked, or it stays."""

REMOVAL = MARKING + 60.0
"""Seconds after that time in which a marked pod must go once the count is lowered, or it stays."""

RAISING = 30.0
"""Seconds after its begin in which a move is expected to have added its replica."""

STILL = 10.0
"""Seconds for which a workload is as it was before its controller counts as one that does not carry out its spec: one
that has begun to tells so in its status."""

RELEASED = "Released"
"""The word of a pod that belongs to its Deployment no longer."""

HASH = "pod-template-hash"
"""The label by which a Deployment tells the pods of its ReplicaSets apart."""

STRANGERS = "Strangers"
"""The word of pods that look like a Deployment's, and are not."""

_LONGEST = 253
"""Characters of an object's name."""

LEFTOVER = "Leftover"
"""The word of the step that removes a note of an earlier move of which nothing is left."""

BEGUN = "another is made first"
"""The message with which a move begins."""

Phase = Literal["up", "wait", "down", "out", "back"]


class Note(Struct, frozen=True):
    """What the annotation says: the pod that is to go, by name and UID, and its node; the count before; how far it is,
    since when, and until when another may take to be ready (seconds since the epoch); the deletion cost that the pod
    had; the decision; and the Lease of the daemons that do it (`Cluster.lease`)."""

    pod: str
    uid: str
    node: str
    count: int
    phase: Phase
    at: float
    until: float
    cost: str | None = None
    decision: str = ""
    lease: str = ""


class Origin(Struct, frozen=True):
    """Who begins a move: the decision, and the Lease of its daemon."""

    decision: str
    lease: str = ""


class Step(Struct, frozen=True):
    """The next step: an action, or to wait for what the text says. `word` is for counting; `last`: the surge is over
    with this step, and `done` says whether the pod has been moved. `restrained`: something keeps a pod from going that
    could go."""

    word: str
    message: str
    action: Mark | Scale | Evict | None = None
    last: bool = False
    done: bool = False
    restrained: bool = False


class Earlier(Struct, frozen=True):
    """What was seen of a move before. `unmarks`: the mark of a pod that stays is taken away; False where somebody makes
    it again each time. `still`: the seconds for which its workload has not changed."""

    unmarks: bool = True
    still: float = 0.0


_NOTHING_EARLIER = Earlier()


class Restraints(Protocol):
    """What keeps the old pods of surges from going, as things stand."""

    def protection(self, workload: Workload, pod: Pod) -> Refused | None:
        """Why a pod of this workload is to stay; None: it need not."""

    def delay(self, pod: Pod, evict: Evict) -> Refused | None:
        """Why a pod must not go now, by this eviction, though it may later; None: it may now."""


def is_annotated(workload: Workload) -> bool:
    """Whether there is a note, whoever wrote it. One at anything but a Deployment is a copy, which its controller makes
    at its ReplicaSets and leaves there."""
    return SURGE in workload.annotations and (workload.ref.api_version, workload.ref.kind) == DEPLOYMENT


def surged(workload: Workload) -> str | None:
    """The note of a move of one of its pods; None: there is none, or somebody else wrote it: a rollback writes that of
    a move of long ago, from the copy at the ReplicaSet."""
    return workload.annotations[SURGE] if is_annotated(workload) and not workload.surge_writer else None


def noted(annotations: Mapping[str, str | None]) -> Note | None:
    """Read the note of a move; None: there is none, or it cannot be read."""
    try:
        return msgspec.json.decode(annotations.get(SURGE) or "", type=Note)
    except UNREADABLE:
        return None


def read_note(workload: Workload) -> Note | None:
    """Read the note of a move of one of its pods; None: there is none, or it cannot be read."""
    return noted(workload.annotations) if surged(workload) is not None else None


def own_count(workload: Workload) -> int:
    """The count of a workload without the replica that a move has added for a time."""
    note = read_note(workload)
    return workload.replicas - (note is not None and workload.replicas == note.count + 1)


def is_changing(workload: Workload, at: float) -> bool:
    """Whether a move is about to add its replica, or has just taken it away: its note stands, and the count is what it
    was before. Not for ever, where its steps are not carried out."""
    note = read_note(workload)
    if note is None or workload.replicas != note.count:
        return False
    return at < (note.at + RAISING if note.phase == "up" else note.until + REMOVAL)


def gives_way(workload: Workload, pods: Sequence[Pod]) -> bool:
    """Whether a policy that asks for fewer replicas than before the move of a pod comes first, while that is taken
    back: it waits for a rollout, which may itself wait for the room of the replicas that are to go. Not while the pod
    is still marked, as it would be the first of them. `pods` as for `next_step`."""
    note = read_note(workload)
    if note is None or note.phase != "back" or not workload.rollout:
        return False
    return note.cost == LEAST or all(pod.uid != note.uid or pod.annotations.get(COST) != LEAST for pod in pods)


def without_move(workload: Workload) -> Workload:
    """A workload as it would be had no move of a pod begun."""
    annotations = {name: text for name, text in workload.annotations.items() if name != SURGE}
    return replace(workload, replicas=own_count(workload), annotations=annotations)


def owns(workload: Workload, pod: Pod) -> bool:
    """Whether a pod is of a ReplicaSet of this Deployment, which is named NAME-HASH; a NAME that is too long is cut.
    Source: generateReplicaSetName of Kubernetes."""
    template_hash = pod.labels.get(HASH)
    if not template_hash or pod.namespace != workload.ref.namespace or pod.owner[0] != "ReplicaSet":
        return False
    return pod.owner[1] == f"{workload.ref.name[: _LONGEST - 1 - len(template_hash)]}-{template_hash}"


def own_pods(workload: Workload, pods: Sequence[Pod]) -> list[Pod]:
    """Those of these pods that look like the Deployment's, and neither have ended nor are being deleted."""
    return [pod for pod in pods if pod.is_active and owns(workload, pod)]


def strangers(workload: Workload, pods: Sequence[Pod]) -> str:
    """Why not all that look like its pods (`own_pods`) can be; empty: they may. A ReplicaSet that it has released keeps
    its name, and its pods their labels; only the Deployment's controller knows, which counts its own."""
    many = len(own_pods(workload, pods))
    if many <= workload.status_replicas:
        return ""
    return f"{workload.ref} has {counted(workload.status_replicas, 'pod')}, and {many} look like its own"


def rolling(workload: Workload, pods: Sequence[Pod]) -> str:
    """Why a change of its count may cost any of its pods; empty: it may not. In a rollout, also in one that is stuck, a
    Deployment's controller takes what is too many from all its ReplicaSets, by their sizes, and then a ready pod where
    such a set has no other. Source: proportional scaling of Kubernetes."""
    templates = _count_templates(own_pods(workload, pods))
    return workload.rollout or (f"its pods are of {templates} templates" if templates > 1 else "")


def _count_templates(own: Sequence[Pod]) -> int:
    return len({pod.labels[HASH] for pod in own})


def harmless_count(workload: Workload, pods: Sequence[Pod]) -> int:
    """The least count that takes none of its pods, while a rollout of it may be under way: as many as there are, where
    it is a Deployment of which only the newest spec has not been seen, as admission may refuse that to its ReplicaSet;
    else its own count.

    All pods are of one ReplicaSet. If the template was changed too, its controller sees both at once, and the count
    comes first: the ReplicaSet becomes as large as that, which takes none of its pods. Then it is rolled out, by its
    maxUnavailable and maxSurge, from that count. Source: isScalingEvent of Kubernetes. Only while a ReplicaSet of the
    new template was created, and the status does not tell yet, would sizes be divided, and rounded: tenths of a second.
    """
    own = own_pods(workload, pods)
    is_unseen = workload.rollout == UNSEEN and (workload.ref.api_version, workload.ref.kind) == DEPLOYMENT
    if not is_unseen or _count_templates(own) > 1:
        return workload.replicas
    return min(workload.replicas, max(workload.status_replicas, len(own)))


def begin(
    workload: Workload, pod: Pod, autoscaler: str, now: float, within: float, origin: Origin
) -> Mark | tuple[str, str]:
    """The note with which a move begins, or a word and a sentence why not. `within`: seconds to be ready in, besides
    those for which a pod must be ready to count."""
    refusals = (
        (pod.deleted, LEAVING, "it is being deleted"),
        (SURGE in workload.annotations, "UnderWay", _explain_under_way(workload, pod)),
        (pod.needs.claims or bool(pod.needs.disks), "Volumes", "two pods cannot share its volumes"),
        (workload.recreate, "Recreate", f"{workload.ref} has the strategy Recreate: no pod beside another"),
        (bool(workload.rollout), "RollingOut", f"{workload.ref} is being rolled out: {workload.rollout}"),
        (FENCE in workload.annotations, "Fenced", f"{workload.ref} changes hands ({FENCE})"),
        (bool(autoscaler), FOREIGN_OWNER, f"{autoscaler} scales {workload.ref}, and would undo it"),
        (workload.replicas != workload.status_replicas, "Scaling", f"{workload.ref} is being scaled"),
        (workload.replicas < 1, "Scaling", f"{workload.ref} is to have no pod"),
    )
    for holds, word, why in refusals:
        if holds:
            return word, why
    cost = pod.annotations.get(COST)
    until = now + within + workload.min_ready
    note = Note(pod.name, pod.uid, pod.node, workload.replicas, "up", now, until, cost, origin.decision, origin.lease)
    return _annotate(workload, note)


def _explain_under_way(workload: Workload, pod: Pod) -> str:
    note = read_note(workload)
    if note is None or note.phase != "back":
        return f"another pod of {workload.ref} is being moved"
    return f"{'its own move' if note.uid == pod.uid else f'the move of {note.pod}'} is being taken back"


def stays(workload: Workload, pods: Sequence[Pod]) -> bool:
    """Whether the pod of a move that was begun stays all the same, as things stand: what was done is taken back, or
    somebody else has set the count. `pods` as for `next_step`."""
    note = read_note(workload)
    return note is not None and _MoveState(workload, pods, note, note.at).stays


def next_step(
    workload: Workload,
    pods: Sequence[Pod],
    now: float,
    restraints: Restraints,
    *,
    honours_costs: bool,
    earlier: Earlier = _NOTHING_EARLIER,
) -> Step:
    """The next step of a workload with the annotation and these pods, of which some may be of others. `honours_costs`:
    deletion costs count."""
    note = read_note(workload)
    if note is None:
        return _remove(workload)
    state = _MoveState(workload, pods, note, now, earlier)
    if workload.replicas not in (note.count, note.count + 1):
        return state.leave("Overtaken", f"the count was set to {workload.replicas}")
    return state.stay(restraints) or state.proceed(restraints, honours_costs=honours_costs)


def _remove(workload: Workload) -> Step:
    """Remove a note that is of no move which can be continued, and leave the count as it is."""
    why, writer = "cannot be read", workload.surge_writer
    if writer:
        why = f"was written by {writer}, not by elasticd"
        leftover = noted(workload.annotations)
        if leftover is not None and workload.replicas != leftover.count + 1:
            message = f"the annotation {SURGE} {why}, and is removed: no pod is being moved"
            return Step(LEFTOVER, message, _annotate(workload, None), last=True)
    message = f"the annotation {SURGE} {why}, and is removed: a replica more than before may stay"
    return Step("NotOurs" if writer else "Unreadable", message, _annotate(workload, None), last=True)


def resume(workload: Workload, pods: Sequence[Pod], note: Note) -> Step | None:
    """What to do where somebody has removed or garbled this note of a move that is known to have been under way: take
    back what it did. None: nothing is left of it."""
    if workload.replicas != note.count + 1 and not _MoveState(workload, pods, note, note.at).is_marked:
        return None
    message = f"somebody changed the annotation {SURGE}: what the move of {note.pod} has done is taken back"
    return Step("NoteRestored", message, _annotate(workload, replace(note, phase="back")))


class _MoveState:
    """The state of a move; each phase has a method that returns its next step."""

    def __init__(
        self, workload: Workload, pods: Sequence[Pod], note: Note, now: float, earlier: Earlier = _NOTHING_EARLIER
    ) -> None:
        self._workload, self._note, self._now, self._unmarks = workload, note, now, earlier.unmarks
        self._is_raised = workload.replicas > note.count
        self._strangers, own = strangers(workload, pods), own_pods(workload, pods)
        self._noted = next((pod for pod in pods if pod.uid == note.uid and pod.is_active), None)
        """The pod of the note, whoever owns it by now."""
        self._old = self._noted if self._noted is not None and owns(workload, self._noted) else None
        self._rolling = rolling(workload, pods)
        self._takes_none = earlier.still >= STILL and harmless_count(workload, pods) <= note.count
        self._other_pods = [pod for pod in own if pod.uid != note.uid]
        self._ready = [pod for pod in self._other_pods if pod.is_available(workload.min_ready, now)]
        self._count_ready = f"{len(self._ready)} of {note.count} are ready without {note.pod}"
        if workload.min_ready:
            self._count_ready += f", for {workload.min_ready:g} s (minReadySeconds)"

    @property
    def is_marked(self) -> bool:
        """Whether the pod has a mark that is to be taken away where it stays. One that it had before is left to it."""
        is_ours = self._unmarks and self._note.cost != LEAST
        return is_ours and self._noted is not None and self._noted.annotations.get(COST) == LEAST

    @property
    def _distinguishes(self) -> bool:
        """Whether the mark tells the pod from all others: the template may give each pod the lowest cost."""
        return all(pod.annotations.get(COST) != LEAST for pod in self._other_pods)

    @property
    def stays(self) -> bool:
        """Whether the pod is still there, and no step ahead would make it go."""
        note, count = self._note, self._workload.replicas
        if self._old is None:
            return self._noted is not None
        overtaken = note.phase in ("wait", "out") or (note.phase == "down" and len(self._other_pods) < note.count)
        return note.phase == "back" or count not in (note.count, note.count + 1) or (overtaken and not self._is_raised)

    def stay(self, restraints: Restraints) -> Step | None:
        """Take the move back at once if the pod is to stay by now; None: it need not, or was let go before."""
        is_begun = self._is_raised or self._note.phase == "up"
        if self._old is None or self._note.phase == "back" or not is_begun:
            return None
        why = restraints.protection(self._workload, self._old)
        return replace(self._enter("back", *why), restrained=True) if why else None

    def proceed(self, restraints: Restraints, *, honours_costs: bool) -> Step:
        """The next step of its phase."""
        honours_costs = honours_costs and self._distinguishes
        match self._note.phase:
            case "up":
                return self.up()
            case "wait":
                return self.wait(restraints, honours_costs=honours_costs)
            case "down":
                return self.down(restraints)
            case "out":
                return self.out(restraints)
            case "back":
                return self.back()

    def _delay(self, restraints: Restraints) -> Step | None:
        """Wait for what keeps the pod from going now; None: nothing does, or it is gone."""
        why = restraints.delay(self._old, self._departure(self._old)) if self._old else None
        return replace(self._wait_or_give_up(*why), restrained=True) if why else None

    def _departure(self, old: Pod) -> Evict:
        """The eviction by which the pod goes, or which its removal comes to."""
        return Evict(old.ref, old.uid, old.node, f"{SURGE} {self._note.phase}", owner=self._workload.uid)

    @property
    def _others(self) -> Ready:
        """What must still hold when the pod is evicted: what is seen may be old by then."""
        return Ready(self._workload.selector, frozenset(pod.uid for pod in self._ready), self._note.count)

    def up(self) -> Step:
        """Ask for one replica more."""
        if self._is_raised:
            return self._enter("wait", "Raised", "one more is asked for")
        if self._old is None:
            return self.leave(*self._absence)
        if self._now >= self._note.until:
            return self.leave("TooLate", f"one more could not be asked for within {self._seconds}")
        return self._scale(self._note.count + 1, "Raise", "one more is made first")

    @property
    def _absence(self) -> tuple[str, str]:
        """Why there is no pod to move: its controller has released it, or it is gone."""
        if self._noted is not None:
            return RELEASED, f"{self._note.pod} belongs to {self._workload.ref} no longer"
        return "WentByItself", f"{self._note.pod} is gone already"

    @property
    def _seconds(self) -> str:
        return f"{self._note.until - self._note.at:.0f} s"

    def wait(self, restraints: Restraints, *, honours_costs: bool) -> Step:
        """Wait until as many as before are ready without the pod, and the new one is not beside it."""
        note = self._note
        if not self._is_raised:
            return self.leave("Overtaken", "somebody else has taken the additional replica away")
        if self._old is None:
            return self._enter("back", *self._absence)
        marked = self._old.annotations.get(COST) == LEAST
        if trouble := self._trouble(marked=marked):
            return self._enter("back", *trouble)
        if short := self._shortage:
            return self._wait_or_give_up(*short)
        phase: Phase = "down" if honours_costs else "out"
        ready = self._enter(phase, "Ready", f"as many are ready without {note.pod}")
        return self._delay(restraints) or (ready if marked else self._mark(self._old))

    def _trouble(self, *, marked: bool) -> tuple[str, str] | None:
        """Why it is given up: the new pod is on the same node or late, or the old one cannot be marked."""
        note = self._note
        newest = max(self._other_pods, key=lambda pod: (pod.created, pod.name), default=None)
        if len(self._other_pods) >= note.count and newest is not None and newest.node == note.node:
            return "PutBack", f"{newest.name} was put on {note.node} too"
        if len(self._ready) < note.count and self._now >= note.until:
            return "TooLate", f"no other pod was ready within {self._seconds}"
        return None if marked else self._late_to_mark()

    @property
    def _shortage(self) -> tuple[str, str] | None:
        """Why it is not known that as many as before are ready without the pod; None: it is."""
        if len(self._ready) < self._note.count:
            return "Waiting", self._count_ready
        return (STRANGERS, self._strangers) if self._strangers else self._rollout

    @property
    def _rollout(self) -> tuple[str, str] | None:
        """Why the additional replica stays for now; None: no rollout is under way."""
        return ("RollingOut", f"{self._workload.ref} is being rolled out: {self._rolling}") if self._rolling else None

    def _late_to_mark(self) -> tuple[str, str] | None:
        """Why it is given up if the pod is not the one to go by now; None: there is time left."""
        if self._now < self._note.until + MARKING:
            return None
        return "TooLate", f"{self._note.pod} could not be made the one to go in time"

    def down(self, restraints: Restraints) -> Step:
        """Ask for one replica fewer while the marked pod is the one to go: its controller takes unready ones first.
        Where somebody removed the mark, make it again."""
        note = self._note
        if self._is_raised:
            removes = self._departure(self._old) if self._old else None
            lower = self._lower("Lower", f"{note.pod} goes" if self._old else self._absence[1], removes)
            return (self._before_lowering(self._old, restraints) if self._old else None) or lower
        if self._old is None:
            return self._end()
        if len(self._other_pods) < note.count:
            return self.leave("AnotherWent", f"another pod went in place of {note.pod}")
        if self._now >= note.until + REMOVAL:
            return self.leave("TooLate", f"its controller did not remove {note.pod}")
        return Step("Leaving", f"{note.pod} has yet to go")

    def _end(self) -> Step:
        """The pod is gone, or belongs to the Deployment no longer, and no pod is too many."""
        if self._noted is not None:
            return self.leave(*self._absence)
        message = f"{self._note.pod} left {self._note.node}"
        return Step("Moved", message, _annotate(self._workload, None), last=True, done=True)

    def _before_lowering(self, old: Pod, restraints: Restraints) -> Step | None:
        """What must come before the count is lowered, so that the old pod goes and no other; None: nothing."""
        if len(self._ready) < len(self._other_pods):
            unready = counted(len(self._other_pods) - len(self._ready), "other")
            return self._wait_or_give_up("Waiting", f"{unready} not ready")
        if short := self._shortage:
            return self._wait_or_give_up(*short)
        if not self._distinguishes:
            return self._enter("out", "NotTheOnly", f"{old.name} is not the only one with the lowest deletion cost")
        if delayed := self._delay(restraints):
            return delayed
        marked = old.annotations.get(COST) == LEAST
        if late := self._late_to_mark():  # of a marked pod too: its controller needs time to remove it
            return self._enter("back", *(("TooLate", "its count could not be lowered in time") if marked else late))
        return None if marked else self._mark(old)

    def out(self, restraints: Restraints) -> Step:
        """Evict the pod, within disruption budgets, and then ask for one replica fewer."""
        note, old = self._note, self._old
        if old is None and not self._is_raised:
            return self._end()
        if old is None:
            return self._lower("Lower", self._absence[1])
        if not self._is_raised:
            return self.leave("Overtaken", "somebody else has taken the additional replica away")
        if short := self._shortage:
            return self._wait_or_give_up(*short)
        if (delayed := self._delay(restraints)) or self._now < note.until:
            return delayed or self._evict(old)
        return self._wait_or_give_up("Waiting", "its eviction was not carried out")

    def _evict(self, old: Pod) -> Step:
        """Evict the pod while it is marked. Where somebody removed the mark, make it again."""
        if old.annotations.get(COST) != LEAST:
            return self._mark(old)
        return Step("Evict", f"{old.name} goes", replace(self._departure(old), others=self._others))

    def _wait_or_give_up(self, word: str, message: str) -> Step:
        """Wait for what the word and the sentence say, until the time of the move is over."""
        if self._now < self._note.until:
            return Step(word, message)
        return self._enter("back", "TooLate", f"{self._note.pod} could not go within {self._seconds}: {message}")

    def back(self) -> Step:
        """Restore the previous state. The mark is removed first: without it the ReplicaSet removes the pod that is not
        ready."""
        if self._noted is not None and self.is_marked:
            return Step("Unmark", f"{self._note.pod} stays", self._mark_cost(self._noted, self._note.cost))
        if self._is_raised:
            return self._lower("TakeBack", "the additional replica is taken back")
        return Step("TakenBack", "it is as it was before", _annotate(self._workload, None), last=True)

    def leave(self, word: str, message: str) -> Step:
        """Remove the marks, and leave the count as it is."""
        if self._noted is not None and self.is_marked:
            return Step(word, message, self._mark_cost(self._noted, self._note.cost))
        return Step(word, message, _annotate(self._workload, None), last=True)

    def _enter(self, phase: Phase, word: str, message: str) -> Step:
        return Step(word, message, _annotate(self._workload, replace(self._note, phase=phase)))

    def _lower(self, word: str, message: str, removes: Evict | None = None) -> Step:
        """Ask for one replica fewer, once no rollout is under way that could cost a pod."""
        if self._rollout and not self._takes_none:
            return Step(*self._rollout)
        return self._scale(self._note.count, word, message, removes)

    def _scale(self, after: int, word: str, message: str, removes: Evict | None = None) -> Step:
        workload, reason = self._workload, f"{SURGE} {self._note.phase}"
        action = Scale(workload.ref, workload.uid, workload.version, workload.replicas, after, reason, removes)
        return Step(word, message, action)

    def _mark(self, old: Pod) -> Step:
        return Step("Mark", f"{old.name} is the one to go", self._mark_cost(old, LEAST))

    def _mark_cost(self, pod: Pod, cost: str | None) -> Mark:
        return Mark(self._workload.ref, pod.uid, {COST: cost}, pod.name, SURGE)


def _annotate(workload: Workload, note: Note | None) -> Mark:
    text = None if note is None else msgspec.json.encode(note).decode()
    return Mark(workload.ref, workload.uid, {SURGE: text}, reason=SURGE, version=workload.version)
