"""A call that may block for ever, as one that reads a file on a mount that does not answer, and must neither hold the
event loop nor keep the process from ending.

Knows threads and time; knows nothing of what is called.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class BlockingCall(Generic[T]):
    """Runs `call` in a thread, once at a time. It may take `patience` seconds."""

    def __init__(self, call: Callable[[], T], patience: float, name: str) -> None:
        self._call, self._patience, self._name = call, patience, name
        self._future: Future[T] | None = None
        self._ended = asyncio.Event()
        self._begun = 0.0

    async def result(self) -> T:
        """What the call returns or raises; where one is under way already, what that does. Raises TimeoutError once it
        has taken longer than it may, and at once for as long as it goes on after that: it cannot be ended."""
        if self._future is None or self._future.done():
            self._begin()
        future = self._future
        assert future is not None, "one is begun"  # noqa: S101
        left = self._begun + self._patience - time.monotonic()
        for _ in range(2):  # the first wait is over at once where the whole process had been suspended meanwhile
            if left > 0 and not future.done():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ended.wait(), left / 2)
        if not future.done():
            raise TimeoutError(f"no answer for {time.monotonic() - self._begun:.0f} s")
        return future.result()

    def _begin(self) -> None:
        future, ended, loop = Future[T](), asyncio.Event(), asyncio.get_running_loop()

        def run() -> None:
            try:
                future.set_result(self._call())
            except BaseException as error:
                future.set_exception(error)
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=run, name=self._name, daemon=True).start()
        self._future, self._ended, self._begun = future, ended, time.monotonic()
