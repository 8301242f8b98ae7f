"""Time: the wall clock follows no one who sets it, the virtual one only those who wait."""

import time

import pytest

from elasticd.base import clock
from elasticd.base.clock import VirtualClock, WallClock


async def test_virtual_time_passes_only_by_waiting() -> None:
    virtual = VirtualClock(100.0)
    await virtual.sleep_until(160.5)
    assert virtual.now() == 160.5


async def test_virtual_time_never_goes_back() -> None:
    virtual = VirtualClock(100.0)
    await virtual.sleep_until(7.0)
    assert virtual.now() == 100.0


async def test_a_time_that_is_past_is_not_waited_for() -> None:
    wall = WallClock()
    await wall.sleep_until(wall.now() - 3600)
    await wall.sleep_until(float("-inf"))


async def test_a_wait_ends_at_its_time_and_not_before() -> None:
    wall = WallClock()
    when = wall.now() + 0.01
    await wall.sleep_until(when)
    assert wall.now() >= when - 1e-4


@pytest.mark.parametrize("step", [3600.0, -3600.0, 315e6, -315e6], ids=["+1h", "-1h", "+10y", "-10y"])
def test_a_step_of_the_system_s_clock_moves_nothing(monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    wall, real = WallClock(), time.time
    before = wall.now()
    monkeypatch.setattr(time, "time", lambda: real() + step)
    assert 0 <= wall.now() - before < 60


def test_it_starts_at_the_system_s_time() -> None:
    assert WallClock().now() == pytest.approx(time.time(), abs=1)


def test_the_time_that_a_machine_was_suspended_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """CLOCK_MONOTONIC leaves it out; samples would then be of the future for ever."""
    elapsed = {time.CLOCK_BOOTTIME: 1000.0, time.CLOCK_MONOTONIC: 1000.0}
    monkeypatch.setattr(time, "clock_gettime", lambda which: elapsed[which])
    wall = clock.WallClock()
    before = wall.now()
    elapsed[time.CLOCK_BOOTTIME] += 600.0
    assert wall.now() - before == pytest.approx(600.0)
