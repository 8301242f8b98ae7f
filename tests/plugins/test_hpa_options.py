"""The options of the HPA: what is accepted, what is refused and in which words."""

from typing import Any

import msgspec
import pytest

from elasticd_plugins.hpa import Hpa, register_strategies
from elasticd_plugins.hpa.options import Behavior, External, Pods, Resource, quantity_milli
from tests.kit.plugins.builders import decode

CPU = {"type": "Resource", "resource": "cpu"}


def test_defaults_are_the_hpas() -> None:
    hpa = decode(Hpa)
    assert hpa == Hpa()
    assert hpa.metrics == (Resource(resource="cpu", utilization=80),)
    assert (hpa.tolerance, hpa.downscale_stabilization) == (0.1, 300)
    assert (hpa.cpu_initialization_period, hpa.initial_readiness_delay) == (300, 30)
    assert (hpa.behavior, hpa.rules, hpa.mode) == (None, "current", "kubernetes")


def test_it_is_registered_and_hashable() -> None:
    assert register_strategies() == [Hpa]
    assert hash(decode(Hpa, behavior={})) == hash(decode(Hpa, behavior={}))


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [("250m", 250), (2, 2000), (0.25, 250), ("1.5Gi", 1610612736000), ("1e3", 1_000_000), ("1u", 1)],
)
def test_quantities_are_texts_or_numbers(quantity: str | float, expected: int) -> None:
    assert quantity_milli(quantity) == expected


def test_metrics_are_told_apart_by_type() -> None:
    pods = {"type": "Pods", "series": "qps", "average_value": 20}
    external = {"type": "External", "series": "queue", "average_value": "30"}
    assert decode(Hpa, metrics=[pods, external]).metrics == (
        Pods(series="qps", average_value=20),
        External(series="queue", average_value="30"),
    )


def test_it_reads_the_series_of_its_metrics_only() -> None:
    metrics = [CPU | {"utilization": 50}, {"type": "External", "series": "queue", "value": 3}]
    assert decode(Hpa, metrics=metrics).reads() == ("cpu", "queue")


def test_empty_behavior_is_behavior() -> None:
    assert decode(Hpa, behavior={}).behavior == Behavior()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": []}, "length >= 1"),
        ({"metrics": [CPU]}, r"^utilization: must be given, or average_value, is missing - at `\$.metrics\[0\]`$"),
        (
            {"metrics": [CPU | {"utilization": 50, "average_value": 1}]},
            "^utilization: must be left out beside average_value, is 50",
        ),
        ({"metrics": [CPU | {"utilization": 0}]}, ">= 1"),
        ({"metrics": [CPU | {"average_value": "0"}]}, "^average_value: must be > 0, is '0'"),
        ({"metrics": [CPU | {"average_value": -1.5}]}, "^average_value: must be > 0, is -1.5"),
        ({"metrics": [CPU | {"average_value": "many"}]}, "^average_value: must be a quantity such as 250m"),
        ({"metrics": [CPU | {"average_value": float("inf")}]}, "^average_value: must be finite, is inf"),
        ({"metrics": [CPU | {"resource": "", "utilization": 5}]}, "length >= 1"),
        ({"metrics": [{"type": "ContainerResource", "resource": "cpu", "utilization": 5}]}, "container"),
        (
            {"metrics": [{"type": "ContainerResource", "resource": "cpu", "container": "web"}]},
            "^utilization: must be given",
        ),
        ({"metrics": [{"type": "Pods", "series": "qps", "average_value": 0}]}, "^average_value: must be > 0, is 0"),
        ({"metrics": [{"type": "Pods", "series": "qps", "value": 1}]}, "value"),
        ({"metrics": [{"type": "Object", "series": "q"}]}, "^value: must be given, or average_value, is missing"),
        ({"metrics": [{"type": "Object", "series": "q", "value": "0"}]}, "^value: must be > 0"),
        (
            {"metrics": [{"type": "External", "series": "q", "value": 1, "average_value": 1}]},
            "^value: must be left out",
        ),
        ({"metrics": [{"type": "Resources"}]}, "Resources"),
        ({"tolerance": -0.1}, ">= 0"),
        ({"downscale_stabilization": 3601}, "<= 3600"),
        ({"behavior": {"scale_up": {"stabilization_window": 3601}}}, "<= 3600"),
        ({"behavior": {"scale_up": {"stabilization_window": -1}}}, ">= 0"),
        ({"behavior": {"scale_up": {"policies": []}}}, "length >= 1"),
        ({"behavior": {"scale_up": {"policies": [{"type": "Pods", "value": 0, "period": 15}]}}}, ">= 1|> 0"),
        ({"behavior": {"scale_up": {"policies": [{"type": "Pods", "value": 1, "period": 0}]}}}, ">= 1"),
        ({"behavior": {"scale_up": {"policies": [{"type": "Pods", "value": 1, "period": 1801}]}}}, "<= 1800"),
        ({"behavior": {"scale_up": {"policies": [{"type": "Nodes", "value": 1, "period": 15}]}}}, "Nodes"),
        ({"behavior": {"scale_down": {"select": "Any"}}}, "Any"),
        ({"behavior": {"scale_down": {"tolerance": -0.1}}}, ">= 0"),
        ({"behavior": {"scaleUp": {}}}, "scaleUp"),
        ({"rules": "1.19"}, "1.19"),
        ({"mode": "fast"}, "fast"),
        ({"period": 0}, "> 0"),
    ],
)
def test_what_contradicts_itself_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        decode(Hpa, **options)


@pytest.mark.parametrize("period", [1, 1800])
@pytest.mark.parametrize("window", [0, 3600])
def test_the_ends_of_the_ranges_are_accepted(period: int, window: int) -> None:
    policies = [{"type": "Percent", "value": 1, "period": period}]
    hpa = decode(Hpa, behavior={"scale_down": {"stabilization_window": window, "policies": policies}})
    assert hpa.behavior is not None
