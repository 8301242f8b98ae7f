"""docs/papers.md has what `elasticd reproduce --markdown` prints."""

from pathlib import Path

import pytest

from elasticd.lab.papers.named import PAPERS
from elasticd.lab.papers.printed import markdown, measured

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "papers.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAPERS)
def test_every_paper_has_a_section(name: str) -> None:
    assert f"\n## `{name}`: " in PAGE


QUICK = [name for name in PAPERS if name != "bald-eagle"]
"""Those that take seconds. The other's page is looked at by tests/lab/papers/test_bald_eagle.py."""


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_the_section_is_what_the_command_prints(name: str) -> None:
    (paper,) = measured([(name, PAPERS[name])], range(5))
    assert markdown(paper, 5) in PAGE
