"""A Prometheus source: what its answers become, and that no fault becomes a number."""

import asyncio
import json
import math
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli
from aiohttp import web

from elasticd.base.clock import Clock, VirtualClock, WallClock
from elasticd.model.workload import Readings
from elasticd.sources.prometheus import Prometheus, register_sources
from elasticd.sources.prometheus.rules import RuleTable
from elasticd.sources.prometheus.tables import SeriesTable
from elasticd.testing import site
from tests.kit.sources.scripted import NOW, Say, Scripted, Stalls, drop, matrix, scalar, vector

EXAMPLE = Path(__file__).resolve().parents[2] / "config" / "sources" / "prometheus.toml"
QUERY = "/api/v1/query"
RATE = "sum by (namespace, deployment) (rate(http_requests_total[1m]))"
WEB = {"namespace": "shop", "deployment": "web"}
CART = {"namespace": "shop", "deployment": "cart"}


@pytest.fixture
async def server() -> AsyncIterator[Scripted]:
    async with Scripted() as scripted:
        yield scripted


def source(server: Scripted, *series: dict[str, Any], **more: Any) -> Prometheus:
    tables = series or ({"name": "requests", "query": RATE},)
    return msgspec.convert({"type": "prometheus", "url": server.url, "series": tables, **more}, Prometheus)


async def read(server: Scripted, *series: dict[str, Any], clock: Clock | None = None, **more: Any) -> Readings:
    async with source(server, *series, **more).open(site(clock=clock or VirtualClock(NOW))) as reader:
        return await reader.read(NOW)


def values(samples: Any) -> dict[str, list[float]]:
    return {key: [sample.value for sample in found] for key, found in samples.items()}


def test_it_is_registered_under_its_name_in_toml() -> None:
    assert [one.__struct_config__.tag for one in register_sources()] == ["prometheus"]


async def test_one_query_answers_for_all_workloads(server: Scripted) -> None:
    server.on(QUERY, vector((WEB, 1.5), (CART, "2e3")))
    said = await read(server, {"name": "requests", "query": RATE, "window": 60})
    assert (said.source, said.error, said.faults) == ("prometheus", "", {})
    assert values(said.workloads["requests"]) == {"shop/Deployment/web": [1.5], "shop/Deployment/cart": [2000.0]}
    (sample,) = said.workloads["requests"]["shop/Deployment/web"]
    assert sample.window == 60
    assert len(server.seen) == 1


async def test_pods_nodes_and_workloads_are_keyed_as_judgement_wants_them(server: Scripted) -> None:
    pods: dict[str, Any] = {"name": "load", "query": "sum by (namespace, pod) (x)", "subject": "pod"}
    nodes: dict[str, Any] = {
        "name": "heat",
        "query": "max by (host) (y)",
        "subject": "node",
        "labels": {"node": "host"},
    }
    mixed: dict[str, Any] = {
        "name": "depth",
        "query": "sum(z) by (ns, workload, workload_type)",
        "labels": {"namespace": "ns", "kind": "workload_type"},
    }
    server.on(QUERY, vector(({"namespace": "shop", "pod": "web-1"}, 1)), query=pods["query"])
    server.on(QUERY, vector(({"host": "n1", "rack": "r"}, 60)), query=nodes["query"])
    kinds = [("db", "statefulset"), ("web", "Deployment"), ("farm", "Farm")]
    parts = [({"ns": "shop", "workload": name, "workload_type": kind}, 3) for name, kind in kinds]
    server.on(QUERY, vector(*parts), query=mixed["query"])
    said = await read(server, pods, nodes, mixed)
    assert (said.error, said.faults) == ("", {})
    (sample,) = said.pods["load"]["shop/web-1"]
    assert (sample.pod, sample.container) == ("web-1", "")
    assert values(said.nodes["heat"]) == {"n1": [60.0]}
    assert list(said.workloads["depth"]) == ["shop/StatefulSet/db", "shop/Deployment/web", "shop/Farm/farm"]


