"""The control file: a person writes it into the state folder to make a running daemon look at its pools now; the daemon
writes its answer beside it.

The daemon's web pages are read-only, so reading them gives no control; write access to the state folder does. Knows
these two files; knows nothing of what a look is.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path

from elasticd.base.blocking import DaemonThreads
from elasticd.base.errors import UnavailableError
from elasticd.base.files import regular

log = logging.getLogger(__name__)

REQUEST, ANSWER = "rebalance.request", "rebalance.answer"

EVERY = 0.5
"""Seconds between the daemon's checks for a request."""

PATIENCE = 10.0
"""Seconds that the command waits for an answer."""


async def serve(folder: Path, answer: Callable[[], str]) -> None:
    """Answer every request, until cancelled, also one from before the start. The files are looked at in a thread: their
    disk may not answer."""
    files, asked = DaemonThreads(1), False
    try:
        while True:
            # No thread can be started; no request; or the folder is gone, which the journal reports.
            with contextlib.suppress(RuntimeError, OSError):
                await asyncio.wrap_future(files.submit((folder / REQUEST).unlink))
                asked = True
            if asked:
                await asyncio.wrap_future(files.submit(_write_reply, folder / ANSWER, answer()))
            asked = False
            await asyncio.sleep(EVERY)
    finally:
        files.shutdown()


def _write_reply(path: Path, text: str) -> None:
    try:
        _write(path, text)
    except OSError as error:
        log.warning("%s: must be writable, is not: %s: the request is not answered", path, error.strerror)


def _write(path: Path, text: str) -> None:
    with open(path, "w", encoding="utf-8", opener=regular) as file:
        file.write(text)


def ask(folder: Path, patience: float = PATIENCE) -> str:
    """Write a request and return the daemon's answer. Raises UnavailableError when no daemon answers, and when one of
    the two files cannot be written."""
    request, answer = folder / REQUEST, folder / ANSWER
    try:
        answer.unlink(missing_ok=True)
        _write_request(request)
        reply = _wait_for_reply(answer, patience)
        was_taken = not request.exists()
        request.unlink(missing_ok=True)
        answer.unlink(missing_ok=True)
    except OSError as error:
        raise UnavailableError(f"{error.filename or request}: must be writable, is not: {error.strerror}") from None
    if reply:
        return reply
    if was_taken:
        problem = "must be writable by the running elasticd, which was asked and wrote no answer: its log says why"
        raise UnavailableError(f"{answer}: {problem}")
    raise UnavailableError(f"{folder}: must be the state folder of a running elasticd, but none answers")


def _write_request(request: Path) -> None:
    """Write a request that is not empty: a full disk takes an empty file, and then has no room for the answer."""
    try:
        _write(request, "look now\n")
    except OSError:
        with contextlib.suppress(OSError):
            request.unlink()
        raise


def _wait_for_reply(answer: Path, patience: float) -> str:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        with contextlib.suppress(FileNotFoundError), open(answer, "rb", opener=regular) as file:
            if reply := file.read():
                return reply.decode(errors="replace")
        time.sleep(0.05)
    return ""
