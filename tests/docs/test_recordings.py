"""The example of docs/recordings.md, taken from the page: it prints what the page says."""

import re
from pathlib import Path

import pytest

from elasticd.sources.recorded.files import COLUMNS
from tests.kit.daemons import called

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recordings.md"
FILES = ("monday.csv", "elasticd.toml", "policies/checkout.toml")


def test_the_example_prints_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    *texts, session = re.findall(r"```\w+\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "policies").mkdir()
    for name, text in zip(FILES, texts, strict=True):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    command, _, printed = session.removeprefix("$ elasticd ").partition("\n")
    code, out, err = called(capsys, *command.split())
    assert (code, err) == (0, "")
    assert [line.rstrip() for line in out.splitlines()] == printed.splitlines()


def test_every_column_is_in_the_table() -> None:
    named = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert tuple(named) == COLUMNS
