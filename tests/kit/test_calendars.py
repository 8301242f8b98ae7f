"""Hours and instants: what they refuse, when they are in force, and what is kept of that."""

from contextlib import nullcontext
from datetime import datetime
from math import inf
from typing import Any

import msgspec
import pytest
from cronsim import CronSim, CronSimError
from hypothesis import example, given
from hypothesis import strategies as some

from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError
from elasticd.kit.calendars import Hours, Instant, Spell, standing, steady
from tests.kit.clocks import CHANGES, moment, occurrences
from tests.kit.test_cron import CRONS

BERLIN = "Europe/Berlin"
OFFICE: dict[str, Any] = {"start": "0 8 * * 1-5", "end": "0 20 * * 1-5", "zone": BERLIN}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param(
            {"start": "0 8 * *"},
            "start: must have five fields (minute, hour, day, month, day of week), or the "
            'second as a sixth before them, is "0 8 * *"',
            id="four fields",
        ),
        pytest.param(
            {"start": "@daily"},
            "start: must have five fields (minute, hour, day, month, day of week), or the "
            'second as a sixth before them, is "@daily"',
            id="a word",
        ),
        pytest.param({"start": "61 8 * * *"}, 'start: must have a valid minute, is "61 8 * * *"', id="minute"),
        pytest.param({"start": "0 24 * * *"}, 'start: must have a valid hour, is "0 24 * * *"', id="hour"),
        pytest.param({"start": "0 8 32 * *"}, 'start: must have a valid day-of-month, is "0 8 32 * *"', id="day"),
        pytest.param({"start": "0 8 30 2 *"}, 'start: must have a valid day-of-month, is "0 8 30 2 *"', id="30 Feb"),
        pytest.param({"start": "0 8 * 13 *"}, 'start: must have a valid month, is "0 8 * 13 *"', id="month"),
        pytest.param({"start": "0 8 * * 8"}, 'start: must have a valid day-of-week, is "0 8 * * 8"', id="day of week"),
        pytest.param({"start": "0 0 */20 * 1L"}, 'start: must come at some time, is "0 0 */20 * 1L"', id="never"),
        pytest.param(
            {"start": "*/5 0 8 * * *"},
            'start: must have one number for its second, is "*/5 0 8 * * *"',
            id="many seconds",
        ),
        pytest.param({"end": "0 8 * * x"}, 'end: must have a valid day-of-week, is "0 8 * * x"', id="end"),
        pytest.param({"end": "0  8 * * 1-5"}, 'end: must be another than start, is "0 8 * * 1-5"', id="end is start"),
        pytest.param({"end": None}, "end: must be given unless duration is, is missing", id="no end"),
        pytest.param({"duration": 60.0}, "duration: must be left out where there is an end, is 60", id="two ends"),
        pytest.param({"end": None, "duration": 0.0}, "duration: must be > 0, is 0.0", id="no time at all"),
        pytest.param(
            {"zone": "Europe/Berln"},
            'zone: must be an IANA time zone, is "Europe/Berln", did you mean "Europe/Berlin"?',
            id="misspelt zone",
        ),
        pytest.param(
            {"zone": "europe/berlin"},
            'zone: must be an IANA time zone, is "europe/berlin", did you mean "Europe/Berlin"?',
            id="small letters",
        ),
        pytest.param(
            {"zone": "../../etc/passwd"}, 'zone: must be an IANA time zone, is "../../etc/passwd"', id="a path"
        ),
        pytest.param({"zone": ""}, 'zone: must be an IANA time zone, is ""', id="no zone"),
        pytest.param(
            {"zone": "Europe"},
            'zone: must be an IANA time zone, is "Europe", did you mean "Europe/Rome"?',
            id="a folder of zones",
        ),
        pytest.param(
            {"except": ["24.12.2026"]},
            'except: must be dates such as 2026-12-24, or ranges such as 2026-12-24/2027-01-06, is "24.12.2026"',
            id="another country's date",
        ),
        pytest.param(
            {"except": ["2026-12-24/2026-12-23"]},
            'except: must be a range whose first date is not after its last, is "2026-12-24/2026-12-23"',
            id="a range turned round",
        ),
        pytest.param(
            {"except": ["2026-12-24/9999-12-31"]},
            'except: must be dates from 1970 to 2999, is "2026-12-24/9999-12-31"',
            id="for ever",
        ),
        pytest.param({"ends": "0 9 * * *"}, 'ends: no such key, did you mean "end"?', id="misspelt key"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        convert({**OFFICE, **changes}, Hours, "shop.toml", "strategy[0].windows[1]")
    assert str(caught.value) == f"shop.toml: strategy[0].windows[1].{problem}"


@given(
    some.text(max_size=30) | some.text("0123456789*/,-#L WMON", max_size=20).map(str.strip) | some.just("0 0 * * 1#2/3")
)
@example("1-L 0 * * *")
@example("0 0 LW,L * *")
@example("0 0 * * L")
def test_whatever_is_written_it_is_an_instant_or_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"\Aat: must .*\Z") if not comes(text) else nullcontext():
        Instant(at=text)


