"""A policy whose numbers come from MQTT, else from Prometheus, else from the resource metrics API, while each of them
dies in turn and comes back; and that no secret of theirs is ever told."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiomqtt

from tests.kit.tasks import end
from tests.kube.broker import Broker, password_lines
from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.prometheus_server import PrometheusServer
from tests.kube.rights import shipped_rights
from tests.kube.running import Running, running
from tests.kube.test_daemon import scaled, workload

CANARY = "canary-81c2"
CHAIN = ("sensors", "prometheus", "resource-metrics")

SOURCES = """
[[source]]
type = "mqtt"
name = "sensors"
port = {mqtt}
username = "elasticd"
password_file = "password"
topic = [{{ topic = "sensors/{{namespace}}/{{pod}}/cpu", series = "cpu", subject = "pod" }}]

[[source]]
type = "prometheus"
url = "{prometheus}"
bearer_file = "token"
series = [{{ name = "cpu", query = "pod_cpu_cores", subject = "pod" }}]

[[source]]
type = "resource-metrics"
"""

POLICY = """
mode = "act"
interval = 0.5
jitter = 0
max_age = 3
workload = {{ namespace = "{namespace}", name = "web" }}
replicas = {{ min = 1, max = 8 }}
strategy = [{{ type = "hpa", metrics = [{{ type = "Pods", series = "cpu", average_value = "50m" }}] }}]
trust = {{ sources = ["sensors", "prometheus", "resource-metrics"] }}
"""


@dataclass
class Sensors:
    """One for each pod: tells its broker and Prometheus what the pod uses, a few times a second."""

    kube: Kube
    namespace: str
    broker: Broker
    prometheus: PrometheusServer
    use: float = 0.05
    _pods: list[str] = field(default_factory=list)

    async def run(self) -> None:
        """Tell, for ever, through whatever becomes of the broker."""
        while True:
            with suppress(aiomqtt.MqttError):
                async with self.broker.client(username="elasticd", password=CANARY) as client:
                    while True:
                        await self._tell(client)
                        await asyncio.sleep(0.2)
            await asyncio.sleep(0.2)

    async def _tell(self, client: aiomqtt.Client) -> None:
        pods = await self.kube.client.list(f"/api/v1/namespaces/{self.namespace}/pods")
        names = [pod["metadata"]["name"] for pod in pods]
        self.prometheus.target.metrics = {
            f'pod_cpu_cores{{namespace="{self.namespace}",pod="{name}"}}': self.use for name in names
        }
        for name in names:
            await client.publish(f"sensors/{self.namespace}/{name}/cpu", str(self.use))


@dataclass
class Play:
    """All that is running."""

    kube: Kube
    namespace: str
    broker: Broker
    prometheus: PrometheusServer
    sensors: Sensors
    daemon: Running

    async def series(self) -> dict[str, Any]:
        """What the last decision was made of."""
        decisions = (await self.daemon.status())["decisions"]
        found: dict[str, Any] = decisions[0]["series"][0] if decisions and decisions[0].get("series") else {}
        return found

    async def uses(self, source: str, quality: str = "fresh") -> dict[str, Any]:
        """Wait until decisions are made of this source, which is said to be worth this; gives the series."""

        async def there() -> dict[str, Any]:
            found = await self.series()
            return found if (found.get("source"), found.get("quality")) == (source, quality) else {}

        return await wait_until(there, what=f"decisions are made of {source}, {quality}")


@asynccontextmanager
async def playing(kube: Kube, namespace: str, folder: Path) -> AsyncIterator[Play]:
    """The workload, its sensors, both servers, and the daemon."""
    kube.loads.set_load(namespace, "web", cpu=0.1)
    await kube.client.apply(workload(), namespace)
    for name in ("broker", "prometheus"):
        (folder / name).mkdir()
    (folder / "one").mkdir()
    for name in ("password", "token"):
        (folder / "one" / name).write_text(f"{CANARY}\n")
        (folder / "one" / name).chmod(0o600)
    async with AsyncExitStack() as stack:
        rights = await stack.enter_async_context(shipped_rights(kube.plane, "elasticd", namespace))
        lines = await password_lines(folder / "broker", {"elasticd": CANARY})
        broker = await stack.enter_async_context(Broker(folder / "broker", lines))
        prometheus = await stack.enter_async_context(PrometheusServer(folder / "prometheus"))
        sensors = Sensors(kube, namespace, broker, prometheus)
        telling = asyncio.create_task(sensors.run())
        stack.push_async_callback(end, telling)
        more = SOURCES.format(mqtt=broker.port, prometheus=prometheus.url)
        policies = {"web": POLICY.format(namespace=namespace)}
        daemon = await stack.enter_async_context(running(folder / "one", rights.kubeconfig, namespace, policies, more))
        await wait_until(daemon.leads, what="the daemon leads")
        yield Play(kube, namespace, broker, prometheus, sensors, daemon)


async def test_a_chain_of_sources_survives_each_failing_in_turn(kube: Kube, namespace: str, tmp_path: Path) -> None:
    """And the record says which was used and why; what is not known scales nothing."""
    async with playing(kube, namespace, tmp_path) as play:
        assert (await play.uses("sensors")).get("message", "") == ""
        await play.broker.kill()
        told = (await play.uses("prometheus")).get("message", "")
        assert told.startswith("not sensors stale: ")
        await play.prometheus.program.stop(grace=5)
        told = (await play.uses("resource-metrics")).get("message", "")
        assert "sensors stale" in told
        assert "prometheus error" in told
        kube.metrics.failure = 503
        play.sensors.use = 0.2
        try:
            # Nothing is known of the load by anyone now: it would be four times as many.
            told = (await play.uses("sensors", "stale")).get("message", "")
            assert "resource-metrics error" in told
            assert (await play.daemon.status())["decisions"][0]["verdict"] == "hold"
        finally:
            kube.metrics.failure = None
        await play.uses("resource-metrics")
        play.prometheus.program.start()
        await play.uses("prometheus")
        await play.broker.start()
        assert (await play.uses("sensors")).get("message", "") == ""
        await scaled(kube, namespace, 8)
        shown = play.daemon.elasticd("explain", f"{namespace}/Deployment/web")
        assert "sensors" in shown

        async def well() -> bool:
            # By the page: a command for each look would keep this process from answering as the metrics API.
            told = json.loads((await play.daemon.page("/sources"))[1])
            return {one["name"]: one["health"] for one in told} == dict.fromkeys(CHAIN, "ok")

        await wait_until(well, what="every source is well")


async def test_no_secret_of_a_source_is_ever_told(kube: Kube, namespace: str, tmp_path: Path) -> None:
    """Neither while all is well nor while the broker and Prometheus refuse it; not in the log, the pages, the journal
    or what commands print."""
    async with playing(kube, namespace, tmp_path) as play:
        await play.uses("sensors")
        printed = [play.daemon.elasticd(*words.split()) for words in ("sources", "status")]
        (tmp_path / "broker" / "passwords").write_text("elasticd:other\n")
        await play.broker.kill()
        await play.broker.start()
        await play.prometheus.program.stop(grace=5)
        await play.uses("resource-metrics")
        printed += [play.daemon.elasticd(*words.split()) for words in ("sources", "status")]
        printed.append(play.daemon.elasticd("explain", f"{namespace}/Deployment/web", "--json"))
        for path in ("/status", "/sources", "/metrics", f"/query?series=cpu&workload={namespace}/Deployment/web"):
            printed.append((await play.daemon.page(path))[1])
        folder = play.daemon.folder
    written = [path for path in folder.rglob("*") if path.is_file() and path.name not in ("password", "token")]
    assert folder / "elasticd.log" in written
    assert any("journal" in path.name for path in written)
    assert [path for path in written if CANARY in path.read_text(errors="replace")] == []
    assert [text for text in printed if CANARY in text] == []
