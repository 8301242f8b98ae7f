"""Which pods are moved, of those that somebody wants moved."""

from collections.abc import Sequence
from typing import Any

import pytest

from elasticd.api import DisruptionBudget, Move, Nodes, PoolPast, Refusal, Strategy, hookimpl
from elasticd.columns import Columns
from elasticd.model import Pod
from elasticd.moves import MoveDecision
from elasticd.placements import PoolObservation
from elasticd.placing.ask import PoolCase
from elasticd.placing.moving import plan_moves
from elasticd.plugins import Hooks
from elasticd.policy import MovesTable, PoolPolicy, PoolSelect
from tests.pools import NOW, columns, node, pod

OWNED = ("ReplicaSet", "web", "rs-1")


class Fits(Strategy, tag="fits", frozen=True):
    """Refuses nodes with too little cpu left."""

    @hookimpl
    def filter_nodes(self, pod: Pod, nodes: Nodes) -> Sequence[Refusal]:
        need = round(pod.counted["cpu"] * 1000)
        return [Refusal("Insufficient cpu", nodes.requested("cpu") + need > nodes.allocatable("cpu"), curable=True)]


class Leave(Strategy, tag="leave", frozen=True):
    """Wants all pods off a node."""

    node: str
    how: str = "reschedule"
    benefit: float = 0.0
    disruption: float = 0.0

    @hookimpl
    def rebind_pods(self, nodes: Nodes, past: PoolPast) -> Sequence[Move]:
        index = nodes.names.index(self.node)
        how: Any = self.how
        return [
            Move(one, "Leaves", how=how, benefit=self.benefit, disruption=self.disruption) for one in nodes.pods(index)
        ]


class Hot(Strategy, tag="hot", frozen=True):
    """Wants the first pod off a node."""

    node: str

    @hookimpl
    def rebalance_nodes(self, nodes: Nodes) -> Sequence[Move]:
        return [Move(nodes.pods(nodes.names.index(self.node))[0], "Hot")]


def running(name: str, on: str = "a", **more: Any) -> Pod:
    return pod(name, on=on, **{"owner": OWNED, "started": NOW - 600, "ready": True, **more})


def moves(
    view: Columns,
    *strategies: Strategy,
    budgets: tuple[DisruptionBudget, ...] = (),
    **table: Any,
) -> tuple[MoveDecision, ...]:
    policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=strategies, mode="act", moves=MovesTable(**table))
    return plan_moves(PoolCase(policy, PoolObservation(NOW, budgets=budgets), view, Hooks(strategies)))


def told(decisions: Sequence[MoveDecision]) -> list[tuple[str, str]]:
    return [(one.pod.name, one.target or one.refusal) for one in decisions]


def test_hook_rebind_pods_is_followed_where_there_is_a_place_and_each_sees_those_before_it() -> None:
    view = columns([node("a"), node("b", cpu=1)], [running(f"p{i}", cpu=0.4) for i in range(3)])
    assert told(moves(view, Fits(), Leave(node="a"))) == [("p0", "b"), ("p1", "b"), ("p2", "Single")]


def test_hook_rebalance_nodes_comes_after_and_moves_no_pod_twice() -> None:
    view = columns([node("a"), node("b")], [running(f"p{i}", cpu=0.4) for i in range(3)])
    first, second, third = moves(view, Fits(), Leave(node="a"), Hot(node="a"), single=True)
    assert [(one.pod.name, one.strategy) for one in (first, second, third)] == [
        ("p0", "leave"),
        ("p1", "leave"),
        ("p2", "leave"),
    ]
    assert told(moves(view, Fits(), Hot(node="a"))) == []


def test_where_it_fits_nowhere_else_it_stays() -> None:
    view = columns([node("a"), node("b", cpu=0.1)], [running("p0", cpu=0.4), running("p1", cpu=0.4)])
    (first, _) = moves(view, Fits(), Leave(node="a"))
    assert (first.verdict, first.refusal) == ("refuse", "NoOtherNode")
    assert "Insufficient cpu" in first.message


