"""The tables of a simulated cluster's TOML: nodes, workloads, their containers and series, and the metrics.

Knows options, their defaults and bounds; knows nothing of what the simulation does with them.
"""

import math
from typing import Annotated, Literal

from msgspec import Meta, Struct

from elasticd.cluster.simulated.demand import Demand
from elasticd.units import parse_quantity

Quantity = str | float
"""A Kubernetes quantity such as "250m" or "16Gi", or a plain number of cores or bytes."""

Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")]
Number = Annotated[int, Meta(ge=1)]
Delay = Annotated[float, Meta(ge=0, le=86400, description="seconds")]


def amount(key: str, quantity: Quantity) -> float:
    """A quantity in its base unit. Raises ValueError naming the key unless it is finite and >= 0."""
    try:
        value = parse_quantity(quantity) if isinstance(quantity, str) else quantity
    except ValueError as problem:
        raise ValueError(f"{key}: {problem}") from None
    if not 0 <= value < math.inf:
        raise ValueError(f"{key}: must be finite and >= 0, is {quantity}")
    return value


def _positive(key: str, quantity: Quantity) -> None:
    if amount(key, quantity) == 0:
        raise ValueError(f"{key}: must be > 0, is {quantity}")


class Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One or, with a count, several alike: NAME, or NAME-1 to NAME-count."""

    name: Name
    count: Number = 1

    def names(self) -> list[str]:
        """The names it stands for."""
        return [self.name] if self.count == 1 else [f"{self.name}-{i}" for i in range(1, self.count + 1)]


class NodeTable(Table, frozen=True):
    """Nodes that are alike: what they can allocate to pods."""

    cpu: Quantity
    memory: Quantity
    pods: Number = 110
    labels: dict[str, str] = {}

    def __post_init__(self) -> None:
        _positive("cpu", self.cpu)
        _positive("memory", self.memory)


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


class SeriesTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A further series: one value for the workload, or divided equally over its ready pods."""

    name: Annotated[str, Meta(min_length=1)]
    demand: Demand
    per: Literal["pod", "workload"] = "workload"

    def __post_init__(self) -> None:
        if self.name in ("cpu", "memory"):
            raise ValueError(f"name: must not be cpu or memory, which every pod has, is {self.name}")


class WorkloadTable(Table, frozen=True):
    """Workloads that are alike: what their pods request, how long they take, and what is demanded of them.

    `demand` is in cores for the whole workload; its ready pods share it equally, each up to `max_utilisation`
    of `cpu_limit` when there is one, and what is beyond that is not served. A StatefulSet numbers its pods
    from 0 and starts and stops them in parallel; every other kind behaves as a Deployment.
    """

    namespace: Name = "default"
    kind: Annotated[str, Meta(min_length=1)] = "Deployment"
    api_version: Annotated[str, Meta(min_length=1)] = "apps/v1"
    replicas: Annotated[int, Meta(ge=0)] = 1
    labels: dict[str, str] = {}
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
    series: tuple[SeriesTable, ...] = ()

    def __post_init__(self) -> None:
        for key in ("cpu", "memory", "cpu_limit", "memory_per_pod"):
            if (value := getattr(self, key)) is not None:
                amount(key, value)
        _check_unique("containers", [container.name for container in self.containers])
        _check_unique("series", [series.name for series in self.series])

    def parts(self) -> tuple[ContainerTable, ...]:
        """The containers of a pod; one named after the workload when none is given."""
        return self.containers or (ContainerTable(name=self.name),)


class Metrics(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the cluster is measured: every `resolution` seconds since the start (metrics-server: 15).

    `window` is passed on with each sample, whose value is that instant's. `noise` is the greatest relative
    error of a sample, up or down.
    """

    resolution: Annotated[float, Meta(gt=0, le=86400, description="seconds")] = 1.0
    window: Delay = 0.0
    noise: Annotated[float, Meta(ge=0, le=1)] = 0.0


def _check_unique(key: str, names: list[str]) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ValueError(f"{key}[{index}].name: must be given once, is {name!r} again")
