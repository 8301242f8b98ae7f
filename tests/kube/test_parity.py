"""Parity: the genuine HPA controller on one workload and elasticd on its twin, under the same load.

Two pairs of twins at once, one with the legacy rules and one with two metrics and a behavior, whose policy is imported
from the HPA, for more than ten minutes of steps, spikes and falls. Where Kubernetes 1.20 differs from today's rules,
elasticd's are set to `rules = "1.20"`.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from elasticd.migration.hpa import Controller, hpa_policy
from tests.kube import pki
from tests.kube.client import Client, wait_until
from tests.kube.conftest import Kube
from tests.kube.control_plane import ControlPlane, HpaTiming, NoControlPlane
from tests.kube.hollow import HollowNodes
from tests.kube.metrics_api import MetricsApi
from tests.kube.reports import named_nodes
from tests.kube.rights import shipped_rights
from tests.kube.running import running

PERIOD = 5
WINDOW = 30
TIMING = HpaTiming(
    sync_period=PERIOD, downscale_stabilization=WINDOW, cpu_initialization_period=1, initial_readiness_delay=1
)
# Seconds and cores for all pods together: each pod requests 100m, and half of that is the set point. The controllers
# tick at different moments, and metrics are up to 15 s old, so every stretch is long enough for both to settle: three
# steps of a rate that is looked at every 5 s, and the windows of stabilization.
LOAD = [
    (30, 0.15), (65, 0.5), (65, 0.95), (80, 0.3), (40, 0.31), (70, 0.06), (60, 0.4), (70, 0.2),
    (70, 0.6), (60, 0.48), (75, 0.1), (50, 0.05),
]  # fmt: skip
MINUTES = sum(seconds for seconds, _ in LOAD) / 60
BEHAVIOR = {
    "scaleUp": {"policies": [{"type": "Pods", "value": 3, "periodSeconds": 15}], "stabilizationWindowSeconds": 0},
    "scaleDown": {
        "policies": [{"type": "Percent", "value": 50, "periodSeconds": 15}],
        "stabilizationWindowSeconds": 20,
    },
}
MEMORY = {"type": "AverageValue", "averageValue": "128Mi"}
"""A second metric, of which each pod uses half."""
POLICY = """
mode = "act"
interval = 5
jitter = 0
workload = {{ namespace = "{namespace}", name = "{name}" }}
replicas = {{ min = 1, max = 20 }}

[[strategy]]
type = "hpa"
rules = "{rules}"
metrics = [{{ type = "Resource", resource = "cpu", utilization = 50 }}]
downscale_stabilization = 30
cpu_initialization_period = 1
initial_readiness_delay = 1
"""
# The HPA controller looks every 5 s whatever is new: by the paper's cadence elasticd keeps to its own times as well.
PACE = """
[[strategy]]
type = "cadence"
mode = "paper"
slow = 5
medium = 5
fast = 5
"""
ELASTICD_BEHAVIOR = """
[strategy.behavior.scale_up]
stabilization_window = 0
policies = [{ type = "Pods", value = 3, period = 15 }]

[strategy.behavior.scale_down]
stabilization_window = 20
policies = [{ type = "Percent", value = 50, period = 15 }]
"""


@dataclass
class Sequence:
    """The counts that one workload was scaled to, each with the second it was seen at."""

    begun: float
    steps: list[tuple[float, int]] = field(default_factory=list)

    def see(self, replicas: int) -> None:
        """Note a count, if it is another than before."""
        if not self.steps or self.steps[-1][1] != replicas:
            self.steps.append((time.monotonic() - self.begun, replicas))

    @property
    def counts(self) -> list[int]:
        """The counts alone."""
        return [replicas for _, replicas in self.steps]


def twin(name: str) -> dict[str, Any]:
    """A Deployment of three pods of 100m."""
    labels = {"app": name}
    container = {"name": "main", "image": "example.test/main:1", "resources": {"requests": {"cpu": "100m"}}}
    pod = {"containers": [container], "terminationGracePeriodSeconds": 0}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def autoscaler(name: str, behavior: dict[str, Any] | None) -> dict[str, Any]:
    """The genuine HPA of a twin."""
    target = {"type": "Utilization", "averageUtilization": 50}
    spec: dict[str, Any] = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": 1,
        "maxReplicas": 20,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    if behavior:
        spec["behavior"] = behavior
        spec["metrics"].append({"type": "Resource", "resource": {"name": "memory", "target": MEMORY}})
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": spec,
    }


@asynccontextmanager
async def quiet_cluster(folder: Path) -> AsyncIterator[Kube]:
    """A cluster for this test alone, whose HPA controller has this test's timing."""
    plane = ControlPlane(folder, hpa=TIMING)
    try:
        async with plane, plane.client() as client, HollowNodes(client, named_nodes(4)) as nodes:
            certificate = pki.make_server_certificate(plane.folder, "metrics", plane.authority)
            async with MetricsApi(client, certificate) as metrics:
                yield Kube(plane, client, nodes, metrics)
    except NoControlPlane as missing:
        pytest.skip(str(missing))