def comes(text: str) -> bool:
    """Whether cronsim can make something of it: enough fields, and a time in the next 50 years."""
    fields = text.split()
    if len(fields) != 5 and not (len(fields) == 6 and fields[0].isdecimal()):
        return False
    try:
        return next(CronSim(text, datetime(2026, 1, 1)), None) is not None
    except CronSimError:
        return False


@pytest.mark.parametrize(
    ("options", "at", "since", "until"),
    [
        pytest.param(OFFICE, "2026-03-30T07:59:59+02:00", None, "2026-03-30T08:00+02:00", id="a second before"),
        pytest.param(
            OFFICE, "2026-03-30T08:00+02:00", "2026-03-30T08:00+02:00", "2026-03-30T20:00+02:00", id="the start"
        ),
        pytest.param(
            OFFICE,
            "2026-03-30T19:59:59+02:00",
            "2026-03-30T08:00+02:00",
            "2026-03-30T20:00+02:00",
            id="the last second",
        ),
        pytest.param(OFFICE, "2026-03-30T20:00+02:00", None, "2026-03-31T08:00+02:00", id="the end is not in it"),
        pytest.param(OFFICE, "2026-10-24T12:00+02:00", None, "2026-10-26T08:00+01:00", id="over a weekend of change"),
        pytest.param(
            {**OFFICE, "start": "30 2 * * *", "end": "0 6 * * *"},
            "2026-03-29T03:00+02:00",
            "2026-03-29T03:00+02:00",
            "2026-03-29T06:00+02:00",
            id="a skipped start comes at the change",
        ),
        pytest.param(
            {**OFFICE, "start": "30 2 * * *", "end": "0 6 * * *"},
            "2026-03-29T01:59:59+01:00",
            None,
            "2026-03-29T03:00+02:00",
            id="and not before",
        ),
        pytest.param(
            {**OFFICE, "start": "15 2 * * *", "end": "45 2 * * *"},
            "2026-03-29T03:00+02:00",
            None,
            "2026-03-30T02:15+02:00",
            id="a window within the skipped hour is none",
        ),
        pytest.param(
            {**OFFICE, "start": "0 3 * * *", "end": "30 2 * * *"},
            "2026-03-29T03:00+02:00",
            "2026-03-29T03:00+02:00",
            "2026-03-30T02:30+02:00",
            id="a skipped end, then the start",
        ),
        pytest.param(
            {**OFFICE, "start": "30 2 * * *", "end": "0 3 * * *"},
            "2026-10-25T02:45+02:00",
            "2026-10-25T02:30+02:00",
            "2026-10-25T03:00+01:00",
            id="from the first 02:30, an hour longer",
        ),
        pytest.param(
            {**OFFICE, "start": "0 1 * * *", "end": "30 2 * * *"},
            "2026-10-25T02:10+01:00",
            None,
            "2026-10-26T01:00+01:00",
            id="to the first 02:30, and not again",
        ),
        pytest.param(
            {**OFFICE, "start": "0 22 * * *", "end": "0 6 * * *"},
            "2026-03-29T05:00+02:00",
            "2026-03-28T22:00+01:00",
            "2026-03-29T06:00+02:00",
            id="a night of seven hours",
        ),
        pytest.param(
            {**OFFICE, "start": "0 22 * * *", "end": "0 6 * * *"},
            "2026-10-25T02:30+01:00",
            "2026-10-24T22:00+02:00",
            "2026-10-25T06:00+01:00",
            id="a night of nine hours",
        ),
        pytest.param(
            {"start": "0 22 * * *", "duration": 28800.0, "zone": BERLIN},
            "2026-03-29T06:30+02:00",
            "2026-03-28T22:00+01:00",
            "2026-03-29T07:00+02:00",
            id="a duration is of seconds that pass",
        ),
        pytest.param(
            {"start": "0 * * * *", "duration": 600.0, "zone": BERLIN},
            "2026-10-25T02:05+01:00",
            "2026-10-25T02:00+01:00",
            "2026-10-25T02:10+01:00",
            id="each hour, the repeated one too",
        ),
        pytest.param(
            {**OFFICE, "zone": "America/New_York"},
            "2026-03-09T12:00Z",
            "2026-03-09T08:00-04:00",
            "2026-03-09T20:00-04:00",
            id="New York after its change",
        ),
        pytest.param(
            {**OFFICE, "zone": "America/New_York"},
            "2026-11-02T12:30Z",
            None,
            "2026-11-02T08:00-05:00",
            id="New York after the other",
        ),
        pytest.param(
            {**OFFICE, "zone": "Asia/Kathmandu"},
            "2026-05-01T02:15Z",
            "2026-05-01T08:00+05:45",
            "2026-05-01T20:00+05:45",
            id="Kathmandu, 45 minutes",
        ),
        pytest.param(
            {**OFFICE, "zone": "Asia/Kathmandu"},
            "2026-05-01T02:14:59Z",
            None,
            "2026-05-01T08:00+05:45",
            id="and a second before",
        ),
        pytest.param(
            {**OFFICE, "start": "0 0 29 2 *", "end": "0 0 1 3 *"},
            "2028-02-29T12:00+01:00",
            "2028-02-29T00:00+01:00",
            "2028-03-01T00:00+01:00",
            id="leap day",
        ),
        pytest.param(
            {**OFFICE, "start": "0 0 29 2 *", "end": "0 0 1 3 *"},
            "2027-02-28T12:00+01:00",
            None,
            "2028-02-29T00:00+01:00",
            id="no leap day",
        ),
        pytest.param(
            {**OFFICE, "start": "0 18 31 12 *", "end": "0 6 1 1 *"},
            "2027-01-01T00:00+01:00",
            "2026-12-31T18:00+01:00",
            "2027-01-01T06:00+01:00",
            id="over the new year",
        ),
        pytest.param(
            {**OFFICE, "start": "0 0 * * 1-5", "end": "0 0 * * 2-6"},
            "2026-03-31T00:00+02:00",
            "2026-03-31T00:00+02:00",
            "2026-04-01T00:00+02:00",
            id="whole days follow upon each other",
        ),
        pytest.param(
            {**OFFICE, "start": "0 0 * * 1-5", "end": "0 0 * * 2-6"},
            "2026-04-04T00:00+02:00",
            None,
            "2026-04-06T00:00+02:00",
            id="until Saturday",
        ),
        pytest.param(
            {**OFFICE, "except": ["2026-11-15"]},
            "2026-11-10T08:00+01:00",
            "2026-11-10T08:00+01:00",
            "2026-11-10T20:00+01:00",
            id="an excluded date is no other date",
        ),
        pytest.param(
            {**OFFICE, "except": ["2026-12-24/2027-01-01"]},
            "2026-12-28T12:00+01:00",
            None,
            "2027-01-04T08:00+01:00",
            id="excluded days",
        ),
        pytest.param(
            {**OFFICE, "start": "0 22 * * *", "end": "0 6 * * *", "except": ["2026-12-24"]},
            "2026-12-24T03:00+01:00",
            "2026-12-23T22:00+01:00",
            "2026-12-24T06:00+01:00",
            id="what began before an excluded date goes on",
        ),
        pytest.param(
            {**OFFICE, "start": "0 22 * * *", "end": "0 6 * * *", "except": ["2026-12-24"]},
            "2026-12-25T03:00+01:00",
            None,
            "2026-12-25T22:00+01:00",
            id="what would begin on it does not",
        ),
        pytest.param(
            {**OFFICE, "except": ["2026-12-24"], "zone": "Asia/Tokyo"},
            "2026-12-23T23:30Z",
            None,
            "2026-12-25T08:00+09:00",
            id="the date is that of the zone",
        ),
    ],
)
def test_hours_are_in_force(options: dict[str, Any], at: str, since: str | None, until: str) -> None:
    found = msgspec.convert(options, Hours).span(moment(at))
    assert (found.inside, found.until) == (since is not None, moment(until))
    assert found.since == (-inf if since is None else moment(since))


