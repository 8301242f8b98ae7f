"""A HorizontalPodAutoscaler, of autoscaling/v1 to v2, becomes a policy with the strategy `hpa`.

Knows the API's fields and the controller's defaults, where a file leaves them out; knows nothing of pods.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from elasticd.base.errors import UNREADABLE
from elasticd.base.text import shown
from elasticd.base.units import amount, go_seconds
from elasticd.migration.fields import Fields
from elasticd.migration.policy import (
    Imported,
    Table,
    bounds_of,
    selector_of,
    subject_of,
    target_of,
    unknown_fields,
    workload_name,
)

ALPHA = "autoscaling.alpha.kubernetes.io/"
"""Prefix of the annotations in which autoscaling/v1 has what its fields cannot say."""

EXTERNAL, CUSTOM = "imported-external-metrics", "imported-custom-metrics"
"""Names of the sources that read the metrics APIs."""

_LONGEST = 253


class Controller(Struct, frozen=True):
    """The flags of the kube-controller-manager that decide with an HPA, in seconds and parts, at their defaults; and
    whose rules it follows. No object says what they are."""

    sync_period: float = 15.0
    tolerance: float = 0.1
    downscale_stabilization: int = 300
    cpu_initialization_period: float = 300.0
    initial_readiness_delay: float = 30.0
    rules: str = "current"


FLAGS = {
    "horizontal-pod-autoscaler-sync-period": "sync_period",
    "horizontal-pod-autoscaler-tolerance": "tolerance",
    "horizontal-pod-autoscaler-downscale-stabilization": "downscale_stabilization",
    "horizontal-pod-autoscaler-cpu-initialization-period": "cpu_initialization_period",
    "horizontal-pod-autoscaler-initial-readiness-delay": "initial_readiness_delay",
}
"""The controller's flags, and what they are called here."""


def controller_of(flags: Iterable[str], rules: str) -> Controller:
    """The controller with these flags, each as NAME=VALUE. Raises ValueError for one that is none."""
    values: dict[str, Any] = {"rules": rules}
    for flag in flags:
        name, _, text = flag.removeprefix("--").partition("=")
        if name not in FLAGS:
            raise ValueError(f"must be one of {', '.join(FLAGS)}, is {shown(name)}")
        number = text if FLAGS[name] == "tolerance" else go_seconds(text)
        try:
            values[FLAGS[name]] = float(number)
        except ValueError:
            raise ValueError(f"{name}: must be a number, is {shown(text)}") from None
    if "downscale_stabilization" in values:
        values["downscale_stabilization"] = int(values["downscale_stabilization"])
    return Controller(**values)


def hpa_policy(table: Any, file: str, namespace: str, controller: Controller | None = None) -> Imported:
    """The policy that decides as this HPA. Raises ConfigError for what the API server would refuse."""
    flags = controller or Controller()
    manifest = Fields(table, file)
    subject, notes, sources = subject_of(manifest, namespace), list[str](), list[Table]()
    spec = manifest.table("spec")
    target = target_of(spec.table("scaleTargetRef"), subject.namespace, notes)
    metrics = [_metric(metric, target, sources, notes) for metric in _metrics(spec, subject.annotations, file)]
    strategy: Table = {"type": "hpa", "metrics": metrics}
    if (behavior := _behavior(spec, subject.annotations, file)) is not None:
        strategy["behavior"] = behavior_table(behavior)
    policy = {
        "mode": "observe",
        "interval": flags.sync_period,
        "workload": target,
        "replicas": bounds_of(spec.whole("minReplicas", 1), spec.whole("maxReplicas", 0), spec, "maxReplicas"),
        # As the controller, which computes with any pod that has a sample.
        "trust": {"coverage": 0.0},
        "strategy": [strategy | _of_controller(flags)],
    }
    notes += unknown_fields(manifest)
    return Imported("HorizontalPodAutoscaler", subject.namespace, subject.name, policy, tuple(sources), tuple(notes))


def _of_controller(flags: Controller) -> Table:
    options = {
        "period": flags.sync_period,
        "tolerance": flags.tolerance,
        "downscale_stabilization": flags.downscale_stabilization,
        "cpu_initialization_period": flags.cpu_initialization_period,
        "initial_readiness_delay": flags.initial_readiness_delay,
    }
    return options if flags.rules == "current" else {**options, "rules": flags.rules}


def _metrics(spec: Fields, annotations: Any, file: str) -> list[Fields]:
    """The metrics of any version of the API; without any, CPU at 80 % of what is requested."""
    metrics = spec.tables("metrics")
    if (text := annotations.get(f"{ALPHA}metrics")) is not None:
        metrics += Fields({"metrics": _json(text, f"{ALPHA}metrics", file)}, file, ALPHA).tables("metrics")
    percent = spec.whole("targetCPUUtilizationPercentage", 0)
    if percent or not metrics:
        target = {"type": "Utilization", "averageUtilization": percent or 80}
        metrics.append(Fields({"type": "Resource", "resource": {"name": "cpu", "target": target}}, file, "spec"))
    return metrics


