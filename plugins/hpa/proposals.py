"""Computes one proposal from one metric, the HPA's replica calculator, and the band in which the proposal stays.

Integers are thousandths, divisions truncate, ratios are doubles, and a count is the ceiling of a product of doubles.
Knows one workload at one time; knows nothing of the past, so nothing here waits or limits.
"""

from collections.abc import Callable, Sequence
from math import ceil, floor
from typing import Any

from elasticd.api import MOST, NEVER, Band, LeftOut, Observation, Pod, Quality, Ref, Sample, Series, Struct
from elasticd.kit import Memo, band_around, format_milli, why_unseen

from .grouping import (
    Groups,
    MetricError,
    Startup,
    Usage,
    count_ready,
    group_pods,
    left_out,
    not_ready,
    requests_by_pod,
    thousandths,
    total_at_a_glance,
    usage_by_pod,
)
from .options import ContainerResource, External, Metric, Object, Pods, Resource, quantity_milli

MAX_INT64 = 2**63 - 1


class Proposal(Struct, frozen=True, gc=False):
    """A count, with the current value and the target as `kubectl get hpa` prints them."""

    replicas: int
    current: str
    target: str
    left_out: tuple[LeftOut, ...] = ()


class Terms(Struct, frozen=True, gc=False):
    """The options of the strategy that the arithmetic needs. `old`: as in 1.20.2."""

    up: float
    down: float
    initialization: float
    readiness_delay: float
    old: bool

    def tolerate(self, ratio: float) -> bool:
        """HPA: Tolerance. At the very edge the two rule sets differ, as doubles do. NaN is not tolerated."""
        if self.old:
            return abs(1.0 - ratio) <= (self.up if ratio > 1.0 else self.down)
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class _Utilization(Struct, frozen=True, gc=False):
    """Use in percent of the requests. Pods without a request are skipped, as they are not among the known pods."""

    requests: dict[str, int]
    whole: int
    """What all pods request together."""
    target: int
    fallback: int
    at_one: bool = False
    checks_count: bool = True

    def measure(self, values: dict[str, int]) -> tuple[float, int]:
        """The ratio to the target, and the truncated percentage it is computed from; over the pods that have a
        request."""
        requests = self.requests
        if values.keys() == requests.keys():
            return self.part(sum(values.values()), self.whole)
        pairs = [(value, requests[name]) for name, value in values.items() if name in requests]
        return self.part(sum(value for value, _ in pairs), sum(request for _, request in pairs))

    def part(self, used: int, requested: int) -> tuple[float, int]:
        """The same from the sums of use and of requests."""
        if requested == 0:
            raise MetricError("no metrics returned matched known pods")
        percent = used * 100 // requested if 0 <= used <= MAX_INT64 else _divide(_capped(used) * 100, requested)
        return percent / self.target, percent

    def missing(self, pod: str) -> int:
        """The use that a pod without a sample counts for when the others use too little."""
        return self.requests[pod] * self.fallback // 100


class _Average(Struct, frozen=True, gc=False):
    """The plain average over the pods."""

    whole: int
    """How many they are."""
    target: int
    at_one: bool
    checks_count: bool

    def measure(self, values: dict[str, int]) -> tuple[float, int]:
        return self.part(sum(values.values()), len(values))

    def part(self, used: int, pods: int) -> tuple[float, int]:
        average = _divide(_capped(used), pods)
        return average / self.target, average

    def missing(self, pod: str) -> int:
        return self.target


_Gauge = _Utilization | _Average


def _gauge(key: tuple[Ref, str, str, bool, int], pods: tuple[Pod, ...]) -> _Utilization:
    _, resource, container, old, target = key
    requests = requests_by_pod(pods, resource, container, old=old)
    return _Utilization(requests, sum(requests.values()), target, 100 if old else max(100, target))


utilization = Memo(_gauge)
"""Requests and target of a workload's pods, by (workload, resource, container, whether as in 1.20, target)."""


def propose(metric: Metric, observation: Observation, terms: Terms) -> Proposal:
    """The proposal of one metric. Raises MetricError when it is not known. Beyond the HPA: a series that is stale or
    had unusable samples, and a sum of only some samples, may raise the count, never lower it."""
    series = _series(metric, observation)
    proposal = _CALCULATE[type(metric)](metric, series, observation, terms)
    if proposal.replicas >= observation.workload.replicas:
        return proposal
    # Some of the pods can stand for all; some samples of a sum cannot.
    may_lower = series.quality is Quality.FRESH if isinstance(metric, External) else series.trusted
    if not may_lower:
        why = f": {series.message}" if series.message else ""
        raise MetricError(f"{series.name} is {series.quality.value} and must not lower the count{why}")
    return proposal


