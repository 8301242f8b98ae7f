"""The nouns, in the order data flows: Sample to Outcome.

Frozen records without behaviour beyond reading themselves. Times are seconds since the epoch, amounts
are in base units (cores, bytes, ones), durations in seconds. Knows nothing of files, clocks or clusters.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from math import inf
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from elasticd.model.forecast import Forecast
from elasticd.model.jobs import Job
from elasticd.model.pod_spec import Needs, PodClaim, Taint


class Ref(Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """Which workload: written NAMESPACE/KIND/NAME."""

    namespace: str
    kind: str
    name: str
    api_version: str = "apps/v1"

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def unversioned(self) -> "Ref":
        """The same with the group alone in place of its version: an object is one in all served versions of it."""
        return Ref(self.namespace, self.kind, self.name, group_of(self.api_version))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.kind}/{self.name}"


def group_of(api_version: str) -> str:
    """The group of GROUP/VERSION; of the core it is empty."""
    return api_version.rpartition("/")[0]


class Quality(enum.StrEnum):
    """The quality of a series: all of it is good, or the worst flaw."""

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
    """Good samples of containers in pods of which another container has none, for metrics of a single container."""
    presumed: bool = False
    """There is no sample, which the policy takes for 0."""
    unseen: bool = False
    """Its samples could be trusted, were they not of fewer pods than the workload's controller counts."""

    @property
    def trusted(self) -> bool:
        """Whether a count may fall because of the series."""
        return self.quality is _FRESH or (self.quality is _PARTIAL and self.covered)

    def of_container(self, container: str) -> "Series":
        """The series of this container alone, whatever other containers of its pods lack."""
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
"""The kinds whose controllers respect deletion costs. A StatefulSet always removes its highest ordinals."""


class Container(Struct, frozen=True, gc=False, omit_defaults=True):
    """A container that counts while the pod runs: an ordinary one, or a sidecar (restartable init container)."""

    name: str
    requests: dict[str, float] = {}
    sidecar: bool = False
    limits: dict[str, float] = {}
    restarting: tuple[str, ...] = ()
    """The resources by whose change in place it is restarted (resizePolicy RestartContainer)."""


def total_requests(containers: Iterable[Container]) -> dict[str, float]:
    """What containers request together."""
    total: dict[str, float] = {}
    for container in containers:
        for resource, amount in container.requests.items():
            total[resource] = total.get(resource, 0.0) + amount
    return total


class Resized(Struct, frozen=True, gc=False):
    """That somebody other than elasticd changed what a running pod requests: who (a field manager), and when last."""

    by: str
    at: float


class Pod(Struct, frozen=True, gc=False, omit_defaults=True):
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
    """Those that judgement looks at: elasticd's own, and a few of others, such as the pod's deletion cost."""
    waits: float | None = None
    """Since when the scheduler finds no node for it; None: it has one, or has not been tried."""
    resize: str = ""
    killed: dict[str, float] = {}
    created: float = 0.0
    needs: Needs = Needs()
    owner: tuple[str, str, str] = ("", "", "")
    """Kind, name and UID of its controller; empty where it has none. The kind is GROUP/VERSION/KIND where it is not of
    Kubernetes itself."""
    nominated: str = ""
    """The node where pods were evicted for it."""
    static: bool = False
    """A kubelet runs it from a file; the API only mirrors it."""
    resize_message: str = ""
    """What the kubelet says of the resize."""
    overall: dict[str, float] = {}
    """Where it has pod-level `requests`: all that it asks for, as a scheduler counts it, with overhead. Else empty."""
    volume_claims: tuple[PodClaim, ...] = ()
    """The persistent volume claims that it uses."""
    owner_pods: tuple[tuple[str, str], ...] = ()
    """Names and UIDs of the pods that it names as its owners: Kubernetes deletes it when they are gone."""
    resized: Resized | None = None
    """Nearly always None: nobody else resized it, or elasticd has changed the same since."""
    owns: bool = False
    """Whether pods that have not ended name it as their owner."""

    @property
    def ref(self) -> Ref:
        return Ref(self.namespace, "Pod", self.name, "v1")

    @property
    def has_ended(self) -> bool:
        """Whether all of its containers have ended for good."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_active(self) -> bool:
        """Whether its controller counts it: it has not ended, and is not about to. Source: IsPodActive of
        Kubernetes."""
        return not self.deleted and not self.has_ended

    def is_available(self, min_ready: float, at: float) -> bool:
        """Whether it is ready, and has been for `min_ready` seconds. Source: IsPodAvailable of Kubernetes."""
        return self.ready is True and (min_ready <= 0 or 0 < self.ready_changed <= at - min_ready)

    @property
    def counted(self) -> dict[str, float]:
        """What the pod takes of its node, as a scheduler counts."""
        return self.needs.requests or self.requested()

    def requested(self) -> dict[str, float]:
        """What the pod requests of each resource: as it says for the whole pod, else the sum of its containers. What
        nothing requests is left out."""
        total = total_requests(self.containers)
        return {**total, **self.requests} if self.requests else total

    @property
    def job(self) -> str:
        """The UID of the Job that the pod belongs to, empty where it names none. Unlike a name it is never
        another's."""
        label = self.labels.get("batch.kubernetes.io/controller-uid")  # since Kubernetes 1.27
        return self.labels.get("controller-uid", "") if label is None else label


