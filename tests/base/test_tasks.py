"""Ending tasks, and not ending them half-way."""

import asyncio

from elasticd.base.tasks import cancel, finished


async def test_cancelled_tasks_have_ended_and_say_what_came_of_them() -> None:
    async def fail() -> None:
        raise ValueError("wrong")

    tasks = [
        asyncio.create_task(asyncio.sleep(0, 1)),
        asyncio.create_task(fail()),
        asyncio.create_task(asyncio.sleep(9)),
    ]
    await asyncio.wait(tasks[:2])
    done, failed, cancelled = await cancel(*tasks)
    assert (done, str(failed), type(cancelled)) == (1, "wrong", asyncio.CancelledError)
    assert all(task.done() for task in tasks)


async def test_without_tasks_there_is_nothing_to_cancel() -> None:
    assert await cancel() == []


async def test_work_that_was_begun_is_finished_before_a_cancellation() -> None:
    begun, gate, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await gate.wait()
        ended.set()

    task = asyncio.create_task(finished(work()))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    gate.set()
    await asyncio.wait([task])
    assert ended.is_set()
    assert task.cancelled()
