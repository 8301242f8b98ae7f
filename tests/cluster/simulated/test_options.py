"""The options of a simulated cluster: what is accepted, and how the rest is refused."""

from typing import Any

import msgspec
import pytest

from elasticd.base.clock import VirtualClock
from tests.cluster.simulated.test_kit import KINDS, Play, simulated, web

SERIES = {"name": "requests", "demand": {"formula": "9"}}
NODES: list[tuple[dict[str, Any], str]] = [
    ({"taints": [{"key": "", "effect": "NoSchedule"}]}, "key: must not be empty, is"),
    ({"taints": [{"key": "a", "effect": "No"}]}, "$.nodes[0].taints[0].effect"),
    ({"taints": [{"key": "a", "effect": "NoSchedule", "valu": ""}]}, "unknown field `valu`"),
    ({"resources": {"pods": 3}}, "resources: must not have pods, which has a key of its own"),
    ({"cpu_used": "x"}, "cpu_used: must be a quantity"),
    ({"memory_used": -1}, "memory_used: must be finite and >= 0, is -1"),
    ({"cpu_used": {"formula": "1/0"}}, "$.nodes[0].cpu_used"),
    ({"series": [{"name": "cpu", "demand": {"formula": "1"}}]}, "name: must not be cpu or memory, see cpu_used"),
    ({"series": [SERIES, SERIES]}, "series[1].name: must be given once, is 'requests' again"),
    ({"changes": [{"labels": {}}]}, "missing required field `at`"),
    ({"changes": [{"at": -1}]}, "$.nodes[0].changes[0].at"),
    ({"changes": [{"at": 1, "cordon": True}]}, "unknown field `cordon`"),
    ({"unschedulable": "yes"}, "$.nodes[0].unschedulable"),
    ({"ready": 1}, "$.nodes[0].ready"),
]


