"""Burst: Knative's own table, its windows, what begins and ends a panic, and what never shrinks."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.api import Observation, Past, Pod, Point, Quality, Recommendation, Run, Sample
from elasticd.testing import check_strategy
from elasticd_plugins import burst
from elasticd_plugins.burst import Burst, smoothing, weighted
from tests.kit.plugins.builders import EMPTY, NOW, OLD, before, ends, judge, pods, refusal, seen, series, use

KNATIVE: dict[str, Any] = {"utilization": 0.75, "max_up_rate": 10, "max_down_rate": 10}


def burst_of(target: float, **options: Any) -> Burst:
    """As upstream's tests have it: the set point is what is aimed at, in ones of the series."""
    return Burst(series="load", **{**KNATIVE, "target": target / 0.75, **options})


ONE = burst_of(1)


# The table of Knative's tests.


@pytest.mark.parametrize(
    ("target", "ready", "means", "panic", "expected"),
    [
        pytest.param(10, 1, (50, 10), None, 5, id="one pod, five needed"),
        pytest.param(10, 8, (100, 100), None, 10, id="eight, ten needed"),
        pytest.param(10, 8, (50, 50), None, 5, id="then five"),
        pytest.param(1, 10, (11, 25), 0, 25, id="a panic begins: at 0 s"),
        pytest.param(1, 40, (30, 41), 25, 41, id="a panic goes on: at 30 s"),
        pytest.param(1, 55, (50, 56), None, 50, id="a panic is over: at 62 s"),
        pytest.param(1, 1, (6, 6), None, 6, id="six times"),
        pytest.param(1, 6, (36, 36), None, 36, id="six times again"),
        pytest.param(1, 36, (216, 216), None, 216, id="and again"),
        pytest.param(1, 216, (1296, 1296), None, 1296, id="and again, at most tenfold"),
        pytest.param(1, 1296, (1296, 1296), None, 1296, id="and there it stays"),
        pytest.param(1, 5, (50, 30), 5, 50, id="in a panic the stable window may ask for more"),
        pytest.param(10, 1, (1000, 1001), None, 10, id="at most tenfold"),
        pytest.param(10, 10, (1000, 1001), None, 100, id="and again at most tenfold"),
        pytest.param(1, 5, (3, 3), 9, 9, id="in a panic never below the largest wish"),
        pytest.param(1, 100, (0, 0), None, 10, id="at least a tenth"),
        pytest.param(1, 9, (0, 0), None, 0, id="a tenth of nine is none"),
    ],
)
def test_knatives_own_table(
    target: float, ready: int, means: tuple[float, float], panic: int | None, expected: int
) -> None:
    strategy = burst_of(target)
    panicking = panic is not None
    assert strategy.desired(*means, ready, panicking=panicking, largest=panic or 0) == expected


@pytest.mark.parametrize(
    ("scale", "load", "expected"),
    [(1, 0.5, 1), (5, 0.5, 5), (5, 7, 7), (5, 0, 0)],
)
def test_what_wakes_wakes_at_least_the_activation_scale(scale: int, load: float, expected: int) -> None:
    assert burst_of(1, activation_scale=scale).desired(load, load, 1) == expected
    assert burst_of(1, activation_scale=scale).desired(0, load, 1, panicking=True) == expected


def test_the_defaults_are_knatives() -> None:
    strategy = Burst()
    assert strategy.desired(700, 0, 1) == 10  # 70 % of 100 for each
    assert strategy.desired(0, 0, 11) == 5  # at least half
    assert (strategy.poll_interval(), strategy.fastest(), strategy.recalls()) == (2, 2, 126)
    assert strategy.reads() == ("concurrency",)


# Means over windows.


def test_weighted_mean_of_10_10_5_5_is_5_544() -> None:
    assert weighted([10, 10, 5, 5], 0.6) == pytest.approx(5.544)


@pytest.mark.parametrize(("buckets", "multiplier"), [(6, 0.7846), (10, 0.6019), (60, 0.2), (1, 0.9999)])
def test_the_multiplier_by_the_number_of_buckets(buckets: int, multiplier: float) -> None:
    assert smoothing(buckets) == pytest.approx(multiplier, abs=5e-5)


