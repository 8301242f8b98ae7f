"""HPA: Normalization, with and without behavior, by both sets of rules; and the paper's cooldowns."""

from typing import Any

import pytest

from elasticd.api import Past
from elasticd_plugins.hpa import Hpa
from tests.kit.plugins.builders import EMPTY, before, decode
from tests.kit.plugins.controller import Controller
from tests.kit.plugins.normalized import (
    BOTH_RULES,
    BOTTOM,
    DOWN60,
    HELD,
    ONE,
    READY,
    TOP,
    UP60,
    WITHIN,
    Case,
    behaving,
    hpa,
    normalize,
    rates,
)


@pytest.mark.parametrize(
    ("current", "wish", "past", "bounds", "expected"),
    [
        pytest.param(5, 5, EMPTY, (1, 100), (5, READY, WITHIN), id="as it is"),
        pytest.param(5, 2, EMPTY, (1, 100), (2, READY, WITHIN), id="down at once without a past"),
        pytest.param(5, 2, before([(0, 5)]), (1, 100), (5, "ScaleDownStabilized", WITHIN), id="the seed holds"),
        pytest.param(5, 2, before([(299, 4), (30, 3)]), (1, 100), (4, "ScaleDownStabilized", WITHIN), id="the highest"),
        pytest.param(5, 2, before([(300, 4)]), (1, 100), (4, "ScaleDownStabilized", WITHIN), id="exactly 300 s counts"),
        pytest.param(5, 2, before([(300.001, 4)]), (1, 100), (2, READY, WITHIN), id="older does not"),
        pytest.param(5, 2, before([(30, 1)]), (1, 100), (2, READY, WITHIN), id="a lower past holds nothing"),
        pytest.param(5, 8, before([(30, 5)]), (1, 100), (8, READY, WITHIN), id="up is not delayed"),
        pytest.param(5, 11, EMPTY, (1, 100), (10, READY, "ScaleUpLimit"), id="twice"),
        pytest.param(5, 10, EMPTY, (1, 100), (10, READY, WITHIN), id="exactly twice"),
        pytest.param(1, 9, EMPTY, (1, 100), (4, READY, "ScaleUpLimit"), id="or 4"),
        pytest.param(0, 9, EMPTY, (0, 100), (4, READY, "ScaleUpLimit"), id="from 0: 4"),
        pytest.param(5, 30, EMPTY, (1, 9), (9, READY, "TooManyReplicas"), id="max below the limit"),
        pytest.param(5, 30, EMPTY, (1, 10), (10, READY, "TooManyReplicas"), id="max equal to the limit"),
        pytest.param(5, 30, EMPTY, (1, 11), (10, READY, "ScaleUpLimit"), id="limit below max"),
        pytest.param(5, 0, EMPTY, (2, 100), (2, READY, "TooFewReplicas"), id="min"),
        pytest.param(5, 0, EMPTY, (0, 100), (0, READY, WITHIN), id="to 0"),
    ],
)
@BOTH_RULES
def test_without_behavior(
    legacy: Hpa, current: int, wish: int, past: Past, bounds: tuple[int, int], expected: Case
) -> None:
    assert normalize(legacy, current, wish, past, least=bounds[0], most=bounds[1]) == expected


