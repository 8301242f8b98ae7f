"""Watches the event loop from a thread: says who blocks it and then, so that another daemon can lead, ends the process.
Looks for memory at each tick, too.

Knows threads, stack frames and the scheduler of Linux; knows nothing of what runs on the loop. It needs Python's
interpreter lock as everybody does: what blocks with the lock held is left to systemd's watchdog or the kubelet's probe.
"""

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Literal

from elasticd.base.errors import EXIT_BLOCKED
from elasticd.base.stacks import blocking, frames_of
from elasticd.base.text import one_line
from elasticd.telemetry.out_of_memory import MemoryGuard

log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds between looks at the loop."""

NAME_AFTER = 5
"""Ticks without a turn of the loop after which the log says who blocks it."""

END_AFTER = 12
"""Ticks without a turn of the loop after which the daemon ends. Less than a Lease lasts: the one who takes over waits
no longer for it."""

LEAVE = 3.0
"""Seconds for the end of the process, once the daemon has stopped and all is written."""

Step = Literal["", "name", "end", "turns again"]


class Blockage:
    """Counts ticks in a row without a turn of the loop. Ticks, not seconds: after the whole process was stopped, or the
    machine suspended, there is one tick, however long that took."""

    def __init__(self) -> None:
        self.ticks = 0.0

    def tick(self, *, turned: bool, starved: float = 0.0) -> Step:
        """What to do now. `starved`: the share of the tick in which the loop would have run but had no processor, which
        is nobody's fault and is not counted."""
        before = self.ticks
        self.ticks = 0.0 if turned else before + 1 - starved
        if turned:
            return "turns again" if before >= NAME_AFTER else ""
        if self.ticks >= END_AFTER:
            return "end"
        return "name" if before < NAME_AFTER <= self.ticks else ""


@contextlib.contextmanager
def watched(on_blocked: Callable[[], None], memory: MemoryGuard) -> Iterator[None]:
    """Watch the running event loop, which must be that of this thread, for as long as the block runs. `on_blocked` is
    called once for each blockage, in the watchdog's thread."""
    watchdog = _Watchdog(asyncio.get_running_loop(), on_blocked, memory)
    thread = threading.Thread(target=watchdog.run, name="watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        watchdog.stop.set()


class _Watchdog:
    def __init__(self, loop: asyncio.AbstractEventLoop, on_blocked: Callable[[], None], memory: MemoryGuard) -> None:
        self._loop, self._on_blocked, self._watched = loop, on_blocked, threading.current_thread()
        self._memory = memory
        self._blockage, self._turned = Blockage(), threading.Event()
        self._waited = 0.0
        self.stop = threading.Event()

    def run(self) -> None:
        """Look at the loop every second. Its end means that the loop is closed, or `stop` was set."""
        with contextlib.suppress(RuntimeError), self._memory:  # the loop is closed
            self._loop.call_soon_threadsafe(self._turned.set)
            while not self.stop.wait(TICK):
                self._memory.look()
                turned = self._turned.is_set()
                self._do(self._blockage.tick(turned=turned, starved=self._starved()))
                if turned:
                    self._turned.clear()
                    self._loop.call_soon_threadsafe(self._turned.set)

    def _starved(self) -> float:
        before, self._waited = self._waited, seconds_without_processor(self._watched)
        return min(1.0, (self._waited - before) / TICK)

    def _do(self, step: Step) -> None:
        tell = partial(self._memory.apart.log, log)
        match step:
            case "name":
                self._on_blocked()
                tell(logging.ERROR, "the event loop does not turn, for %d s: it is in %s", NAME_AFTER, self._where())
            case "end":
                text = "the event loop does not turn, for %d s: it is in %s; the daemon ends, so that another can lead"
                tell(logging.CRITICAL, text, END_AFTER, self._where())
                os._exit(EXIT_BLOCKED)
            case "turns again":
                tell(logging.WARNING, "the event loop turns again")
            case _:
                pass

    def _where(self) -> str:
        return one_line(culprit(frames_of(self._watched)))


def end_in_time(code: int) -> None:
    """End this process with that code, LEAVE seconds from now, if it has not ended by itself: a thread that a plugin
    began, or a function that it had called at the exit, may keep it for ever."""
    with contextlib.suppress(RuntimeError):  # no thread may be started
        threading.Thread(target=_end, args=(threading.current_thread(), code), name="end", daemon=True).start()


def _end(main: threading.Thread, code: int) -> None:
    time.sleep(LEAVE)
    try:
        frames = frames_of(main)  # none of a function that is not written in Python
        where = one_line(culprit(frames)) if frames else "a function that was to be called at its exit"
        log.error("the daemon has stopped, but its process not, for %g s: it is in %s; it is ended", LEAVE, where)
    finally:
        os._exit(code)


def culprit(frames: Sequence[FrameType]) -> str:
    """Which function holds up a thread, who called it, and where it is now, of frames that are innermost first."""
    frame, caller = blocking(frames)
    called = f", called by {_function(caller)}" if caller else ""
    return _function(frame) + called + (f"; now at {_function(frames[0])}" if frame is not frames[0] else "")


def _function(frame: FrameType) -> str:
    code = frame.f_code
    return f"{frame.f_globals.get('__name__', '')}.{code.co_qualname} ({code.co_filename}:{frame.f_lineno})"


def seconds_without_processor(thread: threading.Thread) -> float:
    """The seconds since its start for which a thread was ready to run and waited for a processor; 0 if unknown."""
    try:
        stat = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text(encoding="ascii")
        return int(stat.split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
