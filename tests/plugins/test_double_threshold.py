"""Double threshold in the product: its bands, what cannot be known, and that a constant load moves it once."""

from math import ceil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from elasticd.api import Bounds, Container, Observation, Past, Policy, Quality, Recommendation
from elasticd.testing import check_strategy
from elasticd_plugins import double_threshold
from elasticd_plugins.double_threshold import DoubleThreshold
from tests.kit.plugins.builders import EMPTY, before, judge, pod, pods, refusal, sample, seen, series, use

PRODUCT = DoubleThreshold()
PAPER = DoubleThreshold(mode="paper")
BOTH = pytest.mark.parametrize("strategy", [PRODUCT, PAPER], ids=["product", "paper"])

Case = tuple[int | None, str]


def loaded(count: int, percent: float, **more: Any) -> Observation:
    """So many pods that each use so many percent of their core."""
    return seen(count, pods(count), series(use(*[percent / 100] * count)), **more)


def queue(*whole: float, count: int, every: float = 10.0) -> Past:
    """What all pods together used, in percent of one pod's core, until the sample before that of `loaded`, 10 s ago."""
    told = [(10 + every * (len(whole) - index), total / 100, count) for index, total in enumerate(whole)]
    return before(points={"cpu": told})


def said(strategy: DoubleThreshold, observation: Observation, past: Past) -> Recommendation:
    return strategy.recommend_replicas(observation.workload, observation, past)


def answer(strategy: DoubleThreshold, *each: float, count: int = 4, every: float = 10.0) -> Case:
    """By the utilisations of one of so many pods, oldest first."""
    past = queue(*(one * count for one in each[:-1]), count=count, every=every)
    found = said(strategy, loaded(count, each[-1]), past)
    return found.replicas, found.reason


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        pytest.param((90, 90, 90), (5, "AboveHighMark"), id="a level load above: 360 / 80"),
        pytest.param((80, 80, 80), (4, "BetweenMarks"), id="at the high mark"),
        pytest.param((60, 60, 60), (4, "BetweenMarks"), id="between the marks"),
        pytest.param((40, 40, 40), (4, "BetweenMarks"), id="at the low mark"),
        pytest.param((30, 30, 30), (3, "BelowLowMark"), id="a level load below: 120 / 40"),
        pytest.param((80, 90, 90), (4, "Jitter"), id="not all above"),
        pytest.param((90, 60, 90), (4, "Jitter"), id="one in between"),
        pytest.param((40, 30, 30), (4, "Jitter"), id="not all below"),
        pytest.param((90, 90, 60), (4, "BetweenMarks"), id="it is over"),
        pytest.param((90, 95, 100), (5, "AboveHighMark"), id="growing: 400 / 80"),
        pytest.param((150, 150, 100), (4, "Jitter"), id="above, but falling by 3.3 % a second"),
        pytest.param((120, 115, 110), (6, "AboveHighMark"), id="above, and falling slowly: 440 / 80"),
        pytest.param((10, 10, 14), (4, "Jitter"), id="below, but rising by 4 % a second"),
        pytest.param((10, 11, 12), (1, "BelowLowMark"), id="below, and rising slowly: 48 / 40"),
        pytest.param((0, 0, 0), (1, "BelowLowMark"), id="no load"),
        pytest.param((0, 0, 10), (1, "BelowLowMark"), id="growth from 0 is none"),
        pytest.param((0, 90, 90), (4, "Jitter"), id="a step up: not all above yet"),
        pytest.param((100, 100, 100), (5, "AboveHighMark"), id="a whole number"),
    ],
)
def test_jitter_holds_and_what_lasts_is_followed(each: tuple[float, ...], expected: Case) -> None:
    assert answer(PRODUCT, *each) == expected


