"""Policies and their tables, typed: a policy is one TOML file, a strategy one table of it.

Knows the shape of a policy and which combinations contradict each other; knows nothing of files.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from elasticd.model.controllers import names_controller
from elasticd.model.jobs import JOB_KIND
from elasticd.model.pod_spec import possible_namespace
from elasticd.model.workload import HEEDING, Node, Pod, Ref, Workload

Seconds = Annotated[float, Meta(gt=0, description="seconds")]
Poll = Annotated[float, Meta(ge=0.1, le=3600, description="seconds")]
"""A valid poll interval, between two evaluations."""
MOST = 2**31 - 1
"""The greatest count the Kubernetes API can hold."""
USED_BY_PODS = frozenset({"cpu", "memory"})
"""Series that cannot be measured without pods."""
Count = Annotated[int, Meta(ge=0, le=MOST, description="replicas")]


class Strategy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", dict=True):
    """A strategy for workloads, under [[strategy]]: its fields are its TOML options, its @hookimpl methods implement
    hooks.

    Subclass with the name used in TOML: `class Fixed(Strategy, tag="fixed", frozen=True)`. Cross-field rules belong in
    `__post_init__`, raising ValueError("option: must ..., is ..."). Frozen: it may cache, but keep no state; what
    follows from the options alone can be a functools.cached_property.

    It implements at least one of the first four hooks; elasticd/hookspecs.py has their arguments:

        recommend_replicas    a Recommendation: a count and why; count None: it cannot know; or None: no opinion
        recommend_resources   Resources, one for each container, and for each pod to be changed now; None: no opinion
        rank_pods             by pod name a number or Rank, the lowest goes first; None: no opinion
        poll_interval         seconds until the next evaluation; None: no opinion
        limit                 a Limit of its own; None: no limit
        steady_bands          by series the Band in which its answers stay as they are; None: not known

    The hooks that a class implements determine its kind. LimitStrategy and PoolStrategy state it by name and list
    theirs; a class that derives from this one alone may implement the same hooks.
    """

    looks_at_nodes: ClassVar[bool] = False
    """Whether it needs `observation.rooms`: all nodes with their free room."""

    keeps_off: ClassVar[bool] = False
    """Whether its `filter_nodes` rejects nodes that have no room, are not ready or must not take the pod. A policy with
    [pool] needs such a strategy: without one a pod could go to any node."""

    alone: ClassVar[bool] = False
    """Whether a policy with [pool] may have only one of its type: of two, the less careful would always win."""

    wants_forecasts: ClassVar[bool] = False
    """Whether what it reads must come from sources that make forecasts."""

    priority: Annotated[
        int, Meta(description='the highest wins with combine = "priority", and in choosing pods that go')
    ] = 0

    def reads(self) -> tuple[str, ...] | None:
        """The series it reads, so that no others are fetched and recorded; None: all of them."""
        return None

    def reads_of_nodes(self) -> tuple[str, ...]:
        """The series of nodes that it needs in `observation.nodes`, if it `looks_at_nodes`."""
        return ()

    def labels_of_nodes(self) -> tuple[str, ...]:
        """The keys of node labels in its options; `elasticd nodes NODE` shows them."""
        return ()

    def recalls(self) -> float:
        """Seconds of history of its series that it needs in `past.points`; 0: none."""
        return 0.0

    def next_change(self, at: float) -> float:
        """The next time, in seconds since the epoch, at which its answer may change though no sample has; infinity:
        never. The workload is evaluated then, whatever the poll intervals are."""
        return inf

    def own_pace(self) -> bool:
        """Whether its policy is evaluated only at its own intervals, not when samples change: for algorithms that count
        evaluations, as those of papers do."""
        return False

    def lasts(self) -> bool:
        """Whether its answers last: while its series stay within its steady bands and nothing else changes, up to
        `next_change`, it answers exactly the same, and its limits allow no less than before. A simulation of which
        nobody reads each decision does not ask it then."""
        return False

    def looks_back(self) -> int:
        """How many past evaluations of a pool it needs in `past.looks`."""
        return 0

    def check(self, policy: "Policy") -> str | Sequence[str] | None:
        """What is wrong with it under this policy, as "option: must ..., is ...", or several such; None: nothing. For
        what `__post_init__` cannot see: bounds, other strategies, limits. Called once, when the policy is read."""
        return None

    def sleeps(self) -> str:
        """Why it can never ask for pods while there are none, as in "looks at pods alone"; empty: it can. A policy with
        min = 0 needs a strategy that can."""
        return ""

    def brings_nothing(self, policy: "PoolPolicy", hooks: frozenset[str]) -> tuple[str, ...]:
        """Options without effect in this policy with [pool], as "option: ...", a line each; `hooks` are those that any
        of its strategies implements."""
        return ()

    def fastest(self) -> float | None:
        """The shortest poll interval it may ask for, in seconds; None: it asks for none. For advice only."""
        return None


class LimitStrategy(Strategy, frozen=True):
    """A limit on counts, under [[limit]]: `class Ceiling(LimitStrategy, tag="ceiling", frozen=True)`.

    It implements these hooks, and neither recommend_replicas nor recommend_resources:

        limit           a Limit: the interval for the recommended count, and the reason; None: no limit
        poll_interval   seconds until the next evaluation; None: no opinion
        steady_bands    by series the Band in which its answers stay as they are; None: not known

    Limits intersect, so that their order never matters. `priority` means nothing here, and is refused in TOML.
    """


class PoolStrategy(Strategy, frozen=True):
    """A strategy for the pods of a policy with [pool]: `class Quiet(PoolStrategy, tag="quiet", frozen=True)`.

    It implements at least one of these hooks. A mask or a column has one value for each node, in the order of `nodes`:

        filter_nodes      Refusals: a reason, and a mask of the nodes that cannot take the pod; None: all can
        select_nodes      a Selection: the nodes that the pod is bound to; None: it is bound to none
        score_nodes       Scores: a column, the highest is best, NaN where not known, and a weight; None: no opinion
        place_pods        Placements: the index of a pod and that of its node; an omitted pod waits
        select_victims    Victims: pods of the node to evict, in order; Spared: no pod can be evicted, and why; or None
        explain_victims   an EvictionOrder: which pods would be evicted, for people; None: it evicts none
        rebind_pods       Moves: pods whose node no longer matches their binding, in order; None: none
        rebalance_nodes   Moves: pods that should leave their node, in order; None: none
        explain_nodes     NodeLevels: the state of the nodes, for people; None: nothing to say

    `reads` names the series of pods it needs in `observation.use`, `reads_of_nodes` those of nodes for `nodes.use`.
    """


Combine = Annotated[
    Literal["max", "priority", "mean"],
    Meta(description="of several recommendations: the largest; that of the highest priority; the mean, rounded up"),
]


class Bounds(Struct, frozen=True, forbid_unknown_fields=True, cache_hash=True):
    """The policy's own minimum and maximum count. They apply last, and nothing overrides them."""

    max: Annotated[int, Meta(ge=1, le=MOST)]
    min: Count = 1
    confirmed: Annotated[
        int | None, Meta(description="this min, or this max, is meant: a count goes to it at once, however far it is")
    ] = None

    def __post_init__(self) -> None:
        if self.min > self.max:
            raise ValueError(f"min: must be <= max = {self.max}, is {self.min}")
        if self.confirmed not in (None, self.min, self.max):
            raise ValueError(f"confirmed: must be min = {self.min} or max = {self.max}, is {self.confirmed}")


