"""A VerticalPodAutoscaler becomes a policy with the strategy `vertical`.

Knows its update modes, its policies of containers and its recommender's defaults; knows nothing of histograms.
"""

from typing import Any

from elasticd.base.text import shown
from elasticd.base.units import amount
from elasticd.migration.fields import Fields
from elasticd.migration.policy import Imported, Table, subject_of, target_of, unknown_fields
from elasticd.model.policy import MOST

LEAST = {"cpu": "25m", "memory": "250M"}
"""What the recommender never goes below, for a pod."""

SOURCE: Table = {
    "type": "usage-histogram", "name": "imported-usage-histogram", "of": "resource-metrics",
    "cpu_half_life": 86400, "memory_half_life": 86400, "memory_window": 86400, "weigh": "time", "history": 8,
}  # fmt: skip
"""Histograms as the recommender keeps them."""
_MODES = {
    "Off": ("recommend", ""),
    "Initial": ("recommend", "pods get a request only as they are made: here it is a recommendation alone"),
    "Recreate": ("apply", "pods are evicted and made anew: here they are resized in place, and none is evicted"),
    "Auto": ("apply", "pods are evicted and made anew: here they are resized in place, and none is evicted"),
    "InPlaceOrRecreate": ("apply", "a pod that cannot be resized is evicted: here it stays as it is"),
    "InPlace": ("apply", ""),
}


def vpa_policy(table: Any, file: str, namespace: str) -> Imported:
    """The policy that recommends as this VPA. Raises ConfigError for what its webhook would refuse."""
    manifest = Fields(table, file)
    subject, notes = subject_of(manifest, namespace), list[str]()
    spec = manifest.table("spec")
    target = target_of(spec.table("targetRef"), subject.namespace, notes)
    update = spec.table("updatePolicy")
    name = update.text("updateMode", "Auto")
    if name not in _MODES:
        raise update.wrong("updateMode", f"must be one of {', '.join(_MODES)}, is {shown(name)}")
    mode, note = _MODES[name]
    if note:
        notes.append(f"{update.where('updateMode')}: {name}: {note}")
    entries = spec.table("resourcePolicy").tables("containerPolicies")
    by_name: dict[str, Fields] = {}
    for entry in entries:  # of two about one container the first counts
        by_name.setdefault(entry.text("containerName", "*"), entry)
    containers = list(by_name.values())
    strategies = [strategy for of in containers if (strategy := _strategy(of, mode, len(containers), notes))]
    strategies = strategies or ([] if containers else [_rules({}, {}, mode)])
    notes.append("recommender: history begins anew: VerticalPodAutoscalerCheckpoints are not read")
    notes += unknown_fields(manifest)
    policy: Table | None = {
        "mode": "observe",
        "interval": 60,
        "max_age": 300,
        "workload": target,
        "replicas": {"min": 0, "max": MOST},
        "strategy": strategies,
    }
    return Imported(
        "VerticalPodAutoscaler", subject.namespace, subject.name, policy if strategies else None, (SOURCE,),
        tuple(notes if strategies else [*notes, "resourcePolicy: all containers are Off: nothing is left to do"]),
    )  # fmt: skip


def _rules(least: dict[str, str], most: dict[str, str], mode: str) -> Table:
    """One strategy, with the recommender's percentile and margin."""
    rules = {
        name: {
            "statistic": "p90",
            "margin": 0.15,
            "min": least.get(name, LEAST[name]),
            **({"max": most[name]} if name in most else {}),
        }
        for name in ("cpu", "memory")
    }
    return {"type": "vertical", "mode": mode, "confident": True, **rules}


def _strategy(of: Fields, mode: str, count: int, notes: list[str]) -> Table | None:
    """The strategy for one entry of containerPolicies; None: it is Off."""
    name = of.text("containerName", "*")
    if of.text("mode", "Auto") == "Off":
        of.ignore(*of.given())
        return None
    if name == "*" and count > 1:
        notes.append(f'{of.where("containerName")}: "*" is about all containers here, also those that others name')
    if of.text("controlledValues", "RequestsAndLimits") == "RequestsAndLimits":
        notes.append(f"{of.where('controlledValues')}: limits stay as they are, and no request goes above them")
    least, most = (_bounds(of, key, notes) for key in ("minAllowed", "maxAllowed"))
    for resource in [resource for resource in least if resource in most]:
        if amount(least[resource]) > amount(most[resource]):
            raise of.wrong(f"minAllowed.{resource}", f"must be <= {most[resource]}, is {least[resource]}")
    for resource, default in LEAST.items():
        if resource in most and amount(least.get(resource, default)) > amount(most[resource]):
            least[resource] = most[resource]
    strategy = _rules(least, most, mode)
    resources = of.any("controlledResources")
    if resources:
        strategy["resources"] = [name for name in ("cpu", "memory") if name in resources]
        if not strategy["resources"]:
            raise of.wrong("controlledResources", f"must have cpu or memory, is {shown(resources)}")
    return strategy if name == "*" else {**strategy, "containers": [name]}


def _bounds(of: Fields, key: str, notes: list[str]) -> dict[str, str]:
    bounds: dict[str, str] = {}
    table = of.table(key)
    for resource in table.given():
        value = table.scalar(resource)
        if resource not in LEAST:
            notes.append(f"{table.where(resource)}: only cpu and memory are recommended")
        elif not amount(value) >= 0:
            raise table.wrong(resource, f"must be a quantity >= 0, is {shown(value)}")
        else:
            bounds[resource] = value
    return bounds
