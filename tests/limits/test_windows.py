"""The built-in limits: stabilization, rates and cooldowns."""

from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.api import Past, Run, Strategy
from elasticd.kit import Rate
from elasticd.kit.history import begin, resume
from elasticd.limits import register_strategies
from elasticd.limits.behavior import Cooldown, RateLimit, Stabilization
from tests.kit.plugins.builders import EMPTY, NOW, OLD, Wants, before, conditions, decode, ends, judge, seen


def test_all_are_registered_by_their_names() -> None:
    names = [kind.__struct_config__.tag for kind in register_strategies()]
    assert names == ["stabilization", "rate", "cooldown", "capacity", "rollout", "staged"]
    assert Stabilization().reads() == Cooldown().reads() == ()


@pytest.mark.parametrize(
    ("up", "down", "past", "interval"),
    [
        pytest.param(0, 300, EMPTY, None, id="nothing wished for yet"),
        pytest.param(0, 300, before([(299, 7)]), (5, None), id="younger than the window"),
        pytest.param(0, 300, before([(300, 4)]), None, id="exactly as old as the window"),
        pytest.param(0, 300, before([(9, 3)]), (3, None), id="the highest of the window"),
        pytest.param(60, 0, before([(9, 9)]), (None, 9), id="the lowest of the window"),
        pytest.param(60, 0, before([(9, 3)]), (None, 5), id="never below the current count"),
        pytest.param(60, 0, before([(30, 7), (9, 9)]), (None, 7), id="the lowest of two"),
        pytest.param(0, 60, before([(30, 4), (9, 3)]), (4, None), id="the highest of two"),
        pytest.param(60, 300, before([(90, 4), (30, 8)]), (5, 8), id="two windows"),
        pytest.param(0, 0, before([(0, 9)]), None, id="no windows"),
    ],
)
def test_stabilization(up: float, down: float, past: Past, interval: Any) -> None:
    assert ends(Stabilization(up=up, down=down).limit(5, seen(5), past)) == interval


def test_a_run_counts_while_its_last_wish_is_recent() -> None:
    past = Past(OLD, (Run(NOW - 900, NOW - 100, 4), Run(NOW - 90, NOW - 10, 2)))
    assert ends(Stabilization().limit(1, seen(5), past)) == (4, None)


def test_stabilization_says_why() -> None:
    past = before([(30, 6)])
    limit = Stabilization(up=60)
    down, up = limit.limit(2, seen(5), past), limit.limit(9, seen(5), past)
    assert down is not None
    assert up is not None
    assert (down.reason, up.reason) == ("ScaleDownStabilized", "ScaleUpStabilized")
    assert down.condition == up.condition == "AbleToScale"
    assert down.message == "at least 5 for now: the highest recommendation of the last 300 s counts"
    assert up.message == "at most 6 for now: the lowest recommendation of the last 60 s counts"


FOUR, HALF = Rate("Pods", 4, 15), Rate("Percent", 50, 60)


