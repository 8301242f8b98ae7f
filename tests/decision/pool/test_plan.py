"""The plan for a pool: what is asked in which order, and what comes of the answers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from elasticd.api import Nodes, Refusal, Scores, Selection, Strategy, Victims, hookimpl
from elasticd.model.actions import Bind, Evict, Nominate
from elasticd.model.placement import Candidate, Placement
from elasticd.model.pod_spec import Taint, Toleration
from elasticd.model.workload import Node, Pod
from elasticd_plugins.filters import Filters
from tests.kit.pools import NOW, columns, node, planned, pod

MAINT = Taint("maint", "NoExecute")


class Fits(Strategy, tag="fits", frozen=True):
    """Refuses nodes with too little cpu left."""

    @hookimpl
    def filter_nodes(self, pod: Pod, nodes: Nodes) -> Sequence[Refusal]:
        need = round(pod.counted["cpu"] * 1000)
        return [Refusal("Insufficient cpu", nodes.requested("cpu") + need > nodes.allocatable("cpu"), curable=True)]


class Empty(Strategy, tag="empty", frozen=True):
    """Likes the emptiest node."""

    @hookimpl
    def score_nodes(self, nodes: Nodes) -> Scores:
        return Scores((nodes.allocatable("cpu") - nodes.requested("cpu")).astype(np.float64))


class Bound(Strategy, tag="bound", frozen=True):
    """Binds every pod to nodes with a label `tier` of this value."""

    tier: str
    unmatched: str = "wait"
    full: str = "wait"

    @hookimpl
    def select_nodes(self, nodes: Nodes) -> Selection:
        mask = nodes.matching(("tier", self.tier), lambda one: one.labels.get("tier") == self.tier)
        return Selection(mask, f"tier in [{self.tier}]", self.unmatched, self.full)  # type: ignore[arg-type]


class Lesser(Strategy, tag="lesser", frozen=True):
    """Lets all pods of lower priority go."""

    @hookimpl
    def select_victims(self, pod: Pod, node: int, nodes: Nodes) -> Victims | None:
        lesser = (one for one in nodes.pods(node) if one.needs.priority < pod.needs.priority)
        found = tuple(one for one in lesser if not one.deleted)
        return Victims(found, (float(len(found)),)) if found else None


class Pairs(Strategy, tag="pairs", frozen=True):
    """Puts the first pod on the last node, and the second where it does not fit."""

    @hookimpl
    def place_pods(self, pods: Sequence[Candidate], nodes: Nodes) -> Sequence[Placement]:
        return [Placement(0, len(nodes.names) - 1), Placement(1, 0)]


class Raises(Strategy, tag="raises", frozen=True):
    """Fails."""

    @hookimpl
    def filter_nodes(self) -> Sequence[Refusal]:
        raise ValueError("cannot")


def test_hook_filter_nodes_sees_each_pod_after_the_previous_placements() -> None:
    view = columns([node("a", cpu=1), node("b", cpu=1)])
    decisions = planned([Fits(), Empty()], view, [pod(f"p{i}", cpu=0.4) for i in range(5)])
    assert [one.node for one in decisions] == ["a", "b", "a", "b", ""]
    assert decisions[-1].message == "0/2 nodes are available: 2 Insufficient cpu"
    assert decisions[0].actions == (Bind(decisions[0].pod, "uid-p0", "a", ""),)


def test_hook_score_nodes_decides_and_the_best_scores_are_recorded() -> None:
    view = columns([node(name, cpu=cpu) for name, cpu in zip("abcde", (1, 5, 3, 4, 2), strict=True)])
    (decision,) = planned([Fits(), Empty()], view, [pod("p")])
    assert [(one.node, one.total, one.parts) for one in decision.scores] == [
        ("b", 5000.0, {"empty": 5000.0}),
        ("d", 4000.0, {"empty": 4000.0}),
        ("c", 3000.0, {"empty": 3000.0}),
    ]


def test_equal_scores_go_to_the_node_with_more_room_left() -> None:
    (decision,) = planned([Fits()], columns([node("a"), node("b", cpu=8)]), [pod("p")])
    assert decision.node == "b"


@pytest.mark.parametrize(
    ("tier", "unmatched", "full", "expected"),
    [
        pytest.param("front", "wait", "wait", ("bind", "small"), id="bound and fits"),
        pytest.param("none", "wait", "wait", ("wait", ""), id="no node matches, strong"),
        pytest.param("none", "any", "wait", ("bind", "large"), id="no node matches, weak"),
        pytest.param("full", "wait", "wait", ("wait", ""), id="no room, strong"),
        pytest.param("full", "wait", "any", ("bind", "large"), id="no room, weak"),
        pytest.param("full", "wait", "preempt", ("preempt", "taken"), id="no room, by force"),
    ],
)
def test_hook_select_nodes_binds_weakly_or_strongly_in_two_ways(
    tier: str, unmatched: str, full: str, expected: tuple[str, str]
) -> None:
    nodes = [
        node("small", cpu=1, labels={"tier": "front"}),
        node("taken", cpu=1, labels={"tier": "full"}),
        node("large", cpu=8),
    ]
    view = columns(nodes, [pod("old", cpu=1, on="taken")])
    strategies = [Fits(), Empty(), Bound(tier=tier, unmatched=unmatched, full=full), Lesser()]
    (decision,) = planned(strategies, view, [pod("new", cpu=0.5, priority=1)])
    assert (decision.verdict, decision.node) == expected
    assert decision.binding == f"tier in [{tier}]"


def test_hook_select_victims_is_followed_where_it_costs_least() -> None:
    old = [pod("x", cpu=1, on="a"), pod("y", cpu=0.5, on="b"), pod("z", cpu=0.5, on="b")]
    view = columns([node("a", cpu=1), node("b", cpu=1)], old)
    first, second, third = planned([Fits(), Lesser()], view, [pod(f"p{i}", cpu=1, priority=9) for i in range(3)])
    assert (first.verdict, first.node, second.node) == ("preempt", "a", "b")
    nominate, evict = first.actions
    assert isinstance(nominate, Nominate)
    assert isinstance(evict, Evict)
    assert (evict.workload.name, evict.restore) == ("x", True)
    assert third.verdict == "wait"


def test_hook_place_pods_is_checked_again_pod_by_pod() -> None:
    view = columns([node("a", cpu=1), node("b", cpu=1)], [pod("old", cpu=1, on="a")])
    first, second = planned([Fits(), Pairs()], view, [pod("p0", cpu=1), pod("p1", cpu=1)])
    assert (first.verdict, first.node, second.verdict) == ("bind", "b", "wait")


@pytest.mark.parametrize(
    ("more", "verdict", "reason"),
    [
        pytest.param({"unsupported": ("topologySpreadConstraints",)}, "leave", "Unsupported", id="unsupported"),
        pytest.param({"gated": True}, "wait", "SchedulingGated", id="gated"),
    ],
)
def test_what_cannot_be_placed_by_us_is_left_alone(more: dict[str, Any], verdict: str, reason: str) -> None:
    (decision,) = planned([Fits()], columns([node("a")]), [pod("p", **more)])
    assert (decision.verdict, decision.reason, decision.actions) == (verdict, reason, ())


def test_a_filter_that_fails_places_nothing_and_is_named() -> None:
    (decision,) = planned([Fits(), Raises()], columns([node("a")]), [pod("p")])
    assert (decision.verdict, decision.reason) == ("wait", "PluginFailed")
    assert decision.failures[0].plugin == "raises"


def test_a_plugin_cannot_change_the_columns() -> None:
    view = columns([node("a")])
    for array in (view.requested("cpu"), view.allocatable("cpu"), view.use("cpu"), view.matching("x", lambda _: True)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(("age", "verdict"), [(120, "bind"), (121, "wait"), (NOW, "wait")], ids=["new", "old", "never"])
def test_nothing_is_placed_on_what_is_known_too_late(age: float, verdict: str) -> None:
    (decision,) = planned([Fits()], columns([node("a")]), [pod("p")], confirmed=NOW - age)
    assert (decision.verdict, decision.reason) == (verdict, "Placed" if verdict == "bind" else "StaleView")


@pytest.mark.parametrize(
    ("nodes", "message", "mend"),
    [
        pytest.param(
            [node("a", taints=(MAINT,))],
            "0/1 nodes are available: 1 node(s) had a NoExecute taint that it tolerates only for a time",
            "nodes lose the taints that it tolerates only for a time (1 node)",
            id="there is room",
        ),
        pytest.param(
            [node("a", cpu=0.8, taints=(MAINT,))],
            "0/1 nodes are available: "
            "1 Insufficient cpu, 1 node(s) had a NoExecute taint that it tolerates only for a time",
            "no one thing alone would do",
            id="others would have to go",
        ),
        pytest.param(
            [node("a", unschedulable=True, taints=(MAINT,))],
            "0/1 nodes are available: 1 node(s) were unschedulable",
            "nodes are uncordoned (1 node)",
            id="it is closed anyway",
        ),
    ],
)
def test_a_copy_preempts_nobody_where_kubernetes_would_delete_it(nodes: list[Node], message: str, mend: str) -> None:
    tolerations = (Toleration("maint", "Exists", seconds=15.0),)
    copy = pod("p", 0.6, priority=1, tolerations=tolerations, annotations={"elasticd.io/restored-from": "u"})
    full = columns(nodes, [pod(f"on-{one.name}", 0.4, on=one.name) for one in nodes])
    (decision,) = planned([Filters(), Lesser()], full, [copy])
    assert (decision.verdict, decision.message, decision.mend) == ("wait", message, mend)
