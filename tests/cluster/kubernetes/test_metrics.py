"""The resource metrics API: what it says, and what it says wrongly."""

import math
from typing import Any

import pytest

from elasticd.base.clock import ServerTime
from elasticd.cluster.kubernetes.metrics import MetricsClient
from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.discovery import Discovery
from elasticd.model.workload import Readings, Sample
from tests.cluster.kubernetes.fake import Anchored, FakeApi, HurriedClock, Say, drop, status

GROUP = "/apis/metrics.k8s.io"
PODS = f"{GROUP}/v1beta1/pods"
STAMP = "2026-01-01T00:00:00Z"
STAMPED = 1767225600.0


def usage(
    name: str, *containers: tuple[str, dict[str, Any]], namespace: str = "shop", **changes: Any
) -> dict[str, Any]:
    """A PodMetrics."""
    return {
        "metadata": {"name": name, "namespace": namespace},
        "timestamp": STAMP,
        "window": "30s",
        "containers": [{"name": container, "usage": used} for container, used in containers],
        **changes,
    }


def served(api: FakeApi, *items: Any) -> None:
    """Let the API serve these pods."""
    version = {"groupVersion": "metrics.k8s.io/v1beta1"}
    api.on("GET", GROUP, {"name": "metrics.k8s.io", "versions": [version], "preferredVersion": version})
    api.on("GET", PODS, {"metadata": {}, "items": list(items)})


@pytest.fixture
def metrics(session: Session) -> MetricsClient:
    """A reader on the fake server."""
    return MetricsClient(Discovery(session), ServerTime(HurriedClock()), ())


async def read(metrics: MetricsClient) -> Readings:
    """One reading without trouble."""
    found = await metrics.usage(500.0)
    assert (found.source, found.received, found.error) == ("resource-metrics", 500.0, "")
    return found


async def values(api: FakeApi, metrics: MetricsClient, **used: Any) -> list[float]:
    """The values of the series cpu of a pod with one container."""
    served(api, usage("web-1", ("main", used)))
    return [sample.value for sample in (await read(metrics)).pods["cpu"].get("shop/web-1", ())]


async def test_each_container_is_a_sample_in_base_units(api: FakeApi, session: Session) -> None:
    main, sidecar = {"cpu": "250m", "memory": "64Mi"}, {"cpu": "1500000n", "memory": "1Ki"}
    served(api, usage("web-1", ("main", main), ("mesh", sidecar)))
    found = await MetricsClient(Discovery(session), ServerTime(Anchored()), ()).usage(500.0)
    measured = pytest.approx(STAMPED + 3600, abs=1)
    cpu = found.pods["cpu"]["shop/web-1"]
    assert [(one.value, one.container, one.pod) for one in cpu] == [(0.25, "main", "web-1"), (0.0015, "mesh", "web-1")]
    assert [one.value for one in found.pods["memory"]["shop/web-1"]] == [2.0**26, 1024.0]
    assert [one.measured for one in cpu] == [measured, measured]
    assert all((one.received, one.window) == (500.0, 30.0) for one in cpu)


async def test_pod_with_a_container_lacking_a_resource_has_no_sample(api: FakeApi, metrics: MetricsClient) -> None:
    served(api, usage("web-1", ("main", {"cpu": "1", "memory": "1"}), ("mesh", {"cpu": "1"})))
    found = await read(metrics)
    assert len(found.pods["cpu"]["shop/web-1"]) == 2
    assert found.pods["memory"] == found.parts["cpu"] == {}
    assert [(one.container, one.value) for one in found.parts["memory"]["shop/web-1"]] == [("main", 1.0)]


@pytest.mark.parametrize("containers", [[], None])
async def test_pod_without_containers_has_no_sample(api: FakeApi, metrics: MetricsClient, containers: Any) -> None:
    served(api, usage("web-1", containers=containers))
    assert (await read(metrics)).pods == {"cpu": {}, "memory": {}}


@pytest.mark.parametrize(
    "quantity",
    ["NaN", "", "much", "-5m", "1e999", "+Inf", "1 000", None, [], {"a": 1}, -0.001],
    ids=lambda quantity: str(quantity)[:10] or "empty",
)
async def test_value_that_makes_no_sense_stays_in_sight_as_nan(
    api: FakeApi, metrics: MetricsClient, quantity: Any
) -> None:
    found = await values(api, metrics, cpu=quantity)
    assert len(found) == 1
    assert math.isnan(found[0])


async def test_number_larger_than_any_float_is_nan(api: FakeApi, metrics: MetricsClient) -> None:
    served(api)
    head = b'{"kind":"PodMetricsList","items":[{"metadata":{"name":"web-1","namespace":"shop"},'
    head += b'"timestamp":"2026-01-01T00:00:00Z",'
    api.on("GET", PODS, head + b'"containers":[{"name":"main","usage":{"cpu":1%s}}]}]}' % (b"0" * 400))
    (sample,) = (await read(metrics)).pods["cpu"]["shop/web-1"]
    assert math.isnan(sample.value)


