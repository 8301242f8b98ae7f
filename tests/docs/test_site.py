"""The site of the documentation: every page is in its navigation, in one kind; and no link is lost."""

import re
from pathlib import Path

import pytest

from tests.docs.test_links import ROOT

DOCS = ROOT / "docs"
INDEX = (DOCS / "README.md").read_text(encoding="utf-8")
KINDS = ("Tutorial", "How-to", "Reference", "Explanation")


def linked(kind: str) -> set[Path]:
    """The pages that the section of a kind links."""
    section = INDEX.partition(f"\n## {kind}\n")[2].partition("\n## ")[0]
    targets = {DOCS / link for link in re.findall(r"\]\(([\w/.-]+?)\)", section)}
    return {page for target in targets for page in (target.glob("*.md") if target.is_dir() else [target])}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_pages(kind: str) -> None:
    assert linked(kind)


def test_every_page_is_of_one_kind() -> None:
    pages = {path for path in DOCS.rglob("*.md") if path != DOCS / "README.md"}
    found = [page for kind in KINDS for page in linked(kind)]
    assert sorted(found) == sorted(pages)
