"""Where a pod is, asked of a running daemon."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from elasticd.api import Move, Nodes, PoolObservation, Strategy, hookimpl
from elasticd.base.clock import VirtualClock
from elasticd.cluster.dry_run import DryRun
from elasticd.config import HttpSettings
from elasticd.journal import Journal
from elasticd.model.actions import Bind, Evict
from elasticd.model.placement import PodDecision
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect
from elasticd.model.reports import PodFound, PodStatus, PoolAbout
from elasticd.ports.cluster import Snapshot
from elasticd.runtime.pools.mover import Mover
from elasticd.runtime.pools.placer import Placer
from elasticd.runtime.pools.report import PoolReports, found_pod, pool_about
from elasticd.telemetry.web import serve
from elasticd.ui import remote
from tests.kit.board import Board
from tests.kit.pools import NOW, node, pod
from tests.runtime.pools.test_placer import Fits
from tests.telemetry.test_web import Told


class Stay(Strategy, tag="stay", frozen=True):
    """Wants nobody moved."""

    @hookimpl
    def rebind_pods(self, nodes: Nodes, observation: PoolObservation) -> Sequence[Move]:
        return []


class Scene:
    """A pool of one node of a core, in virtual time: one pod runs, one waits, one is another scheduler's."""

    def __init__(self) -> None:
        self.clock = VirtualClock(NOW)
        pods = [pod("runs", on="a"), pod("waits", cpu=9), pod("other", scheduler="Elasticd")]
        self.board = Board(self.clock, [node("a", cpu=1)], pods)
        journal = Journal()
        self.placer = Placer(self.board, self.board.observe, journal, self.clock)
        strategies = (Fits(), Stay())
        self.placer.apply([PoolPolicy(name="pool", pool=PoolSelect(), strategies=strategies, mode="act")])
        self.mover = Mover(self.board, self.placer, journal, self.clock)
        self.reports = PoolReports(self.board, self.placer, self.mover, self.clock)

    async def tick(self, at: float) -> None:
        """Look at pods that wait, and at pods that should move."""
        await self.placer.tick(NOW + at)
        await self.mover.tick(NOW + at)

    async def find(self, named: str) -> PodStatus:
        return await self.reports.pod(named)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    yield made
    await made.placer.actions.drain(0)


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        pytest.param("shop/runs", ("a", "pool", True, ""), id="it runs"),
        pytest.param("shop/waits", ("", "pool", True, ""), id="it waits"),
        pytest.param("shop/other", ("", "", True, ""), id="it is another's"),
        pytest.param("shop/wiats", (None, None, True, ', did you mean "shop/waits"?'), id="misspelt"),
        pytest.param("shop/zzzzz", (None, None, True, ""), id="no such pod"),
        pytest.param("shpo/runs", (None, None, False, ', did you mean "shop"?'), id="a namespace that is misspelt"),
        pytest.param("", (None, None, False, ""), id="no name"),
    ],
)
async def test_a_pod_is_found_where_it_is(scene: Scene, named: str, expected: tuple[Any, ...]) -> None:
    seen = await scene.find(named)
    there = seen.found
    assert (there and there.node, there and there.policy, seen.inhabited, seen.near) == expected
    assert [(one.policy, one.mode, one.scheduler) for one in seen.pools] == [("pool", "act", "elasticd")]
    assert (seen.leading, seen.fresh) == (True, True)


async def test_a_dry_run_reports_real_node_and_pretended_action(scene: Scene) -> None:
    dry = DryRun(scene.board)

    async def look(now: float) -> Snapshot:
        return await dry.observe(now, frozenset())

    scene.placer.look = look
    for one in ("goes", "moves", "runs"):
        scene.board.add(pod(one, on="a"))
    scene.board.add(node("b"), pod("small"))
    snapshot = await look(NOW)
    of = {one.name: one for pods in (snapshot.pending(), *snapshot.on_nodes().values()) for one in pods}
    for action in (
        Evict(of["goes"].ref, "uid-goes", "a"),
        Evict(of["moves"].ref, "uid-moves", "a", target="b"),
        Bind(of["small"].ref, "uid-small", "b"),
    ):
        assert (await dry.act(action)).result == "done"
    found = {name: (await scene.find(f"shop/{name}")).found for name in ("goes", "moves", "small", "runs")}
    assert {name: one and (one.node, one.pretended, one.seen) for name, one in found.items()} == {
        "goes": ("a", "evicted", ""),
        "moves": ("a", "moved", "b"),
        "small": ("", "bound", "b"),
        "runs": ("a", "", ""),
    }
    assert (await scene.find("shop/gose")).near == ', did you mean "shop/goes"?'


async def test_the_time_of_the_last_look_is_reported(scene: Scene) -> None:
    for at in (1.0, 5.0, 70.0):
        await scene.tick(at)
    seen = await scene.find("shop/waits")
    assert seen.found is not None
    assert seen.found.latest is not None
    assert (seen.found.latest.at, seen.pools[0].looked) == (NOW + 70, NOW + 70)
    runs = (await scene.find("shop/runs")).found
    assert runs is not None
    assert runs.latest is None


async def test_looks_at_pods_that_wait_no_longer_are_forgotten(scene: Scene) -> None:
    await scene.tick(1)
    assert scene.placer.decisions.latest("uid-waits")
    scene.board.remove("waits")
    scene.board.add(pod("next", cpu=9))
    await scene.tick(2)
    assert scene.placer.decisions.latest("uid-waits") is None
    assert scene.placer.decisions.latest("uid-next")


async def test_a_command_is_answered_as_the_daemon_sees_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    monkeypatch.setattr(told, "pod", scene.find)
    async with serve(told.pages(), "127.0.0.1", 0) as address:
        http = HttpSettings(port=int(address.rpartition(":")[2]))
        assert await asyncio.to_thread(remote.pod, http, pod="shop/runs") == await scene.find("shop/runs")


def test_a_pod_is_the_first_policys_that_is_about_it() -> None:
    policies = [
        PoolPolicy(name=name, pool=PoolSelect(namespaces=(namespace,)), strategies=())
        for name, namespace in (("a", "bank"), ("b", "shop"), ("c", "*"))
    ]
    there = pod("p", on="n")
    last = PodDecision("d", 7.0, "b", there.ref, "act", "wait", "Unschedulable")
    expected = PodFound("uid-p", "elasticd", "n", "Running", False, "b", last, policies=("b", "c"))
    assert found_pod(there, policies, last) == expected
    assert found_pod(pod("p", scheduler="other"), policies, None).policy == ""
    assert pool_about(policies[0], 5.0) == PoolAbout("a", "observe", "elasticd", ("bank",), {}, 5.0)


def test_a_pod_that_another_places_is_theirs_who_move_it() -> None:
    policies = [
        PoolPolicy(name=name, pool=PoolSelect(), strategies=(), moves=MovesTable(others=others))
        for name, others in (("a", False), ("b", True))
    ]
    there = found_pod(pod("p", on="n", scheduler="other"), policies, None)
    assert (there.policy, there.policies) == ("", ("b",))
