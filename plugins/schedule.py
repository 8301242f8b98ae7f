"""Schedule: sets counts by the calendar, as a floor, a ceiling or exactly.

Knows which entries are in force at the time of an observation, and which come next; uses no series and no pod.
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
    """A count while these hours are in force."""

    replicas: Count
    how: As = field(name="as", default="floor")


class Moment(Instant, frozen=True, kw_only=True):
    """A count from an instant until the next instant of the same schedule."""

    replicas: Count
    how: As = field(name="as", default="floor")


class _Voice(NamedTuple):
    """An entry in force: its count, how the count applies, and a text that names the entry."""

    replicas: int
    how: As
    entry: str

    def says(self, coming: str) -> str:
        return f"{_WORDS[self.how]} {self.replicas}: {self.entry}{coming}"


class _Plan(NamedTuple):
    """The recommendation and the limit of the entries in force."""

    recommendation: Recommendation
    limit: Limit | None


class Schedule(Strategy, tag="schedule", frozen=True, cache_hash=True):
    """Counts by the calendar: windows, and instants each of which holds until the next.

    Each entry has its own time zone, daylight saving and excluded dates. The result depends on the time alone, also
    after the daemon was down. A floor is a wish like that of any strategy: the largest wins, and a floor alone is the
    count. A ceiling is a limit of the wish: it outranks every floor, and limits on scaling in delay the way down to it.
    `exact` is both. Of several floors the largest counts, of several ceilings the lowest. Outside all floors the wish
    is `default`, or there is no opinion: then the count stays unless another strategy has one.

    An entry does not begin on an excluded date; a window that began the day before goes on. Cron expressions and clock
    changes are as in Debian's cron(8): a fixed time that is skipped comes at once, one that is repeated comes the first
    time.

    Source: CronHPA, AHPA's instanceBounds and Kapacity's cron portraits, without their faults: fields that another
    controller owns are not rewritten, and dates are compared whole.
    """

    windows: tuple[Window, ...] = ()
    instants: tuple[Moment, ...] = ()
    default: Annotated[Count | None, Meta(description="the wish while no floor is in force")] = None

    def __post_init__(self) -> None:
        if not self.windows and not self.instants:
            raise ValueError("windows: must have an entry unless instants has one, is empty")

    def check(self, policy: Policy) -> Sequence[str]:
        """Refuse counts outside of the policy's bounds, and floors above the ceiling of the same hours."""
        return [*self._check_bounds(policy.replicas), *self._check_ceilings()]

    def _check_bounds(self, bounds: Bounds) -> Iterator[str]:
        entries_by_key: dict[str, Sequence[Window | Moment]] = {"windows": self.windows, "instants": self.instants}
        for key, entries in entries_by_key.items():
            for index, entry in enumerate(entries):
                if entry.how != "ceiling" and entry.replicas > bounds.max:
                    yield f"{key}[{index}].replicas: must be <= replicas.max = {bounds.max}, is {entry.replicas}"
                elif entry.how != "floor" and entry.replicas < bounds.min:
                    yield f"{key}[{index}].replicas: must be >= replicas.min = {bounds.min}, is {entry.replicas}"
        if self.default is not None and not bounds.min <= self.default <= bounds.max:
            yield f"default: must be from replicas.min = {bounds.min} to max = {bounds.max}, is {self.default}"

    def _check_ceilings(self) -> Iterator[str]:
        """Errors for floors that a ceiling of the same hours always cuts."""
        ceilings = [(index, window) for index, window in enumerate(self.windows) if window.how == "ceiling"]
        for index, window in enumerate(self.windows):
            for ceiling_index, ceiling in ceilings:
                if window.how == "floor" and window.replicas > ceiling.replicas and window.same_hours(ceiling):
                    why = f"the ceiling of windows[{ceiling_index}] for the same hours"
                    yield f"windows[{index}].replicas: must be <= {ceiling.replicas}, {why}, is {window.replicas}"

    def reads(self) -> tuple[str, ...]:
        return ()

    def lasts(self) -> bool:
        return True

    def sleeps(self) -> str:
        """A floor or a default above 0 brings pods back; a ceiling never does."""
        entries: tuple[Window | Moment, ...] = (*self.windows, *self.instants)
        floors = [entry.replicas for entry in entries if entry.how != "ceiling"]
        return "" if any(floors) or self.default else "never asks for more than 0"

    def next_change(self, at: float) -> float:
        """When a window opens or closes, or the next instant comes; infinity: never."""
        return plan_at(self, at).until

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation:
        """The largest floor in force, or the default; else no opinion."""
        return plan_at(self, observation.at).value.recommendation

    @hookimpl
    def limit(self, observation: Observation) -> Limit | None:
        return plan_at(self, observation.at).value.limit


@steady
def plan_at(schedule: Schedule, at: float) -> Spell[_Plan]:
    """The plan at a time, and until when it holds: it is computed when an entry begins or ends."""
    windows = standing(schedule.windows, at)
    following: list[tuple[float, Window | Moment]] = [(moment.following(at), moment) for moment in schedule.instants]
    until = min([windows.until, *(when for when, _ in following)])
    voices = [
        _Voice(window.hours.replicas, window.hours.how, window.told) for window in windows.value if window.span.inside
    ]
    voices += _latest_moment(schedule.instants, at)
    following += [(window.span.until, window.hours) for window in windows.value if not window.span.inside]
    coming = _next_entry(following)
    return Spell(at, until, _Plan(_wish(voices, schedule.default, coming), _ceiling(voices, coming)))


def _latest_moment(instants: Iterable[Moment], at: float) -> list[_Voice]:
    """The last instant before `at`; of several at the same time, the one with the largest count."""
    came = [(since, moment.replicas, moment) for moment in instants if (since := moment.latest(at)) > -inf]
    if not came:
        return []
    since, replicas, moment = max(came, key=lambda entry: entry[:2])
    return [_Voice(replicas, moment.how, f"{moment.label} since {moment.stamp(since)}")]


def _next_entry(following: Iterable[tuple[float, Window | Moment]]) -> str:
    when, entry = min(following, key=lambda entry: entry[0], default=(inf, None))
    return f"; next {entry.label}, {entry.stamp(when)}" if entry is not None and when < inf else ""


def _wish(voices: Iterable[_Voice], default: int | None, coming: str) -> Recommendation:
    floors = [voice for voice in voices if voice.how != "ceiling"]
    if floors:
        most = max(floors, key=lambda voice: voice.replicas)
        return Recommendation(most.replicas, _REASONS[most.how], most.says(coming))
    if default is None:
        return Recommendation(None, "NoFloor", f"no floor is in force{coming}", abstains=True)
    return Recommendation(default, "ScheduledDefault", f"{default} while no floor is in force{coming}")


def _ceiling(voices: Iterable[_Voice], coming: str) -> Limit | None:
    ceilings = [voice for voice in voices if voice.how != "floor"]
    if not ceilings:
        return None
    least = min(ceilings, key=lambda voice: voice.replicas)
    return Limit("ScheduledCeiling", least.says(coming), None, least.replicas, of_wish=True)


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    return [Schedule]
