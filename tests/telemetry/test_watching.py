"""The shipped alert rules and dashboards: they name metrics that exist, and each alert is tested and in the runbook.

tests/kube/test_watching.py has the genuine promtool and Prometheus try them.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from elasticd.telemetry.metrics import DaemonMetrics

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "config" / "prometheus" / "alerts.yaml"
ALERTS = {rule["alert"]: rule for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]}
BOARDS = sorted((ROOT / "config" / "grafana").glob("*.json"))
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


def board(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def panels(path: Path) -> list[dict[str, Any]]:
    """The panels of a dashboard, without its headings."""
    return [panel for panel in board(path)["panels"] if panel["type"] != "row"]


def queries(path: Path) -> Iterator[str]:
    """What a dashboard asks Prometheus, for its panels and its variables."""
    for panel in panels(path):
        yield from (target["expr"] for target in panel["targets"])
    for variable in board(path)["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def exposed() -> set[str]:
    """The names of all series that a daemon can have."""
    text = DaemonMetrics().render(leading=True, journal_failures=0).decode()
    families = text_string_to_metric_families(text)
    return {family.name + suffix for family in families for suffix in SUFFIXES[family.type]}


def named(query: str) -> set[str]:
    return set(re.findall(r"\belasticd_\w+", query))


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_every_metric_of_a_dashboard_exists(path: Path) -> None:
    metrics = set().union(*map(named, queries(path)))
    assert metrics - exposed() == set()
    assert metrics


@pytest.mark.parametrize("alert", ALERTS)
def test_every_metric_of_an_alert_exists(alert: str) -> None:
    metrics = named(ALERTS[alert]["expr"])
    assert metrics - exposed() == set()
    assert metrics


def test_every_metric_is_on_a_dashboard() -> None:
    shown = {name for path in BOARDS for query in queries(path) for name in named(query)}
    text = DaemonMetrics().render(leading=True, journal_failures=0).decode()
    families = {family.name for family in text_string_to_metric_families(text)}
    assert [name for name in sorted(families) if not any(metric.startswith(name) for metric in shown)] == []


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_has_a_severity_and_says_what_happened(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"]["runbook"] == f"docs/runbook.md#{alert.lower()}"
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["description"].endswith(".")


def test_the_runbook_has_each_alert_in_order_and_no_other() -> None:
    page = (ROOT / "docs" / "runbook.md").read_text()
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == list(ALERTS)


def test_each_alert_is_tested_firing_and_not() -> None:
    tests = yaml.safe_load((Path(__file__).parent / "alerts.test.yaml").read_text())["tests"]
    names = {test["name"] for test in tests}
    assert [name for name in ALERTS if not {f"{name} fires", f"{name} does not"} <= names] == []


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_every_panel_says_what_it_shows_and_overlaps_no_other(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels(path):
        assert panel["title"]
        assert panel["description"].endswith(".")
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert taken.isdisjoint(cells), panel["title"]
        taken |= cells


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_every_variable_of_a_query_is_defined(path: Path) -> None:
    variables = {variable["name"] for variable in board(path)["templating"]["list"]}
    assert {name for query in queries(path) for name in re.findall(r"\$\{?(\w+)", query)} <= variables


def test_each_dashboard_has_an_identifier_of_its_own() -> None:
    assert len({board(path)["uid"] for path in BOARDS}) == len(BOARDS) == 4
