"""The loop: when it looks, which workloads it governs, and who leads."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.api import (
    Bounds,
    Observation,
    Recommendation,
    Strategy,
    hookimpl,
)
from elasticd.base.tasks import cancel
from elasticd.kit.history import HORIZON, begin
from elasticd.kit.windows import Rate
from elasticd.limits.behavior import RateLimit, Stabilization
from elasticd.model.actions import Action, Announce, Answer, Scale
from elasticd.model.disruption import PolicyCaps
from elasticd.model.policy import Foreign, Select, Target
from elasticd.model.workload import Pod, Ref
from tests.kit.loops import DB, WEB, Play, Snapshot, Want, gaps, policy


class Pace(Strategy, tag="pace", frozen=True):
    """30 s, 10 s from 5 on, 1 s from 8 on."""

    @hookimpl
    def poll_interval(self, observation: Observation) -> float:
        load = observation.series["load"].samples[0].value
        return 1.0 if load >= 8 else 10.0 if load >= 5 else 30.0


class Stopped(Snapshot):
    """A snapshot of a cluster in which a takeover has stopped the HPAs of both workloads."""

    def stopped_by_takeover(self) -> list[str]:
        return [str(WEB), str(DB)]


async def test_only_a_leader_tells_what_nobody_scales() -> None:
    play = Play(policy("p"), policy("q", mode="observe", workload=Target("shop", "db")), web=3, db=3)
    await play.to(5)
    assert play.loop.unscaled() == [], "it is not known"
    play.loop.snapshot = Stopped(play.cluster, 5.0)
    assert play.loop.unscaled() == [str(DB)]
    play.cluster.leading = False
    assert play.loop.unscaled() == []


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


class Lost:
    """A breaker that knows of a loss."""

    def sudden_loss(self, now: float) -> str:
        return "9 of 10 series were lost"


@pytest.mark.parametrize(
    ("loads", "acts"),
    [
        pytest.param({10: 1}, {13: 1}, id="it falls after its wait"),
        pytest.param({10: 1, 12: 2}, {13: 2}, id="it falls less where more are wanted meanwhile"),
        pytest.param({10: 2, 12: 1}, {13: 2, 15: 1}, id="it falls further where that has waited too"),
        pytest.param({10: 1, 12: 3}, {}, id="the load is back"),
        pytest.param({10: 1, 12: 9}, {12: 9}, id="it rises at once"),
        pytest.param({10: 1, 11: 3, 12: 1}, {15: 1}, id="it waits anew after a dip"),
    ],
)
async def test_a_count_falls_once_fewer_were_wanted_for_long(loads: dict[int, int], acts: dict[int, int]) -> None:
    """It is evaluated meanwhile as ever."""
    play = Play(policy("p", Want(), interval=0.5), caps=PolicyCaps(falls_after=3.0), web=3)
    for time, load in loads.items():
        await play.to(time - 0.5)
        play.meter.load[WEB] = load
    await play.to(40)
    assert {round(one.at): one.action.after for one in play.made if isinstance(one.action, Scale)} == acts


async def test_a_wait_is_over_before_the_next_interval() -> None:
    play = await Play(policy("p", Want(), interval=30.0), caps=PolicyCaps(falls_after=3.0), web=3).to(10)
    play.meter.load[WEB] = 1
    await play.to(80)
    held, fell = play.made[1:3]
    assert [(one.replicas, one.reason) for one in (held, fell)] == [(3, "ScaleDownStabilized"), (1, "Wanted")]
    assert fell.at - held.at == 3.0


async def test_a_zero_that_the_breaker_refuses_is_not_marked() -> None:
    """A person's zero would count as elasticd's while that lasts."""
    play = Play(policy("p", Want(), replicas=Bounds(min=0, max=20)), web=3)
    play.loop.breaker = Lost()
    await play.to(5)
    play.meter.load[WEB] = 0
    await play.to(60)
    assert {(one.result, one.reason) for one in play.outcomes} == {("refused", "Breaker")}
    assert play.made[-1].marks
    assert play.cluster.acts == []


@pytest.mark.parametrize(("away", "known"), [(590, 1), (610, 0)])
async def test_who_leads_again_after_long_has_no_lost_series(away: float, known: int) -> None:
    """What has ended meanwhile, another daemon has seen."""
    play = Play(policy("p", Want()), web=3)
    await play.to(5)
    play.cluster.leading = False
    await play.loop.step()
    await play.clock.sleep_until(play.clock.now() + away)
    play.meter.load.clear()
    play.cluster.leading = True
    await play.to(play.clock.now() + 5)
    counts = play.journal.known_series.counts(play.clock.now())
    assert (counts.known, counts.lost) == (0, known)


async def test_what_does_not_fall_asks_no_breaker() -> None:
    play = Play(policy("p", Want()), web=9)
    play.loop.breaker = Lost()
    await play.to(5)
    assert [action.after for action in play.cluster.acts if isinstance(action, Scale)] == [9]


@pytest.mark.parametrize("jitter", [0.0, 0.1, 0.5])
async def test_jitter_never_makes_a_look_later_than_was_asked_for(jitter: float) -> None:
    play = Play(policy(interval=10.0, jitter=jitter), web=3)
    await play.to(600)
    found = gaps(play.times())
    assert max(found) <= 10.0
    assert min(found) >= 10.0 * (1 - jitter) - 0.03
    assert len({round(gap, 3) for gap in found}) > 20 or not jitter


@pytest.mark.slow
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


REPLICA_SETS = [
    pytest.param({"select": Select(("shop",), kind="ReplicaSet"), "workload": None}, [], id="selected"),
    pytest.param(
        {"workload": Target("shop", "web-1", "ReplicaSet")},
        [("hold", "OwnerSetsCount", "Deployment/web sets its count; name that in the policy")],
        id="named",
    ),
]


@pytest.mark.parametrize(("about", "decided"), REPLICA_SETS)
async def test_a_replica_set_of_a_deployment_is_left_to_it(about: dict[str, Any], decided: list[Any]) -> None:
    play = Play(policy("p", **about), policy("q"), web=9)
    owned, bare = Ref("shop", "ReplicaSet", "web-1"), Ref("shop", "ReplicaSet", "bare")
    pods = (Pod("shop", "web-1-a", "u", "Running"),)
    play.cluster.put(owned, 3)
    play.cluster.has[owned] = replace(play.cluster.has[owned], owner="Deployment/web")
    play.cluster.put(bare, 3)
    play.cluster.its_pods = {owned: pods, WEB: pods}  # both select them
    play.meter.load |= {owned: 9, bare: 9}
    await play.to(40)
    scaled = {action.workload for action in play.cluster.acts if isinstance(action, Scale)}
    assert scaled == {WEB} | ({bare} if "select" in about else set())
    assert [(one.verdict, one.reason, one.message) for one in play.made if one.workload == owned][:1] == decided


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


SLOWLY = {"limits": (RateLimit(down=(Rate("Pods", 1, 120),)),), "interval": 5.0}


async def test_a_renamed_policy_waits_for_the_workload_s_last_change() -> None:
    play = Play(policy("p0", **SLOWLY), web=1)
    for number in range(1, 20):
        await play.to(5.0 * number)
        play.loop.apply([policy(f"p{number}", **SLOWLY)])
    assert play.cluster.has[WEB].replicas == 2
    await play.to(130)
    assert play.cluster.has[WEB].replicas == 1


async def test_a_change_whose_answer_was_lost_counts_for_rates() -> None:
    play = Play(policy("p", **SLOWLY), web=1)

    async def applied(action: Action) -> Answer:
        if isinstance(action, Scale):
            play.cluster.has[WEB] = replace(play.cluster.has[WEB], replicas=action.after)
            raise ConnectionError("reset by peer")
        return Answer("done", 200)

    play.cluster.on_act = applied
    await play.to(100)
    assert play.cluster.has[WEB].replicas == 2
    await play.to(130)
    assert play.cluster.has[WEB].replicas == 1


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


@pytest.mark.parametrize("recreated", [True, False], ids=["each time another object", "the same object"])
async def test_a_workload_created_again_is_no_count_overwritten(*, recreated: bool) -> None:
    play = Play(policy("p", Want(), interval=5.0, foreign=Foreign(strikes=1)), web=9)
    for number in range(3):
        uid = f"uid-{number}" if recreated else "uid"
        play.cluster.has[WEB] = replace(play.cluster.has[WEB], uid=uid, replicas=3)
        play.cluster.version += 1
        await play.to(20.0 * (number + 1))
    assert play.cluster.has[WEB].replicas == (9 if recreated else 3)
    assert ("ForeignOwner" in [made.reason for made in play.made]) is not recreated


async def test_one_that_stays_away_is_forgotten_after_the_horizon() -> None:
    play = Play(policy("p", Want(), select=Select(("shop",)), workload=None, interval=5.0), web=9)
    await play.to(12)
    play.cluster.remove(WEB)
    until = play.journal.past("p", WEB, 12, 9).until
    for time, kept in ((until + HORIZON - 2, True), (until + HORIZON + 2, False)):
        await play.clock.sleep_until(time)
        play.cluster.put(DB, 3)  # something came: who is governed is looked at again
        await play.loop.step()
        assert (play.journal.past("p", WEB, time, 9) != begin(time, 9)) is kept


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


@pytest.mark.parametrize("leading", [False, True], ids=["it stands by", "no policy is of a workload"])
async def test_ticks_are_counted_also_where_nothing_is_due(*, leading: bool) -> None:
    """An alert is about them."""
    play = Play(*([] if leading else [policy()]), web=9)
    play.cluster.leading = leading
    await play.to(60)
    assert (play.idle_ticks >= 59, play.ticks) == (True, [])


async def test_sources_are_told_since_when_the_daemon_leads() -> None:
    play = Play(policy(), web=9)
    await play.to(10)
    assert play.loop.site.since() == 0.0
    play.cluster.leading = False
    await play.to(50)
    assert play.loop.site.since() == 0.0
    play.cluster.leading = True
    await play.to(60)
    assert 50.0 <= play.loop.site.since() <= 51.0


async def test_sources_are_told_of_a_pause_of_the_process() -> None:
    """Virtual time passes between two looks at the clock as it does while a process is suspended."""
    play = Play(policy(), web=9)
    running = asyncio.create_task(play.loop.run())
    for _ in range(1000):
        await asyncio.sleep(0)
    assert play.clock.now() >= 60
    assert play.loop.site.since() >= 60
    await cancel(running)


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


ONE = PolicyCaps(newly_governed=1)


async def test_what_a_reload_newly_selects_waits_over_further_reloads() -> None:
    named, wide = policy("named"), policy("wide", select=Select(("shop",)), workload=None)
    play = Play(named, caps=ONE, web=6, db=6, api=6)
    await play.to(40)
    for _ in range(2):
        play.loop.apply([wide], caps=ONE)
        await play.to(play.clock.now() + 40)
        held = {one.workload.name: one.reason for one in play.made if one.policy == "wide" and one.verdict == "hold"}
        assert held == {"db": "Unconfirmed", "api": "Unconfirmed"}
    assert next(one.message for one in play.made if one.reason == "Unconfirmed") == (
        "select matches 2 workloads that no policy governed before, and 1 may come at one reload "
        "(newly_governed of [disruption]): confirm it by confirmed = 2 under [select]"
    )
    play.made.clear()
    play.loop.apply([replace(wide, select=Select(("shop",), confirmed=2))], caps=ONE)
    await play.to(play.clock.now() + 40)
    assert "Unconfirmed" not in {one.reason for one in play.made}


async def test_selected_workloads_need_no_confirmation_at_the_start() -> None:
    play = await Play(policy("p", select=Select(("shop",)), workload=None), caps=ONE, web=6, db=6).to(40)
    assert {one.reason for one in play.made}.isdisjoint({"Unconfirmed"})
