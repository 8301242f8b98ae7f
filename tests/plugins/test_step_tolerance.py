"""Step tolerance: the SATA paper's examples by both modes, what cannot be known, and what must hold for any load."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from elasticd.api import Container, Limit, Observation, Quality, Recommendation, Sample, Series
from elasticd.testing import check_strategy
from elasticd_plugins import step_tolerance
from elasticd_plugins.step_tolerance import StepTolerance
from tests.kit.plugins.builders import EMPTY, before, decode, ends, judge, pod, pods, refusal, sample, seen, series, use

PAPER = StepTolerance(mode="paper")
PRODUCT = StepTolerance()
BOTH = pytest.mark.parametrize("strategy", [PAPER, PRODUCT], ids=["paper", "product"])
SATA_1 = (73, 75, 82)
SATA_2 = (50, 45, 47, 52, 43, 40)


def loaded(*percent: float | None) -> Observation:
    """A pod for each, using so many percent of its core; None: it has no sample."""
    used = [None if one is None else one / 100 for one in percent]
    return seen(len(percent), pods(len(percent)), series(use(*used)))


def said(strategy: StepTolerance, observation: Observation) -> Recommendation:
    return strategy.recommend_replicas(observation.workload, observation)


def answer(strategy: StepTolerance, *percent: float | None) -> tuple[int | None, str]:
    found = said(strategy, loaded(*percent))
    return found.replicas, found.reason


@BOTH
def test_sata_1_three_pods_above_the_band_become_six(strategy: StepTolerance) -> None:
    assert answer(strategy, *SATA_1) == (6, "AboveTolerance")  # ceil(230 / 60 + 2) = ceil(5.83)


def test_sata_2_six_pods_with_two_below_band_become_four() -> None:
    assert answer(PAPER, *SATA_2) == (4, "BelowTolerance")


def test_sata_2_the_product_takes_five_to_stay_within_band() -> None:
    assert answer(PRODUCT, *SATA_2) == (5, "BelowTolerance")  # 277 / 4 = 69.25 > 69, 277 / 5 = 55.4


def test_sata_3_the_load_after_growing_is_38_33() -> None:
    grown, _ = answer(PAPER, *SATA_1)
    assert grown is not None
    assert sum(SATA_1) / grown == pytest.approx(38.33, abs=0.005)


def test_sata_4_the_shrunk_load_is_69_25_unlike_printed() -> None:
    shrunk, _ = answer(PAPER, *SATA_2)
    assert shrunk == 4
    right, printed = sum(SATA_2) / shrunk, sum(SATA_2[:5]) / shrunk
    assert (right, printed) == (69.25, 59.25)
    assert PRODUCT.band[1] < right < PAPER.band[1]  # so it would grow again in the product, and not in the paper


@BOTH
def test_sata_5_a_single_pod_becomes_three(strategy: StepTolerance) -> None:
    assert answer(strategy, 80) == (3, "AboveTolerance")  # the formula alone: ceil(80 / 60 + 2) = 4


@BOTH
def test_sata_6_three_pods_become_two(strategy: StepTolerance) -> None:
    assert answer(strategy, 10, 10, 10) == (2, "BelowTolerance")


@BOTH
def test_sata_7_two_pods_stay(strategy: StepTolerance) -> None:
    assert answer(strategy, 10, 10) == (2, "AtLeast")


@BOTH
@pytest.mark.parametrize("percent", [SATA_1, SATA_2, (80,), (10, 10, 10), (10, 10)])
def test_sata_8_nothing_moves_100_s_after_a_scale_out(strategy: StepTolerance, percent: tuple[float, ...]) -> None:
    past = before(changes=[(100, len(percent) - 1, len(percent))])
    assert judge(strategy, seen=loaded(*percent), past=past).replicas == len(percent)


def test_the_product_band_is_narrower_than_the_papers() -> None:
    assert [PAPER.band, PRODUCT.band] == [(45, 75), pytest.approx((51, 69))]


@pytest.mark.parametrize(
    ("percent", "paper", "product"),
    [
        pytest.param([75, 75, 75], 3, 6, id="at the paper's upper end"),
        pytest.param([75.1, 60, 60], 6, 3, id="one pod above"),
        pytest.param([69, 69, 69], 3, 3, id="at the product's upper end"),
        pytest.param([69.1, 69.1, 69.1], 3, 6, id="above the product's"),
        pytest.param([45, 45, 45], 3, 2, id="at the paper's lower end"),
        pytest.param([51, 51, 51], 3, 3, id="at the product's lower end"),
        pytest.param([75, 75, 6], 2, 3, id="one idle pod shrinks a loaded set in the paper alone"),
        pytest.param([90, 0, 0], 4, 2, id="growing goes first, in the paper"),
        pytest.param([80, 10, 10, 10, 10, 10, 10, 10], 8, 6, id="growing never asks for fewer"),
        pytest.param([50] * 10, 10, 8, id="at most so many at once: 500 / 8 = 62.5"),
        pytest.param([50.9] * 6, 6, 5, id="only so far as the band lets: 305.4 / 4 = 76"),
        pytest.param([50.9] * 3, 3, 3, id="not at all where one fewer is too few: 152.7 / 2 = 76"),
        pytest.param([80, 10], 4, 2, id="two pods, one above: any in the paper, 45 in the product"),
        pytest.param([300], 3, 7, id="a single pod far above: in the product what it needs"),
        pytest.param([207], 3, 3, id="a single pod, just enough"),
        pytest.param([208], 3, 6, id="a single pod, not enough"),
        pytest.param([10], 1, 1, id="one idle pod"),
        pytest.param([0, 0, 0], 2, 2, id="no load"),
        pytest.param([120, 120, 120], 8, 8, id="a whole number: 360 / 60 + 2"),
    ],
)
def test_the_count_by_load(percent: list[float], paper: int, product: int) -> None:
    assert (answer(PAPER, *percent)[0], answer(PRODUCT, *percent)[0]) == (paper, product)


@pytest.mark.parametrize(
    ("percent", "product"),
    [
        pytest.param([100, 100, None], 3, id="growing: the third is idle, 66.7"),
        pytest.param([110, 110, None], 6, id="growing all the same: 220 / 60 + 2"),
        pytest.param([30, 30, None], 3, id="shrinking: the third is full, 53.3"),
        pytest.param([20, 20, None], 3, id="shrinking: 46.7, but 140 are too much for two"),
        pytest.param([10, 10, None], 2, id="shrinking all the same"),
        pytest.param([100, 100, None, None], 4, id="half of them"),
    ],
)
def test_unsampled_pods_are_idle_for_growth_and_full_for_shrinking(percent: list[float | None], product: int) -> None:
    assert answer(PRODUCT, *percent)[0] == product


def test_a_pod_without_a_sample_keeps_the_paper_from_shrinking() -> None:
    assert answer(PAPER, 10, 10, 10, None) == (4, "WithinTolerance")


@pytest.mark.parametrize("change", [{"ready": False}, {"ready": None}, {"phase": "Pending"}], ids=str)
def test_starting_pods_are_idle_for_growth_and_ignored_for_shrinking(change: dict[str, Any]) -> None:
    def with_a_starting_one(percent: float) -> int | None:
        all_pods = [*pods(2), pod("p2", **change)]
        return said(PRODUCT, seen(3, all_pods, series(use(percent / 100, percent / 100, 9.0)))).replicas

    assert [with_a_starting_one(percent) for percent in (70, 103, 104, 10)] == [3, 3, 6, 2]


@pytest.mark.parametrize("gone", [{"deleted": True}, {"phase": "Failed"}, {"phase": "Succeeded"}], ids=str)
def test_pods_that_are_gone_take_no_part(gone: dict[str, Any]) -> None:
    all_pods = [*pods(3), pod("p3", None, **gone)]
    assert said(PRODUCT, seen(3, all_pods, series(use(0.73, 0.75, 0.82, 9.0)))).replicas == 6


def test_utilisation_is_relative_to_the_requests_of_all_containers() -> None:
    two = (Container("a", {"cpu": 0.5}), Container("b", {"cpu": 0.5}))
    of = [pod("p0", containers=two), pod("p1", 2.0)]
    samples = [sample("p0", 0.4, "a"), sample("p0", 0.4, "b"), sample("p1", 1.6)]
    assert said(PRODUCT, seen(2, of, series(samples))).measures[0].current == "80%"


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        pytest.param([sample("p0", 730), sample("p1", 750), sample("p2", 820)], 6, id="of pods"),
        pytest.param([sample("", 2300)], 6, id="of the workload"),
        pytest.param([sample("p0", 730), sample("p1", 750)], 3, id="a pod without a sample is idle"),
        pytest.param([sample("p0", 100), sample("p1", 100)], 2, id="or at the set point"),
        pytest.param([sample("", 0)], 2, id="nothing waits"),
    ],
)
def test_any_series_may_be_held_at_a_value(samples: list[Sample], expected: int) -> None:
    by_value = StepTolerance(series="queue", unit="value", target=600)
    observation = seen(3, pods(3, None), series(samples, "queue"))
    assert said(by_value, observation).replicas == expected
    assert by_value.reads() == ("queue",)


def graded(quality: Quality, *, may_raise: bool = False) -> Series:
    return series(use(0.1, 0.1, 0.1), "cpu", quality, "as graded", may_raise=may_raise)


UNKNOWN = [
    pytest.param(seen(3, pods(3)), "SeriesUnknown", "no series cpu", id="no series"),
    pytest.param(seen(3, pods(3), graded(Quality.STALE)), "SeriesUnknown", "as graded", id="stale"),
    pytest.param(seen(3, pods(3), graded(Quality.INVALID)), "SeriesUnknown", "as graded", id="NaN, or a reset"),
    pytest.param(seen(3, pods(3), graded(Quality.ERROR)), "SeriesUnknown", "as graded", id="failed"),
    pytest.param(seen(3, pods(3), series([], quality=Quality.EMPTY)), "SeriesUnknown", "", id="a gap"),
    pytest.param(seen(0, [], series([sample("", 1)])), "LoadUnknown", "no pod is ready", id="zero pods"),
    pytest.param(seen(2, pods(2, ready=False), series(use(1, 1))), "LoadUnknown", "no pod is ready", id="none ready"),
    pytest.param(
        seen(2, pods(2, None), series(use(1, 1))),
        "LoadUnknown",
        "missing request for cpu in Pod p0",
        id="no requests",
    ),
    pytest.param(
        seen(2, pods(2), series([sample("gone", 1)])),
        "LoadUnknown",
        "no ready pod has a sample of cpu",
        id="samples of others",
    ),
    pytest.param(
        seen(2, pods(2), series([sample("", 1)])),
        "LoadUnknown",
        "cpu is not of pods, so it is no part of their requests",
        id="one number for all, in percent",
    ),
]


@BOTH
@pytest.mark.parametrize(("observation", "reason", "message"), UNKNOWN)
def test_what_cannot_be_known_is_said_and_moves_nothing(
    strategy: StepTolerance, observation: Observation, reason: str, message: str
) -> None:
    assert said(strategy, observation) == Recommendation(None, reason, message)


def test_a_stale_series_may_raise_and_never_lower_the_count() -> None:
    up = series(use(0.9, 0.9), "cpu", Quality.STALE, may_raise=True)
    assert judge(PRODUCT, seen=seen(2, pods(2), up)).replicas == 5
    assert judge(PRODUCT, seen=seen(3, pods(3), graded(Quality.STALE, may_raise=True))).replicas == 3


@pytest.mark.parametrize(
    ("change", "paper", "product"),
    [
        pytest.param((179, 2, 3), (3, 3), (3, 3), id="just grown"),
        pytest.param((180, 2, 3), None, None, id="grown 3 min ago"),
        pytest.param((299, 4, 3), (3, 3), (3, None), id="just shrunk: the product may grow"),
        pytest.param((300, 4, 3), None, None, id="shrunk 5 min ago"),
    ],
)
def test_cooldowns(
    change: tuple[float, int, int], paper: tuple[int, int] | None, product: tuple[int, int | None] | None
) -> None:
    past = before(changes=[change])
    assert ends(PAPER.limit(loaded(60, 60, 60), past)) == paper
    assert ends(PRODUCT.limit(loaded(60, 60, 60), past)) == product


def test_without_cooldowns_nothing_is_limited() -> None:
    free: Limit | None = StepTolerance(after_up=0, after_down=0).limit(loaded(60), before(changes=[(1, 2, 1)]))
    assert free is None


def test_by_default_only_the_paper_polls_every_30_s() -> None:
    assert (PAPER.poll_interval(), PRODUCT.poll_interval()) == (30, None)
    assert (StepTolerance(period=5).poll_interval(), StepTolerance(period=5).fastest()) == (5, 5)


def test_the_count_grows_at_once_and_shrinks_step_by_step() -> None:
    decision = judge(PRODUCT, seen=loaded(*SATA_1), past=EMPTY)
    assert (decision.verdict, decision.replicas, decision.reason) == ("scale", 6, "AboveTolerance")
    assert decision.message == "76.67 for each of 3 pods; the band is 51 to 69"


PERCENT = some.lists(some.floats(0, 400), min_size=1, max_size=12)


@BOTH
@given(percent=PERCENT, index=some.integers(0, 11), more=some.floats(0, 400))
def test_more_load_never_yields_fewer(strategy: StepTolerance, percent: list[float], index: int, more: float) -> None:
    grown = list(percent)
    grown[index % len(grown)] += more
    less, least = answer(strategy, *percent)[0], answer(strategy, *grown)[0]
    assert less is not None
    assert least is not None
    assert less <= least


@BOTH
@given(percent=PERCENT)
def test_scale_in_never_exceeds_a_step_or_passes_the_minimum(strategy: StepTolerance, percent: list[float]) -> None:
    count = answer(strategy, *percent)[0]
    assert count is not None
    assert count >= max(min(2, len(percent)), len(percent) - 2)


@given(percent=PERCENT)
def test_the_product_never_shrinks_to_where_it_would_grow_again(percent: list[float]) -> None:
    count = answer(PRODUCT, *percent)[0]
    assert count is not None
    if count < len(percent):
        assert sum(percent) / count <= PRODUCT.band[1] + 1e-6


@given(percent=some.lists(some.floats(0, 400), min_size=2, max_size=12), lost=some.integers(0, 11))
def test_a_sample_that_is_missing_never_changes_the_direction(percent: list[float], lost: int) -> None:
    heard: list[float | None] = [*percent]
    heard[lost % len(heard)] = None
    count, reason = answer(PRODUCT, *heard)
    assert count is not None
    fullest = [100.0 if one is None else one for one in heard]
    idlest = [0.0 if one is None else one for one in heard]
    assert count >= len(percent) or reason == "BelowTolerance"
    assert count >= (answer(PRODUCT, *fullest)[0] or 0) or count >= len(percent)
    assert count <= max(len(percent), answer(PRODUCT, *idlest)[0] or 0)


REFUSED = [
    ("target = 0", "strategy[0].target: must be > 0, is 0"),
    ("tolerance = -1", "strategy[0].tolerance: must be >= 0, is -1"),
    ("tolerance = 100", "strategy[0].tolerance: must be < 100, is 100"),
    ('mode = "paper"\ntolerance = 60', "strategy[0].tolerance: must be < target = 60, is 60"),
    ("up = 0", "strategy[0].up: must be >= 1, is 0"),
    ("down = 0", "strategy[0].down: must be >= 1, is 0"),
    ("least = 0", "strategy[0].least: must be >= 1, is 0"),
    ("after_up = -1", "strategy[0].after_up: must be >= 0, is -1"),
    ("after_down = 3601", "strategy[0].after_down: must be <= 3600, is 3601"),
    ("period = 0", "strategy[0].period: must be >= 0.1, is 0"),
    ('unit = "cores"', 'strategy[0].unit: must be one of percent, value, is "cores"'),
    ('mode = "pap"', 'strategy[0].mode: must be one of paper, product, is "pap", did you mean "paper"?'),
    ("series = 1", "strategy[0].series: must be a string, is 1"),
    ("step = 1", "strategy[0].step: no such key"),
]


@pytest.mark.parametrize(("table", "line"), REFUSED, ids=[line.partition(":")[0] for _, line in REFUSED])
def test_every_nonsensical_option_is_one_line(tmp_path: Path, table: str, line: str) -> None:
    assert refusal(tmp_path, step_tolerance, f'type = "step-tolerance"\n{table}').startswith(line)


def test_it_is_registered_and_does_nothing_that_no_strategy_may() -> None:
    assert step_tolerance.register_strategies() == [StepTolerance]
    for strategy in (PAPER, PRODUCT, decode(StepTolerance, unit="value")):
        assert check_strategy(strategy) == []
