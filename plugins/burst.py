"""Burst: follows the mean load of a minute, reacts to bursts of seconds at once, and shrinks only after a burst is
over.

Knows the means of a series over two windows and how many pods were ready; knows no requests.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import ceil, floor
from typing import Annotated, Literal

from elasticd.api import (
    MOST,
    Limit,
    Measure,
    Meta,
    Observation,
    Past,
    Point,
    Policy,
    Poll,
    Quality,
    Recommendation,
    Strategy,
    Struct,
    Workload,
    hookimpl,
)
from elasticd.kit import USED_BY_PODS, serving, stabilize, timeline

EXACT = 1e-9
"""A mean of doubles may lie this much above a whole number of pods."""

Rate = Annotated[float, Meta(gt=1, description="times the ready pods, at once")]


class _Readiness(Struct, frozen=True, gc=False):
    """How many pods were ready at which time. `now` is the present count, `since` the sorted times since when these are
    ready, `steps` (time, change of the count), oldest first. For `youth` seconds after the change that brought it, a
    pod may not have been ready."""

    now: int
    since: tuple[float, ...]
    steps: tuple[tuple[float, int], ...]
    youth: float

    def survivors(self, at: float) -> int:
        """How many of the pods that are ready now were ready at a time."""
        return bisect_right(self.since, at)

    def count(self, point: Point) -> int:
        """How many pods were ready when this point was measured: the reported or the reconstructed number, at least 1.
        Pods that were replaced since are missed, so a smaller load counts as a burst: too many pods for a while, never
        too few."""
        return max(1, point.pods, self.survivors(point.at) + self.removed(point.at))

    def removed(self, at: float) -> int:
        """How many of the pods that were not young at a time have been scaled away since. The youngest go first, so
        removing what a burst has brought does not lower the count that the burst began with."""
        level = old = lowest = 0  # relative to the count before the youngest pods came
        for when, step in self.steps:
            if when <= at - self.youth:
                continue
            level += step
            lowest = min(lowest, level)
            if when <= at:
                old = lowest
        return old - lowest


class _Buckets(Struct, frozen=True, gc=False):
    """The seconds that have samples, in order, and the mean of the series in each."""

    seconds: list[int]
    values: list[float]

    def window(self, end: float, width: float) -> list[float]:
        """The values of the `width` seconds up to `end`; never empty where the second of `end` has one."""
        last = floor(end)
        return self.values[bisect_right(self.seconds, last - width) : bisect_right(self.seconds, last)]


class Burst(Strategy, tag="burst", frozen=True):
    """Recommends as many pods as bring each to `utilization` x `target`, by the series' mean over `stable_window`; in a
    burst, by the mean over `panic_window` if that asks for more.

    The series is summed over the pods, or is one number for the workload. A panic begins when the short window asks for
    `panic_threshold` times the ready pods, and ends when this has not been so for a whole stable window; during it the
    wish never falls. At once it asks for at most `max_up_rate` times the ready pods and at least 1 / `max_down_rate` of
    them (rounded down); where any are needed, for at least `activation_scale`. `scale_down_delay` holds the highest
    wish of so many seconds.

    Windows are means over buckets of 1 s, up to the newest sample; a second without a sample is left out, not counted
    as 0. The wish is not below the current count while the stable window is not full (after a start, a restart, or a
    gap of half of it), while samples of some pods are missing in it, or while the present sample covers a part of the
    pods; with more than one pod it then also follows the short window. So a source that measures less often than every
    half stable window never lets it shrink. With "weighted" newer seconds count more.

    The panic is computed from remembered samples and from when pods became ready, so a restart changes nothing. Excess
    burst capacity is left out: it is for Knative's activator.

    Source: Knative serving, pkg/autoscaler/scaling/autoscaler.go and pkg/autoscaler/aggregation/bucketing.go.
    """

    series: Annotated[str, Meta(min_length=1, description="the load, of each pod or of the workload")] = "concurrency"
    target: Annotated[float, Meta(gt=0, description="in the series' unit, for each pod")] = 100
    utilization: Annotated[float, Meta(gt=0, le=1, description="fraction of target that is aimed at")] = 0.7
    stable_window: Annotated[float, Meta(ge=6, le=3600, description="seconds")] = 60
    panic_window: Annotated[float, Meta(ge=1, description="seconds")] = 6
    panic_threshold: Annotated[float, Meta(gt=1, description="times the ready pods")] = 2
    max_up_rate: Rate = 1000
    max_down_rate: Rate = 2
    activation_scale: Annotated[int, Meta(ge=1, le=MOST, description="pods")] = 1
    scale_down_delay: Annotated[float, Meta(ge=0, le=3600, description="seconds")] = 0
    aggregation: Annotated[
        Literal["mean", "weighted"], Meta(description="of the seconds of a window; weighted: newer ones count more")
    ] = "mean"
    period: Poll = 2.0

    def __post_init__(self) -> None:
        if self.panic_window > self.stable_window:
            most = f"stable_window = {self.stable_window:g}"
            raise ValueError(f"panic_window: must be <= {most}, is {self.panic_window:g}")

    def check(self, policy: Policy) -> str | None:
        most, least = policy.replicas.max, self.activation_scale
        return f"activation_scale: must be <= replicas.max = {most}, is {least}" if least > most else None

    def reads(self) -> tuple[str, ...]:
        return (self.series,)

    def recalls(self) -> float:
        """Two stable windows, as a burst at the beginning of one depends on those before it, and a panic window."""
        return 2 * self.stable_window + self.panic_window

    def fastest(self) -> float:
        return self.period

    def sleeps(self) -> str:
        """At 0 pods a series of pods cannot be measured; a series of the workload can."""
        return f"looks at the {self.series} of pods alone" if self.series in USED_BY_PODS else ""

    @hookimpl
    def poll_interval(self) -> float:
        return self.period

    @hookimpl
    def limit(self, wish: int, observation: Observation, past: Past) -> Limit | None:
        if not self.scale_down_delay:
            return None
        return stabilize(wish, observation, past, up=0, down=self.scale_down_delay)

    @hookimpl
    def recommend_replicas(self, workload: Workload, observation: Observation, past: Past) -> Recommendation:
        """The count that the two windows ask for; None where the series is not usable."""
        series = observation.series.get(self.series)
        if series is None or not series.usable:
            return Recommendation(None, "SeriesUnknown", series.message if series else f"no series {self.series}")
        points, ready = timeline(series, past), _readiness(observation, past, self.stable_window)
        buckets = _buckets(points)
        end = points[-1].at
        stable = self._average(buckets.window(end, self.stable_window))
        short = self._average(buckets.window(end, self.panic_window))
        panic, gap = self._panic(points, buckets, ready, observation.at), self._gap(points, ready, past, observation.at)
        largest = 0 if panic is None else max(past.wishes(panic, inclusive=True), default=0)
        panicking = panic is not None or (gap != "" and ready.now > 1)
        wish = self.desired(stable, short, max(1, ready.now), panicking=panicking, largest=largest)
        # Growth is limited by the ready pods, which is no reason to shrink: others may not be ready yet, or not seen.
        wish = max(wish, min(self._needed(stable), workload.replicas))
        reason = "StableWindow" if panic is None else "Burst"
        if gap and wish <= workload.replicas:
            wish, reason = workload.replicas, "WindowNotFull"
        means = f"{stable:.4g} over {self.stable_window:g} s, {short:.4g} over {self.panic_window:g} s"
        if wish < workload.replicas and series.quality is not Quality.FRESH:
            return Recommendation(None, "PartlyUnknown", f"{series.message}; {means}")
        aim = self.target * self.utilization
        measure = Measure(self.series, f"{stable:.4g}", f"{aim:.4g}", wish)
        return Recommendation(wish, reason, f"{means}; {gap}" if gap else means, (measure,))

    def desired(self, stable: float, short: float, ready: int, *, panicking: bool = False, largest: int = 0) -> int:
        """The wish by the means of both windows with `ready` pods (at least 1); in a panic not below the largest wish
        since it began. Source: autoscaler.go, Scale."""
        by_stable, by_short = self._count(stable, ready), self._count(short, ready)
        return max(by_stable, by_short, largest) if panicking else by_stable

    def _needed(self, load: float) -> int:
        return ceil(load / (self.target * self.utilization) - EXACT)

    def _count(self, load: float, ready: int) -> int:
        needed = self._needed(load)
        count = min(max(needed, floor(ready / self.max_down_rate)), ceil(self.max_up_rate * ready))
        return max(count, self.activation_scale) if needed > 0 and self.activation_scale > 1 else count

    def _average(self, values: Sequence[float]) -> float:
        if self.aggregation == "mean":
            return sum(values) / len(values)
        multiplier = smoothing(len(values))
        # Knative's sum lacks the weights of the seconds before the first, so a young window would give too low a mean.
        return weighted(values, multiplier) / (1 - (1 - multiplier) ** len(values))

    def _panic(self, points: Sequence[Point], buckets: _Buckets, ready: _Readiness, now: float) -> float | None:
        """Since when bursts have followed each other within a stable window; None: there is no panic."""
        fewest = max(1, ready.survivors(points[0].at))
        if self._needed(max(buckets.values)) < self.panic_threshold * fewest:  # usually: no window's mean exceeds it
            return None
        since: float | None = None
        for point in reversed(points):
            if (now if since is None else since) - point.at > self.stable_window:
                break
            short = self._average(buckets.window(point.at, self.panic_window))
            if self._needed(short) / ready.count(point) >= self.panic_threshold:
                since = point.at
        return since

    def _gap(self, points: Sequence[Point], ready: _Readiness, past: Past, now: float) -> str:
        """Why the stable window must not shrink the workload, or an empty string."""
        start = points[-1].at - self.stable_window
        inside = [point for point in points if point.at > start]
        if now - past.since < self.stable_window or points[0].at > start:
            return f"watched for less than {self.stable_window:g} s"
        inside = [points[-len(inside) - 1], *inside]
        if any(after.at - before.at > self.stable_window / 2 for before, after in pairwise(inside)):
            return f"without samples for more than {self.stable_window / 2:g} s"
        lacking = any(0 < point.pods < ready.now and point.pods < ready.survivors(point.at) for point in inside)
        return "some pods had no sample" if lacking else ""


def weighted(values: Sequence[float], multiplier: float) -> float:
    """The sum of v (1 - m)^k m, with k = 0 for the newest, which is last. Source: bucketing.go, weighted average."""
    return sum(value * multiplier * float((1 - multiplier) ** age) for age, value in enumerate(reversed(values)))


def smoothing(buckets: int) -> float:
    """The multiplier with which the oldest of so many buckets weighs next to nothing. Source: bucketing.go."""
    return max(1 - float(0.0001 ** (1 / buckets)), 0.2)


def _readiness(observation: Observation, past: Past, longest: float) -> _Readiness:
    ready = serving(observation.pods).ready
    steps = tuple((change.at, change.after - change.before) for change in past.changes)
    # Start-up times of removed pods are not known: assume the slowest of the present ones.
    starts = [pod.ready_changed - pod.created for pod in ready if pod.created]
    youth = min(longest, max(starts)) if starts else longest
    return _Readiness(len(ready), tuple(sorted(pod.ready_changed for pod in ready)), steps, youth)


def _buckets(points: Sequence[Point]) -> _Buckets:
    totals_by_second: dict[int, list[float]] = {}
    for point in points:
        totals_by_second.setdefault(floor(point.at), []).append(point.total)
    return _Buckets(list(totals_by_second), [sum(totals) / len(totals) for totals in totals_by_second.values()])


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    return [Burst]
