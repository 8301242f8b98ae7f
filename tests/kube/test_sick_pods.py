"""Which pods a PodDisruptionBudget lets go: what the daemon reads of it is what the eviction API then says, of pods
that are ready, not ready, or not started.
"""

from typing import Any

import pytest

from elasticd.cluster.kubernetes import KubernetesCluster
from elasticd.decision.pool.preemption import Budgets
from elasticd.model.actions import Answer, Evict
from elasticd.model.workload import Pod, Ref
from tests.kube.client import JSON, wait_until
from tests.kube.conftest import Kube
from tests.kube.reports import condition
from tests.kube.test_cluster import DEPLOYMENT, manifest, opened

KEPT, LEAVES = (429, "Budget"), (201, "")


async def pods_of(kube: Kube, namespace: str, phase: str) -> list[JSON]:
    """The two pods of the Deployment, in this phase."""

    async def found() -> list[JSON]:
        pods = await kube.client.list(f"/api/v1/namespaces/{namespace}/pods")
        there = [pod for pod in pods if pod["status"].get("phase") == phase and pod["spec"].get("nodeName")]
        return there if len(there) == 2 else []

    return await wait_until(found, what=f"both are {phase}")


async def falls_sick(kube: Kube, pod: JSON) -> None:
    """It runs, and is ready no more."""
    meta = pod["metadata"]
    status = {"conditions": [condition(kind, true=False) for kind in ("Ready", "ContainersReady")]}
    await kube.client.patch(
        f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status", {"status": status}, "strategic"
    )


async def knows_policies(kube: Kube) -> bool:
    """Whether the server can be told which sick pods go: since 1.26."""
    return await kube.client.serves("policy/v1")


async def budget(kube: Kube, namespace: str, policy: str, healthy: int) -> None:
    """One pod must stay ready; its controller has counted."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    more = {"unhealthyPodEvictionPolicy": policy} if policy and await knows_policies(kube) else {}
    made = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": spec | more}
    path = await kube.client.path_of(made, namespace)
    await kube.client.apply(made, namespace)

    async def counted() -> bool:
        status = (await kube.client.get(path)).get("status", {})
        return (status.get("desiredHealthy"), status.get("currentHealthy")) == (1, healthy)

    await wait_until(counted, what="the pods are counted")


async def read(cluster: KubernetesCluster, name: str, namespace: str, *, ready: bool) -> tuple[Pod, bool]:
    """A pod as the daemon has it, and whether it may go by what is known of budgets."""

    async def found() -> Any:
        snapshot = await cluster.observe(0.0, frozenset({DEPLOYMENT}))
        workload = snapshot.workload(Ref(namespace, "Deployment", "web", "apps/v1"))
        budgets = snapshot.budgets()
        pods = {pod.name: pod for pod in snapshot.pods(workload)} if workload else {}
        if not budgets or name not in pods or (pods[name].ready is True) != ready:
            return None
        return pods[name], Budgets(budgets).bear([pods[name]])

    pod, may = await wait_until(found, what="it is read")
    return pod, may


async def evicted(cluster: KubernetesCluster, pod: Pod) -> Answer:
    """What comes of it."""
    return await cluster.act(Evict(pod.ref, pod.uid, pod.node, "Cordoned"))


@pytest.mark.parametrize(
    ("policy", "sick", "which", "answer"),
    [
        pytest.param("", 0, "healthy", LEAVES, id="one more is ready than must be"),
        pytest.param("", 1, "healthy", KEPT, id="the last that is ready"),
        pytest.param("", 1, "sick", LEAVES, id="a sick one beside enough"),
        pytest.param("", 2, "sick", KEPT, id="a sick one where too few are ready"),
        pytest.param("IfHealthyBudget", 2, "sick", KEPT, id="the same, by name"),
        pytest.param("AlwaysAllow", 2, "sick", LEAVES, id="a sick one that may always go"),
        pytest.param("AlwaysAllow", 1, "healthy", KEPT, id="the last that is ready, where sick ones may always go"),
    ],
)
async def test_a_budget_allows_eviction_as_the_eviction_api_does(
    kube: Kube, namespace: str, policy: str, sick: int, which: str, answer: tuple[int, str]
) -> None:
    if policy == "AlwaysAllow" and not await knows_policies(kube):
        answer = KEPT
    await kube.client.apply(manifest(DEPLOYMENT, replicas=2), namespace)
    pods = await pods_of(kube, namespace, "Running")
    for pod in pods[:sick]:
        await falls_sick(kube, pod)
    await budget(kube, namespace, policy, healthy=2 - sick)
    name = pods[0 if which == "sick" else -1]["metadata"]["name"]
    async with opened(kube, namespace) as cluster:
        pod, may = await read(cluster, name, namespace, ready=which == "healthy")
        found = await evicted(cluster, pod)
    assert ((found.code, found.reason), may) == (answer, answer == LEAVES), found


async def test_a_pod_not_yet_started_is_evicted_despite_its_budget(
    kube: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube.nodes, "startup", lambda _: None)
    await kube.client.apply(manifest(DEPLOYMENT, replicas=2), namespace)
    pods = await pods_of(kube, namespace, "Pending")
    await budget(kube, namespace, "", healthy=0)
    async with opened(kube, namespace) as cluster:
        pod, may = await read(cluster, pods[0]["metadata"]["name"], namespace, ready=False)
        found = await evicted(cluster, pod)
    assert (found.result, may) == ("done", True), found