def load(value: float, count: int, **more: Any) -> Observation:
    """One number for the workload of so many ready pods, measured now."""
    found = series([Sample(value, NOW, NOW)], "load", measured=NOW, **more)
    return seen(count, pods(count), found)


def history(*told: tuple[float, float], **more: Any) -> Past:
    """A past of (age, value) points of the workload as a whole."""
    return before(points={"load": [(age, value, 0) for age, value in told]}, **more)


def steady(value: float, *, seconds: int = 126, every: int = 1, **more: Any) -> Past:
    """So much, at every so many seconds, until now."""
    return history(*((age, value) for age in range(seconds, 0, -every)), **more)


def said(strategy: Burst, observation: Observation, past: Past) -> Recommendation:
    return strategy.recommend_replicas(observation.workload, observation, past)


def answer(strategy: Burst, observation: Observation, past: Past) -> tuple[int | None, str]:
    found = said(strategy, observation, past)
    return found.replicas, found.reason


@pytest.mark.parametrize("aggregation", ["mean", "weighted"])
@pytest.mark.parametrize("every", [1, 2, 5, 15])
def test_a_level_load_is_its_mean_at_any_sampling_rate(aggregation: Any, every: int) -> None:
    strategy = burst_of(1, aggregation=aggregation)
    assert answer(strategy, load(8, 9), steady(8, seconds=120, every=every)) == (8, "StableWindow")


@pytest.mark.parametrize(
    ("past", "now", "count", "message"),
    [
        pytest.param(steady(4), 64, 4, "5 over 60 s, 14 over 6 s", id="whole windows"),
        pytest.param(steady(4, every=2), 6, 4, "4.067 over 60 s, 4.667 over 6 s", id="every other second: 30 and 3"),
        pytest.param(
            history((60, 5), (59, 7), (30, 9)), 8, 9, "8 over 60 s, 8 over 6 s", id="60 s ago is over: 7, 9 and 8"
        ),
        pytest.param(history((0.4, 2), (0.2, 4)), 9, 9, "6 over 60 s, 6 over 6 s", id="two buckets, the older a mean"),
    ],
)
def test_the_mean_is_of_the_seconds_that_have_samples(past: Past, now: float, count: int, message: str) -> None:
    assert said(ONE, load(now, count), past).message.startswith(message)


def test_newer_seconds_count_more_where_they_are_weighted() -> None:
    past = history(*((age, 1 if age > 3 else 9) for age in range(126, 0, -1)))
    mean, heavy = (said(burst_of(1, aggregation=how), load(9, 3), past) for how in ("mean", "weighted"))
    assert (mean.replicas, heavy.replicas) == (7, 9)  # both panic
    assert mean.message.startswith("1.533 over 60 s, 6.333 over 6 s")
    assert heavy.message.startswith("5.723 over 60 s, 8.984 over 6 s")


# A panic, by what is remembered.


def ramp(*steps: tuple[int, float]) -> list[tuple[float, float]]:
    """Points of every second from 126 s ago: (from this age on, this much)."""
    return [(age, next(value for since, value in reversed(steps) if since >= age)) for age in range(126, 0, -1)]


@pytest.mark.parametrize(
    ("past", "now", "count", "expected"),
    [
        pytest.param(history(*ramp((126, 4))), 4, 4, (4, "StableWindow"), id="a level load"),
        pytest.param(history(*ramp((126, 4), (5, 9))), 9, 4, (9, "Burst"), id="a burst of six seconds: 9 of 4"),
        pytest.param(history(*ramp((126, 4), (2, 9))), 9, 4, (5, "StableWindow"), id="of three: 7 of 4"),
        pytest.param(history(*ramp((126, 4), (60, 20), (50, 4))), 4, 4, (7, "Burst"), id="50 s ago, in the mean"),
        pytest.param(
            history(*ramp((126, 4), (60, 20), (50, 4)), wishes=[(50, 20), (2, 20)]),
            4,
            4,
            (20, "Burst"),
            id="50 s ago: not below what was wished for since",
        ),
        pytest.param(
            history(*ramp((126, 4), (60, 20), (50, 4)), wishes=[(90, 30), (2, 8)]),
            4,
            4,
            (8, "Burst"),
            id="but a wish before it does not count",
        ),
        pytest.param(
            history(*ramp((126, 4), (80, 20), (66, 4)), wishes=[(60, 20)]),
            4,
            4,
            (4, "StableWindow"),
            id="more than a stable window ago it is over",
        ),
    ],
)
def test_a_panic_is_worked_out_of_what_is_remembered(
    past: Past, now: float, count: int, expected: tuple[int, str]
) -> None:
    assert answer(ONE, load(now, count), past) == expected


