"""The nouns, in the order data flows: Sample to Outcome.

Frozen records without behaviour beyond reading themselves. Times are seconds since the epoch, amounts
are in base units (cores, bytes, ones), durations in seconds. Knows nothing of files, clocks or clusters.
"""

import enum
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from elasticd.foreseen import Forecast


class Ref(Struct, frozen=True, order=True, gc=False):
    """Which workload: written NAMESPACE/KIND/NAME."""

    namespace: str
    kind: str
    name: str
    api_version: str = "apps/v1"

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


class Series(Struct, frozen=True, gc=False):
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

    @property
    def trusted(self) -> bool:
        """Whether a count may fall because of it."""
        return self.quality is Quality.FRESH or (self.quality is Quality.PARTIAL and self.covered)

    @property
    def usable(self) -> bool:
        """Whether it may be looked at: all of it, or what is left of it to raise a count with."""
        return self.trusted or (self.may_raise and bool(self.samples))


COST = "controller.kubernetes.io/pod-deletion-cost"
"""The annotation by which a ReplicaSet is told which pods it can spare best: those with the lowest number."""


class Container(Struct, frozen=True, gc=False):
    """A container that counts while the pod runs: an ordinary one, or a sidecar (restartable init container)."""

    name: str
    requests: dict[str, float] = {}
    sidecar: bool = False


class Pod(Struct, frozen=True, gc=False):
    """A pod as far as judgement needs it. `ready` None: no Ready condition yet."""

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


class Node(Struct, frozen=True, gc=False):
    """A node as far as judgement needs it."""

    name: str
    uid: str
    ready: bool
    unschedulable: bool = False
    labels: dict[str, str] = {}
    allocatable: dict[str, float] = {}


class Workload(Struct, frozen=True, gc=False):
    """Anything with a scale subresource, as seen at `version`."""

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


class Observation(Struct, frozen=True, gc=False):
    """What is known about one workload at one time.

    `confirmed` is when the cluster last proved that this view is current. `fault` is why it must not be
    acted on (a condition reason and a sentence), empty when nothing is wrong.
    """

    at: float
    workload: Workload
    pods: tuple[Pod, ...] = ()
    series: dict[str, Series] = {}
    confirmed: float = 0.0
    fault: tuple[str, str] = ("", "")


class Measure(Struct, frozen=True, gc=False):
    """What one metric read and what it asks for: a row of `explain`."""

    metric: str
    current: str = ""
    target: str = ""
    replicas: int | None = None
    reason: str = ""
    message: str = ""


class Recommendation(Struct, frozen=True, gc=False):
    """How many replicas a strategy wants and why; None: it cannot know, so nothing may shrink.

    After `expires` (seconds since the epoch) it is no opinion any more: the next one counts. `strategy` and `priority`
    are set by judgement.
    """

    replicas: int | None
    reason: str
    message: str = ""
    measures: tuple[Measure, ...] = ()
    strategy: str = ""
    expires: float | None = None
    priority: int = 0


ConditionType = Literal["AbleToScale", "ScalingActive", "ScalingLimited"]


class Limit(Struct, frozen=True, gc=False):
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

    def clamp(self, replicas: int) -> int:
        """The count inside the interval that is nearest to this one."""
        if self.highest is not None and replicas > self.highest:
            replicas = self.highest
        return replicas if self.lowest is None or replicas >= self.lowest else self.lowest


class Condition(Struct, frozen=True, gc=False):
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


class Scale(Struct, frozen=True, gc=False, tag="scale"):
    """Set the scale subresource from `before` to `after`, if it still is the workload that was judged."""

    workload: Ref
    uid: str
    version: str
    before: int
    after: int
    reason: str


class Announce(Struct, frozen=True, gc=False, tag="announce"):
    """Tell whoever looks at the workload, as a Kubernetes Event."""

    workload: Ref
    uid: str
    reason: str
    message: str
    warning: bool = False


class Mark(Struct, frozen=True, gc=False, tag="mark"):
    """Set annotations of a workload, or of one of its pods, or take them away (None), if it still has this uid; and
    this version, where one is given."""

    workload: Ref
    uid: str
    annotations: dict[str, str | None]
    pod: str = ""
    reason: str = ""
    version: str = ""

    def on(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """What they are with it."""
        merged = {**annotations, **self.annotations}
        return {key: value for key, value in merged.items() if value is not None}


Action = Scale | Announce | Mark
Verdict = Literal["scale", "keep", "hold"]


class Decision(Struct, frozen=True, gc=False, tag="decision"):
    """All that went into one answer about one workload, and the answer.

    `verdict` is scale (the count changes), keep (it is right as it is) or hold (it cannot be known, or must
    not be changed). `wish` is what the strategies together asked for, `replicas` what is left of it after
    all limits.
    """

    id: str
    at: float
    policy: str
    workload: Ref
    mode: Literal["act", "observe"]
    current: int
    replicas: int
    verdict: Verdict
    reason: str
    message: str
    uid: str = ""
    wish: int | None = None
    recommendations: tuple[Recommendation, ...] = ()
    limits: tuple[Limit, ...] = ()
    conditions: tuple[Condition, ...] = ()
    failures: tuple[Failure, ...] = ()
    series: tuple[Series, ...] = ()
    pods: int = 0
    interval: float = 0.0
    interval_by: str = ""
    action: Scale | None = None
    blind: bool = False
    """Whether it could not be known what is needed."""
    marks: tuple[Mark, ...] = ()
    """What is written before the action, in this order; when one cannot be, the action is not begun."""
    recall: float = 0.0
    """Seconds for which what its series came to is remembered."""

    @property
    def asked(self) -> int | None:
        """The wish as the limits of the wish itself leave it: what is remembered of it."""
        if self.wish is None:
            return None
        asked = self.wish
        for limit in self.limits:
            asked = limit.clamp(asked) if limit.of_wish else asked
        return asked


Result = Literal["done", "refused", "conflict", "failed", "observed"]


class Answer(Struct, frozen=True, gc=False):
    """What a cluster says to an action: done, refused (a budget, a lost lease), conflict (the world moved
    since it was judged) or failed. `reason` is one word for counting, empty when done; `code` is the API's HTTP
    status, 0 when it was not asked."""

    result: Result
    code: int = 0
    message: str = ""
    reason: str = ""


class Readings(Struct, frozen=True, gc=False):
    """What one source said in one read.

    `pods` maps series, then "namespace/pod", to samples (one per container, or one for the pod); `workloads`
    maps series, then "NAMESPACE/KIND/NAME", to samples of the workload as a whole; `nodes` maps series, then node, to
    samples. With an `error` they are empty, and `offers` are the series that it would have (None: it cannot say).
    `faults` says of a series, by name, why it could not be read, or what is wrong with how it is. `newest` is the
    newest time of measurement, where the source knows it without looking at all samples. `complete`: a subject without
    a sample is one that has nothing to measure, and not merely one that was not heard of. `forecasts` maps series, then
    "NAMESPACE/KIND/NAME", to what is expected; a series that is there without a workload has no forecast of it yet.
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


class Outcome(Struct, frozen=True, gc=False, tag="outcome"):
    """What came of a decision's action: done, refused (by us), conflict (the world moved), failed, or
    observed (mode observe: it would have been done). `reason` is one word for counting, `condition` what the HPA would
    say of it. `code` is the API's status, 0 when it was not asked."""

    decision: str
    at: float
    policy: str
    workload: Ref
    result: Result
    before: int
    after: int
    code: int = 0
    message: str = ""
    reason: str = ""
    condition: Condition | None = None
    seconds: float = 0.0
