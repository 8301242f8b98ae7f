"""A number that is new is heeded when it is, in virtual time: whoever is calm, and whatever happens meanwhile."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from weakref import ReferenceType, ref

import pytest
from msgspec.structs import replace

from elasticd.api import Observation, Recommendation, Strategy, hookimpl
from elasticd.base.clock import VirtualClock
from elasticd.decision.screen import Bands, bands_of
from elasticd.decision.workload.asking import Case
from elasticd.model.actions import Scale
from elasticd.model.policy import Target, Trust
from elasticd.model.workload import Band, Readings
from elasticd.runtime.loop import NUDGE, REST
from elasticd.sources.poller import PATIENCE, SourcePoller
from tests.kit.loops import DB, WEB, Meter, Meters, Play, Want, policy

PHASE = 3.7


class Paper(Want, tag="paper", frozen=True):
    """Keeps a pace of its own."""

    def own_pace(self) -> bool:
        return True


class Renewing(Meter):
    """Has something new so often; `load` is what it will find then. It may take its time, or fail."""

    def __init__(self, clock: VirtualClock, pace: float, took: float = 0.0) -> None:
        super().__init__(clock)
        self.pace, self.took, self.failing = pace, took, False
        self.wait = self._wait

    async def _wait(self) -> None:
        self.stuck_at = (self.clock.now() - PHASE) // self.pace * self.pace + PHASE
        if self.failing:
            raise ConnectionError("refused")
        if self.took:
            await self.clock.sleep_until(self.clock.now() + self.took)


def renewing(play: Play, pace: float, **options: Any) -> Renewing:
    """The only source of the loop from now on."""
    meter = Renewing(play.clock, pace, **options)
    meter.load = play.meter.load
    play.loop.set_sources([SourcePoller(meter, Meters(), play.clock)])
    return meter


async def surge(play: Play, at: float, pace: float, load: float = 9, until: float = 40.0) -> float:
    """The load moves to this just before a renewal; how long after the renewal somebody looked at it."""
    renewal = PHASE + (at - PHASE) // pace * pace + pace
    await play.to(renewal - 0.01)
    count = len(play.made)
    play.meter.load[WEB] = load
    await play.to(renewal + until)
    return min((one.at for one in play.made[count:] if one.wish == load), default=float("inf")) - renewal


@pytest.mark.parametrize("pace", [1.0, 5.0, 15.0, 60.0], ids="renewed each {} s".format)
async def test_a_calm_workload_reacts_to_a_surge_within_a_second(pace: float) -> None:
    play = Play(policy(interval=30.0))
    renewing(play, pace)
    for number, load in enumerate((9, 3, 12, 4)):
        assert await surge(play, 400 + number * 260, pace, load) <= 0.9
    assert [action.after for action in play.cluster.acts if isinstance(action, Scale)] == [9, 3, 12, 4]


@pytest.mark.parametrize("load", [3.0, 3.2, 2.8], ids="{}".format)
async def test_news_that_change_nothing_make_no_look(load: float) -> None:
    play = Play(policy(interval=30.0))
    renewing(play, 5.0)
    await play.to(300)
    count = len(play.made)
    play.meter.load[WEB] = load
    await play.to(600)
    assert len(play.made) - count == 10


async def test_policies_applied_while_bands_are_found_end_no_tick() -> None:
    play, reloads = Play(policy(interval=30.0)), iter([True])
    meter = Renewing(play.clock, 5.0)
    meter.load = play.meter.load

    async def reload(cases: Sequence[Case]) -> list[Bands | str]:
        if next(reloads, False):
            play.loop.apply([policy(interval=20.0)])
        return [bands_of(case) for case in cases]

    play.loop.set_sources([SourcePoller(meter, Meters(), play.clock)], bander=reload)
    assert await surge(play, 100, 5.0) <= 0.9
    assert next(reloads, False) is False


class Kept(dict[str, Band]):
    """Bands of which it is known whether anybody keeps them."""


async def test_nothing_is_kept_of_workloads_that_no_policy_governs() -> None:
    play = Play(policy("p"), policy("q", workload=Target("shop", "db")), web=3, db=3)
    meter, kept = Renewing(play.clock, 5.0), dict[str, list[ReferenceType[Kept]]]()
    meter.load = play.meter.load

    async def noted(cases: Sequence[Case]) -> list[Bands | str]:
        found = [Kept(bands_of(case)) for case in cases]
        for case, bands in zip(cases, found, strict=True):
            kept.setdefault(case.policy.name, []).append(ref(bands))
        return [*found]

    play.loop.set_sources([SourcePoller(meter, Meters(), play.clock)], bander=noted)
    await play.to(60)
    assert {name for name, bands in kept.items() if any(one() is not None for one in bands)} == {"p", "q"}
    play.loop.apply([policy("p")])
    await play.to(120)
    assert {name for name, bands in kept.items() if any(one() is not None for one in bands)} == {"p"}


async def test_a_policy_with_its_own_interval_ignores_renewals() -> None:
    play = Play(policy("p", Paper(), interval=30.0))
    meter = renewing(play, 5.0)
    await play.to(10)
    count = len(meter.asked)
    assert await surge(play, 100, 5.0) > 1.0
    await play.to(1000)
    gaps = {round(later.at - sooner.at) for sooner, later in zip(play.made, play.made[1:], strict=False)}
    assert gaps == {30}
    assert len(meter.asked) - count <= 1000 / 30 + 2, "nor is a source read for it"


async def test_a_renewal_during_an_action_is_handled_after_it() -> None:
    play = Play(policy(interval=600.0), web=9)
    renewing(play, 5.0)
    gate = play.cluster.gated()
    while not play.cluster.acts:
        await play.loop.step()
    play.meter.load[WEB] = 5
    for _ in range(40):
        await play.loop.step()
    assert len(play.made) == 1
    gate.set()
    await play.loop.actions.drain()
    ended = play.clock.now()
    await play.to(ended + REST + 1)
    assert play.last().wish == 5


class Trusting(Strategy, tag="trusting", frozen=True):
    """As many as the series says, or nothing where it says none."""

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation:
        found = observation.series["load"]
        return Recommendation(int(found.samples[0].value), "Wanted") if found.trusted else Recommendation(None, "No")


@pytest.mark.parametrize("lost", [float("nan"), None], ids=["NaN", "no sample"])
async def test_a_missing_sample_triggers_a_look_that_holds(lost: float | None) -> None:
    play = Play(policy("p", Trusting(), interval=300.0))
    renewing(play, 5.0)
    await play.to(400)
    count = len(play.made)
    if lost is None:
        del play.meter.load[WEB]
    else:
        play.meter.load[WEB] = lost
    await play.to(420)
    assert [(one.verdict, one.reason) for one in play.made[count:]] == [("hold", "No")]
    play.meter.load[WEB] = 7
    await play.to(440)
    assert (play.last().wish, play.cluster.has[WEB].replicas) == (7, 7), "one that can be trusted again is news"


async def test_a_failing_source_triggers_no_look_until_it_returns() -> None:
    play = Play(policy(interval=300.0))
    meter = renewing(play, 5.0)
    await play.to(310)
    count, asked = len(play.made), len(meter.asked)
    meter.failing = True
    await play.to(560)
    assert len(play.made) == count
    assert len(meter.asked) - asked <= 250 / 15 + 8
    meter.failing, play.meter.load[WEB] = False, 9
    await play.to(560 + 16)
    assert play.last().wish == 9


async def test_a_very_slow_read_is_handled_when_it_ends() -> None:
    play = Play(policy(interval=600.0))
    slow, gate = Meter(play.clock), asyncio.Event()
    gate.set()
    slow.load, slow.wait = play.meter.load, gate.wait
    play.loop.set_sources([SourcePoller(slow, Meters(every=5.0), play.clock)], wait=0.0)
    await play.to(50)
    gate.clear()
    await play.to(60)
    count = len(play.made)
    play.meter.load[WEB] = 9
    await play.to(60 + 3 * PATIENCE)
    assert len(play.made) == count
    gate.set()
    for _ in range(3):
        await asyncio.sleep(0)
    await play.loop.step()
    assert play.last().wish == 9
    assert play.last().at <= 60 + 3 * PATIENCE + NUDGE + 1e-6


async def test_only_renewals_of_the_preferred_source_are_heeded() -> None:
    play = Play(policy(interval=600.0, trust=Trust(sources=("a", "b"))))
    a, b = Renewing(play.clock, 5.0), Renewing(play.clock, 5.0)
    a.load, b.load = {WEB: 4}, {WEB: 5}
    play.loop.set_sources([SourcePoller(one, Meters(name=name), play.clock) for name, one in (("b", b), ("a", a))])
    await play.to(20)
    assert (play.last().series[0].source, play.last().wish) == ("a", 4)
    count = len(play.made)
    b.load[WEB] = 15
    await play.to(40)
    assert len(play.made) == count, "what the other says is not asked for"
    a.load.clear()
    await play.to(60)
    assert (play.last().series[0].source, play.last().wish) == ("b", 15)
    a.load[WEB] = 6
    await play.to(80)
    assert (play.last().series[0].source, play.last().wish) == ("a", 6)


async def test_a_fast_source_is_read_once_a_second() -> None:
    play = Play(policy(interval=30.0))
    await play.to(60)
    count = len(play.meter.asked)
    await play.to(660)
    assert 590 <= len(play.meter.asked) - count <= 610
    play.meter.load[WEB] = 9
    await play.to(661.5)
    assert play.last().wish == 9


async def test_a_follower_reads_nothing_and_a_new_leader_reacts_immediately() -> None:
    play = Play(policy(interval=600.0))
    meter = renewing(play, 5.0)
    await play.to(100)
    play.cluster.leading, count = False, len(meter.asked)
    await play.to(300)
    assert len(meter.asked) == count
    play.cluster.leading = True
    await play.to(302)
    assert await surge(play, 310, 5.0) <= 1.0


async def test_renewals_are_heeded_after_a_reload_and_a_clock_jump() -> None:
    play = Play(policy(interval=600.0), policy("q", workload=Target("shop", "db"), interval=600.0), web=3, db=3)
    meter = renewing(play, 15.0)
    await play.to(200)
    play.loop.apply([policy(interval=500.0), policy("q", Paper(), workload=Target("shop", "db"), interval=600.0)])
    await play.to(210)
    assert await surge(play, 230, 15.0) <= 1.0
    play.meter.load[DB] = 8
    await play.clock.sleep_until(90_000.0)
    asked = len(meter.asked)
    await play.to(90_001)
    assert len(meter.asked) - asked <= 4
    assert play.last("q").wish == 8, "it was due"
    await play.to(90_120)
    assert await surge(play, 90_150, 15.0, 3) <= 1.0


@pytest.mark.slow
async def test_a_thousand_simultaneous_renewals_are_judged_in_one_tick() -> None:
    names = [f"w{number}" for number in range(1000)]
    loads: dict[str, Any] = dict.fromkeys(names, 3.0)
    play = Play(*[policy(name, workload=Target("shop", name), interval=300.0) for name in names], **loads)
    renewing(play, 5.0)
    await play.to(100)
    count = len(play.made)
    play.meter.load.update(dict.fromkeys(play.meter.load, 9.0))
    await play.to(110)
    assert len(play.made) - count == 1000
    assert len({one.at for one in play.made[count:]}) == 1


async def test_the_same_happens_at_the_same_times_again() -> None:
    async def once() -> list[tuple[str, float, int | None]]:
        play = Play(policy(interval=30.0), policy("q", workload=Target("shop", "db"), jitter=0.3), web=3, db=3)
        renewing(play, 7.0)
        for at, load in ((100, 9), (160, 2), (220, 5)):
            await play.to(at)
            play.meter.load.update({WEB: load, DB: load + 1})
        await play.to(300)
        return [(one.policy, one.at, one.wish) for one in play.made]

    assert await once() == await once()


class Both(Strategy, tag="both", frozen=True):
    """The sum of two series."""

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation:
        return Recommendation(sum(int(one.samples[0].value) for one in observation.series.values()), "Both")


async def test_a_renewal_of_one_source_reads_the_other_sources_again(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(policy("p", Both(), interval=600.0))
    steady, other = Renewing(play.clock, 5.0), Meter(play.clock)
    steady.load = play.meter.load
    other.load, other.stuck_at = {WEB: 1}, 0.0

    class Others(Meters, tag="others", frozen=True):
        """Of a series of its own."""

    async def renamed(now: float) -> Readings:
        said = await Meter.read(other, now)
        return replace(said, workloads={"more": said.workloads["load"]})

    monkeypatch.setattr(other, "read", renamed)
    play.loop.set_sources([SourcePoller(steady, Meters(), play.clock), SourcePoller(other, Others(), play.clock)])
    await play.to(103)  # the other says nothing new, is read ever less often, and was at 101
    other.stuck_at, other.load[WEB] = 102.0, 2
    play.meter.load[WEB] = 9
    await play.to(104.6)
    assert play.last().wish == 11


@pytest.mark.parametrize("jitter", [0.0, 0.1], ids="jitter {}".format)
async def test_renewals_add_no_looks_where_the_interval_is_a_second(jitter: float) -> None:
    play = Play(policy("p", Want(), interval=1.0, jitter=jitter))
    meter = renewing(play, 1.0)
    for second in range(30, 90):
        await play.to(second)
        meter.load[WEB] = 3 + second % 7
    assert len([one for one in play.made if one.at >= 30]) <= 60 / (1 - jitter)
    assert max(later.at - sooner.at for sooner, later in pairwise(play.made)) <= 1.0