def test_bursts_that_follow_each_other_are_one_panic() -> None:
    told = ramp((126, 4), (100, 20), (94, 4), (50, 20), (44, 4))
    past = history(*told, wishes=[(98, 20), (97, 15)])
    assert answer(ONE, load(4, 4), past) == (20, "Burst")


def test_a_burst_is_of_the_pods_that_were_ready_then() -> None:
    """Ten seconds ago there was one pod for a load of 8, now there are eight: the panic lasts."""
    since = [OLD, *[NOW - 5] * 7]
    many = [pod_since(f"p{index}", at) for index, at in enumerate(since)]
    now = seen(8, many, series([Sample(8, NOW, NOW)], "load", measured=NOW))
    past = history(*ramp((126, 1), (20, 8)), wishes=[(20, 8)])
    assert answer(ONE, now, past) == (8, "Burst")
    all_along = seen(8, pods(8), series([Sample(8, NOW, NOW)], "load", measured=NOW))
    assert answer(ONE, all_along, past)[1] == "StableWindow"


def test_pods_that_were_scaled_away_had_been_ready() -> None:
    past = history(*ramp((126, 8)), changes=[(10, 8, 3)])
    assert answer(ONE, load(8, 3), past) == (8, "Burst")  # of 8 for 3, now
    past = history(*ramp((126, 8), (20, 3)), changes=[(10, 8, 3)])
    assert answer(ONE, load(3, 3), past)[1] == "StableWindow"  # 8 for 8 before, 3 for 3 now


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param([(25, 4, 20), (10, 20, 4)], (20, "Burst"), id="what it brought is taken away: the panic goes on"),
        pytest.param([(40, 4, 20), (10, 20, 4)], (20, "Burst"), id="so with pods that were young in the burst"),
        pytest.param([(25, 4, 20), (15, 20, 10), (10, 10, 4)], (20, "Burst"), id="in steps"),
        pytest.param([(10, 20, 4)], (4, "StableWindow"), id="old pods had been ready: it was no burst"),
        pytest.param([(110, 4, 20), (10, 20, 4)], (4, "StableWindow"), id="nor were those that came long before"),
    ],
)
def test_a_panic_does_not_end_because_young_pods_are_removed(
    changes: list[tuple[float, int, int]], expected: tuple[int, str]
) -> None:
    """Knative keeps when it panicked, whatever becomes of the pods. 30 s ago a load of 20 came to four, for 6 s."""
    past = history(*ramp((126, 4), (30, 20), (24, 4)), changes=changes, wishes=[(26, 20)])
    found = answer(ONE, load(4, 4), past)
    assert (found[0] if found[1] == "Burst" else 4, found[1]) == expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        pytest.param(2, "StableWindow", id="pods start in 2 s: those of 10 s before had been ready"),
        pytest.param(20, "Burst", id="pods start in 20 s: those of 10 s before had not"),
        pytest.param(None, "Burst", id="nobody knows how soon they start"),
    ],
)
def test_startup_time_says_which_removed_pods_had_been_ready(start: float | None, expected: str) -> None:
    """Otherwise the removal itself would begin a panic anew: 20 for 16 pods was no burst."""
    past = history(*ramp((126, 4), (30, 20), (24, 4)), changes=[(40, 4, 16), (10, 16, 4)], wishes=[(26, 20)])
    known = load(4, 4)
    if start is not None:
        known = replace(known, pods=tuple(replace(pod, created=pod.ready_changed - start) for pod in known.pods))
    assert answer(ONE, known, past)[1] == expected


