"""Step tolerance: grows at once, shrinks by small steps, and does nothing within a band around the set point.

Knows what each pod uses at one time and the cooldowns; knows nothing of past load.
"""

from math import ceil
from typing import Annotated, Literal

from elasticd.api import (
    MOST,
    NEVER,
    Band,
    Limit,
    Measure,
    Meta,
    Observation,
    Past,
    Poll,
    Recommendation,
    Series,
    Strategy,
    Struct,
    Workload,
    hookimpl,
)
from elasticd.kit import Serving, band_around, cool_down, request_of, serving

PAPER_PERIOD = 30.0
EXACT = 1e-9
"""Sums of doubles may lie this much above a whole number of pods."""

Step = Annotated[int, Meta(ge=1, le=MOST, description="pods")]
Wait = Annotated[float, Meta(ge=0, le=3600, description="seconds")]


class _Load(Struct, frozen=True, gc=False):
    """`each`: what the pods with a sample use. `missing`: ready pods without a sample; `starting`: pods that are not
    ready. `fill`: what a missing pod counts for where the workload might shrink."""

    each: tuple[float, ...]
    missing: int
    starting: int
    fill: float

    @property
    def least(self) -> float:
        """The sum over the pods, with missing samples as 0."""
        return sum(self.each)

    @property
    def most(self) -> float:
        """The sum over the pods, with missing samples as `fill`."""
        return self.least + self.missing * self.fill


