"""That hollow nodes do towards the API server what a kubelet does."""

from typing import Any

from tests.kube.client import Objects, wait_until
from tests.kube.conftest import Kube
from tests.kube.hollow import HollowNodes
from tests.kube.reports import NodeSpec, Pull

GIBIBYTE = 2**30


def pod(name: str, node: str, image: str = "example.test/main:1", grace: int = 1) -> dict[str, Any]:
    """A pod that is bound to a node from the start."""
    container = {"name": "main", "image": image}
    spec = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": grace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def status_of(kube: Kube, namespace: str, name: str) -> dict[str, str]:
    """A pod's phase and conditions."""
    status = (await kube.client.get(f"/api/v1/namespaces/{namespace}/pods/{name}"))["status"]
    return {"phase": status["phase"], **{one["type"]: one["status"] for one in status.get("conditions", [])}}


async def test_node_tells_what_it_has_and_is_ready(kube: Kube) -> None:
    taint = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
    spec = NodeSpec("rich", cpu="8", memory="32Gi", labels={"zone": "a"}, taints=[taint], extended={"test/gpu": "2"})
    async with kube.nodes.having(spec):
        node = await kube.client.get("/api/v1/nodes/rich")
    assert node["status"]["allocatable"] == {"cpu": "8", "memory": "32Gi", "pods": "110", "test/gpu": "2"}
    assert node["spec"]["taints"] == [taint]
    assert node["metadata"]["labels"]["zone"] == "a"
    assert [(one["type"], one["status"]) for one in node["status"]["conditions"]] == [("Ready", "True")]


async def test_pod_starts_after_its_delay_or_never(kube: Kube, namespace: str) -> None:
    delays = {"quick": 0.0, "never": None}
    async with HollowNodes(kube.client, [NodeSpec("own")], startup=lambda one: delays[one["metadata"]["name"]]) as own:
        await kube.client.apply([pod("never", "own"), pod("quick", "own")], namespace)

        async def is_ready() -> bool:
            return (await status_of(kube, namespace, "quick")).get("Ready") == "True"

        async def is_waiting() -> bool:
            return (await status_of(kube, namespace, "never")).get("Ready") == "False"

        await wait_until(is_ready)
        await wait_until(is_waiting)
        assert (await status_of(kube, namespace, "quick"))["phase"] == "Running"
        assert (await status_of(kube, namespace, "never"))["phase"] == "Pending"
        await own.remove("own")


async def test_pulled_images_are_reported_as_old_and_new_kubelets_do(kube: Kube, namespace: str) -> None:
    pulls = {"old": Pull(1.5), "new": Pull(2.0, GIBIBYTE), "present": None}
    async with HollowNodes(kube.client, [NodeSpec("puller")], pull=pulls.__getitem__) as own:
        await kube.client.apply([pod(image, "puller", image) for image in pulls], namespace)

        async def events() -> Objects:
            found = await kube.client.list(f"/api/v1/namespaces/{namespace}/events", fieldSelector="reason=Pulled")
            return found if len(found) == 2 else []

        messages = {one["involvedObject"]["name"]: one["message"] for one in await wait_until(events)}
        await own.remove("puller")
    assert messages == {
        "old": 'Successfully pulled image "old" in 1.5s',
        "new": f'Successfully pulled image "new" in 2.0s (2.0s including waiting). Image size: {GIBIBYTE} bytes.',
    }


async def test_pod_made_anew_under_its_name_is_another_pod(kube: Kube, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/same"
    async with HollowNodes(kube.client, [NodeSpec("twice")], startup=lambda _: 0.5) as own:
        first = await kube.client.create(path.rpartition("/")[0], pod("same", "twice"))
        await kube.client.delete(path, grace=0)
        second = await kube.client.create(path.rpartition("/")[0], pod("same", "twice"))

        async def runs() -> bool:
            return (await status_of(kube, namespace, "same"))["phase"] == "Running"

        await wait_until(runs)
        assert (await kube.client.get(path))["metadata"]["uid"] == second["metadata"]["uid"] != first["metadata"]["uid"]
        await own.remove("twice")


async def test_pods_containers_end_within_its_grace(kube: Kube, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/slow"
    async with HollowNodes(kube.client, [NodeSpec("ending")], shutdown=lambda _: 600) as own:
        await kube.client.apply(pod("slow", "ending", grace=1), namespace)
        await kube.client.delete(path)
        assert "deletionTimestamp" in (await kube.client.get(path))["metadata"]

        async def is_gone() -> bool:
            return not await kube.client.list(path.rpartition("/")[0])

        await wait_until(is_gone)
        await own.remove("ending")
