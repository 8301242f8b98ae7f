"""Which limit binds an HPA's wish, which reason a decision gives, and the limits' own sentences."""

from typing import Any

import pytest

from elasticd.api import Past
from elasticd_plugins.hpa import Hpa
from tests.kit.plugins.builders import EMPTY, before, conditions
from tests.kit.plugins.normalized import (
    BOTH_RULES,
    BOTTOM,
    DOWN60,
    HELD,
    LEGACY,
    ONE,
    TOP,
    UP60,
    WITHIN,
    behaving,
    decided,
    rates,
    told,
)


@BOTH_RULES
@pytest.mark.parametrize("wish", [3, 8, 15])
def test_a_window_beyond_the_rate_is_reported_but_rates_decide(legacy: Hpa, wish: int) -> None:
    decision = decided(legacy, 4, wish, before([(15, 20)]))
    assert told(decision) == [(HELD, (20, None), False), (TOP, (None, 8), True)]
    assert (decision.verdict, decision.replicas) == ("scale", 8)


NONE = {"select": "Disabled"}
TURNED_DOWN, TURNED_UP = ("ScaleUpStabilized", (None, 3), False), (HELD, (8, None), False)


@pytest.mark.parametrize(
    ("up", "down", "wish", "past", "bounds", "expected", "limits"),
    [
        pytest.param(
            UP60, ONE, 9, before([(9, 3)]), (1, 99), (4, BOTTOM), [TURNED_DOWN, (BOTTOM, (4, 10), True)], id="down"
        ),
        pytest.param(
            ONE, DOWN60, 3, before([(9, 8)]), (1, 99), (6, TOP), [TURNED_UP, (TOP, (0, 6), True)], id="up"
        ),
        pytest.param(
            ONE, DOWN60, 5, before([(9, 8)]), (1, 99), (5, WITHIN), [(TOP, (0, 6), False)], id="equal looks up only"
        ),
        pytest.param(
            UP60, ONE, 9, before([(9, 3)]), (4, 99), (4, "TooFewReplicas"),
            [TURNED_DOWN, (BOTTOM, (4, 10), False)], id="down to the rate and min",
        ),
        pytest.param(
            ONE, DOWN60, 3, before([(9, 8)]), (1, 6), (6, "TooManyReplicas"),
            [TURNED_UP, (TOP, (0, 6), False)], id="up to the rate and max",
        ),
        pytest.param(
            UP60, NONE, 9, before([(9, 3)]), (1, 99), (5, BOTTOM), [TURNED_DOWN, (BOTTOM, (5, 10), True)], id="disabled"
        ),
    ],
)  # fmt: skip
def test_a_reversed_wish_in_1_20_shows_the_new_rates(
    up: Any, down: Any, wish: int, past: Past, bounds: tuple[int, int], expected: tuple[int, str], limits: list[Any]
) -> None:
    decision = decided(behaving(up, down, "1.20"), 5, wish, past, bounds=bounds)
    assert (decision.replicas, conditions(decision)["ScalingLimited"]) == expected
    assert told(decision) == limits


@pytest.mark.parametrize(
    ("bounds", "wish", "expected"),
    [
        pytest.param((1, 11), 50, (11, "TooManyReplicas"), id="max below the rate"),
        pytest.param((1, 12), 50, (12, "TooManyReplicas"), id="max equal to the rate"),
        pytest.param((1, 13), 50, (12, TOP), id="the rate below max"),
        pytest.param((7, 99), 1, (8, BOTTOM), id="the rate above min"),
        pytest.param((8, 99), 1, (8, "TooFewReplicas"), id="min equal to the rate"),
        pytest.param((9, 99), 1, (9, "TooFewReplicas"), id="min above the rate"),
    ],
)
def test_bounds_are_the_reason_where_they_are_tighter(
    bounds: tuple[int, int], wish: int, expected: tuple[int, str]
) -> None:
    two = rates(("Pods", 2, 60))
    decision = decided(behaving(two, two), 10, wish, bounds=bounds)
    assert (decision.replicas, conditions(decision)["ScalingLimited"]) == expected
    (binding,) = [limit for limit in decision.limits if limit.bound]
    assert binding.reason == expected[1]
    assert (binding.name == "bounds") == (expected[1] not in {TOP, BOTTOM})


@pytest.mark.parametrize("bounds", [(1, 11), (1, 12), (8, 99), (9, 99)])
@pytest.mark.parametrize("wish", [1, 10, 50])
def test_a_rate_is_reported_even_where_bounds_are_tighter(bounds: tuple[int, int], wish: int) -> None:
    two = rates(("Pods", 2, 60))
    assert [interval for _, interval, _ in told(decided(behaving(two, two), 10, wish, bounds=bounds))] == [(8, 12)]


@BOTH_RULES
@pytest.mark.parametrize("most", [7, 10, 100])
def test_the_legacy_rate_is_told_whatever_max_is(legacy: Hpa, most: int) -> None:
    assert told(decided(legacy, 5, 30, bounds=(1, most))) == [(TOP, (None, 10), most > 10)]


