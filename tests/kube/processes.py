"""Programs that a test runs: each with a log of its own, and none that outlives the test run.

Knows processes, signals and ports.  It must not know what the programs are.
"""

import asyncio
import ctypes
import os
import random
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
# Loaded here, since nothing may be loaded between fork and exec.
_LIBC = ctypes.CDLL(None)


class ProgramDied(AssertionError):
    """A program ended by itself; the message has the last lines of its log."""


def free_port() -> int:
    """A loopback port on which nothing listens.

    Taken from below Linux's ephemeral range, so that no client gets it while a server is restarted.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Program:
    """A child process that can be stopped and started again with the same command."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        self.name = name
        self.command = [str(word) for word in command]
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id; an error if the program was not started."""
        if self._process is None:
            raise ProgramDied(f"{self.name} is not running")
        return self._process.pid

    def start(self) -> None:
        """Start the program.  From the main thread: the kernel ends it with the thread that started it."""
        assert self._process is None or self._process.poll() is not None, f"{self.name} runs already"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # A session of its own, so that Ctrl-C lets the fixtures end it in order.
                start_new_session=True,
                # One system call, already loaded: safe even where other threads run.
                preexec_fn=_die_with_parent,  # noqa: PLW1509
            )

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs, or if it was not started."""
        return None if self._process is None else self._process.poll()

    def check(self) -> None:
        """Raise ProgramDied if the program was started and has ended by itself."""
        if (code := self.code) is not None:
            raise ProgramDied(f"{self.name} ended with code {code}; the end of {self.log}:\n{self.tail()}")

    def tail(self, lines: int = 20) -> str:
        """The last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, such as SIGSTOP for a program that hangs: when this returns, none of its threads runs."""
        os.kill(self.pid, number)
        if number == signal.SIGSTOP:
            # On a busy machine its threads go on for a while, and may still answer what is asked next.
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    async def kill(self) -> None:
        """End the program as a crash would: SIGKILL, at once."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            await asyncio.to_thread(process.wait)

    async def stop(self, grace: float = 2.0) -> None:
        """End the program: SIGTERM, and after `grace` seconds SIGKILL.  Nothing if it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            # A stopped process would not see the SIGTERM.
            for number in (signal.SIGTERM, signal.SIGCONT):
                os.killpg(process.pid, number)
            try:
                await asyncio.to_thread(process.wait, grace)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.wait)
