"""The source forecast: its options, its rounds, and what is told of trouble."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from elasticd.base.clock import VirtualClock, WallClock
from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError
from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.options import NodeTable, WorkloadTable
from elasticd.config import load_settings
from elasticd.journal import Journal
from elasticd.model.forecast import Forecast
from elasticd.model.listener import Notice
from elasticd.model.policy import Bounds, Policy, Strategy, Target
from elasticd.model.records import Decision
from elasticd.model.workload import Quality, Ref, Sample, Series
from elasticd.ports.source import Describes, Reader, Site
from elasticd.registry import discover
from elasticd.sources.forecast import FIRST_PAUSE, ForecastKeeper, ForecastSource, register_sources
from elasticd.sources.forecast.fitter import Fitter, Here, Lost
from elasticd.sources.forecasting.request import Question, Reply
from elasticd.sources.poller import SourcePoller
from elasticd.sources.recording import RecordingSource
from elasticd.testing import simulate, site
from elasticd_plugins.forecast import Ahead
from elasticd_plugins.hpa import Hpa
from elasticd_plugins.hpa.options import External
from tests.kit.loops import Play, Want, policy
from tests.kit.sources.pasts import CART, NOW, WEB, Remembered, daily, points, source
from tests.kit.waves import START, noise

KEY, OTHER = str(WEB), str(CART)


def test_it_is_registered_under_its_name_in_toml() -> None:
    assert register_sources() == [ForecastSource]
    made = source()
    assert (made.label, made.offers(), made.derives()) == ("forecast", ("requests_forecast",), "journal")
    assert source(**{"as": "load_ahead"}).offers() == ("load_ahead",)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param({"of": ""}, "of: ", id="of nothing"),
        pytest.param({"series": ""}, "series: ", id="no series"),
        pytest.param({"as": "requests"}, 'as: must differ from series = "requests", is the same', id="as itself"),
        pytest.param({"days": 0}, "days: must be > 0, is 0", id="no days"),
        pytest.param({"days": 400, "step": 3600}, "days: must be <= 366", id="too many days"),
        pytest.param({"days": 30, "step": 30}, "step: must be >= 51.84 for 30 days, is 30", id="too many points"),
        pytest.param({"step": 0.5}, "step: must be >= 1", id="steps of less than a second"),
        pytest.param({"horizon": 60}, "horizon: must be >= step = 300, is 60", id="no horizon"),
        pytest.param({"refit": 1}, "refit: must be >= 10", id="fits all the time"),
        pytest.param(
            {"valid": 900},
            "valid: must be >= refit + 2 steps = 1200, or forecasts expire unrenewed, is 900",
            id="expires",
        ),
        pytest.param({"method": "prophet"}, "method: must be one of", id="a method that is not there"),
        pytest.param(
            {"periods": [1000]}, "periods: must be from 4 steps to half of days, 1200 to 604800, is 1000", id="short"
        ),
        pytest.param({"periods": [700000]}, "periods: must be from 4 steps to half of days", id="a long period"),
        pytest.param({"quantile": 1}, "quantile: must be < 1", id="what never happens"),
        pytest.param({"quantile": 0.4}, "quantile: must be >= 0.5", id="less than expected"),
        pytest.param({"max_error": 0}, "max_error: must be > 0", id="no error at all"),
        pytest.param({"longest_gap": -1}, "longest_gap: must be >= 0", id="a gap of less than nothing"),
        pytest.param({"patience": 0}, "patience: must be >= 1", id="no patience"),
        pytest.param({"learn": {"used": "cores"}}, "learn.replicas: must be given, is missing", id="half a lesson"),
        pytest.param({"every": -1}, "every: must be >= 0", id="every"),
    ],
)
def test_an_option_that_cannot_be_is_one_line(options: dict[str, Any], problem: str) -> None:
    table = {"type": "forecast", "of": "journal", "series": "requests", "step": 300, "valid": 3600, **options}
    with pytest.raises(ConfigError) as caught:
        convert(table, ForecastSource, "elasticd.toml")
    assert f"elasticd.toml: {problem}" in str(caught.value)


def test_without_its_libraries_it_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elasticd.sources.forecast.fitter.NEEDED", ("numpy", "scipy", "no_such_library"))
    with pytest.raises(ConfigError, match=r"type: must be with no_such_library, which is not installed: pip install"):
        convert({"type": "forecast", "of": "journal", "series": "requests"}, ForecastSource, "elasticd.toml")


@pytest.mark.parametrize(
    ("of", "problem"),
    [
        pytest.param("day", "", id="a recording"),
        pytest.param("journal", "", id="the journal"),
        pytest.param("dya", 'must be one of day, journal, is "dya", did you mean "day"?', id="misspelt"),
        pytest.param("kubelet", 'must be one of day, journal, is "kubelet", a source without a past', id="no past"),
    ],
)
def test_a_forecast_source_must_name_a_source_with_a_past(tmp_path: Path, of: str, problem: str) -> None:
    path = tmp_path / "elasticd.toml"
    path.write_text(
        '[[source]]\ntype = "recording"\nname = "day"\nfile = "day.csv"\n[[source]]\ntype = "kubelet"\n'
        f'[[source]]\ntype = "forecast"\nof = "{of}"\nseries = "requests"\n'
    )
    if not problem:
        assert load_settings(path, discover()).sources[2].derives() == of
        return
    with pytest.raises(ConfigError) as caught:
        load_settings(path, discover())
    assert str(caught.value) == f"{path}: source[2].of: {problem}"


class Counting:
    """Fits here, counts, and is lost when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.lost: set[int] = set()
        self.open = 0

    async def fit(self, question: Question) -> Reply:
        self.asked.append(question)
        if len(self.asked) in self.lost:
            raise Lost("the process that fits was lost: it was killed")
        return await Here().fit(question)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Fitter]:
        self.open += 1
        yield self
        self.open -= 1


