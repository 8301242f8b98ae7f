"""Agreement with the genuine kube-scheduler: what does a pod that is being resized take of its node?

Each such pod stands on a node of its own. kube-scheduler is offered a pod that asks for a thousandth of a core more
than elasticd thinks is left there, which it must refuse, and then one that asks for exactly that, which it must bind.
"""

import json

import pytest

from elasticd.cluster.kubernetes.wire.convert import to_pod
from elasticd.cluster.kubernetes.wire.objects import Codec, WirePod
from tests.kit.resized_pods import RESIZED
from tests.kube.client import JSON, Client, wait_until
from tests.kube.conftest import Kube
from tests.kube.reports import NodeSpec

CORES = 10
NODES = "/api/v1/nodes"
HOST = "kubernetes.io/hostname"

pytestmark = pytest.mark.since("1.36", "pods are resized in place, as a whole too")


async def add_node(client: Client, name: str) -> None:
    """A ready node that no hollow kubelet looks after: what is said of its pods stays."""
    node = NodeSpec(name, cpu=str(CORES))
    await client.create(NODES, node.manifest())
    await client.patch(f"{NODES}/{name}/status", {"status": node.status(ready=True)}, "strategic")
    await client.patch(f"{NODES}/{name}", {"spec": {"taints": None}})


def pod(name: str, **spec: JSON) -> JSON:
    """A pod; its containers lack nothing but what they ask for."""
    for one in [*spec["containers"], *spec.get("initContainers", [])]:
        one["image"] = "example.test/main:1"
    return {"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 0, **spec}}


async def occupy(client: Client, pods: str, node: str, spec: JSON, status: JSON) -> float:
    """Put a pod on its node; gives what elasticd counts of it, as it is read back."""
    made = pod(node, nodeName=node, **json.loads(json.dumps({"containers": [main("1")], **spec})))
    if made["spec"].pop("overhead", None):  # only admission may set it
        made["spec"]["runtimeClassName"] = OVERHEADS_NAME
    await client.create(pods, made)
    body = {"status": {"phase": "Running", **json.loads(json.dumps(status))}}
    for kind in ("containerStatuses", "initContainerStatuses"):
        for one in body["status"].get(kind, []):
            one |= {"image": "example.test/main:1", "imageID": "", "ready": True, "restartCount": 0}
    read = await client.patch(f"{pods}/{node}/status", body, "strategic")
    return Codec(WirePod, to_pod).one(json.dumps(read).encode())[1].counted["cpu"]


def main(cpu: str) -> JSON:
    return {"name": "main", "resources": {"requests": {"cpu": cpu}}}


OVERHEADS_NAME = "resized"
OVERHEAD = {"metadata": {"name": OVERHEADS_NAME}, "handler": "none", "overhead": {"podFixed": {"cpu": "100m"}}}


async def offered(client: Client, pods: str, free: dict[str, int]) -> dict[str, bool]:
    """Whether kube-scheduler binds a pod to each node that asks for so many thousandths of a core there."""
    for node, thousandths in free.items():
        await client.create(pods, pod(f"probe-{node}", containers=[main(f"{thousandths}m")], nodeSelector={HOST: node}))

    async def looked_at() -> list[JSON]:
        found = [one for one in await client.list(pods) if one["metadata"]["name"].startswith("probe-")]
        return found if all(one["status"].get("conditions") for one in found) else []

    found = await wait_until(looked_at, what="kube-scheduler has looked at all")
    for one in found:
        await client.delete(f"{pods}/{one['metadata']['name']}", grace=0)
    return {one["metadata"]["name"].removeprefix("probe-"): "nodeName" in one["spec"] for one in found}


async def test_a_pod_that_is_resized_takes_what_kube_scheduler_counts(kube: Kube, namespace: str) -> None:
    client, pods = kube.client, f"/api/v1/namespaces/{namespace}/pods"
    rows = {f"resized-{number}": row for number, row in enumerate(RESIZED)}
    classes = "/apis/node.k8s.io/v1/runtimeclasses"
    await client.create(classes, OVERHEAD)
    try:
        free, expected = {}, {}
        for node, row in rows.items():
            spec, status, cpu = row.values
            await add_node(client, node)
            counted = await occupy(client, pods, node, spec, status)
            free[node], expected[node] = round(1000 * (CORES - counted)), (row.id, cpu)
            assert counted == pytest.approx(cpu), row.id
        too_much = await offered(client, pods, {node: left + 1 for node, left in free.items()})
        assert [expected[node] for node, bound in too_much.items() if bound] == [], "it counts less than we do"
        just_right = await offered(client, pods, free)
        assert [expected[node] for node, bound in just_right.items() if not bound] == [], "it counts more than we do"
    finally:
        await client.delete(f"{classes}/{OVERHEADS_NAME}")
        for node in rows:
            await client.delete(f"{NODES}/{node}")
