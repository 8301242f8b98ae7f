"""Judgement: every branch by table."""

from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.api import Limit
from elasticd.decision.decide import Case, decide
from elasticd.decision.workload.zero import ZERO
from elasticd.testing import observation
from tests.kit.deciding import BROKEN, OLD, UNKNOWN, Allows, Also, Forbids, Wants, case, verdict


def slept(answer: int = 8, current: int = 0, bounds: tuple[int, int] = (0, 10)) -> Case:
    """A workload that the policy has put to 0."""
    judged = case([Wants(answer=answer)], current=current, bounds=bounds)
    workload = replace(judged.observation.workload, annotations={ZERO: "p"})
    return replace(judged, observation=replace(judged.observation, workload=workload))


FAULT: dict[str, Any] = {"fault": ("InvalidSelector", "bad selector")}


@pytest.mark.parametrize(
    ("given", "expected", "conditions"),
    [
        pytest.param(
            case([Wants(answer=8)], **OLD),
            ("hold", 5, "StaleCluster"),
            {"AbleToScale": (False, "StaleCluster")},
            id="a-cluster-not-heard-of-holds",
        ),
        pytest.param(
            case([Wants(answer=8)], current=20, **OLD),
            ("hold", 20, "StaleCluster"),
            {"AbleToScale": (False, "StaleCluster")},
            id="even-outside-the-bounds",
        ),
        pytest.param(
            case([Wants(answer=8)], confirmed=observation().at - 120),
            ("scale", 8, "Wanted"),
            None,
            id="exactly-max-age-is-not-too-old",
        ),
        pytest.param(
            case([Wants(answer=8)], current=0),
            ("hold", 0, "ScalingDisabled"),
            {"ScalingActive": (False, "ScalingDisabled")},
            id="zero-is-a-persons-pause",
        ),
        pytest.param(
            case([Wants(answer=8)], current=0, bounds=(0, 10)),
            ("hold", 0, "ScaledToZeroByHand"),
            {"ScalingActive": (False, "ScaledToZeroByHand")},
            id="a-person-s-zero-stays-with-min-0-too",
        ),
        pytest.param(slept(bounds=(0, 10)), ("scale", 8, "Wanted"), None, id="zero-by-decision-wakes"),
        pytest.param(slept(bounds=(3, 10)), ("scale", 3, "TooFewReplicas"), {}, id="or-goes-to-a-min-that-was-raised"),
        pytest.param(
            case([BROKEN], [Forbids(answer=Limit("No", highest=5, lowest=5))], current=12, **FAULT),
            ("scale", 10, "TooManyReplicas"),
            {},
            id="above-max-asks-nobody",
        ),
        pytest.param(
            case([BROKEN], [Forbids(wrong=ValueError())], current=2, bounds=(3, 10)),
            ("scale", 3, "TooFewReplicas"),
            {},
            id="below-min-asks-nobody",
        ),
        pytest.param(
            case([Wants(answer=8)], **FAULT),
            ("hold", 5, "InvalidSelector"),
            {"ScalingActive": (False, "InvalidSelector")},
            id="a-fault-holds",
        ),
        pytest.param(
            case([]),
            ("hold", 5, "NoRecommendation"),
            {"ScalingActive": (False, "NoRecommendation")},
            id="nobody-to-ask",
        ),
        pytest.param(
            case([Wants()]),
            ("hold", 5, "NoRecommendation"),
            {"ScalingActive": (False, "NoRecommendation")},
            id="no-opinion",
        ),
        pytest.param(case([Wants(), Also(answer=7)]), ("scale", 7, "Wanted"), None, id="one-opinion-is-enough"),
        pytest.param(case([Wants(answer=5)]), ("keep", 5, "Wanted"), None, id="right-as-it-is"),
        pytest.param(case([Wants(answer=8), Also(answer=6)]), ("scale", 8, "Wanted"), None, id="the-largest-wins"),
        pytest.param(
            case([UNKNOWN]), ("hold", 5, "NoMetrics"), {"ScalingActive": (False, "NoMetrics")}, id="unknown-holds"
        ),
        pytest.param(case([UNKNOWN, Wants(answer=8)]), ("scale", 8, "Wanted"), None, id="unknown-lets-others-grow"),
        pytest.param(case([UNKNOWN, Wants(answer=5)]), ("keep", 5, "Wanted"), None, id="unknown-lets-others-keep"),
        pytest.param(
            case([UNKNOWN, Wants(answer=3)]),
            ("hold", 5, "NoMetrics"),
            {"ScalingActive": (False, "NoMetrics")},
            id="unknown-lets-nobody-shrink",
        ),
        pytest.param(
            case([UNKNOWN, Wants(answer=5)], [Forbids(answer=Limit("Budget", highest=2))]),
            ("hold", 5, "NoMetrics"),
            {"ScalingActive": (False, "NoMetrics")},
            id="unknown-lets-no-limit-shrink",
        ),
        pytest.param(
            case([BROKEN, Also(answer=8)]),
            ("hold", 5, "PluginFailed"),
            {"ScalingActive": (False, "PluginFailed")},
            id="a-strategy-that-raises-holds",
        ),
        pytest.param(
            case([BROKEN], off=frozenset({"wants"})),
            ("hold", 5, "SwitchedOff"),
            {"ScalingActive": (False, "SwitchedOff")},
            id="one-switched-off-is-unknown",
        ),
        pytest.param(
            case([BROKEN, Also(answer=8)], off=frozenset({"wants"})),
            ("scale", 8, "Wanted"),
            None,
            id="so-others-may-grow",
        ),
        pytest.param(
            case([BROKEN, Also(answer=3)], off=frozenset({"wants"})),
            ("hold", 5, "SwitchedOff"),
            {"ScalingActive": (False, "SwitchedOff")},
            id="but-not-shrink",
        ),
        pytest.param(
            case([Wants(answer=8)], [Forbids(wrong=SystemExit())]),
            ("hold", 5, "PluginFailed"),
            {"AbleToScale": (False, "PluginFailed")},
            id="a-limit-that-exits-holds",
        ),
        pytest.param(
            case([Wants(answer=8)], [Forbids()], off=frozenset({"forbids"})),
            ("hold", 5, "PluginFailed"),
            {"AbleToScale": (False, "PluginFailed")},
            id="a-limit-switched-off-holds",
        ),
        pytest.param(
            case([Wants(answer=8)], [Forbids(answer=Limit("Up", lowest=9)), Allows(answer=Limit("Down", highest=6))]),
            ("hold", 5, "LimitsContradict"),
            {"AbleToScale": (False, "LimitsContradict")},
            id="limits-that-contradict-hold",
        ),
        pytest.param(
            case([Wants(answer=8)], [Forbids(answer=Limit("Touch", lowest=6)), Allows(answer=Limit("Top", highest=6))]),
            ("scale", 6, "Wanted"),
            {"ScalingLimited": (True, "Top")},
            id="limits-that-touch-do-not-contradict",
        ),
        pytest.param(
            case(
                [Wants(answer=8)],
                [
                    Forbids(answer=Limit("Up", lowest=9, condition="AbleToScale")),
                    Allows(answer=Limit("Down", highest=6, condition="AbleToScale")),
                ],
            ),
            ("hold", 5, "LimitsContradict"),
            {"AbleToScale": (False, "LimitsContradict")},
            id="delays-that-contradict-hold",
        ),
        pytest.param(
            case(
                [Wants(answer=3)],
                [
                    Forbids(answer=Limit("Window", lowest=9, condition="AbleToScale")),
                    Allows(answer=Limit("Rate", highest=6)),
                ],
            ),
            ("scale", 6, "Rate"),
            {"AbleToScale": (True, "Window"), "ScalingLimited": (True, "Rate")},
            id="a-delay-and-a-rate-never-contradict",
        ),
        pytest.param(
            case([Wants(answer=1)], [Forbids(answer=Limit("High", lowest=15))]),
            ("scale", 10, "TooManyReplicas"),
            {"ScalingLimited": (True, "TooManyReplicas")},
            id="bounds-come-last",
        ),
        pytest.param(
            case([Wants(answer=8)], [Forbids(answer=Limit("Rate", highest=5))]),
            ("hold", 5, "Rate"),
            {"ScalingLimited": (True, "Rate"), "AbleToScale": (True, "ReadyForNewScale")},
            id="a-limit-that-stops-it-explains-it",
        ),
        pytest.param(
            case([Wants(answer=5)], [Forbids(answer=Limit("Reserve", lowest=7))]),
            ("scale", 7, "Reserve"),
            {"ScalingLimited": (True, "Reserve")},
            id="a-limit-that-drives-it-explains-it",
        ),
    ],
)
def test_each_case_has_its_verdict(
    given: Case, expected: tuple[str, int, str], conditions: dict[str, tuple[bool, str]] | None
) -> None:
    decision = decide(given)
    assert verdict(decision) == expected
    if conditions is not None:
        found = {one.type: (one.status, one.reason) for one in decision.conditions}
        if decision.verdict == "hold" and len(found) == 1:
            assert found == conditions
        assert conditions.items() <= found.items()


