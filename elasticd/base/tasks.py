"""Ending tasks. Knows nothing of what they do."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any


async def cancel(*tasks: "asyncio.Future[Any]") -> list[Any]:
    """Cancel tasks, and wait until they have ended. Returns what came of each: a result or an exception."""
    for task in tasks:
        task.cancel()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def finished(work: Awaitable[object]) -> None:
    """Wait for what must not be left half done: where this task is cancelled meanwhile, it ends only after that."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(Exception):
            await task
        raise
