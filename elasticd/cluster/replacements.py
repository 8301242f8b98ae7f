"""Whether what replaces the pods that were moved is there yet, and what was scaled has settled.

Knows the latest snapshot, and what was moved and scaled since this daemon began; knows nothing of budgets, nor of how
an action is done. It is told the time.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import takewhile
from typing import NamedTuple

from msgspec import Struct

from elasticd.kit.rollout import ordinal, rollout_left
from elasticd.kit.surge import SURGE, surged
from elasticd.model.actions import Evict, Mark, Scale
from elasticd.model.controllers import JOB, OWNERS, lacks_more_than_may
from elasticd.model.disruption import Refused
from elasticd.model.workload import Pod, Workload
from elasticd.ports.cluster import RECORDS, Kind, Snapshot

SETTLING = 60.0
"""Seconds for which a workload may still be busy after it was scaled."""

ECHO = 5.0
"""Seconds for which no pod of a workload is moved after its count was lowered, and after it had more pods than that:
what a PodDisruptionBudget allows is counted by a controller, which may not have seen yet that pods went."""

OFTEN = 1.0
"""Seconds between looks for workloads with more pods than they should have."""

UNREADY_FIRST = {("apps/v1", "Deployment"), ("apps/v1", "ReplicaSet")}
"""Kinds whose controllers remove pods that are not ready before others, once they have seen that one goes; a
StatefulSet's removes the last ordinals."""

STATEFUL_SET = ("apps/v1", "StatefulSet")

REPLACING = 600.0
"""Seconds for which the count of a StatefulSet does not fall because a pod of it that was moved is not ready again."""


class _Moved(Struct):
    """The pods of a workload, by UID, that were moved of late, how many were ready before the first of them was, and
    when the last was; the evictions of those `under_way` have no answer yet."""

    ready: int
    uids: set[str]
    under_way: set[str]
    at: float

    def lasts(self, seconds: float, now: float) -> bool:
        """Whether less than so many seconds have passed since the last was moved."""
        return bool(self.under_way) or now - self.at < seconds


class _Lack(NamedTuple):
    """How many pods of a workload are available, of those that are wanted since some were moved; `left` are ready, and
    none of these."""

    left: list[Pod]
    available: int
    wanted: int
    text: str

    @property
    def is_felt(self) -> bool:
        """Whether more are missing than may be."""
        return lacks_more_than_may(self.wanted, self.available)


