"""Event: scales by waiting events, to none while there are none, to one for the first, and to as many as they need.

Knows when triggers are active, since when none has been, and what to recommend then. The arithmetic of a trigger is in
triggers.py, that of readings in signals.py, the language of formulas in formula.py.
"""

from collections.abc import Sequence
from typing import Annotated

from elasticd.api import (
    NEVER,
    Band,
    Count,
    Limit,
    Meta,
    Observation,
    Past,
    Policy,
    Poll,
    Quality,
    Recommendation,
    Strategy,
    hookimpl,
)
from elasticd.kit import USED_BY_PODS, band_around, stabilize

from .signals import Signal, Span, any_active, combine, describe_largest, parts, read, signal, since, since_by
from .triggers import Formula, Trigger, check_triggers

APART = 300.0
"""Seconds that may lie between two readings of a series before a cooldown starts over."""

Wait = Annotated[float, Meta(ge=0, le=3600, description="seconds")]


class Event(Strategy, tag="event", frozen=True):
    """Follows triggers: the largest count that any trigger asks for while one is active, else `idle` replicas after
    `cooldown` s.

    A trigger is active above its `activation`, which outranks its set point: with 40 messages, a set point of 10 and an
    activation of 50, no replica is needed. While a trigger is active there are at least `least` replicas. `formula`
    turns all triggers into one number, and set point and activation then belong to the formula. A trigger that is not
    known holds the count; another one may raise it.

    On the way down the highest wish of `downscale_stabilization` s counts, so that a queue that comes and goes does not
    make the count flap; the step to `idle` depends on the cooldown alone, from any count.

    Within `tolerance` of a set point the count stays as it is, as in the HPA that KEDA creates.

    The cooldown is counted back over remembered readings. It begins `initial_cooldown` s after the workload was first
    observed, or anew after a gap, as earlier activity is not known. Every change goes through the policy's limits and
    bounds. It asks for polls every `period` s, and every `period_at_zero` s at 0 replicas.

    Source: KEDA 2.20, ScaledObject; there the cooldown counts from the last activity, is over at once where none was
    ever seen, and sets the idle count from any count. Its fallback is the policy's [trust].
    """

    triggers: Annotated[
        tuple[Trigger, ...], Meta(min_length=1, description="what says whether any are needed, and how many")
    ]
    formula: Annotated[Formula | None, Meta(description="makes one number of all triggers")] = None
    least: Annotated[int, Meta(ge=1, description="replicas while a trigger is active, at least")] = 1
    idle: Annotated[Count, Meta(description="replicas when none has been active for the cooldown")] = 0
    cooldown: Wait = 300.0
    initial_cooldown: Wait = 0.0
    downscale_stabilization: Annotated[
        Wait, Meta(description="seconds whose highest wish counts on the way down, but not to idle")
    ] = 300.0
    tolerance: Annotated[
        float, Meta(ge=0, lt=1, description="part of a set point that is near enough; the HPA's is 0.1 = 10 %")
    ] = 0.0
    period: Poll | None = None
    period_at_zero: Poll = 5.0

    def __post_init__(self) -> None:
        check_triggers(self.triggers, self.formula)
        if self.idle >= self.least:
            raise ValueError(f"idle: must be < least = {self.least}, is {self.idle}")

    def check(self, policy: Policy) -> str | None:
        most = policy.replicas.max
        return f"least: must be <= replicas.max = {most}, is {self.least}" if self.least > most else None

    def reads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(trigger.series for trigger in self.triggers))

    def recalls(self) -> float:
        """Its cooldown, and the time in which the reading before it may lie."""
        return self.cooldown + APART if self.cooldown else 0.0

    def fastest(self) -> float:
        return self.period_at_zero if self.period is None else min(self.period, self.period_at_zero)

    def sleeps(self) -> str:
        """At 0 pods what pods use cannot be measured, so such a trigger never becomes active."""
        can_wake = any(trigger.decides and trigger.series not in USED_BY_PODS for trigger in self.triggers)
        return "" if can_wake else "has only triggers of what pods use"

    @hookimpl
    def poll_interval(self, observation: Observation) -> float | None:
        """`period`, in seconds; at 0 replicas `period_at_zero`, as there is no load then to derive an interval from."""
        return self.period if observation.workload.replicas else self.period_at_zero

    @hookimpl
    def steady_bands(self, observation: Observation) -> dict[str, Band]:
        """Where triggers stay as active and ask for the same count. A formula may react to any change."""
        if self.formula is not None:
            return dict.fromkeys(self.reads(), NEVER)
        return {series: self._steady_band(series, observation) for series in self.reads()}

    def _steady_band(self, name: str, observation: Observation) -> Band:
        series = observation.series.get(name)
        if series is None or series.quality is not Quality.FRESH:
            return NEVER if series is not None and series.usable else Band()
        triggers = [trigger for trigger in self.triggers if trigger.series == name]
        workload, pods = observation.workload, observation.pods

        def outcomes(value: float) -> list[tuple[bool, int | None]]:
            return [
                (value > trigger.activation, trigger.asks(value, workload, pods, self.tolerance))
                for trigger in triggers
            ]

        total = sum(sample.value for sample in series.samples)
        now = outcomes(total)
        return band_around(lambda value: outcomes(value) == now, total)

    @hookimpl
    def recommend_replicas(self, observation: Observation, past: Past) -> Recommendation:
        """The largest count that the triggers ask for, `idle`, or None where it is not known."""
        readings = {trigger.label: read(trigger, observation) for trigger in self.triggers}
        if self.formula is None:
            signals = [
                signal(each.label, each, readings[each.label], observation, self.tolerance) for each in self.triggers
            ]
        else:
            reading = combine(self.formula, readings)
            signals = [signal("formula", self.formula, reading, observation, self.tolerance)]
        measures = [] if self.formula is None else parts(readings)
        measures += [signal.measure for signal in signals]
        return Recommendation(*self._judge(signals, observation, past), tuple(measures))

    @hookimpl
    def limit(self, wish: int, observation: Observation, past: Past) -> Limit | None:
        """As in the HPA that KEDA creates, the highest wish counts. KEDA sets `idle` itself, without delay."""
        if not self.downscale_stabilization or wish <= self.idle:
            return None
        return stabilize(wish, observation, past, up=0, down=self.downscale_stabilization)

    def _judge(self, signals: Sequence[Signal], observation: Observation, past: Past) -> tuple[int | None, str, str]:
        current, active = observation.workload.replicas, any_active(signal.active for signal in signals)
        if active is None:
            return None, "TriggerUnknown", next(signal.why for signal in signals if signal.active is None)
        if active:
            reason, why = "TriggersActive", describe_largest(signals)
        elif current <= self.idle or (quiet := self._quiet(observation, past)) >= self.cooldown:
            return self.idle, "TriggersIdle", "no trigger is active"
        else:
            reason = "TriggersCooling"
            why = f"no trigger has been active for {max(0.0, quiet):.0f} s; {self.idle} after {self.cooldown:g} s"
        wish = max(self.least, *(signal.measure.replicas or 0 for signal in signals))
        doubt = next((signal.why for signal in signals if not signal.sure), "")
        if doubt and wish < current:
            return None, "TriggerUnknown", doubt
        return wish, reason, why

    def _quiet(self, observation: Observation, past: Past) -> float:
        """Seconds for which no trigger has been active, as far as known. Exact only up to the cooldown."""
        now, series = observation.at, observation.series
        span = Span(known=past.since + self.initial_cooldown, enough=now - self.cooldown)
        if self.formula is not None:
            tracks = {trigger.label: past.points.get(trigger.series, ()) for trigger in self.triggers}
            read_at = max((series[name].measured for name in self.reads() if name in series), default=0.0)
            inactive_since = since_by(self.formula, tracks, read_at, span)
        else:
            inactive_since = max(
                since(trigger, past.points.get(trigger.series, ()), series[trigger.series].measured, span)
                for trigger in self.triggers
                if trigger.decides
            )
        return now - max(min(inactive_since, now), span.known)


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    return [Event]
