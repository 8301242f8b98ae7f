"""The custom and external metrics APIs: what they say, what they say wrongly, and who is harmed by it."""

import asyncio
import math
from typing import Any

import pytest
from aiohttp import web

from elasticd.base.clock import ServerTime
from elasticd.cluster.kubernetes import custom
from elasticd.cluster.kubernetes.custom import AggregatedMetrics
from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.discovery import Discovery
from elasticd.model.workload import Readings, Sample
from elasticd.ports.metrics_api import MetricQuery
from tests.cluster.kubernetes.fake import Anchored, FakeApi, HurriedClock, Say, drop, status

GROUP = "/apis/custom.metrics.k8s.io"
RATE = f"{GROUP}/v1beta2/namespaces/shop/pods/*/rate"
EXTERNAL = "/apis/external.metrics.k8s.io"
QUEUE = f"{EXTERNAL}/v1beta1/namespaces/shop/queue"
STAMP = "2026-01-01T00:00:00Z"
STAMPED = 1767225600.0
WEB, MAIL = "shop/Deployment/web", "shop/Deployment/mail"

BY_POD = MetricQuery("rps", "rate", "shop")
OF_QUEUE = MetricQuery("queue", "queue", "shop", external=True, workload=WEB)


def value(name: str = "", quantity: Any = "1", namespace: str = "shop", **more: Any) -> dict[str, Any]:
    """A value of an object, or (name empty) of none."""
    of = {"kind": "Pod", "namespace": namespace, "name": name, "apiVersion": "/v1"}
    return {"timestamp": STAMP, "value": quantity, **({"describedObject": of} if name else {}), **more}


@pytest.fixture
def api(api: FakeApi) -> FakeApi:
    """A server of custom metrics, v1beta2, and of external ones, v1beta1."""
    for name, version in (("custom.metrics.k8s.io", "v1beta2"), ("external.metrics.k8s.io", "v1beta1")):
        one = {"groupVersion": f"{name}/{version}"}
        api.on("GET", f"/apis/{name}", {"name": name, "versions": [one], "preferredVersion": one})
    return api


@pytest.fixture
def metrics(session: Session) -> AggregatedMetrics:
    """A reader on it."""
    return AggregatedMetrics(Discovery(session), ServerTime(HurriedClock()), 2.0)


def serve(api: FakeApi, path: str, *items: Any) -> None:
    """Answer with these values."""
    api.on("GET", path, {"metadata": {}, "items": list(items)})


async def read(metrics: AggregatedMetrics, *queries: MetricQuery) -> Readings:
    """One reading without trouble."""
    found = await metrics.read(queries, 500.0)
    assert (found.received, found.error, found.faults) == (500.0, "", {})
    return found


async def test_each_pod_has_a_sample_with_its_own_measurement_time(api: FakeApi, session: Session) -> None:
    serve(api, RATE, value("web-1", "1500m", windowSeconds=60), value("web-2", "2k"), value("", "9"))
    found = await read(AggregatedMetrics(Discovery(session), ServerTime(Anchored()), 2.0), BY_POD)
    assert {key: [one.value for one in samples] for key, samples in found.pods["rps"].items()} == {
        "shop/web-1": [1.5],
        "shop/web-2": [2000.0],
    }
    (one,) = found.pods["rps"]["shop/web-1"]
    assert one.measured == pytest.approx(STAMPED + 3600, abs=1)
    assert (one.received, one.window) == (500.0, 60.0)
    assert (one.pod, one.container) == ("web-1", "")
    assert found.pods["rps"]["shop/web-2"][0].window == 0.0


async def test_selector_is_over_the_labels_of_the_metric(api: FakeApi, metrics: AggregatedMetrics) -> None:
    serve(api, RATE)
    serve(api, QUEUE)
    queries = [MetricQuery(one.series, one.metric, "shop", "topic=a", one.external) for one in (BY_POD, OF_QUEUE)]
    await metrics.read(queries, 500.0)
    assert [one.query for one in api.asked("GET", RATE)] == [{"metricLabelSelector": "topic=a"}]
    assert [one.query for one in api.asked("GET", QUEUE)] == [{"labelSelector": "topic=a"}]


async def test_external_metric_is_all_of_its_values(api: FakeApi, metrics: AggregatedMetrics) -> None:
    serve(api, QUEUE, value("", "10", window=30), value("", "2500m"))
    samples = (await read(metrics, OF_QUEUE)).workloads["queue"][WEB]
    assert [(one.value, one.window, one.pod) for one in samples] == [(10.0, 30.0, ""), (2.5, 0.0, "")]


