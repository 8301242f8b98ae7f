"""HPAs of every version become policies: fields, defaults, annotations, and what has no equivalent."""

import json
from typing import Any

import pytest
import tomli

from elasticd.base.errors import ConfigError
from elasticd.migration.hpa import ALPHA, Controller, controller_of, hpa_policy
from tests.migration.manifests import Manifest, hpa

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}


def policy(table: Manifest, **options: Any) -> dict[str, Any]:
    return tomli.loads(hpa_policy(table, "web.yaml", "default", **options).text)


def strategy(table: Manifest, **options: Any) -> dict[str, Any]:
    (only,) = policy(table, **options)["strategy"]
    return dict(only)


def of(kind: str, key: str, body: Manifest, target: Manifest) -> Manifest:
    return {"type": kind, key: {**body, "target": target}}


IDENTIFIED = {"metric": {"name": "hits", "selector": {"matchLabels": {"path": "a"}}}}
INGRESS = {"describedObject": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "front"}}


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        pytest.param(CPU, {"type": "Resource", "resource": "cpu", "utilization": 60}, id="utilization"),
        pytest.param(
            of("Resource", "resource", {"name": "memory"}, {"type": "AverageValue", "averageValue": "1Gi"}),
            {"type": "Resource", "resource": "memory", "average_value": "1Gi"},
            id="average value",
        ),
        pytest.param(
            of("ContainerResource", "containerResource", {"name": "cpu", "container": "app"},
               {"type": "Utilization", "averageUtilization": 70}),
            {"type": "ContainerResource", "resource": "cpu", "container": "app", "utilization": 70},
            id="container",
        ),
        pytest.param(
            of("Pods", "pods", IDENTIFIED, {"type": "AverageValue", "averageValue": "500m"}),
            {"type": "Pods", "series": "hits[path=a]", "average_value": "500m"},
            id="pods",
        ),
        pytest.param(
            of("Object", "object", {**IDENTIFIED, **INGRESS}, {"type": "Value", "value": "2k"}),
            {"type": "Object", "series": "hits[path=a] of Ingress front", "value": "2k"},
            id="object",
        ),
        pytest.param(
            of("External", "external", IDENTIFIED, {"type": "AverageValue", "averageValue": "30"}),
            {"type": "External", "series": "hits[path=a]", "average_value": "30"},
            id="external",
        ),
        pytest.param(
            {"type": "External", "external": {"metricName": "hits", "targetValue": "30"}},
            {"type": "External", "series": "hits", "value": "30"},
            id="external of v2beta1",
        ),
        pytest.param(
            {"type": "Object", "object": {"target": {"kind": "Ingress", "name": "front"}, "metricName": "hits",
                                          "targetValue": "30"}},
            {"type": "Object", "series": "hits of Ingress front", "value": "30"},
            id="object of v2beta1",
        ),
    ],
)  # fmt: skip
def test_each_metric_becomes_one_of_the_strategy(metric: Manifest, expected: Manifest) -> None:
    assert strategy(hpa([metric]))["metrics"] == [expected]


def test_metrics_apis_are_sources_about_the_workload() -> None:
    metrics = [
        of("External", "external", IDENTIFIED, {"type": "Value", "value": "30"}),
        of("Object", "object", {**IDENTIFIED, **INGRESS}, {"type": "Value", "value": "2k"}),
        of("Pods", "pods", IDENTIFIED, {"type": "AverageValue", "averageValue": "1"}),
    ]
    sources = hpa_policy(hpa(metrics), "", "").sources
    assert [(source["type"], source["series"][0]) for source in sources] == [
        ("external-metrics", {"name": "hits[path=a]", "metric": "hits", "selector": "path=a",
                              "workload": "shop/Deployment/web"}),
        ("custom-metrics", {"name": "hits[path=a] of Ingress front", "metric": "hits", "selector": "path=a",
                            "object": {"api_version": "networking.k8s.io/v1", "kind": "Ingress", "name": "front"},
                            "workload": "shop/Deployment/web"}),
        ("custom-metrics", {"name": "hits[path=a]", "metric": "hits", "selector": "path=a", "namespaces": ["shop"]}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "metrics"),
    [
        pytest.param(hpa(version="v1"), [80], id="v1 without a target"),
        pytest.param(hpa(version="v1", targetCPUUtilizationPercentage=55), [55], id="v1 with one"),
        pytest.param(hpa(), [80], id="v2 without metrics"),
        pytest.param(
            hpa(version="v1", targetCPUUtilizationPercentage=55, annotations={f"{ALPHA}metrics": json.dumps(
                [{"type": "Resource", "resource": {"name": "memory", "targetAverageUtilization": 70}}])}),
            [70, 55], id="v1 with an annotation",
        ),
    ],
)  # fmt: skip
def test_cpu_is_measured_unless_metrics_say_otherwise(table: Manifest, metrics: list[int]) -> None:
    assert [metric["utilization"] for metric in strategy(table)["metrics"]] == metrics


