"""Disruption budgets for every action on a cluster: how many pods may be disturbed at a time, and when none may.

A Cluster that wraps another. Knows which actions it let through of late; knows nothing of who asked, or why. A refusal
is an answer with a reason, so the journal has it as the outcome of the decision.
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
from elasticd.model.listener import MoveTakenBack, Notice
from elasticd.model.moves import Underway
from elasticd.model.workload import Readings, Workload
from elasticd.ports.cluster import Cluster, Kind, Snapshot
from elasticd.ports.metrics_api import Followed, MetricQuery, Part, Pull

MEMORY = 600.0
"""Seconds for which a count is remembered: a loss within them counts as sudden."""

EVERY = 5.0
"""Seconds between counts of nodes and series: what was not counted before cannot be missed later."""

FEWEST = 4
"""Series: the loss of half of fewer than these is no sign of trouble."""

SETTLING = 60.0
"""Seconds for which a workload may still be busy after it was scaled, or lost a pod to a move."""

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
    """A pod that was made to leave its node, and the budgets that it counts for."""

    at: float
    node: str
    controller: str
    namespace: str
    uid: str


class Disruption:
    """A Cluster that lets an action through to the inner one, or refuses it."""

    def __init__(self, inner: Cluster, table: DisruptionSettings, clock: Clock) -> None:
        self._inner, self._table, self._clock = inner, table, clock
        self._recent: deque[_Disturbed] = deque()
        self._scaled_at: dict[str, float] = {}
        self._counts: dict[str, deque[tuple[float, int]]] = {}
        self._snapshot: Snapshot | None = None
        self._last_count = float("-inf")
        self.known: dict[str, Callable[[], tuple[int, int]]] = {}
        """By name: a function that counts how many of such things (series) can be trusted, and how many there are."""

    @property
    def leading(self) -> bool:
        """As the inner cluster says."""
        return self._inner.leading

    def problems(self) -> Mapping[Kind, str]:
        """As the inner cluster says."""
        return self._inner.problems()

    def describe(self) -> object:
        """As the inner cluster says."""
        return self._inner.describe()

    @property
    def honours_deletion_costs(self) -> bool:
        """As the inner cluster says."""
        return self._inner.honours_deletion_costs

    def restoring(self) -> Sequence[Underway]:
        """As the inner cluster says."""
        return self._inner.restoring()

    def on_change(self, callback: Callable[[], None]) -> None:
        """As the inner cluster says."""
        self._inner.on_change(callback)

    async def observe(self, now: float, kinds: frozenset[Kind]) -> Snapshot:
        """Observe the inner cluster, and count at times what there is."""
        self._snapshot = await self._inner.observe(now, kinds)
        if now >= self._last_count + EVERY:
            self._last_count = now
            self._sudden_loss(now)
        return self._snapshot

    async def usage(self, now: float) -> Readings:
        """As the inner cluster says."""
        return await self._inner.usage(now)

    async def node_usage(self, now: float) -> Readings:
        """As the inner cluster says."""
        return await self._inner.node_usage(now)

    async def metrics(self, queries: Sequence[MetricQuery], now: float) -> Readings:
        """As the inner cluster says."""
        return await self._inner.metrics(queries, now)

    async def summary(self, node: str, now: float, part: Part, within: float) -> Readings:
        """As the inner cluster says."""
        return await self._inner.summary(node, now, part, within)

    def pulls(self, take: Callable[[Pull], None]) -> AbstractAsyncContextManager[Followed]:
        """As the inner cluster says."""
        return self._inner.pulls(take)

    def refusal(self, evictions: Sequence[Evict]) -> tuple[str, str] | None:
        """Why these evictions, all at once, would be refused now; None: they would be let through."""
        now = self._clock.now()
        entries = [entry for eviction in evictions if (entry := _disturbed_pod(eviction, now))]
        refusals = (self._refusal_of(eviction, now, entries) for eviction in evictions)
        return next(filter(None, refusals), None) or self._inner.refusal(evictions)

    async def act(self, action: Action) -> Answer:
        """Carry out an action, or answer why it is refused."""
        now = self._clock.now()
        refusal = self._refusal_of(action, now)
        if refusal is not None:
            return Answer("refused", message=refusal[1], reason=refusal[0])
        entry = self._count_disruption(action, now)
        answer = await self._inner.act(action)
        if answer.result in ("refused", "conflict") and entry is not None:
            with suppress(ValueError):  # it lasted longer than it is remembered
                self._recent.remove(entry)  # it was not done; what failed may have been
        return answer

    def on(self, record: Notice) -> None:
        """Count a pod that stays after all no longer."""
        if isinstance(record, MoveTakenBack):
            self._recent = deque(entry for entry in self._recent if entry.uid != record.uid)

    def _count_disruption(self, action: Action, now: float) -> _Disturbed | None:
        """Count an action before it is done, because several are under way at a time."""
        if isinstance(action, Scale):
            self._scaled_at = {uid: at for uid, at in self._scaled_at.items() if now - at < SETTLING}
            self._scaled_at[action.uid] = now
        entry = _disturbed_pod(action, now)
        if entry is not None:
            self._recent.append(entry)
        return entry

    def _refusal_of(self, action: Action, now: float, entries: Sequence[_Disturbed] = ()) -> tuple[str, str] | None:
        """Why an action is refused now, one word and a sentence; None: it is let through. `entries` are the pods that
        must go at once with its own; empty: that alone."""
        shrinks = isinstance(action, Remove | Scale) and action.after < action.before
        entry = _disturbed_pod(action, now)
        if (isinstance(action, Evict) or entry is not None or shrinks) and (problem := self._sudden_loss(now)):
            return "Breaker", problem
        if entry is not None:
            busy = self._busy_workload(action, now) if isinstance(action, Evict) else None
            return self._blackout(now) or self._spent_budget(entry, entries or [entry], now) or busy
        if isinstance(action, Scale):
            return self._moved_by_surge(action, now)
        return None

    def _blackout(self, now: float) -> tuple[str, str] | None:
        active = [window for window in standing(self._table.blackout, now).value if window.span.inside]
        return ("Blackout", f"no pod is moved: {active[0].told}") if active else None

    def _spent_budget(self, entry: _Disturbed, entries: Sequence[_Disturbed], now: float) -> tuple[str, str] | None:
        """The first budget that has too little left for all `entries`, which must go at once with `entry`."""
        table = self._table
        while self._recent and self._recent[0].at <= now - max(table.within, SETTLING):
            self._recent.popleft()
        recent = [disturbed for disturbed in self._recent if disturbed.at > now - table.within]
        budgets: Sequence[tuple[str, str, Callable[[_Disturbed], bool]]] = (
            (f"node {entry.node}", "per_node", lambda pod: pod.node == entry.node),
            ("its controller", "per_controller", lambda pod: pod.controller == entry.controller != ""),
            (f"namespace {entry.namespace}", "per_namespace", lambda pod: pod.namespace == entry.namespace),
            ("the cluster", "total", lambda _: True),
        )
        for scope, key, counts in budgets:
            gone, extra, most = sum(map(counts, recent)), sum(map(counts, entries)), getattr(table, key)
            if gone + extra > most:
                return "Disturbed", _over_budget(scope, key, (gone, extra, most), table.within)
        return None

    def _busy_workload(self, action: Evict, now: float) -> tuple[str, str] | None:
        """Refuse to evict a pod whose workload is being moved, rolled out or scaled."""
        workload = self._workload_of(action)
        if workload is None:
            return None
        if (note := surged(workload)) is not None:
            return "BeingMoved", f"a pod of {workload.ref} is being moved: {note}"
        if workload.rollout:
            return "RollingOut", f"{workload.ref} is being rolled out: {workload.rollout}"
        scaled = now - self._scaled_at.get(workload.uid, -SETTLING)
        if scaled < SETTLING and workload.status_replicas != workload.replicas:
            return "Scaling", f"{workload.ref} was scaled {scaled:.0f} s ago and is not there yet"
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

    def _moved_by_surge(self, action: Scale, now: float) -> tuple[str, str] | None:
        """Refuse to scale a workload while one of its pods is replaced by a surge: fewer would be one too few."""
        workload = self._snapshot.workload(action.workload) if self._snapshot else None
        note = surged(workload) if workload else None
        if note is None or action.reason.startswith(SURGE):
            return None
        return "BeingMoved", f"a pod of {action.workload} is being moved: {note}"

    def _sudden_loss(self, now: float) -> str:
        """What fell suddenly by the part that `breaker` says, so that no observation is believed; empty: nothing."""
        remaining = 1 - self._table.breaker
        if self._snapshot is not None:
            nodes = self._snapshot.nodes()
            ready = sum(node.ready for node in nodes)
            peak = max(len(nodes), self._peak("nodes", ready, now))
            if peak and ready <= peak * remaining:
                return f"{ready} of {peak} nodes are ready"
        for name, count in self.known.items():
            trusted, total = count()
            peak = self._peak(name, trusted, now)
            if peak and total >= FEWEST and trusted <= min(peak, total) * remaining:
                return f"{trusted} of {total} {name} can be trusted, and {peak} could be before"
        return ""

    def _peak(self, name: str, count: int, now: float) -> int:
        """The greatest count of the last MEMORY seconds, with this one."""
        counts = self._counts.setdefault(name, deque())
        while counts and counts[-1][1] <= count:
            counts.pop()
        counts.append((now, count))
        while len(counts) > 1 and counts[0][0] < now - MEMORY:
            counts.popleft()
        return counts[0][1]


def _over_budget(scope: str, key: str, pods: tuple[int, int, int], within: float) -> str:
    """Say which budget is too small; `pods` are how many went of late, would have to go at once now, and may go."""
    gone, extra, most = pods
    if extra > most:
        needed = f"{extra} pods of {scope} would have to go at once"
        return f"{needed}, and {most} may: {key} of [disruption] never lets more go"
    went = f"{counted(gone, 'pod')} of {scope} went within {within:g} s"
    return f"{went}, {extra} would have to go at once, and {most} may" if extra > 1 else f"{went}, and {most} may"


def _disturbed_pod(action: Action, now: float) -> _Disturbed | None:
    """The pod that an action makes go, or begins to replace by a surge; None: it makes none go."""
    if isinstance(action, Evict) and action.reason.startswith(SURGE):
        return None  # it was counted when it began
    if isinstance(action, Evict):
        return _Disturbed(now, action.node, action.owner, action.workload.namespace, action.uid)
    note = noted(action.annotations) if isinstance(action, Mark) else None
    if note is None or note.phase != "up":
        return None
    return _Disturbed(now, note.node, action.uid, action.workload.namespace, note.uid)