class Image(Struct, frozen=True, gc=False):
    """An image that a node has: its names, and its size in bytes."""

    names: tuple[str, ...]
    size: int


MEASURING_ERROR = 1.1
"""The factor by which a measured use may exceed the true one: a rate of CPU is off by the error of its window."""


class Node(Struct, frozen=True, gc=False, omit_defaults=True):
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
    images: tuple[Image, ...] = ()
    """Those that its kubelet reports."""
    capacity: dict[str, float] = {}
    """What the machine has of cpu and memory: more than is allocatable, and pods without limits can use it."""

    def can_serve(self, resource: str, use: float) -> bool:
        """Whether a container on it can use as much, within the error of measuring, or it is not known what the node
        has."""
        most = self.capacity.get(resource, self.allocatable.get(resource))
        return most is None or use <= MEASURING_ERROR * most


def reasons_to_leave(node: Node | None) -> object:
    """What of a node may be a reason to move pods off it, to be compared; None: there is no such node."""
    return node and (node.uid, node.ready, node.unschedulable, node.labels, node.taints, node.annotations)


class Room(Struct, frozen=True, gc=False):
    """A node and what is left of it: allocatable less what the pods on it request, by resource; of `pods`, how many
    more it takes."""

    node: Node
    free: dict[str, float]

    @classmethod
    def of(cls, node: Node, pods: Iterable[Pod]) -> "Room":
        """The room of a node with these pods. Pods that are being deleted count until they are gone."""
        free = dict(node.allocatable)
        for pod in pods:
            if "pods" in free:
                free["pods"] -= 1
            for resource, amount in pod.counted.items():
                if resource in free:
                    free[resource] -= amount
        return cls(node, free)


UNSEEN = "its newest spec has not been seen by its controller"
"""What is left to do of a rollout of which nothing else is known: that there may be one."""

REVISION = "controller-revision-hash"
"""The label by which a StatefulSet's pod names the revision of its template."""


