"""The state of triggers: the reading, whether it is active, how many replicas it asks for, and since when none was.

Knows samples and their quality, and remembered readings. A reading with missing samples is a lower bound: it may make a
trigger active and ask for more, never the opposite.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite

from elasticd.api import Measure, Observation, Point, Quality, Struct
from elasticd.kit import why_unseen

from .triggers import Formula, Goal, Trigger


class Reading(Struct, frozen=True):
    """The sum of a series' samples. `value` None: not known, `why`. `whole` False: samples are missing."""

    value: float | None
    whole: bool = True
    why: str = ""


class Signal(Struct, frozen=True):
    """What a trigger, or the formula, asks for. `active` None: not known. `sure`: the count may fall to it."""

    measure: Measure
    active: bool | None
    sure: bool
    why: str


def read(trigger: Trigger, observation: Observation) -> Reading:
    """The present reading of a trigger's series."""
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
    """The reading of the formula. To a formula a trigger with missing samples is unknown."""
    value = over.of({label: reading.value if reading.whole else None for label, reading in readings.items()})
    if value is not None:
        return Reading(value)
    lacking = next((reading.why for reading in readings.values() if not reading.whole), "it has no finite value")
    return Reading(None, whole=False, why=f"formula: {lacking}")


def signal(label: str, goal: Goal, reading: Reading, observation: Observation, tolerance: float = 0.0) -> Signal:
    """The signal that follows from a reading."""
    value, active, why = reading.value, False if not goal.decides else None, reading.why
    if value is None:
        return Signal(Measure(label, "", goal.target, None, "Unknown", why), active, False, why)
    if goal.decides and (reading.whole or value > goal.activation):
        active = value > goal.activation
    count = goal.asks(value, observation.workload, observation.pods, tolerance)
    if count is None:
        lacking = why_unseen(observation.workload, observation.pods) or "none is ready"
        why = f"{label}: its value is for all ready pods, and {lacking}"
    if not goal.decides:
        verdict = "", why
    elif active is None:
        verdict = "Unknown", why
    else:
        verdict = ("Active", "") if active else ("NotActive", f"not above {goal.activation:g}")
    measure = Measure(label, f"{value:g}", goal.target, count, *verdict)
    return Signal(measure, active, reading.whole and count is not None, why)


def parts(readings: Mapping[str, Reading]) -> list[Measure]:
    """Measures of a formula's triggers, which ask for nothing by themselves."""
    return [
        Measure(label, reason="Unknown", message=reading.why)
        if reading.value is None
        else Measure(label, f"{reading.value:g}", message=reading.why)
        for label, reading in readings.items()
    ]


def any_active(states: Iterable[bool | None]) -> bool | None:
    """Whether any is active; None: none is known to be, and of at least one it is not known."""
    distinct = set(states)
    return True if True in distinct else None if None in distinct else False


def describe_largest(signals: Iterable[Signal]) -> str:
    """Text for the trigger that asks for the most."""
    asking = [signal.measure for signal in signals if signal.measure.replicas is not None]
    most = max(asking, key=lambda signal: signal.replicas or 0, default=None)
    return f"{most.metric} is {most.current}, target {most.target}" if most else "one is active"


Tracks = Mapping[str, Sequence[Point]]
"""The past points of each trigger's series, oldest first."""


class Span(Struct, frozen=True):
    """Since when readings count (`known`), and how far back the answer matters (`enough`): epoch seconds."""

    known: float
    enough: float


def since(trigger: Trigger, track: Sequence[Point], newest: float, span: Span) -> float:
    """Since when a trigger has not been active, given that it is not active now and was last read at `newest`."""
    earliest = newest
    for point in reversed(track):
        # A part may be below the activation where the whole is above.
        active = point.total > trigger.activation or not point.whole
        if earliest <= span.enough or point.at < span.known or active:
            break
        earliest = min(earliest, point.at)
    return earliest


def since_by(over: Formula, tracks: Tracks, newest: float, span: Span) -> float:
    """Since when a formula has not been active. A reading counts until the next one; where nothing can be read now
    (`newest` is then long ago), the last remembered reading counts."""
    earliest = max([newest, *(track[-1].at for track in tracks.values() if track)])
    ends = {label: len(track) for label, track in tracks.items()}
    times = {point.at for track in tracks.values() for point in track if span.known <= point.at < earliest}
    for at in sorted(times, reverse=True):
        if earliest <= span.enough or _active(over, tracks, ends, at) is not False:
            break
        earliest = at
    return earliest


def _active(over: Formula, tracks: Tracks, ends: dict[str, int], at: float) -> bool | None:
    """Whether the formula was active at a time; None: not known. Moves `ends` back to that time."""
    values: dict[str, float | None] = {}
    for label, track in tracks.items():
        while ends[label] and track[ends[label] - 1].at > at:
            ends[label] -= 1
        point = track[ends[label] - 1] if ends[label] else None
        values[label] = point.total if point and point.whole else None
    value = over.of(values)
    return None if value is None else value > over.activation