def test_a_panic_is_the_same_after_a_restart() -> None:
    """All of it comes from points, wishes and pods: nothing else is there to be lost."""
    past = history(*ramp((126, 4), (30, 20), (24, 4)), wishes=[(26, 20)])
    assert [answer(burst_of(1), load(4, 4), past) for _ in range(3)] == [(20, "Burst")] * 3


def pod_since(name: str, at: float) -> Pod:
    (one,) = pods(1, ready_changed=at)
    return Pod("shop", name, f"uid-{name}", "Running", started=at - 5, ready=one.ready, ready_changed=at)


def test_a_panic_never_shrinks_and_ends_after_a_stable_window() -> None:
    """Ten pods at a load of 10; for ten seconds it is 40, and then 40 pods are ready for 10 again."""
    points: list[Point] = []
    wishes: list[int] = []
    past = before()
    for second, value in enumerate([10.0] * 130 + [40.0] * 10 + [10.0] * 80):
        now = NOW + second
        ready = [*pods(10), *[pod_since(f"q{index}", NOW + 140) for index in range(30 if second >= 140 else 0)]]
        observation = seen(len(ready), ready, series([Sample(value, now, now)], "load", measured=now), at=now)
        wish = said(ONE, observation, past).replicas
        assert wish is not None
        points.append(Point(now, value, 0))
        wishes.append(wish)
        past = Past(OLD, (*past.runs, Run(now, now, wish)), points={"load": tuple(points[-126:])})
    assert wishes[:131] == [10] * 130 + [11]
    assert wishes[131:136] == [20, 25, 30, 35, 40]
    assert wishes[136:200] == [40] * 64  # the last burst was at 139 s, when 10 pods were ready
    assert set(wishes[200:]) == {10}


# Starting, gaps, and what is only known in part.


@pytest.mark.parametrize(
    ("past", "expected", "told"),
    [
        pytest.param(before(age=0), (8, "WindowNotFull"), "watched for less than 60 s", id="no history"),
        pytest.param(steady(1, seconds=59), (8, "WindowNotFull"), "watched for less than 60 s", id="59 s of samples"),
        pytest.param(steady(1, age=59), (8, "WindowNotFull"), "watched for less than 60 s", id="seen since 59 s"),
        pytest.param(steady(1, seconds=60), (4, "StableWindow"), "", id="a whole window: at least half"),
        pytest.param(
            history((62, 1), (58, 1), (27, 1)),
            (8, "WindowNotFull"),
            "without samples for more than 30 s",
            id="a gap in it",
        ),
        pytest.param(history((90, 1), (60, 1), (30, 1)), (4, "StableWindow"), "", id="every 30 s"),
        pytest.param(
            history((300, 1), (240, 1), (20, 1)),
            (8, "WindowNotFull"),
            "without samples for more than 30 s",
            id="back after a long silence",
        ),
    ],
)
def test_nothing_shrinks_before_a_stable_window_is_full(past: Past, expected: tuple[int, str], told: str) -> None:
    found = said(ONE, load(1, 8), past)
    assert (found.replicas, found.reason) == ((expected[0] if told else 1), expected[1])
    assert told in found.message


def test_only_several_pods_can_panic_before_the_window_is_full() -> None:
    told = [(age, 1.0) for age in range(20, 5, -1)] + [(age, 3.0) for age in range(5, 0, -1)]
    assert answer(ONE, load(3, 2), history(*told)) == (3, "StableWindow")
    assert answer(ONE, load(1, 1), EMPTY) == (1, "WindowNotFull")
    assert answer(ONE, load(1.5, 1), EMPTY)[0] == 2


def test_a_single_idle_pod_stays_for_a_full_window() -> None:
    assert answer(ONE, load(0, 1), steady(0, seconds=30)) == (1, "WindowNotFull")
    assert answer(ONE, load(0, 1), steady(0)) == (0, "StableWindow")


