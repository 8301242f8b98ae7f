"""Pods leave nodes of a genuine cluster: the thesis's table after the labels changed, and a drain within a budget."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from elasticd.base.clock import WallClock
from elasticd.cluster.disruption import DisruptionGuard, DisruptionSettings
from elasticd.cluster.kubernetes import Kubernetes, LeaseSettings
from elasticd.journal import Journal
from elasticd.model.listener import Notice
from elasticd.model.placement import DisruptionBudget, PodOutcome
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect
from elasticd.ports.cluster import Kind, Snapshot
from elasticd.runtime.pools.mover import Mover
from elasticd.runtime.pools.placer import Placer
from elasticd_plugins.drain import Drain
from elasticd_plugins.filters import Filters
from tests.kube.client import JSON, wait_until
from tests.kube.conftest import Kube
from tests.kube.pools import (
    FRONT,
    PODS,
    all_run,
    bound,
    counting,
    create,
    create_budget,
    decided,
    deployment,
    five,
    moves,
    places,
    thesis,
    uids,
)
from tests.kube.reports import NodeSpec
from tests.kube.running import Running, running

POLICY = """
mode = "act"
[pool]
namespaces = ["{namespace}"]
nodes = {{ for = "{namespace}" }}
[moves]
every = 1
min_age = 0
[[strategy]]
type = "filters"
[[strategy]]
type = "binding"
[[strategy]]
type = "load-balance"
[[strategy]]
type = "rebind"
dwell = 1
"""
LOOKS = "elasticd_move_plan_duration_seconds_count"


async def relabel(kube: Kube, namespace: str, **tiers: str) -> None:
    """Give nodes another tier, one after the other."""
    for name, tier in tiers.items():
        await kube.client.patch(f"/api/v1/nodes/{name}-{namespace}", {"metadata": {"labels": {"tier": tier}}})


async def found(kube: Kube, namespace: str) -> dict[str, str]:
    """The node of each pod, as the test calls it."""
    known = await places(kube, namespace)
    return {name: node.removesuffix(f"-{namespace}") for name, node in known.items()}


async def stand(kube: Kube, namespace: str, expected: dict[str, str]) -> None:
    """Wait until the pods are where they should be, and run."""

    async def do() -> bool:
        return await found(kube, namespace) == expected

    await wait_until(do, what=f"the pods are at {expected}")
    await all_run(kube, namespace, *(name for name, node in expected.items() if node))


async def test_t5_pods_follow_changed_labels_as_in_the_thesis(kube: Kube, namespace: str, tmp_path: Path) -> None:
    policies = {"bound": POLICY.format(namespace=namespace)}
    nodes = thesis(namespace, node1="frontend", node2="backend", node3="frontend")
    async with (
        kube.nodes.having(*nodes),
        running(tmp_path / "daemon", kube.plane.kubeconfig("admin"), namespace, policies) as daemon,
    ):
        await create(kube, namespace, *five())
        await decided(daemon, "pod5", "wait")
        others = {"pod1": "node1", "pod4": "node3", "pod5": ""}
        await stand(kube, namespace, {**others, "pod2": "node3", "pod3": "node1"})
        before = await uids(kube, namespace)

        await relabel(kube, namespace, node1="backend", node2="frontend", node3="backend")
        await stand(kube, namespace, {**others, "pod2": "node3", "pod3": "node2"})
        after = await uids(kube, namespace)
        assert {name for name in before if before[name] != after[name]} == {"pod3"}
        done = [one for one in moves(daemon) if one.verdict == "move"]
        assert [(one.pod.name, one.reason, one.target) for one in done] == [
            ("pod3", "NodeLabelChange", f"node2-{namespace}")
        ]


async def test_changed_labels_move_end_or_keep_pods_as_they_ask(kube: Kube, namespace: str, tmp_path: Path) -> None:
    policies = {"bound": POLICY.format(namespace=namespace)}
    async with (
        kube.nodes.having(*thesis(namespace, node1="frontend", node2="backend")),
        running(tmp_path / "daemon", kube.plane.kubeconfig("admin"), namespace, policies) as daemon,
    ):
        await create(
            kube,
            namespace,
            bound("ends", FRONT, nodeLabelChange="kill"),
            bound("stays", FRONT, nodeLabelChange="still"),
        )
        await kube.client.apply(deployment("web", 2, nodeSelector={"tier": "frontend"}), namespace)
        await counted(kube, namespace, {"node1": 4})
        before, earlier = await uids(kube, namespace), await looks(daemon)

        async def seen() -> bool:
            return await looks(daemon) >= earlier + 2  # the first may have begun before the last pod was there

        await wait_until(seen, what="the daemon has seen all pods there")
        await relabel(kube, namespace, node2="frontend", node1="backend")
        await counted(kube, namespace, {"node1": 1, "node2": 2})
        after = await uids(kube, namespace)
        assert "ends" not in after
        assert set(before.values()) & set(after.values()) == {before["stays"]}


async def looks(daemon: Running) -> float:
    """How often the daemon has looked at its pool."""
    _, metrics = await daemon.page("/metrics")
    return sum(float(line.split()[-1]) for line in metrics.splitlines() if line.startswith(LOOKS))


async def counted(kube: Kube, namespace: str, expected: dict[str, int]) -> None:
    """Wait until so many pods are on each node, and all run."""

    async def do() -> bool:
        return Counter((await found(kube, namespace)).values()) == expected

    await wait_until(do, what=f"there are {expected}")
    await all_run(kube, namespace, *await found(kube, namespace))


# A drain within a budget.


class _BeforeBudgetsAreKnown:
    """What a daemon sees that has not heard of a budget yet."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __getattr__(self, name: str) -> Any:
        return getattr(self._snapshot, name)

    def budgets(self) -> tuple[DisruptionBudget, ...]:
        return ()


