"""The pods' own metrics pages: how many are read, whose, and what follows for the whole."""

import asyncio
import math
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as some

from elasticd.base.clock import VirtualClock
from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError
from elasticd.model.workload import Pod, Readings, Ref, Workload
from elasticd.ports.source import Reader
from elasticd.sources import endpoints
from elasticd.sources.endpoints import Endpoints, Scraper, register_sources, sample_size
from elasticd.sources.rounds import Fault
from elasticd.testing import site
from tests.kit.clusters import Scripted, Shown
from tests.kit.damage import torn

REF, OTHER = Ref("shop", "Deployment", "web"), Ref("shop", "Deployment", "other")
WEB = Workload(REF, "u", "1", 3, labels={"own": "yes"})
NOW = 10_000.0
PAGE = "# TYPE load gauge\nload {}\n"

Answer = Callable[[web.Request], web.StreamResponse]


class Pods:
    """Servers on loopback addresses, all on one port, with a page for each."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[str] = []
        self.pages: dict[str, str | int | web.Response] = {}
        self.held: dict[str, asyncio.Event] = {}
        self.default: str = PAGE.format(1)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        address = request.host.partition(":")[0]
        self.asked.append(address)
        if address in self.held:
            await self.held[address].wait()
        said = self.pages.get(address, self.default)
        if isinstance(said, web.Response):
            return said
        if isinstance(said, int):
            return web.Response(status=said)
        return web.Response(text=said, content_type="text/plain")

    def table(self, **options: Any) -> dict[str, Any]:
        """The options of a source over them."""
        select, series = {"namespaces": ["shop"], "labels": {"own": "yes"}}, [{"name": "load"}]
        return {"type": "endpoints", "port": self.port, "select": select, "series": series, **options}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take its time; tests of slowness say how much there is."""
    monkeypatch.setattr(endpoints, "PATIENCE", 30.0)


@pytest.fixture
async def pods() -> AsyncIterator[Pods]:
    """They are at 127.0.0.1 to 127.0.0.9."""
    app = web.Application()
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05, handler_cancellation=True)
    served = Pods(0)
    app.router.add_get("/metrics", served.serve)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    served.port = runner.addresses[0][1]
    for last in range(2, 10):
        await web.TCPSite(runner, f"127.0.0.{last}", served.port).start()
    yield served
    await runner.cleanup()


def pod(number: int = 1, **changes: Any) -> Pod:
    """A ready pod of an hour."""
    made = Pod("shop", f"web-{number}", f"uid-{number}", "Running", started=NOW - 3600, ready=True)
    return msgspec.structs.replace(made, address=f"127.0.0.{number}", **changes)


@asynccontextmanager
async def over(
    pods: Pods, *placed: Pod, workload: Workload = WEB, **options: Any
) -> AsyncIterator[tuple[Reader, VirtualClock, list[Pod]]]:
    """A reader over these pods of the workload; the list may be changed."""
    source = msgspec.convert(pods.table(**{"timeout": 30, **options}), Endpoints)
    clock, present = VirtualClock(NOW), list(placed)

    class Live(Shown):
        def pods(self, workload: Workload) -> tuple[Pod, ...]:
            return tuple(present) if workload.ref == REF else (pod(9),)

    snapshot = Live((workload, ()), (Workload(OTHER, "v", "1", 1), ()))
    async with source.open(site(Scripted(), clock, governed=[REF, OTHER], snapshot=snapshot)) as reader:
        yield reader, clock, present


def values(readings: Readings, series: str = "load") -> list[float]:
    """Of the workload as a whole."""
    return [one.value for one in readings.workloads[series].get(str(REF), ())]


@pytest.mark.parametrize(
    ("population", "size"),
    [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 4), (10, 7), (50, 12), (100, 14), (1000, 16), (10**6, 16)],
)
def test_sample_grows_with_the_population_up_to_sixteen(population: int, size: int) -> None:
    assert sample_size(population) == size


def test_sample_size_grows_with_the_population_and_never_exceeds_it() -> None:
    sizes = [sample_size(population) for population in range(3000)]
    assert all(size <= population for population, size in enumerate(sizes))
    assert sizes == sorted(sizes)


async def test_value_of_the_workload_is_what_its_pods_have_together(pods: Pods) -> None:
    pods.pages = {f"127.0.0.{number}": PAGE.format(number) for number in (1, 2, 3)}
    async with over(pods, pod(1), pod(2), pod(3), name="pages") as (reader, _, __):
        found = await reader.read(NOW)
    assert (found.source, found.error, found.faults, values(found)) == ("pages", "", {}, [6.0])
    (sample,) = found.workloads["load"][str(REF)]
    assert (sample.measured, sample.received, sample.window, sample.pod) == (NOW, NOW, 0.0, "")
    assert str(OTHER) not in found.workloads["load"]
    assert "127.0.0.9" not in pods.asked


