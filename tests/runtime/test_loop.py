"""The loop in virtual time: who is looked at when, what is decided, and what becomes of it."""

import asyncio
import io
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from msgspec.structs import replace

from elasticd.api import (
    Bounds,
    Limit,
    Observation,
    Past,
    Pod,
    Policy,
    Recommendation,
    Ref,
    Sample,
    Strategy,
    Workload,
    hookimpl,
)
from elasticd.base.clock import VirtualClock
from elasticd.cluster.simulated import Simulated
from elasticd.journal import Journal, Key, read
from elasticd.kit.history import HORIZON
from elasticd.limits.behavior import Stabilization
from elasticd.model.actions import Action, Announce, Answer, Scale
from elasticd.model.listener import Governed, Notice, Ticked
from elasticd.model.moves import Underway
from elasticd.model.policy import Select, Target, Trust
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Condition, Readings
from elasticd.ports.cluster import Kind
from elasticd.ports.metrics_api import MetricsApi
from elasticd.ports.source import Source
from elasticd.runtime.loop import NUDGE, QUANTUM, REST, Loop
from elasticd.sources.poller import SourcePoller
from tests.kit.clusters import Alone, Unasked

WEB, DB = Ref("shop", "Deployment", "web"), Ref("shop", "Deployment", "db")
NAN = float("nan")


class Meters(Source, tag="meter", frozen=True):
    """What the meter is, in TOML."""


class Want(Strategy, tag="want", frozen=True):
    """As many replicas as the series says."""

    series: str = "load"

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation:
        found = observation.series[self.series]
        if not found.samples:
            return Recommendation(None, "NoSample", found.message)
        return Recommendation(int(found.samples[0].value), "Wanted")


class Pace(Strategy, tag="pace", frozen=True):
    """30 s, 10 s from 5 on, 1 s from 8 on."""

    @hookimpl
    def poll_interval(self, observation: Observation) -> float:
        load = observation.series["load"].samples[0].value
        return 1.0 if load >= 8 else 10.0 if load >= 5 else 30.0


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