class Replacements:
    """What replaces pods that were moved, and the counts that were changed of late. `leaving` are the UIDs of the pods
    that were moved of late, or whose eviction is under way."""

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._seen_at = -OFTEN
        self._scaled_at: dict[str, float] = {}
        self._shrank_at: dict[str, float] = {}
        """When a workload's count was lowered, or it was last seen with more pods than that."""
        self._surged_at: dict[str, float] = {}
        self._changing: list[tuple[str, Refused]] = []
        """The UIDs of the workloads whose count is being lowered, or of which a surge is being begun, and why so."""
        self._unanswered: dict[str, tuple[str, float]] = {}
        """Of workloads, by UID, whose scale-in had no answer: the version that it names or an earlier one, and when it
        was given up. The network may deliver it as long as they stay at that."""
        self._over_since: dict[str, float] = {}
        """Since when workloads have more pods than they should."""
        self._counts: dict[str, int] = {}
        """The counts of workloads, by UID, as last seen."""
        self._moved: dict[str, _Moved] = {}
        """By the UID of the workload, or of a controller that nobody watches, such as a ReplicationController; until as
        many are ready as before."""

    def see(self, snapshot: Snapshot, now: float) -> None:
        """Judge by this snapshot from now on."""
        self._snapshot = snapshot
        if now >= self._seen_at + OFTEN:
            self._note_shrinking(snapshot, now)

    def _note_shrinking(self, snapshot: Snapshot, now: float) -> None:
        """Remember which workloads have been scaled in by whomever, or have more pods than they should, though not for
        ever, as in a rollout that is stuck. A set of Jobs shrinks with each that ends."""
        self._seen_at, before, counts, over = now, self._counts, dict[str, int](), dict[str, float]()
        self._shrank_at = {uid: at for uid, at in self._shrank_at.items() if now - at < ECHO}
        self._unanswered = {uid: late for uid, late in self._unanswered.items() if now - late[1] < REPLACING}
        for workload in snapshot.workloads():
            uid, count = workload.uid, workload.replicas
            counts[uid] = count
            if uid in self._unanswered and self._unanswered[uid][0] != workload.version:
                del self._unanswered[uid]
            if workload.ref.kind == JOB:
                continue
            if count < workload.status_replicas:
                over[uid] = self._over_since.get(uid, now)
            if count < before.get(uid, count) or now - over.get(uid, -REPLACING) < REPLACING:
                self._shrank_at[uid] = now
        self._counts, self._over_since = counts, over

    def note_scaling(self, action: Scale, now: float) -> None:
        """Remember that a count was changed."""
        self._scaled_at = {uid: at for uid, at in self._scaled_at.items() if now - at < SETTLING}
        self._scaled_at[action.uid] = now
        if action.after < action.before:
            self._shrank_at[action.uid] = now

    def note_unanswered(self, action: Scale, now: float) -> None:
        """Remember that a scale-in had no answer: it may be carried out later."""
        workload = self._snapshot.workload(action.workload) if self._snapshot else None
        if workload is not None and workload.uid == action.uid and action.after < action.before:
            self._unanswered[action.uid] = (workload.version, now)

    @contextmanager
    def changing(self, action: Scale | Mark) -> Iterator[None]:
        """A count is being changed, or a surge begun, for as long as the block runs: it may wait for its turn, or for
        the server."""
        changing: list[tuple[str, Refused]] = []
        if isinstance(action, Mark):
            changing = [(action.uid, ("BeingMoved", f"a surge of a pod of {action.workload} is being begun"))]
        elif action.after < action.before:
            changing = [(action.uid, ("Scaling", f"{action.workload} is being scaled in"))]
        self._changing += changing
        try:
            yield
        finally:
            for each in changing:
                self._changing.remove(each)

    def note_surge(self, uid: str, now: float) -> None:
        """Remember that a surge of a pod of this workload was begun, which the next snapshot may not show yet."""
        self._surged_at = {uid: at for uid, at in self._surged_at.items() if now - at < ECHO}
        self._surged_at[uid] = now

    def note_move(self, evict: Evict, now: float) -> None:
        """Remember how many pods of its workload were ready, before one of them is moved."""
        snapshot = self._snapshot
        if snapshot is None or not evict.owner:
            return
        for uid, pods, _ in list(_siblings(evict, snapshot)):
            moved = self._moved.setdefault(uid, _Moved(len(_ready(pods)), set(), set(), now))
            moved.uids.add(evict.uid)
            moved.under_way.add(evict.uid)

    def end_move(self, uid: str, at: float | None) -> None:
        """Remember that the eviction of a pod is under way no longer, since this time; None: it was not done."""
        for moved in self._moved.values():
            if uid in moved.under_way:
                moved.under_way.remove(uid)
                moved.at = moved.at if at is None else at

    def busy(self, now: float) -> Iterator[tuple[str, Refused]]:
        """The pods, by UID, of each workload that is being moved, rolled out or scaled, or has too few pods."""
        snapshot = self._snapshot
        if snapshot is None:
            return
        self._note_shrinking(snapshot, now)
        changed = {*self._scaled_at, *self._shrank_at, *self._surged_at, *(uid for uid, _ in self._changing)}
        changed |= self._unanswered.keys()
        for workload in snapshot.workloads():
            # Nearly all are at rest, and a call for each of thousands would be felt.
            suspect = workload.rollout or workload.new_revision or workload.uid in changed
            suspect = suspect or SURGE in workload.annotations
            if (suspect or _counts_few(workload)) and (why := self._why_busy(workload, now)):
                for pod in snapshot.pods(workload):
                    yield pod.uid, why

    def needed(self, now: float, leaving: Collection[str]) -> Iterator[tuple[str, Refused]]:
        """The ready pods, by UID, of each workload of which as many are no longer available as were ready before others
        were moved. A replacement may never be: its image is gone, or it fails where it now is. How many pods a
        controller should have that nobody watches is not known: those of one are needed for a time."""
        snapshot = self._snapshot
        if snapshot is None or not self._moved:
            return
        workloads = {workload.uid: workload for workload in snapshot.workloads() if workload.uid in self._moved}
        unwatched = _pods_by_controller(self._moved.keys() - workloads.keys(), snapshot)
        for uid, moved in [*self._moved.items()]:
            if (workload := workloads.get(uid)) is None:
                lack = _find_lack_unwatched(moved, unwatched[uid], leaving)
            else:
                lack = _find_lack(moved, workload, snapshot.pods(workload), now, leaving)
            if lack.available >= lack.wanted or not (uid in workloads or moved.lasts(REPLACING, now)):
                del self._moved[uid]
            elif lack.is_felt:
                why = "NotReplaced", f"{lack.text}: what replaces the others is not yet"
                yield from ((pod.uid, why) for pod in lack.left)

    def unread(self, problems: Mapping[Kind, str]) -> Iterator[tuple[str, Refused]]:
        """The pods, by UID, of controllers whose kind cannot be read: what is wanted of them, and whether more of them
        may lack, is not known. Those without a controller while records cannot: others may be away. `problems`: why
        kinds cannot be."""
        pods = self._snapshot.on_nodes().values() if self._snapshot is not None else ()
        if RECORDS in problems:
            why = "RecordsUnread", problems[RECORDS]
            yield from ((pod.uid, why) for on_node in pods for pod in on_node if not pod.owner[0])
        for kind, owner in OWNERS.items():
            if kind in problems:
                why = "ControllersUnread", f"{kind[1]}s cannot be read: {problems[kind]}"
                yield from ((pod.uid, why) for on_node in pods for pod in on_node if pod.owner[0] == owner)

    def why_not_yet(self, evict: Evict, now: float, *, others: bool) -> Refused | None:
        """Why a ready pod is not moved before others of its controller are ready. `others`: pods of it may have been
        moved within REPLACING of which nothing is known here. An eviction of a surge has no target."""
        if not evict.target or not evict.owner or self._snapshot is None:
            return None
        return self._why_not_last(evict, now) or (_why_one_may_lack(evict, self._snapshot) if others else None)

    def _why_not_last(self, evict: Evict, now: float) -> Refused | None:
        """Why a ready pod of a StatefulSet is not moved, which would not create it again before another of a lower
        ordinal is available. Source: the StatefulSet controller of Kubernetes, monotonic."""
        snapshot = self._snapshot
        workloads = snapshot.workloads() if snapshot else ()
        workload = next((workload for workload in workloads if workload.uid == evict.owner), None)
        if snapshot is None or workload is None or not workload.ordered:
            return None
        pods = sorted(snapshot.pods(workload), key=ordinal)
        before = list(takewhile(lambda pod: pod.uid != evict.uid, pods))
        first = next((pod for pod in before if pod.deleted or not pod.is_available(workload.min_ready, now)), None)
        if first is None or not any(pod.uid == evict.uid and pod.ready for pod in pods):
            return None
        return "NotReplaced", f"{first.name} is not available, and {workload.ref} would not create it again before"

    def why_not_fewer(
        self, workload: Workload, after: int, now: float, leaving: Collection[str], *, others: bool
    ) -> Refused | None:
        """Why the count must not fall while a pod that was moved is replaced: a ready one would go, and one that is
        not would stay. `others`: pods of it may have been moved within REPLACING of which nothing is known here."""
        moved, snapshot = self._moved.get(workload.uid), self._snapshot
        if snapshot is None:
            return None
        is_unready_first = (workload.ref.api_version, workload.ref.kind) in UNREADY_FIRST
        if moved is None:
            ready = _ready(snapshot.pods(workload))
            if is_unready_first or not others or not _may_lose_ready(workload, after, ready, now):
                return None
            lack = f"{len(ready)} of {workload.replicas} pods of {workload.ref} are ready, and one may have been moved"
            return "NotReplaced", f"{lack}: a ready one would be removed"
        found = _find_lack(moved, workload, snapshot.pods(workload), now, leaving)
        if not found.is_felt or not moved.lasts(ECHO if is_unready_first else REPLACING, now):
            return None
        if not _may_lose_ready(workload, after, found.left, now):
            return None
        return "NotReplaced", f"{found.text}: a ready one would be removed"

    def _why_busy(self, workload: Workload, now: float) -> Refused | None:
        if (note := surged(workload)) is not None:
            return "BeingMoved", f"a pod of {workload.ref} is being moved: {note}"
        if changing := next((why for uid, why in self._changing if uid == workload.uid), None):
            return changing
        if now - self._surged_at.get(workload.uid, -ECHO) < ECHO:
            return "BeingMoved", f"a surge of a pod of {workload.ref} has just begun"
        if left := rollout_left(workload, self._snapshot.pods(workload) if self._snapshot is not None else ()):
            return "RollingOut", f"{workload.ref} is being rolled out: {left}"
        return self._why_scaling(workload, now) or self._not_replaced(workload)

    def _why_scaling(self, workload: Workload, now: float) -> Refused | None:
        if workload.uid in self._unanswered:
            return "Scaling", f"a scale-in of {workload.ref} had no answer, and may be carried out yet"
        scaled = now - self._scaled_at.get(workload.uid, -SETTLING)
        if scaled < SETTLING and workload.status_replicas != workload.replicas:
            return "Scaling", f"{workload.ref} was scaled {scaled:.0f} s ago and is not there yet"
        if (shrank := now - self._shrank_at.get(workload.uid, -ECHO)) >= ECHO:
            return None
        if workload.replicas < workload.status_replicas:
            return "Scaling", f"{workload.ref} has {workload.status_replicas} pods, and is to have {workload.replicas}"
        return "Scaling", f"{workload.ref} was scaled in {shrank:.0f} s ago"

    def _not_replaced(self, workload: Workload) -> Refused | None:
        """Why no pod may go whose controller does not make up for those that went, as with a quota or a webhook that
        refuses its pods. A pod that waits for a node is there."""
        if self._snapshot is None or not _counts_few(workload):
            return None
        there = sum(pod.is_active for pod in self._snapshot.pods(workload))
        if there >= workload.replicas:
            return None
        missing = f"{there} of {workload.replicas} pods of {workload.ref} are there"
        return "NotReplaced", f"{missing}: its controller has not replaced the others"


