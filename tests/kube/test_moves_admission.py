"""What the admission of a genuine API server makes of a pod's copy is looked at before the pod is evicted."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from tests.kube.admission import refusing
from tests.kube.client import JSON, ApiError, wait_until
from tests.kube.conftest import Kube
from tests.kube.moving import Daemon, Stage, stage
from tests.kube.test_moves import begun, ended, moved
from tests.kube.webhook import evictions_tried_only


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def scene(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The pool of all tests."""
    async with stage(kube, tmp_path_factory.mktemp("admission")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def first(scene: Stage) -> AsyncIterator[Daemon]:
    """A daemon."""
    async with scene.daemon("one") as one:
        yield one


@asynccontextmanager
async def having(scene: Stage, resource: str, spec: JSON) -> AsyncIterator[None]:
    """The namespace has an object of this kind."""
    path = f"/api/v1/namespaces/{scene.namespace}/{resource}"
    await scene.kube.client.create(path, {"metadata": {"name": "strict"}, "spec": spec})
    try:
        yield
    finally:
        await scene.kube.client.delete(f"{path}/strict")


async def stays(daemon: Daemon, name: str, reason: str) -> str:
    """Wait until `elasticd moves` says that the pod is kept back for this reason, and return its sentence."""

    async def found() -> str:
        moves = json.loads(await asyncio.to_thread(daemon.running.elasticd, "moves", "--json"))
        held = {(each["decision"]["pod"]["name"], each["reason"]): each["why"] for each in moves["held_back"]}
        return str(held.get((name, reason), ""))

    return await wait_until(found, within=60, what=f"{name} stays: {reason}")


async def failing(daemon: Daemon) -> bool:
    """Whether moves count as failing."""
    _, metrics = await daemon.running.page("/metrics")
    return any(float(value) > 0 for value in re.findall(r"^elasticd_moves_failing{.*} (.*)$", metrics, re.MULTILINE))


async def test_a_pod_stays_whose_copy_no_node_could_take(scene: Stage, first: Daemon) -> None:
    container = {"name": "main", "image": "example.test/main:1"}
    await scene.cordon()
    pod = await scene.pod(scene.name("batch"), containers=[container])
    defaults = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "5"}, "default": {"cpu": "5"}}]}
    async with having(scene, "limitranges", defaults):
        await scene.cordon(pod["spec"]["nodeName"])
        why = await stays(first, pod["metadata"]["name"], "CopyDiffers")
        assert "its request of cpu, for which" in why
        assert await scene.records() == []
    assert await moved(scene, pod) == 1
    await ended(scene, pod)


async def test_an_existing_name_is_reported_only_after_admission(scene: Stage, first: Daemon) -> None:
    """elasticd relies on it: a dry-run create by a pod's own name asks all admission."""
    pod = await begun(scene)
    name = pod["metadata"]["name"]
    again = {"metadata": {"name": name}, "spec": scene.spec()}

    async def tried() -> tuple[int, str]:
        with pytest.raises(ApiError) as raised:
            await scene.kube.client.create(f"{scene.pods}?dryRun=All", again)
        return raised.value.status, raised.value.reason

    assert await tried() == (409, "AlreadyExists")
    async with having(scene, "resourcequotas", {"hard": {"pods": "0"}}):

        async def exceeded() -> bool:
            return await tried() == (403, "Forbidden")

        await wait_until(exceeded, what="the quota counts")
    await ended(scene, pod)


async def test_a_record_that_takes_the_last_place_is_enough(scene: Stage, first: Daemon) -> None:
    """The daemon makes sure of it once more after the eviction, which the quota refuses."""
    pod, path = await begun(scene), f"/api/v1/namespaces/{scene.namespace}"
    there = len(await scene.kube.client.list(f"{path}/configmaps"))
    async with having(scene, "resourcequotas", {"hard": {"configmaps": str(there + 1)}}):

        async def counts() -> bool:
            used = (await scene.kube.client.get(f"{path}/resourcequotas/strict")).get("status", {}).get("used", {})
            return bool(used.get("configmaps") == str(there))

        await wait_until(counts, what="the quota counts")
        await scene.cordon(pod["spec"]["nodeName"])
        assert await moved(scene, pod) == 1
    await ended(scene, pod)


@pytest.mark.since("1.36", "1.20 knows no ValidatingAdmissionPolicy")
async def test_a_pod_stays_whose_name_a_policy_refuses(scene: Stage, first: Daemon) -> None:
    pod = await begun(scene)
    name, client = pod["metadata"]["name"], scene.kube.client
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    again = {"metadata": {"name": name}, "spec": scene.spec()}

    async def holds() -> bool:
        with pytest.raises(ApiError) as raised:
            await client.create(f"{scene.pods}?dryRun=All", again)
        return raised.value.status != 409

    async with refusing(scene.kube, scene.namespace, rule, f"request.name != '{name}'", f"{name} is retired"):
        await wait_until(holds, within=60, what="the policy holds")
        await scene.cordon(pod["spec"]["nodeName"])
        assert f"{name} is retired" in await stays(first, name, "NotRestorable")
    assert await moved(scene, pod) == 1
    await ended(scene, pod)


async def test_a_pod_with_label_keys_comes_back_as_it_was(scene: Stage, first: Daemon) -> None:
    """Of these the server has made rules of its selectors, which it refuses, or makes again, of a copy."""
    await scene.cordon()
    selector, key = {"matchLabels": {"app": "none"}}, {"topologyKey": "kubernetes.io/hostname"}
    spread = {**key, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}
    term = {**key, "labelSelector": selector, "mismatchLabelKeys": ["tier"]}
    pod = await scene.pod(
        scene.name("batch"),
        topologySpreadConstraints=[{**spread, "matchLabelKeys": ["tier"]}],
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    )
    await scene.cordon(pod["spec"]["nodeName"])
    assert await moved(scene, pod) == 1
    await ended(scene, pod)


async def test_evictions_that_a_webhook_only_tries_are_failures(scene: Stage, first: Daemon) -> None:
    node, other = scene.nodes
    await scene.cordon(other)
    bare, name = await scene.pod(scene.name("batch")), scene.name("set")
    sets = f"/apis/apps/v1/namespaces/{scene.namespace}/statefulsets"
    template = {"metadata": {"labels": {"app": name}}, "spec": scene.spec()}
    spec = {"serviceName": name, "selector": {"matchLabels": {"app": name}}, "replicas": 2, "template": template}
    await scene.kube.client.create(sets, {"metadata": {"name": name}, "spec": spec})
    pods = [bare, await scene.runs(f"{name}-0"), await scene.runs(f"{name}-1")]
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}
    async with evictions_tried_only(scene.kube, scene.namespace) as evicted:
        await scene.cordon(node)
        await wait_until(lambda: failing(first), what="they count as failing")
        assert max(evicted.count(f"{name}-{ordinal}") for ordinal in (0, 1)) <= 2
        assert {pod: (await scene.read(f"{scene.pods}/{pod}"))["metadata"]["uid"] for pod in uids} == uids
    for pod, uid in uids.items():
        assert (await scene.runs(pod, not_uid=uid))["spec"]["nodeName"] == other
    await scene.kube.client.delete(f"{sets}/{name}")
    await ended(scene, bare)