UP, DOWN = "ScaleUpStabilized", "ScaleDownStabilized"


def delay(reason: str, **ends: int) -> Limit:
    return Limit(reason, lowest=ends.get("lowest"), highest=ends.get("highest"), condition="AbleToScale")


@pytest.mark.parametrize("turns", [1, 2], ids=["asked-once", "asked-again"])
def test_equal_limits_of_two_voices_keep_their_names(turns: int) -> None:
    same = Limit("ScaleUpLimit", highest=8)
    judged = case([Wants(answer=20)], [Allows(answer=same), Forbids(answer=same)])
    for _ in range(turns):
        named = {limit.name for limit in decide(judged).limits if limit.bound}
        assert named == {"allows", "forbids"}


@pytest.mark.parametrize("nonsense", [8.0, True, "8"], ids=repr)
def test_nonsense_equal_to_a_valid_earlier_limit_is_a_failure(nonsense: Any) -> None:
    good, bad = (case([Wants(answer=20)], [Forbids(answer=Limit("Rate", highest=end))]) for end in (8, nonsense))
    assert decide(good).replicas == 8
    assert decide(bad).reason == "PluginFailed"
    assert decide(good).replicas == 8


@pytest.mark.parametrize(
    ("wish", "limits", "bounds", "final", "able", "limited", "bound"),
    [
        pytest.param(8, [], (1, 10), 8, None, None, set(), id="free"),
        pytest.param(20, [], (1, 10), 10, None, "TooManyReplicas", {"bounds"}, id="max"),
        pytest.param(0, [], (2, 10), 2, None, "TooFewReplicas", {"bounds"}, id="min"),
        pytest.param(20, [Limit("ScaleUpLimit", highest=8)], (1, 10), 8, None, "ScaleUpLimit", {"forbids"}, id="rate"),
        pytest.param(
            20,
            [Limit("ScaleUpLimit", highest=10)],
            (1, 10),
            10,
            None,
            "TooManyReplicas",
            {"bounds"},
            id="a-tie-of-rate-and-max-is-named-after-max",
        ),
        pytest.param(
            1,
            [Limit("ScaleDownLimit", lowest=2)],
            (2, 10),
            2,
            None,
            "TooFewReplicas",
            {"bounds"},
            id="a-tie-of-rate-and-min-is-named-after-min",
        ),
        pytest.param(
            20,
            [Limit("ScaleUpLimit", highest=5)],
            (5, 10),
            5,
            None,
            "ScaleUpLimit",
            {"forbids"},
            id="going-up-min-is-not-looked-at",
        ),
        pytest.param(
            1,
            [Limit("ScaleDownLimit", lowest=5)],
            (1, 5),
            5,
            None,
            "ScaleDownLimit",
            {"forbids"},
            id="going-down-max-is-not-looked-at",
        ),
        pytest.param(
            20,
            [Limit("ScaleUpLimit", highest=12)],
            (1, 10),
            10,
            None,
            "TooManyReplicas",
            {"bounds"},
            id="a-rate-beyond-max-binds-nothing",
        ),
        pytest.param(8, [delay(UP, highest=6)], (1, 10), 6, UP, None, {"forbids"}, id="delayed"),
        pytest.param(2, [delay(DOWN, lowest=4)], (1, 10), 4, DOWN, None, {"forbids"}, id="delayed-down"),
        pytest.param(
            20, [delay(UP, highest=10)], (1, 10), 10, UP, None, {"forbids"}, id="delayed-to-max-is-within-range"
        ),
        pytest.param(
            20, [delay(UP, highest=12)], (1, 10), 10, UP, "TooManyReplicas", {"bounds"}, id="delayed-beyond-max"
        ),
        pytest.param(
            20,
            [delay(UP, highest=9), Limit("ScaleUpLimit", highest=7)],
            (1, 10),
            7,
            UP,
            "ScaleUpLimit",
            {"allows"},
            id="delayed-then-shortened",
        ),
        pytest.param(
            20,
            [delay(UP, highest=6), Limit("ScaleUpLimit", highest=7)],
            (1, 10),
            6,
            UP,
            None,
            {"forbids"},
            id="delayed-more-than-shortened",
        ),
        pytest.param(
            8,
            [Limit("A", highest=6), Limit("B", highest=6)],
            (1, 10),
            6,
            None,
            "A",
            {"forbids", "allows"},
            id="two-that-stop-at-the-same-count",
        ),
        pytest.param(
            8,
            [delay("A", highest=7), delay("B", highest=6)],
            (1, 10),
            6,
            "B",
            None,
            {"allows"},
            id="of-two-delays-the-longer-is-told",
        ),
        pytest.param(
            3,
            [delay(DOWN, lowest=9), Limit("ScaleUpLimit", highest=7)],
            (1, 10),
            7,
            DOWN,
            "ScaleUpLimit",
            {"allows"},
            id="delayed-beyond-the-rate",
        ),
        pytest.param(
            3,
            [delay(DOWN, lowest=9), Limit("ScaleUpLimit", highest=7)],
            (1, 7),
            7,
            DOWN,
            "TooManyReplicas",
            {"bounds"},
            id="delayed-beyond-the-rate-at-max",
        ),
        pytest.param(
            7,
            [delay(DOWN, lowest=9), Limit("ScaleUpLimit", highest=7)],
            (1, 10),
            7,
            DOWN,
            "ScaleUpLimit",
            {"allows"},
            id="delayed-and-brought-back-to-the-wish",
        ),
        pytest.param(
            5, [delay(DOWN, lowest=4), Limit("R", highest=9)], (1, 10), 5, None, None, set(), id="not-touched"
        ),
        pytest.param(
            8, [Limit("Said", highest=9, bound=True)], (1, 10), 8, None, None, set(), id="only-judgement-marks"
        ),
    ],
)
def test_conditions_and_binding_limit_match_those_of_the_hpa(
    wish: int,
    limits: list[Limit],
    bounds: tuple[int, int],
    final: int,
    able: str | None,
    limited: str | None,
    bound: set[str],
) -> None:
    kinds = [Forbids, Allows]
    rules = [kind(answer=limit) for kind, limit in zip(kinds, limits, strict=False)]
    decision = decide(case([Wants(answer=wish)], rules, 5, bounds))
    assert decision.replicas == final
    assert [(one.type, one.status, one.reason) for one in decision.conditions] == [
        ("AbleToScale", True, able or "ReadyForNewScale"),
        ("ScalingActive", True, "ValidMetricFound"),
        ("ScalingLimited", limited is not None, limited or "DesiredWithinRange"),
    ]
    assert {one.name for one in decision.limits if one.bound} == bound
    assert decision.limits[-1].name == "bounds"
