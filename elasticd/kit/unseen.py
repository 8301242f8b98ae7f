"""Pods that a workload's controller counts and the watch of pods does not show, as it has fallen silent.

Knows what the controllers of Kubernetes count; knows nothing of series or watches.
"""

from elasticd.model.controllers import OWNERS, lacks_more_than_may
from elasticd.model.workload import Workload

_COUNT_PODS = {*OWNERS, ("apps/v1", "ReplicaSet"), ("v1", "ReplicationController")}
"""The kinds whose controllers count pods; those of others may count something else."""


def why_unseen(workload: Workload, present: int, ended: int) -> str:
    """Which pods are unknown where the watch shows so many that have not ended, and so many that have; empty: too few
    to matter, or nothing is known of the kind."""
    ref, counted = workload.ref, workload.status_replicas
    # A StatefulSet counts pods that have ended, too, which others replace.
    shown = present + ended if ref.kind == "StatefulSet" else present
    if (ref.api_version, ref.kind) not in _COUNT_PODS or shown >= counted or not lacks_more_than_may(counted, shown):
        return ""
    return f"of {counted} pods that its controller counts, the watch of pods shows {shown}"