def _json(text: str, key: str, file: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except UNREADABLE as error:
        raise Fields({}, file, "metadata.annotations").wrong(key, f"must be JSON: {error}") from None


def _metric(metric: Fields, target: Table, sources: list[Table], notes: list[str]) -> Table:
    """An entry of `metrics`, and the source of its series."""
    kinds = {"Resource": "resource", "ContainerResource": "containerResource", "Pods": "pods", "Object": "object",
             "External": "external"}  # fmt: skip
    kind = metric.text("type")
    if kind not in kinds:
        raise metric.wrong("type", f"must be one of {', '.join(kinds)}, is {shown(kind)}")
    of = metric.table(kinds[kind])
    if kind in ("Resource", "ContainerResource"):
        name = of.text("name")
        container = {"container": of.text("container")} if kind == "ContainerResource" else {}
        if name not in ("cpu", "memory"):
            notes.append(f'{of.where("name")}: no source but Prometheus has "{name}" of pods: write its query')
        return {"type": kind, "resource": name, **container, **_set_point(of, of.table("target"))}
    series, source = _series(kind, of, target)
    sources.append(source)
    return {"type": kind, "series": series, **_set_point(of, of.table("target"))}


def _series(kind: str, of: Fields, target: Table) -> tuple[str, Table]:
    """The name of the series of a metric, and the source that reads it."""
    metric = of.table("metric")
    name = metric.text("name", "") or of.text("metricName")
    selector = selector_of(metric.table("selector")) or selector_of(of.table("metricSelector"))
    selector = selector or selector_of(of.table("selector"))
    series = f"{name}[{selector}]" if selector else name
    table: Table = {"metric": name, **({"selector": selector} if selector else {})}
    if kind == "Object":
        reference = of.table("describedObject") if of.has("describedObject") else of.table("target")
        described = {"api_version": reference.text("apiVersion", "v1") or "v1", "kind": reference.text("kind")}
        table["object"] = {**described, "name": reference.text("name")}
        series = f"{series} of {described['kind']} {table['object']['name']}"
    if kind == "Pods":
        table["namespaces"] = [target["namespace"]]
    else:
        table["workload"] = workload_name(target)
    table = {"name": series[:_LONGEST], **table}
    if kind == "External":
        return table["name"], {"type": "external-metrics", "name": EXTERNAL, "series": [table]}
    return table["name"], {"type": "custom-metrics", "name": CUSTOM, "series": [table]}


_SET_POINTS = (
    # v2, v2beta2: in `target`. v2beta1, and the annotation of v1: beside the name.
    ("averageUtilization", "targetAverageUtilization", "utilization"),
    ("averageValue", "targetAverageValue", "average_value"),
    ("value", "targetValue", "value"),
)


def _set_point(of: Fields, target: Fields) -> Table:
    """The one target of a metric, by whichever name."""
    target.ignore("type", "kind", "name", "apiVersion")
    points: Table = {}
    for name, older, ours in _SET_POINTS:
        whole = ours == "utilization"
        for table, key in ((target, name), (of, older), (of, name)):
            if table.has(key) and ours not in points:
                points[ours] = table.whole(key, 0) if whole else table.scalar(key)
    kind = target.scalar("type")
    meant = {"Utilization": "utilization", "AverageValue": "average_value", "Value": "value"}.get(kind)
    if meant in points:
        points = {meant: points[meant]}
    elif "average_value" in points:
        points.pop("value", None)
    if len(points) != 1:
        raise of.wrong("target", "must have one of averageUtilization, averageValue and value")
    return points


def _behavior(spec: Fields, annotations: Any, file: str) -> Fields | None:
    if spec.has("behavior"):
        return spec.table("behavior")
    spec.ignore("behavior")
    if (text := annotations.get(f"{ALPHA}behavior")) is None:
        return None
    # The annotation has the names of Go's fields.
    return Fields(_lower(_json(text, f"{ALPHA}behavior", file)), file, f"{ALPHA}behavior")


def _lower(value: Any) -> Any:
    """The same with names that begin in lower case, and without nulls."""
    if isinstance(value, dict):
        return {key[:1].lower() + key[1:]: _lower(entry) for key, entry in value.items() if entry is not None}
    return [_lower(entry) for entry in value] if isinstance(value, list) else value


def behavior_table(behavior: Fields) -> Table:
    """The table `behavior` of the strategy. What is left out is the same default here and there."""
    directions = {"scale_up": behavior.table("scaleUp"), "scale_down": behavior.table("scaleDown")}
    return {name: table for name, of in directions.items() if (table := direction_table(of))}


def direction_table(of: Fields) -> Table:
    """One direction of a behavior."""
    table: Table = {}
    if of.has("stabilizationWindowSeconds"):
        table["stabilization_window"] = of.whole("stabilizationWindowSeconds", 0)
    if of.has("selectPolicy"):
        table["select"] = of.text("selectPolicy").removesuffix("PolicySelect")
    if policies := of.tables("policies"):
        table["policies"] = [
            {"type": rate.text("type"), "value": rate.whole("value", 0), "period": rate.whole("periodSeconds", 0)}
            for rate in policies
        ]
    if of.has("tolerance"):
        table["tolerance"] = tolerance_of(of)
    of.ignore("selectPolicy", "policies", "stabilizationWindowSeconds", "tolerance")
    return table


def tolerance_of(of: Fields) -> float:
    """The tolerance of a direction, a quantity."""
    value = amount(of.scalar("tolerance"))
    if not value >= 0:
        raise of.wrong("tolerance", f"must be a quantity >= 0, is {shown(of.any('tolerance'))}")
    return value
