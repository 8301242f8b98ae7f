"""Which pods of a workload count, as the HPA sorts them, and what each asks for.

Shared by strategies that look at pods one by one. Knows pods and who has a sample; knows no set point.
"""

from collections.abc import Collection, Iterable

from msgspec import Struct

from elasticd.model.workload import Pod


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
        if pod.deleted or pod.phase in ("Failed", "Succeeded"):
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
