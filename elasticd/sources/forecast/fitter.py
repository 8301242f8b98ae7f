"""Runs the process that fits forecasts: a question in, a reply out; the process ends when it is no longer needed.

Knows processes; knows nothing of forecasts. It is a process and not a thread, so that arithmetic delays no decision,
and not one of a pool, so that it can be killed when it hangs or grows: it uses memory only while it fits.
"""

import asyncio
import importlib
import importlib.util
import os
import sys
from contextlib import suppress
from typing import Protocol, cast

from elasticd.base.tasks import finished
from elasticd.base.text import one_line
from elasticd.sources.forecasting.request import HEAD_BYTES, Question, Reply, frame, length, reply

COMMAND = (sys.executable, "-P", "-m", "elasticd.sources.forecasting")
"""-P: modules in the daemon's working directory are not imported."""

_REAPED = 0.5
"""Seconds to wait for the exit code of a process that has ended."""

NEEDED = ("numpy", "scipy")


class Lost(Exception):  # noqa: N818
    """The process did not answer: it was killed, took too long, or sent a malformed reply."""


class Fitter(Protocol):
    """Fits forecasts, in this process or in another."""

    async def fit(self, question: Question) -> Reply:
        """The reply. Raises Lost; the next question is asked of a fresh process."""


def lacking() -> str:
    """The library that is needed and not installed; empty when all are."""
    return next((name for name in NEEDED if importlib.util.find_spec(name) is None), "")


class Here:
    """Fits in this process, which blocks meanwhile: for virtual time, where nothing else waits."""

    async def fit(self, question: Question) -> Reply:
        # Imported here because it needs numpy, which the daemon does without.
        module = importlib.import_module("elasticd.sources.forecasting.fit")
        return cast(Reply, module.answer(question))


class Apart:
    """Fits in a separate process, which starts with the first question; each may take `patience` seconds."""

    def __init__(self, patience: float, command: tuple[str, ...] = COMMAND) -> None:
        self._patience, self._command = patience, command
        self._process: asyncio.subprocess.Process | None = None

    async def fit(self, question: Question) -> Reply:
        """The reply. Raises Lost after killing the process."""
        try:
            async with asyncio.timeout(self._patience):
                return await self._exchange(question)
        except TimeoutError:
            why = f"it took more than {self._patience:g} s"
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            why = one_line(str(error)) or type(error).__name__
        except asyncio.CancelledError:
            await self.aclose()
            raise
        code = await self.aclose()
        raise Lost(f"the process that fits was lost: {_exit_reason(code) or why}")

    async def _exchange(self, question: Question) -> Reply:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=_environment()
            )
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None, "they are pipes"  # noqa: PT018, S101
        stdin.write(frame(question))
        await stdin.drain()
        head = await stdout.readexactly(HEAD_BYTES)
        return reply(await stdout.readexactly(length(head)))

    async def aclose(self) -> int | None:
        """End the process. Returns its exit code if it had ended by itself, negative for a signal; else None."""
        process, self._process = self._process, None
        if process is None:
            return None
        try:
            if process.stdout is not None and process.stdout.at_eof():  # it is gone, and its code is about to be known
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), _REAPED)
            return process.returncode
        finally:  # also where the wait is cancelled
            with suppress(ProcessLookupError):
                process.kill()
            await finished(process.wait())


def _exit_reason(code: int | None) -> str:
    if code is None:
        return ""
    return f"it was killed by signal {-code}, perhaps for its memory" if code < 0 else f"it ended with code {code}"


def _environment() -> dict[str, str]:
    """The environment: one thread, as several are slower on arrays so small, and this process's module path."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
