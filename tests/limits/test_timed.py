"""The limits that know the calendar: blackout windows, and bounds that change with time."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from elasticd import testing
from elasticd.api import Strategy
from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError
from elasticd.kit.history import remember
from elasticd.limits.behavior import Cooldown, RateLimit, Stabilization
from elasticd.limits.timed import Blackout, ScheduledBounds, register_strategies
from elasticd.testing import check_strategy
from tests.kit.clocks import moment
from tests.kit.plugins.builders import EMPTY, Wants, before, conditions, decode, ends, judge, seen

MONDAY = "2026-03-30T{}+02:00"
CLOSING: dict[str, Any] = {
    "name": "closing", "start": "50 23 * * *", "duration": 1200.0, "zone": "Europe/Berlin",
}  # fmt: skip
LUNCH: dict[str, Any] = {
    "name": "lunch", "start": "0 12 * * *", "end": "0 13 * * *", "zone": "Europe/Berlin",
}  # fmt: skip
LONGER: dict[str, Any] = {
    "name": "longer", "start": "30 11 * * *", "end": "0 14 * * *", "zone": "Europe/Berlin",
}  # fmt: skip


def blackout(*windows: dict[str, Any], **options: Any) -> Blackout:
    return decode(Blackout, windows=windows or (LUNCH,), **options)


def bounds(*windows: dict[str, Any]) -> ScheduledBounds:
    return decode(ScheduledBounds, windows=windows)


def at(time: str, replicas: int = 5) -> Any:
    return seen(replicas, at=moment(MONDAY.format(time)))


def test_both_are_registered_by_their_names_and_read_no_series() -> None:
    assert [kind.__struct_config__.tag for kind in register_strategies()] == ["blackout", "scheduled-bounds"]
    assert blackout().reads() == bounds({**LUNCH, "max": 3}).reads() == ()


@pytest.mark.parametrize("one", [blackout(), bounds({**LUNCH, "min": 1, "max": 3})])
def test_they_do_nothing_that_no_strategy_may(one: Strategy) -> None:
    assert check_strategy(one) == []


@pytest.mark.parametrize(
    ("forbid", "time", "interval"),
    [
        ("change", "11:59:59", None),
        ("change", "12:00", (5, 5)),
        ("change", "12:59:59", (5, 5)),
        ("change", "13:00", None),
        ("growth", "12:00", (None, 5)),
        ("shrinking", "12:00", (5, None)),
    ],
)
def test_a_blackout_holds_the_count_within_its_windows(forbid: str, time: str, interval: Any) -> None:
    assert ends(blackout(forbid=forbid).limit(at(time))) == interval


@pytest.mark.parametrize(
    ("forbid", "wish", "replicas", "verdict", "reason"),
    [
        ("change", 9, 5, "hold", "BlackoutWindow"),
        ("change", 2, 5, "hold", "BlackoutWindow"),
        ("change", 5, 5, "keep", "Wanted"),
        ("growth", 9, 5, "hold", "BlackoutWindow"),
        ("growth", 2, 2, "scale", "Wanted"),
        ("shrinking", 9, 9, "scale", "Wanted"),
        ("shrinking", 2, 5, "hold", "BlackoutWindow"),
    ],
)
def test_within_it_a_decision_is_to_hold(forbid: str, wish: int, replicas: int, verdict: str, reason: str) -> None:
    decision = judge(Wants(replicas=wish), seen=at("12:30"), limits=[blackout(forbid=forbid)])
    assert (decision.replicas, decision.verdict, decision.reason) == (replicas, verdict, reason)
    assert conditions(decision)["ScalingLimited"] == (reason if verdict == "hold" else "DesiredWithinRange")


@pytest.mark.parametrize("current", [0, 1, 1000])
def test_whatever_the_count_is_it_may_stay(current: int) -> None:
    assert ends(blackout().limit(at("12:30", current))) == (current, current)


def test_only_the_policy_s_own_bounds_overrule_a_blackout() -> None:
    decision = judge(Wants(replicas=5), seen=at("12:30", 9), limits=[blackout()], bounds=(1, 6))
    assert (decision.replicas, decision.reason) == (6, "TooManyReplicas")


def test_a_blackout_says_which_window_and_until_when() -> None:
    said = [
        blackout(LUNCH, LONGER, forbid="growth").limit(at("12:30")),
        blackout(CLOSING, forbid="shrinking").limit(at("00:05")),
    ]
    assert [(one.reason, one.message) for one in said if one] == [
        ("BlackoutWindow", "no growth: longer since Mon 2026-03-30 11:30 until 14:00 CEST"),
        ("BlackoutWindow", "no shrinking: closing since Sun 2026-03-29 23:50 CEST until Mon 2026-03-30 00:10 CEST"),
    ]


@pytest.mark.parametrize(
    ("windows", "time", "interval"),
    [
        pytest.param([{**LUNCH, "min": 3, "max": 8}], "11:59:59", None, id="before"),
        pytest.param([{**LUNCH, "min": 3, "max": 8}], "12:00", (3, 8), id="both"),
        pytest.param([{**LUNCH, "min": 3, "max": 8}], "13:00", None, id="after"),
        pytest.param([{**LUNCH, "min": 3}], "12:00", (3, None), id="a least"),
        pytest.param([{**LUNCH, "max": 8}], "12:00", (None, 8), id="a greatest"),
        pytest.param([{**LUNCH, "max": 0}], "12:00", (None, 0), id="none at all"),
        pytest.param(
            [{**LUNCH, "min": 3, "max": 8}, {**LONGER, "min": 5, "max": 9}], "12:00", (5, 8), id="the tightest"
        ),
        pytest.param([{**LUNCH, "min": 6}, {**LONGER, "max": 4}], "12:00", (4, 4), id="contradicting: the max"),
        pytest.param([{**LUNCH, "min": 6}, {**LONGER, "max": 4}], "11:30", (None, 4), id="one of two in force"),
    ],
)
def test_bounds_hold_within_their_windows(windows: list[dict[str, Any]], time: str, interval: Any) -> None:
    assert ends(bounds(*windows).limit(at(time))) == interval


@pytest.mark.parametrize(
    ("current", "wish", "replicas", "reason"),
    [
        pytest.param(5, 20, 8, "Wanted", id="up to the max"),
        pytest.param(8, 20, 8, "ScheduledBounds", id="at the max"),
        pytest.param(15, 20, 8, "ScheduledBounds", id="down to the max"),
        pytest.param(5, 1, 3, "Wanted", id="down to the min"),
        pytest.param(1, 1, 3, "ScheduledBounds", id="up to the min"),
        pytest.param(5, 6, 6, "Wanted", id="between"),
    ],
)
def test_bounds_cut_the_wish(current: int, wish: int, replicas: int, reason: str) -> None:
    limit = bounds({**LUNCH, "min": 3, "max": 8})
    decision = judge(Wants(replicas=wish), seen=at("12:30", current), limits=[limit])
    assert (decision.replicas, decision.reason) == (replicas, reason)
    limited = conditions(decision)["ScalingLimited"]
    assert limited == ("DesiredWithinRange" if wish == replicas else "ScheduledBounds")
    assert [one.reason for one in decision.limits if one.bound] == ([] if wish == replicas else ["ScheduledBounds"])


def test_bounds_say_what_they_allow_and_which_window_it_is() -> None:
    limit = bounds({**LUNCH, "min": 3}, {**LONGER, "max": 9}).limit(at("12:30"))
    assert limit is not None
    assert limit.message == (
        "3 to any: lunch since Mon 2026-03-30 12:00 until 13:00 CEST; "
        "0 to 9: longer since Mon 2026-03-30 11:30 until 14:00 CEST"
    )


def test_the_policy_s_own_bounds_come_last() -> None:
    limit = bounds({**LUNCH, "min": 3, "max": 8})
    decision = judge(Wants(replicas=20), seen=at("12:30"), limits=[limit], bounds=(1, 6))
    assert (decision.replicas, conditions(decision)["ScalingLimited"]) == (6, "TooManyReplicas")


@pytest.mark.parametrize(
    ("limit", "past", "replicas", "reason"),
    [
        pytest.param(Stabilization(), before([(10, 20)]), 15, "ScaleDownStabilized", id="a window"),
        pytest.param(
            decode(RateLimit, down=[{"type": "Pods", "value": 2, "period": 60}]),
            EMPTY,
            13,
            "ScaleDownLimit",
            id="a rate",
        ),
        pytest.param(Cooldown(), before([], [(10, 12, 15)]), 15, "BackoffBoth", id="a cooldown"),
        pytest.param(blackout(), EMPTY, 15, "BlackoutWindow", id="a blackout"),
    ],
)
def test_scale_in_delays_apply_on_the_way_down_to_max(limit: Strategy, past: Any, replicas: int, reason: str) -> None:
    """They do not contradict each other: the bounds say where it goes, the others how soon."""
    now = at("12:30", 15)
    shift = now.at - 1_000_000.0
    past = type(past)(
        past.since + shift,
        tuple(type(one)(one.first + shift, one.last + shift, one.replicas) for one in past.runs),
        tuple(type(one)(one.at + shift, one.before, one.after) for one in past.changes),
    )
    decision = judge(Wants(replicas=20), seen=now, past=past, limits=[limit, bounds({**LUNCH, "max": 8})])
    assert (decision.replicas, decision.reason) == (replicas, reason)


def test_the_cut_wish_is_remembered_so_windows_expire_in_time() -> None:
    limits = [Stabilization(down=300.0), bounds({**LUNCH, "max": 8})]
    past, counts, current = EMPTY, [], 15
    for minute in range(12):
        now = at(f"11:{58 + minute}" if minute < 2 else f"12:{minute - 2:02}", current)
        past = past if minute else type(past)(now.at - 3600)
        decision = judge(Wants(replicas=20 if minute else 15), seen=now, past=past, limits=limits[: 2 if minute else 1])
        past, current = remember(past, decision), decision.replicas
        counts.append(current)
    assert counts == [15, 20, 20, 20, 20, 20, 8, 8, 8, 8, 8, 8]


def test_it_changes_when_a_window_opens_or_closes() -> None:
    for one in (blackout(LUNCH, LONGER), bounds({**LUNCH, "max": 3}, {**LONGER, "max": 3})):
        edges, now = [], moment(MONDAY.format("00:00"))
        for _ in range(4):
            now = one.next_change(now)
            edges.append(now)
        assert edges == [moment(MONDAY.format(time)) for time in ("11:30", "12:00", "13:00", "14:00")]


@pytest.mark.parametrize(
    ("kind", "options", "problem"),
    [
        pytest.param(Blackout, {}, "windows: must be given, is missing", id="no windows"),
        pytest.param(Blackout, {"windows": []}, "windows: must not be empty, is []", id="empty"),
        pytest.param(
            Blackout,
            {"windows": [LUNCH], "forbid": "all"},
            'forbid: must be one of change, growth, shrinking, is "all"',
            id="forbid",
        ),
        pytest.param(Blackout, {"windows": [{**LUNCH, "max": 3}]}, "windows[0].max: no such key", id="counts"),
        pytest.param(
            Blackout,
            {"windows": [{**LUNCH, "zone": "Europe/Berln"}]},
            'windows[0].zone: must be an IANA time zone, is "Europe/Berln", did you mean "Europe/Berlin"?',
            id="zone",
        ),
        pytest.param(ScheduledBounds, {"windows": []}, "windows: must not be empty, is []", id="no bounds"),
        pytest.param(
            ScheduledBounds,
            {"windows": [LUNCH]},
            "windows[0].min: must be given unless max is, is missing",
            id="bounds of nothing",
        ),
        pytest.param(
            ScheduledBounds,
            {"windows": [{**LUNCH, "min": 4, "max": 3}]},
            "windows[0].min: must be <= max = 3, is 4",
            id="min above max",
        ),
        pytest.param(
            ScheduledBounds, {"windows": [{**LUNCH, "min": -1}]}, "windows[0].min: must be >= 0, is -1", id="min"
        ),
        pytest.param(
            ScheduledBounds, {"windows": [{**LUNCH, "max": -1}]}, "windows[0].max: must be >= 0, is -1", id="max"
        ),
        pytest.param(
            ScheduledBounds,
            {"windows": [{**LUNCH, "max": 3, "end": None}]},
            "windows[0].end: must be given unless duration is, is missing",
            id="no end",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(kind: type[Strategy], options: dict[str, Any], problem: str) -> None:
    tag = kind.__struct_config__.tag
    with pytest.raises(ConfigError) as caught:
        convert({"type": tag, **options}, kind, "shop.toml", "limit[0]")
    assert str(caught.value) == f"shop.toml: limit[0].{problem}"


COUNTS = some.integers(0, 40)


@given(
    current=COUNTS, wish=COUNTS, least=COUNTS, more=COUNTS, forbid=some.sampled_from(["change", "growth", "shrinking"])
)
def test_growth_never_exceeds_a_max_nor_breaks_a_blackout(
    current: int, wish: int, least: int, more: int, forbid: str
) -> None:
    limits = [bounds({**LUNCH, "min": least, "max": least + more}), blackout(forbid=forbid), Stabilization(down=0)]
    found = [
        testing.judge(Wants(replicas=wish), seen=at("12:30", current), past=EMPTY, limits=order, bounds=(0, 100))
        for order in (limits, limits[::-1])
    ]
    assert found[0] == found[1]
    assert found[0].reason != "LimitsContradict"
    after = found[0].replicas
    assert after <= max(current, least + more)
    assert after >= min(current, least)
    assert after <= current or forbid == "shrinking"
    assert after >= current or forbid == "growth"