class Workload(Struct, frozen=True, gc=False, omit_defaults=True):
    """Anything with a scale subresource, as seen at `version`; or a job set, whose replicas are the Jobs in flight."""

    ref: Ref
    uid: str
    version: str
    replicas: int
    """spec.replicas."""
    status_replicas: int = 0
    """status.replicas: what the workload's controller counts."""
    selector: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    rolled_back: tuple[str, ...] = ()
    """Annotations of elasticd, not among these, that `kubectl rollout undo` has brought back from a ReplicaSet."""
    undone: bool = False
    """Whether `kubectl rollout undo` was the last to write it, apart from its controller, elasticd, and its count."""
    rollout: str = ""
    """What is left to do of a change of its template, in a few words; empty when nothing is, or it cannot be known."""
    unfinished: bool = False
    """Whether its rollout is not over, though nothing may be left to do of it: new pods are not available yet, or a
    StatefulSet goes no further by itself."""
    new_revision: str = ""
    """Of a StatefulSet of which pods may be of another template: the revision of its newest, which its pods name (label
    REVISION). Others have none."""
    replaces_from: int = 0
    """How many pods of a StatefulSet, the first ones, its rollouts leave as they are (`partition`); with OnDelete any
    number."""
    recreate: bool = False
    """A Deployment that ends all its pods before it makes others (strategy Recreate)."""
    min_ready: float = 0.0
    """Seconds for which a pod of it must be ready to count as available (minReadySeconds)."""
    ordered: bool = False
    """A StatefulSet that creates a pod only once all of lower ordinals are available (OrderedReady)."""
    first_ordinal: int = 0
    """The number of a StatefulSet's first pod (spec.ordinals.start)."""
    writer: str = ""
    """The field manager that owns spec.replicas; empty if unknown. It need not be who set the count last: before
    Kubernetes 1.22 (inferred) the scale subresource leaves that out."""
    writer_since: float = 0.0
    """When it last wrote, in seconds since the epoch by the API server's clock; 0: unknown."""
    surge_writer: str = ""
    """The field manager that wrote the note of a surge (`kit.surge`), where that is not elasticd; empty: elasticd did,
    there is none, or it is unknown."""
    owner: str = ""
    """Its controller, KIND/NAME, where that sets its count, as a Deployment does that of its ReplicaSets. Empty for
    kinds whose controllers may leave the count to others."""
    jobs: tuple[Job, ...] = ()
    """Of a job set: all existing Jobs, also finished ones, by name. Its pods are those of active Jobs."""
    gone: tuple[Job, ...] = ()
    """Of a job set: the recently deleted Jobs, each with the time when it `ended` or was deleted."""
    taken: int = 0
    """Of a job set: the highest number whose name a Job of none or of another set has, as far as a try has shown."""


class Observation(Struct, frozen=True, gc=False):
    """What is known about one workload at one time.

    `confirmed` is when the cluster last proved that this observation is current. `fault` is why it must not be acted on
    (a condition reason and a sentence), empty when nothing is wrong. `autoscaler` is another controller of the
    workload's count, such as an HPA; empty when none is known. `rooms` are all nodes, for strategies that
    `looks_at_nodes`; None: there is none. `nodes` are the trusted usages of nodes with pods of the workload, by series
    (`reads_of_nodes`), then by node.
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
    """Pods that a metric's rule leaves out: how many, the first of them by name, and why."""

    why: str
    count: int
    pods: tuple[str, ...] = ()


class Band(Struct, frozen=True, gc=False):
    """The sums of a series' samples, ends included, that leave an answer the same, as long as the same pods have
    samples and nothing else changes. Infinite on both sides: every sum does; NEVER: none does."""

    lowest: float = -inf
    highest: float = inf

    def within(self, other: "Band") -> "Band":
        """The intersection with another band."""
        return Band(max(self.lowest, other.lowest), min(self.highest, other.highest))


