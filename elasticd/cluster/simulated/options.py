"""The tables of a simulated cluster's TOML: nodes, workloads, their containers and series, budgets and the metrics.

Knows options, their defaults and bounds; knows nothing of what the simulation does with them.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from elasticd.cluster.simulated.demand import Demand
from elasticd.cluster.simulated.needs import PodTable, TaintTable
from elasticd.cluster.simulated.tables import (
    MOST,
    CountedTable,
    Delay,
    Moment,
    Name,
    Number,
    Quantity,
    amount,
    check_positive,
    check_unique,
    further,
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
    """Nodes that are alike: what they can allocate to pods, what is used on them beside pods, and what becomes of them.

    `cpu_used` and `memory_used` are of what is no pod, on each node; nothing is allocated to that.
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
        check_positive("cpu", self.cpu)
        check_positive("memory", self.memory)
        further(self.resources)
        for key in ("cpu_used", "memory_used"):
            if not isinstance(used := getattr(self, key), Demand):
                amount(key, used)
        check_unique("series", [series.name for series in self.series])


class ContainerTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A container of every pod: its requests (else the workload's) and its share of the pod's usage."""

    name: Name
    cpu: Quantity | None = None
    memory: Quantity | None = None
    share: Annotated[float, Meta(gt=0, le=1e9)] = 1.0

    def __post_init__(self) -> None:
        if self.cpu is not None:
            amount("cpu", self.cpu)
        if self.memory is not None:
            amount("memory", self.memory)


class SimulatedSeries(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A further series: one value for the workload, or divided equally over its ready pods."""

    name: Annotated[str, Meta(min_length=1)]
    demand: Demand
    per: Literal["pod", "workload"] = "workload"

    def __post_init__(self) -> None:
        if self.name in ("cpu", "memory"):
            raise ValueError(f"name: must not be cpu or memory, which every pod has, is {self.name}")


_ALWAYS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController")


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
    stop_seconds: Delay = 0.0
    demand: Demand | None = None
    memory_per_pod: Quantity | None = None
    series: tuple[SimulatedSeries, ...] = ()
    bare: bool = False
    at: Moment = 0.0
    every: Delay = 0.0
    run_seconds: Delay | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("cpu", "memory", "cpu_limit", "memory_per_pod"):
            if (value := getattr(self, key)) is not None:
                amount(key, value)
        check_unique("containers", [container.name for container in self.containers])
        check_unique("series", [series.name for series in self.series])
        self._check_bare()

    def _check_bare(self) -> None:
        """Some keys are for pods without a controller, and some for those with one."""
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
