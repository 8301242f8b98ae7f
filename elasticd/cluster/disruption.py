"""Disruption budgets for every action on a cluster: how many pods may be disturbed at a time, and when none may.

A Cluster that wraps another. Knows which actions it let through recently; knows nothing of their callers. A refusal
is an answer with a reason, so the journal has it as the outcome of the decision.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from math import inf
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from elasticd.base.clock import Clock
from elasticd.cluster.replacements import REPLACING, Replacements
from elasticd.cluster.rollouts import Rollouts
from elasticd.cluster.wrapper import ClusterWrapper
from elasticd.decision.disruption import disruption_of, ends_surge, missed, refusal, unknown
from elasticd.journal import Journal
from elasticd.journal.known_series import LOST_WITHIN
from elasticd.kit.calendars import Hours, standing
from elasticd.kit.surge import SURGE, gives_way, own_count, surged
from elasticd.model.actions import BREAKER, GIVES_WAY, Action, Answer, Create, Evict, Mark, Remove, Scale
from elasticd.model.disruption import (
    Disruption,
    DisruptionMemory,
    DisruptionState,
    NodesCounted,
    PolicyCaps,
    Refused,
    SeriesLost,
)
from elasticd.model.listener import MoveTakenBack, Notice
from elasticd.model.moves import NAME_TAKEN
from elasticd.model.policy import MOST
from elasticd.ports.cluster import Cluster, Kind, Snapshot

MEMORY = 600.0
"""Seconds for which a count is remembered: a loss within them counts as sudden."""

FALLS_AFTER = 3.0
"""Seconds for which fewer replicas must have been wanted before a count falls: workloads that read the same are decided
within a second, and show what was lost; one that also reads a source that does not answer waits 2 s for that."""

EVERY = 5.0
"""Seconds between counts of nodes and series: what was not counted before cannot be missed later."""

FEWEST = 4
"""Series: the loss of half of fewer than these is no sign of trouble."""

LATER = 0.1
"""Seconds after which an eviction that was counted when it was begun counts anew when it is done: it may have waited
for the server."""

_NODES = "nodes"
"""Under which the counts of ready nodes are kept; for others see `measured`."""

BUDGETS = ("per_node", "per_controller", "per_namespace", "total")

Most = Annotated[int, Meta(ge=1, le=1_000_000, description="pods")]
Replicas = Annotated[int, Meta(ge=1, le=MOST, description="replicas")]

ROLLBACK = "RolledBack: "
"""How the reason of an action begins that takes back a bad change: it goes past what only delays."""

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
        return PolicyCaps(self.within, self.bounds_step, self.bounds_most, self.newly_governed, FALLS_AFTER)


class DisruptionGuard(ClusterWrapper):
    """A Cluster that lets an action through to the inner one, or refuses it.

    `measured` are functions by the name of what they count (series of nodes): how many can be trusted, and how many
    there are. `journal` knows the series of workloads, has what was disturbed before this daemon began, and is told
    before anything else is. What it cannot know, before it was begun or while another daemon led, counts as all that
    the budgets allow.
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
        self._journal = journal
        self._recent: deque[Disruption] = deque(sorted(journal.disruptions() if journal else (), key=attrgetter("at")))
        self._before = list(self._recent)
        """What was disturbed before this daemon began: what lacked since is not known."""
        self._missed = -inf
        """When the last pod may have been moved of which it is not known whose it was."""
        self._under_way: list[Disruption] = []
        self._ending: dict[str, list[Disruption]] = {}
        """What was counted when a surge began that is being ended now, by the UID of its pod."""
        self._replacements, self._rollouts = Replacements(), Rollouts()
        self._bounds_changes: deque[tuple[float, int]] = deque()
        self._counts: dict[str, deque[tuple[float, int]]] = {}
        for at, ready in journal.node_counts() if journal else ():
            self._peak(_NODES, ready, at)
        self._counted = -1
        """The count of ready nodes that was written down last."""
        self._unready_since: dict[str, float] = {}
        """Since when nodes have been seen that are not ready."""
        self._lost_written = -inf
        """When it was written down last that series were lost together."""
        self._snapshot: Snapshot | None = None
        self._last_count = float("-inf")

    async def observe(self, now: float, kinds: frozenset[Kind]) -> Snapshot:
        self._snapshot = await self._inner.observe(now, kinds)
        self._note_missed()
        self._replacements.see(self._snapshot, now)
        self._rollouts.see(self._snapshot, now)
        if now >= self._last_count + EVERY:
            self._last_count = now
            unready = [node.name for node in self._snapshot.nodes() if not node.ready]
            self._unready_since = {name: self._unready_since.get(name, now) for name in unready}
            self.sudden_loss(now)
        return self._snapshot

    def disruption(self, now: float) -> DisruptionState:
        within, replacements, snapshot = self._settings.within, self._replacements, self._snapshot
        while self._recent and self._recent[0].at <= now - within:
            self._recent.popleft()
        forgotten = [one for one in self._under_way if one.at <= now - within]
        blackouts = [window.told for window in standing(self._settings.blackout, now).value if window.span.inside]
        return DisruptionState(
            within=within,
            most=self._most,
            recent=(*forgotten, *self._recent),
            breaker=self.sudden_loss(now),
            unknown=self._unknown(now),
            blackout=blackouts[0] if blackouts else "",
            busy=dict(replacements.busy(now)),
            rolling=dict(self._rollouts.awaited(snapshot, now)) if snapshot is not None else {},
            needed=dict(chain(replacements.needed(now, self._leaving(now)), replacements.unread(self.problems()))),
            away=self._away(now),
        )

    def _away(self, now: float) -> dict[str, dict[str, str]]:
        """By namespace, the pods without a controller that were moved, or are being moved, and do not run again yet, a
        name by UID. Preempted ones do not count: they wait for room, however long; nor do those that have not ended,
        or not started elsewhere, for REPLACING seconds, as that node has been lost for so long: they wait for a person.
        Sooner it may come back."""
        away = defaultdict[str, dict[str, str]](dict)
        for disruption in self._under_way:
            if not disruption.controller:
                away[disruption.namespace][disruption.uid] = "one that is being evicted"
        moves = self._inner.restoring()
        lost = self._on_lost_nodes(now) if moves else set()
        for move in moves:
            is_there = move.stays or move.runs or move.step == NAME_TAKEN
            counts = not (move.over or is_there or move.why.startswith(GIVES_WAY))
            if counts and not (move.pod.full_name in lost and now - move.since >= REPLACING):
                away[move.pod.namespace][move.uid] = move.pod.name
        return away

    def _on_lost_nodes(self, now: float) -> set[str]:
        """The pods, NAMESPACE/NAME, on nodes that have not been ready for REPLACING seconds."""
        if self._snapshot is None:
            return set()
        lost = [name for name, since in self._unready_since.items() if now - since >= REPLACING]
        by_node = self._snapshot.on_nodes() if lost else {}
        return {pod.ref.full_name for name in lost for pod in by_node.get(name, ())}

    async def act(self, action: Action) -> Answer:
        now = self._clock.now()
        self._note_missed()
        disruption = disruption_of(action, now)
        why = self._refuse_scaling(action, now) if disruption is None else self._refuse_disturbing(action, now)
        if why is not None:
            return Answer("refused", message=why[1], reason=why[0])
        # It is counted before it is done, because several are under way at a time.
        if disruption is not None:
            if ends_surge(action):  # it goes now, not when its surge began, unless it does not go
                self._ending[disruption.uid] = [one for one in self._recent if one.uid == disruption.uid]
                self._forget(disruption.uid)
            self._recent.append(disruption)
            if fault := self._write(disruption):
                self._take_back(disruption)
                self._count_again(self._ending.pop(disruption.uid, ()))
                forgotten = f"the journal cannot be written, so a restart would forget it: {fault}"
                return Answer("refused", message=forgotten, reason="Disturbed")
        if isinstance(action, Scale) or (isinstance(action, Mark) and disruption is not None):
            return await self._change(action, disruption)
        if isinstance(action, Evict) and action.target:
            self._replacements.note_move(action, now)
        return await self._do(action, disruption)

    async def _change(self, action: Scale | Mark, disruption: Disruption | None) -> Answer:
        """Change a count, or begin a surge."""
        with self._replacements.changing(action):
            answer = await self._do(action, disruption)
        if answer.result in ("refused", "conflict") or (answer.result == "failed" and 400 <= answer.code < 500):
            return answer  # it was not done
        if isinstance(action, Scale):
            self._replacements.note_scaling(action, self._clock.now())
            if answer.result == "failed":
                self._replacements.note_unanswered(action, self._clock.now())
        else:
            self._replacements.note_surge(action.uid, self._clock.now())
        return answer

    async def _do(self, action: Action, disruption: Disruption | None) -> Answer:
        return await (self._inner.act(action) if disruption is None else self._disturb(action, disruption))

    async def _disturb(self, action: Action, disruption: Disruption) -> Answer:
        """Do what was counted. It counts until it is done, however long that takes, and from then on."""
        self._under_way.append(disruption)
        is_done = True
        try:
            answer = await self._inner.act(action)
            is_done = answer.result not in ("refused", "conflict")  # what failed, or is cut off, may have been
        finally:
            self._under_way.remove(disruption)
            self._replacements.end_move(disruption.uid, self._clock.now() if is_done else None)
            begun = self._ending.pop(disruption.uid, ())
            if not is_done:
                self._take_back(disruption)
                self._count_again(begun)
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

    def _count_again(self, begun: Sequence[Disruption]) -> None:
        """Count as before the beginnings of surges whose ends were refused."""
        self._recent = deque(sorted((*self._recent, *begun), key=attrgetter("at")))
        for disruption in begun:
            self._write(disruption)

    def _write(self, disruption: Disruption) -> str:
        """Write it to the disk at once, so that a daemon that is killed and started again knows it. Returns why it
        could not be written; empty: it was."""
        if self._journal is None or self._inner.taken_over is None:
            return ""
        self._journal.append(disruption)
        self._journal.flush()
        return self._journal.fault

    def _take_back(self, disruption: Disruption) -> None:
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

    def _note_missed(self) -> None:
        """Remember what the cluster tells of and the journal does not, before a later one is in both."""
        if memory := self._memory:
            self._missed = max(self._missed, missed(memory))

    def _may_have_moved(self, controllers: Collection[str], now: float) -> bool:
        """Whether a pod of a controller of one of these UIDs may have been moved within REPLACING that this daemon did
        not move: it is not known how many were ready before."""
        if self._memory is None:
            return False
        since = now - REPLACING
        self._before = [disruption for disruption in self._before if disruption.at > since]
        recent = {disruption.controller for disruption in self._before}
        return self._missed > since or not recent.isdisjoint(controllers)

    def _leaving(self, now: float) -> set[str]:
        """The UIDs of the pods that were let go of late, or are about to."""
        recent = (disruption for disruption in self._recent if disruption.at > now - self._settings.within)
        return {disruption.uid for disruption in (*recent, *self._under_way)}

    def on(self, record: Notice) -> None:
        """Count a pod that stays after all no longer."""
        if isinstance(record, MoveTakenBack):
            self._forget(record.uid)

    def _forget(self, uid: str) -> None:
        for disruption in [disruption for disruption in self._recent if disruption.uid == uid]:
            self._take_back(disruption)

    def _refuse_disturbing(self, action: Action, now: float) -> Refused | None:
        """Refuse what the budgets do not allow; and to move a ready pod before what replaces others is ready."""
        why = refusal(self.disruption(now), [action])
        if why is not None or not isinstance(action, Evict):
            return why
        others = self._may_have_moved({action.owner}, now)
        return self._replacements.why_not_yet(action, now, others=others)

    def _refuse_scaling(self, action: Action, now: float) -> Refused | None:
        """Refuse to shrink anything when much was lost at once; and to shrink a workload while one of its pods is
        replaced: fewer would be one too few."""
        shrinks = isinstance(action, Remove | Scale) and action.after < action.before
        if shrinks and (loss := self.sudden_loss(now)):
            return BREAKER, loss
        if not isinstance(action, Create | Scale) or action.reason.startswith(SURGE):
            return None
        workload = self._snapshot.workload(action.workload) if self._snapshot else None
        pods = self._snapshot.pods(workload) if self._snapshot and workload else ()
        note = surged(workload) if workload else None
        is_first = workload is not None and action.after < own_count(workload) and gives_way(workload, pods)
        if note is not None and action.after <= action.before and not is_first:
            return "BeingMoved", f"a pod of {action.workload} is being moved: {note}"
        if workload and action.after < action.before and not action.reason.startswith(ROLLBACK):
            others = self._may_have_moved({workload.uid, *(pod.owner[2] for pod in pods)}, now)
            leaving = self._leaving(now)
            if why := self._replacements.why_not_fewer(workload, action.after, now, leaving, others=others):
                return why
        return self._spend_bounds(abs(action.after - action.before), now) if action.reason.startswith(BOUNDS) else None

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

    def sudden_loss(self, now: float) -> str:
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
        if loss := self._lost_series(now, remaining):
            return loss
        for name, count in self._measured.items():
            trusted, total = count()
            peak = self._peak(name, trusted, now)
            if peak and total >= FEWEST and trusted <= min(peak, total) * remaining:
                return f"{trusted} of {total} {name} can be trusted, and {peak} could be before"
        return ""

    def _lost_series(self, now: float, remaining: float) -> str:
        """Which series were lost together, until all of them are there again: as many go by a Prometheus that comes
        back without its data, and come back one by one. Empty: none."""
        if self._journal is None:
            return ""
        snapshot = self._snapshot
        series = self._journal.known_series.counts(now, lambda ref: not snapshot or snapshot.workload(ref) is not None)
        trusted_before = series.known + series.lost
        if series.lost and series.total >= FEWEST and series.known <= trusted_before * remaining:
            if series.just_lost and series.known <= (series.known + series.just_lost) * remaining:
                self._note_loss(self._journal, now)
            return f"{series.lost} of {trusted_before} series were lost within {LOST_WITHIN / 60:g} minutes"
        if series.together:
            minutes = f"{LOST_WITHIN / 60:g} minutes"
            return f"not back yet of the series that were lost together within {minutes}: {series.together}"
        return ""

    def _note_loss(self, journal: Journal, now: float) -> None:
        """Remember, over a restart too, that this many were lost within a moment."""
        if self._inner.leading and now >= self._lost_written + EVERY:
            self._lost_written = now
            journal.append(SeriesLost(now))
        journal.known_series.lost_together(now)

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
