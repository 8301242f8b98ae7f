"""Ending tasks."""

import asyncio

from elasticd.base.tasks import cancel


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