@pytest.mark.parametrize(
    ("quantity", "value"),
    [("0", 0.0), ("1", 1.0), ("100u", 1e-4), ("2k", 2000.0), (3, 3.0), (0.5, 0.5), ("1e308", 1e308)],
)
async def test_value_that_is_a_quantity_is_taken_as_it_is(
    api: FakeApi, metrics: MetricsClient, quantity: Any, value: float
) -> None:
    assert await values(api, metrics, cpu=quantity) == [value]


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(17, id="a number"),
        pytest.param({"metadata": {"name": "x"}}, id="no timestamp"),
        pytest.param(usage("x", ("main", {"cpu": "1"}), timestamp="yesterday"), id="a garbage timestamp"),
        pytest.param(usage("x", containers={"main": 1}), id="containers of a wrong type"),
    ],
)
async def test_pod_that_cannot_be_read_costs_only_itself(api: FakeApi, metrics: MetricsClient, garbage: Any) -> None:
    served(api, garbage, usage("web-1", ("main", {"cpu": "1"})))
    assert list((await read(metrics)).pods["cpu"]) == ["shop/web-1"]
    assert metrics.skipped == 1


@pytest.mark.parametrize("items", [[], None])
async def test_empty_list_is_no_error_and_no_zero(api: FakeApi, metrics: MetricsClient, items: Any) -> None:
    served(api)
    api.on("GET", PODS, {"items": items})
    assert (await read(metrics)).pods == {"cpu": {}, "memory": {}}


async def test_more_pods_than_one_part_holds_are_all_read(api: FakeApi, metrics: MetricsClient) -> None:
    served(api, *[usage(f"web-{number}", ("main", {"cpu": "1m"})) for number in range(4500)])
    assert len((await read(metrics)).pods["cpu"]) == 4500


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(
            status(503, "ServiceUnavailable", "no endpoints"), "503 ServiceUnavailable: no endpoints", id="503"
        ),
        pytest.param(status(403, "Forbidden", "no right"), "403 Forbidden: no right", id="403"),
        pytest.param(drop, "Server disconnected", id="dropped"),
        pytest.param(b'{"items": [', "its answer is no list", id="truncated"),
        pytest.param(b"[1]", "its answer is no list", id="no object"),
        pytest.param({"message": "sign in"}, "its answer is no list", id="another object"),
        pytest.param(Say(200, b""), "its answer is no list", id="nothing"),
    ],
)
async def test_trouble_is_an_error_in_the_readings(
    api: FakeApi, metrics: MetricsClient, answer: Any, error: str
) -> None:
    served(api)
    api.on("GET", PODS, answer)
    found = await metrics.usage(500.0)
    assert error in found.error
    assert "\n" not in found.error
    assert (found.pods, found.workloads) == ({}, {})


async def test_missing_api_is_an_error_until_it_is_served(api: FakeApi, metrics: MetricsClient) -> None:
    assert "does not serve metrics.k8s.io" in (await metrics.usage(500.0)).error
    served(api, usage("web-1", ("main", {"cpu": "1"})))
    assert list((await read(metrics)).pods["cpu"]) == ["shop/web-1"]


async def test_version_preferred_by_the_server_is_looked_up_once(api: FakeApi, metrics: MetricsClient) -> None:
    api.on("GET", GROUP, {"preferredVersion": {"groupVersion": "metrics.k8s.io/v1"}})
    api.on("GET", f"{GROUP}/v1/pods", {"items": [usage("web-1", ("main", {"cpu": "1"}))]})
    for _ in range(3):
        assert (await read(metrics)).pods["cpu"]
    assert len(api.asked("GET", GROUP)) == 1


async def test_each_namespace_is_asked_and_a_failing_one_lacks_samples(api: FakeApi, session: Session) -> None:
    served(api)
    metrics = MetricsClient(Discovery(session), ServerTime(HurriedClock()), ("one", "two"))
    one, two = (f"{GROUP}/v1beta1/namespaces/{name}/pods" for name in ("one", "two"))
    api.on("GET", one, {"items": [usage("web-1", ("main", {"cpu": "1"}), namespace="one")]})
    api.on("GET", two, status(403, "Forbidden", "no"))
    assert list((await read(metrics)).pods["cpu"]) == ["one/web-1"]
    api.on("GET", one, status(503, "Down", "down"))
    assert "503 Down: down" in (await metrics.usage(500.0)).error


async def test_nodes_have_samples_too(api: FakeApi, metrics: MetricsClient) -> None:
    served(api)
    node = {"metadata": {"name": "n1"}, "timestamp": STAMP, "window": "10s", "usage": {"cpu": "2", "memory": "-1"}}
    api.on("GET", f"{GROUP}/v1beta1/nodes", {"items": [node, {"metadata": {"name": "n2"}}]})
    found = await metrics.node_usage(500.0)
    assert [one.value for one in found.nodes["cpu"]["n1"]] == [2.0]
    (memory,) = found.nodes["memory"]["n1"]
    assert isinstance(memory, Sample)
    assert math.isnan(memory.value)
    assert (metrics.skipped, found.error) == (1, "")


@pytest.mark.parametrize(("answer", "error"), [(status(503, "Down", "down"), "503 Down"), (b"x", "no list")])
async def test_trouble_with_nodes_is_an_error(api: FakeApi, metrics: MetricsClient, answer: Any, error: str) -> None:
    served(api)
    api.on("GET", f"{GROUP}/v1beta1/nodes", answer)
    assert error in (await metrics.node_usage(500.0)).error
