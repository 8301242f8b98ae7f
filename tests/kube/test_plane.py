"""That the control plane, the nodes and the metrics which other tests lean on are genuine."""

from typing import Any

import pytest

from tests.kube import fetch
from tests.kube.client import ApiError, Objects, wait_until
from tests.kube.conftest import Kube
from tests.kube.load import MEBIBYTE, Usage, matches
from tests.kube.reports import NodeSpec


def deployment(name: str, replicas: int, cpu: str = "200m", node: str | None = None) -> dict[str, Any]:
    """A Deployment whose pods request some CPU, and perhaps one of the nodes labelled only=..."""
    labels = {"app": name}
    container: dict[str, Any] = {
        "name": "main",
        "image": "example.test/main:1",
        "resources": {"requests": {"cpu": cpu}},
    }
    pod: dict[str, Any] = {"containers": [container], "terminationGracePeriodSeconds": 1}
    if node:
        pod["nodeSelector"] = {"only": node}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def autoscaler(name: str, metric: dict[str, Any]) -> dict[str, Any]:
    """A HorizontalPodAutoscaler of the Deployment of the same name."""
    of = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": of, "minReplicas": 1, "maxReplicas": 10, "metrics": [metric]},
    }


HALF_OF_CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}


FARMS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: farms.example.test
spec:
  group: example.test
  scope: Namespaced
  names: {plural: farms, singular: farm, kind: Farm}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources:
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
"""


async def running_pods(kube: Kube, namespace: str, count: int) -> Objects:
    """The pods of a namespace, once exactly so many run and none is ending."""

    async def pods() -> Objects:
        found = await kube.client.list(f"/api/v1/namespaces/{namespace}/pods")
        running = [pod for pod in found if pod["status"]["phase"] == "Running"]
        return running if len(running) == len(found) == count else []

    return await wait_until(pods, what=f"{count} running pods")


async def is_unschedulable(kube: Kube, namespace: str) -> bool:
    """Whether the scheduler has found no node for a pod of the namespace."""
    pods = await kube.client.list(f"/api/v1/namespaces/{namespace}/pods")
    conditions = [one for pod in pods for one in pod["status"].get("conditions", [])]
    return any(one.get("reason") == "Unschedulable" for one in conditions)


async def replicas_of(kube: Kube, namespace: str, name: str) -> int:
    """What a Deployment is scaled to."""
    scale = await kube.client.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale")
    return int(scale["spec"]["replicas"])


async def test_genuine_scheduler_places_pods_on_hollow_nodes(kube: Kube, namespace: str) -> None:
    await kube.client.apply(deployment("web", 3), namespace)
    pods = await running_pods(kube, namespace, 3)
    # The scheduler spreads equal pods over equal nodes.
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node-0", "node-1", "node-2"}
    assert all(pod["status"]["startTime"] and pod["status"]["podIP"] for pod in pods)


async def test_pod_that_fits_nowhere_stays_pending(kube: Kube, namespace: str) -> None:
    await kube.client.apply(deployment("big", 1, cpu="5"), namespace)
    await wait_until(lambda: is_unschedulable(kube, namespace))


async def test_pods_end_after_their_grace(kube: Kube, namespace: str) -> None:
    await kube.client.apply(deployment("web", 2), namespace)
    await running_pods(kube, namespace, 2)
    await kube.client.patch(f"/apis/apps/v1/namespaces/{namespace}/deployments/web/scale", {"spec": {"replicas": 0}})
    await wait_until(lambda: _is_empty(kube, namespace))


async def _is_empty(kube: Kube, namespace: str) -> bool:
    return not await kube.client.list(f"/api/v1/namespaces/{namespace}/pods")


async def test_genuine_hpa_follows_the_load(kube: Kube, namespace: str) -> None:
    await kube.client.apply([deployment("web", 3), autoscaler("web", HALF_OF_CPU)], namespace)
    await running_pods(kube, namespace, 3)
    kube.loads.set_load(namespace, "web", cpu=0.6)

    async def six() -> bool:
        return await replicas_of(kube, namespace, "web") == 6

    await wait_until(six, what="0.6 cores at 50 % of 200m are 6 replicas")


async def test_genuine_hpa_reads_external_metrics(kube: Kube, namespace: str) -> None:
    kube.metrics.external[namespace, "queue"] = 40
    metric = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}
    await kube.client.apply(
        [deployment("worker", 1), autoscaler("worker", {"type": "External", "external": metric})], namespace
    )

    async def four() -> bool:
        return await replicas_of(kube, namespace, "worker") == 4

    await wait_until(four, what="40 in the queue at 10 a pod are 4 replicas")


async def test_genuine_hpa_reads_custom_metrics(kube: Kube, namespace: str) -> None:
    kube.metrics.custom[namespace, "pods", "*", "requests"] = lambda _: 30.0
    metric = {"metric": {"name": "requests"}, "target": {"type": "AverageValue", "averageValue": "20"}}
    await kube.client.apply([deployment("web", 2), autoscaler("web", {"type": "Pods", "pods": metric})], namespace)

    async def more() -> bool:
        return await replicas_of(kube, namespace, "web") > 2

    await wait_until(more)


async def test_metrics_of_pods_and_nodes(kube: Kube, namespace: str) -> None:
    metrics = "/apis/metrics.k8s.io/v1beta1"
    path = f"{metrics}/namespaces/{namespace}/pods"
    async with kube.nodes.having(NodeSpec("measured", labels={"only": "measured"})):
        await kube.client.apply(deployment("web", 2, node="measured"), namespace)
        first, second = await running_pods(kube, namespace, 2)
        kube.loads.set_load(namespace, "web", cpu=1.0, memory=200 * MEBIBYTE)
        kube.loads.set_usage(namespace, second["metadata"]["name"], Usage(0.25, MEBIBYTE))

        async def usages() -> list[Any]:
            listed = await kube.client.list(path, labelSelector="app in (web, api)")
            return [pod["containers"][0]["usage"] for pod in listed]

        async def both() -> bool:
            return len(await usages()) == 2

        await wait_until(both)
        expected = [{"cpu": "500000000n", "memory": "102400Ki"}, {"cpu": "250000000n", "memory": "1024Ki"}]
        assert await usages() == expected
        assert (await kube.client.get(f"{path}/{first['metadata']['name']}"))["containers"][0]["usage"] == expected[0]
        assert await kube.client.list(path, labelSelector="app=api") == []
        nodes = {node["metadata"]["name"]: node for node in await kube.client.list(f"{metrics}/nodes")}
        assert nodes["measured"]["usage"] == {"cpu": "750000000n", "memory": "103424Ki"}
        one = await kube.client.get(f"{metrics}/nodes/measured")
        assert one["usage"] == nodes["measured"]["usage"]


async def test_metrics_can_fail(kube: Kube, namespace: str) -> None:
    kube.metrics.failure = 503
    try:
        with pytest.raises(ApiError, match="503"):
            await kube.client.list(f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods")
    finally:
        kube.metrics.failure = None


async def test_restart_of_the_api_server_keeps_data(kube: Kube, namespace: str) -> None:
    await kube.client.apply(deployment("web", 1), namespace)
    before = await running_pods(kube, namespace, 1)
    await kube.plane.restart_apiserver()
    after = await running_pods(kube, namespace, 1)
    assert [pod["metadata"]["uid"] for pod in after] == [pod["metadata"]["uid"] for pod in before]
    # The scheduler, the controllers and the hollow nodes come back by themselves.
    await kube.client.patch(f"/apis/apps/v1/namespaces/{namespace}/deployments/web/scale", {"spec": {"replicas": 2}})
    await running_pods(kube, namespace, 2)


async def test_version(kube: Kube) -> None:
    version = await kube.client.get("/version")
    major, minor, patch = kube.plane.version
    assert version["gitVersion"] == f"v{major}.{minor}.{patch}"
    assert (version["major"], version["minor"]) == (str(major), str(minor))
    if fetch.assets_folder() == fetch.cache_of(fetch.wanted()):
        assert version["gitVersion"] == f"v{fetch.wanted()}"


async def test_custom_resource_with_a_scale(kube: Kube, namespace: str) -> None:
    await kube.client.apply(FARMS)
    farms = f"/apis/example.test/v1/namespaces/{namespace}/farms"
    await wait_until(lambda: kube.client.get(farms))
    farm = {"apiVersion": "example.test/v1", "kind": "Farm", "metadata": {"name": "f", "labels": {"a": "b"}}}
    # Discovery tells of a new kind later than the server serves it.
    await wait_until(lambda: kube.client.path_of(farm, namespace))
    await kube.client.apply({**farm, "spec": {"replicas": 2}}, namespace)
    scale = await kube.client.patch(f"{farms}/f/scale", {"spec": {"replicas": 5}})
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 5)


async def test_user_without_rights_is_refused(kube: Kube) -> None:
    async with kube.plane.client("elasticd") as client:
        with pytest.raises(ApiError, match="Forbidden"):
            await client.list("/api/v1/nodes")


async def test_service_account_has_a_token(kube: Kube, namespace: str) -> None:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await kube.client.create(accounts, {"metadata": {"name": "daemon"}})
    made = await kube.client.create(f"{accounts}/daemon/token", {"spec": {}})
    async with kube.plane.client(token=made["status"]["token"]) as client:
        with pytest.raises(ApiError, match=f'User "system:serviceaccount:{namespace}:daemon" cannot list'):
            await client.list("/api/v1/nodes")


async def test_audit_log_has_each_write(kube: Kube, namespace: str) -> None:
    await kube.client.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "seen"}})
    await kube.client.get(f"/api/v1/namespaces/{namespace}/configmaps/seen")

    def writes() -> list[tuple[str, str]]:
        seen = [record for record in kube.plane.audit() if record["objectRef"].get("name") == "seen"]
        return [(record["verb"], record["user"]["username"]) for record in seen]

    assert await wait_until(writes) == [("create", "admin")]


async def test_node_that_fails_gets_no_pods(kube: Kube, namespace: str) -> None:
    async with kube.nodes.having(NodeSpec("frail", labels={"only": "frail"})):
        await kube.nodes.set_ready("frail", ready=False)
        await kube.client.apply(deployment("web", 1, node="frail"), namespace)
        await wait_until(lambda: is_unschedulable(kube, namespace))
        await kube.nodes.set_ready("frail", ready=True)
        await running_pods(kube, namespace, 1)


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier!=back", True),
        ("app=web,tier=back", False),
        ("app in (api, web),tier notin (back)", True),
        ("app notin (web)", False),
        ("app,!tier", False),
        ("!other", True),
    ],
)
def test_label_selectors(selector: str, selected: bool) -> None:
    assert matches(selector, {"app": "web", "tier": "front"}) is selected
