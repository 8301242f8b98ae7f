"""Calls that may block for ever, as one that reads a file on a mount that does not answer, and must neither hold the
event loop nor keep the process from ending.

Knows threads and time; knows nothing of what is called.
"""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, TypeVar

from elasticd.base.text import raised

T = TypeVar("T")

AT_ONCE = 32
"""Blocking calls of one executor at a time, such as those of asyncio.to_thread; others wait for their turn."""

_Call = tuple["Future[Any]", Callable[[], Any]]


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
            except Exception as error:
                future.set_exception(error)
            except BaseException as error:  # whoever waits for it must not end by it
                future.set_exception(RuntimeError(raised(error)))
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=run, name=self._name, daemon=True).start()
        self._future, self._ended, self._begun = future, ended, time.monotonic()


class DaemonThreads(ThreadPoolExecutor):
    """An executor whose threads do not keep the process from ending: the standard library's joins all of its own at
    exit, however long that takes. An event loop accepts only that class as its default executor, so this is one."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        super().__init__(1)
        self._at_once, self._begun = at_once, 0
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._free = threading.Semaphore(0)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        """Run a call in a free thread, in a new one, or as soon as one is free, which it waits for where the system
        refuses another. The future raises RuntimeError if there is none at all."""
        future: Future[T] = Future()
        if not self._free.acquire(blocking=False) and self._begun < self._at_once:
            try:
                threading.Thread(target=self._work, name="blocking call", daemon=True).start()
                self._begun += 1
            except RuntimeError as error:
                if not self._begun:
                    future.set_exception(error)
                    return future
        self._calls.put((future, partial(fn, *args, **kwargs)))
        return future

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            _carry_out(*call, self._free.release)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the free threads; do not wait for the busy ones."""
        for _ in range(self._begun):
            self._calls.put(None)


def _carry_out(future: "Future[Any]", call: Callable[[], Any], on_finished: Callable[[], None]) -> None:
    """Tell that the thread is free before the caller has its answer, so that the caller's next call finds it free."""
    if not future.set_running_or_notify_cancel():
        on_finished()
        return
    try:
        result = call()
    except BaseException as error:
        on_finished()
        future.set_exception(error)
    else:
        on_finished()
        future.set_result(result)