class Target(Struct, frozen=True, forbid_unknown_fields=True):
    """One workload, by name."""

    namespace: str
    name: str
    kind: str = "Deployment"
    api_version: str = "apps/v1"

    @property
    def ref(self) -> Ref:
        return Ref(self.namespace, self.kind, self.name, self.api_version)


class Select(Struct, frozen=True, forbid_unknown_fields=True):
    """Many workloads of one kind, by namespace and labels; each is decided on its own."""

    namespaces: Annotated[tuple[str, ...], Meta(min_length=1, description='"*" is any')]
    labels: Annotated[dict[str, str], Meta(description="all of them")] = {}
    kind: Annotated[str, Meta(description="of the workloads")] = "Deployment"
    api_version: Annotated[str, Meta(description="of that kind")] = "apps/v1"
    confirmed: Annotated[int, Meta(ge=0, description="workloads that may come to be selected at one reload")] = 0

    def matches(self, ref: Ref, labels: Mapping[str, str]) -> bool:
        """Whether the workload with these labels is one of those selected. A namespace of "*" is any."""
        if (ref.kind, ref.api_version) != (self.kind, self.api_version):
            return False
        return _selects(self, ref.namespace, labels)


def _selects(by: "Select | PoolSelect", namespace: str, labels: Mapping[str, str]) -> bool:
    return (namespace in by.namespaces or "*" in by.namespaces) and by.labels.items() <= labels.items()


class JobKeys(Struct, frozen=True, kw_only=True):
    """The keys of a set of Jobs, without its template.

    63 characters are the most that a Job's name may have, of which the hash and number take 20. `successful_history`
    and `failed_history` are how many Jobs that have ended are kept. When the template has changed, rollout "gradual"
    lets the Jobs of the old one run to their end, and "default" deletes them (KEDA's words).
    """

    namespace: Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
    name: Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=43)]
    successful_history: Annotated[int, Meta(ge=0, le=10_000)] = 100
    failed_history: Annotated[int, Meta(ge=0, le=10_000)] = 100
    rollout: Literal["gradual", "default"] = "gradual"


