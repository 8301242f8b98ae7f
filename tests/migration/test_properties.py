"""Every object that is valid by its API's own rules becomes a policy that `elasticd check` accepts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from elasticd.config.policies import decode_policy
from elasticd.migration.cronhpa import cron_policy
from elasticd.migration.exporters import EXPORTERS
from elasticd.migration.hpa import hpa_policy
from elasticd.migration.keda import scaled_job_policy, scaled_object_policy
from elasticd.migration.kube_scheduler import scheduler_policies
from elasticd.migration.policy import Imported, sources_text
from elasticd.migration.vpa import vpa_policy
from elasticd.registry import discover
from tests.migration.manifests import Manifest, cron_hpa, hpa, scaled_job, scaled_object, vpa

REGISTRY = discover()
WHOLE = st.integers(1, 1000)
QUANTITY = st.builds(lambda number, unit: f"{number}{unit}", WHOLE, st.sampled_from(["", "m", "k", "Mi", "Gi"]))
NAME = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
LABELS = st.dictionaries(NAME, NAME, max_size=2)
SELECTOR = st.fixed_dictionaries({}, optional={
    "matchLabels": LABELS,
    "matchExpressions": st.lists(st.one_of(
        st.fixed_dictionaries({"key": NAME, "operator": st.sampled_from(["In", "NotIn"]),
                               "values": st.lists(NAME, min_size=1)}),
        st.fixed_dictionaries({"key": NAME, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    ), max_size=2),
})  # fmt: skip


def _target(*kinds: str) -> st.SearchStrategy[Manifest]:
    values: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
        "Utilization": ("averageUtilization", WHOLE),
        "AverageValue": ("averageValue", QUANTITY),
        "Value": ("value", QUANTITY),
    }
    targets = [st.fixed_dictionaries({"type": st.just(kind), values[kind][0]: values[kind][1]}) for kind in kinds]
    return st.one_of(*targets)


_IDENTIFIED = st.fixed_dictionaries({"name": NAME}, optional={"selector": SELECTOR})
_RESOURCE = st.sampled_from(["cpu", "memory"])
_INGRESS = st.fixed_dictionaries(
    {"kind": st.just("Ingress"), "name": NAME}, optional={"apiVersion": st.just("x.io/v1")}
)
METRIC = st.one_of(
    st.fixed_dictionaries({"type": st.just("Resource"), "resource": st.fixed_dictionaries(
        {"name": _RESOURCE, "target": _target("Utilization", "AverageValue")})}),
    st.fixed_dictionaries({"type": st.just("ContainerResource"), "containerResource": st.fixed_dictionaries(
        {"name": _RESOURCE, "container": NAME, "target": _target("Utilization", "AverageValue")})}),
    st.fixed_dictionaries({"type": st.just("Pods"), "pods": st.fixed_dictionaries(
        {"metric": _IDENTIFIED, "target": _target("AverageValue")})}),
    st.fixed_dictionaries({"type": st.just("Object"), "object": st.fixed_dictionaries(
        {"metric": _IDENTIFIED, "describedObject": _INGRESS, "target": _target("Value", "AverageValue")})}),
    st.fixed_dictionaries({"type": st.just("External"), "external": st.fixed_dictionaries(
        {"metric": _IDENTIFIED, "target": _target("Value", "AverageValue")})}),
)  # fmt: skip
DIRECTION = st.fixed_dictionaries({}, optional={
    "stabilizationWindowSeconds": st.integers(0, 3600),
    "selectPolicy": st.sampled_from(["Max", "Min", "Disabled"]),
    "tolerance": st.sampled_from(["0", "50m", "0.2"]),
    "policies": st.lists(st.fixed_dictionaries({"type": st.sampled_from(["Pods", "Percent"]), "value": WHOLE,
                                                "periodSeconds": st.integers(1, 1800)}), min_size=1, max_size=3),
})  # fmt: skip
BEHAVIOR = st.fixed_dictionaries({}, optional={"scaleUp": DIRECTION, "scaleDown": DIRECTION})


@st.composite
def hpas(draw: st.DrawFn) -> Manifest:
    metrics = draw(st.lists(METRIC, max_size=3))
    wakes = any(metric["type"] in ("Object", "External") for metric in metrics)
    least = draw(st.integers(0 if wakes else 1, 50))
    spec: dict[str, Any] = {"maxReplicas": draw(st.integers(max(least, 1), 1000)), "minReplicas": least}
    if draw(st.booleans()):
        spec["behavior"] = draw(BEHAVIOR)
    return hpa(metrics, draw(st.sampled_from(["v2", "v2beta2"])), **spec)


NUMBER = st.one_of(WHOLE.map(str), st.sampled_from(["0.5", "12.25", "1e3"]))
METADATA = st.dictionaries(
    st.sampled_from(["topic", "consumerGroup", "queueName", "query", "podSelector", "stream"]), NAME
)
_KINDS = sorted({*EXPORTERS, "prometheus", "external", "datadog"})


@st.composite
def series_triggers(draw: st.DrawFn) -> Manifest:
    kind = draw(st.sampled_from(_KINDS))
    known = EXPORTERS.get(kind)
    key = known.threshold if known and known.threshold else "threshold"
    metadata = {**draw(METADATA), key: draw(NUMBER)}
    if kind == "prometheus":
        metadata |= {"serverAddress": "http://prom:9090", "query": "sum(x)"}
    if draw(st.booleans()):
        metadata[f"activation{key[:1].upper()}{key[1:]}"] = draw(NUMBER)
    return {"type": kind, "metadata": metadata, "metricType": draw(st.sampled_from(["AverageValue", "Value"]))}


RESOURCE_TRIGGER = st.builds(
    lambda kind, by, value: {"type": kind, "metricType": by, "metadata": {"value": str(value)}},
    _RESOURCE, st.sampled_from(["Utilization", "AverageValue"]), st.integers(1, 100),
)  # fmt: skip
CRON = st.builds(
    lambda start, count: {"type": "cron", "metadata": {"timezone": "Europe/Berlin", "start": f"0 {start} * * *",
                                                       "end": f"30 {start} * * *", "desiredReplicas": str(count)}},
    st.integers(0, 23), WHOLE,
)  # fmt: skip
FALLBACK = st.fixed_dictionaries(
    {"failureThreshold": st.integers(0, 10), "replicas": st.integers(0, 100)},
    optional={"behavior": st.sampled_from(["static", *(f"currentReplicas{by}" for by in ("", "IfHigher", "IfLower"))])},
)  # fmt: skip


@st.composite
def scaled_objects(draw: st.DrawFn) -> Manifest:
    triggers = draw(st.lists(st.one_of(series_triggers(), RESOURCE_TRIGGER, CRON), min_size=1, max_size=4))
    least = draw(st.integers(0, 20))
    spec: dict[str, Any] = {"minReplicaCount": least, "maxReplicaCount": draw(st.integers(max(least, 1), 200))}
    optional: dict[str, st.SearchStrategy[Any]] = {
        "pollingInterval": st.integers(1, 600),
        "cooldownPeriod": st.integers(0, 7200),
        "initialCooldownPeriod": st.integers(0, 600),
        "fallback": FALLBACK,
    }
    for key, values in optional.items():
        if draw(st.booleans()):
            spec[key] = draw(values)
    if least and draw(st.booleans()):
        spec["idleReplicaCount"] = draw(st.integers(0, least - 1))
    advanced: dict[str, Any] = {}
    if draw(st.booleans()):
        advanced["horizontalPodAutoscalerConfig"] = {"behavior": draw(BEHAVIOR)}
    named = [trigger for trigger in triggers if trigger["type"] not in ("cpu", "memory", "cron")]
    if draw(st.booleans()) and named:
        for index, trigger in enumerate(named):
            trigger["name"] = f"trigger_{index}"
        triggers = named
        advanced["scalingModifiers"] = {
            "formula": " + ".join(trigger["name"] for trigger in named),
            "target": draw(NUMBER),
        }
    spec["advanced"] = advanced
    return scaled_object(*triggers, **spec)


@st.composite
def scaled_jobs(draw: st.DrawFn) -> Manifest:
    triggers = draw(st.lists(series_triggers(), min_size=1, max_size=3))
    scaling: Manifest = {"strategy": draw(st.sampled_from(["default", "custom", "accurate", "eager"])),
               "multipleScalersCalculation": draw(st.sampled_from(["max", "min", "avg", "sum"]))}  # fmt: skip
    if scaling["strategy"] == "custom":
        more = {
            "customScalingQueueLengthDeduction": draw(st.integers(0, 10)),
            "customScalingRunningJobPercentage": "0.5",
        }
        scaling |= more
    least = draw(st.integers(0, 5))
    spec: Manifest = {"minReplicaCount": least, "maxReplicaCount": draw(st.integers(max(least, 1), 100))}
    spec["rollout"] = {"strategy": draw(st.sampled_from(["default", "gradual"]))}
    return scaled_job(*triggers, **spec, scalingStrategy=scaling)


@st.composite
def cron_hpas(draw: st.DrawFn) -> Manifest:
    jobs = [
        {"name": f"job-{index}",
         "schedule": f"{draw(st.integers(0, 59))} 0 {hour} * * {draw(st.sampled_from(['*', '1-5']))}",
         "targetSize": draw(st.integers(0, 50))}
        for index, hour in enumerate(draw(st.lists(st.integers(0, 23), min_size=1, max_size=3, unique=True)))
    ]  # fmt: skip
    jobs.append({"name": "day", "schedule": "0 0 8 * * *", "targetSize": draw(WHOLE)})
    return cron_hpa(*jobs, excludeDates=draw(st.lists(st.just("* * * 15 11 *"), max_size=1)))


@st.composite
def vpas(draw: st.DrawFn) -> Manifest:
    bounds = st.fixed_dictionaries({}, optional={"cpu": st.sampled_from(["10m", "1", "2"]), "memory": st.just("300Mi")})
    entry = st.fixed_dictionaries({"containerName": st.one_of(NAME, st.just("*"))}, optional={
        "minAllowed": st.just({"cpu": "10m"}), "maxAllowed": bounds,
        "controlledResources": st.lists(_RESOURCE, min_size=1, unique=True),
        "controlledValues": st.sampled_from(["RequestsOnly", "RequestsAndLimits"]),
    })  # fmt: skip
    mode = draw(st.sampled_from(["Off", "Initial", "Recreate", "Auto", "InPlaceOrRecreate"]))
    return vpa(
        updatePolicy={"updateMode": mode}, resourcePolicy={"containerPolicies": draw(st.lists(entry, max_size=2))}
    )


_PLUGINS = (
    "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions",
    "NodeVolumeLimits", "PodTopologySpread", "InterPodAffinity", "NodeResourcesBalancedAllocation", "ImageLocality",
    "DefaultPreemption",
)  # fmt: skip
_PLUGIN = st.sampled_from(_PLUGINS)
_RESOURCES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["cpu", "memory", "example.com/gpu"]), "weight": st.integers(1, 100)}
    ),
    min_size=2, max_size=3, unique_by=lambda row: str(row["name"]),
)  # fmt: skip
_TERMS = st.lists(
    st.fixed_dictionaries({"matchExpressions": st.lists(
        st.fixed_dictionaries({"key": NAME, "operator": st.sampled_from(["In", "NotIn"]),
                               "values": st.lists(NAME, min_size=1, max_size=2)}), min_size=1, max_size=2,
    )}), min_size=1, max_size=2,
)  # fmt: skip
_ARGUMENTS = {
    "NodeResourcesFit": st.fixed_dictionaries({"scoringStrategy": st.fixed_dictionaries(
        {"type": st.sampled_from(["LeastAllocated", "MostAllocated"]), "resources": _RESOURCES})}),
    "NodeResourcesBalancedAllocation": st.fixed_dictionaries({"resources": _RESOURCES}),
    "PodTopologySpread": st.fixed_dictionaries({"defaultingType": st.just("List"), "defaultConstraints": st.lists(
        st.fixed_dictionaries({"maxSkew": st.integers(1, 9), "topologyKey": NAME, "whenUnsatisfiable":
                               st.sampled_from(["DoNotSchedule", "ScheduleAnyway"])}), max_size=2)}),
    "InterPodAffinity": st.fixed_dictionaries({"hardPodAffinityWeight": st.integers(0, 100)}),
    "NodeAffinity": st.fixed_dictionaries({"addedAffinity": st.fixed_dictionaries(
        {"requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries({"nodeSelectorTerms": _TERMS})})}),
}  # fmt: skip


@st.composite
def schedulers(draw: st.DrawFn) -> Manifest:
    """A configuration with one profile, which has plugins on and off, with weights and arguments."""
    enabled = st.lists(
        st.fixed_dictionaries({"name": _PLUGIN}, optional={"weight": st.integers(1, 100_000)}),
        max_size=3, unique_by=lambda row: str(row["name"]),
    )  # fmt: skip
    disabled = st.lists(st.fixed_dictionaries({"name": st.one_of(_PLUGIN, st.just("*"))}), max_size=3)
    point = st.fixed_dictionaries({"enabled": enabled, "disabled": disabled})
    plugins = st.fixed_dictionaries({}, optional=dict.fromkeys(("multiPoint", "filter", "score", "postFilter"), point))
    arguments = draw(st.fixed_dictionaries({}, optional=_ARGUMENTS))
    profile = {
        "schedulerName": draw(NAME),
        "plugins": draw(plugins),
        "pluginConfig": [{"name": name, "args": args} for name, args in arguments.items()],
    }
    version = draw(st.sampled_from(["v1beta2", "v1beta3", "v1"]))
    return {
        "apiVersion": f"kubescheduler.config.k8s.io/{version}",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


def scheduler_policy(table: Manifest, file: str, _: str) -> Imported:
    """The policy of the one profile."""
    (imported,) = scheduler_policies(table, file)
    return imported


def check(imported: Imported) -> None:
    """The policy and the sources are as `elasticd check` wants them, and nothing else of them was lost."""
    assert imported.table is not None, imported.notes
    decode_policy(Path(f"{imported.policy}.toml"), tomli.loads(imported.text), REGISTRY)
    sources = tomli.loads(sources_text(imported.sources)).get("source", [])
    for source in sources:
        kind = REGISTRY.sources[source["type"]].type
        msgspec.convert(source, kind)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("convert", "objects"),
    [
        pytest.param(hpa_policy, hpas(), id="hpa"),
        pytest.param(scaled_object_policy, scaled_objects(), id="scaledobject"),
        pytest.param(scaled_job_policy, scaled_jobs(), id="scaledjob"),
        pytest.param(cron_policy, cron_hpas(), id="cronhpa"),
        pytest.param(vpa_policy, vpas(), id="vpa"),
        pytest.param(scheduler_policy, schedulers(), id="kubescheduler"),
    ],
)
@given(data=st.data())
def test_every_valid_object_becomes_a_policy_that_loads(
    convert: Callable[..., Imported], objects: st.SearchStrategy[Manifest], data: st.DataObject
) -> None:
    check(convert(data.draw(objects), "web.yaml", "default"))
