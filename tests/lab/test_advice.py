"""Which policy to take, when demand was not served, and which changes mattered, by runs worked out by hand."""

from collections.abc import Sequence
from math import nan

import pytest

from elasticd.lab.advice import LARGEST, advice, decisive, shortages
from elasticd.lab.ideal import IDEAL, RECORDED
from elasticd.lab.runs import Change, Run, WorkloadTrack
from elasticd.model.workload import Ref

WEB = Ref("shop", "Deployment", "web")
BEGUN = 1_772_438_400.0


def played(unserved: Sequence[float], replicas: int = 10, changes: Sequence[Change] = ()) -> Run:
    """An hour a step, of one core of demand each."""
    steps = len(unserved)
    short = [600.0 if value > 0 else 0.0 for value in unserved]
    track = WorkloadTrack([1.0] * steps, [1.0] * steps, [*unserved], short, [replicas] * steps, [replicas] * steps)
    return Run(BEGUN, 3600.0, {WEB: track}, changes={WEB: [*changes]})


BACK_AND_FORTH = [Change(BEGUN + 10.0, 10, 11), Change(BEGUN + 11.0, 11, 10)]


@pytest.mark.parametrize(
    ("runs", "take", "why"),
    [
        pytest.param(
            {"lean": [played([0.0, 0.001], 5)], "roomy": [played([0.0, 0.0])]},
            "lean",
            "It leaves 0.05% of the demand unserved and needs 10.0 replica-hours, "
            "the fewest of the 2 policies that keep the limit.",
            id="the cheapest that keeps the limit",
        ),
        pytest.param(
            {"lean": [played([0.0, 0.1], 5)], "roomy": [played([0.0, 0.0])]},
            "roomy",
            "It leaves 0% of the demand unserved and needs 20.0 replica-hours. "
            "It is the only policy that keeps the limit. "
            "What needs fewer leaves too much unserved: lean 5% (10.0 replica-hours).",
            id="the only one that keeps the limit",
        ),
        pytest.param(
            {"lean": [played([0.0], 5), played([0.1], 5)], "roomy": [played([0.0]), played([0.0])]},
            "roomy",
            "It leaves 0% of the demand unserved and needs 10.0 replica-hours. "
            "It is the only policy that keeps the limit. "
            "What needs fewer leaves too much unserved: lean 10% (5.0 replica-hours).",
            id="a limit is kept with every seed",
        ),
        pytest.param(
            {"restless": [played([0.0], 10, BACK_AND_FORTH)], "calm": [played([0.0], 10)]},
            "calm",
            "It leaves 0% of the demand unserved and needs 10.0 replica-hours. Of the 2 policies that keep the limit "
            "and need at most 1% more than the least, 10.0, it changes counts the least: 0 times.",
            id="the calmer of two of the same cost",
        ),
        pytest.param(
            {
                "less": [played([1.0], 1)],
                "lean": [played([0.1], 5)],
                "roomy": [played([0.0])],
                RECORDED: [played([nan], 8)],
            },
            "roomy",
            "It leaves 0% of the demand unserved and needs 10.0 replica-hours. "
            "It is the only policy that keeps the limit. "
            "That is 25% more than what was, 8.0. "
            "What needs fewer leaves too much unserved: lean 10% (5.0 replica-hours), less 100% (1.0 replica-hours).",
            id="beside what was",
        ),
        pytest.param(
            {"lean": [played([1e-6])], RECORDED: [played([nan])]},
            "lean",
            "It leaves less than 0.001% of the demand unserved and needs 10.0 replica-hours. "
            "It is the only policy that keeps the limit. That is about what was, 10.0.",
            id="as much as what was",
        ),
        pytest.param(
            {"lean": [played([0.2])], "roomy": [played([0.1])], IDEAL: [played([0.0], 1)]},
            None,
            "No policy leaves at most 0.1% of the demand unserved: roomy comes nearest, with 10%.",
            id="none keeps the limit",
        ),
        pytest.param(
            {"lean": [played([nan])]},
            None,
            "It is not known how much of the demand was not served, so there is nothing to judge by.",
            id="what was served is not known",
        ),
        pytest.param(
            {"lean": [Run(BEGUN, 60.0)]},
            None,
            "No workload has a demand that is known, so there is nothing to judge by.",
            id="no demand",
        ),
    ],
)
def test_the_cheapest_policy_within_the_limit_is_taken(runs: dict[str, list[Run]], take: str | None, why: str) -> None:
    assert advice(runs, 0.001) == (take, why)


def test_steps_short_without_a_break_are_one_shortage() -> None:
    found = shortages(played([0.1, 0.0, 0.2, nan, 0.1, 0.3, 0.0]))
    assert [((each.begun - BEGUN) / 3600, (each.ended - BEGUN) / 3600) for each in found] == [(4, 6), (2, 3), (0, 1)]
    assert [each.unserved for each in found] == pytest.approx([1440.0, 720.0, 360.0])


def test_changes_about_the_worst_shortage_matter() -> None:
    small = [Change(BEGUN + 60.0 * place, 3, 4) for place in range(20)]
    about = [Change(BEGUN + 3500.0, 3, 2), Change(BEGUN + 3700.0, 2, 3)]
    large = Change(BEGUN + 5000.0, 3, 9)
    named = decisive(played([0.0, 0.5, 0.0], 3, [*small, *about, large]))
    assert len(named) == LARGEST
    assert [each.change.at for each in named] == sorted(each.change.at for each in named)
    why = {each.change: each.named for each in named}
    assert [why[change] for change in about] == ["before the worst shortage", "after the worst shortage began"]
    assert why[large] == ""


def test_the_largest_changes_matter_where_nothing_was_short() -> None:
    changes = [Change(BEGUN + place, 10, 10 + place) for place in range(1, 20)]
    assert [each.change.after for each in decisive(played([0.0], 10, changes))] == list(range(20, 30))
