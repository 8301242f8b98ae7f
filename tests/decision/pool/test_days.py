"""Pools in virtual time: what the daemon's own loops make of pods that come, run and go, on a simulated cluster."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from elasticd.model.policy import Bounds, Policy, PoolPolicy, PoolSelect, Target
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.testing import simulate
from tests.bench.steady import hpa
from tests.cluster.simulated.test_kit import simulated
from tests.kit.placers import Fits, Heard, pool

pytestmark = pytest.mark.slow

NODES = [{"name": "n", "count": 10, "cpu": "4", "memory": "16Gi"}]
OURS = {"scheduler": "elasticd", "memory": "256Mi", "start_seconds": 2}
DAY = 86400.0


def bare(name: str, **options: Any) -> dict[str, Any]:
    """Pods without a controller that wait for elasticd."""
    return {"name": name, "bare": True, "restart_policy": "Never", "cpu": "500m", **OURS, **options}


def play(
    *workloads: dict[str, Any],
    seconds: float = 120.0,
    policies: list[Policy | PoolPolicy] | None = None,
    **options: Any,
) -> Heard:
    """What is decided and done in that time."""
    heard, cluster = Heard(), simulated(*workloads, **{"nodes": NODES, **options})
    sources = [ResourceMetrics(nodes=True)]
    asyncio.run(simulate(cluster, policies or [pool()], seconds, sources=sources, listeners=[heard]))
    return heard


def a_day(seconds: float = DAY) -> Heard:
    """Two thousand pods that come one by one and run for ten minutes each, and forty at once at noon; of a shorter day
    as much as there is time for."""
    steady = bare("steady", replicas=2000, every=43, run_seconds=610)
    burst = bare("noon", replicas=40, at=seconds / 2, run_seconds=300, priority=5)
    return play(steady, burst, seconds=seconds, policies=[pool(Fits(), interval=60)])


@pytest.fixture(scope="module")
def day() -> Heard:
    return a_day()


def test_every_pod_of_a_day_is_placed_once_without_delay(day: Heard) -> None:
    binds = day.did("bind")
    assert len(binds) == len({name for _, name, _ in binds}) == 2040
    assert {one.result for one in day.placeds} == {"done"}
    late = {name: at - 43 * (int(name.removeprefix("steady-")) - 1) for at, name, _ in binds if "steady" in name}
    assert max(late.values()) < 0.1, "the cluster tells of a pod when it comes, not the policy's interval"


def test_no_node_ever_has_two_pods_more_than_another(day: Heard) -> None:
    """Of pods that are alike, with as much room for each on every node."""
    binds = [(at, 1, node) for at, _, node in day.did("bind")]
    moves = sorted(binds + [(at, -1, node) for at, node in ends(day)], key=lambda move: move[0])
    on = dict.fromkeys([f"n-{number}" for number in range(1, 11)], 0)
    apart = [0]
    for _, change, node in moves:
        on[node] += change
        if change > 0:  # who ends is not anybody's choice
            apart.append(on[node] - min(on.values()))
    assert max(apart) == 1


def ends(day: Heard) -> list[tuple[float, str]]:
    """When each pod of the day ended, and on which node."""
    return [(at + 2 + (300 if "noon" in name else 610), node) for at, name, node in day.did("bind")]


def test_two_runs_are_equal_despite_different_hash_seeds() -> None:
    code = """
