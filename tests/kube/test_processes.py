"""That programs are ended by whoever started them, and that one which dies is named."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from tests.kit.daemons import is_alive
from tests.kube.client import wait_until
from tests.kube.processes import Program, ProgramDied

PARENT = """
import signal, sys
from pathlib import Path
from tests.kube.processes import Program
program = Program("child", ["sleep", "60"], Path(sys.argv[1]))
program.start()
print(program.pid, flush=True)
signal.pause()
"""
SPINNING = """
import threading
for _ in range(8):
    threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()
print("up", flush=True)
"""


def states_of_threads(pid: int) -> set[str]:
    """The states of a process's threads: R runs, S sleeps, T is stopped."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks}


async def test_program_that_dies_is_named_with_its_last_words(tmp_path: Path) -> None:
    program = Program("broken", ["sh", "-c", "echo no such flag; exit 3"], tmp_path / "log")
    program.start()

    def died() -> bool:
        try:
            program.check()
        except ProgramDied:
            return True
        return False

    await wait_until(died)
    with pytest.raises(ProgramDied, match=r"broken ended with code 3(.|\n)*no such flag"):
        program.check()
    await program.stop()
    program.check()


@pytest.mark.parametrize("command", ["exec sleep 60", "trap '' TERM; while :; do sleep 0.05; done"])
async def test_stop_ends_what_ignores_it(tmp_path: Path, command: str) -> None:
    program = Program("stubborn", ["sh", "-c", f"echo up; {command}"], tmp_path / "log")
    program.start()
    await wait_until(lambda: "up" in program.tail())
    pid = program.pid
    await program.stop(grace=0.2)
    assert not is_alive(pid)


async def test_stop_ends_what_hangs(tmp_path: Path) -> None:
    program = Program("hung", ["sleep", "60"], tmp_path / "log")
    program.start()
    pid = program.pid
    program.signal(signal.SIGSTOP)
    await program.stop()
    assert not is_alive(pid)


async def test_a_stopped_program_has_stopped_before_the_next_line(tmp_path: Path) -> None:
    program = Program("busy", [sys.executable, "-c", SPINNING], tmp_path / "log")
    program.start()
    await wait_until(lambda: "up" in program.tail())
    for _ in range(9):
        program.signal(signal.SIGSTOP)
        assert states_of_threads(program.pid) == {"T"}
        program.signal(signal.SIGCONT)
    await program.kill()


async def test_nothing_survives_a_killed_test_run(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path / "log")]
    here = Path(__file__).parents[2]
    parent = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=here)
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    assert is_alive(child)
    parent.kill()
    await parent.wait()
    await wait_until(lambda: not is_alive(child))
