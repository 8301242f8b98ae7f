"""From a genuine Prometheus' memory of some hours to a backtest: record, backtest, as docs/simulation.md has it."""

import asyncio
import json
import math
import subprocess
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from elasticd.cli import main
from tests.kube.fetch import find_program
from tests.kube.prometheus_server import NoPrometheus, PrometheusServer

HOURS = 4
SETTINGS = """
[[source]]
type = "prometheus"
url = "{url}"

[[source.series]]
name = "cpu"
query = 'sum by (namespace, pod) (rate(cpu_seconds_total[5m]))'
subject = "pod"
"""
POLICY = """
workload = {{ namespace = "shop", name = "web" }}
replicas = {{ min = 2, max = 20 }}

[[strategy]]
type = "hpa"
metrics = [{{ type = "Resource", resource = "cpu", utilization = {target} }}]
"""


def cores(passed: float) -> float:
    """What all pods use so many seconds after the begin: it doubles and halves again."""
    return 1.5 - 0.75 * math.cos(2 * math.pi * passed / (HOURS * 3600))


def openmetrics(begun: int) -> str:
    """The counters of six pods, each minute."""
    lines = ["# TYPE cpu_seconds counter"]
    for pod in range(6):
        used = 0.0
        for passed in range(0, HOURS * 3600, 60):
            used += 60 * cores(passed) / 6
            lines.append(f'cpu_seconds_total{{namespace="shop",pod="web-7d4-{pod}"}} {used:.4f} {begun + passed}')
    return "\n".join([*lines, "# EOF", ""])


@pytest_asyncio.fixture(loop_scope="session")
async def remembering(tmp_path: Path) -> AsyncIterator[PrometheusServer]:
    """A Prometheus that remembers four hours of a Deployment."""
    promtool = find_program("promtool")
    if promtool is None:
        pytest.skip("no promtool here: it comes with Debian's prometheus")
    begun = int(time.time()) // 60 * 60 - HOURS * 3600
    (tmp_path / "past.txt").write_text(openmetrics(begun))
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", tmp_path / "past.txt", tmp_path / "data"]
    await asyncio.to_thread(partial(subprocess.run, command, check=True, capture_output=True))
    try:
        server = PrometheusServer(tmp_path)
    except NoPrometheus as missing:
        pytest.skip(str(missing))
    async with server:
        yield server


async def test_what_prometheus_remembers_is_backtested(
    remembering: PrometheusServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, recording = tmp_path / "elasticd.toml", tmp_path / "load.csv"
    settings.write_text(SETTINGS.format(url=remembering.url))
    for target in (40, 80):
        (tmp_path / f"target-{target}.toml").write_text(POLICY.format(target=target))
    record: list[object] = [
        "record",
        "--config",
        settings,
        "--source",
        "prometheus",
        "--series",
        "cpu",
        "--from",
        f"-{HOURS}h",
    ]
    record += ["--step", "60s", "--out", recording]
    backtest: list[object] = [
        "backtest",
        tmp_path / "target-40.toml",
        tmp_path / "target-80.toml",
        "--recording",
        recording,
    ]
    backtest += ["--cpu", "500m", "--jobs", "1", "--json"]
    codes = [await asyncio.to_thread(main, [str(word) for word in command]) for command in (record, backtest)]
    said, out = capsys.readouterr().out.split("\n", 1)
    runs = {run["policies"]: run["figures"] for run in json.loads(out)}
    assert codes == [0, 0]
    assert "samples of cpu" in said
    # Of a rate over five minutes, the first few are missing.
    assert runs["(what was)"]["replica_hours"] == pytest.approx(6 * HOURS, rel=0.05)
    assert runs["(what was)"]["demand"] == pytest.approx(1.5 * HOURS, rel=0.05)
    assert runs["target-40"]["unserved"] <= runs["target-80"]["unserved"]
    hours = [runs[name]["replica_hours"] for name in ("(ideal)", "target-80", "target-40")]
    assert hours == sorted(hours)
    assert hours[-1] == pytest.approx(1.5 * HOURS / 0.5 / 0.4, rel=0.15)