RATES = {"type": "Pods", "value": 3, "periodSeconds": 30}


@pytest.mark.parametrize(
    ("behavior", "expected"),
    [
        pytest.param({}, {}, id="empty: both directions at their defaults"),
        pytest.param(
            {"scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Min", "policies": [RATES],
                         "tolerance": "50m"}},
            {"scale_up": {"stabilization_window": 0, "select": "Min", "tolerance": 0.05,
                          "policies": [{"type": "Pods", "value": 3, "period": 30}]}},
            id="up",
        ),
        pytest.param({"scaleDown": {"selectPolicy": "Disabled"}}, {"scale_down": {"select": "Disabled"}}, id="never"),
    ],
)  # fmt: skip
def test_behavior_keeps_its_words_and_defaults(behavior: Manifest, expected: Manifest) -> None:
    assert strategy(hpa([CPU], behavior=behavior))["behavior"] == expected


def test_the_alpha_annotation_of_behavior_is_read() -> None:
    text = json.dumps({"ScaleDown": {"StabilizationWindowSeconds": 60, "SelectPolicy": "Max", "Policies": [
        {"Type": "Percent", "Value": 10, "PeriodSeconds": 60}]}, "ScaleUp": None})  # fmt: skip
    table = strategy(hpa(version="v1", annotations={f"{ALPHA}behavior": text}))["behavior"]
    assert table == {"scale_down": {"stabilization_window": 60, "select": "Max", "policies": [
        {"type": "Percent", "value": 10, "period": 60}]}}  # fmt: skip


def test_defaults_are_those_of_the_api_and_the_controller() -> None:
    table = policy(hpa([CPU]))
    assert (table["mode"], table["interval"], table["replicas"]) == ("observe", 15, {"min": 1, "max": 10})
    assert table["workload"] == {"namespace": "shop", "name": "web", "kind": "Deployment", "api_version": "apps/v1"}
    assert "behavior" not in strategy(hpa([CPU])), "the legacy limits hold"
    assert strategy(hpa([CPU]))["downscale_stabilization"] == 300


def test_flags_of_the_controller_are_options() -> None:
    flags = ["--horizontal-pod-autoscaler-downscale-stabilization=1m30s", "horizontal-pod-autoscaler-tolerance=0.2"]
    table = strategy(hpa([CPU]), controller=controller_of(flags, "1.20"))
    assert (table["downscale_stabilization"], table["tolerance"], table["rules"]) == (90, 0.2, "1.20")
    assert controller_of([], "current") == Controller()


def test_a_flag_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r'must be one of .*, is "sync-period"'):
        controller_of(["sync-period=5s"], "current")


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        pytest.param(hpa([CPU], minReplicas=11), "spec.maxReplicas: must be >= the minimum = 11, is 10", id="bounds"),
        pytest.param(hpa([CPU], maxReplicas="10"), 'spec.maxReplicas: must be a whole number, is "10"', id="type"),
        pytest.param(hpa([{"type": "Guess"}]), "spec.metrics[0].type: must be one of Resource, Contai", id="kind"),
        pytest.param(
            hpa([of("Resource", "resource", {"name": "cpu"}, {"type": "Utilization"})]),
            "spec.metrics[0].resource.target: must have one of averageUtilization",
            id="no target",
        ),
    ],
)
def test_what_the_api_refuses_is_told_by_field(table: Manifest, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        hpa_policy(table, "web.yaml", "default")
    assert str(caught.value).startswith(f"web.yaml: {problem}")


def test_a_field_nobody_knows_is_named() -> None:
    table = hpa([CPU], fallback={"replicas": 3})
    assert hpa_policy(table, "", "").notes == ("spec.fallback: has no equivalent, and was left out",)


def test_old_api_versions_of_workloads_are_todays() -> None:
    table = hpa([CPU])
    table["spec"]["scaleTargetRef"] = {"apiVersion": "extensions/v1beta1", "kind": "Deployment", "name": "web"}
    assert policy(table)["workload"]["api_version"] == "apps/v1"
