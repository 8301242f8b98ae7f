"""The format of the daemon's log: lines of text, of JSON, or with the priorities of systemd's journal.

Knows formats and streams; knows nothing of what is logged.
"""

import contextlib
import logging
import math
import os
import queue
import select
import threading
import traceback
from collections.abc import Mapping
from functools import partial
from typing import IO, Literal

import msgspec

from elasticd.base.shapes import moment
from elasticd.base.text import counted, escape

Format = Literal["text", "json"]

FORMATS: tuple[Format, ...] = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")

MOST, MINUTE = 20, 60.0
"""Records of a library's logger in so many seconds."""

_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
"""The priority of syslog(3) from each level on; below the last it is 7."""

PATIENCE = 0.1
"""Seconds to wait for a log whose reader does not keep up, before lines are left out."""

APART = 1.0
"""Seconds to wait for a line that is logged apart."""

_encode = msgspec.json.Encoder(order="deterministic").encode


def set_up(stream: IO[str], form: Format = "text", level: str = "info") -> None:
    """Log to this stream from now on. Below info only elasticd's own loggers are heard: libraries may log secrets."""
    handler = LossyHandler(stream)
    handler.setFormatter(Formatter(form, journal=is_journal(stream, os.environ)))
    handler.addFilter(Sparing())
    own = getattr(logging, level.upper())
    logging.basicConfig(level=max(own, logging.INFO), handlers=[handler], force=True)
    logging.getLogger("elasticd").setLevel(own)
    logging.captureWarnings(capture=True)


class LossyHandler(logging.StreamHandler[IO[str]]):
    """Writes to a stream, and waits for none that nobody reads, such as the pipe of a stalled log driver or a stopped
    terminal: what does not fit is left out, and counted once lines fit again."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        self._left_out = 0
        self._is_torn = False
        """Whether the last line was cut off, so that the next must end it first."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            descriptor = self.stream.fileno()
        except (OSError, ValueError, AttributeError):  # it is in memory
            super().emit(record)
            return
        try:
            self._write(descriptor, record)
        except Exception:  # as in StreamHandler, nobody who logs is to fail for that
            self.handleError(record)

    def _write(self, descriptor: int, record: logging.LogRecord) -> None:
        self.flush()
        lines = [self.format(record)]
        if self._left_out:
            lost = f"{counted(self._left_out, 'line')} of the log left out: its reader did not keep up"
            lines.insert(0, self.format(logging.LogRecord(__name__, logging.WARNING, "", 0, lost, (), None)))
        text = ("\n" if self._is_torn else "") + "".join(f"{line}\n" for line in lines)
        unwritten = data = memoryview(text.encode(errors="backslashreplace"))
        # What a pipe has room for is at least so many bytes, if it has room.
        while unwritten and _has_room(descriptor, 0.0 if self._left_out else PATIENCE):
            unwritten = unwritten[os.write(descriptor, unwritten[: select.PIPE_BUF]) :]
        self._is_torn = self._is_torn if len(unwritten) == len(data) else bool(unwritten)
        self._left_out = self._left_out + 1 if unwritten else 0


def _has_room(descriptor: int, seconds: float) -> bool:
    """Whether a write does not block, within so many seconds."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(seconds * 1000))


def is_journal(stream: IO[str], environment: Mapping[str, str]) -> bool:
    """Whether systemd's journal reads this stream, and not only that of whoever started us: systemd.exec(5),
    $JOURNAL_STREAM."""
    device, _, inode = environment.get("JOURNAL_STREAM", "").partition(":")
    try:
        stat = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return (device, inode) == (str(stat.st_dev), str(stat.st_ino))


class ApartLog:
    """Logs from a thread of its own, which is left behind if the log itself blocks, as a pipe does that nobody reads.
    The thread is there from the beginning: where there is no memory left, one may begin and never be heard of."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[tuple[threading.Event, partial[None]]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="log", daemon=True).start()

    def log(self, logger: logging.Logger, level: int, text: str, *arguments: object) -> None:
        """Log this, and wait for that at most a second."""
        logged = threading.Event()
        self._lines.put((logged, partial(logger.log, level, text, *arguments)))
        logged.wait(APART)

    def _work(self) -> None:
        while True:
            logged, line = self._lines.get()
            with contextlib.suppress(MemoryError):
                line()
            logged.set()


class Sparing(logging.Filter):
    """Lets through `MOST` records a minute of each library's logger, and says how many were left out. What elasticd
    itself logs is about changes, and always let through."""

    def __init__(self) -> None:
        super().__init__()
        self._minutes: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.partition(".")[0] == "elasticd":
            return True
        begun, count = self._minutes.get(record.name, (-math.inf, 0))
        if begun <= record.created < begun + MINUTE:
            self._minutes[record.name] = begun, count + 1
            return count < MOST
        if count > MOST:
            record.msg, record.args = f"{record.getMessage()} ({count - MOST} more before it were left out)", ()
        self._minutes[record.name] = record.created, 1
        return True


class Formatter(logging.Formatter):
    """Formats a record as text, `TIME LEVEL message`, or as one line of JSON. For systemd's journal, which has times of
    its own, each line begins with its priority: sd-daemon(3)."""

    def __init__(self, form: Format, *, journal: bool) -> None:
        super().__init__()
        self._form, self._journal = form, journal

    def format(self, record: logging.LogRecord) -> str:
        """The record's lines, without an end of the last."""
        text = self._json(record) if self._form == "json" else self._text(record)
        if not self._journal:
            return text
        priority = next((number for level, number in _PRIORITIES if record.levelno >= level), 7)
        return "\n".join(f"<{priority}>{line}" for line in text.split("\n"))

    def _text(self, record: logging.LogRecord) -> str:
        head = "" if self._journal else f"{moment(record.created)} {record.levelname} "
        exception = _traceback_text(record)
        # A message may quote a server or a file: without line breaks it cannot pass for two.
        return f"{head}{escape(record.getMessage())}" + (f"\n{exception}" if exception else "")

    def _json(self, record: logging.LogRecord) -> str:
        fields = {
            "time": moment(record.created) or "",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if exception := _traceback_text(record):
            fields["exception"] = exception
        try:
            return _encode(fields).decode()
        except ValueError:  # half of a surrogate pair
            return _encode({key: text.encode(errors="replace").decode() for key, text in fields.items()}).decode()


def _traceback_text(record: logging.LogRecord) -> str:
    """The record's traceback, without the end of its last line; empty where it has none."""
    parts = []
    if record.exc_info and record.exc_info[1] is not None:
        parts += traceback.format_exception(record.exc_info[1])
    if record.stack_info:
        parts.append(record.stack_info)
    return "".join(parts).rstrip("\n")
