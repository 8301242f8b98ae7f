"""What was last said about pods: what is news, and why those wait that are on no node."""

import pytest
from msgspec.structs import replace

from elasticd.model.actions import Bind, Evict, Nominate
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.model.workload import Ref
from elasticd.runtime.pools.deduplicated import AGAIN, OBSERVED, REPEAT, UNASKED, LastDecisions

REF = Ref("shop", "Pod", "p", "v1")
BIND, NOTE = Bind(REF, "p", "a"), Nominate(REF, "p", "a")


def said(verdict: str = "wait", reason: str = "Unschedulable", **more: object) -> PodDecision:
    table = {"id": "d", "at": 1.0, "policy": "pool", "pod": REF, "mode": "act", "uid": "p"}
    return PodDecision(**{**table, "verdict": verdict, "reason": reason, **more})  # type: ignore[arg-type]


WAIT = said(message="3 full", mend="a is nearest")


@pytest.mark.parametrize(
    ("then", "news"),
    [
        pytest.param({}, False, id="the same"),
        pytest.param({"reason": "NoNodeMatches"}, True, id="another reason"),
        pytest.param({"verdict": "bind"}, True, id="another verdict"),
        pytest.param({"node": "a"}, True, id="another node"),
        pytest.param({"policy": "other"}, True, id="another policy"),
        pytest.param({"mode": "observe"}, True, id="another mode"),
        pytest.param({"message": "3 closed", "at": AGAIN}, False, id="other words soon after"),
        pytest.param({"message": "3 closed", "at": 1.0 + AGAIN}, True, id="other words in time"),
        pytest.param({"message": "2 full", "at": REPEAT}, False, id="another count soon after"),
        pytest.param({"message": "2 full", "at": 1.0 + REPEAT}, True, id="another count in time"),
        pytest.param({"mend": "b is nearest", "at": 1.0 + REPEAT}, True, id="something else would help"),
        pytest.param({"at": 1.0 + REPEAT}, False, id="the same words in time"),
    ],
)
def test_a_decision_is_news_when_it_says_something_else(then: dict[str, object], news: bool) -> None:
    it = LastDecisions()
    assert it.news(WAIT)
    assert it.news(replace(WAIT, **then)) is news


NODES = "0/{} nodes are available: {}, {}; no other pods can be preempted for it: {}, {}"


@pytest.mark.parametrize(
    ("parts", "news"),
    [
        pytest.param((9, "2 full", "7 closed", "on 7 nodes closed", "on 2 nodes full"), False, id="the same"),
        pytest.param((9, "5 full", "4 closed", "on 5 nodes full", "on 4 nodes closed"), False, id="another order"),
        pytest.param((12, "10 full", "2 closed", "on 10 nodes full", "on 2 nodes closed"), False, id="by digits"),
        pytest.param((9, "8 full", "1 closed", "on 8 nodes full", "on 1 node closed"), False, id="one of something"),
        pytest.param((9, "5 full", "4 closed", "on 5 nodes open", "on 4 nodes closed"), True, id="another clause"),
        pytest.param((9, "5 full", "4 full", "on 5 nodes full", "on 4 nodes closed"), True, id="one clause twice"),
    ],
)
def test_reordered_counts_in_a_message_are_no_news(parts: tuple[object, ...], news: bool) -> None:
    it = LastDecisions()
    before = NODES.format(9, "2 full", "7 closed", "on 7 nodes closed", "on 2 nodes full")
    assert it.news(said(message=before))
    then = said(message=NODES.format(*parts), at=1.0 + AGAIN)
    assert it.news(then) is news
    assert it.news(replace(then, at=1.0 + REPEAT)) is (not news and then.message != before), "told later all the same"


@pytest.mark.parametrize(
    ("mode", "news"), [pytest.param("act", True, id="they go"), pytest.param("observe", False, id="they would go")]
)
def test_other_victims_on_the_same_node_are_news_when_evicted(mode: str, news: bool) -> None:
    it = LastDecisions()
    first, second = (said("preempt", "Preempts", mode=mode, node="a", actions=(evict(uid),)) for uid in ("u", "v"))
    assert [it.news(one) for one in (first, first, second, second)] == [True, False, news, False]