def _why_one_may_lack(evict: Evict, snapshot: Snapshot) -> Refused | None:
    """Why a ready pod is not moved while others of its controller are not ready: one of these may have been moved."""
    for _, pods, wanted in _siblings(evict, snapshot):
        left = _ready(pods)
        if any(pod.uid == evict.uid for pod in left) and lacks_more_than_may(wanted, len(left)):
            lack = f"{len(left)} of {wanted} pods of its controller are ready"
            return "NotReplaced", f"{lack}, and one may have been moved"
    return None


def _siblings(evict: Evict, snapshot: Snapshot) -> Iterator[tuple[str, Collection[Pod], int]]:
    """The workloads of a pod with their pods, and how many these should be; or its controller with those that there
    are, if none that is watched has it. A Job runs each of its pods once."""
    is_seen = False
    for workload in snapshot.workloads():
        if workload.ref.namespace == evict.workload.namespace:
            pods = snapshot.pods(workload)
            if any(pod.uid == evict.uid for pod in pods):
                is_seen = True
                yield workload.uid, pods, workload.replicas
    siblings = [] if is_seen else _pods_by_controller({evict.owner}, snapshot)[evict.owner]
    if siblings and siblings[0].owner[0] != JOB:
        yield evict.owner, siblings, sum(not pod.deleted for pod in siblings)


