"""`elasticd check --connect` on a genuine API server: what is missing, what is needless, and what sources answer."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kube.broker import OPEN, Broker
from tests.kube.conftest import Kube
from tests.kube.rights import FOLDER, granted_from, shipped_rights
from tests.kube.test_plane import deployment, running_pods

USER = "elasticd"
SETTINGS = """
[cluster]
kubeconfig = "{kubeconfig}"
lease = {{ namespace = "{namespace}" }}
{more}
"""
WEB = """
mode = "act"
[workload]
namespace = "{namespace}"
name = "web"
[replicas]
max = 5
[[strategy]]
type = "hpa"
"""
SETS = """
mode = "act"
[select]
namespaces = ["{namespace}"]
kind = "ReplicaSet"
[replicas]
max = 5
[[strategy]]
type = "hpa"
"""
POOL = """
mode = "act"
[pool]
namespaces = ["{namespace}"]
[[strategy]]
type = "filters"
[[strategy]]
type = "preemption"
"""
JOBS = """
mode = "act"
[job]
namespace = "{namespace}"
name = "transcode"
[job.template]
apiVersion = "batch/v1"
kind = "Job"
spec.template.spec = {{ restartPolicy = "Never", containers = [{{ name = "main", image = "x" }}] }}
[replicas]
max = 5
[[strategy]]
type = "jobs"
queue = [{{ series = "queue" }}]
"""
MQTT = """
[[source]]
type = "mqtt"
host = "127.0.0.1"
port = {port}
[[source.topic]]
topic = "{{namespace}}/{{workload}}/queue"
series = "queue"
subject = "workload"
"""


@dataclass(frozen=True)
class Told:
    """What the command printed, and its exit code."""

    code: int
    lines: list[str]


async def check(folder: Path, *arguments: str) -> Told:
    """Run the command; in a thread, for the metrics API of the tests is served by this process."""
    command = [sys.executable, "-m", "elasticd", "check", str(folder), "--connect", *arguments]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return Told(done.returncode, done.stdout.splitlines())


def written(kube: Kube, folder: Path, namespace: str, more: str = "", user: str = USER, **policies: str) -> Path:
    """A folder of settings and policies."""
    (folder / "policies").mkdir()
    kubeconfig = kube.plane.kubeconfig(user)
    (folder / "elasticd.toml").write_text(SETTINGS.format(kubeconfig=kubeconfig, namespace=namespace, more=more))
    for name, text in policies.items():
        (folder / "policies" / f"{name}.toml").write_text(text.format(namespace=namespace))
    return folder


async def given(stack: AsyncExitStack, kube: Kube, namespace: str, files: Sequence[str]) -> None:
    """The shipped rights, and those of more files, for as long as the stack is open."""
    await stack.enter_async_context(shipped_rights(kube.plane, USER, namespace))
    for file in files:
        await stack.enter_async_context(granted_from(kube.plane, FOLDER / file, USER, namespace))


async def test_with_the_shipped_rights_and_a_workload_all_is_well(kube: Kube, namespace: str, tmp_path: Path) -> None:
    await kube.client.apply(deployment("web", 1), namespace)
    await running_pods(kube, namespace, 1)
    async with AsyncExitStack() as stack:
        await given(stack, kube, namespace, [])
        told = await check(written(kube, tmp_path, namespace, web=WEB))
    assert told.code == 0
    cluster, needless, source, fine = told.lines
    assert cluster.startswith("cluster: https://127.0.0.1:")
    assert ", version v1." in cluster
    assert needless.startswith("rights: needless: ")
    assert "statefulsets" in needless
    assert "deployments.apps" not in needless
    assert source.startswith("source resource-metrics: answers in ")
    assert source.endswith("of cpu, memory")
    assert fine == "1 policy is fine"


async def test_jobs_and_a_broker_are_well_where_they_are(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        await given(stack, kube, namespace, ["components/jobs/rbac.yaml"])
        broker = await stack.enter_async_context(Broker(tmp_path, OPEN))
        folder = written(kube, tmp_path, namespace, MQTT.format(port=broker.port), jobs=JOBS)
        await broker.publish(f"{namespace}/transcode/queue", 3, retain=True)
        well = await check(folder)
        await broker.stop()
        ill = await check(folder)
    assert [line for line in well.lines if "failed" in line or "missing" in line] == []
    assert any(line.startswith("source mqtt: answers in ") for line in well.lines)
    assert (well.code, ill.code) == (0, 69)
    assert any(line.startswith("source mqtt: failed: queue: broker 127.0.0.1") for line in ill.lines)


async def test_missing_rights_of_a_pool_are_reported_with_their_file(
    kube: Kube, namespace: str, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        await given(stack, kube, namespace, [])
        told = await check(written(kube, tmp_path, namespace, pool=POOL))
    missing = [line.removeprefix("rights: missing: ") for line in told.lines if "missing" in line]
    assert told.code == 69
    assert missing == [
        (
            f"create pods/binding, get pods in namespace {namespace}, to put pods on nodes (for pool): "
            "see config/kubernetes/components/placing/rbac.yaml"
        ),
        (
            f"get, list, create, patch, delete configmaps in namespace {namespace}, to remember pods that are "
            "recreated (for pool): see config/kubernetes/components/placing/rbac.yaml"
        ),
        (
            f"get secrets elasticd-restore-key, create secrets in namespace {namespace}, to seal the records of pods "
            "that are recreated (for pool): see config/kubernetes/components/placing/rbac.yaml"
        ),
        (
            f"create pods/eviction, patch pods/status in namespace {namespace}, to preempt or move pods "
            "(for pool): see config/kubernetes/components/placing/rbac.yaml"
        ),
        (
            f"list replicationcontrollers, list jobs.batch in namespace {namespace}, to know whether a pod that is "
            "moved would be recreated (for pool): see config/kubernetes/components/placing/rbac.yaml"
        ),
        (
            f"create pods in namespace {namespace}, to recreate pods that have no controller (for pool): "
            "see config/kubernetes/components/restore/rbac.yaml"
        ),
        (
            "list, watch poddisruptionbudgets.policy in all namespaces, to know whom budgets keep (for pool): "
            "see config/kubernetes/components/placing/rbac.yaml"
        ),
        (
            "list, watch namespaces in all namespaces, to know the labels and UIDs of namespaces (for pool): "
            "see config/kubernetes/components/placing/rbac.yaml"
        ),
    ]


async def test_with_the_rights_of_its_features_a_pool_lacks_none(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        await given(stack, kube, namespace, ["components/placing/rbac.yaml", "components/restore/rbac.yaml"])
        told = await check(written(kube, tmp_path, namespace, pool=POOL))
    assert [line for line in told.lines if "missing" in line or "placing" in line or "restore" in line] == []
    (needless,) = [line for line in told.lines if "needless" in line]
    assert "watch replicasets.apps" in needless
    assert not [right for right in ("watch deployments", "watch statefulsets", "events") if right in needless]
    assert told.code == 0


async def test_rights_that_nothing_needs_are_reported_with_their_file(
    kube: Kube, namespace: str, tmp_path: Path
) -> None:
    await kube.client.apply(deployment("web", 1), namespace)
    files = [
        "components/placing/rbac.yaml",
        "components/victims/rbac.yaml",
        "components/jobs/rbac.yaml",
        "components/kubelet/rbac.yaml",
    ]
    async with AsyncExitStack() as stack:
        await given(stack, kube, namespace, files)
        found = json.loads((await check(written(kube, tmp_path, namespace, web=WEB), "--json")).lines[0])
    needless: list[Any] = [one["text"] for one in found["tried"] if one["result"] == "needless"]
    assert (found["policies"], found["errors"]) == (1, [])
    for rights, component in (
        ("patch pods", "victims"),
        ("watch jobs.batch", "jobs"),  # to list them is of placing, too
        ("get nodes/proxy", "kubelet"),
    ):
        file = f"config/kubernetes/components/{component}/rbac.yaml"
        assert f"{rights} in all namespaces: nothing that is on needs it ({file})" in needless
    assert sum("components/placing/rbac.yaml" in text for text in needless) == 2  # of all namespaces, and of its own


async def test_an_administrators_rights_are_reported_in_one_line(kube: Kube, namespace: str, tmp_path: Path) -> None:
    await kube.client.apply(deployment("web", 1), namespace)
    told = await check(written(kube, tmp_path, namespace, user="admin", web=WEB))
    assert [line for line in told.lines if line.startswith("rights")] == [
        (
            "rights: needless: it may do anything: give elasticd an account of its own, with the rights of "
            "config/kubernetes/rbac.yaml"
        )
    ]
    assert told.code == 0


async def test_without_any_rights_each_is_reported(kube: Kube, namespace: str, tmp_path: Path) -> None:
    told = await check(written(kube, tmp_path, namespace, web=WEB))
    missing = [line for line in told.lines if line.startswith("rights: missing: ")]
    assert told.code == 69
    assert (
        "list, watch pods in all namespaces, to see pods (for elasticd): see config/kubernetes/rbac.yaml" in missing[0]
    )
    assert any(f"get, patch deployments.apps/scale in namespace {namespace}, to scale" in line for line in missing)
    assert any(line.startswith("source resource-metrics: failed: ") for line in told.lines)


async def test_what_is_not_there_is_reported_with_the_nearest_name(kube: Kube, namespace: str, tmp_path: Path) -> None:
    await kube.client.apply(deployment("web", 1), namespace)
    await running_pods(kube, namespace, 1)
    rollout = WEB.replace('name = "web"', 'name = "web"\nkind = "Rollout"\napi_version = "argoproj.io/v1alpha1"')
    more = '[[source]]\ntype = "resource-metrics"\n[[source]]\ntype = "prometheus"\nurl = "http://127.0.0.1:1"\n'
    more += '[[source.series]]\nname = "x"\nquery = "x"\nsubject = "workload"\n'
    async with AsyncExitStack() as stack:
        await given(stack, kube, namespace, [])
        policies = {"web": WEB.replace('"web"', '"wbe"'), "rollout": rollout, "sets": SETS}
        told = await check(written(kube, tmp_path, namespace, more, **policies))
    assert told.code == 69
    assert (
        f'policy web: absent: there is no {namespace}/Deployment/wbe, did you mean "{namespace}/Deployment/web"?'
        in (told.lines)
    )
    assert "policy sets: absent: it selects no ReplicaSet that it may scale" in told.lines
    (owned,) = [line for line in told.lines if line.startswith("policy sets: skipped: ")]
    assert "1 workload whose count an owner sets: " in owned
    assert owned.endswith(" (of Deployment/web)")
    assert any(
        line.startswith('kind argoproj.io/v1alpha1/Rollout: failed: the server does not serve apiVersion "argoproj.io/')
        for line in told.lines
    )
    assert any(line.startswith("source prometheus: failed: ") for line in told.lines)


async def test_a_server_that_does_not_answer_is_reported_at_once(kube: Kube, namespace: str, tmp_path: Path) -> None:
    folder = written(kube, tmp_path, namespace, web=WEB)
    text = kube.plane.kubeconfig(USER).read_text()
    (tmp_path / "kubeconfig").write_text(text.replace("https://127.0.0.1:", "https://127.0.0.1:1#"))
    settings = folder / "elasticd.toml"
    settings.write_text(settings.read_text().replace(str(kube.plane.kubeconfig(USER)), str(tmp_path / "kubeconfig")))
    told = await check(folder)
    assert told.code == 69
    assert told.lines[0].startswith("cluster: failed: ")
    assert told.lines[1:] == ["source resource-metrics: skipped: the cluster must answer first", "1 policy is fine"]
