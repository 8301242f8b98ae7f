"""What goes over each node's network, as a source."""

import msgspec
import pytest

from elasticd.base.clock import VirtualClock
from elasticd.model.workload import Node, Readings, Sample
from elasticd.sources.node_rates import NodeRates, register_sources
from elasticd.testing import site
from tests.kit.clusters import Scripted, Shown

NODES = Shown(nodes=tuple(Node(name, "u", True, labels={"zone": zone}) for name, zone in (("n1", "a"), ("n2", "b"))))


class Counting:
    """Kubelets with counters that the test moves. One of None does not answer."""

    def __init__(self) -> None:
        self.received: dict[str, float | None] = {"n1": 1000.0, "n2": 0.0}
        self.at = 0.0

    async def __call__(self, node: str, now: float) -> Readings:
        value = self.received[node]
        if value is None:
            return Readings("kubelet", now, error="down")
        looks = {"network_receive_bytes": value, "network_transmit_bytes": 2 * value}
        return Readings("kubelet", now, nodes={key: {node: (Sample(one, self.at, now),)} for key, one in looks.items()})


def rates(readings: Readings, series: str = "network_receive") -> dict[str, float]:
    return {node: one.value for node, (one,) in readings.nodes[series].items()}


async def test_rates_are_of_what_was_counted_between_looks() -> None:
    cluster, counting, clock = Scripted(), Counting(), VirtualClock(0.0)
    cluster.answer_summary = counting
    async with NodeRates(name="net").open(site(cluster, clock, snapshot=NODES)) as reader:

        async def after(at: float, **received: float | None) -> Readings:
            counting.at, counting.received = at, {**counting.received, **received}
            await clock.sleep_until(at)
            return await reader.read(at)

        assert rates(await after(0)) == {}
        found = await after(10, n1=2000.0, n2=50.0)
        assert (found.source, found.error, found.faults) == ("net", "", {})
        assert (rates(found), rates(found, "network_transmit")) == ({"n1": 100, "n2": 5}, {"n1": 200, "n2": 10})
        assert found.nodes["network_receive"]["n1"] == (Sample(100.0, 10.0, 10.0, 10.0),)
        assert rates(await after(20, n1=5.0, n2=100.0)) == {"n2": 5}
        found = await after(30, n1=15.0, n2=None)
        assert rates(found) == {"n1": 1}
        assert found.faults["network_receive"] == "1 of 2 nodes did not answer: n2: down"
        assert rates(await after(40, n1=15.0, n2=300.0)) == {"n1": 0, "n2": 10}
        assert "2 of 2 nodes did not answer" in (await after(50, n1=None, n2=None)).error
        assert rates(await after(200, n1=100.0, n2=400.0)) == {}
    assert {part for _, part in cluster.summaries} == {"node"}


@pytest.mark.parametrize(
    ("labels", "asked"), [({}, ["n1", "n2"]), ({"zone": "b"}, ["n2"]), ({"zone": "c"}, [])], ids=["all", "some", "none"]
)
async def test_only_nodes_with_the_labels_are_asked(labels: dict[str, str], asked: list[str]) -> None:
    cluster = Scripted()
    async with NodeRates(labels=labels).open(site(cluster, snapshot=NODES)) as reader:
        found = await reader.read(0.0)
    assert ([node for node, _ in cluster.summaries], found.error) == (asked, "")


async def test_before_the_cluster_was_observed_nobody_is_asked() -> None:
    cluster = Scripted()
    async with NodeRates().open(site(cluster)) as reader:
        assert (await reader.read(0.0)).nodes == {"network_receive": {}, "network_transmit": {}}
    assert cluster.summaries == []


def test_it_is_registered_under_its_name_in_toml() -> None:
    (source,) = register_sources()
    assert msgspec.convert({"type": "node-rates", "labels": {"a": "b"}}, source) == NodeRates(labels={"a": "b"})
    assert NodeRates().offers() == ("network_receive", "network_transmit")
