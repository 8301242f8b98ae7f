"""Threads for blocking calls of a source, such as those of asyncio.to_thread.

Knows threads; knows nothing of sources.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

AT_ONCE = 32
"""Calls at one time; others wait for their turn."""

_Call = tuple["Future[Any]", Callable[[], Any]]


class DaemonThreads(ThreadPoolExecutor):
    """An executor whose threads do not keep the process from ending: the standard library's joins all of its own at
    exit, however long that takes. An event loop accepts only that class as its default executor, so this is one."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        super().__init__(1)
        self._at_once, self._begun = at_once, 0
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._free = threading.Semaphore(0)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        """Run a call in a free thread, in a new one, or as soon as one is free."""
        future: Future[T] = Future()
        self._calls.put((future, partial(fn, *args, **kwargs)))
        if not self._free.acquire(blocking=False) and self._begun < self._at_once:
            self._begun += 1
            threading.Thread(target=self._work, name="source call", daemon=True).start()
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
