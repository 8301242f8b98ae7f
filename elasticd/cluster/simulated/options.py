"""The tables of a simulated cluster's TOML: nodes, workloads, what their pods ask of nodes, budgets and the metrics.

Knows options, their defaults and bounds; knows nothing of what the simulation does with them.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, TypeVar

from msgspec import Meta, Struct, convert, field

from elasticd.base.units import parse_quantity
from elasticd.cluster.simulated.demand import Demand
from elasticd.model.pod_spec import (
    Disk,
    Expression,
    Needs,
    PodTerm,
    Port,
    Restart,
    Taint,
    Term,
    Toleration,
    TopologySpread,
)

Quantity = str | float
"""A Kubernetes quantity such as "250m" or "16Gi", or a plain number of cores or bytes."""

Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")]
MOST = 100_000
"""Things that are alike, or pods of one workload: more than a cluster has, and as many as a simulation can hold."""

Number = Annotated[int, Meta(ge=1, le=MOST)]
Delay = Annotated[float, Meta(ge=0, le=86400, description="seconds")]
Moment = Annotated[float, Meta(ge=0, description="seconds since the start")]


def amount(key: str, quantity: Quantity) -> float:
    """A quantity in its base unit. Raises ValueError naming the key unless it is finite and >= 0."""
    try:
        value = parse_quantity(quantity) if isinstance(quantity, str) else quantity
    except ValueError as problem:
        raise ValueError(f"{key}: {problem}") from None
    if not 0 <= value < math.inf:
        raise ValueError(f"{key}: must be finite and >= 0, is {quantity}")
    return value


def check_amounts(table: Struct, *keys: str) -> None:
    """Raises ValueError naming the first of these keys that has a quantity which is not finite and >= 0."""
    for key in keys:
        if isinstance(quantity := getattr(table, key), str | float | int):
            amount(key, quantity)


def further(resources: Mapping[str, Quantity]) -> dict[str, float]:
    """Amounts of resources other than those that have keys of their own. Raises ValueError naming the key."""
    for name in ("cpu", "memory", "pods"):
        if name in resources:
            raise ValueError(f"resources: must not have {name}, which has a key of its own")
    return {name: amount(f"resources.{name}", quantity) for name, quantity in resources.items()}


def check_unique(key: str, names: Iterable[tuple[int, str]]) -> None:
    """Raises ValueError naming the first entry, by its index, whose name was given before."""
    names_so_far: set[str] = set()
    for index, name in names:
        if name in names_so_far:
            raise ValueError(f"{key}[{index}].name: must be given once, is {name} again")
        names_so_far.add(name)


def check_names(table: Struct, key: str) -> None:
    """Raises ValueError where two entries of this key have the same name."""
    check_unique(key, ((index, repr(entry.name)) for index, entry in enumerate(getattr(table, key))))


class CountedTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One or, with a count, several alike: NAME, or NAME-1 to NAME-count."""

    name: Name
    count: Number = 1

    def names(self) -> list[str]:
        return [self.name] if self.count == 1 else [f"{self.name}-{i}" for i in range(1, self.count + 1)]


OWN = "default-scheduler"
"""The name of the simulation's own scheduler. It leaves all other pods pending until somebody binds them."""

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

T = TypeVar("T")


def plain(table: object, kind: type[T]) -> T:
    """The record of the model that a table stands for."""
    return convert(table, kind, from_attributes=True)


class TaintTable(Taint, frozen=True, forbid_unknown_fields=True):
    """A taint of a node."""

    def __post_init__(self) -> None:
        if not self.key:
            raise ValueError("key: must not be empty, is")


class TolerationTable(Toleration, frozen=True, forbid_unknown_fields=True):
    """A taint that pods put up with."""

    def __post_init__(self) -> None:
        if not self.key and self.operator != "Exists":
            raise ValueError('operator: must be Exists without a key, is "Equal"')
        if self.value and self.operator == "Exists":
            raise ValueError(f'value: must be left out with the operator Exists, is "{self.value}"')
        if self.effect and self.effect not in _EFFECTS:
            raise ValueError(f'effect: must be one of {", ".join(_EFFECTS)}, or left out, is "{self.effect}"')