def rules_of(kube: Kube) -> str:
    """The rules of the HPA controller that runs there."""
    return "1.20" if kube.plane.version[:2] == (1, 20) else "current"


def policy(kube: Kube, name: str) -> str:
    """The policy of a twin, by the rules of the HPA controller that runs beside it."""
    return POLICY.format(namespace="default", name=name, rules=rules_of(kube))


def imported(hpa: dict[str, Any], rules: str = "current") -> str:
    """The policy that `elasticd import` makes of an HPA under this test's controller, and lets it act."""
    controller = Controller(PERIOD, 0.1, WINDOW, 1.0, 1.0, rules)
    text = hpa_policy(hpa, "hpa.yaml", "default", controller).text
    return text.replace('mode = "observe"', 'mode = "act"\njitter = 0', 1)


def load_at(begun: float, now: float) -> float:
    """The load on each twin, in cores."""
    passed = now - begun
    for seconds, cores in LOAD:
        if passed < seconds:
            return cores
        passed -= seconds
    return LOAD[-1][1]


async def follow(client: Client, namespace: str, sequences: dict[str, Sequence]) -> None:
    """Note every count that each workload is scaled to, by a watch that misses none."""
    async for _, one in client.follow(f"/apis/apps/v1/namespaces/{namespace}/deployments"):
        if one["metadata"]["name"] in sequences:
            sequences[one["metadata"]["name"]].see(one["spec"]["replicas"])


def table(rules: str, hpa: Sequence, ours: Sequence) -> str:
    """Both sequences: the counts, and the second at which each was set."""
    rows = [f"{rules}: replicas, and the second they were set at, over {MINUTES:.1f} minutes of load"]
    for name, one in (("HPA", hpa), ("elasticd", ours)):
        rows.append(f"  {name:<9}" + "".join(f"{count:>4}" for _, count in one.steps))
        rows.append(f"  {'':<9}" + "".join(f"{at:>4.0f}" for at, _ in one.steps))
    return "\n".join(rows)


@pytest.mark.timeout(1200)
async def test_elasticd_and_the_genuine_hpa_scale_twins_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with quiet_cluster(tmp_path / "kube") as kube:
        client, namespace = kube.client, "default"
        pairs = {"legacy": ("hpa-legacy", "our-legacy"), "behavior": ("hpa-behavior", "our-behavior")}
        twins = [name for pair in pairs.values() for name in pair]
        for name in twins:
            kube.loads.set_load(namespace, name, cpu=LOAD[0][1])
        await client.apply([twin(name) for name in twins], namespace)

        async def all_run() -> bool:
            pods = await client.list(f"/api/v1/namespaces/{namespace}/pods")
            return len([pod for pod in pods if pod["status"]["phase"] == "Running"]) == 3 * len(twins)

        await wait_until(all_run, what="all twins run")
        policies = {
            "our-legacy": policy(kube, "our-legacy") + PACE,
            "our-behavior": imported(autoscaler("our-behavior", BEHAVIOR), rules_of(kube)) + PACE,
        }
        hpas = [autoscaler("hpa-legacy", None), autoscaler("hpa-behavior", BEHAVIOR)]
        async with shipped_rights(kube.plane, "elasticd", namespace) as rights:
            sequences: dict[str, Sequence] = {}
            async with running(tmp_path / "elasticd", rights.kubeconfig, namespace, policies) as daemon:
                await client.apply(hpas, namespace)
                begun, monotonic = time.time(), time.monotonic()
                sequences.update({name: Sequence(monotonic) for name in twins})
                for name in twins:
                    kube.loads.set_load(namespace, name, cpu=partial(load_at, begun))
                watching = asyncio.create_task(follow(client, namespace, sequences))
                await asyncio.sleep(MINUTES * 60)
                watching.cancel()
                daemon.program.check()
        with capsys.disabled():
            print()
            for rules, (hpa, ours) in pairs.items():
                print(table(rules, sequences[hpa], sequences[ours]))
        for hpa, ours in pairs.values():
            assert sequences[ours].counts == sequences[hpa].counts
            assert len(sequences[hpa].counts) > 8, "the load must make them move"