@pytest.mark.parametrize(
    ("wish", "past", "bounds", "binds"),
    [
        pytest.param(9, EMPTY, (1, 99), set(), id="nothing"),
        pytest.param(30, EMPTY, (1, 99), {TOP}, id="the rate"),
        pytest.param(30, EMPTY, (1, 10), {"TooManyReplicas"}, id="max as tight as the rate"),
        pytest.param(30, EMPTY, (1, 9), {"TooManyReplicas"}, id="max tighter"),
        pytest.param(1, EMPTY, (2, 99), {"TooFewReplicas"}, id="min"),
        pytest.param(1, before([(9, 4)]), (1, 99), {HELD}, id="the window"),
        pytest.param(1, before([(9, 2)]), (3, 99), {"TooFewReplicas"}, id="min tighter than the window"),
        pytest.param(1, before([(9, 7)]), (1, 99), {HELD}, id="the window, upwards"),
        pytest.param(1, before([(9, 7)]), (1, 6), {"TooManyReplicas"}, id="the window, upwards beyond max"),
        pytest.param(1, before([(9, 5)]), (5, 99), {HELD}, id="the window as tight as min"),
        pytest.param(1, before([(9, 20)]), (1, 99), {TOP}, id="the window, upwards beyond the rate"),
        pytest.param(1, before([(9, 20)]), (1, 10), {"TooManyReplicas"}, id="the window, beyond the rate and max"),
    ],
)
@BOTH_RULES
def test_what_binds_ends_at_the_answer(
    legacy: Hpa, wish: int, past: Past, bounds: tuple[int, int], binds: set[str]
) -> None:
    decision = decided(legacy, 5, wish, past, bounds=bounds)
    assert {limit.reason for limit in decision.limits if limit.bound} == binds


ABOVE, BELOW = "external metric queue above target", "All metrics below target"


@pytest.mark.parametrize(
    ("by", "current", "wish", "past", "bounds", "expected"),
    [
        pytest.param(LEGACY, 5, 9, EMPTY, (1, 99), ("scale", 9, ABOVE), id="up"),
        pytest.param(LEGACY, 5, 2, EMPTY, (1, 99), ("scale", 2, BELOW), id="down"),
        pytest.param(LEGACY, 5, 30, EMPTY, (1, 99), ("scale", 10, ABOVE), id="part of the way up"),
        pytest.param(LEGACY, 5, 2, before([(9, 4)]), (1, 99), ("scale", 4, BELOW), id="part of the way down"),
        pytest.param(LEGACY, 5, 30, EMPTY, (1, 5), ("hold", 5, "TooManyReplicas"), id="at max already"),
        pytest.param(LEGACY, 5, 2, EMPTY, (5, 99), ("hold", 5, "TooFewReplicas"), id="at min already"),
        pytest.param(LEGACY, 5, 2, before([(9, 5)]), (1, 99), ("hold", 5, HELD), id="held"),
        pytest.param(LEGACY, 5, 2, before([(9, 7)]), (1, 99), ("scale", 7, HELD), id="raised against the wish"),
        pytest.param(LEGACY, 5, 5, before([(9, 7)]), (1, 99), ("scale", 7, HELD), id="raised without a wish"),
        pytest.param(LEGACY, 5, 2, before([(9, 7)]), (1, 6), ("scale", 6, "TooManyReplicas"), id="raised to max"),
        pytest.param(LEGACY, 5, 2, before([(9, 20)]), (1, 99), ("scale", 10, TOP), id="raised as far as the rate"),
        pytest.param(
            behaving(rates(("Pods", 2, 60))),
            5,
            9,
            before([], [(9, 3, 5)]),
            (1, 5),
            ("hold", 5, "TooManyReplicas"),
            id="used up, at max",
        ),
        pytest.param(
            behaving(rates(("Pods", 2, 60))), 5, 9, before([], [(9, 3, 5)]), (1, 99), ("hold", 5, TOP), id="used up"
        ),
        pytest.param(behaving(UP60), 5, 9, before([(9, 5)]), (1, 99), ("hold", 5, "ScaleUpStabilized"), id="not yet"),
    ],
)
def test_a_decision_following_the_wish_gives_the_metrics_reason(
    by: Hpa, current: int, wish: int, past: Past, bounds: tuple[int, int], expected: tuple[str, int, str]
) -> None:
    decision = decided(by, current, wish, past, bounds=bounds)
    assert (decision.verdict, decision.replicas, decision.reason) == expected


def test_limits_explain_themselves() -> None:
    by = behaving(UP60, {"policies": [{"type": "Percent", "value": 50, "period": 60}]})
    past = before([(30, 6)], [(10, 7, 10)])
    said = [
        limit.message
        for wish in (20, 2)
        for limit in sorted(decided(by, 10, wish, past, bounds=(1, 99)).limits, key=lambda limit: limit.condition)
    ]
    assert said == [
        "at most 10 for now: the lowest recommendation of the last 60 s counts",
        "3 pods added in the last 15 s; at most 100 % of 7 in 15 s",
        "the policy allows 1 to 99",
        "at least 6 for now: the highest recommendation of the last 300 s counts",
        "0 pods removed in the last 60 s; at most 50 % of 7 in 60 s",
        "the policy allows 1 to 99",
    ]


@BOTH_RULES
def test_the_legacy_limits_explain_themselves(legacy: Hpa) -> None:
    decision = decided(legacy, 5, 2, before([(30, 6)]))
    assert {limit.message for limit in decision.limits} == {
        "at least 6 for now: the highest recommendation of the last 300 s counts",
        "at most twice 5, or 4, at once",
        "the policy allows 1 to 1000",
    }
