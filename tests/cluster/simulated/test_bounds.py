"""How much a simulated cluster may hold: what is beyond that is refused in one line, at once."""

from pathlib import Path

import pytest

from elasticd.base.errors import ConfigError
from elasticd.cluster.simulated import Simulated
from elasticd.config import load_settings
from elasticd.registry import discover

REGISTRY = discover()
NODE = 'nodes = [{ name = "n", cpu = "4", memory = "8Gi" }]'
HUGE = 100_000_000_000


def load(tmp_path: Path, cluster: str) -> str:
    """The line by which a cluster is refused; empty: it is not."""
    path = tmp_path / "elasticd.toml"
    path.write_text(f'[cluster]\ntype = "simulated"\n{cluster}\n')
    try:
        assert isinstance(load_settings(path, REGISTRY).cluster, Simulated)
    except ConfigError as error:
        return str(error).removeprefix(f"{path}: cluster.")
    return ""


def nodes(*counts: int) -> str:
    tables = [f'{{ name = "n{i}", count = {count}, cpu = "4", memory = "8Gi" }}' for i, count in enumerate(counts)]
    return f"nodes = [{', '.join(tables)}]"


def workloads(*tables: str) -> str:
    return f"{NODE}\nworkloads = [{', '.join(tables)}]"


JOBS = '{{ name = "j{0}", count = {1}, arrivals = {{ formula = "1" }} }}'


@pytest.mark.parametrize(
    ("cluster", "line"),
    [
        pytest.param(NODE, "", id="one node"),
        pytest.param(nodes(100_000), "", id="as many nodes as may be"),
        pytest.param(nodes(HUGE), f"nodes[0].count: must be <= 100000, is {HUGE}", id="too many nodes"),
        pytest.param(
            nodes(60_000, 60_000),
            "nodes[1].count: must come to <= 100000 with those before it, is 120000",
            id="too many nodes together",
        ),
        pytest.param(
            'nodes = [{ name = "n", cpu = "4", memory = "8Gi", pods = 100001 }]',
            "nodes[0].pods: must be <= 100000, is 100001",
            id="too many pods on a node",
        ),
        pytest.param(
            workloads(f'{{ name = "w", replicas = {HUGE} }}'),
            f"workloads[0].replicas: must be <= 100000, is {HUGE}",
            id="too many replicas",
        ),
        pytest.param(
            workloads(f'{{ name = "w", count = {HUGE} }}'),
            f"workloads[0].count: must be <= 100000, is {HUGE}",
            id="too many workloads",
        ),
        pytest.param(
            workloads('{ name = "w", count = 10000, replicas = 101 }'),
            "workloads[0].replicas: must come to <= 1000000 pods with those before it, is 1010000",
            id="too many pods",
        ),
        pytest.param(
            workloads('{ name = "v", count = 60000, replicas = 0 }', '{ name = "w", count = 60000, replicas = 0 }'),
            "workloads[1].count: must come to <= 100000 with those before it, is 120000",
            id="too many workloads together",
        ),
        pytest.param(
            f"{NODE}\njobs = [{JOBS.format(1, HUGE)}]", f"jobs[0].count: must be <= 100000, is {HUGE}", id="jobs"
        ),
        pytest.param(
            f"{NODE}\njobs = [{JOBS.format(1, 60_000)}, {JOBS.format(2, 60_000)}]",
            "jobs[1].count: must come to <= 100000 with those before it, is 120000",
            id="jobs together",
        ),
        pytest.param(
            f'{NODE}\nbudgets = [{{ name = "b", count = {HUGE}, min_available = 1 }}]',
            f"budgets[0].count: must be <= 100000, is {HUGE}",
            id="budgets",
        ),
        pytest.param(
            f'{NODE}\nbudgets = [{{ name = "b", min_available = {HUGE} }}]',
            f"budgets[0].min_available: must be <= 2147483647, is {HUGE}",
            id="a budget's pods",
        ),
    ],
)
def test_what_a_simulation_cannot_hold_is_refused(tmp_path: Path, cluster: str, line: str) -> None:
    assert load(tmp_path, cluster) == line