@pytest.mark.parametrize(
    ("each", "every", "expected"),
    [
        pytest.param((90, 180, 360), 10, (36, "LoadSurges"), id="doubling every 10 s: 1440 * 2 / 80"),
        pytest.param((90, 97, 104.8), 1, (17, "LoadSurges"), id="7.8 % each second: 419 * 2 at most, not * 3.4"),
        pytest.param((90, 98, 105), 1, (11, "LoadSurges"), id="8.9 and 7.1 % each second, 10 s ahead"),
        pytest.param((90, 96, 105), 1, (6, "AboveHighMark"), id="one growth is not above 7 %"),
        pytest.param((39, 20, 10), 5, (1, "LoadPlunges"), id="halving every 5 s: 40 / 2 / 40"),
        pytest.param((39, 30, 24), 2, (1, "LoadPlunges"), id="96 / 2 / 40, and 96 / 80 must do"),
        pytest.param((39, 30, 28), 2, (2, "BelowLowMark"), id="one growth is not below -7 %"),
    ],
)
def test_what_grows_fast_is_provided_for_ahead(each: tuple[float, ...], every: float, expected: Case) -> None:
    strategy = DoubleThreshold(ahead=10) if expected[0] == 11 else PRODUCT
    found = answer(strategy, *each, every=every)
    assert found[1] == expected[1]
    whole = each[-1] * 4
    if found[1] == "LoadSurges":
        assert ceil(whole / 80) < (found[0] or 0) <= ceil(2 * whole / 80)
    assert found[0] is not None
    assert found[0] * 80 >= whole


def test_the_paper_is_about_the_sum_and_growth_per_sample() -> None:
    assert answer(PAPER, 15, 15.3, 15.5, count=4) == (4, "LoadRises")  # 62 / 50 = 2, and growing asks for no fewer
    assert answer(PAPER, 15, 15.3, 15.5, count=1) == (1, "Jitter")
    assert answer(PAPER, 8, 7, 6, count=4) == (1, "LoadPlunges")  # 24 * 0.866 / 50
    assert answer(PAPER, 40, 38, 36, count=4) == (3, "LoadFalls")  # 144 / 50
    assert answer(PAPER, 90, 90, 90, count=4) == (4, "Jitter")  # a level load, however high
    assert answer(PAPER, 90, 100, 110, count=4) == (10, "LoadSurges")  # 440 * 1.1056 / 50 = 9.7


@pytest.mark.parametrize(
    ("changes", "wishes", "current", "expected"),
    [
        pytest.param([], [], 4, None, id="nothing was ever done"),
        pytest.param([(3, 1, 2)], [(3, 3)], 2, 3, id="it goes on"),
        pytest.param([(5, 1, 2)], [(5, 3)], 2, 3, id="the next is due"),
        pytest.param([(15, 1, 2)], [(15, 3)], 2, 3, id="the next is due since the last look"),
        pytest.param([(15.1, 1, 2)], [(15.1, 3)], 2, None, id="it has not come on: something restrains it"),
        pytest.param([(3, 2, 3)], [(8, 3)], 3, 3, id="the last has not started yet"),
        pytest.param([(5, 2, 3)], [(10, 3)], 3, None, id="the last has started"),
        pytest.param([(3, 4, 3)], [(3, 2)], 3, 2, id="it goes on down"),
        pytest.param([(3, 4, 3)], [(3, 5)], 3, 3, id="a wish the other way is no part of it"),
        pytest.param([(3, 1, 2)], [(2, 5)], 2, 2, id="nor is a later one"),
    ],
)
def test_the_papers_task_goes_on_to_its_end(
    changes: list[tuple[float, int, int]], wishes: list[tuple[float, int]], current: int, expected: int | None
) -> None:
    whole = 60.0 * current
    past = msgspec.structs.replace(
        before(wishes, changes, interval=10), points=queue(whole, whole, count=current).points
    )
    found = said(PAPER, loaded(current, 60), past)
    assert (found.replicas, found.reason) == (current if expected is None else expected, found.reason)
    assert (found.reason == "TaskRunning") == (expected is not None)