async def test_a_thousand_pods_cost_sixteen_scrapes_and_always_the_same(pods: Pods) -> None:
    many = [msgspec.structs.replace(pod(number), address=f"127.0.0.{number % 9 + 1}") for number in range(1000)]
    pods.pages = {f"127.0.0.{number}": PAGE.format(2) for number in range(1, 10)}
    async with over(pods, *many) as (reader, _, present):
        assert values(await reader.read(NOW)) == [2000.0]
        first = sorted(pods.asked)
        assert len(first) == 16
        present.reverse()
        assert values(await reader.read(NOW)) == [2000.0]
    assert sorted(pods.asked[16:]) == first


@pytest.mark.parametrize(
    "absent",
    [
        pytest.param({"ready": False}, id="not ready"),
        pytest.param({"ready": None}, id="without a Ready condition"),
        pytest.param({"phase": "Pending"}, id="pending"),
        pytest.param({"deleted": True}, id="being deleted"),
    ],
)
async def test_pod_that_serves_nobody_neither_counts_nor_is_asked(pods: Pods, absent: dict[str, Any]) -> None:
    async with over(pods, pod(1), pod(2, **absent), msgspec.structs.replace(pod(3), address="")) as (reader, _, __):
        assert values(await reader.read(NOW)) == [1.0]
    assert pods.asked == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("counted", "doubted"),
    [
        pytest.param(2, {}, id="all are shown"),
        pytest.param(
            4, {str(REF): "of 4 pods that its controller counts, the watch of pods shows 2"}, id="two are not"
        ),
    ],
)
async def test_pods_that_the_watch_lacks_make_a_value_doubtful(
    pods: Pods, counted: int, doubted: dict[str, str]
) -> None:
    """It may be silent: the value is what the pods that it shows serve."""
    workload = msgspec.structs.replace(WEB, replicas=counted, status_replicas=counted)
    async with over(pods, pod(1), pod(2), workload=workload) as (reader, _, __):
        found = await reader.read(NOW)
    assert (values(found), found.doubted_workloads) == ([2.0], doubted)


async def test_no_ready_pod_is_no_sample_and_never_zero(pods: Pods) -> None:
    async with over(pods, pod(1, ready=False)) as (reader, _, __):
        found = await reader.read(NOW)
    assert (found.workloads, found.error, found.faults) == ({"load": {}}, "", {})


async def test_young_pods_count_but_are_asked_last(pods: Pods) -> None:
    young = [pod(number, started=NOW - 5) for number in (5, 6, 7, 8)]
    async with over(pods, *young, *[pod(number) for number in (1, 2, 3, 4)], young=10) as (reader, _, __):
        assert values(await reader.read(NOW)) == [8.0]
    assert len(pods.asked) == sample_size(8) == 6
    assert {f"127.0.0.{number}" for number in (1, 2, 3, 4)} <= set(pods.asked)


COUNTER = [{"name": "rps", "metric": "requests_total", "labels": {"code": "200"}, "rate": True}]
COUNTED = """# TYPE requests_total counter
requests_total{{code="200",path="/a"}} {0}
requests_total{{code="200",path="/b"}} {0}
requests_total{{code="500",path="/a"}} 7
"""


async def test_counter_is_a_rate_of_each_pod_between_two_looks(pods: Pods) -> None:
    async with over(pods, pod(1), pod(2), series=COUNTER) as (reader, clock, present):

        async def after(at: float, first: float, second: float) -> list[float]:
            pods.pages = {"127.0.0.1": COUNTED.format(first), "127.0.0.2": COUNTED.format(second)}
            await clock.sleep_until(NOW + at)
            found = await reader.read(NOW + at)
            got = values(found, "rps")
            told = {} if got else {"rps": "a rate takes two looks at a pod, and too few have had them"}
            assert (found.error, found.faults) == ("", told)
            return got

        assert await after(0, 100, 1000) == []
        assert await after(10, 200, 1050) == [30.0]
        assert await after(20, 5, 1100) == []
        assert await after(30, 55, 1100) == [10.0]
        present[0] = msgspec.structs.replace(pod(1), uid="another")
        assert await after(40, 1055, 1100) == []
        assert await after(50, 1105, 1100) == [10.0]


async def test_a_failing_pod_is_reported_and_replaced_by_another(pods: Pods) -> None:
    async with over(pods, *[pod(number) for number in range(1, 10)]) as (reader, clock, _):

        async def after(at: float) -> Readings:
            pods.asked.clear()
            await clock.sleep_until(NOW + at)
            return await reader.read(NOW + at)

        assert values(await after(0)) == [9.0]
        bad = pods.asked[0]
        pods.pages[bad] = 500
        assert "it answers 500" in (await after(10)).faults["load"]
        found = await after(20)
        assert (values(found), found.faults, len(pods.asked)) == ([9.0], {}, sample_size(9))
        assert bad not in pods.asked
        await after(51)
        assert bad in pods.asked


