"""The built wheel in an empty environment: its examples, demo, manual and completions are there without a checkout."""

import json
import os
import re
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree
from urllib.request import urlopen

import pytest

from tests.kit.daemons import PATIENCE, until
from tests.kube.processes import free_port

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


def test_manual_and_completions_are_where_shells_look(program: Path) -> None:
    share = program.parent.parent / "share"
    names = {str(path.relative_to(share)) for path in share.rglob("*") if path.is_file() and "elasticd" in path.name}
    assert names >= {
        "man/man1/elasticd.1",
        "bash-completion/completions/elasticd",
        "zsh/site-functions/_elasticd",
        "fish/vendor_completions.d/elasticd.fish",
    }


def test_the_examples_are_those_of_the_checkout(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "examples"
    assert run(program, "examples", folder).returncode == 0
    written = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    listed = subprocess.run(["git", "ls-files", "config"], cwd=ROOT, capture_output=True, text=True, check=True)
    shipped = {Path(name).relative_to("config"): (ROOT / name).read_bytes() for name in listed.stdout.split()}
    assert written == shipped
    again = run(program, "examples", folder)
    assert (again.returncode, again.stderr) == (69, f"{folder}: must be a new folder, is there already\n")


def test_a_shipped_policy_is_right(program: Path, tmp_path: Path) -> None:
    run(program, "examples", tmp_path / "examples")
    done = run(program, "check", tmp_path / "examples" / "policies" / "hpa.toml")
    assert (done.returncode, done.stderr) == (0, "")


@contextmanager
def demo(program: Path, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """`elasticd demo`, and the broker that it may run."""
    with (folder.parent / "log").open("w") as log:
        process = subprocess.Popen([program, "demo", folder], stdout=log, stderr=log, text=True, start_new_session=True)
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(PATIENCE)


def decided(port: int) -> set[str]:
    """The workloads of which the daemon at this port has decided something."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/status", timeout=PATIENCE) as answer:
            return {decision["workload"]["name"] for decision in json.load(answer)["decisions"]}
    except OSError:
        return set()


def test_the_demo_runs_and_says_what_it_does_without(program: Path, tmp_path: Path) -> None:
    folder, port = tmp_path / "demo", free_port()
    with demo(program, folder):
        until(lambda: "In another terminal" in (tmp_path / "log").read_text(), "the demo is not written")
    assert "without forecasts, as scipy is not installed" in (tmp_path / "log").read_text()
    settings = folder / "elasticd.toml"
    text = settings.read_text().replace("port = 9464", f"port = {port}")
    settings.write_text(re.sub(r"port = 18830 #", f"port = {free_port()} #", text))
    # What a person has changed stays.
    with demo(program, folder):
        until(lambda: len(decided(port)) >= 8, f"the demo does not decide: {tmp_path / 'log'}")
        with urlopen(f"http://127.0.0.1:{port}/page/main.js", timeout=PATIENCE) as answer:
            assert answer.headers.get_content_type() == "text/javascript"
        explained = run(program, "explain", "shop/Deployment/catalog", "--config", settings)
        assert (explained.returncode, explained.stderr) == (0, "")
        assert "forecast" not in explained.stdout
