"""Refusals that yield to what a pod is bound to."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.api import Nodes, Pod, Port, Refusal, Selection, Strategy, hookimpl
from elasticd.model.actions import Evict
from elasticd.model.placement import PodDecision
from elasticd_plugins.bald_eagle import BaldEagle
from elasticd_plugins.binding import BindingRules
from elasticd_plugins.filters import Filters
from elasticd_plugins.load_balance import LoadBalance
from elasticd_plugins.preemption import Preemption
from elasticd_plugins.static import Static
from tests.kit.pools import GIB, NOW, columns, node, planned, pod
from tests.kit.thesis import bound, to


class Busy(Strategy, tag="busy", frozen=True):
    """Refuses every node, for a reason that need not count for bound pods."""

    yields: bool = True

    @hookimpl
    def filter_nodes(self, nodes: Nodes) -> Sequence[Refusal]:
        return [Refusal("node(s) were busy", nodes.matching("all", lambda _: True), yields=self.yields)]


class Bound(Strategy, tag="bound", frozen=True):
    """Binds every pod to one node, or to none that there is."""

    to: str
    unmatched: str = "wait"

    @hookimpl
    def select_nodes(self, nodes: Nodes) -> Selection:
        mask = nodes.matching(("name", self.to), lambda one: one.name == self.to)
        return Selection(mask, f"name in [{self.to}]", self.unmatched)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("strategies", "expected"),
    [
        pytest.param([Busy()], ("wait", ""), id="bound to nothing"),
        pytest.param([Busy(), Bound(to="b")], ("bind", "b"), id="bound to one"),
        pytest.param([Busy(yields=False), Bound(to="b")], ("wait", ""), id="bound to one, and it does not yield"),
        pytest.param([Busy(), Bound(to="c", unmatched="any")], ("wait", ""), id="weakly bound to none: as if unbound"),
    ],
)
def test_yielding_refusal_does_not_count_on_nodes_of_a_binding(
    strategies: list[Strategy], expected: tuple[str, str]
) -> None:
    (decision,) = planned(strategies, columns([node("a"), node("b")]), [pod("p")])
    assert (decision.verdict, decision.node) == expected


def test_it_is_counted_on_the_other_nodes() -> None:
    (decision,) = planned([Busy(), Bound(to="b")], columns([node("a"), node("b")]), [pod("p")])
    assert decision.refusals == {"node(s) were busy": 1}


LESSER = pod("lesser", 2, on="a", restart="Never", owner=("Job", "j", "uid-j"), started=NOW - 900)
EQUAL = pod("equal", 2, on="a", started=NOW - 900)


def urgent(fit: str = "force", **more: Any) -> Pod:
    """A pod that is bound to node a."""
    return bound("urgent", to("a"), needs={"cpu": 2.0, **more}, resourceNotFit=fit)


def combined(waiting: Pod, mode: str = "product", there: Sequence[Pod] = (LESSER, EQUAL)) -> PodDecision:
    """Filters, binding, static and preemption together, where node a is full, and busier than the pool."""
    nodes = [node(name, labels={"hostname": name}) for name in "ab"]
    use = {name: {"a": 0.9 * size, "b": 0.1 * size} for name, size in (("cpu", 4.0), ("memory", 8 * GIB))}
    strategies = [Filters(), BindingRules(), Static(mode=mode), Preemption(mode=mode)]  # type: ignore[arg-type]
    (decision,) = planned(strategies, columns(nodes, there, use), [waiting])
    return decision


@pytest.mark.parametrize("mode", ["product", "paper"])
def test_forced_binding_preempts_lesser_pods_on_a_busy_node(mode: str) -> None:
    decision = combined(urgent(), mode)
    assert (decision.verdict, decision.node) == ("preempt", "a")
    assert [action.workload.name for action in decision.actions if isinstance(action, Evict)] == ["lesser"]


def test_unbound_pod_preempts_no_pods_on_a_busy_node() -> None:
    decision = combined(pod("urgent", 5))
    assert (decision.verdict, decision.actions) == ("wait", ())


@pytest.mark.parametrize(
    ("fit", "reason"), [pytest.param("force", "Nominated", id="force"), pytest.param("reschedule", "Unschedulable")]
)
def test_a_pod_with_forced_binding_waits_for_leaving_pods(fit: str, reason: str) -> None:
    decision = combined(urgent(fit, nominated="a"), there=[replace(LESSER, deleted=True), EQUAL])
    assert (decision.verdict, decision.reason) == ("wait", reason)


def test_bound_pod_is_told_only_what_counts_on_its_node() -> None:
    port = (Port(80),)
    there = [pod("old", 3, on="a", ports=port, deleted=True)]
    decision = combined(urgent("reschedule", ports=port), there=there)
    other = "nodes match hostname in [a] (its annotation) (1 node)"
    assert decision.mend == f"a has room once those that are leaving it have left; or {other}"


FULL = [replace(EQUAL, name="q", uid="uid-q"), EQUAL]
"""Nobody of them is lesser."""


def by_other_means(
    waiting: Pod, *strategies: Strategy, busy: str = "", there: Sequence[Pod] = FULL, mode: str = "paper"
) -> PodDecision:
    """Node a is full, b has room; one of them may be busier than the pool."""
    nodes = [node(name, labels={"hostname": name}) for name in "ab"]
    parts = {one: 0.9 if one == busy else 0.3 for one in "ab"}
    use = {
        name: {one: part * size for one, part in parts.items()} for name, size in (("cpu", 4.0), ("memory", 8 * GIB))
    }
    binding = BindingRules(mode=mode)  # type: ignore[arg-type]
    found = strategies or (Preemption(mode="paper"),)
    (decision,) = planned([Filters(), binding, Static(mode="paper"), *found], columns(nodes, there, use), [waiting])
    return decision


UNFORCED = "no pod is preempted on the nodes that it is bound to"


@pytest.mark.parametrize(
    ("waiting", "more", "expected"),
    [
        pytest.param(urgent(), {}, ("bind", "b", UNFORCED), id="it goes to any node"),
        pytest.param(
            urgent(), {"there": [LESSER, EQUAL]}, ("preempt", "a", "shop/lesser is preempted on a"), id="victims"
        ),
        pytest.param(urgent(preempts=False), {}, ("bind", "b", UNFORCED), id="its preemptionPolicy is Never"),
        pytest.param(urgent(restart="Never"), {"there": [LESSER, EQUAL]}, ("bind", "b", UNFORCED), id="it is Never"),
        pytest.param(urgent(), {"busy": "b"}, ("wait", "", "0/2 nodes"), id="not to one of the high-load queue"),
        pytest.param(urgent(), {"mode": "product"}, ("wait", "", "0/2 nodes"), id="product: it waits"),
        pytest.param(urgent("reschedule"), {}, ("wait", "", "0/2 nodes"), id="not what says reschedule"),
    ],
)
def test_paper_mode_tries_other_means_when_force_finds_no_victims(
    waiting: Pod, more: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    decision = by_other_means(waiting, **more)
    assert (decision.verdict, decision.node) == expected[:2]
    assert decision.message.startswith(expected[2])


@pytest.mark.parametrize(
    "strategies",
    [
        pytest.param([LoadBalance()], id="no strategy preempts others"),
        pytest.param([BaldEagle(), Preemption(mode="paper")], id="placed together"),
    ],
)
def test_force_goes_on_by_other_means_whoever_places(strategies: list[Strategy]) -> None:
    decision = by_other_means(urgent(), *strategies)
    assert (decision.verdict, decision.node, decision.message) == ("bind", "b", UNFORCED)
