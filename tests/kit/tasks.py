"""Ends tasks of tests that use libraries which may swallow a cancellation, as asyncio.wait_for does before 3.12."""

import asyncio


async def end(*tasks: "asyncio.Task[None]") -> None:
    """Cancel them, again where that was swallowed, until they have ended."""
    while waiting := [task for task in tasks if not task.done()]:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting, timeout=1)
