"""The schedule: floors, ceilings and exact counts by the calendar, and what it says of them."""

from collections.abc import Sequence
from inspect import unwrap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError
from elasticd.registry import discover
from elasticd.testing import check_strategy
from elasticd_plugins.schedule import Schedule, plan_at, register_strategies
from tests.kit.clocks import moment
from tests.kit.plugins.builders import WISHING, Wants, decode, ends, judge, queueing, seen

BERLIN = "Europe/Berlin"
OFFICE: dict[str, Any] = {
    "name": "office", "start": "0 8 * * 1-5", "end": "0 20 * * 1-5", "zone": BERLIN, "replicas": 10,
}  # fmt: skip
LUNCH: dict[str, Any] = {
    "name": "lunch", "start": "0 12 * * *", "duration": 3600.0, "zone": BERLIN, "replicas": 14,
}  # fmt: skip
NIGHT: dict[str, Any] = {
    "name": "night", "start": "0 22 * * *", "end": "0 6 * * *", "zone": BERLIN, "replicas": 3, "as": "ceiling",
}  # fmt: skip
MORNING: dict[str, Any] = {"name": "morning", "at": "0 7 * * *", "zone": BERLIN, "replicas": 8}
EVENING: dict[str, Any] = {"name": "evening", "at": "0 19 * * *", "zone": BERLIN, "replicas": 4, "as": "exact"}
MONDAY = "2026-03-30T{}+02:00"


def schedule(*windows: dict[str, Any], instants: Sequence[dict[str, Any]] = (), **options: Any) -> Schedule:
    return decode(Schedule, windows=windows, instants=instants, **options)


def answers(one: Schedule, at: str) -> tuple[int | None, int | None]:
    """What it wishes for and the highest it allows, None where it has no opinion."""
    said = one.recommend_replicas(seen(5, at=moment(at)))
    limit = one.limit(seen(5, at=moment(at)))
    assert limit is None or limit.lowest is None
    return said.replicas, limit.highest if limit else None


@pytest.mark.parametrize(
    ("one", "time", "wish", "highest"),
    [
        pytest.param(schedule(OFFICE), "07:59:59", None, None, id="before it begins"),
        pytest.param(schedule(OFFICE), "08:00", 10, None, id="a floor"),
        pytest.param(schedule(OFFICE), "20:00", None, None, id="when it has ended"),
        pytest.param(schedule({**OFFICE, "as": "ceiling"}), "08:00", None, 10, id="a ceiling"),
        pytest.param(schedule({**OFFICE, "as": "exact"}), "08:00", 10, 10, id="exact"),
        pytest.param(schedule({**OFFICE, "replicas": 0, "as": "exact"}), "08:00", 0, 0, id="exactly none"),
        pytest.param(schedule(OFFICE, LUNCH), "12:30", 14, None, id="of two floors the largest"),
        pytest.param(schedule(OFFICE, {**LUNCH, "replicas": 2}), "12:30", 10, None, id="not the one that began last"),
        pytest.param(
            schedule({**OFFICE, "as": "ceiling"}, {**LUNCH, "as": "ceiling"}),
            "12:30",
            None,
            10,
            id="of two ceilings the lowest",
        ),
        pytest.param(
            schedule(OFFICE, {**LUNCH, "replicas": 4, "as": "exact"}), "12:30", 10, 4, id="exact is a ceiling"
        ),
        pytest.param(schedule(OFFICE, default=2), "07:00", 2, None, id="the default outside"),
        pytest.param(schedule(OFFICE, default=2), "08:00", 10, None, id="no default inside"),
        pytest.param(schedule(NIGHT, default=2), "23:00", 2, 3, id="the default beside a ceiling"),
        pytest.param(schedule(default=0, instants=[EVENING]), "07:00", 4, 4, id="an instant holds until the next"),
        pytest.param(schedule(instants=[MORNING, EVENING]), "07:00", 8, None, id="the next instant replaces it"),
        pytest.param(schedule(instants=[MORNING, EVENING]), "19:00", 4, 4, id="whatever it is"),
        pytest.param(schedule(instants=[MORNING, EVENING]), "06:59:59", 4, 4, id="also from the day before"),
        pytest.param(
            schedule(instants=[MORNING, {**MORNING, "replicas": 9}]), "07:00", 9, None, id="of two at once the largest"
        ),
        pytest.param(schedule(OFFICE, instants=[MORNING, EVENING]), "19:30", 10, 4, id="windows and instants together"),
        pytest.param(schedule(OFFICE, instants=[MORNING]), "21:00", 8, None, id="an instant outside the windows"),
        pytest.param(schedule({**OFFICE, "except": ["2026-03-30"]}), "12:00", None, None, id="an excluded date"),
        pytest.param(
            schedule(instants=[MORNING, {**EVENING, "except": ["2026-03-29/2026-03-30"]}]),
            "20:00",
            8,
            None,
            id="an excluded instant does not come",
        ),
    ],
)
def test_what_is_in_force_is_asked_for(one: Schedule, time: str, wish: int | None, highest: int | None) -> None:
    assert answers(one, MONDAY.format(time)) == (wish, highest)


