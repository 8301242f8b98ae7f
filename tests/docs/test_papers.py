"""docs/papers.md has what `elasticd reproduce --markdown` prints."""

import re

import pytest

from elasticd.lab.papers.named import PAPERS
from elasticd.lab.papers.printed import measured
from tests.kit.papers import DOCS, PAGE, check_section


@pytest.mark.parametrize("name", PAPERS)
def test_every_paper_has_a_section(name: str) -> None:
    assert f"\n## `{name}`: " in PAGE


def test_pictures_of_the_page_are_those_in_the_folder() -> None:
    named = set(re.findall(r"\(pictures/papers/([\w.-]+)\)", PAGE))
    assert named == {path.name for path in (DOCS / "pictures" / "papers").iterdir()}


QUICK = ("double-threshold", "step-tolerance")
"""Those that take seconds. The others' sections are looked at by the tests in tests/lab/papers."""


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_the_section_is_what_the_command_prints(name: str) -> None:
    (paper,) = measured([(name, PAPERS[name])], range(5))
    check_section(paper, 5)
