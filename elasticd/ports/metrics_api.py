"""The port for reading a cluster's metrics, for code that must not act on the cluster.

Knows the shape of questions and answers; knows nothing of who asks.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from msgspec import Struct

from elasticd.model.workload import Readings

Part = Literal["all", "usage", "node"]
"""Which of a kubelet's figures: all, only cpu and memory (of pods and node), or only those of the node."""


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
    """An image that a node pulled: when that ended, how many seconds it took, and its bytes, None where not known.

    The same pull may be reported twice, under the same `key`.
    """

    key: str
    node: str
    at: float
    seconds: float
    size: int | None = None


class Followed(Protocol):
    """A stream that is being followed."""

    @property
    def problem(self) -> str:
        """Why it cannot be followed, in one line; empty: it can."""


class MetricsApi(Protocol):
    """The metrics that can be read of a cluster, without the right to act."""

    async def usage(self, now: float) -> Readings:
        """The cluster's resource metrics: series cpu (cores) and memory (bytes) of every pod.

        Trouble is in `Readings.error`, never raised.
        """

    async def node_usage(self, now: float) -> Readings:
        """The same for every node, in `Readings.nodes`. Trouble is in `Readings.error`, never raised."""

    async def metrics(self, queries: Sequence[MetricQuery], now: float) -> Readings:
        """The answers of the aggregated metrics APIs, custom.metrics.k8s.io and external.metrics.k8s.io.

        A query that fails is in `Readings.faults` and harms only its series; when all fail there is also an error.
        """

    async def summary(self, node: str, now: float, part: Part, within: float) -> Readings:
        """The summary of a node's kubelet, waiting at most `within` seconds: series cpu (cores) and memory (bytes) of
        its pods and of the node; and in bytes, of the node, network_receive_bytes and network_transmit_bytes, which
        only grow, filesystem_used_bytes, filesystem_available_bytes and filesystem_capacity_bytes.

        Trouble is in `Readings.error`, never raised.
        """

    def pulls(self, take: Callable[[Pull], None]) -> AbstractAsyncContextManager[Followed]:
        """Call `take` for every image that nodes pull, and for recent pulls, for as long as the context lasts."""


class MetricsReader:
    """A cluster's metrics and nothing else of it, so that a source holds no object that can act."""

    __slots__ = ("metrics", "node_usage", "pulls", "summary", "usage")

    def __init__(self, cluster: MetricsApi) -> None:
        self.usage, self.node_usage, self.metrics = cluster.usage, cluster.node_usage, cluster.metrics
        self.summary, self.pulls = cluster.summary, cluster.pulls
