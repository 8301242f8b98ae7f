"""A file in the state folder by which a person asks a running daemon to look at its pools now, and one with its answer.

The daemon's pages are read-only, so that who may read them can do nothing; who may write into the state folder can.
Knows these two files; knows nothing of what looking means.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path

from elasticd.base.errors import UnavailableError

log = logging.getLogger(__name__)

REQUEST, ANSWER = "rebalance.request", "rebalance.answer"

EVERY = 0.5
"""Seconds between the daemon's looks for a request."""

PATIENCE = 10.0
"""Seconds for which a person waits for an answer."""


async def serve(folder: Path, answer: Callable[[], str]) -> None:
    """Answer every request, until cancelled. One that lies there from before is answered too."""
    while True:
        with contextlib.suppress(OSError):  # nobody asks; or the folder is gone, which others tell
            (folder / REQUEST).unlink()
            _reply(folder / ANSWER, answer())
        await asyncio.sleep(EVERY)


def _reply(path: Path, said: str) -> None:
    try:
        path.write_text(said, encoding="utf-8")
    except OSError as error:
        log.warning("%s: must be writable, is not: %s: who asked is not answered", path, error.strerror)


def ring(folder: Path, patience: float = PATIENCE) -> str:
    """Ask, and give the answer. Raises UnavailableError when nobody answers, and where one of the two files cannot be
    written."""
    request, answer = folder / REQUEST, folder / ANSWER
    try:
        answer.unlink(missing_ok=True)
        _ask(request)
        said = _awaited(answer, patience)
        taken = not request.exists()
        request.unlink(missing_ok=True)
        answer.unlink(missing_ok=True)
    except OSError as error:
        raise UnavailableError(f"{error.filename or request}: must be writable, is not: {error.strerror}") from None
    if said:
        return said
    if taken:
        told = "must be writable by the running elasticd, which was asked and wrote no answer: its log says why"
        raise UnavailableError(f"{answer}: {told}")
    raise UnavailableError(f"{folder}: must be the state folder of a running elasticd, but none answers")


def _ask(request: Path) -> None:
    """Not by an empty file, which a full disk takes: what has no room for this has none for the answer."""
    try:
        request.write_text("look now\n", encoding="utf-8")
    except OSError:
        with contextlib.suppress(OSError):
            request.unlink()
        raise


def _awaited(answer: Path, patience: float) -> str:
    """What is answered within so many seconds, empty where nothing is."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if answer.exists() and (said := answer.read_text(encoding="utf-8", errors="replace")):
            return said
        time.sleep(0.05)
    return ""
