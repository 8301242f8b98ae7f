"""Judgement: every branch by table, and what must hold for any strategies and limits by property."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.api import Limit, Measure, Observation, Past, Recommendation, Strategy, hookimpl
from elasticd.decision.decide import Case, announcements, decide, held
from elasticd.decision.workload.zero import ZERO
from elasticd.kit.history import begin, remember
from elasticd.model.actions import Scale
from elasticd.model.policy import MOST, Bounds, Policy, Target, Trust
from elasticd.model.records import Decision, Sizing
from elasticd.model.workload import Condition, ConditionType, Failure
from elasticd.registry import Hooks
from elasticd.testing import observation


class Wants(Strategy, tag="wants", frozen=True):
    """Answers what it is given."""

    answer: Any = None
    every: Any = None
    wrong: Any = None

    @hookimpl
    def recommend_replicas(self) -> Any:
        if self.wrong is not None:
            raise self.wrong
        return Recommendation(self.answer, "Wanted", "as told") if isinstance(self.answer, int) else self.answer

    @hookimpl
    def poll_interval(self) -> Any:
        return self.every


class Also(Wants, tag="also", frozen=True):
    """Another voice, first by name."""


class Forbids(Strategy, tag="forbids", frozen=True):
    """Limits as it is told."""

    answer: Any = None
    wrong: Any = None

    @hookimpl
    def limit(self) -> Any:
        if self.wrong is not None:
            raise self.wrong
        return self.answer


class Allows(Forbids, tag="allows", frozen=True):
    """Another limit, first by name."""


def seen(current: int, **changes: Any) -> Observation:
    return replace(observation([0.5] * min(current, 3), replicas=current), **changes)


def case(
    voices: Sequence[Strategy] = (),
    limits: Sequence[Strategy] = (),
    current: int = 5,
    bounds: tuple[int, int] = (1, 10),
    off: frozenset[str] = frozenset(),
    **changes: Any,
) -> Case:
    shown = seen(current, **changes)
    policy = Policy(
        name="p",
        replicas=Bounds(bounds[1], bounds[0]),
        strategies=tuple(voices),
        limits=tuple(limits),
        workload=Target("default", "web"),
        mode="act",
    )
    return Case(policy, shown, begin(shown.at, current), Hooks((*voices, *limits)), off)


def slept(answer: int = 8, current: int = 0, bounds: tuple[int, int] = (0, 10)) -> Case:
    """A workload that the policy has put to 0."""
    judged = case([Wants(answer=answer)], current=current, bounds=bounds)
    workload = replace(judged.observation.workload, annotations={ZERO: "p"})
    return replace(judged, observation=replace(judged.observation, workload=workload))


def verdict(decision: Decision) -> tuple[str, int, str]:
    return decision.verdict, decision.replicas, decision.reason


def unknown(trust: Trust, current: int, blind: float | None, limits: Sequence[Strategy] = ()) -> Decision:
    """What is decided when nothing has been known for so many seconds."""
    judged = case([UNKNOWN], limits, current=current)
    since = None if blind is None else judged.observation.at - blind
    policy = replace(judged.policy, trust=trust)
    return decide(replace(judged, policy=policy, past=replace(judged.past, blind_since=since)))


FLOOR = Trust(unknown="floor", replicas=7, after=0)
FALLBACK = Trust(unknown="fallback", replicas=7, after=180)
LOWER = Trust(unknown="fallback", replicas=2, after=180, may_lower=True)
CEILING = Trust(unknown="ceiling", replicas=2, after=180)
BROKEN = Wants(wrong=RuntimeError("no data"))
UNKNOWN = Also(answer=Recommendation(None, "NoMetrics", "the source is down"))
OLD: dict[str, Any] = {"confirmed": observation().at - 121}
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


def test_a_scaling_says_from_where_to_where_and_why() -> None:
    decision = decide(case([Wants(answer=8)]))
    ref = decision.workload
    assert decision.action == Scale(ref, "uid", "1", 5, 8, "Wanted: as told")
    assert decision.id == f"p:default/Deployment/web@{decision.at:.3f}"
    bare = decide(case([Wants(answer=Recommendation(8, "cpu above target"))]))
    assert bare.action is not None
    assert bare.action.reason == "cpu above target"


def test_hook_recommend_replicas_may_answer_only_serializable_recommendations() -> None:
    nonsense: dict[str, Any] = {
        "a-word": "five",
        "a-limit": Limit("No"),
        "negative": Recommendation(-1, "R"),
        "huge": Recommendation(MOST + 1, "R"),
        "beyond-json": Recommendation(10**30, "R"),
        "fraction": Recommendation(2.5, "R"),  # type: ignore[arg-type]
        "boolean": Recommendation(True, "R"),
        "reason": Recommendation(3, None),  # type: ignore[arg-type]
        "measures": Recommendation(3, "R", measures=("cpu",)),  # type: ignore[arg-type]
        "surrogate": Recommendation(3, "R", "\ud800"),
        "of two minds": Recommendation(3, "R", abstains=True),
        "object": Recommendation(3, "R", object()),  # type: ignore[arg-type]
    }
    for name, answer in nonsense.items():
        decision = decide(case([Wants(answer=answer)]))
        assert verdict(decision) == ("hold", 5, "PluginFailed"), name
        (failure,) = decision.failures
        assert (failure.plugin, failure.hook) == ("wants", "recommend_replicas")
        assert failure.message.startswith("returned "), name
        assert failure.message.isprintable()
        msgspec.json.encode(decision)


def test_who_abstains_holds_nothing_and_is_recorded_with_the_reason() -> None:
    nobody = Recommendation(None, "NoFloor", "next at 8", abstains=True)
    alone = decide(case([Wants(answer=nobody)]))
    assert (verdict(alone), alone.blind) == (("hold", 5, "NoRecommendation"), False)
    (said,) = alone.recommendations
    assert (said.strategy, said.reason, said.message, said.abstains) == ("wants", "NoFloor", "next at 8", True)
    written = msgspec.json.decode(msgspec.json.encode(alone), type=type(alone))
    assert written.recommendations == alone.recommendations


@pytest.mark.parametrize(
    ("good", "equal"),
    [
        pytest.param(Recommendation(1, "Kept"), Recommendation(True, "Kept"), id="a-boolean"),
        pytest.param(Recommendation(3, "Kept"), Recommendation(3.0, "Kept"), id="a-fraction"),  # type: ignore[arg-type]
    ],
)
def test_nonsense_that_equals_an_answer_of_before_is_nonsense(good: Recommendation, equal: Recommendation) -> None:
    assert good == equal
    assert decide(case([Wants(answer=good)])).wish == good.replicas
    assert verdict(decide(case([Wants(answer=equal)]))) == ("hold", 5, "PluginFailed")


def test_what_makes_sense_beside_nonsense_is_told_with_it() -> None:
    decision = decide(case([Wants(answer=8), Also(answer="five")]))
    assert [(one.strategy, one.replicas) for one in decision.recommendations] == [("wants", 8)]
    assert [failure.plugin for failure in decision.failures] == ["also"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(7, "must be a Limit", id="a-number"),
        pytest.param(Limit("L", lowest=5, highest=4), "lowest must be <= highest = 4, is 5", id="crossed"),
        pytest.param(Limit("L", lowest=-1), f"lowest must be from 0 to {MOST}, is -1", id="negative"),
        pytest.param(Limit("L", highest=2**31), f"highest must be from 0 to {MOST}, is {2**31}", id="huge"),
        pytest.param(Limit("L", highest=4.5), "Expected `int | null`, got `float`", id="fraction"),  # type: ignore[arg-type]
        pytest.param(
            Limit("L", condition="ScalingActive"),
            "condition must be AbleToScale or ScalingLimited, is ScalingActive",
            id="a-condition-that-is-not-a-limits",
        ),
        pytest.param(Limit("L", condition="Paused"), "Invalid enum value 'Paused'", id="no-condition"),  # type: ignore[arg-type]
    ],
)
def test_a_limit_that_makes_no_sense_holds_and_is_told(answer: Any, problem: str) -> None:
    decision = decide(case([Wants(answer=8)], [Forbids(answer=answer)]))
    assert verdict(decision) == ("hold", 5, "PluginFailed")
    assert problem in decision.failures[0].message
    assert decision.message.startswith("forbids: limit returned ")
    assert decision.wish == 8
    assert decision.recommendations[0].strategy == "wants"


def test_reported_failure_is_a_new_one_and_not_switched_off() -> None:
    decision = decide(case([Also(), BROKEN], off=frozenset({"also"})))
    assert decision.message == "wants: recommend_replicas raised RuntimeError: no data"
    assert {failure.plugin for failure in decision.failures} == {"also", "wants"}
    limited = decide(case([Also(), Wants(answer=8)], [Forbids(wrong=ValueError("x"))], off=frozenset({"also"})))
    assert limited.message == "forbids: limit raised ValueError: x"


@pytest.mark.parametrize(
    ("asked", "interval", "by"),
    [
        pytest.param([None], 30.0, "policy", id="nobody-asks"),
        pytest.param([10], 10.0, "wants", id="one-asks"),
        pytest.param([10, 2.5], 2.5, "also", id="the-shortest-wins"),
        pytest.param([60], 60.0, "wants", id="slower-than-the-policy"),
        pytest.param([5, 5], 5.0, "also", id="a-tie-goes-by-name"),
        pytest.param([0.1], 0.1, "wants", id="the-shortest-there-is"),
        pytest.param([3600], 3600.0, "wants", id="the-longest-there-is"),
    ],
)
def test_hook_poll_interval_shortest_wins(asked: list[Any], interval: float, by: str) -> None:
    voices = [kind(answer=5, every=every) for kind, every in zip([Wants, Also], asked, strict=False)]
    decision = decide(case(voices))
    assert (decision.interval, decision.interval_by) == (interval, by)
    assert decision.failures == ()


@pytest.mark.parametrize(
    "every",
    [0, -1, 0.09, 3601, float("nan"), float("inf"), 10**400, True, "10", [1]],
    ids=["zero", "negative", "short", "long", "nan", "infinite", "beyond-floats", "true", "text", "list"],
)
def test_an_invalid_interval_is_reported_but_holds_nothing(every: Any) -> None:
    decision = decide(case([Wants(answer=8, every=every), Also(every=20)]))
    assert verdict(decision) == ("scale", 8, "Wanted")
    assert (decision.interval, decision.interval_by) == (20.0, "also")
    (failure,) = decision.failures
    assert (failure.plugin, failure.hook) == ("wants", "poll_interval")
    assert failure.message.startswith("returned ")


def test_workload_that_cannot_be_judged_is_held_and_retried() -> None:
    given = case()
    decision = held(given.policy, given.observation.workload.ref, 7.0, "FailedGetScale", "gone", 4)
    assert (verdict(decision), decision.interval) == (("hold", 4, "FailedGetScale"), 30.0)
    assert decision.conditions == (Condition("AbleToScale", False, "FailedGetScale", "gone"),)
    assert announcements(decision, None) == ()


HOLDING = decide(case([UNKNOWN]))
STALE = decide(case([UNKNOWN], **OLD))
KEEPING = decide(case([Wants(answer=5)]))
LIMITED = decide(case([Wants(answer=8, every=-1)], [Forbids(answer=Limit("Rate", highest=5))]))


@pytest.mark.parametrize(
    ("decision", "previous", "told"),
    [
        pytest.param(HOLDING, None, "NoMetrics", id="the-first-time"),
        pytest.param(HOLDING, KEEPING, "NoMetrics", id="it-begins"),
        pytest.param(HOLDING, HOLDING, None, id="it-lasts"),
        pytest.param(HOLDING, replace(HOLDING, message="another"), None, id="another-message-is-no-news"),
        pytest.param(STALE, HOLDING, "StaleCluster", id="another-reason-is"),
        pytest.param(KEEPING, HOLDING, None, id="it-ends"),
        pytest.param(LIMITED, KEEPING, None, id="a-limit-is-no-trouble-whatever-else-failed"),
        pytest.param(decide(case([BROKEN])), KEEPING, "PluginFailed", id="a-plugin-failed"),
        pytest.param(decide(case([Wants(answer=8)])), None, None, id="a-scaling-tells-of-itself"),
        pytest.param(replace(HOLDING, uid=""), None, None, id="there-is-nobody-to-tell"),
    ],
)
def test_only_news_are_announced(decision: Decision, previous: Decision | None, told: str | None) -> None:
    found = announcements(decision, previous)
    assert [one.reason for one in found] == ([] if told is None else [told])
    assert all(one.warning and one.uid == "uid" for one in found)


def test_a_decision_records_its_workload_time_and_inputs() -> None:
    asked = case([Wants(answer=8, every=7.0)], [Forbids(answer=Limit("Wait", lowest=5, highest=6))])
    found, shown = decide(asked), asked.observation
    assert (found.id, found.at) == (f"p:{shown.workload.ref}@{shown.at:.3f}", shown.at)
    assert (found.policy, found.workload, found.uid, found.mode) == ("p", shown.workload.ref, "uid", "act")
    assert (found.current, found.wish, found.replicas, found.verdict) == (5, 8, 6, "scale")
    assert (found.reason, found.message) == ("Wanted", "as told")
    assert [one.strategy for one in found.recommendations] == ["wants"]
    assert [one.name for one in found.limits] == ["forbids", "bounds"]
    assert [one.type for one in found.conditions] == ["AbleToScale", "ScalingActive", "ScalingLimited"]
    assert (found.series, found.pods, found.failures) == (tuple(shown.series.values()), 3, ())
    assert (found.interval, found.interval_by, found.recall) == (7.0, "wants", 0.0)
    assert (found.marks, found.removals, found.sizing, found.blind) == ((), (), Sizing(), False)
    assert isinstance(found.action, Scale)


# Properties. Answers are drawn with and without sense, voices with equal and different names.
COUNTS = st.integers(0, 14)
CONDITIONS: list[ConditionType] = ["AbleToScale", "ScalingLimited"]
TEXT = st.sampled_from(["a", "b", "c"])
RECOMMENDATIONS = st.builds(
    Recommendation, st.none() | COUNTS, TEXT, TEXT, st.lists(st.builds(Measure, TEXT), max_size=2).map(tuple)
)
ENDS = st.none() | COUNTS
LIMITS = st.builds(Limit, TEXT, TEXT, ENDS, ENDS, st.sampled_from(CONDITIONS))
VOICES = st.lists(
    st.builds(
        lambda kind, answer, every: kind(answer=answer, every=every),
        st.sampled_from([Wants, Also]),
        st.none() | RECOMMENDATIONS,
        st.sampled_from([None, 1, 5, 5.0, -1]),
    ),
    max_size=4,
)
RULES = st.lists(
    st.builds(lambda kind, answer: kind(answer=answer), st.sampled_from([Forbids, Allows]), st.none() | LIMITS),
    max_size=4,
)
BOUNDS = st.tuples(st.integers(0, 6), st.integers(6, 12))
CASES = st.builds(
    case, VOICES, RULES, COUNTS, BOUNDS, st.frozensets(st.sampled_from(["wants", "also#2", "allows"]), max_size=1)
)


@given(CASES)
def test_bounds_always_hold(given: Case) -> None:
    decision, bounds = decide(given), given.policy.replicas
    paused = decision.current == 0 and bounds.min > 0
    assert paused or bounds.min <= decision.replicas <= bounds.max
    assert (decision.verdict == "scale") == (decision.replicas != decision.current) == (decision.action is not None)


@given(CASES)
def test_what_cannot_be_known_never_shrinks(given: Case) -> None:
    decision = decide(given)
    in_doubt = any(one.replicas is None for one in decision.recommendations) or any(
        failure.hook == "recommend_replicas" for failure in decision.failures
    )
    if in_doubt or not decision.recommendations:
        assert decision.replicas >= min(decision.current, given.policy.replicas.max)


@given(CASES)
def test_a_decision_is_deterministic_and_leaves_its_input_unchanged(given: Case) -> None:
    before = msgspec.json.encode((given.observation, given.past))
    assert decide(given) == decide(given)
    assert msgspec.json.encode((given.observation, given.past)) == before


@given(CASES)
def test_a_decision_survives_a_round_trip_through_json(given: Case) -> None:
    decision = decide(given)
    assert msgspec.json.decode(msgspec.json.encode(decision), type=Decision) == decision


def nameless(decision: Decision) -> tuple[Any, ...]:
    """All but the names that go by the order of tables, and what only lists by name."""
    bare = replace(
        decision, recommendations=(), limits=(), failures=(), message="", interval_by="", conditions=(), action=None
    )
    return (
        bare,
        sorted(map(repr, (replace(one, strategy="") for one in decision.recommendations))),
        sorted(map(repr, (replace(one, name="") for one in decision.limits))),
        sorted(map(repr, (replace(one, plugin="") for one in decision.failures))),
        [(one.type, one.status, one.reason) for one in decision.conditions],
    )


@given(st.data(), VOICES, RULES, COUNTS, BOUNDS)
def test_the_order_of_tables_never_changes_a_decision(
    data: st.DataObject, voices: list[Strategy], rules: list[Strategy], current: int, bounds: tuple[int, int]
) -> None:
    others = data.draw(st.permutations(voices)), data.draw(st.permutations(rules))
    one, other = decide(case(voices, rules, current, bounds)), decide(case(*others, current, bounds))
    assert nameless(one) == nameless(other)
    if one.verdict != "hold":
        assert (one.message, one.conditions, one.action) == (other.message, other.conditions, other.action)


@given(st.data(), st.lists(RECOMMENDATIONS, max_size=2), st.lists(LIMITS, max_size=2), COUNTS, BOUNDS)
def test_decision_does_not_depend_on_order_if_names_are_distinct(
    data: st.DataObject, said: list[Recommendation], limits: list[Limit], current: int, bounds: tuple[int, int]
) -> None:
    voices = [kind(answer=answer) for kind, answer in zip([Wants, Also], said, strict=False)]
    rules = [kind(answer=answer) for kind, answer in zip([Forbids, Allows], limits, strict=False)]
    others = data.draw(st.permutations(voices)), data.draw(st.permutations(rules))
    assert decide(case(voices, rules, current, bounds)) == decide(case(*others, current, bounds))


@given(CASES)
def test_an_unfollowed_wish_is_explained_by_a_binding_limit(given: Case) -> None:
    """A wish that was followed, too, where something led away from it and something else back."""
    decision = decide(given)
    binding = [limit for limit in decision.limits if limit.bound]
    wish = decision.wish
    if len(decision.conditions) < 3 or wish is None:
        return
    assert all(decision.replicas in (limit.lowest, limit.highest) for limit in binding)
    if wish != decision.replicas:
        assert binding
    elif binding:
        assert any(limit.clamp(wish) != wish for limit in decision.limits)


@given(CASES)
def test_removing_the_only_binding_limit_changes_the_answer(given: Case) -> None:
    """Unless it is a delay, and a rate or the bounds end at the same count."""
    decision = decide(given)
    binding = [limit for limit in decision.limits if limit.bound]
    if len(decision.conditions) < 3 or len(binding) != 1 or binding[0].name == "bounds":
        return
    later = [limit for limit in decision.limits if limit.condition == "ScalingLimited"]
    if binding[0].condition == "AbleToScale" and any(decision.replicas in (one.lowest, one.highest) for one in later):
        return
    ordered = [rule for rule in given.policy.limits if isinstance(rule, Forbids) and rule.answer is not None]
    rest = [rule for rule in ordered if replace(rule.answer, name="") != replace(binding[0], name="", bound=False)]
    bounds = given.policy.replicas
    free = decide(case(given.policy.strategies, rest, decision.current, (bounds.min, bounds.max), given.off))
    assert free.replicas != decision.replicas


def test_past_goes_to_the_hooks() -> None:
    class Remembers(Strategy, tag="remembers", frozen=True):
        @hookimpl
        def recommend_replicas(self, past: Past) -> Recommendation:
            return Recommendation(past.runs[0].replicas + 1, "Past")

    assert decide(case([Remembers()])).replicas == 6


def test_failures_are_kept_with_what_was_said() -> None:
    decision = decide(case([BROKEN, Also(answer=8)]))
    assert decision.failures == (Failure("wants", "recommend_replicas", "raised RuntimeError: no data"),)
    assert [one.strategy for one in decision.recommendations] == ["also"]


@pytest.mark.parametrize(
    ("trust", "current", "blind", "expected"),
    [
        pytest.param(Trust(), 5, 9999.0, ("hold", 5, "NoMetrics"), id="holds-for-ever-by-default"),
        pytest.param(FLOOR, 5, None, ("scale", 7, "Floor"), id="below-the-floor-at-once"),
        pytest.param(Trust(unknown="floor", replicas=7), 5, 179.0, ("hold", 5, "NoMetrics"), id="or-after-a-while"),
        pytest.param(FLOOR, 7, None, ("hold", 7, "NoMetrics"), id="at-the-floor"),
        pytest.param(FLOOR, 9, 9999.0, ("hold", 9, "NoMetrics"), id="above-the-floor"),
        pytest.param(FALLBACK, 5, None, ("hold", 5, "NoMetrics"), id="not-known-for-the-first-time"),
        pytest.param(FALLBACK, 5, 179.0, ("hold", 5, "NoMetrics"), id="not-known-for-a-while"),
        pytest.param(FALLBACK, 5, 180.0, ("scale", 7, "Fallback"), id="not-known-for-too-long"),
        pytest.param(FALLBACK, 9, 9999.0, ("hold", 9, "NoMetrics"), id="the-fallback-lowers-nothing"),
        pytest.param(LOWER, 5, 180.0, ("scale", 2, "Fallback"), id="unless-it-may"),
        pytest.param(LOWER, 5, 10.0, ("hold", 5, "NoMetrics"), id="but-not-too-soon"),
        pytest.param(CEILING, 5, 10.0, ("hold", 5, "NoMetrics"), id="nor-does-a-ceiling"),
        pytest.param(CEILING, 5, 180.0, ("scale", 2, "Ceiling"), id="above-the-ceiling"),
        pytest.param(CEILING, 1, 180.0, ("hold", 1, "NoMetrics"), id="below-the-ceiling"),
        pytest.param(
            Trust(unknown="floor", replicas=99, after=0), 5, None, ("scale", 10, "Floor"), id="bounds-are-last"
        ),
    ],
)
def test_the_policy_chooses_the_action_when_metrics_are_unknown(
    trust: Trust, current: int, blind: float | None, expected: tuple[str, int, str]
) -> None:
    decision = unknown(trust, current, blind)
    assert verdict(decision) == expected
    (active,) = [one for one in decision.conditions if one.type == "ScalingActive"]
    assert (active.status, active.reason) == (False, "NoMetrics")


def test_a_fallback_is_restrained_like_any_wish() -> None:
    slow = Forbids(answer=Limit("Slow", "one at a time", 4, 6))
    assert verdict(unknown(FALLBACK, 5, 999.0, [slow])) == ("scale", 6, "Fallback")
    broken = Forbids(wrong=RuntimeError("bug"))
    assert verdict(unknown(FALLBACK, 5, 999.0, [broken]))[:2] == ("hold", 5)


@given(
    kind=st.sampled_from(["hold", "up-only", "floor", "fallback"]),
    replicas=st.integers(0, 30),
    current=st.integers(1, 10),
    blind=st.none() | st.floats(0, 1e6),
)
def test_nothing_unknown_shrinks_anything_that_may_not(
    kind: Any, replicas: int, current: int, blind: float | None
) -> None:
    trust = Trust(unknown=kind, replicas=replicas if kind in ("floor", "fallback") else None)
    assert unknown(trust, current, blind).replicas >= current


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_the_blind_time_counts_from_the_first_blind_decision(known: list[bool]) -> None:
    past, since = begin(0.0, 5), None
    for index, fine in enumerate(known):
        at = 10.0 * (index + 1)
        judged = case([Wants(answer=5) if fine else UNKNOWN], confirmed=at, at=at)
        past = remember(past, decide(replace(judged, past=past)))
        since = None if fine else at if since is None else since
        assert past.blind_since == since


def test_pause_and_stale_view_do_not_change_the_blind_time() -> None:
    """Who was paused for an hour has not been blind for an hour; and who is blind stays so through an old view."""
    past = begin(0.0, 5)
    paused = decide(case([UNKNOWN], current=0))
    assert not paused.blind
    assert remember(past, paused).blind_since is None
    blind = remember(past, decide(case([UNKNOWN], at=10.0, confirmed=10.0)))
    assert blind.blind_since == 10.0
    old = decide(case([UNKNOWN], at=500.0, confirmed=10.0))
    assert (old.reason, remember(blind, old).blind_since) == ("StaleCluster", 10.0)
    known = decide(case([Wants(answer=5)], at=510.0, confirmed=510.0))
    assert remember(blind, known).blind_since is None


def test_the_first_moment_of_time_is_a_moment_too() -> None:
    blind = remember(begin(0.0, 5), decide(case([UNKNOWN], at=0.0, confirmed=0.0)))
    assert remember(blind, decide(case([UNKNOWN], at=9.0, confirmed=9.0))).blind_since == 0.0