class StepTolerance(Strategy, tag="step-tolerance", frozen=True):
    """Above the band it grows at once to what the load needs and `up` pods more; below it shrinks by up to `down` pods.

    The set point is `target`: percent of each pod's request, or with `unit` "value" the series' own unit for each pod
    (a series of the workload as a whole is divided by the ready pods). The band is `tolerance` percent of the set point
    in both directions, compared with the pods' mean. It never shrinks below `least` pods, nor to where the mean would
    be above the band. After growing nothing changes for `after_up` seconds; after shrinking it does not shrink for
    `after_down`.

    Pods count as in the HPA: a pod that is not ready, or ready without a sample, counts as idle when others ask for
    more; one without a sample counts as fully used (`target`, and at least its request) when they ask for less. Growing
    never asks for fewer pods than there are.

    In mode "paper" one pod outside the band is enough, the band is `tolerance` points (60 +- 15), the load after
    shrinking is not checked, after shrinking nothing changes at all, and it polls every 30 s: what the paper's two
    examples need. Its eq. (4) prints 59.25 where the load is 69.25, as a pod was forgotten. With the true sum mode
    "product", whose band ends at 69, shrinks that example by one pod, not by two, and so does not grow again.

    Source: SATA (Chen, Huang 2019), eqs. (2) to (4), listings 1 and 2.
    """

    series: Annotated[str, Meta(min_length=1, description="what is held at the set point")] = "cpu"
    target: Annotated[float, Meta(gt=0, description="percent of a pod's request, or the series' unit for each pod")] = (
        60
    )
    unit: Annotated[
        Literal["percent", "value"], Meta(description="of target: percent of the requests, or the series' own")
    ] = "percent"
    tolerance: Annotated[float, Meta(ge=0, description='percent of target; points in mode "paper"')] = 15
    up: Step = 2
    down: Step = 2
    least: Step = 2
    after_up: Wait = 180
    after_down: Wait = 300
    period: Poll | None = None
    mode: Annotated[
        Literal["product", "paper"], Meta(description="paper: as SATA has it, one pod outside the band is enough")
    ] = "product"

    def __post_init__(self) -> None:
        most, prefix = (self.target, "target = ") if self.mode == "paper" else (100.0, "")
        if self.tolerance >= most:
            raise ValueError(f"tolerance: must be < {prefix}{most:g}, is {self.tolerance:g}")

    def reads(self) -> tuple[str, ...]:
        return (self.series,)

    def fastest(self) -> float | None:
        return self.period

    @property
    def band(self) -> tuple[float, float]:
        """The lower and the upper end of the band, both included. SATA: 2.2."""
        width = self.tolerance if self.mode == "paper" else self.target * self.tolerance / 100
        return self.target - width, self.target + width

    def sleeps(self) -> str:
        """Without pods there is no use to compare with the set point."""
        return "looks at pods alone"

    def own_pace(self) -> bool:
        return self.mode == "paper"

    def lasts(self) -> bool:
        return self.mode == "product"

    @hookimpl
    def steady_bands(self, workload: Workload, observation: Observation) -> dict[str, Band]:
        """The band of the sum with the same count, where all pods have samples and equal requests."""
        series = observation.series.get(self.series)
        if series is None or not series.usable:
            return {self.series: Band()}
        load, total = self._load(series, observation), sum(sample.value for sample in series.samples)
        if isinstance(load, str) or load.missing or load.starting or not total or self._unequal(series, observation):
            return {self.series: NEVER}
        share, count = load.least / total / len(load.each), len(load.each)
        now = self._answer(load, workload.replicas)

        def same(used: float) -> bool:
            each = (used * share,) * count
            return self._answer(_Load(each, 0, 0, load.fill), workload.replicas) == now

        return {self.series: band_around(same, total)}

    def _unequal(self, series: Series, observation: Observation) -> bool:
        """Whether pods have different requests, or samples and pods do not match one to one."""
        sampled = {sample.pod for sample in series.samples}
        measured = serving(observation.pods, sampled).heard
        if sampled - {""} != {pod.name for pod in measured}:
            return True
        return self.unit == "percent" and len({request_of(pod, self.series) for pod in measured}) > 1

    @hookimpl
    def recommend_replicas(self, workload: Workload, observation: Observation) -> Recommendation:
        """More above the band, else fewer below it: growing goes first. None where the load cannot be known."""
        series = observation.series.get(self.series)
        if series is None or not series.usable:
            return Recommendation(None, "SeriesUnknown", series.message if series else f"no series {self.series}")
        load = self._load(series, observation)
        if isinstance(load, str):
            return Recommendation(None, "LoadUnknown", load)
        current = workload.replicas
        replicas, reason = self._answer(load, current)
        (low, high), mean = self.band, load.least / len(load.each)
        message = f"{mean:.4g} for each of {len(load.each)} pods; the band is {low:.4g} to {high:.4g}"
        sign = "%" if self.unit == "percent" else ""
        measure = Measure(self.series, f"{mean:.4g}{sign}", f"{self.target:g}{sign}", replicas)
        return Recommendation(replicas, reason, message, (measure,))

    @hookimpl
    def limit(self, observation: Observation, past: Past) -> Limit | None:
        """The cooldowns: SATA, the note on them."""
        both = self.mode == "paper"
        return cool_down(observation, past, after_up=self.after_up, after_down=self.after_down, both=both)

    @hookimpl
    def poll_interval(self) -> float | None:
        return PAPER_PERIOD if self.period is None and self.mode == "paper" else self.period

    def _answer(self, load: _Load, current: int) -> tuple[int, str]:
        low, high = self.band
        if self.mode == "paper":
            over = any(use > high for use in load.each)
            under = any(use < low for use in load.each) and not load.missing
        else:
            over = load.least / (len(load.each) + load.missing + load.starting) > high
            under = load.most / (len(load.each) + load.missing) < low
        if over:
            return self._expand(load, current), "AboveTolerance"
        if under and current > self.least:
            return self._contract(load, current)
        return current, "AtLeast" if under else "WithinTolerance"

    def _expand(self, load: _Load, current: int) -> int:
        """SATA, eq. (2). A single pod gets `up` more; in mode "product" only if that is enough."""
        needed = ceil(load.least / self.target + self.up - EXACT)
        if current == 1 and (self.mode == "paper" or load.least <= self.band[1] * (1 + self.up)):
            needed = 1 + self.up
        return max(current, needed)

    def _contract(self, load: _Load, current: int) -> tuple[int, str]:
        """SATA, gradual contraction; in mode "product" only by as many pods as keep the rest within the band."""
        lowest = max(self.least, current - self.down)
        if self.mode == "paper":
            return lowest, "BelowTolerance"
        enough = max(lowest, ceil(load.most / self.band[1] - EXACT))
        return (enough, "BelowTolerance") if enough < current else (current, "WouldExceedTolerance")

    def _load(self, series: Series, observation: Observation) -> _Load | str:
        """What the pods use, in the unit of the set point; or why it is not known."""
        used: dict[str, float] = {}
        for sample in series.samples:
            used[sample.pod] = used.get(sample.pod, 0.0) + sample.value
        pods = serving(observation.pods, used)
        if not pods.ready:
            return "no pod is ready"
        if "" in used:
            return self._of_workload(used[""], pods)
        if not pods.heard:
            return f"no ready pod has a sample of {self.series}"
        each, fill = tuple(used[pod.name] for pod in pods.heard), self.target
        if self.unit == "percent":
            requests = {pod.name: request_of(pod, self.series) for pod in pods.ready}
            if lacking := [name for name, request in requests.items() if not request]:
                return f"missing request for {self.series} in Pod {lacking[0]}"
            each, fill = tuple(100 * used[pod.name] / requests[pod.name] for pod in pods.heard), max(100.0, fill)
        return _Load(each, len(pods.missing), len(pods.starting), fill)

    def _of_workload(self, total: float, pods: Serving) -> _Load | str:
        """The load from one number for the workload, shared equally by the ready pods."""
        if self.unit == "percent":
            return f"{self.series} is not of pods, so it is no part of their requests"
        ready = len(pods.ready)
        return _Load((total / ready,) * ready, 0, len(pods.starting), self.target)


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    return [StepTolerance]
