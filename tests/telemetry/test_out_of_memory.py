"""A daemon at the limit of its memory: real processes under RLIMIT_AS, each of which must say so and end."""

import logging
import mmap
import subprocess
import sys
from pathlib import Path

import pytest

from elasticd import daemon
from elasticd.base.errors import EXIT_NO_MEMORY, EXIT_UNAVAILABLE, LIMITS_OF_THREADS, ConfigError
from elasticd.telemetry import log
from elasticd.telemetry.out_of_memory import SHORT_FOR, MemoryGuard, guarded
from tests.kit.daemons import PATIENCE, Daemon, called, policy, write

SHORT = """
import asyncio, resource, sys, threading
from pathlib import Path
from elasticd import daemon
from elasticd.model.records import Decision
from elasticd.telemetry import log

KEPT = []

def leak():
    for size in (1 << 20, 1 << 12, 1 << 9):
        try:
            while True:
                KEPT.append(bytes(size))
        except MemoryError:
            pass
    raise MemoryError

async def leak_later():
    leak()

def fill():
    try:
        leak()
    except MemoryError:
        pass

def forget():
    try:
        leak()
    finally:
        KEPT.clear()

class Shop:
    decided = 0

    def on(self, record):
        self.decided += isinstance(record, Decision)
        if self.decided == 3:
            self.decided += 1
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + (120 << 20),) * 2)
            loop = asyncio.get_running_loop()
            CALL

log.set_up(sys.stderr)
asyncio.run(daemon.run(Path("elasticd.toml"), [Shop()]))
"""


def short(folder: Path, call: str) -> tuple["subprocess.Popen[bytes]", Path]:
    """A daemon whose third decision limits its memory, and makes this call."""
    write(folder, web=policy())
    (folder / "short.py").write_text(SHORT.replace("CALL", call))
    with (folder / "log").open("wb") as output:
        return subprocess.Popen([sys.executable, "short.py"], cwd=folder, stderr=output), folder / "log"


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        pytest.param("leak()", id="in a tick"),
        pytest.param("loop.call_soon(leak)", id="in a callback"),
        pytest.param("self.task = loop.create_task(leak_later())", id="in a task that nobody waits for"),
        pytest.param("fill()", id="in what comes next, such as the journal"),
        pytest.param("threading.Thread(target=fill).start()", id="in a thread that keeps all there was"),
    ],
)
def test_without_memory_a_daemon_says_so_and_ends(tmp_path: Path, call: str) -> None:
    process, output = short(tmp_path, call)
    try:
        assert process.wait(PATIENCE) == EXIT_NO_MEMORY == 71
    finally:
        process.kill()
    (line,) = [line for line in output.read_text().splitlines() if "CRITICAL" in line]
    assert "no memory is left: " in line
    assert line.endswith("; the daemon ends")


@pytest.mark.slow
def test_a_plugins_thread_without_memory_ends_nothing_else(tmp_path: Path) -> None:
    process, _ = short(tmp_path, "threading.Thread(target=forget).start()")
    try:
        running = Daemon(tmp_path, process)
        running.logged("MemoryError")
        running.replicas(4)
        assert running.stop() == 0
        assert "no memory is left" not in running.log
    finally:
        process.kill()
        process.wait()


class _EndedError(Exception):
    """Instead of the end of the process."""


class Process:
    """What would have ended."""

    def __init__(self) -> None:
        self.ended: list[int] = []
        """The exit codes."""

    def leave(self, code: int) -> None:
        self.ended.append(code)
        raise _EndedError


@pytest.fixture
def process() -> Process:
    return Process()


def raised_from(inner: Exception, outer: Exception) -> Exception:
    """The outer error, as it is when it is raised while the inner is dealt with."""
    outer.__context__ = inner
    return outer


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(MemoryError(), id="itself"),
        pytest.param(ExceptionGroup("tasks", [ValueError(), MemoryError()]), id="of one of several tasks"),
        pytest.param(raised_from(MemoryError(), KeyError(7)), id="what came of it"),
    ],
)
def test_an_error_without_memory_ends_the_process(process: Process, error: Exception) -> None:
    with pytest.raises(_EndedError), guarded(process.leave):
        raise error
    assert process.ended == [EXIT_NO_MEMORY]


def test_a_logged_error_without_memory_ends_the_process(process: Process) -> None:
    guard = MemoryGuard(process.leave)
    trouble = (MemoryError, MemoryError(), None)
    record = logging.LogRecord("elasticd.lease", logging.ERROR, "", 1, "the lease cannot be kept", None, trouble)
    with pytest.raises(_EndedError):
        guard.filter(record)
    record.thread = -1  # logged by another thread, it is that thread's
    assert guard.filter(record)
    assert process.ended == [EXIT_NO_MEMORY]


@pytest.mark.parametrize(
    ("mappable", "error", "ended"),
    [
        pytest.param(False, RuntimeError("can't start new thread"), True, id="what may have come of it"),
        pytest.param(False, ConfigError("a", "b", "c"), False, id="a person's mistake"),
        pytest.param(True, RuntimeError("can't start new thread"), False, id="there is memory"),
    ],
)
def test_what_ends_the_daemon_is_told_as_it_is(
    process: Process, monkeypatch: pytest.MonkeyPatch, *, mappable: bool, error: Exception, ended: bool
) -> None:
    guard = MemoryGuard(process.leave)
    if not mappable:
        monkeypatch.setattr(mmap, "mmap", _no_mapping)
    with pytest.raises(_EndedError if ended else type(error)), guard:
        raise error
    assert bool(process.ended) == ended


def _no_mapping(*_: object, **__: object) -> None:
    raise OSError


def test_the_process_ends_after_looks_in_a_row_without_memory(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, mapped = MemoryGuard(process.leave), mmap.mmap
    for mapping in (*[_no_mapping] * (SHORT_FOR - 1), mapped, *[_no_mapping] * (SHORT_FOR - 1)):
        monkeypatch.setattr(mmap, "mmap", mapping)
        guard.look()
    assert not process.ended
    with pytest.raises(_EndedError):
        guard.look()
    assert process.ended == [EXIT_NO_MEMORY]


def test_a_limit_of_threads_is_one_line(
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    async def start(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(daemon, "run", start)
    monkeypatch.setattr(log, "set_up", lambda *_: None)  # it would stay for the tests that follow
    monkeypatch.setattr("signal.signal", lambda *_: None)
    code, _, errors = called(capsys, "run", "--config", write(tmp_path, web=policy()))
    assert (code, errors) == (EXIT_UNAVAILABLE, "")
    assert caplog.messages == [f"threads: must start, do not: {LIMITS_OF_THREADS}"]
