"""What is written about an object that was deleted and recreated since it was judged is told as gone."""

import pytest

from elasticd.model.actions import Action, Evict, Mark, Nominate, Scale
from elasticd.model.workload import Ref
from tests.kube.client import JSON, wait_until
from tests.kube.conftest import Kube
from tests.kube.test_cluster import DEPLOYMENT, PATHS, manifest, opened

OLD = "00000000-0000-4000-8000-000000000000"
NOTED: dict[str, str | None] = {"elasticd.example/noted": "yes"}


def actions(namespace: str, pod: JSON) -> dict[str, Action]:
    """What is decided about one and its pod, both under other UIDs."""
    web, name = Ref(namespace, "Deployment", "web", "apps/v1"), pod["metadata"]["name"]
    one = Ref(namespace, "Pod", name, "v1")
    return {
        "a mark on a pod": Mark(web, OLD, NOTED, pod=name),
        "a mark on a workload": Mark(web, OLD, NOTED),
        "a nomination": Nominate(one, OLD, "node-0"),
        "an eviction": Evict(one, OLD, "node-0", "is preempted"),
        "a count": Scale(web, OLD, "1", 1, 3, "cpu above target"),
    }


async def one_pod(kube: Kube, namespace: str) -> JSON:
    """The pod of the Deployment."""

    async def found() -> JSON:
        return next(iter(await kube.client.list(f"/api/v1/namespaces/{namespace}/pods")), None)

    return await wait_until(found, what="it has a pod")


@pytest.mark.parametrize("what", actions("", {"metadata": {"name": ""}}))
async def test_what_was_replaced_since_is_reported_as_gone(kube: Kube, namespace: str, what: str) -> None:
    await kube.client.apply(manifest(DEPLOYMENT, replicas=1), namespace)
    pod = await one_pod(kube, namespace)
    path = PATHS[DEPLOYMENT].format(namespace)
    async with opened(kube, namespace) as cluster:
        await cluster.observe(0.0, frozenset({DEPLOYMENT}))
        answer = await cluster.act(actions(namespace, pod)[what])
    assert answer.result == "conflict", answer
    assert answer.reason == "NotFound" or "recreated" in answer.message, answer
    web = await kube.client.get(f"{path}/web")
    assert web["spec"]["replicas"] == 1
    found = await one_pod(kube, namespace)
    for thing in (web, found):
        assert not NOTED.keys() & thing["metadata"].get("annotations", {}).keys()
    assert "nominatedNodeName" not in found["status"]
    assert found["metadata"]["uid"] == pod["metadata"]["uid"]
