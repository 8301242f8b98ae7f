"""The custom and external metrics APIs as sources: whom they ask for what."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from elasticd.base.clock import VirtualClock
from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError
from elasticd.model.workload import Readings, Ref, Sample
from elasticd.ports.metrics_api import MetricQuery
from elasticd.ports.source import Source
from elasticd.sources import api_metrics as module
from elasticd.sources.api_metrics import CustomMetrics, ExternalMetrics, register_sources
from elasticd.testing import site
from tests.kit.clusters import Scripted

WEB, MAIL, BATCH = Ref("shop", "Deployment", "web"), Ref("shop", "Deployment", "mail"), Ref("jobs", "Job", "batch")
ALL = (WEB, MAIL, BATCH)


def custom(**series: Any) -> CustomMetrics:
    return msgspec.convert({"type": "custom-metrics", "series": [series]}, CustomMetrics)


def external(**series: Any) -> ExternalMetrics:
    return msgspec.convert({"type": "external-metrics", "series": [series]}, ExternalMetrics)


async def asked(source: Source, governed: tuple[Ref, ...] = ALL) -> list[MetricQuery]:
    """What the source asks the cluster."""
    cluster = Scripted()
    async with source.open(site(cluster, governed=governed)) as reader:
        await reader.read(5.0)
    return list(cluster.asked[0])


async def test_pod_metrics_are_queried_once_per_governed_namespace() -> None:
    assert await asked(custom(name="rps", metric="requests", selector="path=/")) == [
        MetricQuery("rps", "requests", "jobs", "path=/"),
        MetricQuery("rps", "requests", "shop", "path=/"),
    ]
    assert await asked(custom(name="rps"), ()) == []


async def test_pods_are_asked_for_in_the_namespaces_that_are_named() -> None:
    assert await asked(custom(name="rps", namespaces=["else"])) == [MetricQuery("rps", "rps", "else")]


@pytest.mark.parametrize(("namespace", "where"), [("", "shop"), ("edge", "edge")])
async def test_an_object_metric_is_queried_in_its_own_namespace(namespace: str, where: str) -> None:
    described = {"api_version": "networking.k8s.io/v1", "kind": "Ingress", "name": "front", "namespace": namespace}
    (query,) = await asked(custom(name="hits", object=described, workload=str(WEB)))
    expected = ("networking.k8s.io/v1", "Ingress", "front")
    assert query == MetricQuery("hits", "hits", where, object=expected, workload=str(WEB))


async def test_external_metric_is_that_of_every_governed_workload() -> None:
    queries = await asked(external(name="queue"))
    assert [(one.namespace, one.workload) for one in queries] == [
        ("jobs", str(BATCH)),
        ("shop", str(MAIL)),
        ("shop", str(WEB)),
    ]
    assert all(one.external for one in queries)


async def test_an_external_metric_may_be_of_namespaces_or_one_workload() -> None:
    assert [one.workload for one in await asked(external(name="queue", namespaces=["jobs"]))] == [str(BATCH)]
    alone = await asked(external(name="queue", workload="far/Deployment/off"))
    assert alone == [MetricQuery("queue", "queue", "far", external=True, workload="far/Deployment/off")]


@pytest.mark.parametrize(("name", "label"), [("", "custom-metrics"), ("adapter", "adapter")])
async def test_readings_of_the_cluster_carry_the_name_of_the_source(name: str, label: str) -> None:
    cluster = Scripted()
    pods = {"rps": {"shop/web-1": (Sample(1.0, 4.0, 5.0, pod="web-1"),)}}
    cluster.answer_metrics = lambda now: Readings("cluster", now, pods, faults={"other": "down"})
    source = msgspec.structs.replace(custom(name="rps"), name=name)
    async with source.open(site(cluster, governed=ALL)) as reader:
        assert await reader.read(5.0) == Readings(label, 5.0, pods, faults={"other": "down"})
    assert source.offers() == ("rps",)


async def test_series_of_one_metric_are_asked_for_together() -> None:
    names = {"a": "queue", "b": "queue", "c": "other"}
    series = [{"name": name, "metric": metric, "workload": str(WEB)} for name, metric in names.items()]
    cluster, source = Scripted(), msgspec.convert({"type": "external-metrics", "series": series}, ExternalMetrics)
    async with source.open(site(cluster, governed=ALL)) as reader:
        await reader.read(5.0)
    assert [[query.series for query in queries] for queries in cluster.asked] == [["a", "b"], ["c"]]


async def test_metric_that_fails_or_hangs_delays_and_harms_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cluster(Scripted):
        hang = asyncio.Event()

        async def metrics(self, queries: Sequence[MetricQuery], now: float) -> Readings:
            name = queries[0].series
            if name == "slow":
                await self.hang.wait()
            if name == "bad":
                return Readings("cluster", now, error="503", faults={"bad": "503"})
            return Readings("cluster", now, workloads={name: {str(WEB): (Sample(1.0, now, now),)}})

    monkeypatch.setattr(module, "PATIENCE", 0.05)
    series = [{"name": name, "workload": str(WEB)} for name in ("good", "bad", "slow")]
    source = msgspec.convert({"type": "external-metrics", "series": series}, ExternalMetrics)
    async with source.open(site(Cluster(), VirtualClock(5.0), governed=ALL)) as reader:
        found = await reader.read(5.0)
        assert (list(found.workloads), found.error) == (["good"], "")
        assert found.faults == {"bad": "503", "slow": "no answer yet"}


async def test_a_simulated_cluster_says_that_it_serves_none() -> None:
    async with external(name="queue").open(site()) as reader:
        assert "serves no custom or external metrics" in (await reader.read(5.0)).error


@pytest.mark.parametrize(
    ("kind", "series", "problem"),
    [
        pytest.param(
            CustomMetrics, {"workload": "a/b/c"}, "object: must be given with workload, is missing", id="no object"
        ),
        pytest.param(
            CustomMetrics,
            {"object": {"kind": "Service", "name": "s"}},
            "workload: must be given with object, is missing",
            id="no workload",
        ),
        pytest.param(
            ExternalMetrics, {"workload": "web"}, 'workload: must be NAMESPACE/KIND/NAME, is "web"', id="a bare name"
        ),
        pytest.param(
            ExternalMetrics,
            {"workload": "a/b/c", "namespaces": ["a"]},
            "namespaces: must be left out where there is a workload, is given",
            id="namespaces of a workload",
        ),
        pytest.param(ExternalMetrics, {"metric": ".."}, "metric: ", id="a metric that leaves its folder"),
        pytest.param(ExternalMetrics, {"metric": "a/b"}, "metric: ", id="a metric with a slash"),
        pytest.param(ExternalMetrics, {"name": "a/b"}, "metric: must be given where", id="a name that is no metric"),
        pytest.param(CustomMetrics, {"namespaces": ["../x"]}, "namespaces", id="a namespace that is none"),
        pytest.param(CustomMetrics, {"namespace": "x"}, "no such key, did you mean", id="a misspelling"),
    ],
)
def test_what_contradicts_itself_is_refused(kind: type[Source], series: dict[str, Any], problem: str) -> None:
    table = {"type": kind.__struct_config__.tag, "series": [{"name": "s", **series}]}
    with pytest.raises(ConfigError) as caught:
        convert(table, kind, "elasticd.toml", "source[0]")
    assert problem in str(caught.value)


def test_both_are_registered() -> None:
    assert [one.__struct_config__.tag for one in register_sources()] == ["custom-metrics", "external-metrics"]
