"""Wraps any cluster so that it is observed and never written to: what would have been done is remembered instead.

Knows which counts and marks were asked for, on any other cluster; knows nothing of what that cluster is.

Of workloads only spec.replicas and annotations are pretended. Their pods stay those that exist, whichever way the count
goes: only they have metrics, and together they carry the whole load. The HPA's rule counts load by pods, so it asks for
the same count again. Were surplus pods hidden, their load would vanish with them, and a dry run would shrink to the
minimum step by step; invented pods would be pods without metrics to every rule. The price: what multiplies the count
that was asked for, instead of counting pods, sees the old load on the new count.

Where pods are, and who waits for a node, is pretended for all who ask about nodes: see pretended.
"""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from elasticd.cluster.pretended import PodCache, Pretence, PretendedPods
from elasticd.cluster.wrapper import ClusterWrapper
from elasticd.model.actions import Action, Answer, Bind, Create, Evict, Mark, Nominate, Scale
from elasticd.model.moves import Underway
from elasticd.model.workload import Node, Pod, Ref, Workload
from elasticd.ports.cluster import Cluster, Kind, Snapshot

MESSAGE = "dry run: not sent"


class _PretendedCount(Struct, frozen=True, gc=False):
    """The count and annotations that would have been written, and the UID and real count of their workload."""

    uid: str
    real: int
    replicas: int
    marks: dict[str, str | None]


class DryRunSnapshot(PretendedPods):
    """A snapshot in which the pretended counts, annotations and placements replace the real ones."""

    def __init__(
        self, real: Snapshot, pretended: Mapping[Ref, _PretendedCount], pretence: Pretence, cache: PodCache
    ) -> None:
        super().__init__(real, pretence, cache)
        self._wanted = pretended
        self._workloads: Collection[Workload] | None = None

    @property
    def confirmed(self) -> float:
        return self.real.confirmed

    @property
    def nodes_confirmed(self) -> float:
        return self.real.nodes_confirmed

    def confirmed_for(self, ref: Ref) -> float:
        return self.real.confirmed_for(ref)

    @property
    def version(self) -> int:
        return self.real.version

    def workloads(self) -> Collection[Workload]:
        if not self._wanted:
            return self.real.workloads()
        if self._workloads is None:
            self._workloads = tuple(self._pretend(workload) for workload in self.real.workloads())
        return self._workloads

    def workload(self, ref: Ref) -> Workload | None:
        workload = self.real.workload(ref)
        return workload and self._pretend(workload)

    def pods(self, workload: Workload) -> tuple[Pod, ...]:
        return self.real.pods(workload)

    def selector_fault(self, workload: Workload) -> str:
        return self.real.selector_fault(workload)

    def nodes(self) -> tuple[Node, ...]:
        return self.real.nodes()

    def autoscaler(self, ref: Ref) -> str:
        return self.real.autoscaler(ref)

    def _pretend(self, workload: Workload) -> Workload:
        pretended = self._wanted.get(workload.ref)
        if pretended is None:
            return workload
        marked = {**workload.annotations, **pretended.marks}
        annotations = {key: value for key, value in marked.items() if value is not None}
        return replace(workload, replicas=pretended.replicas, annotations=annotations)


class DryRun(ClusterWrapper):
    """Any cluster whose actions change only what its own snapshots show."""

    def __init__(self, inner: Cluster) -> None:
        super().__init__(inner)
        self._wanted: dict[Ref, _PretendedCount] = {}
        self._snapshot: DryRunSnapshot | None = None
        self._pretended: PretendedPods | None = None
        self._cache: PodCache = {}

    @property
    def taken_over(self) -> None:
        """Nobody acts here."""

    def restoring(self) -> Sequence[Underway]:
        """None: no pod is evicted."""
        return ()

    def describe(self) -> object:
        """The real cluster's, and that nothing is sent to it."""
        return {"dry_run": True, "cluster": self._inner.describe()}

    async def observe(self, now: float, kinds: frozenset[Kind]) -> DryRunSnapshot:
        """The cluster as it would be now. A pretended count or placement is dropped once somebody really changed the
        workload or moved the pod."""
        real = await self._inner.observe(now, kinds)
        self._wanted = {
            ref: pretended for ref, pretended in self._wanted.items() if _still_holds(pretended, real.workload(ref))
        }
        before = self._pretended.pretence if self._pretended else Pretence()
        self._pretended = self._snapshot = DryRunSnapshot(real, self._wanted, before.true_to(real), self._cache)
        return self._snapshot

    async def act(self, action: Action) -> Answer:
        """Pretend that an action was done, if it still fits the last snapshot and what has been pretended since.
        Anything but a count, a workload's annotations or a pod's node has no effect on the snapshots."""
        if isinstance(action, Bind | Evict | Nominate):
            return self._place(action)
        if not isinstance(action, Scale | Create | Mark) or (isinstance(action, Mark) and action.pod):
            return Answer("done", 0, MESSAGE)
        return self._change(action)

    def _change(self, action: Scale | Create | Mark) -> Answer:
        real = self._snapshot.real.workload(action.workload) if self._snapshot else None
        if real is None:
            return Answer("conflict", 0, f"dry run: there is no {action.workload}", "NotFound")
        pretended = self._wanted.get(action.workload) or _PretendedCount(real.uid, real.replicas, real.replicas, {})
        if isinstance(action, Mark):
            if action.uid != real.uid:
                return Answer("conflict", 0, f"dry run: {action.workload} was made anew", "NotFound")
            return self._pretend(action.workload, replace(pretended, marks={**pretended.marks, **action.annotations}))
        version = action.version if isinstance(action, Scale) else real.version  # Jobs change meanwhile
        judged, present = (action.uid, version, action.before), (real.uid, real.version, pretended.replicas)
        if judged != present:
            moved = f"dry run: uid, version and replicas were {judged}, are {present}"
            return Answer("conflict", 0, moved, "Conflict")
        return self._pretend(action.workload, replace(pretended, replicas=action.after))

    def _place(self, action: Bind | Evict | Nominate) -> Answer:
        if self._pretended is None:
            return Answer("conflict", 0, f"dry run: there is no {action.workload}", "NotFound")
        outcome = self._pretended.after(action)
        if isinstance(outcome, Answer):
            return outcome
        self._pretended = self._pretended.then(outcome)
        return Answer("done", 0, MESSAGE)

    def _pretend(self, ref: Ref, pretended: _PretendedCount) -> Answer:
        # A new mapping: the snapshots that were handed out stay as they are.
        self._wanted = {**self._wanted, ref: pretended}
        return Answer("done", 0, MESSAGE)


def _still_holds(pretended: _PretendedCount, real: Workload | None) -> bool:
    """Whether the workload still has the UID and count that were pretended about. Its version moves with its status."""
    return real is not None and (real.uid, real.replicas) == (pretended.uid, pretended.real)