@pytest.mark.parametrize(
    ("wish", "past", "most", "expected"),
    [
        pytest.param(3, before([(15, 7)]), 100, (7, HELD, WITHIN), id="within the rate"),
        pytest.param(3, before([(15, 8)]), 100, (8, HELD, WITHIN), id="exactly the rate"),
        pytest.param(4, before([(15, 7)]), 100, (7, HELD, WITHIN), id="though nothing asks for a change"),
        pytest.param(5, before([(15, 7)]), 100, (7, HELD, WITHIN), id="beyond a wish that grows"),
        pytest.param(3, before([(90, 7), (15, 6)]), 100, (7, HELD, WITHIN), id="to the highest"),
        pytest.param(3, before([(300, 7)]), 100, (7, HELD, WITHIN), id="exactly 300 s old"),
        pytest.param(3, before([(300.001, 7)]), 100, (3, READY, WITHIN), id="no longer when older"),
        pytest.param(3, before([(15, 7)]), 6, (6, HELD, "TooManyReplicas"), id="no further than max"),
        pytest.param(3, before([(15, 9)]), 6, (6, HELD, "TooManyReplicas"), id="max below the rate"),
        pytest.param(3, before([(15, 9)]), 100, (8, HELD, TOP), id="no further than the rate"),
        pytest.param(3, before([(15, 9)]), 8, (8, HELD, "TooManyReplicas"), id="max equal to the rate"),
        pytest.param(8, before([(15, 20)]), 100, (8, HELD, TOP), id="raised beyond the rate, and back to the wish"),
        pytest.param(15, before([(15, 20)]), 100, (8, HELD, TOP), id="both beyond the rate"),
        pytest.param(20, before([(15, 20)]), 100, (8, READY, TOP), id="the wish as far as the window"),
    ],
)
@BOTH_RULES
def test_without_behavior_an_earlier_rate_limited_wish_raises_the_count(
    legacy: Hpa, wish: int, past: Past, most: int, expected: Case
) -> None:
    assert normalize(legacy, 4, wish, past, most=most) == expected


def test_the_window_is_an_option_and_0_is_none() -> None:
    past = before([(50, 9)])
    assert normalize(hpa(downscale_stabilization=60), 9, 2, past)[0] == 9
    assert normalize(hpa(downscale_stabilization=49), 9, 2, past)[0] == 2
    for rules in ("current", "1.20"):
        none = hpa(downscale_stabilization=0, rules=rules)
        assert normalize(none, 9, 2, before([(0, 9)])) == (2, READY, WITHIN)


@pytest.mark.parametrize(
    ("up", "down", "current", "wish", "past", "rules", "expected"),
    [
        pytest.param({}, {}, 5, 7, before([(1, 5)]), "current", (7, READY), id="up window 0 by default"),
        pytest.param({}, {}, 5, 3, before([(299, 5)]), "current", (5, "ScaleDownStabilized"), id="down window 300"),
        pytest.param({}, {}, 5, 3, before([(300, 5)]), "current", (3, READY), id="exactly as old no longer counts"),
        pytest.param(UP60, {}, 5, 9, before([(59, 6)]), "current", (6, "ScaleUpStabilized"), id="up to the lowest"),
        pytest.param(UP60, {}, 5, 9, before([(60, 6)]), "current", (9, READY), id="up: exactly as old"),
        pytest.param(UP60, {}, 5, 9, before([(9, 3)]), "current", (5, "ScaleUpStabilized"), id="two-way: not below"),
        pytest.param(UP60, {}, 5, 9, before([(9, 3)]), "1.20", (3, "ScaleUpStabilized"), id="1.20 turns it round"),
        pytest.param(UP60, DOWN60, 5, 3, before([(9, 8)]), "current", (5, "ScaleDownStabilized"), id="not above"),
        pytest.param(UP60, DOWN60, 5, 3, before([(9, 8)]), "1.20", (8, "ScaleDownStabilized"), id="1.20, upwards"),
        pytest.param(UP60, {}, 5, 5, before([(9, 3)]), "current", (5, READY), id="equal to current"),
        pytest.param(
            {},
            DOWN60,
            5,
            3,
            before([(61, 5), (60, 5), (59, 4)]),
            "current",
            (4, "ScaleDownStabilized"),
            id="own down window",
        ),
        pytest.param({}, {"stabilization_window": 0}, 5, 3, before([(0, 5)]), "current", (3, READY), id="window 0"),
        pytest.param(
            UP60, {}, 5, 9, before([(50, 8), (9, 7)]), "current", (7, "ScaleUpStabilized"), id="lowest of two"
        ),
        pytest.param(UP60, {}, 5, 9, before([(50, 7), (9, 8)]), "1.20", (7, "ScaleUpStabilized"), id="1.20, lowest"),
        pytest.param(UP60, {}, 5, 5, before([(9, 3)]), "1.20", (3, "ScaleUpStabilized"), id="1.20: equal looks up"),
        pytest.param(
            UP60, ONE, 5, 9, before([(9, 3)]), "1.20", (4, "ScaleUpStabilized"), id="1.20: rates, turned round"
        ),
    ],
)
def test_stabilization_with_behavior(
    up: dict[str, Any],
    down: dict[str, Any],
    current: int,
    wish: int,
    past: Past,
    rules: str,
    expected: tuple[int, str],
) -> None:
    assert normalize(behaving(up, down, rules), current, wish, past)[:2] == expected


