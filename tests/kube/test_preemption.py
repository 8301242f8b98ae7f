"""Preemption on a genuine cluster: the thesis's table, with real evictions, and victims that come back in order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from elasticd.model.actions import Evict
from tests.kube.client import JSON, wait_until
from tests.kube.conftest import Kube
from tests.kube.pools import PODS, all_run, create, decided, decisions, manifest, places, uids
from tests.kube.reports import NodeSpec
from tests.kube.running import Running, running

POLICY = """
mode = "act"
[pool]
namespaces = ["{namespace}"]
nodes = {{ for = "{namespace}" }}
order = "fifo"
[[strategy]]
type = "filters"
[[strategy]]
type = "preemption"
mode = "paper"
"""

SIX = {
    "pod1": ("Never", "400m", "800Mi"),
    "pod2": ("OnFailure", "400m", "800Mi"),
    "pod3": ("Always", "400m", "800Mi"),
    "pod4": ("Never", "100m", "200Mi"),
    "pod5": ("OnFailure", "100m", "200Mi"),
    "pod6": ("Always", "100m", "200Mi"),
}


def of(name: str, restart: str, cpu: str, memory: str) -> JSON:
    return manifest(name, cpu, memory, restartPolicy=restart)


@asynccontextmanager
async def six(kube: Kube, namespace: str, folder: Path) -> AsyncIterator[Running]:
    """The thesis's node2, on which its six pods run, and a daemon that put them there."""
    node = NodeSpec(f"node2-{namespace}", cpu="1700m", memory="3500Mi", labels={"for": namespace})
    policies = {"batch": POLICY.format(namespace=namespace)}
    async with (
        kube.nodes.having(node),
        running(folder, kube.plane.kubeconfig("admin"), namespace, policies) as daemon,
    ):
        await create(kube, namespace, *(of(name, *what) for name, what in SIX.items()))
        await all_run(kube, namespace, *SIX)
        yield daemon


async def bound(kube: Kube, namespace: str) -> set[str]:
    return {name for name, node in (await places(kube, namespace)).items() if node}


@pytest.mark.parametrize(
    ("restart", "cpu", "memory", "victims"),
    [
        pytest.param("Never", "300m", "1000Mi", [], id="neverPod1"),
        pytest.param("Never", "500m", "2000Mi", [], id="neverPod2"),
        pytest.param("OnFailure", "300m", "1000Mi", ["pod1"], id="onfailurePod1"),
        pytest.param("OnFailure", "500m", "2000Mi", [], id="onfailurePod2"),
        pytest.param("Always", "300m", "1000Mi", ["pod1"], id="alwaysPod1"),
        pytest.param("Always", "500m", "2000Mi", ["pod1", "pod4", "pod2"], id="alwaysPod2"),
    ],
)
async def test_t3_table_6_11_of_the_thesis(
    kube: Kube, namespace: str, tmp_path: Path, restart: str, cpu: str, memory: str, victims: list[str]
) -> None:
    async with six(kube, namespace, tmp_path / "daemon") as daemon:
        before = await uids(kube, namespace)
        await create(kube, namespace, of("new", restart, cpu, memory))
        decision = await decided(daemon, "new", "preempt" if victims else "wait")
        assert [one.workload.name for one in decision.actions if isinstance(one, Evict)] == victims
        if victims:
            await all_run(kube, namespace, "new")

        async def anew() -> set[str]:
            """Those that were recreated: they wait, or are back where there is room for them."""
            now = await uids(kube, namespace)
            return {name for name in SIX if now.get(name) not in (None, before[name])}

        async def settled() -> bool:
            return await anew() == set(victims)

        await wait_until(settled, what="the victims are recreated")
        assert {"pod3", "pod5", "pod6"} <= await bound(kube, namespace)


