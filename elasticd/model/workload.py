"""The nouns, in the order data flows: Sample to Outcome.

Frozen records without behaviour beyond reading themselves. Times are seconds since the epoch, amounts
are in base units (cores, bytes, ones), durations in seconds. Knows nothing of files, clocks or clusters.
"""

import enum
from collections.abc import Mapping
from math import inf
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from elasticd.model.forecast import Forecast
from elasticd.model.jobs import Job
from elasticd.model.pod_spec import Needs, Taint


class Ref(Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """Which workload: written NAMESPACE/KIND/NAME."""

    namespace: str
    kind: str
    name: str
    api_version: str = "apps/v1"

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.kind}/{self.name}"


class Quality(enum.StrEnum):
    """What a series is worth: all of it is good, or what is worst about it."""

    FRESH = "fresh"
    PARTIAL = "partial"
    STALE = "stale"
    EMPTY = "empty"
    INVALID = "invalid"
    ERROR = "error"


_FRESH, _PARTIAL = Quality.FRESH, Quality.PARTIAL  # looked up once: to ask an enumeration takes long


class Sample(Struct, frozen=True, gc=False, array_like=True):
    """One number about a pod, a container of it, or (pod empty) the workload as a whole.

    `measured` is the source's own time of measurement, `received` when it reached the daemon,
    `window` the seconds it was averaged over (0: an instant).
    """

    value: float
    measured: float
    received: float
    window: float = 0.0
    pod: str = ""
    container: str = ""


class Series(Struct, frozen=True, gc=False, omit_defaults=True):
    """All samples of one name for one workload at one time, and what they are worth.

    `measured` is the time of the newest sample, 0 when there is none. `covered`: enough pods have a sample for those
    to stand for all. `may_raise`: the policy lets it raise a count although it is not trusted. One of a load that is
    forecast has a `forecast`, and as its sample what is expected now.
    """

    name: str
    source: str
    quality: Quality
    samples: tuple[Sample, ...] = ()
    message: str = ""
    measured: float = 0.0
    covered: bool = True
    may_raise: bool = False
    forecast: Forecast | None = None
    apart: tuple[Sample, ...] = ()
    """Good samples of containers in pods of which another container has none, for who looks at one container alone."""

    @property
    def trusted(self) -> bool:
        """Whether a count may fall because of the series."""
        return self.quality is _FRESH or (self.quality is _PARTIAL and self.covered)

    def of_container(self, container: str) -> "Series":
        """The series for who looks at this container alone, whatever other containers of its pods lack."""
        if not any(sample.container == container for sample in self.apart):
            return self
        return replace(self, quality=_PARTIAL, covered=True, samples=(*self.samples, *self.apart), apart=())

    @property
    def usable(self) -> bool:
        """Whether a strategy may use the series: it is trusted, or what is left of it may raise a count."""
        return self.trusted or (self.may_raise and bool(self.samples))


COST = "controller.kubernetes.io/pod-deletion-cost"
"""The annotation by which a ReplicaSet is told which pods it can spare best: those with the lowest number."""


HEEDING = frozenset({"Deployment", "ReplicaSet", "CloneSet"})
"""The kinds whose controllers look at costs. A StatefulSet always spares its highest ordinals."""


class Container(Struct, frozen=True, gc=False):
    """A container that counts while the pod runs: an ordinary one, or a sidecar (restartable init container)."""

    name: str
    requests: dict[str, float] = {}
    sidecar: bool = False
    limits: dict[str, float] = {}


