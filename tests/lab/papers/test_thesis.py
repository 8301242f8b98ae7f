"""`elasticd reproduce thesis`: its tables and figures, and the scenario beside them."""

from pathlib import Path

import pytest

from elasticd.cluster.simulated.options import amount
from elasticd.lab.papers import Claim, Reproduction, Work
from elasticd.lab.papers.named import PAPERS
from elasticd.lab.papers.thesis import levelling, preempting, reproduce, scheduling
from elasticd.lab.papers.thesis.pool import GIB
from elasticd.lab.scenario import load_scenario
from elasticd.registry import discover
from tests.kit.papers import check_section

ROOT = Path(__file__).resolve().parents[3]
SCENARIO = ROOT / "config" / "scenarios" / "thesis" / "elasticd.toml"
SEEDS = range(5)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def heard() -> list[tuple[int, int]]:
    return []


@pytest.fixture(scope="module")
def paper(heard: list[tuple[int, int]]) -> Reproduction:
    return reproduce(SEEDS, Work(lambda done, total: heard.append((done, total))))


def test_the_thesis_is_known_by_name(paper: Reproduction) -> None:
    assert PAPERS[paper.name] is reproduce


def test_all_of_the_thesis_is_heard(paper: Reproduction, heard: list[tuple[int, int]]) -> None:
    assert paper.claims
    assert heard[-1][0] == heard[-1][1] == len(heard)


def test_all_but_one_row_of_binding_and_preemption_comes_out(paper: Reproduction) -> None:
    claims = [claim for claim in paper.claims if claim.part.startswith(("binding", "preemption"))]
    (other,) = [claim for claim in claims if claim.verdict != "confirmed"]
    assert (other.part.split(", ")[2].split(":")[0], other.what) == ('mode "product"', "alwaysPod2")
    assert other.note == "pod1, pod2; who is not needed is spared"


def test_the_page_has_what_the_command_prints(paper: Reproduction) -> None:
    check_section(paper, len(SEEDS))


def test_charts_of_the_thesis_have_a_value_for_each_place(paper: Reproduction) -> None:
    assert len({chart.name for chart in paper.charts}) == len(paper.charts)
    for line in (line for chart in paper.charts for line in chart.lines):
        assert len(line.x) == len(line.y)


def test_table_6_12_follows_from_its_ratios_with_coefficients_reversed(paper: Reproduction) -> None:
    rows = {claim.what: claim for claim in paper.claims if claim.part.startswith("levelling, Table 6-12")}
    assert [rows[f"score of node{number}"].verdict for number in (1, 2, 3)] == ["confirmed"] * 3
    assert rows["stdScore, eq. (6-2)"].mean == pytest.approx(0.6382, abs=5e-5)
    reversed_, given = ([row.verdict for what, row in rows.items() if key in what] for key in ("4:2:1", "1:2:4"))
    assert (reversed_, given) == (["confirmed"] * 2, ["not confirmed"] * 2)


def test_moves_level_nodes_between_two_batches(paper: Reproduction) -> None:
    parts = {way: _rows(paper, f"levelling, Figures 6-6 to 6-8: {way}") for way in levelling.WAYS}
    less = {way: rows["less than the default scheduler's at 4, 6, 8 by"].mean for way, rows in list(parts.items())[1:]}
    assert less[levelling.LEVEL] > 25 > max(value for way, value in less.items() if way != levelling.LEVEL)
    assert parts[levelling.PAPER]["pods moved"].mean > 2 * parts[levelling.LEVEL]["pods moved"].mean > 0
    assert parts["static alone"]["pods moved"].measured == (0,) * len(SEEDS)


def test_a_batch_goes_to_one_node_in_the_thesis(paper: Reproduction) -> None:
    odd = {
        way: _rows(paper, f"levelling, Figures 6-6 to 6-8: {way}")["mean stdScore at records 3, 5, 7"].mean
        for way in levelling.WAYS
    }
    assert odd[levelling.PAPER] > 5 * odd[levelling.DEFAULT]
    assert odd[levelling.LEVEL] == pytest.approx(odd[levelling.DEFAULT], abs=0.5)


def test_all_pods_find_one_of_the_seventy_nodes() -> None:
    registry = discover()
    for way in scheduling.TRIED:
        placed = scheduling.run(registry, (way, 200, 0))
        assert placed.bound == 200 < placed.compared <= 70 * 200


def test_times_are_measured_only_where_asked_for(paper: Reproduction) -> None:
    found = {key: scheduling.Placed(key[1], key[1], key[1] / 1000) for key in scheduling.keys([0])}
    without, timed = (list(scheduling.claims(found, [0], times=times)) for times in (False, True))
    assert not any(claim.unit == "s" for claim in without)
    assert {claim.verdict for claim in without if claim.what in scheduling.SAID} == {"cannot be compared"}
    assert "differ from run to run" in timed[-1].part
    assert {claim.what for claim in timed} >= set(scheduling.SAID)
    assert [chart.y.unit for chart in paper.charts if chart.picture == "thesis-scheduling"] == ["thousands"]


def test_the_scenario_has_the_nodes_and_pods_of_the_experiment() -> None:
    scenario = load_scenario(SCENARIO, discover())
    nodes = [(node.name, amount("cpu", node.cpu), amount("memory", node.memory)) for node in scenario.cluster.nodes]
    assert nodes == [(name, cores, gib * GIB) for name, (cores, gib) in levelling.SIZES.items()]
    bare = [table for table in scenario.cluster.workloads if table.bare]
    assert {(table.at, table.restart_policy, table.replicas) for table in bare} == {
        (float(batch * levelling.APART), kind, levelling.EACH)
        for batch in range(levelling.BATCHES)
        for kind in levelling.CLASSES
    }
    policies = {candidate.name: candidate.policies[0].strategies for candidate in scenario.candidates}
    ways = {"default-scheduler": levelling.DEFAULT, "thesis": levelling.PAPER, "static-with-rebalance": levelling.LEVEL}
    registry = discover()
    assert policies == {name: levelling.policy(registry, way).strategies for name, way in ways.items()}


def _rows(paper: Reproduction, part: str) -> dict[str, Claim]:
    return {claim.what: claim for claim in paper.claims if claim.part == part}


@pytest.mark.parametrize("way", preempting.WAYS)
def test_a_filled_node_runs_no_more_than_fit(way: str) -> None:
    node = preempting.FilledNode(preempting.strategies_for(discover(), way), room=3)
    node.offer(["Never", "OnFailure", "Always", "Always"])
    assert node.counts == ((1, 1, 1) if way == preempting.DEFAULT else (2, 1, 0))