def test_zero_pods_wake_by_a_number_for_the_workload() -> None:
    nobody = seen(0, [], series([Sample(3, NOW, NOW)], "load", measured=NOW))
    assert answer(ONE, nobody, steady(0))[0] == 1
    assert answer(ONE, nobody, EMPTY)[0] == 3
    assert judge(ONE, seen=nobody, past=steady(0), bounds=(0, 9)).replicas == 1


def by_pods(count: int, heard: int, value: float, quality: Quality = Quality.FRESH) -> Observation:
    told = [Sample(value, NOW, NOW, 0.0, f"p{index}") for index in range(heard)]
    return seen(count, pods(count), series(told, "load", quality, "as graded", measured=NOW))


def each_second(count: int, value: float) -> list[tuple[float, float, int]]:
    return [(age, value * count, count) for age in range(126, 0, -1)]


def test_of_pods_the_sum_counts() -> None:
    past = before(points={"load": each_second(4, 0.5)})
    assert answer(ONE, by_pods(4, 4, 0.5), past) == (2, "StableWindow")


def test_samples_of_some_pods_may_grow_and_never_shrink() -> None:
    low, high = (before(points={"load": each_second(4, value)}) for value in (0.2, 3.0))
    found = said(ONE, by_pods(4, 4, 0.2, Quality.PARTIAL), low)
    assert (found.replicas, found.reason) == (None, "PartlyUnknown")
    assert found.message.startswith("as graded; 0.8 over 60 s")
    assert answer(ONE, by_pods(4, 3, 3.0, Quality.PARTIAL), high)[0] == 12


def test_a_window_with_partial_samples_never_shrinks() -> None:
    told = each_second(4, 0.25)
    told[100] = (told[100][0], 0.5, 2)
    found = said(ONE, by_pods(4, 4, 0.25), before(points={"load": told}))
    assert (found.replicas, found.reason) == (4, "WindowNotFull")
    assert found.message.endswith("some pods had no sample")


UNKNOWN = [
    pytest.param(seen(3, pods(3)), "no series load", id="no series"),
    *(
        pytest.param(seen(3, pods(3), series(use(0.1), "load", quality, "as graded")), "as graded", id=str(quality))
        for quality in (Quality.STALE, Quality.INVALID, Quality.ERROR)
    ),
    pytest.param(seen(3, pods(3), series([], "load", Quality.EMPTY)), "", id="a gap"),
    pytest.param(seen(0, [], series([], "load", Quality.EMPTY)), "", id="zero pods without a number"),
]


@pytest.mark.parametrize(("observation", "message"), UNKNOWN)
def test_what_cannot_be_known_is_said_and_moves_nothing(observation: Observation, message: str) -> None:
    assert said(ONE, observation, steady(0)) == Recommendation(None, "SeriesUnknown", message)
    assert judge(ONE, seen=observation, past=steady(0), bounds=(0, 9)).replicas == observation.workload.replicas


def test_a_stale_series_may_raise_and_never_lower_the_count() -> None:
    assert judge(ONE, seen=load(9, 4, quality=Quality.STALE, may_raise=True), past=steady(9)).replicas == 9
    assert judge(ONE, seen=load(1, 4, quality=Quality.STALE, may_raise=True), past=steady(1)).replicas == 4


@pytest.mark.parametrize(
    ("delay", "wishes", "expected"),
    [
        pytest.param(0, [(1, 9)], None, id="no delay"),
        pytest.param(60, [(59, 9)], (4, None), id="a wish within it, no more than there is"),
        pytest.param(60, [(59, 3)], (3, None), id="a lower one"),
        pytest.param(60, [(61, 9)], None, id="none within it"),
    ],
)
def test_shrinking_may_be_delayed(
    delay: float, wishes: list[tuple[float, int]], expected: tuple[int, int | None] | None
) -> None:
    strategy = burst_of(1, scale_down_delay=delay)
    assert ends(strategy.limit(1, load(1, 4), before(wishes))) == expected