class Rounds:
    """A keeper, what it knows and who is governed."""

    def __init__(self, memory: Remembered, *refs: Ref, **options: Any) -> None:
        self.refs, self.memory, self.fitter = refs, memory, Counting()
        self.woken: list[tuple[str, str]] = []
        self.asked = 0
        """How often it was asked who is governed."""
        self.keeper = ForecastKeeper(source(**options), memory, self._site(), self.fitter.opened)

    def _site(self) -> Site:
        made = site(clock=VirtualClock(NOW), wake=lambda subject, key: self.woken.append((subject, key)))
        return msgspec.structs.replace(made, governed=self._governed)

    def _governed(self) -> tuple[Ref, ...]:
        self.asked += 1
        return self.refs

    async def at(self, now: float) -> Any:
        """What is said after the round that is due at a time, if one is."""
        if self.keeper.is_due(now):
            await self.keeper.round(now)
        return await self.keeper.read(now)


@pytest.mark.slow
async def test_each_governed_workload_gets_a_forecast_and_is_woken() -> None:
    rounds = Rounds(Remembered(requests={KEY: daily(), OTHER: daily(), "other/Deployment/web": daily()}), WEB, CART)
    said = await rounds.at(NOW)
    assert (said.source, said.error, said.faults) == ("forecast", "", {})
    found = said.forecasts["requests_forecast"]
    assert {key: (one.method != "", one.doubt, one.period) for key, one in found.items()} == dict.fromkeys(
        [KEY, OTHER], (True, "", 86400.0)
    )
    assert said.newest == found[KEY].fitted == NOW - 300
    assert rounds.woken == [("workload", OTHER), ("workload", KEY)]
    assert rounds.memory.asked == [("requests", (NOW - 14 * 86400, NOW, 300.0))]
    assert rounds.fitter.open == 0


async def test_a_forecast_series_is_empty_before_the_first_fit() -> None:
    said = await Rounds(Remembered(), WEB).keeper.read(NOW)
    assert (said.forecasts, said.newest, said.error) == ({"requests_forecast": {}}, None, "")


