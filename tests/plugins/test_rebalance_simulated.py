"""The strategy rebalance in the whole daemon but its process: on a simulated cluster, in virtual time."""

from typing import Any

import pytest

from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.demand import Demand
from elasticd.cluster.simulated.options import (
    BudgetTable,
    ExpressionTable,
    MetricsOptions,
    NodeChange,
    NodeTable,
    TermTable,
    WorkloadTable,
)
from elasticd.model.listener import Notice
from elasticd.model.moves import MoveDecision
from elasticd.model.placement import PodOutcome
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.testing import simulate
from elasticd_plugins.filters import Filters
from elasticd_plugins.load_balance import LoadBalance
from elasticd_plugins.rebalance import Rebalance
from elasticd_plugins.rebalance.options import Marks

RISES = 900.0
"""When node a begins to be used by what is no pod, in seconds."""

DEVIATION = (Marks("cpu", 0.15, 0.05, 0.0), Marks("memory", 0.15, 0.05, 0.0))


class Told:
    """Keeps what is told of pods."""

    def __init__(self) -> None:
        self.moves: list[MoveDecision] = []
        self.bound: list[PodOutcome] = []
        self.gone: list[PodOutcome] = []

    def on(self, record: Notice) -> None:
        if isinstance(record, MoveDecision):
            self.moves.append(record)
        elif isinstance(record, PodOutcome):
            (self.bound if record.action == "bind" else self.gone).append(record)


async def played(seconds: float, *budgets: BudgetTable, rises: float = 3.2) -> Told:
    """Eight Deployments of four pods that use half a core each, on four nodes of eight cores."""
    more = Demand(formula=f"{rises} * (t > {RISES})")
    nodes = [NodeTable(name=name, cpu="8", memory="32Gi", cpu_used=more if name == "a" else 0.0) for name in "abcd"]
    workloads = [
        WorkloadTable(
            name=f"web-{index}",
            scheduler="elasticd",
            replicas=4,
            cpu="500m",
            memory="1Gi",
            demand=Demand(formula="2"),
            labels={"app": f"web-{index}"},
        )
        for index in range(8)
    ]
    strategies = (Filters(), LoadBalance(), Rebalance(by="deviation", marks=DEVIATION))
    policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=strategies, mode="act", moves=MovesTable(per_look=8))
    told, cluster = Told(), Simulated(nodes=tuple(nodes), workloads=tuple(workloads), budgets=budgets)
    await simulate(cluster, [policy], seconds, sources=[ResourceMetrics(nodes=True)], listeners=[told])
    return told


@pytest.mark.slow
async def test_pods_leave_rising_load_after_three_looks_and_then_stay() -> None:
    told = await played(RISES + 1800)
    moves = [one for one in told.moves if one.verdict == "move"]
    assert {(one.node, one.strategy, one.reason) for one in moves} == {("a", "rebalance", "Overloaded")}
    first, last = moves[0].at - RISES, moves[-1].at - RISES
    assert 60 < first < 150
    assert last - first < 300  # then it is still for the rest of the time, which is forty looks and more
    assert [one.result for one in told.gone] == ["done"] * len(moves)
    assert 2 <= len(moves) <= 6


@pytest.mark.slow
async def test_what_left_is_placed_elsewhere_within_seconds() -> None:
    told = await played(RISES + 600)
    again = [one for one in told.bound if one.at > RISES]
    assert len(again) == len(told.gone) > 0
    assert "a" not in {one.node for one in again}
    assert max(one.at for one in again) - max(one.at for one in told.gone) < 30


@pytest.mark.slow
async def test_while_nothing_rises_nobody_is_moved() -> None:
    told = await played(RISES + 600, rises=0.0)
    assert (told.moves, told.gone) == ([], [])


@pytest.mark.slow
async def test_a_budget_that_allows_none_keeps_all_where_they_are() -> None:
    told = await played(RISES + 600, BudgetTable(name="all", selector={}, min_available=32))
    assert told.gone == []


async def test_a_node_takes_no_second_busy_pod_before_measurement() -> None:
    """Both use four times what they request, and node b, which would take two by their requests, has room for one."""
    opened = (NodeChange(at=150.0, unschedulable=False),)
    nodes = [NodeTable(name=name, cpu="8", memory="32Gi", labels={"side": name}) for name in ("hot-1", "hot-2")]
    nodes += [NodeTable(name=f"level-{index}", cpu="8", memory="32Gi", cpu_used="4") for index in range(6)]
    rest: dict[str, Any] = {"labels": {"side": "b"}, "unschedulable": True, "changes": opened}
    nodes.append(NodeTable(name="b", cpu="8", memory="32Gi", cpu_used="1600m", **rest))
    busy: dict[str, Any] = {"scheduler": "elasticd", "cpu": "500m", "memory": "1Gi", "demand": Demand(formula="1.7")}
    workloads = [
        WorkloadTable(name=f"{name}-{index}", node_affinity=_on(name, "b"), **busy)
        for name in ("hot-1", "hot-2")
        for index in range(4)
    ]
    marks = (Marks("cpu", 0.15, 0.05, 0.0),)
    strategies = (Filters(), LoadBalance(), Rebalance(by="deviation", marks=marks, observations=1))
    moves = MovesTable(per_look=1, single=True)
    policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=strategies, mode="act", moves=moves)
    cluster = Simulated(nodes=tuple(nodes), workloads=tuple(workloads), metrics=MetricsOptions(resolution=200.0))
    told = Told()
    await simulate(cluster, [policy], 320, sources=[ResourceMetrics(nodes=True)], listeners=[told])
    assert [one.target for one in told.moves if one.verdict == "move"] == ["b"]
    assert [one.refusal for one in told.moves if one.node == "hot-2"][-1] == "NoOtherNode"


def _on(*sides: str) -> tuple[TermTable, ...]:
    return (TermTable(labels=(ExpressionTable("side", "In", sides),)),)
