"""The example of docs/recordings.md, taken from the page: it prints what the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from elasticd.sources.recorded.files import COLUMNS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recordings.md"
FILES = ("monday.csv", "elasticd.toml", "policies/checkout.toml", "replay.py")


@pytest.mark.slow
def test_the_example_prints_what_the_page_says(tmp_path: Path) -> None:
    *texts, printed = re.findall(r"```\w+\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "policies").mkdir()
    for name, text in zip(FILES, texts, strict=True):
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-W", "error", "replay.py"],
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == (printed, "")


def test_every_column_is_in_the_table() -> None:
    named = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert tuple(named) == COLUMNS
