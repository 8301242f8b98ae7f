"""Nodes of a genuine cluster are levelled by a daemon that has what they use from the metrics API, and are left alone
then; and who leaves an overloaded node by the thesis's rules, and waits where in the queue.

`pytest -m e2e -s tests/kube/test_rebalance.py` prints the figures of docs/measured.md.
"""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, NamedTuple

import numpy as np
import pytest

from elasticd.kit.load_score import idleness, load_score
from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.load import MEBIBYTE, Usage
from tests.kube.moving import TAINT, Daemon, Stage, stage
from tests.kube.pools import (
    all_run,
    counting,
    create,
    create_budget,
    decided,
    decisions,
    deployment,
    manifest,
    moves,
    places,
    uids,
)

SOURCES = """
[[source]]
type = "resource-metrics"
nodes = true
"""
POOL = """
mode = "act"
interval = 0.2
[pool]
namespaces = ["{namespace}"]
nodes = {{ pool = "{namespace}" }}
order = "fifo"
[[strategy]]
type = "filters"
"""
BY_REQUESTS = POOL + '[[strategy]]\ntype = "least-requested"\n'
HIGH, CALM = 0.10, 0.05
BY_LOAD = (
    POOL
    + f"""
[[strategy]]
type = "load-balance"
cpu = 1.0
memory = 0.0
[[strategy]]
type = "rebalance"
by = "deviation"
marks = [{{{{ resource = "cpu", high = {HIGH}, calm = {CALM}, low = 0.0 }}}}]
observations = 3
settle = 5
cooldown = 3
[moves]
every = 1
min_age = 1
"""
)
# One look, for paper mode remembers nothing: a second one could see what was measured before the first was carried out.
PAPER = (
    POOL
    + """
[[strategy]]
type = "static"
mode = "paper"
[[strategy]]
type = "rebalance"
mode = "paper"
amount = "{amount}"
[moves]
every = 3600
min_age = 0
rerun = true
"""
)
SPEC: dict[str, Any] = {
    "tolerations": [{"key": TAINT["key"], "operator": "Exists"}],
    "terminationGracePeriodSeconds": 1,
}
CORES = 16
BUSY, IDLE = [f"busy-{index}" for index in range(3)], [f"idle-{index}" for index in range(6)]
REPLICAS = 4
NEEDED = 6
"""Evictions: three busy pods of each of the two nodes are too many."""
RESTS = 12
"""Looks for which nothing must happen before the nodes count as level: longer than who gave up pods rests."""
FULL = Counter(dict.fromkeys([*BUSY, *IDLE], REPLICAS))


class Row(NamedTuple):
    """How even it is at a time."""

    when: str
    seconds: float
    spread: float
    most: float
    evictions: int


def table(rows: Sequence[Row]) -> str:
    """The rows as a table of Markdown."""
    lines = ["| | seconds | spread | most loaded | evictions |", "|---|---|---|---|---|"]
    lines += [
        f"| {one.when} | {one.seconds:.0f} | {one.spread:.1%} | {one.most:.0%} | {one.evictions} |" for one in rows
    ]
    return "\n".join(lines)


async def used(scene: Stage) -> dict[str, Usage]:
    """What the metrics API says of each node: cores and bytes."""
    found = await scene.kube.client.list("/apis/metrics.k8s.io/v1beta1/nodes")
    by_name = {one["metadata"]["name"]: one["usage"] for one in found}
    return {
        name: Usage(int(by_name[name]["cpu"].removesuffix("n")) / 1e9, int(by_name[name]["memory"][:-2]) * 1024.0)
        for name in scene.nodes
    }


async def looks(daemon: Daemon) -> int:
    """How often it has looked at its pool, by its metrics."""
    _, text = await daemon.running.page("/metrics")
    found = re.search(r'^elasticd_move_plan_duration_seconds_count{policy="pool"} (\d+)', text, re.MULTILINE)
    return int(found[1]) if found else 0


async def tell(daemon: Daemon) -> None:
    """Tell it to look. Both its proxy and the metrics that it reads are served by this process, which must not stand
    still meanwhile."""
    await asyncio.to_thread(daemon.running.elasticd, "rebalance", "--now")