def evict(uid: str) -> Evict:
    return Evict(Ref("shop", "Pod", "victim", "v1"), uid, "a")


def test_words_are_as_old_as_when_they_were_told() -> None:
    it = LastDecisions()
    found = [it.news(said(message=str(number), at=10.0 * number)) for number in range(8)]
    assert found == [True, False, False, False, False, False, True, False]


def test_a_failed_action_is_news_when_it_is_retried() -> None:
    it = LastDecisions()
    assert it.news(said("bind", "Placed", actions=(BIND,)))
    it.undone("p", "Conflict")
    assert it.news(said("bind", "Placed", actions=(BIND,)))


PREEMPT = said("preempt", "Preempts", actions=(NOTE,))


@pytest.mark.parametrize(
    ("decisions", "undone", "counts"),
    [
        pytest.param([], "", {UNASKED: 1}, id="nobody has been asked"),
        pytest.param([WAIT], "", {"Unschedulable": 1}, id="it waits"),
        pytest.param([said("leave", "Unsupported")], "", {"Unsupported": 1}, id="it is left alone"),
        pytest.param([PREEMPT], "", {"Preempts": 1}, id="others are preempted"),
        pytest.param([PREEMPT], "PerNode", {"PerNode": 1}, id="the broker refuses that"),
        pytest.param([said("bind", "Placed", actions=(BIND,))], "", {}, id="it is on its way"),
        pytest.param([said("bind", "Placed", actions=(BIND,))], "Conflict", {"Conflict": 1}, id="its binding failed"),
        pytest.param([PREEMPT, WAIT], "", {"Unschedulable": 1}, id="the last counts"),
        pytest.param([said("bind", "Placed", mode="observe")], "", {OBSERVED: 1}, id="it would be bound"),
        pytest.param([said("preempt", "Preempts", mode="observe")], "", {OBSERVED: 1}, id="others would be preempted"),
        pytest.param([said(mode="observe")], "", {"Unschedulable": 1}, id="it would wait"),
    ],
)
def test_why_a_pod_waits(decisions: list[PodDecision], undone: str, counts: dict[str, int]) -> None:
    it = LastDecisions()
    for one in decisions:
        it.news(one)
    if undone:
        it.undone("p", undone)
    assert it.waiting(["p"]) == counts


def test_what_was_not_done_counts_until_something_is_decided_again() -> None:
    it = LastDecisions()
    it.undone("p", "Conflict")
    it.news(WAIT)
    assert it.waiting(["p"]) == {"Unschedulable": 1}


FAILED = PodOutcome("d", 2.0, "pool", REF, REF, "bind", "a", "failed", 422)
BOUND = said("bind", "Placed", actions=(BIND,))


@pytest.mark.parametrize(
    ("decisions", "standing"),
    [
        pytest.param([], None, id="nothing"),
        pytest.param([BOUND], (BOUND, FAILED), id="its binding failed"),
        pytest.param([BOUND, replace(BOUND, id="e")], (replace(BOUND, id="e"), FAILED), id="and is tried again"),
        pytest.param([BOUND, replace(WAIT, id="e")], (replace(WAIT, id="e"), None), id="then no node took it"),
    ],
)
def test_where_a_pod_stands_is_its_last_failure_or_reason(decisions: list[PodDecision], standing: object) -> None:
    it = LastDecisions()
    for number, decision in enumerate(decisions):
        it.news(decision)
        if not number:
            it.failed("p", FAILED)
    assert it.standing("p") == standing


def test_who_is_gone_is_forgotten() -> None:
    it = LastDecisions()
    it.news(WAIT)
    it.undone("q", "Conflict")
    it.keep({"q"})
    assert it.waiting(["p", "q"]) == {UNASKED: 1, "Conflict": 1}
    it.keep(frozenset())
    assert it.waiting(["q"]) == {UNASKED: 1}
