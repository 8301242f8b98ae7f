"""Requests on a genuine cluster: recommended where they cannot be changed in running pods, as on 1.20, else changed in
place, with a hollow kubelet that gives pods what they request, or has no room for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from elasticd.base.units import parse_quantity
from elasticd.journal import read
from elasticd.model.records import Decision, Outcome
from tests.kube.client import JSON, Objects, wait_until
from tests.kube.conftest import Kube
from tests.kube.hollow import HollowNodes
from tests.kube.moving import USAGE, USED
from tests.kube.reports import NodeSpec
from tests.kube.rights import FOLDER, granted_from, shipped_rights
from tests.kube.running import Running, running
from tests.kube.test_daemon import events, workload

USER = "elasticd"
SOURCES = USED + USAGE
POLICY = """
mode = "act"
interval = 1
jitter = 0

workload = {{ namespace = "{namespace}", name = "web" }}
replicas = {{ min = 1, max = 8 }}

[[strategy]]
type = "vertical"
resources = ["cpu"]
"""


@pytest.mark.until("1.32", "since 1.33 the API server has pods/resize")
async def test_requests_are_recommended_and_an_unresizable_server_is_asked_once(
    kube: Kube, namespace: str, tmp_path: Path
) -> None:
    kube.loads.set_load(namespace, "web", cpu=1.0)
    await kube.client.apply(workload(), namespace)
    async with (
        shipped_rights(kube.plane, USER, namespace) as rights,
        granted_from(kube.plane, FOLDER / "components/vertical/rbac.yaml", USER, namespace),
    ):
        policies = {"web": POLICY.format(namespace=namespace)}
        async with running(tmp_path / "one", rights.kubeconfig, namespace, policies, SOURCES) as daemon:

            def told() -> bool:
                made = [one for one in read(daemon.folder / "state") if isinstance(one, Decision)]
                return any(one.sizing.unresized.startswith("NoInPlaceResize") for one in made)

            await wait_until(told, what="it is only recommended")
            said = daemon.elasticd("explain", f"{namespace}/Deployment/web")
            assert "NoInPlaceResize: recommended only" in " ".join(said.split())
            assert "keep 2 replicas: CountLeftAlone" in said
            _, page = await daemon.page("/metrics")
            await wait_until((daemon.folder / "learnt" / "usage.json").exists, what="what was learnt is on disk")
        records = list(read(daemon.folder / "state"))
    learnt = [one for one in records if isinstance(one, Decision) and one.sizing.resources]
    (asked,) = learnt[-1].sizing.resources
    assert asked.present == {"cpu": 0.1}
    assert 0.5 * 1.15 <= asked.requests["cpu"] <= 0.5 * 1.15 * 1.05 + 0.02
    assert (
        f'elasticd_recommended_cpu_cores{{container="main",kind="Deployment",name="web",namespace="{namespace}"' in page
    )
    outcomes = [one for one in records if isinstance(one, Outcome)]
    assert [(one.result, one.reason, one.resized) for one in outcomes] == [("refused", "NoInPlaceResize", "")]
    pods = (await kube.client.get(f"/api/v1/namespaces/{namespace}/pods"))["items"]
    assert [pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in pods] == ["100m", "100m"]


IN_PLACE = pytest.mark.since("1.33", "before, the API server has no pods/resize")
AT_ONCE = "at_once = 2\ncooldown = 1\n"


class Sized:
    """Two pods of 100m that use half a core, on a node whose kubelet gives them what they request unless `refusal` says
    Deferred or Infeasible."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self.kube, self.namespace, self.refusal = kube, namespace, ""

    async def pods(self) -> Objects:
        """As the API server has them."""
        return await self.kube.client.list(f"/api/v1/namespaces/{self.namespace}/pods")

    def resizes(self) -> int:
        """How often the daemon has asked for other requests."""
        asked = [one["objectRef"] for one in self.kube.plane.audit() if one["user"]["username"] == USER]
        return len([one for one in asked if one.get("subresource") == "resize" and one["namespace"] == self.namespace])


