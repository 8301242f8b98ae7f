"""Simulated pods and the workloads that own them: what they are at one time, and which pod is next.

Knows what a ReplicaSet and a StatefulSet would choose; knows nothing of when, and nothing of room on nodes.
"""

import uuid
from collections import deque
from collections.abc import Iterable
from math import inf
from typing import ClassVar, NamedTuple

from msgspec import Struct, field

from elasticd.cluster.simulated.demand import Curve
from elasticd.cluster.simulated.nodes import Claim, claim_of
from elasticd.cluster.simulated.options import SimulatedSeries, WorkloadTable, amount, further
from elasticd.kit.surge import HASH
from elasticd.model.controllers import controller_kind
from elasticd.model.workload import COST, Container, Pod, Ref, Workload, total_requests


class ServingPods(NamedTuple):
    """The pods that serve demand: for each the key of its samples, NAMESPACE/NAME, and its name."""

    keys: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


Parts = tuple[tuple[str, float], ...]
"""The containers of a pod and each one's part of its usage; one without a name for the pod as a whole."""


def make_uid(*parts: object) -> str:
    """A UID that is the same in every run."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(map(str, parts))))


class SimulatedPod(Struct, eq=False):
    """A pod as far as its kubelet has brought it. `seen` is what judgement sees, None once it changed."""

    owner: "SimulatedWorkload"
    name: str
    serial: int
    uid: str
    node: str = ""
    started: float | None = None
    running: bool = False
    ready: bool | None = None
    ready_changed: float = 0.0
    deleted: bool = False
    waits: float | None = None
    """Since when no node takes it."""
    annotations: dict[str, str] = field(default_factory=dict)
    sizes: tuple[Container, ...] = ()
    """Its containers, where they ask for other requests than the workload's."""
    given: Claim | None = None
    """Its room, where it was given other requests than the workload's."""
    resize: str = ""
    messages: int = 0
    """Of a Job's pod: those it has taken off the queue."""
    created: float = 0.0
    nominated: str = ""
    held: bool = False
    """Whether it has room on its node."""
    healthy: bool = False
    """Whether it would be ready, if its node were."""
    rejected: str = ""
    """Why its kubelet did not admit it."""
    evicted: float | None = None
    """When it was, if it is to be recreated."""
    seen: Pod | None = None

    @property
    def containers(self) -> tuple[Container, ...]:
        return self.sizes or self.owner.containers

    @property
    def claim(self) -> Claim:
        """The room that it has on its node. What it asks for in vain does not count."""
        return self.given or self.owner.claim

    @property
    def serving(self) -> bool:
        """Whether demand reaches it: a pod that is being deleted is no endpoint any more."""
        return self.ready is True and not self.deleted

    def look(self) -> Pod:
        if self.seen is None:
            self.seen = Pod(
                namespace=self.owner.ref.namespace,
                name=self.name,
                uid=self.uid,
                phase="Failed" if self.rejected else "Running" if self.running else "Pending",
                node=self.node,
                labels=self.owner.labels_of(self),
                containers=self.containers,
                started=self.started,
                ready=self.ready,
                ready_changed=self.ready_changed,
                deleted=self.deleted,
                annotations=dict(self.annotations),
                waits=self.waits,
                resize=self.resize,
                created=self.created,
                needs=self.claim.needs,
                owner=self.owner.controller_of(self),
                nominated=self.nominated,
            )
        return self.seen


