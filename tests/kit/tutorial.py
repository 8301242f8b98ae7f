"""A page of docs/ as steps: files to write and commands to run, with the exit codes and lines that it promises.

Knows how the page is written; knows nothing of the environment in which it is followed.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from elasticd.base.errors import EXIT_UNAVAILABLE
from tests.kit.daemons import PATIENCE, until
from tests.kube.processes import free_port

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```(console|toml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODES = re.compile(r" +# exit code ([\d or]+)$")


class Step(NamedTuple):
    """A command with the exit codes that it may have and what it prints, or a file with its text."""

    command: str = ""
    codes: tuple[int, ...] = (0,)
    printed: str = ""
    file: str = ""
    text: str = ""


def steps(page: str) -> Iterator[Step]:
    """What docs/PAGE tells to do, in order."""
    for kind, block in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        if kind == "toml":
            file, _, text = block.removeprefix("# ").partition("\n")
            yield Step(file=file, text=text)
            continue
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            codes = CODES.search(command)
            numbers = tuple(map(int, codes[1].split(" or "))) if codes else (0,)
            yield Step(CODES.sub("", command), numbers, printed.strip())


@contextmanager
def demo(program: Path, folder: Path) -> Iterator[Path]:
    """`elasticd demo` in a folder, and the broker that it may run; yields its log."""
    log = folder / "log"
    with log.open("w") as output:
        command = [str(program), "demo"]
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, start_new_session=True)
        try:
            yield log
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(PATIENCE)


def at_free_ports(settings: Path) -> None:
    """Give the demo's pages and broker ports that nobody else has."""
    text = settings.read_text().replace("port = 9464", f"port = {free_port()}")
    settings.write_text(text.replace("port = 18830 #", f"port = {free_port()} #"))


def follow(told: Iterable[Step], program: Path, place: Path, **environment: str) -> None:
    """Do these steps in a folder, `program` being elasticd; fail at the first that does not do what the page says."""
    for step in told:
        if step.file:
            (place / step.file).write_text(step.text)
            continue

        # The daemon takes seconds to decide for the first time, and to see a changed file.
        def done(command: str = step.command) -> subprocess.CompletedProcess[str] | None:
            outcome = _run(command, program, place, environment)
            return None if outcome.returncode == EXIT_UNAVAILABLE else outcome

        outcome = until(done, f"{step.command}: finds nothing")
        assert outcome.returncode in step.codes, (step.command, outcome.stdout + outcome.stderr)
        for line in filter(None, step.printed.splitlines()):
            assert line.removeprefix("...") in outcome.stdout + outcome.stderr, step.command


def _run(command: str, program: Path, place: Path, more: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "200", **more}
    return subprocess.run(
        command, shell=True, cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=100
    )
