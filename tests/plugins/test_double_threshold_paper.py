"""Double threshold in mode "paper": the example of the DHPA paper second by second, and its experiments.

Exact time and whole decisions; one run through the daemon's own loop besides.
"""

from collections.abc import Callable
from math import ceil, pi, sin

import pytest

from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.demand import Demand
from elasticd.cluster.simulated.options import MetricsOptions, NodeTable, WorkloadTable
from elasticd.lab.papers.seconds import Second, Setting, apart, play
from elasticd.model.policy import Bounds, Policy, Target
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.testing import simulate
from elasticd_plugins.double_threshold import DoubleThreshold
from tests.kit.loops import Told

PAPER = DoubleThreshold(mode="paper", low=50)


def load(t: float) -> float:
    """DHPA, eq. (7): percent of one pod's request, reconstructed."""
    return 200 * sin(pi * t / 180)


@pytest.fixture(scope="module")
def example() -> dict[int, Second]:
    """Section 3.3: 180 s, one pod at first."""
    return {second.at: second for second in play(PAPER, apart(load), Setting(180, 1))}


@pytest.mark.parametrize(
    ("at", "percent", "reason", "wish", "interval"),
    [
        pytest.param(1, 3.49, "QueueNotFull", 1, 30, id="step 1: 3.49 % at 1 s, look every 30 s"),
        pytest.param(30, 100.00, "QueueNotFull", 1, 1, id="step 2: 100 % at 30 s, look every second"),
        pytest.param(31, 103.01, "Jitter", 1, 1, id="step 3: nothing, as the first is not above alpha"),
        pytest.param(32, 105.98, "LoadRises", 3, 1, id="step 4: three pods at 32 s"),
        pytest.param(37, 120.36, "TaskRunning", 3, 1, id="the second of them"),
        pytest.param(41, 131.21, "TaskRunning", 3, 1, id="until it has started"),
        pytest.param(42, 133.83, "LoadRises", 3, 1, id="step 5: done at 42 s"),
        pytest.param(49, 150.94, "LoadRises", 4, 1, id="the paper leaves out: four pods at 49 s"),
        pytest.param(149, 103.01, "Jitter", 4, 1, id="nothing at 149 s, one growth is above b"),
        pytest.param(150, 100.00, "LoadFalls", 2, 1, id="step 6: two pods at 150 s"),
        pytest.param(155, 84.52, "TaskRunning", 2, 1, id="the second of them goes"),
        pytest.param(157, 78.15, "TaskRunning", 2, 10, id="below beta, look every 10 s"),
        pytest.param(167, 44.99, "LoadFalls", 1, 30, id="one pod at 167 s, and look every 30 s"),
    ],
)
def test_dhpa_1_what_is_decided_at_each_second(
    example: dict[int, Second], at: int, percent: float, reason: str, wish: int, interval: float
) -> None:
    second = example[at]
    assert second.load == pytest.approx(percent, abs=0.005)
    assert second.decision is not None
    assert (second.decision.recommendations[0].reason, second.decision.wish) == (reason, wish)
    assert second.decision.interval == interval


def test_dhpa_1_the_seconds_at_which_it_looks(example: dict[int, Second]) -> None:
    looks = [at for at, second in example.items() if second.decision is not None]
    assert looks == [1, 30, *range(31, 158), 167]


def test_dhpa_1_nothing_is_decided_but_at_these_seconds(example: dict[int, Second]) -> None:
    """One pod at a time, 5 s each, is the strategy's own limit: the wish of 32 s is carried out at 32 and 37 s."""
    changes = [(at, one.decision.replicas) for at, one in example.items() if one.decision and one.decision.action]
    assert changes == [(32, 2), (37, 3), (49, 4), (150, 3), (155, 2), (167, 1)]