@pytest.mark.parametrize(
    ("limit", "changes", "interval"),
    [
        pytest.param(RateLimit(up=(FOUR,)), [], (None, 14), id="up only"),
        pytest.param(RateLimit(down=(FOUR,)), [], (6, None), id="down only"),
        pytest.param(RateLimit(up=(FOUR, HALF), down=(FOUR, HALF)), [], (5, 15), id="the largest change"),
        pytest.param(RateLimit(up=(FOUR, HALF), down=(FOUR, HALF), select="Min"), [], (6, 14), id="the smallest"),
        pytest.param(RateLimit(up=(FOUR,), down=(FOUR,), select="Disabled"), [], (10, 10), id="disabled"),
        pytest.param(RateLimit(up=(FOUR,)), [(14, 7, 10)], (None, 11), id="three of four added already"),
        pytest.param(RateLimit(up=(FOUR,)), [(15, 7, 10)], (None, 14), id="exactly as old as the period"),
        pytest.param(RateLimit(up=(FOUR,), down=(HALF,)), [(20, 7, 10)], (3, 14), id="young for one direction only"),
        pytest.param(RateLimit(up=(FOUR,), down=(HALF,)), [(60, 7, 10)], (5, 14), id="old for both"),
        pytest.param(RateLimit(up=(FOUR,)), [(20, 1, 9), (14, 9, 10)], (None, 13), id="of two changes one is young"),
        pytest.param(RateLimit(up=(FOUR,)), [(14, 2, 10)], (None, 10), id="overspent: not below current"),
        pytest.param(RateLimit(down=(FOUR,)), [(14, 20, 10)], (10, None), id="overspent: not above current"),
        pytest.param(RateLimit(up=(FOUR,)), [(14, 12, 10)], (None, 16), id="removed ones may come back"),
        pytest.param(RateLimit(up=(Rate("Pods", 90, 15),)), [], (None, 100), id="as far as any max"),
        pytest.param(RateLimit(up=(Rate("Percent", 900, 15),)), [(14, 10, 10)], (None, 100), id="tenfold"),
        pytest.param(RateLimit(down=(Rate("Percent", 100, 15),)), [], (0, None), id="all at once"),
        pytest.param(RateLimit(down=(Rate("Percent", 300, 15),)), [], (0, None), id="more than all"),
        pytest.param(RateLimit(down=(Rate("Pods", 11, 15),)), [], (0, None), id="more pods than there are"),
    ],
)
def test_rates(limit: RateLimit, changes: list[Any], interval: Any) -> None:
    assert ends(limit.limit(10, seen(10), before([], changes))) == interval


def test_percents_are_exact() -> None:
    limit = RateLimit(up=(HALF,), down=(HALF,))
    assert ends(limit.limit(1, seen(1000), EMPTY)) == (500, 1500)


@pytest.mark.parametrize(
    ("wish", "bounds", "replicas", "reason"),
    [
        pytest.param(12, (1, 100), 12, None, id="within all"),
        pytest.param(14, (1, 14), 14, None, id="a wish for what both allow is not limited"),
        pytest.param(50, (1, 15), 14, "ScaleUpLimit", id="the rate below max"),
        pytest.param(50, (1, 14), 14, "TooManyReplicas", id="max equal to the rate"),
        pytest.param(50, (1, 13), 13, "TooManyReplicas", id="max below the rate"),
        pytest.param(1, (5, 100), 6, "ScaleDownLimit", id="the rate above min"),
        pytest.param(1, (6, 100), 6, "TooFewReplicas", id="min equal to the rate"),
        pytest.param(1, (7, 100), 7, "TooFewReplicas", id="min above the rate"),
        pytest.param(50, (1, 10), 10, "TooManyReplicas", id="at max already"),
        pytest.param(1, (10, 100), 10, "TooFewReplicas", id="at min already"),
    ],
)
def test_a_rate_is_always_reported_and_binds_only_where_tighter(
    wish: int, bounds: tuple[int, int], replicas: int, reason: str | None
) -> None:
    rate = RateLimit(up=(FOUR,), down=(FOUR,))
    decision = judge(Wants(replicas=wish), seen=seen(10), limits=[rate], bounds=bounds)
    assert decision.replicas == replicas
    assert conditions(decision)["ScalingLimited"] == (reason or "DesiredWithinRange")
    assert [(limit.name, ends(limit)) for limit in decision.limits] == [("rate", (6, 14)), ("bounds", bounds)]
    assert [limit.reason for limit in decision.limits if limit.bound] == ([reason] if reason else [])
    if decision.verdict == "hold":
        assert decision.reason == reason