@pytest.mark.slow
async def test_a_forecast_is_refitted_when_due_with_a_new_sample() -> None:
    memory = Remembered(requests={KEY: daily()})
    rounds = Rounds(memory, WEB)
    first = (await rounds.at(NOW)).forecasts["requests_forecast"][KEY]
    await rounds.at(NOW + 599)
    assert len(memory.asked) == 1
    assert (await rounds.at(NOW + 600)).forecasts["requests_forecast"][KEY] is first
    assert (len(memory.asked), len(rounds.fitter.asked)) == (2, 1)
    memory.series["requests"] = {KEY: daily(7.01)}
    again = (await rounds.at(NOW + 1200)).forecasts["requests_forecast"][KEY]
    assert again.fitted > first.fitted
    assert len(rounds.fitter.asked) == 2


@pytest.mark.slow
async def test_new_workloads_are_fitted_at_once_and_removed_workloads_forgotten() -> None:
    rounds = Rounds(Remembered(requests={KEY: daily(), OTHER: daily()}))
    assert not rounds.keeper.is_due(NOW)  # there is nobody yet
    rounds.refs = (WEB,)
    await rounds.at(NOW)
    rounds.refs = (WEB, CART)
    assert set((await rounds.at(NOW + 5)).forecasts["requests_forecast"]) == {KEY, OTHER}
    assert len(rounds.fitter.asked) == 2  # of whom there was a forecast there still is
    rounds.refs = (CART,)
    assert set((await rounds.at(NOW + 700)).forecasts["requests_forecast"]) == {OTHER}


@pytest.mark.parametrize(
    ("known", "doubt"),
    [
        pytest.param({}, 'there is no past of "requests"', id="a workload without a past"),
        pytest.param({KEY: points(noise(0, 1))}, 'there is no past of "requests"', id="an empty one"),
        pytest.param({KEY: points(noise(20, 1))}, "the past is too short", id="too short a one"),
        pytest.param({KEY: points(50 + noise(2016, 5))}, "no better than", id="white noise"),
    ],
)
async def test_a_useless_past_gives_a_forecast_with_a_doubt(known: dict[str, Any], doubt: str) -> None:
    rounds = Rounds(Remembered(requests=known), WEB)
    said = await rounds.at(NOW)
    assert doubt in said.forecasts["requests_forecast"][KEY].doubt
    assert said.faults == {}
    assert rounds.keeper.describe() == {
        "forecasts": 1,
        "believed": 0,
        "awaited": 0,
        "fits": 1,
        "lost": 0,
        "doubts": {KEY: said.forecasts["requests_forecast"][KEY].doubt},
    }


@pytest.mark.slow
async def test_a_failing_past_is_retried_after_growing_pauses_keeping_forecasts() -> None:
    memory = Remembered(requests={KEY: daily()})
    rounds = Rounds(memory, WEB)
    before = (await rounds.at(NOW)).forecasts
    memory.trouble = "prometheus: no answer within 10 s"
    now, pauses = NOW + 600, []
    for _ in range(8):
        said = await rounds.at(now)
        assert (said.faults, said.error) == ({"requests_forecast": memory.trouble}, "")
        assert said.forecasts == before
        pauses.append(rounds.keeper.due - now)
        now = rounds.keeper.due
    assert pauses == [FIRST_PAUSE, 30, 60, 120, 240, 480, 600, 600]
    memory.trouble = ""
    assert (await rounds.at(now)).faults == {}
    assert rounds.keeper.due == now + 600


@pytest.mark.slow
async def test_a_lost_fit_harms_no_other_and_is_retried() -> None:
    rounds = Rounds(Remembered(requests={KEY: daily(), OTHER: daily()}), WEB, CART)
    rounds.fitter.lost = {1}
    said = await rounds.at(NOW)
    assert said.faults == {"requests_forecast": f"{OTHER}: the process that fits was lost: it was killed"}
    assert set(said.forecasts["requests_forecast"]) == {KEY}
    assert rounds.keeper.describe()["lost"] == 1
    said = await rounds.at(NOW + FIRST_PAUSE)
    assert said.faults == {}
    assert set(said.forecasts["requests_forecast"]) == {KEY, OTHER}


