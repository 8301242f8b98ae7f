"""Data types for elasticd's own disruption budgets: which pods were evicted recently, what forbids further
evictions, and how much policies change by themselves.

Frozen records. Knows nothing of PodDisruptionBudgets, which the cluster keeps, nor of how anything is counted.
"""

from collections.abc import Mapping

from msgspec import Struct

Refused = tuple[str, str]
"""Why an action is refused: one word, and a sentence."""


class Disruption(Struct, frozen=True, gc=False, tag="disruption"):
    """A pod that is made to leave its node, when, and the budgets that it counts for (its controller by UID). It is
    written down before it is done; `undone` takes back one that was not. `begins`: a surge of it has begun, and it goes
    later, if at all."""

    at: float
    node: str
    controller: str
    namespace: str
    uid: str
    undone: bool = False
    begins: bool = False


class NodesCounted(Struct, frozen=True, gc=False, tag="nodes"):
    """How many nodes are `ready`, where that is another number than before: a restarted daemon knows what it lost."""

    at: float
    ready: int


class SeriesLost(Struct, frozen=True, gc=False, tag="series-lost"):
    """Until then so many series were lost together that no count may fall: a restarted daemon waits for them too."""

    at: float


class PolicyCaps(Struct, frozen=True, gc=False):
    """How much a policy changes by itself, until a person confirms more.

    Its bounds change the count of one workload by `step` replicas `within` so many seconds, or twofold, or by half; and
    by `most` in all. After a reload its selector may match `newly_governed` workloads that no policy governed before.
    A count falls once fewer replicas have been wanted for `falls_after` seconds.
    """

    within: float = 60.0
    step: int = 10
    most: int = 100
    newly_governed: int = 100
    falls_after: float = 0.0


class DisruptionMemory(Struct, frozen=True, gc=False):
    """What a daemon remembers of the pods that went: when its journal `begun`, and the `latest` of them there; when it
    was `taken_over` from another daemon, and when the last pod went that is `noted` in the cluster. -inf: never."""

    begun: float
    latest: float
    taken_over: float
    noted: float


class DisruptionState(Struct, frozen=True):
    """What `[disruption]` allows at one time, as data; the default allows everything.

    `most` pods of a node, a controller, a namespace, the cluster (`per_node` ... `total`) may go `within` so many
    seconds; `recent` are those that went. `breaker`, a sentence: so much is lost at once that no observation is
    believed. `unknown`: it is not known which pods went of late. `blackout`: no pod is moved now. `busy`: by UID, pods
    whose workload is moved, rolled out or scaled. By UID, ready pods that are not moved, though they may be preempted:
    `rolling`, before new ones of a rollout are ready, and `needed`, before more of those that replace moved ones are.
    `away`: by namespace, the pods without a controller that were moved and do not run again yet, a name by UID.
    """

    within: float = 0.0
    most: Mapping[str, int] = {}
    recent: tuple[Disruption, ...] = ()
    breaker: str = ""
    unknown: str = ""
    blackout: str = ""
    busy: Mapping[str, Refused] = {}
    rolling: Mapping[str, Refused] = {}
    needed: Mapping[str, Refused] = {}
    away: Mapping[str, Mapping[str, str]] = {}
