"""Calendars: hours and instants by cron expressions, each in its own time zone, and what of them is in force at a time.

Knows what a person may write and what it means; knows nothing of replicas, limits or the present. What is in force
depends only on the given time, so an instant that was missed is in force all the same.
"""

from collections.abc import Callable, Hashable, Sequence
from datetime import date, datetime
from functools import lru_cache, wraps
from math import inf
from typing import Annotated, Generic, NamedTuple, TypeVar
from zoneinfo import available_timezones

from cronsim import CronSimError
from msgspec import Meta, Struct, field

from elasticd.base.errors import nearest
from elasticd.base.text import shown
from elasticd.kit.cron import Occurrence, Times, zone_of

_FIELDS = "must have five fields (minute, hour, day, month, day of week), or the second as a sixth before them"

Cron = Annotated[str, Meta(description="cron expression: minute, hour, day, month, day of week; 0 and 7 are Sunday")]


class Dated(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The dates of every entry of a calendar."""

    zone: Annotated[str, Meta(description="IANA time zone, such as Europe/Berlin")] = "UTC"
    excluded: Annotated[
        tuple[str, ...],
        Meta(description="dates on which it does not begin, in its zone: 2026-12-24, or 2026-12-24/2027-01-06"),
    ] = field(name="except", default=())
    name: Annotated[str, Meta(description="what explanations call it")] = ""

    def __post_init__(self) -> None:
        try:
            zone_of(self.zone)
        except (LookupError, ValueError, OSError):
            near = nearest(self.zone, sorted(available_timezones()))
            raise ValueError(f"zone: must be an IANA time zone, is {shown(self.zone)}{near}") from None
        for text in self.excluded:
            _parse_dates(text)

    def stamp(self, at: float) -> str:
        """A time as the entry's wall clock reads it: "Mon 2026-03-30 08:00 CEST"."""
        local = datetime.fromtimestamp(at, zone_of(self.zone))
        return f"{local:%a %Y-%m-%d %H:%M:%S}".removesuffix(":00") + f" {local:%Z}"

    def _times(self, cron: str) -> Times:
        return Times(cron, self.zone, tuple(_parse_dates(text) for text in self.excluded))

    def _check_cron(self, key: str, cron: str) -> None:
        fields = cron.split()
        if len(fields) not in {5, 6}:
            raise ValueError(f"{key}: {_FIELDS}, is {shown(cron)}")
        if len(fields) == 6 and not fields[0].isdecimal():
            raise ValueError(f"{key}: must have one number for its second, is {shown(cron)}")
        try:
            first = Times(cron, self.zone).next(0.0)
        except CronSimError as error:
            part = str(error).removeprefix("Bad ")
            raise ValueError(f"{key}: must have a valid {part}, is {shown(cron)}") from None
        if first == inf:
            raise ValueError(f"{key}: must come at some time, is {shown(cron)}")


@lru_cache(maxsize=4096)
def _parse_dates(text: str) -> tuple[date, date]:
    first, _, last = text.partition("/")
    try:
        dates = date.fromisoformat(first), date.fromisoformat(last or first)
    except ValueError:
        expected = "dates such as 2026-12-24, or ranges such as 2026-12-24/2027-01-06"
        raise ValueError(f"except: must be {expected}, is {shown(text)}") from None
    if dates[0].year < 1970 or dates[1].year > 2999:
        raise ValueError(f"except: must be dates from 1970 to 2999, is {shown(text)}")
    if dates[0] > dates[1]:
        raise ValueError(f"except: must be a range whose first date is not after its last, is {shown(text)}")
    return dates


class HoursState(NamedTuple):
    """Whether hours are in force, since when and until when, or else until when not; `steady`: no answer before that
    time is another one. Seconds since the epoch; `until` is infinite where nothing follows."""

    inside: bool
    since: float
    until: float
    steady: float


class Hours(Dated, frozen=True):
    """From each time of one cron expression to the next of another, or for so many seconds.

    It ends before it begins where both come at one time, so hours may follow upon each other without a gap; those whose
    start and end are both skipped by the clock are not in force on that day.
    """

    start: Cron
    end: Cron | None = None
    duration: (
        Annotated[float, Meta(gt=0, le=31_622_400, description="seconds, instead of an end; a leap year at most")]
        | None
    ) = None

    def same_hours(self, other: "Hours") -> bool:
        return all(getattr(self, name) == getattr(other, name) for name in Hours.__struct_fields__ if name != "name")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_cron("start", self.start)
        if self.end is None and self.duration is None:
            raise ValueError("end: must be given unless duration is, is missing")
        if self.end is None:
            return
        if self.duration is not None:
            raise ValueError(f"duration: must be left out where there is an end, is {self.duration:g}")
        self._check_cron("end", self.end)
        if self.end.split() == self.start.split():
            raise ValueError(f"end: must be another than start, is {shown(self.end)}")

    @property
    def label(self) -> str:
        until = f"for {self.duration:g} s" if self.end is None else f"to {self.end}"
        return self.name or f"{self.start} {until}"

    def span(self, at: float) -> HoursState:
        """Whether the hours are in force at a time, and until when that stays so."""
        starts = self._times(self.start)
        began = starts.latest(at)
        comes = starts.next(at)
        if began is not None and at < (ends := self._end_of(began)):
            return HoursState(True, began.at, ends, min(ends, comes))
        return HoursState(False, -inf, comes, comes)

    def _end_of(self, began: Occurrence) -> float:
        if self.end is None:
            return began.at + (self.duration or 0.0)
        end = Times(self.end, self.zone).following(began)
        return inf if end is None else end.at


class Instant(Dated, frozen=True):
    """Each time of a cron expression."""

    at: Cron

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_cron("at", self.at)

    @property
    def label(self) -> str:
        return self.name or self.at

    def latest(self, at: float) -> float:
        """When it last came, at or before a time; minus infinity: not in 50 years."""
        occurrence = self._times(self.at).latest(at)
        return -inf if occurrence is None else occurrence.at

    def following(self, at: float) -> float:
        """When it comes next, after a time; infinity: not in 50 years."""
        return self._times(self.at).next(at)


H = TypeVar("H", bound=Hours)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class HoursNow(NamedTuple, Generic[H]):
    """Hours, and whether they are in force."""

    hours: H
    span: HoursState

    @property
    def told(self) -> str:
        """Which hours are in force, since when and until when."""
        hours, span = self
        since = hours.stamp(span.since)
        if span.until == inf:
            return f"{hours.label} since {since}"
        until = hours.stamp(span.until)
        day, zone = since[:15], since[since.rindex(" ") :]
        if until.startswith(day) and until.endswith(zone):  # the day and the zone once
            since, until = since.removesuffix(zone), until[len(day) :].strip()
        return f"{hours.label} since {since} until {until}"


class Spell(NamedTuple, Generic[V]):
    """What holds from one time to another, the latter not included."""

    since: float
    until: float
    value: V


def standing(hours: Sequence[H], at: float) -> Spell[list[HoursNow[H]]]:
    """These hours with whether they are in force, and until when that stays so."""
    states = [HoursNow(entry, entry.span(at)) for entry in hours]
    return Spell(at, min((state.span.steady for state in states), default=inf), states)


def steady(find: Callable[[K, float], Spell[V]]) -> Callable[[K, float], Spell[V]]:
    """Cache the last spell of each key, so that what changes a few times a day is not computed at each look."""

    @lru_cache(maxsize=4096)
    def kept(_: K) -> list[Spell[V]]:
        return []

    @wraps(find)
    def found(key: K, at: float) -> Spell[V]:
        last = kept(key)
        for spell in last:
            if spell.since <= at < spell.until:
                return spell
        fresh = find(key, at)
        last[:] = [fresh]
        return fresh

    return found
