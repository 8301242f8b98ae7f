"""Data types for moving pods: what a strategy wants to move, its history, and the decisions."""

from collections.abc import Mapping
from typing import Literal, Protocol

from msgspec import Struct

from elasticd.model.actions import Evict
from elasticd.model.placement import Column, Mask, Places
from elasticd.model.workload import Failure, Pod, Ref

NOT_WANTED, GONE = "NotWanted", "Gone"
"""Why a move is over: the pod need not move any more, or has left its node."""

LEAVING = "Leaving"
"""Why a pod is not evicted: it is terminating."""

ENOUGH = "Enough"
"""Why a pod stays for now: others are moved before it."""

FAILING = "Failing"
"""Why a pod stays for now: its eviction failed."""

TAKEN_BACK = "TakenBack"
"""Why a pod stays although its move had begun: the move failed."""

STAYED = "Stayed"
"""Why an eviction failed: the API server said that it was done, but the pod is there as before."""

RESTORED = "elasticd.io/restored-from"
"""Annotation of a pod that elasticd created in place of one that it evicted: the UID of that one."""

STAYS = "elasticd.io/stays-since"
"""Annotation of a pod that was to be evicted, and stays: since when."""

PUT_BACK = 300.0
"""Seconds after a move in which a pod of the same controller that comes to the same node counts as put back."""

How = Literal["reschedule", "release", "kill"]

Stand = Literal["gives", "high", "takes", "level", "unknown"]
"""gives: pods should leave it; high: it is overloaded, but no pod leaves yet; takes: it may receive pods; level:
neither; unknown: its usage is unknown, so it neither gives nor takes pods."""


class Fits(Protocol):
    """A rule about the usage of nodes. Pure, like the strategy that provides it."""

    def __call__(self, used: Mapping[str, Column], places: Places) -> Mask:
        """Which of these nodes may take a pod; `used` is the usage of each with the pod there, by series."""


class Move(Struct, frozen=True, gc=False):
    """A pod that should leave its node, and why. Its `benefit` is compared with its `disruption`, in the same unit;
    both 0: it must leave at any cost.

    reschedule: it stays until another node has room; release: it is evicted at once and waits in the queue; kill: it is
    evicted, and its controller, if it has one, may create another. `not_to` are nodes that it should not go to, by
    name. `use` is its usage, by series; with `fits` it goes only to nodes that can take that, in addition to the pods
    moved there before it.

    A strategy may name more pods than a node must give up, because some may find no place: `relief` is the fraction of
    each overload that a pod removes. When the pods that move add up to 1 in each, the node's other pods stay, without
    a decision.

    With `waits`, a sentence, it is not moved yet: the strategy still wants to move it, and says what it waits for.
    """

    pod: Pod
    reason: str
    message: str = ""
    how: How = "reschedule"
    benefit: float = 0.0
    disruption: float = 0.0
    not_to: frozenset[str] = frozenset()
    use: Mapping[str, float] = {}
    fits: Fits | None = None
    relief: tuple[float, ...] = ()
    waits: str = ""


class NodeLevel(Struct, frozen=True, gc=False):
    """The state of a node, by name, for a strategy that moves pods: for people to read. `resources` are the overloaded
    ones, or, if it takes pods, those with room; empty: the state is not about single resources. The message says how
    much, and, if no pod leaves yet, why."""

    node: str
    state: Stand
    resources: tuple[str, ...] = ()
    message: str = ""


class Look(Struct, frozen=True, eq=False):
    """What nodes were measured to use at a time, by series, in the order of `names`; NaN: not known."""

    at: float
    names: tuple[str, ...]
    use: Mapping[str, Column]


class Moved(Struct, frozen=True, gc=False):
    """A pod that was moved: when, which (its controller's UID, or its own name where it has none), from which node."""

    at: float
    whose: str
    node: str


class Comebacks(Struct, frozen=True, gc=False):
    """Pods of one controller that were moved from one node: when the first and the last of them were, and how many of
    them had come there in place of others, as another scheduler may put them back."""

    first: float
    last: float
    count: int = 0

    def includes(self, pod: Pod) -> bool:
        """Whether a pod came in place of one that was moved, for sure."""
        return self.may_include(pod) and pod.created > self.first

    def may_include(self, pod: Pod) -> bool:
        """The same, or it is not known: an API server tells creation in whole seconds, and it was created in that of
        the first move."""
        return int(self.first) <= pod.created <= self.last + PUT_BACK


class Failing(Struct, frozen=True, gc=False):
    """Evictions of one pod that failed in a row: until when it is left alone, in seconds, and why the last one did."""

    until: float
    why: str


