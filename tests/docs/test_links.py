"""Every link between pages, and to a source file, leads somewhere; and every path that a page names exists."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {".venv", "build"}
PAGES = sorted(path for path in ROOT.rglob("*.md") if SKIPPED.isdisjoint(part for part in path.relative_to(ROOT).parts))
FOLDERS = "elasticd|plugins|tests|docs|config|systemd"
TO_BE_WRITTEN = re.compile(r"NAME|^elasticd/sources/rabbitmq\.py$")
"""Paths of files that a reader is told to write."""


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@cache
def anchors(page: Path) -> frozenset[str]:
    """What a link may name of a page: its headings, as GitHub makes anchors of them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def links(page: Path) -> list[str]:
    """The targets of its links, but for those to other places."""
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)) if "://" not in link]


def broken(page: Path) -> Iterator[str]:
    """Its links that lead nowhere."""
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


def missing(page: Path) -> Iterator[str]:
    """The paths in its text of which there is no file."""
    for path in re.findall(rf"(?<![\w/.-])((?:{FOLDERS})/[\w/.-]*\w\.(?:py|md|toml|yaml|sh|csv))\b", page.read_text()):
        if not TO_BE_WRITTEN.search(path) and not (ROOT / path).exists():
            yield path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert list(broken(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    assert list(missing(page)) == []
