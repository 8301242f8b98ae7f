"""Preemption in random pools: what holds for all of them."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.api import (
    DisruptionBudget,
    Pod,
)
from elasticd.kit.node_table import NodeTable
from elasticd.model.actions import Evict
from elasticd.model.placement import PodDecision
from elasticd_plugins.filters import Filters
from elasticd_plugins.preemption.protection import CLASSES
from tests.kit.pools import NOW, columns, planned
from tests.kit.preemption import decode, pools

pytestmark = pytest.mark.slow


@given(pools(), some.sampled_from(["product", "paper"]))
@settings(max_examples=150)
def test_victims_are_lesser_and_unprotected_within_budgets_and_they_suffice(
    pool: tuple[NodeTable, list[Pod], list[Pod], tuple[DisruptionBudget, ...]], mode: str
) -> None:
    view, there, waiting, budgets = pool
    known, strategy = {one.uid: one for one in there}, decode(mode=mode)
    decisions = planned([Filters(), strategy], view, waiting, budgets)
    by_uid, gone = {one.uid: one for one in waiting}, list[Pod]()
    for decision in decisions:
        preemptor = by_uid[decision.uid]
        for action in decision.actions:
            if isinstance(action, Evict):
                victim = known[action.uid]
                gone.append(victim)
                assert victim.node == decision.node
                assert _rank(victim, mode) < _rank(preemptor, mode)
                assert not any((victim.static, victim.deleted, victim.needs.local, victim.annotations))
                assert victim.owner[0] != "DaemonSet"
                assert victim.namespace != "kube-system"
                assert victim.needs.priority < 2_000_000_000
                assert victim.needs.scheduler == preemptor.needs.scheduler
                assert mode == "paper" or (victim.started is not None and victim.started <= NOW - 60)
    assert len({one.uid for one in gone}) == len(gone)
    for one in budgets:
        assert len([victim for victim in gone if victim.uid in one.pods]) <= max(0, one.allowed)
    _suffices(view, decisions, [*there, *waiting], gone)


def _rank(one: Pod, mode: str) -> tuple[int, int]:
    return (0 if mode == "paper" else one.needs.priority), CLASSES[one.needs.restart]


def _suffices(view: NodeTable, decisions: Sequence[PodDecision], pods: Sequence[Pod], gone: Sequence[Pod]) -> None:
    """Once all who go have gone, everybody who is on a node of somebody who was preempted, or came there, has room."""
    left = [one for one in pods if one.node and one not in gone and not one.deleted]
    comes = {decision.uid: decision.node for decision in decisions if decision.node}
    came = [replace(one, node=comes[one.uid]) for one in pods if one.uid in comes]
    after = columns(view.nodes, left + came)
    for decision in decisions:
        if decision.verdict == "preempt":
            place = after.names.index(decision.node)
            for resource in ("cpu", "memory", "pods"):
                had = sum(one.counted.get(resource, 0) for one in pods if one.node == decision.node)
                overfull = had > view.nodes[place].allocatable[resource]
                assert overfull or after.requested(resource)[place] <= after.allocatable(resource)[place]


@given(pools())
@settings(max_examples=40)
def test_equal_pools_have_equal_plans(
    pool: tuple[NodeTable, list[Pod], list[Pod], tuple[DisruptionBudget, ...]],
) -> None:
    view, there, waiting, budgets = pool
    again = columns(view.nodes, there[::-1])
    strategies = [Filters(), decode()]
    first = planned(strategies, view, waiting, budgets)
    assert first == planned(strategies[::-1], again, waiting[::-1], budgets[::-1])
