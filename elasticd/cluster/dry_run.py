"""Wraps any cluster so that it is observed and never written to: what would have been done is remembered instead.

Knows which counts, marks and placements were asked for, on any other cluster; knows nothing of what that cluster is.

Of workloads only spec.replicas and annotations are pretended. Their pods stay those that exist, whichever way the count
goes: only they have metrics, and together they carry the whole load. The HPA's rule counts load by pods, so it asks for
the same count again. Were surplus pods hidden, their load would vanish with them, and a dry run would shrink to the
minimum step by step; invented pods would be pods without metrics to every rule. The price: what multiplies the count
that was asked for, instead of counting pods, sees the old load on the new count.

Where pods are, and who waits for a node, is pretended for all who ask about nodes, as if the bindings, evictions and
nominations had been carried out. No replacements are invented: a controller's next pod, or a recreated one, is not
among the pending pods. Only a moved pod is shown on its target node, as itself, so that no other pod is planned there.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from elasticd.cluster.wrapper import ClusterWrapper
from elasticd.model.actions import Action, Answer, Bind, BindClaim, Create, Evict, Mark, Nominate, Scale, TryEvict
from elasticd.model.placement import DisruptionBudget
from elasticd.model.volumes import ClaimKey, Storage, Volume, VolumeClaim
from elasticd.model.workload import Pod, Ref, Room, Workload
from elasticd.ports.cluster import Cluster, Kind, Snapshot, Stray

MESSAGE = "dry run: not sent"

OnNodes = Mapping[str, Sequence[Pod]]
PodCache = dict[str, tuple[Sequence[Pod], tuple[Pod, ...], tuple[Pod, ...]]]
"""By node: its real pods, the pretended changes to them, and the pods that result."""


class _PretendedCount(Struct, frozen=True, gc=False):
    """The count and annotations that would have been written, and the UID and real count of their workload."""

    uid: str
    real: int
    replicas: int
    marks: dict[str, str | None]


class Pretence(Struct, frozen=True):
    """What a dry run pretends, by pod UID: `bound` pods as they would be, running since then; `gone` pods as they were
    before their eviction; `moved` ones of those on their target nodes; and the `nominated` nodes of waiting pods. Of
    claims and volumes, by name: those for which a node was selected, and those that are kept for a claim."""

    bound: dict[str, Pod] = {}
    gone: dict[str, Pod] = {}
    moved: dict[str, Pod] = {}
    nominated: dict[str, str] = {}
    claims: dict[ClaimKey, VolumeClaim] = {}
    volumes: dict[str, Volume] = {}

    def __bool__(self) -> bool:
        return bool(self.bound or self.gone or self.nominated or self.claims or self.volumes)

    def true_to(self, real: Snapshot) -> "Pretence":
        """Drop what the real cluster has overtaken: pods that no longer wait, or left, or whose node is gone."""
        if not self:
            return self
        waiting, nodes = {pod.uid for pod in real.pending()}, {node.name for node in real.nodes()}
        nodes_left, on = {pod.node for pod in self.gone.values()}, real.on_nodes()
        running = {pod.uid for node in nodes_left for pod in on.get(node, ())}
        return Pretence(
            {uid: pod for uid, pod in self.bound.items() if uid in waiting and pod.node in nodes},
            {uid: pod for uid, pod in self.gone.items() if uid in running},
            {uid: pod for uid, pod in self.moved.items() if uid in running and pod.node in nodes},
            {uid: node for uid, node in self.nominated.items() if uid in waiting},
            *self._true_volumes(real),
        )

    def _true_volumes(self, real: Snapshot) -> tuple[dict[ClaimKey, VolumeClaim], dict[str, Volume]]:
        if not self.claims and not self.volumes:
            return {}, {}
        known = real.storage()
        return (
            {key: claim for key, claim in self.claims.items() if _same_version(known.claims.get(key), claim)},
            {name: volume for name, volume in self.volumes.items() if _same_version(known.volumes.get(name), volume)},
        )


def _same_version(real: VolumeClaim | Volume | None, pretended: VolumeClaim | Volume) -> bool:
    return real is not None and (real.uid, real.version) == (pretended.uid, pretended.version)


class DryRunSnapshot:
    """A snapshot in which the pretended counts, annotations and placements replace the real ones; all else is the real
    one's. `cache` is passed on to the next snapshot's, so that a node on which nothing changed keeps the same sequence.
    """

    def __init__(
        self, real: Snapshot, counts: Mapping[Ref, _PretendedCount], pretence: Pretence, cache: PodCache
    ) -> None:
        self.real, self.pretence = real, pretence
        self._counts, self._cache = counts, cache
        self._workloads: Collection[Workload] | None = None
        self._waiting: dict[str, Pod] | None = None
        self._on_nodes: OnNodes | None = None
        self._rooms: tuple[Room, ...] | None = None
        self._storage: tuple[Storage, Storage] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def workloads(self) -> Collection[Workload]:
        if not self._counts:
            return self.real.workloads()
        if self._workloads is None:
            self._workloads = tuple(self._pretend(workload) for workload in self.real.workloads())
        return self._workloads

    def changes_since(self, earlier: Snapshot) -> Collection[Ref] | None:
        return None

    def workload(self, ref: Ref) -> Workload | None:
        workload = self.real.workload(ref)
        return workload and self._pretend(workload)

    def _pretend(self, workload: Workload) -> Workload:
        pretended = self._counts.get(workload.ref)
        if pretended is None:
            return workload
        marked = {**workload.annotations, **pretended.marks}
        annotations = {key: value for key, value in marked.items() if value is not None}
        return replace(workload, replicas=pretended.replicas, annotations=annotations)

    def pending(self) -> tuple[Pod, ...]:
        pretence = self.pretence
        if not pretence.bound and not pretence.nominated:
            return self.real.pending()
        unbound = (pod for pod in self.real.pending() if pod.uid not in pretence.bound)
        noted = pretence.nominated
        return tuple(replace(pod, nominated=noted[pod.uid]) if pod.uid in noted else pod for pod in unbound)

    def on_nodes(self) -> OnNodes:
        if not self.pretence.bound and not self.pretence.gone:
            return self.real.on_nodes()
        if self._on_nodes is None:
            self._on_nodes = {**self.real.on_nodes(), **{node: self._pods_on(node) for node in self._touched_nodes()}}
        return self._on_nodes

    def rooms(self) -> tuple[Room, ...]:
        touched = self._touched_nodes()
        if not touched:
            return self.real.rooms()
        if self._rooms is None:
            on = self.on_nodes()
            self._rooms = tuple(
                Room.of(each.node, on.get(each.node.name, ())) if each.node.name in touched else each
                for each in self.real.rooms()
            )
        return self._rooms

    def strays(self) -> tuple[Stray, ...]:
        pretence = self.pretence
        bound = [Stray(pod, "", pod.node) for pod in pretence.bound.values()]
        elsewhere = {uid: pod.node for uid, pod in pretence.moved.items()}
        return (*bound, *[Stray(pod, pod.node, elsewhere.get(uid, "")) for uid, pod in pretence.gone.items()])

    def budgets(self) -> tuple[DisruptionBudget, ...] | None:
        real_budgets, gone = self.real.budgets(), self.pretence.gone.keys()
        if not real_budgets or not gone:
            return real_budgets
        away = gone - self.pretence.moved.keys()
        return tuple(
            DisruptionBudget(
                budget.namespace, budget.name, budget.pods - away, budget.allowed - len(budget.pods & gone)
            )
            for budget in real_budgets
        )

    def namespaces(self) -> Mapping[str, Mapping[str, str]] | None:
        return self.real.namespaces()

    def storage(self) -> Storage:
        known, pretence = self.real.storage(), self.pretence
        if not pretence.claims and not pretence.volumes:
            return known
        if self._storage is None or self._storage[0] is not known:
            claims, volumes = {**known.claims, **pretence.claims}, {**known.volumes, **pretence.volumes}
            self._storage = known, replace(known, claims=claims, volumes=volumes)
        return self._storage[1]

    def after(self, action: Bind | BindClaim | Evict | Nominate) -> "DryRunSnapshot | Answer":
        """The snapshot with this action added; or the answer that says why it could not be carried out."""
        if isinstance(action, Bind):
            outcome = self._bind(action)
        elif isinstance(action, BindClaim):
            outcome = self._bind_claim(action)
        else:
            outcome = self._evict(action) if isinstance(action, Evict) else self._nominate(action)
        if isinstance(outcome, Answer):
            return outcome
        successor = DryRunSnapshot(self.real, self._counts, outcome, self._cache)
        successor._waiting = self._waiting
        return successor

    def _bind(self, bind: Bind) -> Pretence | Answer:
        pod, pretence = self._waiting_pod(bind.uid), self.pretence
        if pod is None or bind.uid in pretence.bound:
            return _conflict(f"{bind.workload} of uid {bind.uid} does not wait for a node")
        begun = {"phase": "Running", "started": self.real.confirmed, "ready": True}
        bound_pod = replace(pod, node=bind.node, nominated="", waits=None, **begun)
        nominated = {uid: node for uid, node in pretence.nominated.items() if uid != bind.uid}
        return replace(pretence, bound={**pretence.bound, bind.uid: bound_pod}, nominated=nominated)

    def _bind_claim(self, action: BindClaim) -> Pretence | Answer:
        """Pretend the write alone: nobody then binds the claim."""
        ref, known, pretence = action.workload, self.storage(), self.pretence
        claim, volume = known.claims.get((ref.namespace, ref.name)), known.volumes.get(action.volume)
        judged = volume if action.volume else claim
        if claim is None or judged is None or judged.version != action.version:
            return _conflict(f"{ref} or its volume is not what was judged")
        if volume is None:
            return replace(pretence, claims={**pretence.claims, claim.key: replace(claim, node=action.node)})
        kept = replace(volume, claim=(*claim.key, claim.uid))
        return replace(pretence, volumes={**pretence.volumes, volume.name: kept})

    def _evict(self, evict: Evict) -> Pretence | Answer:
        pretence = self.pretence
        if evict.uid in pretence.bound:
            return replace(pretence, bound={uid: pod for uid, pod in pretence.bound.items() if uid != evict.uid})
        if evict.uid in pretence.moved and pretence.moved[evict.uid].node == evict.node:
            return self._with_move(pretence, evict, pretence.moved[evict.uid])
        pod = next((pod for pod in self.real.on_nodes().get(evict.node, ()) if pod.uid == evict.uid), None)
        if pod is None:
            return _conflict(f"{evict.workload} of uid {evict.uid} is not on {evict.node}")
        return pretence if evict.uid in pretence.gone or pod.deleted else self._evict_running(pretence, evict, pod)

    def _evict_running(self, pretence: Pretence, evict: Evict, pod: Pod) -> Pretence | Answer:
        """Pretend that the pod is gone, if its disruption budgets allow the eviction."""
        budgets = self.budgets()
        if budgets is None:
            return Answer("refused", 0, "dry run: budgets are not known", "Budget")
        if spent := [budget.name for budget in budgets if evict.uid in budget.pods and budget.allowed < 1]:
            return Answer("refused", 0, f"dry run: budget {spent[0]} allows none", "Budget")
        return self._with_move(replace(pretence, gone={**pretence.gone, evict.uid: pod}), evict, pod)

    def _with_move(self, pretence: Pretence, evict: Evict, pod: Pod) -> Pretence:
        """Pretend that an evicted pod has just started on its target node, if it has one."""
        moved = {uid: moved_pod for uid, moved_pod in pretence.moved.items() if uid != evict.uid}
        if evict.target:
            moved[evict.uid] = replace(pod, node=evict.target, started=self.real.confirmed)
        return replace(pretence, moved=moved)

    def _nominate(self, nominate: Nominate) -> Pretence | Answer:
        if self._waiting_pod(nominate.uid) is None:
            return _conflict(f"{nominate.workload} of uid {nominate.uid} does not wait for a node")
        return replace(self.pretence, nominated={**self.pretence.nominated, nominate.uid: nominate.node})

    def _waiting_pod(self, uid: str) -> Pod | None:
        if self._waiting is None:
            self._waiting = {pod.uid: pod for pod in self.real.pending()}
        return self._waiting.get(uid)

    def _touched_nodes(self) -> frozenset[str]:
        pretence = self.pretence
        changed = (*pretence.bound.values(), *pretence.gone.values(), *pretence.moved.values())
        return frozenset(pod.node for pod in changed)

    def _pods_on(self, node: str) -> Sequence[Pod]:
        """A node's pods without those pretended gone, and with those pretended bound or moved there."""
        real, pretence = self.real.on_nodes().get(node, ()), self.pretence
        came = [pod for pods in (pretence.bound, pretence.moved) for pod in pods.values() if pod.node == node]
        changes = (*came, *(pod for pod in pretence.gone.values() if pod.node == node))
        cached = self._cache.get(node)
        if cached is not None and cached[0] is real and cached[1] == changes:
            return cached[2]
        pods = [*(pod for pod in real if pod.uid not in pretence.gone), *came]
        mixed = tuple(sorted(pods, key=lambda pod: (pod.namespace, pod.name)))
        self._cache[node] = (real, changes, mixed)
        return mixed