class PoolPast(Struct, frozen=True, eq=False):
    """What is remembered of a pool. `looks` are the newest last, as many as strategies ask for (`looks_back`); `moved`
    are the moves of the last hour; `rejecting` are nodes whose kubelets did not start moved pods lately; `labelled` is
    when each node was last seen to change its labels, or to come; a node that has not since the daemon began has that
    time; `refused` is when each pod (its UID) was last told to go and not let through; `comebacks` are by `whose` and
    node; `failing` are pods (their UIDs) whose evictions failed, as nobody answered or the API server was in trouble;
    `earlier_labels` are by pod (its UID): labels that its node was seen to have while the pod was there, before it got
    others. Only changes of labels that a strategy or a binding of a pod there names count, the last few, and none
    before this daemon led.
    """

    looks: tuple[Look, ...] = ()
    moved: tuple[Moved, ...] = ()
    labelled: Mapping[str, float] = {}
    refused: Mapping[str, float] = {}
    comebacks: Mapping[tuple[str, str], Comebacks] = {}
    failing: Mapping[str, Failing] = {}
    rejecting: frozenset[str] = frozenset()
    earlier_labels: Mapping[str, tuple[Mapping[str, str], ...]] = {}


class Promise(Struct, frozen=True, eq=False):
    """A node that is kept for the replacement of a moved pod. `pod` is the replacement while it waits; before it
    exists, a pod like it, which is none of the cluster's. `leaving` is the UID of the moved pod, and `left` its node;
    `use` is what it used, by series, as far as it is known."""

    pod: Pod
    node: str
    leaving: str
    left: str
    use: Mapping[str, float] = {}


NAME_TAKEN = "its name is taken"
"""How far a move is whose pod is not created, as another has its name, perhaps a newer version of it."""


class Underway(Struct, frozen=True, gc=False):
    """A move in progress, as found in the cluster: of a pod recreated under its name, by creating another first
    (surge), or of one that was evicted and takes its time to end. `step` is how far it is, `since` when it got there
    (of a surge that another daemon began, when that was), `fault` what keeps it there. `stays`: the pod does not leave
    its node after all, what was begun is taken back. `why` is the reason of its eviction, as far as it is known.
    `ends`: another was made first, and the pod takes its time to end. `over`: it was given up, the pod is not created
    again, and `step` says why."""

    pod: Ref
    uid: str
    how: Literal["anew", "surge", "evicted"]
    step: str
    since: float
    node: str = ""
    fault: str = ""
    stays: bool = False
    why: str = ""
    ends: bool = False
    over: bool = False
    rejected_by: frozenset[str] = frozenset()
    """The nodes on which a copy ended before it ran, as their kubelets would not start it."""
    copy: str = ""
    """The UID of the pod that was created in its place, while that waits for a node; empty: none does."""
    waits: str = ""
    """Why that pod has no node yet, where this daemon places it."""
    runs: bool = False
    """Whether it is there, or has run since: only the record of it stays."""


def is_copy(pod: Pod) -> bool:
    """Whether elasticd created a pod in place of an evicted one: once it has run, nothing creates it again."""
    return RESTORED in pod.annotations and not pod.owner[0]


def whose(pod: Pod) -> str:
    """The key under which the move of a pod is remembered: its controller, as what takes its place is another pod."""
    return pod.owner[2] or f"{pod.namespace}/{pod.name}"


class MoveDecision(Struct, frozen=True, gc=False, tag="moving"):
    """The decision about a pod that a strategy wants to move: move, refuse (and why), or over: the move is not wanted
    any more, or the pod has left its node.

    `node` is its present node, `target` the planned one; the scheduler makes the final choice. One with `failures` is
    about no pod, and names the strategies that failed.
    """

    id: str
    at: float
    policy: str
    pod: Ref
    mode: Literal["act", "observe"]
    verdict: Literal["move", "refuse", "over"]
    strategy: str
    reason: str
    message: str = ""
    uid: str = ""
    node: str = ""
    target: str = ""
    how: How = "reschedule"
    benefit: float = 0.0
    disruption: float = 0.0
    refusal: str = ""
    """One word for why it is left where it is."""
    action: Evict | None = None
    failures: tuple[Failure, ...] = ()

    @property
    def acts(self) -> bool:
        """Whether it leads to an action, so that its outcome matters."""
        return self.verdict == "move" and self.mode == "act"


class MovesPlan(Struct, frozen=True):
    """The result of one evaluation of a pool: the decision about each pod that a strategy wants to move, in that order;
    the levels of nodes, the most loaded first, if a strategy reports them; and the plugins that failed."""

    decisions: tuple[MoveDecision, ...] = ()
    levels: tuple[NodeLevel, ...] = ()
    failures: tuple[Failure, ...] = ()
