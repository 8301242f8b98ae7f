"""Makes the simulated workloads that a table stands for.

Knows how options become amounts, curves and containers; knows nothing of what becomes of pods.
"""

from collections.abc import Iterable, Mapping
from math import inf

from elasticd.cluster.simulated.bare import BARE, Bare
from elasticd.cluster.simulated.nodes import claim_of
from elasticd.cluster.simulated.options import ContainerTable, WorkloadTable
from elasticd.cluster.simulated.pods import SimulatedWorkload, make_uid, need_of, requests_of
from elasticd.cluster.simulated.tables import amount, further
from elasticd.model.workload import Container, Ref


def make_workloads(table: WorkloadTable) -> Iterable[SimulatedWorkload]:
    """The workloads of one table. They share curves, so that equal demand is computed once."""
    cpu = table.demand.curve() if table.demand else _no_demand
    series = tuple((entry, entry.demand.curve()) for entry in table.series)
    containers = _containers(table)
    need = need_of(containers)
    claim = claim_of(table.needs(requests_of(containers), table.stop_seconds))
    shares = sum(part.share for part in table.containers) or 1.0
    for name in table.names():
        kind, workload_type = (BARE, Bare) if table.bare else ((table.api_version, table.kind), SimulatedWorkload)
        ref = Ref(table.namespace, kind[1], name, kind[0])
        yield workload_type(
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
            claim=claim,
            pod_annotations=table.annotations,
        )


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


def _containers(table: WorkloadTable) -> tuple[Container, ...]:
    """The containers of a pod. What the pod requests beside cpu and memory, the first one does."""
    first, *further_parts = table.parts()
    return (
        _container(table, first, further(table.resources)),
        *(_container(table, part, {}) for part in further_parts),
    )


def _container(table: WorkloadTable, part: ContainerTable, resources: Mapping[str, float]) -> Container:
    cpu = amount("cpu", table.cpu if part.cpu is None else part.cpu)
    memory = amount("memory", table.memory if part.memory is None else part.memory)
    return Container(part.name, {"cpu": cpu, "memory": memory, **resources})
