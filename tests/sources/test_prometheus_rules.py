"""Rules in prometheus-adapter's words: what they look for, what they call it, and how they ask for it."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from elasticd.base.clock import VirtualClock
from elasticd.sources.prometheus import Prometheus
from elasticd.sources.prometheus.rules import Naming, RuleTable
from elasticd.testing import site
from tests.kit.sources.scripted import NOW, Say, Scripted, vector

NAMES, QUERY = "/api/v1/label/__name__/values", "/api/v1/query"
POD = {"overrides": {"namespace": {"resource": "namespace"}, "pod_name": {"resource": "pods"}}}
# The example of the adapter's docs/config.md.
EXAMPLE: dict[str, Any] = {
    "series": '{__name__=~"^container_.*",container_name!="POD"}',
    "resources": POD,
    "name": {"matches": "^container_(.*)_seconds_total$"},
    "query": 'sum(rate(<<.Series>>{<<.LabelMatchers>>,container_name!="POD"}[2m])) by (<<.GroupBy>>)',
}
ASKED = (
    'sum(rate(container_cpu_seconds_total{namespace!="",pod_name!="",container_name!="POD"}[2m]))'
    " by (namespace,pod_name)"
)


@pytest.fixture
async def server() -> AsyncIterator[Scripted]:
    async with Scripted() as scripted:
        scripted.on(QUERY, vector(({"namespace": "shop", "pod_name": "web-1"}, 2)))
        yield scripted


def rule(**changes: Any) -> RuleTable:
    return msgspec.convert({**EXAMPLE, **changes}, RuleTable)


def names(*found: str) -> dict[str, Any]:
    return {"status": "success", "data": list(found)}


def source(server: Scripted, *rules: dict[str, Any], **more: Any) -> Prometheus:
    table = {"type": "prometheus", "url": server.url, "rule": [{**EXAMPLE, **one} for one in rules or ({},)], **more}
    return msgspec.convert(table, Prometheus)


async def test_a_rule_finds_series_and_queries_each_once(server: Scripted) -> None:
    server.on(NAMES, names("container_cpu_seconds_total", "container_memory_bytes"))
    async with source(server).open(site(clock=VirtualClock(NOW))) as reader:
        said = await reader.read(NOW)
    (search,), (query,) = server.forms(NAMES), server.forms(QUERY)
    assert search["match[]"] == '{__name__=~"^container_.*",container_name!="POD", namespace!="",pod_name!=""}'
    assert query["query"] == ASKED
    assert {name: list(pods) for name, pods in said.pods.items()} == {"cpu": ["shop/web-1"]}
    assert (said.error, said.faults) == ("", {})


def test_what_rules_will_find_cannot_be_said_before(server: Scripted) -> None:
    assert source(server).offers() is None


async def searched(reader: Any, at: float) -> None:
    """Read, and let the search that goes on beside it come to its end."""
    await reader.read(at)
    await reader._search


async def test_series_are_looked_for_only_now_and_then(server: Scripted) -> None:
    server.on(NAMES, names("container_cpu_seconds_total"), names("container_io_seconds_total"))
    async with source(server, find_every=600).open(site(clock=VirtualClock(NOW))) as reader:
        first = [list((await reader.read(NOW + age)).pods) for age in (0, 1, 599)]
        await searched(reader, NOW + 600)
        later = list((await reader.read(NOW + 601)).pods)
    assert (first, later) == ([["cpu"]] * 3, ["io"])
    assert len(server.forms(NAMES)) == 2


async def test_found_series_stay_during_a_failed_search_that_repeats_sooner(server: Scripted) -> None:
    server.on(NAMES, names("container_cpu_seconds_total"), Say(503, {"error": "busy"}), names())
    async with source(server, find_every=600).open(site(clock=VirtualClock(NOW))) as reader:
        await reader.read(NOW)
        await searched(reader, NOW + 600)
        failed = await reader.read(NOW + 601)
        await searched(reader, NOW + 614)
        await searched(reader, NOW + 615)
        gone = await reader.read(NOW + 616)
    assert list(failed.pods) == ["cpu"]
    assert failed.faults == {"rule[0]": "the search for its series: 503 Service Unavailable: busy"}
    assert (gone.pods, gone.error) == ({}, "there are no series that it means")
    assert len(server.forms(NAMES)) == 3


@pytest.mark.parametrize(
    "answer", [Say(503, {"error": "starting"}), {"status": "success", "data": [1]}, b"{", {"status": "error"}]
)
async def test_a_source_that_never_found_anything_is_in_trouble(server: Scripted, answer: Any) -> None:
    server.on(NAMES, answer)
    async with source(server).open(site()) as reader:
        said = await reader.read(NOW)
    assert said.error.startswith("the search for its series: ")


async def test_an_invalid_metric_name_is_never_put_into_a_query(server: Scripted) -> None:
    evil = 'container_x_seconds_total{} or vector(9e9) or {__name__="container_y_seconds_total'
    server.on(NAMES, names(evil, "container_cpu_seconds_total"))
    async with source(server, {"name": {}}).open(site()) as reader:
        await reader.read(NOW)
    assert [form["query"] for form in server.forms(QUERY)] == [ASKED]


async def test_a_duplicate_series_name_is_reported_and_not_read(server: Scripted) -> None:
    server.on(NAMES, names("container_cpu_seconds_total"))
    given = {"name": "cpu", "query": "given", "subject": "pod", "labels": {"pod": "pod_name"}, "measured": "m"}
    async with source(server, {}, {}, series=[given]).open(site()) as reader:
        said = await reader.read(NOW)
    assert {form["query"] for form in server.forms(QUERY)} == {"given", "m"}
    assert said.faults["cpu"] == "rule[1] finds another series of this name for each pod; not read"


async def test_only_so_many_series_are_read(server: Scripted) -> None:
    server.on(NAMES, names(*[f"container_c{i}_seconds_total" for i in range(9)]))
    async with source(server, max_found=3).open(site()) as reader:
        said = await reader.read(NOW)
    assert list(said.pods) == ["c0", "c1", "c2"]
    assert said.faults == {"rule": "the rules find 9 series, at most 3 are read (max_found)"}


def test_workloads_and_nodes_are_found_by_their_labels() -> None:
    labels = {
        "ns": {"resource": "namespace"}, "app": {"group": "apps", "resource": "deployment"},
        "host": {"resource": "node"}, "svc": {"resource": "service"}, "ro": {"resource": "rollouts", "kind": "Rollout"},
    }  # fmt: skip
    searches = rule(resources={"overrides": labels}).searches()
    assert [(one.subject, one.kind, one.labels) for one in searches] == [
        ("workload", "Deployment", {"namespace": "ns", "workload": "app"}),
        ("node", "", {"node": "host"}),
        ("workload", "Rollout", {"namespace": "ns", "workload": "ro"}),
    ]


def test_a_template_names_the_labels_of_all_resources() -> None:
    searches = rule(resources={"template": "kube_<<.Group>>_<<.Resource>>"}).searches()
    assert {one.kind or one.subject: [*one.labels.values()] for one in searches} == {
        "pod": ["kube__namespace", "kube__pod"],
        "node": ["kube__node"],
        "Deployment": ["kube__namespace", "kube_apps_deployment"],
        "StatefulSet": ["kube__namespace", "kube_apps_statefulset"],
        "ReplicaSet": ["kube__namespace", "kube_apps_replicaset"],
        "ReplicationController": ["kube__namespace", "kube__replicationcontroller"],
    }


@pytest.mark.parametrize(
    ("series", "selector"),
    [
        ("up", 'up{namespace!="",pod_name!=""}'),
        ("up{}", 'up{namespace!="",pod_name!=""}'),
        (' up{ a="}", } ', 'up{a="}", namespace!="",pod_name!=""}'),
        ('{__name__="up"}', '{__name__="up", namespace!="",pod_name!=""}'),
    ],
)
def test_only_series_with_the_labels_are_looked_for(series: str, selector: str) -> None:
    (search,) = rule(series=series).searches()
    assert search.selector == selector


@pytest.mark.parametrize(
    ("table", "series", "name"),
    [
        ({}, "up", "up"),
        ({"matches": "^(.*)_total$", "as": "${1}_per_second"}, "http_total", "http_per_second"),
        ({"matches": "^(.*)_total$"}, "http_total", "http"),
        ({"matches": "^(.*)_total$"}, "http", ""),
        ({"matches": "^a_(?P<x>.*)_(.*)$", "as": "$x-$2-$0-$$"}, "a_b_c", "b-c-a_b_c-$"),
        ({"matches": "b", "as": ""}, "abc", "b"),
        ({"matches": "^a(b)?", "as": "x$1"}, "a", "x"),
    ],
)
def test_names_are_made_as_the_adapter_makes_them(table: dict[str, str], series: str, name: str) -> None:
    assert msgspec.convert(table, Naming).named(series) == name


@pytest.mark.parametrize(
    ("filters", "passing"),
    [([{"is": "^a"}], ["ab", "ac"]), ([{"is_not": "b$"}], ["ac"]), ([{"is": "^a"}, {"is_not": "c"}], ["ab"])],
)
def test_filters_choose_by_name(filters: list[dict[str, str]], passing: list[str]) -> None:
    (search,) = rule(filters=filters, name={}).searches()
    assert [table.name for table in search.tables(["ac", "bb", "ab"])] == passing


def test_measured_is_a_template_too() -> None:
    (search,) = rule(measured="min by (<<.GroupBy>>) (timestamp(<< .Series >>{<<.LabelMatchers>>}))").searches()
    (table,) = search.tables(["container_cpu_seconds_total"])
    text = 'min by (namespace,pod_name) (timestamp(container_cpu_seconds_total{namespace!="",pod_name!=""}))'
    assert table.times == text


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"series": "rate(up[5m])"}, "series: must be a selector"),
        ({"query": "<<.Serie>>"}, "query: must have no other words than <<.Series>>"),
        ({"query": '<<index .LabelValuesByName "pod">>'}, "query: must have no other words"),
        ({"measured": "<<Series>>"}, "measured: must have no other words"),
        ({"name": {"matches": "("}}, "matches: must be a regular expression"),
        ({"name": {"matches": "(a)(b)"}}, "as: must be given where matches has several groups"),
        ({"name": {"matches": "(a)", "as": "$1_x"}}, "as: must name groups that matches has"),
        ({"name": {"matches": "(a)", "as": "$2"}}, "as: must name groups that matches has"),
        ({"filters": [{}]}, "is: must be given, or else is_not, neither is"),
        ({"filters": [{"is_not": "("}]}, "is_not: must be a regular expression"),
        ({"resources": {}}, "overrides: must name labels of namespaces and pods"),
        ({"resources": {"overrides": {"pod": {"resource": "pod"}}}}, "overrides: must name labels of namespaces"),
        ({"resources": {"overrides": {"a-b": {"resource": "pod"}}}}, "overrides: must be names of labels"),
        ({"resources": {"template": "<<.Kind>>"}}, "template: must have no other words"),
        ({"metricsQuery": "x"}, "unknown field `metricsQuery`"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        rule(**changes)
    assert problem in str(caught.value)
