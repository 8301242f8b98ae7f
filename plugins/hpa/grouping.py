"""Groups and sums pods, their samples and their requests as the HPA does.

All amounts are integers in thousandths of cores, bytes or ones. Knows pods and samples; knows no target.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import inf

from elasticd.api import LeftOut, Pod, Ref, Sample, Struct
from elasticd.kit import Memo, milli

EXACT = 2.0**53
"""Below this a double represents every whole number."""

_NAMED = 10
"""How many of the pods that are left out are named; their number is always given."""

_NEAR = 1e-5
"""In thousandths: only a value this little above a whole number can be brought there by rounding to six decimals."""


class MetricError(Exception):
    """A metric cannot be computed; the text is shown to users. `left_out` are the pods that its rule excludes."""

    left_out: tuple[LeftOut, ...] = ()


class Usage(Struct, frozen=True, gc=False):
    """The use of each pod, and its sample (of several containers the oldest)."""

    values: dict[str, int]
    samples: dict[str, Sample]


class Groups(Struct, frozen=True, gc=False):
    """How many pods are ready, and the names of those that are not ready, lack a sample, or are ignored."""

    ready: int
    unready: list[str]
    missing: list[str]
    ignored: list[str]


class Startup(Struct, frozen=True, gc=False):
    """How long (seconds) a starting pod's CPU samples are not trusted."""

    now: float
    initialization: float
    readiness_delay: float

    def distrusts(self, pod: Pod, sample: Sample) -> bool:
        """Whether the pod counts as unready (HPA: Grouping pods, 4). Equal times count as ready."""
        if pod.ready is None or pod.started is None:
            return True
        if pod.started + self.initialization > self.now:
            return not pod.ready or sample.measured < pod.ready_changed + sample.window
        return not pod.ready and pod.started + self.readiness_delay > pod.ready_changed


def thousandths(value: float) -> int:
    """The same as milli(), but rounds to six decimals only where that can change the result, as it is slow."""
    product = value * 1000.0
    fraction = product % 1.0
    if abs(product) < EXACT:
        if fraction > _NEAR:
            return int(product - fraction) + 1
        if fraction == 0.0:
            return int(product)
    return milli(value)


def total_thousandths(samples: Sequence[Sample]) -> int:
    """The sum of thousandths() over the samples, inlined: every evaluation of every workload runs this."""
    total = 0.0
    for sample in samples:
        product = sample.value * 1000.0
        fraction = product % 1.0
        if fraction > _NEAR:
            total += product - fraction + 1.0
        elif fraction == 0.0:
            total += product
        elif abs(product) < EXACT:
            total += milli(sample.value)
        else:
            total = inf
    return int(total) if abs(total) < EXACT else sum([milli(sample.value) for sample in samples])


_request_milli = lru_cache(maxsize=1024)(milli)


def usage_by_pod(samples: Sequence[Sample], container: str = "") -> Usage:
    """The use of each pod: its containers, or the named one, rounded up one by one and summed."""
    values: dict[str, int] = {}
    oldest: dict[str, Sample] = {}
    for sample in samples:
        pod = sample.pod
        if not pod or (container and sample.container != container):
            continue
        if pod not in values:
            values[pod] = thousandths(sample.value)
            oldest[pod] = sample
            continue
        values[pod] += thousandths(sample.value)
        if sample.measured < oldest[pod].measured:
            oldest[pod] = sample
    return Usage(values, oldest)


def group_pods(pods: Sequence[Pod], samples: dict[str, Sample], startup: Startup | None) -> Groups:
    """HPA: Grouping pods, the first rule that applies. `startup` only for CPU."""
    ready = 0
    unready: list[str] = []
    missing: list[str] = []
    ignored: list[str] = []
    for pod in pods:
        name = pod.name
        if pod.deleted or pod.phase == "Failed":
            ignored.append(name)
        elif pod.phase == "Pending":
            unready.append(name)
        elif name not in samples:
            missing.append(name)
        elif startup is not None and startup.distrusts(pod, samples[name]):
            unready.append(name)
        else:
            ready += 1
    return Groups(ready, unready, missing, ignored)


def left_out(pods: Sequence[Pod], groups: Groups) -> tuple[LeftOut, ...]:
    """The pods that are not counted as they are, grouped by reason."""
    if not (groups.unready or groups.missing or groups.ignored):
        return ()
    by_name = {pod.name: pod for pod in pods}
    names_by_reason: dict[str, list[str]] = {}
    for name in groups.ignored:
        why = f"{'deleted' if by_name[name].deleted else 'failed'}, takes no part"
        names_by_reason.setdefault(why, []).append(name)
    for name in groups.unready:
        names_by_reason.setdefault(_unready(by_name[name]), []).append(name)
    if groups.missing:
        why = "no sample; as idle where more are asked for, as fully used where fewer are"
        names_by_reason[why] = groups.missing
    return summarize(names_by_reason)


