"""Somebody who may create ConfigMaps beside the records of evicted pods, and no more, tries to have pods created."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.kube.client import JSON, ApiError, Client, wait_until
from tests.kube.conftest import Kube
from tests.kube.moving import USER, Daemon, Stage, stage
from tests.kube.rights import FOLDER, granted_from

INTRUDER = "intruder"


@asynccontextmanager
async def intruder(kube: Kube, namespace: str, *verbs: str) -> AsyncIterator[Client]:
    """A client that may do so with ConfigMaps in this namespace, and no more."""
    core, rbac = f"/api/v1/namespaces/{namespace}", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    meta, rule = {"name": INTRUDER}, {"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": INTRUDER}
    subject = {"kind": "ServiceAccount", "name": INTRUDER, "namespace": namespace}
    await kube.client.create(f"{core}/serviceaccounts", {"metadata": meta})
    await kube.client.create(f"{rbac}/roles", {"metadata": meta, "rules": [rule]})
    await kube.client.create(f"{rbac}/rolebindings", {"metadata": meta, "roleRef": role, "subjects": [subject]})
    token = await kube.client.create(f"{core}/serviceaccounts/{INTRUDER}/token", {"spec": {}})
    async with kube.plane.client(token=token["status"]["token"]) as client:
        yield client


async def create(client: Client, namespace: str, record: JSON) -> None:
    """Create a ConfigMap, as soon as the right to do so is in force."""

    async def created() -> bool:
        try:
            await client.create(f"/api/v1/namespaces/{namespace}/configmaps", record)
        except ApiError as error:
            if error.status != 403:
                raise
            return False
        return True

    await wait_until(created, what="the ConfigMap is created")


def privileged(namespace: str) -> JSON:
    """A pod with all rights on its node."""
    container = {"name": "main", "image": "example.test/root:1", "securityContext": {"privileged": True}}
    spec = {"hostPID": True, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root", "namespace": namespace}, "spec": spec}


def record_of(uid: str, **data: str) -> JSON:
    """A record as it looks to somebody who has not the key."""
    meta = {"name": f"elasticd-restore-{uid}", "labels": {"elasticd.io/restore": "pod"}}
    return {"metadata": meta, "data": {"uid": uid, "by": "one", "why": "is preempted", "since": "1", **data}}


async def moves(daemon: Daemon) -> JSON:
    """What `elasticd moves` says."""
    return json.loads(await asyncio.to_thread(daemon.running.elasticd, "moves", "--json"))


async def test_a_forged_record_creates_no_pod(kube: Kube, namespace: str, tmp_path: Path) -> None:
    """A privileged pod, for another namespace in which elasticd may create pods."""
    async with (
        stage(kube, tmp_path) as scene,
        granted_from(kube.plane, FOLDER / "components/restore/rbac.yaml", USER, namespace),
        intruder(kube, scene.namespace, "create") as client,
    ):
        forged = record_of(str(uuid.uuid4()), pod=json.dumps(privileged(namespace)))
        name = forged["metadata"]["name"]
        await create(client, scene.namespace, forged)
        async with scene.daemon("one") as one:

            async def told() -> bool:
                return name in (await moves(one))["left_alone"]

            await wait_until(told, within=90, what="it is reported")
            assert name in (await one.running.status())["cluster"]["problems"]["restore records"]
            assert "elasticd_restore_records_left_alone 1.0" in (await one.running.page("/metrics"))[1]
            assert (await one.running.page("/readyz"))[0] == 200
            log = (one.running.folder / "elasticd.log").read_text()
            assert log.count("do not count as records of evicted pods") == 1
            await wait_until(lambda: warned(scene, name), what="an Event says so")
            pod = await scene.pod("batch")
            await scene.cordon(pod["spec"]["nodeName"])
            await scene.runs("batch", not_uid=pod["metadata"]["uid"])
            assert await kube.client.list(f"/api/v1/namespaces/{namespace}/pods") == []
            assert name in [record["metadata"]["name"] for record in await scene.records()]


async def warned(scene: Stage, name: str) -> bool:
    """Whether there is an Event about a ConfigMap."""
    path = f"/api/v1/namespaces/{scene.namespace}/events"
    events = await scene.kube.client.list(
        path, fieldSelector=f"involvedObject.kind=ConfigMap,involvedObject.name={name}"
    )
    return [event["reason"] for event in events] == ["NotGenuine"]


async def test_a_record_replayed_after_its_move_creates_no_pod(kube: Kube, tmp_path: Path) -> None:
    """Within the five minutes in which a copy is not older than it may be."""
    async with (
        stage(kube, tmp_path) as scene,
        intruder(kube, scene.namespace, "create", "get") as client,
        scene.daemon("one") as one,
    ):
        pod = await scene.pod("batch")
        one.proxy.denied = "create"
        await scene.cordon(pod["spec"]["nodeName"])
        path = f"/api/v1/namespaces/{scene.namespace}/configmaps/elasticd-restore-{pod['metadata']['uid']}"
        await wait_until(lambda: scene.read(path), what="the move has begun")
        genuine = await client.get(path)
        one.proxy.denied = ""
        await scene.runs("batch", not_uid=pod["metadata"]["uid"])

        async def cleared() -> bool:
            return not await scene.records()

        await wait_until(cleared, within=90, what="its record is removed")
        await kube.client.delete(f"{scene.pods}/batch", grace=0)
        kept = {key: genuine["metadata"][key] for key in ("name", "labels")}
        await create(client, scene.namespace, {"metadata": kept, "data": genuine["data"]})
        await wait_until(cleared, within=90, what="the copy is removed")
        assert await scene.read(f"{scene.pods}/batch") is None
