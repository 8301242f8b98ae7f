"""What happens between a plan and what it asks for, on a simulated cluster that answers as a real one does."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.plan import plan
from elasticd.journal import Journal
from elasticd.model.placement import PodDecision
from elasticd.ports.cluster import Snapshot
from elasticd.runtime.pools.placer import Placer
from tests.cluster.simulated.test_kit import START
from tests.cluster.simulated.test_placing import Placed, bare, ours
from tests.kit.placers import Heard, pool

NODE = {"name": "n", "count": 2, "cpu": "1", "memory": "8Gi"}

Meanwhile = Callable[[Placed], Awaitable[Any]]


class Race(Heard):
    """Two nodes of one core, n-1 and n-2, and a placer before whose first actions something else happens."""

    def __init__(self, meanwhile: Meanwhile, *workloads: dict[str, Any], times: int = 1, **options: Any) -> None:
        super().__init__()
        self.play = Placed(*workloads, **{"nodes": [NODE], **options})
        self._meanwhile = [meanwhile] * times
        self.placer = Placer(self.play.cluster, self._look, Journal(), self.play.clock, [self], self._plan)
        self.placer.apply([pool()])

    async def _look(self, now: float) -> Snapshot:
        return await self.play.cluster.observe(now, frozenset({("apps/v1", "Deployment")}))

    async def _plan(self, cases: Sequence[PoolCase]) -> list[tuple[PodDecision, ...] | str]:
        plans: list[tuple[PodDecision, ...] | str] = [plan(case) for case in cases]
        acts = any(one.actions for decisions in plans for one in decisions if isinstance(one, PodDecision))
        if acts and self._meanwhile:
            await self._meanwhile.pop()(self.play)
        return plans

    async def to(self, t: float) -> "Race":
        while self.play.clock.now() < START + t:
            await self.placer.step()
            await self.placer.actions.drain()
        return self

    def told(self) -> list[tuple[str, str, str, str]]:
        return [(one.action, one.about.name, one.node, one.reason or one.result) for one in self.placeds]


async def test_pod_bound_by_somebody_else_does_not_take_room_twice() -> None:
    async def meanwhile(play: Placed) -> None:
        await play.bind(0, "web-000001", "n-2")

    race = await Race(meanwhile, ours(cpu="600m"), bare("p", cpu="600m", at=5)).to(20)
    assert race.told() == [("bind", "web-000001", "n-1", "Conflict"), ("bind", "p", "n-1", "done")]
    assert await race.play.on(20) == {"n-1": ["p"], "n-2": ["web-000001"]}


async def test_pod_rejected_by_a_full_node_is_replaced_on_another() -> None:
    async def meanwhile(play: Placed) -> None:
        await play.bind(0, "foreign", "n-1")

    foreign = bare("foreign", cpu="600m", scheduler="another")
    race = await Race(meanwhile, ours(cpu="600m"), foreign).to(20)
    assert race.told() == [("bind", "web-000001", "n-1", "done"), ("bind", "web-000002", "n-2", "done")]
    assert await race.play.on(20) == {"n-1": ["foreign"], "n-2": ["web-000002"]}
    assert {name: pod.phase for name, pod in (await race.play.pods(20)).items()} == {
        "web-000001": "Failed",
        "web-000002": "Running",
    }


async def test_a_pod_that_was_deleted_meanwhile_is_forgotten() -> None:
    async def meanwhile(play: Placed) -> None:
        await play.evict(0, "p")

    race = await Race(meanwhile, bare("p")).to(20)
    assert race.told() == [("bind", "p", "n-1", "NotFound")]
    assert await race.play.waiting(20) == []


@pytest.mark.parametrize(
    ("change", "at"),
    [
        pytest.param({"ready": False}, 5.0, id="not ready"),
        pytest.param({"gone": True}, 5.0, id="gone"),
    ],
)
async def test_pod_on_a_failed_node_is_replaced_when_node_leaves(change: dict[str, Any], at: float) -> None:
    """Of one whose node is silent the node's end decides, as in Kubernetes; nobody binds a second time."""

    async def meanwhile(play: Placed) -> None:
        await play.look(at)

    nodes = [{**NODE, "name": "a", "count": 1, "changes": [{"at": at, **change}]}, {**NODE, "name": "b", "count": 1}]
    race = await Race(meanwhile, ours(), nodes=nodes).to(100)
    gone = "gone" in change
    expected = [("bind", "web-000001", "a", "done")] + [("bind", "web-000002", "b", "done")] * gone
    assert race.told() == expected
    assert await race.play.on(100) == ({"b": ["web-000002"]} if gone else {"a": ["web-000001"]})


async def test_a_victim_that_left_by_itself_is_no_obstacle() -> None:
    """The nomination stands; its eviction finds nobody, and what it had is free."""

    async def meanwhile(play: Placed) -> None:
        if (await play.look(play.clock.now() - START)).on_nodes().get("n", ()):
            await play.evict(play.clock.now() - START, "lesser")

    node = {"name": "n", "cpu": "1", "memory": "8Gi"}
    vital = bare("vital", cpu="1", priority=9, at=20)
    race = await Race(meanwhile, bare("lesser", cpu="1"), vital, times=2, nodes=[node]).to(60)
    assert race.told()[:3] == [
        ("bind", "lesser", "n", "done"),
        ("nominate", "vital", "n", "done"),
        ("evict", "lesser", "n", "NotFound"),
    ]
    assert await race.play.on(60) == {"n": ["vital"]}


async def test_victim_that_does_not_stop_is_awaited_without_a_second() -> None:
    """Its kubelet is dead: it keeps its room until the node answers or is removed."""

    async def nothing(play: Placed) -> None:
        """It is no race."""

    silent = [{"at": 20.5, "ready": False}, {"at": 200, "gone": True}]
    nodes = [{"name": "n", "cpu": "2", "memory": "8Gi", "changes": silent}]
    lesser, vital = bare("lesser", cpu="1", replicas=2, stop_seconds=5), bare("vital", cpu="1", priority=9, at=20)
    race = await Race(nothing, lesser, vital, nodes=nodes).to(190)
    assert [one for one in race.told() if one[0] == "evict"] == [("evict", "lesser-1", "n", "done")]
    assert await race.play.on(190) == {"n": ["lesser-1", "lesser-2"]}
    assert await race.play.waiting(190) == ["vital"]
