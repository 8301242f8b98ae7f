"""The cluster's resource metrics as a source."""

import msgspec
import pytest

from elasticd.base.clock import VirtualClock
from elasticd.cluster.simulated import Simulated
from elasticd.model.workload import Readings, Sample
from elasticd.sources.resource_metrics import ResourceMetrics, register_sources
from elasticd.testing import site
from tests.kit.clusters import Scripted

TABLE = {
    "type": "simulated",
    "nodes": [{"name": "n", "cpu": "4", "memory": "8Gi"}],
    "workloads": [{"name": "web", "replicas": 2, "demand": {"formula": "3"}}],
}


async def test_it_reads_the_usage_of_the_cluster() -> None:
    cluster = msgspec.convert(TABLE, Simulated).build(VirtualClock())
    async with ResourceMetrics().open(site(cluster)) as reader:
        readings = await reader.read(30.0)
    assert (readings.source, readings.received, readings.error) == ("resource-metrics", 30.0, "")
    assert [sample.value for sample in readings.pods["cpu"]["default/web-000001"]] == [1.5]


async def test_node_usage_is_read_on_request_under_the_sources_name() -> None:
    cluster = msgspec.convert(TABLE, Simulated).build(VirtualClock())
    async with ResourceMetrics(name="usage", nodes=True).open(site(cluster)) as reader:
        readings = await reader.read(30.0)
    assert (readings.source, readings.error, readings.faults) == ("usage", "", {})
    assert [sample.value for sample in readings.nodes["cpu"]["n"]] == [3.0]
    assert len(readings.pods["cpu"]) == 2


PODS = Readings("cluster", 5.0, {"cpu": {"shop/web-1": (Sample(1.0, 4.0, 5.0, pod="web-1"),)}})
NODES = Readings("cluster", 5.0, nodes={"cpu": {"n": (Sample(2.0, 4.0, 5.0),)}})
DOWN = Readings("cluster", 5.0, error="503")


@pytest.mark.parametrize(
    ("pods", "nodes", "expected"),
    [
        pytest.param(PODS, NODES, ("", {}, 1, 1), id="both"),
        pytest.param(
            PODS, DOWN, ("", {"cpu": "of the nodes: 503", "memory": "of the nodes: 503"}, 1, 0), id="no nodes"
        ),
        pytest.param(DOWN, NODES, ("", {"cpu": "of the pods: 503", "memory": "of the pods: 503"}, 0, 1), id="no pods"),
        pytest.param(DOWN, DOWN, ("503", {}, 0, 0), id="neither"),
    ],
)
async def test_pods_and_nodes_fail_apart(pods: Readings, nodes: Readings, expected: tuple[object, ...]) -> None:
    cluster = Scripted()
    cluster.answer_usage, cluster.answer_nodes = lambda now: pods, lambda now: nodes
    async with ResourceMetrics(nodes=True).open(site(cluster)) as reader:
        found = await reader.read(5.0)
    assert (found.error, found.faults, len(found.pods), len(found.nodes)) == expected


def test_it_is_registered_under_its_name_in_toml() -> None:
    (source,) = register_sources()
    assert msgspec.convert({"type": "resource-metrics", "every": 5}, source) == ResourceMetrics(every=5)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `evry`"):
        msgspec.convert({"type": "resource-metrics", "evry": 5}, ResourceMetrics)
