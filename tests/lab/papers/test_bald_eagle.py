"""The bald eagle paper measured again, on fewer pods and with fewer runs."""

from math import isnan
from operator import mul
from pathlib import Path

import pytest

from elasticd.cluster.simulated.options import amount
from elasticd.lab.papers import Reproduction, Work
from elasticd.lab.papers.bald_eagle import FINDINGS, UNKNOWN, reproduce
from elasticd.lab.papers.bald_eagle.placing import GREEDY, LRA, SEARCHES, TBESK, WAYS, place
from elasticd.lab.papers.bald_eagle.pool import FOUR, GIGA, MIB, TABLE_3, paper_pool
from elasticd.lab.papers.named import PAPERS
from elasticd.lab.scenario import load_scenario
from elasticd.registry import discover

ROOT = Path(__file__).resolve().parents[3]
SCENARIO = ROOT / "config" / "scenarios" / "bald-eagle" / "elasticd.toml"
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def heard() -> list[tuple[int, int]]:
    return []


@pytest.fixture(scope="module")
def paper(heard: list[tuple[int, int]]) -> Reproduction:
    return reproduce([0], Work(lambda done, total: heard.append((done, total))), counts=(40, 80), runs=1)


def test_it_is_known_by_the_strategys_name(paper: Reproduction) -> None:
    assert PAPERS[paper.name] is reproduce
    assert paper.name in discover().strategies


def test_all_is_heard(paper: Reproduction, heard: list[tuple[int, int]]) -> None:
    assert paper.claims
    assert heard[-1][0] == heard[-1][1] == len(heard)


def test_both_searches_reach_the_least_values_at_0(paper: Reproduction) -> None:
    reached = {(claim.part.split(",")[0], claim.what): claim.verdict for claim in paper.claims}
    for function in ("Griewank", "Ackley", "Sphere"):
        for search in ("TBESK", "BES"):
            assert reached[function, f"{search}: worst"] == "confirmed"


def test_the_paper_stands_beside_each_way_and_count(paper: Reproduction) -> None:
    for count in (40, 80):
        claims = [claim for claim in paper.claims if claim.part == f"{count} pods on 31 nodes: imbalance Z"]
        assert [claim.what for claim in claims][: len(WAYS)] == list(WAYS)
        assert [claim.paper for claim in claims if claim.paper] == ["24 %", "21 %"] * 2


def test_every_row_stands_on_the_page(paper: Reproduction) -> None:
    """The figures take minutes: `elasticd reproduce bald-eagle --markdown` prints them."""
    page = " ".join(PAGE.split())
    assert [claim.what for claim in paper.claims if f"| {claim.what} | {claim.paper or '-'} | " not in page] == []
    assert [text for text in (*FINDINGS, *UNKNOWN) if text not in page] == []


def test_the_scenario_has_the_papers_nodes_and_as_many_pods() -> None:
    scenario = load_scenario(SCENARIO, discover())
    nodes = scenario.cluster.nodes
    have = [{"cpu": node.cpu, "memory": node.memory, **node.resources} for node in nodes]
    amounts = [tuple(amount(resource, has[resource]) for resource in FOUR) for has in have]
    assert amounts == [tuple(map(mul, row, (1, MIB, GIGA, GIGA))) for row in TABLE_3]
    assert sum(node.count for node in nodes) == 31
    assert sum(table.replicas for table in scenario.cluster.workloads) == 1800
    assert len(scenario.candidates) == 5


@pytest.mark.parametrize("way", [LRA, TBESK, GREEDY])
def test_all_pods_find_a_node(way: str) -> None:
    places, score = place(discover(), way, paper_pool(50))
    assert sorted(places) == list(range(50))
    assert isnan(score) == (way not in SEARCHES)


def test_charts_have_as_many_values_as_places(paper: Reproduction) -> None:
    assert len({chart.name for chart in paper.charts}) == len(paper.charts) == 9
    for line in (line for chart in paper.charts for line in chart.lines):
        assert len(line.x) == len(line.y)
        assert len(line.low) == len(line.high) == (len(line.y) if line.low else 0)