async def test_containers_of_a_pod_have_a_sample_each(server: Scripted) -> None:
    pod = {"namespace": "shop", "pod": "web-1"}
    server.on(QUERY, vector(({**pod, "container": "web"}, 1), ({**pod, "container": "proxy"}, 2)))
    said = await read(server, {"name": "cpu", "query": "a+b", "subject": "pod", "labels": {"container": "container"}})
    found = said.pods["cpu"]["shop/web-1"]
    assert [(one.pod, one.container, one.value) for one in found] == [("web-1", "web", 1.0), ("web-1", "proxy", 2.0)]


async def test_what_is_fixed_needs_no_label(server: Scripted) -> None:
    server.on(QUERY, vector(({"deployment": "web", "namespace": "lies"}, 4)))
    said = await read(server, {"name": "a", "query": "a+b", "namespace": "shop"})
    assert values(said.workloads["a"]) == {"shop/Deployment/web": [4.0]}


@pytest.mark.parametrize("answer", [scalar(7), vector(({}, 7))], ids=["scalar", "vector"])
async def test_one_number_may_be_about_one_fixed_workload(server: Scripted, answer: dict[str, Any]) -> None:
    server.on(QUERY, answer)
    said = await read(server, {"name": "a", "query": "scalar(a)", "namespace": "shop", "workload": "web"})
    assert values(said.workloads["a"]) == {"shop/Deployment/web": [7.0]}


async def test_a_query_is_posted_as_a_form_with_its_timeout(server: Scripted) -> None:
    server.on(QUERY, vector())
    await read(server, timeout=3)
    assert [(one.method, one.form) for one in server.seen] == [("POST", {"query": RATE, "timeout": "3s"})]


async def test_an_empty_answer_is_a_series_without_samples(server: Scripted) -> None:
    server.on(QUERY, vector())
    said = await read(server)
    assert (said.error, said.faults, said.workloads) == ("", {}, {"requests": {}})


# When a sample was measured.


async def test_a_plain_selector_is_queried_for_sample_timestamps_too(server: Scripted) -> None:
    now = time.time()
    server.on(QUERY, vector((WEB, 5), (CART, 6), at=now), query='queue{job="q"}')
    server.on(QUERY, vector((WEB, now - 30), (CART, now - 90), at=now), query='timestamp(queue{job="q"})')
    said = await read(server, {"name": "queue", "query": 'queue{job="q"}'}, clock=WallClock())
    ages = {key: one.received - one.measured for key, (one,) in said.workloads["queue"].items()}
    assert ages == pytest.approx({"shop/Deployment/web": 30, "shop/Deployment/cart": 90}, abs=2)
    assert server.forms(QUERY)[1]["time"] == f"{now:.3f}"  # both are about the same moment


async def test_measured_says_how_old_the_numbers_of_an_expression_are(server: Scripted) -> None:
    now = time.time()
    server.on(QUERY, vector((WEB, 5), (CART, 6), at=now), query=RATE)
    server.on(QUERY, vector((WEB, now - 45), at=now), query="min by (namespace, deployment) (timestamp(x))")
    table = {"name": "r", "query": RATE, "measured": "min by (namespace, deployment) (timestamp(x))"}
    said = await read(server, table, clock=WallClock())
    (sample,) = said.workloads["r"]["shop/Deployment/web"]
    assert sample.received - sample.measured == pytest.approx(45, abs=2)
    assert "shop/Deployment/cart" not in said.workloads["r"]
    assert said.faults == {"r": "1 of 2 samples have no measured time"}


async def test_numbers_whose_age_cannot_be_asked_for_are_not_given(server: Scripted) -> None:
    server.on(QUERY, vector((WEB, 5)), query=RATE)
    server.on(QUERY, Say(422, {"status": "error", "errorType": "execution", "error": "too many samples"}))
    said = await read(server, {"name": "r", "query": RATE, "measured": "timestamp(x)+0"})
    assert said.error == "measured: 422 Unprocessable Entity: too many samples"
    assert said.workloads == {}


async def test_the_last_point_of_a_range_has_its_own_time(server: Scripted) -> None:
    now = time.time()
    server.on(QUERY, matrix((WEB, [(now - 60, 1), (now - 20, 2)])))
    said = await read(server, {"name": "q", "query": "queue[2m]"}, clock=WallClock())
    (sample,) = said.workloads["q"]["shop/Deployment/web"]
    assert sample.value == 2.0
    assert sample.received - sample.measured == pytest.approx(20, abs=2)
    assert len(server.seen) == 1


