"""Ending tasks. Knows nothing of what they do."""

import asyncio
from typing import Any


async def cancel(*tasks: "asyncio.Future[Any]") -> list[Any]:
    """Cancel tasks, and wait until they have ended. Returns what came of each: a result or an exception."""
    for task in tasks:
        task.cancel()
    return await asyncio.gather(*tasks, return_exceptions=True)
