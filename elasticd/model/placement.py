"""Data types for placing pods: the observation of a pool, the answers of plugins, and the decision about a pod.

Frozen records, and the view of nodes that plugins get. A Mask or a Column has one value for each node of the view,
in its order. Knows nothing of how nodes are watched or pods bound.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Literal, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from elasticd.model.actions import Bind, BindClaim, Evict, Nominate, Result
from elasticd.model.disruption import DisruptionState
from elasticd.model.pod_spec import PodPreference, PodTerm
from elasticd.model.volumes import Volumes
from elasticd.model.workload import Failure, Node, Pod, Ref

Mask = NDArray[np.bool_]
Column = NDArray[np.float64]
Whole = NDArray[np.int64]
Places = slice | NDArray[np.intp]
"""Indices of nodes, for a mask or column."""


class Nodes(Protocol):
    """The nodes of a pool at one moment of a plan, as columns. Arrays are read-only and valid until the next call of a
    hook; they count the pods that the plan has placed so far.

    Amounts are integers: millicores for cpu, base units (bytes) for all else, as in kube-scheduler.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes' names, in the order of all columns, which is alphabetical."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The records, in the same order."""

    @property
    def outside(self) -> "Nodes | None":
        """The cluster's other nodes, with their pods: no pod of the pool goes there, but those that are there count for
        spread constraints, affinity, and claims that only one pod may use. None: the pool has all nodes."""

    def index(self, name: str) -> int | None:
        """The index of a node in all columns; None: it is none of these."""

    def allocatable(self, resource: str) -> Whole:
        """The allocatable amount of a resource on each node, 0 if it has none; of `pods`, their maximum number."""

    def requested(self, resource: str) -> Whole:
        """What the pods on each node, and those planned for it, request; of `pods`, their number."""

    def weighed(self, resource: str) -> Whole:
        """What the pods on each node request, for comparing nodes as kube-scheduler's scores do: a pod that requests no
        cpu, or no memory, counts as 100m, or 200 MiB."""

    def use(self, series: str) -> Column:
        """The usage of each node, by a series of nodes (cpu in cores, memory in bytes, others in their units), with
        what pods too new to be measured are estimated to add. NaN: not known."""

    def measured(self, series: str) -> Column:
        """The last measured usage of each node, without any estimate. NaN: unknown."""

    def peak(self, series: str) -> Column:
        """The peak usage of each node within the policy's `peak_window`. NaN: unknown."""

    def matching(self, key: Hashable, test: Callable[[Node], bool]) -> Mask:
        """The nodes whose record passes a test. The result is cached by key while the nodes do not change, so equal
        keys must mean equal tests."""

    def pods(self, index: int) -> Sequence[Pod]:
        """The pods on a node, including terminating ones, and those planned for it."""

    def siblings(self, controller: str) -> int:
        """How many pods of a controller (its UID) on these nodes are ready and stay, before this plan."""

    def holding(self, key: Hashable, test: Callable[[Pod], bool]) -> Mask:
        """The nodes with a pod that passes the test. Only pods with host ports, disks, claims or anti-affinity are
        tested."""

    def claiming(self, index: int) -> Sequence[Pod]:
        """The pods on a node that use persistent volume claims, including terminating ones, and those planned for
        it."""

    @property
    def volumes(self) -> Volumes | None:
        """Claims and volumes, with what the plan has decided about them; None: no pod in this plan has claims."""

    def repels(self) -> Collection[tuple[str, PodTerm]]:
        """The required anti-affinity of pods on the nodes, and on those outside: each term, with the namespace of its
        pods, in any order; the same collection while nothing changed. It may still contain terms of pods that have
        left."""

    def attracts(self) -> Collection[tuple[str, PodTerm]]:
        """The same for their required affinity."""

    def prefers(self) -> Collection[tuple[str, PodPreference]]:
        """The same for what they prefer."""

    def total(self, key: Hashable, weigh: Callable[[Pod], int], namespaces: Collection[str] | None = None) -> Whole:
        """For each node, the sum of what its pods weigh: those of these namespaces, or of all. `weigh` is called once
        for pods that have the same namespace, labels, needs and controller and are, or are not, being deleted. The
        result is cached by key and follows the plan, so equal keys must mean equal weights."""

    def namespace(self, name: str) -> Mapping[str, str] | None:
        """The labels of a namespace; None: they are not known."""


class Mend(Struct, frozen=True, eq=False):
    """What would have to change, in a clause. `{}` in it stands for an amount of a `resource`, which is `most` on each
    node, an integer as in `needed`; if it is less than `least`, no amount suffices."""

    text: str
    resource: str = ""
    most: Whole | None = None
    least: int = 0


class Refusal(Struct, frozen=True, eq=False):
    """Nodes that cannot take a pod, and why, in a few words. `curable`: evictions there would help. `yields`: it does
    not apply to nodes that the pod is bound to."""

    reason: str
    nodes: Mask
    curable: bool = False
    yields: bool = False
    mends: tuple[Mend, ...] = ()
    """Changes that would let these nodes take the pod, each sufficient alone; none if no single change suffices, or
    only pods are in the way."""
    missing: Mapping[str, Whole] = {}
    """How much of a resource each node lacks for the pod, if that does not follow from requests alone: integers, as in
    `needed`, 0 or less if it has enough."""


Full = Literal["any", "wait", "preempt", "preempt_or_any"]
FORCED = ("preempt", "preempt_or_any")