class JobSet(JobKeys, frozen=True, kw_only=True):
    """A set of Jobs that are created from one template, as it was read: `manifest` is JSON, `template` its hash."""

    manifest: str
    template: str

    @property
    def target(self) -> Target:
        api_version, kind = JOB_KIND
        return Target(self.namespace, self.name, kind, api_version)


class PoolTrust(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a policy takes what it knows from."""

    sources: Annotated[
        tuple[str, ...], Meta(description="asked for each series in this order; none: all, in elasticd.toml's")
    ] = ()


class Trust(PoolTrust, frozen=True):
    """Which series a policy about workloads trusts, and what it does without them."""

    coverage: Annotated[
        float, Meta(ge=0, le=1, description="part of the pods that must have a sample, or the series is unknown")
    ] = 0.5
    zero_when_empty: Annotated[
        tuple[str, ...], Meta(description="series of which no sample means 0, where the source answered")
    ] = ()
    unknown: Annotated[
        Literal["hold", "up-only", "floor", "ceiling", "fallback"],
        Meta(
            description="hold: change nothing; up-only: what samples are left may raise the count; "
            "when it has lasted `after`, floor: at least `replicas`; ceiling: at most; fallback: `replicas`"
        ),
    ] = "hold"
    replicas: Annotated[Count | None, Meta(description="for floor, ceiling and fallback")] = None
    after: Annotated[float, Meta(ge=0, description="seconds without knowledge before any of these")] = 180.0
    may_lower: Annotated[bool, Meta(description="let the fallback lower the count")] = False

    def __post_init__(self) -> None:
        counted = self.unknown in ("floor", "ceiling", "fallback")
        if counted and self.replicas is None:
            raise ValueError(f'replicas: must be given for unknown = "{self.unknown}", is missing')
        if not counted and self.replicas is not None:
            raise ValueError(f'replicas: must be left out for unknown = "{self.unknown}", is {self.replicas}')
        if self.may_lower and self.unknown != "fallback":
            raise ValueError(f'may_lower: must be left out for unknown = "{self.unknown}", is true')

    @property
    def lowers(self) -> bool:
        """Whether the count may fall where it is not known what is needed."""
        return self.may_lower or self.unknown == "ceiling"

    def instead(self, current: int) -> int:
        """The count to go to when nothing has been known for `after` seconds."""
        if self.replicas is None:
            return current
        if self.may_lower:
            return self.replicas
        return min(current, self.replicas) if self.unknown == "ceiling" else max(current, self.replicas)


Freeze = Annotated[
    Literal["none", "up", "down", "both"], Meta(description="which way the count may not move: up, down, or both")
]


class Foreign(Struct, frozen=True, forbid_unknown_fields=True):
    """What to do when another controller or a person sets the same count, or resizes the same pods; for policies that
    act."""

    autoscalers: Annotated[
        Literal["yield", "ignore"],
        Meta(description="yield: hold while an HPA (KEDA makes one too) has it; resize no pods of a VPA"),
    ] = "yield"
    strikes: Annotated[
        int,
        Meta(ge=0, le=100, description="counts of ours that others overwrote before it yields (resizes: 1); 0: never"),
    ] = 3
    within: Annotated[float, Meta(gt=0, le=1800, description="seconds within which they count")] = 600.0
    pause: Annotated[float, Meta(gt=0, le=1800, description="seconds for which it then yields")] = 1800.0


class PolicyKeys(Struct, frozen=True, kw_only=True):
    """The keys of a policy about workloads, without its strategies, limits and job set."""

    replicas: Bounds
    workload: Target | None = None
    select: Select | None = None
    mode: Literal["act", "observe"] = "observe"
    interval: Poll = 30.0
    jitter: Annotated[float, Meta(ge=0, le=0.5)] = 0.1
    max_age: Seconds = 120.0
    trust: Trust = Trust()
    combine: Combine = "max"
    freeze: Freeze = "none"
    foreign: Foreign = Foreign()


class Policy(PolicyKeys, frozen=True, kw_only=True):
    """One file: which workloads, between which bounds, by which strategies, within which limits. With `job` the
    workload is that job set."""

    name: str
    strategies: tuple[Strategy, ...]
    limits: tuple[Strategy, ...] = ()
    job: JobSet | None = None

    def governs(self, workload: Workload) -> bool:
        """Whether this policy decides about the workload. No selector is about one whose owner sets its count."""
        selectable = self.workload is not None or not workload.owner
        return selectable and self.covers(workload.ref, workload.labels)

    def covers(self, ref: Ref, labels: Mapping[str, str]) -> bool:
        """Whether this policy decides about the workload with these labels."""
        if self.workload is not None:
            return ref == self.workload.ref
        return self.select is not None and self.select.matches(ref, labels)


Order = Literal["priority", "fifo", "paper"]


class PoolSelect(Struct, frozen=True, forbid_unknown_fields=True):
    """Which pods a pool policy places, on which nodes, and in which order it asks about them."""

    scheduler: Annotated[str, Meta(min_length=1, description="the pods' spec.schedulerName")] = "elasticd"
    namespaces: Annotated[tuple[str, ...], Meta(min_length=1, description='of the pods; "*" is any')] = ("*",)
    labels: Annotated[dict[str, str], Meta(description="of the pods: all of them")] = {}
    nodes: Annotated[dict[str, str], Meta(description="labels of the nodes: all of them; none: every node")] = {}
    order: Annotated[
        Order,
        Meta(
            description="which pending pod goes first: the one of the highest priority, the oldest, or by the thesis's "
            "queue: the oldest, but one that found no place goes to the tail"
        ),
    ] = "priority"
    peak_window: Annotated[
        float, Meta(ge=0, le=604800, description="seconds over which the peak use of a node is remembered")
    ] = 3600.0

    def has(self, pod: Pod) -> bool:
        return pod.needs.scheduler == self.scheduler and self.names(pod)

    def names(self, pod: Pod) -> bool:
        """Whether the pod has the namespace and labels of this pool, whoever places it."""
        return _selects(self, pod.namespace, pod.labels)

    def holds(self, node: Node) -> bool:
        return self.nodes.items() <= node.labels.items()


class MovesTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Which pods of a pool may be moved, how many at a time, and how."""

    every: Annotated[float, Meta(ge=1, le=3600, description="seconds between looks")] = 30.0
    per_look: Annotated[int, Meta(ge=1, le=250, description="pods at most")] = 5
    surge: Annotated[bool, Meta(description="make another pod of a Deployment first, then let the old one go")] = False
    surge_within: Annotated[
        float, Meta(gt=0, le=86400, description="seconds that the other may take to be ready, or the old one stays")
    ] = 300.0
    local_storage: Annotated[
        bool, Meta(description="also pods with emptyDir, hostPath, generic ephemeral or writable inline CSI volumes")
    ] = False
    claims: Annotated[bool, Meta(description="also pods with persistent volume claims, or disks of their own")] = False
    single: Annotated[bool, Meta(description="also pods without another ready one of their controller")] = False
    bare: Annotated[bool, Meta(description="also pods without a controller: they are recreated under their name")] = (
        True
    )
    rerun: Annotated[
        bool,
        Meta(description="also those of them with restartPolicy Never, and pods of Jobs: what they did is done again"),
    ] = False
    controllers: Annotated[
        tuple[str, ...],
        Meta(description="GROUP/VERSION/KIND of other controllers, which recreate a pod that is evicted"),
    ] = ()
    others: Annotated[
        bool, Meta(description="also its namespaces' pods that other schedulers place, where they must go")
    ] = False
    spared: Annotated[tuple[str, ...], Meta(description="namespaces whose pods stay")] = ("kube-system",)
    min_age: Annotated[float, Meta(ge=0, description="seconds that a pod must have run")] = 60.0
    worth: Annotated[
        float, Meta(ge=0, description="a move must bring at least so many times what it costs; see each strategy")
    ] = 1.0

    def __post_init__(self) -> None:
        for index, name in enumerate(self.spared):
            if not possible_namespace(name):
                why = "; a policy without strategies that move pods spares all" if name == "*" else ""
                raise ValueError(f'spared[{index}]: must be the name of a namespace, is "{name}"{why}')
        for index, kind in enumerate(self.controllers):
            if not names_controller(kind):
                why = f'must be GROUP/VERSION/KIND, as "example.com/v1/Foo", is "{kind}"'
                raise ValueError(f"controllers[{index}]: {why}")


class PoolKeys(Struct, frozen=True, kw_only=True):
    """The keys of a policy with [pool], without its strategies."""

    pool: PoolSelect
    mode: Literal["act", "observe"] = "observe"
    interval: Poll = 1.0
    max_age: Seconds = 120.0
    trust: PoolTrust = PoolTrust()
    moves: MovesTable = MovesTable()


class PoolPolicy(PoolKeys, frozen=True, kw_only=True):
    """One file: which pods are placed on which nodes, and by which strategies."""

    name: str
    strategies: tuple[Strategy, ...]


def unheeded(policy: Policy) -> str | None:
    """What is wrong with ranking pods under this policy, as `Strategy.check` says it; None: nothing."""
    target = policy.job.target if policy.job else policy.workload or policy.select
    if target is None or target.kind in HEEDING:
        return None
    kinds = ", ".join(sorted(HEEDING))
    return f"type: must be for one of {kinds}, is for {target.kind}, whose controller heeds no deletion cost"