class Pod(Struct, frozen=True, gc=False):
    """A pod as far as judgement needs it. `ready` None: no Ready condition yet. `resize` is how far the kubelet is with
    new requests (Deferred, Infeasible, InProgress; or done: empty), `killed` when containers last lacked memory."""

    namespace: str
    name: str
    uid: str
    phase: str
    node: str = ""
    labels: dict[str, str] = {}
    containers: tuple[Container, ...] = ()
    requests: dict[str, float] = {}
    """Pod-level requests (Kubernetes 1.34 on); they win over the containers' sum."""
    started: float | None = None
    ready: bool | None = None
    ready_changed: float = 0.0
    deleted: bool = False
    address: str = ""
    """Its IP address; empty before it has one."""
    annotations: dict[str, str] = {}
    """Those that judgement looks at: elasticd's own, and the pod's deletion cost."""
    waits: float | None = None
    """Since when the scheduler finds no node for it; None: it has one, or has not been tried."""
    resize: str = ""
    killed: dict[str, float] = {}
    created: float = 0.0
    needs: Needs = Needs()
    owner: tuple[str, str, str] = ("", "", "")
    """Kind, name and UID of its controller; empty where it has none."""
    nominated: str = ""
    """The node where others were made to give way for it."""
    static: bool = False
    """A kubelet runs it from a file; the API only mirrors it."""
    resize_message: str = ""
    """What the kubelet says of the resize."""
    overall: dict[str, float] = {}
    """Where it has pod-level `requests`: all that it asks for, as a scheduler counts it, with overhead. Else empty."""

    @property
    def ref(self) -> Ref:
        return Ref(self.namespace, "Pod", self.name, "v1")

    @property
    def counted(self) -> dict[str, float]:
        """What the pod takes of its node, as a scheduler counts."""
        return self.needs.requests or self.requested()

    def requested(self) -> dict[str, float]:
        """What the pod requests of each resource: as it says for the whole pod, else the sum of its containers. What
        nothing requests is left out."""
        total: dict[str, float] = {}
        for container in self.containers:
            for resource, amount in container.requests.items():
                total[resource] = total.get(resource, 0.0) + amount
        return {**total, **self.requests} if self.requests else total

    @property
    def job(self) -> str:
        """The UID of the Job that the pod belongs to, empty where it names none. Unlike a name it is never
        another's."""
        label = self.labels.get("batch.kubernetes.io/controller-uid")  # since Kubernetes 1.27
        return self.labels.get("controller-uid", "") if label is None else label


class Node(Struct, frozen=True, gc=False):
    """A node as far as judgement needs it."""

    name: str
    uid: str
    ready: bool
    unschedulable: bool = False
    labels: dict[str, str] = {}
    allocatable: dict[str, float] = {}
    taints: tuple[Taint, ...] = ()
    annotations: dict[str, str] = {}
    """elasticd's own."""


class Room(Struct, frozen=True, gc=False):
    """A node and what is left of it: allocatable less what the pods on it request, by resource; of `pods`, how many
    more it takes."""

    node: Node
    free: dict[str, float]


class Workload(Struct, frozen=True, gc=False):
    """Anything with a scale subresource, as seen at `version`; or a job set, whose replicas are the Jobs in flight."""

    ref: Ref
    uid: str
    version: str
    replicas: int
    """spec.replicas: what was asked for."""
    status_replicas: int = 0
    """status.replicas: what the workload's controller counts."""
    selector: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    rollout: str = ""
    """What is left to do of a change of its template, in a few words; empty when nothing is, or it cannot be known."""
    recreate: bool = False
    """A Deployment that ends all its pods before it makes others (strategy Recreate)."""
    writer: str = ""
    """Who set spec.replicas last, as the API server notes it; empty when it does not say."""
    jobs: tuple[Job, ...] = ()
    """Of a job set: all that are there, also those that have ended, by name. Its pods are those of Jobs in flight."""
    gone: tuple[Job, ...] = ()
    """Of a job set: those that are not there any more, and were a while ago; each with the time when it `ended`, or was
    deleted."""


class Observation(Struct, frozen=True, gc=False):
    """What is known about one workload at one time.

    `confirmed` is when the cluster last proved that this view is current. `fault` is why it must not be
    acted on (a condition reason and a sentence), empty when nothing is wrong. `autoscaler` is another that sets the
    workload's count, such as an HPA; empty when none is known. `rooms` are all nodes, for who `looks_at_nodes`; None:
    nobody does. `nodes` are the series of nodes that somebody `reads_of_nodes`, by name, then by node, of those nodes
    that pods of the workload are on: what can be trusted, and nothing else.
    """

    at: float
    workload: Workload
    pods: tuple[Pod, ...] = ()
    series: dict[str, Series] = {}
    confirmed: float = 0.0
    fault: tuple[str, str] = ("", "")
    autoscaler: str = ""
    rooms: tuple[Room, ...] | None = None
    nodes: Mapping[str, Mapping[str, float]] = {}


class LeftOut(Struct, frozen=True, gc=False):
    """Pods that a metric's rule does not take as they are: how many, the first of them by name, and why."""

    why: str
    count: int
    pods: tuple[str, ...] = ()


class Band(Struct, frozen=True, gc=False):
    """From which sum of a series' samples to which, ends included, it changes nothing; of the same pods, and as long as
    nothing else changes. Infinite on both sides: whatever it comes to. Never: see NEVER."""

    lowest: float = -inf
    highest: float = inf

    def within(self, other: "Band") -> "Band":
        """The intersection with another band."""
        return Band(max(self.lowest, other.lowest), min(self.highest, other.highest))


NEVER = Band(inf, -inf)
"""Any new sample may change what is said."""