@pytest.mark.parametrize(
    ("page", "why"),
    [
        pytest.param(503, "it answers 503", id="503"),
        pytest.param(302, "it answers 302", id="a redirect"),
        pytest.param("load 1\nload{x= 2\n", "its page cannot be read", id="garbage"),
        pytest.param("load much\n", "its page cannot be read", id="no number"),
        pytest.param("x" * 5000, "its page is larger than 4096 bytes", id="too long"),
        pytest.param(web.json_response({}), "it answers in application/json", id="JSON"),
        pytest.param(
            web.Response(body=b"?", content_type="text/plain", headers={"Content-Encoding": "gzip"}),
            "it answers in text/plain, gzip",
            id="packed",
        ),
        pytest.param("other 1\n", "1 of 1 pods of shop/Deployment/web do not have it", id="another metric"),
    ],
)  # fmt: skip
async def test_a_useless_page_gives_no_sample_and_never_zero(pods: Pods, page: Any, why: str) -> None:
    pods.pages = {"127.0.0.1": page}
    async with over(pods, pod(1), max_bytes=4096) as (reader, _, __):
        found = await reader.read(NOW)
    assert found.workloads.get("load", {}) == {}
    assert why in found.error + found.faults.get("load", "")


SOME = ",".join(f'l{index}="x"' for index in range(65))
LABELS = ",".join(f'l{index}="x"' for index in range(500))


@pytest.mark.parametrize(
    ("page", "why"),
    [
        pytest.param("load 1\n" * 10_001, "its page has 10001 lines of these metrics, at most 10000", id="lines"),
        pytest.param(f"load{{{LABELS}}} 1", "its page has a line of 4397 bytes of these metrics", id="long"),
        pytest.param(f"load{{{SOME}}} 1", "its page has a line of 65 labels of these metrics, at most 64", id="labels"),
        pytest.param(
            f'load{{a="{"x" * 4000}"}} 1\n' * 131,
            "its page has 525572 bytes of these metrics, at most 524288",
            id="long ones",
        ),
    ],
)
async def test_a_page_that_would_take_long_to_parse_is_none(pods: Pods, page: str, why: str) -> None:
    """The parser's time is the square of a line's labels: the event loop stood still for 12 s."""
    pods.pages = {"127.0.0.1": page}
    async with over(pods, pod(1)) as (reader, _, __):
        found = await reader.read(NOW)
    assert found.workloads.get("load", {}) == {}
    assert why in found.error + found.faults.get("load", "")


class NotingClock(VirtualClock):
    """Notes the threads that ask it."""

    def __init__(self) -> None:
        super().__init__(NOW)
        self.threads = set[threading.Thread]()

    def now(self) -> float:
        self.threads.add(threading.current_thread())
        return super().now()


@pytest.mark.parametrize(("lines", "beside"), [(9, False), (9_999, True)])
async def test_many_lines_are_parsed_beside_the_event_loop(pods: Pods, lines: int, beside: bool) -> None:
    pods.pages, clock = {"127.0.0.1": 'load{a="b"} 1\n' * lines}, NotingClock()
    options = msgspec.convert(pods.table(timeout=30), Endpoints)
    async with aiohttp.ClientSession() as session:
        page = await Scraper(session, options, clock).read("127.0.0.1")
    assert page["load"].value == lines
    assert (clock.threads == {threading.current_thread()}) is not beside


@pytest.mark.parametrize(
    "address", ["127.0.0.250", "nowhere.example", "::ffff:999"], ids=["refused", "a name", "no IP"]
)
async def test_address_that_does_not_answer_or_is_none_is_reported(pods: Pods, address: str) -> None:
    async with over(pods, msgspec.structs.replace(pod(1), address=address)) as (reader, _, __):
        assert "1 of 1 pods did not answer: shop/web-1: " in (await reader.read(NOW)).error


async def test_pod_that_hangs_delays_no_other(pods: Pods) -> None:
    pods.held["127.0.0.2"] = asyncio.Event()
    async with over(pods, *[pod(number) for number in (1, 2, 3, 4)], timeout=0.2) as (reader, _, __):
        began = asyncio.get_running_loop().time()
        found = await reader.read(NOW)
        assert asyncio.get_running_loop().time() - began < 1.0
    assert (values(found), len(found.faults)) == ([4.0], 1)
    assert "1 of 4 pods did not answer: shop/web-2: no answer" in found.faults["load"]


