"""Pods that go first, on a genuine cluster: whose costs are written, when, and that none are left behind.

The ReplicaSet controller here is of 1.20, which heeds no costs yet (1.21 can be told to, 1.22 does): it takes pods of
the fullest node. So these tests show what elasticd writes, and that it clears what was not needed.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from elasticd.decision.workload.victims import VICTIM
from elasticd.journal import read
from elasticd.model.records import Decision
from elasticd.model.workload import COST
from tests.kube.client import JSON, ApiError, Objects, wait_until
from tests.kube.conftest import Kube
from tests.kube.reports import NodeSpec
from tests.kube.rights import FOLDER, granted_from, only, shipped_rights
from tests.kube.running import Running, running
from tests.kube.test_daemon import policy, scaled, workload
from tests.kube.test_plane import running_pods

USER = "elasticd"
RIGHTS = FOLDER / "components/victims/rbac.yaml"
PODS = "/api/v1/namespaces/{}/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"

SPREAD = """
[[strategy]]
type = "spread"
subsets = [{ name = "base", labels = { pool = "base" }, max = 2 }, { name = "elastic", labels = { pool = "elastic" } }]
"""


@asynccontextmanager
async def spread_out(kube: Kube, namespace: str) -> AsyncIterator[None]:
    """Four pods at their set point: two on one node of the fixed part, one on each of two elastic ones."""
    kube.loads.set_load(namespace, "web", cpu=0.2)
    made = workload(replicas=4)
    made["spec"]["template"]["spec"]["nodeSelector"] = {"for": namespace}
    nodes = [
        NodeSpec(f"{pool}-{number}-{namespace}", cpu=cpu, labels={"pool": pool, "for": namespace})
        for pool, number, cpu in (("base", 0, "200m"), ("elastic", 0, "100m"), ("elastic", 1, "100m"))
    ]
    async with kube.nodes.having(*nodes):
        await kube.client.apply(made, namespace)
        await running_pods(kube, namespace, 4)
        yield
        await kube.client.delete(f"{DEPLOYMENTS.format(namespace)}/web")


@asynccontextmanager
async def governed(kube: Kube, namespace: str, folder: Path) -> AsyncIterator[Running]:
    policies = {"web": policy(namespace)["web"] + SPREAD}
    async with running(folder, kube.plane.kubeconfig(USER), namespace, policies) as daemon:
        await wait_until(daemon.leads, what="the daemon leads")
        yield daemon


def annotated(pods: Objects, key: str = VICTIM) -> set[str]:
    """The pods that have the annotation."""
    return {pod["metadata"]["name"] for pod in pods if key in pod["metadata"].get("annotations", {})}


async def pods_of(kube: Kube, namespace: str) -> Objects:
    return await kube.client.list(PODS.format(namespace))


async def cleared(kube: Kube, namespace: str) -> None:
    async def none() -> bool:
        return not annotated(await pods_of(kube, namespace))

    await wait_until(none, what="no pod is marked")


@asynccontextmanager
async def watched(kube: Kube, *paths: str) -> AsyncIterator[Objects]:
    """Every version of these objects, in the order in which they were written."""
    seen: Objects = []

    async def watch(path: str) -> None:
        async for kind, one in kube.client.follow(path):
            if kind != "DELETED":
                seen.append(one)

    tasks = [asyncio.create_task(watch(path)) for path in paths]
    try:
        yield seen
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def version(one: JSON) -> int:
    """Of one etcd, so that versions of different objects can be compared."""
    return int(one["metadata"]["resourceVersion"])


async def test_elastic_pods_are_marked_before_scale_in_and_unmarked_after(
    kube: Kube, namespace: str, tmp_path: Path
) -> None:
    async with (
        shipped_rights(kube.plane, USER, namespace),
        granted_from(kube.plane, RIGHTS, USER, namespace),
        spread_out(kube, namespace),
        watched(kube, PODS.format(namespace), DEPLOYMENTS.format(namespace)) as seen,
        governed(kube, namespace, tmp_path / "one") as daemon,
    ):
        pods = await pods_of(kube, namespace)
        elastic = {pod["metadata"]["name"] for pod in pods if pod["spec"]["nodeName"].startswith("elastic")}
        kube.loads.set_load(namespace, "web", cpu=0.1)
        await scaled(kube, namespace, 2)
        await running_pods(kube, namespace, 2)
        await cleared(kube, namespace)
        await wait_until(lambda: any(_count(one) == 2 for one in seen), what="the watch has caught up")
        decided = [one for one in read(daemon.folder / "state") if isinstance(one, Decision) and one.action]
    fell = min(version(one) for one in seen if _count(one) == 2)
    marks = [one for one in seen if annotated([one])]
    assert len(elastic) == 2
    assert {one["metadata"]["name"] for one in marks} == elastic
    for name in elastic:
        assert min(version(one) for one in marks if one["metadata"]["name"] == name) < fell
    assert {one["metadata"]["annotations"][COST] for one in marks} == {"-1000000", "-999999"}
    assert {one["metadata"]["annotations"][VICTIM] for one in marks} == {"web"}
    assert [[mark.reason for mark in one.marks] for one in decided] == [
        [f"goes as number {number}: spread -2 (elastic has 2, its share is 0)" for number in (1, 2)]
    ]
    assert "SubsetsFilled: base 2 of 2, elastic 2 of 2" in {
        f"{limit.reason}: {limit.message}" for one in decided for limit in one.limits
    }


def _count(one: JSON) -> int | None:
    """The count that a version of the Deployment asks for."""
    found: int | None = one["spec"].get("replicas")
    return found


async def test_without_the_right_to_mark_pods_scale_in_is_refused(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with (
        shipped_rights(kube.plane, USER, namespace),
        spread_out(kube, namespace),
        governed(kube, namespace, tmp_path / "one") as daemon,
    ):
        kube.loads.set_load(namespace, "web", cpu=0.1)

        def refused() -> str:
            outcome = daemon.explained(f"{namespace}/Deployment/web")["outcome"]
            return outcome["message"] if outcome and outcome.get("code") == 403 else ""

        line = await wait_until(refused, what="the scale-in is refused")
        assert "could not be marked (goes as number 1: spread -2 (elastic has 2, its share is 0)): " in line
        assert 'cannot patch resource "pods"' in line
        assert "\n" not in line
        await scaled(kube, namespace, 4)
        assert annotated(await pods_of(kube, namespace)) == set()
        kube.loads.set_load(namespace, "web", cpu=0.3)
        await scaled(kube, namespace, 6)


async def may_not_scale(kube: Kube, namespace: str) -> bool:
    async with kube.plane.client(USER) as client:
        try:
            await client.get(f"{DEPLOYMENTS.format(namespace)}/web/scale")
        except ApiError as error:
            return error.status == 403
    return False


async def test_marks_of_a_killed_daemon_are_cleared_by_the_next(kube: Kube, namespace: str, tmp_path: Path) -> None:
    """The first daemon may mark and not scale, so that it is killed between the two."""
    role = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/elasticd-{namespace}"
    whole: list[dict[str, Any]] = only("ClusterRole")["rules"]
    marking = [rule for rule in whole if "deployments/scale" not in rule["resources"]]
    async with (
        shipped_rights(kube.plane, USER, namespace),
        granted_from(kube.plane, RIGHTS, USER, namespace),
        spread_out(kube, namespace),
    ):
        theirs = (await pods_of(kube, namespace))[0]["metadata"]["name"]
        cost = {"metadata": {"annotations": {COST: "7"}}}
        await kube.client.patch(f"{PODS.format(namespace)}/{theirs}", cost)
        async with governed(kube, namespace, tmp_path / "one") as daemon:
            await kube.client.patch(role, {"rules": marking})
            await wait_until(partial(may_not_scale, kube, namespace), what="it may no longer scale")
            kube.loads.set_load(namespace, "web", cpu=0.1)

            async def marked() -> bool:
                return bool(annotated(await pods_of(kube, namespace)))

            await wait_until(marked, what="pods are marked")
            await daemon.program.kill()
        assert await marked()
        assert _count(await kube.client.get(f"{DEPLOYMENTS.format(namespace)}/web")) == 4
        kube.loads.set_load(namespace, "web", cpu=0.2)
        await kube.client.patch(role, {"rules": whole})
        async with governed(kube, namespace, tmp_path / "two"):
            await cleared(kube, namespace)
        assert annotated(await pods_of(kube, namespace), COST) == {theirs}, "a cost of somebody else stays"
        assert _count(await kube.client.get(f"{DEPLOYMENTS.format(namespace)}/web")) == 4
