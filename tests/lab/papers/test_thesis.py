"""`elasticd reproduce thesis`: binding and preemption as the thesis has them, and what its page says."""

from pathlib import Path

import pytest

from elasticd.lab.papers import Reproduction
from elasticd.lab.papers.named import PAPERS
from elasticd.lab.papers.printed import markdown
from elasticd.lab.papers.thesis import preempting, reproduce
from elasticd.registry import discover

PAGE = Path(__file__).resolve().parents[3] / "docs" / "papers.md"
SEEDS = range(5)


@pytest.fixture(scope="module")
def heard() -> list[tuple[int, int]]:
    return []


@pytest.fixture(scope="module")
def paper(heard: list[tuple[int, int]]) -> Reproduction:
    return reproduce(SEEDS, lambda done, total: heard.append((done, total)))


def test_the_thesis_is_known_by_name(paper: Reproduction) -> None:
    assert PAPERS[paper.name] is reproduce


def test_all_of_the_thesis_is_heard(paper: Reproduction, heard: list[tuple[int, int]]) -> None:
    assert paper.claims
    assert heard[-1][0] == heard[-1][1] == len(heard)


def test_all_but_one_row_comes_out(paper: Reproduction) -> None:
    (other,) = [claim for claim in paper.claims if claim.verdict != "confirmed"]
    assert (other.part.split(", ")[2].split(":")[0], other.what) == ('mode "product"', "alwaysPod2")
    assert other.note == "pod1, pod2; who is not needed is spared"


def test_the_page_has_what_the_command_prints(paper: Reproduction) -> None:
    assert markdown(paper, len(SEEDS)) in PAGE.read_text(encoding="utf-8")


def test_charts_of_the_thesis_have_a_value_for_each_place(paper: Reproduction) -> None:
    assert len({chart.name for chart in paper.charts}) == len(paper.charts)
    for line in (line for chart in paper.charts for line in chart.lines):
        assert len(line.x) == len(line.y)


@pytest.mark.parametrize("way", preempting.WAYS)
def test_a_filled_node_runs_no_more_than_fit(way: str) -> None:
    node = preempting.FilledNode(preempting.strategies_for(discover(), way), room=3)
    node.offer(["Never", "OnFailure", "Always", "Always"])
    assert node.counts == ((1, 1, 1) if way == preempting.DEFAULT else (2, 1, 0))
