"""Every interval and every window of a second, for many workloads: a daemon starts, decides and answers."""

import json
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from elasticd.journal import read
from elasticd.model.records import Decision
from tests.kit.daemons import SETTINGS, daemon, until

COUNT = 300
NODES, _, _ = SETTINGS.partition("[[cluster.workloads]]")
MORE = """
[disruption]
within = 1

[journal]
megabytes = 1
segments = 2
"""
WORKLOAD = """
[[cluster.workloads]]
namespace = "shop"
name = "w{number}"
replicas = 2
cpu = "10m"
start_seconds = 0
demand = {{ formula = "0.3" }}
series = [{{ name = "queue", demand = {{ formula = "40" }} }}]
"""
# Samples are renewed each second, so that one that is used is up to two seconds old.
POLICY = """
mode = "act"
interval = 1
jitter = 0
max_age = 2
workload = {{ namespace = "shop", name = "w{number}" }}
foreign = {{ within = 1, pause = 1 }}
trust = {{ unknown = "fallback", replicas = 2, after = 1 }}
replicas = {{ min = 1, max = 8 }}
[[strategy]]
type = "hpa"
metrics = [{{ type = "External", series = "queue", average_value = 10 }}]
cpu_initialization_period = 1
initial_readiness_delay = 1
[strategy.behavior.scale_up]
stabilization_window = 1
policies = [{{ type = "Pods", value = 1, period = 1 }}]
[strategy.behavior.scale_down]
stabilization_window = 1
policies = [{{ type = "Pods", value = 1, period = 1 }}]
[[strategy]]
type = "cadence"
slow = 1
medium = 1
fast = 1
"""


@pytest.mark.slow
def test_300_policies_of_a_second_decide_and_probes_are_answered(tmp_path: Path) -> None:
    numbers = range(COUNT)
    (tmp_path / "policies").mkdir()
    for number in numbers:
        (tmp_path / "policies" / f"w{number}.toml").write_text(POLICY.format(number=number))
    nodes = NODES.replace("count = 2", "count = 20")
    (tmp_path / "elasticd.toml").write_text(nodes + "".join(WORKLOAD.format(number=one) for one in numbers) + MORE)
    with daemon(tmp_path) as running:

        def are_scaled() -> bool:
            decisions = json.loads(running.get("/status"))["decisions"]
            return len(decisions) == COUNT and {one["current"] for one in decisions} == {4}

        until(are_scaled, f"they never have four replicas:\n{running.log}")
        end, slowest = time.monotonic() + 5, 0.0
        while (begun := time.monotonic()) < end:
            assert running.get("/healthz") == "ok\n"
            slowest = max(slowest, time.monotonic() - begun)
            time.sleep(0.02)
        assert slowest < 1.5
        assert running.stop() == 0
        assert "WARNING" not in running.log
    times = defaultdict[str, list[float]](list)
    for record in read(tmp_path / "state"):
        if isinstance(record, Decision):
            times[record.policy].append(record.at)
    assert len(times) == COUNT
    assert max(later - sooner for found in times.values() for sooner, later in pairwise(found)) < 4
