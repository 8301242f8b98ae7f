"""What goes on during an episode ends with it."""

import asyncio
import contextlib

import pytest

from tests.faults.features import meanwhile


def test_work_that_misses_a_cancellation_is_cancelled_again() -> None:
    async def deaf() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        await asyncio.sleep(3600)

    async def run() -> None:
        async with asyncio.timeout(30), meanwhile(deaf()):
            await asyncio.sleep(0)

    asyncio.run(run())


def test_what_fails_meanwhile_is_raised_at_the_end() -> None:
    async def fail() -> None:
        raise ValueError("no")

    async def run() -> None:
        async with meanwhile(fail()):
            await asyncio.sleep(0.01)

    with pytest.raises(ValueError, match="no"):
        asyncio.run(run())
