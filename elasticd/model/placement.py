"""The nouns of placing pods: what is known of a pool, what plugins say of its nodes, and what is decided about a pod.

Frozen records and the view of nodes that plugins are given. A Mask or a Column has one value for each node of the view,
in its order. Knows nothing of how nodes are watched or pods bound.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Literal, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from elasticd.model.actions import Bind, Evict, Nominate, Result
from elasticd.model.disruption import DisruptionState
from elasticd.model.pod_spec import Repel
from elasticd.model.workload import Failure, Node, Pod, Ref

Mask = NDArray[np.bool_]
Column = NDArray[np.float64]
Whole = NDArray[np.int64]
Places = slice | NDArray[np.intp]
"""Of which nodes: a mask or column takes it as an index."""


class Nodes(Protocol):
    """The nodes of a pool at one moment of a plan, as columns. Arrays are read-only, and good until the next question:
    what was placed before in the same plan is counted.

    Amounts are whole: thousandths of a core for cpu, ones (bytes) for all else, as kube-scheduler counts.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes' names, in the order of all columns, which is alphabetical."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The records, in the same order."""

    def allocatable(self, resource: str) -> Whole:
        """What each node has of a resource, 0 where it has none; of `pods`, how many it takes."""

    def requested(self, resource: str) -> Whole:
        """What the pods on each node request, and those promised to it; of `pods`, how many there are."""

    def weighed(self, resource: str) -> Whole:
        """What the pods on each node request, where a pod that requests no cpu, or no memory, counts as one of 100m, or
        of 200 MiB: for comparing nodes, as kube-scheduler's scores have it."""

    def use(self, series: str) -> Column:
        """What each node really uses, by a series of nodes (cpu in cores, memory in bytes, others in their units), with
        what pods too new to be measured are estimated to add. NaN: not known."""

    def measured(self, series: str) -> Column:
        """What each node was last measured to use, whatever was bound or placed since. NaN: not known."""

    def peak(self, series: str) -> Column:
        """The most that each node used within the policy's `peak_window`. NaN: not known."""

    def matching(self, key: Hashable, test: Callable[[Node], bool]) -> Mask:
        """The nodes for which a test of the record alone holds. Cached under the key for as long as the nodes stay as
        they are, so equal keys must mean equal tests."""

    def pods(self, index: int) -> Sequence[Pod]:
        """The pods on a node, and those promised to it; also those being deleted."""

    def siblings(self, controller: str) -> int:
        """How many pods of a controller (its UID) on these nodes are ready and stay, before this plan."""

    def holding(self, key: Hashable, test: Callable[[Pod], bool]) -> Mask:
        """Which nodes have a pod for which the test holds. Only pods that have ports or disks, or that repel others,
        are looked at."""

    def repels(self) -> Collection[tuple[str, Repel]]:
        """The rules by which pods on the nodes keep others off, each with the namespace of such pods, in any order.
        Some of them may have left since."""


class Mend(Struct, frozen=True, eq=False):
    """What would have to be otherwise, in a clause. `{}` in it stands for an amount of a `resource`, which is `most` on
    each node, as whole as `needed` has it; where it is less than `least` no amount would do."""

    text: str
    resource: str = ""
    most: Whole | None = None
    least: int = 0


class Refusal(Struct, frozen=True, eq=False):
    """Nodes that cannot take a pod, and why, in a few words. `curable`: fewer pods there would mend it.
    `yields`: it does not count on nodes that the pod is bound to."""

    reason: str
    nodes: Mask
    curable: bool = False
    yields: bool = False
    mends: tuple[Mend, ...] = ()
    """What would have to be otherwise for these nodes to take the pod, with nothing else changed, each of which would
    do; none where that is not one thing, or only pods are in the way."""
    missing: Mapping[str, Whole] = {}
    """How much of a resource each node lacks for the pod, where that is not just what the pods there request: whole
    amounts, as `needed` has them, 0 or less where it has enough."""


Full = Literal["any", "wait", "preempt", "preempt_or_any"]
FORCED = ("preempt", "preempt_or_any")


class Selection(Struct, frozen=True, eq=False):
    """The nodes that a pod is bound to, and what is done where none matches, or none of those has room.

    any: as if it were bound to none; wait: it stays pending; preempt: others give way; preempt_or_any: others give way,
    and where nobody does it goes to any. A `fault` is why the rule cannot
    be read: then the pod waits, and is told.
    """

    nodes: Mask
    why: str
    unmatched: Literal["any", "wait"] = "wait"
    full: Full = "wait"
    fault: str = ""
    match: str = ""
    """What of `why` a node would have to match, where that is not all of it."""


