"""Reads configuration in threads of their own, so that a file that never answers holds up nothing else.

Knows time and threads; knows nothing of what is read. A thread that is stuck in the kernel cannot be ended, only left
behind.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from elasticd.base.blocking import DaemonThreads
from elasticd.base.errors import LIMITS_OF_THREADS, NO_THREAD, ConfigError

T = TypeVar("T")
P = ParamSpec("P")

LONGEST = 30.0
"""Seconds that a read may take."""

LEFT_BEHIND = 4
"""Threads that may be stuck at one time."""


class TimedReads:
    """Reads that each end within `LONGEST` seconds; none waits for one before it, until `LEFT_BEHIND` are stuck."""

    def __init__(self) -> None:
        self._threads = DaemonThreads(LEFT_BEHIND)

    async def __call__(self, place: Path, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What a call returns that reads a file or folder. Raises ConfigError if it takes too long, or no thread can be
        started for it."""
        try:
            async with asyncio.timeout(LONGEST):
                return await asyncio.wrap_future(self._threads.submit(read, *args, **kwargs))
        except TimeoutError:
            why = f"a file or a plugin blocks (once {LEFT_BEHIND} reads are stuck, only a restart reads it again)"
            raise ConfigError(str(place), "", f"must be read within {LONGEST:g} s, is not: {why}") from None
        except RuntimeError as error:
            if str(error) != NO_THREAD:
                raise
            raise ConfigError(str(place), "", f"must be readable in a thread, is not: {LIMITS_OF_THREADS}") from None
