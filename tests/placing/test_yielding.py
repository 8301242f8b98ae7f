"""Refusals that yield to what a pod is bound to."""

from collections.abc import Sequence

import pytest

from elasticd.api import Nodes, Refusal, Selection, Strategy, hookimpl
from tests.pools import columns, node, planned, pod


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
def test_a_refusal_that_yields_does_not_count_where_a_pod_is_bound_to(
    strategies: list[Strategy], expected: tuple[str, str]
) -> None:
    (decision,) = planned(strategies, columns([node("a"), node("b")]), [pod("p")])
    assert (decision.verdict, decision.node) == expected


def test_it_is_counted_on_the_other_nodes() -> None:
    (decision,) = planned([Busy(), Bound(to="b")], columns([node("a"), node("b")]), [pod("p")])
    assert decision.refusals == {"node(s) were busy": 1}
