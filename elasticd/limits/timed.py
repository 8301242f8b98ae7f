"""The built-in limits that know the calendar: times without changes, and bounds that change with time.

They use the API like any plugin. Knows windows and what each forbids; knows nothing of series, pods or the policy's own
bounds, which come last.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from elasticd.api import Bounds, Count, Limit, LimitStrategy, Meta, Observation, Policy, field, hookimpl
from elasticd.kit import Hours, HoursNow, Spell, standing, steady
from elasticd.limits.behavior import Seriesless

_FORBIDDEN = {"change": "no change", "growth": "no growth", "shrinking": "no shrinking"}


class Blackout(Seriesless, tag="blackout", frozen=True, cache_hash=True):
    """No change, no growth or no shrinking while one of the windows is in force.

    Reason BlackoutWindow, in the second stage, so nothing overrules it but the policy's own bounds. A limit beside it
    that asks for another count than there is contradicts it, and the count is held.
    """

    windows: Annotated[tuple[Hours, ...], Meta(min_length=1)]
    forbid: Annotated[Literal["change", "growth", "shrinking"], Meta(description="meanwhile")] = "change"

    def next_change(self, at: float) -> float:
        """When a window opens or closes."""
        return _blackout(self, at).until

    @hookimpl
    def limit(self, observation: Observation) -> Limit | None:
        message = _blackout(self, observation.at).value
        if not message:
            return None
        current = observation.workload.replicas
        lowest = None if self.forbid == "growth" else current
        highest = None if self.forbid == "shrinking" else current
        return Limit("BlackoutWindow", message, lowest, highest, standstill=self.forbid == "change")


@steady
def _blackout(limit: Blackout, at: float) -> Spell[str]:
    """The sentence while one of the windows is in force, else an empty one."""
    spell = standing(limit.windows, at)
    inside = [state for state in spell.value if state.span.inside]
    if not inside:
        return Spell(at, spell.until, "")
    longest = max(inside, key=lambda state: state.span.until)
    return Spell(at, spell.until, f"{_FORBIDDEN[limit.forbid]}: {longest.told}")


class BoundedHours(Hours, frozen=True, kw_only=True):
    """Bounds for as long as hours are in force."""

    least: Annotated[Count | None, Meta(description="replicas")] = field(name="min", default=None)
    most: Annotated[Count | None, Meta(description="replicas")] = field(name="max", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.least is None and self.most is None:
            raise ValueError("min: must be given unless max is, is missing")
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"min: must be <= max = {self.most}, is {self.least}")


class ScheduledBounds(Seriesless, tag="scheduled-bounds", frozen=True, cache_hash=True):
    """A least count, a greatest, or both, for each window.

    Of several in force the greatest `min` and the least `max` count, and where these contradict each other the `max`.
    Reason ScheduledBounds, a limit of the wish: what slows a change holds for the way to them. They are no wish: where
    it is not known what is needed nothing is raised to a `min`, as it is to a floor of the strategy `schedule`. The
    policy's own bounds come last.

    Source: AHPA, instanceBounds.
    """

    windows: Annotated[tuple[BoundedHours, ...], Meta(min_length=1)]

    def check(self, policy: Policy) -> Sequence[str]:
        """Refused: bounds that the policy's own would change, and a `min` above the `max` of the same hours."""
        return [*self._find_outside(policy.replicas), *self._find_crossed()]

    def _find_outside(self, bounds: Bounds) -> Iterator[str]:
        for index, window in enumerate(self.windows):
            if window.least is not None and window.least > bounds.max:
                yield f"windows[{index}].min: must be <= replicas.max = {bounds.max}, is {window.least}"
            if window.most is not None and window.most < bounds.min:
                yield f"windows[{index}].max: must be >= replicas.min = {bounds.min}, is {window.most}"

    def _find_crossed(self) -> Iterator[str]:
        for index, window in enumerate(self.windows):
            for position, rival in enumerate(self.windows):
                least, most = window.least, rival.most
                if least is not None and most is not None and least > most and window.same_hours(rival):
                    rule = f"the max of windows[{position}] for the same hours"
                    yield f"windows[{index}].min: must be <= {most}, {rule}, is {least}"

    def next_change(self, at: float) -> float:
        """When a window opens or closes."""
        return _bounds(self, at).until

    @hookimpl
    def limit(self, observation: Observation) -> Limit | None:
        return _bounds(self, observation.at).value


@steady
def _bounds(limit: ScheduledBounds, at: float) -> Spell[Limit | None]:
    spell = standing(limit.windows, at)
    inside = [state for state in spell.value if state.span.inside]
    if not inside:
        return Spell(at, spell.until, None)
    most = min((state.hours.most for state in inside if state.hours.most is not None), default=None)
    least = max((state.hours.least for state in inside if state.hours.least is not None), default=None)
    if least is not None and most is not None:
        least = min(least, most)
    message = "; ".join(map(_describe_bounds, inside))
    return Spell(at, spell.until, Limit("ScheduledBounds", message, least, most, of_wish=True))


def _describe_bounds(state: HoursNow[BoundedHours]) -> str:
    least, most = state.hours.least, state.hours.most
    return f"{0 if least is None else least} to {'any' if most is None else most}: {state.told}"


@hookimpl
def register_strategies() -> list[type[LimitStrategy]]:
    """The limits that know the calendar."""
    return [Blackout, ScheduledBounds]