def summarize(names_by_reason: dict[str, list[str]]) -> tuple[LeftOut, ...]:
    """Names of pods by the reason why they are left out, shortened for display."""
    return tuple(LeftOut(why, len(names), tuple(sorted(names)[:_NAMED])) for why, names in names_by_reason.items())


def _unready(pod: Pod) -> str:
    if pod.phase == "Pending":
        why = "pending"
    elif pod.ready:
        why = "too young, not measured for a whole window since it was ready"
    else:
        why = "not ready yet"
    return f"{why}; as idle where more are asked for, else without it"


class Steady(Struct, frozen=True, gc=False):
    """Pods that are all running and ready: their names in order, when the last of them started, and since when all are
    ready. No names: some are not."""

    names: list[str]
    started: float = 0.0
    ready: float = 0.0

    def believes(self, samples: Sequence[Sample], startup: Startup) -> bool:
        """Whether all samples were taken after the pods' start-up, so that `startup` distrusts none of the pods."""
        if self.started + startup.initialization <= startup.now:
            return True
        ready = self.ready
        return not [sample for sample in samples if sample.measured < ready + sample.window]


def _steady(_: Ref, pods: Sequence[Pod]) -> Steady:
    started = [
        pod.started
        for pod in pods
        if pod.ready and pod.started is not None and pod.phase not in {"Pending", "Failed"} and not pod.deleted
    ]
    if len(started) < len(pods):
        return Steady([])
    ready = max((pod.ready_changed for pod in pods), default=0.0)
    return Steady([pod.name for pod in pods], max(started, default=0.0), ready)


_steadiness = Memo(_steady)


def total_at_a_glance(
    ref: Ref, pods: tuple[Pod, ...], samples: Sequence[Sample], startup: Startup | None
) -> int | None:
    """The sum of use where all pods are ready and have samples since their start-up; None: sort them by group."""
    steady, measured = _steadiness(ref, pods), [sample.pod for sample in samples]
    if measured != steady.names and list(dict.fromkeys(measured)) != steady.names:  # several containers each
        return None
    if not measured or (startup is not None and not steady.believes(samples, startup)):
        return None
    return total_thousandths(samples)


def requests_by_pod(pods: Sequence[Pod], resource: str, container: str, *, old: bool) -> dict[str, int]:
    """The request of each pod. For a pod with any pod-level request it is all that a scheduler counts, unless a
    container is named (`old`: 1.20, which has no such requests); else the sum of its containers. HPA: One metric, step
    4. Raises MetricError when a pod, or any container that counts, has no request."""
    requests: dict[str, int] = {}
    for pod in pods:
        if pod.requests and not container and not old:
            requests[pod.name] = _overall_request(pod, resource)
        else:
            requests[pod.name] = _containers_request(pod, resource, container, old)
    return requests


def _overall_request(pod: Pod, resource: str) -> int:
    request = (pod.overall or pod.requested()).get(resource)
    if request is None:
        raise MetricError(f"missing pod-level request for {resource} in Pod {pod.name}")
    return _request_milli(request)


def _containers_request(pod: Pod, resource: str, wanted: str, old: bool) -> int:
    total = 0
    met = False
    for container in pod.containers:
        if (wanted and container.name != wanted) or (old and container.sidecar):
            continue
        request = container.requests.get(resource)
        if request is None:
            where = f"container {container.name} of Pod {pod.name}"
            raise MetricError(f"missing request for {resource} in {where}")
        met = True
        total += _request_milli(request)
    if wanted and not met and not old:
        raise MetricError(f"container {wanted} not found in Pod {pod.name}")
    return total


def count_ready(pods: Iterable[Pod]) -> int:
    """How many pods are Running and Ready, pods that are being deleted included."""
    return sum(1 for pod in pods if pod.phase == "Running" and pod.ready)


def not_ready(pods: Iterable[Pod]) -> tuple[LeftOut, ...]:
    """The pods that are not Running and Ready, with the reason."""
    names = [pod.name for pod in pods if not (pod.phase == "Running" and pod.ready)]
    return summarize({"not running and ready; a value is multiplied by those that are": names}) if names else ()