async def look(daemon: Daemon, count: int, told: bool = False) -> None:
    """Wait until it has looked so often again, because it was told to or by itself."""
    wanted = await looks(daemon) + count
    if told:
        await tell(daemon)

    async def done() -> bool:
        return await looks(daemon) >= wanted

    await wait_until(done, within=90, what=f"it has looked {count} times")


async def cordon(scene: Stage, daemon: Daemon, *nodes: str) -> None:
    """Cordon these, and no others, and wait until the daemon sees it."""
    await scene.cordon(*nodes)

    async def seen() -> bool:
        _, text = await daemon.running.page("/nodes")
        states = {one["node"]: one["state"] for pool in json.loads(text or "[]") for one in pool["nodes"]}
        closed = {name for name, state in states.items() if "cordoned" in state}
        return closed == {*nodes} and states.keys() == {*scene.nodes}

    await wait_until(seen, within=60, what=f"it sees that {nodes} are cordoned")


class Levelling:
    """A pool in which load is uneven, and notes on how that changes."""

    def __init__(self, scene: Stage, ready: list[Counter[str]]) -> None:
        self.scene, self.ready = scene, ready
        self.rows: list[Row] = []
        self._begun = time.monotonic()
        self._uids: Mapping[str, str] = {}

    async def fill(self) -> None:
        """Pods that all request the same. The busy ones come to the first two nodes, the others to the next three; the
        last stays empty."""
        scene = self.scene
        a, b, *middle, last = scene.nodes
        for app in FULL:
            scene.kube.loads.set_each(scene.namespace, app, 1.6 if app in BUSY else 0.45)
        async with scene.daemon("places", pool=BY_REQUESTS.format(namespace=scene.namespace)) as daemon:
            for apps, closed in ((BUSY, [*middle, last]), (IDLE, [a, b, last])):
                await cordon(scene, daemon, *closed)
                for app in apps:
                    made = deployment(app, REPLICAS, "500m", **SPEC)
                    await scene.kube.client.create(scene.deployments, made)
                await self.all_ready(apps)
        await scene.cordon()

    async def all_ready(self, apps: Sequence[str]) -> None:
        """Wait until all of their pods are."""
        await wait_until(
            lambda: self.ready and all(self.ready[-1][app] == REPLICAS for app in apps),
            within=90,
            what=f"all of {', '.join(apps)} are ready",
        )

    def evictions(self) -> int:
        """How many the API server wrote."""
        return len(self.scene.written("pods", "eviction"))

    async def note(self, when: str) -> Row:
        """How it is now."""
        parts = [one.cpu / CORES for one in (await used(self.scene)).values()]
        self.rows.append(Row(when, time.monotonic() - self._begun, pstdev(parts), max(parts), self.evictions()))
        return self.rows[-1]

    async def start(self) -> Row:
        """From now on time counts."""
        self._begun = time.monotonic()
        self._uids = await uids(self.scene.kube, self.scene.namespace)
        return await self.note("start")

    async def level(self) -> bool:
        """Whether all pods are ready, and no node has too much; notes it when others are than before."""
        found = await uids(self.scene.kube, self.scene.namespace)
        if self.ready[-1] != FULL or len(found) != FULL.total():
            return False
        if found != self._uids:
            self._uids = found
            await self.note("moving")
        parts = [one.cpu / CORES for one in (await used(self.scene)).values()]
        return max(parts) <= fmean(parts) + HIGH

    async def settled(self, daemon: Daemon) -> bool:
        """Whether it is so, and stays so for longer than what gave up pods is let rest."""
        before, count = self._uids, await looks(daemon)
        while await self.level() and self._uids == before:
            if await looks(daemon) >= count + RESTS:
                return True
            await asyncio.sleep(0.5)
        return False

    async def together(self) -> str:
        """One of the idle apps of which two pods share a node."""
        found = await self.scene.kube.client.list(self.scene.pods)
        count = Counter((one["metadata"]["labels"]["app"], one["spec"]["nodeName"]) for one in found)
        return max(IDLE, key=lambda app: max(count[app, node] for node in self.scene.nodes))


