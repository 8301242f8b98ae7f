"""What a StatefulSet's pods show of its rollout, where its status does not."""

from collections.abc import Iterable

from elasticd.model.workload import REVISION, Pod, Workload


def ordinal(pod: Pod) -> int:
    """The number at the end of the name of a StatefulSet's pod."""
    number = pod.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


def is_wanted(workload: Workload, pod: Pod) -> bool:
    """Whether a pod's ordinal is one of those that its StatefulSet should have."""
    return ordinal(pod) < workload.first_ordinal + workload.replicas


def rollout_left(workload: Workload, pods: Iterable[Pod]) -> str:
    """What a rollout has left to do, in a few words; empty: nothing, or it cannot be known.

    Where a StatefulSet's template was changed back, its status counts nothing: its pods tell then.
    """
    if workload.rollout or not workload.new_revision:
        return workload.rollout
    first = workload.first_ordinal + workload.replaces_from
    old = [
        pod.name
        for pod in pods
        if pod.labels.get(REVISION, workload.new_revision) != workload.new_revision
        and not pod.has_ended
        and ordinal(pod) >= first
        and is_wanted(workload, pod)
    ]
    return f"{min(old)} is of an earlier template" if old else ""
