"""An API server that lists versions that it does not serve, as while another is newer, or an upgrade was undone."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from elasticd.base.clock import WallClock
from elasticd.cluster.kubernetes import Kubernetes, LeaseSettings
from elasticd.model.workload import Ref
from tests.kube.client import Client, wait_until
from tests.kube.control_plane import ControlPlane, NoControlPlane
from tests.kube.test_cluster import DEPLOYMENT, manifest

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
NEWER = "v99"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
HPA = {"metadata": {"name": "theirs"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 9}}
PDB = {"metadata": {"name": "pdb"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}


@pytest_asyncio.fixture(loop_scope="session")
async def client(tmp_path: Path) -> AsyncIterator[tuple[ControlPlane, Client]]:
    """An API server that shares its etcd with a newer one."""
    try:
        async with ControlPlane(tmp_path / "kube", controllers=False, scheduler=False) as plane, plane.client() as one:
            for group in ("autoscaling", "policy"):
                spec = {"group": group, "version": NEWER, "groupPriorityMinimum": 17900, "versionPriority": 99}
                await one.create(API_SERVICES, {"metadata": {"name": f"{NEWER}.{group}"}, "spec": spec})
            yield plane, one
    except NoControlPlane as missing:
        pytest.skip(str(missing))


async def test_hpas_and_budgets_are_seen_in_what_is_served(client: tuple[ControlPlane, Client]) -> None:
    plane, one = client

    async def is_listed() -> bool:
        groups = [await one.get(f"/apis/{group}") for group in ("autoscaling", "policy")]
        return all(NEWER in [version["version"] for version in group["versions"]] for group in groups)

    await wait_until(is_listed, what="the newer versions are listed")
    await one.apply(manifest(DEPLOYMENT), "default")
    await one.create("/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", HPA)
    policy = "policy/v1" if await one.serves("policy/v1") else "policy/v1beta1"
    await one.create(f"/apis/{policy}/namespaces/default/poddisruptionbudgets", PDB)
    table = Kubernetes(kubeconfig=str(plane.kubeconfig()), lease=LeaseSettings(enabled=False))
    async with table.open(WallClock()) as cluster:
        snapshot = await cluster.observe(0.0, frozenset({DEPLOYMENT}))
        ref = Ref("default", "Deployment", "web", "apps/v1")
        assert snapshot.autoscaler(ref) == "HorizontalPodAutoscaler theirs"
        await wait_until(lambda: [budget.name for budget in snapshot.budgets() or ()] == ["pdb"])
        assert cluster.problems() == {}