def _series(metric: Metric, observation: Observation) -> Series:
    name = metric.source
    series = observation.series.get(name)
    if series is None:
        raise MetricError(f"unable to get metric {name}: there is no such series")
    if isinstance(metric, ContainerResource):
        series = series.of_container(metric.container)
    if series.trusted:
        return series
    if series.quality is Quality.EMPTY or series.quality is Quality.ERROR:
        raise MetricError(f"unable to get metric {name}: {series.message or 'no metrics returned'}")
    if not series.usable:
        raise MetricError(f"unable to trust metric {name}, which is {series.quality.value}: {series.message}")
    return series


_Sorted = tuple[dict[str, int], Groups]
"""The use of each pod that counts, and how the pods are grouped."""


_OfPods = Resource | ContainerResource | Pods


def _of_pods(metric: _OfPods, series: Series, observation: Observation, terms: Terms) -> Proposal:
    """Propose for Resource, ContainerResource and Pods, all targets."""
    usage = _measure_pods(metric, series, observation, terms)
    excluded = () if isinstance(usage, int) else left_out(observation.pods, usage[1])
    gauge = _gauge_of(metric, observation, terms)
    replicas, measured = _propose_count(usage, gauge, observation, terms)
    if isinstance(gauge, _Utilization):
        return Proposal(replicas, f"{measured}%", f"{gauge.target}%", excluded)
    return Proposal(replicas, format_milli(measured), format_milli(gauge.target), excluded)


def _gauge_of(metric: _OfPods, observation: Observation, terms: Terms) -> _Gauge:
    if metric.utilization is None:
        target = quantity_milli(metric.average_value or 0)
        return _Average(len(observation.pods), target, terms.old, not terms.old)
    key = (observation.workload.ref, metric.resource, metric.container, terms.old, metric.utilization)
    return utilization(key, observation.pods)


def _startup(metric: _OfPods, observation: Observation, terms: Terms) -> Startup | None:
    """The start-up rules, which are about CPU."""
    if metric.resource != "cpu":
        return None
    return Startup(observation.at, terms.initialization, terms.readiness_delay)


def _measure_pods(metric: _OfPods, series: Series, observation: Observation, terms: Terms) -> int | _Sorted:
    """The use of the pods: a sum where all of them count, else pod by pod."""
    startup = _startup(metric, observation, terms)
    if not metric.container:
        used = total_at_a_glance(observation.workload.ref, observation.pods, series.samples, startup)
        if used is not None:
            return used
    usage = _usage(series, metric.container, strict=terms.old)
    return usage.values, _group(usage, observation, startup)


def _usage(series: Series, container: str, *, strict: bool) -> Usage:
    """The pods' samples. `strict` (1.20): one pod without the named container makes all of them unusable."""
    usage = usage_by_pod(series.samples, container)
    if not usage.values:
        of = f" of container {container}" if container else ""
        raise MetricError(f"unable to get metric {series.name}{of}: no metrics returned")
    if strict and container:
        for sample in series.samples:
            if sample.pod and sample.pod not in usage.values:
                raise MetricError(f"container {container} not present in metrics for pod {sample.pod}")
    return usage


def _group(usage: Usage, observation: Observation, startup: Startup | None) -> Groups:
    """The groups of pods. Removes ignored and unready pods from `usage`."""
    if not observation.pods:
        raise MetricError("no pods returned by selector while calculating replica count")
    groups = group_pods(observation.pods, usage.samples, startup)
    for name in (*groups.ignored, *groups.unready):
        usage.values.pop(name, None)
    if not usage.values:
        error = MetricError("did not receive metrics for targeted pods (pods might be unready)")
        error.left_out = left_out(observation.pods, groups)
        raise error
    return groups


def _propose_count(usage: int | _Sorted, gauge: _Gauge, observation: Observation, terms: Terms) -> tuple[int, int]:
    """HPA: One metric, steps 5 to 9: the count, and the value that the first pass measured."""
    current = observation.workload.replicas
    if isinstance(usage, int):
        return _count_at(usage, gauge, observation, terms), gauge.part(usage, gauge.whole)[1]
    values, groups = usage
    ratio, measured = gauge.measure(values)
    up_unready = bool(groups.unready) and ratio > 1.0
    if not up_unready and not groups.missing:
        return (current if terms.tolerate(ratio) else _count(ratio * groups.ready)), measured
    if ratio < 1.0:
        values.update((name, gauge.missing(name)) for name in groups.missing)
    elif ratio > 1.0 or gauge.at_one:
        values.update(dict.fromkeys(groups.missing, 0))
    if up_unready:
        values.update(dict.fromkeys(groups.unready, 0))
    second, _ = gauge.measure(values)
    if terms.tolerate(second) or ratio < 1.0 < second or second < 1.0 < ratio:
        return current, measured
    replicas = _count(second * len(values))
    if gauge.checks_count and (replicas > current if second < 1.0 else replicas < current):
        return current, measured
    return replicas, measured


def _count_at(used: int, gauge: _Gauge, observation: Observation, terms: Terms) -> int:
    ratio, _ = gauge.part(used, gauge.whole)
    return observation.workload.replicas if terms.tolerate(ratio) else _count(ratio * len(observation.pods))