def _find_lack_unwatched(moved: _Moved, pods: Collection[Pod], leaving: Collection[str]) -> _Lack:
    """What a controller lacks that nobody watches, of which pods were moved of late."""
    left = _left(moved, pods, leaving)
    return _Lack(left, len(left), moved.ready, f"{len(left)} of {moved.ready} pods of its controller are ready")


def _find_lack(moved: _Moved, workload: Workload, pods: Collection[Pod], now: float, leaving: Collection[str]) -> _Lack:
    """What a workload lacks of which pods were moved of late."""
    left = _left(moved, pods, leaving)
    wanted = min(moved.ready, workload.replicas)
    available = sum(pod.is_available(workload.min_ready, now) for pod in left)
    long = f", for {workload.min_ready:g} s (minReadySeconds)" if workload.min_ready else ""
    return _Lack(left, available, wanted, f"{available} of {wanted} pods of {workload.ref} are ready{long}")


def _may_lose_ready(workload: Workload, after: int, ready: Collection[Pod], now: float) -> bool:
    """Whether with a count of `after` one of these ready pods may go, and one that is not available stay. The pods that
    a StatefulSet removes are known: those of the last ordinals."""
    staying, wanted = list(ready), workload.replicas
    if (workload.ref.api_version, workload.ref.kind) == STATEFUL_SET:
        staying, wanted = [pod for pod in ready if ordinal(pod) < workload.first_ordinal + after], after
        if len(staying) == len(ready):
            return False
    available = sum(pod.is_available(workload.min_ready, now) for pod in staying)
    return bool(ready) and after > 0 and available < wanted


def _ready(pods: Collection[Pod], without: Collection[str] = ()) -> list[Pod]:
    """The pods that are ready and stay, without those of these UIDs."""
    return [pod for pod in pods if pod.ready and not pod.deleted and pod.uid not in without]


def _left(moved: _Moved, pods: Collection[Pod], leaving: Collection[str]) -> list[Pod]:
    """The ready pods that were not moved. One that is there though its eviction is over, as where that was refused,
    failed, or is a dry run's, was not."""
    moved.uids -= {pod.uid for pod in pods if not pod.deleted and pod.uid not in leaving}
    return _ready(pods, moved.uids)


def _pods_by_controller(controllers: Collection[str], snapshot: Snapshot) -> dict[str, list[Pod]]:
    """The pods of the controllers of these UIDs, also those that wait for a node, in one pass over all pods."""
    found: dict[str, list[Pod]] = {uid: [] for uid in controllers}
    if found:
        for pods in (*snapshot.on_nodes().values(), snapshot.pending()):
            for pod in pods:
                if pod.owner[2] in found:
                    found[pod.owner[2]].append(pod)
    return found


def _counts_few(workload: Workload) -> bool:
    """Whether its controller counts fewer pods than it should have. A set of Jobs has no such count."""
    return workload.status_replicas < workload.replicas and workload.ref.kind != JOB
