"""The options of an event strategy: triggers with their set points, and the formula that may combine them.

Knows which combinations contradict each other and the arithmetic of one set point; knows nothing of time.
"""

from collections.abc import Sequence
from math import ceil
from typing import Annotated

from elasticd.api import MOST, Meta, Pod, Struct, Workload
from elasticd.kit import why_unseen

from . import formula

SetPoint = Annotated[float, Meta(gt=0, description="in the unit of what is read")]


class Goal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number that is read, above which value it is active, and how many replicas it asks for."""

    value: SetPoint | None = None
    average_value: SetPoint | None = None
    activation: Annotated[float, Meta(ge=0, description="active above this, and not at it")] = 0.0

    @property
    def decides(self) -> bool:
        """Whether it decides that any replica is needed."""
        return True

    @property
    def target(self) -> str:
        if self.value is not None:
            return f"{self.value:g}"
        return "" if self.average_value is None else f"{self.average_value:g} (avg)"

    def asks(self, reading: float, workload: Workload, pods: tuple[Pod, ...], tolerance: float = 0.0) -> int | None:
        """How many replicas bring the reading to its set point; the present number where it is within the tolerance.
        None: a `value` without a ready pod that it could refer to, or with too few that are seen. HPA: External,
        AverageValue (reading / target) and Value (ready pods x reading / target; at 0 without them)."""
        if self.value is None:
            average, present = self.average_value or 1.0, workload.status_replicas
            return present if _is_near(reading, average * present, tolerance) else _count(reading, average)
        if workload.replicas == 0:
            return _count(reading, self.value)
        if _is_near(reading, self.value, tolerance):
            return workload.replicas
        ready = sum(1 for pod in pods if pod.phase == "Running" and pod.ready)
        count = _count(reading * ready, self.value) if ready else None
        return None if count is not None and count < workload.replicas and why_unseen(workload, pods) else count


def _is_near(reading: float, target: float, tolerance: float) -> bool:
    return tolerance > 0 and target > 0 and 1 - tolerance <= reading / target <= 1 + tolerance


def _count(reading: float, share: float) -> int:
    replicas = max(0.0, reading) / share
    return MOST if replicas >= MOST else ceil(replicas)


class Trigger(Goal, frozen=True):
    """A series: `value` for all pods together, or `average_value` for each; both of the sum of its samples. KEDA's
    trigger with metricType Value or AverageValue."""

    series: Annotated[str, Meta(min_length=1, description="of any source; several samples are added up")]
    name: Annotated[str, Meta(description="in the formula and in tables; left out, the series' name")] = ""
    activates: Annotated[bool, Meta(description="false: it says how many, and never whether any")] = True

    def __post_init__(self) -> None:
        if not self.activates and self.activation:
            raise ValueError(f"activation: must be left out with activates = false, is {self.activation:g}")

    @property
    def decides(self) -> bool:
        return self.activates

    @property
    def label(self) -> str:
        return self.name or self.series


class Formula(Goal, frozen=True):
    """One number made of all triggers, with a set point and an activation of its own. KEDA's scalingModifiers."""

    expression: Annotated[str, Meta(min_length=1, description="over the triggers' names, as in (orders ?? 8) + mails")]

    def __post_init__(self) -> None:
        check_goal("", self)
        try:
            formula.read(self.expression)
        except ValueError as error:
            raise ValueError(f"expression: {error}") from None

    @property
    def names(self) -> frozenset[str]:
        return formula.read(self.expression).names

    def of(self, values: formula.Values) -> float | None:
        return formula.read(self.expression).of(values)


def check_goal(where: str, goal: Goal) -> None:
    """Require exactly one set point."""
    if goal.value is not None and goal.average_value is not None:
        raise ValueError(f"{where}value: must be left out beside average_value, is {goal.value:g}")
    if goal.value is None and goal.average_value is None:
        raise ValueError(f"{where}value: must be given, or average_value, is missing")


def check_triggers(triggers: Sequence[Trigger], over: Formula | None) -> None:
    """Require unique names, and set points on the triggers or on the formula, but not on both."""
    labels = [trigger.label for trigger in triggers]
    for index, trigger in enumerate(triggers):
        where = f"triggers[{index}]."
        if labels.index(trigger.label) != index:
            raise ValueError(f"{where}name: must be given once, is {trigger.label!r} again")
        if over is None:
            check_goal(where, trigger)
        else:
            _check_part(where, trigger, over)
    if not any(trigger.activates for trigger in triggers):
        raise ValueError("triggers[0].activates: must be true of one trigger at least, is false")
    for name in sorted(over.names - set(labels) if over else ()):
        raise ValueError(f"formula.expression: must name triggers ({', '.join(labels)}), names {name!r}")


def _check_part(where: str, trigger: Trigger, over: Formula) -> None:
    for key, idle in (("value", None), ("average_value", None), ("activation", 0.0), ("activates", True)):
        if (option := getattr(trigger, key)) != idle:
            shown_option = str(option).lower() if isinstance(option, bool) else f"{option:g}"
            raise ValueError(f"{where}{key}: must be left out, for the formula has its own, is {shown_option}")
    if trigger.label not in over.names:
        raise ValueError(f"{where}name: must be in the formula ({over.expression}), is {trigger.label!r}")