@pytest.mark.slow
@given(start=CRONS, end=CRONS, change=some.sampled_from(sorted(CHANGES)), minute=some.integers(-1440, 1440))
def test_in_force_is_what_going_through_all_minutes_says(start: str, end: str, change: str, minute: int) -> None:
    """Each start opens, each end closes; where both are read at one time the end comes first."""
    zone, middle = CHANGES[change]
    now = moment(middle) + 60 * minute
    if start == end:
        return
    since = moment(middle) - 10 * 86400
    events = [(*one, True) for one in occurrences(start, zone, since, 20)]
    events += [(*one, False) for one in occurrences(end, zone, since, 20)]
    inside = False
    for at, _, opens in sorted(events):
        inside = opens if at <= now else inside
    found = Hours(start=start, end=end, zone=zone).span(now)
    assert found.inside is inside
    assert now < found.steady <= found.until


@given(
    start=CRONS, minutes=some.integers(1, 3000), change=some.sampled_from(sorted(CHANGES)), at=some.integers(-999, 999)
)
def test_so_it_is_with_a_duration(start: str, minutes: int, change: str, at: int) -> None:
    zone, middle = CHANGES[change]
    now = moment(middle) + 60 * at
    times = [when for when, _ in occurrences(start, zone, moment(middle) - 10 * 86400, 20)]
    inside = any(when <= now < when + 60 * minutes for when in times)
    assert Hours(start=start, duration=60.0 * minutes, zone=zone).span(now).inside is inside


