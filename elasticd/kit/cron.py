"""When a cron expression comes, in a time zone, through the days on which clocks change.

Knows cron, zones and excluded dates; knows nothing of what is done at those times, or of the present.

cronsim steps through the readings of a wall clock; how a reading becomes a time is said here, as Debian's cron(8) does
it. Where clocks go forward, a fixed time that is skipped comes at the moment of the change. Where they go back, a fixed
time that is read twice comes at the first reading. Expressions whose minute or hour begins with "*" follow the clock.
"""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import lru_cache
from math import floor, inf
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim
from msgspec import Struct

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - what a wall clock reads has no zone
_END = datetime(9999, 12, 31)  # noqa: DTZ001
_DAY = 86400.0
_SECOND = timedelta(seconds=1)


class Occurrence(NamedTuple):
    """A time (seconds since the epoch) and what the wall clock was meant to read then; ordered by both."""

    at: float
    wall: datetime


class Times(Struct, frozen=True):
    """When a cron expression comes in a zone, but for excluded dates, both ends of each range included."""

    cron: str
    zone: str
    excluded: tuple[tuple[date, date], ...] = ()

    def latest(self, at: float) -> Occurrence | None:
        """The last occurrence at or before a time; None: there is none in 50 years."""
        wall_now, slack = self._around(at)
        latest: Occurrence | None = None
        for wall in self._walls(wall_now + slack + _SECOND, -1):
            sooner = [occurrence for occurrence in self._occurrences(wall) if occurrence.at <= at]
            latest = max(sooner if latest is None else [latest, *sooner], default=None)
            if latest is not None and wall <= wall_now - slack:
                break
        return latest

    def next(self, at: float) -> float:
        """When it comes next, after a time; infinity: not in 50 years."""
        occurrence = self.following(Occurrence(at, _END))
        return inf if occurrence is None else occurrence.at

    def following(self, after: Occurrence) -> Occurrence | None:
        """The first occurrence after another; None: there is none in 50 years."""
        wall_then, slack = self._around(after.at)
        earliest: Occurrence | None = None
        for wall in self._walls(wall_then - slack - _SECOND, 1):
            later = [occurrence for occurrence in self._occurrences(wall) if occurrence > after]
            earliest = min(later if earliest is None else [earliest, *later], default=None)
            if earliest is not None and wall >= wall_then + slack:
                break
        return earliest

    def _around(self, at: float) -> tuple[datetime, timedelta]:
        """The wall clock at a time, and how far its readings near it may be out of order, as it is moved."""
        zone = zone_of(self.zone)
        slack = abs(_offset(zone, at + _DAY) - _offset(zone, at - _DAY))
        return _EPOCH + timedelta(seconds=floor(at)) + _offset(zone, at), slack

    def _walls(self, wall: datetime, step: int) -> Iterator[datetime]:
        """The matching readings of the wall clock, later (1) or earlier (-1) than this, but for excluded ranges."""
        times = CronSim(self.cron, wall, reverse=step < 0)
        while (reading := next(times, None)) is not None:
            day = reading.date()
            excluded = next((dates for dates in self.excluded if dates[0] <= day <= dates[1]), None)
            if excluded is None:
                yield reading
            elif step > 0:
                times = CronSim(self.cron, _midnight(excluded[1] + timedelta(days=1)) - _SECOND)
            else:
                times = CronSim(self.cron, _midnight(excluded[0]), reverse=True)

    def _occurrences(self, wall: datetime) -> tuple[Occurrence, ...]:
        """The times at which a wall-clock reading occurs: one, or none or two when clocks change."""
        zone, seconds = zone_of(self.zone), (wall - _EPOCH).total_seconds()
        first, second = (wall.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta() for fold in (0, 1))
        earlier, later = seconds - first.total_seconds(), seconds - second.total_seconds()
        if first == second or (first > second and self._fixed):
            return (Occurrence(earlier, wall),)
        if first > second:
            return Occurrence(earlier, wall), Occurrence(later, wall)
        return (Occurrence(_change(zone, later, earlier), wall),) if self._fixed else ()

    @property
    def _fixed(self) -> bool:
        minute, hour = self.cron.split()[-5:-3]
        return not minute.startswith("*") and not hour.startswith("*")


@lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo:
    """The zone of that name. Raises LookupError, ValueError or OSError where there is none."""
    return ZoneInfo(name)


def _offset(zone: ZoneInfo, at: float) -> timedelta:
    return datetime.fromtimestamp(at, zone).utcoffset() or timedelta()


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)  # noqa: DTZ001 - a wall clock again


def _change(zone: ZoneInfo, before: float, after: float) -> float:
    """When the clock is changed, to the second, between `before` (not included) and `after`."""
    offset = _offset(zone, before)
    while after - before > 1:
        middle = (before + after) // 2
        if _offset(zone, middle) == offset:
            before = middle
        else:
            after = middle
    return after