class Meter:
    """A source of the series `load` of every workload; each read finds a new sample unless it is stuck."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.load: dict[Ref, float] = {}
        self.asked: list[float] = []
        self.stuck_at: float | None = None
        self.wait: Callable[[], Awaitable[object]] | None = None

    async def read(self, now: float) -> Readings:
        self.asked.append(now)
        if self.wait is not None:
            await self.wait()
        measured = now if self.stuck_at is None else self.stuck_at
        samples = {str(ref): (Sample(value, measured, now),) for ref, value in self.load.items()}
        return Readings("meter", now, workloads={"load": samples})


class Snapshot(Alone):
    """What the cluster has now."""

    def __init__(self, cluster: "Cluster", now: float) -> None:
        self.confirmed, self.version = now, cluster.version
        self._workloads, self._pods = dict(cluster.has), dict(cluster.its_pods)

    def workloads(self) -> list[Workload]:
        return list(self._workloads.values())

    def workload(self, ref: Ref) -> Workload | None:
        return self._workloads.get(ref)

    def pods(self, workload: Workload) -> tuple[Pod, ...]:
        return self._pods.get(workload.ref, ())

    def confirmed_for(self, ref: Ref) -> float:
        return self.confirmed

    def selector_fault(self, workload: Workload) -> str:
        return ""

    def nodes(self) -> tuple[()]:
        return ()


class Cluster(Unasked):
    """A cluster whose replicas change at once, and that can be told to be difficult."""

    def __init__(self) -> None:
        self.leading = True
        self.taken_over = None
        self.version = 1
        self.has: dict[Ref, Workload] = {}
        self.its_pods: dict[Ref, tuple[Pod, ...]] = {}
        self.acts: list[Action] = []
        self.on_act: Callable[[Action], Awaitable[Answer]] | None = None
        self.trouble: dict[Kind, str] = {}

    def put(self, ref: Ref, replicas: int, **labels: str) -> None:
        self.has[ref] = Workload(ref, f"uid-{ref.name}", "1", replicas, labels=labels)
        self.version += 1

    def remove(self, ref: Ref) -> None:
        del self.has[ref]
        self.version += 1

    honours_deletion_costs = True

    def restoring(self) -> Sequence[Underway]:
        return ()

    def problems(self) -> dict[Kind, str]:
        return self.trouble

    def describe(self) -> object:
        return {}

    async def observe(self, now: float, kinds: object) -> Snapshot:
        return Snapshot(self, now)

    def gated(self) -> asyncio.Event:
        """From now on an action is done when this is set."""
        gate = asyncio.Event()

        async def slowly(action: Action) -> Answer:
            await gate.wait()
            return Answer("done", 200)

        self.on_act = slowly
        return gate

    async def act(self, action: Action) -> Answer:
        self.acts.append(action)
        if self.on_act is not None:
            return await self.on_act(action)
        if isinstance(action, Scale):
            self.has[action.workload] = replace(self.has[action.workload], replicas=action.after)
        return Answer("done", 200)


class Told:
    """A listener that keeps everything it is told."""

    def __init__(self) -> None:
        self.made: list[Decision] = []
        self.outcomes: list[Outcome] = []
        self.ticks: list[tuple[float, int]] = []
        self.keys: set[Key] = set()

    def on(self, record: Notice) -> None:
        match record:
            case Decision():
                self.made.append(record)
            case Outcome():
                self.outcomes.append(record)
            case Ticked(lag, unchanged):
                self.ticks.append((lag, unchanged))
            case Governed(keys):
                self.keys = set(keys)
            case _:
                pass


class Play(Told):
    """A loop on such a cluster, with everything it told."""

    def __init__(self, *policies: Policy, folder: Path | None = None, **loads: float) -> None:
        super().__init__()
        self.clock, self.cluster = VirtualClock(), Cluster()
        self.meter = Meter(self.clock)
        self.journal = Journal(folder)
        self.poller = SourcePoller(self.meter, Meters(), self.clock)
        self.loop = Loop(self.cluster, self.journal, self.clock, [self])
        self.loop.set_sources([self.poller])
        for name, load in (loads or {"web": 3}).items():
            ref = Ref("shop", "Deployment", name)
            self.cluster.put(ref, 3)
            self.meter.load[ref] = load
        self.loop.apply(policies)

    async def to(self, time: float) -> "Play":
        """Let everything happen up to that time."""
        while True:
            due = self.loop._schedule.next() if self.cluster.leading else None
            if min(self.clock.now() + 1.0, float("inf") if due is None else due) > time:
                await self.clock.sleep_until(time)
                return self
            await self.loop.step()
            await self.loop.actions.drain()

    def times(self, policy: str = "p") -> list[float]:
        return [round(one.at, 6) for one in self.made if one.policy == policy]

    def told(self, policy: str = "p") -> list[tuple[str, str]]:
        return [(one.verdict, one.reason) for one in self.made if one.policy == policy]

    def last(self, policy: str = "p") -> Decision:
        return [one for one in self.made if one.policy == policy][-1]


def policy(name: str = "p", *strategies: Strategy, **changes: Any) -> Policy:
    fields: dict[str, Any] = {
        "replicas": Bounds(min=1, max=20),
        "strategies": strategies or (Want(),),
        "workload": Target("shop", "web"),
        "mode": "act",
        "jitter": 0.0,
    }
    return Policy(name=name, **(fields | changes))


def gaps(times: Sequence[float]) -> list[float]:
    return [round(later - sooner, 6) for sooner, later in pairwise(times)]


async def test_the_polling_interval_follows_the_load_at_once() -> None:
    play = Play(policy("p", Want(), Pace()))
    first = (await play.to(5)).times()[0]
    for load, until in ((3, 65), (6, 115), (9, 125), (3, 190)):
        play.meter.load[WEB] = load
        await play.to(first + until - 0.5)
    # The load moves at 64.5, 114.5 and 124.5, and is read each second.
    assert gaps(play.times())[:2] == [30, 30]
    looks = [time - first for time in play.times()]
    sixes, nines = ([at for at in looks if since <= at < to] for since, to in ((64.5, 114.5), (114.5, 124.5)))
    assert (sixes[0] <= 65.5, nines[0] <= 115.5) == (True, True)
    assert gaps(sixes) == [10, 10, 10, 10]
    assert gaps(nines)[:8] == [1] * 8
    assert gaps(looks[-3:]) == [30, 30]


@pytest.mark.parametrize("jitter", [0.0, 0.1, 0.5])
async def test_jitter_never_makes_a_look_later_than_was_asked_for(jitter: float) -> None:
    play = Play(policy(interval=10.0, jitter=jitter), web=3)
    await play.to(600)
    found = gaps(play.times())
    assert max(found) <= 10.0
    assert min(found) >= 10.0 * (1 - jitter) - 0.03
    assert len({round(gap, 3) for gap in found}) > 20 or not jitter


async def test_jitter_raises_the_number_of_looks_only_as_configured() -> None:
    names = [f"w{number}" for number in range(100)]
    policies = [policy(name, workload=Target("shop", name), interval=1.0, jitter=0.1) for name in names]
    loads: dict[str, Any] = dict.fromkeys(names, 3.0)
    play = await Play(*policies, **loads).to(5)
    before = len(play.made)
    await play.to(45)
    assert (len(play.made) - before) / 40 / 100 == pytest.approx(1 / 0.95, rel=0.01)
    assert max(max(gaps(play.times(name))) for name in names) <= 1.0


async def test_no_look_is_skipped_after_jitter_or_a_shared_tick() -> None:
    """The samples have not moved, but the policy's own interval has passed as far as anyone can tell."""
    play = Play(policy(interval=10.0, jitter=0.3), policy("q", mode="observe", interval=9.99), web=3)
    play.meter.stuck_at = 0.0
    await play.to(100)
    assert max(gaps(play.times())) <= 10.0
    assert max(gaps(play.times("q"))) <= 10.0


