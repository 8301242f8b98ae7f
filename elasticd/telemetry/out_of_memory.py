"""Ends the daemon when no memory is left to it, so that it is started again or another leads.

A limit of the address space or of data (`ulimit -v`, LimitAS=, LimitDATA=) makes Python raise MemoryError, in whatever
function comes next; at that of a container the kernel ends the process. A daemon that goes on after such an error may
have lost a task, or keep no lease, so it ends: that is as safe as at any other moment. Knows mappings, exceptions and
the log; knows nothing of who holds the memory.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType

from elasticd.base.errors import EXIT_NO_MEMORY
from elasticd.base.memory import has_memory, is_shortage, lacks_memory, mapped
from elasticd.base.stacks import place
from elasticd.base.text import one_line
from elasticd.telemetry.log import ApartLog

log = logging.getLogger(__name__)

RESERVE = 4 << 20
"""Bytes of addresses that are kept for the last line of the log."""

THREADS = 48 << 20
"""Bytes that must be free at the start, for the threads that a daemon begins with."""

SHORT_FOR = 5
"""Looks in a row that find no memory, after which the daemon ends."""


class MemoryGuard:
    """Ends the process, with exit code 71, when memory has run out. As a context manager: if an error of that kind ends
    the block. As a filter of the log: if the event loop's thread logs one. In a plugin's thread such an error is the
    plugin's own, and ends nothing while there is memory left for the daemon."""

    def __init__(self, leave: Callable[[int], None] = os._exit) -> None:
        """Guard the loop of the thread that calls. `leave` ends the process, without any cleaning up. Raises
        MemoryError if there is too little even now: the thread that would say so may never be heard of."""
        if not has_memory(THREADS):
            raise MemoryError
        self._leave = leave
        self.holdings: Callable[[], str] = str
        """What the daemon holds most of."""
        self.apart = ApartLog()
        self._thread, self._ending = threading.get_ident(), threading.Lock()
        self._reserve, self._short = mapped(RESERVE), 0

    def look(self) -> None:
        """See whether there is memory left. Called every second."""
        self._short = 0 if has_memory() else self._short + 1
        if self._short >= SHORT_FOR:
            self.end(f"none for {SHORT_FOR} s")

    def __enter__(self) -> "MemoryGuard":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None and is_shortage(error):
            self.end(_described(error))

    async def over(self, work: Coroutine[object, object, None]) -> None:
        """Do this work under the guard."""
        with self:
            await work

    def filter(self, record: logging.LogRecord) -> bool:
        """Let through every record but one of such an error."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and record.thread == self._thread and lacks_memory(error):
            self.end(_described(error))
        return True

    def end(self, why: str) -> None:
        """Say so and end the process. What is under way is taken up again, as after any other end."""
        with self._ending:
            try:
                if self._reserve is not None:
                    self._reserve.close()
                self.apart.log(log, logging.CRITICAL, "%s", f"no memory is left: {why}{self._held()}; the daemon ends")
            finally:
                self._leave(EXIT_NO_MEMORY)

    def _held(self) -> str:
        try:
            held = one_line(self.holdings())
        except Exception:  # it may need more than there is
            return ""
        return f"; {held}" if held else ""


@contextlib.contextmanager
def guarded(leave: Callable[[int], None] = os._exit) -> Iterator[MemoryGuard]:
    """Guard the process, and what is logged, for as long as the block runs."""
    guard, handlers = MemoryGuard(leave), list(logging.getLogger().handlers)
    for handler in handlers:
        handler.addFilter(guard)
    try:
        with guard:
            yield guard
    finally:
        for handler in handlers:
            handler.removeFilter(guard)


def _described(error: BaseException) -> str:
    """An error's type, and the line of code that raised it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return type(error).__name__ + (f" in {place(trace.tb_frame)}" if trace else "")
