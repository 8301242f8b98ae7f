"""A drained node of a simulated cluster: every pod of its Deployments is moved by making another first, to the end."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from elasticd.base.clock import VirtualClock
from elasticd.cluster.disruption import DisruptionGuard, DisruptionSettings
from elasticd.cluster.simulated.cluster import SimulatedSnapshot
from elasticd.decision.workload.vetoes import FREEZE
from elasticd.journal import Journal
from elasticd.kit.calendars import Hours
from elasticd.kit.evictability import SPARE
from elasticd.kit.surge import SURGE
from elasticd.lab.simulate import play
from elasticd.model.actions import Mark, Scale
from elasticd.model.controllers import ROLLING
from elasticd.model.listener import Notice
from elasticd.model.moves import Underway
from elasticd.model.placement import PodOutcome
from elasticd.model.policy import Bounds, MovesTable, Policy, PoolPolicy, PoolSelect, Target
from elasticd.model.workload import Pod, Workload
from elasticd.runtime.loop import Loop
from elasticd.runtime.pools.mover import Mover
from elasticd.runtime.pools.placer import Placer
from elasticd.sources.poller import opened
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd_plugins.drain import Drain
from elasticd_plugins.filters import Filters
from elasticd_plugins.hpa import Hpa
from elasticd_plugins.hpa.options import Resource
from elasticd_plugins.least_requested import LeastRequested
from tests.cluster.simulated.test_kit import KINDS, simulated

CORDONED_AT, END = 20.0, 150.0
NODES: list[dict[str, Any]] = [
    {"name": "old", "cpu": "2", "memory": "4Gi", "changes": [{"at": CORDONED_AT, "unschedulable": True}]},
    {"name": "new", "cpu": "4", "memory": "8Gi"},
]


UNLIMITED = DisruptionSettings(within=1.0)


class Site:
    """A daemon's loops over a simulated cluster, in steps of a fifth of a second."""

    def __init__(
        self,
        *workloads: dict[str, Any],
        disruption: DisruptionSettings = UNLIMITED,
        surge_within: float = 300.0,
        does: Mapping[float, Callable[["Site"], Awaitable[object]]] = MappingProxyType({}),
        **options: Any,
    ) -> None:
        """`does`: what happens at which second."""
        self.clock, self.does, self.gone = VirtualClock(0.0), dict(does), dict[str, float]()
        self.real = simulated(*workloads, **{"nodes": NODES, **options}).build(self.clock)
        self.cluster = DisruptionGuard(self.real, disruption, self.clock)
        self.outcomes: list[PodOutcome] = []
        self.least = Counter[str]()
        self.here = set[str]()
        self.flights: list[Underway] = []
        journal = Journal()
        self.placer = Placer(self.cluster, self.look, journal, self.clock)
        strategies = (Filters(), LeastRequested(), Drain())
        moves = MovesTable(every=3.0, min_age=1.0, surge=True, surge_within=surge_within)
        policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=strategies, mode="act", moves=moves)
        self.placer.apply([policy])
        self.mover = Mover(self.cluster, self.placer, journal, self.clock, [self])

    async def look(self, now: float) -> SimulatedSnapshot:
        snapshot = await self.cluster.observe(now, KINDS)
        assert isinstance(snapshot, SimulatedSnapshot)
        return snapshot

    def on(self, record: Notice) -> None:
        if isinstance(record, PodOutcome):
            self.outcomes.append(record)

    async def run(self) -> SimulatedSnapshot:
        """To the end; notes the fewest pods of each workload that were ready after the node was cordoned."""
        while self.clock.now() < END:
            for at in [at for at in self.does if at <= self.clock.now()]:
                await self.does.pop(at)(self)
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
                pods = [pod for pod in snapshot.pods(workload) if not pod.deleted]
                ready = sum(pod.is_available(workload.min_ready, self.clock.now()) for pod in pods)
                self.least[workload.ref.name] = min(ready, self.least.get(workload.ref.name, ready))
            here = {pod.uid for pod in snapshot.on_nodes().get("old", ()) if not pod.deleted}
            self.gone |= {uid: self.clock.now() for uid in self.here - here}
            self.here = here

    async def pod(self) -> Pod:
        """A pod on the cordoned node."""
        return (await self.look(self.clock.now())).on_nodes()["old"][0]

    def told(self, word: str) -> tuple[str, ...]:
        """Where a word is told: in the journal, and as an Event."""
        places = {
            "journal": any(one.reason == word for one in self.outcomes),
            "event": any(one.reason == word for one in self.real.announcements),
        }
        return tuple(place for place, told in places.items() if told)


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


