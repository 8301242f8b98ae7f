"""A source in a thread of its own: what it may ask, that it comes back, and how often it is reopened."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import msgspec
import pytest
from msgspec.structs import replace

from elasticd.base.clock import WallClock
from elasticd.base.errors import ConfigError
from elasticd.cluster.simulated import Simulated
from elasticd.model.workload import Readings, Ref
from elasticd.ports.source import Reader, Site, Source
from elasticd.sources import threads
from elasticd.sources.bounds import Counted
from elasticd.sources.forecast import ForecastSource
from elasticd.sources.prometheus import Prometheus
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.sources.threads import LEFT_BEHIND, Opened, ThreadReader, is_strange, may_block, readers
from elasticd.sources.usage_histogram import UsageHistogram
from elasticd.testing import site

GATE = threading.Event()
"""What blocks waits for this; every test opens it in the end."""

WEB = Ref("shop", "Deployment", "web")
Reads = Callable[[Site], Awaitable[Any]]


@pytest.fixture(autouse=True)
def _gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(threads, "STUCK", 1.0)
    GATE.clear()
    BLOCKED.clear()
    yield
    GATE.set()


class Thirds(Source, frozen=True, kw_only=True, tag="thirds"):
    """A third party's source: each read does what its function does with the site."""

    remembers: ClassVar[bool] = True
    does: Any
    opens: Any = None
    closes: Any = None

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        if self.opens:
            await self.opens()
        yield _Reader(self, site)
        if self.closes:
            self.closes()

    def memory(self, site: Site) -> Any:
        raise NotImplementedError


class _Reader:
    def __init__(self, source: Thirds, site: Site) -> None:
        self._source, self._site, self.reads = source, site, 0

    async def read(self, now: float) -> Readings:
        self.reads += 1
        found = await self._source.does(self._site)
        return found if isinstance(found, Readings) else Readings("thirds", now, faults={"found": str(found)})

    def describe(self) -> object:
        told = Counted({"reads": self.reads})
        told.counted = {"read": self.reads}
        return told


async def nothing(_: Site) -> None: ...


BLOCKED: list[threading.Thread] = []
"""The threads that have come to the gate."""


async def blocks(_: Site) -> str:
    BLOCKED.append(threading.current_thread())
    GATE.wait()
    return "back"


@asynccontextmanager
async def opened(does: Reads = nothing, at: Site | None = None, **options: Any) -> AsyncIterator[ThreadReader]:
    async with readers([Thirds(does=does, **options)], lambda _: at or site(), 1000, threads=True) as (found,):
        assert isinstance(found.reader, ThreadReader)
        yield found.reader


async def read(reader: Reader) -> str:
    """What came of a read: the error, or what was found."""
    said = await reader.read(5.0)
    assert said.source == "thirds"
    return said.error or said.faults["found"]


async def test_a_stuck_source_is_named_and_its_answer_taken_later() -> None:
    async with opened(blocks) as reader:
        for _ in range(3):
            assert (await read(reader)).startswith("stuck in test_threads.py:")
        GATE.set()
        assert await read(reader) == "back"
        assert reader.describe() == {"reads": 1}
        assert await read(reader) == "back"
        assert reader.describe() == {"reads": 2}


async def test_what_it_counts_is_counted_for_prometheus() -> None:
    async with opened() as reader:
        await read(reader)
        told = reader.describe()
        assert isinstance(told, Counted)
        assert told.counts() == {"read": 1}


async def test_one_that_waits_for_ever_is_cancelled_and_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "LONGEST", 1.0)
    cancelled: list[str] = []

    async def waits(_: Site) -> str:
        if cancelled:
            return "well"
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append("once")
        return ""

    async with opened(waits) as reader:
        assert await read(reader) == "no answer within 1 s"
        monkeypatch.setattr(threads, "LONGEST", 30.0)
        assert await read(reader) == "well"


async def test_the_loop_goes_on_while_a_source_blocks() -> None:
    async with opened(blocks) as reader:
        reading = asyncio.create_task(read(reader))
        for _ in range(100):  # had the loop to wait for it, this would never end
            await asyncio.sleep(0)
        assert not reading.done()
        GATE.set()
        assert await reading == "back"


