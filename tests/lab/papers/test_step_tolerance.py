"""The step-tolerance paper measured again: its table, its runs, and the scenario beside them."""

from math import inf, isnan
from pathlib import Path

import pytest

from elasticd.lab.papers import Reproduction, Work
from elasticd.lab.papers.named import PAPERS
from elasticd.lab.papers.sata import REQUESTS, THEIRS, fewer
from elasticd.lab.papers.seconds import Second, strategy_of
from elasticd.lab.papers.step_tolerance import (
    OLD_HPA,
    PAIRS,
    PRODUCT,
    RATIO,
    READ,
    ROOM,
    TODAY,
    WAYS,
    balance,
    ended,
    lost,
    reproduce,
)
from elasticd.lab.scenario import load_scenario
from elasticd.registry import discover

SCENARIO = Path(__file__).parents[3] / "config" / "scenarios" / "step-tolerance" / "elasticd.toml"


@pytest.fixture(scope="module")
def paper() -> Reproduction:
    return reproduce(range(2), Work())


def test_it_is_known_by_the_strategys_name(paper: Reproduction) -> None:
    assert PAPERS[paper.name] is reproduce
    assert paper.name in discover().strategies


def test_the_papers_table_contradicts_itself_in_seven_places(paper: Reproduction) -> None:
    claims = [claim for claim in paper.claims if claim.part.startswith("the paper's own table")]
    wrong = {claim.what: round(claim.measured[0], 2) for claim in claims if claim.verdict == "not confirmed"}
    assert len(claims) == 20
    assert wrong == {
        "fewer failed, all together": 96.58,
        "the same from the durations": 2.97,
        "SATA, 500 clients: requests/s from the duration": 12398.33,
        "SATA, 1000 clients: requests/s from the duration": 13729.47,
        "SATA, 250 clients: waiting from the duration": 25.11,
        "SATA, 500 clients: waiting from the duration": 40.33,
        "SATA, 1000 clients: waiting from the duration": 72.84,
    }


def test_rows_without_failures_have_no_reduction() -> None:
    assert fewer([5.0, 1.0], [10.0, 0.0]) == 50
    assert isnan(fewer([1.0], [0.0]))


def test_a_run_ends_within_the_second_of_its_last_request() -> None:
    seconds = [Second(at, 0.0, 16, None) for at in range(1, 2001)]
    run = ended(125, inf, seconds)
    assert run.seconds == pytest.approx(REQUESTS / balance(125, 16, inf).served)
    assert len(run.pods) == int(run.seconds) + 1
    assert run.failed == 0


def test_refused_requests_are_requests_too() -> None:
    seconds = [Second(at, 0.0, 2, None) for at in range(1, 2001)]
    run = ended(1000, ROOM, seconds)
    queue = balance(1000, 2, ROOM)
    assert run.seconds * queue.refused == pytest.approx(run.failed)
    assert run.seconds * (queue.refused + queue.served) == pytest.approx(REQUESTS)


def test_a_run_that_cannot_end_is_an_error() -> None:
    with pytest.raises(ValueError, match="requests are left after 1 s"):
        ended(125, inf, [Second(1, 0.0, 2, None)])


def test_pods_that_end_take_their_requests_along() -> None:
    inside = balance(500, 8, inf).inside
    assert lost(500, [2, 8, 8]) == 0
    assert lost(500, [8, 8, 6, 8]) == pytest.approx(inside / 4)


def test_every_run_has_a_value_for_each_seed(paper: Reproduction) -> None:
    for clients in THEIRS:
        for part in (f"{clients} clients: waiting", f"{clients} clients: failed, refused by full pods"):
            claims = [claim for claim in paper.claims if claim.part == part]
            assert [claim.what for claim in claims] == list(WAYS)
            assert {len(claim.measured) for claim in claims} == {2}


def test_it_is_faster_than_the_hpa_with_rests_only(paper: Reproduction) -> None:
    rows = [claim for claim in paper.claims if claim.what == "response faster, mean of the rows"]
    faster = {claim.part: claim for claim in rows if "beside" in claim.part}
    assert list(faster)[:-1] == [f"{ours}, beside {theirs}" for ours, theirs, _ in PAIRS]
    assert min(faster[f"{READ}, beside {OLD_HPA}"].measured) > 0
    assert max(faster[f"{PRODUCT}, beside {TODAY}"].measured) < 0


def test_run_again_with_enough_pods_both_are_as_fast(paper: Reproduction) -> None:
    claims = [claim for claim in paper.claims if "both run again" in claim.part]
    assert [claim.verdict for claim in claims] == ["cannot be compared"] * 4 + ["not confirmed"]
    assert all(abs(value) < 1 for value in claims[-1].measured)
    again = [claim for claim in paper.claims if claim.part == "run again: waiting"]
    assert {claim.what.split(",")[0] for claim in again if claim.verdict != "confirmed"} == {"250 clients"}


def test_the_same_seeds_give_the_same_and_all_is_heard(paper: Reproduction) -> None:
    heard: list[tuple[int, int]] = []
    assert reproduce(range(2), Work(lambda done, total: heard.append((done, total)))) == paper
    assert heard[-1][0] == heard[-1][1] == len(heard)


def test_charts_have_as_many_values_as_places(paper: Reproduction) -> None:
    assert len({chart.name for chart in paper.charts}) == len(paper.charts) == 7
    for line in (line for chart in paper.charts for line in chart.lines):
        assert len(line.x) == len(line.y)
        assert len(line.low) == len(line.high) == (len(line.y) if line.low else 0)


def test_the_example_of_the_findings_is_what_is_drawn(paper: Reproduction) -> None:
    chart = next(chart for chart in paper.charts if chart.name == "step-tolerance-500")
    counts = {line.name: list(dict.fromkeys(line.y)) for line in chart.lines}
    assert counts[READ] == [2, 6, 12, 16]
    assert counts[OLD_HPA] == [2, 4, 7, 11]


def test_the_scenarios_policies_are_those_of_the_runs() -> None:
    registry = discover()
    scenario = load_scenario(SCENARIO, registry)
    ways = {"points": READ, "ratio": RATIO, "product": PRODUCT, "hpa-paper": OLD_HPA, "hpa": TODAY}
    strategies = {candidate.name: candidate.policies[0].strategies for candidate in scenario.candidates}
    assert strategies == {name: (strategy_of(registry, WAYS[way]),) for name, way in ways.items()}
