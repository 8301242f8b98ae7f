"""The one seam between judgement and the world: what every cluster can do.

Knows the two questions that can be put to a cluster; knows nothing of who asks.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from elasticd.model.actions import Action, Answer, Evict
from elasticd.model.moves import Underway
from elasticd.model.placement import DisruptionBudget
from elasticd.model.workload import Node, Pod, Readings, Ref, Room, Workload

Kind = tuple[str, str]
"""apiVersion and kind, such as ("apps/v1", "Deployment")."""


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


class Snapshot(Protocol):
    """A consistent view. Looking things up costs no I/O and no copy of the cluster."""

    @property
    def confirmed(self) -> float:
        """When the cluster last proved current the pods that it shows (seconds since the epoch)."""

    @property
    def nodes_confirmed(self) -> float:
        """When the cluster last proved current the nodes that it shows (seconds since the epoch)."""

    def confirmed_for(self, ref: Ref) -> float:
        """When the cluster last proved current what it shows of this workload: its kind and the pods."""

    @property
    def version(self) -> int:
        """Grows whenever a workload appears, vanishes or changes its labels."""

    def workloads(self) -> Collection[Workload]:
        """All workloads of the kinds that were asked for."""

    def workload(self, ref: Ref) -> Workload | None:
        """One workload, None when the cluster has no such."""

    def pods(self, workload: Workload) -> tuple[Pod, ...]:
        """The pods its selector matches, ordered by name."""

    def selector_fault(self, workload: Workload) -> str:
        """Why its selector cannot be read, or an empty string."""

    def nodes(self) -> tuple[Node, ...]:
        """All nodes, ordered by name."""

    def rooms(self) -> tuple[Room, ...]:
        """All nodes and what the pods on them leave, ordered by name; the same tuple while nothing changed."""

    def pending(self) -> tuple[Pod, ...]:
        """The pods that are on no node and not being deleted, whoever places them, by namespace and name."""

    def on_nodes(self) -> Mapping[str, Sequence[Pod]]:
        """The pods on each node that take room there, by node's name and then by namespace and name; of a node the same
        sequence while nothing changed."""

    def budgets(self) -> tuple[DisruptionBudget, ...] | None:
        """All PodDisruptionBudgets; None: they are not known, so that no pod may be made to leave."""

    def autoscaler(self, ref: Ref) -> str:
        """Another that sets this workload's count, such as an HPA, in a few words; empty when none is known."""


class Stray(NamedTuple):
    """A pod that is seen on another node than it really is on: what it uses is measured where it `really` is, and would
    be where it is `seen`. Either may be empty: none."""

    pod: Pod
    really: str
    seen: str


@runtime_checkable
class Pretending(Protocol):
    """A snapshot of a dry run."""

    def strays(self) -> Sequence[Stray]:
        """The pods that are seen elsewhere than they are."""


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


class Cluster(MetricsApi, Protocol):
    """Somewhere workloads run: a Kubernetes API server, a simulation, or a dry run over either."""

    @property
    def leading(self) -> bool:
        """Whether this daemon may act now. Only a cluster shared by several daemons ever says no."""

    def heed(self, stir: Callable[[], None]) -> None:
        """From now on call this, at once, whenever something changes that may matter to a pending pod: one came, a node
        came or changed, a pod left. One that moves only when it is looked at need not."""

    @property
    def heeds_costs(self) -> bool:
        """Whether its controllers look at the deletion costs of pods."""

    def restoring(self) -> Sequence[Underway]:
        """The pods without a controller that have been evicted and are being made anew."""

    def problems(self) -> Mapping[Kind, str]:
        """The kinds it is kept from watching or holding, and why, in a line each; empty when all is well."""

    def describe(self) -> object:
        """What the status page shows of it: anything that JSON can hold."""

    async def observe(self, now: float, kinds: frozenset[Kind]) -> Snapshot:
        """The cluster as it is now; `kinds` are those of the workloads that policies name."""

    def refusal(self, evictions: Sequence[Evict]) -> tuple[str, str] | None:
        """Why not all of these would be let through now, one word and a sentence, as far as it is known."""

    async def act(self, action: Action) -> Answer:
        """Carry an action out, once, if what it was judged on still holds. Trouble is told in the answer."""