@asynccontextmanager
async def sized(
    kube: Kube, namespace: str, folder: Path, refusal: str = "", *, keys: str = "", annotations: JSON | None = None
) -> AsyncIterator[tuple[Sized, Running]]:
    """`keys`: further tables of the policy. `annotations`: of the pods, as their template has them."""
    found, pool = Sized(kube, namespace), {"pool": namespace}
    found.refusal = refusal
    manifest = workload()
    manifest["spec"]["template"]["spec"]["nodeSelector"] = pool
    manifest["spec"]["template"]["metadata"]["annotations"] = annotations or {}
    node = NodeSpec(f"node-{namespace}", labels=pool)
    async with (
        HollowNodes(kube.client, [node], refuse=lambda _: found.refusal) as nodes,
        shipped_rights(kube.plane, USER, namespace) as rights,
        granted_from(kube.plane, FOLDER / "components/vertical/rbac.yaml", USER, namespace),
    ):
        await kube.client.apply(manifest, namespace)
        kube.loads.set_load(namespace, "web", cpu=1.0)
        policies = {"web": POLICY.format(namespace=namespace) + AT_ONCE + keys}
        async with running(folder, rights.kubeconfig, namespace, policies, SOURCES) as daemon:
            await wait_until(lambda: daemon.explained(f"{namespace}/Deployment/web")["decision"], what="it decides")
            yield found, daemon
        await nodes.remove(node.name)


def cores(pod: JSON, *, given: bool) -> float:
    """What the container of a pod requests, or has been given: nothing before a kubelet has said so."""
    containers = pod["status"].get("containerStatuses", []) if given else pod["spec"]["containers"]
    return sum(parse_quantity(each["resources"]["requests"]["cpu"]) for each in containers if "resources" in each)


async def told_of(daemon: Running, namespace: str, words: str) -> int:
    """How often `elasticd explain` prints these words. The kubelet, in this process, goes on meanwhile."""
    said = await asyncio.to_thread(daemon.elasticd, "explain", f"{namespace}/Deployment/web")
    return " ".join(said.split()).count(words)


