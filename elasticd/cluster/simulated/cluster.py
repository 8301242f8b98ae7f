"""The simulated world as a Cluster: its snapshots, its metrics, and the actions on it.

Knows how a world is observed and when an action no longer fits it; knows nothing of how it moves. Of a snapshot
everything is computed when it is first asked for, and what did not change is the same record as before.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import cached_property
from operator import attrgetter
from types import SimpleNamespace
from typing import NamedTuple

from msgspec.structs import replace

from elasticd.base.clock import Clock
from elasticd.cluster.simulated.jobs import SimulatedJobSet
from elasticd.cluster.simulated.options import BudgetTable
from elasticd.cluster.simulated.pods import SimulatedPod, SimulatedWorkload
from elasticd.cluster.simulated.samples import SimulatedUsage
from elasticd.cluster.simulated.world import World
from elasticd.kit.requests import resized, unfit
from elasticd.model.actions import (
    Action,
    Announce,
    Answer,
    Bind,
    BindClaim,
    Create,
    Evict,
    Mark,
    Nominate,
    Remove,
    Resize,
    Scale,
    TryEvict,
)
from elasticd.model.moves import Promise, Underway
from elasticd.model.placement import DisruptionBudget
from elasticd.model.volumes import Storage
from elasticd.model.workload import Node, Pod, Readings, Ref, Room, Workload
from elasticd.ports.cluster import Kind, Snapshot, View
from elasticd.ports.metrics_api import Followed, MetricQuery, Part, Pull

ANNOUNCEMENTS = 1000

OnNodes = Mapping[str, tuple[Pod, ...]]

_by_name = attrgetter("namespace", "name")


class WorkloadView(NamedTuple):
    """A workload and its pods."""

    workload: Workload
    pods: tuple[Pod, ...]


class WorldView:
    """The state of the world between two changes, and what is derived from it when first asked for.

    Workloads that changed lately are kept apart from the others, so that a change costs no copy of all."""

    def __init__(
        self,
        nodes: tuple[Node, ...],
        budgets: Sequence[BudgetTable],
        others: Mapping[Ref, WorkloadView] | None = None,
        recent: Mapping[Ref, WorkloadView] | None = None,
        earlier: OnNodes | None = None,
    ) -> None:
        self.nodes, self._budgets = nodes, budgets
        self.others, self.recent = others or {}, recent or {}
        self._earlier = earlier or {}

    def changed(self, views: Mapping[Ref, WorkloadView], nodes: tuple[Node, ...]) -> "WorldView":
        """The state after a change of these workloads and nodes. This one stays as it is."""
        others, recent = self.others, {**self.recent, **views}
        if len(recent) ** 2 > len(others):
            others, recent = {**others, **recent}, {}
        # Of this one only what is shared is kept, or all there ever were would be.
        return WorldView(nodes, self._budgets, others, recent, vars(self).get("on_nodes", self._earlier))

    def view(self, ref: Ref) -> WorkloadView | None:
        """A workload and its pods; None: there is no such workload."""
        return self.recent.get(ref) or self.others.get(ref)

    def changes_since(self, earlier: "WorldView") -> Collection[Ref]:
        """The workloads that changed since an earlier state."""
        if earlier is self:
            return ()
        looked = self.recent if earlier.others is self.others else self.views
        return [ref for ref, view in looked.items() if earlier.view(ref) is not view]

    @cached_property
    def views(self) -> Mapping[Ref, WorkloadView]:
        """All of them, in an order that stays."""
        return {**self.others, **self.recent}

    @cached_property
    def on_nodes(self) -> OnNodes:
        """The pods on each node; a node that did not change keeps the same tuple."""
        pods_by_node: dict[str, list[Pod]] = {}
        for pod in (pod for view in self.views.values() for pod in view.pods if pod.node):
            if not pod.has_ended:
                pods_by_node.setdefault(pod.node, []).append(pod)
        fresh = {node: tuple(sorted(pods_by_node[node], key=_by_name)) for node in sorted(pods_by_node)}
        earlier = self._earlier
        return {node: earlier[node] if pods == earlier.get(node) else pods for node, pods in fresh.items()}

    @cached_property
    def pending(self) -> tuple[Pod, ...]:
        pods = (pod for view in self.views.values() for pod in view.pods)
        waiting = [pod for pod in pods if pod.is_active and not pod.node]
        return tuple(sorted(waiting, key=_by_name))

    @cached_property
    def rooms(self) -> tuple[Room, ...]:
        return tuple(Room.of(node, self.on_nodes.get(node.name, ())) for node in self.nodes)

    @cached_property
    def budgets(self) -> tuple[DisruptionBudget, ...]:
        budgets = [self._budget(table, name) for table in self._budgets for name in table.names()]
        return tuple(sorted(budgets, key=_by_name))

    def _budget(self, table: BudgetTable, name: str) -> DisruptionBudget:
        views = (view for ref, view in self.views.items() if ref.namespace == table.namespace)
        pods = [pod for view in views for pod in view.pods if table.selector.items() <= pod.labels.items()]
        live = [pod for pod in pods if pod.is_active]
        healthy = sum(pod.ready is True for pod in live)
        allowed = max(0, healthy - table.min_available)
        sick_go = table.unhealthy_pod_eviction_policy == "AlwaysAllow" or healthy >= table.min_available > 0
        guarded = [pod for pod in live if pod.phase != "Pending" and (pod.ready is True or not sick_go)]
        return DisruptionBudget(table.namespace, name, frozenset(pod.uid for pod in guarded), allowed)


def _look(workload: SimulatedWorkload) -> WorkloadView:
    """A workload as it is now."""
    pods = sorted(workload.pods.values(), key=lambda pod: pod.name)
    return WorkloadView(workload.look(), tuple(pod.look() for pod in pods))


class SimulatedSnapshot:
    """The cluster at one time. It stays as it was; what did not change is shared with later ones."""

    version = 1
    """Always the same: workloads are neither created nor deleted, and keep their labels."""

    def __init__(self, confirmed: float, kinds: frozenset[Kind], view: WorldView) -> None:
        self.confirmed = self.nodes_confirmed = confirmed
        self.kinds, self.world = kinds, view

    def confirmed_for(self, ref: Ref) -> float:
        return self.confirmed

    @cached_property
    def _workloads(self) -> tuple[Workload, ...]:
        workloads = [view.workload for view in self.world.views.values()]
        return tuple(w for w in workloads if (w.ref.api_version, w.ref.kind) in self.kinds)

    def workloads(self) -> Collection[Workload]:
        return self._workloads

    def workload(self, ref: Ref) -> Workload | None:
        view = self.world.view(ref)
        return view.workload if view is not None and (ref.api_version, ref.kind) in self.kinds else None

    def pods(self, workload: Workload) -> tuple[Pod, ...]:
        view = self.world.view(workload.ref)
        return () if view is None else view.pods

    def changes_since(self, earlier: Snapshot) -> Collection[Ref] | None:
        return self.world.changes_since(earlier.world) if isinstance(earlier, SimulatedSnapshot) else None

    def selector_fault(self, workload: Workload) -> str:
        return ""  # it owns its pods

    def nodes(self) -> tuple[Node, ...]:
        return self.world.nodes

    def rooms(self) -> tuple[Room, ...]:
        return self.world.rooms

    def pending(self) -> tuple[Pod, ...]:
        return self.world.pending

    def on_nodes(self) -> OnNodes:
        return self.world.on_nodes

    def budgets(self) -> tuple[DisruptionBudget, ...]:
        return self.world.budgets

    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """Simulated namespaces have no labels."""
        return {}

    def storage(self) -> Storage:
        return Storage()

    def autoscaler(self, ref: Ref) -> str:
        return ""


class SimulatedCluster:
    """A Cluster in memory. It advances to the time of each observation, and to its clock's for each action.

    `announcements` are the last announcements, oldest first.
    """

    leading = True
    taken_over = None
    lease = ""
    last_disruption = float("-inf")
    honours_deletion_costs = True

    def __init__(self, clock: Clock, world: World, usage: SimulatedUsage, budgets: Sequence[BudgetTable] = ()) -> None:
        self.announcements: deque[Announce] = deque(maxlen=ANNOUNCEMENTS)
        self.clock, self.world, self._usage, self._budgets = clock, world, usage, budgets
        self._view = WorldView(world.nodes.nodes, budgets)
        self._callbacks: list[Callable[[], None]] = []

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call this when an observation or action has moved the world; nothing else moves it."""
        self._callbacks.append(callback)

    @property
    def next(self) -> float:
        """The time of the next event that happens by itself; infinity: none."""
        return self.world.next

    def restoring(self) -> Sequence[Underway]:
        """None: they come back at once."""
        return ()

    async def promises(self) -> Sequence[Promise]:
        return ()

    def problems(self) -> Mapping[Kind, str]:
        return {}

    def views(self) -> Sequence[View]:
        """None: it is always current."""
        return ()

    def describe(self) -> object:
        return {"simulated": True}

    async def observe(self, now: float, kinds: frozenset[Kind]) -> SimulatedSnapshot:
        view = self._look(now)
        return SimulatedSnapshot(self.world.now, kinds, view)

    def _look(self, now: float) -> WorldView:
        """The snapshot; only what changed since the last one is computed again."""
        world = self.world
        world.advance(now)
        if world.changed or world.nodes.nodes is not self._view.nodes:
            views = {workload.ref: _look(workload) for workload in world.changed}
            world.changed.clear()
            self._view = self._view.changed(views, world.nodes.nodes)
        self._tell()
        return self._view

    def _tell(self) -> None:
        """Call back if something happened that may let pods be placed."""
        if self.world.placement_changed:
            self.world.placement_changed = False
            for callback in self._callbacks:
                callback()

    async def usage(self, now: float) -> Readings:
        self.world.advance(now)
        return self._usage.read(now)

    async def node_usage(self, now: float) -> Readings:
        """Series cpu and memory of every node that answers: what the pods on it use, and what else is used there; and
        the further series of the nodes."""
        view = self._look(now)
        placed = {node: [f"{pod.namespace}/{pod.name}" for pod in pods] for node, pods in view.on_nodes.items()}
        return self._usage.read_nodes(now, [node.name for node in view.nodes if node.ready], placed)

    async def metrics(self, queries: Sequence[MetricQuery], now: float) -> Readings:
        message = "a simulated cluster serves no custom or external metrics: its own series are in resource-metrics"
        return Readings("simulated", now, error=message)

    async def summary(self, node: str, now: float, part: Part, within: float) -> Readings:
        message = "a simulated cluster has no kubelets: what its pods and nodes use is in resource-metrics"
        return Readings("simulated", now, error=message)

    def pulls(self, take: Callable[[Pull], None]) -> AbstractAsyncContextManager[Followed]:
        return nullcontext(SimpleNamespace(problem="a simulated cluster pulls no images"))

    async def act(self, action: Action) -> Answer:
        if isinstance(action, Announce):
            self.announcements.append(action)
            return Answer("done", 201)
        self.world.advance(self.clock.now())
        if isinstance(action, BindClaim):
            return Answer("conflict", 404, f"there is no {action.workload}", "NotFound")
        answer = self._do(action)
        self._tell()
        return answer

    def _do(self, action: Scale | Create | Remove | Mark | Resize | Bind | Evict | TryEvict | Nominate) -> Answer:
        if isinstance(action, Bind | Evict | TryEvict | Nominate):
            return self._place(action)
        workload = self.world.workloads.get(action.workload)
        if workload is None:
            return Answer("conflict", 404, f"there is no {action.workload}", "NotFound")
        if isinstance(action, Mark):
            return self._mark(action, workload)
        if isinstance(action, Scale) and not isinstance(workload, SimulatedJobSet):
            return self._scale(action, workload)
        return self._resize(action, workload) if isinstance(action, Resize) else self._change_jobs(action, workload)

    def _place(self, action: Bind | Evict | TryEvict | Nominate) -> Answer:
        ref, uid = action.workload, action.evict.uid if isinstance(action, TryEvict) else action.uid
        pod = self.world.pod(ref.namespace, ref.name)
        if pod is None:
            return Answer("conflict", 404, f"there is no pod {ref.namespace}/{ref.name}", "NotFound")
        if pod.uid != uid:
            return Answer("conflict", 409, f"uid was {uid}, is {pod.uid}", "Conflict")
        match action:
            case Bind():
                return self._bind(pod, action.node)
            case Evict():
                return self._evict(pod, action)
            case TryEvict():
                return self._refused(pod) or Answer("done", 201)
            case Nominate():
                self.world.nominate(pod, action.node)
                return Answer("done", 200)

    def _bind(self, pod: SimulatedPod, node: str) -> Answer:
        """Any pod can be bound once, to anything: whether it fits there is the kubelet's to say."""
        if pod.deleted:
            return Answer("conflict", 409, f"pod {pod.name} is being deleted, cannot be assigned to a host", "Conflict")
        if pod.node:
            return Answer("conflict", 409, f'pod {pod.name} is already assigned to node "{pod.node}"', "Conflict")
        self.world.bind(pod, node)
        return Answer("done", 201)

    def _evict(self, pod: SimulatedPod, evict: Evict) -> Answer:
        if refused := self._refused(pod):
            return refused
        self.world.evict(pod, restore=evict.restore)
        return Answer("done", 201)

    def _refused(self, pod: SimulatedPod) -> Answer | None:
        """Refuse as the eviction API does: budgets do not apply to a pod that is on no node or is being deleted, and
        several budgets for one pod are an error."""
        if pod.node and not pod.deleted and not pod.rejected:
            about = [each for each in self._look(self.world.now).budgets if pod.uid in each.pods]
            if len(about) > 1:
                message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not"
                return Answer("refused", 500, f"{message} support.", "Budgets")
            if about and about[0].allowed < 1:
                message = "Cannot evict pod as it would violate the pod's disruption budget."
                return Answer("refused", 429, f"{message} The disruption budget {about[0].name} allows none", "Budget")
        return None

    def _scale(self, action: Scale, workload: SimulatedWorkload) -> Answer:
        if action.after < 0:
            return Answer("failed", 422, f"replicas must be >= 0, is {action.after}", "Invalid")
        if change := _find_change(action, workload):
            return Answer("conflict", 409, change, "Conflict")
        self.world.scale(workload, action.after)
        return Answer("done", 200)

    def _resize(self, resize: Resize, workload: SimulatedWorkload) -> Answer:
        """As the API server and a kubelet would: at once, or not at all where the node has no room."""
        pod = workload.pods.get(resize.pod)
        if pod is None or pod.uid != resize.uid:
            return Answer("conflict", 404, f"there is no {resize.pod} of uid {resize.uid}", "NotFound")
        present = {container.name: container.requests for container in pod.containers if container.name in resize.after}
        if present != {name: {**amounts, **resize.before.get(name, {})} for name, amounts in present.items()}:
            return Answer("conflict", 409, f"requests were {resize.before}, are {present}", "Conflict")
        if why := unfit(replace(pod.look(), resize=""), resize.after):
            return Answer("failed", 422, f"{resize.pod} {why}", "Invalid")
        self.world.resize(pod, resized(pod.containers, resize.after))
        return Answer("done", 200)

    def _mark(self, mark: Mark, workload: SimulatedWorkload) -> Answer:
        """Write annotations on the workload or its pod; like any but a change of spec, it leaves the version."""
        marked = workload.pods.get(mark.pod) if mark.pod else workload
        if marked is None or marked.uid != mark.uid:
            return Answer("conflict", 404, f"there is no {mark.pod or mark.workload} of uid {mark.uid}", "NotFound")
        if mark.version and mark.version != str(workload.generation):
            return Answer("conflict", 409, f"version was {mark.version}, is {workload.generation}", "Conflict")
        marked.annotations = mark.on(marked.annotations)
        if isinstance(marked, SimulatedPod):
            marked.seen = None
        self.world.changed[workload] = None
        return Answer("done", 200)

    def _change_jobs(self, action: Scale | Create | Remove, workload: SimulatedWorkload) -> Answer:
        """Create or delete Jobs. A job set cannot be scaled, and nothing else has Jobs."""
        if not isinstance(workload, SimulatedJobSet) or isinstance(action, Scale):
            return Answer("failed", 404, f"{action.workload} cannot be told to {type(action).__name__}", "UnknownKind")
        if action.uid != workload.uid:
            return Answer("conflict", 409, f"uid was {action.uid}, is {workload.uid}", "Conflict")
        if isinstance(action, Create):
            self.world.create(workload, action)
            return Answer("done", 201)
        self.world.remove(workload, action)
        return Answer("done", 200)


def _find_change(action: Scale, workload: SimulatedWorkload) -> str:
    """What is no longer as it was when the action was judged; empty when all is."""
    judged = {"uid": action.uid, "version": action.version, "replicas": action.before}
    present = {"uid": workload.uid, "version": str(workload.generation), "replicas": workload.replicas}
    return next((f"{key} was {was}, is {present[key]}" for key, was in judged.items() if present[key] != was), "")
