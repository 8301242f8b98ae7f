"""From a genuine Prometheus' memory of some hours to a backtest, as docs/simulation.md has it."""

import asyncio
import json
import math
import re
import shlex
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from elasticd.cli import main
from tests.kube.fetch import find_program
from tests.kube.prometheus_server import NoPrometheus, PrometheusServer

HOURS = 4
PAGE = Path(__file__).parents[2] / "docs" / "from-a-recording.md"
QUERY = "sum by (namespace, pod) (rate(container_cpu_usage_seconds_total[5m]))"
SETTINGS = """
[[source]]
type = "prometheus"
url = "{url}"

[[source.series]]
name = "cpu"
query = '{query}'
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
    lines = ["# TYPE container_cpu_usage_seconds counter"]
    for pod in range(6):
        used = 0.0
        for passed in range(0, HOURS * 3600, 60):
            used += 60 * cores(passed) / 6
            labels = f'namespace="shop",pod="web-7d4-{pod}",container="web"'
            lines.append(f"container_cpu_usage_seconds_total{{{labels}}} {used:.4f} {begun + passed}")
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


def write_policies(folder: Path) -> list[str]:
    places = {target: folder / f"target-{target}.toml" for target in (40, 80)}
    for target, place in places.items():
        place.write_text(POLICY.format(target=target))
    return [str(place) for place in places.values()]


async def run(*words: object) -> int:
    return await asyncio.to_thread(main, [str(word) for word in words])


def check(runs: Mapping[str, Mapping[str, float]]) -> None:
    """Of a rate over five minutes, the first few are missing."""
    assert runs["(what was)"]["replica_hours"] == pytest.approx(6 * HOURS, rel=0.05)
    assert runs["(what was)"]["demand"] == pytest.approx(1.5 * HOURS, rel=0.05)
    assert runs["target-40"]["unserved"] <= runs["target-80"]["unserved"]
    hours = [runs[name]["replica_hours"] for name in ("(ideal)", "target-80", "target-40")]
    assert hours == sorted(hours)
    assert hours[-1] == pytest.approx(1.5 * HOURS / 0.5 / 0.4, rel=0.15)


async def test_what_prometheus_remembers_is_backtested(
    remembering: PrometheusServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, recording = tmp_path / "elasticd.toml", tmp_path / "load.csv"
    settings.write_text(SETTINGS.format(url=remembering.url, query=QUERY))
    policies = write_policies(tmp_path)
    range_ = ("--series", "cpu", "--from", f"-{HOURS}h", "--step", "60s")
    record = await run("record", "--config", settings, "--source", "prometheus", *range_, "--out", recording)
    backtest = await run("backtest", *policies, "--recording", recording, "--cpu", "500m", "--jobs", "1", "--json")
    recorded, out = capsys.readouterr().out.split("\n", 1)
    assert (record, backtest) == (0, 0)
    assert "samples of cpu" in recorded
    check({run["policies"]: run["figures"] for run in json.loads(out)})


async def test_the_walk_from_a_recording_to_a_tuned_policy_works(
    remembering: PrometheusServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = []
    for kind, block in re.findall(r"^```(console|toml)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        if kind == "toml":
            name, text = block.removeprefix("# ").split("\n", 1)
            (tmp_path / name).write_text(text.replace("http://localhost:9090", remembering.url))
            continue
        for command in block.replace("\\\n", "").splitlines():
            program, *words = shlex.split(command.removeprefix("$ "))
            # Quicker than for a user: four hours are remembered of the six days.
            quick = {"tune": ["--generations", "1", "--jobs", "1"], "backtest": ["--jobs", "1"]}.get(words[0], [])
            assert (program, await run(*words, *quick)) == ("elasticd", 0)
            printed.append(capsys.readouterr().out)
    recorded, compared, tuned = printed
    assert recorded.startswith("week.csv: ")
    assert [line.split()[0] for line in compared.splitlines()[2:4]] == ["hpa", "double"]
    assert re.search("Take (hpa|double)", (tmp_path / "week.html").read_text())
    assert "afterwards, which was not searched on" in tuned
    assert "set in the policy" in tuned


@pytest.mark.parametrize(
    ("query", "replicas_query"),
    [
        pytest.param(QUERY, "", id="pods"),
        pytest.param(
            "sum(rate(container_cpu_usage_seconds_total[5m]))",
            "count(rate(container_cpu_usage_seconds_total[5m]))",
            id="one series and a count",
        ),
    ],
)
async def test_prometheus_is_backtested_without_a_recording(
    remembering: PrometheusServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    query: str,
    replicas_query: str,
) -> None:
    load = ("--prometheus", remembering.url, "--query", query, "--replicas-query", replicas_query)
    options = ("--since", f"{HOURS}h", "--step", "60s", "--cpu", "500m", "--jobs", "1", "--json")
    assert await run("backtest", *write_policies(tmp_path), *load, *options) == 0
    check({run["policies"]: run["figures"] for run in json.loads(capsys.readouterr().out)})


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param(["--query", "sum by ("], "--query: 400 Bad Request: ", id="query"),
        pytest.param(["--query", "nothing"], "--query: there is no sample in that time\n", id="no such series"),
        pytest.param(
            ["--query", QUERY, "--replicas-query", "nothing"],
            "--replicas-query: there is no sample in that time\n",
            id="no count",
        ),
        pytest.param(
            ["--query", "cpu_seconds_total", "--prometheus", "http://127.0.0.1:1"],
            "--query: no answer: Cannot connect to host 127.0.0.1:1",
            id="no server",
        ),
    ],
)
async def test_what_prometheus_refuses_costs_one_line(
    remembering: PrometheusServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    problem: str,
) -> None:
    load = ("--prometheus", remembering.url, "--since", f"{HOURS}h", "--cpu", "500m", *words)
    code = await run("backtest", *write_policies(tmp_path), *load)
    printed = capsys.readouterr()
    assert (code, printed.out, printed.err.count("\n")) == (69, "", 1)
    assert printed.err.startswith(problem)
