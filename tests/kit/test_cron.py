"""When a cron expression comes, through the days on which clocks change."""

import subprocess
import sys
from bisect import bisect_right
from datetime import UTC, date, datetime
from itertools import pairwise
from math import inf
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as some

from elasticd.kit.cron import Times
from tests.kit.clocks import CHANGES, moment, occurrences

BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("cron", "zone", "times"),
    [
        pytest.param(
            "30 2 * * *",
            BERLIN,
            ["2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"],
            id="a fixed time that is skipped comes at the change",
        ),
        pytest.param(
            "30 2 * * *",
            BERLIN,
            ["2026-10-24T02:30+02:00", "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"],
            id="a fixed time that is repeated comes the first time",
        ),
        pytest.param(
            "0 * * * *",
            BERLIN,
            ["2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00", "2026-03-29T04:00+02:00"],
            id="hourly goes by the clock in spring",
        ),
        pytest.param(
            "0 * * * *",
            BERLIN,
            ["2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00", "2026-10-25T03:00+01:00"],
            id="hourly comes in both hours in autumn",
        ),
        pytest.param(
            "*/30 2 * * *",
            BERLIN,
            ["2026-10-25T02:00+02:00", "2026-10-25T02:30+02:00", "2026-10-25T02:00+01:00", "2026-10-25T02:30+01:00"],
            id="a starred minute comes in both hours",
        ),
        pytest.param(
            "*/30 2 * * *",
            BERLIN,
            ["2026-03-28T02:30+01:00", "2026-03-30T02:00+02:00"],
            id="a starred minute that is skipped does not come",
        ),
        pytest.param(
            "15,45 2 * * *",
            BERLIN,
            ["2026-03-28T02:45+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:15+02:00"],
            id="two skipped times come at one time",
        ),
        pytest.param(
            "30 2 * * *",
            "America/New_York",
            ["2026-03-07T02:30-05:00", "2026-03-08T03:00-04:00", "2026-03-09T02:30-04:00"],
            id="New York in spring",
        ),
        pytest.param(
            "30 1 * * *",
            "America/New_York",
            ["2026-10-31T01:30-04:00", "2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00"],
            id="New York in autumn",
        ),
        pytest.param(
            "15 2 * * *",
            "Australia/Lord_Howe",
            ["2026-10-03T02:15+10:30", "2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"],
            id="clocks that change by half an hour",
        ),
        pytest.param(
            "0 0 * * *",
            "America/Havana",
            ["2026-03-07T00:00-05:00", "2026-03-08T01:00-04:00", "2026-03-09T00:00-04:00"],
            id="clocks that change at midnight",
        ),
        pytest.param(
            "0 12 * * *",
            "Pacific/Apia",
            ["2011-12-29T12:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T12:00+14:00"],
            id="a day that was left out",
        ),
        pytest.param(
            "0 8 * * *", "Asia/Kathmandu", ["2026-05-01T08:00+05:45", "2026-05-02T08:00+05:45"], id="45 minutes"
        ),
        pytest.param(
            "0 0 29 2 *",
            BERLIN,
            ["2024-02-29T00:00+01:00", "2028-02-29T00:00+01:00"],
            id="leap day",
        ),
        pytest.param(
            "59 23 31 12 *", BERLIN, ["2026-12-31T23:59+01:00", "2027-12-31T23:59+01:00"], id="the year's last minute"
        ),
        pytest.param("0 0 * * *", BERLIN, ["2026-12-31T00:00+01:00", "2027-01-01T00:00+01:00"], id="over the new year"),
        pytest.param("0 9 * * 0", BERLIN, ["2026-11-01T09:00+01:00", "2026-11-08T09:00+01:00"], id="Sunday is 0"),
        pytest.param("0 9 * * 7", BERLIN, ["2026-11-01T09:00+01:00", "2026-11-08T09:00+01:00"], id="Sunday is 7"),
        pytest.param(
            "0 9 1 * 1",
            BERLIN,
            ["2026-11-30T09:00+01:00", "2026-12-01T09:00+01:00", "2026-12-07T09:00+01:00"],
            id="day of month or day of week",
        ),
        pytest.param(
            "30 0 8 * * *",
            BERLIN,
            ["2026-05-01T08:00:30+02:00", "2026-05-02T08:00:30+02:00"],
            id="six fields begin with the second",
        ),
    ],
)
def test_times_follow_upon_each_other_both_ways(cron: str, zone: str, times: list[str]) -> None:
    calendar, expected = Times(cron, zone), [moment(one) for one in times]
    for before, after in pairwise(expected):
        assert datetime.fromtimestamp(calendar.next(before), UTC) == datetime.fromtimestamp(after, UTC)
        for late in (0, 0.5, 1, (after - before) / 2):
            found = calendar.latest(before + late)
            assert found is not None
            assert datetime.fromtimestamp(found.at, UTC) == datetime.fromtimestamp(before, UTC)
            assert calendar.next(before + late) == after


@pytest.mark.parametrize("minute", [0, 7, 29, 30, 31, 59])
def test_the_next_time_inside_a_repeated_hour_is_never_past(minute: int) -> None:
    """cronsim itself, asked so, answers with the first 02:30, which is over."""
    now = moment(f"2026-10-25T02:{minute:02}+01:00")
    aware = datetime.fromtimestamp(now, ZoneInfo(BERLIN))
    assert Times("30 2 * * *", BERLIN).next(now) == moment("2026-10-26T02:30+01:00")
    if minute < 30:
        assert next(CronSim("30 2 * * *", aware)).timestamp() < now


