"""docs/simulated-cluster.md: every key of a simulated cluster stands there, with its default; its example works."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from elasticd.base.clock import VirtualClock
from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.demand import Demand
from elasticd.cluster.simulated.jobs import JobsTable
from elasticd.cluster.simulated.options import (
    BudgetTable,
    ContainerTable,
    DiskTable,
    MetricsOptions,
    NodeChange,
    NodeSeriesTable,
    NodeTable,
    PodTable,
    PodTermTable,
    PortTable,
    ServiceTable,
    SimulatedSeries,
    SpreadTable,
    TaintTable,
    TermTable,
    TolerationTable,
    WorkloadTable,
)
from elasticd.config import load_settings
from elasticd.registry import discover
from elasticd.ui.options import options

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "simulated-cluster.md").read_text()
POD = {one for one in PodTable.__struct_fields__ if one not in ("name", "count")}
SECTIONS: dict[str, type[Any]] = {
    "cluster": Simulated,
    "nodes": NodeTable,
    "nodes.changes": NodeChange,
    "nodes.series": NodeSeriesTable,
    "taints": TaintTable,
    "workloads": WorkloadTable,
    "pods": PodTable,
    "node_affinity": TermTable,
    "topology_spread": SpreadTable,
    "pod_affinity": PodTermTable,
    "tolerations": TolerationTable,
    "ports": PortTable,
    "disks": DiskTable,
    "workloads.containers": ContainerTable,
    "workloads.service": ServiceTable,
    "workloads.series": SimulatedSeries,
    "jobs": JobsTable,
    "budgets": BudgetTable,
    "metrics": MetricsOptions,
    "demand": Demand,
}


def rows(section: str) -> dict[str, str]:
    """The keys of one section's table, with their defaults."""
    (text,) = re.findall(rf"^## `{re.escape(section)}`\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|", text, re.MULTILINE))


def told(section: str, kind: type[Any]) -> dict[str, str]:
    """The keys that its table must have."""
    left = POD if section in ("workloads", "jobs") else {"name", "count"} if section == "pods" else set()
    return {one.name: one.default for one in options(kind) if one.name.isidentifier() and one.name not in left}


def same(written: str, default: str) -> bool:
    return written == default or default.startswith('{"') or json.loads(default) == json.loads(written)


def test_every_table_of_the_page_is_looked_at() -> None:
    assert set(re.findall(r"^## `([\w.]+)`", PAGE, re.MULTILINE)) == set(SECTIONS)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_stands_there_with_its_default(section: str) -> None:
    written, known = rows(section), told(section, SECTIONS[section])
    assert set(written) == set(known)
    assert [key for key, default in known.items() if not same(written[key], default)] == []


def test_every_link_within_the_page_leads_somewhere() -> None:
    places = {re.sub(r"[^\w]", "", name) for name in re.findall(r"^## `?([^`\n]+)`?$", PAGE, re.MULTILINE)}
    assert set(re.findall(r"\]\(#(\w+)\)", PAGE)) <= places


async def test_its_example_runs(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "elasticd.toml").write_text(text)
    settings = load_settings(tmp_path / "elasticd.toml", discover())
    async with settings.cluster.open(VirtualClock()) as cluster:
        before = await cluster.observe(59.0, frozenset({("apps/v1", "Deployment")}))
        after = await cluster.observe(61.0, frozenset({("apps/v1", "Deployment")}))
    assert len(before.pending()) == 6
    assert [node.unschedulable for node in before.nodes()] == [False, False, False]
    assert [node.unschedulable for node in after.nodes()] == [False, True, True]
    (budget,) = after.budgets() or ()
    assert (budget.namespace, budget.name, budget.pods) == ("shop", "web", frozenset()), "none of its pods has started"
