"""The port between judgement and the world: what every cluster can do.

Knows that a cluster can be observed and acted on; knows nothing of who does.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from elasticd.model.actions import Action, Answer
from elasticd.model.disruption import DisruptionState
from elasticd.model.moves import Promise, Underway
from elasticd.model.placement import DisruptionBudget
from elasticd.model.volumes import Storage
from elasticd.model.workload import Node, Pod, Ref, Room, Workload
from elasticd.ports.metrics_api import MetricsApi

Kind = tuple[str, str]
"""apiVersion and kind, such as ("apps/v1", "Deployment")."""

RECORDS: Kind = ("v1", "ConfigMap")
"""Among the problems of a cluster: why records of evicted pods cannot be looked for."""

LEFT_ALONE: Kind = ("", "restore records")
"""Among the problems of a cluster: which records of evicted pods do not count."""

VERSIONS: Kind = ("", "resourceVersions")
"""Among the problems of a cluster: that its versions went back a while ago, as after a restore of etcd."""

OTHER_POLICIES: Kind = ("", "policies of the leader")
"""Among the problems of a cluster: that the daemon that leads has other policies than this one."""

SCALES = "scales of "
"""How the name of such a problem begins (`scales_of`)."""


def scales_of(kind: Kind) -> Kind:
    """Among the problems of a cluster: that the scale of an object of this kind cannot be read."""
    return "", f"{SCALES}{'/'.join(kind)}"


class View(NamedTuple):
    """A kind of objects that is watched. `current` is when the cluster last proved current what is known of them, or
    since when they are asked for; `problem` why they cannot be watched, in one line, or empty."""

    kind: Kind
    current: float
    problem: str = ""


class Snapshot(Protocol):
    """A consistent view of a cluster. Looking things up costs no I/O and no copy."""

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
        """All workloads of the observed kinds."""

    def workload(self, ref: Ref) -> Workload | None:
        """One workload; None where the cluster has no such."""

    def pods(self, workload: Workload) -> tuple[Pod, ...]:
        """The pods its selector matches, ordered by name."""

    def changes_since(self, earlier: "Snapshot") -> Collection[Ref] | None:
        """The workloads that, or whose pods, are other records here than in an earlier snapshot of the same cluster;
        None: any may be."""

    def selector_fault(self, workload: Workload) -> str:
        """Why its selector cannot be read, or an empty string."""

    def nodes(self) -> tuple[Node, ...]:
        """All nodes, ordered by name."""

    def rooms(self) -> tuple[Room, ...]:
        """All nodes with their free resources, ordered by name; the same tuple while nothing changed."""

    def pending(self) -> tuple[Pod, ...]:
        """The pods without a node that are not being deleted, whoever places them, by namespace and name."""

    def on_nodes(self) -> Mapping[str, Sequence[Pod]]:
        """By a node's name, the pods that take resources there, ordered by namespace and name; for a node the same
        sequence while nothing changed."""

    def budgets(self) -> tuple[DisruptionBudget, ...] | None:
        """All PodDisruptionBudgets; None: they are not known, so no pod may be evicted."""

    def namespaces(self) -> Mapping[str, Mapping[str, str]] | None:
        """The labels of each namespace, the same mapping while nothing changed; None: they are not known. They are read
        only where a pod selects others by them."""

    def storage(self) -> Storage:
        """The claims, volumes and storage classes, the same record while nothing changed. They are read from the first
        call on."""

    def autoscaler(self, ref: Ref) -> str:
        """Another controller that sets this workload's count, such as an HPA, in a few words; empty: none is known."""


class Stray(NamedTuple):
    """A pod that a dry run shows on another node than its real one. Its usage is measured on the node where it `really`
    is, and would be on the one where it is `seen`; either may be empty: no node."""

    pod: Pod
    really: str
    seen: str


@runtime_checkable
class Reviewing(Protocol):
    """A cluster that knows whose token counts."""

    async def may_read(self, token: str, path: str) -> str:
        """Why a token does not allow its holder to get a path; empty: it does."""


@runtime_checkable
class Shared(Protocol):
    """A cluster on which one of several daemons leads, which should have the same policies."""

    def note_policies(self, policies: str) -> None:
        """From now on this daemon has these policies: a digest, how many act, and how many there are."""


@runtime_checkable
class Pretending(Protocol):
    """The snapshot of a dry run."""

    def strays(self) -> Sequence[Stray]:
        """The pods that are shown on another node than their real one."""


@runtime_checkable
class OtherAutoscalers(Protocol):
    """The snapshot of a cluster that has other autoscalers, which `elasticd takeover` may have stopped."""

    def stopped_by_takeover(self) -> Collection[str]:
        """The workloads, NAMESPACE/KIND/NAME, whose autoscaler it has stopped; none while that is not known."""


@runtime_checkable
class Budgeted(Protocol):
    """A cluster that keeps elasticd's own disruption budgets."""

    def disruption(self, now: float) -> DisruptionState:
        """What the budgets allow now."""


class Cluster(MetricsApi, Protocol):
    """Somewhere workloads run: a Kubernetes API server, a simulation, or a dry run over either."""

    @property
    def leading(self) -> bool:
        """Whether this daemon may act now; False only where another of several daemons leads."""

    @property
    def taken_over(self) -> float | None:
        """When this daemon took the lead from another, which may have acted until then; -inf: from none since its
        journal began. None: nobody acted here before this process."""

    @property
    def lease(self) -> str:
        """The Lease by which the daemons of one installation know each other; empty: there is none."""

    @property
    def last_disruption(self) -> float:
        """When this daemon, or one that led before it, last made a pod go, as is written down in the cluster, or may
        have until this one took over; -inf: never, or nothing is."""

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call this back at once whenever something changes that may matter to a pending pod: one came, a node came or
        changed, a pod left. A cluster that changes only when it is observed need not."""

    @property
    def honours_deletion_costs(self) -> bool:
        """Whether its controllers respect the deletion costs of pods."""

    def restoring(self) -> Sequence[Underway]:
        """The pods without a controller that have been evicted and are being created again."""

    async def promises(self) -> Sequence[Promise]:
        """The nodes that were found for such pods, whichever daemon found them, each with the pod as it was. They are
        all that there are, as far as that can be read, also when this daemon has just begun to lead."""

    def problems(self) -> Mapping[Kind, str]:
        """By kind, why it cannot be watched or held (a lease), in a line each; empty: all is well."""

    def views(self) -> Sequence[View]:
        """What is watched, as far as it is served, or should be, and this daemon was ever allowed to read it."""

    def describe(self) -> object:
        """What the status page shows of it: anything that JSON can express."""

    async def observe(self, now: float, kinds: frozenset[Kind]) -> Snapshot:
        """The cluster as it is now; `kinds` are those of the workloads that policies name."""

    async def act(self, action: Action) -> Answer:
        """Carry an action out, once, if the state on which it was decided still holds. Trouble is in the answer."""