def _object(metric: Object, series: Series, observation: Observation, terms: Terms) -> Proposal:
    alone = [sample for sample in series.samples if not sample.pod]
    if not alone:
        raise MetricError(f"unable to get metric {series.name}: no metrics returned")
    usage = thousandths(max(alone, key=lambda sample: sample.measured).value)
    return _of_workload(metric, _capped(usage), observation, terms)


def _external(metric: External, series: Series, observation: Observation, terms: Terms) -> Proposal:
    if not series.samples:
        raise MetricError(f"unable to get external metric {series.name}: no metrics returned")
    usage = sum(thousandths(sample.value) for sample in series.samples)
    return _of_workload(metric, _capped(usage), observation, terms)


def _of_workload(metric: Object | External, usage: int, observation: Observation, terms: Terms) -> Proposal:
    """Propose for Object and External, with target AverageValue (by status.replicas) or Value (by ready pods)."""
    if metric.value is not None:
        target = quantity_milli(metric.value)
        replicas = _by_ready(usage / target, observation, terms)
        return Proposal(replicas, format_milli(usage), format_milli(target), not_ready(observation.pods))
    assert metric.average_value is not None, "options checks it"  # noqa: S101
    target = quantity_milli(metric.average_value)
    counted = observation.workload.status_replicas
    within = counted > 0 and terms.tolerate(usage / (target * counted))
    replicas = counted if within else _count(usage / target)
    average = _capped(ceil(usage / counted)) if counted > 0 else usage  # a double may round up beyond an int64
    return Proposal(replicas, format_milli(average), f"{format_milli(target)} (avg)")


def _by_ready(ratio: float, observation: Observation, terms: Terms) -> int:
    """The ratio times the ready pods, not times the current count; at 0 replicas the ratio itself. By pods that the
    watch does not show it is no fewer."""
    current = observation.workload.replicas
    if current == 0:
        return _count(ratio)
    if terms.tolerate(ratio):
        return current
    if not observation.pods:
        raise MetricError("unable to calculate ready pods: no pods returned by selector")
    count = _count(ratio * count_ready(observation.pods))
    if count >= current or not (why := why_unseen(observation.workload, observation.pods)):
        return count
    if terms.old:  # a metric that fails keeps nothing from scaling in
        return current
    raise MetricError(f"unable to calculate ready pods: {why}")


def _divide(amount: int, by: int) -> int:
    """Integer division as Go does it: towards zero."""
    return amount // by if amount >= 0 else -(-amount // by)


def _capped(amount: int) -> int:
    """The amount cut to the range of an int64, in which the HPA keeps sums."""
    return amount if -MAX_INT64 <= amount <= MAX_INT64 else MAX_INT64 if amount > 0 else -MAX_INT64


def _count(product: float) -> int:
    return max(0, min(ceil(product), MOST))


Counts = Callable[[int], int]
"""Maps a use in thousandths to the count it asks for."""


def steady_band(metric: Metric, observation: Observation, terms: Terms) -> Band:
    """The band of the metric's series."""
    series = observation.series.get(metric.source)
    if series is None or series.quality is not Quality.FRESH:
        return NEVER if series is not None and series.usable else Band()  # unusable: its values change nothing
    try:
        counts = _counts_of(metric, series, observation, terms)
        return NEVER if counts is None else _band_of(counts, series.samples)
    except MetricError:
        return NEVER


def _counts_of(metric: Metric, series: Series, observation: Observation, terms: Terms) -> Counts | None:
    """The count as a function of the sum; None where the sum does not determine it."""
    if isinstance(metric, Object | External):
        alone = all(not sample.pod for sample in series.samples)
        if isinstance(metric, Object) and (len(series.samples) != 1 or not alone):
            return None
        return lambda usage: _of_workload(metric, _capped(usage), observation, terms).replicas
    if isinstance(metric, ContainerResource) or len(observation.pods) != observation.workload.replicas:
        return None
    startup = _startup(metric, observation, terms)
    if total_at_a_glance(observation.workload.ref, observation.pods, series.samples, startup) is None:
        return None
    gauge = _gauge_of(metric, observation, terms)
    return lambda used: _count_at(used, gauge, observation, terms)


def _band_of(counts: Counts, samples: Sequence[Sample]) -> Band:
    """Around the present sum. Each sample is rounded up, so their sum may be a thousandth more for each."""
    total, slack = sum([sample.value for sample in samples]), len(samples) + 1
    replicas = counts(_rounded_up(total, slack))

    def same(value: float) -> bool:
        least = max(0, floor(value * 1000.0 * (1 - 1e-12)) - 1)
        return counts(least) == replicas == counts(_rounded_up(value, slack))

    return band_around(same, total)


def _rounded_up(value: float, slack: int) -> int:
    return ceil(value * 1000.0 * (1 + 1e-12)) + slack


_CALCULATE: dict[type, Callable[[Any, Series, Observation, Terms], Proposal]] = {
    Resource: _of_pods,
    ContainerResource: _of_pods,
    Pods: _of_pods,
    Object: _object,
    External: _external,
}
