"""What can be read of a cluster's metrics, by who must not act on it.

Knows questions and what an answer looks like; knows nothing of who asks.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from msgspec import Struct

from elasticd.model.workload import Readings

Part = Literal["all", "usage", "node"]
"""How much of a kubelet's figures: all, only cpu and memory (of pods and node), or only those of the node."""


class MetricQuery(Struct, frozen=True):
    """A question to one of the cluster's aggregated metrics APIs, and the series that its answer becomes.

    Of an `object` (apiVersion, kind, name), or if `external`, the answer is about the `workload` (NAMESPACE/KIND/NAME);
    otherwise it is about each pod of the namespace. `selector` chooses among the metric's own labels.
    """

    series: str
    metric: str
    namespace: str
    selector: str = ""
    external: bool = False
    object: tuple[str, str, str] | None = None
    workload: str = ""


class Pull(Struct, frozen=True, gc=False):
    """An image that a node pulled: when that ended, how many seconds it took, and its bytes, None where untold.

    The same pull may be told twice, under the same `key`.
    """

    key: str
    node: str
    at: float
    seconds: float
    size: int | None = None


class Followed(Protocol):
    """Something that is followed."""

    @property
    def problem(self) -> str:
        """What is wrong with following it, in one line; empty when nothing is."""


class MetricsApi(Protocol):
    """What may be read of a cluster by who must not act."""

    async def usage(self, now: float) -> Readings:
        """The cluster's resource metrics: series cpu (cores) and memory (bytes) of every pod.

        Trouble is told in `Readings.error`, never raised.
        """

    async def node_usage(self, now: float) -> Readings:
        """The same of every node, in `Readings.nodes`. Trouble is told in `Readings.error`, never raised."""

    async def metrics(self, queries: Sequence[MetricQuery], now: float) -> Readings:
        """The answers of the aggregated metrics APIs, custom.metrics.k8s.io and external.metrics.k8s.io.

        A query that fails is told in `Readings.faults` and harms only its series; when all fail there is also an error.
        """

    async def summary(self, node: str, now: float, part: Part, within: float) -> Readings:
        """What a node's kubelet itself says, within so many seconds: series cpu (cores) and memory (bytes) of its pods
        and of the node, and of the node too (bytes) network_receive_bytes and network_transmit_bytes, which only grow,
        filesystem_used_bytes, filesystem_available_bytes and filesystem_capacity_bytes.

        Trouble is told in `Readings.error`, never raised.
        """

    def pulls(self, take: Callable[[Pull], None]) -> AbstractAsyncContextManager[Followed]:
        """Tell of every image that nodes pull, and of those of late, for as long as the context lasts."""


class MetricsReader:
    """A cluster's metrics and nothing else of it, so that a source holds nothing that can act."""

    __slots__ = ("metrics", "node_usage", "pulls", "summary", "usage")

    def __init__(self, cluster: MetricsApi) -> None:
        self.usage, self.node_usage, self.metrics = cluster.usage, cluster.node_usage, cluster.metrics
        self.summary, self.pulls = cluster.summary, cluster.pulls
