"""A file in the state folder by which a person asks a running daemon to look at its pools now, and one with its answer.

The daemon's pages are read-only, so that who may read them can do nothing; who may write into the state folder can.
Knows these two files; knows nothing of what looking means.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from elasticd.errors import UnavailableError

REQUEST, ANSWER = "rebalance.request", "rebalance.answer"

EVERY = 0.5
"""Seconds between the daemon's looks for a request."""

PATIENCE = 10.0
"""Seconds for which a person waits for an answer."""


async def heed(folder: Path, answer: Callable[[], str]) -> None:
    """Answer every request, until cancelled. One that lies there from before is answered too."""
    while True:
        with contextlib.suppress(OSError):  # nobody asks; or the folder is gone, which others tell
            (folder / REQUEST).unlink()
            (folder / ANSWER).write_text(answer(), encoding="utf-8")
        await asyncio.sleep(EVERY)


def ring(folder: Path, patience: float = PATIENCE) -> str:
    """Ask, and give the answer. Raises UnavailableError when nobody answers."""
    request, answer = folder / REQUEST, folder / ANSWER
    try:
        answer.unlink(missing_ok=True)
        request.touch()
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if answer.exists() and (said := answer.read_text(encoding="utf-8")):
                answer.unlink()
                return said
            time.sleep(0.05)
        request.unlink(missing_ok=True)
    except OSError as error:
        raise UnavailableError(f"{error.filename}: must be writable, is not: {error.strerror}") from None
    raise UnavailableError(f"{folder}: must be the state folder of a running elasticd, but none answers")
