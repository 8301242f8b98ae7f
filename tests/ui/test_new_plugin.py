"""A new plugin: the package that is written can be tested and used as it is."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from elasticd import cli
from elasticd.base.errors import ConfigError, UnavailableError
from elasticd.registry import Registry, discover
from elasticd.ui.new_plugin import KINDS, write_plugin

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
FILES = ["README.md", "elasticd_queue_length.py", "pyproject.toml", "test_elasticd_queue_length.py"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_package_of_each_kind_passes_its_own_test(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["plugins", "new", "queue-length", "--kind", kind]) == 0
    place = tmp_path / "queue-length"
    assert sorted(path.name for path in place.iterdir()) == FILES
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert len((place / "README.md").read_text().splitlines()) <= 12


def test_a_folder_that_is_there_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").mkdir()
    assert cli.main(["plugins", "new", "orders"]) == 69
    assert capsys.readouterr().err == "orders: must be a new folder, is there already\n"
    assert list((tmp_path / "orders").iterdir()) == []


@pytest.mark.parametrize("taken", ["hpa", "elasticd-hpa", "prometheus", "timed-limits", "plugins"])
def test_a_name_that_is_taken_is_refused(taken: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f'^NAME: must be a new one, "{taken.removeprefix("elasticd-")}" is taken$'):
        write_plugin(taken, "strategy", discover(), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "Orders", "a_b", "../up", "a--b", "1st", "-x", "a/b", "x" * 64, "a\n"])
def test_a_name_that_cannot_be_one_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^NAME: must be words of lowercase letters or digits"):
        write_plugin(name, "strategy", Registry(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"nowhere/orders: must be writable, is not: No such file"):
        write_plugin("orders", "strategy", Registry(), tmp_path / "nowhere")


def test_the_command_says_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["plugins", "new", "orders", "--kind", "scorer"]) == 0
    assert capsys.readouterr().out == "orders: a scorer, with its test: python -m pytest orders\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["new"], "NAME: must be given after new, is missing", id="no name"),
        pytest.param(["hpa", "orders"], 'hpa: must be "new" before another name, is not', id="two names"),
        pytest.param(["hpa", "--kind", "limit"], "--kind: must stand beside new NAME, does not", id="kind of another"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["plugins", *words]) == 78
    assert capsys.readouterr().err == f"{message}\n"


def test_every_template_is_in_the_built_package() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["elasticd.ui"]
    ui = ROOT / "elasticd" / "ui"
    assert {path for pattern in patterns for path in ui.glob(pattern)} == set((ui / "templates").iterdir())
