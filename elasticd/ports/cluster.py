"""The one seam between judgement and the world: what every cluster can do.

Knows the two questions that can be put to a cluster; knows nothing of who asks.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from elasticd.model.actions import Action, Answer, Evict
from elasticd.model.moves import Underway
from elasticd.model.placement import DisruptionBudget
from elasticd.model.workload import Node, Pod, Ref, Room, Workload
from elasticd.ports.metrics_api import MetricsApi

Kind = tuple[str, str]
"""apiVersion and kind, such as ("apps/v1", "Deployment")."""


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


class Cluster(MetricsApi, Protocol):
    """Somewhere workloads run: a Kubernetes API server, a simulation, or a dry run over either."""

    @property
    def leading(self) -> bool:
        """Whether this daemon may act now. Only a cluster shared by several daemons ever says no."""

    def on_change(self, callback: Callable[[], None]) -> None:
        """From now on call this, at once, whenever something changes that may matter to a pending pod: one came, a node
        came or changed, a pod left. One that moves only when it is looked at need not."""

    @property
    def honours_deletion_costs(self) -> bool:
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
