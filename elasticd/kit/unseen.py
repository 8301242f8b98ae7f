"""Pods that a workload's controller counts and the watch of pods does not show, as it has fallen silent.

Knows what the controllers of Kubernetes count; knows nothing of series or watches.
"""

from elasticd.base.memo import Memo
from elasticd.model.controllers import OWNERS, lacks_more_than_may
from elasticd.model.workload import Pod, Ref, Workload

_COUNT_PODS = {*OWNERS, ("apps/v1", "ReplicaSet"), ("v1", "ReplicationController")}
"""The kinds whose controllers count pods; those of others may count something else."""


def why_unseen(workload: Workload, pods: tuple[Pod, ...]) -> str:
    """Which of the workload's pods are unknown where the watch shows these; empty: too few to matter, or nothing is
    known of the kind. Until they are known, no count may fall by what these use, nor by how many are ready."""
    # It counts pods that are gone for as long as it is behind with a fall of many counts.
    ref, counted = workload.ref, min(workload.status_replicas, workload.replicas)
    if (ref.api_version, ref.kind) not in _COUNT_PODS:
        return ""
    # A StatefulSet counts also those that have ended or are being deleted, the others do not.
    shown = len(pods) if ref.kind == "StatefulSet" else _active(ref, pods)
    if shown >= counted or not lacks_more_than_may(counted, shown):
        return ""
    return f"of {counted} pods that its controller counts, the watch of pods shows {shown}"


def why_outgrown(workload: Workload, counted: int) -> str:
    """Why a value is too low that was made when the workload's controller was seen to count so many pods; empty: it
    counts no more by now, or too few to matter."""
    now = min(workload.status_replicas, workload.replicas)
    if counted >= now or not lacks_more_than_may(now, counted):
        return ""
    return f"it was read when {counted} pods were known, and there are {now}"


def _count_active(_: Ref, pods: tuple[Pod, ...]) -> int:
    return sum(pod.is_active for pod in pods)


_active = Memo(_count_active)
"""How many pods of a workload are active."""