def _conflict(message: str, reason: str = "Conflict") -> Answer:
    return Answer("conflict", 0, f"dry run: {message}", reason)


class DryRun(ClusterWrapper):
    """Any cluster whose actions change only what its own snapshots show."""

    def __init__(self, inner: Cluster) -> None:
        super().__init__(inner)
        self._wanted: dict[Ref, _PretendedCount] = {}
        self._snapshot: DryRunSnapshot | None = None
        self._cache: PodCache = {}

    @property
    def taken_over(self) -> None:
        """Nobody acts here."""

    def describe(self) -> object:
        return {"dry_run": True, "cluster": self._inner.describe()}

    async def observe(self, now: float, kinds: frozenset[Kind]) -> DryRunSnapshot:
        """The cluster as it would be now. What is pretended of a workload or pod ends once somebody changes it."""
        real = await self._inner.observe(now, kinds)
        self._wanted = {
            ref: pretended for ref, pretended in self._wanted.items() if _still_holds(pretended, real.workload(ref))
        }
        before = self._snapshot.pretence if self._snapshot else Pretence()
        self._snapshot = DryRunSnapshot(real, self._wanted, before.true_to(real), self._cache)
        return self._snapshot

    async def act(self, action: Action) -> Answer:
        """Pretend that an action was done, if it still fits the last snapshot and what has been pretended since.
        Anything but a count, a workload's annotations or a pod's node has no effect on the snapshots."""
        if isinstance(action, Bind | BindClaim | Evict | Nominate):
            return self._place(action)
        if isinstance(action, TryEvict):
            outcome = self._snapshot.after(action.evict) if self._snapshot else None
            return outcome if isinstance(outcome, Answer) else Answer("done", 0, MESSAGE)
        if not isinstance(action, Scale | Create | Mark) or (isinstance(action, Mark) and action.pod):
            return Answer("done", 0, MESSAGE)
        return self._change(action)

    def _change(self, action: Scale | Create | Mark) -> Answer:
        real = self._snapshot.real.workload(action.workload) if self._snapshot else None
        if real is None:
            return _conflict(f"there is no {action.workload}", "NotFound")
        pretended = self._wanted.get(action.workload) or _PretendedCount(real.uid, real.replicas, real.replicas, {})
        if isinstance(action, Mark):
            if action.uid != real.uid:
                return _conflict(f"{action.workload} was recreated", "NotFound")
            return self._pretend(action.workload, replace(pretended, marks={**pretended.marks, **action.annotations}))
        version = action.version if isinstance(action, Scale) else real.version  # Jobs change meanwhile
        judged, present = (action.uid, version, action.before), (real.uid, real.version, pretended.replicas)
        if judged != present:
            return _conflict(f"uid, version and replicas were {judged}, are {present}")
        return self._pretend(action.workload, replace(pretended, replicas=action.after))

    def _place(self, action: Bind | BindClaim | Evict | Nominate) -> Answer:
        if self._snapshot is None:
            return _conflict(f"there is no {action.workload}", "NotFound")
        outcome = self._snapshot.after(action)
        if isinstance(outcome, Answer):
            return outcome
        self._snapshot = outcome
        return Answer("done", 0, MESSAGE)

    def _pretend(self, ref: Ref, pretended: _PretendedCount) -> Answer:
        # A new mapping: the snapshots that were handed out stay as they are.
        self._wanted = {**self._wanted, ref: pretended}
        return Answer("done", 0, MESSAGE)


def _still_holds(pretended: _PretendedCount, real: Workload | None) -> bool:
    """Whether the workload still has the UID and count that were pretended about. Its version moves with its status."""
    return real is not None and (real.uid, real.replicas) == (pretended.uid, pretended.real)
