"""The write budget: arithmetic on given times, and waiting on a virtual clock."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.base.clock import VirtualClock
from elasticd.cluster.kubernetes.write.budget import Bucket, Budget


def test_burst_is_free_and_then_each_write_waits_its_turn() -> None:
    bucket = Bucket(rate=10, burst=3, now=100)
    assert [bucket.reserve(100) for _ in range(6)] == pytest.approx([100, 100, 100, 100.1, 100.2, 100.3])


def test_level_grows_with_time_up_to_the_burst() -> None:
    bucket = Bucket(rate=10, burst=4, now=0)
    for _ in range(4):
        bucket.reserve(0)
    assert [bucket.level(at) for at in (0, 0.1, 0.25, 1, 1000)] == pytest.approx([0, 1, 2.5, 4, 4])


def test_optional_writes_never_take_the_second_half_of_the_burst() -> None:
    bucket = Bucket(rate=1, burst=10, now=0)
    assert [bucket.spare(0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert [bucket.reserve(0) for _ in range(5)] == [0] * 5


def test_pause_holds_everything_until_its_end() -> None:
    bucket = Bucket(rate=10, burst=10, now=0)
    bucket.pause(7)
    bucket.pause(3)
    assert bucket.reserve(1) == 7
    assert not bucket.spare(6.9)
    assert bucket.spare(7)


def test_reservation_that_was_not_used_is_given_back() -> None:
    bucket = Bucket(rate=1, burst=2, now=0)
    bucket.reserve(0)
    bucket.give_back()
    bucket.give_back()
    assert bucket.level(0) == 2


@given(
    st.floats(0.5, 100),
    st.integers(2, 50),
    st.lists(st.tuples(st.floats(0, 5), st.booleans()), min_size=1, max_size=80),
)
def test_no_window_ever_sees_more_than_burst_plus_rate(
    rate: float, burst: int, steps: list[tuple[float, bool]]
) -> None:
    bucket, now, used = Bucket(rate, burst, 0.0), 0.0, list[float]()
    for pause, urgent in steps:
        now += pause
        if urgent:
            used.append(bucket.reserve(now))
        elif bucket.spare(now):
            used.append(now)
    used.sort()
    for start in range(len(used)):
        for end in range(start, len(used)):
            assert end - start + 1 <= burst + rate * (used[end] - used[start]) + 1 + 1e-6


async def test_write_waits_for_its_turn_by_the_clock() -> None:
    clock = VirtualClock(0)
    budget = Budget(clock, rate=2, burst=2)
    taken = []
    for _ in range(4):
        assert await budget.take(patience=10)
        taken.append(clock.now())
    assert taken == [0, 0, 0.5, 1.0]


async def test_write_facing_too_long_a_wait_is_refused_at_once() -> None:
    clock = VirtualClock(0)
    budget = Budget(clock, rate=1, burst=2)
    assert await budget.take(0)
    assert await budget.take(0)
    assert not await budget.take(0.5)
    assert clock.now() == 0
    assert await budget.take(1)
    assert clock.now() == 1


async def test_waiting_write_heeds_a_pause_the_server_asks_for_meanwhile() -> None:
    clock = VirtualClock(0)
    budget = Budget(clock, rate=1, burst=2)
    budget.pause(2)
    waiting = asyncio.create_task(budget.take(10))
    await asyncio.sleep(0)
    budget.pause(5)
    assert await waiting
    assert clock.now() == 7  # the clock stood at 2 when the pause of 5 was asked for


async def test_cancelled_wait_gives_its_turn_back() -> None:
    class Stuck(VirtualClock):
        async def sleep_until(self, when: float) -> None:
            await asyncio.Event().wait()

    budget = Budget(Stuck(0), rate=0.001, burst=2)
    assert await budget.take(0)
    assert await budget.take(0)
    waiting = asyncio.create_task(budget.take(2000))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert budget.bucket.level(0) == pytest.approx(0)