@IN_PLACE
async def test_requests_follow_use_in_pods_that_run_on(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with sized(kube, namespace, tmp_path / "one") as (scene, daemon):

        async def given() -> Objects:
            pods = await scene.pods()
            return pods if pods and all(cores(pod, given=True) > 0.5 for pod in pods) else []

        pods = await wait_until(given, what="both pods have what they use")
        before = {pod["metadata"]["uid"] for pod in pods}
        for pod in pods:
            assert 0.5 * 1.15 <= cores(pod, given=True) == cores(pod, given=False) <= 0.5 * 1.15 * 1.05 + 0.02
            assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
        outcomes = [one for one in read(daemon.folder / "state") if isinstance(one, Outcome) and one.resized]
        assert {(one.result, one.code) for one in outcomes} == {("done", 200)}
        assert {one.resized for one in outcomes} == before


@IN_PLACE
async def test_a_deferred_resize_is_reported_and_not_raised_again(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with sized(kube, namespace, tmp_path / "one", refusal="Deferred") as (scene, daemon):
        told = "Deferred: the node has no room for"

        async def both() -> bool:
            return await told_of(daemon, namespace, told) == 2

        await wait_until(both, what="both are told")
        asked = scene.resizes()
        kube.loads.set_load(namespace, "web", cpu=3.0)

        def wants_more() -> bool:
            made = [one for one in read(daemon.folder / "state") if isinstance(one, Decision) and one.sizing.resources]
            return made[-1].sizing.resources[0].requests["cpu"] > 1.2

        await wait_until(wants_more, what="more is recommended")
        assert [cores(pod, given=True) for pod in await scene.pods()] == [0.1, 0.1]
        assert scene.resizes() == asked == 2
        scene.refusal = ""

        async def given() -> bool:
            return all(cores(pod, given=True) > 1.2 for pod in await scene.pods())

        await wait_until(given, what="once there is room they are given what they ask for, and then more")

        async def neither() -> bool:
            return await told_of(daemon, namespace, told) == 0

        await wait_until(neither, what="nothing is told any more")


@IN_PLACE
async def test_an_infeasible_resize_is_reported_at_its_pod(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with sized(kube, namespace, tmp_path / "one", refusal="Infeasible") as (scene, daemon):
        told = "Infeasible: the node has no room for"

        async def both() -> bool:
            return await told_of(daemon, namespace, told) == 2

        await wait_until(both, what="both are told")
        assert [cores(pod, given=True) for pod in await scene.pods()] == [0.1, 0.1]
        assert scene.resizes() == 2


async def resize_as(kube: Kube, pod: JSON, manager: str, cpu: str) -> None:
    """Resize a pod as a VerticalPodAutoscaler does that changes pods in place: by a JSON patch of its updater."""
    meta, path = pod["metadata"], "/spec/containers/0/resources/requests/cpu"
    patch = [{"op": "add", "path": path, "value": cpu}]
    url = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/resize"
    await kube.client.patch(url, patch, "json", fieldManager=manager)


@IN_PLACE
async def test_it_yields_to_who_resizes_its_pods_and_goes_on(kube: Kube, namespace: str, tmp_path: Path) -> None:
    """Somebody, as a VerticalPodAutoscaler, sets what one pod requests, each time elasticd has: of two pods."""
    async with sized(kube, namespace, tmp_path / "one", keys="[foreign]\npause = 45\n") as (scene, daemon):

        async def given() -> Objects:
            pods = await scene.pods()
            return pods if pods and all(cores(pod, given=True) > 0.5 for pod in pods) else []

        first, second = await wait_until(given, what="elasticd has resized both")
        managed = [(entry["manager"], entry.get("subresource")) for entry in first["metadata"]["managedFields"]]
        assert ("elasticd", "resize") in managed
        before = scene.resizes()
        await resize_as(kube, first, "updater", "200m")

        async def told() -> bool:
            words = f"ForeignOwner: updater resized {first['metadata']['name']}; requests are left alone for"
            return await told_of(daemon, namespace, words) == 1

        await wait_until(told, what="it is told who did")
        await wait_until(lambda: events(kube, namespace, "ForeignOwner"), what="an Event tells of it")
        assert "CountLeftAlone; requests: ForeignOwner" in await asyncio.to_thread(daemon.elasticd, "status")
        _, page = await daemon.page("/metrics")
        assert 'limit="requests"' in page
        kube.loads.set_load(namespace, "web", cpu=2.0)

        def wants_more() -> bool:
            made = [one for one in read(daemon.folder / "state") if isinstance(one, Decision) and one.sizing.resources]
            return made[-1].sizing.resources[0].requests["cpu"] > 1.0

        await wait_until(wants_more, what="more is recommended")
        assert await told(), "still"
        assert scene.resizes() == before
        by_name = {pod["metadata"]["name"]: cores(pod, given=False) for pod in await scene.pods()}
        assert by_name[first["metadata"]["name"]] == 0.2
        assert by_name[second["metadata"]["name"]] == cores(second, given=False)

        async def goes_on() -> bool:
            return all(cores(pod, given=True) > 1.0 for pod in await scene.pods())

        await wait_until(goes_on, within=120, what="it goes on once nobody has resized them for that time")


VPA = "Pod resources updated by theirs: container 0: cpu request"


@IN_PLACE
async def test_pods_with_requests_of_a_vpa_are_left_alone(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with sized(kube, namespace, tmp_path / "one", annotations={"vpaUpdates": VPA}) as (scene, daemon):

        async def told() -> bool:
            return await told_of(daemon, namespace, f"is annotated vpaUpdates: {VPA}; take that") == 1

        await wait_until(told, what="it is told who sets what they request")
        await wait_until(lambda: events(kube, namespace, "ForeignOwner"), what="an Event tells of it")
        assert scene.resizes() == 0
        template = {"metadata": {"annotations": {"vpaUpdates": None}}}
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
        await kube.client.patch(path, {"spec": {"template": template}})

        async def replaced() -> bool:
            pods = await scene.pods()
            return bool(pods) and all(cores(pod, given=False) > 0.5 for pod in pods)

        await wait_until(replaced, what="pods without that annotation take their places, and are resized")


@IN_PLACE
async def test_pods_that_a_vpa_only_observes_are_resized(kube: Kube, namespace: str, tmp_path: Path) -> None:
    """With mode Off a VerticalPodAutoscaler only notes which containers a pod has."""
    notes = {"vpaObservedContainers": "main"}
    async with sized(kube, namespace, tmp_path / "one", annotations=notes) as (scene, _):

        async def given() -> bool:
            pods = await scene.pods()
            return bool(pods) and all(cores(pod, given=True) > 0.5 for pod in pods)

        await wait_until(given, what="both pods have what they use")