async def test_t3_victims_return_at_head_or_tail_by_restart_policy(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with six(kube, namespace, tmp_path / "daemon") as daemon:
        before = await uids(kube, namespace)
        await create(kube, namespace, of("new", "Always", "500m", "2000Mi"))
        await decided(daemon, "new", "preempt")
        await all_run(kube, namespace, "new")

        async def all_are_back() -> bool:
            now = await uids(kube, namespace)
            return all(now.get(name) not in (None, before[name]) for name in ("pod1", "pod2", "pod4"))

        await wait_until(all_are_back, what="the victims wait, or are back where there is room for them")
        for name in ("pod1", "pod2"):
            await decided(daemon, name, "wait")
        await kube.client.delete(f"{PODS.format(namespace)}/new")
        await all_run(kube, namespace, "pod2", "pod1", "pod4")
        back = [one.pod.name for one in decisions(daemon) if one.verdict == "bind"]
        assert back[-2:] == ["pod2", "pod1"]


async def test_a_budget_protects_a_pod_and_the_next_gives_way(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with six(kube, namespace, tmp_path / "daemon") as daemon:
        path = f"{PODS.format(namespace)}/pod1"
        await kube.client.patch(path, {"metadata": {"labels": {"keep": "me"}}})
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"keep": "me"}}}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep"}}
        path = await kube.client.path_of(budget, namespace)
        await kube.client.apply({**budget, "spec": spec}, namespace)

        async def counted() -> bool:
            found = await kube.client.get(path)
            return bool(found.get("status", {}).get("currentHealthy") == 1)

        await wait_until(counted, what="the disruption controller has seen the pod")
        await create(kube, namespace, of("new", "Always", "300m", "700Mi"))
        await decided(daemon, "new", "preempt")
        await all_run(kube, namespace, "new")
        assert set(SIX) - await bound(kube, namespace) == {"pod4"}


HELD = "example.test/held"
"""While a pod has this finalizer it does not go, though it has been evicted."""


@asynccontextmanager
async def victim_that_stays(kube: Kube, namespace: str, daemon: Running) -> AsyncIterator[str]:
    """`new` waits for `pod1`, its victim, which is evicted and does not go before the end. Gives the path of `pod1`."""
    path = f"{PODS.format(namespace)}/pod1"
    await kube.client.patch(path, {"metadata": {"finalizers": [HELD]}})
    await create(kube, namespace, of("new", "Always", "300m", "1000Mi"))
    await decided(daemon, "new", "preempt")

    async def ends() -> bool:
        return "deletionTimestamp" in (await kube.client.get(path))["metadata"]

    await wait_until(ends, what="the victim has been evicted")
    yield path
    await kube.client.patch(path, {"metadata": {"finalizers": None}})


def evicted(kube: Kube, namespace: str) -> list[str]:
    """Whose evictions the API server carried out here, by its own log."""
    return [
        entry["objectRef"]["name"]
        for entry in kube.plane.audit()
        if entry.get("objectRef", {}).get("namespace") == namespace
        and entry["objectRef"].get("subresource") == "eviction"
        and entry["responseStatus"]["code"] < 300
        and "dryRun" not in entry["requestURI"]
    ]


async def test_no_second_victim_goes_while_the_first_terminates(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with six(kube, namespace, tmp_path / "daemon") as daemon:
        async with victim_that_stays(kube, namespace, daemon):
            await asyncio.sleep(10)
            assert evicted(kube, namespace) == ["pod1"]
            assert "new" not in await bound(kube, namespace)
        await all_run(kube, namespace, "new")
        assert evicted(kube, namespace) == ["pod1"]


async def test_nobody_goes_for_a_pod_that_is_gone(kube: Kube, namespace: str, tmp_path: Path) -> None:
    """It is deleted while its victim terminates: who was evicted for it is placed again, and nobody else goes."""
    async with six(kube, namespace, tmp_path / "daemon") as daemon:
        async with victim_that_stays(kube, namespace, daemon):
            await kube.client.delete(f"{PODS.format(namespace)}/new", grace=0)
            await asyncio.sleep(3)
        await all_run(kube, namespace, *SIX)
        assert evicted(kube, namespace) == ["pod1"]
