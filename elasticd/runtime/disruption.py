"""One door for all that is done to a cluster: how much may be disturbed at a time, and when nothing may.

A cluster around another. Knows what was let through of late; knows nothing of who asked, or why. What it refuses is
answered with a reason, so that it stands in the journal as what came of the decision.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from elasticd.base.clock import Clock
from elasticd.base.text import counted
from elasticd.kit.calendars import Hours, standing
from elasticd.kit.surge import SURGE, noted, surged
from elasticd.model.actions import Action, Answer, Evict, Mark, Remove, Scale
from elasticd.model.moves import Underway
from elasticd.model.workload import Readings, Workload
from elasticd.ports.cluster import Cluster, Kind, Snapshot
from elasticd.ports.metrics_api import Followed, MetricQuery, Part, Pull

MEMORY = 600.0
"""Seconds within which half of something must have gone for it to have gone at once."""

EVERY = 5.0
"""Seconds between looks at how much there is, for it is known only then what has gone."""

FEWEST = 4
"""Series; of fewer, half is no sign of anything."""

SETTLING = 60.0
"""Seconds after it was scaled, or lost a pod to a move, for which a workload may still be busy with that."""

Most = Annotated[int, Meta(ge=1, le=1_000_000, description="pods")]


class DisruptionSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What may be disturbed: so many pods within so many seconds, of a node, a controller, a namespace, the cluster."""

    within: Annotated[float, Meta(gt=0, le=86400, description="seconds")] = 60.0
    per_node: Most = 10
    per_controller: Most = 5
    per_namespace: Most = 50
    total: Most = 100
    breaker: Annotated[
        float, Meta(gt=0, le=1, description="part of the nodes, or of what a source measures, gone at once")
    ] = 0.5
    blackout: Annotated[tuple[Hours, ...], Meta(description="times in which no pod is moved or made to give way")] = ()


class _Disturbed(NamedTuple):
    """A pod that was made to go."""

    at: float
    node: str
    controller: str
    namespace: str
    uid: str


