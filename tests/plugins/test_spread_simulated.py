"""A fixed and an elastic part in virtual time: the simulated ReplicaSet heeds costs, as genuine ones do since 1.22."""

from collections import Counter
from typing import Any, cast

import pytest

from elasticd.api import Decision, Observation, Recommendation, Strategy, hookimpl
from elasticd.base.clock import VirtualClock
from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.demand import Demand
from elasticd.cluster.simulated.options import NodeTable, WorkloadTable
from elasticd.decision.workload.victims import VICTIM
from elasticd.journal import Journal
from elasticd.model.actions import Action, Answer, Scale
from elasticd.model.policy import Bounds, Policy, Target
from elasticd.model.workload import COST, Pod
from elasticd.runtime.loop import Loop
from elasticd.sources.poller import opened
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd_plugins.victims import Victims
from tests.kit.faults import Told
from tests.kit.plugins.builders import decode
from tests.plugins.test_spread import of

FALLS = 100.0


class Falls(Strategy, tag="falls", frozen=True):
    """Wants one count, and at the 100th second another."""

    first: int
    then: int

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation:
        return Recommendation(self.first if observation.at < FALLS else self.then, "Wanted")


class Dies:
    """A cluster for a daemon that is killed before it can set a count."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def act(self, action: Action) -> Answer:
        if isinstance(action, Scale):
            raise KilledError
        return cast(Answer, await self._cluster.act(action))


class KilledError(Exception):
    """The process is gone."""


def eight(nodes: int = 4) -> Simulated:
    """Eight pods of half a core, on nodes of a core. Elastic ones come first, so that without costs the fixed part
    would lose pods."""
    found = [
        NodeTable(name=f"{name}-{number}", cpu="1", memory="8Gi", labels={"pool": pool})
        for name, pool in (("elastic", "b"), ("fixed", "a"))
        for number in range(nodes)
    ]
    web = WorkloadTable(name="web", replicas=8, cpu="500m", demand=Demand(formula="2"))
    return Simulated(nodes=tuple(found), workloads=(web,))


async def run(cluster: Any, clock: VirtualClock, *voices: Strategy, until: float) -> tuple[list[Decision], list[Pod]]:
    """The decisions of a daemon until that time, and the pods that are left."""
    told, target = Told(least=0, most=20), Target("default", "web")
    options: dict[str, Any] = {"mode": "act", "interval": 10.0, "jitter": 0.0}
    policy = Policy(name="p", replicas=Bounds(20), strategies=voices, workload=target, **options)
    loop = Loop(cluster, Journal(), clock, [told], idle=float("inf"))
    async with opened([ResourceMetrics(nodes=True)], loop.site) as pollers:
        loop.set_sources(pollers)
        loop.apply([policy])
        await loop.tick(clock.now())
        while clock.now() < until:
            await loop.step()
            await loop.actions.drain()
    snapshot = await cluster.observe(clock.now(), frozenset({("apps/v1", "Deployment")}))
    workload = snapshot.workload(target.ref)
    assert workload is not None
    return told.made, [pod for pod in snapshot.pods(workload) if not pod.deleted]


async def play(*voices: Strategy, nodes: int = 4, until: float = 150) -> tuple[list[Decision], list[Pod]]:
    """The decisions about eight pods on nodes of two pools, and the pods that are left at the end."""
    clock = VirtualClock(0.0)
    async with eight(nodes).open(clock) as cluster:
        return await run(cluster, clock, *voices, until=until)


def pools(left: list[Pod]) -> Counter[str]:
    return Counter(pod.node.partition("-")[0] for pod in left)


@pytest.mark.parametrize(
    ("most", "to", "left"),
    [
        pytest.param(4, 6, {"fixed": 4, "elastic": 2}, id="the elastic part shrinks"),
        pytest.param(4, 4, {"fixed": 4}, id="to none"),
        pytest.param(4, 2, {"fixed": 2}, id="then the fixed one"),
        pytest.param("50%", 4, {"fixed": 2, "elastic": 2}, id="by halves"),
        pytest.param(2, 4, {"fixed": 2, "elastic": 2}, id="what the fixed one has too many of"),
    ],
)
async def test_the_elastic_pool_is_emptied_first(most: int | str, to: int, left: dict[str, int]) -> None:
    made, pods = await play(Falls(first=8, then=to), of(most, None))
    assert pools(pods) == left
    (marked,) = [one for one in made if any(mark.annotations.get(COST) for mark in one.marks)]
    assert marked.at == pytest.approx(FALLS, abs=10)
    assert len(marked.marks) == 8 - to
    assert [pod.annotations for pod in pods] == [{}] * to


async def test_without_spread_the_pools_are_emptied_as_it_comes() -> None:
    """What the tests above would not see if costs did nothing."""
    _, pods = await play(Falls(first=8, then=4))
    assert pools(pods) != {"fixed": 4}


@pytest.mark.parametrize("series", [[], ["cpu"]], ids=["by requests", "by use"])
@pytest.mark.parametrize(("nodes", "left"), [("emptiest", 5), ("fullest", 6)])
async def test_scale_in_removes_pods_of_the_emptiest_nodes(nodes: str, left: int, series: list[str]) -> None:
    """Eight pods on six nodes, of which two have two."""
    chooses = decode(Victims, load=0, nodes=nodes, node_series=series)
    made, pods = await play(Falls(first=8, then=7), chooses, nodes=3)
    assert not any("unknown" in mark.reason for one in made for mark in one.marks)
    assert len({pod.node for pod in pods}) == left


async def test_marks_of_a_dead_daemon_are_cleared_by_the_next() -> None:
    clock = VirtualClock(0.0)
    async with eight().open(clock) as cluster:
        _, pods = await run(Dies(cluster), clock, Falls(first=8, then=6), of(4, None), until=105)
        assert (len(pods), sum(VICTIM in pod.annotations for pod in pods)) == (8, 2)
        made, pods = await run(cluster, clock, Falls(first=8, then=8), of(4, None), until=clock.now() + 30)
    assert len(made[0].marks) == 2
    assert {value for one in made for mark in one.marks for value in mark.annotations.values()} == {None}
    assert (len(pods), [pod.annotations for pod in pods]) == (8, [{}] * 8)


async def test_growth_stops_while_pods_have_waited_for_a_node() -> None:
    made, pods = await play(Falls(first=8, then=20), of(4, None, patience=30), until=250, nodes=3)
    assert [(one.current, one.replicas) for one in made if one.verdict == "scale"] == [(8, 20)]
    last = made[-1]
    (limit,) = [one for one in last.limits if one.name == "spread"]
    assert (limit.reason, limit.highest) == ("NoRoomInSubsets", 20)
    assert limit.message == "no node for 8 pods for more than 30 s; a 6 of 4, b 6 of 16"
    assert sum(1 for pod in pods if not pod.node) == 8
    assert VICTIM not in {name for pod in pods for name in pod.annotations}
