"""What the pods of a test use: a load on each workload, divided over its ready pods.

Knows pods, label selectors and load.  It must not know how it is served.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from tests.kube.client import JSON

# A total over all pods of a workload, at a time in seconds since 1970.
Load = Callable[[float], float] | float

MEBIBYTE = 2.0**20
_REQUIREMENT = re.compile(
    r"\s*(?P<absent>!)?\s*(?P<key>[\w./-]+)\s*"
    r"(?:(?P<equal>==?|!=)\s*(?P<value>[\w.-]*)|(?P<set>in|notin)\s*\((?P<values>[^)]*)\))?\s*(?:,|$)"
)


def matches(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether a label selector, as in the query of a request, selects an object with these labels."""
    at = 0
    while at < len(selector):
        found = _REQUIREMENT.match(selector, at)
        if found is None:
            raise ValueError(f"not a label selector: {selector!r}")
        if not _meets(found, labels):
            return False
        at = found.end()
    return True


def _meets(requirement: re.Match[str], labels: Mapping[str, str]) -> bool:
    key, value = requirement["key"], labels.get(requirement["key"])
    if requirement["equal"]:
        return (value == requirement["value"]) != (requirement["equal"] == "!=")
    if requirement["set"]:
        return (value in re.split(r"\s*,\s*", requirement["values"].strip())) != (requirement["set"] == "notin")
    return (key in labels) != bool(requirement["absent"])


@dataclass(frozen=True)
class SeenPod:
    """What of a pod decides how much it uses."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    node: str
    containers: tuple[str, ...]
    running: bool
    ready: bool

    @classmethod
    def of(cls, pod: JSON) -> Self:
        """Read a Pod object; one that is being deleted is running but no longer ready."""
        metadata, conditions = pod["metadata"], pod["status"].get("conditions", [])
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            labels=metadata.get("labels", {}),
            node=pod["spec"].get("nodeName", ""),
            containers=tuple(one["name"] for one in pod["spec"]["containers"]),
            running=pod["status"].get("phase") == "Running",
            ready=ready and "deletionTimestamp" not in metadata,
        )


@dataclass(frozen=True)
class Usage:
    """Cores and bytes."""

    cpu: float
    memory: float

    def __add__(self, other: Self) -> "Usage":
        return Usage(self.cpu + other.cpu, self.memory + other.memory)

    def of_each(self, count: int) -> JSON:
        """In Kubernetes' quantities, for each of so many containers."""
        return {
            "cpu": f"{round(self.cpu / count * 1e9)}n",
            "memory": f"{round(self.memory / count / 1024)}Ki",
        }


@dataclass(frozen=True)
class _WorkloadLoad:
    selector: str
    cpu: Load
    memory: Load


def at_time(load: Load, now: float) -> float:
    """The value of a load at a time."""
    return load(now) if callable(load) else load


class Loads:
    """The pods that exist and the load that they share."""

    def __init__(self) -> None:
        self.pods: dict[str, SeenPod] = {}
        self._workloads: dict[tuple[str, str], _WorkloadLoad] = {}
        self._explicit: dict[tuple[str, str], Usage | None] = {}

    def set_load(self, namespace: str, workload: str, cpu: Load, memory: Load = math.nan, label: str = "app") -> None:
        """Put a load on the pods with label=workload: cores and bytes in total, over the ready ones.

        Without memory each running pod uses 64 MiB.  A pod that is not ready uses no CPU.
        """
        self._workloads[namespace, workload] = _WorkloadLoad(f"{label}={workload}", cpu, memory)

    def set_each(self, namespace: str, workload: str, cpu: float) -> None:
        """Let each ready pod with app=workload use so many cores, however many there are."""

        def total(_: float) -> float:
            mine = [one for one in self.pods.values() if one.namespace == namespace]
            return cpu * sum(one.ready for one in mine if one.labels.get("app") == workload)

        self.set_load(namespace, workload, total)

    def set_usage(self, namespace: str, pod: str, usage: Usage | None) -> None:
        """Say what one pod uses, whatever its workload's load is; None for a pod without metrics."""
        self._explicit[namespace, pod] = usage

    def usage(self, now: float) -> list[tuple[SeenPod, Usage]]:
        """Each running pod that has metrics, with what it uses."""
        pods = [pod for pod in self.pods.values() if pod.running]
        used = {(pod.namespace, pod.name): Usage(0.0, 64 * MEBIBYTE) for pod in pods}
        for (namespace, _), load in self._workloads.items():
            mine = [pod for pod in pods if pod.namespace == namespace and matches(load.selector, pod.labels)]
            ready = [pod for pod in mine if pod.ready]
            for pod in ready:
                memory = at_time(load.memory, now) / len(ready)
                cpu = at_time(load.cpu, now) / len(ready)
                used[namespace, pod.name] = Usage(cpu, 64 * MEBIBYTE if math.isnan(memory) else memory)
        known = used | self._explicit
        return [(pod, usage) for pod in pods if (usage := known[pod.namespace, pod.name]) is not None]