class Disruption:
    """A Cluster through which all actions go."""

    def __init__(self, inner: Cluster, table: DisruptionSettings, clock: Clock) -> None:
        self._inner, self._table, self._clock = inner, table, clock
        self._gone: deque[_Disturbed] = deque()
        self._scaled: dict[str, float] = {}
        self._most: dict[str, deque[tuple[float, int]]] = {}
        self._snapshot: Snapshot | None = None
        self._looked = float("-inf")
        self.known: dict[str, Callable[[], tuple[int, int]]] = {}
        """How many of what was last looked at can be trusted, and of how many, by what it is called."""

    @property
    def leading(self) -> bool:
        """Whether the cluster says so."""
        return self._inner.leading

    def problems(self) -> Mapping[Kind, str]:
        """The cluster's."""
        return self._inner.problems()

    def describe(self) -> object:
        """The cluster's."""
        return self._inner.describe()

    @property
    def honours_deletion_costs(self) -> bool:
        """The cluster's."""
        return self._inner.honours_deletion_costs

    def restoring(self) -> Sequence[Underway]:
        """The cluster's."""
        return self._inner.restoring()

    def on_change(self, callback: Callable[[], None]) -> None:
        """As the cluster tells."""
        self._inner.on_change(callback)

    async def observe(self, now: float, kinds: frozenset[Kind]) -> Snapshot:
        """The cluster as it is."""
        self._snapshot = await self._inner.observe(now, kinds)
        if now >= self._looked + EVERY:
            self._looked = now
            self._broken(now)
        return self._snapshot

    async def usage(self, now: float) -> Readings:
        """The cluster's."""
        return await self._inner.usage(now)

    async def node_usage(self, now: float) -> Readings:
        """The cluster's."""
        return await self._inner.node_usage(now)

    async def metrics(self, queries: Sequence[MetricQuery], now: float) -> Readings:
        """The cluster's."""
        return await self._inner.metrics(queries, now)

    async def summary(self, node: str, now: float, part: Part, within: float) -> Readings:
        """The cluster's."""
        return await self._inner.summary(node, now, part, within)

    def pulls(self, take: Callable[[Pull], None]) -> AbstractAsyncContextManager[Followed]:
        """The cluster's."""
        return self._inner.pulls(take)

    def refusal(self, evictions: Sequence[Evict]) -> tuple[str, str] | None:
        """Why not all of these would be let through now; each counts for those after it."""
        now = self._clock.now()
        together = [one for eviction in evictions if (one := _disturbed(eviction, now))]
        refused = next((why for one in evictions if (why := self._why_not(one, now, together))), None)
        return refused or self._inner.refusal(evictions)

    async def act(self, action: Action) -> Answer:
        """Let an action through, or say why not."""
        now = self._clock.now()
        why = self._why_not(action, now)
        if why is not None:
            return Answer("refused", message=why[1], reason=why[0])
        entry = self._enter(action, now)
        answer = await self._inner.act(action)
        if answer.result in ("refused", "conflict") and entry is not None:
            with suppress(ValueError):  # it lasted longer than it is remembered
                self._gone.remove(entry)  # it was not done; what failed may have been
        return answer

    def stayed(self, uid: str) -> None:
        """A pod, by its UID, that was to go as another was made first stays after all."""
        self._gone = deque(one for one in self._gone if one.uid != uid)

    def _enter(self, action: Action, now: float) -> _Disturbed | None:
        """Count it before it is done: several are under way at a time."""
        if isinstance(action, Scale):
            self._scaled = {uid: at for uid, at in self._scaled.items() if now - at < SETTLING}
            self._scaled[action.uid] = now
        entry = _disturbed(action, now)
        if entry is not None:
            self._gone.append(entry)
        return entry

    def _why_not(self, action: Action, now: float, together: Sequence[_Disturbed] = ()) -> tuple[str, str] | None:
        """Why an action is not let through, alone or with those that are of use `together` with it alone: one word, and
        a sentence."""
        shrinks = isinstance(action, Remove | Scale) and action.after < action.before
        entry = _disturbed(action, now)
        if (isinstance(action, Evict) or entry is not None or shrinks) and (found := self._broken(now)):
            return "Breaker", found
        if entry is not None:
            busy = self._busy(action, now) if isinstance(action, Evict) else None
            return self._closed(now) or self._spent(entry, together or [entry], now) or busy
        if isinstance(action, Scale):
            return self._moving(action, now)
        return None

    def _closed(self, now: float) -> tuple[str, str] | None:
        inside = [one for one in standing(self._table.blackout, now).value if one.span.inside]
        return ("Blackout", f"no pod is moved: {inside[0].told}") if inside else None

    def _spent(self, one: _Disturbed, together: Sequence[_Disturbed], now: float) -> tuple[str, str] | None:
        """Which budget has too little left for it and those that must go at once with it."""
        table = self._table
        while self._gone and self._gone[0].at <= now - max(table.within, SETTLING):
            self._gone.popleft()
        late = [one for one in self._gone if one.at > now - table.within]
        budgets: Sequence[tuple[str, str, Callable[[_Disturbed], bool]]] = (
            (f"node {one.node}", "per_node", lambda other: other.node == one.node),
            ("its controller", "per_controller", lambda other: other.controller == one.controller != ""),
            (f"namespace {one.namespace}", "per_namespace", lambda other: other.namespace == one.namespace),
            ("the cluster", "total", lambda _: True),
        )
        for what, key, counts in budgets:
            gone, more, most = sum(map(counts, late)), sum(map(counts, together)), getattr(table, key)
            if gone + more > most:
                return "Disturbed", _told(what, key, (gone, more, most), table.within)
        return None

    def _busy(self, action: Evict, now: float) -> tuple[str, str] | None:
        """Whether the workload of a pod is being changed."""
        found = self._workload_of(action)
        if found is None:
            return None
        if (note := surged(found)) is not None:
            return "BeingMoved", f"a pod of {found.ref} is being moved: {note}"
        if found.rollout:
            return "RollingOut", f"{found.ref} is being rolled out: {found.rollout}"
        scaled = now - self._scaled.get(found.uid, -SETTLING)
        if scaled < SETTLING and found.status_replicas != found.replicas:
            return "Scaling", f"{found.ref} was scaled {scaled:.0f} s ago and is not there yet"
        return None

    def _workload_of(self, action: Evict) -> Workload | None:
        if self._snapshot is None:
            return None
        for workload in self._snapshot.workloads():
            if workload.ref.namespace == action.workload.namespace and any(
                pod.uid == action.uid for pod in self._snapshot.pods(workload)
            ):
                return workload
        return None

    def _moving(self, action: Scale, now: float) -> tuple[str, str] | None:
        """Whether a pod of the workload is being moved by making another first: fewer would then be one too few."""
        found = self._snapshot.workload(action.workload) if self._snapshot else None
        note = surged(found) if found else None
        if note is None or action.reason.startswith(SURGE):
            return None
        return "BeingMoved", f"a pod of {action.workload} is being moved: {note}"

    def _broken(self, now: float) -> str:
        """What has gone by half, or more, at once: then what is seen is not to be believed."""
        left = 1 - self._table.breaker
        if self._snapshot is not None:
            nodes = self._snapshot.nodes()
            ready = sum(node.ready for node in nodes)
            most = max(len(nodes), self._peak("nodes", ready, now))
            if most and ready <= most * left:
                return f"{ready} of {most} nodes are ready"
        for what, count in self.known.items():
            trusted, known = count()
            before = self._peak(what, trusted, now)
            if before and known >= FEWEST and trusted <= min(before, known) * left:
                return f"{trusted} of {known} {what} can be trusted, and {before} could be before"
        return ""

    def _peak(self, what: str, count: int, now: float) -> int:
        """The most that there were of late."""
        kept = self._most.setdefault(what, deque())
        while kept and kept[-1][1] <= count:
            kept.pop()
        kept.append((now, count))
        while len(kept) > 1 and kept[0][0] < now - MEMORY:
            kept.popleft()
        return kept[0][1]


def _told(what: str, key: str, pods: tuple[int, int, int], within: float) -> str:
    """Of what too few may go: how many went of late, how many would have to go at once now, and how many may."""
    gone, more, most = pods
    if more > most:
        return (
            f"{more} pods of {what} would have to go at once, and {most} may: {key} of [disruption] never lets more go"
        )
    went = f"{counted(gone, 'pod')} of {what} went within {within:g} s"
    return f"{went}, {more} would have to go at once, and {most} may" if more > 1 else f"{went}, and {most} may"


def _disturbed(action: Action, now: float) -> _Disturbed | None:
    """Which pod an action makes go; also one that begins to be moved by making another first."""
    if isinstance(action, Evict) and action.reason.startswith(SURGE):
        return None  # it was counted when it began
    if isinstance(action, Evict):
        return _Disturbed(now, action.node, action.owner, action.workload.namespace, action.uid)
    note = noted(action.annotations) if isinstance(action, Mark) else None
    if note is None or note.phase != "up":
        return None
    return _Disturbed(now, note.node, action.uid, action.workload.namespace, note.uid)
