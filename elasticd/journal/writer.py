"""A thread that writes, so that a disk that does not answer holds up nothing else.

Knows threads and calls; knows nothing of what is written.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class WriterThread:
    """Makes calls one after another. Its thread does not keep the process from ending: one that is stuck in the kernel
    cannot be ended, only left behind. Where the system refuses a thread, a call is made at once."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = threading.Thread(target=self._work, name="journal writer", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._thread = None

    def submit(self, call: Callable[[], T]) -> "Future[T]":
        future: Future[T] = Future()
        if self._thread is None:
            _settle(future, call)
        else:
            self._calls.put((future, call))
        return future

    def end(self) -> None:
        """End the thread after the calls that were submitted, without waiting for it."""
        self._calls.put(None)

    def _work(self) -> None:
        while (pair := self._calls.get()) is not None:
            _settle(*pair)


def _settle(future: "Future[T]", call: Callable[[], T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)