@pytest.mark.parametrize("rules", ["current", "1.20"])
def test_with_behavior_the_down_window_is_downscale_stabilization_unless_given(rules: str) -> None:
    past = before([(50, 9)])
    for down, option, replicas in (({}, 60, 9), ({}, 50, 2), (DOWN60, 1, 9), ({"stabilization_window": 0}, 60, 2)):
        by = hpa(behavior={"scale_down": down}, downscale_stabilization=option, rules=rules)
        assert normalize(by, 9, 2, past)[0] == replicas


BOTH = [("Pods", 2, 60), ("Percent", 100, 60)]


@pytest.mark.parametrize(
    ("up", "current", "wish", "changes", "rules", "expected"),
    [
        pytest.param({}, 1, 50, [], "current", (5, TOP), id="default: 4 pods"),
        pytest.param({}, 10, 50, [], "current", (20, TOP), id="default: 100 %"),
        pytest.param({}, 0, 50, [], "current", (4, TOP), id="default from 0"),
        pytest.param({}, 8, 50, [(14, 4, 8)], "current", (8, TOP), id="used up within 15 s"),
        pytest.param({}, 8, 50, [(15, 4, 8)], "current", (16, TOP), id="exactly 15 s ago no longer counts"),
        pytest.param(rates(*BOTH), 10, 50, [], "current", (20, TOP), id="the largest"),
        pytest.param(rates(*BOTH, select="Min"), 10, 50, [], "current", (12, TOP), id="the smallest"),
        pytest.param(rates(*BOTH, select="Disabled"), 10, 50, [], "current", (10, TOP), id="disabled"),
        pytest.param(rates(("Percent", 10, 60)), 15, 50, [], "current", (17, TOP), id="ceil of 16.5"),
        pytest.param(rates(("Pods", 2, 60)), 10, 50, [(30, 9, 10)], "current", (11, TOP), id="one of two used"),
        pytest.param(rates(("Pods", 2, 60)), 10, 50, [(30, 5, 10)], "current", (10, TOP), id="never below current"),
        pytest.param(rates(("Pods", 2, 60)), 10, 50, [(30, 13, 10)], "current", (15, TOP), id="removed are put back"),
        pytest.param(rates(("Pods", 2, 60)), 10, 50, [(30, 13, 10)], "1.20", (12, TOP), id="1.20: not put back"),
        pytest.param(rates(("Pods", 2, 60)), 10, 50, [(30, 5, 10)], "1.20", (10, TOP), id="1.20: added counts"),
        pytest.param(
            rates(("Pods", 2, 60), ("Pods", 1, 10)), 10, 50, [(30, 8, 10)], "current", (11, TOP), id="each its period"
        ),
        pytest.param({}, 10, 20, [], "current", (20, WITHIN), id="exactly the limit"),
    ],
)
def test_rates_up(
    up: dict[str, Any], current: int, wish: int, changes: list[Any], rules: str, expected: tuple[int, str]
) -> None:
    count, _, limited = normalize(behaving(up, None, rules), current, wish, before([], changes), least=0)
    assert (count, limited) == expected