@asynccontextmanager
async def levelling(kube: Kube, folder: Path) -> AsyncIterator[Levelling]:
    """Six nodes with pods on five of them, the busy ones on two, each of their Deployments with a budget."""
    async with stage(kube, folder, "abcdef", str(CORES), "64Gi") as scene, counting(kube, scene.namespace) as ready:
        it = Levelling(scene, ready)
        await it.fill()
        for app in BUSY:
            await create_budget(kube, scene.namespace, app, least=REPLICAS - 1)
        yield it


async def test_uneven_nodes_are_levelled_and_left_alone_until_load_changes(kube: Kube, tmp_path: Path) -> None:
    async with levelling(kube, tmp_path) as it:
        scene, ready = it.scene, it.ready
        start, begun = await it.start(), len(ready)
        policy = BY_LOAD.format(namespace=scene.namespace)
        async with scene.daemon("levels", sources=SOURCES, pool=policy) as daemon:
            await wait_until(lambda: it.settled(daemon), within=90, what="the nodes are level", every=0.5)
            level, before = await it.note("level"), await uids(kube, scene.namespace)
            await look(daemon, 10)
            still = await it.note("ten looks later")
            assert still.evictions == level.evictions
            assert await uids(kube, scene.namespace) == before
            assert ready[-1] == FULL
            # Which nodes new pods come to depends on timing: what is sure is that none is above the mark.
            assert start.spread > HIGH > still.spread
            assert await it.level()
            assert still.evictions <= 2 * NEEDED
            assert min(one[app] for one in ready[begun:] for app in BUSY) >= REPLICAS - 1

            kube.loads.set_each(scene.namespace, await it.together(), 2.5)
            more = "more load moves pods again"
            await wait_until(lambda: it.evictions() > still.evictions, within=90, what=more, every=1.0)
            await it.all_ready([*FULL])
        print("\n" + table(it.rows))


# Table T-6: a node that uses .80 of 4 cores and .70 of 8 GiB, where the pool's means are .60 and .55.

T_6 = {
    "n1": ("Never", 512, 0.30),
    "n2": ("Never", 512, 0.20),
    "n3": ("Never", 256, 0.25),
    "f1": ("OnFailure", 512, 0.40),
    "a1": ("Always", 1024, 0.90),
}
"""restartPolicy, MiB requested and used, cores used."""
T_6_NODES = ((0.80, 0.70), (0.50, 0.475), (0.50, 0.475))


def of_t_6() -> dict[str, tuple[int, str, float, float]]:
    """All pods of the table, and on each node one that uses the rest: place, restartPolicy, MiB, cores."""
    found = {name: (0, restart, float(memory), cpu) for name, (restart, memory, cpu) in T_6.items()}
    for place, (cpu, memory) in enumerate(T_6_NODES):
        mine = [one for one in found.values() if one[0] == place]
        left = 8192 * memory - sum(one[2] for one in mine), 4 * cpu - sum(one[3] for one in mine)
        found[f"rest-{place}"] = (place, "Always", *left)
    return found


async def score(scene: Stage) -> float:
    """The first node's, by what the metrics API says."""
    use = [(one.cpu / 4, one.memory / MEBIBYTE / 8192) for one in (await used(scene)).values()]
    alike = np.ones(len(use))
    factors = [(0.5, idleness(np.array(part), alike)) for part in zip(*use, strict=True)]
    return float(load_score(factors)[0])


async def scored(scene: Stage, wanted: float) -> None:
    """Wait until the first node has this score."""

    async def has() -> bool:
        return await score(scene) == pytest.approx(wanted, abs=2e-3)

    await wait_until(has, within=60, what=f"the score is {wanted}")


@asynccontextmanager
async def overloaded(kube: Kube, folder: Path, finalizers: Sequence[str] = ()) -> AsyncIterator[Stage]:
    """The three nodes of the table with its pods, as they are there: nothing is scaled."""
    async with stage(kube, folder, "123", "4", "8Gi") as scene:
        for name, (place, restart, memory, cpu) in of_t_6().items():
            kube.loads.set_usage(scene.namespace, name, Usage(cpu, memory * MEBIBYTE))
            requested = f"{T_6[name][1]}Mi" if name in T_6 else "64Mi"
            pod = manifest(name, memory=requested, restartPolicy=restart, nodeName=scene.nodes[place], **SPEC)
            pod["metadata"]["finalizers"] = list(finalizers) if name in T_6 else []
            await create(kube, scene.namespace, pod)
        await all_run(kube, scene.namespace, *of_t_6())
        await scored(scene, -2.644)
        yield scene


