"""The sources custom-metrics and external-metrics through the genuine aggregation layer, and what goes wrong there."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from elasticd.base.clock import WallClock
from elasticd.cluster.kubernetes import Kubernetes, KubernetesCluster
from elasticd.decision.quality import grade
from elasticd.model.workload import Quality, Readings, Ref, Sample
from elasticd.ports.source import Reader, Source
from elasticd.sources.api_metrics import CustomMetrics, ExternalMetrics
from elasticd.testing import site
from tests.kube.client import JSON, wait_until
from tests.kube.conftest import Kube
from tests.kube.rights import FOLDER, granted_from, shipped_rights
from tests.kube.test_cluster import ALONE, DEPLOYMENT, made, opened

CUSTOM = {"type": "custom-metrics", "series": [{"name": "rps", "metric": "requests"}]}
EXTERNAL = {"type": "external-metrics", "series": [{"name": "queue", "metric": "messages"}]}


@dataclass
class Scene:
    """A Deployment of two ready pods, and readers of both sources over it."""

    kube: Kube
    namespace: str
    cluster: KubernetesCluster
    pods: tuple[str, ...]
    clock: WallClock = field(default_factory=WallClock)

    @property
    def ref(self) -> Ref:
        """The Deployment."""
        return Ref(self.namespace, "Deployment", "web")

    @asynccontextmanager
    async def reader(self, table: dict[str, Any]) -> AsyncIterator[Reader]:
        """A source over it."""
        kinds: dict[str, type[Source]] = {"custom-metrics": CustomMetrics, "external-metrics": ExternalMetrics}
        source = msgspec.convert(table, kinds[table["type"]])
        async with source.open(site(self.cluster, self.clock, governed=[self.ref])) as reader:
            yield reader

    async def read(self, table: dict[str, Any] = CUSTOM) -> Readings:
        """One reading."""
        async with self.reader(table) as reader:
            return await reader.read(self.clock.now())

    def quality(self, readings: Readings, max_age: float = 60.0) -> Quality:
        """What the series of the pods is worth to judgement."""
        by_pod = readings.pods.get("rps", {})
        samples: list[Sample] = [one for key in self.pods for one in by_pod.get(key, ())]
        names = {key.partition("/")[2] for key in self.pods}
        return grade("rps", "custom-metrics", samples, self.clock.now(), max_age, names).quality


@pytest_asyncio.fixture(loop_scope="session")
async def scene(kube: Kube, namespace: str) -> AsyncIterator[Scene]:
    """It, served as it should be; whatever the test breaks is mended afterwards."""
    metrics = kube.metrics
    metrics.custom[namespace, "pods", "*", "requests"] = 2.5
    metrics.external[namespace, "messages"] = 40.0
    async with opened(kube, namespace, request_timeout=1.0) as cluster:
        known = await made(kube, cluster, namespace, DEPLOYMENT)
        snapshot = await cluster.observe(0.0, frozenset({DEPLOYMENT}))
        await wait_until(lambda: len([pod for pod in snapshot.pods(known()) if pod.ready]) == 2)
        pods = tuple(f"{namespace}/{pod.name}" for pod in snapshot.pods(known()))
        scene = Scene(kube, namespace, cluster, pods)

        async def all_there() -> bool:
            return len((await scene.read()).pods.get("rps", {})) == 2

        await wait_until(all_there, what="both pods have a sample")
        try:
            yield scene
        finally:
            metrics.failure, metrics.held, metrics.twist = None, None, lambda answer: answer
            metrics.measured.resolution = 0.0


async def test_pods_have_the_values_of_the_adapter(scene: Scene) -> None:
    readings = await scene.read()
    assert (readings.source, readings.error, readings.faults) == ("custom-metrics", "", {})
    assert set(readings.pods["rps"]) == set(scene.pods)
    samples = [one for samples in readings.pods["rps"].values() for one in samples]
    assert [one.value for one in samples] == [2.5, 2.5]
    assert all(abs(one.measured - scene.clock.now()) < 5 for one in samples)
    assert scene.quality(readings) == Quality.FRESH


async def test_object_and_external_values_are_those_of_the_workload(scene: Scene) -> None:
    scene.kube.metrics.custom[scene.namespace, "services", "front", "hits"] = 7.0
    series = {"name": "hits", "object": {"kind": "Service", "name": "front"}, "workload": str(scene.ref)}
    objects = await scene.read({"type": "custom-metrics", "series": [series]})
    assert [one.value for one in objects.workloads["hits"][str(scene.ref)]] == [7.0]
    outside = await scene.read(EXTERNAL)
    assert [one.value for one in outside.workloads["queue"][str(scene.ref)]] == [40.0]


async def test_an_adapter_that_is_down_is_an_error_until_recovery(scene: Scene) -> None:
    scene.kube.metrics.failure = 503
    for table in (CUSTOM, EXTERNAL):
        readings = await scene.read(table)
        assert "503" in readings.error
        assert (readings.pods, readings.workloads) == ({}, {})
    scene.kube.metrics.failure = None
    assert scene.quality(await scene.read()) == Quality.FRESH


async def test_adapter_that_hangs_is_an_error_within_its_time(scene: Scene) -> None:
    scene.kube.metrics.held = asyncio.Event()
    began = asyncio.get_running_loop().time()
    async with scene.reader(CUSTOM) as reader:
        assert "no answer yet" in (await reader.read(scene.clock.now())).error
        assert asyncio.get_running_loop().time() - began < 2

        async def told() -> bool:
            return "no answer in time" in (await reader.read(scene.clock.now())).error

        await wait_until(told, what="it is told that it timed out")
    scene.kube.metrics.held.set()


async def test_metric_that_is_unknown_harms_no_other(scene: Scene) -> None:
    table = {"type": "custom-metrics", "series": [*CUSTOM["series"], {"name": "other", "metric": "no-such"}]}
    readings = await scene.read(table)
    assert scene.quality(readings) == Quality.FRESH
    assert list(readings.faults) == ["other"]
    assert "404" in readings.faults["other"]


def listed(change: Callable[[list[JSON]], list[JSON]]) -> Callable[[JSON], JSON]:
    """A twist of what is in the list."""
    return lambda answer: {**answer, "items": change(answer["items"])}


def elsewhere(value: JSON) -> JSON:
    """The same value of a pod of another namespace."""
    return {**value, "describedObject": {**value["describedObject"], "namespace": "else"}}


@pytest.mark.parametrize(
    ("twist", "quality", "told"),
    [
        pytest.param(listed(lambda items: []), Quality.EMPTY, "", id="an empty list"),
        pytest.param(listed(lambda items: items[:1]), Quality.PARTIAL, "", id="a pod is missing"),
        pytest.param(
            listed(lambda items: [{**one, "value": "NaN"} for one in items]), Quality.INVALID, "", id="no quantity"
        ),
        pytest.param(
            listed(lambda items: [{**one, "value": "-1"} for one in items]), Quality.INVALID, "", id="negative"
        ),
        pytest.param(
            listed(lambda items: [{**one, "timestamp": "2001-01-01T00:00:00Z"} for one in items]),
            Quality.STALE,
            "",
            id="of long ago",
        ),
        pytest.param(
            listed(lambda items: [{**one, "timestamp": "2101-01-01T00:00:00Z"} for one in items]),
            Quality.INVALID,
            "",
            id="of the future",
        ),
        pytest.param(
            listed(lambda items: [elsewhere(one) for one in items]),
            Quality.EMPTY,
            "2 of another namespace",
            id="another namespace",
        ),
        pytest.param(lambda answer: [1], Quality.EMPTY, "its answer is no list", id="no list"),
    ],
)  # fmt: skip
async def test_answer_that_is_not_right_is_never_taken_for_zero(
    scene: Scene, twist: Callable[[JSON], JSON], quality: Quality, told: str
) -> None:
    scene.kube.metrics.twist = twist
    readings = await scene.read()
    assert scene.quality(readings) == quality
    assert told in readings.faults.get("rps", "")
    scene.kube.metrics.twist = lambda answer: answer
    assert scene.quality(await scene.read()) == Quality.FRESH


async def test_value_that_is_frozen_grows_old(scene: Scene) -> None:
    scene.kube.metrics.measured.resolution = 1e6
    readings = await scene.read()
    (one,) = readings.pods["rps"][scene.pods[0]]
    assert scene.clock.now() - one.measured > 1
    assert scene.quality(readings, max_age=scene.clock.now() - one.measured - 0.5) == Quality.STALE


async def test_the_shipped_rights_file_grants_what_the_source_needs(scene: Scene) -> None:
    async with shipped_rights(scene.kube.plane, "elasticd", scene.namespace) as rights:
        table = Kubernetes(kubeconfig=str(rights.kubeconfig), namespaces=(scene.namespace,), lease=ALONE)
        async with table.open(scene.clock) as cluster:
            scene.cluster = cluster
            for source in (CUSTOM, EXTERNAL):
                assert "403 Forbidden" in (await scene.read(source)).error
            async with granted_from(
                scene.kube.plane, FOLDER / "components/sources/rbac.yaml", "elasticd", scene.namespace
            ):
                for source in (CUSTOM, EXTERNAL):

                    async def allowed(source: dict[str, Any] = source) -> bool:
                        return not (await scene.read(source)).error

                    await wait_until(allowed, what="the rights are in force")
