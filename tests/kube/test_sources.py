"""The daemon scales by what the aggregated metrics APIs say, and holds while they do not, under the shipped rights."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.rights import FOLDER, granted_from, shipped_rights
from tests.kube.running import Running, running
from tests.kube.test_daemon import scaled, workload

SOURCES = """
[[source]]
type = "custom-metrics"
every = 0.5
series = [{ name = "requests", metric = "rps" }]

[[source]]
type = "external-metrics"
every = 0.5
series = [{ name = "backlog", metric = "messages" }]
"""
POLICY = """
mode = "act"
interval = 1
jitter = 0
workload = {{ namespace = "{namespace}", name = "web" }}
replicas = {{ min = 1, max = 8 }}

[[strategy]]
type = "hpa"
behavior = {{ scale_down = {{ stabilization_window = 2 }} }}

[[strategy.metrics]]
type = "Pods"
series = "requests"
average_value = 2

[[strategy.metrics]]
type = "External"
series = "backlog"
average_value = 10
"""


@pytest_asyncio.fixture(loop_scope="session")
async def daemon(kube: Kube, namespace: str, tmp_path: Path) -> AsyncIterator[Running]:
    """A daemon that governs the workload `web` of two pods, for which two would do."""
    kube.metrics.custom[namespace, "pods", "*", "rps"] = 0.25
    kube.metrics.external[namespace, "messages"] = 20.0
    await kube.client.apply(workload(), namespace)
    plane, policies = kube.plane, {"web": POLICY.format(namespace=namespace)}
    async with (
        shipped_rights(plane, "elasticd", namespace) as rights,
        granted_from(plane, FOLDER / "components/sources/rbac.yaml", "elasticd", namespace),
        running(tmp_path / "one", rights.kubeconfig, namespace, policies, SOURCES) as started,
    ):
        await wait_until(started.leads, what="the daemon leads")
        try:
            yield started
        finally:
            kube.metrics.failure = None


async def explained(daemon: Running, namespace: str) -> Any:
    """The latest decision."""
    return daemon.explained(f"{namespace}/Deployment/web")["decision"]


async def test_workload_follows_what_the_metrics_apis_say(kube: Kube, namespace: str, daemon: Running) -> None:
    kube.metrics.external[namespace, "messages"] = 60.0
    await scaled(kube, namespace, 6)
    kube.metrics.external[namespace, "messages"] = 30.0
    await scaled(kube, namespace, 3)
    seen = {one["name"]: one for one in (await explained(daemon, namespace))["series"]}
    assert (seen["requests"]["source"], seen["backlog"]["source"]) == ("custom-metrics", "external-metrics")


async def test_nothing_shrinks_while_they_are_down(kube: Kube, namespace: str, daemon: Running) -> None:
    kube.metrics.external[namespace, "messages"] = 60.0
    await scaled(kube, namespace, 6)
    kube.metrics.failure = 503
    kube.metrics.external[namespace, "messages"] = 10.0

    async def held() -> bool:
        decision = await explained(daemon, namespace)
        return bool(decision["verdict"] == "hold" and "503" in str(decision["series"]))

    await wait_until(held, what="it holds and says why")
    kube.metrics.failure = None
    await scaled(kube, namespace, 1)
