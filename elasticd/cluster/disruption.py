"""Disruption budgets for every action on a cluster: how many pods may be disturbed at a time, and when none may.

A Cluster that wraps another. Knows which actions it let through recently; knows nothing of their callers. A refusal
is an answer with a reason, so the journal has it as the outcome of the decision.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from itertools import chain, takewhile
from math import inf
from types import MappingProxyType
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from elasticd.base.clock import Clock
from elasticd.cluster.wrapper import ClusterWrapper
from elasticd.decision.disruption import disruption_of, ends_surge, refusal, unknown
from elasticd.journal import Journal
from elasticd.kit.calendars import Hours, standing
from elasticd.kit.surge import SURGE, surged
from elasticd.model.actions import Action, Answer, Create, Evict, Remove, Scale
from elasticd.model.controllers import JOB
from elasticd.model.disruption import (
    Disruption,
    DisruptionMemory,
    DisruptionState,
    NodesCounted,
    PolicyCaps,
    Refused,
)
from elasticd.model.listener import MoveTakenBack, Notice
from elasticd.model.policy import MOST
from elasticd.model.workload import Pod, Workload
from elasticd.ports.cluster import Cluster, Kind, Snapshot

MEMORY = 600.0
"""Seconds for which a count is remembered: a loss within them counts as sudden."""

EVERY = 5.0
"""Seconds between counts of nodes and series: what was not counted before cannot be missed later."""

FEWEST = 4
"""Series: the loss of half of fewer than these is no sign of trouble."""

SETTLING = 60.0
"""Seconds for which a workload may still be busy after it was scaled."""

LATER = 0.1
"""Seconds after which an eviction that was counted when it was begun counts anew when it is done: it may have waited
for the server."""

ECHO = 5.0
"""Seconds for which no pod of a workload is moved after its count was lowered: what a PodDisruptionBudget allows is
counted by a controller, which may not have seen that yet."""

UNREADY_FIRST = {("apps/v1", "Deployment"), ("apps/v1", "ReplicaSet")}
"""Kinds whose controllers remove pods that are not ready before others, once they have seen that one goes; a
StatefulSet's removes the last ordinals."""

REPLACING = 600.0
"""Seconds for which the count of a StatefulSet does not fall because a pod of it that was moved is not ready again."""

SHARE = 10
"""Of so many pods of a workload one may lack a ready replacement while another is moved; of fewer, none."""

_NODES = "nodes"
"""Under which the counts of ready nodes are kept, beside those of series."""

BUDGETS = ("per_node", "per_controller", "per_namespace", "total")

Most = Annotated[int, Meta(ge=1, le=1_000_000, description="pods")]
Replicas = Annotated[int, Meta(ge=1, le=MOST, description="replicas")]

BOUNDS = ("TooFewReplicas: ", "TooManyReplicas: ")
"""How the reason of an action begins that a policy's min or max asks for."""


class DisruptionSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Disruption budgets: the maximum number of pods within so many seconds, per node, controller, namespace and
    cluster."""

    within: Annotated[float, Meta(gt=0, le=86400, description="seconds")] = 60.0
    per_node: Most = 10
    per_controller: Most = 5
    per_namespace: Most = 50
    total: Most = 100
    breaker: Annotated[
        float, Meta(gt=0, le=1, description="part of the nodes, or of what a source measures, gone at once")
    ] = 0.5
    blackout: Annotated[tuple[Hours, ...], Meta(description="times in which no pod is moved or preempted")] = ()
    bounds_step: Replicas = 10
    bounds_most: Replicas = 100
    bounds_total: Replicas = 500
    newly_governed: Annotated[int, Meta(ge=1, le=1_000_000, description="workloads")] = 100

    @property
    def caps(self) -> PolicyCaps:
        return PolicyCaps(self.within, self.bounds_step, self.bounds_most, self.newly_governed)


class _Moved(Struct):
    """The pods of a workload, by UID, that were moved of late, how many were ready before the first of them was, and
    when the last was."""

    ready: int
    uids: set[str]
    at: float


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
        return self.wanted - self.available >= max(1, self.wanted // SHARE)


class DisruptionGuard(ClusterWrapper):
    """A Cluster that lets an action through to the inner one, or refuses it.

    `measured` are functions by the name of what they count (series): how many can be trusted, and how many there are.
    `journal` has what was disturbed before this daemon began, and is told before anything else is. What it cannot know,
    before it was begun or while another daemon led, counts as all that the budgets allow.
    """

    def __init__(
        self,
        inner: Cluster,
        settings: DisruptionSettings,
        clock: Clock,
        measured: Mapping[str, Callable[[], tuple[int, int]]] = MappingProxyType({}),
        journal: Journal | None = None,
    ) -> None:
        super().__init__(inner)
        self._settings, self._clock, self._measured = settings, clock, measured
        self._most = {name: int(getattr(settings, name)) for name in BUDGETS}
        self._journal, self._begun = journal, clock.now()
        self._recent: deque[Disruption] = deque(journal.disruptions() if journal else ())
        self._under_way: list[Disruption] = []
        self._scaled_at: dict[str, float] = {}
        self._lowered_at: dict[str, float] = {}
        self._moved: dict[str, _Moved] = {}
        """By the workload's UID, until as many are ready as before."""
        self._unseen: dict[str, _Moved] = {}
        """The same by the UID of a controller that nobody watches, such as a ReplicationController."""
        self._bounds_changes: deque[tuple[float, int]] = deque()
        self._counts: dict[str, deque[tuple[float, int]]] = {}
        for at, ready in journal.node_counts() if journal else ():
            self._peak(_NODES, ready, at)
        self._counted = -1
        """The count of ready nodes that was written down last."""
        self._snapshot: Snapshot | None = None
        self._last_count = float("-inf")

    async def observe(self, now: float, kinds: frozenset[Kind]) -> Snapshot:
        self._snapshot = await self._inner.observe(now, kinds)
        if now >= self._last_count + EVERY:
            self._last_count = now
            self._sudden_loss(now)
        return self._snapshot

    def disruption(self, now: float) -> DisruptionState:
        within = self._settings.within
        while self._recent and self._recent[0].at <= now - within:
            self._recent.popleft()
        forgotten = [one for one in self._under_way if one.at <= now - within]
        blackouts = [window.told for window in standing(self._settings.blackout, now).value if window.span.inside]
        return DisruptionState(
            within=within,
            most=self._most,
            recent=(*forgotten, *self._recent),
            breaker=self._sudden_loss(now),
            unknown=self._unknown(now),
            blackout=blackouts[0] if blackouts else "",
            busy=dict(self._busy_pods(now)),
            needed=dict(chain(self._needed_pods(now), self._needed_of_unseen(now))),
        )

    async def act(self, action: Action) -> Answer:
        now = self._clock.now()
        disruption = disruption_of(action, now)
        if disruption is not None:
            why = refusal(self.disruption(now), [action])
            why = why or (self._why_last(action, now) if isinstance(action, Evict) else None)
        else:
            why = self._refuse_scaling(action, now)
        if why is not None:
            return Answer("refused", message=why[1], reason=why[0])
        # It is counted before it is done, because several are under way at a time.
        if isinstance(action, Scale):
            self._note_scaling(action)
        if disruption is not None:
            if ends_surge(action):
                self._forget(disruption.uid)  # it goes now, not when its surge began
            self._recent.append(disruption)
            if fault := self._write(disruption):
                self._take_back(disruption)
                forgotten = f"the journal cannot be written, so a restart would forget it: {fault}"
                return Answer("refused", message=forgotten, reason="Disturbed")
        if isinstance(action, Evict) and action.target:
            self._note_move(action)
        answer = await (self._inner.act(action) if disruption is None else self._disturb(action, disruption))
        if isinstance(action, Scale):
            if answer.result in ("refused", "conflict") or 400 <= answer.code < 500:  # it was not done
                self._lowered_at.pop(action.uid, None)
            else:
                self._note_scaling(action)  # it may have waited for its turn
        return answer

    def _note_scaling(self, action: Scale) -> None:
        now = self._clock.now()
        self._scaled_at = {uid: at for uid, at in self._scaled_at.items() if now - at < SETTLING}
        self._lowered_at = {uid: at for uid, at in self._lowered_at.items() if now - at < ECHO}
        self._scaled_at[action.uid] = now
        if action.after < action.before:
            self._lowered_at[action.uid] = now

    async def _disturb(self, action: Action, disruption: Disruption) -> Answer:
        """Do what was counted. It counts until it is done, however long that takes, and from then on."""
        self._under_way.append(disruption)
        try:
            answer = await self._inner.act(action)
        finally:
            self._under_way.remove(disruption)
        if answer.result in ("refused", "conflict"):
            self._take_back(disruption)  # it was not done; what failed may have been
        elif self._clock.now() > disruption.at + LATER:
            self._count_anew(disruption)
        return answer

    def _count_anew(self, disruption: Disruption) -> None:
        """Count from now on what was counted when it was begun."""
        with suppress(ValueError):  # it lasted longer than it is remembered
            self._recent.remove(disruption)
        self._write(replace(disruption, undone=True))
        self._recent.append(replace(disruption, at=self._clock.now()))
        self._write(self._recent[-1])

    def _write(self, disruption: Disruption) -> str:
        """Write it to the disk at once, so that a daemon that is killed and started again knows it. Returns why it
        could not be written; empty: it was."""
        if self._journal is None or self._inner.taken_over is None:
            return ""
        self._journal.append(disruption)
        self._journal.flush()
        return self._journal.fault

    def _note_move(self, evict: Evict) -> None:
        """Remember how many pods of its workload were ready, before one of them is moved."""
        snapshot, is_seen = self._snapshot, False
        if snapshot is None or not evict.owner:
            return
        for workload in snapshot.workloads():
            if workload.ref.namespace == evict.workload.namespace:
                pods = snapshot.pods(workload)
                if any(pod.uid == evict.uid for pod in pods):
                    is_seen = True
                    self._add_moved(self._moved, workload.uid, pods, evict)
        if not is_seen and (siblings := _pods_of(evict.owner, snapshot)) and siblings[0].owner[0] != JOB:
            self._add_moved(self._unseen, evict.owner, siblings, evict)

    def _add_moved(self, moved: dict[str, _Moved], uid: str, pods: Collection[Pod], evict: Evict) -> None:
        now = self._clock.now()
        entry = moved.setdefault(uid, _Moved(len(_ready(pods)), set(), now))
        entry.uids.add(evict.uid)
        entry.at = now

    def _take_back(self, disruption: Disruption) -> None:
        for moved in (*self._moved.values(), *self._unseen.values()):
            moved.uids.discard(disruption.uid)
        with suppress(ValueError):  # it lasted longer than it is remembered
            self._recent.remove(disruption)
            self._write(replace(disruption, undone=True))

    def _unknown(self, now: float) -> str:
        """Why it is not known what was disturbed of late; empty: it is."""
        return unknown(self._memory, self._settings.within, now) if self._memory else ""

    @property
    def _memory(self) -> DisruptionMemory | None:
        """What is remembered of the pods that went; None: nobody else may have let any go."""
        taken_over, journal = self._inner.taken_over, self._journal
        if taken_over is None or journal is None:
            return None
        return DisruptionMemory(journal.begun, journal.last_disruption, taken_over, self._inner.last_disruption)

    def on(self, record: Notice) -> None:
        """Count a pod that stays after all no longer."""
        if isinstance(record, MoveTakenBack):
            self._forget(record.uid)

    def _forget(self, uid: str) -> None:
        for disruption in [disruption for disruption in self._recent if disruption.uid == uid]:
            self._take_back(disruption)

    def _busy_pods(self, now: float) -> Iterator[tuple[str, Refused]]:
        """The pods, by UID, of each workload that is being moved, rolled out or scaled, or has too few pods."""
        snapshot, scaled = self._snapshot, self._scaled_at
        if snapshot is None:
            return
        for workload in snapshot.workloads():
            # Nearly all are at rest, and a call for each of thousands would be felt.
            suspect = workload.rollout or SURGE in workload.annotations or workload.uid in scaled
            if (suspect or _counts_few(workload)) and (why := self._why_busy(workload, now)):
                for pod in snapshot.pods(workload):
                    yield pod.uid, why

    def _why_busy(self, workload: Workload, now: float) -> Refused | None:
        if (note := surged(workload)) is not None:
            return "BeingMoved", f"a pod of {workload.ref} is being moved: {note}"
        if workload.rollout:
            return "RollingOut", f"{workload.ref} is being rolled out: {workload.rollout}"
        scaled = now - self._scaled_at.get(workload.uid, -SETTLING)
        if scaled < SETTLING and workload.status_replicas != workload.replicas:
            return "Scaling", f"{workload.ref} was scaled {scaled:.0f} s ago and is not there yet"
        if (lowered := now - self._lowered_at.get(workload.uid, -ECHO)) < ECHO:
            return "Scaling", f"{workload.ref} was scaled in {lowered:.0f} s ago"
        return self._not_replaced(workload)

    def _not_replaced(self, workload: Workload) -> Refused | None:
        """Why no pod may go whose controller does not make up for those that went, as with a quota or a webhook that
        refuses its pods. A pod that waits for a node is there."""
        if self._snapshot is None or not _counts_few(workload):
            return None
        there = sum(not pod.deleted and pod.phase in ("Pending", "Running") for pod in self._snapshot.pods(workload))
        if there >= workload.replicas:
            return None
        missing = f"{there} of {workload.replicas} pods of {workload.ref} are there"
        return "NotReplaced", f"{missing}: its controller has not replaced the others"

    def _needed_pods(self, now: float) -> Iterator[tuple[str, Refused]]:
        """The ready pods, by UID, of each workload of which as many are no longer available as were ready before others
        were moved. A replacement may never be: its image is gone, or it fails where it now is."""
        snapshot, moved = self._snapshot, self._moved
        if snapshot is None or not moved:
            return
        workloads = [workload for workload in snapshot.workloads() if workload.uid in moved]
        self._moved = {workload.uid: moved[workload.uid] for workload in workloads}
        for workload in workloads:
            lack = self._lack(workload, snapshot.pods(workload), now)
            if lack.available >= lack.wanted:
                del self._moved[workload.uid]
            elif lack.is_felt:
                why = "NotReplaced", f"{lack.text}: what replaces the others is not yet"
                yield from ((pod.uid, why) for pod in lack.left)

    def _needed_of_unseen(self, now: float) -> Iterator[tuple[str, Refused]]:
        """The same of controllers that nobody watches, whose wish is not known: for a time."""
        snapshot = self._snapshot
        for uid, moved in [*self._unseen.items()] if snapshot is not None else ():
            left = self._left(moved, _pods_of(uid, snapshot), now) if snapshot is not None else []
            if len(left) >= moved.ready or now - moved.at >= REPLACING:
                del self._unseen[uid]
            elif moved.ready - len(left) >= max(1, moved.ready // SHARE):
                lack = f"{len(left)} of {moved.ready} pods of its controller are ready"
                yield from ((pod.uid, ("NotReplaced", f"{lack}: what replaces the others is not yet")) for pod in left)

    def _left(self, moved: _Moved, pods: Collection[Pod], now: float) -> list[Pod]:
        """The ready pods that are none of those that were moved. One that is there though its eviction is long over, as
        where that failed or is a dry run's, was not moved."""
        recent = [disruption for disruption in self._recent if disruption.at > now - self._settings.within]
        leaving = {disruption.uid for disruption in (*recent, *self._under_way)}
        moved.uids -= {pod.uid for pod in pods if not pod.deleted and pod.uid not in leaving}
        return _ready(pods, moved.uids)

    def _lack(self, workload: Workload, pods: Collection[Pod], now: float) -> _Lack:
        """Of a workload of which pods were moved of late."""
        moved = self._moved[workload.uid]
        left, wanted = self._left(moved, pods, now), min(moved.ready, workload.replicas)
        available = sum(pod.is_available(workload.min_ready, now) for pod in left)
        long = f", for {workload.min_ready:g} s (minReadySeconds)" if workload.min_ready else ""
        return _Lack(left, available, wanted, f"{available} of {wanted} pods of {workload.ref} are ready{long}")

    def _why_last(self, evict: Evict, now: float) -> Refused | None:
        """Why a ready pod of a StatefulSet is not moved, which would not create it again before another of a lower
        ordinal is available. Source: the StatefulSet controller of Kubernetes, monotonic."""
        snapshot = self._snapshot
        workloads = snapshot.workloads() if snapshot and evict.target else ()
        workload = next((workload for workload in workloads if workload.uid == evict.owner), None)
        if snapshot is None or workload is None or not workload.ordered:
            return None
        pods = sorted(snapshot.pods(workload), key=_ordinal)
        before = list(takewhile(lambda pod: pod.uid != evict.uid, pods))
        first = next((pod for pod in before if pod.deleted or not pod.is_available(workload.min_ready, now)), None)
        if first is None or not any(pod.uid == evict.uid and pod.ready for pod in pods):
            return None
        return "NotReplaced", f"{first.name} is not available, and {workload.ref} would not create it again before"

    def _refuse_scaling(self, action: Action, now: float) -> Refused | None:
        """Refuse to shrink anything when much was lost at once; and to shrink a workload while one of its pods is
        replaced: fewer would be one too few."""
        if isinstance(action, Remove | Scale) and action.after < action.before and (loss := self._sudden_loss(now)):
            return "Breaker", loss
        if not isinstance(action, Create | Scale) or action.reason.startswith(SURGE):
            return None
        workload = self._snapshot.workload(action.workload) if self._snapshot else None
        note = surged(workload) if workload else None
        if note is not None and action.after <= action.before:
            return "BeingMoved", f"a pod of {action.workload} is being moved: {note}"
        if workload and action.after < action.before and (why := self._why_loses_ready(workload, now)):
            return why
        return self._spend_bounds(abs(action.after - action.before), now) if action.reason.startswith(BOUNDS) else None

    def _why_loses_ready(self, workload: Workload, now: float) -> Refused | None:
        """Why the count must not fall while a pod that was moved is replaced: a ready one would go."""
        moved, snapshot = self._moved.get(workload.uid), self._snapshot
        if snapshot is None or moved is None:
            return self._why_may_lose_ready(workload, snapshot, now)
        is_unready_first = (workload.ref.api_version, workload.ref.kind) in UNREADY_FIRST
        lack = self._lack(workload, snapshot.pods(workload), now)
        if not lack.is_felt or now - moved.at >= (ECHO if is_unready_first else REPLACING):
            return None
        return "NotReplaced", f"{lack.text}: a ready one would be removed"

    def _why_may_lose_ready(self, workload: Workload, snapshot: Snapshot | None, now: float) -> Refused | None:
        """The same where pods are not ready, and it is not remembered whether one of them was moved."""
        if snapshot is None or (workload.ref.api_version, workload.ref.kind) in UNREADY_FIRST:
            return None
        memory, ready = self._memory, len(_ready(snapshot.pods(workload)))
        if memory is None or ready >= workload.replicas or max(memory.latest, memory.noted) == -inf:
            return None  # where no pod was ever moved, none was before this daemon began
        if now - self._begun >= REPLACING and not unknown(memory, REPLACING, now):
            return None
        lack = f"{ready} of {workload.replicas} pods of {workload.ref} are ready, and one may have been moved"
        return "NotReplaced", f"{lack}: a ready one would be removed"

    def _spend_bounds(self, replicas: int, now: float) -> Refused | None:
        """Refuse to change more counts for the policies' bounds than may change within so many seconds; what is let
        through counts, whatever comes of it."""
        changes, most, within = self._bounds_changes, self._settings.bounds_total, self._settings.within
        while changes and changes[0][0] <= now - within:
            changes.popleft()
        changed = sum(count for _, count in changes)
        if changed and changed + replicas > most:
            what = f"the policies' bounds changed {changed} replicas of all workloads within {within:g} s"
            return "BoundsPaced", f"{what}, {replicas} would follow, and {most} may (bounds_total of [disruption])"
        changes.append((now, replicas))
        return None

    def _sudden_loss(self, now: float) -> str:
        """What fell suddenly by the part that `breaker` says, so that no observation is believed; empty: nothing."""
        remaining = 1 - self._settings.breaker
        if self._snapshot is not None:
            nodes = self._snapshot.nodes()
            ready = sum(node.ready for node in nodes)
            self._write_count(ready, now)
            peak = max(len(nodes), self._peak(_NODES, ready, now))
            if peak and ready <= peak * remaining:
                missing = f"; {peak - len(nodes)} disappeared within {MEMORY / 60:g} minutes" * (peak > len(nodes))
                return f"{ready} of {peak} nodes are ready{missing}"
        for name, count in self._measured.items():
            trusted, total = count()
            peak = self._peak(name, trusted, now)
            if peak and total >= FEWEST and trusted <= min(peak, total) * remaining:
                return f"{trusted} of {total} {name} can be trusted, and {peak} could be before"
        return ""

    def _write_count(self, ready: int, now: float) -> None:
        """Write down how many nodes are ready, so that a daemon that is started again knows what disappeared."""
        if ready != self._counted and self._journal is not None and self._inner.taken_over is not None:
            self._counted = ready
            self._journal.append(NodesCounted(now, ready))

    def _peak(self, name: str, count: int, now: float) -> int:
        """The greatest count of the last MEMORY seconds, with this one."""
        counts = self._counts.setdefault(name, deque())
        while counts and counts[-1][1] <= count:
            counts.pop()
        counts.append((now, count))
        while len(counts) > 1 and counts[0][0] < now - MEMORY:
            counts.popleft()
        return counts[0][1]


def _ready(pods: Collection[Pod], without: Collection[str] = ()) -> list[Pod]:
    """The pods that are ready and stay, without those of these UIDs."""
    return [pod for pod in pods if pod.ready and not pod.deleted and pod.uid not in without]


def _pods_of(controller: str, snapshot: Snapshot) -> list[Pod]:
    """The pods on nodes of the controller of this UID."""
    return [pod for pods in snapshot.on_nodes().values() for pod in pods if pod.owner[2] == controller]


def _ordinal(pod: Pod) -> int:
    """The number at the end of the name of a StatefulSet's pod."""
    number = pod.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


def _counts_few(workload: Workload) -> bool:
    """Whether its controller counts fewer pods than it should have. A set of Jobs has no such count."""
    return workload.status_replicas < workload.replicas and workload.ref.kind != "Job"
