"""What would move next in a pool, in one line."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from elasticd.base.text import tallied
from elasticd.model.actions import Result
from elasticd.model.moves import MoveDecision, MovesPlan, NodeLevel, Stand, Underway
from elasticd.model.placement import PodOutcome
from elasticd.model.reports import Moving
from elasticd.model.workload import Failure, Ref
from elasticd.runtime.pools.history import Latest
from elasticd.runtime.pools.next_moves import moving
from tests.kit.pools import NOW


def decided(name: str, refusal: str = "", **more: Any) -> MoveDecision:
    """A pod that moves from a to b, or stays."""
    ref, message = Ref("shop", "Pod", name, "v1"), f"because of {refusal or 'load'}"
    target = "" if refusal else "b"
    own: dict[str, Any] = {"mode": "act", "verdict": "refuse" if refusal else "move", "target": target, "node": "a"}
    return MoveDecision(
        f"pool:{name}",
        NOW,
        "pool",
        ref,
        strategy="says",
        reason="Overloaded",
        message=message,
        uid=f"uid-{name}",
        refusal=refusal,
        **{**own, **more},
    )


def came(name: str, result: Result, reason: str = "", message: str = "") -> PodOutcome:
    ref = Ref("shop", "Pod", name, "v1")
    return PodOutcome(f"pool:{name}", NOW, "pool", ref, ref, "evict", "a", result, message=message, reason=reason)


def level(node: str, state: Stand, message: str = "cpu 80%") -> NodeLevel:
    return NodeLevel(node, state, message=message)


def of(
    plan: MovesPlan,
    *outcomes: PodOutcome,
    reasons: Mapping[str, int] | None = None,
    underway: Sequence[Underway] = (),
    going: Sequence[MoveDecision] = (),
) -> Moving:
    known = {f"uid-{one.pod.name}": one for one in outcomes}
    latest = Latest(NOW, NOW + 30, plan, known, {one.uid: one for one in going})
    return moving(latest, {one.uid: one for one in underway}, lambda _: reasons or {})


def going(name: str, how: Literal["anew", "surge", "evicted"] = "surge", **more: Any) -> Underway:
    """One that is on its way."""
    step = {"surge": f"wait: 1 of 2 are ready without {name}", "evicted": "leaving", "anew": "gone"}[how]
    return Underway(Ref("shop", "Pod", name, "v1"), f"uid-{name}", how, step, NOW, "a", **more)


def plan(*decisions: MoveDecision, levels: tuple[NodeLevel, ...] = (), failed: str = "") -> MovesPlan:
    failures = (Failure("says", failed, "raised ValueError"),) if failed else ()
    return MovesPlan(decisions, levels, failures)


GIVES, TAKES = level("a", "gives"), level("b", "takes")


@pytest.mark.parametrize(
    ("made", "reasons", "told"),
    [
        pytest.param(plan(decided("p")), {}, "1 pod moves", id="one"),
        pytest.param(plan(decided("p"), decided("q")), {}, "2 pods move", id="two"),
        pytest.param(
            plan(decided("p", mode="observe")), {}, "1 pod would move, but mode is observe", id="who only observes"
        ),
        pytest.param(
            plan(decided("p"), decided("q", "Budget"), decided("r", "Budget")),
            {},
            "1 pod moves; 2 more should, and stay: Budget",
            id="one, and two that stay",
        ),
        pytest.param(
            plan(decided("p", "Single"), decided("q", "Budget"), decided("r", "Budget")),
            {},
            "nothing moves: 3 pods should, and stay: 2 Budget, 1 Single",
            id="all stay",
        ),
        pytest.param(
            plan(failed="rebalance_nodes"),
            {},
            "nothing moves: plugin says: rebalance_nodes raised ValueError",
            id="fails",
        ),
        pytest.param(
            plan(levels=(level("b", "level"),), failed="explain_nodes"),
            {},
            "nothing moves, the nodes are level: most loaded is b: cpu 80%",
            id="what only words fail for moves as ever",
        ),
        pytest.param(
            plan(levels=(GIVES, level("c", "level"))),
            {"": 3},
            "nothing moves: a should give pods, but no node takes any; cpu 80%",
            id="nobody takes",
        ),
        pytest.param(
            plan(levels=(GIVES, TAKES)),
            {"Single": 2, "Young": 3},
            "nothing moves: a should give pods, but all its 5 stay (3 Young, 2 Single); cpu 80%",
            id="all are kept",
        ),
        pytest.param(
            plan(levels=(GIVES, TAKES)),
            {},
            "nothing moves: a should give pods, but there is none on it; cpu 80%",
            id="it has none",
        ),
        pytest.param(
            plan(levels=(GIVES, TAKES)),
            {"": 4, "Young": 1},
            "nothing moves: a should give pods, but none of the 4 that could go is wanted: too new, not measured, "
            "worth too little, or just moved; cpu 80%",
            id="none is wanted",
        ),
        pytest.param(
            plan(levels=(level("c", "high", "in 2 of 3 looks"), TAKES)),
            {},
            "nothing moves yet: c: in 2 of 3 looks",
            id="not for long enough",
        ),
        pytest.param(
            plan(levels=(level("c", "level", ""), TAKES, level("d", "unknown"))),
            {},
            "nothing moves, the nodes are level: most loaded is c",
            id="level",
        ),
        pytest.param(
            plan(levels=(level("c", "unknown"),)), {}, "nothing moves: what nodes use is not known", id="unknown"
        ),
        pytest.param(plan(), {}, "nothing moves: no pod should", id="nobody says anything of nodes"),
    ],
)
def test_one_line_summarises_the_result_of_a_look(made: MovesPlan, reasons: dict[str, int], told: str) -> None:
    assert of(made, reasons=reasons).summary == told


def test_refused_pods_stay_and_moving_pods_are_listed_first() -> None:
    refused = came("p", "refused", "Disturbed", "10 pods of node a went within 60 s, and 10 may")
    found = of(plan(decided("p"), decided("q", "Budget"), decided("r")), refused, came("r", "done"))
    assert found.summary == "1 pod moves; 2 more should, and stay: 1 Budget, 1 Disturbed"
    assert [(one.decision.pod.name, *one.held) for one in found.moves] == [
        ("r", "", ""),
        ("p", "Disturbed", "10 pods of node a went within 60 s, and 10 may"),
        ("q", "Budget", "because of Budget"),
    ]


GOING = decided("p", "Leaving")


@pytest.mark.parametrize(
    ("made", "underway", "told"),
    [
        pytest.param(
            plan(GOING),
            [going("p")],
            "1 pod is on the way: another is made first, and awaited",
            id="another is awaited",
        ),
        pytest.param(
            plan(decided("p")),
            [going("p")],
            "1 pod is on the way: another is made first, and awaited",
            id="in the look in which it began",
        ),
        pytest.param(plan(GOING), [going("p", "evicted")], "1 pod is on the way", id="it takes its time to end"),
        pytest.param(
            plan(GOING), [going("p", ends=True)], "1 pod is on the way", id="so does one that had another first"
        ),
        pytest.param(plan(GOING), [], "1 pod is on the way", id="somebody else deletes it"),
        pytest.param(
            plan(GOING, decided("q"), decided("r", "Budget"), decided("s", "Leaving")),
            [going("p", "evicted")],
            "1 pod moves; 2 more are on the way; 1 more should, and stays: Budget",
            id="beside others",
        ),
        pytest.param(
            plan(GOING, decided("r", "Budget"), decided("s", "Budget")),
            [going("p", "anew")],
            "1 pod is on the way; 2 more should, and stay: Budget",
            id="and others stay",
        ),
    ],
)
def test_who_is_on_the_way_is_not_held_back(made: MovesPlan, underway: list[Underway], told: str) -> None:
    found = of(made, underway=underway)
    assert found.summary == told
    assert [one.held for one in found.moves if one.decision.pod.name == "p"] == [("", "")]
    assert [one.begun for one in found.moves if one.decision.pod.name == "p"] == [True]


def test_a_pod_under_way_is_listed_beside_the_plan() -> None:
    told = [decided("p"), decided("q"), decided("gone")]
    found = of(plan(decided("q", "Budget")), underway=[going("p")], going=told)
    assert found.summary == (
        "1 pod is on the way: another is made first, and awaited; 1 more should, and stays: Budget"
    )
    assert [(one.decision.pod.name, one.decision.target, one.begun) for one in found.moves] == [
        ("p", "b", True),
        ("q", "", False),
    ]


def test_a_refused_pod_now_under_way_is_not_held_back() -> None:
    assert of(plan(decided("p")), came("p", "refused", "UnderWay"), underway=[going("p")]).moves[0].goes


BACK = going("p", stays=True)


@pytest.mark.parametrize(
    ("made", "outcomes", "underway"),
    [
        pytest.param(plan(decided("p")), [came("p", "done")], [BACK], id="since the look in which it began"),
        pytest.param(plan(GOING), [came("p", "done")], [BACK], id="since a later look"),
        pytest.param(plan(decided("p")), [came("p", "refused", "UnderWay")], [BACK], id="at a look meanwhile"),
        pytest.param(plan(decided("p")), [came("p", "refused", "TakenBack")], [], id="it is over"),
        pytest.param(plan(GOING), [came("p", "refused", "TakenBack")], [], id="it is over, and began long before"),
    ],
)
def test_a_move_being_taken_back_counts_as_staying(
    made: MovesPlan, outcomes: list[PodOutcome], underway: list[Underway]
) -> None:
    found = of(made, *outcomes, underway=underway)
    assert found.summary == "nothing moves: 1 pod should, and stays: TakenBack"
    (one,) = found.moves
    assert (one.begun, one.goes, one.awaited) == (False, False, False)
    how = underway[0].step if underway else "it is as it was before"
    assert one.held == ("TakenBack", f"another was made first, in vain{': ' if underway else '; '}{how}")


def test_a_move_taken_back_outside_the_plan_is_not_listed() -> None:
    found = of(plan(), underway=[BACK], going=[decided("p")])
    assert (found.summary, found.moves) == ("nothing moves: no pod should", ())


GAVE_WAY = going("p", "anew", why="is preempted for shop/high")


@pytest.mark.parametrize("verdict", ["Budget", "", "Leaving"], ids=["held back", "not let through", "seen to leave"])
@pytest.mark.parametrize("planned", [True, False], ids=["by the look", "of long ago"])
def test_a_preempted_pod_is_not_listed_under_its_refused_move(verdict: str, planned: bool) -> None:
    decision, refused = decided("p", verdict), came("p", "refused", "Disturbed")
    found = of(plan(*[decision] * planned), refused, underway=[GAVE_WAY], going=[decision])
    assert (found.summary, found.moves) == ("nothing moves: no pod should", ())


@pytest.mark.parametrize(
    ("decision", "underway", "told"),
    [
        pytest.param(decided("p"), going("p", "anew", why="Overloaded"), True, id="by this move"),
        pytest.param(decided("p", "Leaving"), going("p", "anew", why="Drains"), True, id="it was seen to leave"),
        pytest.param(decided("p"), going("p", "anew", why=""), True, id="of a daemon that did not write why"),
        pytest.param(decided("p"), going("p", "anew", why="Drains"), False, id="by another move"),
        pytest.param(decided("p", "Budget"), going("p", "anew"), False, id="it was held back"),
        pytest.param(decided("p", mode="observe"), going("p", "anew"), False, id="it was only observed"),
    ],
)
@pytest.mark.parametrize("planned", [True, False], ids=["by the look", "of long ago"])
def test_a_pod_under_way_is_listed_with_its_own_move(
    decision: MoveDecision, underway: Underway, told: bool, planned: bool
) -> None:
    found = of(plan(*[decision] * planned), underway=[underway], going=[decision])
    assert [(one.decision, one.begun) for one in found.moves] == [(decision, True)] * told


HIGH = level("c", "high", "cpu 75%, the pool 38%, too loaded above 52%: in 2 of 3 looks")


@pytest.mark.parametrize(
    ("made", "reasons", "told"),
    [
        pytest.param(
            plan(decided("p", "Budget"), levels=(level("a", "gives"), HIGH, TAKES)),
            {},
            f"nothing moves: 1 pod should, and stays: Budget; not yet: c: {HIGH.message}",
            id="beside pods that are held back",
        ),
        pytest.param(
            plan(decided("p"), levels=(GIVES, HIGH, level("d", "high"), level("e", "high"))),
            {},
            f"1 pod moves; not yet: c: {HIGH.message} (and 2 other nodes)",
            id="several",
        ),
        pytest.param(
            plan(decided("p", "Budget"), levels=(level("a", "gives"), level("b", "gives", "cpu 90%"), TAKES)),
            {"Young": 2},
            "nothing moves: 1 pod should, and stays: Budget; b should give pods, but all its 2 stay (Young); cpu 90%",
            id="one that gives, of whose pods nothing is said",
        ),
        pytest.param(
            plan(levels=(GIVES, level("b", "gives"), HIGH, TAKES)),
            {"Young": 2},
            "nothing moves: a should give pods, but all its 2 stay (Young); cpu 80% (and 1 other node); "
            f"not yet: c: {HIGH.message}",
            id="beside nodes that give",
        ),
        pytest.param(
            plan(levels=(HIGH, level("d", "high"))),
            {},
            f"nothing moves yet: c: {HIGH.message} (and 1 other node)",
            id="nobody is to go yet",
        ),
        pytest.param(
            plan(decided("p", "Budget", node="c"), levels=(HIGH,)),
            {},
            f"nothing moves: 1 pod should, and stays: Budget; not yet: c: {HIGH.message}",
            id="one of whose pods something else wants one moved",
        ),
    ],
)
def test_overloaded_nodes_are_reported_beside_results_of_other_nodes(
    made: MovesPlan, reasons: dict[str, int], told: str
) -> None:
    assert of(made, reasons=reasons).summary == told


def test_a_decision_that_strategies_failed_is_about_no_pod() -> None:
    failed = decided("", "PluginFailed", failures=(Failure("says", "rebalance_nodes", "raised ValueError"),))
    found = of(plan(failed, decided("p"), failed="rebalance_nodes"))
    assert [one.decision.pod.name for one in found.moves] == ["p"]
    assert (found.summary, len(found.failures)) == ("1 pod moves", 1)


def test_an_outcome_without_a_reason_is_reported_by_its_result() -> None:
    (one,) = of(plan(decided("p")), came("p", "failed")).moves
    assert one.held == ("failed", "")


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        pytest.param({}, "", id="none"),
        pytest.param({"Budget": 7}, "Budget", id="one word"),
        pytest.param({"b": 1, "a": 1, "c": 3}, "3 c, 1 a, 1 b", id="the most first, then by name"),
    ],
)
def test_reasons_are_counted(counts: dict[str, int], told: str) -> None:
    assert tallied(counts) == told