async def test_a_stuck_source_is_reopened_a_bounded_number_of_times(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened(blocks) as reader:
        assert not reader.reopen(), "of one that is well nothing is begun anew"
        for _ in range(LEFT_BEHIND):
            assert (await read(reader)).startswith("stuck in ")
            assert reader.reopen()
            assert not reader.reopen(), "one that has just begun is left alone"
        await read(reader)
        assert not reader.reopen()
        assert caplog.messages == [
            f"source thirds: {LEFT_BEHIND + 1} threads of it are stuck, so that only a restart opens it again"
        ]
        *left, _ = BLOCKED
        assert len(left) == LEFT_BEHIND
        GATE.set()
        for thread in left:
            await asyncio.to_thread(thread.join)
        assert await read(reader) == "back"


async def test_a_source_that_never_opens_is_reported_and_reopened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elasticd.sources.threads.PATIENCE", 0.1)
    times: list[str] = []

    async def opens() -> None:
        times.append("once")
        if len(times) == 1:
            await asyncio.Event().wait()

    async with readers([Thirds(does=nothing, opens=opens)], lambda _: site(), 1000, threads=True) as (found,):
        assert found.trouble == "is not open: no answer within 0.1 s"
        reading = asyncio.create_task(read(found.reader))
        await asyncio.sleep(0)
        assert isinstance(found.reader, ThreadReader)
        assert found.reader.reopen()
        assert await reading == "None", "who waited for it reads the new one"


async def test_a_source_that_cannot_open_is_retried_at_later_reads() -> None:
    times: list[str] = []

    async def opens() -> None:
        times.append("once")
        if len(times) < 3:
            raise SystemExit(len(times))

    async with opened(opens=opens) as reader:
        found = [await read(reader) for _ in range(4)]
    assert found == ["cannot be opened: SystemExit: 2", "None", "None", "None"]


async def test_a_config_error_in_open_prevents_the_daemon_from_starting() -> None:
    async def opens() -> None:
        raise ConfigError("", "file", "must be there, is not")

    with pytest.raises(ConfigError, match="file: must be there, is not"):
        async with opened(opens=opens):
            pass


async def test_it_is_closed_with_the_daemon() -> None:
    closed: list[str] = []
    async with opened(closes=lambda: closed.append(threading.current_thread().name)) as reader:
        await read(reader)
    assert closed == ["source thirds"]


async def test_nobody_waits_for_one_that_does_not_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "CLOSING", 0.1)
    async with opened(closes=GATE.wait) as reader:
        await read(reader)
    assert not GATE.is_set()


async def test_a_task_of_its_own_that_fails_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    def fail(number: int) -> None:
        raise ValueError(str(number) * 10_000)

    async def fails(_: Site) -> None:
        for number in range(3):
            asyncio.get_running_loop().call_soon(fail, number)
        await asyncio.sleep(0)

    async with opened(fails) as reader:
        await read(reader)
    (line,) = caplog.messages
    assert line.startswith("source thirds: a task of its own failed: ValueError: 0000")
    assert len(line) < 600


class Asked:
    """A cluster, and by which threads it was asked."""

    def __init__(self) -> None:
        self.by: list[threading.Thread] = []

    async def usage(self, now: float) -> Readings:
        self.by.append(threading.current_thread())
        return Readings("cluster", now)

    async def node_usage(self, now: float) -> Readings:
        return await self.usage(now)

    async def metrics(self, queries: Any, now: float) -> Readings:
        assert queries == ("a", "b")
        return await self.usage(now)

    async def summary(self, node: str, now: float, part: str, within: float) -> Readings:
        assert (node, part, within) == ("n", "all", 2.0)
        return await self.usage(now)

    @asynccontextmanager
    async def pulls(self, take: Callable[[Any], None]) -> AsyncIterator[str]:
        self.by.append(threading.current_thread())
        take("image")
        try:
            yield "followed"
        finally:
            self.by.append(threading.current_thread())


async def test_a_source_cannot_act_and_queries_only_through_the_daemon() -> None:
    cluster = Asked()

    async def asks(there: Site) -> list[object]:
        metrics, pulled = there.metrics, asyncio.Queue[Any]()
        await metrics.usage(1.0)
        await metrics.node_usage(1.0)
        await metrics.metrics((one for one in "ab"), 1.0)  # type: ignore[arg-type]
        await metrics.summary("n", 1.0, "all", 2.0)
        async with metrics.pulls(pulled.put_nowait) as followed:
            return [followed, await pulled.get(), hasattr(metrics, "act"), hasattr(metrics, "observe")]

    async with opened(asks, replace(site(), metrics=cluster)) as reader:
        assert await read(reader) == "['followed', 'image', False, False]"
    assert cluster.by == [threading.current_thread()] * 6


async def test_what_the_cluster_cannot_do_is_raised_in_the_source() -> None:
    class Lacking(Asked):
        async def usage(self, now: float) -> Readings:
            raise ConnectionError("refused")

        def pulls(self, take: Callable[[Any], None]) -> Any:
            raise ConnectionError("forbidden")

    async def asks(there: Site) -> list[str]:
        told = []
        for ask in (lambda: there.metrics.usage(1.0), lambda: _entered(there.metrics.pulls(print))):
            try:
                await ask()
            except ConnectionError as error:
                told.append(str(error))
        return told

    async with opened(asks, replace(site(), metrics=Lacking())) as reader:
        assert await read(reader) == "['refused', 'forbidden']"


async def _entered(context: Any) -> None:
    async with context:
        pass


