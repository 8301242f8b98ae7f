"""A cluster that exists only in memory: pods that start, run and stop, and a demand that they share.

Knows how the table [cluster] of type "simulated" becomes a cluster; knows nothing of policies or decisions.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from itertools import accumulate
from typing import Annotated, Any, NamedTuple, TypeVar

from msgspec import Meta, Struct

from elasticd.base.clock import Clock
from elasticd.cluster.simulated.cluster import SimulatedCluster
from elasticd.cluster.simulated.demand import Curve, Demand
from elasticd.cluster.simulated.jobs import JobsTable, make_job_sets
from elasticd.cluster.simulated.options import (
    HOSTNAME,
    MOST,
    BudgetTable,
    MetricsOptions,
    NodeTable,
    Quantity,
    WorkloadTable,
    amount,
    check_unique,
    further,
    plain,
)
from elasticd.cluster.simulated.pods import make_uid, make_workloads
from elasticd.cluster.simulated.samples import Loads, SimulatedUsage
from elasticd.cluster.simulated.world import World
from elasticd.model.pod_spec import Taint
from elasticd.model.workload import Node
from elasticd.ports.cluster import Cluster

T = TypeVar("T")

MOST_PODS = 1_000_000
"""Pods of all workloads at the start."""

REMEMBERED = 60.0
"""Seconds for which it is known which pods served: readings may be looked at that late."""


class Part(NamedTuple):
    """Every `parts`-th of some things, from the one of this number on, counted from 0."""

    number: int
    parts: int

    def of(self, things: Sequence[T]) -> tuple[T, ...]:
        """Those of them that are in this part."""
        return tuple(things[self.number :: self.parts])


WHOLE = Part(0, 1)


class Simulated(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="simulated", tag_field="type"):
    """The table [cluster] of elasticd.toml. Two runs with equal options and equal times are equal."""

    nodes: Annotated[tuple[NodeTable, ...], Meta(min_length=1)]
    workloads: tuple[WorkloadTable, ...] = ()
    jobs: tuple[JobsTable, ...] = ()
    budgets: tuple[BudgetTable, ...] = ()
    metrics: MetricsOptions = MetricsOptions()
    seed: int = 0

    def __post_init__(self) -> None:
        # A larger simulation would seem to hang.
        for key in ("nodes", "workloads", "jobs", "budgets"):
            _check_sum(f"{key}[%d].count", [table.count for table in getattr(self, key)], MOST)
        pods = [table.count * table.replicas for table in self.workloads]
        _check_sum("workloads[%d].replicas", pods, MOST_PODS, " pods")
        check_unique("nodes", ((i, name) for i, table in enumerate(self.nodes) for name in table.names()))
        # Pods are named after their workload, so two kinds may not share a name as they may in Kubernetes.
        for key in ("workloads", "jobs", "budgets"):
            tables = enumerate(getattr(self, key))
            check_unique(key, ((i, f"{table.namespace}/{name}") for i, table in tables for name in table.names()))
        self._check_series()
        self._check_bare()

    def open(self, clock: Clock, calls: Any = None, *, elect: bool = True) -> AbstractAsyncContextManager[Cluster]:
        """The cluster, its pods created now; it always leads. Raises ConfigError for an unreadable recording."""
        return nullcontext(self.build(clock))

    def build(self, clock: Clock, remembered: float = REMEMBERED, part: Part = WHOLE) -> SimulatedCluster:
        """The cluster as its own type, for callers that need more than the Cluster protocol. `remembered`: seconds for
        which it is known, at least, which pods served. `part`: with these of its nodes and workloads only."""
        nodes = part.of(sorted(self._nodes(), key=lambda node: node.name))
        workloads = [workload for table in self.workloads for workload in make_workloads(table)]
        start = clock.now()
        workloads += [job_set for jobs in self.jobs for job_set in make_job_sets(jobs, start, self.seed)]
        workloads = list(part.of(workloads))
        names = {node.name for node in nodes}
        changes = {name: table.changes for table in self.nodes for name in table.names() if name in names}
        loads = {
            name: node_loads
            for table in self.nodes
            for node_loads in (_loads(table),)
            for name in table.names()
            if name in names
        }
        world = World(start, nodes, workloads, max(REMEMBERED, remembered) + self.metrics.resolution, changes)
        usage = SimulatedUsage(self.metrics, self.seed, start, workloads, loads)
        return SimulatedCluster(clock, world, usage, self.budgets)

    def _nodes(self) -> Iterator[Node]:
        for table in self.nodes:
            cpu, memory = amount("cpu", table.cpu), amount("memory", table.memory)
            allocatable = {"cpu": cpu, "memory": memory, "pods": float(table.pods), **further(table.resources)}
            for name in table.names():
                yield Node(
                    name,
                    make_uid("Node", name),
                    ready=table.ready,
                    unschedulable=table.unschedulable,
                    labels={HOSTNAME: name, **table.labels},
                    allocatable=allocatable,
                    taints=plain(table.taints, tuple[Taint, ...]),
                )

    def _check_series(self) -> None:
        per: dict[str, str] = {}
        for i, workload in enumerate(self.workloads):
            for k, series in enumerate(workload.series):
                if per.setdefault(series.name, series.per) != series.per:
                    key = f"workloads[{i}].series[{k}].per"
                    raise ValueError(f"{key}: must be the same for every {series.name}, is {series.per}")
        for i, jobs in enumerate(self.jobs):
            if per.get(jobs.queue, "workload") != "workload":
                raise ValueError(f"jobs[{i}].queue: must be a series of whole workloads, is {jobs.queue}")

    def _check_bare(self) -> None:
        """Check that no single bare pod has the name of a workload's pod. Raises ValueError."""
        tables = [(i, t, name) for i, t in enumerate(self.workloads) for name in t.names()]
        alone = {(t.namespace, name) for _, t, name in tables if t.bare and t.replicas == 1}
        grouped = {(t.namespace, name) for _, t, name in tables} - alone
        for i, table, name in tables:
            stem, _, number = name.rpartition("-")
            if (table.namespace, name) in alone and number.isdecimal() and (table.namespace, stem) in grouped:
                raise ValueError(f"workloads[{i}].name: must not be that of a pod of {stem}, is {name}")


def _loads(table: NodeTable) -> Loads:
    used = {"cpu": _curve("cpu_used", table.cpu_used), "memory": _curve("memory_used", table.memory_used)}
    return {**used, **{series.name: series.demand.curve() for series in table.series}}


def _curve(key: str, used: Quantity | Demand) -> Curve:
    if isinstance(used, Demand):
        return used.curve()
    value = amount(key, used)
    return lambda _t: value


def _check_sum(key: str, counts: Iterable[int], most: int, unit: str = "") -> None:
    for index, total in enumerate(accumulate(counts)):
        if total > most:
            raise ValueError(f"{key % index}: must come to <= {most}{unit} with those before it, is {total}")