@pytest.mark.parametrize(
    ("more", "refusal"),
    [
        pytest.param({"static": True}, "Static", id="static"),
        pytest.param({"owner": ("Node", "a", "u")}, "Static", id="mirror"),
        pytest.param({"owner": ("DaemonSet", "d", "u")}, "DaemonSet", id="daemon set"),
        pytest.param({"priority": 2_000_000_000}, "Critical", id="critical"),
        pytest.param({"annotations": {"elasticd.io/do-not-disrupt": "true"}}, "DoNotDisrupt", id="annotation"),
        pytest.param({"deleted": True}, "Leaving", id="being deleted"),
        pytest.param({"namespace": "kube-system"}, "Spared", id="kube-system"),
        pytest.param({"local": True}, "LocalStorage", id="local storage"),
        pytest.param({"claims": True}, "Claims", id="claims"),
        pytest.param({"owner": ("ReplicaSet", "x", "alone")}, "Single", id="single"),
        pytest.param({"started": NOW - 10}, "Young", id="young"),
        pytest.param({"started": None}, "Young", id="age unknown"),
        pytest.param({"unsupported": ("pod anti-affinity",)}, "NoOtherNode", id="unsupported"),
    ],
)
def test_who_must_stay_is_left_and_it_is_said_why(more: dict[str, Any], refusal: str) -> None:
    view = columns([node("a"), node("b")], [running("p0", **more), running("x", on="b"), running("y", on="b")])
    (decision,) = moves(view, Fits(), Leave(node="a"))
    assert (decision.refusal, decision.action) == (refusal, None)


@pytest.mark.parametrize(
    ("table", "more"),
    [
        pytest.param({"local_storage": True}, {"local": True}, id="local storage"),
        pytest.param({"claims": True}, {"claims": True}, id="claims"),
        pytest.param({"single": True}, {"owner": ("ReplicaSet", "x", "alone")}, id="single"),
        pytest.param({"spared": ()}, {"namespace": "kube-system"}, id="kube-system"),
        pytest.param({"min_age": 0.0}, {"started": NOW}, id="young"),
    ],
)
def test_what_a_policy_allows_is_moved(table: dict[str, Any], more: dict[str, Any]) -> None:
    view = columns([node("a"), node("b")], [running("p0", **more), running("x", on="b"), running("y", on="b")])
    assert told(moves(view, Fits(), Leave(node="a"), **table)) == [("p0", "b")]


def alone(**more: Any) -> Columns:
    return columns([node("a"), node("b")], [running("p0", owner=("", "", ""), **more)])


def test_a_bare_pod_is_made_anew_and_one_that_is_killed_is_not() -> None:
    (moved,) = moves(alone(restart="OnFailure"), Fits(), Leave(node="a"))
    assert moved.action is not None
    assert (moved.action.restore, moved.action.first) == (True, True)
    (killed,) = moves(alone(), Fits(), Leave(node="a", how="kill"))
    assert killed.action is not None
    assert (killed.action.restore, killed.target) == (False, "")
    assert told(moves(alone(), Leave(node="a"), bare=False)) == [("p0", "Bare")]


@pytest.mark.parametrize(("benefit", "expected"), [(2.9, "NotWorth"), (3.0, "b")], ids=["too little", "enough"])
def test_a_move_must_be_worth_it(benefit: float, expected: str) -> None:
    view = columns([node("a"), node("b")], [running("p0"), running("x", on="b")])
    leave = Leave(node="a", benefit=benefit, disruption=2.0)
    assert told(moves(view, Fits(), leave, worth=1.5)) == [("p0", expected)]


def test_disruption_budgets_hold_within_one_plan() -> None:
    view = columns([node("a"), node("b")], [running(f"p{i}") for i in range(3)])
    budget = DisruptionBudget("shop", "web", frozenset({"uid-p0", "uid-p1", "uid-p2"}), 1)
    found = told(moves(view, Fits(), Leave(node="a"), budgets=(budget,)))
    assert found == [("p0", "b"), ("p1", "Budget"), ("p2", "Budget")]


def test_nothing_is_moved_while_disruption_budgets_are_not_known() -> None:
    view, strategies = columns([node("a"), node("b")], [running("p0"), running("p1")]), (Fits(), Leave(node="a"))
    policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=strategies, mode="act")
    unknown = PoolObservation(NOW, budgets_known=False)
    found = plan_moves(PoolCase(policy, unknown, view, Hooks(strategies)))
    assert told(found) == [("p0", "BudgetsUnknown"), ("p1", "BudgetsUnknown")]


def test_so_many_are_moved_at_a_time() -> None:
    view = columns([node("a"), node("b")], [running(f"p{i}") for i in range(4)])
    assert [one for _, one in told(moves(view, Fits(), Leave(node="a"), per_look=2))] == ["b", "b", "Enough", "Enough"]
