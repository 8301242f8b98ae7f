"""Slots that groups share: who holds how many, and who need not wait for whom."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.base.fair_semaphore import FairSemaphore
from elasticd.base.tasks import cancel

AT_ONCE = 32


class Bench:
    """A semaphore, and tasks of groups that hold its slots until they are cancelled."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self.semaphore, self.held = FairSemaphore(at_once), Counter[str]()
        self.holders = list[asyncio.Task[None]]()
        """Tasks in the order in which they got a slot."""
        self.tasks = list[asyncio.Task[None]]()

    async def begin(self, group: str, count: int = 1) -> list[asyncio.Task[None]]:
        """Let so many of a group want a slot; those that may have one have it then."""
        tasks = [asyncio.create_task(self._hold(group), name=group) for _ in range(count)]
        self.tasks += tasks
        await asyncio.sleep(0)
        return tasks

    async def _hold(self, group: str) -> None:
        async with self.semaphore.slot(group):
            self.held[group] += 1
            task = asyncio.current_task()
            assert task is not None
            self.holders.append(task)
            try:
                await asyncio.Event().wait()
            finally:
                self.held[group] -= 1

    async def end(self, *tasks: asyncio.Task[None]) -> None:
        """End them; who gets their slots has them then."""
        await cancel(*tasks)
        await asyncio.sleep(0)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await cancel(*made.tasks)


async def test_one_group_alone_holds_as_many_as_were_said(bench: Bench) -> None:
    await bench.begin("a", 100)
    assert bench.held["a"] == AT_ONCE


@pytest.mark.parametrize("stuck", [pytest.param(count, id=f"{count} of them") for count in (1, 2, 3)])
async def test_up_to_three_stuck_groups_keep_no_other_waiting(bench: Bench, stuck: int) -> None:
    for number in range(stuck):
        await bench.begin(f"stuck{number}", 100)
    await bench.begin("other")
    assert bench.held["other"] == 1


async def test_slots_of_all_groups_together_are_limited(bench: Bench) -> None:
    for number in range(60):
        await bench.begin(f"group{number}", 2)
    assert bench.held.total() == AT_ONCE + AT_ONCE // 2


async def test_within_a_group_who_came_first_comes_first(bench: Bench) -> None:
    tasks = await bench.begin("a", AT_ONCE + 3)
    for task in tasks[:3]:
        await bench.end(task)
    assert bench.holders == tasks


async def test_groups_that_wait_get_slots_in_turn(bench: Bench) -> None:
    full = [task for number in range(60) for task in await bench.begin(f"group{number}")]
    many, one = await bench.begin("many", 5), await bench.begin("one")
    await bench.end(*full)
    got = [task for task in bench.holders if task in (*many, *one)]
    assert got.index(one[0]) == 1
    assert got == [many[0], *one, *many[1:]]


async def test_who_gives_up_waiting_keeps_no_slot_from_others(bench: Bench) -> None:
    held = await bench.begin("a", AT_ONCE)
    gone, waits = await bench.begin("a", 2)
    await bench.end(gone)
    await bench.end(held[0])
    assert bench.holders[-1] is waits


async def test_who_gives_up_at_its_turn_passes_the_slot_on(bench: Bench) -> None:
    held = await bench.begin("a", AT_ONCE)
    gone, waits = await bench.begin("a", 2)
    held[0].cancel()
    await asyncio.sleep(0)  # its slot is given to the next one, which does not run any more
    gone.cancel()
    await bench.end(gone)
    assert bench.holders[-1] is waits
    assert bench.held["a"] == AT_ONCE


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=60))
async def test_nobody_waits_whose_group_may_hold_more(steps: Sequence[tuple[str, bool]]) -> None:
    bench, wanted = Bench(4), Counter[str]()
    for group, begins in steps:
        holder = next((task for task in bench.holders if task.get_name() == group and not task.done()), None)
        wanted[group] += 1 if begins else -(holder is not None)
        if begins:
            await bench.begin(group)
        elif holder is not None:
            await bench.end(holder)
        free = 6 - bench.held.total()
        assert free >= 0
        assert all(bench.held[name] == count or bench.held[name] >= 2 * free for name, count in wanted.items())
    await cancel(*bench.tasks)
