"""The cluster's own resource metrics as a source: series cpu and memory of every pod and, as an option, of every node.

Knows that a cluster can be asked for its usage; knows nothing of how the cluster comes by it.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Annotated, ClassVar

from msgspec import Meta
from msgspec.structs import replace

from elasticd.api import hookimpl
from elasticd.model.workload import Readings
from elasticd.ports.metrics_api import MetricsApi
from elasticd.ports.source import Reader, Site, Source


class ResourceMetrics(Source, frozen=True, tag="resource-metrics"):
    """The resource metrics API (metrics.k8s.io), read through the cluster's connection."""

    usual: ClassVar[float | None] = 15.0  # metrics-server's own default, --metric-resolution
    usual_series: ClassVar[tuple[str, ...] | None] = ("cpu", "memory")  # a simulated cluster may have more
    nodes: Annotated[bool, Meta(description="also ask for the cpu and memory of the nodes, in a call of its own")] = (
        False
    )

    def offers_of_nodes(self) -> tuple[str, ...] | None:
        """None of them unless they are requested."""
        return ("cpu", "memory") if self.nodes else ()

    def open(self, site: Site) -> AbstractAsyncContextManager[Reader]:
        return nullcontext(_Usage(site.metrics, self.label, nodes=self.nodes))


class _Usage:
    def __init__(self, cluster: MetricsApi, label: str, *, nodes: bool) -> None:
        self._cluster, self._label, self._nodes = cluster, label, nodes

    async def read(self, now: float) -> Readings:
        """The cluster's usage now. Pods and nodes are asked for separately: if one fails, the other remains."""
        if not self._nodes:
            usage = await self._cluster.usage(now)
            return usage if usage.source == self._label else replace(usage, source=self._label)
        pods, nodes = await asyncio.gather(self._cluster.usage(now), self._cluster.node_usage(now))
        if pods.error and nodes.error:
            return Readings(self._label, now, error=pods.error)
        failed = f"of the pods: {pods.error}" if pods.error else f"of the nodes: {nodes.error}" if nodes.error else ""
        faults = dict.fromkeys(("cpu", "memory"), failed) if failed else {}
        return replace(pods, source=self._label, nodes=nodes.nodes, error="", faults={**pods.faults, **faults})


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [ResourceMetrics]
