"""From a sensor to the write that it causes: `python tests/bench/latency.py [CHANGES]`.

Genuine parts: a Kubernetes control plane, Mosquitto, Prometheus, and the daemon as a process. Loads change at random
times; a sensor tells them once a second over MQTT, or Prometheus scrapes them once a second and is asked. The latency
is from the change of the load itself to the moment at which the API server has received the write of the new count, by
its audit log; so the sensor's own second is part of it. Nothing here passes or fails.
"""

import asyncio
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from time import time

import numpy as np

from tests.kit.measuring import machine
from tests.kit.tasks import end
from tests.kube.broker import OPEN, Broker
from tests.kube.client import wait_until
from tests.kube.control_plane import ControlPlane
from tests.kube.hollow import HollowNodes
from tests.kube.prometheus_server import PrometheusServer
from tests.kube.reports import named_nodes
from tests.kube.running import running
from tests.kube.test_daemon import workload

WORKLOADS, CHANGES, NAMESPACE = 10, 250, "latency"
SOURCES = """
[[source]]
type = "mqtt"
port = {mqtt}
topic = [{{ topic = "sensors/{{namespace}}/{{workload}}/load", series = "load", subject = "workload" }}]

[[source]]
type = "prometheus"
url = "{prometheus}"
every = 0.2
series = [{{ name = "load", query = "load", subject = "workload" }}]
"""
POLICY = """
mode = "act"
interval = {interval}
select = {{ namespaces = ["latency"] }}
replicas = {{ min = 1, max = 20 }}
trust = {{ sources = ["{source}"] }}

[[strategy]]
type = "hpa"
tolerance = 0
metrics = [{{ type = "External", series = "load", average_value = 1 }}]
behavior = {{ scale_up = {{ policies = [{{ type = "Pods", value = 100, period = 1 }}] }}, \
scale_down = {{ stabilization_window = 0, policies = [{{ type = "Pods", value = 100, period = 1 }}] }} }}
"""


@dataclass
class Lab:
    """What is measured in: the loads now, the writes seen so far, and how to tell the loads."""

    plane: ControlPlane
    broker: Broker
    prometheus: PrometheusServer
    loads: dict[str, int] = field(default_factory=dict)
    writes: dict[str, list[float]] = field(default_factory=dict)

    async def sense(self, name: str) -> None:
        """A sensor: tells its load once a second, at a phase of its own."""
        await asyncio.sleep(random.random())
        async with self.broker.client() as client:
            while True:
                await client.publish(f"sensors/{NAMESPACE}/{name}/load", str(self.loads[name]))
                await asyncio.sleep(1.0)

    async def expose(self) -> None:
        """Let Prometheus scrape what the loads are."""
        while True:
            self.prometheus.target.metrics = {
                f'load{{namespace="{NAMESPACE}",deployment="{name}"}}': float(load) for name, load in self.loads.items()
            }
            await asyncio.sleep(0.005)

    async def follow(self) -> None:
        """Read the audit log as it grows."""
        with self.plane.audit_log.open() as log:
            rest = ""
            while True:
                rest += log.read()
                *lines, rest = rest.split("\n")
                for line in lines:
                    self._take(line)
                await asyncio.sleep(0.01)

    def _take(self, line: str) -> None:
        about = audit(line)
        if about is not None:
            self.writes.setdefault(about[0], []).append(about[1])

    async def change(self, name: str, times: int) -> list[float]:
        """Change a load so many times; the seconds until each was written."""
        found = []
        for _ in range(times):
            await asyncio.sleep(random.uniform(1.0, 3.0))
            before = len(self.writes.get(name, ()))
            changed = time()
            self.loads[name] = random.choice([count for count in range(2, 15) if count != self.loads[name]])
            await wait_until(lambda: len(self.writes.get(name, ())) > before, every=0.02, what=f"{name} is written")  # noqa: B023
            found.append(self.writes[name][before] - changed)
        return found


def audit(line: str) -> tuple[str, float] | None:
    """Of a write of a scale: whose, and when the API server received it."""
    if '"subresource":"scale"' not in line or NAMESPACE not in line:
        return None
    name = line.partition('"name":"')[2].partition('"')[0]
    received = line.partition('"requestReceivedTimestamp":"')[2].partition('"')[0]
    return name, datetime.fromisoformat(received).timestamp()


@asynccontextmanager
async def lab(folder: Path) -> AsyncIterator[Lab]:
    """The genuine parts, and the workloads."""
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(ControlPlane(folder / "plane"))
        client = await stack.enter_async_context(plane.client())
        await stack.enter_async_context(HollowNodes(client, named_nodes(3)))
        await client.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for name in ("broker", "prometheus"):
            (folder / name).mkdir()
        broker = await stack.enter_async_context(Broker(folder / "broker", OPEN))
        prometheus = await stack.enter_async_context(PrometheusServer(folder / "prometheus", every=1000))
        made = Lab(plane, broker, prometheus)
        for index in range(WORKLOADS):
            shape = workload()
            shape["metadata"]["name"] = name = f"web-{index}"
            shape["spec"]["selector"]["matchLabels"] = {"app": name}
            shape["spec"]["template"]["metadata"]["labels"] = {"app": name}
            await client.apply(shape, NAMESPACE)
            made.loads[name] = 2
        yield made


@asynccontextmanager
async def tasks(*work: Awaitable[None]) -> AsyncIterator[None]:
    """Run these beside the block."""
    running_ = [asyncio.ensure_future(one) for one in work]
    try:
        yield
    finally:
        await end(*running_)


async def measure(made: Lab, folder: Path, source: str, interval: float, changes: int) -> list[float]:
    """The latencies under one source, in seconds."""
    more = SOURCES.format(mqtt=made.broker.port, prometheus=made.prometheus.url)
    policies = {"latency": POLICY.format(source=source, interval=interval)}
    sensors = [made.sense(name) for name in made.loads] if source == "mqtt" else [made.expose()]
    async with (
        tasks(made.follow(), *sensors),
        running(folder, made.plane.kubeconfig(), NAMESPACE, policies, more) as daemon,
    ):

        async def settled() -> bool:
            decisions = (await daemon.status())["decisions"]
            return len(decisions) == WORKLOADS and all(
                one["verdict"] == "keep" and one["current"] == made.loads[one["workload"]["name"]] for one in decisions
            )

        await wait_until(settled, within=60, what="every workload is as its load asks")
        each = -(-changes // WORKLOADS)
        found = await asyncio.gather(*(made.change(name, each) for name in made.loads))
    return [latency for latencies in found for latency in latencies]


def report(title: str, latencies: list[float]) -> None:
    """Print what was measured."""
    median, late, longest = np.quantile(latencies, [0.5, 0.99, 1])
    print(f"{title}: {len(latencies)} changes")
    print(f"  median {median:.2f} s, 99th percentile {late:.2f} s, longest {longest:.2f} s")


async def run(changes: int) -> None:
    """Measure and print everything."""
    with tempfile.TemporaryDirectory() as folder:
        async with lab(Path(folder)) as made:
            for title, source, interval in (
                ("a sensor that tells once a second over MQTT", "mqtt", 30.0),
                ("Prometheus that scrapes once a second, asked once a second", "prometheus", 1.0),
            ):
                latencies = await measure(made, Path(folder) / source, source, interval, changes)
                report(f"from the load to the write, {title}", latencies)


def main(changes: int = CHANGES) -> None:
    """Print all figures."""
    print(machine())
    asyncio.run(run(changes))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else CHANGES)
