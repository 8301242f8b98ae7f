"""The loop and its sources: when they are read, and whom their news wakes."""

import asyncio
from typing import Any, ClassVar

import pytest

from elasticd.api import (
    Limit,
    Observation,
    Past,
    Pod,
    Strategy,
    hookimpl,
)
from elasticd.base.clock import VirtualClock
from elasticd.cluster.simulated import Simulated
from elasticd.journal import Journal
from elasticd.model.actions import Scale
from elasticd.model.policy import Target, Trust
from elasticd.ports.metrics_api import MetricsApi
from elasticd.runtime.loop import NUDGE, QUANTUM, REST, Loop
from elasticd.sources.poller import SourcePoller
from elasticd.telemetry.failure_log import FailureLog
from tests.kit.loops import WEB, Meter, Meters, Play, Want, gaps, policy


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
    other.load, other.wait = {WEB: 7}, slow.wait
    asking = asyncio.create_task(play.loop.query("load", str(WEB)))
    await asyncio.sleep(0)
    slow.set()
    ((_, series),) = await asking
    assert series.samples[0].value == 7
    await play.to(400)
    assert gaps(play.times())[1:] == [300]


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


class Reads(Want, tag="reads", frozen=True):
    """As many replicas as a series says that it asks for."""

    def reads(self) -> tuple[str, ...]:
        return (self.series,)


async def test_after_an_hour_without_names_each_is_decided_once(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the API server nor the source has an address, as where DNS fails; meanwhile the load changes."""
    caplog.set_level("INFO")
    intervals = {"web": 1.0, "db": 10.0, "old": 30.0}
    rules = [policy(name, Reads(), interval=pause, workload=Target("shop", name)) for name, pause in intervals.items()]
    play = Play(*rules, listeners=[FailureLog()], web=3, db=3, old=3)
    await play.to(BEGUN)
    play.meter.wait, play.cluster.proved = _no_address, play.clock.now()
    play.meter.load = dict.fromkeys(play.meter.load, 6.0)
    await play.to(ENDED)
    play.meter.wait, play.cluster.proved = None, None
    await play.to(ENDED + 300)
    for name, pause in intervals.items():
        times = play.times(name)
        during = [one for one in play.made if one.policy == name and BEGUN + 2 < one.at < ENDED]
        assert {(one.verdict, one.reason) for one in during} == {("hold", "NoSample"), ("hold", "StaleCluster")}
        for begin in (BEGUN, ENDED):
            minute = [time for time in times if begin <= time < begin + 60]
            assert len(minute) <= 60 / pause + 1, "one more at once, for the news, and none is caught up with"
        assert next(one.at for one in play.outcomes if one.policy == name) < ENDED + 3 * pause
    scaled = [(action.before, action.after) for action in play.cluster.acts if isinstance(action, Scale)]
    assert scaled == [(3, 6)] * 3
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "source meter: OSError: Temporary failure in name resolution"),
        ("INFO", "source meter: all is well again"),
    ]


BEGUN, ENDED = 300.0, 3900.0
"""Seconds at which names begin and end to have no address."""


async def _no_address() -> None:
    raise OSError("Temporary failure in name resolution")