async def test_after_a_clock_jump_each_workload_is_decided_once() -> None:
    play = Play(policy(interval=1.0), policy("q", workload=Target("shop", "db"), interval=1.0), web=3, db=3)
    await play.to(10)
    count = len(play.made)
    await play.clock.sleep_until(3610)
    await play.loop.step()
    assert sorted(one.policy for one in play.made[count:]) == ["p", "q"]
    assert play.ticks[-1][0] > 3590
    await play.to(3612)
    assert len(play.made) == count + 6


async def test_one_read_of_a_source_serves_all_due_policies() -> None:
    names = [f"w{number}" for number in range(50)]
    policies = [policy(name, workload=Target("shop", name), interval=10.0) for name in names]
    loads: dict[str, Any] = dict.fromkeys(names, 3.0)
    play = await Play(*policies, **loads).to(60)
    assert len(play.made) > 250
    assert len(play.meter.asked) == len({round(at, 6) for at in play.meter.asked})
    assert min(gaps(play.meter.asked)) >= 0.5


async def test_an_unchanged_sample_is_judged_once_per_interval() -> None:
    play = Play(policy("p", Want(), Pace(), interval=10.0), web=9)
    play.meter.stuck_at = 0.0
    await play.to(31)
    assert gaps(play.times()) == [1, 10, 10]  # it was scaled at the first look
    assert [unchanged for _, unchanged in play.ticks].count(1) >= 26
    play.meter.stuck_at = None
    await play.to(35)
    assert gaps(play.times())[-3:] == [1, 1, 1]


