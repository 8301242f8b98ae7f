"""A Deployment that is spread over three zones with one pod a node, on a simulated cluster that loses a zone."""

from collections import Counter

import pytest

from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.options import NodeChange, NodeTable, PodTermTable, SpreadTable, WorkloadTable
from elasticd.kit import HOSTNAME
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.testing import simulate
from elasticd_plugins.filters import Filters
from elasticd_plugins.least_requested import LeastRequested
from elasticd_plugins.topology_spread import SpreadScore
from tests.kit.placers import Heard

pytestmark = pytest.mark.slow

WEB = {"app": "web"}


async def bindings(within: float) -> Heard:
    """What is heard of six pods that wait for elasticd, where the second zone comes after a minute."""
    late = (NodeChange(at=0, gone=True), NodeChange(at=60, gone=False))
    nodes = [
        NodeTable(name=zone, count=2, cpu="4", memory="8Gi", labels={"zone": zone}, changes=late if zone == "b" else ())
        for zone in "abc"
    ]
    web = WorkloadTable(
        name="web",
        replicas=6,
        scheduler="elasticd",
        labels=WEB,
        topology_spread=(SpreadTable("zone", WEB),),
        pod_anti_affinity=(PodTermTable(HOSTNAME, WEB),),
    )
    policy = PoolPolicy(
        name="pool", pool=PoolSelect(), strategies=(Filters(), LeastRequested(), SpreadScore()), mode="act"
    )
    heard = Heard()
    await simulate(Simulated(nodes=tuple(nodes), workloads=(web,)), [policy], within, sources=[], listeners=[heard])
    return heard


async def test_pods_fill_a_zone_that_comes_late() -> None:
    heard = await bindings(120.0)
    bound = [(outcome.at, outcome.node[0]) for outcome in heard.placeds if outcome.result == "done"]
    assert Counter(zone for _, zone in bound) == {"a": 2, "b": 2, "c": 2}
    first = min(at for at, _ in bound)
    assert Counter(zone for at, zone in bound if at < first + 50) == {"a": 2, "c": 2}
    assert {zone for at, zone in bound if at >= first + 50} == {"b"}


async def test_pods_without_a_node_of_their_own_are_told() -> None:
    heard = await bindings(30.0)
    (message,) = {decision.message for decision in heard.placings if decision.verdict == "wait"}
    apart = ("didn't match pod anti-affinity rules", "didn't satisfy existing pods anti-affinity rules")
    assert message == "0/4 nodes are available: " + ", ".join(f"4 node(s) {reason}" for reason in apart)
