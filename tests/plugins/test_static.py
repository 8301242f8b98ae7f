"""The strategy static: pods go to nodes less loaded than the pool, never to those more loaded."""

from collections import Counter
from math import nan
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.api import Nodes, Refusal, Selection, Strategy, hookimpl
from elasticd.kit.node_table import NodeTable
from elasticd_plugins.load_balance import LoadBalance
from elasticd_plugins.static import HIGH, Static
from tests.kit.pools import GIB, MIB, columns, node, planned, pod


def used(*parts: float) -> NodeTable:
    """Nodes a, b, ... of which such a part of both cpu and memory is used."""
    nodes = [node(chr(ord("a") + index)) for index in range(len(parts))]
    use = {
        kind: {one.name: part * one.allocatable[kind] for one, part in zip(nodes, parts, strict=True)}
        for kind in ("cpu", "memory")
    }
    return columns(nodes, (), use)


def refused(view: NodeTable, **options: Any) -> list[bool]:
    (refusal,) = Static(**options).filter_nodes(view)
    assert (refusal.reason, refusal.curable) == (HIGH, False)
    return [bool(one) for one in refusal.nodes]


@pytest.mark.parametrize(
    ("parts", "options", "expected"),
    [
        pytest.param((0.3, 0.4, 0.5), {"mode": "paper"}, [False, False, True], id="above the mean"),
        pytest.param((0.3, 0.4, 0.401), {"mode": "paper"}, [False, True, True], id="hardly above it"),
        pytest.param((0.3, 0.4, 0.5), {}, [False, False, True], id="product: a quarter above"),
        pytest.param((0.36, 0.4, 0.44), {}, [False, False, False], id="product: in the band"),
        pytest.param((0.36, 0.4, 0.44), {"band": 0.5}, [False, False, True], id="a smaller band"),
        pytest.param((0.36, 0.4, 0.44), {"band": 0.0}, [False, False, True], id="no band"),
        pytest.param((0.36, 0.4, 0.44), {"mode": "paper", "band": 5.0}, [False, False, True], id="paper: no band"),
        pytest.param((0.4, 0.4, 0.4), {"mode": "paper"}, [False, False, False], id="level"),
        pytest.param((0.0, 0.0, 0.0), {"mode": "paper"}, [False, False, False], id="idle"),
        pytest.param((0.9,), {"mode": "paper"}, [False], id="one node is the mean"),
        pytest.param((nan, 0.2, 0.6), {"mode": "paper"}, [False, False, True], id="one unknown: in neither queue"),
        pytest.param((nan, nan), {"mode": "paper"}, [False, False], id="nothing known"),
        pytest.param((), {}, [], id="no nodes"),
    ],
)
def test_nodes_of_the_high_load_queue_are_refused(
    parts: tuple[float, ...], options: dict[str, Any], expected: list[bool]
) -> None:
    assert refused(used(*parts), **options) == expected


class Full(Strategy, tag="full", frozen=True):
    """Binds every pod to these nodes."""

    names: tuple[str, ...]

    @hookimpl
    def select_nodes(self, nodes: Nodes) -> Selection:
        return Selection(nodes.matching(self.names, lambda one: one.name in self.names), "by test")


@pytest.mark.parametrize(
    ("parts", "free", "expected"),
    [
        pytest.param((0.2, 0.1, 0.4, 0.7), "abcd", "b", id="the head of the low-load queue"),
        pytest.param((0.2, 0.1, 0.4, 0.7), "acd", "a", id="the next, where that has no room"),
        pytest.param((0.2, 0.3, 0.3, 0.4), "bcd", "b", id="then one in neither"),
        pytest.param((0.2, 0.3, nan, 0.4), "cd", "c", id="then one that nothing is known of"),
        pytest.param((0.2, 0.1, 0.4, 0.7), "d", "", id="never one of the high-load queue"),
    ],
)
def test_the_best_low_load_node_precedes_nodes_in_neither_queue(
    parts: tuple[float, ...], free: str, expected: str
) -> None:
    view = used(*parts)
    for index, name in enumerate(view.names):
        if name not in free:
            view.take(index, pod(f"full-{name}", 0.1, resources={"slot": 1}))
    (decision,) = planned([Static(mode="paper"), Slots()], view, [pod("p", resources={"slot": 1})])
    assert decision.node == expected


class Slots(Strategy, tag="slots", frozen=True):
    """Refuses nodes on which a pod has requested a slot."""

    @hookimpl
    def filter_nodes(self, nodes: Nodes) -> list[Refusal]:
        return [Refusal("Insufficient slot", nodes.requested("slot") > 0, curable=True)]


def test_a_pod_that_waits_is_told_why() -> None:
    view = used(0.2, 0.6)
    view.take(0, pod("full", 0, 0, resources={"slot": 1}))
    (decision,) = planned([Static(mode="paper"), Slots()], view, [pod("p")])
    assert (decision.verdict, decision.reason) == ("wait", "Unschedulable")
    assert decision.message == f"0/2 nodes are available: 1 Insufficient slot, 1 {HIGH}"


def test_a_pod_bound_to_a_high_load_node_goes_there() -> None:
    (decision,) = planned([Static(mode="paper"), Full(names=("b",))], used(0.2, 0.6), [pod("p")])
    assert (decision.verdict, decision.node) == ("bind", "b")


def burst(**options: Any) -> Counter[str]:
    nodes = [node("node1", 1, 2 * GIB), node("node2", 2, 4 * GIB), node("node3", 4, 8 * GIB)]
    use = {kind: {one.name: 0.1 * one.allocatable[kind] for one in nodes} for kind in ("cpu", "memory")}
    use["cpu"]["node2"] *= 0.9
    pods = [pod(f"p{index}", 0.1, 200 * MIB) for index in range(28)]
    return Counter(one.node for one in planned([Static(**options)], columns(nodes, (), use), pods))


def test_each_bind_updates_the_estimate_so_a_burst_spreads() -> None:
    found = burst()
    assert sum(found.values()) == 28
    assert [found["node1"], found["node2"], found["node3"]] == [pytest.approx(one, abs=1) for one in (4, 8, 16)]


def test_in_mode_paper_a_burst_goes_to_the_best_node() -> None:
    assert burst(mode="paper") == {"node2": 28}


def test_the_score_equals_paper_load_balance_and_ignores_the_pod() -> None:
    view = used(0.2, 0.5, 0.7)
    own = Static().score_nodes(view).values
    assert own.tolist() == LoadBalance(mode="paper").score_nodes(pod("p", 3), view).values.tolist()


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        pytest.param({"band": -1}, ">= 0", id="band too small"),
        pytest.param({"band": 101}, "<= 100", id="band too large"),
        pytest.param({"cpu": 0.6}, "cpu: must add up to 1 with memory, image and data, is 0.6 of 1.1", id="parts"),
        pytest.param({"mode": "thesis"}, "Invalid enum value 'thesis'", id="mode"),
        pytest.param({"weight": 0}, "> 0", id="weight"),
    ],
)
def test_nonsense_is_refused(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=problem):
        msgspec.convert({"type": "static", **table}, Static)


@given(st.lists(st.floats(0, 2), min_size=1, max_size=12), st.sampled_from(["product", "paper"]))
def test_an_equally_loaded_pool_always_has_a_place(parts: list[float], mode: Any) -> None:
    view = used(*parts)
    assert not all(refused(view, mode=mode))
    scores = Static(mode=mode).score_nodes(view).values
    (decision,) = planned([Static(mode=mode)], view, [pod("p")])
    assert scores[view.names.index(decision.node)] == np.max(scores)