class PortTable(Port, frozen=True, forbid_unknown_fields=True):
    """A port of the node that each pod takes."""

    def __post_init__(self) -> None:
        if not 1 <= self.number <= 65535:
            raise ValueError(f"number: must be in [1, 65535], is {self.number}")
        if self.protocol not in ("TCP", "UDP", "SCTP"):
            raise ValueError(f'protocol: must be TCP, UDP or SCTP, is "{self.protocol}"')


class DiskTable(Disk, frozen=True, forbid_unknown_fields=True):
    """A disk that each pod names."""


class ExpressionTable(Expression, frozen=True, forbid_unknown_fields=True):
    """A rule about a label."""


class TermTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Rules about a node's labels, and about its name, all of which must hold."""

    labels: tuple[ExpressionTable, ...] = ()
    fields: tuple[ExpressionTable, ...] = ()


class SpreadTable(Struct, frozen=True, forbid_unknown_fields=True):
    """How evenly pods with these labels are spread over the values of a label of nodes."""

    topology: Annotated[str, Meta(min_length=1)]
    labels: dict[str, str] = field(default_factory=dict)
    max_skew: Annotated[int, Meta(ge=1)] = 1
    hard: bool = True

    def spread(self) -> TopologySpread:
        """The same as the model has it."""
        return TopologySpread(self.topology, self.max_skew, _rules(self.labels), self.hard)


class PodTermTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Pods of the namespace with these labels, on nodes with the same value of a label."""

    topology: Annotated[str, Meta(min_length=1)]
    labels: dict[str, str] = field(default_factory=dict)

    def term(self) -> PodTerm:
        """The same as the model has it."""
        return PodTerm(self.topology, _rules(self.labels))


def _rules(labels: Mapping[str, str]) -> tuple[Expression, ...]:
    return tuple(Expression(key, "In", (value,)) for key, value in labels.items())


class PodTable(CountedTable, frozen=True):
    """What the pods of a table ask of nodes, beside cpu and memory."""

    scheduler: Annotated[
        str, Meta(min_length=1, description="default-scheduler is the simulation's own; other pods wait to be bound")
    ] = OWN
    restart_policy: Restart = "Always"
    priority: Annotated[int, Meta(ge=-(2**31), le=2_000_001_000)] = 0
    priority_class: str = ""
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"
    node_selector: dict[str, str] = field(default_factory=dict)
    node_affinity: Annotated[
        tuple[TermTable, ...] | None, Meta(description="required terms, of which one must hold")
    ] = None
    topology_spread: Annotated[
        tuple[SpreadTable, ...], Meta(description="for other schedulers: the simulation's own ignores it")
    ] = ()
    pod_affinity: Annotated[tuple[PodTermTable, ...], Meta(description="required, for other schedulers")] = ()
    pod_anti_affinity: Annotated[tuple[PodTermTable, ...], Meta(description="required, for other schedulers")] = ()
    tolerations: tuple[TolerationTable, ...] = ()
    ports: tuple[PortTable, ...] = ()
    disks: tuple[DiskTable, ...] = ()
    annotations: Annotated[dict[str, str], Meta(description="of each pod")] = field(default_factory=dict)
    resources: Annotated[
        dict[str, Quantity], Meta(description="what each pod requests beside cpu and memory, such as ephemeral-storage")
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        further(self.resources)

    def needs(self, requests: Mapping[str, float], grace: float) -> Needs:
        """The same as the model has it. `grace`: seconds that its pods take to stop."""
        affinity = self.node_affinity
        return Needs(
            scheduler=self.scheduler,
            restart=self.restart_policy,
            priority=self.priority,
            priority_class=self.priority_class,
            preempts=self.preemption_policy != "Never",
            requests=dict(requests),
            selector=self.node_selector,
            affinity=None if affinity is None else plain(affinity, tuple[Term, ...]),
            spread=tuple(each.spread() for each in self.topology_spread),
            attracts=tuple(each.term() for each in self.pod_affinity),
            repels=tuple(each.term() for each in self.pod_anti_affinity),
            tolerations=plain(self.tolerations, tuple[Toleration, ...]),
            ports=plain(self.ports, tuple[Port, ...]),
            disks=plain(self.disks, tuple[Disk, ...]),
            grace=max(30.0, grace),
        )


HOSTNAME = "kubernetes.io/hostname"
"""The label that every node has: its name."""


class NodeChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of nodes at a time; what is left out stays as it is.

    A node that is not `ready` answers nobody: its pods are no longer ready, and none of them starts, ends or is gone
    before it is ready again, or has `gone` itself for as long as the API server's garbage collector waits.
    """

    at: Moment
    labels: Annotated[dict[str, str], Meta(description="that it is given, beside those it has")] = {}
    unlabel: Annotated[tuple[str, ...], Meta(description="labels that it loses")] = ()
    taints: Annotated[tuple[TaintTable, ...] | None, Meta(description="that it has from then on")] = None
    unschedulable: bool | None = None
    ready: bool | None = None
    gone: bool | None = None


class NodeSeriesTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A further series of nodes, such as image_pull_rate, each node having the whole of it."""

    name: Annotated[str, Meta(min_length=1)]
    demand: Demand

    def __post_init__(self) -> None:
        if self.name in ("cpu", "memory"):
            raise ValueError(f"name: must not be cpu or memory, see {self.name}_used, is {self.name}")


class NodeTable(CountedTable, frozen=True):
    """Identical nodes: their allocatable resources, their usage outside of pods, and their changes.

    `cpu_used` and `memory_used` are by processes outside of pods, on each node; no room is allocated to them.
    """

    cpu: Quantity
    memory: Quantity
    pods: Number = 110
    resources: Annotated[
        dict[str, Quantity], Meta(description="what it has beside cpu and memory, such as ephemeral-storage")
    ] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[TaintTable, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    cpu_used: Quantity | Demand = 0.0
    memory_used: Quantity | Demand = 0.0
    series: tuple[NodeSeriesTable, ...] = ()
    changes: tuple[NodeChange, ...] = ()

    def __post_init__(self) -> None:
        for key in ("cpu", "memory"):
            if amount(key, quantity := getattr(self, key)) == 0:
                raise ValueError(f"{key}: must be > 0, is {quantity}")
        further(self.resources)
        check_amounts(self, "cpu_used", "memory_used")
        check_names(self, "series")


class ContainerTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A container of every pod: its requests (else the workload's) and its share of the pod's usage."""

    name: Name
    cpu: Quantity | None = None
    memory: Quantity | None = None
    share: Annotated[float, Meta(gt=0, le=1e9)] = 1.0

    def __post_init__(self) -> None:
        check_amounts(self, "cpu", "memory")