@BOTH
@pytest.mark.parametrize(
    ("past", "told"),
    [
        pytest.param(EMPTY, "1 of 3", id="no history"),
        pytest.param(queue(360, count=4), "2 of 3", id="one before"),
        pytest.param(queue(360, 360, count=4, every=91), "1 of 3", id="gaps of more than 90 s"),
        pytest.param(before(points={"cpu": [(200, 3.6, 4), (20, 3.6, 4)]}), "2 of 3", id="a gap before the last two"),
        pytest.param(before(points={"cpu": [(30, 3.6, 4), (20, 3.6, 0)]}), "2 of 3", id="one that is not of pods"),
        pytest.param(before(points={"memory": [(30, 3.6, 4), (20, 3.6, 4)]}), "1 of 3", id="of another series"),
    ],
)
def test_until_the_queue_is_full_the_count_stays(strategy: DoubleThreshold, past: Past, told: str) -> None:
    found = said(strategy, loaded(4, 90), past)
    assert (found.replicas, found.reason) == (4, "QueueNotFull")
    assert found.message == f"{told} samples that are at most 90 s apart"


def test_samples_90_s_apart_are_neighbours_with_30_s_polls() -> None:
    assert said(PRODUCT, loaded(4, 90), queue(360, 360, count=4, every=90)).replicas == 5


def test_a_sample_that_was_remembered_already_counts_once() -> None:
    past = before(points={"cpu": [(30, 3.6, 4), (20, 3.6, 4), (10, 3.6, 4)]})
    assert said(PRODUCT, loaded(4, 90), past).replicas == 5
    two = before(points={"cpu": [(20, 3.6, 4), (10, 3.6, 4)]})
    assert said(PRODUCT, loaded(4, 90), two).reason == "QueueNotFull"


def test_one_pod_may_be_all_there_is() -> None:
    assert answer(PRODUCT, 90, 90, 90, count=1) == (2, "AboveHighMark")
    assert answer(PRODUCT, 10, 10, 10, count=1) == (1, "BelowLowMark")


def test_a_new_pod_is_not_taken_for_falling_load() -> None:
    """Sum and mean disagree on each step, so none is counted, though the mean fell by a quarter each time."""
    past = before(points={"cpu": [(14, 3.0, 1), (12, 3.2, 2)]})
    found = said(PRODUCT, loaded(3, 115), past)
    assert (found.replicas, found.reason) == (5, "AboveHighMark")
    assert "growth +0, +0 per s" in found.message


@pytest.mark.parametrize(
    ("heard", "silent", "starting", "expected"),
    [
        pytest.param([90] * 4, 0, 0, 5, id="all are heard"),
        pytest.param([90] * 4, 1, 0, 5, id="one is silent, and idle for growing: 72"),
        pytest.param([120] * 4, 1, 0, 6, id="growing all the same: 480 / 80"),
        pytest.param([20] * 4, 1, 0, 4, id="one is silent, and full for shrinking: 36, 180 / 40"),
        pytest.param([20] * 4, 4, 0, 8, id="half of them: 60"),
        pytest.param([90] * 4, 0, 1, 5, id="one starts, and is idle for growing: 72"),
        pytest.param([20] * 4, 0, 1, 2, id="one starts, and is left out for shrinking"),
    ],
)
def test_pods_that_were_not_heard(heard: list[float], silent: int, starting: int, expected: int) -> None:
    ready = pods(len(heard) + silent)
    slow = [pod(f"s{index}", ready=False) for index in range(starting)]
    count = len(ready) + len(slow)
    observation = seen(count, [*ready, *slow], series(use(*(one / 100 for one in heard))))
    whole = sum(heard)
    found = said(PRODUCT, observation, queue(whole, whole, count=len(heard)))
    assert found.replicas == expected


