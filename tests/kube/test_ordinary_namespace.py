"""A whole ordinary namespace with `schedulerName: elasticd`, on a cluster of its own: every pod runs, where it should.

The manifests are those of config/kubernetes/examples/orders.yaml and the policy config/policies/kube-scheduler.toml,
as docs/placing.md shows them.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.kube.client import Client, Objects, wait_until
from tests.kube.control_plane import ControlPlane
from tests.kube.hollow import LASTS, HollowNodes
from tests.kube.provisioner import provisioning
from tests.kube.reports import NodeSpec
from tests.kube.rights import FOLDER, documents, granted_from, shipped_rights
from tests.kube.running import running

pytestmark = pytest.mark.since("1.36", "what users run today; matchLabelKeys are of 1.25")

USER, ZONES = "elasticd", "abc"
POLICY = FOLDER.parent / "policies" / "kube-scheduler.toml"
EXAMPLE = FOLDER / "examples" / "orders.yaml"
PODS = "/api/v1/namespaces/orders/pods"
NODES = [
    NodeSpec(f"{zone}{number}", cpu="4", memory="8Gi", labels={"topology.kubernetes.io/zone": zone})
    for zone in ZONES
    for number in (1, 2)
]
WHOLE = {"web": 6, "cache": 3, "worker": 2, "db": 3, "archive": 1, "logs": len(NODES)}


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Client]:
    """Three zones of two nodes, a provisioner of volumes, and a daemon with the shipped rights and that policy."""
    async with (
        ControlPlane(folder / "kube") as plane,
        plane.client() as client,
        HollowNodes(client, NODES),
        provisioning(client, "disks.example.com"),
        shipped_rights(plane, USER, "default") as rights,
        granted_from(plane, FOLDER / "components" / "placing" / "rbac.yaml", USER, "default"),
        granted_from(plane, FOLDER / "components" / "volumes" / "rbac.yaml", USER, "default"),
        running(folder / "daemon", rights.kubeconfig, "default", {"orders": POLICY.read_text()}),
    ):
        yield client


async def all_run(client: Client) -> Objects:
    """Wait until as many pods run as there are to be, and the Job has succeeded; the pods that run."""

    async def found() -> Objects:
        pods = [pod for pod in await client.list(PODS) if "deletionTimestamp" not in pod["metadata"]]
        phases = Counter((pod["metadata"]["labels"].get("app", "job"), pod["status"]["phase"]) for pod in pods)
        wanted = {(app, "Running"): count for app, count in WHOLE.items()} | {("job", "Succeeded"): 2}
        return [pod for pod in pods if pod["status"]["phase"] == "Running"] if phases == wanted else []

    return await wait_until(found, within=90, what="every pod runs")


def places(pods: Objects, app: str) -> list[str]:
    """On which nodes the pods of an app are."""
    return sorted(pod["spec"]["nodeName"] for pod in pods if pod["metadata"]["labels"]["app"] == app)


def check(pods: Objects) -> None:
    """Each app is where its constraints want it."""
    spread = {app: Counter(node[0] for node in places(pods, app)) for app in WHOLE}
    assert spread["web"] == dict.fromkeys(ZONES, 2)
    assert spread["db"] == dict.fromkeys(ZONES, 1)
    assert len(set(places(pods, "cache"))) == 3
    assert spread["archive"] == {"b": 1}
    assert places(pods, "logs") == sorted(node.name for node in NODES)


async def restart(client: Client, apps: tuple[str, ...]) -> None:
    """Restart these apps, and wait until each pod of theirs has been replaced."""
    patch = {"spec": {"template": {"metadata": {"annotations": {"restarted": "now"}}}}}
    for app in apps:
        kind = "statefulsets" if app == "db" else "deployments"
        await client.patch(f"/apis/apps/v1/namespaces/orders/{kind}/{app}", patch)

    async def replaced() -> bool:
        pods = [pod["metadata"] for pod in await client.list(PODS)]
        concerned = [pod for pod in pods if pod["labels"].get("app") in apps]
        return all("restarted" in pod.get("annotations", {}) for pod in concerned)

    await wait_until(replaced, within=120, what=f"every pod of {', '.join(apps)} has been replaced")


async def test_every_pod_of_an_ordinary_namespace_runs(tmp_path: Path) -> None:
    async with cluster(tmp_path) as client:
        example = list(documents(EXAMPLE))
        for one in example:
            if one["kind"] == "Job":
                one["spec"]["template"]["metadata"] = {"annotations": {LASTS: "1"}}
        await client.apply(example)
        before = await all_run(client)
        check(before)
        for app in WHOLE:
            print(f"{app:8}", *places(before, app))
        assert len(set(places(before, "web"))) == 6, "where there is room, soft constraints are met too"
        # As a person does who has a new version of everything. Whoever prefers to be near the cache comes after it: by
        # then it is known where that is, and a rollout of the cache does not move others.
        await restart(client, ("web", "cache", "archive", "db"))
        await restart(client, ("worker",))
        after = await all_run(client)
        check(after)
        assert {node[0] for node in places(after, "worker")} <= {node[0] for node in places(after, "cache")}
        assert places(after, "db") == places(before, "db"), "a volume holds its pod where it is"