@pytest.mark.parametrize("shown", [16, 4], ids=["not ready", "not seen"])
def test_what_limits_growth_does_not_shrink(shown: int) -> None:
    """Four of sixteen pods are ready, as something that all need is away, or as the watch of pods is silent."""
    ready, unready = pods(4), pods(shown)[4:]
    of = [*ready, *(replace(one, ready=False, ready_changed=NOW - 20) for one in unready)]
    observation = seen(16, of, series([Sample(15.0, NOW, NOW)], "load", measured=NOW))
    strategy = burst_of(1, max_up_rate=2, panic_threshold=10)
    assert answer(strategy, observation, steady(15)) == (15, "StableWindow")


LOADS = some.lists(some.floats(0, 100), min_size=130, max_size=130)


@given(values=LOADS, count=some.integers(1, 20), more=some.floats(1, 3))
def test_more_load_never_yields_fewer(values: list[float], count: int, more: float) -> None:
    def wish(factor: float) -> int:
        told = history(*((130 - index, value * factor) for index, value in enumerate(values[:-1])))
        return said(ONE, load(values[-1] * factor, count), told).replicas or 0

    assert wish(1) <= wish(more)


@given(values=LOADS, count=some.integers(1, 20))
def test_burst_stays_within_its_rates_and_never_shrinks_in_panic(values: list[float], count: int) -> None:
    past = history(*((130 - index, value) for index, value in enumerate(values[:-1])), wishes=[(1, count)])
    found = said(burst_of(1, max_down_rate=2), load(values[-1], count), past)
    assert found.replicas is not None
    assert count // 2 <= found.replicas <= 10 * count
    if found.reason == "Burst":
        assert found.replicas >= count


@given(values=some.lists(some.floats(0, 100), min_size=1, max_size=59), count=some.integers(0, 20))
def test_it_never_shrinks_before_a_window_is_full(values: list[float], count: int) -> None:
    past = history(*((len(values) - index, value) for index, value in enumerate(values[:-1])))
    found = said(ONE, load(values[-1], count), past).replicas
    assert found is not None
    assert found >= count


REFUSED = [
    ("target = 0", "target: must be > 0, is 0"),
    ("utilization = 0", "utilization: must be > 0, is 0"),
    ("utilization = 70", "utilization: must be <= 1, is 70"),
    ("stable_window = 5", "stable_window: must be >= 6, is 5"),
    ("stable_window = 3601", "stable_window: must be <= 3600, is 3601"),
    ("panic_window = 0.5", "panic_window: must be >= 1, is 0.5"),
    ("panic_window = 61", "panic_window: must be <= stable_window = 60, is 61"),
    ("panic_threshold = 1", "panic_threshold: must be > 1, is 1"),
    ("max_up_rate = 1", "max_up_rate: must be > 1, is 1"),
    ("max_down_rate = 1", "max_down_rate: must be > 1, is 1"),
    ("activation_scale = 0", "activation_scale: must be >= 1, is 0"),
    ("scale_down_delay = -1", "scale_down_delay: must be >= 0, is -1"),
    ("scale_down_delay = 3601", "scale_down_delay: must be <= 3600, is 3601"),
    ('aggregation = "median"', 'aggregation: must be one of mean, weighted, is "median"'),
    ("period = 0", "period: must be >= 0.1, is 0"),
    ("series = 1", "series: must be a string, is 1"),
    ("burst = 211", "burst: no such key"),
]


@pytest.mark.parametrize(("table", "line"), REFUSED, ids=[table for table, _ in REFUSED])
def test_every_nonsensical_option_is_one_line(tmp_path: Path, table: str, line: str) -> None:
    assert refusal(tmp_path, burst, f'type = "burst"\n{table}').startswith(f"strategy[0].{line}")


def test_it_is_registered_and_does_nothing_that_no_strategy_may() -> None:
    assert burst.register_strategies() == [Burst]
    for strategy in (Burst(), Burst(series="cpu", target=1), Burst(series="cpu", target=1, aggregation="weighted")):
        assert check_strategy(strategy) == []