@given(start=CRONS, end=CRONS, change=some.sampled_from(sorted(CHANGES)), part=some.floats(0, 1, exclude_max=True))
def test_nothing_changes_before_it_is_said_to(start: str, end: str, change: str, part: float) -> None:
    zone, middle = CHANGES[change]
    if start == end:
        return
    hours, now = Hours(start=start, end=end, zone=zone), moment(middle)
    found = hours.span(now)
    later = min(now + part * (found.steady - now), found.steady - 1)
    assert hours.span(later) == found


def test_standing_hours_show_name_start_and_end_in_their_zone() -> None:
    office = msgspec.convert({**OFFICE, "name": "office"}, Hours)
    spell = standing([office], moment("2026-03-30T09:00+02:00"))
    assert [one.told for one in spell.value] == ["office since Mon 2026-03-30 08:00 until 20:00 CEST"]
    assert spell.until == moment("2026-03-30T20:00+02:00")


@pytest.mark.parametrize(
    ("entry", "label"),
    [
        (Hours(start="0 8 * * *", end="0 9 * * *"), "0 8 * * * to 0 9 * * *"),
        (Hours(start="0 8 * * *", duration=90), "0 8 * * * for 90 s"),
        (Hours(start="0 8 * * *", duration=90, name="rush"), "rush"),
        (Instant(at="0 8 * * *"), "0 8 * * *"),
        (Instant(at="0 8 * * *", name="dawn"), "dawn"),
    ],
)
def test_an_entry_is_labelled_by_its_name_or_its_times(entry: Hours | Instant, label: str) -> None:
    assert entry.label == label


def test_stamps_show_seconds_only_where_there_are_some() -> None:
    entry = Instant(at="30 0 8 * * *", zone="Asia/Kathmandu")
    at = entry.following(moment("2026-05-01T00:00Z"))
    assert (entry.stamp(at), entry.stamp(at - 30)) == ("Fri 2026-05-01 08:00:30 +0545", "Fri 2026-05-01 08:00 +0545")


def test_an_instant_that_was_missed_is_still_the_latest() -> None:
    entry = Instant(at="0 8 1 * *", zone=BERLIN)
    now = moment("2026-05-30T12:00+02:00")
    assert (entry.latest(now), entry.following(now)) == (
        moment("2026-05-01T08:00+02:00"), moment("2026-06-01T08:00+02:00"),
    )  # fmt: skip


def test_without_hours_nothing_ever_changes() -> None:
    assert standing([], 5.0) == Spell(5.0, inf, [])


def test_a_spell_is_computed_once_while_it_lasts() -> None:
    asked = []

    @steady
    def tens(key: str, at: float) -> Spell[str]:
        asked.append((key, at))
        return Spell(at // 10 * 10, at // 10 * 10 + 10, f"{key}{at // 10:.0f}")

    said = [tens(key, at).value for key, at in (("a", 1), ("a", 9), ("b", 5), ("a", 10), ("a", 19), ("b", 6), ("a", 3))]
    assert said == ["a0", "a0", "b0", "a1", "a1", "b0", "a0"]
    assert asked == [("a", 1), ("b", 5), ("a", 10), ("a", 3)]
