"""The schedule: counts by the calendar, as a floor, a ceiling or exactly.

Knows which entries are in force at the time of an observation, and which come next; looks at no series and no pod.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Annotated, Literal, NamedTuple

from elasticd.api import Bounds, Count, Limit, Meta, Observation, Policy, Recommendation, Strategy, field, hookimpl
from elasticd.kit import Hours, Instant, Spell, standing, steady

As = Annotated[
    Literal["floor", "ceiling", "exact"],
    Meta(description="at least, at most, or exactly `replicas`; a ceiling is a limit"),
]
_WORDS = {"floor": "at least", "ceiling": "at most", "exact": "exactly"}
_REASONS = {"floor": "ScheduledFloor", "exact": "ScheduledCount"}


class Window(Hours, frozen=True, kw_only=True):
    """A count for as long as hours are in force."""

    replicas: Count
    how: As = field(name="as", default="floor")


class Moment(Instant, frozen=True, kw_only=True):
    """A count from an instant to the next instant of the same schedule."""

    replicas: Count
    how: As = field(name="as", default="floor")


class _Voice(NamedTuple):
    """One entry in force: what it asks for, and which it is."""

    replicas: int
    how: As
    told: str

    def says(self, coming: str) -> str:
        """All in one line."""
        return f"{_WORDS[self.how]} {self.replicas}: {self.told}{coming}"


class _Plan(NamedTuple):
    """What the entries in force come to."""

    recommendation: Recommendation
    limit: Limit | None


class Schedule(Strategy, tag="schedule", frozen=True, cache_hash=True):
    """Counts by the calendar: windows, and instants each of which holds until the next.

    Time zones, daylight saving and excluded dates are each entry's own; what holds depends on the time alone, also
    after the daemon was down. A floor is a wish like that of any strategy, so the largest wins, and a floor alone is
    the count. A ceiling is a limit of the wish, so it outdoes every floor, and what slows a scale-in holds for the way
    down to it. `exact` is both. Of several floors the largest counts, of several ceilings the lowest. Outside all
    floors it wishes for `default`, or has no opinion: then the count stays unless another strategy has one.

    An entry does not begin on an excluded date; a window that began the day before goes on. Cron expressions and clock
    changes are as in Debian's cron(8): a fixed time that is skipped comes at once, one that is repeated comes the first
    time.

    Source: CronHPA, AHPA's instanceBounds and Kapacity's cron portraits, without their faults: nothing that another
    owns is rewritten, and dates are compared whole.
    """

    windows: tuple[Window, ...] = ()
    instants: tuple[Moment, ...] = ()
    default: Annotated[Count | None, Meta(description="the wish while no floor is in force")] = None

    def __post_init__(self) -> None:
        """Refuse a schedule without an entry."""
        if not self.windows and not self.instants:
            raise ValueError("windows: must have an entry unless instants has one, is empty")

    def check(self, policy: Policy) -> Sequence[str]:
        """Refused: counts that the policy's bounds would change, and floors above the ceiling of the same hours."""
        return [*self._outside(policy.replicas), *self._covered()]

    def _outside(self, bounds: Bounds) -> Iterator[str]:
        given: dict[str, Sequence[Window | Moment]] = {"windows": self.windows, "instants": self.instants}
        for key, entries in given.items():
            for index, one in enumerate(entries):
                if one.how != "ceiling" and one.replicas > bounds.max:
                    yield f"{key}[{index}].replicas: must be <= replicas.max = {bounds.max}, is {one.replicas}"
                elif one.how != "floor" and one.replicas < bounds.min:
                    yield f"{key}[{index}].replicas: must be >= replicas.min = {bounds.min}, is {one.replicas}"
        if self.default is not None and not bounds.min <= self.default <= bounds.max:
            told = f"from replicas.min = {bounds.min} to max = {bounds.max}"
            yield f"default: must be {told}, is {self.default}"

    def _covered(self) -> Iterator[str]:
        """A floor that a ceiling of the same hours always outdoes."""
        ceilings = [(index, one) for index, one in enumerate(self.windows) if one.how == "ceiling"]
        for index, one in enumerate(self.windows):
            for other, ceiling in ceilings:
                if one.how == "floor" and one.replicas > ceiling.replicas and one.same_hours(ceiling):
                    why = f"the ceiling of windows[{other}] for the same hours"
                    yield f"windows[{index}].replicas: must be <= {ceiling.replicas}, {why}, is {one.replicas}"

    def reads(self) -> tuple[str, ...]:
        """Nothing: it looks at the calendar."""
        return ()

    def sleeps(self) -> str:
        """A floor or a default above 0 brings pods back; a ceiling never does."""
        entries: tuple[Window | Moment, ...] = (*self.windows, *self.instants)
        floors = [one.replicas for one in entries if one.how != "ceiling"]
        return "" if any(floors) or self.default else "never asks for more than 0"

    def next_change(self, at: float) -> float:
        """When a window opens or closes, or the next instant comes; infinity: never."""
        return _plan(self, at).until

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation:
        """The largest floor in force, or the default; else no opinion."""
        return _plan(self, observation.at).value.recommendation

    @hookimpl
    def limit(self, observation: Observation) -> Limit | None:
        """The lowest ceiling in force."""
        return _plan(self, observation.at).value.limit


@steady
def _plan(schedule: Schedule, at: float) -> Spell[_Plan]:
    """What holds at a time, and until when. Computed when an entry begins or ends, and kept until the next does."""
    windows = standing(schedule.windows, at)
    following: list[tuple[float, Window | Moment]] = [(one.following(at), one) for one in schedule.instants]
    until = min([windows.until, *(when for when, _ in following)])
    voices = [_Voice(one.hours.replicas, one.hours.how, one.told) for one in windows.value if one.span.inside]
    voices += _last(schedule.instants, at)
    following += [(one.span.until, one.hours) for one in windows.value if not one.span.inside]
    coming = _coming(following)
    return Spell(at, until, _Plan(_wish(voices, schedule.default, coming), _ceiling(voices, coming)))


def _last(instants: Iterable[Moment], at: float) -> list[_Voice]:
    """The instant that came last; of several that came together, the one with the largest count."""
    came = [(since, one.replicas, one) for one in instants if (since := one.latest(at)) > -inf]
    if not came:
        return []
    since, replicas, one = max(came, key=lambda entry: entry[:2])
    return [_Voice(replicas, one.how, f"{one.label} since {one.stamp(since)}")]


def _coming(following: Iterable[tuple[float, Window | Moment]]) -> str:
    """Which entry begins next."""
    when, one = min(following, key=lambda entry: entry[0], default=(inf, None))
    return f"; next {one.label}, {one.stamp(when)}" if one is not None and when < inf else ""


def _wish(voices: Iterable[_Voice], default: int | None, coming: str) -> Recommendation:
    floors = [one for one in voices if one.how != "ceiling"]
    if floors:
        most = max(floors, key=lambda one: one.replicas)
        return Recommendation(most.replicas, _REASONS[most.how], most.says(coming))
    if default is None:
        return Recommendation(None, "NoFloor", f"no floor is in force{coming}", abstains=True)
    return Recommendation(default, "ScheduledDefault", f"{default} while no floor is in force{coming}")


def _ceiling(voices: Iterable[_Voice], coming: str) -> Limit | None:
    ceilings = [one for one in voices if one.how != "floor"]
    if not ceilings:
        return None
    least = min(ceilings, key=lambda one: one.replicas)
    return Limit("ScheduledCeiling", least.says(coming), None, least.replicas, of_wish=True)


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    """The schedule."""
    return [Schedule]