from tests.decision.pool.test_days import a_day
day = a_day(8000.0)
print([(one.at, one.id, one.verdict, one.node, one.scores) for one in day.placings])
print(day.did("bind"))
"""
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).resolve().parents[3],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(runs[0]) > 50_000
    assert runs[0] == runs[1]


def test_a_pod_without_room_is_bound_when_another_has_ended() -> None:
    nodes = [{"name": "n", "cpu": "1", "memory": "8Gi"}]
    heard = play(
        bare("first", cpu="1", run_seconds=50), bare("second", cpu="1", at=5), policies=[pool(Fits())], nodes=nodes
    )
    assert [(round(at), name) for at, name, _ in heard.did("bind")] == [(0, "first"), (52, "second")]
    waits = [one for one in heard.placings if one.verdict == "wait"]
    assert (heard.names, heard.counts) == ({"pool"}, {"pool": {}})
    assert {(one.pod.name, one.message) for one in waits} == {("second", "0/1 nodes are available: 1 Insufficient cpu")}


def test_important_pods_displace_lesser_ones_that_return_and_wait() -> None:
    nodes = [{"name": "n", "cpu": "1", "memory": "8Gi"}]
    lesser = bare("lesser", cpu="500m", replicas=2, restart_policy="OnFailure", stop_seconds=3)
    heard = play(lesser, bare("vital", cpu="700m", at=30, priority=9, run_seconds=20), nodes=nodes)
    assert [name for _, name, _ in heard.did("evict")] == ["lesser-1", "lesser-2"]
    binds = [(round(at), name) for at, name, _ in heard.did("bind")]
    assert sorted(binds[:2]) == [(0, "lesser-1"), (0, "lesser-2")]
    at, name = binds[2]
    assert name == "vital"
    assert 33 <= at <= 35, "when those that was preempted have stopped"
    back = [(at, name) for at, name in binds[3:]]
    assert {name for _, name in back} == {"lesser-1", "lesser-2"}
    assert all(at >= 55 for at, _ in back), "when it has ended"


def test_a_budget_keeps_pods_that_would_give_way() -> None:
    nodes = [{"name": "n", "cpu": "1", "memory": "8Gi"}]
    kept = {"name": "kept", "min_available": 1, "selector": {"app": "lesser"}}
    lesser = bare("lesser", cpu="1")
    heard = play(lesser, bare("vital", cpu="1", at=30, priority=9), nodes=nodes, budgets=[kept])
    assert heard.did("evict") == []
    assert [name for _, name, _ in heard.did("bind")] == ["lesser"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"unschedulable": True}, id="cordoned"),
        pytest.param({"ready": False}, id="not ready"),
        pytest.param({"gone": True}, id="gone"),
    ],
)
def test_no_pod_goes_to_a_node_that_became_unusable(change: dict[str, Any]) -> None:
    nodes = [
        {"name": "best", "cpu": "8", "memory": "8Gi", "changes": [{"at": 30, **change}]},
        {"name": "other", "cpu": "4", "memory": "8Gi"},
    ]
    heard = play(bare("p", replicas=6, every=10), nodes=nodes)
    assert [node for _, _, node in heard.did("bind")] == ["best", "best", "best", "other", "other", "other"]


def test_workloads_are_scaled_and_their_new_pods_placed_together() -> None:
    web = {
        "name": "web",
        "cpu": "500m",
        "demand": {"table": [[0, 0.2], [40, 2.0]]},
        **OURS,
    }
    scaled = Policy(
        name="web",
        replicas=Bounds(min=1, max=10),
        strategies=(hpa(utilization=50),),
        workload=Target("default", "web"),
        mode="act",
        interval=10,
        jitter=0,
    )
    heard = play(web, policies=[scaled, pool()], seconds=200)
    counts = [one.after for one in heard.outcomes if one.result == "done"]
    assert counts[-1] == 8
    binds = heard.did("bind")
    assert len(binds) == 8
    scales = [one.at for one in heard.outcomes if one.after > one.before]
    assert all(any(0 <= at - scale < 0.1 for scale in scales) for at, _, _ in binds[1:])


def test_observe_policy_tells_where_pods_would_go_without_binding() -> None:
    heard = play(bare("p", replicas=3), policies=[pool(mode="observe")])
    assert {(one.pod.name, one.verdict, one.mode) for one in heard.placings} == {
        (f"p-{number}", "bind", "observe") for number in (1, 2, 3)
    }
    assert heard.placeds == []


def test_each_pool_has_its_own_nodes_and_pods() -> None:
    nodes = [{"name": name, "cpu": "4", "memory": "8Gi", "labels": {"pool": name}} for name in ("batch", "web")]
    pools = [
        pool(name=name, pool=PoolSelect(labels={"app": name}, nodes={"pool": name}), strategies=(Fits(),))
        for name in ("batch", "web")
    ]
    heard = play(bare("batch", replicas=3), bare("web", replicas=3), nodes=nodes, policies=[*pools])
    assert {(name.split("-")[0], node) for _, name, node in heard.did("bind")} == {("batch", "batch"), ("web", "web")}
    assert len(heard.did("bind")) == 6
