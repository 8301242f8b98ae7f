"""The thesis's dynamic scheduling on a simulated cluster: who is released waits in its queue until there is a place."""

from typing import Any

import pytest

from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.demand import Demand
from elasticd.cluster.simulated.options import NodeTable, WorkloadTable
from elasticd.model.policy import MovesTable, Order, PoolPolicy, PoolSelect
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.testing import simulate
from elasticd_plugins.filters import Filters
from elasticd_plugins.rebalance import Rebalance
from elasticd_plugins.static import Static
from tests.plugins.test_rebalance_simulated import Told

COMES, RISES, ROOM = 250.0, 300.0, 600.0
"""When a pod comes that waits for the other node, when node hot begins to be used by what is no pod, and when there is
room."""


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        pytest.param("fifo", ["failure", "new", "never"], id="OnFailure at the head, Never at the tail"),
        pytest.param("paper", None, id="whoever finds no place goes to the tail again"),
    ],
)
async def test_released_pods_wait_in_the_queue_until_there_is_room(order: Order, expected: list[str] | None) -> None:
    more = Demand(formula=f"1 + 2 * (t > {RISES})")
    nodes = [
        NodeTable(name="hot", cpu="4", memory="8Gi", cpu_used=more, memory_used="4Gi"),
        NodeTable(name="other", cpu="4", memory="8Gi", cpu_used="1", memory_used="4Gi", labels={"only": "full"}),
    ]
    common: dict[str, Any] = {"scheduler": "elasticd", "bare": True, "cpu": "500m", "memory": "1Gi"}
    use: dict[str, Any] = {"demand": Demand(formula="0.4"), "memory_per_pod": "512Mi"}
    there: dict[str, Any] = {"node_selector": {"only": "full"}}
    full = {**common, **there, "cpu": "4", "run_seconds": ROOM}
    level: dict[str, Any] = {"demand": Demand(formula="0.8"), "memory_per_pod": "1Gi"}
    workloads = [
        WorkloadTable(name="full", restart_policy="Never", **full, **level),
        WorkloadTable(name="never", restart_policy="Never", at=5.0, **common, **use),
        WorkloadTable(name="failure", restart_policy="OnFailure", at=5.0, **common, **use),
        WorkloadTable(name="new", restart_policy="Never", at=COMES, **common, **there),
    ]
    strategies = (Filters(), Static(mode="paper"), Rebalance(mode="paper", amount="mean"))
    moves = MovesTable(min_age=0.0, single=True, rerun=True)
    pool = PoolSelect(order=order)
    policy = PoolPolicy(name="pool", pool=pool, strategies=strategies, mode="act", moves=moves)
    told = Told()
    cluster = Simulated(nodes=tuple(nodes), workloads=tuple(workloads))
    await simulate(cluster, [policy], ROOM + 120, sources=[ResourceMetrics(nodes=True)], listeners=[told])
    gone = [(one.about.name, one.node, one.result) for one in told.gone]
    assert gone == [("never", "hot", "done"), ("failure", "hot", "done")]
    assert all(RISES < one.at < RISES + 60 for one in told.gone)
    again = [one for one in told.bound if one.at > RISES]
    names = [one.about.name for one in again]
    assert names == (expected or names)
    assert ({*names}, len(names)) == ({"failure", "new", "never"}, 3)
    assert all(one.node == "other" and one.at > ROOM for one in again)
