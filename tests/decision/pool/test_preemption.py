"""Which pods are preempted: how answers are compared, that budgets hold, and that nobody goes in vain."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.api import (
    DisruptionBudget,
    Nodes,
    Pod,
    PoolObservation,
    Refusal,
    Selection,
    Spared,
    Strategy,
    Victims,
    hookimpl,
)
from elasticd.decision.pool.preemption import OFFERS, Budgets
from elasticd.kit import BINDING
from elasticd.model.actions import Bind, Evict, Nominate
from elasticd.model.disruption import DisruptionState
from elasticd.model.placement import PodDecision
from elasticd_plugins.binding import BindingRules
from elasticd_plugins.filters import Filters
from elasticd_plugins.preemption import Preemption
from tests.kit.pools import NOW, columns, node, planned, pod

Said = Victims | Spared | None
Answer = Callable[[Pod, int, Nodes, PoolObservation], Said]


class Says(Strategy, tag="says", frozen=True):
    """Answers as the test says."""

    answer: Any

    @hookimpl
    def select_victims(self, pod: Pod, node: int, nodes: Nodes, observation: PoolObservation) -> Said:
        found: Said = self.answer(pod, node, nodes, observation)
        return found


def staying(node: int, nodes: Nodes) -> tuple[Pod, ...]:
    return tuple(one for one in nodes.pods(node) if not one.deleted)


def everybody(waiting: Pod, node: int, nodes: Nodes, _: object) -> Victims | None:
    """All lesser pods of the node, where that costs as many."""
    found = tuple(one for one in staying(node, nodes) if one.needs.priority < waiting.needs.priority)
    if found:
        return Victims(found, (float(len(found)),))
    return Victims(()) if any(one.deleted for one in nodes.pods(node)) else None


def preempting(
    there: Sequence[Pod], waiting: Sequence[Pod], answer: Answer = everybody, **more: Any
) -> list[PodDecision]:
    """What is decided about these, on nodes of one core."""
    nodes = [node(name, cpu=1) for name in sorted({one.node for one in there} | {"a"})]
    strategies = [Filters(), Says(answer=answer), *more.pop("strategies", ())]
    return list(planned(strategies, columns(nodes, there), waiting, **more))


def evicted(decision: PodDecision) -> list[str]:
    return [action.workload.name for action in decision.actions if isinstance(action, Evict)]


OLD = pod("old", 1, on="a")
URGENT = pod("urgent", 1, priority=9)


def test_the_node_is_noted_and_then_they_go_in_order() -> None:
    there = [pod("x", 0.5, on="a", restart="OnFailure"), pod("y", 0.5, on="a", owner=("Job", "j", "uid-j"))]
    (decision,) = preempting(there, [URGENT])
    why = "is preempted for shop/urgent"
    assert decision.actions == (
        Nominate(URGENT.ref, "uid-urgent", "a"),
        Evict(there[0].ref, "uid-x", "a", why, restore=True, first=True),
        Evict(there[1].ref, "uid-y", "a", why, restore=False, first=False, owner="uid-j"),
    )
    assert decision.message == "shop/x, shop/y are preempted on a"


def test_one_alone_gives_way_in_the_singular() -> None:
    (decision,) = preempting([OLD], [URGENT])
    assert decision.message == "shop/old is preempted on a"


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        pytest.param({"a": (2.0,), "b": (1.0, 9.0), "c": (1.0, 8.0)}, "c", id="compared from the first number on"),
        pytest.param({"a": (1.0,), "b": (1.0,), "c": (1.0,)}, "a", id="equal ones by score, and then as they come"),
        pytest.param({"a": (1.0,), "b": (), "c": (0.0,)}, "b", id="the first without a cost at once"),
        pytest.param({"a": (1.0, 1.0), "b": (1.0,), "c": (2.0,)}, "b", id="fewer numbers before more"),
    ],
)
def test_of_several_nodes_the_cheapest_is_taken(costs: dict[str, tuple[float, ...]], expected: str) -> None:
    def answer(_: Pod, index: int, nodes: Nodes, __: object) -> Victims:
        return Victims(staying(index, nodes), costs[nodes.names[index]])

    (decision,) = preempting([pod(f"old-{name}", 1, on=name) for name in "abc"], [URGENT], answer)
    assert (decision.node, evicted(decision)) == (expected, [f"old-{expected}"])


def test_insufficient_victims_are_never_evicted_whatever_a_plugin_says() -> None:
    there = [pod("x", 0.5, on="a"), pod("y", 0.5, on="a")]
    (decision,) = preempting(there, [URGENT], lambda _, index, nodes, __: Victims(staying(index, nodes)[:1], (1.0,)))
    assert (decision.verdict, evicted(decision)) == ("wait", [])
    assert (
        decision.message == "0/1 nodes are available: 1 Insufficient cpu; no other pods can be preempted for it: "
        "on 1 node it would not suffice"
    )


def test_why_nobody_gives_way_is_counted_by_node() -> None:
    def answer(_: Pod, index: int, nodes: Nodes, __: object) -> Victims | Spared | None:
        return [Spared("all sleep"), Spared("all sleep"), None, Spared("nobody is lesser")][index]

    there = [pod(f"old-{name}", 1, on=name) for name in "abcd"]
    first, second = preempting(there, [URGENT, pod("urgent2", 1, priority=9)], answer)
    assert first.message.endswith(
        "no other pods can be preempted for it: on 2 nodes all sleep, on 1 node nobody is lesser"
    )
    assert second.message == first.message, "one like it is told the same without asking again"


def test_remedy_for_preemption_is_reported_beside_what_is_missing() -> None:
    there = [pod(f"old-{name}", 1, on=name) for name in "ab"]
    (decision,) = preempting(there, [URGENT], lambda *_: Spared("all sleep", ("they wake",)))
    missing = "a is nearest: pods that stay there would have to request 1 cpu less"
    assert decision.mend == f"{missing}; or they wake (2 nodes)"


def test_of_many_reasons_the_most_frequent_are_reported() -> None:
    nodes = "abcdefgh"
    there = [pod(f"old-{name}", 1, on=name) for name in nodes]
    (decision,) = preempting(there, [URGENT], lambda _, index, *__: Spared(f"reason {max(1, index)}"))
    told = [f"on 1 node reason {index}" for index in (2, 3, 4, 5)]
    expected = ", ".join(["on 2 nodes reason 1", *told, "on 2 nodes for other reasons"])
    assert decision.message.endswith(f"no other pods can be preempted for it: {expected}")


def test_next_best_node_is_taken_where_the_best_is_insufficient() -> None:
    def answer(_: Pod, index: int, nodes: Nodes, __: object) -> Victims:
        return Victims(staying(index, nodes)[:1], (float(index),))

    there = [pod("a1", 0.5, on="a"), pod("a2", 0.5, on="a"), pod("b1", 1, on="b")]
    (decision,) = preempting(there, [URGENT], answer)
    assert (decision.node, evicted(decision)) == ("b", ["b1"])


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda there: (pod("stranger", on="a"),), id="one who is not there"),
        pytest.param(lambda there: (there[0], there[0]), id="one twice"),
        pytest.param(lambda there: (there[1],), id="one who is leaving"),
    ],
)
def test_answer_with_wrong_victims_is_a_failure_without_eviction(
    wrong: Callable[[Sequence[Pod]], tuple[Pod, ...]],
) -> None:
    there = [OLD, pod("leaving", 0.0, on="a", deleted=True)]
    (decision,) = preempting(there, [URGENT], lambda *_: Victims(wrong(there), (1.0,)))
    assert (decision.verdict, decision.reason, decision.actions) == ("wait", "PluginFailed", ())
    (failure,) = decision.failures
    assert (failure.plugin, failure.hook) == ("says", "select_victims")
    assert failure.message == "must return pods that are on the node and not leaving it, each once"


def test_a_plugin_that_fails_evicts_nobody_though_another_answers() -> None:
    class Fails(Strategy, tag="fails", frozen=True):
        @hookimpl
        def select_victims(self) -> Victims | None:
            raise RuntimeError("cannot")

    (decision,) = preempting([OLD], [URGENT], strategies=[Fails()])
    assert (decision.reason, decision.actions) == ("PluginFailed", ())


def budget(allowed: int, *pods: str) -> DisruptionBudget:
    return DisruptionBudget("shop", "b", frozenset(f"uid-{one}" for one in pods), allowed)


@pytest.mark.parametrize(
    ("more", "reason", "why"),
    [
        pytest.param(
            {"budgets": (budget(0, "old"),)},
            "Unschedulable",
            "no other pods can be preempted for it: on 1 node a PodDisruptionBudget lets too few of them go",
            id="a budget forbids it",
        ),
        pytest.param(
            {"budgets": (replace(budget(0, "old"), why="not let go when last tried (NotRestorable)"),)},
            "Unschedulable",
            "no other pods can be preempted for it: "
            "on 1 node some of them were not let go when last tried (NotRestorable)",
            id="its eviction was refused",
        ),
        pytest.param(
            {"budgets_known": False},
            "BudgetsUnknown",
            "no pod is preempted while PodDisruptionBudgets are not known",
            id="budgets are not known",
        ),
    ],
)
def test_no_budget_is_overdrawn_whatever_a_plugin_says(more: dict[str, Any], reason: str, why: str) -> None:
    (decision,) = preempting([OLD], [URGENT], **more)
    assert (decision.verdict, decision.reason, evicted(decision)) == ("wait", reason, [])
    assert decision.message.endswith(f"; {why}")


def test_a_budget_is_spent_by_every_decision_of_a_plan() -> None:
    there = [pod("x", 1, on="a"), pod("y", 1, on="b")]
    first, second = preempting(there, [URGENT, pod("other", 1, priority=9)], budgets=(budget(1, "x", "y"),))
    assert [first.verdict, second.verdict] == ["preempt", "wait"]


def test_budgets_are_known_as_they_are_after_what_was_planned() -> None:
    spent = Budgets((budget(2, "x", "y", "z"), DisruptionBudget("blog", "b", frozenset({"uid-x"}), 1)))
    before = spent.now
    spent.spend(pod("other"))
    assert spent.now is before
    spent.spend(pod("x"))
    assert spent.now == (budget(1, "y", "z"), DisruptionBudget("blog", "b", frozenset(), 0))
    assert spent.bear([pod("y"), pod("free")])
    assert not spent.bear([pod("y"), pod("z")])


def test_of_budgets_that_are_not_known_nobody_may_go() -> None:
    assert not Budgets((), known=False).bear([pod("x")])
    assert Budgets((), known=False).bear([])


def test_nobody_goes_on_what_is_known_too_late() -> None:
    def stale(**more: Any) -> str:
        strategies = [Filters(), Says(answer=everybody)]
        (decision,) = planned(strategies, columns([node("a", cpu=1)], [OLD]), [URGENT], **more)
        return f"{decision.verdict}: {decision.message}"

    assert stale().startswith("preempt")
    assert stale(confirmed=NOW - 120).startswith("preempt")
    assert stale(confirmed=NOW - 121) == (
        "wait: nothing is done while what is known of the pods and nodes is older than max_age"
    )


# Those that are leaving.
LEAVING = replace(OLD, deleted=True)


def test_pod_waits_for_leaving_pods_instead_of_evicting_others() -> None:
    there = [LEAVING, pod("b1", 1, on="b")]
    waiting, later = preempting(there, [URGENT, pod("later", 1)])
    assert (waiting.verdict, waiting.reason, waiting.node) == ("wait", "Nominated", "a")
    assert waiting.actions == (Nominate(URGENT.ref, "uid-urgent", "a"),)
    assert later.verdict == "wait"


def test_nominated_pod_waits_while_another_pod_leaves_its_node() -> None:
    """F32: a victim that does not end is not followed by a second one for the same place."""
    noted = replace(URGENT, nominated="a")
    (decision,) = preempting([LEAVING, pod("b1", 1, on="b")], [noted], lambda *_: pytest.fail("was asked for more"))
    assert (decision.verdict, decision.message, decision.actions) == ("wait", "waits until others have left a", ())


def test_what_victims_still_have_is_nobody_elses() -> None:
    """Three quarters of a core come free, of which a quarter is left over, but only once they are free."""
    there = [pod("x", 0.75, on="a"), pod("y", 0.25, on="a", priority=99)]
    first, second = preempting(there, [pod("urgent", 0.5, priority=9), pod("small", 0.25)])
    assert first.verdict == "preempt"
    assert (second.verdict, second.reason) == ("wait", "Nominated")  # there will be room, and nobody goes for it
    assert evicted(second) == []


def test_the_nominated_node_is_taken_though_another_scores_better() -> None:
    (decision,) = preempting([pod("small", 0.1, on="b")], [replace(URGENT, needs=pod("u", 0.5).needs, nominated="b")])
    assert decision.actions == (Bind(URGENT.ref, "uid-urgent", "b", ""),)


@pytest.mark.parametrize(
    ("there", "nominated", "expected"),
    [
        pytest.param([pod("x", 1, on="b")], "b", ("bind", "a"), id="bound elsewhere"),
        pytest.param([pod("x", 1, on="b")], "gone", ("bind", "a"), id="its node is gone"),
        pytest.param([pod("h", 1, on="a", priority=99)], "a", ("wait", ""), id="a higher one took the place"),
        pytest.param([pod("h", 1, on="a", priority=99)], "gone", ("wait", ""), id="its node is gone, and no other"),
    ],
)
def test_a_note_that_no_longer_holds_is_taken_away(there: list[Pod], nominated: str, expected: tuple[str, str]) -> None:
    """F34."""
    (decision,) = preempting(there, [replace(URGENT, nominated=nominated)])
    assert (decision.verdict, decision.node) == expected
    assert decision.actions[-1] == Nominate(URGENT.ref, "uid-urgent", "")


def test_nomination_that_no_longer_matches_the_binding_is_void() -> None:
    class Elsewhere(Strategy, tag="elsewhere", frozen=True):
        @hookimpl
        def select_nodes(self, nodes: Nodes) -> Selection:
            mask = nodes.matching("b", lambda one: one.name == "b")
            return Selection(mask, "b", "wait", "preempt")

    there = [LEAVING, pod("b1", 1, on="b")]
    (decision,) = preempting(there, [replace(URGENT, nominated="a")], strategies=[Elsewhere()])
    assert (decision.verdict, decision.node) == ("preempt", "b")
    assert decision.actions[0] == Nominate(URGENT.ref, "uid-urgent", "b")


def test_higher_pod_takes_the_place_made_for_a_lower_pod() -> None:
    noted = replace(URGENT, nominated="a")
    higher, lower = preempting([pod("b1", 1, on="b", priority=99)], [noted, pod("higher", 1, priority=50)])
    assert (higher.verdict, higher.node) == ("bind", "a")
    assert lower.actions == (Nominate(URGENT.ref, "uid-urgent", ""),)


def test_lower_pod_does_not_take_a_place_being_made() -> None:
    there = [pod("x", 0.5, on="a", deleted=True)]
    noted, lower = preempting(there, [pod("lower", 0.5), replace(URGENT, nominated="a")])
    assert (noted.pod.name, noted.verdict, lower.verdict) == ("urgent", "wait", "wait")


# What it costs.
def test_pod_like_one_without_victims_is_not_asked_about_again() -> None:
    asked: list[str] = []

    def nobody(waiting: Pod, *_: object) -> None:
        asked.append(waiting.name)

    needs = URGENT.needs
    alike = [replace(pod(f"p{index}"), needs=needs, labels={"app": "web"}) for index in range(3)]
    other = replace(pod("q"), needs=needs, labels={"app": "db"})
    preempting([OLD], [*alike, other], nobody)
    assert asked == ["p0", "q"]


def test_a_plan_limits_its_questions_and_defers_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elasticd.decision.pool.plan.QUESTIONS", 3)
    asked: list[str] = []

    def nobody(waiting: Pod, *_: object) -> None:
        asked.append(waiting.name)

    there = [pod(f"x{name}", 1, on=name) for name in "ab"]
    decisions = preempting(there, [pod(f"p{index}", 1, labels={"own": str(index)}) for index in range(3)], nobody)
    assert asked == ["p0", "p0", "p1", "p1"]
    assert decisions[-1].message.endswith("; which pods could be preempted is asked at a later look")


def test_only_enough_nodes_with_possible_victims_are_compared() -> None:
    asked: list[int] = []

    def second(_: Pod, index: int, nodes: Nodes, __: object) -> Victims | None:
        asked.append(index)
        return Victims(staying(index, nodes), (1.0,)) if index % 2 else None

    there = [pod(f"x{index:03}", 1, on=f"n{index:03}") for index in range(3 * OFFERS)]
    nodes = [node(one.node, cpu=1) for one in there]
    (decision,) = planned([Filters(), Says(answer=second)], columns(nodes, there), [URGENT])
    assert (decision.node, len(asked)) == ("n001", 2 * OFFERS)


def test_pod_left_out_of_a_joint_placement_evicts_nobody() -> None:
    class Nowhere(Strategy, tag="nowhere", frozen=True):
        @hookimpl
        def place_pods(self) -> Sequence[Any]:
            return []

    (decision,) = preempting([pod("b1", 1, on="b")], [URGENT], strategies=[Nowhere()])
    assert (decision.verdict, decision.reason, decision.actions) == ("wait", "LeftOut", ())


class Refuses(Strategy, tag="refuses", frozen=True):
    """Refuses a node as long as it has more than one pod, and notes what it sees of it."""

    @hookimpl
    def filter_nodes(self, nodes: Nodes) -> Sequence[Refusal]:
        SEEN.append((len(nodes.pods(0)), int(nodes.requested("cpu")[0])))
        return [Refusal("crowded", nodes.requested("pods") > 0, curable=True)]


SEEN: list[tuple[int, int]] = []


def test_filters_are_asked_again_without_victims_and_leaving_pods() -> None:
    SEEN.clear()
    there = [OLD, pod("leaving", 0.25, on="a", deleted=True)]
    planned([Refuses(), Says(answer=everybody)], columns([node("a", cpu=2)], there), [URGENT])
    assert SEEN == [(2, 1250), (0, 0)]


OWN = {BINDING: '{"expressions": [{"key": "disk", "operator": "in", "values": ["ssd"]}]}'}
SSD = node("a", cpu=1, labels={"disk": "ssd"})


@pytest.mark.parametrize(
    ("waiting", "mend"),
    [
        pytest.param(
            {"annotations": OWN}, "its binding says resourceNotFit force", id="its binding says that it waits"
        ),
        pytest.param({"preempts": False}, "its preemptionPolicy is not Never", id="its PriorityClass lets nobody go"),
        pytest.param({"annotations": OWN, "preempts": False}, "", id="both"),
        pytest.param({"annotations": OWN, "priority": 0}, "", id="nobody is lesser"),
        pytest.param({"preempts": False, "priority": 0}, "", id="nobody is lesser whatever its PriorityClass says"),
    ],
)
def test_remedy_in_the_pod_itself_for_preemption_is_reported(waiting: dict[str, Any], mend: str) -> None:
    strategies = [Filters(), BindingRules(), Preemption()]
    there = [pod("old", 1, on="a", started=NOW - 1000, restart="Always")]
    asks = {"priority": 9, "restart": "Always", **waiting}
    pods = [pod(f"p{index}", 0.5, **asks) for index in range(2)]
    for decision in planned(strategies, columns([SSD], there), pods):
        nearest = "a is nearest: pods that stay there would have to request 500m cpu less"
        assert decision.mend == "; or ".join(filter(None, (nearest, mend)))


def test_remedy_that_would_cost_too_many_questions_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elasticd.decision.pool.plan.SUPPOSED", 1)
    there = [pod(f"old-{name}", 1, on=name, started=NOW - 1000) for name in "ab"]
    wide = pod("wide", 0.5, priority=9, preempts=False)
    narrow = pod("narrow", 0.5, priority=8, preempts=False, selector={"disk": "ssd"})
    first, second = planned([Filters(), Preemption()], columns([SSD, node("b", cpu=1)], there), [wide, narrow])
    assert "preemptionPolicy" not in first.mend
    assert second.mend.endswith("; or its preemptionPolicy is not Never")


def test_of_a_pod_without_a_binding_none_is_reported() -> None:
    there = [pod("old", 1, on="a", started=NOW - 1000)]
    waiting = pod("p", 0.5, priority=9)
    (decision,) = planned([Filters(), Preemption(only_forced=True)], columns([SSD], there), [waiting])
    assert decision.mend.split("; or ")[1:] == ["only_forced of strategy preemption is false (1 node)"]


def test_remedy_is_counted_on_all_nodes_where_it_helps() -> None:
    there = [pod(f"old-{name}", 1, on=name) for name in "ab"]
    answers = [Spared("all sleep", ("they wake", "they go")), Spared("most sleep", ("they wake",))]
    (decision,) = preempting(there, [URGENT], lambda _, index, *__: answers[index])
    assert decision.mend.endswith("; or they wake (2 nodes); or they go (1 node)")


DISRUPTION = DisruptionState(within=60.0, most={"per_node": 0})


def test_a_pod_whose_victims_budgets_keep_takes_no_room() -> None:
    high, low = preempting([OLD], [pod("high", 1, priority=9), pod("low", 0.0)], disruption=DISRUPTION)
    assert (high.verdict, high.reason, high.actions) == ("wait", "Disturbed", ())
    assert low.verdict == "bind"


def test_victims_are_sought_once_for_equivalent_pods_that_budgets_keep() -> None:
    asked = list[str]()

    def answer(waiting: Pod, node: int, nodes: Nodes, observation: PoolObservation) -> Said:
        asked.append(waiting.name)
        return everybody(waiting, node, nodes, observation)

    alike = [replace(URGENT, name=name, uid=name) for name in ("first", "second")]
    decisions = preempting([OLD], alike, answer, disruption=DISRUPTION)
    assert [decision.reason for decision in decisions] == ["Disturbed", "Disturbed"]
    assert asked == ["first"]