async def test_times_are_reported_by_the_daemons_clock(server: Scripted) -> None:
    server.on(QUERY, vector((WEB, 5), at=time.time()))
    said = await read(server, clock=VirtualClock(1000.0))  # as after a step of the system's clock
    (sample,) = said.workloads["requests"]["shop/Deployment/web"]
    assert sample.received == 1000.0
    assert sample.measured == pytest.approx(1000.0, abs=2)


@pytest.mark.parametrize(
    ("query", "plain"),
    [
        ("up", True),
        ("job:rate:5m", True),
        (' up{a="b"} ', True),
        ('up{a="}", b=~\'x"\', c!~`y`,}', True),
        ("up{}", True),
        ('up{a="\\"}"}', True),
        ('{__name__="up"}', False),
        ("up[5m]", False),
        ("up offset 5m", False),
        ("rate(up[5m])", False),
        ("up + up", False),
        ('up{a="b"} > 1', False),
        ("NaN", False),
        ("1", False),
        ('up{a="b', False),
    ],
)
def test_only_a_plain_selector_has_times_of_its_own(query: str, plain: bool) -> None:
    assert SeriesTable(name="up", query=query).times == (f"timestamp({query.strip()})" if plain else "")


# What is wrong with an answer.

UNFIT = "must be a vector with the labels namespace and deployment, is a scalar"
DEEP = b'{"status":"success","data":{"resultType":"vector","result":' + b"[" * 200_000


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (Say(422, {"status": "error", "error": "too many samples"}), "422 Unprocessable Entity: too many samples"),
        (Say(503, {"status": "error", "error": "query timed out"}), "503 Service Unavailable: query timed out"),
        (Say(503, b"Service Unavailable", content_type="text/plain"), "503 Service Unavailable"),
        (Say(404, b"<html>", content_type="text/html"), "404 Not Found"),
        (Say(302, b"", {"Location": "http://elsewhere.invalid/"}), "302 Found"),
        ({"status": "error", "errorType": "bad_data", "error": "parse\nerror"}, "bad_data: parse error"),
        ({"status": "error"}, "error: the server does not say why"),
        (vector((WEB, 1), warnings=["store a is down"]), "a partial answer (accept_warnings): store a is down"),
        (vector((WEB, 1), isPartial=True), "a partial answer (accept_warnings): the server calls it partial"),
        (scalar(1), UNFIT),
        (scalar("text", "string"), "must be a vector, matrix or scalar, is a string"),
        (Say(200, b"<html>", content_type="text/html"), "answered with text/html, not application/json"),
        (msgspec.json.encode(vector((WEB, 1)))[:-20], "the answer is not of the query API: Input data was truncated"),
        (b"", "the answer is not of the query API: Input data was truncated"),
        (b"null", "the answer is not of the query API"),
        (b'{"status":"success"}', "the answer is not of the query API"),
        (b'{"status":"success","data":{"resultType":"vector","result":{}}}', "the answer is not of the query API"),
        (b"\xff\xfe", "the answer is not of the query API"),
        (DEEP, "the answer is not of the query API: maximum recursion depth"),
        (drop, "no answer: "),
    ],
    ids=["422", "503", "503-text", "404", "redirect", "error", "error-mute", "warnings", "partial", "scalar", "string",
         "html", "truncated", "empty", "null", "no-data", "no-list", "no-text", "deep", "reset"],
)  # fmt: skip
async def test_an_unusable_answer_is_an_error_without_samples(server: Scripted, answer: Any, fault: str) -> None:
    server.on(QUERY, answer)
    said = await read(server)
    assert fault in said.error
    assert "\n" not in said.error
    assert (said.pods, said.workloads, said.nodes) == ({}, {}, {})
    assert said.faults == {"requests": said.error}


async def test_a_server_that_is_not_there_is_told(server: Scripted) -> None:
    gone = source(server)
    await server.__aexit__()
    async with gone.open(site()) as reader:
        said = await reader.read(NOW)
    assert said.error.startswith("no answer: Cannot connect to host 127.0.0.1")