async def test_one_call_serves_all_workloads_of_a_namespace(api: FakeApi, metrics: AggregatedMetrics) -> None:
    serve(api, QUEUE, value("", "10"))
    other = MetricQuery("backlog", "queue", "shop", external=True, workload=MAIL)
    found = await read(metrics, OF_QUEUE, other)
    assert len(api.asked("GET", QUEUE)) == 1
    assert (list(found.workloads["queue"]), list(found.workloads["backlog"])) == ([WEB], [MAIL])


INGRESS = ("networking.k8s.io/v1", "Ingress", "front")


@pytest.mark.parametrize(
    ("described", "path"),
    [
        pytest.param(INGRESS, "/namespaces/shop/ingresses.networking.k8s.io/front/hits", id="of a named group"),
        pytest.param(("v1", "Service", "front"), "/namespaces/shop/services/front/hits", id="of the core group"),
        pytest.param(("v1", "Node", "n1"), "/nodes/n1/hits", id="of no namespace"),
        pytest.param(("v1", "Namespace", "shop"), "/namespaces/shop/metrics/hits", id="a namespace itself"),
    ],
)
async def test_object_is_found_by_its_resource(
    api: FakeApi, metrics: AggregatedMetrics, described: tuple[str, str, str], path: str
) -> None:
    core = [("services", "Service", True), ("nodes", "Node", False)]
    named = [{"name": name, "kind": kind, "namespaced": spaced} for name, kind, spaced in core]
    api.on("GET", "/api/v1", {"resources": named})
    ingresses = {"name": "ingresses", "kind": "Ingress", "namespaced": True}
    api.on("GET", "/apis/networking.k8s.io/v1", {"resources": [ingresses]})
    serve(api, f"{GROUP}/v1beta2{path}", value("front", "7"), value("front", "8"))
    query = MetricQuery("hits", "hits", "shop", object=described, workload=WEB)
    for _ in range(2):
        found = await read(metrics, query)
        assert [one.value for one in found.workloads["hits"][WEB]] == [7.0]
    assert len([one for one in api.seen if one.path in ("/api/v1", "/apis/networking.k8s.io/v1")]) < 2


async def test_kind_that_is_not_served_is_reported(metrics: AggregatedMetrics, api: FakeApi) -> None:
    api.on("GET", "/apis/networking.k8s.io/v1", {"resources": []})
    found = await metrics.read([MetricQuery("hits", "hits", "shop", object=INGRESS, workload=WEB)], 500.0)
    assert 'networking.k8s.io/v1 has no kind "Ingress"' in found.faults["hits"]


async def test_names_are_quoted(api: FakeApi, metrics: AggregatedMetrics) -> None:
    await metrics.read([MetricQuery("odd", "a b?c=d#e", "shop", external=True, workload=WEB)], 500.0)
    assert api.seen[-1].path == f"{EXTERNAL}/v1beta1/namespaces/shop/a b?c=d#e"


@pytest.mark.parametrize("query", [BY_POD, OF_QUEUE], ids=["pods", "external"])
async def test_empty_list_is_a_series_without_samples(
    api: FakeApi, metrics: AggregatedMetrics, query: MetricQuery
) -> None:
    for path in (RATE, QUEUE):
        serve(api, path)
    found = await read(metrics, query)
    assert (found.pods, found.workloads) == (({}, {"queue": {}}) if query.external else ({"rps": {}}, {}))


@pytest.mark.parametrize("quantity", ["NaN", "", "much", "1e999", "+Inf", None, [], {}, "0x10"], ids=repr)
async def test_value_that_is_no_quantity_stays_in_sight_as_nan(
    api: FakeApi, metrics: AggregatedMetrics, quantity: Any
) -> None:
    serve(api, RATE, value("web-1", quantity))
    (sample,) = (await read(metrics, BY_POD)).pods["rps"]["shop/web-1"]
    assert math.isnan(sample.value)


async def test_negative_value_is_handed_on_for_judgement_to_refuse(api: FakeApi, metrics: AggregatedMetrics) -> None:
    serve(api, RATE, value("web-1", "-5"))
    assert (await read(metrics, BY_POD)).pods["rps"]["shop/web-1"][0].value == -5.0


@pytest.mark.parametrize(
    ("odd", "told"),
    [
        pytest.param(value("web-2", timestamp="yesterday"), "1 unreadable", id="a garbage time"),
        pytest.param(value("web-2", timestamp=None), "1 unreadable", id="no time"),
        pytest.param(17, "1 unreadable", id="a number"),
        pytest.param(value("web-2", namespace="else"), "1 of another namespace", id="another namespace"),
    ],
)
async def test_unusable_value_costs_only_its_pod_and_is_reported(
    api: FakeApi, metrics: AggregatedMetrics, odd: Any, told: str
) -> None:
    serve(api, RATE, value("web-1"), odd)
    found = await metrics.read([BY_POD], 500.0)
    assert list(found.pods["rps"]) == ["shop/web-1"]
    assert told in found.faults["rps"]
    assert found.error == ""