@pytest.mark.parametrize(
    ("time", "current", "other", "replicas", "reason"),
    [
        pytest.param("09:00", 5, 3, 10, "ScheduledFloor", id="the floor is larger"),
        pytest.param("09:00", 5, 16, 16, "Wanted", id="the other wishes for more"),
        pytest.param("09:00", 14, 3, 10, "ScheduledFloor", id="no lower than the floor"),
        pytest.param("21:00", 10, 3, 3, "Wanted", id="no floor any more"),
        pytest.param("23:00", 2, 16, 3, "Wanted", id="the ceiling is lower"),
        pytest.param("23:00", 2, 1, 1, "Wanted", id="the ceiling does not matter"),
        pytest.param("23:00", 9, 16, 3, "ScheduledCeiling", id="there were more before the ceiling"),
    ],
)
def test_with_another_strategy_the_largest_wins_below_the_ceiling(
    time: str, current: int, other: int, replicas: int, reason: str
) -> None:
    one = schedule(OFFICE, NIGHT)
    for strategies in ([one, Wants(replicas=other)], [Wants(replicas=other), one]):
        decision = judge(*strategies, seen=seen(current, at=moment(MONDAY.format(time))))
        assert (decision.replicas, decision.reason) == (replicas, reason)


@pytest.mark.parametrize(
    ("one", "time", "replicas", "verdict", "reason"),
    [
        pytest.param(schedule(OFFICE), "09:00", 10, "scale", "ScheduledFloor", id="a floor alone is the count"),
        pytest.param(schedule(OFFICE), "21:00", 20, "hold", "NoRecommendation", id="nothing in force: it stays"),
        pytest.param(schedule(NIGHT), "23:00", 20, "hold", "NoRecommendation", id="a ceiling alone wishes for nothing"),
        pytest.param(schedule(NIGHT, default=9), "23:00", 3, "scale", "ScheduledDefault", id="but cuts the default"),
        pytest.param(schedule(OFFICE, default=2), "21:00", 2, "scale", "ScheduledDefault", id="the default"),
        pytest.param(
            schedule({**OFFICE, "replicas": 200}), "09:00", 100, "scale", "ScheduledFloor", id="never beyond max"
        ),
        pytest.param(schedule({**OFFICE, "replicas": 0}), "09:00", 1, "scale", "ScheduledFloor", id="nor below min"),
    ],
)
def test_alone_it_is_the_count_or_nothing_changes(
    one: Schedule, time: str, replicas: int, verdict: str, reason: str
) -> None:
    decision = judge(one, seen=seen(20, at=moment(MONDAY.format(time))), bounds=(1, 100))
    assert (decision.replicas, decision.verdict, decision.reason) == (replicas, verdict, reason)


