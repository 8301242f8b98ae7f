"""The limit `staged`: stages, and what guards make of the outcome."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd import testing
from elasticd.api import Change, Limit, Outcome, Past, Point, Recommendation, Strategy, hookimpl
from elasticd.kit import Rate
from elasticd.kit.history import carry, remember
from elasticd.limits.behavior import Cooldown, RateLimit, Rollout, Stabilization
from elasticd.limits.staged import ROLLED_BACK, Guard, Stage, Staged
from elasticd.model.history import Run
from elasticd.model.workload import Observation, Pod, Quality, Sample, Series
from elasticd.testing import check_strategy, judge
from elasticd_plugins.burst import Burst
from elasticd_plugins.double_threshold import DoubleThreshold
from elasticd_plugins.hpa import Hpa
from elasticd_plugins.step_tolerance import StepTolerance
from tests.kit.plugins.builders import NOW, OLD, Wants, decode, ends, pods, sample, seen, series, use

HALF, QUARTER = Stage(percent=50, interval=60), Stage(percent=25, interval=60)


def errors(*points: tuple[float, float]) -> dict[str, tuple[Point, ...]]:
    """What the series `errors` came to, as (age in seconds, value)."""
    return {"errors": tuple(Point(NOW - age, value, 0) for age, value in points)}


def past(
    *changes: tuple[Any, ...], points: dict[str, tuple[Point, ...]] | None = None, interval: float | None = None
) -> Past:
    """Changes as (age, before, after) and perhaps a reason, oldest first."""
    made = tuple(Change(NOW - age, before, after, *why) for age, before, after, *why in changes)
    return Past(OLD, changes=made, interval=interval, points=points or {})


def shown(replicas: int, now: float | None = 0.0, pods: tuple[Pod, ...] = ()) -> Observation:
    """A workload, and what `errors` are just now; None: they are not known."""
    quality = Quality.ERROR if now is None else Quality.FRESH
    samples = () if now is None else (Sample(now, NOW, NOW),)
    return seen(replicas, pods, Series("errors", "test", quality, samples, "", NOW))


def pod(name: str, node: str = "n", ready: bool = True) -> Pod:
    return Pod("shop", name, name, "Running" if node else "Pending", node, ready=ready)


@pytest.mark.parametrize(
    ("options", "current", "wish", "before", "interval"),
    [
        pytest.param({"up": HALF}, 4, 12, past(), (None, 8), id="half of the way up"),
        pytest.param({"up": HALF}, 8, 12, past((60, 4, 8)), (None, 12), id="half of the whole way"),
        pytest.param({"up": HALF}, 8, 12, past((59, 4, 8)), (None, 8), id="not before the interval is over"),
        pytest.param({"up": HALF}, 8, 12, past((181, 4, 8)), (None, 10), id="a change long ago was another one"),
        pytest.param({"up": QUARTER}, 4, 14, past(), (None, 7), id="rounded up, so four stages are enough"),
        pytest.param({"up": QUARTER}, 4, 5, past(), (None, 5), id="at least a pod"),
        pytest.param({"down": HALF}, 12, 4, past(), (8, None), id="half of the way down"),
        pytest.param({"down": HALF}, 8, 4, past((60, 12, 8)), (4, None), id="the second half"),
        pytest.param({"down": HALF}, 1, 0, past(), (0, None), id="to zero, never below"),
        pytest.param({"down": HALF}, 4, 12, past(), None, id="the other way is free"),
        pytest.param({"up": HALF}, 12, 4, past(), None, id="and the other"),
        pytest.param({"up": HALF}, 8, 12, past((30, 12, 8)), (None, 10), id="a change the other way is none of it"),
        pytest.param({"up": HALF}, 8, 12, past((40, 4, 9), (20, 9, 8)), (None, 8), id="nor the interval forgotten"),
        pytest.param({"up": HALF}, 8, 8, past(), None, id="nothing is wished for"),
        pytest.param({"up": HALF}, 0, 10, past(), (None, 5), id="from zero"),
    ],
)
def test_a_change_goes_in_stages(options: dict[str, Any], current: int, wish: int, before: Past, interval: Any) -> None:
    assert ends(Staged(**options).limit(wish, seen(current), before)) == interval


@pytest.mark.parametrize(
    ("opened", "interval"),
    [
        pytest.param(59, (10, None), id="what another daemon did is not known"),
        pytest.param(60, (5, None), id="an interval after it nothing of that counts"),
    ],
)
def test_the_windows_opening_counts_as_a_stage_down(opened: float, interval: Any) -> None:
    limit = Staged(down=HALF).limit(0, seen(10), replace(past(), since=NOW - opened))
    assert ends(limit) == interval


BAD, GOOD = errors((300, 0.0), (90, 0.2), (70, 0.2)), errors((300, 0.0), (90, 0.0), (70, 0.0))
NOISY = errors((160, 0.02), (130, 0.02), (90, 0.025), (70, 0.025))
EARLIER = tuple((age, 0.0) for age in range(160, 94, -2))
FIRST, FIRST_BAD = errors(*EARLIER), errors(*((age, 0.2 if age < 100 else 0.0) for age, _ in EARLIER))
LATE = errors((160, 0.0), (158, 0.0), (156, 0.0), (46, 0.0), (44, 0.0), (42, 0.0))
SELDOM = errors((220, 0.0), (175, 0.0), (130, 0.0), (85, 0.0))
ABOVE = (Guard(series="errors", above=0.1),)
RATIO = (Guard(series="errors", ratio=1.5),)
BOTH = (Guard(series="errors", ratio=1.2, above=0.1),)
IN, OUT = (100, 10, 8), (100, 8, 10)
ROLLBACK: dict[str, Any] = {"then": "rollback"}


@pytest.mark.parametrize(
    ("options", "change", "points", "now", "interval", "reason"),
    [
        pytest.param({}, (59, 10, 8), BAD, 0.0, (8, None), "StageWatched", id="watched: no further yet"),
        pytest.param({}, IN, GOOD, 0.0, None, "", id="good: it may go on"),
        pytest.param({}, IN, BAD, 0.2, (8, None), "GuardBad", id="bad: paused"),
        pytest.param({}, IN, errors((90, 0.2), (50, 0.4)), 0.0, (8, None), "GuardBad", id="bad for a window"),
        pytest.param({}, IN, errors((90, 0.2), (50, 0.0), (1, 0.0)), 0.0, None, "", id="good again: it may go on"),
        pytest.param({}, IN, {}, None, (8, None), "GuardUnknown", id="unknown: paused"),
        pytest.param({}, IN, {}, 0.0, (8, None), "GuardUnknown", id="known again, but only just"),
        pytest.param({}, IN, errors((31, 0.0)), 0.0, (8, None), "GuardUnknown", id="not for half a window yet"),
        pytest.param({}, IN, errors((30, 0.0)), 0.0, None, "", id="known for half a window, and good"),
        pytest.param({}, IN, FIRST, 0.0, (8, None), "GuardUnknown", id="good, but not known since: paused"),
        pytest.param(ROLLBACK, OUT, FIRST, 0.0, (None, 10), "GuardUnknown", id="growth waits too"),
        pytest.param(ROLLBACK, IN, FIRST_BAD, 0.0, (10, None), ROLLED_BACK, id="bad by what is known of it: back up"),
        pytest.param({}, IN, LATE, 0.0, (8, None), "GuardUnknown", id="known only at the end of the window"),
        pytest.param({}, IN, SELDOM, None, (8, None), "GuardUnknown", id="was good, but is unknown by now"),
        pytest.param({}, IN, SELDOM, 0.0, None, "", id="measured less often than each half window, and good"),
        pytest.param({"then": "continue"}, IN, BAD, 0.2, None, "", id="continue: goes on all the same"),
        pytest.param({"then": "continue"}, (59, 10, 8), BAD, 0.2, (8, None), "StageWatched", id="but watches"),
        pytest.param({"then": "continue"}, IN, BAD, None, (8, None), "GuardUnknown", id="and shrinks on no unknown"),
        pytest.param(ROLLBACK, IN, BAD, 0.0, (10, None), ROLLED_BACK, id="rollback of a scale-in: back up"),
        pytest.param(ROLLBACK, OUT, BAD, 0.0, (None, 8), ROLLED_BACK, id="rollback of a scale-out: back down"),
        pytest.param(ROLLBACK, IN, BAD, None, (10, None), ROLLED_BACK, id="also when it is unknown by now"),
        pytest.param(ROLLBACK, IN, {}, None, (8, None), "GuardUnknown", id="but what was never known pauses"),
        pytest.param(ROLLBACK, OUT, {}, None, (10, 10), "GuardUnknown", id="growth, and no scale-in on the unknown"),
        pytest.param(ROLLBACK, IN, GOOD, 0.0, None, "", id="what was good is not taken back"),
        pytest.param(ROLLBACK, (1860, 10, 8), errors((1850, 0.9)), 0.0, None, "", id="nor what was long ago"),
        pytest.param({"guards": RATIO}, IN, NOISY, 0.025, None, "", id="ratio: 1.25 times is not 1.5 times"),
        pytest.param({"guards": RATIO, **ROLLBACK}, IN, errors((130, 0.02), (90, 0.04)), 0.0, (10, None), ROLLED_BACK,
                     id="twice is"),
        pytest.param({"guards": RATIO, **ROLLBACK}, IN, errors((130, 0.0), (90, 0.01)), 0.01, (8, None),
                     "GuardUnknown", id="of nothing there is no ratio"),
        pytest.param({"guards": RATIO, **ROLLBACK}, IN, errors((130, 0.0), (90, 0.0)), 0.0, None, "",
                     id="and nothing is not more than nothing"),
        pytest.param(ROLLBACK, (60, 0, 1), BAD, 0.2, (None, 1), "GuardBad", id="what was woken is not put to sleep"),
        pytest.param({"guards": RATIO}, IN, errors((90, 0.04)), 0.0, (8, None), "GuardUnknown",
                     id="nothing known before to compare with"),
        pytest.param({"guards": BOTH}, IN, NOISY, 0.025, None, "", id="both thresholds must be exceeded"),
        pytest.param({"guards": (Guard(series="errors", above=0.1, direction="up"),)}, IN, BAD, 0.2, None, "",
                     id="a guard of growth does not judge a scale-in"),
        pytest.param({"guards": (Guard(series="errors", above=0.1, direction="down"),)}, OUT, BAD, None, (10, None),
                     "GuardUnknown", id="while it cannot be known nothing shrinks, but grows"),
    ],
)  # fmt: skip
def test_guards_decide_how_it_goes_on(
    options: dict[str, Any], change: tuple[int, int, int], points: Any, now: float | None, interval: Any, reason: str
) -> None:
    limit = Staged(**{"guards": ABOVE, "window": 60, **options})
    before = past(change, points=points)
    found = limit.limit(change[2], shown(change[2], now), before)
    assert (ends(found), found.reason if found else "") == (interval, reason)


@pytest.mark.parametrize(
    ("lag", "age", "value", "reason"),
    [
        pytest.param(20, 60, 0.0, "", id="samples of the second half are there"),
        pytest.param(40, 60, 0.0, "StageWatched", id="they are late: watched until they come"),
        pytest.param(40, 70, 0.0, "", id="one has come"),
        pytest.param(40, 700, 0.0, "", id="long ago: late samples are no unknown ones"),
        pytest.param(40, 70, 0.5, "GuardBad", id="bad"),
        pytest.param(40, 700, 0.5, "", id="bad long ago, and good since"),
    ],
)
def test_late_samples_are_waited_for(lag: int, age: int, value: float, reason: str) -> None:
    limit = Staged(guards=ABOVE, window=60)
    points = errors(*((at, value if age - 70 < at < age else 0.0) for at in range(1000, lag - 1, -10)))
    newest = Series("errors", "test", Quality.FRESH, (Sample(0.0, NOW - lag, NOW - lag),), "", NOW - lag)
    limited = limit.limit(20, seen(10, (), newest), past((age, 8, 10), points=points))
    assert (limited.reason if limited else "") == reason


@pytest.mark.parametrize(("lag", "reason"), [(0, "GuardBad"), (30, "GuardBad"), (60, "GuardBad"), (119, "GuardBad")])
def test_late_samples_make_no_bad_stage_good(lag: int, reason: str) -> None:
    """Errors rise from 1 to 2 in the minute before the change and to 2.4 after it. Compared with that minute alone,
    these were no half more than before."""
    limit = Staged(guards=(Guard(series="errors", ratio=1.5),), window=120)
    steps = ((age, 1.0 if age > 180 else 2.0 if age >= 120 else 2.4) for age in range(1000, lag - 1, -10))
    newest = Series("errors", "test", Quality.FRESH, (Sample(2.4, NOW - lag, NOW - lag),), "", NOW - lag)
    limited = limit.limit(10, seen(10, (), newest), past((120, 8, 10), points=errors(*steps)))
    assert limited is not None
    assert limited.reason == reason


def test_a_count_set_by_others_since_is_not_rolled_back() -> None:
    limit = Staged(guards=ABOVE, window=60, then="rollback")
    assert limit.limit(5, shown(5, 0.0), past(IN, points=BAD)) is None


@pytest.mark.parametrize(
    ("age", "interval"),
    [
        pytest.param(0, (10, None), id="at once"),
        pytest.param(599, (10, None), id="within the pause"),
        pytest.param(600, None, id="then it is tried again"),
    ],
)
def test_a_rolled_back_change_is_not_repeated_during_the_pause(age: float, interval: Any) -> None:
    limit = Staged(guards=ABOVE, window=60, then="rollback", pause=600)
    before = past((age + 100, 10, 8), (age, 8, 10, ROLLED_BACK), points=BAD)
    assert ends(limit.limit(8, shown(10, 0.0), before)) == interval
    assert ends(limit.limit(12, shown(10, 0.0), before)) == interval, "growth is free"


def waits(sign: int, before: Past) -> str:
    """Why a direction waits, by looking at all changes, the newest first."""
    for change in reversed(before.changes):
        way, age = (change.after - change.before) * sign, NOW - change.at
        if way > 0 and age < HALF.interval:
            return "StageWaits"
        if way < 0 and change.reason == ROLLED_BACK and age < 600:
            return "GuardBad"
    return "Staged"


steps = some.tuples(
    some.integers(0, 700), some.integers(0, 3), some.integers(0, 3), some.sampled_from(["", ROLLED_BACK])
)


@given(some.lists(steps, max_size=8, unique_by=lambda step: step[0]), some.sampled_from([-1, 1]))
def test_the_reason_for_waiting_matches_a_search_of_all_changes(made: list[tuple[Any, ...]], sign: int) -> None:
    before = past(*sorted(made, reverse=True))
    limit = Staged(up=HALF, down=HALF, pause=600.0).limit(8 + 8 * sign, seen(8), before)
    assert limit is not None
    assert limit.reason == waits(sign, before)


@given(
    some.lists(some.tuples(some.integers(0, 400), some.floats(0, 1)), max_size=20, unique_by=lambda point: point[0]),
    some.floats(0, 1),
    some.sampled_from([60, 61, 300]),
)
def test_a_guard_averages_the_window_after_the_change(known: list[tuple[int, float]], now: float, age: int) -> None:
    points = sorted(known, reverse=True)
    told = points if points and points[-1][0] == 0 else [*points, (0, now)]  # nothing counts twice
    found = [value for when, value in told if age > when >= age - 60]
    before = past((age, 4, 8), points=errors(*points))
    span = (NOW - age, NOW - age + 60)
    outcome, why = Guard("errors", above=-1.0).look(before.changes[-1], span, shown(8, now), before)
    assert outcome == ("bad" if found else "unknown")
    if found:
        assert float(why.split()[2][:-1]) == pytest.approx(sum(found) / len(found), rel=1e-4, abs=1e-9)


UNREADY = (pod("a"), pod("b", ready=False), pod("c", node="", ready=False))


@pytest.mark.parametrize(
    ("guard", "age", "poll", "reason"),
    [
        pytest.param(Guard(pods="pending", above=0), 60, None, ROLLED_BACK, id="one has no node"),
        pytest.param(Guard(pods="pending", above=1), 60, None, "", id="one may have none"),
        pytest.param(Guard(pods="unready", above=1), 60, None, ROLLED_BACK, id="two are not ready"),
        pytest.param(Guard(pods="unready", above=2), 60, None, "", id="two may be"),
        pytest.param(Guard(pods="pending", above=0), 119, None, ROLLED_BACK, id="a window later still its outcome"),
        pytest.param(Guard(pods="pending", above=0), 120, None, "GuardBad", id="then only a pause"),
        pytest.param(Guard(pods="pending", above=0), 239, 120.0, ROLLED_BACK, id="later where looks are rare"),
    ],
)
def test_pods_are_guards_as_they_are_when_the_window_ends(
    guard: Guard, age: float, poll: float | None, reason: str
) -> None:
    limit = Staged(guards=(guard,), window=60, then="rollback")
    found = limit.limit(9, shown(3, pods=UNREADY), past((age, 1, 3), interval=poll))
    assert (found.reason if found else "") == reason


def test_a_series_of_pods_is_taken_per_pod() -> None:
    points: dict[str, tuple[Point, ...]] = {"latency": (Point(NOW - 80, 8.0, 4), Point(NOW - 60, 12.0, 4))}
    guards = [Guard(series="latency", above=most) for most in (2.4, 2.5)]
    change = Change(NOW - 100, 4, 3)
    span = (NOW - 100, NOW - 40)
    said = [guard.look(change, span, seen(3), Past(OLD, points=points)) for guard in guards]
    assert [outcome for outcome, _ in said] == ["bad", "good"]
    assert said[0][1] == "latency is 2.5; at most 2.4"


def test_it_says_why() -> None:
    limit = Staged(up=HALF, guards=RATIO, window=60, then="rollback")
    said = [
        limit.limit(12, shown(4), past()),
        limit.limit(12, shown(8), past((20, 4, 8))),
        limit.limit(12, shown(8), past((100, 4, 8), points=errors((130, 0.02), (90, 0.04)))),
    ]
    assert [found.message for found in said if found] == [
        "4 at a time: 50 % of the change from 4 to 12",
        "changed 20 s ago; watched for 60 s after that",
        "errors is 0.04, was 0.02 before; at most 0.03, after 4 -> 8",
    ]


BEHAVIOR = {"scale_down": {"stabilization_window": 300}}


@pytest.mark.parametrize(
    ("delaying", "wished"),
    [
        pytest.param(decode(Hpa), 12, id="an hpa as it is by default"),
        pytest.param(decode(Hpa), 40, id="whose window asks for more than its rate allows"),
        pytest.param(decode(Hpa, behavior=BEHAVIOR), 12, id="an hpa with behavior"),
        pytest.param(decode(Hpa, behavior=BEHAVIOR, rules="1.20"), 12, id="and with the rules of 1.20"),
        pytest.param(decode(Hpa, mode="paper"), 12, id="an hpa with fixed cooldowns"),
        pytest.param(decode(StepTolerance), 12, id="step-tolerance"),
        pytest.param(decode(StepTolerance, mode="paper"), 12, id="step-tolerance of the paper"),
        pytest.param(decode(DoubleThreshold, mode="paper"), 12, id="double-threshold of the paper"),
        pytest.param(decode(Burst, scale_down_delay=600), 12, id="burst"),
        pytest.param(Stabilization(up=300, down=300), 12, id="stabilization"),
        pytest.param(Cooldown(after_up=600, after_down=600), 12, id="cooldown"),
        pytest.param(RateLimit(up=(Rate("Pods", 1, 600),), down=(Rate("Pods", 1, 600),)), 12, id="rate"),
        pytest.param(Rollout(forbids="both"), 12, id="rollout"),
    ],
)
@pytest.mark.parametrize(
    ("change", "back"), [pytest.param(OUT, 8, id="up"), pytest.param((100, 30, 10), 30, id="down")]
)
def test_a_bad_change_is_rolled_back_past_every_delay(
    delaying: Strategy, wished: int, change: tuple[int, int, int], back: int
) -> None:
    """As it is in a policy: what has been wished for all along is wished for still, and its own limits are there."""
    staged = Staged(guards=ABOVE, window=60, then="rollback")
    remembered = past(change, points=BAD)
    remembered = replace(remembered, runs=(Run(NOW - 100, NOW - 1, wished),))
    load = {"cpu": series(use(*[0.5] * 10)), "concurrency": series([sample("", 100)], "concurrency")}
    busy = shown(10, pods=tuple(pods(10)))
    rolling = replace(busy.workload, rollout="1 of 10 pods is of the new template")
    busy = replace(busy, workload=rolling, series=busy.series | load)
    found = testing.judge(Wants(replicas=wished), seen=busy, past=remembered, limits=[staged, delaying])
    assert (found.verdict, found.replicas, found.reason) == ("scale", back, ROLLED_BACK), found.message
    assert [limit.name for limit in found.limits if limit.bound] == ["staged"]


def test_a_rollback_exceeds_no_limit_unless_it_only_paces() -> None:
    class Firm(Strategy, tag="firm", frozen=True):
        paces: bool = False

        @hookimpl
        def limit(self, observation: Observation) -> Limit:
            return Limit("Firm", "", observation.workload.replicas, None, gives_way=self.paces)

    staged = Staged(guards=ABOVE, window=60, then="rollback")
    firm, paced = (
        testing.judge(Wants(replicas=12), seen=shown(10), past=past(OUT, points=BAD), limits=[staged, other])
        for other in (Firm(), Firm(paces=True))
    )
    assert (firm.verdict, firm.replicas, firm.reason) == ("hold", 10, "LimitsContradict")
    assert (paced.verdict, paced.replicas, paced.reason) == ("scale", 8, ROLLED_BACK)


def test_a_rollback_stays_within_the_policys_bounds() -> None:
    staged = Staged(guards=ABOVE, window=60, then="rollback")
    found = judge(Wants(replicas=7), seen=shown(8), past=past(IN, points=BAD), limits=[staged], bounds=(1, 9))
    assert (found.replicas, found.reason) == (9, "TooManyReplicas")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "^up: must be given unless down or guards are, is missing"),
        ({"up": {"percent": 0}}, "> 0"),
        ({"up": {"percent": 101}}, "<= 100"),
        ({"down": {"percent": 10, "interval": -1}}, ">= 0"),
        ({"down": {"percent": 10, "interval": 1801}}, "<= 1800"),
        ({"down": {}}, "percent"),
        ({"guards": [{"above": 1}]}, "series: must be given, or else pods, neither is"),
        ({"guards": [{"series": "errors", "pods": "pending", "above": 1}]}, "both are"),
        ({"guards": [{"series": "errors"}]}, "above: must be given unless ratio is, is missing"),
        ({"guards": [{"series": "errors", "ratio": 1}]}, "> 1"),
        ({"guards": [{"pods": "pending", "ratio": 2}]}, "ratio: must be left out for pods, is 2"),
        ({"guards": [{"pods": "slow", "above": 2}]}, "slow"),
        ({"guards": [{"series": "errors", "above": 1, "direction": "left"}]}, "left"),
        ({"up": {"percent": 10}, "window": 0}, "> 0"),
        ({"up": {"percent": 10}, "window": 901}, "<= 900"),
        ({"up": {"percent": 10}, "then": "stop"}, "stop"),
        ({"up": {"percent": 10}, "pause": 1801}, "<= 1800"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        decode(Staged, **options)


def test_staged_reads_its_guards_and_recalls_its_judging_period() -> None:
    guards = (*ABOVE, Guard(series="latency", ratio=2), Guard(pods="pending", above=0), *RATIO)
    assert Staged(guards=guards).reads() == ("errors", "latency")
    assert Staged(guards=guards, window=60, pause=600).recalls() == 720
    assert (Staged(up=HALF).reads(), Staged(up=HALF).recalls()) == ((), 0.0)
    assert check_strategy(Staged(up=HALF, down=HALF, guards=guards)) == []


COUNTS = some.integers(0, 40)
AGES = some.integers(0, 2000)


@given(
    current=COUNTS,
    wish=COUNTS,
    changes=some.lists(some.tuples(AGES, COUNTS, COUNTS), max_size=5),
    values=some.lists(some.tuples(AGES, some.floats(0, 1)), max_size=8),
    then=some.sampled_from(["continue", "pause", "rollback"]),
    now=some.one_of(some.none(), some.floats(0, 1)),
)
def test_staged_holds_the_current_count_unless_it_rolls_back(
    current: int, wish: int, changes: Any, values: Any, then: Any, now: float | None
) -> None:
    limit = Staged(up=HALF, down=QUARTER, guards=(*ABOVE, *RATIO), window=60, then=then)
    before = past(*sorted(changes, reverse=True), points=errors(*sorted(values, reverse=True)))
    found = limit.limit(wish, shown(current, now), before)
    assert found is None or found.takes_back or found.clamp(current) == current
    assert found is None or not found.takes_back or then == "rollback"
    assert limit.limit(wish, shown(current, now), before) == found


def lived(staged: Staged, wish: int, bad_at: int, seconds: int, step: float = 10.0) -> list[tuple[float, int, str]]:
    """The counts of a workload of ten over time, where errors come while it has at most `bad_at` replicas."""
    count, remembered, counts = 10, Past(NOW - 4000, interval=step), [(0.0, 10, "")]
    for tick in range(int(seconds / step)):
        now = NOW + tick * step
        value = Series("errors", "t", Quality.FRESH, (Sample(float(count <= bad_at), now, now),), "", now)
        decision = judge(Wants(replicas=wish), seen=seen(count, (), value, at=now), past=remembered, limits=[staged])
        remembered = remember(remembered, decision)
        if decision.action:
            outcome = Outcome("d", now, "p", decision.workload, "done", count, decision.replicas)
            remembered, count = carry(remembered, outcome), decision.replicas
            counts.append((tick * step, count, decision.reason))
    return counts


def test_a_staged_scale_in_rolls_back_and_waits_a_pause() -> None:
    """Ten replicas, two are wished for, and below seven there are errors."""
    staged = Staged(down=QUARTER, guards=ABOVE, window=60, then="rollback", pause=600)
    counts = lived(staged, wish=2, bad_at=6, seconds=800)
    assert counts == [
        (0.0, 10, ""),
        (0.0, 8, "Wanted"),
        (60.0, 6, "Wanted"),
        (120.0, 8, ROLLED_BACK),
        (720.0, 6, "Wanted"),
        (780.0, 8, ROLLED_BACK),
    ]
    assert all(later[0] - earlier[0] >= 60 for earlier, later in pairwise(counts[1:]))


def test_a_strategys_own_reason_is_never_taken_for_a_rollback() -> None:
    class Claims(Strategy, tag="claims", frozen=True):
        @hookimpl
        def recommend_replicas(self) -> Recommendation:
            return Recommendation(12, "Grown")

    found = judge(Claims(), seen=shown(8), past=past(IN, points=BAD), limits=[Staged(guards=ABOVE, window=60)])
    assert (found.replicas, found.reason) == (12, "Grown")


def test_a_rollback_along_the_wish_is_recognised_afterwards() -> None:
    """The load has fallen meanwhile, but it is the guard that takes the growth back: no growth again for the pause."""
    limit = Staged(guards=ABOVE, window=60, then="rollback", pause=1800)

    seen = shown(8, 0.9)
    before = past((90, 4, 8), points=errors((60, 0.9), (20, 0.9)))
    first = judge(Wants(6), seen=replace(seen, confirmed=seen.at), past=before, limits=[limit])
    assert (first.verdict, first.replicas, first.reason) == ("scale", 4, ROLLED_BACK)
    after = carry(remember(before, first), Outcome(first.id, first.at, "p", first.workload, "done", 8, 4))
    later = replace(shown(4, 0.0), at=NOW + 10, confirmed=NOW + 10)
    second = judge(Wants(6), seen=later, past=after, limits=[limit])
    assert (second.verdict, second.reason) == ("hold", "GuardBad")
