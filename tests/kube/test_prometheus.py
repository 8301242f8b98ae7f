"""The Prometheus source and `elasticd record` against a genuine Prometheus."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from msgspec.structs import replace

from elasticd.base.clock import WallClock
from elasticd.cli import main
from elasticd.model.workload import Readings
from elasticd.ports.source import Reader
from elasticd.sources.prometheus import Prometheus
from elasticd.testing import site
from tests.kube.client import wait_until
from tests.kube.prometheus_server import NoPrometheus, PrometheusServer

WEB, CART = 'namespace="shop",deployment="web"', 'namespace="shop",deployment="cart"'
WEB_KEY, CART_KEY = "shop/Deployment/web", "shop/Deployment/cart"


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[PrometheusServer]:
    """A Prometheus that scrapes four times a second, once it has begun to: 5 seconds after its start."""
    try:
        made = PrometheusServer(folder)
    except NoPrometheus as missing:
        pytest.skip(str(missing))
    async with made as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def prometheus(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PrometheusServer]:
    """One for the tests that only ask it."""
    async with started(tmp_path_factory.mktemp("prometheus")) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def frail(tmp_path: Path) -> AsyncIterator[PrometheusServer]:
    """One for a test that ends it or its target."""
    async with started(tmp_path) as server:
        yield server


def source(server: PrometheusServer, *series: dict[str, Any], **more: Any) -> Prometheus:
    return msgspec.convert({"type": "prometheus", "url": server.url, "series": series, **more}, Prometheus)


async def read(server: PrometheusServer, *series: dict[str, Any], **more: Any) -> Readings:
    clock = WallClock()
    async with source(server, *series, **more).open(site(clock=clock)) as reader:
        return await reader.read(clock.now())


async def test_a_query_answers_for_each_workload_by_its_labels(prometheus: PrometheusServer) -> None:
    prometheus.target.metrics = {f"queue{{{WEB}}}": 12, f"queue{{{CART}}}": 0, 'queue{rack="r1"}': 5}
    await prometheus.has('queue{rack="r1"}')
    said = await read(prometheus, {"name": "queue", "query": 'queue{namespace!=""}'})
    assert (said.error, said.faults) == ("", {})
    found = {key: one.value for key, (one,) in said.workloads["queue"].items()}
    assert found == {WEB_KEY: 12.0, CART_KEY: 0.0}


async def test_a_selector_has_scrape_times_and_ages_without_its_target(
    frail: PrometheusServer,
) -> None:
    frail.target.metrics = {f"queue{{{WEB}}}": 12}
    table = {"name": "queue", "query": "queue"}
    lasting = {"name": "summed", "query": "sum by (namespace, deployment) (last_over_time(queue[5m]))"}
    aged = {**lasting, "name": "aged", "measured": "min by (namespace, deployment) (timestamp(queue))"}
    ranged = {"name": "ranged", "query": "queue[5m]"}
    await frail.has("queue")
    (fresh,) = (await read(frail, table)).workloads["queue"][WEB_KEY]
    assert -0.5 <= fresh.received - fresh.measured <= 5
    frail.target.dead = True
    await wait_until(lambda: frail.value("up == 0"), what="the target is down")
    said = await read(frail, table, lasting, aged, ranged)
    # Prometheus takes note that a target is gone: the plain selector has no sample any more, and so no old one.
    assert said.workloads["queue"] == {}
    # An expression over a range goes on, and looks as fresh as ever where nobody asks when it was measured.
    (summed,) = said.workloads["summed"][WEB_KEY]
    assert summed.received - summed.measured <= 5
    assert said.workloads["aged"] == {}
    assert said.faults == {"aged": "1 of 1 samples have no measured time"}
    (last,) = said.workloads["ranged"][WEB_KEY]
    assert (last.value, last.measured < summed.measured) == (12.0, True)


async def test_pushed_samples_are_as_old_as_they_say(prometheus: PrometheusServer) -> None:
    pushed = time.time() - 100
    prometheus.target.metrics = {f"queue{{{WEB}}}": 12, f"pushed_at{{{WEB}}}": pushed}
    await prometheus.has("pushed_at")
    said = await read(prometheus, {"name": "queue", "query": "queue", "measured": "pushed_at"})
    (sample,) = said.workloads["queue"][WEB_KEY]
    assert sample.measured == pytest.approx(pushed, abs=1)


async def test_a_counter_that_begins_anew_is_no_negative_rate(prometheus: PrometheusServer) -> None:
    target = prometheus.target
    for value in (1000, 1010, 3):  # the exporter was restarted
        target.metrics = {f"requests_total{{{WEB}}}": value}
        await prometheus.has(f"requests_total == {value}")
    rate = "sum by (namespace, deployment) (rate(requests_total[1m]))"
    said = await read(prometheus, {"name": "rate", "query": rate, "window": 60})
    ((sample,),) = said.workloads["rate"].values()
    assert 0 < sample.value < 20
    assert sample.window == 60


async def test_two_label_sets_for_one_workload_are_not_summed(prometheus: PrometheusServer) -> None:
    prometheus.target.metrics = {f'queue{{{WEB},shard="{shard}"}}': 5 for shard in "ab"} | {f"queue{{{CART}}}": 1}
    await prometheus.has('queue{shard="b"}')
    said = await read(prometheus, {"name": "queue", "query": "queue"})
    assert list(said.workloads["queue"]) == [CART_KEY]
    assert said.faults == {"queue": f"1 subjects have more than one sample and are left out ({WEB_KEY})"}


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("sum(", "400 Bad Request: invalid parameter"),
        ("queue + on(namespace) queue", "422 Unprocessable Entity: found duplicate series"),
        ("scalar(vector(1))", "must be a vector with the labels namespace and deployment, is a scalar"),
        ('"text"', "must be a vector, matrix or scalar, is a string"),
    ],
    ids=["syntax", "ambiguous", "scalar", "string"],
)
async def test_an_unusable_query_is_reported_in_prometheus_words(
    prometheus: PrometheusServer, query: str, told: str
) -> None:
    prometheus.target.metrics = {f"queue{{{WEB}}}": 1, f"queue{{{CART}}}": 1}
    await prometheus.has("count(queue) == 2")
    said = await read(prometheus, {"name": "good", "query": "queue"}, {"name": "bad", "query": query})
    assert told in said.faults["bad"]
    assert (said.error, len(said.workloads["good"])) == ("", 2)


async def test_a_prometheus_that_is_restarted_is_read_again(frail: PrometheusServer) -> None:
    frail.target.metrics = {f"queue{{{WEB}}}": 1}
    await frail.has("queue")
    clock = WallClock()
    async with source(frail, {"name": "queue", "query": "queue"}, timeout=1).open(site(clock=clock)) as reader:
        assert (await reader.read(clock.now())).error == ""
        frail.program.signal(signal.SIGSTOP)
        assert "no answer within 1 s" in await error_of(reader, clock)
        await frail.program.kill()
        assert "no answer: " in await error_of(reader, clock)
        frail.program.start()
        # Until it has read its log again it listens and says 503.
        errors = {await error_of(reader, clock) for _ in range(50)}
        assert all(not one or "503 Service Unavailable" in one or "no answer" in one for one in errors)
        await frail.until_ready()
        await frail.has("queue")
        said = await reader.read(clock.now())
    assert (said.error, list(said.workloads["queue"])) == ("", [WEB_KEY])


async def test_who_begins_to_lead_knows_of_an_outage_before(frail: PrometheusServer) -> None:
    frail.target.metrics = {f"requests_total{{{WEB}}}": 1}
    rate = "sum by (namespace, deployment) (rate(requests_total[8s]))"
    asked = source(frail, {"name": "rate", "query": rate, "window": 8})

    async def doubt(clock: WallClock, led: float) -> str:
        async with asked.open(replace(site(clock=clock), since=lambda: led)) as reader:
            return (await reader.read(clock.now())).doubts.get("rate", "")

    async def trusted() -> bool:
        clock = WallClock()
        return not await doubt(clock, clock.now())

    await wait_until(trusted, what="it has scraped for a window")
    await frail.program.kill()
    await asyncio.sleep(2)
    frail.program.start()
    await frail.until_ready()
    await frail.has("up")
    clock = WallClock()
    assert "the server scraped nothing for" in await doubt(clock, clock.now())
    await wait_until(trusted, what="its window is full again")
    frail.program.signal(signal.SIGSTOP)
    await asyncio.sleep(3)
    frail.program.signal(signal.SIGCONT)  # and this process, as far as it knows
    await frail.has("timestamp(up) > time() - 0.5")
    assert "the server scraped nothing for" in await doubt(clock, clock.now())


async def error_of(reader: Reader, clock: WallClock) -> str:
    return (await reader.read(clock.now())).error


async def test_rules_find_series_as_the_adapter_does(prometheus: PrometheusServer) -> None:
    pods = [f'namespace="shop",pod="web-{index}"' for index in range(3)]
    prometheus.target.metrics = {
        **{f'http_requests_total{{{pod},code="{code}"}}': 100 for pod in pods for code in (200, 500)},
        **{f"http_open{{{pod}}}": 7 for pod in pods},
        "http_nobodys_total": 1,
    }
    await prometheus.has("count_over_time(http_nobodys_total[10s]) > 1")
    rules = [
        {
            "series": '{__name__=~"http_.*_total"}',
            "resources": {"overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}},
            "name": {"matches": "^(.*)_total$", "as": "${1}_per_second"},
            "query": "sum(rate(<<.Series>>{<<.LabelMatchers>>}[1m])) by (<<.GroupBy>>)",
            "measured": "min(timestamp(<<.Series>>{<<.LabelMatchers>>})) by (<<.GroupBy>>)",
        }
    ]
    said = await read(prometheus, rule=rules)
    assert (said.error, said.faults, list(said.pods)) == ("", {}, ["http_requests_per_second"])
    found = said.pods["http_requests_per_second"]
    assert {key: one.value for key, (one,) in found.items()} == {f"shop/web-{index}": 0.0 for index in range(3)}


async def test_what_prometheus_remembers_becomes_a_recording(frail: PrometheusServer, tmp_path: Path) -> None:
    target, seen = frail.target, []
    for value in (5, 7, 11):
        target.metrics = {f"queue{{{WEB}}}": value}
        await frail.has(f"queue == {value}")
        seen.append(value)
    config = tmp_path / "elasticd.toml"
    config.write_text(f"""
        [[source]]
        type = "prometheus"
        url = "{frail.url}"
        [[source.series]]
        name = "queue"
        query = "queue"
        window = 15
    """)
    out = tmp_path / "queue.jsonl"
    words = ["record", "--config", str(config), "--source", "prometheus", "--series", "queue", "--out", str(out)]
    began = time.time() - 60

    def recorded() -> int:
        return main([*words, "--from", "-1m", "--step", "0.05", "--force"])

    assert await asyncio.to_thread(recorded) == 0  # it has a loop of its own
    rows = [msgspec.json.decode(line) for line in out.read_bytes().splitlines()]
    assert {(one["series"], one["subject"], one["key"], one["window"]) for one in rows} == {
        ("queue", "workload", WEB_KEY, 15.0)
    }
    times = [one["time"] for one in rows]
    assert times == sorted(set(times))  # each scrape once, not each step
    assert began <= times[0] <= times[-1] <= time.time()
    assert list(dict.fromkeys(one["value"] for one in rows)) == seen
    genuine = (await frail.value("queue[1m]"))[0]["values"]
    assert {(at, float(value)) for at, value in genuine} >= {(one["time"], one["value"]) for one in rows}
    assert len(rows) >= len(genuine) - 8  # it went on scraping meanwhile
