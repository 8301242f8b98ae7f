"""The watchdog of the event loop: what it counts, whom it names, and that a blocked daemon ends."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from elasticd.base.errors import EXIT_BLOCKED
from elasticd.base.stacks import frames_of
from elasticd.telemetry.watchdog import END_AFTER, Blockage, culprit, seconds_without_processor
from tests.kit.daemons import PATIENCE, daemon, policy, write

TURN, QUIET = True, False


def steps(*ticks: bool, starved: float = 0.0) -> list[str]:
    """What a watchdog does at each of these ticks."""
    blockage = Blockage()
    return [blockage.tick(turned=turned, starved=starved) for turned in ticks]


@pytest.mark.parametrize(
    ("ticks", "done"),
    [
        pytest.param([TURN] * 30, {}, id="a loop that turns"),
        pytest.param([QUIET] * 4 + [TURN] * 9, {}, id="a pause of 4 ticks"),
        pytest.param([*[QUIET] * 4, TURN] * 9, {}, id="one pause after another"),
        pytest.param([QUIET] * 11, {5: "name"}, id="one line for each blockage"),
        pytest.param([QUIET] * 11 + [TURN] * 2, {5: "name", 12: "turns again"}, id="it turns at the last moment"),
        pytest.param(
            [*[QUIET] * 5, TURN] * 2, {5: "name", 6: "turns again", 11: "name", 12: "turns again"}, id="twice blocked"
        ),
        pytest.param([QUIET] * 12, {5: "name", 12: "end"}, id="it never turns"),
    ],
)
def test_it_counts_ticks_in_a_row_without_a_turn(ticks: list[bool], done: dict[int, str]) -> None:
    assert {number: step for number, step in enumerate(steps(*ticks), 1) if step} == done


@pytest.mark.parametrize(
    ("starved", "named", "ended"),
    [(0.0, 5, 12), (0.5, 10, 24), (0.75, 20, 48), (1.0, None, None)],
    ids=["a processor for itself", "half of one", "a quarter", "none"],
)
def test_time_without_a_processor_is_not_counted(starved: float, named: int | None, ended: int | None) -> None:
    begun = steps(*[QUIET] * 260, starved=starved)
    assert [begun.index(step) + 1 if step in begun else None for step in ("name", "end")] == [named, ended]


def test_a_thread_that_waits_for_nothing_is_not_starved() -> None:
    before = seconds_without_processor(threading.current_thread())
    assert 0 <= before <= seconds_without_processor(threading.current_thread())


def test_a_thread_that_has_ended_is_not_starved() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    folder = Path(f"/proc/self/task/{thread.native_id}")
    while folder.exists():  # the kernel's thread outlives Python's for a moment
        os.sched_yield()
    assert seconds_without_processor(thread) == 0


class Plugin:
    """Blocks its thread until it is released."""

    def __init__(self) -> None:
        self.entered, self.release = threading.Event(), threading.Event()

    def wait(self) -> None:
        self.entered.set()
        self.release.wait(PATIENCE)


def stuck(plugin: Plugin, call: Callable[[], object]) -> str:
    """Who is named while the loop of a thread makes this call."""

    async def turn() -> None:
        asyncio.get_running_loop().call_soon(call)
        await asyncio.sleep(0)

    thread = threading.Thread(target=lambda: asyncio.run(turn()), daemon=True)
    thread.start()
    assert plugin.entered.wait(PATIENCE)
    try:
        return culprit(frames_of(thread))
    finally:
        plugin.release.set()
        thread.join()


def own(call: Callable[[], object]) -> Callable[[], object]:
    """A call from a function of elasticd's."""
    namespace = {"__name__": "elasticd.runtime.loop", "call": call}
    exec(compile("def tick():\n    call()\n", "/opt/elasticd/runtime/loop.py", "exec"), namespace)
    tick: Callable[[], object] = namespace["tick"]  # type: ignore[assignment]
    return tick


def test_the_function_that_elasticd_called_is_named() -> None:
    plugin = Plugin()
    named = stuck(plugin, own(plugin.wait))
    assert named.startswith(f"{__name__}.Plugin.wait ({__file__}:")
    assert "), called by elasticd.runtime.loop.tick (/opt/elasticd/runtime/loop.py:2); now at threading." in named


def test_a_callback_of_its_own_is_named() -> None:
    plugin = Plugin()
    named = stuck(plugin, plugin.wait)
    assert named.startswith(f"{__name__}.Plugin.wait ({__file__}:")
    assert "called by" not in named


BLOCKING = """
import asyncio, logging, sys, time
from pathlib import Path
from elasticd import daemon
from elasticd.model.records import Decision
from elasticd.telemetry import log

class Shop:
    def on(self, record):
        while isinstance(record, Decision):
            CALL

log.set_up(sys.stderr)
asyncio.run(daemon.run(Path("elasticd.toml"), [Shop()]))
"""


@contextmanager
def blocked(folder: Path, call: str) -> Iterator["subprocess.Popen[str]"]:
    """A daemon whose first decision makes a listener repeat this call for ever."""
    write(folder, web=policy())
    (folder / "shop.py").write_text(BLOCKING.replace("CALL", call))
    command = [sys.executable, "shop.py"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_blocked_daemon_names_the_function_and_ends(tmp_path: Path) -> None:
    with blocked(tmp_path, "time.sleep(1000)") as process:
        _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == EXIT_BLOCKED == 70
    lines = [line for line in log.splitlines() if "does not turn" in line]
    assert [line.split()[1] for line in lines] == ["ERROR", "CRITICAL"]
    where = f"it is in __main__.Shop.on ({tmp_path / 'shop.py'}:11), called by elasticd.model.listener.tell ("
    assert all(where in line for line in lines)
    assert lines[1].endswith("; the daemon ends, so that another can lead")


@pytest.mark.slow
def test_a_log_that_nobody_reads_keeps_no_daemon_alive(tmp_path: Path) -> None:
    with blocked(tmp_path, 'logging.getLogger("elasticd").warning("x" * 500)') as process:
        assert process.wait(PATIENCE) == EXIT_BLOCKED


@pytest.mark.slow
def test_a_daemon_that_was_stopped_and_continued_goes_on(tmp_path: Path) -> None:
    with daemon(tmp_path) as running:
        running.decision()
        pid = running.process.pid
        subprocess.run(["sh", "-c", f"kill -STOP {pid}; sleep {END_AFTER + 3}; kill -CONT {pid}"], check=True)
        running.replicas(4)
        assert running.stop() == 0
        assert "does not turn" not in running.log
