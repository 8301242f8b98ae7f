"""Which pods of a workload count, as the HPA sorts them, what they request, and whether that can be changed.

Pure. Knows pods, who has a sample, and what the API server and kubelets refuse (KEP-1287); knows no set point, nor why
a pod should request more or less.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from elasticd.model.workload import Container, Pod, Sizes

VPA_UPDATES = "vpaUpdates"
"""The annotation of a pod whose requests a VerticalPodAutoscaler set when it was created; its text names which. With
mode Off it sets none, and only its annotation vpaObservedContainers. Source: its admission controller."""

_RESOURCES = ("cpu", "memory")
_LACKING = {"Deferred": "waits for room on its node", "Infeasible": "does not fit on its node"}


class Serving(Struct, frozen=True, gc=False):
    """The pods that count: those ready with a sample, those ready without one, and those that are not ready.

    Pods that are being deleted, have failed or are done take no part. HPA: Grouping pods, 1 to 5; beyond it, a pod
    that is not ready counts as one that starts however long ago it was ready, because no load reaches it.
    """

    heard: tuple[Pod, ...]
    missing: tuple[Pod, ...]
    starting: tuple[Pod, ...]

    @property
    def ready(self) -> tuple[Pod, ...]:
        return self.heard + self.missing


def serving(pods: Iterable[Pod], sampled: Collection[str] = ()) -> Serving:
    """The pods that count, by whether their name is among those that have a sample."""
    sampled_pods: list[Pod] = []
    missing: list[Pod] = []
    starting: list[Pod] = []
    for pod in pods:
        if not pod.is_active:
            continue
        if not pod.ready or pod.phase == "Pending":
            starting.append(pod)
        else:
            (sampled_pods if pod.name in sampled else missing).append(pod)
    return Serving(tuple(sampled_pods), tuple(missing), tuple(starting))


def request_of(pod: Pod, resource: str) -> float:
    """What a pod asks for, in base units; 0 when it, or one of its containers, does not say."""
    pod_request = pod.requests.get(resource)
    if pod_request is not None:
        return pod_request
    total = 0.0
    for container in pod.containers:
        request = container.requests.get(resource)
        if request is None:
            return 0.0
        total += request
    return total


def unfit(pod: Pod, sizes: Sizes) -> str:
    """Why these requests cannot be given to the pod, in one line; empty when they can. A resize changes neither a pod's
    quality of service nor requests that the pod has as a whole, and no request may be above its limit; nor is one made
    that would restart a container. What its node
    has no room for, now (Deferred) or ever (Infeasible), is asked for again only when nothing in it is more."""
    if pod.phase != "Running" or pod.deleted:
        return "is not running" if not pod.deleted else "is being deleted"
    if pod.requests:
        return "has requests as a whole pod"
    by_name = {container.name: container for container in pod.containers}
    for name, amounts in sizes.items():
        if name not in by_name:
            return f"has no container {name}"
        if why := _why_unfit(by_name[name], amounts, lacking=_LACKING.get(pod.resize, "")):
            return why
    before, after = quality_of(pod.containers), quality_of(resized(pod.containers, sizes))
    return f"would no longer be {before}" if before != after else ""


def _why_unfit(container: Container, amounts: Mapping[str, float], *, lacking: str) -> str:
    for resource, amount in amounts.items():
        limit = container.limits.get(resource)
        if resource not in _RESOURCES:
            return f"cannot change its {resource}"
        if resource in container.restarting and amount != container.requests.get(resource):
            return f"{container.name} would be restarted by a change of its {resource} (resizePolicy)"
        if limit is not None and amount > limit:
            return f"{container.name}: {resource} is limited to {limit:g}"
        if lacking and amount >= container.requests.get(resource, 0.0):
            return lacking
    return ""


def resized(containers: Collection[Container], sizes: Sizes) -> tuple[Container, ...]:
    """The containers with these requests."""
    return tuple(
        replace(container, requests={**container.requests, **sizes[container.name]})
        if container.name in sizes
        else container
        for container in containers
    )


def quality_of(containers: Collection[Container]) -> Literal["Guaranteed", "Burstable", "BestEffort"]:
    """The quality of service class that Kubernetes gives to a pod of these containers."""
    if not any(container.requests or container.limits for container in containers):
        return "BestEffort"
    guaranteed = all(
        resource in container.limits
        and container.requests.get(resource, container.limits[resource]) == container.limits[resource]
        for container in containers
        for resource in _RESOURCES
    )
    return "Guaranteed" if guaranteed else "Burstable"