async def test_sum_that_lacks_a_part_is_no_sum(api: FakeApi, metrics: AggregatedMetrics) -> None:
    serve(api, QUEUE, value("", "10"), 17)
    found = await metrics.read([OF_QUEUE], 500.0)
    assert found.workloads.get("queue", {}) == {}
    assert "1 unreadable" in found.faults["queue"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(status(503, "ServiceUnavailable", "down"), "503 ServiceUnavailable: down", id="503"),
        pytest.param(status(404, "NotFound", "no such metric"), "no such metric", id="404"),
        pytest.param(drop, "", id="reset"),
        pytest.param(b'{"items":[', "its answer is no list", id="truncated"),
        pytest.param(b"[1]", "its answer is no list", id="no object"),
        pytest.param(Say(200, b""), "its answer is no list", id="nothing"),
    ],
)
async def test_query_that_fails_harms_only_its_series(
    api: FakeApi, metrics: AggregatedMetrics, answer: Any, told: str
) -> None:
    serve(api, QUEUE, value("", "10"))
    api.on("GET", RATE, answer)
    found = await metrics.read([BY_POD, OF_QUEUE], 500.0)
    assert (found.pods, list(found.workloads["queue"]), found.error) == ({"rps": {}}, [WEB], "")
    assert list(found.faults) == ["rps"]
    assert found.faults["rps"].startswith("custom.metrics.k8s.io: rate of shop: ")
    assert told in found.faults["rps"]
    alone = await metrics.read([BY_POD], 500.0)
    assert alone.error == alone.faults["rps"]
    assert (alone.pods, alone.workloads) == ({}, {})


async def test_call_that_hangs_holds_up_no_other(api: FakeApi, session: Session) -> None:
    held = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        await held.wait()
        return web.Response()

    serve(api, QUEUE, value("", "10"))
    api.on("GET", RATE, hang)
    metrics = AggregatedMetrics(Discovery(session), ServerTime(HurriedClock()), 0.1)
    found = await metrics.read([BY_POD, OF_QUEUE], 500.0)
    held.set()
    assert list(found.workloads["queue"]) == [WEB]
    assert "no answer within 0.3 s" in found.faults["rps"]


async def test_only_so_many_calls_are_under_way_at_once(api: FakeApi, metrics: AggregatedMetrics) -> None:
    under_way, most, full = 0, 0, asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == custom.CALLS_AT_ONCE:
            full.set()
        await full.wait()
        under_way -= 1
        return web.json_response({"kind": "MetricValueList", "items": []})

    queries = [MetricQuery("rps", "rate", f"ns-{index}") for index in range(40)]
    for query in queries:
        api.on("GET", f"{GROUP}/v1beta2/namespaces/{query.namespace}/pods/*/rate", slow)
    await read(metrics, *queries)
    assert most == custom.CALLS_AT_ONCE


async def test_answer_that_never_ends_is_cut(
    api: FakeApi, metrics: AggregatedMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(custom, "LARGEST", 1000)
    api.on("GET", RATE, b"x" * 2000)
    assert "larger than 1000 bytes" in (await metrics.read([BY_POD], 500.0)).error


async def test_missing_api_is_an_error_until_it_is_served(api: FakeApi, metrics: AggregatedMetrics) -> None:
    api.on("GET", GROUP, status(404, "NotFound", "no"))
    assert "does not serve custom.metrics.k8s.io" in (await metrics.read([BY_POD], 500.0)).error
    api.on("GET", GROUP, {"preferredVersion": {"groupVersion": "custom.metrics.k8s.io/v9"}})
    serve(api, f"{GROUP}/v9/namespaces/shop/pods/*/rate", value("web-1"))
    assert list((await read(metrics, BY_POD)).pods["rps"]) == ["shop/web-1"]


async def test_version_is_looked_up_once_and_again_after_it_disappears(
    api: FakeApi, metrics: AggregatedMetrics
) -> None:
    serve(api, RATE, value("web-1"))
    for _ in range(3):
        await read(metrics, BY_POD)
    assert len(api.asked("GET", GROUP)) == 1
    api.on("GET", RATE, status(404, "NotFound", "no"))
    await metrics.read([BY_POD], 500.0)
    await metrics.read([BY_POD], 500.0)
    assert len(api.asked("GET", GROUP)) == 2


async def test_nothing_is_asked_for_nothing(api: FakeApi, metrics: AggregatedMetrics) -> None:
    assert await read(metrics) == Readings("metrics-api", 500.0)
    assert api.seen == []


async def test_long_list_is_whole(api: FakeApi, metrics: AggregatedMetrics) -> None:
    serve(api, RATE, *[value(f"web-{index}", str(index)) for index in range(4500)])
    found = (await read(metrics, BY_POD)).pods["rps"]
    assert len(found) == 4500
    assert isinstance(found["shop/web-4499"][0], Sample)
