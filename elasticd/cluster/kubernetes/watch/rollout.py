"""Whether a workload is replacing pods of an old template.

Knows how Deployments and StatefulSets tell it; knows nothing of what is made of that. A change of the count alone is no
rollout: all pods are then of the newest template. Source: kubectl rollout status, without its wait for availability,
because pods that a scale-out added are not available at first either.
"""

from elasticd.cluster.kubernetes.wire.workloads import WireWorkload

_MISSED = "ProgressDeadlineExceeded"


def rollout(kind: str, workload: WireWorkload) -> str:
    """What a rollout has left to do, in a few words; empty: nothing, or the kind has no rollouts."""
    if kind not in ("Deployment", "StatefulSet"):
        return ""
    status = workload.status
    if (status.observed_generation or 0) < workload.metadata.generation:
        return "its newest spec has not been seen by its controller"
    return _deployment(workload) if kind == "Deployment" else _stateful(workload)


def _deployment(workload: WireWorkload) -> str:
    """Old pods are left. A rollout that has missed its deadline is not in progress, as the Deployment itself says."""
    status = workload.status
    total, updated = status.replicas or 0, status.updated_replicas or 0
    if total <= updated or any(condition.reason == _MISSED for condition in status.conditions or ()):
        return ""
    return f"{updated} of {total} pods are of the newest template"


def _stateful(workload: WireWorkload) -> str:
    """Pods of the old revision are left that it will replace by itself."""
    status, strategy = workload.status, workload.spec.update_strategy
    if status.current_revision == status.update_revision or (strategy and strategy.type == "OnDelete"):
        return ""
    partition = strategy.rolling_update.partition if strategy and strategy.rolling_update else None
    replicas = 1 if workload.spec.replicas is None else workload.spec.replicas
    updated, expected = status.updated_replicas or 0, max(0, replicas - (partition or 0))
    return f"{updated} of {expected} pods are of the newest template" if updated < expected else ""