async def test_too_few_answers_are_no_value(pods: Pods) -> None:
    pods.pages = {"127.0.0.1": 500, "127.0.0.2": 500}
    async with over(pods, *[pod(number) for number in (1, 2, 3, 4)]) as (reader, _, __):
        found = await reader.read(NOW)
    assert (values(found), "2 of 4 pods" in found.faults["load"]) == ([], True)


async def test_a_nan_value_is_passed_on_for_judgement(pods: Pods) -> None:
    pods.pages = {"127.0.0.1": PAGE.format("NaN")}
    async with over(pods, pod(1), pod(2)) as (reader, _, __):
        (value,) = values(await reader.read(NOW))
    assert math.isnan(value)


async def test_time_that_a_page_tells_is_the_time_of_measurement(pods: Pods) -> None:
    pods.default = "load 1 5000000\n"
    async with over(pods, pod(1), pod(2)) as (reader, _, __):
        (sample,) = (await reader.read(NOW)).workloads["load"][str(REF)]
    away = NOW - time.time()  # the page tells a time of day, and the daemon's clock stands elsewhere
    assert sample.value == 2.0
    assert sample.measured == pytest.approx(5000.0 + away, abs=1.0)


async def test_before_the_cluster_was_observed_nobody_is_asked(pods: Pods) -> None:
    source = msgspec.convert(pods.table(), Endpoints)
    async with source.open(site(Scripted(), governed=[REF])) as reader:
        assert (await reader.read(NOW)).workloads == {"load": {}}
    assert pods.asked == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param({"path": "metrics"}, "path: must", id="a path without its slash"),
        pytest.param({"port": 0}, "port: must be >= 1", id="no port"),
        pytest.param(
            {"series": [{"name": "a"}, {"name": "a"}]}, 'must have different names, has "a" twice', id="twice"
        ),
        pytest.param({"series": [{"name": "a", "metric": "b-c"}]}, "metric", id="no metric's name"),
        pytest.param({"series": [{"name": "a-b"}]}, "metric: must be given", id="a name that is no metric"),
        pytest.param({"select": {"namespaces": []}}, "namespaces", id="no namespace"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        convert({**Pods(9090).table(), **options}, Endpoints, "elasticd.toml", "source[0]")
    assert problem in str(caught.value)


def test_it_is_registered_and_says_what_it_has() -> None:
    (source,) = register_sources()
    assert msgspec.convert(Pods(9090).table(), source).offers() == ("load",)


LINES = ('load{part="a}b"} 11', 'load{part="c"} 12 1000', "queue 13", "rest 14.5 1000")
SERIES = {"load": [11.0, 12.0], "queue": [13.0], "rest": [14.5]}
NUMBERS = {"7": 7.0, "-1": -1.0, "0.5": 0.5, "1e3": 1000.0, "1e-400": 0.0, "1e400": math.inf, "9" * 400: math.inf}
NONE = ("null", "true", "1_000", "0x10", "\u0667", "\u00a07", "7,5", "7 500 000", '"7"', "{", "}", "\x00", "7m")
TOKENS: Mapping[str, float | None] = {**NUMBERS, "NaN": math.nan, "+Inf": math.inf, **dict.fromkeys(NONE)}
"""What stands instead of a value, and the number that it may rightly be taken for; None: none."""


def parsed(body: bytes) -> dict[str, float] | None:
    """What is read off a page; None: it is refused."""
    series = [{"name": name} for name in SERIES]
    table = {"type": "endpoints", "port": 1, "select": {"namespaces": ["shop"]}, "series": series}
    scraper = endpoints.Scraper(None, msgspec.convert(table, Endpoints), VirtualClock(NOW))  # type: ignore[arg-type]
    try:
        return {name: sample.value for name, sample in scraper.parse(body).items()}
    except Fault:
        return None


def same(found: float, *expected: float) -> bool:
    return any(found == one or (math.isnan(found) and math.isnan(one)) for one in expected)


@given(some.sampled_from(range(4)), some.sampled_from(sorted(TOKENS)))
def test_a_damaged_value_is_taken_for_no_other(index: int, token: str) -> None:
    lines = list(LINES)
    value = lines[index].split()[1]
    lines[index] = lines[index].replace(f" {value}", f" {token}", 1)
    name = re.split(r"[ {]", lines[index])[0]
    found = parsed("\n".join(lines).encode() + b"\n")
    if found is not None:
        rest = sum(SERIES[name]) - float(value)
        read = TOKENS[token]
        assert name not in found or (read is not None and same(found[name], read + rest))
        assert all(found[other] == sum(SERIES[other]) for other in SERIES if other != name)


@given(torn("\n".join(LINES).encode() + b"\n"))
def test_a_torn_page_raises_nothing_and_adds_no_series(body: bytes) -> None:
    found = parsed(body)
    assert found is None or found.keys() <= SERIES.keys()