@pytest.mark.parametrize(
    ("wish", "reason", "message"),
    [
        (20, "ScaleUpLimit", "3 pods added in the last 15 s; at most 4 in 15 s"),
        (10, "ScaleUpLimit", "3 pods added in the last 15 s; at most 4 in 15 s"),
        (1, "ScaleDownLimit", "0 pods removed in the last 60 s; at most 50 % of 7 in 60 s"),
    ],
)
def test_rates_say_why(wish: int, reason: str, message: str) -> None:
    limit = RateLimit(up=(FOUR,), down=(HALF,)).limit(wish, seen(10), before([], [(5, 7, 10)]))
    assert limit is not None
    assert (limit.reason, limit.message, limit.condition) == (reason, message, "ScalingLimited")


def test_one_pod_is_not_pods_and_disabled_says_so() -> None:
    one = RateLimit(up=(FOUR,)).limit(20, seen(10), before([], [(5, 9, 10)]))
    none = RateLimit(down=(FOUR,), select="Disabled").limit(1, seen(10), EMPTY)
    assert one is not None
    assert none is not None
    assert one.message == "1 pod added in the last 15 s; at most 4 in 15 s"
    assert none.message == "no pods may be removed"


@pytest.mark.parametrize(
    ("mode", "changes", "interval", "reason"),
    [
        pytest.param("product", [], None, "", id="no change yet"),
        pytest.param("product", [(100, 4, 5)], (5, 5), "BackoffBoth", id="SATA-8: 100 s after a scale-out"),
        pytest.param("product", [(179, 4, 5)], (5, 5), "BackoffBoth", id="just within 3 min"),
        pytest.param("product", [(180, 4, 5)], None, "", id="after exactly 3 min"),
        pytest.param("product", [(299, 6, 5)], (5, None), "BackoffDownscale", id="after a scale-in, out is allowed"),
        pytest.param("product", [(300, 6, 5)], None, "", id="after exactly 5 min"),
        pytest.param("paper", [(299, 6, 5)], (5, 5), "BackoffBoth", id="paper: no decision in the window"),
        pytest.param("paper", [(200, 6, 7), (179, 5, 5)], None, "", id="a change by nothing is none"),
        pytest.param("product", [(290, 9, 4), (170, 4, 5)], (5, 5), "BackoffBoth", id="both windows: the stricter"),
    ],
)
def test_cooldown(mode: str, changes: list[Any], interval: Any, reason: str) -> None:
    limit = decode(Cooldown, mode=mode).limit(seen(5), before([], changes))
    assert ends(limit) == interval
    assert (limit.reason if limit else "") == reason


def test_cooldown_says_why() -> None:
    out, back = before([], [(60, 4, 5)]), before([], [(60, 6, 5)])
    said = [
        Cooldown().limit(seen(5), out),
        Cooldown().limit(seen(5), back),
        Cooldown(mode="paper").limit(seen(5), back),
    ]
    assert [limit.message for limit in said if limit] == [
        "scaled out 60 s ago; no change for 180 s after that",
        "scaled in 60 s ago; no scale-in for 300 s after that",
        "scaled in 60 s ago; no change for 300 s after that",
    ]


@pytest.mark.parametrize(
    ("mode", "opened", "changes", "interval", "reason"),
    [
        pytest.param("product", 0, [], (5, None), "BackoffDownscale", id="at the first look"),
        pytest.param("product", 299, [], (5, None), "BackoffDownscale", id="just within 5 min: out is allowed"),
        pytest.param("product", 300, [], None, "", id="after exactly 5 min"),
        pytest.param("product", 10, [(100, 4, 5)], (5, 5), "BackoffBoth", id="a scale-out before it is stricter"),
        pytest.param("product", 10, [(200, 4, 5)], (5, None), "BackoffDownscale", id="one too old is not"),
        pytest.param("paper", 0, [], None, "", id="paper: nothing was decided, so nothing is forbidden"),
        pytest.param("paper", 10, [(20, 6, 5)], (5, 5), "BackoffBoth", id="paper: a scale-in counts as ever"),
    ],
)
def test_the_windows_opening_counts_as_a_scale_in(
    mode: str, opened: float, changes: list[Any], interval: Any, reason: str
) -> None:
    past = replace(before([], changes), since=NOW - opened)
    limit = decode(Cooldown, mode=mode).limit(seen(5), past)
    assert (ends(limit), limit.reason if limit else "") == (interval, reason)


