"""The loop when a reload, an action, the journal or a plugin interferes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any, cast

import pytest

from elasticd.api import (
    Observation,
    Pod,
    Recommendation,
    Strategy,
    hookimpl,
)
from elasticd.decision.decide import Case, Evaluated, evaluate
from elasticd.journal import read
from elasticd.model.actions import Action, Announce, Answer
from elasticd.model.policy import Target
from elasticd.model.records import Outcome
from elasticd.model.workload import Condition
from elasticd.runtime.workers import at_once
from tests.kit.loops import DB, WEB, Play, Want, gaps, policy
from tests.kit.records import Disk


class Bad(Strategy, tag="bad", frozen=True):
    """Does what it must not."""

    deed: str = "raise"

    def reads(self) -> tuple[str, ...] | None:
        if self.deed == "reads":
            raise RuntimeError("reads")
        return None

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation:
        if self.deed == "exit":
            raise SystemExit(3)
        if self.deed == "cancel":
            raise asyncio.CancelledError
        if self.deed == "surrogate":
            return Recommendation(9, "\ud800")
        if self.deed == "object":
            return Recommendation(9, cast(str, object()))
        if self.deed == "reason":
            return Recommendation(9, cast(str, 5))
        if self.deed == "answer":
            return cast(Recommendation, "many")
        if self.deed == "mutate":
            cast(Any, observation).workload = None
        raise RuntimeError("bad")


@pytest.mark.parametrize(
    "where", ["while a source is read", "while judgement goes on", "while the cluster is observed"]
)
async def test_a_reload_during_a_tick_acts_on_no_old_policy(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = at_once(evaluate)

    async def judging(cases: Sequence[Case]) -> list[Evaluated | str]:
        found = await worker(cases)
        if where == "while judgement goes on" and not reloaded:
            await reload()
        return found

    play, reloaded = Play(policy(mode="act"), worker=judging, web=9), list[str]()

    async def reload(*_: object) -> None:
        reloaded.append(where)
        play.meter.wait = None
        monkeypatch.setattr(play.cluster, "observe", observe)
        play.loop.apply([policy(mode="observe", interval=7.0)])

    observe = play.cluster.observe
    if where == "while a source is read":
        play.meter.wait = reload
    elif where == "while the cluster is observed":

        async def observing(now: float, kinds: Any) -> Any:
            found = await observe(now, kinds)
            await reload()
            return found

        monkeypatch.setattr(play.cluster, "observe", observing)
    await play.to(30)
    assert reloaded == [where]
    assert play.cluster.acts == []
    assert {one.mode for one in play.made} == {"observe"}
    assert gaps(play.times()) == [7, 7, 7]


async def test_a_workload_is_not_judged_again_during_its_action() -> None:
    play = Play(policy(interval=1.0), web=9)
    ended = asyncio.Event()

    async def slow(_: Action) -> Answer:
        await ended.wait()
        return Answer("done", 200)

    play.cluster.on_act = slow
    for _ in range(20):
        await play.loop.step()
    assert len(play.made) == 1
    play.loop.apply([policy(interval=2.0)])
    for _ in range(20):
        await play.loop.step()
    assert len(play.made) == 1
    ended.set()
    await play.loop.actions.drain()
    await play.to(play.clock.now() + 3)
    assert len(play.made) > 1
    assert play.outcomes[0].seconds >= 19


async def _raise(_: Action) -> Answer:
    raise ConnectionError("reset\nby peer")


async def _conflict(_: Action) -> Answer:
    return Answer("conflict", 409, "version was 1, is 2", "Conflict")


async def _refuse(_: Action) -> Answer:
    return Answer("refused", 0, "the lease is lost", "LeaseLost")


@pytest.mark.parametrize(
    ("act", "result", "reason", "message"),
    [
        (_raise, "failed", "ConnectionError", "ConnectionError: reset by peer"),
        (_conflict, "conflict", "Conflict", "version was 1, is 2"),
        (_refuse, "refused", "LeaseLost", "the lease is lost"),
    ],
    ids=["raises", "conflicts", "is refused"],
)
async def test_an_action_that_fails_is_reported_and_decided_anew(
    act: Callable[[Action], Awaitable[Answer]], result: str, reason: str, message: str, tmp_path: Path
) -> None:
    play = Play(policy(interval=10.0), folder=tmp_path, web=9)
    play.cluster.on_act = act
    await play.to(25)
    assert [(one.result, one.reason, one.message) for one in play.outcomes] == [(result, reason, message)] * 3
    condition = Condition("AbleToScale", False, "FailedUpdateScale", message)
    assert {one.condition for one in play.outcomes} == {condition}
    recorded = [record for record in read(tmp_path) if isinstance(record, Outcome)]
    assert recorded == play.outcomes
    assert play.journal.past("p", WEB, 25.0, 3).changes == ()
    play.cluster.on_act = None
    await play.to(35)
    assert (play.outcomes[-1].result, play.cluster.has[WEB].replicas) == ("done", 9)
    assert play.outcomes[-1].condition == Condition("AbleToScale", True, "SucceededRescale")
    play.journal.close()


async def test_a_repaired_journal_is_noticed_within_seconds_without_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    play = await Play(policy(interval=600.0), folder=tmp_path).to(5)
    disk.room = 0
    play.journal.append(play.last())
    play.journal.flush()
    await play.to(10)
    assert (play.journal.writable, play.journal.fault) == (False, "No space left on device")
    disk.room = inf
    looks = len(play.made)
    await play.to(13)
    assert (play.journal.writable, len(play.made)) == (True, looks)
    play.journal.close()


async def test_an_announcement_that_fails_harms_nothing() -> None:
    play = Play(policy(interval=10.0))
    play.meter.load.clear()
    play.cluster.on_act = _raise
    await play.to(25)
    assert len(play.made) == 3


async def test_an_announcement_that_takes_long_delays_no_look() -> None:
    play = Play(policy(interval=10.0))
    play.meter.load.clear()
    told = asyncio.Event()

    async def slow(_: Action) -> Answer:
        await told.wait()
        return Answer("done", 201)

    play.cluster.on_act = slow
    while play.clock.now() < 35:
        await play.loop.step()
    assert [action.reason for action in play.cluster.acts if isinstance(action, Announce)] == ["NoSample"]
    assert gaps(play.times()) == [10, 10, 10]
    assert len(play.loop.actions) == 1
    told.set()
    await play.loop.actions.drain()
    assert len(play.loop.actions) == 0


async def test_trouble_is_announced_once_for_each_reason() -> None:
    play = Play(policy(interval=10.0))
    play.meter.load.clear()
    await play.to(45)
    play.meter.load[WEB] = 3
    await play.to(65)
    play.meter.load.clear()
    await play.to(95)
    assert [action.reason for action in play.cluster.acts if isinstance(action, Announce)] == ["NoSample"] * 2


@pytest.mark.parametrize(
    "deed", ["raise", "exit", "cancel", "reads", "surrogate", "object", "reason", "answer", "mutate"]
)
async def test_a_plugin_that_fails_harms_its_own_policy_only(deed: str, tmp_path: Path) -> None:
    bad = policy("bad", Bad(deed=deed), workload=Target("shop", "db"), interval=10.0)
    play = await Play(bad, policy(interval=10.0), folder=tmp_path, web=9, db=9).to(25)
    play.journal.close()
    assert play.told("bad") == [("hold", "PluginFailed")] * 3
    assert play.last("bad").failures
    assert play.told() == [("scale", "Wanted"), ("keep", "Wanted"), ("keep", "Wanted")]
    assert (play.cluster.has[DB].replicas, play.cluster.has[WEB].replicas) == (3, 9)


async def test_nonsense_from_a_source_holds_only_its_readers() -> None:
    play = Play(policy(), policy("q", Want("other")))
    play.meter.load[WEB] = cast(float, "many")
    await play.to(5)
    assert {one.verdict for one in play.made} == {"hold"}


async def test_a_strategy_failing_five_times_is_off_until_reload() -> None:
    bad = policy("p", Bad(), Want(), interval=10.0)
    play = await Play(bad, web=9).to(45)
    assert play.told() == [("hold", "PluginFailed")] * 5
    await play.to(55)
    assert play.told()[5] == ("scale", "Wanted")
    assert play.last().failures[0].message == "is switched off until reload"
    play.meter.load[WEB] = 2
    await play.to(65)
    assert play.last().reason == "SwitchedOff"
    play.loop.apply([bad])
    await play.to(75)
    assert play.last().reason == "PluginFailed"


async def test_workloads_with_shared_pods_are_held_until_told_apart() -> None:
    shared = Pod("shop", "web-1", "uid-1", "Running")
    play = Play(policy(interval=10.0), policy("q", workload=Target("shop", "db"), interval=10.0), web=9, db=9)
    play.cluster.its_pods = {WEB: (shared,), DB: (Pod("shop", "db-1", "uid-2", "Running"), shared)}
    await play.to(15)
    assert {(one.policy, one.verdict, one.reason) for one in play.made} == {
        ("p", "hold", "AmbiguousSelector"),
        ("q", "hold", "AmbiguousSelector"),
    }
    assert play.last().message == "its selector matches pods that shop/Deployment/db selects too"
    play.cluster.its_pods[DB] = play.cluster.its_pods[DB][:1]
    await play.to(45)
    assert (play.last().reason, play.last("q").reason) == ("Wanted", "Wanted")


async def test_a_hanging_action_is_given_up_when_the_daemon_stops() -> None:
    play = Play(policy(), web=9)

    async def hang(_: Action) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    play.cluster.on_act = hang
    await play.loop.step()
    await play.loop.step()
    await play.loop.actions.drain(0.01)
    assert [(one.result, one.reason, one.message) for one in play.outcomes] == [
        ("failed", "Stopped", "elasticd stopped before the answer came")
    ]