@pytest.mark.parametrize(
    ("current", "replicas"),
    [pytest.param(5, 10, id="it grows to the floor"), pytest.param(20, 20, id="it never shrinks")],
)
def test_while_another_strategy_cannot_know(current: int, replicas: int) -> None:
    hpa = decode(discover().strategies["hpa"].type, **WISHING)
    lost = seen(current, at=moment(MONDAY.format("09:00")))
    decision = judge(schedule(OFFICE), hpa, seen=lost)
    assert [one.replicas for one in decision.recommendations] == [None, 10]
    assert decision.replicas == replicas


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_however_many_pods_there_are_it_says_the_same(count: int) -> None:
    at = moment(MONDAY.format("12:30"))
    said = schedule(OFFICE, LUNCH).recommend_replicas(seen(count, at=at))
    assert said == schedule(OFFICE, LUNCH).recommend_replicas(queueing(5, 7, at=at))
    assert said is not None
    assert said.replicas == 14


def test_the_message_names_the_entry_its_interval_and_the_next() -> None:
    def told(one: Schedule, time: str) -> list[tuple[str, str]]:
        now = seen(5, at=moment(MONDAY.format(time)))
        said = [one.recommend_replicas(now), one.limit(now)]
        return [(answer.reason, answer.message) for answer in said if answer is not None]

    assert told(schedule(OFFICE), "21:00") == [
        ("NoFloor", "no floor is in force; next office, Tue 2026-03-31 08:00 CEST")
    ]
    whole = schedule(OFFICE, LUNCH, NIGHT, default=2)
    assert told(whole, "09:00") == [
        (
            "ScheduledFloor",
            ("at least 10: office since Mon 2026-03-30 08:00 until 20:00 CEST; next lunch, Mon 2026-03-30 12:00 CEST"),
        )
    ]
    assert told(whole, "22:30") == [
        ("ScheduledDefault", "2 while no floor is in force; next office, Tue 2026-03-31 08:00 CEST"),
        (
            "ScheduledCeiling",
            (
                "at most 3: night since Mon 2026-03-30 22:00 CEST until Tue 2026-03-31 06:00 CEST; "
                "next office, Tue 2026-03-31 08:00 CEST"
            ),
        ),
    ]
    assert told(schedule(instants=[MORNING, EVENING]), "19:00") == [
        (
            "ScheduledCount",
            "exactly 4: evening since Mon 2026-03-30 19:00 CEST; next morning, Tue 2026-03-31 07:00 CEST",
        ),
        (
            "ScheduledCeiling",
            "exactly 4: evening since Mon 2026-03-30 19:00 CEST; next morning, Tue 2026-03-31 07:00 CEST",
        ),
    ]


@pytest.mark.parametrize(
    ("one", "time", "change"),
    [
        pytest.param(schedule(OFFICE), "07:59:30", "08:00", id="it opens"),
        pytest.param(schedule(OFFICE), "08:00", "20:00", id="it closes"),
        pytest.param(schedule(OFFICE, LUNCH), "08:00", "12:00", id="another opens meanwhile"),
        pytest.param(schedule(OFFICE, instants=[EVENING]), "12:00", "19:00", id="an instant comes"),
    ],
)
def test_it_says_when_it_will_say_something_else(one: Schedule, time: str, change: str) -> None:
    assert one.next_change(moment(MONDAY.format(time))) == moment(MONDAY.format(change))


def test_an_instant_that_never_comes_again_changes_nothing() -> None:
    past = schedule(instants=[{**MORNING, "except": ["2026-01-01/2999-12-31"]}])
    assert past.next_change(moment("2026-05-01T00:00Z")) == moment("3000-01-01T07:00+01:00")
    assert answers(past, "2026-05-01T00:00Z") == (8, None)
    assert answers(schedule(instants=[{**MORNING, "except": ["1970-01-01/2999-12-31"]}]), "1971-01-01T00:00Z") == (
        8,
        None,
    )


OFFSETS = some.lists(some.integers(-20 * 86400, 20 * 86400), min_size=2, max_size=6)


