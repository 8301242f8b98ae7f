"""How long is waited before another attempt."""

from math import inf

import pytest

from elasticd.base.backoff import Backoff


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        pytest.param(Backoff(0.5, 30.0), [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0], id="up to the longest"),
        pytest.param(Backoff(1.0), [0.0, 1.0, 2.0, 4.0], id="without end"),
        pytest.param(Backoff(60.0, 15.0), [0.0, 15.0, 15.0], id="the longest holds for the first too"),
        pytest.param(Backoff(0.0, 15.0), [0.0, 0.0, 0.0], id="no delay at all"),
    ],
)
def test_the_delay_doubles_with_each_failure(backoff: Backoff, delays: list[float]) -> None:
    assert [backoff.delay(failures) for failures in range(len(delays))] == delays


@pytest.mark.parametrize(("longest", "delay"), [(30.0, 30.0), (inf, 2.0**1000)])
def test_any_number_of_failures_has_a_delay(longest: float, delay: float) -> None:
    assert Backoff(1.0, longest).delay(10**9) == delay


@pytest.mark.parametrize(("chance", "delay"), [(0.0, 15.0), (0.5, 30.0), (1.0, 45.0)])
def test_jitter_changes_the_longest_delay_too(chance: float, delay: float) -> None:
    assert Backoff(0.5, 30.0, (0.5, 1.5)).delay(20, chance) == delay
