"""The daemon raises a Deployment before its daily peak: a genuine Prometheus remembers two weeks of such days."""

import asyncio
import math
import random
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from elasticd.journal import read
from elasticd.model.records import Decision
from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.fetch import HOW_TO_GET, find_program
from tests.kube.prometheus_server import NoPrometheus, PrometheusServer
from tests.kube.rights import shipped_rights
from tests.kube.running import Running, running
from tests.kube.test_daemon import scaled, workload

DAY, STEP = 86_400, 300
QUIET, BUSY = 15.0, 75.0
PEAK_IN, PEAK_FOR = 1200, 4 * 3600
"""Seconds from the test's start to the daily peak, and how long that lasts."""

SOURCES = """
[[source]]
type = "prometheus"
url = "{url}"
[[source.series]]
name = "requests"
query = "max by (namespace, deployment) (requests)"   # what is scraped has more labels than what is remembered

[[source]]
type = "forecast"
of = "prometheus"
series = "requests"
step = 300
refit = 60
valid = 1800
horizon = 3600
"""
POLICY = """
mode = "act"
interval = 1
jitter = 0
workload = {{ namespace = "{namespace}", name = "web" }}
replicas = {{ min = 1, max = 9 }}

[[strategy]]
type = "hpa"
metrics = [{{ type = "External", series = "requests", average_value = 10 }}]

[[strategy]]
type = "forecast"
series = "requests_forecast"
lead = {lead}
target = 10
bound = "expected"
"""


def load_at(when: float, now: float) -> float:
    """The daily wave: quiet, but for hours that begin soon from now."""
    since = (when - now - PEAK_IN) % DAY
    return BUSY if since < PEAK_FOR else QUIET


def remember(folder: Path, namespace: str, now: float) -> None:
    """Two weeks of the wave with some noise, as a Prometheus that had been there would have kept them."""
    chance = random.Random(0)
    lines = ["# TYPE requests gauge"]
    for index in range(14 * DAY // STEP, 0, -1):
        at = math.floor(now / STEP) * STEP - index * STEP
        value = load_at(at, now) + chance.gauss(0, 1)
        lines.append(f'requests{{namespace="{namespace}",deployment="web"}} {value:.3f} {at}')
    written = folder / "past.txt"
    written.write_text("\n".join([*lines, "# EOF", ""]))
    promtool = find_program("promtool")
    if promtool is None:
        pytest.skip(f"no promtool here, which comes with prometheus: {HOW_TO_GET}")
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(written), str(folder / "data")]
    subprocess.run(command, check=True, capture_output=True)


async def remembering(kube: Kube, namespace: str, folder: Path) -> PrometheusServer:
    """A Prometheus that has the past of a workload, which is there and has little load."""
    try:
        made = PrometheusServer(folder)
    except NoPrometheus as missing:
        pytest.skip(str(missing))
    await asyncio.to_thread(remember, folder, namespace, time.time())
    await kube.client.apply(workload(), namespace)
    made.target.metrics = {f'requests{{namespace="{namespace}",deployment="web"}}': QUIET}
    return made


@pytest.mark.parametrize(
    ("lead", "replicas"),
    [pytest.param(1800, 8, id="near enough to be seen"), pytest.param(300, 2, id="not yet")],
)
async def test_the_count_rises_before_the_peak_that_the_past_foretells(
    kube: Kube, namespace: str, tmp_path: Path, lead: int, replicas: int
) -> None:
    made = await remembering(kube, namespace, tmp_path)
    policies = {"web": POLICY.format(namespace=namespace, lead=lead)}
    async with (
        scraped(made) as server,
        shipped_rights(kube.plane, "elasticd", namespace) as rights,
        running(tmp_path / "one", rights.kubeconfig, namespace, policies, SOURCES.format(url=server.url)) as daemon,
    ):
        await scaled(kube, namespace, replicas)
        decision = await wait_until(lambda: decided(daemon), what="live load and forecast are known")
        said = {one["strategy"]: one["replicas"] for one in decision["recommendations"]}
        assert said == {"hpa": 2, "forecast": replicas}  # the live load is as quiet as ever
        (foreseen,) = [one["forecast"] for one in decision["series"] if one["name"] == "requests_forecast"]
        assert (foreseen["period"], foreseen["doubt"]) == (float(DAY), "")
        assert foreseen["values"] == []  # the journal keeps how it was found, and not a value for each minute
        print(told := await command(daemon, "query", "requests_forecast", f"{namespace}/Deployment/web"))
        assert "period 24 h" in told
        assert "most in" in told
        assert "believed 1" in await command(daemon, "sources")
        print(await command(daemon, "explain", f"{namespace}/Deployment/web"))


async def test_a_restart_scales_nothing_in_before_the_first_forecast(
    kube: Kube, namespace: str, tmp_path: Path
) -> None:
    made = await remembering(kube, namespace, tmp_path)
    quick = POLICY.replace("average_value = 10 }}]", "average_value = 10 }}]\ndownscale_stabilization = 0")
    policies = {"web": quick.format(namespace=namespace, lead=1800)}
    async with (
        scraped(made) as server,
        shipped_rights(kube.plane, "elasticd", namespace) as rights,
        running(tmp_path / "one", rights.kubeconfig, namespace, policies, SOURCES.format(url=server.url)) as daemon,
    ):
        await scaled(kube, namespace, 8)
        await daemon.program.stop(10)  # which gives the Lease back, so that it leads before a fit can have ended
        restarted = time.time()
        await daemon.restart()
        since: list[Decision] = []

        async def foreseen() -> bool:
            since[:] = [
                one for one in read(daemon.folder / "state") if isinstance(one, Decision) and one.at > restarted
            ]
            return any(one.reason == "ForecastAbove" for one in since)

        await wait_until(foreseen, what="the forecast is there again")
        assert [one.action for one in since if one.action is not None] == []
        print(*[f"{one.at - restarted:.2f} s: {one.reason}" for one in since], sep="\n")
        assert {one.reason for one in since} <= {"NoForecastYet", "FailedGetExternalMetric", "ForecastAbove"}


async def command(daemon: Running, *words: str) -> str:
    """What a command prints. In a thread: what is scraped is served here, and a scrape must not wait."""
    return await asyncio.to_thread(daemon.elasticd, *words)


async def decided(daemon: Running) -> Any:
    """The last decision, once both strategies knew what to say."""
    for decision in (await daemon.status())["decisions"]:
        known = [one["replicas"] for one in decision["recommendations"]]
        if len(known) == 2 and None not in known:
            return decision
    return None


@asynccontextmanager
async def scraped(made: PrometheusServer) -> AsyncIterator[PrometheusServer]:
    """A Prometheus that knows the live load beside the past."""
    async with made as server:
        await server.has('requests{job="test"}')
        yield server
