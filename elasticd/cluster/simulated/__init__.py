"""A cluster that exists only in memory: pods that start, run and stop, and a demand that they share.

Knows how the table [cluster] of type "simulated" becomes a cluster; knows nothing of policies or decisions.
"""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Annotated, Any

from msgspec import Meta, Struct

from elasticd.clock import Clock
from elasticd.cluster import Cluster
from elasticd.cluster.simulated.cluster import SimulatedCluster
from elasticd.cluster.simulated.jobs import JobsTable, make_job_sets
from elasticd.cluster.simulated.options import Metrics, NodeTable, WorkloadTable, amount
from elasticd.cluster.simulated.pods import make_uid, make_workloads
from elasticd.cluster.simulated.samples import Usage
from elasticd.cluster.simulated.world import World
from elasticd.model import Node

REMEMBERED = 60.0
"""Seconds for which it is known which pods served: readings may be looked at that late."""


class Simulated(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="simulated", tag_field="type"):
    """The table [cluster] of elasticd.toml. Two runs with equal options and equal times are equal."""

    nodes: Annotated[tuple[NodeTable, ...], Meta(min_length=1)]
    workloads: tuple[WorkloadTable, ...] = ()
    jobs: tuple[JobsTable, ...] = ()
    metrics: Metrics = Metrics()
    seed: int = 0

    def __post_init__(self) -> None:
        _check_names("nodes", ((i, name) for i, table in enumerate(self.nodes) for name in table.names()))
        # Pods are named after their workload, so two kinds may not share a name as they may in Kubernetes.
        pairs = ((i, t.namespace, name) for i, t in enumerate(self.workloads) for name in t.names())
        _check_names("workloads", ((i, f"{namespace}/{name}") for i, namespace, name in pairs))
        sets = ((i, t.namespace, name) for i, t in enumerate(self.jobs) for name in t.names())
        _check_names("jobs", ((i, f"{namespace}/{name}") for i, namespace, name in sets))
        self._check_series()

    def open(self, clock: Clock, calls: Any = None, *, elect: bool = True) -> AbstractAsyncContextManager[Cluster]:
        """The cluster, its pods created now; it always leads. Raises ConfigError for an unreadable recording."""
        return nullcontext(self.build(clock))

    def build(self, clock: Clock) -> SimulatedCluster:
        """The cluster itself, for those who want to see more of it than a Cluster shows."""
        nodes = tuple(sorted(self._nodes(), key=lambda node: node.name))
        workloads = [workload for table in self.workloads for workload in make_workloads(table)]
        start = clock.now()
        workloads += [made for jobs in self.jobs for made in make_job_sets(jobs, start, self.seed)]
        world = World(start, nodes, workloads, REMEMBERED + self.metrics.resolution)
        return SimulatedCluster(clock, world, nodes, Usage(self.metrics, self.seed, start, workloads))

    def _nodes(self) -> Iterator[Node]:
        for table in self.nodes:
            cpu, memory = amount("cpu", table.cpu), amount("memory", table.memory)
            allocatable = {"cpu": cpu, "memory": memory, "pods": float(table.pods)}
            for name in table.names():
                yield Node(name, make_uid("Node", name), ready=True, labels=table.labels, allocatable=allocatable)

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


def _check_names(key: str, names: Iterator[tuple[int, str]]) -> None:
    seen = set()
    for index, name in names:
        if name in seen:
            raise ValueError(f"{key}[{index}].name: must be given once, is {name} again")
        seen.add(name)
