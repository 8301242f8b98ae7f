"""Simulated pods and the workloads that own them: what they are at one time, and which pod is next.

Knows what a ReplicaSet and a StatefulSet would choose; knows nothing of when, and nothing of room on nodes.
"""

import uuid
from collections import deque
from collections.abc import Iterable
from math import ceil, inf

from msgspec import Struct, field

from elasticd.cluster.simulated.demand import Curve
from elasticd.cluster.simulated.nodes import Need
from elasticd.cluster.simulated.options import ContainerTable, SeriesTable, WorkloadTable, amount
from elasticd.model import COST, Container, Pod, Ref, Workload
from elasticd.units import milli

Serving = tuple[tuple[str, str], ...]
"""The pods that serve demand: for each the key of its samples, NAMESPACE/NAME, and its name."""

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
    """Its containers, where they were given other requests than the workload's; `taken` is then its room."""
    taken: Need | None = None
    resize: str = ""
    messages: int = 0
    """Of a Job's pod: those it has taken off the queue."""
    seen: Pod | None = None

    @property
    def containers(self) -> tuple[Container, ...]:
        """As they are asked for."""
        return self.sizes or self.owner.containers

    @property
    def need(self) -> Need:
        """The room that it has on its node."""
        return self.taken or self.owner.need

    @property
    def serving(self) -> bool:
        """Whether demand reaches it: a pod that is being deleted is no endpoint any more."""
        return self.ready is True and not self.deleted

    def look(self) -> Pod:
        """As judgement sees it; the same record until it changes."""
        if self.seen is None:
            self.seen = Pod(
                namespace=self.owner.ref.namespace,
                name=self.name,
                uid=self.uid,
                phase="Running" if self.running else "Pending",
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
            )
        return self.seen


class SimulatedWorkload(Struct, eq=False):
    """A workload and its pods. `generation` counts the changes of its spec; its status does not count."""

    table: WorkloadTable
    ref: Ref
    uid: str
    replicas: int
    pod_labels: dict[str, str]
    containers: tuple[Container, ...]
    need: Need
    cpu: Curve
    most_cpu: float
    """The cores one pod can use."""
    memory: float
    """The bytes a ready pod uses."""
    parts: Parts
    series: tuple[tuple[SeriesTable, Curve], ...]
    annotations: dict[str, str] = field(default_factory=dict)
    generation: int = 1
    serial: int = 0
    pods: dict[str, SimulatedPod] = field(default_factory=dict)
    served: deque[tuple[float, Serving]] = field(default_factory=deque)
    """Which pods have served since when, the newest last: samples are of a time that may be past."""

    @property
    def numbered(self) -> bool:
        """Whether its pods have ordinals."""
        return self.ref.kind == "StatefulSet"

    def labels_of(self, pod: SimulatedPod) -> dict[str, str]:
        """The labels of a pod: all have the same."""
        return self.pod_labels

    def live(self) -> list[SimulatedPod]:
        """Its pods that are not being deleted: those its controller counts."""
        return [pod for pod in self.pods.values() if not pod.deleted]

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

    def serve(self, at: float, keep: float) -> None:
        """Note which pods serve from now on; forget what is older than `keep` seconds."""
        namespace = self.ref.namespace
        names = (pod.name for pod in self.pods.values() if pod.serving)
        serving = tuple((f"{namespace}/{name}", name) for name in names)
        if self.served and self.served[-1][0] == at:
            self.served.pop()
        if self.served and self.served[-1][1] == serving:
            return
        self.served.append((at, serving))
        while len(self.served) > 1 and self.served[1][0] <= at - keep:
            self.served.popleft()

    def serving_at(self, at: float) -> Serving:
        """The pods that served at a time."""
        for since, serving in reversed(self.served):
            if since <= at:
                return serving
        return ()

    def look(self) -> Workload:
        """As judgement sees it."""
        return Workload(
            ref=self.ref,
            uid=self.uid,
            version=str(self.generation),
            replicas=self.replicas,
            status_replicas=len(self.live()),
            selector=f"app={self.ref.name}",
            labels=self.table.labels,
            annotations=dict(self.annotations),
        )


def make_workloads(table: WorkloadTable) -> Iterable[SimulatedWorkload]:
    """The workloads of one table. They share curves, so that equal demand is computed once."""
    cpu = table.demand.curve() if table.demand else _no_demand
    series = tuple((entry, entry.demand.curve()) for entry in table.series)
    containers = tuple(_container(table, part) for part in table.parts())
    need = need_of(containers)
    shares = sum(part.share for part in table.containers) or 1.0
    for name in table.names():
        ref = Ref(table.namespace, table.kind, name, table.api_version)
        yield SimulatedWorkload(
            table=table,
            ref=ref,
            uid=make_uid(ref.api_version, ref),
            replicas=table.replicas,
            pod_labels={**table.labels, "app": name},
            containers=containers,
            need=need,
            cpu=cpu,
            most_cpu=_most_cpu(table),
            memory=_memory(table, containers),
            parts=tuple((part.name, part.share / shares) for part in table.parts()),
            series=series,
        )


def need_of(containers: Iterable[Container]) -> Need:
    """The room for a pod of these containers."""
    asked = [container.requests for container in containers]
    return sum(milli(one["cpu"]) for one in asked), sum(ceil(one["memory"]) for one in asked)


def _no_demand(_t: float) -> float:
    return 0.0


def _most_cpu(table: WorkloadTable) -> float:
    if table.cpu_limit is None:
        return inf
    return amount("cpu_limit", table.cpu_limit) * table.max_utilisation


def _memory(table: WorkloadTable, containers: Iterable[Container]) -> float:
    if table.memory_per_pod is None:
        return sum(container.requests["memory"] for container in containers)
    return amount("memory_per_pod", table.memory_per_pod)


def _container(table: WorkloadTable, part: ContainerTable) -> Container:
    cpu = amount("cpu", table.cpu if part.cpu is None else part.cpu)
    memory = amount("memory", table.memory if part.memory is None else part.memory)
    return Container(part.name, {"cpu": cpu, "memory": memory})


def _spare_first(pod: SimulatedPod) -> tuple[bool, bool, bool, int, float, int]:
    """A ReplicaSet's order (unbound, pending, unready, cheapest, shortest ready, newest), without its count by node."""
    cost = int(pod.annotations.get(COST, "0"))
    return (pod.node != "", pod.running, pod.ready is True, cost, -pod.ready_changed, -pod.serial)