@pytest.mark.slow
@pytest.mark.parametrize("cron", ["30 2 * * *", "0 * * * *", "*/20 1-3 * * *", "0 0,2,3 * * *", "5 0 * * 1-5"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])
def test_a_whole_year_is_that_of_cronsim_s_own_reckoning(cron: str, zone: str) -> None:
    start = datetime(2026, 1, 1, 12, tzinfo=ZoneInfo(zone))
    calendar, at = Times(cron, zone), start.timestamp()
    for expected in CronSim(cron, start):
        if expected.year > 2026:
            break
        if expected.timestamp() == at:  # cronsim tells two skipped times as two
            continue
        at = calendar.next(at)
        assert at == expected.timestamp()


EXCLUDED = (date(2026, 11, 15), date(2026, 11, 15))


@pytest.mark.parametrize(
    ("cron", "excluded", "at", "latest", "following"),
    [
        pytest.param(
            "30 0 * * *",
            (EXCLUDED,),
            "2026-11-10T00:29+01:00",
            "2026-11-09T00:30+01:00",
            "2026-11-10T00:30+01:00",
            id="CronHPA's fault: 15 Nov is not the first hour of 10 Nov",
        ),
        pytest.param(
            "30 0 * * *",
            (EXCLUDED,),
            "2026-11-15T12:00+01:00",
            "2026-11-14T00:30+01:00",
            "2026-11-16T00:30+01:00",
            id="on the date itself",
        ),
        pytest.param(
            "0 0 * * *",
            (EXCLUDED,),
            "2026-11-15T23:59:59+01:00",
            "2026-11-14T00:00+01:00",
            "2026-11-16T00:00+01:00",
            id="midnight is of the day that begins",
        ),
        pytest.param(
            "59 23 * * *",
            (EXCLUDED,),
            "2026-11-15T00:00+01:00",
            "2026-11-14T23:59+01:00",
            "2026-11-16T23:59+01:00",
            id="to the end of the day",
        ),
        pytest.param(
            "0 * * * *",
            ((date(2026, 12, 24), date(2027, 1, 6)),),
            "2026-12-31T00:00+01:00",
            "2026-12-23T23:00+01:00",
            "2027-01-07T00:00+01:00",
            id="a range, both ends included",
        ),
        pytest.param(
            "* * * * *",
            ((date(2020, 1, 1), date(2029, 12, 31)),),
            "2026-12-31T00:00+01:00",
            "2019-12-31T23:59+01:00",
            "2030-01-01T00:00+01:00",
            id="ten years at once",
        ),
        pytest.param(
            "0 8 * * *",
            ((date(2026, 5, 4), date(2026, 5, 4)), (date(2026, 5, 2), date(2026, 5, 3))),
            "2026-05-03T12:00+02:00",
            "2026-05-01T08:00+02:00",
            "2026-05-05T08:00+02:00",
            id="ranges side by side, in any order",
        ),
    ],
)
def test_excluded_dates_are_whole_dates(
    cron: str, excluded: tuple[tuple[date, date], ...], at: str, latest: str, following: str
) -> None:
    calendar = Times(cron, BERLIN, excluded)
    found = calendar.latest(moment(at))
    assert found is not None
    assert (found.at, calendar.next(moment(at))) == (moment(latest), moment(following))


def test_what_is_excluded_for_ages_costs_one_step() -> None:
    calendar = Times("* * * * *", BERLIN, ((date(1970, 1, 1), date(2999, 12, 31)),))
    found = calendar.latest(moment("2026-05-03T12:00+02:00"))
    assert found is not None
    assert found.wall == datetime(1969, 12, 31, 23, 59)
    assert calendar.next(moment("2026-05-03T12:00+02:00")) == moment("3000-01-01T00:00+01:00")


def test_what_never_comes_is_told_so() -> None:
    never = Times("* * */20 * 1L", "UTC")  # the 1st or 21st, if it is the month's last Monday
    assert (never.next(0.0), never.latest(0.0)) == (inf, None)


FIELDS = some.tuples(
    some.sampled_from(["0", "30", "59", "15,45", "10-12", "*", "*/20"]),
    some.sampled_from(["*", "*/6", "0", "1", "2", "3", "23", "1-3", "0,2"]),
    some.just("*"),
    some.just("*"),
    some.sampled_from(["*", "*", "0", "1-5", "6,7"]),
)
CRONS = FIELDS.map(" ".join)


@pytest.mark.slow
@given(cron=CRONS, change=some.sampled_from(sorted(CHANGES)), minute=some.integers(-1440, 1440))
def test_latest_and_next_equal_those_of_a_minute_wise_search(cron: str, change: str, minute: int) -> None:
    zone, middle = CHANGES[change]
    noon = moment(middle)
    expected = [at for at, _ in occurrences(cron, zone, noon - 10 * 86400, 20)]
    now, calendar = noon + 60 * minute + 30, Times(cron, zone)
    place = bisect_right(expected, now)
    found = calendar.latest(now)
    assert found is not None
    assert (found.at, calendar.next(now)) == (expected[place - 1], expected[place])


@pytest.mark.slow
def test_zones_are_there_on_a_system_that_has_none() -> None:
    code = "from elasticd.kit.cron import Times; print(Times('0 8 * * *', 'Europe/Berlin').next(0.0))"
    environment = {"PYTHONTZPATH": "", "PYTHONPATH": ":".join(sys.path)}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout == "25200.0\n"