@given(OFFSETS)
def test_the_schedule_depends_on_time_and_not_on_earlier_queries(offsets: list[int]) -> None:
    """A daemon that was down, or looks back, is told the same as one that never looked before."""
    middle = moment("2026-03-29T12:00+02:00")
    asked = schedule(OFFICE, LUNCH, NIGHT, instants=[MORNING, EVENING], default=1)
    for offset in offsets:
        now = seen(5, at=middle + offset)
        said = asked.recommend_replicas(now), asked.limit(now), asked.next_change(now.at)
        plan = unwrap(plan_at)(asked, now.at)
        assert said[:2] == (plan.value.recommendation, plan.value.limit)
        assert said[2] == plan.until > now.at


@given(some.permutations([OFFICE, LUNCH, NIGHT, {**OFFICE, "as": "exact", "replicas": 6}]), some.integers(0, 23))
def test_the_order_of_entries_does_not_matter(windows: list[dict[str, Any]], hour: int) -> None:
    at = MONDAY.format(f"{hour:02}:30")
    assert answers(schedule(*windows), at) == answers(schedule(*windows[::-1]), at)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param({}, "windows: must have an entry unless instants has one, is empty", id="nothing"),
        pytest.param(
            {"windows": [{**OFFICE, "replicas": -1}]}, "windows[0].replicas: must be >= 0, is -1", id="replicas"
        ),
        pytest.param(
            {"windows": [{**OFFICE, "as": "minimum"}]},
            'windows[0].as: must be one of ceiling, exact, floor, is "minimum"',
            id="as",
        ),
        pytest.param(
            {"windows": [{**OFFICE, "zone": "Europe/Berln"}]},
            'windows[0].zone: must be an IANA time zone, is "Europe/Berln", did you mean "Europe/Berlin"?',
            id="zone",
        ),
        pytest.param(
            {"windows": [OFFICE, {**OFFICE, "start": "0 8 * *"}]},
            "windows[1].start: must have five fields (minute, "
            'hour, day, month, day of week), or the second as a sixth before them, is "0 8 * *"',
            id="start",
        ),
        pytest.param(
            {"windows": [{**OFFICE, "end": "0 30 * * *"}]},
            'windows[0].end: must have a valid hour, is "0 30 * * *"',
            id="end",
        ),
        pytest.param(
            {"windows": [{**LUNCH, "duration": -1.0}]}, "windows[0].duration: must be > 0, is -1.0", id="duration"
        ),
        pytest.param(
            {"windows": [{**OFFICE, "except": ["Christmas"]}]},
            "windows[0].except: must be dates such as "
            '2026-12-24, or ranges such as 2026-12-24/2027-01-06, is "Christmas"',
            id="except",
        ),
        pytest.param({"windows": [{**OFFICE, "name": 5}]}, "windows[0].name: must be a string, is 5", id="name"),
        pytest.param(
            {"instants": [{**MORNING, "at": "7:00"}]},
            "instants[0].at: must have five fields (minute, hour, day, "
            'month, day of week), or the second as a sixth before them, is "7:00"',
            id="at",
        ),
        pytest.param(
            {"instants": [{"at": "0 7 * * *"}]}, "instants[0].replicas: must be given, is missing", id="no replicas"
        ),
        pytest.param(
            {"instants": [{**MORNING, "end": "0 8 * * *"}]}, "instants[0].end: no such key", id="an instant has no end"
        ),
        pytest.param({"windows": [OFFICE], "default": -1}, "default: must be >= 0, is -1", id="default"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        convert({"type": "schedule", **options}, Schedule, "shop.toml", "strategy[0]")
    assert str(caught.value) == f"shop.toml: strategy[0].{problem}"


def test_it_does_nothing_that_no_strategy_may() -> None:
    whole = schedule(OFFICE, LUNCH, NIGHT, instants=[MORNING, EVENING], default=2)
    assert check_strategy(whole) == []
    assert whole.reads() == ()
    assert register_strategies() == [Schedule]


def test_a_ceiling_limits_the_wish_without_a_lower_end() -> None:
    limit = schedule(NIGHT).limit(seen(9, at=moment(MONDAY.format("23:00"))))
    assert ends(limit) == (None, 3)
    assert limit is not None
    assert (limit.condition, limit.of_wish) == ("ScalingLimited", True)
