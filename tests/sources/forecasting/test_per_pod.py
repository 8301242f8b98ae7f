"""What a pod uses at which load: the line, the gate, and what is not known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from elasticd.sources.forecasting.arrays import Floats
from elasticd.sources.forecasting.per_pod import learnt, line_of, pearson
from tests.kit.waves import DAY, noise, wave

DAYS = 3
LOAD = wave(DAYS) * 10
PODS = np.full(DAYS * DAY, 10.0)


def use(slope: float = 0.4, intercept: float = 5.0, spread: float = 0.0) -> Floats:
    """What all pods together use."""
    return np.asarray(PODS * (slope * LOAD / PODS + intercept + noise(len(LOAD), spread, 1)))


def test_the_line_of_kap_1_is_learnt() -> None:
    found, problem = learnt(LOAD, use(spread=0.5), PODS, DAY)
    assert problem == ""
    assert found is not None
    assert (found.slope, found.intercept) == pytest.approx((0.4, 5.0), abs=0.05)
    assert found.correlation > 0.95


@given(some.floats(0, 10), some.floats(0, 100))
def test_any_line_that_rises_is_found(slope: float, intercept: float) -> None:
    x = np.linspace(1, 100, 50)
    assert line_of(x, slope * x + intercept) == pytest.approx((slope, intercept), abs=1e-6)


@pytest.mark.parametrize("falling", [-1.0, -0.01])
def test_a_line_never_falls(falling: float) -> None:
    slope, intercept = line_of(np.arange(100.0), 200 + falling * np.arange(100.0))
    assert (slope, intercept >= 0) == (0.0, True)


@pytest.mark.parametrize(
    ("used", "problem"),
    [
        pytest.param(PODS * (50 + noise(len(LOAD), 20)), "must follow the load", id="use that is noise"),
        pytest.param(np.full(len(LOAD), 70.0), "must follow the load", id="a constant"),
        pytest.param(
            use() * np.where(np.arange(len(LOAD)) == len(LOAD) - 9, 2, 1), "above the line", id="one miss of 10 %"
        ),
        pytest.param(
            use() * np.where(np.arange(len(LOAD)) < 2 * DAY, 2, 1), "squared error", id="less on the last day"
        ),
        pytest.param(np.full(len(LOAD), np.nan), "must be known together", id="not known"),
    ],
)
def test_kapacitys_gate_refuses(used: Floats, problem: str) -> None:
    found, told = learnt(LOAD, used, PODS, DAY)
    assert found is None
    assert problem in told


@pytest.mark.parametrize("replicas", [0.0, np.nan], ids=["no pods", "not known how many"])
def test_times_without_pods_tell_nothing(replicas: float) -> None:
    assert learnt(LOAD, use(), np.full(len(LOAD), replicas), DAY)[0] is None
    some_known = np.where(np.arange(len(LOAD)) % 2, PODS, replicas)
    assert learnt(LOAD, use(), some_known, DAY)[0] is not None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param([1.0, 2, 3, 4], [2.0, 4, 6, 8], (1.0, 0.0), id="alike"),
        pytest.param([1.0, 2, 3, 4], [4.0, 3, 2, 1], (-1.0, 0.0), id="contrary"),
        pytest.param([1.0, 1, 1], [1.0, 2, 3], (0.0, 1.0), id="constant"),
        pytest.param([1.0, 2], [1.0, 2], (0.0, 1.0), id="too few to tell"),
        pytest.param([1.0, 2, 3, 4, 5], [2.0, 1, 4, 3, 5], (0.8, 0.1041), id="a table's value"),
    ],
)
def test_pearsons_correlation_and_its_chance(
    one: list[float], other: list[float], expected: tuple[float, float]
) -> None:
    assert pearson(np.array(one), np.array(other)) == pytest.approx(expected, abs=5e-5)
