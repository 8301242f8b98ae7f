"""What a kubelet says of its node and pods, and what it says wrongly."""

import math
from typing import Any

import pytest

from elasticd.base.clock import ServerTime
from elasticd.cluster.kubernetes import kubelet as module
from elasticd.cluster.kubernetes.kubelet import Kubelets
from elasticd.cluster.kubernetes.session import Session
from elasticd.model.workload import Readings, Sample
from elasticd.ports.metrics_api import Part
from tests.cluster.kubernetes.fake import Anchored, FakeApi, HurriedClock, drop, status

PATH = "/api/v1/nodes/n1/proxy/stats/summary"
STAMP, STAMPED = "2026-01-01T00:00:00Z", 1767225600.0


def container(name: str = "main", cpu: Any = 250_000_000, memory: Any = 2**26, **more: Any) -> dict[str, Any]:
    """A container's figures."""
    of_cpu = {"time": STAMP, "usageNanoCores": cpu, "usageCoreNanoSeconds": 9}
    return {"name": name, "cpu": of_cpu, "memory": {"time": STAMP, "workingSetBytes": memory}, **more}


def pod(name: str, *containers: Any, namespace: str = "shop") -> dict[str, Any]:
    """A pod's figures."""
    return {"podRef": {"name": name, "namespace": namespace, "uid": "u"}, "containers": list(containers)}


def node(name: str = "n1", **changes: Any) -> dict[str, Any]:
    """A node's figures."""
    return {
        "nodeName": name,
        **{key: value for key, value in container(cpu=2_000_000_000, memory=2**30).items() if key != "name"},
        "network": {"time": STAMP, "name": "eth0", "rxBytes": 1000, "txBytes": 2000, "interfaces": []},
        "fs": {"time": STAMP, "usedBytes": 30, "availableBytes": 70, "capacityBytes": 100},
        **changes,
    }


def summary(*pods: Any, **changes: Any) -> dict[str, Any]:
    """All that a kubelet says."""
    return {"node": node(**changes), "pods": list(pods)}


@pytest.fixture
def kubelets(session: Session) -> Kubelets:
    """A reader through the fake server."""
    return Kubelets(session, ServerTime(HurriedClock()))


async def ask(kubelets: Kubelets, part: Part = "all") -> Readings:
    """One answer without trouble."""
    found = await kubelets.summary("n1", 500.0, part, 2.0)
    assert (found.source, found.received, found.error) == ("kubelet", 500.0, "")
    return found


async def test_each_container_is_a_sample_with_its_own_time(api: FakeApi, session: Session) -> None:
    api.on("GET", PATH, summary(pod("web-1", container(), container("mesh", 1, 5))))
    found = await ask(Kubelets(session, ServerTime(Anchored())))
    cpu = found.pods["cpu"]["shop/web-1"]
    assert [(one.value, one.container, one.pod, one.window) for one in cpu] == [
        (0.25, "main", "web-1", 10.0),
        (1e-9, "mesh", "web-1", 10.0),
    ]
    assert [(one.value, one.window) for one in found.pods["memory"]["shop/web-1"]] == [(2.0**26, 0), (5.0, 0)]
    assert {one.received for one in cpu} == {500.0}
    assert [one.measured for one in cpu] == [pytest.approx(STAMPED + 3600, abs=1)] * 2


async def test_node_has_its_own_figures(api: FakeApi, kubelets: Kubelets) -> None:
    api.on("GET", PATH, summary())
    found = (await ask(kubelets)).nodes
    assert {name: samples["n1"][0].value for name, samples in found.items()} == {
        "cpu": 2.0,
        "memory": 2.0**30,
        "network_receive_bytes": 1000.0,
        "network_transmit_bytes": 2000.0,
        "filesystem_used_bytes": 30.0,
        "filesystem_available_bytes": 70.0,
        "filesystem_capacity_bytes": 100.0,
    }


async def test_figures_that_are_not_given_are_no_samples(api: FakeApi, kubelets: Kubelets) -> None:
    silent = {"time": STAMP, "name": "eth0"}
    api.on("GET", PATH, summary(network=silent, fs=None, cpu={"time": STAMP}, memory=None))
    assert (await ask(kubelets)).nodes == {}