class Selection(Struct, frozen=True, eq=False):
    """The nodes that a pod is bound to, and what happens if none matches, or none of those has room.

    any: the pod may go to any node; wait: it stays pending; preempt: pods are evicted for it; preempt_or_any: the same,
    and if none can be evicted it may go to any node. A `fault` is why the rule is invalid: then the pod waits.
    """

    nodes: Mask
    why: str
    unmatched: Literal["any", "wait"] = "wait"
    full: Full = "wait"
    fault: str = ""
    match: str = ""
    """The part of `why` that a node would have to match, if not all of it."""


class Scores(Struct, frozen=True, eq=False):
    """The score of each node for a pod, the highest is best, NaN if unknown; it is multiplied by `weight`."""

    values: Column
    weight: float = 1.0


class Candidate(Struct, frozen=True, eq=False):
    """A pod to be placed with others, and the nodes that may take it now."""

    pod: Pod
    nodes: Mask


class Placement(Struct, frozen=True, gc=False):
    """A place for a pod: its index among the candidates, the node's index, and the score."""

    pod: int
    node: int
    score: float = 0.0


class Victims(Struct, frozen=True, gc=False):
    """Pods of a node to evict, in order. The node with the lowest `cost` is chosen, compared as a tuple; on a tie, the
    one with the best score. The first without a cost is chosen at once. Without pods: terminating pods free enough
    room, and the pod waits for that node."""

    pods: tuple[Pod, ...]
    cost: tuple[float, ...] = ()
    why: str = ""


class Spared(Struct, frozen=True, gc=False):
    """Why no pod of a node can be evicted, in a clause that follows "on this node"; nodes with the same reason are
    counted together. `mends`: changes that would allow it, each a clause, each sufficient alone."""

    why: str
    mends: tuple[str, ...] = ()


class Turn(Struct, frozen=True, gc=False):
    """A pod in the eviction order of a node. `stays` is one word for what protects it now, and `why` a sentence; empty:
    nothing does."""

    pod: Pod
    stays: str = ""
    why: str = ""


class EvictionOrder(Struct, frozen=True, gc=False):
    """The pods of a node in the order in which they would be evicted, including those that are protected now; and the
    rule, in a clause."""

    turns: tuple[Turn, ...]
    rule: str = ""


class DisruptionBudget(Struct, frozen=True, gc=False):
    """A PodDisruptionBudget: the pods whose eviction it may deny, by UID, and how many of those may be disrupted now.
    `pods` excludes those that have not started, and those that are not ready if its unhealthyPodEvictionPolicy allows
    their eviction. Or something else that protects a pod like a budget: then `why` is what follows "it was", such as
    "not let go when last tried", and `mend` what would have to change."""

    namespace: str
    name: str
    pods: frozenset[str]
    allowed: int
    why: str = ""
    mend: str = ""


class PoolObservation(Struct, frozen=True, gc=False):
    """What is known about a pool at one time, without its nodes. `pending` are the pods to place. `use` is the trusted
    usage of pods, by series and then by "namespace/name". `confirmed` is when the cluster last proved it current."""

    at: float
    pending: tuple[Pod, ...] = ()
    use: Mapping[str, Mapping[str, float]] = {}
    budgets: tuple[DisruptionBudget, ...] = ()
    confirmed: float = 0.0
    gave_way: Mapping[str, int] = {}
    """How many pods have been evicted for a pending one, by its UID."""
    moved: Mapping[str, float] = {}
    """When the pod that a pending one replaces was evicted, by the pending one's UID."""
    returned: Mapping[str, float] = {}
    """When a pending pod last found no place, by its UID."""
    budgets_known: bool = True
    """If they are unknown, nothing is evicted."""
    disruption: DisruptionState = DisruptionState()
    """What elasticd's own budgets allow."""
    kept_since: Mapping[str, float] = {}
    """Since when the place of a pending pod has been kept until its claims are bound, by its UID."""


class NodeScore(Struct, frozen=True, gc=False):
    """A node's total score for a pod, and the score by each strategy, by name; None: unknown."""

    node: str
    total: float | None
    parts: dict[str, float | None] = {}


PodVerdict = Literal["bind", "preempt", "wait", "leave"]


class PodDecision(Struct, frozen=True, gc=False, tag="placing"):
    """The decision about one pod, with everything it was based on.

    `verdict` is bind (to `node`), preempt (others on `node` are evicted first), wait (nothing is done, see `reason`) or
    leave (the pod needs a feature that elasticd does not support). `refusals` count the nodes by reason, of `nodes` in
    all. `scores` are the best nodes, best first.
    """

    id: str
    at: float
    policy: str
    pod: Ref
    mode: Literal["act", "observe"]
    verdict: PodVerdict
    reason: str
    message: str = ""
    uid: str = ""
    node: str = ""
    nodes: int = 0
    refusals: dict[str, int] = {}
    binding: str = ""
    mend: str = ""
    """What would have to change for it to get a node."""
    scores: tuple[NodeScore, ...] = ()
    actions: tuple[Bind | BindClaim | Evict | Nominate, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def acts(self) -> bool:
        """Whether it leads to an action, so that its outcome matters."""
        return self.verdict in ("bind", "preempt") and self.mode == "act"


class PodOutcome(Struct, frozen=True, gc=False, tag="placed"):
    """What came of one action for a pod: see Outcome. `about` is the pod it was done to, a victim for an eviction."""

    decision: str
    at: float
    policy: str
    pod: Ref
    about: Ref
    action: Literal["bind", "claim", "evict", "nominate", "surge"]
    node: str
    result: Result
    code: int = 0
    message: str = ""
    reason: str = ""
    seconds: float = 0.0
