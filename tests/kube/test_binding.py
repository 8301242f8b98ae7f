"""Binding on a genuine cluster: the thesis's first table, weakly and strongly, and what a person is told."""

from pathlib import Path

from elasticd.kit import BINDING
from tests.kube.client import JSON, wait_until
from tests.kube.conftest import Kube
from tests.kube.pools import bound, create, decided, five, places, thesis
from tests.kube.running import running

POLICY = """
mode = "act"
[pool]
namespaces = ["{namespace}"]
nodes = {{ for = "{namespace}" }}
[[strategy]]
type = "filters"
[[strategy]]
type = "binding"
"""


async def test_t5_weak_and_strong_bindings_hold_as_in_the_thesis(kube: Kube, namespace: str, tmp_path: Path) -> None:
    policies = {"bound": POLICY.format(namespace=namespace)}
    nodes = thesis(namespace, node1="frontend", node2="backend", node3="frontend")
    async with (
        kube.nodes.having(*nodes),
        running(tmp_path / "daemon", kube.plane.kubeconfig("admin"), namespace, policies) as daemon,
    ):
        await create(kube, namespace, *five())
        waits = await decided(daemon, "pod5", "wait")
        assert waits.reason == "NoNodeMatches"

        async def found() -> dict[str, str]:
            known = await places(kube, namespace)
            return {name: node.removesuffix(f"-{namespace}") for name, node in known.items()}

        async def settled() -> bool:
            return sum(map(bool, (await found()).values())) == 4

        await wait_until(settled, what="four pods are bound")
        assert await found() == {"pod1": "node1", "pod2": "node3", "pod3": "node1", "pod4": "node3", "pod5": ""}

        # A node that comes to match is found by the pod that waits for it.
        body = {"metadata": {"labels": {"hostname": "node4"}}}
        await kube.client.patch(f"/api/v1/nodes/node2-{namespace}", body)
        await decided(daemon, "pod5", "bind")
        assert (await wait_until(lambda: place(kube, namespace, "pod5"))) == f"node2-{namespace}"


async def place(kube: Kube, namespace: str, name: str) -> str:
    return (await places(kube, namespace))[name]


async def test_an_unreadable_annotation_keeps_its_pod_pending_with_an_event(
    kube: Kube, namespace: str, tmp_path: Path
) -> None:
    policies = {"bound": POLICY.format(namespace=namespace)}
    async with (
        kube.nodes.having(*thesis(namespace, node1="frontend")),
        running(tmp_path / "daemon", kube.plane.kubeconfig("admin"), namespace, policies),
    ):
        await create(kube, namespace, bound("wrong", {"key": "tier", "operator": "equals", "values": ["frontend"]}))

        async def told() -> JSON:
            found = await kube.client.list(f"/api/v1/namespaces/{namespace}/events")
            return [one for one in found if one["reason"] == "InvalidBinding"]

        (event,) = await wait_until(told, what="an event tells it")
        assert event["involvedObject"]["name"] == "wrong"
        assert event["type"] == "Warning"
        assert event["message"] == (
            "elasticd.io/binding: expressions[0].operator: must be one of doesNotExist, exists, gt, in, lt, notIn, is "
            '"equals"'
        )
        assert await place(kube, namespace, "wrong") == ""
        # It is mended by who has the right to, and goes where it was meant to go.
        body = {"metadata": {"annotations": {BINDING: '{"expressions": [{"key": "tier", "operator": "exists"}]}'}}}
        await kube.client.patch(f"/api/v1/namespaces/{namespace}/pods/wrong", body)
        assert await wait_until(lambda: place(kube, namespace, "wrong")) == f"node1-{namespace}"