@pytest.mark.parametrize(
    ("at", "before", "calculated", "real", "after", "breaks"),
    [
        (1, 3.49, 1, 1, 3.49, False),
        (30, 100.00, 2, 1, 100.00, False),
        (31, 103.01, 3, 1, 103.01, True),
        (36, 117.56, 3, 1, 117.56, True),
        (37, 120.36, 3, 2, 60.18, False),
        (42, 133.83, 3, 3, 44.61, False),
        (49, 150.94, 4, 3, 50.31, False),
        (54, 161.80, 4, 4, 40.45, False),
        (160, 68.40, 2, 2, 34.20, False),
        (172, 27.83, 1, 1, 27.83, False),
    ],
)
def test_dhpa_2_the_pods_and_what_each_carries(
    example: dict[int, Second], at: int, before: float, calculated: int, real: int, after: float, breaks: bool
) -> None:
    second = example[at]
    assert max(1, ceil(load(at) / PAPER.target - 1e-9)) == calculated
    assert (second.pods, second.breaks) == (real, breaks)
    assert second.load == pytest.approx(before, abs=0.005)
    assert second.load / second.pods == pytest.approx(after, abs=0.005)


def test_the_papers_example_breaks_only_from_31_to_36_s(example: dict[int, Second]) -> None:
    assert [at for at, second in example.items() if second.breaks] == [31, 32, 33, 34, 35, 36]


@pytest.mark.parametrize(
    ("rise", "before_150", "two_from"),
    [
        pytest.param(0.0, 4, 160, id="R1: any growth, as all seven steps need"),
        pytest.param(0.028, 3, 155, id="R2: growth above a, which misses step 7"),
    ],
)
def test_the_two_readings_of_the_rate_for_growing(rise: float, before_150: int, two_from: int) -> None:
    told = play(DoubleThreshold(mode="paper", low=50, rise=rise), apart(load), Setting(180, 1))
    pods = {second.at: second.pods for second in told}
    assert pods[149] == before_150
    assert next(at for at in range(150, 181) if pods[at] == 2) == two_from


@pytest.mark.parametrize(
    ("target", "fits"),
    [(49.5, False), (50, True), (51, True), (52.98, True), (53, False)],
)
def test_the_example_only_fits_set_points_from_50_below_53(target: float, fits: bool) -> None:
    told = play(DoubleThreshold(mode="paper", low=50, target=target), apart(load), Setting(180, 1))
    wishes = {second.at: second.decision.wish for second in told if second.decision}
    assert ((wishes[32], wishes[150]) == (3, 2)) == fits


@pytest.mark.slow
@pytest.mark.parametrize(
    ("curve", "replicas"),
    [
        pytest.param(lambda t: 1000 * abs(sin(pi * t / 180)), 10, id="medium-A"),
        pytest.param(lambda t: 1000 * sin(pi * t / 360), 10, id="medium-B"),
        pytest.param(lambda t: 500 * (1 + sin(pi * t / 180)), 10, id="medium-C"),
        pytest.param(lambda t: 2000 * abs(sin(pi * t / 180)), 15, id="high-A"),
        pytest.param(lambda t: 2000 * sin(pi * t / 360), 15, id="high-B"),
        pytest.param(lambda t: 1000 * (1 + sin(pi * t / 180)), 15, id="high-C"),
    ],
)
def test_no_pod_breaks_in_the_medium_and_high_experiments(curve: Callable[[float], float], replicas: int) -> None:
    told = play(PAPER, apart(curve), Setting(360, replicas))
    assert [second.at for second in told if second.breaks] == []
    assert max(second.pods for second in told) > replicas


async def test_the_example_through_the_daemons_own_loop() -> None:
    cluster = Simulated(
        nodes=(NodeTable(name="node", cpu="16", memory="64Gi"),),
        workloads=(
            WorkloadTable(
                name="web",
                cpu="1",
                start_seconds=5,
                stop_seconds=5,
                demand=Demand(formula="max(0, 2*sin(pi*(t - 9.5)/180))"),  # first seen at 10.5 s, with its first pod
            ),
        ),
        metrics=MetricsOptions(resolution=0.5),
    )
    policy = Policy(
        name="p", replicas=Bounds(10), strategies=(PAPER,), workload=Target("default", "web"), mode="act", jitter=0.0
    )
    told = Told()
    await simulate(cluster, [policy], 190, sources=[ResourceMetrics()], listeners=[told])
    outcomes = told.outcomes
    assert {one.result for one in outcomes} == {"done"}
    assert [(one.before, one.after) for one in outcomes] == [(1, 2), (2, 3), (3, 4), (4, 3), (3, 2), (2, 1)]
    # The example's second look is a second early, as it counts from 0.
    assert [one.at - 9.5 for one in outcomes] == [pytest.approx(at, abs=2) for at in (32, 37, 49, 150, 155, 167)]
