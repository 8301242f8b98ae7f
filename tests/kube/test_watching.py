"""The shipped alert rules and dashboards with a genuine promtool and Prometheus, which scrapes a genuine daemon."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from elasticd.migration.exporters import query_of
from elasticd.sources.poller import NOT_READ, SourceReport
from elasticd.telemetry.metrics import ClusterHealth, DaemonMetrics
from tests.kit.daemons import Daemon, daemon, until
from tests.kube.fetch import HOW_TO_GET, find_program
from tests.kube.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "config" / "demo"
RULES = ROOT / "config" / "prometheus" / "alerts.yaml"
BOARDS = sorted((ROOT / "config" / "grafana").glob("*.json"))
PROMETHEUS = """
global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}}
rule_files: ["{rules}"]
scrape_configs: [{{job_name: elasticd, honor_labels: true, static_configs: [{{targets: ["{target}"]}}]}}]
"""
LABELLED = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
"""A line of what a daemon exports: its name, labels and value."""
VARIABLES = {"namespace": "shop", "kind": "Deployment", "policy": ".*", "instance": ".*"}
WORKLOADS = ("search", "warehouse")
"""One whose count a strategy decides, and one whose requests are."""
SELDOM = {
    "api_call": "the simulated cluster has no API server",
    "memory": "where the tests run, no control group may limit it",
    "plugin_failures": "no plugin fails",
    "moves": "no pod needs to be moved",
    "move_decisions": "no pod needs to be moved",
    "move_plan": "no policy of the demo moves pods",
    "limited": "it binds only where load has risen",
    "holds": "only while something is unknown",
    "view_age": "the simulated cluster is always current",
}
"""Metrics without a series in the first seconds of the demo, and why."""


@pytest.fixture(scope="module")
def promtool() -> str:
    path = find_program("promtool")
    if path is None:
        pytest.skip(f"promtool is not on this machine: {HOW_TO_GET}")
    return path


def checked(*command: str | Path, given: str = "") -> None:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


def test_promtool_takes_the_rules(promtool: str) -> None:
    checked(promtool, "check", "rules", RULES)


def test_alerts_fire_when_they_should_and_else_not(promtool: str) -> None:
    checked(promtool, "test", "rules", ROOT / "tests" / "telemetry" / "alerts.test.yaml")


@pytest.mark.parametrize("leading", [False, True], ids=["it stands by", "it leads, and has policies of pools alone"])
def test_a_healthy_daemon_fires_no_alert(promtool: str, tmp_path: Path, *, leading: bool) -> None:
    """What one exports for an hour for which no workload was ever due."""
    metrics = DaemonMetrics()
    metrics.reloaded(3, ok=True)
    sources = [
        SourceReport("read", "prometheus", "ok", None, None, 1, 0, 0.0, 0, ()),
        SourceReport("unread", "prometheus", NOT_READ, None, None, 0, 0, 0.0, 0, (), quiet="unread"),
    ]
    cluster = ClusterHealth(view_ages={"Pod": 1.0, "Node": 59.5, "PodDisruptionBudget": 0.0})
    shown = metrics.render(leading=leading, journal_failures=0, sources=sources, cluster=cluster)
    lines = shown.decode().splitlines()
    exported = [LABELLED.fullmatch(line) for line in lines if not line.startswith("#")]
    inputs = [
        {"series": f'{name}{{instance="b",{labels or ""}}}', "values": f"{value}x120"}
        for name, labels, value in (found.groups() for found in exported if found)
    ]
    (ticks,) = [one for one in inputs if one["series"].startswith("elasticd_ticks_total")]
    ticks["values"] = "0+30x120"
    if not leading:
        inputs.append({"series": 'elasticd_leader{instance="a"}', "values": "1x120"})
    fired = {"expr": 'count_over_time(ALERTS{alertstate="firing"}[1h])', "eval_time": "1h"}
    test = {"interval": "30s", "input_series": inputs, "promql_expr_test": [fired]}
    file = tmp_path / "healthy.yaml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "30s", "tests": [test]}))
    assert len(inputs) > 20
    checked(promtool, "test", "rules", file)


PODS = "".join(
    f'kube_pod_labels{{namespace="{namespace}",pod="{pod}",label_app="{app}"}} 1\n'
    f'kube_pod_status_phase{{namespace="{namespace}",pod="{pod}",phase="{phase}"}} 1\n'
    for namespace, pod, app, phase in (
        ("shop", "a", "back", "Running"),
        ("shop", "b", "back", "Pending"),
        ("shop", "c", "back", "Succeeded"),
        ("shop", "d", "front", "Running"),
        ("blog", "e", "back", "Running"),
    )
)
JETSTREAM = "".join(
    f'jetstream_consumer_num_{of}{{account="A",stream_name="s",consumer_name="c",is_consumer_leader="{leader}"}} {n}\n'
    for leader in ("true", "false")
    for of, n in (("pending", 7), ("ack_pending", 2))
)
EXPORTED = [
    pytest.param("kubernetes-workload", {"podSelector": "app=back"}, PODS, 2, id="pods that have not ended"),
    pytest.param("kubernetes-workload", {"podSelector": "app=gone"}, PODS, 0, id="no pod of these"),
    pytest.param("kubernetes-workload", {"podSelector": "app=back"}, "up 0", None, id="no pod at all is unknown"),
    pytest.param(
        "kafka", {"consumerGroup": "g"},
        'kafka_consumergroup_lag{consumergroup="g",topic="a",partition="0"} 5\n'
        'kafka_consumergroup_lag{consumergroup="g",topic="b",partition="0"} -1\n'
        'kafka_consumergroup_lag{consumergroup="h",topic="a",partition="0"} 9', 5, id="the lag of a group",
    ),
    pytest.param(
        "apache-kafka", {"consumerGroup": "g", "topic": "a.x,b"},
        'kafka_consumergroup_lag{consumergroup="g",topic="a.x",partition="0"} 5\n'
        'kafka_consumergroup_lag{consumergroup="g",topic="b",partition="0"} 2\n'
        'kafka_consumergroup_lag{consumergroup="g",topic="a-x",partition="0"} 9', 7, id="of two topics",
    ),
    pytest.param(
        "rabbitmq", {"queueName": "a.*", "useRegex": "true", "operation": "max"},
        'rabbitmq_queue_messages{vhost="/",queue="a1"} 3\nrabbitmq_queue_messages{vhost="/",queue="a2"} 8\n'
        'rabbitmq_queue_messages{vhost="/",queue="b"} 9', 8, id="the longest of some queues",
    ),
    pytest.param(
        "nats-jetstream", {"account": "A", "stream": "s", "consumer": "c"}, JETSTREAM, 9,
        id="one of a consumer's copies",
    ),
    pytest.param(
        "pulsar", {"topic": "persistent://t/n/x", "subscription": "s", "isPartitionedTopic": "true"},
        'pulsar_subscription_back_log{topic="persistent://t/n/x-partition-0",subscription="s"} 3\n'
        'pulsar_subscription_back_log{topic="persistent://t/n/x-partition-1",subscription="s"} 4\n'
        'pulsar_subscription_back_log{topic="persistent://t/n/x-y-partition-1",subscription="s"} 9', 7, id="partitions",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("trigger", "metadata", "series", "expected"), EXPORTED)
def test_an_imported_triggers_query_counts_what_its_exporter_exports(
    promtool: str, tmp_path: Path, trigger: str, metadata: dict[str, str], series: str, expected: float | None
) -> None:
    samples = [] if expected is None else [{"labels": "{}", "value": expected}]
    inputs = [dict(zip(("series", "values"), line.rsplit(" ", 1), strict=True)) for line in series.splitlines()]
    query = {"expr": query_of(trigger, metadata, "shop"), "eval_time": "0", "exp_samples": samples}
    file = tmp_path / "queries.yaml"
    file.write_text(json.dumps({"tests": [{"input_series": inputs, "promql_expr_test": [query]}]}))
    checked(promtool, "test", "rules", file)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """The demo's daemon, from a copy of its folder, without a broker."""
    folder = tmp_path_factory.mktemp("demo")
    shutil.copytree(DEMO, folder, dirs_exist_ok=True)
    settings = folder / "elasticd.toml"
    text = settings.read_text().replace("port = 9464", "port = 0").replace("../../build/demo", "state")
    settings.write_text(text.replace("port = 18830", f"port = {free_port()}"))
    with daemon(folder) as running:
        yield running