class Bell(Strategy, tag="bell", frozen=True):
    """So many replicas more at 12.5 s and each 20 s after that; nothing moves but the clock."""

    first: float = 12.5

    def next_change(self, at: float) -> float:
        return self.first + 20 * max(0, (at - self.first) // 20 + 1)

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation:
        return Recommendation(3 + max(0, int((observation.at - self.first) // 20 + 1)), "Rung")


@pytest.mark.parametrize("interval", [5.0, 30.0, 600.0])
async def test_a_scheduled_change_is_judged_at_its_time(interval: float) -> None:
    play = Play(policy("p", Bell(), interval=interval, jitter=0.1), web=3)
    play.meter.stuck_at = 0.0
    await play.to(60)
    assert [(round(one.at, 1), one.after) for one in play.outcomes] == [(12.5, 4), (32.5, 5), (52.5, 6)]
    assert {one.interval for one in play.made} == {interval}
    rare = max(0.0, 60 / interval * 1.3)
    assert len(play.made) <= 3 + 3 + 3 + rare  # first looks, edges, looks after a change, and those of the interval


async def test_a_scheduled_change_during_an_action_is_not_missed() -> None:
    play = Play(policy("p", Bell(first=2.0), interval=600.0), web=3)
    await play.to(1)

    async def slowly(action: Action) -> Answer:
        await play.clock.sleep_until(play.clock.now() + 21)
        play.cluster.on_act = None
        return await play.cluster.act(action)

    play.cluster.on_act = slowly
    await play.to(30)
    assert [(one.decision.partition("@")[2], one.after) for one in play.outcomes] == [("2.000", 4), ("23.500", 5)]


async def test_a_strategy_whose_clock_fails_holds_its_own_policy() -> None:
    class Broken(Strategy, tag="broken", frozen=True):
        """Cannot say when."""

        def next_change(self, at: float) -> float:
            raise RuntimeError("no clock")

    broken, fine = policy("p", Broken()), policy("q", Want(), workload=Target("shop", "db"))
    play = await Play(broken, fine, web=3, db=7).to(5)
    assert play.last("p").reason == "PluginFailed"
    assert "no clock" in play.last("p").message
    assert play.last("q").replicas == 7


async def test_a_workload_scaled_by_someone_else_is_judged_at_once() -> None:
    play = Play(policy("p", Want(), Pace(), interval=10.0), web=9)
    play.meter.stuck_at = 0.0
    await play.to(3.5)
    play.cluster.put(WEB, 7)
    await play.to(5)
    assert play.last().current == 7


async def test_two_policies_acting_on_one_workload_both_hold() -> None:
    play = Play(policy("a"), policy("b", select=Select(("shop",)), workload=None), web=9)
    await play.to(40)
    for name in "ab":
        held = play.last(name)
        assert (held.verdict, held.reason, held.current, held.replicas) == ("hold", "Contested", 3, 3)
        assert held.message == "policies a, b would all act on it, so none does"
    assert [action for action in play.cluster.acts if isinstance(action, Scale)] == []
    assert [action.reason for action in play.cluster.acts if isinstance(action, Announce)] == ["Contested"] * 2


async def test_a_policy_that_observes_works_beside_one_that_acts() -> None:
    play = await Play(policy("a"), policy("b", mode="observe"), web=9).to(2)
    assert {one.reason for one in play.made} == {"Wanted"}
    assert {(one.policy, one.result) for one in play.outcomes} >= {("a", "done")}
    assert play.cluster.has[WEB].replicas == 9


async def test_mode_observe_never_acts_and_reports_what_it_would_do() -> None:
    play = await Play(policy(mode="observe"), web=9).to(95)
    assert play.cluster.acts == []
    assert [(one.result, one.before, one.after) for one in play.outcomes] == [("observed", 3, 9)] * 4
    assert {(one.reason, one.condition) for one in play.outcomes} == {("", None)}


async def test_selected_workloads_come_and_go() -> None:
    play = Play(policy(select=Select(("shop",), {"tier": "front"}), workload=None))
    await play.to(2)
    assert (play.made, play.keys) == ([], set())
    play.cluster.put(WEB, 3, tier="front")
    await play.to(4)
    assert play.keys == {("p", WEB)}
    assert play.last().workload == WEB
    play.cluster.put(WEB, 3, tier="back")
    await play.to(6)
    assert (play.keys, play.journal.decisions()) == (set(), [])
    count = len(play.made)
    await play.to(100)
    assert len(play.made) == count


async def test_a_selected_workload_that_one_snapshot_lacks_keeps_its_past() -> None:
    play = Play(policy("p", Want(), select=Select(("shop",)), workload=None, interval=5.0), web=9)
    play.cluster.put(DB, 3)
    play.meter.load[DB] = 3
    await play.to(12)
    past = play.journal.past("p", WEB, 12, 9)
    assert [(change.before, change.after) for change in past.changes] == [(3, 9)]
    play.cluster.remove(WEB)
    await play.to(13)
    assert play.keys == {("p", DB)}
    assert [one.workload for one in play.journal.decisions()] == [DB]
    play.cluster.put(WEB, 9)
    await play.to(20)
    later = play.journal.past("p", WEB, 20, 9)
    assert play.journal.latest("p", WEB) is not None
    assert (later.since, later.changes) == (past.since, past.changes)
    assert later.runs[: len(past.runs) - 1] == past.runs[:-1]
    assert (later.runs[-1].first, later.runs[-1].replicas) == (past.runs[-1].first, past.runs[-1].replicas)


async def test_one_that_stays_away_is_forgotten_after_the_horizon() -> None:
    play = Play(policy("p", Want(), select=Select(("shop",)), workload=None, interval=5.0), web=9)
    await play.to(12)
    play.cluster.remove(WEB)
    until = play.journal.past("p", WEB, 12, 9).until
    for time, kept in ((until + HORIZON - 2, True), (until + HORIZON + 2, False)):
        await play.clock.sleep_until(time)
        play.cluster.put(DB, 3)  # something came: who is governed is looked at again
        await play.loop.step()
        assert (("p", WEB) in play.journal._pasts) is kept


async def test_a_missing_workload_is_held_and_shrinks_no_sooner() -> None:
    play = Play(policy("p", Want(), limits=(Stabilization(down=60),), interval=5.0), web=1)
    play.cluster.remove(WEB)
    await play.to(20)
    assert play.told() == [("hold", "FailedGetScale")] * 4
    play.cluster.put(WEB, 9)
    first = play.clock.now()
    await play.to(75)
    assert play.cluster.has[WEB].replicas == 9
    await play.to(first + 75)
    assert play.cluster.has[WEB].replicas == 1


async def test_a_workload_of_an_unwatchable_kind_is_held_with_reason() -> None:
    play = Play(policy("p", Want(), interval=5.0), web=1)
    play.cluster.remove(WEB)
    play.cluster.trouble["apps/v1", "Deployment"] = "403 Forbidden"
    await play.to(20)
    assert {one.message for one in play.made} == {"403 Forbidden"}


async def test_stabilization_windows_start_afresh_after_regaining_leadership() -> None:
    play = Play(policy("p", Want(), limits=(Stabilization(down=60),), interval=5.0), web=1)
    await play.to(50)
    play.cluster.leading = False
    count = len(play.made)
    await play.to(55)
    assert len(play.made) == count
    play.cluster.put(WEB, 9)
    play.cluster.leading = True
    await play.to(110)
    assert play.cluster.has[WEB].replicas == 9
    assert len(play.made) > count
    await play.to(125)
    assert play.cluster.has[WEB].replicas == 1


async def test_who_does_not_lead_decides_nothing_and_reads_no_source() -> None:
    play = Play(policy(), web=9)
    play.cluster.leading = False
    await play.to(100)
    assert (play.made, play.meter.asked, play.cluster.acts) == ([], [], [])
    assert play.loop.last_tick == 100
    play.cluster.leading = True
    await play.to(102)
    assert len(play.made) == 1


async def test_what_fell_due_while_another_led_is_not_late() -> None:
    play = Play(policy(interval=1.0), policy("q", workload=Target("shop", "db"), interval=30.0), web=3, db=3)
    await play.to(10)
    play.cluster.leading = False
    await play.to(500)
    count = len(play.ticks)
    play.cluster.leading = True
    await play.to(505)
    assert {one.policy for one in play.made if one.at > 500} == {"p", "q"}
    assert max(lag for lag, _ in play.ticks[count:]) < 0.1


async def test_a_reload_keeps_the_schedule_of_unchanged_policies() -> None:
    stays, changes = policy("a"), policy("b", workload=Target("shop", "db"), interval=3600.0)
    play = await Play(stays, changes, web=3, db=3).to(10)
    due = play.times("a")[0] + 30
    play.loop.apply([stays, replace(changes, interval=5.0)])
    await play.to(12)
    assert (len(play.times("a")), len(play.times("b"))) == (1, 2)
    await play.to(40)
    assert play.times("a")[1] == due
    assert gaps(play.times("b"))[-3:] == [5, 5, 5]


async def test_a_policy_that_is_removed_leaves_the_replicas_alone() -> None:
    play = await Play(policy(), web=9).to(5)
    play.loop.apply([])
    play.meter.load[WEB] = 1
    await play.to(500)
    assert play.cluster.has[WEB].replicas == 9
    assert (play.keys, len(play.made)) == (set(), 1)


@pytest.mark.parametrize(
    "where", ["while a source is read", "while judgement goes on", "while the cluster is observed"]
)
async def test_a_reload_during_a_tick_acts_on_no_old_policy(where: str) -> None:
    play = Play(policy(mode="act"), web=9)

    async def reload(*_: object) -> None:
        play.meter.wait = None
        play.loop._judge, play.cluster.observe = judge, observe  # type: ignore[method-assign]
        play.loop.apply([policy(mode="observe", interval=7.0)])

    judge, observe = play.loop._judge, play.cluster.observe
    if where == "while a source is read":
        play.meter.wait = reload
    elif where == "while judgement goes on":

        async def judging(cases: Any) -> Any:
            found = await judge(cases)
            await reload()
            return found

        play.loop._judge = judging
    else:

        async def observing(now: float, kinds: Any) -> Any:
            found = await observe(now, kinds)
            await reload()
            return found

        play.cluster.observe = observing  # type: ignore[method-assign]
    await play.to(30)
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
async def test_an_action_that_fails_is_told_and_decided_anew(
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
    tmp_path: Path,
) -> None:
    play = await Play(policy(interval=600.0), folder=tmp_path).to(5)
    good, play.journal._file = play.journal._file, io.FileIO("/dev/full", "ab")
    play.journal.append(play.last())
    play.journal.flush()
    await play.to(10)
    assert (play.journal.writable, play.journal.fault) == (False, "No space left on device")
    full, play.journal._file = play.journal._file, good
    full.close()
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


async def test_a_source_is_read_at_its_pace_between_looks() -> None:
    play = Play(policy(interval=3600.0))
    renewing, asked = renews_each(play, 15.0)
    await play.to(300)
    count = len(asked)
    await play.to(900)
    assert len(play.made) == 1
    assert 600 / 15 <= len(asked) - count <= 600 / 15 * 1.4
    assert renewing.load is play.meter.load


def renews_each(play: Play, pace: float, phase: float = 3.7) -> tuple[Meter, list[float]]:
    """The only source of the loop from now on, which has something new so often; and when it is asked."""
    renewing, asked = Meter(play.clock), []

    async def fixed() -> None:
        asked.append(play.clock.now())
        renewing.stuck_at = (play.clock.now() - phase) // pace * pace + phase

    renewing.wait, renewing.load = fixed, play.meter.load
    play.loop.set_sources([SourcePoller(renewing, Meters(), play.clock)])
    return renewing, asked


class Narrow(Strategy, tag="narrow", frozen=True):
    @hookimpl
    def limit(self, past: Past) -> Limit:
        return Limit("Narrow", "", 2, 5)


async def test_limits_of_plugins_bind() -> None:
    play = await Play(policy("p", Want(), limits=(Narrow(),)), web=9).to(2)
    assert play.last().replicas == 5
    assert [(limit.name, limit.bound) for limit in play.last().limits] == [("narrow", True), ("bounds", False)]


def shelf_of(play: Play, name: str, meter: Meter, **options: Any) -> SourcePoller:
    """Another source of the same series."""
    return SourcePoller(meter, Meters(name=name, **options), play.clock, patience=0.05)


async def test_many_wakes_make_a_workload_due_once() -> None:
    play = await Play(policy(interval=30.0)).to(5)
    count = len(play.made)
    play.meter.load[WEB] = 9
    for _ in range(1000):
        play.loop.wake("workload", str(WEB))
    await play.loop.step()
    assert len(play.made) == count + 1
    assert play.last().at - 5 <= NUDGE
    assert play.last().wish == 9


async def test_a_workload_woken_constantly_is_judged_twice_a_second() -> None:
    play = await Play(policy(interval=30.0)).to(5)
    play.loop.wake("workload", str(WEB))
    await play.loop.step()
    begun = len(play.made)
    while play.clock.now() < 15:
        play.loop.wake("workload", str(WEB))
        await play.loop.step()
        await play.loop.actions.drain()
    assert 15 <= len(play.made) - begun <= 21
    assert min(gaps(play.times()[begun:])) >= REST - QUANTUM - 1e-6


@pytest.mark.parametrize(
    ("subject", "key", "judged"),
    [
        pytest.param("pod", "shop/web-1", True, id="its-pod"),
        pytest.param("pod", "shop/other-1", False, id="a-pod-of-nobody"),
        pytest.param("workload", "shop/Deployment/other", False, id="a-workload-that-nobody-governs"),
        pytest.param("node", "node-1", False, id="a-node"),
    ],
)
async def test_news_concern_whoever_they_are_about(subject: Any, key: str, judged: bool) -> None:
    play = Play(policy(interval=30.0))
    play.cluster.its_pods[WEB] = (Pod("shop", "web-1", "u1", "Running"),)
    await play.to(5)
    count = len(play.made)
    play.loop.wake(subject, key)
    await play.loop.step()
    assert len(play.made) == count + judged


async def test_a_wake_during_an_action_triggers_no_judgement() -> None:
    play = Play(policy(interval=30.0), web=9)
    gate = play.cluster.gated()
    await play.loop.tick(0.0)
    await play.loop.tick(1.0)
    count = len(play.made)
    play.loop.wake("workload", str(WEB))
    await play.loop.step()
    assert len(play.made) == count
    gate.set()
    await play.loop.actions.drain()


async def test_a_slow_source_delays_only_who_needs_it() -> None:
    """And that one is judged as soon as it answers, or when it has been waited for long enough."""
    play = Play(
        policy("quick", interval=1.0, trust=Trust(sources=("meter",))),
        policy("slow", interval=1.0, mode="observe", trust=Trust(sources=("slow",))),
    )
    gate, slow = asyncio.Event(), Meter(play.clock)
    slow.load, slow.wait = play.meter.load, gate.wait
    play.loop.set_sources([play.poller, SourcePoller(slow, Meters(name="slow"), play.clock, patience=60.0)])
    await play.to(10)
    assert (len(play.times("quick")) >= 9, play.times("slow")) == (True, [])
    gate.set()
    await play.to(11.5)
    assert play.last("slow").series[0].quality.value == "fresh"


async def test_a_source_that_never_answers_is_given_up_and_told() -> None:
    play = Play(policy(interval=1.0, trust=Trust(sources=("dead", "meter"))))
    dead = Meter(play.clock)
    dead.wait = asyncio.Event().wait
    play.loop.set_sources([shelf_of(play, "dead", dead), play.poller])
    await play.to(5)
    (series,) = play.last().series
    assert (series.source, series.message) == ("meter", "not dead error: not read yet")


async def test_a_policy_reads_only_its_trusted_sources_in_their_order() -> None:
    play = Play(policy(interval=1.0, trust=Trust(sources=("b", "a"))))
    a, b = Meter(play.clock), Meter(play.clock)
    a.load, b.load = {WEB: 4}, {WEB: 5}
    play.loop.set_sources([play.poller, shelf_of(play, "a", a), shelf_of(play, "b", b)])
    await play.to(3)
    assert (play.last().series[0].source, play.last().wish, play.meter.asked) == ("b", 5, [])
    b.stuck_at = -500.0
    await play.to(6)
    assert (play.last().series[0].source, play.last().wish) == ("a", 4)
    assert play.last().series[0].message.startswith("not b stale")
    b.stuck_at = None
    await play.to(9)
    assert (play.last().series[0].source, play.last().series[0].message) == ("b", "")


async def test_a_source_whose_series_nobody_reads_is_not_asked() -> None:
    class Others(Meters, tag="others", frozen=True):
        def offers(self) -> tuple[str, ...]:
            return ("queue",)

    class Only(Want, tag="only", frozen=True):
        def reads(self) -> tuple[str, ...]:
            return ("load",)

    play = Play(policy("p", Only()))
    other = Meter(play.clock)
    play.loop.set_sources([SourcePoller(other, Others(), play.clock), play.poller])
    await play.to(60)
    assert (other.asked, len(play.made)) == ([], 2)


async def test_a_source_renewed_every_15_s_is_read_as_often() -> None:
    play = Play(policy(interval=1.0))
    renewing, asked = Meter(play.clock), []

    async def fixed() -> None:
        asked.append(play.clock.now())
        renewing.stuck_at = play.clock.now() // 15 * 15

    renewing.wait, renewing.load = fixed, play.meter.load
    play.loop.set_sources([SourcePoller(renewing, Meters(), play.clock)])
    await play.to(120)
    count, made = len(asked), len(play.made)
    await play.to(120 + 600)
    assert len(asked) - count <= 600 / 15 * 1.35
    first: dict[float, float] = {}
    for one in play.made[made:]:
        first.setdefault(one.series[0].measured, one.at)
    behind = [at - measured for measured, at in first.items() if measured > 120]
    assert len(behind) >= 38
    assert max(behind) <= 0.5 + 1.0, "a look of its own comes within its interval, as nothing has moved"
    assert max(gaps(play.times())) <= 1.01, "and no look is put off"


async def test_a_failing_source_is_asked_less_but_every_15_s() -> None:
    play = Play(policy(interval=1.0))

    async def fail() -> None:
        raise ConnectionError("refused")

    play.meter.wait = fail
    await play.to(120)
    pauses = gaps(play.meter.asked)
    assert pauses[:3] == sorted(pauses[:3])
    assert max(pauses) <= 16
    assert len(play.meter.asked) < 20
    play.meter.wait = None
    await play.to(140)
    assert play.last().series[0].quality.value == "fresh"


async def test_what_a_policy_would_see_can_be_asked() -> None:
    play = await Play(policy(), policy("q", mode="observe")).to(3)
    found = await play.loop.query("load", str(WEB))
    assert [(name, series.samples[0].value) for name, series in found] == [("p", 3), ("q", 3)]
    assert await play.loop.query("load", "shop/Deployment/none") == []
    ((_, series), _) = await play.loop.query("lod", str(WEB))
    assert series.message == 'no source has a series "lod"'


async def test_a_wake_during_an_action_is_judged_after_it() -> None:
    play = Play(policy(interval=30.0), web=9)
    gate = play.cluster.gated()
    await play.loop.tick(0.0)
    await play.loop.tick(1.0)
    play.meter.load[WEB] = 5
    play.loop.wake("workload", str(WEB))
    await play.loop.step()
    gate.set()
    await play.loop.actions.drain()
    begun = play.clock.now()
    await play.to(begun + 2)
    assert play.last().wish == 5


async def test_a_query_reads_fresh_values_and_moves_no_look() -> None:
    play = Play(policy(interval=300.0))
    other, slow = Meter(play.clock), asyncio.Event()
    other.load = {WEB: 6}
    play.loop.set_sources([SourcePoller(other, Meters(name="other", every=0.0), play.clock)])
    await play.to(3)
    due = play.loop._schedule.next()
    other.load, other.wait = {WEB: 7}, slow.wait
    asking = asyncio.create_task(play.loop.query("load", str(WEB)))
    await asyncio.sleep(0)
    slow.set()
    ((_, series),) = await asking
    assert series.samples[0].value == 7
    assert play.loop._schedule.next() == due


async def test_a_failed_source_is_retried_before_its_next_renewal() -> None:
    play = Play(policy(interval=1.0))
    play.loop.set_sources([SourcePoller(play.meter, Meters(resolution=300.0), play.clock)])
    await play.to(310)

    async def fail() -> None:
        raise ConnectionError("refused")

    play.meter.wait = fail
    await play.to(620)
    failed = play.clock.now()
    play.meter.wait = None
    await play.to(failed + 20)
    assert play.last().series[0].quality.value == "fresh"


class Looks(Strategy, tag="looks", frozen=True):
    """Tells whether it is shown the nodes."""

    looks_at_nodes: ClassVar[bool] = True

    @hookimpl
    def limit(self, observation: Observation) -> Limit:
        return Limit("Looked", repr(observation.rooms))


class Blind(Looks, tag="blind", frozen=True):
    """Does not want them."""

    looks_at_nodes: ClassVar[bool] = False


@pytest.mark.parametrize(("limit", "shown"), [(Looks(), "()"), (Blind(), "None")], ids=["asked", "not asked"])
async def test_nodes_are_shown_to_whom_has_asked_for_them(limit: Strategy, shown: str) -> None:
    play = await Play(policy("p", Want(), limits=(limit,)), web=9).to(2)
    assert play.last().limits[0].message == shown


async def test_a_reload_before_an_action_begins_loses_no_workload() -> None:
    play = Play(policy(), web=8.0)
    while not play.loop.actions:
        await play.clock.sleep_until(play.clock.now() + 0.5)
        await play.loop.tick(play.clock.now())
    play.loop.apply([policy()])
    await play.loop.actions.drain()
    assert len(play.outcomes) == 1
    looks = len(play.made)
    await play.to(play.clock.now() + 120)
    assert len(play.made) > looks


def test_a_source_gets_the_metrics_api_and_nothing_that_acts() -> None:
    clock = VirtualClock(0.0)
    site = Loop(Simulated(nodes=()).build(clock), Journal(), clock).site
    offered = {name for name in dir(site.metrics) if not name.startswith("_")}
    assert offered == {name for name in dir(MetricsApi) if not name.startswith("_")}
    assert not [name for name in dir(site) if hasattr(getattr(site, name), "act")]
