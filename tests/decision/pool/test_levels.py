"""Where nodes stand, of what several strategies say about them; and a strategy that cannot say it."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.api import Move, NodeLevel, Nodes, PoolObservation, Strategy, field, hookimpl
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.moves import plan_moves, restraint
from elasticd.model.moves import MovesPlan
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect
from elasticd.registry import Hooks
from tests.kit.pools import NOW, PROTECTED, columns, node, pod


class Says(Strategy, tag="says", frozen=True):
    """Says of nodes what it is told to, and wants every pod off the first."""

    states: dict[str, str] = field(default_factory=dict)
    answer: str = ""

    @hookimpl
    def explain_nodes(self, nodes: Nodes) -> Sequence[NodeLevel]:
        if self.answer == "raises":
            raise ValueError("no words")
        if self.answer:
            return {"text": "level", "twice": [NodeLevel("a", "level")] * 2}[self.answer]  # type: ignore[return-value]
        found: Any = [NodeLevel(name, state) for name, state in self.states.items()]  # type: ignore[arg-type]
        return list(found)

    @hookimpl
    def rebalance_nodes(self, nodes: Nodes) -> Sequence[Move]:
        return [Move(one, "Says") for one in nodes.pods(0)]


class Raises(Strategy, tag="raises", frozen=True):
    """Cannot say which pods should move."""

    @hookimpl
    def rebalance_nodes(self, nodes: Nodes) -> Sequence[Move]:
        raise ValueError("no idea")


def planned(*strategies: Strategy, **more: Any) -> MovesPlan:
    return plan_moves(case(*strategies, **more))


def case(*strategies: Strategy, pods: Sequence[Any] = (), **table: Any) -> PoolCase:
    moves = MovesTable(**{"single": True, **table})
    policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=strategies, mode="act", moves=moves)
    there = pods or [pod("p", on="a", started=NOW - 600, ready=True)]
    view = columns([node("a"), node("b")], there)
    return PoolCase(policy, PoolObservation(NOW, confirmed=NOW), view, Hooks(strategies))


def test_hook_explain_nodes_is_asked_and_most_urgent_state_wins() -> None:
    first, second = (
        Says(states={"b": "takes", "a": "level"}),
        Says(states={"a": "gives", "b": "takes", "gone": "gives"}),
    )
    found = planned(first, second)
    assert [(one.node, one.state) for one in found.levels] == [("b", "takes"), ("a", "gives")]
    assert found.failures == ()


@pytest.mark.parametrize(
    ("states", "kept"),
    [
        pytest.param(["takes", "level"], "level", id="who is level takes none"),
        pytest.param(["level", "unknown"], "unknown", id="unknown is not level"),
        pytest.param(["unknown", "high"], "high", id="high"),
        pytest.param(["high", "gives"], "gives", id="gives"),
    ],
)
def test_of_two_words_about_a_node_the_more_urgent_counts(states: list[Any], kept: str) -> None:
    for order in (states, states[::-1]):
        (found,) = planned(*[Says(states={"a": state}) for state in order]).levels
        assert found.state == kept


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        pytest.param(Says(answer="raises"), "raised ValueError: no words", id="raises"),
        pytest.param(Says(answer="text"), "must be a sequence of NodeLevels", id="no levels"),
        pytest.param(Says(answer="twice"), "must name each node once", id="a node twice"),
        pytest.param(Says(states={"a": "lofty"}), "Invalid enum value 'lofty'", id="no such state"),
    ],
)
def test_strategy_that_fails_to_explain_nodes_still_moves_pods(bad: Strategy, told: str) -> None:
    found = planned(bad)
    assert found.levels == ()
    assert [one.verdict for one in found.decisions] == ["move"]
    (failure,) = found.failures
    assert (failure.plugin, failure.hook) == ("says", "explain_nodes")
    assert told in failure.message


def test_a_strategy_that_fails_to_rebalance_nodes_is_named() -> None:
    found = planned(Raises())
    assert [(one.uid, one.refusal) for one in found.decisions] == [("", "PluginFailed")]
    assert [(one.plugin, one.hook) for one in found.failures] == [("raises", "rebalance_nodes")]


@pytest.mark.parametrize(("kind", "options"), [pytest.param(kind, more, id=kind) for kind, more in PROTECTED.items()])
def test_a_pod_that_may_not_be_moved_says_why(kind: str, options: dict[str, Any]) -> None:
    one = pod("p", on="a", **{"started": NOW - 600, "ready": True, "owner": ("ReplicaSet", "w", "u"), **options})
    why = restraint(case(pods=[one]))(one)
    assert why is not None
    assert all(why)


def test_a_pod_of_another_scheduler_may_not_be_moved() -> None:
    ours = pod("ours", on="a", started=NOW - 600, ready=True)
    other = pod("other", on="a", started=NOW - 600, ready=True, scheduler="default-scheduler")
    why = restraint(case(pods=[ours, other]))
    assert why(ours) is None
    assert why(other) == ("Foreign", "default-scheduler places it, not this policy")


def test_pod_of_another_scheduler_moves_only_when_it_must_leave() -> None:
    other = pod("other", on="a", started=NOW - 600, ready=True, scheduler="default-scheduler")
    made = case(pods=[other])
    policy = replace(made.policy, moves=replace(made.policy.moves, others=True))
    told = "default-scheduler places it: it goes only where it must leave its node"
    assert restraint(replace(made, policy=policy))(other) == ("Foreign", told)


def test_one_that_the_policy_is_not_about_may_not() -> None:
    one = pod("p", on="a", started=NOW - 600, ready=True, namespace="tools")
    made = case(pods=[one])
    policy = replace(made.policy, pool=PoolSelect(namespaces=("shop",)))
    why = restraint(replace(made, policy=policy))
    assert why(one) == ("Foreign", "its namespace or labels are not those of this policy")
