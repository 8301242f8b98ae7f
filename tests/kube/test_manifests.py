"""That a real API server takes config/kubernetes whole, and that its rights are enough for the daemon and no more."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from elasticd.kit.evictability import SPARE
from elasticd.model.rights import BASE, FEATURES
from tests.kube.client import JSON, ApiError, Client, wait_until
from tests.kube.conftest import Kube
from tests.kube.rights import CLUSTER_WIDE, FOLDER, Rights, documents, only, shipped, shipped_rights
from tests.kube.running import running
from tests.kube.test_plane import deployment, running_pods

USER = "elasticd"


def resource_of(name: str) -> tuple[str, str]:
    """A resource and its subresource."""
    resource, _, subresource = name.partition("/")
    return resource, subresource


# What the daemon does by its own roles: verb, group, resource, subresource, and where. "own" is its own namespace.
NEEDED = [
    (right.verb, right.group, *resource_of(right.resource), "own" if feature.place == "home" else "all")
    for feature in FEATURES
    if feature.file == BASE
    for right in feature.rights
]

FORBIDDEN = [
    ("delete", "", "pods", "", "all"),
    ("create", "", "pods", "", "own"),
    ("create", "", "pods", "eviction", "all"),
    ("create", "", "pods", "exec", "own"),
    ("create", "", "pods", "binding", "all"),
    ("patch", "", "nodes", "", "all"),
    ("get", "", "secrets", "", "own"),
    ("list", "", "secrets", "", "all"),
    ("get", "", "configmaps", "", "own"),
    ("create", "", "serviceaccounts", "token", "own"),
    ("patch", "apps", "deployments", "", "own"),
    ("update", "apps", "deployments", "", "all"),
    ("delete", "apps", "deployments", "", "all"),
    ("patch", "apps", "daemonsets", "", "all"),
    ("patch", "autoscaling", "horizontalpodautoscalers", "", "all"),
    ("delete", "autoscaling", "horizontalpodautoscalers", "", "own"),
    ("update", "coordination.k8s.io", "leases", "", "all"),
    ("create", "coordination.k8s.io", "leases", "", "all"),
    ("delete", "coordination.k8s.io", "leases", "", "own"),
    ("list", "coordination.k8s.io", "leases", "", "own"),
    ("delete", "", "events", "", "all"),
    ("bind", "rbac.authorization.k8s.io", "clusterroles", "", "all"),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles", "", "all"),
    ("impersonate", "", "users", "", "all"),
    ("*", "*", "*", "", "all"),
]

Access = tuple[str, str, str, str, str]


@pytest_asyncio.fixture(loop_scope="session")
async def rights(kube: Kube, namespace: str) -> AsyncIterator[Rights]:
    async with shipped_rights(kube.plane, USER, namespace) as given:
        yield given


@pytest_asyncio.fixture(loop_scope="session")
async def daemon(kube: Kube, rights: Rights) -> AsyncIterator[Client]:
    """A client that may do what the daemon may."""
    async with kube.plane.client(rights.user) as client:
        yield client


async def may(client: Client, access: Access, own: str) -> bool:
    """What the API server answers when the client asks whether it may."""
    verb, group, resource, subresource, where = access
    asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
    asked |= {"namespace": own if where == "own" else ""}
    if resource == "leases" and verb in ("get", "update"):
        asked["name"] = only("Deployment")["metadata"]["name"]
    review = {"spec": {"resourceAttributes": asked}}
    answer = await client.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


async def test_daemon_may_do_all_that_it_does(daemon: Client, rights: Rights) -> None:
    assert [access for access in NEEDED if not await may(daemon, access, rights.namespace)] == []


async def test_daemon_may_do_nothing_that_is_dangerous(daemon: Client, rights: Rights) -> None:
    assert [access for access in FORBIDDEN if await may(daemon, access, rights.namespace)] == []


def test_daemon_moves_no_pod_of_its_own() -> None:
    assert only("Deployment")["spec"]["template"]["metadata"]["annotations"][SPARE] == "true"


async def refused(call: JSON) -> bool:
    """Whether the API server forbids a call."""
    with pytest.raises(ApiError) as caught:
        await call
    return caught.value.reason == "Forbidden"


async def test_daemon_scales_a_deployment_and_cannot_change_it_otherwise(
    kube: Kube, daemon: Client, namespace: str
) -> None:
    await kube.client.apply(deployment("web", 1), namespace)
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    scale = await daemon.get(f"{path}/scale")
    version = {"resourceVersion": scale["metadata"]["resourceVersion"]}
    await wait_until(lambda: _scaled(daemon, path, version))
    (pod, _) = await running_pods(kube, namespace, 2)
    assert await refused(daemon.patch(path, {"spec": {"replicas": 3}}))
    assert await refused(daemon.patch(path, {"spec": {"paused": True}}))
    assert await refused(daemon.delete(f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"))
    assert await refused(daemon.delete(path))


async def _scaled(daemon: Client, path: str, version: JSON) -> bool:
    # The genuine controller writes the status meanwhile, and a precondition that is no longer true is a 409.
    scale = await daemon.get(f"{path}/scale")
    version["resourceVersion"] = scale["metadata"]["resourceVersion"]
    scaled = await daemon.patch(f"{path}/scale", {"metadata": version, "spec": {"replicas": 2}})
    return bool(scaled["spec"]["replicas"] == 2)


async def test_daemon_keeps_its_own_lease_and_no_other(kube: Kube, daemon: Client, namespace: str) -> None:
    name = only("Deployment")["metadata"]["name"]
    leases = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
    lease = {"metadata": {"name": name}, "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15}}
    own = leases.format(namespace)
    made = await daemon.create(own, lease)
    made["spec"]["holderIdentity"] = "other"
    await daemon.replace(f"{own}/{name}", made)
    assert (await daemon.get(f"{own}/{name}"))["spec"]["holderIdentity"] == "other"
    other = {"metadata": {"name": "not-elasticd"}, "spec": lease["spec"]}
    theirs = await kube.client.create(own, other)
    assert await refused(daemon.replace(f"{own}/not-elasticd", theirs))
    assert await refused(daemon.create(leases.format("kube-system"), lease))


async def test_daemon_tells_of_itself_in_events(daemon: Client, namespace: str) -> None:
    involved = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "name": "web"}
    event = {
        "metadata": {"generateName": "web.", "namespace": namespace},
        "involvedObject": involved,
        "reason": "SuccessfulRescale",
        "message": "New size: 3",
        "type": "Normal",
    }
    events = f"/api/v1/namespaces/{namespace}/events"
    made = await daemon.create(events, event)
    counted = await daemon.patch(f"{events}/{made['metadata']['name']}", {"count": 2})
    assert counted["count"] == 2


async def test_daemon_reads_what_it_judges_by(daemon: Client) -> None:
    for path in (
        "/api/v1/pods",
        "/api/v1/nodes",
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/statefulsets",
        "/apis/apps/v1/replicasets",
        "/apis/metrics.k8s.io/v1beta1/pods",
        "/apis/metrics.k8s.io/v1beta1/nodes",
    ):
        await daemon.list(path)


POLICY = """
mode = "act"
interval = 0.5
workload = {{ namespace = "{namespace}", name = "web" }}
replicas = {{ max = 5 }}
[[strategy]]
type = "hpa"
metrics = [{{ type = "Resource", resource = "cpu", utilization = 50 }}]
cpu_initialization_period = 0
"""


async def test_the_daemon_leads_scales_and_reports_without_any_refusal(
    kube: Kube, rights: Rights, tmp_path: Path
) -> None:
    await kube.client.apply(deployment("web", 2), rights.namespace)
    await running_pods(kube, rights.namespace, 2)
    # 0.4 cores are 100 % of two pods' requests; at 50 % they are four pods.
    kube.loads.set_load(rights.namespace, "web", cpu=0.4)
    policies = {"web": POLICY.format(namespace=rights.namespace)}
    async with running(tmp_path / "daemon", rights.kubeconfig, rights.namespace, policies) as daemon:
        await running_pods(kube, rights.namespace, 4)
        events = f"/api/v1/namespaces/{rights.namespace}/events"
        told = {"fieldSelector": "reason=SuccessfulRescale"}
        await wait_until(lambda: kube.client.list(events, **told), what="an Event about the scaling")
        calls = api_calls((await daemon.page("/metrics"))[1])
    wanted = {("create", "leases"), ("patch", "deployments/scale"), ("create", "events"), ("list", "pods.metrics")}
    assert wanted <= {call[:2] for call in calls}
    assert [call for call in calls if call[2] in ("401", "403")] == [], daemon.program.tail()


def api_calls(metrics: str) -> set[tuple[str, str, str]]:
    """Verb, resource and code of the calls that the daemon has made."""
    found = set()
    for labels in re.findall(r"^elasticd_api_calls_total\{(.*?)\}", metrics, re.MULTILINE):
        call = dict(re.findall(r'(\w+)="(.*?)"', labels))
        found.add((call["verb"], call["resource"], call["code"]))
    return found


def missing(wanted: JSON, stored: JSON, where: str = "") -> list[str]:
    """The fields that the server did not keep as they were sent: it drops, silently, what it does not know."""
    if isinstance(wanted, dict) and isinstance(stored, dict):
        return [fault for key, value in wanted.items() for fault in missing(value, stored.get(key), f"{where}.{key}")]
    if isinstance(wanted, list) and isinstance(stored, list) and len(wanted) == len(stored):
        pairs = enumerate(zip(wanted, stored, strict=True))
        return [fault for i, (one, other) in pairs for fault in missing(one, other, f"{where}[{i}]")]
    # What is false or empty may be left out.
    return [] if wanted == stored or (not wanted and not stored) else [f"{where}: {wanted!r} became {stored!r}"]


@pytest_asyncio.fixture(loop_scope="session")
async def installed(kube: Kube) -> AsyncIterator[list[tuple[JSON, JSON]]]:
    """Everything in config/kubernetes, created: each manifest, and what the server made of it."""
    manifests = [await kube.client.as_served(one) for one in shipped()]
    try:
        yield [(one, (await kube.client.apply(one))[0]) for one in manifests]
    finally:
        for one in manifests:
            if one["kind"] in CLUSTER_WIDE:
                await kube.client.delete(await kube.client.path_of(one))


async def test_the_server_keeps_every_field_and_the_daemons_pods_run(
    kube: Kube, installed: list[tuple[JSON, JSON]]
) -> None:
    assert {fault for sent, made in installed for fault in missing(sent, made, sent["kind"])} == set()
    pods = await running_pods(kube, "elasticd", 2)
    # One node may drain at a time.
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
    budget = await kube.client.path_of(installed[_index(installed, "PodDisruptionBudget")][0])

    async def protected() -> bool:
        status = (await kube.client.get(budget))["status"]
        return (status.get("expectedPods"), status.get("disruptionsAllowed")) == (2, 1)

    await wait_until(protected, what="the budget knows both pods")

    async def served() -> bool:
        endpoints = await kube.client.get("/api/v1/namespaces/elasticd/endpoints/elasticd")
        found = endpoints.get("subsets") or [{"addresses": [], "ports": []}]
        return len(found[0]["addresses"]) == 2 and found[0]["ports"][0]["port"] == 9464

    await wait_until(served, what="the service finds both pods")


COMPONENTS = sorted(
    path
    for path in (FOLDER / "components").glob("*/*.yaml")
    if path.name != "kustomization.yaml" and path.parent.name != "podmonitor"  # whose kind only the operator brings
)


@pytest.mark.parametrize("file", COMPONENTS, ids=lambda file: file.parent.name)
async def test_the_server_takes_every_component(kube: Kube, namespace: str, file: Path) -> None:
    for manifest in documents(file):
        if "namespace" in manifest["metadata"]:
            manifest["metadata"]["namespace"] = namespace
        path = await kube.client.path_of(manifest)
        made = await kube.client.create(f"{path.rpartition('/')[0]}?dryRun=All", manifest)
        assert missing(manifest, made, manifest["kind"]) == []


def _index(installed: list[tuple[JSON, JSON]], kind: str) -> int:
    return [sent["kind"] for sent, _ in installed].index(kind)


def test_the_deployments_pods_have_no_privilege() -> None:
    spec = only("Deployment")["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "privileged": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