UNKNOWN = [
    pytest.param(seen(3, pods(3)), "SeriesUnknown", "no series cpu", id="no series"),
    *(
        pytest.param(
            seen(3, pods(3), series(use(0.1, 0.1, 0.1), quality=quality, message="as graded")),
            "SeriesUnknown",
            "as graded",
            id=str(quality),
        )
        for quality in (Quality.STALE, Quality.INVALID, Quality.ERROR)
    ),
    pytest.param(seen(3, pods(3), series([], quality=Quality.EMPTY)), "SeriesUnknown", "", id="a gap"),
    pytest.param(
        seen(0, [], series([sample("", 1)])),
        "LoadUnknown",
        "cpu is not of pods, so it is no part of their requests",
        id="zero pods, one number for all",
    ),
    pytest.param(seen(0, [], series(use(1))), "LoadUnknown", "no pod is ready", id="zero pods"),
    pytest.param(seen(2, pods(2, ready=False), series(use(1, 1))), "LoadUnknown", "no pod is ready", id="none ready"),
    pytest.param(
        seen(2, [pod("p0"), pod("p1", containers=(Container("bare"),))], series(use(1, 1))),
        "LoadUnknown",
        "missing request for cpu in Pod p1",
        id="a request is missing",
    ),
]


@BOTH
@pytest.mark.parametrize(("observation", "reason", "message"), UNKNOWN)
def test_what_cannot_be_known_is_said_and_moves_nothing(
    strategy: DoubleThreshold, observation: Observation, reason: str, message: str
) -> None:
    past = queue(30, 30, count=3)
    assert said(strategy, observation, past) == Recommendation(None, reason, message)
    assert judge(strategy, seen=observation, past=past, bounds=(0, 9)).replicas == observation.workload.replicas
    assert strategy.poll_interval(observation, before(interval=7)) == 7
    assert strategy.poll_interval(observation, EMPTY) == 10


def test_a_stale_series_may_raise_and_never_lower_the_count() -> None:
    def stale(percent: float) -> int:
        left = series(use(*[percent / 100] * 4), quality=Quality.STALE, may_raise=True)
        whole = 4 * percent
        return judge(PRODUCT, seen=seen(4, pods(4), left), past=queue(whole, whole, count=4)).replicas

    assert (stale(90), stale(10)) == (5, 4)


@pytest.mark.parametrize(
    ("strategy", "count", "percent", "seconds"),
    [
        (PRODUCT, 4, 40, 30),
        (PRODUCT, 4, 40.1, 10),
        (PRODUCT, 4, 80, 10),
        (PRODUCT, 4, 80.1, 1),
        (PAPER, 4, 10, 30),
        (PAPER, 4, 10.1, 10),
        (PAPER, 4, 20, 10),
        (PAPER, 4, 20.1, 1),
    ],
)
def test_it_looks_as_often_as_its_marks_say(
    strategy: DoubleThreshold, count: int, percent: float, seconds: float
) -> None:
    assert strategy.poll_interval(loaded(count, percent), EMPTY) == seconds


def test_an_outdated_sample_does_not_change_the_pace() -> None:
    assert PRODUCT.poll_interval(loaded(4, 90), before(points={"cpu": [(5, 0.4, 4)]})) == 30


def test_its_pace_recall_and_series() -> None:
    assert (PRODUCT.fastest(), PRODUCT.recalls(), PRODUCT.reads()) == (1, 270, ("cpu",))


# A constant load.


def under(strategy: DoubleThreshold, least: int) -> str | None:
    return strategy.check(Policy(name="p", replicas=Bounds(99, least), strategies=(strategy,)))


def constant(strategy: DoubleThreshold, whole: float, count: int, rounds: int = 4) -> list[int]:
    """The counts that one load brings, each carried out before the next look."""
    found = []
    for _ in range(rounds):
        wish = answer(strategy, *[whole / count] * 3, count=count)[0]
        assert wish is not None
        count = wish
        found.append(count)
    return found


def test_marks_too_close_are_refused_naming_one_that_works() -> None:
    near = DoubleThreshold(low=60, high=80)
    assert constant(near, 162, 2) == [3, 2, 3, 2]
    assert under(near, 2) == (
        "low: must be <= 53.33 (high * 2 / 3, as min = 2), or a constant load would flip the count, is 60"
    )
    assert under(DoubleThreshold(low=53.33, high=80), 2) is None
    assert constant(DoubleThreshold(low=53.33, high=80), 162, 2) == [3, 3, 3, 3]


