"""The double-threshold paper measured again: its example, its runs, and the scenario beside them."""

from pathlib import Path

import pytest

from elasticd.lab.papers import Reproduction, Work
from elasticd.lab.papers.double_threshold import (
    EXPERIMENTS,
    OLD_HPA,
    PRINTED,
    PRODUCT,
    READ,
    READINGS,
    WAYS,
    reproduce,
)
from elasticd.lab.papers.named import PAPERS
from elasticd.lab.papers.seconds import strategy_of
from elasticd.lab.scenario import load_scenario
from elasticd.registry import discover

SCENARIO = Path(__file__).parents[3] / "config" / "scenarios" / "double-threshold" / "elasticd.toml"


@pytest.fixture(scope="module")
def paper() -> Reproduction:
    return reproduce(range(2), Work())


def test_it_is_known_by_the_strategys_name(paper: Reproduction) -> None:
    assert PAPERS[paper.name] is reproduce
    assert paper.name in discover().strategies


def test_the_example_fits_the_paper_as_read_but_breaks(paper: Reproduction) -> None:
    claims = [claim for claim in paper.claims if claim.part.startswith("the worked example")]
    failed = {claim.what: claim.measured for claim in claims if claim.verdict != "confirmed"}
    assert len(claims) == 10
    others = {f"step 7, two pods run at: {reading}": (155,) for reading in READINGS if reading != READ}
    assert failed == {**others, "seconds in which pods break": (6,)}


def test_every_run_has_a_value_for_each_seed(paper: Reproduction) -> None:
    for name, experiment in EXPERIMENTS.items():
        claims = [claim for claim in paper.claims if claim.part.startswith(f"{name} load: seconds of")]
        assert [claim.what for claim in claims] == list(WAYS)
        assert {len(claim.measured) for claim in claims} == {2}
        assert all(0 <= value <= experiment.seconds for claim in claims for value in claim.measured)


def test_the_gate_of_the_text_breaks_under_high_load(paper: Reproduction) -> None:
    high = {claim.what: claim for claim in paper.claims if claim.part.startswith("high load: seconds of")}
    assert max(high[READ].measured) < 10
    assert min(high[PRINTED].measured) > 100


def test_the_same_seeds_give_the_same_and_all_is_heard(paper: Reproduction) -> None:
    heard: list[tuple[int, int]] = []
    assert reproduce(range(2), Work(lambda done, total: heard.append((done, total)))) == paper
    assert heard[-1][0] == heard[-1][1] == len(heard)


def test_charts_have_as_many_values_as_places(paper: Reproduction) -> None:
    assert len(paper.charts) == 16
    assert len({chart.name for chart in paper.charts}) == 16
    for line in (line for chart in paper.charts for line in chart.lines):
        assert len(line.x) == len(line.y)
        assert len(line.low) == len(line.high) == (len(line.y) if line.low else 0)


def test_the_scenarios_policies_are_those_of_the_runs() -> None:
    registry = discover()
    scenario = load_scenario(SCENARIO, registry)
    ways = {
        "as-read": READ,
        "as-printed": PRINTED,
        "product": PRODUCT,
        "hpa-paper-50": f"{OLD_HPA} 50 %",
        "hpa-paper-80": f"{OLD_HPA} 80 %",
        "hpa-80": "HPA of today, target 80 %",
    }
    strategies = {candidate.name: candidate.policies[0].strategies for candidate in scenario.candidates}
    assert strategies == {name: (strategy_of(registry, WAYS[way].table),) for name, way in ways.items()}
