"""Rebind beside the strategies that place pods, on a simulated cluster."""

from typing import Any

import msgspec
import pytest

from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.options import NodeTable, WorkloadTable
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.testing import simulate
from elasticd_plugins.binding import BindingRules
from elasticd_plugins.filters import Filters
from elasticd_plugins.rebind import Rebind
from tests.kit.placers import Heard

FRONT = '"expressions": [{"key": "tier", "operator": "in", "values": ["front"]}]'
WEAK = f'{{{FRONT}, "collectionIsEmpty": "default", "nodeLabelChange": "kill"}}'
RULE: dict[str, Any] = {
    "expressions": [{"key": "tier", "operator": "in", "values": ["front"]}],
    "node_label_change": "kill",
}


@pytest.mark.parametrize(
    ("annotations", "rules"),
    [({"elasticd.io/binding": WEAK}, []), ({}, [RULE])],
    ids=["a weak binding", "a rule that does not place it"],
)
async def test_a_pod_placed_where_it_does_not_match_stays(
    annotations: dict[str, str], rules: list[dict[str, Any]]
) -> None:
    rebind = msgspec.convert({"type": "rebind", "dwell": 2, "rules": rules}, Rebind)
    strategies = (Filters(), BindingRules(), rebind)
    policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=strategies, mode="act")
    nodes = tuple(NodeTable(name=name, cpu="4", memory="8Gi") for name in ("back-1", "back-2"))
    here: dict[str, Any] = {"scheduler": "elasticd", "bare": True, "annotations": annotations}
    batch = WorkloadTable(name="batch", cpu="2", memory="1Gi", restart_policy="Always", at=60, **here)
    heard = Heard()
    await simulate(Simulated(nodes=nodes, workloads=(batch,)), [policy], 300, sources=[], listeners=[heard])
    assert [(one.action, one.result) for one in heard.placeds] == [("bind", "done")]
