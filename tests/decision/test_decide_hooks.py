"""Judgement and its hooks: what they may answer, and what becomes of nonsense."""

from math import inf, nan
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from elasticd.api import Limit, Recommendation, Strategy
from elasticd.decision.decide import Evaluated, announcements, decide, evaluate, held
from elasticd.model.actions import Scale
from elasticd.model.policy import MOST
from elasticd.model.records import Decision, Sizing
from elasticd.model.workload import Condition
from tests.kit.deciding import BROKEN, OLD, UNKNOWN, Also, Forbids, Wants, case, verdict


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
        "nan": Recommendation(nan, "R"),  # type: ignore[arg-type]
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


def test_what_makes_sense_beside_nonsense_is_reported_with_it() -> None:
    decision = decide(case([Wants(answer=8), Also(answer="five")]))
    assert [(one.strategy, one.replicas) for one in decision.recommendations] == [("wants", 8)]
    assert [failure.plugin for failure in decision.failures] == ["also"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(7, "must be a Limit", id="a-number"),
        pytest.param(Limit("L", lowest=5, highest=4), "lowest must be <= highest = 4, is 5", id="crossed"),
        pytest.param(Limit("L", lowest=-1), f"lowest must be from 0 to {MOST}, is -1", id="negative"),
        pytest.param(Limit("L", highest=nan), f"highest must be from 0 to {MOST}, is nan", id="nan"),  # type: ignore[arg-type]
        pytest.param(Limit("L", lowest=nan), f"lowest must be from 0 to {MOST}, is nan", id="low-nan"),  # type: ignore[arg-type]
        pytest.param(Limit("L", highest=inf), f"highest must be from 0 to {MOST}, is inf", id="infinite"),  # type: ignore[arg-type]
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
def test_a_limit_that_makes_no_sense_holds_and_is_reported(answer: Any, problem: str) -> None:
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
    given, workload = case(), case().observation.workload
    decision = held(given.policy, workload.ref, 7.0, "FailedGetScale", "gone")
    assert (verdict(decision), decision.interval) == (("hold", 0, "FailedGetScale"), 30.0)
    assert decision.conditions == (Condition("AbleToScale", False, "FailedGetScale", "gone"),)
    assert announcements(decision, None) == ()
    contested = held(given.policy, workload.ref, 7.0, "Contested", "by two", workload)
    assert (contested.current, contested.replicas) == (workload.replicas, workload.replicas)
    assert contested.uid == workload.uid


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


class Clocked(Strategy, tag="clocked", frozen=True):
    """Says something else at a time."""

    when: Any

    def next_change(self, now: float) -> float:
        if isinstance(self.when, BaseException):
            raise self.when
        return now + self.when if type(self.when) is int else self.when


@pytest.mark.parametrize(
    ("changes", "until"),
    [
        pytest.param([], inf, id="nobody changes"),
        pytest.param([100, 50, 70], 50, id="the soonest"),
        pytest.param([-5, 0, 70], 70, id="the next in the future"),
        pytest.param([nan, inf, 70], 70, id="no time"),
        pytest.param([-1], inf, id="none left"),
    ],
)
def test_a_decision_says_when_the_clock_alone_may_change_it(changes: list[Any], until: float) -> None:
    asked = case([Wants(answer=8), *[Clocked(when=change) for change in changes]])
    assert evaluate(asked) == Evaluated(decide(asked), asked.observation.at + until)


@pytest.mark.parametrize(
    ("when", "why"),
    [
        pytest.param("soon", 'returned "soon": must be a time in seconds since the epoch', id="text"),
        pytest.param(True, "returned true: must be a time", id="a boolean"),
        pytest.param(RuntimeError("no clock"), "raised RuntimeError: no clock", id="raises"),
        pytest.param(SystemExit("gone"), "raised SystemExit: gone", id="exits"),
    ],
)
def test_who_cannot_say_when_it_changes_is_named(when: Any, why: str) -> None:
    decision, until = evaluate(case([Wants(answer=8), Clocked(when=when)]))
    assert (verdict(decision), until) == (("hold", 5, "PluginFailed"), inf)
    assert decision.message.startswith(f"clocked: next_change {why}")
    assert [failure.plugin for failure in decision.failures] == ["clocked"]
