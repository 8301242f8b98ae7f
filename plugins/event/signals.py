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
    found = observation.series.get(trigger.series)
    if found is None:
        return Reading(None, whole=False, why=f"{trigger.label}: there is no series {trigger.series}")
    value = sum(sample.value for sample in found.samples)
    known = bool(found.samples) and isfinite(value)
    if known and found.quality is Quality.FRESH:
        return Reading(value)
    why = f"{trigger.label} is {found.quality.value}: {found.message or 'it has no sample'}"
    return Reading(value if known and found.usable else None, whole=False, why=why)


def combine(over: Formula, readings: dict[str, Reading]) -> Reading:
    """What the formula makes of them. To it, a part of the samples is unknown."""
    value = over.of({label: reading.value if reading.whole else None for label, reading in readings.items()})
    if value is not None:
        return Reading(value)
    lacking = next((one.why for one in readings.values() if not one.whole), "it has no finite value")
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
    told = {True: ("Active", ""), None: ("Unknown", why), False: ("NotActive", f"not above {goal.activation:g}")}[
        active
    ]
    if not goal.decides:
        told = ("", why)
    measure = Measure(label, f"{value:g}", goal.target, count, *told)
    return Signal(measure, active, reading.whole and count is not None, why)


def parts(triggers: Iterable[Trigger], readings: dict[str, Reading]) -> list[Measure]:
    """The triggers of a formula, which ask for nothing by themselves."""
    return [
        Measure(one.label, f"{value:g}", message=readings[one.label].why)
        if (value := readings[one.label].value) is not None
        else Measure(one.label, reason="Unknown", message=readings[one.label].why)
        for one in triggers
    ]


def any_active(states: Iterable[bool | None]) -> bool | None:
    """Whether one is; None: none is known to be, and of one it is not known."""
    known = list(states)
    if True in known:
        return True
    return None if None in known else False


def told(signals: Iterable[Signal]) -> str:
    """The one that asks for the most, in words."""
    asking = [one.measure for one in signals if one.measure.replicas is not None]
    most = max(asking, key=lambda one: one.replicas or 0, default=None)
    return f"{most.metric} is {most.current}, target {most.target}" if most else "one is active"
