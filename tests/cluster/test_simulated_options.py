"""The options of a simulated cluster: what is accepted, and how the rest is refused."""

from typing import Any

import msgspec
import pytest

from elasticd.clock import VirtualClock
from tests.cluster.test_simulated_kit import KINDS, Play, simulated, web

SERIES = {"name": "requests", "demand": {"formula": "9"}}


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