async def test_a_query_that_fails_harms_only_its_series(server: Scripted) -> None:
    server.on(QUERY, vector((WEB, 1)), query="a+b")
    server.on(QUERY, Say(400, {"error": "parse error"}), query="a+")
    said = await read(server, {"name": "good", "query": "a+b"}, {"name": "bad", "query": "a+"})
    assert (said.error, list(said.workloads)) == ("", ["good"])
    assert said.faults == {"bad": "400 Bad Request: parse error"}


async def test_when_all_failed_otherwise_the_first_is_reported(server: Scripted) -> None:
    server.on(QUERY, Say(400, {"error": "parse error"}), query="a+")
    server.on(QUERY, scalar(1), query="1")
    said = await read(server, {"name": "a", "query": "a+"}, {"name": "b", "query": "1"})
    assert said.error == "2 series failed; a: 400 Bad Request: parse error"


async def test_a_partial_answer_is_used_only_where_accepted_and_reported(server: Scripted) -> None:
    server.on(QUERY, vector((WEB, 1), warnings=["store a is down"]))
    said = await read(server, {"name": "a", "query": "a+b", "accept_warnings": True})
    assert values(said.workloads["a"]) == {"shop/Deployment/web": [1.0]}
    assert said.faults == {"a": "partial, accepted: store a is down"}


async def test_what_a_server_only_notes_is_logged_once(server: Scripted, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    server.on(QUERY, vector((WEB, 1), infos=["metric might not be a counter"]))
    async with source(server).open(site()) as reader:
        _, said = await reader.read(NOW), await reader.read(NOW)
    assert (said.error, said.faults, len(said.workloads["requests"])) == ("", {}, 1)
    assert caplog.messages == ["series requests: the server notes: metric might not be a counter"]


async def test_two_samples_for_one_subject_are_dropped_not_summed(server: Scripted) -> None:
    server.on(QUERY, vector(({**WEB, "method": "GET"}, 1), (CART, 2), ({**WEB, "method": "PUT"}, 3)))
    said = await read(server)
    assert values(said.workloads["requests"]) == {"shop/Deployment/cart": [2.0]}
    assert said.faults == {"requests": "1 subjects have more than one sample and are left out (shop/Deployment/web)"}


@pytest.mark.parametrize(
    "labels",
    [{}, {"namespace": "shop"}, {**WEB, "deployment": ""}, {**WEB, "namespace": "a/b"}, {**WEB, "deployment": "../x"}],
    ids=["none", "one", "empty", "slash", "path"],
)
async def test_samples_without_the_required_labels_are_counted_and_dropped(
    server: Scripted, labels: dict[str, str]
) -> None:
    server.on(QUERY, vector((labels, 1), (CART, 2)))
    said = await read(server)
    assert list(said.workloads["requests"]) == ["shop/Deployment/cart"]
    assert said.faults == {"requests": "1 of 2 samples have no fit labels namespace and deployment"}


@pytest.mark.parametrize(
    ("text", "value"),
    [("+Inf", math.inf), ("-Inf", -math.inf), ("NaN", math.nan), ("-1", -1.0), ("1e308", 1e308), ("1e999", math.inf),
     ("many", math.nan), ("", math.nan), ("0x10", math.nan)],
)  # fmt: skip
async def test_a_number_is_parsed_exactly_and_garbage_is_never_zero(server: Scripted, text: str, value: float) -> None:
    server.on(QUERY, vector((WEB, text)))
    said = await read(server)
    assert values(said.workloads["requests"]) == {"shop/Deployment/web": [pytest.approx(value, nan_ok=True)]}


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"metric": WEB, "histogram": [NOW, {"count": "1"}]}, "have no number (histograms?)"),
        ({"metric": WEB}, "have no number (histograms?)"),
        ({"metric": WEB, "values": []}, "have no number (histograms?)"),
        ({"metric": WEB, "value": [NOW]}, "are no samples"),
        ({"metric": WEB, "value": [NOW, 1.5]}, "are no samples"),
        ({"metric": WEB, "value": ["late", "1"]}, "are no samples"),
        ({"metric": [], "value": [NOW, "1"]}, "are no samples"),
        ({"metric": {"namespace": 1, "deployment": "web"}, "value": [NOW, "1"]}, "are no samples"),
        ({"value": [NOW, "1"]}, "are no samples"),
        (7, "are no samples"),
    ],
)
async def test_a_garbled_part_harms_only_itself(server: Scripted, part: Any, words: str) -> None:
    answer = vector((CART, 2))
    answer["data"]["result"].append(part)
    server.on(QUERY, answer)
    said = await read(server)
    assert values(said.workloads["requests"]) == {"shop/Deployment/cart": [2.0]}
    assert said.faults == {"requests": f"1 of 2 samples {words}"}


