"""What a kubelet reports of its node and its pods.

Knows the wire format of those reports.  It must not know when they are sent.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.kube.client import JSON

_READY = ("Ready", "ContainersReady")


@dataclass(frozen=True)
class NodeSpec:
    """What a node has, in Kubernetes' quantities; and the port of its kubelet on loopback, if there is one."""

    name: str
    cpu: str = "4"
    memory: str = "16Gi"
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[JSON] = ()
    extended: Mapping[str, str] = field(default_factory=dict)
    kubelet_port: int | None = None

    def manifest(self) -> JSON:
        """The Node object as it is created."""
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": {**labels, **self.labels}},
            "spec": {"taints": list(self.taints)},
        }

    def status(self, ready: bool) -> JSON:
        """What the kubelet reports of the node."""
        has = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), **self.extended}
        by_name = [{"type": "Hostname", "address": self.name}]
        if self.kubelet_port is not None:
            by_name = []  # the API server would take it before the address
        return {
            "capacity": has,
            "allocatable": has,
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, *by_name],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.kubelet_port or 0}},
            "conditions": [condition("Ready", ready) | {"lastHeartbeatTime": timestamp()}],
        }


def named_nodes(count: int, prefix: str = "node", cpu: str = "4", memory: str = "16Gi") -> list[NodeSpec]:
    """Nodes that differ only in their names: node-0, node-1 and so on."""
    return [NodeSpec(f"{prefix}-{number}", cpu, memory) for number in range(count)]


def timestamp(at: float | None = None) -> str:
    """A point in time, now by default, as Kubernetes writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def condition(kind: str, true: bool) -> JSON:
    """A condition that has just become true or false."""
    return {"type": kind, "status": "True" if true else "False", "lastTransitionTime": timestamp()}


@dataclass(frozen=True)
class Pull:
    """An image that a kubelet pulled, as its event tells; older kubelets tell no size."""

    seconds: float
    size: int | None = None

    def message(self, image: str) -> str:
        """The text of the event."""
        if self.size is None:
            return f'Successfully pulled image "{image}" in {self.seconds}s'
        took = f"in {self.seconds}s ({self.seconds}s including waiting)"
        return f'Successfully pulled image "{image}" {took}. Image size: {self.size} bytes.'


def waiting(pod: JSON, started: str) -> JSON:
    """The status of a pod whose containers are being created."""
    kinds = {"Initialized": True, "Ready": False, "ContainersReady": False}
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    containers = [
        {"name": one["name"], "image": one["image"], "imageID": "", "ready": False, "started": False}
        | {"restartCount": 0, "state": waiting, "lastState": {}}
        for one in pod["spec"]["containers"]
    ]
    return {
        "phase": "Pending",
        "startTime": started,
        "hostIP": "127.0.0.1",
        "conditions": [condition(kind, true) for kind, true in kinds.items()],
        "containerStatuses": containers,
    }


def running(pod: JSON, started: str, address: str) -> JSON:
    """The status of a pod whose containers all run and are ready."""
    containers = [
        {"name": one["name"], "image": one["image"], "imageID": f"hollow://{one['image']}", "ready": True}
        | {
            "restartCount": 0,
            "started": True,
            "containerID": f"hollow://{pod['metadata']['uid']}-{one['name']}",
        }
        | {"state": {"waiting": None, "running": {"startedAt": timestamp()}}, "lastState": {}}
        | given(one["resources"])
        for one in pod["spec"]["containers"]
    ]
    return {
        "phase": "Running",
        "startTime": started,
        "hostIP": "127.0.0.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [condition(kind, true=True) for kind in ("Initialized", "Ready", "ContainersReady")],
        "containerStatuses": containers,
    }


def given(resources: JSON) -> JSON:
    """What a container has been given, in its status; a server before 1.33 drops it."""
    return {"allocatedResources": resources.get("requests", {}), "resources": resources}


def requested(pod: JSON) -> JSON:
    """What the containers request, by name."""
    return {one["name"]: one["resources"].get("requests", {}) for one in pod["spec"]["containers"]}


def is_resized(pod: JSON) -> bool:
    """Whether a pod that runs requests something else than it was given."""
    statuses = pod["status"].get("containerStatuses", [])
    told = {one["name"]: one.get("allocatedResources", {}) for one in statuses if "resources" in one}
    return bool(told) and told != requested(pod)


def resizing(kind: str, reason: str = "", message: str = "") -> JSON:
    """A status that tells how far a resize is, of kind Pending or InProgress."""
    told = condition(f"PodResize{kind}", true=True) | {"reason": reason, "message": message}
    return {"conditions": [told, *(_gone(other) for other in ("Pending", "InProgress") if other != kind)]}


def resized(pod: JSON) -> JSON:
    """The status of a pod that has been given what it requests."""
    wanted = {one["name"]: one["resources"] for one in pod["spec"]["containers"]}
    statuses = [one | given(wanted[one["name"]]) for one in pod["status"]["containerStatuses"]]
    return {"containerStatuses": statuses, "conditions": [_gone("Pending"), _gone("InProgress")]}


def _gone(kind: str) -> JSON:
    return {"$patch": "delete", "type": f"PodResize{kind}"}


def ended(pod: JSON, started: str, address: str, *, well: bool) -> JSON:
    """The status of a pod whose containers have all ended, well or not."""
    found = running(pod, started, address)
    times = {"startedAt": started, "finishedAt": timestamp()}
    done = {"exitCode": 0 if well else 1, "reason": "Completed" if well else "Error", **times}
    for container in found["containerStatuses"]:
        container |= {"ready": False, "started": False, "state": {"waiting": None, "running": None, "terminated": done}}
    found["conditions"] = [condition("Initialized", true=True), *(condition(kind, true=False) for kind in _READY)]
    return {**found, "phase": "Succeeded" if well else "Failed"}


def pulled(pod: JSON, image: str, pull: Pull) -> JSON:
    """The event that a kubelet records when it has pulled an image."""
    metadata = pod["metadata"]
    name = next(one["name"] for one in pod["spec"]["containers"] if one["image"] == image)
    involved = {"apiVersion": "v1", "kind": "Pod", "fieldPath": f"spec.containers{{{name}}}"}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
        "involvedObject": involved | {key: metadata[key] for key in ("name", "namespace", "uid")},
        "reason": "Pulled",
        "message": pull.message(image),
        "type": "Normal",
        "count": 1,
        "source": {"component": "kubelet", "host": pod["spec"]["nodeName"]},
        "firstTimestamp": timestamp(),
        "lastTimestamp": timestamp(),
    }
