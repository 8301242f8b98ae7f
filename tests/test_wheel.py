"""The built wheel in an empty environment: its examples, manual and completions are there, and the tutorial works."""

import re
import subprocess
import sys
import venv
from pathlib import Path
from shutil import copytree
from urllib.request import urlopen

import pytest

from tests.kit.daemons import PATIENCE, until
from tests.kit.tutorial import at_free_ports, demo, follow, steps

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[1]
BUILT_FROM = ("elasticd", "plugins", "config", "docs/reference", "pyproject.toml", "README.md", "LICENSE")
QUIET = ("--quiet", "--disable-pip-version-check")


def pip(python: Path | str, *arguments: str | Path) -> None:
    subprocess.run([python, "-m", "pip", arguments[0], *QUIET, *arguments[1:]], check=True)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`elasticd` of an environment that has the wheel and what requirements.lock names, and nothing else."""
    source, place = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            copytree(ROOT / name, source / name)
        else:
            (source / name).write_bytes((ROOT / name).read_bytes())
    pip(sys.executable, "wheel", "--no-index", "--no-build-isolation", "--no-deps", "--wheel-dir", place, source)
    (wheel,) = place.glob("*.whl")
    venv.create(place / "venv", with_pip=True)
    python = place / "venv" / "bin" / "python"
    pip(python, "install", "--require-hashes", "--requirement", ROOT / "requirements.lock")
    pip(python, "install", "--no-index", "--no-deps", wheel)
    return python.with_name("elasticd")


def run(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE)


# One test for all files, as each worker that has a test of these makes an environment of its own.
def test_the_package_brings_its_manual_completions_and_examples(program: Path, tmp_path: Path) -> None:
    share, folder = program.parent.parent / "share", tmp_path / "examples"
    names = {str(path.relative_to(share)) for path in share.rglob("*") if path.is_file() and "elasticd" in path.name}
    assert names >= {
        "man/man1/elasticd.1",
        "bash-completion/completions/elasticd",
        "zsh/site-functions/_elasticd",
        "fish/vendor_completions.d/elasticd.fish",
    }
    assert run(program, "examples", folder).returncode == 0
    written = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    listed = subprocess.run(["git", "ls-files", "config"], cwd=ROOT, capture_output=True, text=True, check=True)
    shipped = {Path(name).relative_to("config"): (ROOT / name).read_bytes() for name in listed.stdout.split()}
    assert written == shipped
    again = run(program, "examples", folder)
    assert (again.returncode, again.stderr) == (69, f"{folder}: must be a new folder, is there already\n")
    done = run(program, "check", folder / "policies" / "hpa.toml")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_tutorial_can_be_followed_by_the_letter(program: Path, tmp_path: Path) -> None:
    with demo(program, tmp_path) as log:
        until(lambda: "In another terminal" in log.read_text(), "the demo is not written")
    assert "without forecasts, as scipy is not installed" in log.read_text()
    at_free_ports(tmp_path / "elasticd-demo" / "elasticd.toml")
    # What a person has changed stays.
    with demo(program, tmp_path) as log:
        address = until(lambda: re.findall(r"pages at (http://\S+)", log.read_text()), f"it does not start: {log}")[0]
        with urlopen(f"{address}/page/main.js", timeout=PATIENCE) as answer:
            assert answer.headers.get_content_type() == "text/javascript"
        follow(steps("tutorial.md"), program, tmp_path)


def test_the_tutorial_has_commands_and_a_policy() -> None:
    found = list(steps("tutorial.md"))
    assert [step.file for step in found if step.file] == ["elasticd-demo/policies/mine.toml", "orders.toml"]
    assert len([step for step in found if step.command]) >= 10