async def test_only_what_is_wanted_is_asked_for_and_read(api: FakeApi, kubelets: Kubelets) -> None:
    api.on("GET", PATH, summary(pod("web-1", container())))
    await ask(kubelets, "usage")
    assert api.seen[-1].query == {"only_cpu_and_memory": "true"}
    found = await ask(kubelets, "node")
    assert (api.seen[-1].query, found.pods) == ({}, {})


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(container(cpu=None), id="no value yet"),
        pytest.param({"name": "new"}, id="no figures at all"),
    ],
)
async def test_pod_with_a_container_without_figure_has_no_sample(api: FakeApi, kubelets: Kubelets, broken: Any) -> None:
    api.on("GET", PATH, summary(pod("web-1", container(), broken), pod("web-2", container()), pod("web-3")))
    found = await ask(kubelets)
    assert list(found.pods["cpu"]) == ["shop/web-2"]
    assert {key: len(samples) for key, samples in found.parts["cpu"].items()} == {"shop/web-1": 1}


@pytest.mark.parametrize("garbage", ["much", "5", True, [], {}, 10**400], ids=lambda value: str(value)[:10])
async def test_value_that_is_no_number_stays_in_sight_as_nan(api: FakeApi, kubelets: Kubelets, garbage: Any) -> None:
    huge = isinstance(garbage, int) and garbage > 1
    given = summary(pod("web-1", container(cpu=17 if huge else garbage)))
    if huge:
        body = b'{"node":{"nodeName":"n1"},"pods":[{"podRef":{"name":"web-1","namespace":"shop"},"containers":[{"cpu":'
        body += b'{"time":"2026-01-01T00:00:00Z","usageNanoCores":1%s}}]}]}' % (b"0" * 400)
        api.on("GET", PATH, body)
    else:
        api.on("GET", PATH, given)
    (sample,) = (await ask(kubelets)).pods["cpu"]["shop/web-1"]
    assert math.isnan(sample.value)


@pytest.mark.parametrize("garbage", [17, {"containers": []}, pod("x", container(cpu=1) | {"cpu": {"time": "now"}})])
async def test_pod_that_cannot_be_read_costs_only_itself(api: FakeApi, kubelets: Kubelets, garbage: Any) -> None:
    api.on("GET", PATH, summary(garbage, pod("web-1", container())))
    assert list((await ask(kubelets)).pods["cpu"]) == ["shop/web-1"]
    assert kubelets.skipped == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(status(503, "ServiceUnavailable", "dial tcp: refused"), "503", id="node is down"),
        pytest.param(status(403, "Forbidden", "no nodes/proxy"), "no nodes/proxy", id="no right"),
        pytest.param(drop, "the kubelet: ", id="reset"),
        pytest.param(b'{"node":{', "its answer is no summary", id="truncated"),
        pytest.param({"pods": []}, "its answer is no summary", id="of no node"),
        pytest.param(summary(name="n2"), 'it answers for node "n2"', id="of another node"),
    ],
)
async def test_trouble_is_an_error(api: FakeApi, kubelets: Kubelets, answer: Any, error: str) -> None:
    api.on("GET", PATH, answer)
    found = await kubelets.summary("n1", 500.0, "all", 2.0)
    assert error in found.error
    assert (found.pods, found.nodes) == ({}, {})


async def test_answer_that_never_ends_is_cut(api: FakeApi, kubelets: Kubelets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 1000)
    api.on("GET", PATH, b"x" * 2000)
    assert "larger than 1000 bytes" in (await kubelets.summary("n1", 500.0, "all", 2.0)).error


async def test_name_of_a_node_is_quoted(api: FakeApi, kubelets: Kubelets) -> None:
    await kubelets.summary("a/../../b", 500.0, "all", 2.0)
    assert api.seen[-1].path == "/api/v1/nodes/a/../../b/proxy/stats/summary"


async def test_summary_of_a_full_node_is_whole(api: FakeApi, kubelets: Kubelets) -> None:
    api.on("GET", PATH, summary(*[pod(f"web-{index}", container()) for index in range(300)]))
    found = (await ask(kubelets)).pods["cpu"]
    assert len(found) == 300
    assert isinstance(found["shop/web-299"][0], Sample)