@pytest.mark.parametrize(
    ("mode", "past", "shrinks"),
    [
        pytest.param("product", begin(NOW, 5), 300, id="a first look"),
        pytest.param("product", resume(begin(NOW - 400, 5), NOW, 5), 300, id="a resume after a gap"),
        pytest.param("product", resume(begin(NOW - 50, 5), NOW, 5), 250, id="a resume without a gap"),
        pytest.param("paper", begin(NOW, 5), 0, id="paper, a first look"),
        pytest.param("paper", resume(begin(NOW - 400, 5), NOW, 5), 0, id="paper, a resume after a gap"),
    ],
)
def test_after_windows_reopen_growth_is_immediate_and_scale_in_waits(mode: str, past: Past, shrinks: int) -> None:
    def decided(wish: int, later: int) -> int:
        now = seen(5, at=NOW + later)
        return judge(Wants(replicas=wish), seen=now, past=past, limits=[decode(Cooldown, mode=mode)]).replicas

    assert [decided(2, later) for later in (0, shrinks - 1, shrinks) if later >= 0] == (
        [5, 5, 2] if shrinks else [2, 2]
    )
    assert {decided(8, later) for later in (0, 1, 299, 300)} == {8}


def test_cooldown_says_that_the_past_is_not_known() -> None:
    limit = Cooldown().limit(seen(5), replace(EMPTY, since=NOW - 60))
    assert limit is not None
    assert limit.message == "what was done before 60 s ago is not known; no scale-in for 300 s after"


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (RateLimit, {}, "^up: must have a rate unless down has one, is empty"),
        (RateLimit, {"up": [{"type": "Pods", "value": 0, "period": 15}]}, ">= 1|> 0"),
        (RateLimit, {"up": [{"type": "Pods", "value": 1, "period": 1801}]}, "<= 1800"),
        (RateLimit, {"up": [{"type": "Pods", "value": 1, "window": 15}]}, "window"),
        (Stabilization, {"up": -1}, ">= 0"),
        (Stabilization, {"down": 3601}, "<= 3600"),
        (Cooldown, {"after_up": -1}, ">= 0"),
        (Cooldown, {"mode": "sata"}, "sata"),
    ],
)
def test_what_makes_no_sense_is_refused(kind: type[Strategy], options: dict[str, Any], message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        decode(kind, **options)


COUNTS = some.integers(0, 60)
AGES = some.integers(0, 700)


@given(
    current=COUNTS,
    wish=COUNTS,
    wishes=some.lists(some.tuples(AGES, COUNTS), max_size=6),
    changes=some.lists(some.tuples(AGES, COUNTS, COUNTS), max_size=6),
    select=some.sampled_from(["Max", "Min", "Disabled"]),
    mode=some.sampled_from(["product", "paper"]),
)
def test_all_contain_the_current_count_and_order_is_all_one(
    current: int, wish: int, wishes: list[Any], changes: list[Any], select: Any, mode: Any
) -> None:
    past = before(sorted(wishes)[::-1], sorted(changes)[::-1])
    limits: list[Strategy] = [
        Stabilization(up=60),
        RateLimit(up=(FOUR, HALF), down=(FOUR, HALF), select=select),
        Cooldown(mode=mode),
    ]
    decisions = [
        judge(Wants(replicas=wish), seen=seen(current), past=past, limits=order, bounds=(0, 100))
        for order in permutations(limits)
    ]
    assert all(decision == decisions[0] for decision in decisions)
    told = decisions[0].limits
    assert all(limit.clamp(current) == current for limit in told)
    lowest = max(limit.lowest for limit in told if limit.lowest is not None)
    highest = min(limit.highest for limit in told if limit.highest is not None)
    assert decisions[0].replicas == max(lowest, min(highest, wish))
