"""What triggers say at one time: what was read, whether that is active, and how many replicas it asks for.

Knows samples and their worth; knows nothing of what was before. A reading of which samples are missing is at least
that: it may show that a trigger is active and ask for more, never the opposite.
"""

from collections.abc import Iterable
from math import isfinite

from elasticd.api import Measure, Observation, Quality, Struct

from .triggers import Formula, Goal, Trigger


class Reading(Struct, frozen=True):
    """The sum of a series' samples. None: not known, and why; not `whole`: samples are missing."""

    value: float | None
    whole: bool = True
    why: str = ""


class Signal(Struct, frozen=True):
    """What a trigger, or the formula, asks for. `active` None: not known. `sure`: the count may fall to that."""

    measure: Measure
    active: bool | None
    sure: bool
    why: str


def read(trigger: Trigger, observation: Observation) -> Reading:
    """What its series comes to now."""
    series = observation.series.get(trigger.series)
    if series is None:
        return Reading(None, whole=False, why=f"{trigger.label}: there is no series {trigger.series}")
    value = sum(sample.value for sample in series.samples)
    is_finite = bool(series.samples) and isfinite(value)
    if is_finite and series.quality is Quality.FRESH:
        return Reading(value)
    why = f"{trigger.label} is {series.quality.value}: {series.message or 'it has no sample'}"
    return Reading(value if is_finite and series.usable else None, whole=False, why=why)


def combine(over: Formula, readings: dict[str, Reading]) -> Reading:
    """What the formula makes of them. To it, a part of the samples is unknown."""
    value = over.of({label: reading.value if reading.whole else None for label, reading in readings.items()})
    if value is not None:
        return Reading(value)
    lacking = next((reading.why for reading in readings.values() if not reading.whole), "it has no finite value")
    return Reading(None, whole=False, why=f"formula: {lacking}")


def signal(label: str, goal: Goal, reading: Reading, observation: Observation) -> Signal:
    """What a reading asks for."""
    value, active, why = reading.value, False if not goal.decides else None, reading.why
    if value is None:
        return Signal(Measure(label, "", goal.target, None, "Unknown", why), active, False, why)
    if goal.decides and (reading.whole or value > goal.activation):
        active = value > goal.activation
    count = goal.asks(value, observation.workload, observation.pods)
    if count is None:
        why = f"{label}: its value is for all ready pods, and none is ready"
    verdict = {True: ("Active", ""), None: ("Unknown", why), False: ("NotActive", f"not above {goal.activation:g}")}[
        active
    ]
    if not goal.decides:
        verdict = ("", why)
    measure = Measure(label, f"{value:g}", goal.target, count, *verdict)
    return Signal(measure, active, reading.whole and count is not None, why)


def parts(triggers: Iterable[Trigger], readings: dict[str, Reading]) -> list[Measure]:
    """The triggers of a formula, which ask for nothing by themselves."""
    return [
        Measure(trigger.label, f"{value:g}", message=readings[trigger.label].why)
        if (value := readings[trigger.label].value) is not None
        else Measure(trigger.label, reason="Unknown", message=readings[trigger.label].why)
        for trigger in triggers
    ]


def any_active(states: Iterable[bool | None]) -> bool | None:
    """Whether one is; None: none is known to be, and of one it is not known."""
    distinct = list(states)
    if True in distinct:
        return True
    return None if None in distinct else False


def told(signals: Iterable[Signal]) -> str:
    """The one that asks for the most, in words."""
    asking = [signal.measure for signal in signals if signal.measure.replicas is not None]
    most = max(asking, key=lambda signal: signal.replicas or 0, default=None)
    return f"{most.metric} is {most.current}, target {most.target}" if most else "one is active"