@pytest.mark.parametrize("spaced", [False, True])
async def test_more_samples_than_are_wanted_are_refused(server: Scripted, spaced: bool) -> None:
    answer = vector(*[({"namespace": "shop", "deployment": f"d{i}"}, 1) for i in range(11)])
    body = json.dumps(answer).encode() if spaced else msgspec.json.encode(answer)
    server.on(QUERY, body)
    said = await read(server, max_samples=10)
    assert said.error == "the answer has more than 10 samples (max_samples)"


@pytest.mark.slow
async def test_a_million_series_are_refused_before_they_are_taken_apart(server: Scripted) -> None:
    part = b'{"metric":{},"value":[1,"1"]}'
    body = b'{"status":"success","data":{"resultType":"vector","result":[' + b",".join([part] * 1_000_000) + b"]}}"
    server.on(QUERY, body)
    async with Stalls() as stalls:
        said = await read(server, max_bytes=1 << 26)
    assert said.error == "the answer has more than 200000 samples (max_samples)"
    assert stalls.longest < 0.5  # the server, too, runs on this loop


async def test_more_bytes_than_are_wanted_are_refused(server: Scripted) -> None:
    server.on(QUERY, vector((WEB, 1), padding="x" * 5000))
    said = await read(server, max_bytes=4096)
    assert said.error == "answered with more than 4096 bytes (max_bytes)"


async def test_a_cancelled_read_leaves_nothing_behind(server: Scripted) -> None:
    asked = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        asked.set()
        await asyncio.sleep(60)
        return web.Response()

    server.on(QUERY, slow)
    async with source(server).open(site()) as reader:
        task = asyncio.create_task(reader.read(NOW))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"subject": "pods"}, "Invalid enum value 'pods'"),
        ({"query": ""}, "length >= 1"),
        ({"labels": {"namespace": "kube-ns"}}, 'namespace: must be the name of a label, is "kube-ns"'),
        ({"labels": {"namespace": "a", "workload": "a"}}, 'labels: must differ from one another, "a" is used twice'),
        ({"namespace": "shop/x"}, 'namespace: must be a name in Kubernetes, is "shop/x"'),
        ({"subject": "node", "namespace": "shop"}, "namespace: must not be given for a node"),
        ({"subject": "pod", "workload": "web"}, 'workload: must be given only with subject = "workload"'),
        ({"kind": ""}, "kind: must be given, or else labels.kind"),
        ({"window": -1}, ">= 0"),
        ({"lables": {}}, "unknown field `lables`"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(server: Scripted, table: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=re.escape(problem)):
        source(server, {"name": "a", "query": "a", **table})


def test_a_series_is_given_once(server: Scripted) -> None:
    with pytest.raises(msgspec.ValidationError, match='"a" is given twice'):
        source(server, {"name": "a", "query": "a"}, {"name": "a", "query": "b"})
    both = source(server, {"name": "a", "query": "a"}, {"name": "a", "query": "b", "subject": "pod"})
    assert both.offers() == ("a",)


def test_a_source_without_series_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="series: must be given, or else rules"):
        msgspec.convert({"type": "prometheus", "url": "http://p"}, Prometheus)


def test_the_worked_example_shows_every_option() -> None:
    (table,) = tomli.loads(EXAMPLE.read_text())["source"]
    assert shown(Prometheus, table) == {*table}
    assert shown(SeriesTable, table["series"][0]) == {*table["series"][0]}
    assert shown(RuleTable, table["rule"][0]) == {*table["rule"][0]}


