"""Who would be preempted on a node, in which order, and what keeps each."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.api import EvictionOrder, Nodes, Pod, PoolObservation, Strategy, Turn, Victims, hookimpl
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.preemption import NodeOrder, eviction_order, forbidden
from elasticd.model.placement import DisruptionBudget
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.registry import Hooks
from elasticd.runtime.workers import EvictionOrderWorker
from tests.kit.pools import NOW, columns, node, pod


class Yields(Strategy, tag="yields", frozen=True):
    """Lets pods are preempted by name."""

    rule: str = "by name"

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def select_victims(self) -> Victims | None:
        return None

    @hookimpl
    def explain_victims(self, node: int, nodes: Nodes, observation: PoolObservation) -> EvictionOrder:
        assert observation.at == NOW
        there = sorted(nodes.pods(node), key=lambda one: one.name)
        young = ("Young", "it is young")
        return EvictionOrder(tuple(Turn(one, *young) if one.name == "b" else Turn(one) for one in there), self.rule)


class Also(Yields, tag="also", frozen=True):
    """Says of the same pods that nothing keeps them, and of one that is elsewhere."""

    @hookimpl
    def explain_victims(self, node: int, nodes: Nodes, observation: PoolObservation) -> EvictionOrder:
        return EvictionOrder(tuple(Turn(one) for one in (*nodes.pods(node), pod("elsewhere", on="z"))), self.rule)


class Silent(Strategy, tag="silent", frozen=True):
    """Lets pods are preempted, and does not say whom."""

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def select_victims(self) -> Victims | None:
        return None


class Odd(Silent, tag="odd", frozen=True):
    """Says what makes no sense."""

    how: str = "raises"

    @hookimpl
    def explain_victims(self, node: int, nodes: Nodes) -> Any:
        if self.how == "raises":
            raise ValueError("no order")
        first = nodes.pods(node)[0]
        answers: dict[str, Any] = {
            "a list": [Turn(first)],
            "no turns": EvictionOrder(("a",)),  # type: ignore[arg-type]
            "no pod": EvictionOrder((Turn("a"),)),  # type: ignore[arg-type]
            "no words": EvictionOrder((Turn(first, 7),)),  # type: ignore[arg-type]
            "twice": EvictionOrder((Turn(first), Turn(first))),
        }
        return answers[self.how]


ABC = [pod(name, on="n") for name in "abc"]


def order_of(
    *strategies: Strategy, pods: Sequence[Pod] = ABC, budgets: Sequence[DisruptionBudget] = (), known: bool = True
) -> NodeOrder:
    policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=strategies, mode="act")
    seen = PoolObservation(NOW, budgets=tuple(budgets), budgets_known=known, confirmed=NOW)
    return eviction_order(PoolCase(policy, seen, columns([node("n")], pods), Hooks(strategies), node=0))


def said(found: NodeOrder) -> list[tuple[str, str, str]]:
    assert found.order is not None
    return [(turn.pod.name, turn.stays, turn.why) for turn in found.order.turns]


def budget(allowed: int, *pods: str, why: str = "") -> DisruptionBudget:
    return DisruptionBudget("shop", "web", frozenset(f"uid-{one}" for one in pods), allowed, why)


def test_hook_explain_victims_is_asked_and_its_order_is_kept() -> None:
    found = order_of(Yields())
    assert said(found) == [("a", "", ""), ("b", "Young", "it is young"), ("c", "", "")]
    assert found.order is not None
    assert (found.order.rule, found.failures) == ("by name", ())


SICK = "it is not ready, and too few others are (unhealthyPodEvictionPolicy)"
FORBIDS = ("Budget", f"a PodDisruptionBudget forbids it: {SICK}")
NO_MORE = ("Budget", "its PodDisruptionBudget lets no more go than those before it")
UNKNOWN = ("BudgetsUnknown", "PodDisruptionBudgets are not known")
OF_LATE = ("Refused", "it was not let go when last tried (NotRestorable)")


def test_message_about_a_pod_its_budget_keeps_tells_its_health() -> None:
    assert forbidden(pod("a", on="n", ready=True)) == "a PodDisruptionBudget forbids it"
    for ready in (False, None):
        assert forbidden(pod("a", on="n", ready=ready)) == FORBIDS[1]


@pytest.mark.parametrize(
    ("budgets", "known", "a", "c"),
    [
        pytest.param([budget(0, "a")], True, FORBIDS, ("", ""), id="one that lets nobody go"),
        pytest.param([budget(1, "a", "c")], True, ("", ""), NO_MORE, id="one that lets one go"),
        pytest.param([budget(2, "a", "b", "c")], True, ("", ""), ("", ""), id="who is kept anyway spends nothing"),
        pytest.param([budget(0, "a", why=OF_LATE[1][7:])], True, OF_LATE, ("", ""), id="one that was refused of late"),
        pytest.param([], False, UNKNOWN, UNKNOWN, id="not known"),
    ],
)
def test_budgets_keep_those_whom_no_option_keeps(
    budgets: list[DisruptionBudget], known: bool, a: tuple[str, str], c: tuple[str, str]
) -> None:
    found = said(order_of(Yields(), budgets=budgets, known=known))
    assert found == [("a", *a), ("b", "Young", "it is young"), ("c", *c)]


def test_of_several_strategies_one_that_keeps_nobody_lets_them_go() -> None:
    for both in ((Yields(), Also()), (Also(), Yields())):
        assert {name: stays for name, stays, _ in said(order_of(*both))} == {"a": "", "b": "", "c": ""}
    order = order_of(Yields(), Also(rule="all")).order
    assert order is not None
    assert order.rule == "all; by name"


def test_eviction_order_is_none_without_preemption_and_empty_without_answer() -> None:
    assert order_of().order is None
    assert order_of(Silent()).order == EvictionOrder(())


@pytest.mark.parametrize(
    ("how", "told"),
    [
        pytest.param("raises", "raised ValueError: no order", id="raises"),
        pytest.param("a list", "must be an EvictionOrder of Turns of pods", id="no order"),
        pytest.param("no turns", "must be an EvictionOrder of Turns of pods", id="no turns"),
        pytest.param("no pod", "must be an EvictionOrder of Turns of pods", id="no pod"),
        pytest.param("no words", "must be told in words", id="no words"),
        pytest.param("twice", "must name each pod once", id="twice"),
    ],
)
def test_who_answers_nonsense_is_named(how: str, told: str) -> None:
    found = order_of(Odd(how=how))
    (failure,) = found.failures
    assert (failure.plugin, failure.hook, found.order) == ("odd", "explain_victims", EvictionOrder(()))
    assert told in failure.message


async def test_eviction_order_worker_answers_in_a_thread_and_reports_errors() -> None:
    strategies = (Yields(),)
    policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=strategies, mode="act")
    case = PoolCase(policy, PoolObservation(NOW, confirmed=NOW), columns([node("n")], ABC), Hooks(strategies))
    ask = EvictionOrderWorker()
    (found,) = await ask([replace(case, node=0)])
    assert isinstance(found, NodeOrder)
    assert [name for name, _, _ in said(found)] == ["a", "b", "c"]

    (found,) = await ask([replace(case, node=1)])  # there is only one node
    assert isinstance(found, NodeOrder)
    assert [(one.plugin, one.hook, one.message) for one in found.failures] == [
        ("elasticd", "explain_victims", "IndexError: list index out of range")
    ]