async def lost(question: Question) -> Reply:
    raise Lost("killed")


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        pytest.param("prometheus: no answer", ": prometheus: no answer", id="a past that cannot be read"),
        pytest.param("", f": {KEY}: killed", id="fits that are lost"),
    ],
)
async def test_a_forecast_that_never_comes_is_awaited_for_valid(trouble: str, why: str) -> None:
    rounds = Rounds(Remembered(requests={KEY: daily()}), WEB)
    rounds.memory.trouble, rounds.fitter.fit = trouble, lost  # type: ignore[method-assign]
    for now in (NOW, NOW + 3599):
        assert KEY not in (await rounds.at(now)).forecasts["requests_forecast"]
        assert rounds.keeper.describe()["awaited"] == 1
    for now in (NOW + 3600, NOW + 7200):
        said = (await rounds.at(now)).forecasts["requests_forecast"]
        assert said[KEY].doubt == f"none could be fitted within 3600 s{why}"
        assert rounds.keeper.describe()["awaited"] == 0
    rounds.memory.trouble, rounds.fitter.fit = "", constant  # type: ignore[method-assign]
    assert (await rounds.at(rounds.keeper.due)).forecasts["requests_forecast"][KEY].doubt == ""


async def test_who_is_governed_is_asked_once_a_second() -> None:
    """However often it is read: of ten thousand workloads that takes a while."""
    rounds = Rounds(Remembered(), WEB)
    for tenth in range(20):
        await rounds.keeper.read(NOW + tenth / 10)
    assert rounds.asked == 2


async def test_a_first_forecast_is_awaited_from_when_governed() -> None:
    rounds = Rounds(Remembered(), WEB)
    rounds.memory.trouble = "prometheus: no answer"
    await rounds.at(NOW)
    rounds.refs = (WEB, CART)
    await rounds.at(NOW + 3000)
    assert set((await rounds.at(NOW + 3600)).forecasts["requests_forecast"]) == {KEY}
    rounds.refs = (CART,)
    await rounds.at(NOW + 3700)
    assert rounds.keeper.describe()["awaited"] == 1
    assert set((await rounds.at(NOW + 6600)).forecasts["requests_forecast"]) == {OTHER}


async def constant(question: Question) -> Reply:
    """A load of 50 for the next four hours."""
    values = (50.0,) * 48
    return Reply(Forecast("naive", NOW - 300, NOW + 14400, NOW - 300, 300.0, values, values, values))


async def refused(question: Question) -> Reply:
    return Reply(problem="the past is too short")


@asynccontextmanager
async def daemon(folder: Path, now: float, fit: Any, trouble: str = "") -> AsyncIterator[tuple[Play, ForecastKeeper]]:
    """A daemon that starts at a time, with ten replicas, three of which would do for the load alone; and its forecasts,
    of which no round begins by itself."""
    rounds = Rounds(Remembered(requests={KEY: daily()}), WEB)
    rounds.memory.trouble, rounds.fitter.fit = trouble, fit  # type: ignore[method-assign]
    ahead = Ahead(series="requests_forecast", lead=0, target=5, bound="expected")
    play = Play(policy("p", Want(), ahead), folder=folder)
    play.cluster.put(WEB, 10)
    keeper = ForecastKeeper(source(), rounds.memory, play.loop.site, rounds.fitter.opened)
    play.loop.set_sources([play.poller, SourcePoller(keeper, source(), play.clock)])
    await play.clock.sleep_until(now)
    yield play, keeper
    play.journal.close()


def outcome(play: Play) -> tuple[int, str]:
    """How many replicas there are, and why."""
    return play.cluster.has[WEB].replicas, play.last().reason


