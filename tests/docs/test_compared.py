"""docs/compared.md answers each row with yes and a page, or with partly or no and a reason."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "compared.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (?!what|-)([^|]+) \| ([^|]+) \| ([^|]*) \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("what", "verdict", "how"), [pytest.param(*row, id=row[0]) for row in ROWS])
def test_each_row_has_a_verdict_and_its_page_or_reason(what: str, verdict: str, how: str) -> None:
    assert verdict in ("yes", "partly", "no")
    if verdict == "yes":
        assert re.match(r"\[[^\]]+\]\([\w/-]+\.md", how), what
    else:
        assert len(how.split()) >= 8, what


def test_every_expected_row_and_every_opening_is_answered() -> None:
    expected = PAGE.partition("## What is expected")[2].partition("## What at most")[0]
    openings = PAGE.partition("## What at most")[2].partition("## Operations")[0]
    counted = [len(re.findall(r"^\| (?!what|-)", part, re.MULTILINE)) for part in (expected, openings)]
    assert counted == [52, 36]
