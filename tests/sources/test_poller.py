"""One read of each source for all: shared, late, raising, and nonsense."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.base.clock import VirtualClock, WallClock
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.model.workload import Readings, Sample
from elasticd.ports.source import Reader, Site, Source
from elasticd.sources.poller import LEFT, SourcePoller, opened
from elasticd.sources.router import SourceRouter
from elasticd.testing import site


class Meter:
    """A reader that answers what it is told to, when it is let."""

    def __init__(self, answer: Callable[[], object] | None = None) -> None:
        self.asked: list[float] = []
        self.answer = answer
        self.open = asyncio.Event()
        self.open.set()

    async def read(self, now: float) -> Readings:
        self.asked.append(now)
        await self.open.wait()
        return Readings("meter", now) if self.answer is None else self.answer()  # type: ignore[return-value]


class Measured(Source, tag="meter", frozen=True):
    """What the meter is, in TOML."""


class Sited(Source, tag="sited", frozen=True):
    """A source that keeps the site that it is opened at."""

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        SITES.append(site)
        yield Meter()


SITES: list[Site] = []


def poller(meter: Meter, every: float = 1.0, patience: float = 30.0) -> SourcePoller:
    return SourcePoller(meter, Measured(every=every), WallClock(), patience)


async def ask(shared: SourcePoller, now: float) -> Readings:
    """The reading, once the read was waited for as long as it is worth it."""
    if (task := shared.ask(now)) is not None:
        await asyncio.wait([task], timeout=shared.patience)
    return shared.take(now) or shared.last


@pytest.mark.parametrize(
    ("times", "since"),
    [
        pytest.param([100, 101, 130], 100, id="one after the other"),
        pytest.param([100, 101, 137], 137, id="after a pause"),
        pytest.param([100, 400, 700, 1300], 400, id="by a policy that seldom asks"),
        pytest.param([100, 400, 700, 1301], 1301, id="after a pause of that"),
    ],
)
async def test_its_reads_begin_anew_once_nobody_asked(times: list[float], since: float) -> None:
    shared = poller(Meter())
    for now in times:
        await ask(shared, now)
    assert shared.wanted_since == since


POLICY = PoolPolicy(name="pool", pool=PoolSelect(), strategies=())


async def test_reads_begin_anew_where_no_policy_had_the_source() -> None:
    """As one that was removed and is applied again, seconds later; not where another has read it meanwhile."""
    alone, shared = poller(Meter()), poller(Meter())
    alone.name, policies = "alone", {name: replace(POLICY, name=name) for name in ("first", "second")}
    router = SourceRouter[str]([alone, shared], lambda _: None)
    alone.offers, shared.offers = ("a",), ("s",)

    async def in_force(now: float, *reads: tuple[str, str]) -> tuple[float, float]:
        router.forget()
        for name, series in reads:
            await router.read({name: router.serving(policies[name], frozenset({series}))}, now)
        return alone.wanted_since, shared.wanted_since

    assert await in_force(100, ("first", "a"), ("second", "s")) == (100, 100)
    assert await in_force(101, ("first", "a"), ("second", "s")) == (100, 100)
    assert await in_force(102, ("second", "s")) == (100, 100)
    assert await in_force(103, ("first", "a"), ("second", "s")) == (103, 100)


async def test_a_source_is_told_since_when_it_is_asked_for() -> None:
    """Or, if that is later, since when the daemon leads."""
    led, source = [-inf], Sited()
    at = replace(site(clock=VirtualClock(50.0)), since=lambda: led[-1])
    async with opened([source], at) as (shared,):
        for now in (50, 51, 90):
            await ask(shared, now)
            assert SITES[-1].since() == (90 if now == 90 else 50)
        led.append(95.0)
        assert SITES[-1].since() == 95


@pytest.mark.parametrize(
    ("times", "reads"),
    [
        ([0, 0, 0], [0]),
        ([0, 0.5, 0.99], [0]),
        ([0, 1, 2], [0, 1, 2]),
        ([0, 0.7, 1.4, 2.1], [0, 1.4]),
        ([0, 3600], [0, 3600]),
    ],
    ids=["at once", "within every", "each every", "not from the last asker", "after a jump"],
)
async def test_a_reading_is_shared_within_every(times: list[float], reads: list[float]) -> None:
    meter = Meter()
    shared = poller(meter)
    for now in times:
        said = await ask(shared, now)
        assert now - said.received < 1
    assert meter.asked == reads


async def test_all_who_ask_during_a_read_get_that_one() -> None:
    meter = Meter()
    meter.open.clear()
    shared = poller(meter, patience=10)
    asking = [asyncio.create_task(ask(shared, 5.0)) for _ in range(5)]
    await asyncio.sleep(0)
    meter.open.set()
    assert {(await one).received for one in asking} == {5.0}
    assert meter.asked == [5.0]


def _refuse() -> object:
    raise ConnectionError("refused")


def _cancel() -> object:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (_refuse, "ConnectionError: refused"),
        (_cancel, "the read was cancelled"),
        (lambda: dict[str, str]()["value"], "KeyError: 'value'"),
        (lambda: "503", 'must answer with Readings, did with "503"'),
        (list, "must answer with Readings, did with []"),
    ],
    ids=["raises", "cancels itself", "has a bug", "answers with a string", "answers with a list"],
)
async def test_a_source_in_trouble_is_reported_and_harms_nobody(answer: Callable[[], object], error: str) -> None:
    meter = Meter(answer)
    shared = poller(meter)
    assert (await ask(shared, 3.0)).error == error
    assert (await ask(shared, 3.5)).error == error
    meter.answer = None
    assert (await ask(shared, 4.0)).error == ""


async def test_nothing_is_awaited_of_a_source_that_cannot_even_begin() -> None:
    class Broken:
        def read(self, now: float) -> object:
            raise RuntimeError("not a coroutine")

    shared = SourcePoller(Broken(), Measured(), VirtualClock())  # type: ignore[arg-type]
    assert (await ask(shared, 0.0)).error == "RuntimeError: not a coroutine"


async def test_a_late_reader_is_awaited_once_keeping_the_old_reading() -> None:
    meter = Meter()
    shared = poller(meter, patience=0.01)
    await ask(shared, 0.0)
    meter.open.clear()
    assert (await ask(shared, 10.0)).received == 0.0
    shared.patience = 1e9  # whoever waits now, waits for ever
    for now in (11.0, 12.0, 13.0):
        assert (await asyncio.wait_for(ask(shared, now), 5)).received == 0.0
    assert meter.asked == [0.0, 10.0]


async def test_a_late_reading_is_taken_next_time_without_another_wait() -> None:
    meter = Meter()
    shared = poller(meter, patience=0.01)
    meter.open.clear()
    assert (await ask(shared, 0.0)).error == "not read yet"
    meter.open.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (await ask(shared, 5.0)).received == 0.0
    assert (await ask(shared, 5.0)).received == 0.0
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (await ask(shared, 5.1)).received == 5.0
    shared.patience = 30.0
    assert (await ask(shared, 9.0)).received == 9.0, "a read that was in time is waited for again"


async def test_a_read_longer_than_its_interval_is_still_delivered() -> None:
    """Or each would begin another, and nobody ever had one."""
    clock, meter = VirtualClock(100.0), Meter()
    shared = SourcePoller(meter, Measured(every=0.5), clock, patience=2.0)
    meter.open.clear()
    task = shared.ask(100.0)
    assert task is not None
    await clock.sleep_until(101.0)
    assert shared.take(101.0) is None
    meter.open.set()
    await task
    assert shared.ask(101.0) is None
    found = shared.take(101.0)
    assert (found and found.received, meter.asked) == (100.0, [100.0])
    assert shared.ask(101.2) is not None


async def test_closing_ends_a_read_that_is_under_way() -> None:
    meter = Meter()
    meter.open.clear()
    shared = poller(meter, patience=0.01)
    task = shared.ask(0.0)
    assert task is not None
    await ask(shared, 0.0)
    await shared.close()
    await shared.close()
    assert task.cancelled()


async def test_trouble_is_logged_once_for_each_change(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    meter = Meter(lambda: Readings("meter", 0.0, error="503: busy"))
    shared = poller(meter, every=0.0)
    for now in (0.0, 20.0, 40.0):
        await ask(shared, now)
    meter.answer = lambda: Readings("meter", 0.0, faults={"cpu": "3 of 9 have no fit label"})
    await ask(shared, 60.0)
    meter.answer = lambda: Readings("meter", 0.0, faults={"cpu": "4 of 9 have no fit label"})
    await ask(shared, 80.0)
    meter.answer = None
    for now in (100.0, 120.0):
        await ask(shared, now)
    assert [record.message for record in caplog.records] == [
        "source meter: 503: busy",
        "source meter: cpu: 3 of 9 have no fit label",
        "source meter: all is well again",
    ]


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        pytest.param({"a": "too early", "b": "no key"}, "a: too early; b: no key", id="each its own"),
        pytest.param({"b": "too early", "a": "too early"}, "a, b: too early", id="two of one"),
        pytest.param(dict.fromkeys("edcba", "too early"), "a, b and 3 more: too early", id="many of one"),
    ],
)
async def test_series_that_lack_the_same_are_told_together(
    faults: dict[str, str], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    await ask(poller(Meter(lambda: Readings("meter", 0.0, faults=faults))), 0.0)
    assert caplog.messages == [f"source meter: {told}"]


async def test_a_failing_reader_is_left_alone_for_longer_and_longer() -> None:
    meter = Meter(_refuse)
    shared = poller(meter)
    for tenth in range(600):
        await ask(shared, tenth / 10)
    pauses = [later - sooner for sooner, later in pairwise(meter.asked)]
    assert pauses[:4] == pytest.approx([1, 2, 4, 8])
    assert max(pauses) == pytest.approx(15)


@pytest.mark.parametrize(
    ("asked", "after", "quiet"),
    [
        pytest.param((), 0.0, "unread", id="never"),
        pytest.param((5.0,), LEFT, "", id="not long ago"),
        pytest.param((5.0,), LEFT + 1, "unread", id="long ago, as by a policy that was removed"),
        pytest.param((5.0, 5.5), LEFT, "", id="though no read was due"),
    ],
)
@pytest.mark.parametrize("answer", [None, _refuse], ids=["it answers", "it fails"])
async def test_a_source_that_nobody_asks_for_is_unread(
    asked: tuple[float, ...], after: float, quiet: str, answer: Callable[[], object] | None
) -> None:
    shared = poller(Meter(answer), patience=1.0)
    for now in asked:
        await ask(shared, now)
    assert shared.report(max(asked, default=5.0) + after).quiet == quiet


async def test_its_first_read_is_late_after_its_patience() -> None:
    clock, meter = VirtualClock(5.0), Meter()
    shared = SourcePoller(meter, Measured(), clock, patience=2.0)
    meter.open.clear()
    shared.ask(5.0)
    assert (shared.report(5.0).health, shared.report(5.0).quiet) == ("not read yet", "unread")
    await clock.sleep_until(8.0)
    assert (shared.report(8.0).health, shared.report(8.0).quiet) == ("late", "")
    await shared.close()


@pytest.mark.parametrize(
    ("changes", "quiet"),
    [
        pytest.param({"faults": {"cpu_p95": "too early"}, "learning": True}, "learning", id="it says so"),
        pytest.param({"faults": {"cpu_p95": "too early"}}, "", id="it does not"),
        pytest.param({"error": "down", "learning": True}, "", id="it failed"),
    ],
)
async def test_a_source_that_learns_has_not_failed(changes: dict[str, Any], quiet: str) -> None:
    shared = poller(Meter(lambda: Readings("meter", 5.0, **changes)))
    await ask(shared, 5.0)
    assert shared.report(6.0).quiet == quiet


async def test_a_source_that_is_watched_is_not_unread() -> None:
    shared = poller(Meter())
    await ask(shared, 5.0)
    shared.renew(5.0 + LEFT)
    assert shared.report(6.0 + LEFT).quiet == ""
    await shared.close()


async def test_a_report_says_how_it_fares() -> None:
    samples = {"load": {"shop/Deployment/web": (Sample(1.0, 3.0, 5.0),)}}
    meter = Meter(lambda: Readings("other", 5.0, workloads=samples))
    shared = poller(meter)
    assert (shared.report(5.0).health, shared.report(5.0).age) == ("not read yet", None)
    await ask(shared, 5.0)
    report = shared.report(7.0)
    assert (report.name, report.type, report.health, report.age) == ("meter", "meter", "ok", 4.0)
    assert (report.reads, report.failures, report.samples, report.series) == (1, 0, 1, ("load",))
    assert shared.last.source == "meter", "by whatever name it calls itself"
