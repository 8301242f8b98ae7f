"""Requests on a genuine cluster of 1.20, which cannot change them in running pods: recommended, and refused once."""

from pathlib import Path

from elasticd.journal import read
from elasticd.records import Decision, Outcome
from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.rights import FOLDER, granted_from, shipped_rights
from tests.kube.running import running
from tests.kube.test_daemon import workload

USER = "elasticd"
SOURCES = """
[[source]]
type = "resource-metrics"

[[source]]
type = "usage-histogram"
each = 1
enough = 0.001
file = "learnt/usage.json"
save = 1
"""
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


async def test_use_is_learnt_and_recommended_and_a_server_that_cannot_resize_is_asked_once(
    kube: Kube, namespace: str, tmp_path: Path
) -> None:
    kube.loads.set_load(namespace, "web", cpu=1.0)
    await kube.client.apply(workload(), namespace)
    async with (
        shipped_rights(kube.plane, USER, namespace) as rights,
        granted_from(kube.plane, FOLDER / "vertical-rbac.yaml", USER, namespace),
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
