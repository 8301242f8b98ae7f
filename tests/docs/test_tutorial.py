"""docs/tutorial.md, followed by the letter: its files are written and its commands run, beside the demo."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from elasticd.base.errors import EXIT_UNAVAILABLE
from elasticd.ui.shipped import write_demo
from tests.kit.daemons import PATIENCE, until
from tests.kube.processes import free_port

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(console|toml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODES = re.compile(r" +# exit code ([\d or]+)$")


class Step(NamedTuple):
    """A command with the exit codes that it may have and what it prints, or a file with its text."""

    command: str = ""
    codes: tuple[int, ...] = (0,)
    printed: str = ""
    file: str = ""
    text: str = ""


def steps() -> Iterator[Step]:
    """What the page tells to do, in order."""
    for kind, block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "toml":
            file, _, text = block.removeprefix("# ").partition("\n")
            yield Step(file=file, text=text)
            continue
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            codes = CODES.search(command)
            numbers = tuple(map(int, codes[1].split(" or "))) if codes else (0,)
            yield Step(CODES.sub("", command), numbers, printed.strip())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder in which `elasticd demo` runs, at ports of its own."""
    write_demo(tmp_path / "elasticd-demo")
    settings = tmp_path / "elasticd-demo" / "elasticd.toml"
    text = settings.read_text().replace("port = 9464", f"port = {free_port()}")
    settings.write_text(text.replace("port = 18830 #", f"port = {free_port()} #"))
    with (tmp_path / "log").open("w") as log:
        command = [str(Path(sys.executable).with_name("elasticd")), "demo"]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path, start_new_session=True)
        try:
            until(lambda: "pages at" in (tmp_path / "log").read_text(), f"the demo does not start: {tmp_path / 'log'}")
            yield tmp_path
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(PATIENCE)


def run(command: str, place: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "COLUMNS": "200"}
    return subprocess.run(
        command, shell=True, cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=100
    )


def test_the_tutorial_can_be_followed_by_the_letter(place: Path) -> None:
    for step in steps():
        if step.file:
            (place / step.file).write_text(step.text)
            continue

        # The daemon takes seconds to decide for the first time, and to see a changed file.
        def done(step: Step = step) -> subprocess.CompletedProcess[str] | None:
            outcome = run(step.command, place)
            return None if outcome.returncode == EXIT_UNAVAILABLE else outcome

        outcome = until(done, f"{step.command}: does not come true")
        assert outcome.returncode in step.codes, (step.command, outcome.stdout + outcome.stderr)
        for line in filter(None, step.printed.splitlines()):
            assert line.removeprefix("...") in outcome.stdout + outcome.stderr, step.command


def test_the_tutorial_has_commands_and_a_policy() -> None:
    found = list(steps())
    assert [step.file for step in found if step.file] == ["elasticd-demo/policies/mine.toml"]
    assert len([step for step in found if step.command]) >= 10
