"""The Horizontal Pod Autoscaler as a strategy: its metrics, its stabilization and its rates.

Knows how the metrics' proposals become one recommendation and which limits go with it; the arithmetic of a metric is in
proposals.py, that of limits in normalize.py.
"""

from functools import cached_property
from typing import Annotated, Literal

from elasticd.api import (
    Band,
    Limit,
    Measure,
    Meta,
    Observation,
    Past,
    Recommendation,
    Seconds,
    Strategy,
    Workload,
    hookimpl,
)
from elasticd.kit import Rates, cool_down, restrain

from .grouping import MetricError
from .normalize import limit_legacy, stabilize_behavior, stabilize_legacy, still_kept
from .options import DOWN_POLICIES, UP_POLICIES, Behavior, External, Metric, Object, Resource, Rules, Tolerance, Window
from .proposals import Terms, propose, steady_band

PAPER_PERIOD = 30.0
COOLDOWN_UP, COOLDOWN_DOWN = 180.0, 300.0
"""Seconds: those of the HPA before stabilization, the double-threshold paper's baseline."""

Period = Annotated[float, Meta(ge=0, description="seconds")]


class Hpa(Strategy, tag="hpa", frozen=True):
    """Kubernetes' HorizontalPodAutoscaler, rule by rule: options as in autoscaling/v2, in snake_case.

    Without `behavior` the legacy limits hold: not below the highest wish of `downscale_stabilization` s, which
    can raise the count again; up to twice the count or 4. With it both directions have windows and rates, its
    defaults filled in, and its tolerances go before `tolerance`. `period` is the poll interval asked for, in
    seconds; the HPA's own is 15, but left out it has no opinion, so that a slower cadence is not overruled.

    `rules` "1.20" follows Kubernetes 1.20.2 where it differs: doubles at the tolerance's edge, metrics that
    fail do not keep others from scaling down, one-way windows and rates, windows that may carry a count past
    the current one. `mode` "paper" has the fixed cooldowns of older HPAs (3 min after growing, 5 min after
    shrinking) instead of all limits, and polls every 30 s. Beyond the HPA: a stale or partly invalid series
    may raise the count, never lower it. Source: hpa controller of Kubernetes 1.20 to 1.37; DHPA, experiments.
    """

    metrics: Annotated[
        tuple[Metric, ...], Meta(min_length=1, description="each proposes a count, and the highest wins")
    ] = (Resource(resource="cpu", utilization=80),)
    behavior: Behavior | None = None
    tolerance: Tolerance = 0.1
    downscale_stabilization: Window = 300
    cpu_initialization_period: Period = 300.0
    initial_readiness_delay: Period = 30.0
    rules: Rules = "current"
    mode: Annotated[
        Literal["kubernetes", "paper"], Meta(description="paper: cooldowns of 3 and 5 min, looks each 30 s")
    ] = "kubernetes"
    period: Seconds | None = None

    def reads(self) -> tuple[str, ...]:
        return tuple(metric.source for metric in self.metrics)

    def fastest(self) -> float | None:
        return self.period

    def sleeps(self) -> str:
        """At 0 pods only metrics that are not of pods can be measured, as the API server requires of HPAs."""
        can_wake = any(isinstance(metric, Object | External) for metric in self.metrics)
        return "" if can_wake else "has no Object or External metric"

    def own_pace(self) -> bool:
        return self.mode == "paper"

    def lasts(self) -> bool:
        return self.mode == "kubernetes"

    @hookimpl
    def steady_bands(self, observation: Observation) -> dict[str, Band]:
        """The bands in which each metric asks for the same count as now."""
        bands: dict[str, Band] = {}
        for metric in self.metrics:
            band = steady_band(metric, observation, self._terms)
            bands[metric.source] = bands.get(metric.source, Band()).within(band)
        return bands

    @hookimpl
    def recommend_replicas(self, workload: Workload, observation: Observation) -> Recommendation:
        """The highest proposal; None when no metric worked, or it would shrink although one failed."""
        if observation.fault[0]:
            return Recommendation(None, *observation.fault)
        if not workload.selector:
            return Recommendation(None, "InvalidSelector", "the target's scale is missing a selector")
        best, highest = 0, self.metrics[0]
        measures: list[Measure] = []
        for metric in self.metrics:
            try:
                proposal = propose(metric, observation, self._terms)
            except MetricError as error:
                failure = Measure(metric.label, reason=metric.failure, message=str(error), left_out=error.left_out)
                measures.append(failure)
                continue
            count, left_out = proposal.replicas, proposal.left_out
            measures.append(Measure(metric.label, proposal.current, proposal.target, count, left_out=left_out))
            if count > best:
                best, highest = count, metric
        return self._recommend(best, highest, workload.replicas, measures)

    def _recommend(self, best: int, highest: Metric, current: int, measures: list[Measure]) -> Recommendation:
        """HPA: One pass, 5: apply what failing metrics allow, and give the reason in the HPA's words."""
        message, failed = "", [measure for measure in measures if measure.reason]
        if failed:
            message = f"{len(failed)} of {len(measures)} metrics failed, first: {failed[0].message}"
            blocks = best < current and self.rules == "current"
            if blocks or len(failed) == len(measures):
                return Recommendation(None, failed[0].reason, message, tuple(measures))
        if best > current:
            reason = f"{highest.description} above target"
        elif best < current:
            reason = "All metrics below target"
        else:
            reason = "no metric asks for a change"
        return Recommendation(best, reason, message, tuple(measures))

    @cached_property
    def _terms(self) -> Terms:
        up = down = None
        if self.behavior is not None:
            up, down = self.behavior.scale_up.tolerance, self.behavior.scale_down.tolerance
        return Terms(
            self.tolerance if up is None else up,
            self.tolerance if down is None else down,
            self.cpu_initialization_period,
            self.initial_readiness_delay,
            self.rules == "1.20",
        )

    @hookimpl(specname="limit")
    def wait(self, wish: int, observation: Observation, past: Past) -> Limit | None:
        """What delays a change: stabilization or, in mode "paper", the cooldown. Condition AbleToScale."""
        if self.mode == "paper":
            return cool_down(observation, past, after_up=COOLDOWN_UP, after_down=COOLDOWN_DOWN, both=True)
        return self._stabilize(wish, observation, past)

    def _stabilize(self, wish: int, observation: Observation, past: Past) -> Limit | None:
        if self.behavior is None:
            return stabilize_legacy(observation, past, self.downscale_stabilization)
        up, down = self.behavior.scale_up.stabilization_window, self.behavior.scale_down.stabilization_window
        windows = (up or 0, self.downscale_stabilization if down is None else down)
        return stabilize_behavior(wish, observation, past, windows, old=self.rules == "1.20")

    @hookimpl(specname="limit")
    def shorten(self, wish: int, observation: Observation, past: Past) -> Limit | None:
        """What shortens a change: rates, or the legacy limit. Condition ScalingLimited."""
        if self.mode == "paper":
            return None
        if self.behavior is None:
            return limit_legacy(observation.workload.replicas)
        if self.rules == "1.20" and (delay := self._stabilize(wish, observation, past)):
            wish = delay.clamp(wish)  # it may now point the other way; the rates explain the clamped wish
        up, down = self._rates
        if past.changes:
            relevant = still_kept((observation.workload.ref, up, down), past.changes)
            past = past if relevant is past.changes else Past(past.since, changes=relevant)
        return restrain(wish, observation, past, up, down)

    @cached_property
    def _rates(self) -> tuple[Rates, Rates]:
        """The rates of both directions, up and down, with the HPA's defaults. HPA: Normalization with behavior, 2."""
        assert self.behavior is not None, "without it there are none"  # noqa: S101
        up, down, old = self.behavior.scale_up, self.behavior.scale_down, self.rules == "1.20"
        ups = Rates(UP_POLICIES if up.policies is None else up.policies, up.select, old)
        return ups, Rates(DOWN_POLICIES if down.policies is None else down.policies, down.select, old)

    @hookimpl
    def poll_interval(self) -> float | None:
        if self.period is None and self.mode == "paper":
            return PAPER_PERIOD
        return self.period


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    return [Hpa]