class Measure(Struct, frozen=True, gc=False, omit_defaults=True):
    """What one metric read and what it asks for: a row of `explain`, with a row for each reason to leave pods out."""

    metric: str
    current: str = ""
    target: str = ""
    replicas: int | None = None
    reason: str = ""
    message: str = ""
    left_out: tuple[LeftOut, ...] = ()


class Recommendation(Struct, frozen=True, gc=False, omit_defaults=True):
    """How many replicas a strategy wants and why; None: it cannot know, so nothing may shrink.

    After `expires` (seconds since the epoch) it is no opinion any more: the next one counts. One that `abstains`, with
    `replicas` None, is none either: nothing is held for it, but its reason is told. Judgement sets `strategy` and
    `priority`.
    """

    replicas: int | None
    reason: str
    message: str = ""
    measures: tuple[Measure, ...] = ()
    strategy: str = ""
    expires: float | None = None
    priority: int = 0
    abstains: bool = False


class Rank(Struct, frozen=True, gc=False):
    """How soon a pod goes when the count falls, the lowest value first, and why, in a few words."""

    value: float
    why: str = ""


ConditionType = Literal["AbleToScale", "ScalingActive", "ScalingLimited"]


class Limit(Struct, frozen=True, gc=False, omit_defaults=True, cache_hash=True):
    """An interval that a wish must lie in, ends included, and the reason. None: open on that side.

    `condition` says which of the HPA's conditions reports it: AbleToScale for what delays a change
    (stabilization, cooldown), ScalingLimited for what shortens it (rates, bounds). `of_wish`: it cuts the wish before
    either, and what is remembered of the wish, as if nobody had asked for more or less; so windows and rates hold for
    the way to where it leads, and do not contradict it.
    """

    reason: str
    message: str = ""
    lowest: int | None = None
    highest: int | None = None
    condition: ConditionType = "ScalingLimited"
    name: str = ""
    of_wish: bool = False
    bound: bool = False
    """Set by judgement: the answer stopped at this limit."""
    standstill: bool = False
    """What its pods request may not be changed either."""
    takes_back: bool = False
    """It undoes a change that went wrong: it need not hold the current count, and goes past every delay, and what gives
    way."""
    gives_way: bool = False
    """It shortens a change only to pace it, so that it does not hold up what takes one back. What delays never does."""

    def clamp(self, replicas: int) -> int:
        """The count inside the interval that is nearest to this one."""
        if self.highest is not None and replicas > self.highest:
            replicas = self.highest
        return replicas if self.lowest is None or replicas >= self.lowest else self.lowest


class Condition(Struct, frozen=True, gc=False, omit_defaults=True):
    """One of the HPA's conditions, with its reasons."""

    type: ConditionType
    status: bool
    reason: str
    message: str = ""


class Failure(Struct, frozen=True, gc=False):
    """An implementation of a hook that raised, returned nonsense or is switched off."""

    plugin: str
    hook: str
    message: str


class Answers(Struct, frozen=True, gc=False):
    """What the implementations of one hook said, by name in `names`, and which could not."""

    names: tuple[str, ...] = ()
    given: tuple[Any, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def values(self) -> tuple[tuple[str, Any], ...]:
        return tuple(zip(self.names, self.given, strict=True))


class Readings(Struct, frozen=True, gc=False):
    """What one source said in one read.

    `pods` maps series, then "namespace/pod", to samples (one per container, or one for the pod); `workloads`
    maps series, then "NAMESPACE/KIND/NAME", to samples of the workload as a whole; `nodes` maps series, then node, to
    samples. With an `error` they are empty, and `offers` are the series that it would have (None: it cannot say).
    `faults` says of a series, by name, why it could not be read, or what is wrong with how it is. `newest` is the
    newest time of measurement, where the source knows it without looking at all samples. `complete`: a subject without
    a sample is one that has nothing to measure, and not merely one that was not heard of. `forecasts` maps series, then
    "NAMESPACE/KIND/NAME", to what is expected; a series that is there without a workload has no forecast of it yet.
    `parts` maps series, then "namespace/pod", to the samples of a pod of which a container has none: it has none under
    `pods` then.
    """

    source: str
    received: float
    pods: Mapping[str, Mapping[str, tuple[Sample, ...]]] = {}
    workloads: Mapping[str, Mapping[str, tuple[Sample, ...]]] = {}
    nodes: Mapping[str, Mapping[str, tuple[Sample, ...]]] = {}
    error: str = ""
    faults: Mapping[str, str] = {}
    offers: tuple[str, ...] | None = None
    newest: float | None = None
    complete: bool = True
    forecasts: Mapping[str, Mapping[str, Forecast]] = {}
    parts: Mapping[str, Mapping[str, tuple[Sample, ...]]] = {}