ALONE = web("one", 1, started=True, start_seconds=15)
"""A Deployment whose only pod is on the cordoned node, and whose replacement takes so long."""

OPENS: dict[str, Any] = {"at": 10.0, "unschedulable": False}
FIRST_ON_OLD = [NODES[0], {**NODES[1], "unschedulable": True, "changes": [OPENS]}]


async def spare(site: Site) -> None:
    pod = await site.pod()
    await site.cluster.act(Mark((await _one(site)).ref, pod.uid, {SPARE: "true"}, pod.name))


def freeze(way: str) -> Callable[[Site], Awaitable[object]]:
    async def act(site: Site) -> None:
        workload = await _one(site)
        await site.cluster.act(Mark(workload.ref, workload.uid, {FREEZE: way}))

    return act


def count(name: str, replicas: int) -> Callable[[Site], Awaitable[object]]:
    async def act(site: Site) -> None:
        workload = await _one(site, name)
        scale = Scale(workload.ref, workload.uid, workload.version, workload.replicas, replicas, "by hand")
        await site.real.act(scale)

    return act


async def _one(site: Site, name: str = "one") -> Workload:
    return next(each for each in (await site.look(site.clock.now())).workloads() if each.ref.name == name)


@pytest.mark.parametrize(
    ("does", "word"),
    [
        pytest.param(spare, "DoNotDisrupt", id="do not disrupt"),
        pytest.param(freeze("both"), "Frozen", id="frozen"),
        pytest.param(freeze("down; until 2099-01-01T00:00:00Z; by anna"), "Frozen", id="paused"),
    ],
)
async def test_a_pod_protected_while_its_surge_waits_stays(
    does: Callable[[Site], Awaitable[object]], word: str
) -> None:
    site = Site(ALONE, nodes=FIRST_ON_OLD, does={28.0: does})
    end = await site.run()
    (pod,) = end.on_nodes()["old"]
    (workload,) = end.workloads()
    assert (pod.deleted, workload.replicas, SURGE in workload.annotations) == (False, 1, False)
    assert (site.gone, site.least, len(_live(end))) == ({}, {"one": 1}, 1)
    assert site.told(word) == ("journal", "event")
    assert any(one.step.startswith("wait: ") and one.since < 28.2 for one in site.flights)


async def test_a_freeze_of_the_other_way_keeps_no_pod() -> None:
    site = Site(ALONE, nodes=FIRST_ON_OLD, does={28.0: freeze("up")})
    end = await site.run()
    assert (len(site.gone), set(end.on_nodes()), site.least) == (1, {"new"}, {"one": 1})


NIGHT = Hours(start="1 0 * * *", duration=60.0)
"""From 60 to 120 s."""

GUARDED = {"budgets": [{"name": "all", "min_available": 2}]}
BRIEF = {"started": False, "start_seconds": 5, "min_ready_seconds": 10}
SAID = {"Blackout": "no pod is moved: ", "Budget": "a PodDisruptionBudget forbids it"}


@pytest.mark.parametrize(
    ("table", "options", "does", "word", "goes"),
    [
        pytest.param({}, {}, {}, "", 37, id="nothing keeps it"),
        pytest.param(
            {"start_seconds": 45},
            {"disruption": DisruptionSettings(within=1.0, blackout=(NIGHT,))},
            {},
            "Blackout",
            120,
            id="a blackout that began meanwhile",
        ),
        pytest.param({}, GUARDED, {28.0: count("other", 0), 90.0: count("other", 2)}, "Budget", 94, id="a budget"),
        pytest.param(BRIEF, {}, {}, "", 37, id="its replacement is not available yet"),
    ],
)
async def test_a_pod_that_must_not_go_now_goes_later(
    table: dict[str, Any], options: dict[str, Any], does: dict[float, Any], word: str, goes: int
) -> None:
    site = Site({**ALONE, **table}, web("other", 2, started=True), nodes=FIRST_ON_OLD, does=does, **options)
    first = next(one.uid for one in (await site.look(0.0)).pods(await _one(site)))
    await site.run()
    assert site.gone[first] == pytest.approx(goes, abs=2.5)
    assert site.least["one"] == 1
    assert not word or site.told(word) == ("journal", "event")
    assert not word or any(one.step.startswith(f"wait: {SAID[word]}") for one in site.flights)


