"""The thesis's own combination, binding by force with static scheduling and preemption, on a simulated cluster."""

from typing import Any

import pytest

from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.demand import Demand
from elasticd.cluster.simulated.options import NodeTable, WorkloadTable
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.testing import simulate
from elasticd_plugins.binding import BindingRules
from elasticd_plugins.filters import Filters
from elasticd_plugins.preemption import Preemption
from elasticd_plugins.static import Static
from tests.kit.placers import Heard

COMES = 300.0
"""When the pod comes that is bound to the busy node, in seconds."""

FORCE = '{"expressions": [{"key": "tier", "operator": "in", "values": ["front"]}], "resourceNotFit": "force"}'


async def placed(mode: str) -> list[tuple[str, str, str]]:
    """What was done to which pod on which node, where one is full and busier than the other."""
    busy = Demand(formula="3 * (t > 100)")
    nodes = [
        NodeTable(name="front", cpu="4", memory="8Gi", labels={"tier": "front"}, cpu_used=busy),
        NodeTable(name="back", cpu="4", memory="8Gi"),
    ]
    here: dict[str, Any] = {"scheduler": "elasticd", "bare": True, "annotations": {"elasticd.io/binding": FORCE}}
    workloads = [
        WorkloadTable(name="rest", cpu="2", memory="1Gi", restart_policy="Always", **here),
        WorkloadTable(name="batch", cpu="2", memory="1Gi", restart_policy="Never", **here),
        WorkloadTable(name="urgent", cpu="2", memory="1Gi", restart_policy="Always", at=COMES, **here),
    ]
    strategies = (Filters(), BindingRules(), Static(mode=mode), Preemption(mode=mode))  # type: ignore[arg-type]
    policy = PoolPolicy(name="pool", pool=PoolSelect(order="fifo"), strategies=strategies, mode="act")
    cluster = Simulated(nodes=tuple(nodes), workloads=tuple(workloads))
    heard = Heard()
    await simulate(cluster, [policy], COMES + 60, sources=[ResourceMetrics(nodes=True)], listeners=[heard])
    done = [one for one in heard.placeds if one.at >= COMES]
    return [(one.action, one.about.name, one.node) for one in done if one.result == "done"]


@pytest.mark.parametrize("mode", ["product", "paper"])
async def test_a_forced_binding_makes_room_on_its_busy_node(mode: str) -> None:
    assert await placed(mode) == [
        ("nominate", "urgent", "front"),
        ("evict", "batch", "front"),
        ("bind", "urgent", "front"),
    ]
