"""Preemption for pods that others keep off by anti-affinity or a spread constraint: those go, and nobody in vain."""

from typing import Any

import pytest

from elasticd.api import Expression, Pod, PodTerm, TopologySpread
from elasticd.model.actions import Evict
from elasticd_plugins.filters import Filters
from elasticd_plugins.preemption import Preemption
from tests.kit.pools import NOW, columns, node, planned, pod

WEB, IS_WEB = {"app": "web"}, (Expression("app", "In", ("web",)),)
APART = PodTerm("kubernetes.io/hostname", IS_WEB)
EVEN = TopologySpread("zone", 1, IS_WEB)
NODES = [node("a1", labels={"zone": "a"}), node("a2", labels={"zone": "a"})]


def on(name: str, where: str, **more: Any) -> Pod:
    """A pod that has run for an hour."""
    return pod(name, on=where, **{"started": NOW - 3600, "owner": ("ReplicaSet", "x", "x"), "ready": True, **more})


ROWS = [
    pytest.param({"repels": (APART,)}, {"labels": WEB}, ["x1"], id="one that it must not be near"),
    pytest.param({"labels": WEB}, {"repels": (APART,)}, ["x1"], id="one that must not have it near"),
    pytest.param({"repels": (PodTerm("zone", IS_WEB),)}, {"labels": WEB}, [], id="one of two in a zone is not enough"),
    pytest.param({"repels": (APART,)}, {"labels": WEB, "priority": 9}, [], id="nobody of more priority"),
]


@pytest.mark.parametrize(("asks", "has", "gone"), ROWS)
def test_who_is_in_the_way_of_an_anti_affinity_goes(asks: dict[str, Any], has: dict[str, Any], gone: list[str]) -> None:
    there = [on("x1", "a1", **has), on("y1", "a1"), on("x2", "a2", **{**has, "priority": 9}), on("y2", "a2")]
    (decision,) = planned([Filters(), Preemption()], columns(NODES, there), [pod("p", priority=5, **asks)])
    assert [action.uid.removeprefix("uid-") for action in decision.actions if isinstance(action, Evict)] == gone


def test_as_many_go_as_a_spread_constraint_needs() -> None:
    nodes = [*NODES[:1], node("b1", cpu=0.1, labels={"zone": "b"})]
    there = [*(on(f"x{index}", "a1", labels=WEB) for index in range(3)), on("full", "b1", cpu=0.1, priority=9)]
    asked = pod("p", priority=5, labels=WEB, spread=(EVEN,))
    (decision,) = planned([Filters(), Preemption()], columns(nodes, there), [asked])
    evicted = [action.uid.removeprefix("uid-") for action in decision.actions if isinstance(action, Evict)]
    assert (decision.verdict, decision.node, len(evicted)) == ("preempt", "a1", 3)


def test_nobody_goes_whom_the_affinity_of_the_pod_needs() -> None:
    there = [on("friend", "a1", cpu=4.0, labels=WEB)]
    asked = pod("p", cpu=1.0, priority=5, attracts=(PodTerm("kubernetes.io/hostname", IS_WEB),))
    (decision,) = planned([Filters(), Preemption()], columns(NODES, there), [asked])
    assert (decision.verdict, decision.actions) == ("wait", ())
