"""The write budget, on a virtual clock."""

import asyncio
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.base.clock import VirtualClock
from elasticd.base.tasks import cancel
from elasticd.cluster.kubernetes.write.budget import Budget


class Stuck(VirtualClock):
    """A clock on which nobody's time comes."""

    async def sleep_until(self, when: float) -> None:
        await asyncio.Event().wait()


async def test_burst_is_free_and_then_each_write_waits_its_turn() -> None:
    clock, taken = VirtualClock(100), list[float]()
    budget = Budget(clock, rate=10, burst=3)
    for _ in range(6):
        assert await budget.take(patience=1)
        taken.append(clock.now())
    assert taken == pytest.approx([100, 100, 100, 100.1, 100.2, 100.3])


async def test_level_grows_with_time_up_to_the_burst() -> None:
    budget = Budget(VirtualClock(0), rate=10, burst=4)
    assert [await budget.take(patience=0) for _ in range(4)] == [True] * 4
    assert [budget.level(at) for at in (0, 0.1, 0.25, 1, 1000)] == pytest.approx([0, 1, 2.5, 4, 4])


async def test_optional_writes_never_take_the_second_half_of_the_burst() -> None:
    budget = Budget(VirtualClock(0), rate=1, burst=10)
    assert [budget.spare() for _ in range(7)] == [True] * 5 + [False] * 2
    assert [await budget.take(patience=0) for _ in range(5)] == [True] * 5


async def test_pause_holds_everything_until_its_end() -> None:
    clock = VirtualClock(0)
    budget = Budget(clock, rate=10, burst=10)
    budget.pause(7)
    budget.pause(3)
    await clock.sleep_until(1)
    assert budget.wait(1) == 6
    await clock.sleep_until(6.9)
    assert not budget.spare()
    await clock.sleep_until(7)
    assert budget.spare()


async def test_turn_given_back_fills_no_more_than_the_burst() -> None:
    clock = Stuck(0)
    budget = Budget(clock, rate=1, burst=2)
    budget.pause(1)
    waiting = asyncio.create_task(budget.take(patience=2))
    await asyncio.sleep(0)
    assert budget.level(0) == 1
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert budget.level(1000) == 2


@given(
    st.floats(0.5, 100),
    st.integers(2, 50),
    st.lists(st.tuples(st.floats(0, 5), st.booleans()), min_size=1, max_size=80),
)
def test_no_window_ever_sees_more_than_burst_plus_rate(
    rate: float, burst: int, steps: list[tuple[float, bool]]
) -> None:
    now, used = 0.0, list[float]()

    class Stepped(Stuck):
        """A clock that the steps move."""

        def now(self) -> float:
            return now

    async def write() -> None:
        nonlocal now
        budget, writing = Budget(Stepped(), rate, burst), list[asyncio.Task[bool]]()
        for pause, urgent in steps:
            now += pause
            if urgent:
                used.append(now + budget.wait(now))
                writing.append(asyncio.create_task(budget.take(inf)))
                await asyncio.sleep(0)
            elif budget.spare():
                used.append(now)
        await cancel(*writing)

    asyncio.run(write())
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
    budget = Budget(Stuck(0), rate=0.001, burst=2)
    assert await budget.take(0)
    assert await budget.take(0)
    waiting = asyncio.create_task(budget.take(2000))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert budget.level(0) == pytest.approx(0)
