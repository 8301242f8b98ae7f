"""The daemon's own metrics: names, labels, and what becomes of series nobody needs any more."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from elasticd.decision.decide import held
from elasticd.journal import Journal
from elasticd.model.listener import IDLE_TICK, Governed, Ticked
from elasticd.model.records import Sizing
from elasticd.model.workload import Failure, Limit, Quality, Recommendation, Ref, Resources, Series
from elasticd.ports.cluster import LEFT_ALONE, OTHER_POLICIES, RECORDS, Kind
from elasticd.sources.mqtt import Described
from elasticd.sources.poller import SourceReport
from elasticd.telemetry.metrics import ClusterHealth, DaemonMetrics
from tests.kit.loops import Play, policy
from tests.kit.records import WEB, decision, outcome

UNITS = ("_total", "_seconds", "_replicas", "_pods", "_bytes", "_cores", "_ratio")
COUNTS = (
    "elasticd_leader",
    "elasticd_leader_policies_differ",
    "elasticd_policies",
    "elasticd_blind",
    "elasticd_journal_writable",
    "elasticd_config_last_reload_successful",
    "elasticd_source_up",
    "elasticd_moves_in_flight",
    "elasticd_moves_failing",
    "elasticd_moves_in_trouble",
    "elasticd_restore_records_left_alone",
    "elasticd_restore_records_unread",
)


def text(metrics: DaemonMetrics, **changes: Any) -> str:
    return metrics.render(**({"leading": True, "journal_failures": 0} | changes)).decode()


def samples(metrics: DaemonMetrics) -> Iterator[Sample]:
    for family in text_string_to_metric_families(text(metrics)):
        yield from family.samples


def value(metrics: DaemonMetrics, metric: str, /, **labels: str) -> float | None:
    named = (one for one in samples(metrics) if one.name == f"elasticd_{metric}")
    return next((one.value for one in named if labels.items() <= one.labels.items()), None)


def busy() -> DaemonMetrics:
    """One that has counted one of everything."""
    metrics = DaemonMetrics()
    metrics.on(decision(60.0))
    metrics.on(decision(90.0, 2, verdict="hold"))
    metrics.on(outcome(60.0))
    metrics.on(Ticked(0.01, 3))
    metrics.on(IDLE_TICK)
    metrics.called("patch", "deployments/scale", 200, 0.05)
    metrics.reloaded(2, ok=True)
    return metrics


def test_every_name_ends_in_its_unit() -> None:
    for family in text_string_to_metric_families(text(busy())):
        name = family.name + "_total" * (family.type == "counter")
        assert name.endswith(UNITS) or name in COUNTS, name
        assert family.documentation.endswith(".")


def test_sources_and_what_their_series_are_worth_are_shown() -> None:
    metrics = DaemonMetrics()
    series = Series("cpu", "sensors", Quality.STALE, (), "old")
    metrics.on(decision(60.0, series=(series, replace(series, quality=Quality.FRESH))))
    metrics.on(decision(61.0, series=(series,)))
    assert value(metrics, "series_total", source="sensors", quality="stale") == 2
    assert value(metrics, "series_total", source="sensors", quality="fresh") == 1
    metrics.read("sensors", 0.5, True)
    metrics.read("sensors", 0.5, False)
    assert value(metrics, "source_reads_total", source="sensors", result="failed") == 1
    good = SourceReport("sensors", "mqtt", "ok", 15.0, 3.0, 1, 0, 0.1, 4, ("cpu",))
    bad = replace(good, name="dead", health="refused", age=None, resolution=None)
    shown = text(metrics, sources=(good, bad))
    for line in (
        'elasticd_source_up{source="sensors"} 1.0',
        'elasticd_source_up{source="dead"} 0.0',
        'elasticd_source_age_seconds{source="sensors"} 3.0',
        'elasticd_source_resolution_seconds{source="sensors"} 15.0',
    ):
        assert line in shown.splitlines()
    assert 'age_seconds{source="dead"}' not in shown


@pytest.mark.parametrize(
    ("health", "quiet"),
    [("ok", "unread"), ("not read yet", "unread"), ("refused", "unread"), ("cpu_p95: too early", "learning")],
)
def test_a_quiet_source_is_neither_up_nor_stale(health: str, quiet: Any) -> None:
    report = SourceReport("sensors", "mqtt", health, 15.0, 3000.0, 1, 0, 0.1, 4, ("cpu",), quiet=quiet)
    shown = text(DaemonMetrics(), sources=(report,))
    assert "elasticd_source_up{" not in shown
    assert "elasticd_source_age_seconds{" not in shown


def test_what_became_of_a_sources_messages_is_counted() -> None:
    counted = Described(True, 0.0, 0, 9, 6, {"json": 1, "topic": 2}, 1, 2, 3, 4, 5)
    report = SourceReport("sensors", "mqtt", "ok", None, None, 1, 0, 0.1, 4, ("cpu",), counted)
    shown = text(DaemonMetrics(), sources=(report, replace(report, name="other", details={"shed": 1}))).splitlines()
    expected = {"received": 9, "decoded": 6, "refused": 3, "duplicates": 1, "late": 2, "shed": 3, "missed": 4}
    for result, count in expected.items():
        assert f'elasticd_source_messages_total{{result="{result}",source="sensors"}} {count}.0' in shown
    assert not [line for line in shown if "messages" in line and "other" in line]


def test_no_series_says_when_another_was_created() -> None:
    assert "_created" not in text(busy())


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("decisions_total", {"verdict": "scale"}, 1),
        ("current_replicas", {"namespace": "shop", "kind": "Deployment", "name": "web"}, 2),
        ("wanted_replicas", {"policy": "shop"}, 2),
        ("recommended_replicas", {"strategy": "hpa"}, 2),
        ("poll_interval_seconds", {}, 30),
        ("limited_total", {"limit": "rate", "reason": "ScaleUpLimit"}, 2),
        ("holds_total", {"reason": "Wanted"}, 1),
        ("actions_total", {"result": "done", "reason": "", "code": "200"}, 1),
        ("plugin_failures_total", {"plugin": "bad", "hook": "limit"}, 2),
        ("sample_age_seconds_count", {"source": "meter"}, 2),
        ("ticks_total", {}, 2),
        ("loop_lag_seconds_sum", {}, 0.01),
        ("loop_lag_seconds_count", {}, 1),
        ("unchanged_total", {}, 3),
        ("api_calls_total", {"verb": "patch", "resource": "deployments/scale", "code": "200"}, 1),
        ("api_call_duration_seconds_count", {"verb": "patch"}, 1),
        ("leader", {}, 1),
        ("policies", {}, 2),
        ("config_reloads_total", {"result": "done"}, 1),
        ("journal_write_failures_total", {}, 0),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_it_counts(name: str, labels: dict[str, str], expected: float) -> None:
    assert value(busy(), name, **labels) == expected


def test_failed_actions_are_counted_by_reason() -> None:
    metrics = busy()
    for reason in ("Conflict", "TooManyRequests", "Conflict"):
        metrics.on(replace(outcome(61.0), result="failed", reason=reason, code=0))
    counts = [value(metrics, "actions_total", reason=reason) for reason in ("", "Conflict", "TooManyRequests")]
    assert counts == [1, 2, 1]


def test_a_strategy_that_does_not_know_has_no_recommendation_left() -> None:
    metrics = busy()
    metrics.on(decision(120.0, recommendations=(Recommendation(None, "NoSample", strategy="hpa"),)))
    assert value(metrics, "recommended_replicas") is None


def test_a_workload_that_is_not_there_has_not_0_replicas() -> None:
    metrics = busy()
    metrics.on(held(policy("shop"), WEB, 120.0, "FailedGetScale", "gone"))
    assert (value(metrics, "current_replicas"), value(metrics, "wanted_replicas")) == (None, None)
    assert value(metrics, "holds_total", reason="FailedGetScale") == 1
    metrics.on(decision(150.0))
    assert value(metrics, "current_replicas") == 2


def test_the_series_of_a_workload_vanish_with_it() -> None:
    metrics, other = busy(), Ref("shop", "Deployment", "other")
    metrics.on(decision(1.0, workload=other))
    metrics.on(replace(outcome(2.0), workload=other))
    metrics.on(Governed({("shop", other)}))
    assert {one.labels["name"] for one in samples(metrics) if "name" in one.labels} == {"other"}
    assert value(metrics, "plugin_failures_total") is not None
    metrics.on(Governed(set()))
    assert 'name="' not in text(metrics)
    assert value(metrics, "plugin_failures_total") is None
    metrics.on(decision(180.0))
    assert value(metrics, "decisions_total", verdict="scale") == 1


async def test_the_loop_says_who_is_governed() -> None:
    metrics = DaemonMetrics()
    play = Play(policy("a"), policy("b", mode="observe"), listeners=[metrics])
    await play.to(5)
    assert {one.labels["policy"] for one in samples(metrics) if "name" in one.labels} == {"a", "b"}
    play.loop.apply([policy("a")])
    await play.to(10)
    assert {one.labels["policy"] for one in samples(metrics) if "name" in one.labels} == {"a"}


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_hostile_labels_are_escaped(name: str) -> None:
    metrics = DaemonMetrics()
    metrics.on(decision(1.0, policy=name, verdict="hold", reason=f'"}} 1\n{name}'))
    found = [one for one in samples(metrics) if one.name == "elasticd_holds_total"]
    assert [(one.labels["policy"], one.labels["reason"], one.value) for one in found] == [(name, f'"}} 1\n{name}', 1)]


def test_ever_new_reasons_create_a_bounded_number_of_series() -> None:
    metrics = DaemonMetrics()
    for number in range(500):
        limits = (Limit(f"Reason{number}", name=f"limit{number}", bound=True),)
        failures = (Failure(f"plugin{number}", "limit", ""),)
        metrics.on(decision(1.0, verdict="hold", reason=f"r{number}", limits=limits, failures=failures))
    for name in ("holds_total", "limited_total", "plugin_failures_total"):
        counts = [one.value for one in samples(metrics) if one.name == f"elasticd_{name}"]
        assert (len(counts), sum(counts)) == (51, 500)
    metrics.on(Governed(set()))
    assert "Reason" not in text(metrics)


def test_a_refused_reload_keeps_the_number_of_policies() -> None:
    metrics = busy()
    metrics.reloaded(0, ok=False)
    assert (value(metrics, "policies"), value(metrics, "config_reloads_total", result="refused")) == (2, 1)


def test_lost_lines_of_the_journal_are_counted_once() -> None:
    metrics, lines = DaemonMetrics(), []
    for failures in (0, 3, 3, 5):
        lines += [line for line in text(metrics, journal_failures=failures).splitlines() if "failures_total " in line]
    assert [line.split()[-1] for line in lines if line[0] != "#"] == ["0.0", "3.0", "3.0", "5.0"]


@pytest.mark.parametrize("writable", [True, False])
def test_whether_the_journal_can_be_written_is_a_gauge(writable: bool) -> None:
    assert f"elasticd_journal_writable {float(writable)}\n" in text(DaemonMetrics(), journal_writable=writable)


def test_a_sample_from_the_near_future_has_age_zero() -> None:
    metrics = DaemonMetrics()
    series = decision(60.0).series[0]
    metrics.on(decision(1.0, series=(series.__class__("cpu", "meter", series.quality, series.samples, "", 30.0),)))
    assert value(metrics, "sample_age_seconds_sum") == 0


def test_ages_fall_into_buckets_that_add_up() -> None:
    metrics = DaemonMetrics()
    for age in (0.0, 1.0, 1.5, 900.0, 900.5):
        metrics.on(decision(1000.0, series=(replace(decision(1000.0).series[0], measured=1000.0 - age),)))
    found = {one.labels["le"]: one.value for one in samples(metrics) if one.name.endswith("age_seconds_bucket")}
    assert found == {"1.0": 2, **dict.fromkeys(["2.0", "5.0", "10.0", "15.0", "30.0"], 3),
                     **dict.fromkeys(["60.0", "120.0", "300.0"], 3), "900.0": 4, "+Inf": 5}  # fmt: skip
    assert (value(metrics, "sample_age_seconds_count"), value(metrics, "sample_age_seconds_sum")) == (5, 1803.0)


def test_sources_that_are_too_many_are_counted_together() -> None:
    metrics = DaemonMetrics()
    for number in range(53):
        metrics.on(decision(60.0, series=(replace(decision(60.0).series[0], source=f"meter-{number}"),)))
    assert value(metrics, "sample_age_seconds_count", source="meter-49") == 1
    assert value(metrics, "sample_age_seconds_count", source="other") == 3


def test_it_can_be_rendered_beside_a_journal() -> None:
    assert "elasticd_leader 0.0" in text(DaemonMetrics(), leading=False, journal_failures=Journal().failures)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(OTHER_POLICIES, "leader_policies_differ", id="other policies of the leader"),
        pytest.param(LEFT_ALONE, "restore_records_left_alone", id="records that do not count"),
        pytest.param(RECORDS, "restore_records_unread", id="records that cannot be read"),
    ],
)
def test_a_problem_of_the_cluster_is_a_gauge(kind: Kind, name: str) -> None:
    metrics = DaemonMetrics()
    assert f"elasticd_{name} 1.0\n" in text(metrics, cluster=ClusterHealth({kind: "403 Forbidden"}))
    assert f"elasticd_{name} 0.0\n" in text(metrics)


def test_the_age_of_each_view_is_a_gauge() -> None:
    metrics = DaemonMetrics()
    cluster = ClusterHealth(view_ages={"Node": 900.0, "Pod": 1.0})
    assert 'elasticd_view_age_seconds{kind="Node"} 900.0\n' in text(metrics, cluster=cluster)
    assert "elasticd_view_age_seconds{" not in text(metrics)


def test_actual_and_recommended_requests_are_exported_by_container() -> None:
    metrics = DaemonMetrics()
    asked = Resources("main", {"cpu": 0.5, "memory": 5e8}, {"cpu": 1.0})
    metrics.on(decision(60.0, sizing=Sizing((asked, Resources("mesh")))))
    shown = [line for line in text(metrics).splitlines() if "_cores{" in line or "_bytes{" in line]
    labels = 'container="main",kind="Deployment",name="web",namespace="shop",policy="shop"'
    assert sorted(shown) == [
        f"elasticd_recommended_cpu_cores{{{labels}}} 0.5",
        f"elasticd_recommended_memory_bytes{{{labels}}} 5e+08",
        f"elasticd_requested_cpu_cores{{{labels}}} 1.0",
    ]


@pytest.mark.parametrize(
    ("unresized", "counted"),
    [("ForeignOwner: updater resized a", 1), ("Frozen: by a person", None), ("a plugin failed", None), ("", None)],
)
def test_decisions_that_leave_requests_to_others_are_counted(unresized: str, counted: int | None) -> None:
    metrics = DaemonMetrics()
    metrics.on(decision(60.0, sizing=Sizing(unresized=unresized)))
    assert value(metrics, "limited_total", limit="requests", reason="ForeignOwner") == counted