@asynccontextmanager
async def by_the_thesis(scene: Stage, amount: str) -> AsyncIterator[Daemon]:
    """A daemon that has looked at the pool once and found somebody to move."""
    policy = PAPER.format(namespace=scene.namespace, amount=amount)
    async with scene.daemon("thesis", sources=SOURCES, pool=policy) as daemon:

        async def found() -> bool:
            if await looks(daemon) and not moves(daemon.running):
                await tell(daemon)  # nothing was known of the nodes yet
            return bool(moves(daemon.running))

        await wait_until(found, within=90, what="somebody is to move", every=2.0)
        yield daemon


async def test_t6_pods_leave_an_overloaded_node_as_in_the_thesis(kube: Kube, tmp_path: Path) -> None:
    async with overloaded(kube, tmp_path) as scene:
        before = await uids(kube, scene.namespace)
        first, *others = scene.nodes
        async with by_the_thesis(scene, "threshold") as daemon:
            made = [(one.pod.name, one.verdict, one.node, one.target) for one in moves(daemon.running)]
            assert made == [("n1", "move", first, ""), ("n2", "move", first, "")]
            for name in ("n1", "n2"):
                await scene.runs(name, not_uid=before[name])
            found = await places(kube, scene.namespace)
            assert {found["n1"], found["n2"]} == {*others}
            await scored(scene, -0.811)

            await look(daemon, 1, told=True)
            assert len(moves(daemon.running)) == 2
            assert Counter(scene.written("pods", "eviction")) == {"n1": 1, "n2": 1}
            after = await uids(kube, scene.namespace)
            assert {name for name in before if before[name] != after[name]} == {"n1", "n2"}


HOLD = "example.test/hold"
"""While a pod has this finalizer it does not go, though it has been evicted."""


async def let_go(scene: Stage, *names: str) -> None:
    """Take the finalizer away."""
    for name in names:
        await scene.kube.client.patch(f"{scene.pods}/{name}", {"metadata": {"finalizers": None}})


async def leave(scene: Stage, *names: str) -> None:
    """Wait until these have been evicted, and none has gone."""

    async def leaving() -> bool:
        found = {one["metadata"]["name"]: one["metadata"] for one in await scene.kube.client.list(scene.pods)}
        return {name for name, one in found.items() if "deletionTimestamp" in one} == {*names}

    await wait_until(leaving, within=60, what=f"{names} are evicted")


async def test_t6_released_onfailure_pods_queue_first_and_others_last(kube: Kube, tmp_path: Path) -> None:
    """Down to the pool's means the four go that may (the table's other form). While they are held, nodes are closed, so
    that they meet in the queue, where one that nobody has moved waits."""
    gone = ("n1", "n2", "n3", "f1")
    async with overloaded(kube, tmp_path, [HOLD]) as scene, by_the_thesis(scene, "mean") as daemon:
        assert [(one.pod.name, one.verdict) for one in moves(daemon.running)] == [(name, "move") for name in gone]
        await leave(scene, *gone)
        before = await uids(kube, scene.namespace)
        await cordon(scene, daemon, *scene.nodes)
        await create(kube, scene.namespace, manifest("a-new-one", restartPolicy="Never", **SPEC))
        await decided(daemon.running, "a-new-one", "wait")
        await let_go(scene, *gone)
        for name in gone:
            await decided(daemon.running, name, "wait")
        assert not any(one.verdict == "bind" for one in decisions(daemon.running))
        # Once nodes are open again, load may move pods again.
        assert Counter(scene.written("pods", "eviction")) == dict.fromkeys(gone, 1)

        await scene.cordon()
        for name in gone:
            await scene.runs(name, not_uid=before[name])
        await scene.runs("a-new-one")
        order = list(dict.fromkeys(one.pod.name for one in decisions(daemon.running) if one.verdict == "bind"))
        assert (order[:2], {*order[2:]}) == (["f1", "a-new-one"], {"n1", "n2", "n3"})
        await let_go(scene, *T_6)
