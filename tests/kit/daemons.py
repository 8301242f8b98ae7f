"""`elasticd` as a real process on a simulated cluster: its own folders, a free port, and its log to wait on."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from elasticd.cli import main

PATIENCE = 50.0
"""Seconds to wait for a condition. Only a failing test waits that long."""

EVERY = 0.03
"""Seconds between looks at a condition: each may cost the daemon an answer."""

SETTINGS = """
state = "state"
policies = "policies"

[http]
port = 0

[cluster]
type = "simulated"
nodes = [{ name = "node", count = 2, cpu = "4", memory = "16Gi" }]

[[cluster.workloads]]
namespace = "shop"
name = "web"
replicas = 2
cpu = "100m"
start_seconds = 0
demand = { formula = "0.3" }
series = [{ name = "queue", demand = { formula = "40" } }]
"""

POLICY = """
mode = "act"
interval = 0.2
jitter = 0

[workload]
namespace = "shop"
name = "web"

[replicas]
min = 1
max = MAX

[[strategy]]
type = "hpa"
metrics = [{ type = "External", series = "queue", average_value = 10 }]
"""


def policy(most: int = 8) -> str:
    """A policy that wants four replicas, and gets `most` at most."""
    return POLICY.replace("MAX", str(most))


def until(condition: Callable[[], Any], why: str = "") -> Any:
    """Wait for something to be true, and give it."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, why or "it did not come true"
        time.sleep(EVERY)
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is only not yet waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def run(*arguments: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    """One command, to its end."""
    return subprocess.run(
        command(*arguments),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def called(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, output and errors of a command that is called here, where no process of its own is needed."""
    code = main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def command(*arguments: object) -> list[str]:
    """The command line of the installed `elasticd`."""
    return [str(Path(sys.executable).with_name("elasticd")), *map(str, arguments)]


class Daemon:
    """A running daemon."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]", address: str = "", since: int = 0) -> None:
        self.folder, self.process = folder, process
        self._since = since
        self.address = address or self.logged(r"pages at (http://\S+)")[-1]

    @property
    def log(self) -> str:
        """Its stderr so far."""
        return (self.folder / "log").read_text(encoding="utf-8")[self._since :]

    def from_now_on(self) -> "Daemon":
        """The same, whose log begins here."""
        return Daemon(self.folder, self.process, self.address, self._since + len(self.log))

    def logged(self, pattern: str, times: int = 1) -> list[str]:
        """Wait for so many matches in the log."""
        return list(
            until(
                lambda: found if len(found := re.findall(pattern, self.log)) >= times else None,
                f"{pattern!r} is not in the log:\n{self.folder}",
            )
        )

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.address + path, timeout=PATIENCE) as answer:
            return str(answer.read().decode())

    def decision(self) -> dict[str, Any]:
        """The last decision of the policy `web`, as /status shows it."""

        def find() -> list[dict[str, Any]]:
            return [one for one in json.loads(self.get("/status"))["decisions"] if one["policy"] == "web"]

        return dict(until(find, "nothing was decided")[0])

    def replicas(self, count: int) -> None:
        """Wait until the workload has so many replicas."""
        until(lambda: self.decision()["current"] == count, f"there are never {count} replicas:\n{self.log}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


def write(folder: Path, **policies: str) -> Path:
    """Settings and policies; gives the settings' file."""
    (folder / "policies").mkdir(parents=True, exist_ok=True)
    for name, text in policies.items():
        (folder / "policies" / f"{name}.toml").write_text(text)
    (folder / "elasticd.toml").write_text(SETTINGS)
    return folder / "elasticd.toml"


@contextmanager
def daemon(folder: Path, files: int = 1024, **policies: str) -> Iterator[Daemon]:
    """A daemon with these policies, or with those that are there, which may open so many files; ended with the block if
    it has not been before."""
    settings = folder / "elasticd.toml"
    if policies or not settings.exists():
        settings = write(folder, **(policies or {"web": policy()}))
    with (folder / "log").open("wb") as log:
        limited = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command("run", "--config", settings)]
        process = subprocess.Popen(limited, stderr=log, stdout=subprocess.DEVNULL, cwd=folder)
    try:
        yield Daemon(folder, process)
    finally:
        process.kill()
        process.wait()