NEVER = Band(inf, -inf)
"""Any new sample may change the answer."""


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
    """How many replicas a strategy wants and why; None: it cannot know, so nothing may scale in.

    After `expires` (seconds since the epoch) it no longer counts. One that `abstains`, with `replicas` None, does not
    hold the count either, but its reason is shown. The core sets `strategy` and `priority`.
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
    """The order in which a scale-in removes a pod, the lowest value first, and why, in a few words."""

    value: float
    why: str = ""


ConditionType = Literal["AbleToScale", "ScalingActive", "ScalingLimited"]


class Limit(Struct, frozen=True, gc=False, omit_defaults=True, cache_hash=True):
    """An interval for the recommended count (the wish), ends included, and the reason. None: open on that side.

    `condition` says which of the HPA's conditions reports it: AbleToScale for limits that delay a change
    (stabilization, cooldown), ScalingLimited for those that shorten it (rates, bounds). `of_wish`: it cuts the
    recommendation before either, also in the history, as if no more or less had been recommended; so windows and rates
    apply on the way to the cut value and do not contradict it.
    """

    reason: str
    message: str = ""
    lowest: int | None = None
    highest: int | None = None
    condition: ConditionType = "ScalingLimited"
    name: str = ""
    of_wish: bool = False
    bound: bool = False
    """Set by the core: the result stopped at this limit."""
    standstill: bool = False
    """Requests of pods may not be changed either."""
    takes_back: bool = False
    """It rolls back a change that went wrong: it need not allow the current count, and overrides every delay and each
    limit that gives way."""
    gives_way: bool = False
    """It shortens a change only to pace it, so a rollback overrides it. A rollback overrides delays anyway."""

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
    """The answers of the implementations of one hook, by name in `names`, and which failed."""

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
    "NAMESPACE/KIND/NAME", to what is expected; a series that is there without a workload has no forecast of it yet,
    which scale-ins wait for, so a source that gives up on one says so by a forecast with a `doubt`.
    `learning`: all that `faults` say is that too few samples have been seen so far, which is no failure.
    `parts` maps series, then "namespace/pod", to the samples of a pod of which a container has none: it has none under
    `pods` then. `doubts` says of a series, by name, why its samples may be too low: they may raise a count, not lower
    it; `doubted_workloads` of all series of a workload, "NAMESPACE/KIND/NAME". `counted`: of such a workload, how many
    pods its controller counted when its values were made of those that were seen.
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
    doubts: Mapping[str, str] = {}
    learning: bool = False
    doubted_workloads: Mapping[str, str] = {}
    counted: Mapping[str, int] = {}


Samples = tuple[Sample, ...]


class SumBounds(NamedTuple):
    """Between which values sums of samples are, the lowest and the highest: `ends`, where `places` says for the keys of
    the pods that have the samples. None of these is below 0 or infinite, and all were measured at one time. `places`
    is the same mapping as in the reading before for as long as it says the same."""

    measured: float
    places: Mapping[tuple[str, ...], int]
    ends: Sequence[tuple[float, float] | None]
    """None: nothing is known of these sums."""

    def of(self, keys: tuple[str, ...]) -> tuple[float, float] | None:
        place = self.places.get(keys)
        return None if place is None else self.ends[place]


class BulkLookup:
    """A table of samples that finds those of a workload's pods at once, without looking each of them up. It never
    changes: the next reading has another one."""

    def together(self, keys: tuple[str, ...]) -> Samples:
        """The same as one_by_one."""
        raise NotImplementedError

    def sum(self, keys: tuple[str, ...]) -> float:
        """The sum of `together`, in its order."""
        return sum([sample.value for sample in self.together(keys)])

    def bounds(self) -> SumBounds | None:
        """What is known of sums without looking at samples, of the pods of each workload that all have some; None:
        nothing."""
        return None


def one_by_one(table: Mapping[str, Samples], keys: tuple[str, ...]) -> Samples:
    """The samples of these subjects, in this order. A subject without any is skipped."""
    return tuple(chain.from_iterable(map(table.get, keys, repeat(()))))


def samples_of(table: Mapping[str, Samples], keys: tuple[str, ...]) -> Samples:
    """The samples of these subjects, in the way that is shortest for the table."""
    return table.together(keys) if isinstance(table, BulkLookup) else one_by_one(table, keys)


Sizes = dict[str, dict[str, float]]
"""Requests by container, then resource, in cores or bytes."""


class Resizing(Struct, frozen=True, gc=False):
    """A pod whose resize is not complete: `state` is Deferred (no room on its node now), Infeasible (never) or
    InProgress, `message` is its kubelet's."""

    pod: str
    state: str
    message: str = ""


class Resources(Struct, frozen=True, gc=False):
    """What a container should request: in one pod, now; or (pod empty) in general, with what it requests at present and
    why. Without `requests` it is not known. `strategy` is set by judgement."""

    container: str
    requests: dict[str, float] = {}
    present: dict[str, float] = {}
    pod: str = ""
    reason: str = ""
    message: str = ""
    strategy: str = ""