@pytest.mark.parametrize(
    ("workload", "problem"),
    [
        pytest.param({"cpu": "lots"}, "cpu: must be a quantity such as 250m, 2 or 1.5Gi, is 'lots'", id="quantity"),
        pytest.param({"memory": -1}, "memory: must be finite and >= 0, is -1", id="negative"),
        pytest.param({"cpu_limit": "x"}, "cpu_limit: must be a quantity", id="limit"),
        pytest.param({"memory_per_pod": "x"}, "memory_per_pod: must be a quantity", id="memory per pod"),
        pytest.param({"name": "Web"}, "$.workloads[0].name", id="name"),
        pytest.param({"replicas": -1}, "$.workloads[0].replicas", id="replicas"),
        pytest.param({"start_seconds": -1}, "$.workloads[0].start_seconds", id="delay"),
        pytest.param({"demands": {}}, "unknown field `demands`", id="unknown"),
        pytest.param({"demand": {"formula": "1/0"}}, "zero - at `$.workloads[0].demand`", id="demand names its place"),
        pytest.param(
            {"containers": [{"name": "a"}, {"name": "a"}]},
            "containers[1].name: must be given once",
            id="container",
        ),
        pytest.param({"containers": [{"name": "a", "cpu": "x"}]}, "cpu: must be a quantity", id="container's cpu"),
        pytest.param({"series": [SERIES, SERIES]}, "series[1].name: must be given once", id="series twice"),
        pytest.param({"series": [{**SERIES, "name": "cpu"}]}, "name: must not be cpu or memory", id="series cpu"),
        pytest.param({"scheduler": ""}, "$.workloads[0].scheduler", id="scheduler"),
        pytest.param({"restart_policy": "Sometimes"}, "$.workloads[0].restart_policy", id="restart policy"),
        pytest.param(
            {"restart_policy": "Never"},
            "restart_policy: must be Always for a Deployment, is Never",
            id="restart policy of a Deployment",
        ),
        pytest.param({"priority": 2**31}, "$.workloads[0].priority", id="priority"),
        pytest.param({"priority_class": 3}, "$.workloads[0].priority_class", id="priority class"),
        pytest.param({"preemption_policy": "no"}, "$.workloads[0].preemption_policy", id="preemption policy"),
        pytest.param({"node_selector": {"a": 1}}, "$.workloads[0].node_selector", id="node selector"),
        pytest.param({"node_affinity": [{"label": []}]}, "unknown field `label`", id="affinity's key"),
        pytest.param(
            {"node_affinity": [{"labels": [{"key": "a", "operator": "in"}]}]}, "labels[0].operator", id="operator"
        ),
        pytest.param({"tolerations": [{"operater": "Exists"}]}, "unknown field `operater`", id="toleration's key"),
        pytest.param({"tolerations": [{}]}, "operator: must be Exists without a key", id="toleration of nothing"),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            'value: must be left out with the operator Exists, is "b"',
            id="toleration's value",
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "effect": "No"}]}, "effect: must be one of", id="toleration's effect"
        ),
        pytest.param({"ports": [{"number": 0}]}, "number: must be in [1, 65535], is 0", id="port"),
        pytest.param(
            {"ports": [{"number": 1, "protocol": "tcp"}]}, "protocol: must be TCP, UDP or SCTP", id="protocol"
        ),
        pytest.param({"disks": [{"kind": "gce"}]}, "`name`", id="disk"),
        pytest.param({"annotations": {"a": 1}}, "$.workloads[0].annotations", id="annotations"),
        pytest.param({"resources": {"cpu": 1}}, "resources: must not have cpu", id="resources cpu"),
        pytest.param({"resources": {"a": "x"}}, "resources.a: must be a quantity", id="resources"),
        pytest.param({"bare": True, "kind": "Job"}, "kind: must be left out for bare pods, is Job", id="bare kind"),
        pytest.param(
            {"bare": True, "api_version": "v1"}, "api_version: must be left out for bare pods, is v1", id="bare version"
        ),
        pytest.param(
            {"bare": True, "run_seconds": 5},
            "run_seconds: must be left out for restart_policy Always, is given",
            id="bare for ever",
        ),
        pytest.param({"at": 5}, "at: must be left out for pods that are not bare, is 5", id="at"),
        pytest.param({"bare": True, "at": -1}, "$.workloads[0].at", id="at before the start"),
        pytest.param({"every": 5}, "every: must be left out for pods that are not bare, is 5", id="every"),
        pytest.param({"run_seconds": 5}, "run_seconds: must be left out for pods that are not", id="run seconds"),
    ],
)
def test_a_wrong_workload_is_refused_naming_the_key(workload: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        simulated(web(**workload) if "name" not in workload else workload)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param({"nodes": []}, "length >= 1", id="no node"),
        pytest.param({"nodes": [{"name": "a", "cpu": 0, "memory": 1}]}, "cpu: must be > 0, is 0", id="empty node"),
        *[
            pytest.param({"nodes": [{"name": "a", "cpu": 1, "memory": 1, **table}]}, problem, id=f"node: {problem}")
            for table, problem in NODES
        ],
        pytest.param({"budgets": [{"name": "a"}]}, "missing required field `min_available`", id="budget"),
        pytest.param({"budgets": [{"name": "a", "min_available": -1}]}, "$.budgets[0].min_available", id="negative"),
        pytest.param(
            {"budgets": [{"name": "a", "min_available": 1}] * 2},
            "budgets[1].name: must be given once, is default/a again",
            id="budget twice",
        ),
        pytest.param(
            {"workloads": [web(kind="StatefulSet"), web(name="web-1", bare=True)]},
            "workloads[1].name: must not be that of a pod of web, is web-1",
            id="a bare pod called as one of a workload's",
        ),
        pytest.param(
            {"jobs": [{"name": "a", "arrivals": {"formula": "1"}, "restart_policy": "Always"}]},
            "restart_policy: must be OnFailure or Never for Jobs, is Always",
            id="Jobs that never end",
        ),
        pytest.param({"metrics": {"resolution": 0}}, "$.metrics.resolution", id="resolution"),
        pytest.param({"metrics": {"noise": 2}}, "$.metrics.noise", id="noise"),
        pytest.param({"sed": 1}, "unknown field `sed`", id="unknown"),
        pytest.param(
            {
                "nodes": [
                    {"name": "a-2", "cpu": 1, "memory": 1},
                    {"name": "a", "count": 2, "cpu": 1, "memory": 1},
                ]
            },
            "nodes[1].name: must be given once, is a-2 again",
            id="node twice",
        ),
        pytest.param(
            {"workloads": [web(), web(kind="StatefulSet")]},
            "workloads[1].name: must be given once, is default/web again",
            id="workload twice",
        ),
        pytest.param(
            {"workloads": [web(series=[SERIES]), {"name": "b", "series": [{**SERIES, "per": "pod"}]}]},
            "workloads[1].series[0].per: must be the same for every requests, is pod",
            id="a series both per pod and per workload",
        ),
    ],
)
def test_a_wrong_cluster_is_refused_naming_the_key(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        simulated(*options.get("workloads", ()), **{k: v for k, v in options.items() if k != "workloads"})
    assert problem in str(refused.value)


async def test_a_count_stands_for_as_many_that_are_alike() -> None:
    node = {"name": "n", "count": 12, "cpu": 2, "memory": "1Gi"}
    snapshot = await Play(web(count=3), nodes=[node]).look(0)
    assert [w.ref.name for w in snapshot.workloads()] == ["web-1", "web-2", "web-3"]
    names = [node.name for node in snapshot.nodes()]
    assert (len(names), names) == (12, sorted(names))
    assert snapshot.nodes()[0].allocatable == {"cpu": 2.0, "memory": 2.0**30, "pods": 110.0}


async def test_a_simulated_cluster_is_opened_like_any_other() -> None:
    async with simulated(web()).open(VirtualClock(5.0), None, elect=False) as cluster:
        assert cluster.leading
        assert len((await cluster.observe(5.0, KINDS)).workloads()) == 1
