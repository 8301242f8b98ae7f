"""Times as people write them, and what a cron expression means by brute force: minute by minute, field by field.

Knows nothing of the code under test; knows the rule for clock changes as Debian's cron(8) states it.
"""

from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
CHANGES = {
    "Berlin, spring": ("Europe/Berlin", "2026-03-29T12:00+02:00"),
    "Berlin, autumn": ("Europe/Berlin", "2026-10-25T12:00+01:00"),
    "New York, spring": ("America/New_York", "2026-03-08T12:00-04:00"),
    "New York, autumn": ("America/New_York", "2026-11-01T12:00-05:00"),
    "Lord Howe, by 30 min": ("Australia/Lord_Howe", "2026-10-04T12:00+11:00"),
    "Lord Howe, back": ("Australia/Lord_Howe", "2026-04-05T12:00+10:30"),
    "Havana, at midnight": ("America/Havana", "2026-03-08T12:00-04:00"),
    "Kathmandu, 45 min": ("Asia/Kathmandu", "2026-12-31T12:00+05:45"),
    "Apia, without a day": ("Pacific/Apia", "2011-12-31T12:00+14:00"),
}


def moment(text: str) -> float:
    """Seconds since the epoch of a time with its offset."""
    found = datetime.fromisoformat(text)
    assert found.tzinfo is not None
    return found.timestamp()


@lru_cache
def readings(zone: str, since: float, days: int) -> list[tuple[float, datetime, bool, bool]]:
    """For each minute the time and each reading that falls to it: the clock's own, and before it those that it skips.

    Whether the reading is a repeated one, and whether it is one that was skipped.
    """
    found, before = [], None
    for minute in range(days * 1440):
        at = since + 60 * minute
        there = datetime.fromtimestamp(at, ZoneInfo(zone))
        wall = there.replace(tzinfo=None, fold=0)
        skipped = wall if before is None else before + MINUTE
        while skipped < wall:
            found.append((at, skipped, False, True))
            skipped += MINUTE
        found.append((at, wall, there.fold == 1, False))
        before = wall
    return found


@lru_cache(maxsize=512)
def occurrences(cron: str, zone: str, since: float, days: int) -> list[tuple[float, datetime]]:
    """All occurrences within so many days, in their order."""
    minute, hour = cron.split()[:2]
    fixed = not minute.startswith("*") and not hour.startswith("*")
    wanted = _sets(cron)
    return [
        (at, wall)
        for at, wall, repeated, skipped in readings(zone, since, days)
        if _matches(wanted, wall) and (not repeated if fixed else not skipped)
    ]


def _sets(cron: str) -> list[set[int]]:
    limits = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
    return [_numbers(text, *ends) for text, ends in zip(cron.split(), limits, strict=True)]


def _numbers(text: str, least: int, most: int) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = (f"{least}-{most}" if span == "*" else span).partition("-")
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def _matches(wanted: list[set[int]], wall: datetime) -> bool:
    """For expressions of which the day of the month or the day of the week is "*"."""
    minutes, hours, days, months, weekdays = wanted
    return (
        wall.minute in minutes
        and wall.hour in hours
        and wall.day in days
        and wall.month in months
        and (wall.isoweekday() in weekdays or wall.isoweekday() % 7 in weekdays)
    )