def test_promtool_finds_nothing_wrong_with_a_daemons_metrics(promtool: str, demo: Daemon) -> None:
    checked(promtool, "check", "metrics", given=demo.get("/metrics"))


@contextmanager
def scraping(folder: Path, target: str) -> Iterator[str]:
    """A Prometheus with the shipped rules; yields its address."""
    program = find_program("prometheus")
    assert program is not None
    address = f"127.0.0.1:{free_port()}"
    (folder / "prometheus.yml").write_text(PROMETHEUS.format(rules=RULES, target=target))
    flags = {"config.file": folder / "prometheus.yml", "storage.tsdb.path": folder / "data"}
    words = [f"--{key}={value}" for key, value in {**flags, "web.listen-address": address}.items()]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([program, *words], stderr=log, stdout=log)
    try:
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait()


def is_ready(address: str) -> bool:
    """Whether a Prometheus answers queries."""
    try:
        with urlopen(f"{address}/-/ready", timeout=10):
            return True
    except OSError:
        return False


def ask(address: str, path: str, **asked: str) -> Any:
    """The data of an answer."""
    with urlopen(f"{address}/api/v1/{path}?{urlencode(asked)}", timeout=10) as answer:
        return json.load(answer)["data"]


def series(address: str, expr: str) -> list[Any]:
    """What a panel shows of either workload."""
    values = (VARIABLES | {"name": name} for name in WORKLOADS)
    filled = {
        re.sub(r"\$(\w+)", r"{\1}", expr.replace("{", "{{").replace("}", "}}")).format_map(value) for value in values
    }
    return [result for query in filled for result in ask(address, "query", query=query)["result"]]


def panels() -> dict[str, str]:
    """Every query of a panel, by dashboard and title."""
    boards = {path.stem: json.loads(path.read_text()) for path in BOARDS}
    return {
        f"{name}: {panel['title']} {target['refId']}": target["expr"]
        for name, board in boards.items()
        for panel in board["panels"]
        for target in panel.get("targets", ())
    }


def test_prometheus_answers_every_panel_from_a_daemons_metrics(promtool: str, demo: Daemon, tmp_path: Path) -> None:
    often = {
        title: expr for title, expr in panels().items() if not any(f"elasticd_{metric}" in expr for metric in SELDOM)
    }
    with scraping(tmp_path, demo.address.removeprefix("http://")) as address:
        until(lambda: is_ready(address), "Prometheus is never ready")
        for title, expr in often.items():
            until(partial(series, address, expr), f"{title}: stays empty")
        for expr in panels().values():
            series(address, expr)
        groups = ask(address, "rules")["groups"]
    assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}
