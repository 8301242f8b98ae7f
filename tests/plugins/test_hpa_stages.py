"""Why limits go in two stages: what a single intersection of all of them makes of the passes of an HPA.

The numbers are told in docs/decisions/001-limits-in-two-stages.md; a seed makes them the same every time.
"""

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from elasticd.api import Change, Decision, Limit, Past, Run
from elasticd.decision.decide import Case, decide
from elasticd.decision.workload.combine import combine, contradiction
from elasticd.model.policy import Bounds, Policy
from elasticd.registry import Hooks
from elasticd_plugins.hpa import Hpa
from tests.kit.plugins.builders import NOW, OLD, WISHING, conditions, decode, queueing
from tests.kit.plugins.controller import Controller, Normalized

RUNS, PASSES = 300, 10
LEAST, MOST = 1, 60


def direction(random: Random) -> dict[str, Any]:
    """The windows and rates of one direction."""
    kinds = [("Pods", random.randint(1, 8)), ("Percent", random.choice([10, 50, 100]))]
    policies = [
        {"type": kind, "value": value, "period": random.choice([15, 60])}
        for kind, value in random.sample(kinds, random.randint(1, 2))
    ]
    return {"stabilization_window": random.choice([0, 60, 300]), "policies": policies}


def passes(rules: str, behaves: bool) -> Iterator[tuple[Decision, Normalized]]:
    """3,000 decisions and the controller's: runs of passes, each with the past that those before it made."""
    random = Random(1)
    for _ in range(RUNS):
        behavior = {"scale_up": direction(random), "scale_down": direction(random)} if behaves else None
        hpa = decode(Hpa, **WISHING, rules=rules, behavior=behavior)
        policy, hooks = Policy(name="stages", replicas=Bounds(MOST, LEAST), strategies=(hpa,)), Hooks((hpa,))
        current, period, now = random.randint(LEAST, MOST), random.choice([15, 30, 60]), NOW
        past = Past(OLD, (Run(now, now, current),), ())
        for _ in range(PASSES):
            wish, now = random.randint(0, MOST), now + period
            controller = Controller(current, (LEAST, MOST), past, rules == "1.20", now)
            expected = controller.behaving(wish, behavior) if behavior else controller.legacy(wish)
            yield decide(Case(policy, queueing(current, wish, now), past, hooks)), expected
            change = [Change(now, current, expected.replicas)] if expected.replicas != current else []
            past = Past(OLD, (*past.runs, Run(now, now, wish)), (*past.changes, *change))
            current = expected.replicas


class Tally(NamedTuple):
    """In how many of 3,000 passes all limits together contradict each other; in how many of those the controller
    moves; and in how many the reasons are wrong when a window is cut off where a rate ends."""

    contradict: int
    moves: int
    misled: int


def cut_off(delay: Limit, pace: Limit) -> Limit:
    """A window that ends no further than a rate does, so that both agree."""
    lowest, highest = delay.lowest, delay.highest
    if lowest is not None and pace.highest is not None:
        lowest = min(lowest, pace.highest)
    if highest is not None and pace.lowest is not None:
        highest = max(highest, pace.lowest)
    return replace(delay, lowest=lowest, highest=highest)


def counted(rules: str, behaves: bool) -> Tally:
    contradict = moves = misled = 0
    for decision, expected in passes(rules, behaves):
        *limits, _ = decision.limits
        reasons = conditions(decision)
        assert decision.failures == ()
        assert (decision.replicas, reasons["AbleToScale"], reasons["ScalingLimited"]) == expected
        if contradiction([replace(limit, condition="ScalingLimited") for limit in limits], decision.current):
            contradict += 1
            moves += expected.replicas != decision.current
        (pace,) = [limit for limit in limits if limit.condition == "ScalingLimited"]
        agreeing = [cut_off(each, pace) if each.condition == "AbleToScale" else each for each in limits]
        found = combine(decision.wish or 0, agreeing, Bounds(MOST, LEAST), decision.current)
        assert found.replicas == expected.replicas
        said = {condition.type: condition.reason for condition in found.conditions}
        misled += (said["AbleToScale"], said["ScalingLimited"]) != expected[1:]
    return Tally(contradict, moves, misled)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "behaves", "tally"),
    [
        pytest.param("current", False, Tally(83, 83, 58), id="without behavior"),
        pytest.param("1.20", False, Tally(83, 83, 58), id="1.20 without behavior"),
        pytest.param("current", True, Tally(0, 0, 0), id="behavior"),
        pytest.param("1.20", True, Tally(368, 296, 368), id="1.20 with behavior"),
    ],
)
def test_one_intersection_would_hold_where_the_controller_moves(rules: str, behaves: bool, tally: Tally) -> None:
    assert counted(rules, behaves) == tally
