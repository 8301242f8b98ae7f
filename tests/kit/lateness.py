"""How late a daemon's decisions about one workload come, by its journal as somebody sees it grow.

Knows the journal's lines and the scheduler of Linux; knows nothing of why a decision is late.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

LOOKS = 0.01
"""Seconds between looks at the journal."""


class Late(NamedTuple):
    """A decision that was to be found at a time, and by how many seconds it came later, but for those for which the
    daemon's main thread had no processor."""

    due: float
    seconds: float


class Lateness:
    """Reads the lines of a journal as they are written. `decisions` are those so far of one policy of so many seconds'
    interval, without jitter."""

    def __init__(self, state: Path, pid: int, policy: str, interval: float) -> None:
        self._state, self._pid, self._interval = state, pid, interval
        self._mark = f'"policy":"{policy}"'.encode()
        self._read: dict[str, int] = {}
        self._rest = b""
        self._due: tuple[float, float] | None = None
        """When the next one is due, and for how long the thread had waited when the last one was found."""
        self.decisions: list[Late] = []

    def look(self) -> None:
        """Read what has been written since."""
        waited, now = waiting(self._pid), time.time()
        for at in self._new():
            if self._due is not None:
                due, before = self._due
                self.decisions.append(Late(due, max(0.0, now - due - (waited - before))))
            self._due = at + self._interval, waited

    def _new(self) -> Iterator[float]:
        paths = sorted(self._state.glob("journal-*.jsonl"))
        for path in paths[-1:]:
            with path.open("rb") as file:
                file.seek(self._read.get(path.name, 0))
                text = file.read()
                self._read[path.name] = file.tell()
            *lines, self._rest = (self._rest + text).split(b"\n")
            for line in lines:
                if line.startswith(b'{"type":"decision"') and self._mark in line:
                    yield json.loads(line)["at"]


def waiting(pid: int) -> float:
    """The seconds for which a process's main thread was ready to run and waited for a processor; 0 if unknown."""
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


@contextmanager
def watched(lateness: Lateness) -> Iterator[Lateness]:
    """Look again and again, in a thread of its own, as long as the block runs."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(LOOKS):
            lateness.look()

    thread = threading.Thread(target=run, name="lateness")
    thread.start()
    try:
        yield lateness
    finally:
        stop.set()
        thread.join()
