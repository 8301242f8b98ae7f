"""Times of day on the daemon's clock: exact, and steady."""

import pytest

from elasticd.base.clock import ServerTime, WallClock
from tests.cluster.kubernetes.fake import Anchored


def test_clock_that_agrees_with_time_of_day_changes_nothing() -> None:
    assert ServerTime(WallClock()).offset() == 0.0


@pytest.mark.parametrize("away", [3600.0, -3600.0, 0.31, -7.77])
def test_offset_is_the_clock_difference_and_shifts_whole_seconds_exactly(away: float) -> None:
    offset = ServerTime(Anchored(away)).offset()
    assert offset == pytest.approx(away, abs=0.07)
    assert (1_767_225_600 + offset) + 30.0 == 1_767_225_630 + offset


def test_offset_ignores_small_clock_drift_and_follows_a_step() -> None:
    clock = Anchored(5.0)
    times = ServerTime(clock)
    assert times.offset() == 5.0
    clock.away = 5.05
    assert times.offset() == 5.0
    clock.away = 65.0
    assert times.offset() == 65.0