@pytest.mark.parametrize(
    ("fit", "trouble", "after_round", "after_valid"),
    [
        pytest.param(constant, "", (10, "ForecastAbove"), (10, "ForecastAbove"), id="there"),
        pytest.param(refused, "", (3, "Wanted"), (3, "Wanted"), id="ended without"),
        pytest.param(lost, "", (10, "NoForecastYet"), (3, "Wanted"), id="lost"),
        pytest.param(constant, "no answer", (10, "NoForecastYet"), (3, "Wanted"), id="failed"),
    ],
)
async def test_after_a_restart_scale_in_waits_for_the_first_forecast(
    tmp_path: Path, fit: Any, trouble: str, after_round: tuple[int, str], after_valid: tuple[int, str]
) -> None:
    async with daemon(tmp_path, NOW - 60, constant) as (play, keeper):
        await play.to(NOW - 50)
        await keeper.round(NOW - 50)
        assert outcome(await play.to(NOW)) == (10, "ForecastAbove")
    async with daemon(tmp_path, NOW, fit, trouble) as (play, keeper):
        assert outcome(await play.to(NOW + 60)) == (10, "NoForecastYet")
        assert play.last().message == "requests_forecast: there is no forecast of it yet"
        await keeper.round(NOW + 60)
        assert outcome(await play.to(NOW + 120)) == after_round
        assert play.last().message.endswith(trouble)
        assert outcome(await play.to(NOW + 3700)) == after_valid


async def test_scale_out_waits_for_no_forecast() -> None:
    play = Play(policy("p", Want(), Ahead(series="requests_forecast", target=5)), web=12)
    keeper = ForecastKeeper(source(), Remembered(), play.loop.site, Counting().opened)
    play.loop.set_sources([play.poller, SourcePoller(keeper, source(), play.clock)])
    assert outcome(await play.to(60)) == (12, "Wanted")


async def test_a_fault_of_ours_is_reported_and_ends_no_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(Remembered(requests={KEY: daily()}), WEB)

    async def broken(question: Question) -> Reply:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(rounds.fitter, "fit", broken)
    assert (await rounds.at(NOW)).faults == {"requests_forecast": "ZeroDivisionError: oh"}


async def test_what_one_pod_uses_is_learnt_from_two_more_series() -> None:
    load = daily(3)
    steady = points(noise(len(load.values), 0) + 10)
    used = points(np.array([0.4 * value + 50 for value in load.values]))
    rounds = Rounds(
        Remembered(requests={KEY: load}, cores={KEY: used}, replicas={KEY: steady}),
        WEB,
        learn={"used": "cores", "replicas": "replicas"},
    )
    found = (await rounds.at(NOW)).forecasts["requests_forecast"][KEY].per_pod
    assert (found.slope, found.intercept) == (pytest.approx(0.4), pytest.approx(5.0))
    assert [name for name, _ in rounds.memory.asked] == ["requests", "cores", "replicas"]


def recording(folder: Path, rows: int = 2016) -> RecordingSource:
    """A week of the daily wave, at the times at which it was."""
    load = daily(rows / 288)
    lines = [f"{time},requests,workload,{KEY},{value}" for time, value in zip(*load, strict=True)]
    (folder / "week.csv").write_text("time,series,subject,key,value\n" + "\n".join(lines) + "\n")
    return RecordingSource(file=str(folder / "week.csv"), start="recorded", name="week")


@asynccontextmanager
async def opened(
    made: ForecastSource, clock: Any, *beside: Any, journal: Path | None = None, wake: Callable[[], None] = lambda: None
) -> AsyncIterator[Reader]:
    there = site(clock=clock, governed=[WEB], wake=lambda subject, key: wake())
    there = msgspec.structs.replace(there, beside={one.label: one for one in beside}, journal=journal)
    async with made.open(there) as reader:
        yield reader


@pytest.mark.slow
async def test_in_virtual_time_a_read_waits_for_the_fit(tmp_path: Path) -> None:
    async with opened(source(of="week"), VirtualClock(NOW), recording(tmp_path)) as reader:
        said = await reader.read(NOW)
    assert said.forecasts["requests_forecast"][KEY].doubt == ""


async def test_in_virtual_time_only_what_was_played_is_past(tmp_path: Path) -> None:
    async with opened(source(of="week"), VirtualClock(NOW), recording(tmp_path)) as reader:
        assert (await reader.read(NOW - 3 * 86400)).newest == NOW - 3 * 86400


class Counts:
    """Listens to a loop: when was there which wish, and by whose reason."""

    def __init__(self) -> None:
        self.wishes: list[tuple[float, int, str]] = []

    def on(self, record: Notice) -> None:
        if isinstance(record, Decision) and record.wish is not None:
            self.wishes.append((record.at, record.wish, record.reason))


