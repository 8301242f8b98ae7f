"""The nouns of moving pods: what a strategy wants moved, what it may remember, and what is decided."""

from collections.abc import Mapping
from typing import Literal, Protocol

from msgspec import Struct

from elasticd.model.actions import Evict
from elasticd.model.placement import Column, Mask, Places
from elasticd.model.workload import Failure, Pod, Ref

NOT_WANTED, GONE = "NotWanted", "Gone"
"""Why a move is over: the pod need not go any more, or has left its node."""

LEAVING = "Leaving"
"""Why a pod is not told to go: it is going."""

TAKEN_BACK = "TakenBack"
"""Why a pod stays of which a move was begun: nothing came of it."""

How = Literal["reschedule", "release", "kill"]

Stand = Literal["gives", "high", "takes", "level", "unknown"]
"""gives: pods are to leave it; high: it has too much, and nobody leaves yet; takes: pods may come; level: neither;
unknown: what it uses is not known, so that nobody leaves and nobody comes."""


class Fits(Protocol):
    """A rule about nodes' use. Pure, as the strategy that names it."""

    def __call__(self, used: Mapping[str, Column], places: Places) -> Mask:
        """Which of these nodes may take a pod; `used` is what each would use with it there, by series."""


class Move(Struct, frozen=True, gc=False):
    """A pod that should leave its node, and why. It must be worth it: its `benefit` against its `disruption`, in one
    unit; both 0: it must go, whatever it costs.

    reschedule: it shall run elsewhere, and stays until there is a place; release: it leaves at once and waits in the
    queue, wherever there is a place; kill: it shall end, and its controller, if it has one, may make another.
    `not_to` are nodes that it should not go to, by name. `use` is what it uses, by series; with `fits` it goes only to
    nodes that can take that, after those that were moved there before it.

    A strategy may name more pods than a node must give up, for not all of them will find a place: `relief` is what a
    pod takes of each thing that the node has too much of, as parts of that. When those that go come to 1 in each, the
    rest of that node's is left where it is, and nothing is told of it.

    With `waits`, a sentence, it is not moved yet: the strategy still wants it moved and says why it is not time.
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
    """Where a node, by name, stands for who moves pods: for people to read. `resources` are those that it has too much
    of, or, where it takes pods, those of which it can take more; empty: it is not about single ones. The message says
    by how much, and, where nobody leaves yet, why."""

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
    them had come there after the first, as another scheduler may put them back."""

    first: float
    last: float
    count: int = 0


class PoolPast(Struct, frozen=True, eq=False):
    """What is remembered of a pool. `looks` are the newest last, as many as strategies ask for (`looks_back`); `moved`
    are the moves of the last hour; `labelled` is when each node was last seen to change its labels, or to come; a node
    that has not since the daemon began has that time; `refused` are the pods (their UIDs) that were last told to go and
    not let through; `comebacks` are by `whose` and node.
    """

    looks: tuple[Look, ...] = ()
    moved: tuple[Moved, ...] = ()
    labelled: Mapping[str, float] = {}
    refused: frozenset[str] = frozenset()
    comebacks: Mapping[tuple[str, str], Comebacks] = {}


class Underway(Struct, frozen=True, gc=False):
    """A move in flight, as it is found in the cluster: of a pod made anew under its name, by making another first
    (surge), or of one that was evicted and takes its time to end. `step` is how far it is, `since` when it got there,
    `fault` what keeps it there. `stays`: the pod does not leave its node after all, what was begun is taken back.
    `why` is the reason of its eviction, as far as it is known. `ends`: another was made first, and the pod takes its
    time to end."""

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


def whose(pod: Pod) -> str:
    """The key under which the move of a pod is remembered: its controller, as what takes its place is another pod."""
    return pod.owner[2] or f"{pod.namespace}/{pod.name}"


class MoveDecision(Struct, frozen=True, gc=False, tag="moving"):
    """What was decided about a pod that a strategy wants moved: move it, or (refuse) why not; (over) it is wanted no
    longer, or the pod has left its node.

    `node` is where it is, `target` where it is thought to go; who places it decides that. One with `failures` is about
    no pod, and says which strategies could not tell what they want.
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
    """What came of one look at a pool: what was decided about each pod that a strategy wants moved, in that order;
    where nodes stand, the most loaded first, as far as a strategy says so; and which plugins failed."""

    decisions: tuple[MoveDecision, ...] = ()
    levels: tuple[NodeLevel, ...] = ()
    failures: tuple[Failure, ...] = ()