def shown(kind: type[msgspec.Struct], table: dict[str, Any]) -> set[str]:
    """The keys of a type's table."""
    fields = {field.encode_name for field in msgspec.structs.fields(kind)} - {"resolution"}  # of every source
    return fields | ({"type"} if "type" in table else set())


OTHER = {"name": "errors", "query": "errors_total"}
DOWN = Say(503, b"")


@pytest.mark.parametrize(
    ("answers", "others", "doubted"),
    [
        pytest.param([vector((WEB, 10))], [vector()], False, id="it answered each time"),
        pytest.param([vector((WEB, 10)), DOWN, vector((WEB, 5))], [vector(), DOWN, vector()], True, id="it was down"),
        pytest.param([vector((WEB, 10)), DOWN, vector((WEB, 5))], [vector()], False, id="it answered another query"),
        pytest.param([vector((WEB, 10)), DOWN, vector()], [vector(), DOWN, vector()], True, id="it has none again yet"),
    ],
)
async def test_averages_are_doubted_after_the_server_was_down(
    server: Scripted, answers: list[Any], others: list[Any], doubted: bool
) -> None:
    server.on(QUERY, *answers, query=RATE)
    server.on(QUERY, *others, query="errors_total")
    server.on(QUERY, vector(), query="timestamp(errors_total)")
    clock = VirtualClock(NOW)
    async with source(server, {"name": "requests", "query": RATE, "window": 60}, OTHER).open(site(clock=clock)) as one:
        said = []
        for at in (0, 15, 30, 111):
            await clock.sleep_until(NOW + at)
            said.append(await one.read(NOW + at))
        assert [[*each.doubts] for each in said] == [[], [], ["requests"] * doubted, []]


SCRAPES = "max_over_time((time() - (max(timestamp(up)) or vector(0)))[80000ms:1500ms])"


def paused(seconds: object) -> dict[str, Any]:
    """The longest time without a scrape, as the server answers."""
    return vector(({}, seconds))


@pytest.mark.parametrize(
    ("scrapes", "doubted"),
    [
        pytest.param([paused(1.2)], [False] * 4, id="it scraped all the time"),
        pytest.param([paused(31)], [True, True, True, False], id="it was down before"),
        pytest.param([paused(31), paused(31), paused(2)], [True, True, False, False], id="it was, long enough ago"),
        pytest.param([paused(NOW)], [True, True, True, False], id="it shows no scrapes"),
        pytest.param([vector()], [True, True, True, False], id="its answer is empty"),
        pytest.param([paused("NaN")], [True, True, True, False], id="its answer is no number"),
        pytest.param([vector(({}, 0), at="x")], [True, True, True, False], id="its answer is garbled"),  # type: ignore[arg-type]
        pytest.param([{**paused(0), "warnings": ["x"]}], [True, True, True, False], id="its answer is partial"),
        pytest.param([DOWN, paused(0)], [True, False, False, False], id="it answered late"),
    ],
)
async def test_who_begins_to_lead_doubts_averages_at_first(
    server: Scripted, scrapes: list[Any], doubted: list[bool]
) -> None:
    """A standby reads nothing: it does not know that the server was down a moment before."""
    server.on(QUERY, vector((WEB, 5)), query=RATE)
    server.on(QUERY, *scrapes, query=SCRAPES)
    server.on(QUERY, vector(), query="errors_total")
    server.on(QUERY, vector(), query="timestamp(errors_total)")
    clock, led = VirtualClock(NOW), [NOW - 3600]
    where = msgspec.structs.replace(site(clock=clock), since=lambda: led[-1])
    async with source(server, {"name": "requests", "query": RATE, "window": 60}, OTHER).open(where) as one:
        await one.read(NOW)  # for a page, while another leads
        await clock.sleep_until(NOW + 600)
        led.append(NOW + 590)
        server.on(QUERY, *scrapes, query=SCRAPES)
        said = []
        for at in (600, 615, 660, 681):
            await clock.sleep_until(NOW + at)
            said.append(await one.read(NOW + at))
    assert [[*each.doubts] for each in said] == [["requests"] * each for each in doubted]
    assert [values(each.workloads["requests"]) for each in said] == [{"shop/Deployment/web": [5.0]}] * 4