async def test_a_pod_kept_for_all_its_time_stays() -> None:
    always = DisruptionSettings(within=1.0, blackout=(Hours(start="1 0 * * *", duration=3600.0),))
    site = Site({**ALONE, "start_seconds": 45}, nodes=FIRST_ON_OLD, surge_within=60.0, disruption=always)
    end = await site.run()
    (workload,) = end.workloads()
    assert (site.gone, workload.replicas, SURGE in workload.annotations) == ({}, 1, False)
    assert site.told("TooLate") == ("journal", "event")


async def test_surges_ready_at_once_go_within_the_budgets() -> None:
    """As after an outage in which no container started."""
    silent = [OPENS, {"at": 62.0, "ready": False}, {"at": 100.0, "ready": True}]
    nodes = [{**NODES[0], "cpu": "4"}, {**NODES[1], "unschedulable": True, "changes": silent}]
    budgets = DisruptionSettings(within=10.0, total=2, breaker=1.0)
    tables = [web(f"w{index}", 1, started=True, start_seconds=45) for index in range(8)]
    site = Site(*tables, nodes=nodes, disruption=budgets)
    await site.run()
    times = sorted(site.gone.values())
    assert len(times) == 8
    assert times[0] > 100
    assert all(sum(first <= time < first + 9.5 for time in times) <= 2 for first in times)
    assert set(site.least.values()) == {1}


@pytest.mark.parametrize("begins", [1, 24], ids=["before all surges", "in a surge"])
async def test_a_policy_takes_no_replica_of_a_surge_for_wanted(begins: int) -> None:
    """Near its target, by the HPA's defaults, no metric asks for a change while one more is there."""
    site = Site(web("web", 10, demand={"formula": "1.5"}, started=True))
    policy = Policy(
        name="scale",
        mode="act",
        interval=2.0,
        workload=Target(namespace="default", name="web"),
        replicas=Bounds(30, 2),
        strategies=(Hpa(metrics=(Resource(resource="cpu", utilization=50),)),),
    )
    journal = Journal()
    loop = Loop(site.cluster, journal, site.clock)
    async with opened([ResourceMetrics()], loop.site) as pollers:
        loop.set_sources(pollers, wait=None)
        loop.apply([policy], ROLLING)
        site.does = {float(at): lambda site: loop.tick(site.clock.now()) for at in range(begins, int(END))}
        end = await site.run()
    (decision,) = journal.decisions()
    assert [one.reason for one in site.outcomes].count("Moved") > 1
    assert ([workload.replicas for workload in end.workloads()], decision.wish) == ([10], 10)
    assert journal.past("scale", decision.workload, END, 10).wishes(0.0) == [10]


async def test_a_trial_takes_every_step_of_a_surge() -> None:
    heard, clock = Heard(), VirtualClock(0.0)
    cluster = simulated(web("web", 3), nodes=NODES).build(clock)
    moves = MovesTable(every=3.0, min_age=1.0, surge=True)
    strategies = (Filters(), LeastRequested(), Drain())
    policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=strategies, mode="act", moves=moves)
    await play(cluster, [policy], END, None, sources=(), listeners=[heard])
    end = await cluster.observe(END, KINDS)
    assert [workload.replicas for workload in end.workloads()] == [3]
    assert [pod.node for workload in end.workloads() for pod in end.pods(workload)] == 3 * ["new"]
    assert ("surge", "Moved") in {(one.action, one.reason) for one in heard.outcomes}


class Heard:
    """What became of actions on pods."""

    def __init__(self) -> None:
        self.outcomes: list[PodOutcome] = []

    def on(self, record: Notice) -> None:
        if isinstance(record, PodOutcome):
            self.outcomes.append(record)
