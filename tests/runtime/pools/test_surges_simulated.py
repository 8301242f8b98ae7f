"""A drained node of a simulated cluster: every pod of its Deployments is moved by making another first, to the end."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from elasticd.base.clock import VirtualClock
from elasticd.cluster.simulated.cluster import SimulatedSnapshot
from elasticd.journal import Journal
from elasticd.kit.surge import SURGE
from elasticd.model.listener import Notice
from elasticd.model.moves import Underway
from elasticd.model.placement import PodOutcome
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect
from elasticd.model.workload import Pod
from elasticd.runtime.pools.mover import Mover
from elasticd.runtime.pools.placer import Placer
from elasticd_plugins.drain import Drain
from elasticd_plugins.filters import Filters
from elasticd_plugins.least_requested import LeastRequested
from tests.cluster.simulated.test_kit import KINDS, simulated

CORDONED_AT, END = 20.0, 150.0
NODES = [
    {"name": "old", "cpu": "2", "memory": "4Gi", "changes": [{"at": CORDONED_AT, "unschedulable": True}]},
    {"name": "new", "cpu": "4", "memory": "8Gi"},
]


class Site:
    """A daemon's loops over a simulated cluster, in steps of a fifth of a second."""

    def __init__(self, *workloads: dict[str, Any]) -> None:
        self.clock = VirtualClock(0.0)
        self.cluster = simulated(*workloads, nodes=NODES).build(self.clock)
        self.outcomes: list[PodOutcome] = []
        self.least = Counter[str]()
        self.flights: list[Underway] = []
        journal = Journal()
        self.placer = Placer(self.cluster, self.look, journal, self.clock)
        strategies = (Filters(), LeastRequested(), Drain())
        moves = MovesTable(every=3.0, min_age=1.0, surge=True)
        policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=strategies, mode="act", moves=moves)
        self.placer.apply([policy])
        self.mover = Mover(self.cluster, self.placer, journal, self.clock, [self])

    async def look(self, now: float) -> SimulatedSnapshot:
        return await self.cluster.observe(now, KINDS)

    def on(self, record: Notice) -> None:
        if isinstance(record, PodOutcome):
            self.outcomes.append(record)

    async def run(self) -> SimulatedSnapshot:
        """To the end; notes the fewest pods of each workload that were ready after the node was cordoned."""
        while self.clock.now() < END:
            for turn in (self.placer.turn, self.mover.turn):
                await turn()
            await self.mover.surging.tick(self.clock.now())
            for _ in range(5):
                await asyncio.sleep(0)
            await self.clock.sleep_until(self.clock.now() + 0.2)
            self._note(await self.look(self.clock.now()))
            self.flights += await self.mover.underway()
        await self.mover.actions.drain(0)
        await self.placer.actions.drain(0)
        return await self.look(self.clock.now())

    def _note(self, snapshot: SimulatedSnapshot) -> None:
        if self.clock.now() >= CORDONED_AT:
            for workload in snapshot.workloads():
                ready = sum(pod.ready is True and not pod.deleted for pod in snapshot.pods(workload))
                self.least[workload.ref.name] = min(ready, self.least.get(workload.ref.name, ready))


def web(name: str, replicas: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "cpu": "300m", "scheduler": "elasticd", "start_seconds": 3, **more}


@pytest.mark.parametrize(
    "workloads",
    [
        pytest.param([web("web", 6)], id="some of many"),
        pytest.param([web("one", 1, node_selector={}), web("two", 2), web("web", 3)], id="of several Deployments"),
        pytest.param([web("web", 3), web("web-api", 3)], id="one whose name begins as another's"),
    ],
)
async def test_a_drained_node_is_emptied_and_fewer_are_never_ready(workloads: list[dict[str, Any]]) -> None:
    site = Site(*workloads)
    end = await site.run()
    moved = [one for one in site.outcomes if (one.action, one.reason) == ("surge", "Moved")]
    assert moved
    assert set(end.on_nodes()) == {"new"}
    assert [workload.replicas for workload in end.workloads()] == [table["replicas"] for table in workloads]
    assert all(SURGE not in workload.annotations for workload in end.workloads())
    assert site.least == {table["name"]: table["replicas"] for table in workloads}
    assert len(_live(end)) == sum(table["replicas"] for table in workloads)
    assert end.pending() == ()


def _live(snapshot: SimulatedSnapshot) -> list[Pod]:
    return [pod for pods in snapshot.on_nodes().values() for pod in pods]


async def test_one_that_waits_for_its_turn_is_reported_once() -> None:
    site = Site(web("web", 6))
    await site.run()
    refused = Counter(one.pod.name for one in site.outcomes if one.reason == "UnderWay")
    assert set(refused.values()) == {1}


@pytest.mark.parametrize("replicas", [4, 8])
async def test_a_slowly_terminating_pod_is_still_reported_as_a_surge(replicas: int) -> None:
    site = Site(web("web", replicas, stop_seconds=6))
    await site.run()
    assert {one.how for one in site.flights} == {"surge"}
    for uid in {one.uid for one in site.flights}:
        mine = [one for one in site.flights if one.uid == uid]
        assert [one.since for one in mine] == sorted(one.since for one in mine)
        steps = [one.step for one in mine if one.ends]
        assert set(steps) == {f"down: {mine[0].pod.name} is ending"}
        assert len(steps) >= 5 / 0.2, "as long as it ends"
        assert [one.ends for one in mine] == sorted(one.ends for one in mine)
    assert await site.mover.underway() == []
