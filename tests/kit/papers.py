"""docs/papers.md beside what `elasticd reproduce` prints and draws. Knows the page; knows no paper."""

from pathlib import Path

from elasticd.lab.papers import Reproduction
from elasticd.lab.papers.pictures import pictures
from elasticd.lab.papers.printed import all_papers_markdown, markdown
from elasticd.lab.plot import draw

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "papers.md").read_text(encoding="utf-8")


def check_section(paper: Reproduction, seeds: int) -> None:
    """The page has the section, its rows in the table of all papers, and its pictures, byte for byte."""
    assert markdown(paper, seeds) in PAGE
    rows = all_papers_markdown([paper]).splitlines()[2:]
    assert rows
    assert [row for row in rows if row not in PAGE] == []
    for picture, charts in pictures(paper).items():
        assert draw(charts, "svg") == (DOCS / "pictures" / "papers" / f"{picture}.svg").read_bytes()