async def test_a_sources_snapshot_lookups_are_made_by_the_daemon() -> None:
    clock = WallClock()
    web = {"namespace": "shop", "name": "web", "replicas": 2, "cpu": "1"}
    table = {"type": "simulated", "nodes": [{"name": "n", "cpu": 1, "memory": 1}], "workloads": [web]}
    world = msgspec.convert(table, Simulated).build(clock)
    snapshot = await world.observe(clock.now(), frozenset({("apps/v1", "Deployment")}))
    seen: list[Any] = []

    async def looks(there: Site) -> None:
        found = there.snapshot()
        assert found is not None
        seen.append(
            (there.governed(), found.version, type(found.workloads()), found.workload(WEB), hasattr(found, "no"))
        )
        seen.append(there.since())

    here = site(world, clock, governed=[WEB], snapshot=snapshot)
    async with opened(looks, replace(here, since=lambda: float(threading.get_ident()))) as reader:
        await read(reader)
    async with opened(looks, site(world, clock)) as reader:
        assert await read(reader) == "AssertionError: assert None is not None"
    by = float(threading.get_ident())
    assert seen == [([WEB], snapshot.version, tuple, snapshot.workload(WEB), False), by]


@pytest.mark.slow
async def test_a_flood_of_wakes_is_merged_in_the_daemons_thread() -> None:
    woken: list[tuple[str, str]] = []
    by: set[threading.Thread] = set()

    def wake(subject: str, key: str) -> None:
        by.add(threading.current_thread())
        woken.append((subject, key))

    async def wakes(there: Site) -> None:
        for number in range(100_000):
            there.wake("workload", f"shop/Deployment/{number % 7}")

    async with opened(wakes, site(wake=wake)) as reader:
        await read(reader)
        await asyncio.sleep(0)
    assert by == {threading.current_thread()}
    assert {key for _, key in woken} == {f"shop/Deployment/{number}" for number in range(7)}
    assert len(woken) < 100_000


def derived(of: str) -> Source:
    return ForecastSource(of=of, series="load")


@pytest.mark.parametrize(
    ("source", "strange"),
    [
        pytest.param(ResourceMetrics(), False, id="bundled"),
        pytest.param(Thirds(does=nothing), True, id="a third party's"),
        pytest.param(derived("journal"), False, id="of the journal"),
        pytest.param(derived("thirds"), True, id="of a third party's past"),
        pytest.param(UsageHistogram(of="resource-metrics"), False, id="of a bundled one"),
        pytest.param(UsageHistogram(of="thirds"), True, id="of a third party's"),
        pytest.param(UsageHistogram(of="none"), False, id="of one that is not there"),
    ],
)
def test_those_that_run_a_strangers_code_have_a_thread(source: Source, strange: bool) -> None:
    beside = {one.label: one for one in (ResourceMetrics(), Thirds(does=nothing))}
    assert is_strange(source, beside) is strange


def prometheus(**options: Any) -> Prometheus:
    series = {"name": "load", "query": "load"}
    return msgspec.convert({"type": "prometheus", "url": "http://p", "series": [series], **options}, Prometheus)


@pytest.mark.parametrize(
    ("source", "blocks"),
    [
        pytest.param(ResourceMetrics(), False, id="bundled"),
        pytest.param(Thirds(does=nothing), True, id="a third party's"),
        pytest.param(prometheus(), False, id="without a file"),
        pytest.param(prometheus(bearer_file="/t"), True, id="of a token"),
        pytest.param(prometheus(header=[{"name": "A", "value": "b"}]), False, id="a header"),
        pytest.param(prometheus(header=[{"name": "A", "value_file": "/t"}]), True, id="of a header"),
        pytest.param(derived("filed"), True, id="the past of one of a token"),
    ],
)
def test_those_that_read_files_again_have_a_thread(source: Source, blocks: bool) -> None:
    beside = {one.label: one for one in (prometheus(bearer_file="/t", name="filed"), Thirds(does=nothing))}
    assert may_block(source, beside) is blocks


@pytest.mark.parametrize("strange", [True, False])
async def test_only_a_third_partys_read_is_given_up(monkeypatch: pytest.MonkeyPatch, strange: bool) -> None:
    """elasticd's own have a time limit, `timeout`, that may be longer."""

    async def slow(_: Site) -> str:
        await asyncio.sleep(0.3)
        return "read"

    for name, answer in (("LONGEST", 0.1), ("is_strange", lambda *_: strange), ("may_block", lambda *_: True)):
        monkeypatch.setattr(threads, name, answer)
    async with readers([Thirds(does=slow)], lambda _: site(), 1000, threads=True) as (found,):
        readings = await found.reader.read(5.0)
    assert ("no answer within" in readings.error, readings.faults) == (strange, {} if strange else {"found": "read"})


async def test_sources_in_virtual_time_share_a_thread_and_stay_checked() -> None:
    async def says(_: Site) -> Readings:
        return Readings("thirds", 5.0, error=threading.current_thread().name)

    async def exits(_: Site) -> Readings:
        raise SystemExit(3)

    found: list[Opened]
    async with readers(
        [Thirds(does=says, name="a"), Thirds(does=exits, name="b")], lambda _: site(), 9, threads=False
    ) as found:
        assert [(await one.reader.read(5.0)).error for one in found] == ["MainThread", "SystemExit: 3"]