class Scores(Struct, frozen=True, eq=False):
    """How good each node is for a pod, the highest best, NaN where it cannot be known; what counts is `weight` times
    that."""

    values: Column
    weight: float = 1.0


class Candidate(Struct, frozen=True, eq=False):
    """A pod that is to be placed with others, and the nodes that may take it as things stand."""

    pod: Pod
    nodes: Mask


class Placement(Struct, frozen=True, gc=False):
    """Where a pod should go, by its index among the candidates and the node's index; and how good that is."""

    pod: int
    node: int
    score: float = 0.0


class Victims(Struct, frozen=True, gc=False):
    """Pods of a node that give way, in the order in which they go. Of several nodes the one with the lowest `cost` is
    taken, compared from its first number on; where equal, the one with the best score. The first without a cost is
    taken at once. Without pods: nobody has to, those that are leaving make the room, and the pod waits there."""

    pods: tuple[Pod, ...]
    cost: tuple[float, ...] = ()
    why: str = ""


class Spared(Struct, frozen=True, gc=False):
    """Nobody on a node gives way, and why, in a clause that follows "on this node"; nodes of which the same is said are
    counted together. `mends`: what would have to be otherwise for somebody to, each a clause, of which one would do."""

    why: str
    mends: tuple[str, ...] = ()


class Turn(Struct, frozen=True, gc=False):
    """A pod of a node among those that may have to give way. `stays` is one word for what keeps it from that now,
    whoever needs its room, and `why` a sentence; empty: nothing does."""

    pod: Pod
    stays: str = ""
    why: str = ""


class EvictionOrder(Struct, frozen=True, gc=False):
    """The pods of a node in the order in which they would have to give way, also those that something keeps now; and in
    a clause to whom, as "those of lower priority first"."""

    turns: tuple[Turn, ...]
    rule: str = ""


class DisruptionBudget(Struct, frozen=True, gc=False):
    """A PodDisruptionBudget: the pods about which the eviction API asks it, by UID, and how many of those may be
    disrupted now. Not among them are those that have not started, and those that are not ready where its policy lets
    such go, or as many are ready as must be. Or what keeps a pod as if it were one: then `why`, in a clause that
    follows "lesser pods", and what would have to change."""

    namespace: str
    name: str
    pods: frozenset[str]
    allowed: int
    why: str = ""
    mend: str = ""


class PoolObservation(Struct, frozen=True, gc=False):
    """What is known about a pool at one time, beside its nodes.

    `pending` are the pods to place. `use` is what pods use, by series and then by "namespace/name", of those that can
    be trusted. `confirmed` is when the cluster last proved it current.
    """

    at: float
    pending: tuple[Pod, ...] = ()
    use: Mapping[str, Mapping[str, float]] = {}
    budgets: tuple[DisruptionBudget, ...] = ()
    confirmed: float = 0.0
    gave_way: Mapping[str, int] = {}
    """How many pods have been made to give way for a pending one, by its UID."""
    moved: Mapping[str, float] = {}
    """When the pod that a pending one stands for was evicted, by the pending one's UID."""
    returned: Mapping[str, float] = {}
    """When a pending pod last found no place, by its UID."""
    budgets_known: bool = True
    """Where they are not, nobody is asked who gives way."""
    disruption: DisruptionState = DisruptionState()
    """What elasticd's own budgets allow."""


class NodeScore(Struct, frozen=True, gc=False):
    """A node that was compared with others for a pod: its total, and what each strategy gave it, by name; None: not
    known."""

    node: str
    total: float | None
    parts: dict[str, float | None] = {}


PodVerdict = Literal["bind", "preempt", "wait", "leave"]


class PodDecision(Struct, frozen=True, gc=False, tag="placing"):
    """All that went into one answer about one pod, and the answer.

    `verdict` is bind (it goes to `node`), preempt (others give way on `node` first), wait (nothing is done, see
    `reason`) or leave (elasticd does not know what it asks for). `refusals` count the nodes by reason, of `nodes` in
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
    """What would have to change for it to find a place."""
    scores: tuple[NodeScore, ...] = ()
    actions: tuple[Bind | Evict | Nominate, ...] = ()
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
    action: Literal["bind", "evict", "nominate", "surge"]
    node: str
    result: Result
    code: int = 0
    message: str = ""
    reason: str = ""
    seconds: float = 0.0
