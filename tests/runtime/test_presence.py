"""Since when a daemon has led and run without a pause."""

import asyncio
import time

import pytest

from elasticd.base.clock import VirtualClock
from elasticd.base.tasks import cancel
from elasticd.runtime.presence import PAUSE, Presence

NOW = 1000.0


@pytest.mark.parametrize(
    ("seconds", "day", "begins"),
    [
        pytest.param(0.0, 0.0, False, id="no pause"),
        pytest.param(PAUSE, PAUSE, False, id="a busy processor"),
        pytest.param(30.0, 30.0, True, id="the process or the machine was suspended"),
        pytest.param(0.0, 30.0, True, id="and its clocks, and it was told the time"),
        pytest.param(0.0, -30.0, False, id="the time of day was put back"),
    ],
)
async def test_a_daemon_that_was_suspended_begins_anew(
    monkeypatch: pytest.MonkeyPatch, seconds: float, day: float, *, begins: bool
) -> None:
    clock, today = VirtualClock(NOW), [5e8]
    monkeypatch.setattr(time, "time", lambda: today[0])
    presence = Presence(clock)
    running = asyncio.create_task(presence.run())
    await asyncio.sleep(0)
    await clock.sleep_until(NOW + 1)
    assert presence.since() == NOW
    await clock.sleep_until(NOW + 1 + seconds)
    today[0] += day
    assert [presence.since(), presence.since()] == [NOW + 1 + seconds if begins else NOW] * 2
    await cancel(running)


async def test_who_begins_to_lead_was_not_there_before() -> None:
    presence = Presence(VirtualClock(NOW))
    presence.begin(NOW + 60)
    assert presence.since() == NOW + 60


async def test_time_that_nobody_watches_is_no_pause() -> None:
    """As in a command, and in a simulation."""
    clock = VirtualClock(NOW)
    presence = Presence(clock)
    await clock.sleep_until(NOW + 3600)
    assert presence.since() == NOW
