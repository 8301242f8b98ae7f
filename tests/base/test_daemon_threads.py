"""Threads that keep nobody from ending."""

import asyncio
import subprocess
import sys
import threading

import pytest

from elasticd.base.blocking import DaemonThreads


def fail() -> None:
    raise SystemExit(3)


async def test_calls_are_answered_also_those_that_leave() -> None:
    loop, pool = asyncio.get_running_loop(), DaemonThreads()
    assert await loop.run_in_executor(pool, sum, (1, 2)) == 3
    with pytest.raises(SystemExit):
        await loop.run_in_executor(pool, fail)
    pool.shutdown()


async def test_a_pool_limits_concurrent_calls_and_queues_the_others() -> None:
    loop, pool, gate = asyncio.get_running_loop(), DaemonThreads(3), threading.Event()
    running: set[int] = set()

    def wait() -> int:
        running.add(threading.get_ident())
        gate.wait()
        return 1

    calls = [loop.run_in_executor(pool, wait) for _ in range(9)]
    while len(running) < 3:  # noqa: ASYNC110  # threads of which nobody tells the loop
        await asyncio.sleep(0.001)
    cancelled = loop.run_in_executor(pool, wait)
    cancelled.cancel()
    gate.set()
    assert sum(await asyncio.gather(*calls)) == 9
    assert len(running) == 3
    pool.shutdown()


async def test_an_idle_thread_is_reused_and_shutdown_ends_all_threads() -> None:
    loop, pool = asyncio.get_running_loop(), DaemonThreads()
    used = [await loop.run_in_executor(pool, threading.current_thread) for _ in range(20)]
    pool.shutdown()
    for thread in set(used):
        await asyncio.to_thread(thread.join)
    assert len(set(used)) == 1


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system refuses threads, as at a limit of processes."""

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


async def test_a_call_waits_for_a_thread_if_more_are_refused(request: pytest.FixtureRequest) -> None:
    loop, pool, gate = asyncio.get_running_loop(), DaemonThreads(), threading.Event()
    first = loop.run_in_executor(pool, gate.wait)
    request.getfixturevalue("refused")
    others = [loop.run_in_executor(pool, int) for _ in range(3)]
    gate.set()
    assert await asyncio.gather(first, *others) == [True, 0, 0, 0]
    pool.shutdown()


@pytest.mark.usefixtures("refused")
async def test_without_any_thread_a_call_fails() -> None:
    pool = DaemonThreads()
    with pytest.raises(RuntimeError, match="can't start new thread"):
        await asyncio.get_running_loop().run_in_executor(pool, int)


@pytest.mark.slow
def test_a_process_with_a_hanging_call_can_exit() -> None:
    code = "import time; from elasticd.base.blocking import DaemonThreads as D; D().submit(time.sleep, 1e6); print(1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