async def wished(folder: Path, *strategies: Strategy) -> dict[float, int]:
    """What is wished for at each quarter of an hour of a morning in virtual time, after five days of the daily wave."""
    cluster = Simulated(
        nodes=(NodeTable(name="node", count=4, cpu="64", memory="64Gi"),),
        workloads=(WorkloadTable(name="web", namespace="shop", replicas=5),),
    )
    policy = Policy(
        name="p",
        replicas=Bounds(50),
        strategies=strategies,
        workload=Target("shop", "web"),
        mode="act",
        interval=300.0,
        jitter=0.0,
        max_age=900.0,
    )
    counts, morning = Counts(), START + 5 * 86400.0
    made = source(of="week", refit=3600, valid=7200, horizon=3600)
    await simulate(cluster, [policy], 6 * 3600, sources=[recording(folder), made], listeners=[counts], start=morning)
    return {900.0 * round((at - morning) / 900): wish for at, wish, _ in counts.wishes}


@pytest.mark.slow
async def test_in_a_backtest_replicas_rise_an_hour_before_the_load(tmp_path: Path) -> None:
    live = Hpa(metrics=(External(series="requests", average_value=5),), tolerance=0.0)
    ahead = Ahead(series="requests_forecast", lead=3600, bound="expected", target=5)
    reactive, both = await wished(tmp_path, live), await wished(tmp_path, live, ahead)
    times = sorted(reactive.keys() & both.keys())
    assert len(times) > 20
    assert all(both[time] >= reactive[time] for time in times)
    rising = [time for time in times if 1800 <= time <= 3 * 3600]
    # Of 50 + 30 sin, at five for each pod; the wave's noise is worth a pod or two.
    needed = {time: (50 + 30 * math.sin(2 * math.pi * (time + 3600) / 86400)) / 5 for time in rising}
    assert all(both[time] >= needed[time] - 1.5 for time in rising)
    assert sum(both[time] - reactive[time] for time in rising) >= len(rising)


class Shifted:
    """Real time, at which it is now what the test says."""

    def __init__(self, now: float) -> None:
        self._wall = WallClock()
        self._off = now - self._wall.now()

    def now(self) -> float:
        return self._wall.now() + self._off

    async def sleep_until(self, when: float) -> None:
        await asyncio.sleep(max(0.0, when - self.now()))


@pytest.mark.slow
async def test_in_real_time_a_read_returns_while_another_process_fits(tmp_path: Path) -> None:
    woken = asyncio.Event()
    async with opened(source(of="week"), Shifted(NOW), recording(tmp_path), wake=woken.set) as reader:
        begun = asyncio.get_running_loop().time()
        assert (await reader.read(NOW)).forecasts == {"requests_forecast": {}}
        assert asyncio.get_running_loop().time() - begun < 0.5
        await asyncio.wait_for(woken.wait(), 30)
        assert (await reader.read(NOW)).forecasts["requests_forecast"][KEY].doubt == ""


async def test_the_daemons_own_journal_is_a_past(tmp_path: Path) -> None:
    journal, load = Journal(tmp_path), daily(3)
    for at, value in zip(*load, strict=True):
        samples = (Sample(value, at, at),)
        decision = Decision(
            id=f"{at}", at=at, policy="p", workload=WEB, mode="act", current=2, replicas=2, verdict="keep", reason="",
            message="", series=(Series("requests", "meter", Quality.FRESH, samples),),
        )  # fmt: skip
        journal.append(decision)
    journal.close()
    now = START + 3 * 86400
    async with opened(source(), VirtualClock(now), journal=tmp_path) as reader:
        found = (await reader.read(now)).forecasts["requests_forecast"][KEY]
        assert isinstance(reader, Describes)
        assert reader.describe() == {"forecasts": 1, "believed": 1, "awaited": 0, "fits": 1, "lost": 0, "doubts": {}}
    assert (found.doubt, found.period) == ("", 86400.0)


async def test_a_journal_in_memory_cannot_be_a_forecasts_past() -> None:
    with pytest.raises(ConfigError, match="of: must be a source with a past, or a journal on disk"):
        async with opened(source(), VirtualClock(NOW)):
            raise AssertionError