class SimulatedSeries(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A further series: one value for the workload, or divided equally over its ready pods."""

    name: Annotated[str, Meta(min_length=1)]
    demand: Demand
    per: Literal["pod", "workload"] = "workload"

    def __post_init__(self) -> None:
        if self.name in ("cpu", "memory"):
            raise ValueError(f"name: must not be cpu or memory, which every pod has, is {self.name}")


_ALWAYS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController")


class ServiceTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests over HTTP that make up the demand: each takes `seconds` of a core. A pod works on `workers` of them at a
    time, by default on one for each of its cores; at most `queue` wait for each pod, and none longer than `timeout`."""

    seconds: Annotated[float, Meta(gt=0, le=3600, description="seconds")]
    workers: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    queue: Annotated[int, Meta(ge=0, le=1_000_000)] = 100
    timeout: Annotated[float, Meta(gt=0, le=1000, description="seconds")] = 10.0


class WorkloadTable(PodTable, frozen=True):
    """Workloads that are alike: what their pods request, how long they take, and what is demanded of them.

    `demand` is in cores for the whole workload; its ready pods share it equally, each up to `max_utilisation`
    of `cpu_limit` when there is one, and what is beyond that is not served. A StatefulSet numbers its pods
    from 0 and starts and stops them in parallel; every other kind behaves as a Deployment. Further `resources` are
    requested by the first container.

    With `bare` there is no workload, only pods that nobody makes anew: `replicas` of them, NAME or NAME-1 to
    NAME-replicas. The first comes `at` seconds after the start, the others `every` so many after that; each runs for
    `run_seconds` and is gone then, or runs for ever.
    """

    namespace: Name = "default"
    kind: Annotated[str, Meta(min_length=1)] = "Deployment"
    api_version: Annotated[str, Meta(min_length=1)] = "apps/v1"
    replicas: Annotated[int, Meta(ge=0, le=MOST)] = 1
    labels: dict[str, str] = field(default_factory=dict)
    cpu: Quantity = "200m"
    memory: Quantity = "256Mi"
    containers: tuple[ContainerTable, ...] = ()
    cpu_limit: Quantity | None = None
    max_utilisation: Annotated[float, Meta(gt=0, le=1)] = 1.0
    start_seconds: Delay = 5.0
    ready_seconds: Delay = 0.0
    min_ready_seconds: Delay = 0.0
    stop_seconds: Delay = 0.0
    started: bool = False
    demand: Demand | None = None
    memory_per_pod: Quantity | None = None
    service: ServiceTable | None = None
    series: tuple[SimulatedSeries, ...] = ()
    bare: bool = False
    at: Moment = 0.0
    every: Delay = 0.0
    run_seconds: Delay | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_amounts(self, "cpu", "memory", "cpu_limit", "memory_per_pod")
        check_names(self, "containers")
        check_names(self, "series")
        if self.service and self.demand is None:
            raise ValueError("demand: must be given for a service, is missing")
        self._check_bare()

    def _check_bare(self) -> None:
        if self.bare:
            for key, value in (("kind", "Deployment"), ("api_version", "apps/v1")):
                if (setting := getattr(self, key)) != value:
                    raise ValueError(f"{key}: must be left out for bare pods, is {setting}")
            if self.run_seconds is not None and self.restart_policy == "Always":
                raise ValueError("run_seconds: must be left out for restart_policy Always, is given")
            return
        for key, standard in (("at", 0.0), ("every", 0.0), ("run_seconds", None)):
            if (setting := getattr(self, key)) != standard:
                raise ValueError(f"{key}: must be left out for pods that are not bare, is {setting:g}")
        if self.kind in _ALWAYS and self.restart_policy != "Always":
            raise ValueError(f"restart_policy: must be Always for a {self.kind}, is {self.restart_policy}")

    def parts(self) -> tuple[ContainerTable, ...]:
        """The containers of a pod; one named after the workload when none is given."""
        return self.containers or (ContainerTable(name=self.name),)


class BudgetTable(CountedTable, frozen=True, kw_only=True):
    """A PodDisruptionBudget: of the pods that have all these labels, so many must stay ready. No labels: all pods of
    the namespace. Those that run and are not ready go as the eviction API lets them: while enough are, or always."""

    namespace: Name = "default"
    selector: dict[str, str] = field(default_factory=dict)
    min_available: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    unhealthy_pod_eviction_policy: Literal["IfHealthyBudget", "AlwaysAllow"] = "IfHealthyBudget"


class MetricsOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the cluster is measured: every `resolution` seconds since the start (metrics-server: 15).

    `window` is passed on with each sample, whose value is that instant's. `noise` is the greatest relative
    error of a sample of pods and workloads, up or down.
    """

    resolution: Annotated[float, Meta(gt=0, le=86400, description="seconds")] = 1.0
    window: Delay = 0.0
    noise: Annotated[float, Meta(ge=0, le=1)] = 0.0
