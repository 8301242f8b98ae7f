"""Computes the band of a series' sum in which a metric asks for the same count.

Knows one metric at one time. Where pods are counted one by one, as one is not ready or has no sample, the sum does not
determine the count: then any new sample may change it.
"""

from collections.abc import Callable, Sequence
from math import ceil, floor

from elasticd.api import NEVER, Band, Observation, Quality, Sample, Series
from elasticd.kit import band_around

from .grouping import MetricError, Startup, total_at_a_glance
from .options import ContainerResource, External, Metric, Object, Resource, quantity_milli
from .proposals import Terms, average_gauge, count_at, count_of_whole, utilization

Counts = Callable[[int], int]
"""Maps a use in thousandths to the count it asks for."""


def steady_band(metric: Metric, observation: Observation, terms: Terms) -> Band:
    """The band of the metric's series."""
    series = observation.series.get(metric.source)
    if series is None or series.quality is not Quality.FRESH:
        return NEVER if series is not None and series.usable else Band()  # unusable: its values change nothing
    try:
        counts = _counts(metric, series, observation, terms)
        return NEVER if counts is None else _band_of(counts, series.samples)
    except MetricError:
        return NEVER


def _counts(metric: Metric, series: Series, observation: Observation, terms: Terms) -> Counts | None:
    """The count as a function of the sum; None where the sum does not determine it."""
    if isinstance(metric, Object | External):
        alone = all(not sample.pod for sample in series.samples)
        if isinstance(metric, Object) and (len(series.samples) != 1 or not alone):
            return None
        return lambda usage: count_of_whole(metric, usage, observation, terms)
    if isinstance(metric, ContainerResource) or len(observation.pods) != observation.workload.replicas:
        return None
    cpu = isinstance(metric, Resource) and metric.resource == "cpu"
    startup = Startup(observation.at, terms.initialization, terms.readiness_delay) if cpu else None
    ref, pods = observation.workload.ref, observation.pods
    if total_at_a_glance(ref, pods, series.samples, startup) is None:
        return None
    if isinstance(metric, Resource) and metric.utilization is not None:
        gauge = utilization((ref, metric.resource, "", terms.old, metric.utilization), pods)
        return lambda used: count_at(used, gauge, observation, terms)
    average = average_gauge(quantity_milli(metric.average_value or 0), observation, terms)
    return lambda used: count_at(used, average, observation, terms)


def _band_of(counts: Counts, samples: Sequence[Sample]) -> Band:
    """Around the present sum. Each sample is rounded up, so their sum may be a thousandth more for each."""
    total, slack = sum([sample.value for sample in samples]), len(samples) + 1
    replicas = counts(_thousandths(total, slack))

    def same(value: float) -> bool:
        least = max(0, floor(value * 1000.0 * (1 - 1e-12)) - 1)
        return counts(least) == replicas == counts(_thousandths(value, slack))

    return band_around(same, total)


def _thousandths(value: float, slack: int) -> int:
    return ceil(value * 1000.0 * (1 + 1e-12)) + slack
