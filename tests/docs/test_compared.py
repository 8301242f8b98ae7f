"""docs/compared.md answers each row with yes and a page, or with partly or no and a reason; each page has the words."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "compared.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (?!what|-)([^|]+) \| ([^|]+) \| ([^|]*) \|$", PAGE, re.MULTILINE)
LINK = re.compile(r"\[[^\]]+\]\(([\w/-]+\.md)#?([\w-]*)\)((?:,? `[^`]+`)*)")
"""A link's page, its anchor, and the words beside it."""


def part(page: str, anchor: str) -> str:
    """A heading of a page and what stands under it, in lower case and on one line; without an anchor the whole page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    if anchor:
        text = re.sub(r"(?ms)^```.*?^```", lambda block: block[0].replace("\n#", "\n #"), text)
        heading = next(one for one in re.finditer(r"^(#+) (.+)", text, re.MULTILINE) if slug(one[2]) == anchor)
        below = re.split(rf"^#{{1,{len(heading[1])}}} ", text[heading.end() :], maxsplit=1, flags=re.MULTILINE)[0]
        text = heading[2] + below
    return " ".join(text.lower().split())


def slug(heading: str) -> str:
    """What a link names it by."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def missing(how: str) -> Iterator[str]:
    """The words beside its links that do not stand where these lead."""
    for page, anchor, words in LINK.findall(how):
        yield from (word for word in re.findall(r"`([^`]+)`", words) if word.lower() not in part(page, anchor))


@pytest.mark.parametrize(("what", "verdict", "how"), [pytest.param(*row, id=row[0]) for row in ROWS])
def test_each_row_has_a_verdict_and_its_page_or_reason(what: str, verdict: str, how: str) -> None:
    assert verdict in ("yes", "partly", "no")
    if verdict == "yes":
        assert LINK.match(how), what
        assert all(words for _, _, words in LINK.findall(how)), what
    else:
        assert len(how.split()) >= 8, what
    assert list(missing(how)) == []


def test_every_expected_row_and_every_opening_is_answered() -> None:
    expected = PAGE.partition("## What is expected")[2].partition("## What at most")[0]
    openings = PAGE.partition("## What at most")[2].partition("## Operations")[0]
    counted = [len(re.findall(r"^\| (?!what|-)", part, re.MULTILINE)) for part in (expected, openings)]
    assert counted == [52, 36]
