"""The simulated world as a Cluster: snapshots of it, its usage, and what is done to it.

Knows how a world is looked at and when an action no longer fits it; knows nothing of how it moves.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import NamedTuple

from msgspec.structs import replace

from elasticd.actions import Action, Announce, Answer, Bind, Create, Evict, Mark, Nominate, Remove, Resize, Scale
from elasticd.clock import Clock
from elasticd.cluster import Followed, Kind, MetricQuery, Part, Pull
from elasticd.cluster.rooms import room
from elasticd.cluster.simulated.jobs import SimulatedJobSet
from elasticd.cluster.simulated.pods import SimulatedPod, SimulatedWorkload
from elasticd.cluster.simulated.samples import Usage
from elasticd.cluster.simulated.world import World
from elasticd.derived import Derived
from elasticd.model import Node, Pod, Readings, Ref, Room, Sample, Workload
from elasticd.placements import DisruptionBudget
from elasticd.sizes import resized, unfit

ANNOUNCEMENTS = 1000


class _Nothing(NamedTuple):
    """What is followed where there is nothing to follow."""

    problem: str


class _View(NamedTuple):
    workload: Workload
    pods: tuple[Pod, ...]


Rooms = Callable[[str, Mapping[Ref, _View]], tuple[Room, ...]]


class SimulatedSnapshot:
    """The cluster at one time. It stays as it was; what did not change is shared with later ones."""

    def __init__(
        self,
        confirmed: float,
        kinds: frozenset[Kind],
        views: Mapping[Ref, _View],
        nodes: tuple[Node, ...],
        rooms: Rooms,
    ) -> None:
        self.confirmed = confirmed
        self.kinds, self._views, self._nodes, self._rooms = kinds, views, nodes, rooms
        self._workloads: tuple[Workload, ...] | None = None

    def confirmed_for(self, ref: Ref) -> float:
        """When it was looked at: all of it was."""
        return self.confirmed

    @property
    def version(self) -> int:
        """Always the same: workloads neither come nor go, and keep their labels."""
        return 1

    def workloads(self) -> Collection[Workload]:
        """All workloads of the kinds that were asked for."""
        if self._workloads is None:
            views = self._views.values()
            self._workloads = tuple(view.workload for view in views if self._asked(view.workload.ref))
        return self._workloads

    def workload(self, ref: Ref) -> Workload | None:
        """One workload, None when the cluster has no such or its kind was not asked for."""
        view = self._views.get(ref)
        return view.workload if view and self._asked(ref) else None

    def pods(self, workload: Workload) -> tuple[Pod, ...]:
        """The pods its selector matches, ordered by name."""
        view = self._views.get(workload.ref)
        return view.pods if view else ()

    def selector_fault(self, workload: Workload) -> str:
        """Always empty: a simulated workload owns its pods."""
        return ""

    def nodes(self) -> tuple[Node, ...]:
        """All nodes, ordered by name."""
        return self._nodes

    def rooms(self) -> tuple[Room, ...]:
        """All nodes and what the pods on them leave; the same tuple while no workload changed."""
        return self._rooms("", self._views)

    def pending(self) -> tuple[Pod, ...]:
        """The pods that are on no node."""
        return tuple(pod for view in self._views.values() for pod in view.pods if not pod.node)

    def on_nodes(self) -> Mapping[str, Sequence[Pod]]:
        """The pods on each node."""
        return {}

    def budgets(self) -> tuple[DisruptionBudget, ...]:
        """None."""
        return ()

    def autoscaler(self, ref: Ref) -> str:
        """None: nobody else scales a simulated workload."""
        return ""

    def _asked(self, ref: Ref) -> bool:
        return (ref.api_version, ref.kind) in self.kinds


class SimulatedCluster:
    """A Cluster whose time is that of the questions put to it, and of its clock for what is done to it.

    `announcements` are the last that were made, oldest first.
    """

    leading = True

    def __init__(self, clock: Clock, world: World, nodes: tuple[Node, ...], usage: Usage) -> None:
        self.announcements: deque[Announce] = deque(maxlen=ANNOUNCEMENTS)
        self._clock, self._world, self._nodes, self._usage = clock, world, nodes, usage
        self._views: Mapping[Ref, _View] = {}
        self._rooms = Derived[str, Mapping[Ref, _View], tuple[Room, ...]](lambda _, views: _look_at(nodes, views))

    def heed(self, stir: Callable[[], None]) -> None:
        """Nothing happens in it unseen: it moves when it is looked at."""

    def problems(self) -> Mapping[Kind, str]:
        """None: it watches all there is."""
        return {}

    def describe(self) -> object:
        """That it is none."""
        return {"simulated": True}

    async def observe(self, now: float, kinds: frozenset[Kind]) -> SimulatedSnapshot:
        """The cluster as it is now. Only what changed since the last look is looked at."""
        self._world.advance(now)
        if self._world.changed:
            # Earlier snapshots keep theirs.
            self._views = {**self._views, **{w.ref: _look(w) for w in self._world.changed}}
            self._world.changed.clear()
        return SimulatedSnapshot(self._world.now, kinds, self._views, self._nodes, self._rooms)

    async def usage(self, now: float) -> Readings:
        """Series cpu and memory of every pod that is ready, and the further series of the workloads."""
        self._world.advance(now)
        return self._usage.read(now)

    async def node_usage(self, now: float) -> Readings:
        """Series cpu and memory of every node: what the pods on it use. One on which nothing is measured has none."""
        said, nodes = await self.usage(now), dict[str, dict[str, tuple[Sample, ...]]]()
        for series in ("cpu", "memory"):
            used: dict[str, list[Sample]] = {}
            for pod in (pod for workload in self._world.workloads.values() for pod in workload.pods.values()):
                if pod.node and (found := said.pods[series].get(f"{pod.owner.ref.namespace}/{pod.name}")):
                    used.setdefault(pod.node, []).extend(found)
            nodes[series] = {node: (_sum(samples),) for node, samples in used.items()}
        return Readings(said.source, now, nodes=nodes)

    async def metrics(self, queries: Sequence[MetricQuery], now: float) -> Readings:
        """None: the further series of simulated workloads are read with their usage, as resource-metrics."""
        message = "a simulated cluster serves no custom or external metrics: its own series are in resource-metrics"
        return Readings("simulated", now, error=message)

    async def summary(self, node: str, now: float, part: Part, within: float) -> Readings:
        """None: simulated nodes have no kubelet."""
        message = "a simulated cluster has no kubelets: what its pods and nodes use is in resource-metrics"
        return Readings("simulated", now, error=message)

    def pulls(self, take: Callable[[Pull], None]) -> AbstractAsyncContextManager[Followed]:
        """None: simulated nodes have every image."""
        return nullcontext(_Nothing("a simulated cluster pulls no images"))

    async def act(self, action: Action) -> Answer:
        """Carry an action out, if what it was judged on holds. Only a change of spec alters the version."""
        if isinstance(action, Announce):
            self.announcements.append(action)
            return Answer("done", 201)
        self._world.advance(self._clock.now())
        if isinstance(action, Bind | Evict | Nominate):
            return Answer("failed", 501, "a simulated cluster does not place pods yet", "UnknownAction")
        workload = self._world.workloads.get(action.workload)
        if workload is None:
            return Answer("conflict", 404, f"there is no {action.workload}", "NotFound")
        if isinstance(action, Mark):
            return self._mark(action, workload)
        if isinstance(action, Scale) and not isinstance(workload, SimulatedJobSet):
            return self._scale(action, workload)
        return self._resize(action, workload) if isinstance(action, Resize) else self._batch(action, workload)

    def _scale(self, action: Scale, workload: SimulatedWorkload) -> Answer:
        """Set a count, of what is still as it was judged."""
        if action.after < 0:
            return Answer("failed", 422, f"replicas must be >= 0, is {action.after}", "Invalid")
        if moved := _moved(action, workload):
            return Answer("conflict", 409, moved, "Conflict")
        self._world.scale(workload, action.after)
        return Answer("done", 200)

    def _resize(self, resize: Resize, workload: SimulatedWorkload) -> Answer:
        """As the API server and a kubelet would: at once, or not at all where the node has no room."""
        pod = workload.pods.get(resize.pod)
        if pod is None or pod.uid != resize.uid:
            return Answer("conflict", 404, f"there is no {resize.pod} of uid {resize.uid}", "NotFound")
        present = {one.name: one.requests for one in pod.containers if one.name in resize.after}
        if present != {name: {**amounts, **resize.before.get(name, {})} for name, amounts in present.items()}:
            return Answer("conflict", 409, f"requests were {resize.before}, are {present}", "Conflict")
        if why := unfit(replace(pod.look(), resize=""), resize.after):
            return Answer("failed", 422, f"{resize.pod} {why}", "Invalid")
        self._world.resize(pod, resized(pod.containers, resize.after))
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
        self._world.changed[workload] = None
        return Answer("done", 200)

    def _batch(self, action: Scale | Create | Remove, workload: SimulatedWorkload) -> Answer:
        """Create or delete Jobs. A job set cannot be scaled, and nothing else has Jobs."""
        if not isinstance(workload, SimulatedJobSet) or isinstance(action, Scale):
            return Answer("failed", 404, f"{action.workload} cannot be told to {type(action).__name__}", "UnknownKind")
        if action.uid != workload.uid:
            return Answer("conflict", 409, f"uid was {action.uid}, is {workload.uid}", "Conflict")
        if isinstance(action, Create):
            self._world.create(workload, action)
            return Answer("done", 201)
        self._world.remove(workload, action)
        return Answer("done", 200)


def _look_at(nodes: tuple[Node, ...], views: Mapping[Ref, _View]) -> tuple[Room, ...]:
    """What the pods of all workloads leave of the nodes."""
    pods: dict[str, list[Pod]] = {}
    for view in views.values():
        for pod in view.pods:
            pods.setdefault(pod.node, []).append(pod)
    return tuple(room(node, pods.get(node.name, ())) for node in nodes)


def _sum(samples: list[Sample]) -> Sample:
    """What the pods of a node use together."""
    return Sample(sum(one.value for one in samples), samples[0].measured, samples[0].received, samples[0].window)


def _look(workload: SimulatedWorkload) -> _View:
    pods = sorted(workload.pods.values(), key=lambda pod: pod.name)
    return _View(workload.look(), tuple(pod.look() for pod in pods))


def _moved(action: Scale, workload: SimulatedWorkload) -> str:
    """What is no longer as it was when the action was judged; empty when all is."""
    judged = {"uid": action.uid, "version": action.version, "replicas": action.before}
    present = {"uid": workload.uid, "version": str(workload.generation), "replicas": workload.replicas}
    for what, was in judged.items():
        if present[what] != was:
            return f"{what} was {was}, is {present[what]}"
    return ""