class _Heard:
    """Keeps what became of evictions."""

    def __init__(self) -> None:
        self.outcomes: list[PodOutcome] = []

    def on(self, record: Notice) -> None:
        if isinstance(record, PodOutcome):
            self.outcomes.append(record)


def _as_it_is(snapshot: Snapshot) -> Snapshot:
    return snapshot


def _unaware(snapshot: Snapshot) -> Snapshot:
    return cast("Snapshot", _BeforeBudgetsAreKnown(snapshot))


@asynccontextmanager
async def draining(kube: Kube, namespace: str, seen: Callable[[Snapshot], Snapshot]) -> AsyncIterator[_Heard]:
    """All that a daemon has to place pods and to empty nodes with."""
    pool = PoolSelect(namespaces=(namespace,), nodes={"for": namespace})
    table = MovesTable(every=0.5, min_age=0.0, single=True)
    strategies = (Filters(), Drain())
    policy = PoolPolicy(name="drain", pool=pool, strategies=strategies, mode="act", interval=0.2, moves=table)
    lease = LeaseSettings(enabled=False, namespace=namespace)
    settings = Kubernetes(kubeconfig=str(kube.plane.kubeconfig("admin")), lease=lease)
    clock, journal, heard = WallClock(), Journal(), _Heard()
    async with settings.open(clock) as cluster:
        broker = DisruptionGuard(cluster, DisruptionSettings(), clock)

        async def look(now: float) -> Snapshot:
            kinds: frozenset[Kind] = frozenset()
            return seen(await broker.observe(now, kinds))

        placer = Placer(broker, look, journal, clock)
        placer.apply([policy])
        mover = Mover(broker, placer, journal, clock, [heard])
        tasks = [asyncio.create_task(placer.run()), asyncio.create_task(mover.run())]
        try:
            yield heard
        finally:
            for task in tasks:
                task.cancel()
            for done in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(done, asyncio.CancelledError), done
            await placer.actions.drain(5.0)
            await mover.actions.drain(5.0)


def evictions(kube: Kube, namespace: str) -> Counter[int]:
    """The answers of the API server to evictions, by their status, as its own log has them."""
    return Counter(
        entry["responseStatus"]["code"]
        for entry in kube.plane.audit()
        if entry.get("objectRef", {}).get("namespace") == namespace
        and entry["objectRef"].get("subresource") == "eviction"
    )


@pytest.mark.parametrize(
    ("seen", "refused"),
    [
        pytest.param(_as_it_is, False, id="a budget that is known"),
        pytest.param(_unaware, True, id="a budget of which only the API server knows"),
    ],
)
async def test_a_drained_node_empties_gradually_as_replacements_become_ready(
    kube: Kube,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    seen: Callable[[Snapshot], Snapshot],
    refused: bool,
) -> None:
    monkeypatch.setattr(kube.nodes, "startup", lambda _: 1.0)
    leaving, staying = (NodeSpec(f"{name}-{namespace}", labels={"for": namespace}) for name in ("leaving", "staying"))
    async with kube.nodes.having(leaving), draining(kube, namespace, seen) as heard:
        await kube.client.apply(deployment("web", 4), namespace)
        await counted(kube, namespace, {"leaving": 4})
        least = 4 if refused else 3
        budget = await create_budget(kube, namespace, "web", least, allowed=4 - least)
        async with kube.nodes.having(staying), counting(kube, namespace) as ready:
            await wait_until(lambda: ready and ready[-1]["web"] == 4, what="the test sees all pods")
            begun = len(ready)
            await kube.client.patch(f"/api/v1/nodes/{leaving.name}", {"spec": {"unschedulable": True}})
            if refused:
                refusal = "the API server has refused an eviction"
                await wait_until(lambda: any(one.code == 429 for one in heard.outcomes), what=refusal)
                await kube.client.patch(budget, {"spec": {"minAvailable": 3}})
            await counted(kube, namespace, {"staying": 4})
            await wait_until(lambda: ready[-1]["web"] == 4, what="all replacements are ready")
            assert min(one["web"] for one in ready[begun:]) == 3
            made = evictions(kube, namespace)
            assert made[201] == 4
            assert made[429] or not refused
            came = Counter((one.result, one.code, one.reason) for one in heard.outcomes)
            told = came.pop(("refused", 429, "Budget"), 0)
            assert bool(made[429]) <= told <= made[429]  # of each pod once, for as long as it stays so
            del came["refused", 0, "NotReplaced"]  # one goes at a time, whatever a budget would let go
            assert came == Counter({("done", 201, ""): 4})
            await empty(kube, namespace)


async def empty(kube: Kube, namespace: str) -> None:
    """Take the Deployment away while its nodes are there to end its pods."""
    await kube.client.patch(f"/apis/apps/v1/namespaces/{namespace}/deployments/web", {"spec": {"replicas": 0}})

    async def gone() -> Sequence[JSON]:
        return [] if await kube.client.list(PODS.format(namespace)) else [{}]

    await wait_until(gone, what="the pods are gone")
