"""The kubelets' figures as a source: whom it asks, and what the answers make together."""

import asyncio
from typing import Any

import msgspec
import pytest

from elasticd.base.clock import VirtualClock
from elasticd.model.workload import Pod, Readings, Ref, Sample, Workload
from elasticd.sources import kubelet as module
from elasticd.sources.kubelet import Kubelet, register_sources
from elasticd.testing import site
from tests.kit.clusters import Scripted, Shown

REF = Ref("shop", "Deployment", "web")
WEB = Workload(REF, "u", "1", 3)


def shown(**placed: str) -> Shown:
    """A snapshot of the workload's pods, by the nodes they are on."""
    pods = [Pod("shop", name.replace("_", "-"), "u", "Running", node) for name, node in placed.items()]
    return Shown((WEB, tuple(pods)))


PLACED = shown(web_1="n1", web_2="n2", web_3="")


def says(node: str, *pods: str, cpu: float = 0.5) -> Readings:
    """What a kubelet says of these pods."""
    of_pods = {f"shop/{name}": (Sample(cpu, 4.0, 5.0, pod=name, container="main"),) for name in pods}
    return Readings("kubelet", 5.0, {"cpu": of_pods, "memory": {}}, nodes={"cpu": {node: (Sample(2.0, 4.0, 5.0),)}})


class Kubelets:
    """Kubelets that answer as told; one that is not told hangs."""

    def __init__(self, **answers: Readings) -> None:
        self.answers, self.hang = answers, asyncio.Event()

    async def __call__(self, node: str, now: float) -> Readings:
        if node not in self.answers:
            await self.hang.wait()
        return self.answers[node]


def over(kubelets: Kubelets) -> Scripted:
    """A cluster of these kubelets."""
    cluster = Scripted()
    cluster.answer_summary = kubelets
    return cluster


async def read(kubelets: Kubelets, snapshot: Shown | None = PLACED, **options: Any) -> tuple[Readings, Scripted]:
    """One reading."""
    cluster = over(kubelets)
    there = site(cluster, VirtualClock(5.0), governed=[REF], snapshot=snapshot)
    async with Kubelet(**options).open(there) as reader:
        return await reader.read(5.0), cluster


@pytest.fixture(autouse=True)
def trigger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.05)


async def test_only_governed_pods_and_their_nodes_are_read() -> None:
    kubelets = Kubelets(n1=says("n1", "web-1", "stranger"), n2=says("n2", "web-2"))
    found, cluster = await read(kubelets)
    assert cluster.summaries == [("n1", "all"), ("n2", "all")]
    assert (found.source, found.error, found.faults) == ("kubelet", "", {})
    assert list(found.pods["cpu"]) == ["shop/web-1", "shop/web-2"]
    assert found.pods["memory"] == {}
    assert {node: one.value for node, (one,) in found.nodes["cpu"].items()} == {"n1": 2.0, "n2": 2.0}


async def test_pod_is_reported_by_the_kubelet_of_its_node_alone() -> None:
    kubelets = Kubelets(n1=says("n1", "web-1", "web-2", cpu=9.0), n2=says("n2", "web-2"))
    found, _ = await read(kubelets)
    assert [one.value for one in found.pods["cpu"]["shop/web-2"]] == [0.5]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        pytest.param({}, "1 of 2 nodes did not answer: n2: no answer yet", id="one that hangs"),
        pytest.param(
            {"n2": Readings("kubelet", 5.0, error="the kubelet: 503")},
            "1 of 2 nodes did not answer: n2: the kubelet: 503",
            id="one that is down",
        ),
    ],
)
async def test_a_silent_node_delays_no_other_and_yields_no_samples(answers: dict[str, Readings], why: str) -> None:
    found, _ = await read(Kubelets(n1=says("n1", "web-1"), **answers))
    assert list(found.pods["cpu"]) == ["shop/web-1"]
    assert (found.error, set(found.faults.values())) == ("", {why})
    assert set(found.faults) == set(Kubelet().offers())


async def test_no_answer_at_all_is_an_error() -> None:
    down = Readings("kubelet", 5.0, error="the kubelet: 403 Forbidden")
    found, _ = await read(Kubelets(n1=down, n2=down), name="fast")
    assert found == Readings("fast", 5.0, error="2 of 2 nodes did not answer: n1: the kubelet: 403 Forbidden")


@pytest.mark.parametrize("snapshot", [None, Shown(), shown(web_1="")], ids=["not observed", "gone", "not placed"])
async def test_nobody_is_asked_where_nobody_runs(snapshot: Shown | None) -> None:
    found, cluster = await read(Kubelets(), snapshot)
    assert (cluster.summaries, found.pods["cpu"], found.error) == ([], {}, "")


async def test_less_is_asked_of_kubelets_without_devices() -> None:
    found, cluster = await read(Kubelets(n1=says("n1"), n2=says("n2")), devices=False)
    assert cluster.summaries == [("n1", "usage"), ("n2", "usage")]
    assert set(found.nodes) == {"cpu", "memory"} == set(Kubelet(devices=False).offers())


async def test_a_simulated_cluster_says_that_it_has_none() -> None:
    async with Kubelet().open(site(governed=[REF], snapshot=PLACED)) as reader:
        assert "has no kubelets" in (await reader.read(5.0)).error


def test_it_is_registered_under_its_name_in_toml() -> None:
    (source,) = register_sources()
    assert msgspec.convert({"type": "kubelet", "every": 2}, source) == Kubelet(every=2.0)
