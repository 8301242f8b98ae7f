"""The source kubelet: the kubelets' own figures, newer than those of the metrics API.

Knows which kubelets are asked and what their answers make together; knows nothing of how they are reached.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Annotated, ClassVar

from msgspec import Meta

from elasticd.api import hookimpl
from elasticd.model.workload import Readings
from elasticd.ports.metrics_api import Part
from elasticd.ports.source import Every, Reader, SampleTable, Site, Source
from elasticd.sources.rounds import PATIENCE, Fault, Rounds, describe_silent

_USAGE = ("cpu", "memory")
_NODES = (
    "network_receive_bytes",
    "network_transmit_bytes",
    "filesystem_used_bytes",
    "filesystem_available_bytes",
    "filesystem_capacity_bytes",
)
Timeout = Annotated[float, Meta(gt=0, le=60, description="seconds that one node may take, and its last answer serves")]
AtOnce = Annotated[int, Meta(ge=1, le=1000, description="nodes asked at the same time")]


class Kubelet(Source, frozen=True, kw_only=True, tag="kubelet"):
    """What the kubelets themselves say, through the API server: newer than what the metrics API says.

    That is cpu and memory of every container of governed workloads; and of the nodes they run on cpu, memory, network
    counters and file system."""

    usual: ClassVar[float | None] = 10.0  # the kubelet's own default, --housekeeping-interval
    devices: Annotated[bool, Meta(description="also the nodes' network and file system, which costs kubelets more")] = (
        True
    )
    timeout: Timeout = 5.0
    at_once: AtOnce = 32
    every: Every = 1.0

    def offers(self) -> tuple[str, ...]:
        """The series it has: cpu and memory of pods and nodes, the others of nodes alone."""
        return (*_USAGE, *_NODES) if self.devices else _USAGE

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        async with asking(site, "all" if self.devices else "usage", self.timeout, self.at_once) as node_rounds:
            yield _Kubelets(site, node_rounds, self.label, self.offers())


def asking(site: Site, part: Part, timeout: float, at_once: int) -> AbstractAsyncContextManager[Rounds[Readings]]:
    """Rounds in which kubelets are asked. A late answer keeps its own timestamps, and ages by them."""

    async def ask(node: str) -> Readings:
        readings = await site.metrics.summary(node, site.clock.now(), part, timeout)
        if readings.error:
            raise Fault(readings.error)
        return readings

    return aclosing(Rounds(ask, site.clock, at_once, min(PATIENCE, timeout)))


class _Kubelets:
    def __init__(self, site: Site, node_rounds: Rounds[Readings], label: str, series: Sequence[str]) -> None:
        self._site, self._rounds, self._label, self._series = site, node_rounds, label, series
        self.describe = node_rounds.describe

    async def read(self, now: float) -> Readings:
        """The usage of governed pods and of their nodes; pods of a kubelet that does not answer have no sample."""
        node_of = self._nodes_of_pods()
        nodes = sorted(set(node_of.values()))
        answers, silent = await self._rounds.round(nodes, now)
        fault = describe_silent(silent, len(nodes), "nodes")
        if nodes and not answers:
            return Readings(self._label, now, error=fault)
        pods: SampleTable = {name: {} for name in _USAGE}
        parts: SampleTable = {name: {} for name in _USAGE}
        by_node: SampleTable = {name: {} for name in self._series}
        for node, readings in answers.items():
            for into, table in ((pods, readings.pods), (parts, readings.parts)):
                for name, of_pods in table.items():
                    # A pod created again under its name on another node is reported by that node's kubelet.
                    into[name].update({key: samples for key, samples in of_pods.items() if node_of.get(key) == node})
            for name, of_nodes in readings.nodes.items():
                by_node.setdefault(name, {}).update(of_nodes)
        faults = dict.fromkeys(self._series, fault) if fault else {}
        return Readings(self._label, now, pods, nodes=by_node, faults=faults, parts=parts)

    def _nodes_of_pods(self) -> Mapping[str, str]:
        """The node of each governed pod that is bound, by namespace/name."""
        snapshot, node_of = self._site.snapshot(), dict[str, str]()
        if snapshot is None:
            return node_of
        for ref in self._site.governed():
            if workload := snapshot.workload(ref):
                node_of.update((f"{pod.namespace}/{pod.name}", pod.node) for pod in snapshot.pods(workload) if pod.node)
        return node_of


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [Kubelet]