@pytest.mark.parametrize(
    ("down", "current", "wish", "changes", "rules", "expected"),
    [
        pytest.param({"stabilization_window": 0}, 50, 1, [], "current", (1, WITHIN), id="default: all at once"),
        pytest.param(rates(*BOTH), 10, 1, [], "current", (1, WITHIN), id="the largest change"),
        pytest.param(rates(*BOTH, select="Min"), 10, 1, [], "current", (8, BOTTOM), id="the smallest change"),
        pytest.param(rates(*BOTH, select="Disabled"), 10, 1, [], "current", (10, BOTTOM), id="disabled"),
        pytest.param(rates(("Percent", 10, 60)), 15, 1, [], "current", (13, BOTTOM), id="truncation of 13.5"),
        pytest.param(rates(("Pods", 2, 60)), 10, 1, [(30, 11, 10)], "current", (9, BOTTOM), id="one of two used"),
        pytest.param(rates(("Pods", 2, 60)), 10, 1, [(30, 15, 10)], "current", (10, BOTTOM), id="never above current"),
        pytest.param(rates(("Pods", 2, 60)), 10, 1, [(60, 15, 10)], "current", (8, BOTTOM), id="exactly as old"),
        pytest.param(rates(("Pods", 2, 60)), 10, 1, [(30, 7, 10)], "current", (5, BOTTOM), id="added are taken off"),
        pytest.param(rates(("Pods", 2, 60)), 10, 1, [(30, 7, 10)], "1.20", (8, BOTTOM), id="1.20: not taken off"),
        pytest.param(rates(("Pods", 20, 60)), 10, 0, [], "current", (0, WITHIN), id="more than there are"),
    ],
)
def test_rates_down(
    down: dict[str, Any], current: int, wish: int, changes: list[Any], rules: str, expected: tuple[int, str]
) -> None:
    count, _, limited = normalize(behaving(None, down, rules), current, wish, before([], changes), least=0)
    assert (count, limited) == expected


@pytest.mark.parametrize(
    ("past", "wish", "replicas"),
    [
        pytest.param(EMPTY, 50, 50, id="free, and no rates"),
        pytest.param(before([], [(179, 4, 5)]), 9, 5, id="no scale-out within 3 min of one"),
        pytest.param(before([], [(179, 4, 5)]), 2, 5, id="no scale-in within 3 min of a scale-out"),
        pytest.param(before([], [(180, 4, 5)]), 2, 2, id="free after exactly 3 min"),
        pytest.param(before([], [(299, 6, 5)]), 2, 5, id="no scale-in within 5 min of one"),
        pytest.param(before([], [(299, 6, 5)]), 9, 5, id="no scale-out within 5 min of a scale-in"),
        pytest.param(before([], [(300, 6, 5)]), 9, 9, id="free after exactly 5 min"),
        pytest.param(before([(10, 9)], [(300, 6, 5)]), 2, 2, id="no stabilization"),
    ],
)
def test_the_papers_cooldowns(past: Past, wish: int, replicas: int) -> None:
    assert normalize(hpa(mode="paper"), 5, wish, past)[0] == replicas


@pytest.mark.parametrize(
    ("options", "period"),
    [({}, None), ({"period": 15}, 15), ({"mode": "paper"}, 30), ({"mode": "paper", "period": 5}, 5)],
)
def test_the_period_is_asked_for_only_when_given(options: dict[str, Any], period: float | None) -> None:
    assert decode(Hpa, **options).poll_interval() == period


@pytest.mark.parametrize(
    ("up", "down", "changes", "wish", "count"),
    [
        pytest.param(("Pods", 10, 600), ("Percent", 100, 15), [(500, 30, 25), (400, 25, 20)], 100, 35,
                     id="a scale-in that another took the place of is forgotten"),
        pytest.param(("Pods", 10, 600), ("Percent", 100, 15), [(500, 30, 25)], 100, 35, id="one alone is known"),
        pytest.param(("Pods", 10, 600), ("Percent", 100, 15), [(500, 30, 25), (490, 25, 20)], 100, 40,
                     id="so are two within the longest period of their direction"),
        pytest.param(("Pods", 10, 600), ("Percent", 100, 15), [(515, 30, 25), (500, 25, 20)], 100, 40,
                     id="which is not over at its end"),
        pytest.param(("Pods", 10, 600), ("Percent", 100, 15), [(500, 35, 30), (490, 30, 25), (400, 25, 20)], 100, 40,
                     id="each takes the place of one"),
        pytest.param(("Percent", 900, 15), ("Pods", 2, 600), [(500, 10, 15), (400, 15, 20)], 0, 13,
                     id="and so with scale-outs"),
    ],
)  # fmt: skip
def test_a_change_is_forgotten_when_the_controller_overwrites_it(
    up: tuple[str, int, int], down: tuple[str, int, int], changes: Any, wish: int, count: int
) -> None:
    by, past = behaving(rates(up), rates(down)), before([], changes)
    assert normalize(by, 20, wish, past)[0] == count
    behavior = {"scale_up": rates(up), "scale_down": rates(down)}
    assert Controller(20, (1, 1000), past, old=False).behaving(wish, behavior).replicas == count