@pytest.mark.parametrize(
    ("low", "least", "refused"),
    [(40, 0, False), (40.1, 0, True), (40, 1, False), (60, 3, False), (60.1, 3, True), (72, 9, False), (79, 9, True)],
)
def test_the_least_distance_of_marks_depends_on_the_minimum_count(low: float, least: int, refused: bool) -> None:
    assert (under(DoubleThreshold(low=low), least) is not None) == refused


def test_paper_mode_accepts_any_marks_as_level_load_moves_nothing() -> None:
    assert under(DoubleThreshold(mode="paper", low=79), 1) is None


@given(
    low=some.floats(1, 79),
    least=some.integers(0, 20),
    more=some.integers(0, 30),
    load=some.floats(0, 4000),
)
def test_accepted_marks_move_at_most_once_under_constant_load(low: float, least: int, more: int, load: float) -> None:
    strategy = DoubleThreshold(low=low)
    if under(strategy, least) is None:
        floor = max(1, least)
        counts = [max(floor, one) for one in constant(strategy, load, floor + more, 1)]
        settled = max(floor, constant(strategy, load, counts[0], 1)[0])
        assert settled == counts[0]


@given(each=some.lists(some.floats(0, 400), min_size=3, max_size=3), count=some.integers(1, 30))
def test_it_never_goes_the_wrong_way(each: list[float], count: int) -> None:
    found, _ = answer(PRODUCT, *each, count=count)
    assert found is not None
    assert found >= 1
    if found > count:
        assert min(each) > 80
    if found < count:
        assert max(each) < 40
        assert each[-1] * count / found <= 80 + 1e-6


@given(each=some.lists(some.floats(0, 400), min_size=3, max_size=3), count=some.integers(1, 30))
def test_without_growth_more_load_never_yields_fewer(each: list[float], count: int) -> None:
    less, more = min(each), max(each)
    assert (answer(PRODUCT, less, less, less, count=count)[0] or 0) <= (
        answer(PRODUCT, more, more, more, count=count)[0] or 0
    )


REFUSED = [
    ("low = 0", "low: must be > 0, is 0"),
    ("high = 0", "high: must be > 0, is 0"),
    ("low = 80", "low: must be < high = 80, is 80"),
    ("low = 60", "low: must be <= 40 (high * 1 / 2, as min = 1), or a constant load would flip the count, is 60"),
    ("samples = 1", "samples: must be >= 2, is 1"),
    ("samples = 61", "samples: must be <= 60, is 61"),
    ("target = 0", "target: must be > 0, is 0"),
    ("rise = -0.1", "rise: must be >= 0, is -0.1"),
    ("rise = 0.08", "surge: must be >= rise = 0.08, is 0.07"),
    ("surge = 0.02", "surge: must be >= rise = 0.028, is 0.02"),
    ("fall = -0.1", "fall: must be >= 0, is -0.1"),
    ("fall = 0.08", "plunge: must be >= fall = 0.08, is 0.07"),
    ("plunge = -1", "plunge: must be >= 0, is -1"),
    ("ahead = -1", "ahead: must be >= 0, is -1"),
    ("ahead = 3601", "ahead: must be <= 3600, is 3601"),
    ("fast = 11", "fast: must be <= medium = 10, is 11"),
    ("medium = 31", "medium: must be <= slow = 30, is 31"),
    ("slow = 0", "slow: must be >= 0.1, is 0"),
    ('mode = "pap"', 'mode: must be one of paper, product, is "pap", did you mean "paper"?'),
    ("series = 1", "series: must be a string, is 1"),
    ("sample = 3", 'sample: no such key, did you mean "samples"?'),
]


@pytest.mark.parametrize(("table", "line"), REFUSED, ids=[table for table, _ in REFUSED])
def test_every_nonsensical_option_is_one_line(tmp_path: Path, table: str, line: str) -> None:
    found = refusal(tmp_path, double_threshold, f'type = "double-threshold"\n{table}')
    assert found == f"strategy[0].{line}"


def test_it_is_registered_and_does_nothing_that_no_strategy_may() -> None:
    assert double_threshold.register_strategies() == [DoubleThreshold]
    for strategy in (PRODUCT, PAPER):
        assert check_strategy(strategy) == []
