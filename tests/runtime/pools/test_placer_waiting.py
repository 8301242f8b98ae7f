"""How many pods of a pool wait, by reason: every one that is on no node and not on its way to one."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.api import Nodes, Scores, hookimpl
from elasticd.base.clock import VirtualClock
from elasticd.cluster.disruption import DisruptionGuard, DisruptionSettings
from elasticd.journal import Journal
from elasticd.model.actions import Action, Answer, Bind, Evict, Nominate
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.runtime.pools.placer import HANGS, IN_FLIGHT, UNANSWERED, Placer
from tests.kit.board import Board
from tests.kit.placers import Fits, Lesser
from tests.kit.pools import NOW, node, pod
from tests.runtime.pools.test_placer import Bench, Heard, bench


def refuse(kind: type[Action], reason: str) -> Any:
    return lambda action: Answer("refused", 429, "no", reason) if isinstance(action, kind) else None


def now(it: Bench) -> dict[str, int]:
    """What was told last."""
    return it.heard.waits[-1] if it.heard.waits else {}


LESSER = pod("lesser", cpu=1, on="a")
URGENT = pod("urgent", cpu=1, priority=5)


@pytest.mark.parametrize(
    ("pods", "mode", "counts"),
    [
        pytest.param([pod("p", cpu=0.5)], "act", {}, id="one that is bound"),
        pytest.param([pod("p", cpu=9), pod("q", cpu=9)], "act", {"Unschedulable": 2}, id="two that fit nowhere"),
        pytest.param([pod("p", cpu=0.5)], "observe", {"Observed": 1}, id="one that would be bound"),
        pytest.param([LESSER, URGENT], "observe", {"Observed": 1}, id="one for which others would be preempted"),
        pytest.param([pod("p", cpu=9), pod("q", cpu=0.5)], "observe", {"Unschedulable": 1, "Observed": 1}, id="both"),
    ],
)
async def test_pods_that_wait_are_counted(pods: list[Any], mode: str, counts: dict[str, int]) -> None:
    async with bench([node("a", cpu=1)], pods, mode) as it:
        await it.until(3)
        assert now(it) == counts


async def test_a_preempting_pod_waits_until_its_victims_have_gone() -> None:
    async with bench([node("a", cpu=1)], [LESSER, URGENT]) as it:
        it.board.lingers = True
        await it.until(3)
        assert list(now(it).values()) == [1]
        it.board.remove("lesser")
        await it.until(8)
        assert (now(it), it.board.pods["urgent"].node) == ({}, "a")


async def test_a_preempting_pod_waits_while_it_acts_for_its_pool() -> None:
    async with bench([node("a", cpu=1), node("b", cpu=0.5)], [LESSER, URGENT, pod("p", cpu=0.5)]) as it:
        mine, theirs = it.placer.pools[0].policy, PoolSelect(namespaces=("other",))
        it.heard.policies = {"pool", "zoo"}
        it.placer.apply([replace(mine, pool=PoolSelect(namespaces=("shop",))), replace(mine, name="zoo", pool=theirs)])
        it.board.silent = (Bind, Evict, Nominate)
        await it.placer.tick(NOW)
        await it.placer.tick(NOW)
        assert it.heard.waiting == {"pool": {"Preempts": 1}}


@pytest.mark.parametrize(
    ("kind", "pods"), [(Evict, [LESSER, URGENT]), (Bind, [URGENT])], ids=["an eviction is refused", "a binding is"]
)
async def test_a_pod_waits_for_the_reason_its_action_was_refused(kind: type[Action], pods: list[Any]) -> None:
    async with bench([node("a", cpu=1)], pods) as it:
        it.board.refuse = refuse(kind, "Budget")
        await it.placer.tick(NOW)
        await it.settle()
        await it.placer.tick(NOW)
        assert now(it) == {"Budget": 1}


async def test_a_pod_waits_as_disturbed_when_the_broker_refuses_evictions() -> None:
    clock, heard = VirtualClock(NOW), Heard()
    lesser = [pod(f"x{number}", cpu=0.25, on="a") for number in range(4)]
    board = Board(clock, [node("a", cpu=1)], [*lesser, URGENT])
    placer = Placer(
        DisruptionGuard(board, DisruptionSettings(per_node=3), clock), board.observe, Journal(), clock, [heard]
    )
    placer.apply([PoolPolicy(name="pool", pool=PoolSelect(), strategies=(Fits(), Lesser()), mode="act")])
    await placer.tick(NOW)
    await placer.actions.drain(1)
    await placer.tick(NOW)
    assert heard.waits[-1] == {"Disturbed": 1}
    assert board.done == []


async def test_a_pod_about_which_nobody_was_asked_yet_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench([node("a", cpu=1)], [pod("p")]) as it:

        async def awaited(*_: Any) -> dict[Any, Any]:
            return {}

        monkeypatch.setattr(it.placer.router, "read", awaited)
        await it.placer.tick(NOW)
        assert now(it) == {"NotAskedYet": 1}


async def test_who_does_not_lead_any_more_counts_nobody() -> None:
    async with bench([node("a", cpu=1)], [pod("p", cpu=9)]) as it:
        await it.until(1)
        assert now(it) == {"Unschedulable": 1}
        it.board.leading = False
        await it.until(3)
        assert now(it) == {}


async def test_each_pod_counts_for_its_own_pool() -> None:
    async with bench([node("a", cpu=1)], [pod("p", cpu=9), pod("q", cpu=9, namespace="other")]) as it:
        mine = it.placer.pools[0].policy
        theirs = replace(mine, name="zoo", pool=PoolSelect(namespaces=("other",)))
        it.heard.policies = {"pool", "zoo"}
        it.placer.apply([replace(mine, pool=PoolSelect(namespaces=("shop",))), theirs])
        await it.until(1)
        assert it.heard.waiting == {"pool": {"Unschedulable": 1}, "zoo": {"Unschedulable": 1}}


async def test_a_pod_belongs_to_the_acting_policy_only() -> None:
    async with bench([node("a", cpu=1)], [pod("p", cpu=0.5)]) as it:
        mine = it.placer.pools[0].policy
        it.heard.policies = {"a-trial", "pool"}
        it.placer.apply([replace(mine, name="a-trial", mode="observe"), mine])
        await it.until(1)
        assert it.board.pods["p"].node == "a"
        assert [one.policy for one in it.heard.decisions] == ["pool"]


class Wrong(Fits, tag="wrong", frozen=True):
    """Raises."""

    @hookimpl
    def score_nodes(self, nodes: Nodes) -> Scores:
        raise OverflowError("too large")


async def test_a_plugin_that_fails_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with bench([node("a", cpu=1)], [pod("p", cpu=0.5), pod("q", cpu=0.5)]) as it:
        mine = it.placer.pools[0].policy
        it.placer.apply([replace(mine, strategies=(Wrong(),))])
        await it.placer.tick(NOW)
        await it.placer.tick(NOW + 5)
        assert now(it) == {"PluginFailed": 2}
    assert caplog.messages == ["policy pool: plugin wrong: score_nodes raised OverflowError: too large"]


async def test_bindings_without_an_answer_are_told_after_a_while() -> None:
    async with bench([node("a", cpu=1), node("b", cpu=1)], [pod("p", cpu=0.9), pod("q", cpu=0.9)]) as it:
        it.board.silent = (Bind,)
        await it.until(HANGS)
        assert ([*it.placer.hanging()], now(it)) == ([], {})
        await it.until(2 * HANGS)
        (line,) = it.placer.hanging()
        assert line.startswith("2 pods of namespace shop should be bound to 2 nodes, and the API server has not done")
        assert now(it) == {UNANSWERED: 2}


async def test_what_waits_for_other_bindings_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [pod(f"p{number}", cpu=0.001) for number in range(2 * IN_FLIGHT)]
    async with bench([node("a", cpu=1)], pods) as it:
        act, gate = it.board.act, asyncio.Event()

        async def slow(action: Action) -> Answer:
            await gate.wait()
            return await act(action)

        monkeypatch.setattr(it.board, "act", slow)
        await it.until(0.8 * HANGS)
        answered, gate = gate, asyncio.Event()
        answered.set()
        await it.until(1.2 * HANGS)
        assert ([*it.placer.hanging()], now(it)) == ([], {})
        await it.until(2 * HANGS)
        assert now(it) == {UNANSWERED: IN_FLIGHT}


async def test_evictions_that_wait_are_no_bindings() -> None:
    async with bench([node("a", cpu=1)], [LESSER, URGENT]) as it:
        it.board.silent = (Evict,)
        await it.until(2 * HANGS)
        assert ([*it.placer.hanging()], sum(now(it).values())) == ([], 1)