class SimulatedWorkload(Struct, eq=False, kw_only=True):
    """A workload and its pods. `generation` counts the changes of its spec; its status does not count."""

    counted: ClassVar[bool] = True
    """Whether a controller creates and deletes its pods until there are as many as `replicas`."""

    table: WorkloadTable
    ref: Ref
    replicas: int
    containers: tuple[Container, ...]
    claim: Claim
    cpu: Curve = lambda _t: 0.0
    most_cpu: float = inf
    """The cores one pod can use."""
    memory: float
    """The bytes a ready pod uses."""
    parts: Parts
    series: tuple[tuple[SimulatedSeries, Curve], ...] = ()
    uid: str = ""
    pod_labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    generation: int = 1
    serial: int = 0
    pods: dict[str, SimulatedPod] = field(default_factory=dict)
    changes: int = 0
    """How often something became of its pods: what is found out of them stands until then."""
    served: deque[tuple[float, ServingPods]] = field(default_factory=deque)
    """Which pods have served since when, the newest last: samples are of a time that may be past."""

    def __post_init__(self) -> None:
        self.uid = make_uid(self.ref.api_version, self.ref)
        self.pod_labels = {**self.table.labels, "app": self.ref.name}
        if self.ref.kind == "Deployment":
            self.pod_labels[HASH] = self.uid[:8]

    @property
    def numbered(self) -> bool:
        return self.ref.kind == "StatefulSet"

    def labels_of(self, pod: SimulatedPod) -> dict[str, str]:
        return self.pod_labels

    def controller_of(self, pod: SimulatedPod) -> tuple[str, str, str]:
        """Kind, name and UID of what made a pod; a Deployment has a ReplicaSet do it, NAME-HASH."""
        if self.ref.kind == "Deployment":
            return ("ReplicaSet", f"{self.ref.name}-{self.pod_labels[HASH]}", self.uid)
        return (controller_kind(self.ref.api_version, self.ref.kind), self.ref.name, self.uid)

    def live(self) -> list[SimulatedPod]:
        """Its pods that are neither being deleted nor rejected: those its controller counts."""
        return [pod for pod in self.pods.values() if not pod.deleted and not pod.rejected]

    def surplus(self) -> list[SimulatedPod]:
        """The pods to delete: the highest ordinals, or what a ReplicaSet can spare best."""
        live = self.live()
        if self.numbered:
            return [pod for pod in live if pod.serial >= self.replicas]
        return sorted(live, key=_spare_first)[: max(0, len(live) - self.replicas)]

    def missing(self) -> list[int]:
        """The serials of the pods to create. An ordinal waits until its predecessor is gone."""
        if self.numbered:
            return [serial for serial in range(self.replicas) if self.pod_name(serial) not in self.pods]
        lacking = max(0, self.replicas - len(self.live()))
        return list(range(self.serial + 1, self.serial + 1 + lacking))

    def pod_name(self, serial: int) -> str:
        """NAME-0 for an ordinal, else NAME-000001: no hash, so that runs can be compared."""
        return f"{self.ref.name}-{serial}" if self.numbered else f"{self.ref.name}-{serial:06d}"

    def begin(self, pod: SimulatedPod, at: float) -> float | None:
        """A pod runs; for how many seconds it will. None: until it is deleted."""
        return None

    def end(self, pod: SimulatedPod, at: float) -> None:
        """A pod has run for as long as it had to."""

    def comes_back(self, pod: SimulatedPod) -> bool:
        """A pod is gone, or was rejected; whether another comes under its name. What is merely counted does not."""
        return False

    def serve(self, at: float, keep: float) -> None:
        """Note which pods serve from now on; forget what is older than `keep` seconds."""
        namespace = self.ref.namespace
        names = tuple(pod.name for pod in self.pods.values() if pod.serving)
        serving = ServingPods(tuple(f"{namespace}/{name}" for name in names), names)
        if self.served and self.served[-1][0] == at:
            self.served.pop()
        if self.served and self.served[-1][1] == serving:
            return
        self.served.append((at, serving))
        while len(self.served) > 1 and self.served[1][0] <= at - keep:
            self.served.popleft()

    def serving_at(self, at: float) -> ServingPods:
        if self.served and self.served[-1][0] <= at:  # nearly always
            return self.served[-1][1]
        for since, serving in reversed(self.served):
            if since <= at:
                return serving
        return ServingPods()

    def look(self) -> Workload:
        return Workload(
            ref=self.ref,
            uid=self.uid,
            version=str(self.generation),
            replicas=self.replicas,
            status_replicas=len(self.live()),
            selector=f"app={self.ref.name}",
            labels=self.table.labels,
            annotations=dict(self.annotations),
            min_ready=self.table.min_ready_seconds,
        )


def _spare_first(pod: SimulatedPod) -> tuple[bool, bool, bool, int, float, int]:
    """A ReplicaSet's order (unbound, pending, unready, cheapest, shortest ready, newest), without its count by node."""
    cost = int(pod.annotations.get(COST, "0"))
    return (pod.node != "", pod.running, pod.ready is True, cost, -pod.ready_changed, -pod.serial)


BARE = ("v1", "Pod")
"""What pods without a controller are under: no policy is about workloads of this kind."""


class Bare(SimulatedWorkload, eq=False):
    """The pods of one table, without a controller to create or recreate them."""

    counted = False
    """They come at their times."""

    def controller_of(self, pod: SimulatedPod) -> tuple[str, str, str]:
        return ("", "", "")

    def pod_name(self, serial: int) -> str:
        """NAME, or NAME-1 to NAME-replicas."""
        return self.ref.name if self.replicas == 1 else f"{self.ref.name}-{serial}"

    def begin(self, pod: SimulatedPod, at: float) -> float | None:
        return self.table.run_seconds

    def comes_back(self, pod: SimulatedPod) -> bool:
        """Whether a pod that is gone comes back: only if it was evicted to be restored."""
        return pod.evicted is not None


def make_workloads(table: WorkloadTable) -> Iterable[SimulatedWorkload]:
    """The workloads of one table. They share curves, so that equal demand is computed once."""
    cpu = table.demand.curve() if table.demand else lambda _t: 0.0
    most_cpu = inf if table.cpu_limit is None else amount("cpu_limit", table.cpu_limit) * table.max_utilisation
    series = tuple((entry, entry.demand.curve()) for entry in table.series)
    containers = _containers(table)
    requests = total_requests(containers)
    memory = requests["memory"] if table.memory_per_pod is None else amount("memory_per_pod", table.memory_per_pod)
    claim = claim_of(table.needs(requests, table.stop_seconds), containers)
    shares = sum(part.share for part in table.containers) or 1.0
    for name in table.names():
        kind, workload_type = (BARE, Bare) if table.bare else ((table.api_version, table.kind), SimulatedWorkload)
        ref = Ref(table.namespace, kind[1], name, kind[0])
        yield workload_type(
            table=table,
            ref=ref,
            replicas=table.replicas,
            containers=containers,
            cpu=cpu,
            most_cpu=most_cpu,
            memory=memory,
            parts=tuple((part.name, part.share / shares) for part in table.parts()),
            series=series,
            claim=claim,
        )


def _containers(table: WorkloadTable) -> tuple[Container, ...]:
    """The containers of a pod. What the pod requests beside cpu and memory, the first one does."""
    containers: list[Container] = []
    for part in table.parts():
        cpu = amount("cpu", table.cpu if part.cpu is None else part.cpu)
        memory = amount("memory", table.memory if part.memory is None else part.memory)
        resources = {} if containers else further(table.resources)
        containers.append(Container(part.name, {"cpu": cpu, "memory": memory, **resources}))
    return tuple(containers)
