"""From the wire format to the model.

Knows what each field of a pod, node or workload means to judgement; knows nothing of HTTP or of what is watched.
Equal parts of equal pods (labels, containers) become one object, so a pod costs half a kilobyte.
"""

import sys
from functools import lru_cache
from typing import Any

from elasticd.cluster.kubernetes.wire.convert_template import amounts, family_of, shape_of
from elasticd.cluster.kubernetes.wire.objects import (
    ContainerStatus,
    Labels,
    ManagedFields,
    Metadata,
    WireCondition,
    WireNode,
    WirePod,
    WireScale,
    WireWorkload,
)
from elasticd.cluster.kubernetes.wire.selector import to_text
from elasticd.kit.evictability import AUTOSCALER, KARPENTER
from elasticd.model import workload as model
from elasticd.model.pod_spec import Taint
from elasticd.model.workload import COST

_OURS = "elasticd.io/"
_OTHERS = frozenset({COST, AUTOSCALER, KARPENTER})
"""Annotations of others that decisions use."""
MIRROR = "kubernetes.io/config.mirror"
"""Annotation of the API's picture of a pod that a kubelet runs from a file."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@lru_cache(maxsize=8192)
def _shared_labels(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Pods of one template have equal labels: one dict serves them all."""
    return {sys.intern(key): sys.intern(value) for key, value in pairs}


def labels_of(meta: Metadata) -> dict[str, str]:
    """The labels of a workload or node."""
    return _shared_labels(tuple(meta.labels.items())) if meta.labels else {}


def _resize(conditions: dict[str, WireCondition]) -> tuple[str, str]:
    """How far the kubelet is with a change of requests, and what it says of that (KEP-1287, from 1.33 on)."""
    if (pending := conditions.get("PodResizePending")) is not None and pending.status == "True":
        return sys.intern(pending.reason or "Deferred"), pending.message
    if (under_way := conditions.get("PodResizeInProgress")) is not None and under_way.status == "True":
        return "InProgress", under_way.message
    return "", ""


def _killed(statuses: list[ContainerStatus] | None, offset: float) -> dict[str, float]:
    """When containers were last killed for want of memory; nearly always none."""
    killed_at = _NOTHING
    for status in statuses or ():
        for state in (status.last_state, status.state):
            if state is None or (ended := state.terminated) is None:
                continue
            if ended.reason == "OOMKilled" and ended.finished_at is not None:
                killed_at = {**killed_at, status.name: ended.finished_at.timestamp() + offset}
    return killed_at


_NOTHING: dict[str, Any] = {}
"""Shared by the many pods that have none of what few have. Must not be changed."""


def to_pod(pod: WirePod, offset: float = 0.0) -> model.Pod:
    """A pod of the model, its times moved by `offset` seconds. Init containers count only while they run on, as
    sidecars.

    A Ready condition of status Unknown becomes "not ready". The HPA is of two minds: its start-up rules for CPU ask
    whether the status is False (Unknown then passes for ready), its count of ready pods for Object metrics whether it
    is True. `Pod.ready` cannot say both, and None stands for a pod without the condition, which to those rules is
    never ready. Not ready is the careful reading: load that such a pod might carry raises no count.
    """
    meta, spec, status = pod.metadata, pod.spec, pod.status
    (labels, owner), shape = family_of(meta), shape_of(pod)
    created, started = meta.creation_timestamp, status.start_time
    conditions = {condition.type: condition for condition in status.conditions or ()}
    ready = conditions.get("Ready")
    transitioned = ready.last_transition_time if ready else None
    resize, resize_message = _resize(conditions)
    return model.Pod(  # in the order of its fields, which is much faster than by name
        sys.intern(meta.namespace),
        meta.name,
        meta.uid,
        sys.intern(status.phase),
        sys.intern(spec.node_name),
        labels,
        shape.containers,
        shape.requests,
        started.timestamp() + offset if started else None,
        ready.status == "True" if ready else None,
        transitioned.timestamp() + offset if transitioned else 0.0,
        meta.deletion_timestamp is not None,
        status.pod_ip,
        _looked_at(meta.annotations),
        _waits(conditions.get("PodScheduled"), offset) if not spec.node_name else None,
        resize,
        _killed(status.container_statuses, offset),
        created.timestamp() + offset if created else 0.0,
        shape.needs,
        owner,
        status.nominated_node_name,
        meta.annotations is not None and MIRROR in meta.annotations,
        resize_message,
        shape.overall,
    )


def _waits(scheduled: WireCondition | None, offset: float) -> float | None:
    """Since when a pod is unschedulable; None: it is not, or a scheduling gate holds it back."""
    if scheduled is None or (scheduled.status, scheduled.reason) != ("False", "Unschedulable"):
        return None
    since = scheduled.last_transition_time
    return since.timestamp() + offset if since else None


def to_node(node: WireNode) -> model.Node:
    """A node of the model."""
    ready = next((condition for condition in node.status.conditions or () if condition.type == "Ready"), None)
    return model.Node(
        name=sys.intern(node.metadata.name),
        uid=node.metadata.uid,
        ready=ready is not None and ready.status == "True",
        unschedulable=node.spec.unschedulable,
        labels=labels_of(node.metadata),
        allocatable=amounts(node.status.allocatable),
        # A taint of an unknown effect keeps pods off.
        taints=tuple(Taint(taint.key, taint.effect, taint.value) for taint in node.spec.taints or ()),  # type: ignore[arg-type]
        annotations=_looked_at(node.metadata.annotations),
    )


def _looked_at(annotations: Labels) -> dict[str, str]:
    """The annotations of a pod or node that decisions use; nearly always none."""
    if not annotations:
        return _NOTHING
    return {key: value for key, value in annotations.items() if key.startswith(_OURS) or key in _OTHERS}


def annotations_of(meta: Metadata) -> dict[str, str]:
    """A workload's annotations without kubectl's copy of the manifest, the largest part of most objects."""
    return {key: value for key, value in (meta.annotations or {}).items() if key != _LAST_APPLIED}


def to_workload(api_version: str, kind: str, wire: WireWorkload) -> model.Workload:
    """A workload of apps/v1. An absent spec.replicas is 1, as its API says."""
    return model.Workload(
        ref=ref_of(wire.metadata, api_version, kind),
        uid=wire.metadata.uid,
        version=wire.metadata.resource_version,
        replicas=1 if wire.spec.replicas is None else wire.spec.replicas,
        status_replicas=wire.status.replicas or 0,
        selector=to_text(wire.spec.selector),
        labels=labels_of(wire.metadata),
        annotations=annotations_of(wire.metadata),
        rollout=rollout(kind, wire),
        recreate=wire.spec.strategy is not None and wire.spec.strategy.type == "Recreate",
        writer=_writer(wire.metadata.managed_fields),
    )


def _writer(managed: list[ManagedFields] | None) -> str:
    """The field manager that owns spec.replicas; of several, the last to have set it."""
    latest = ""
    writer = ""
    for entry in managed or ():
        fields = entry.fields_v1
        if fields and fields.spec and fields.spec.replicas is not None and entry.time >= latest:
            latest, writer = entry.time, entry.manager
    return sys.intern(writer)


def scaled_workload(api_version: str, kind: str, meta: Metadata, scale: WireScale) -> model.Workload:
    """Any other workload, of whose kind only the metadata and the scale subresource are known."""
    return model.Workload(
        ref=ref_of(meta, api_version, kind),
        uid=scale.metadata.uid or meta.uid,
        version=scale.metadata.resource_version or meta.resource_version,
        replicas=scale.replicas,
        status_replicas=scale.status.replicas or 0,
        selector=scale.status.selector,
        labels=labels_of(meta),
        annotations=annotations_of(meta),
    )


def ref_of(meta: Metadata, api_version: str, kind: str) -> model.Ref:
    """Which workload these metadata belong to."""
    return model.Ref(sys.intern(meta.namespace), kind, meta.name, api_version)


def rollout(kind: str, workload: WireWorkload) -> str:
    """What a rollout has left to do, in a few words; empty: nothing, or the kind has no rollouts.

    A change of the count alone is no rollout. Source: kubectl rollout status, without its wait for availability,
    because pods that a scale-out added are not available at first either.
    """
    if kind not in ("Deployment", "StatefulSet"):
        return ""
    status = workload.status
    if (status.observed_generation or 0) < workload.metadata.generation:
        return "its newest spec has not been seen by its controller"
    return _deployment_rollout(workload) if kind == "Deployment" else _stateful_rollout(workload)


def _deployment_rollout(workload: WireWorkload) -> str:
    """Old pods are left. A rollout that has missed its deadline is not in progress, as the Deployment itself says."""
    status = workload.status
    total, updated = status.replicas or 0, status.updated_replicas or 0
    if total <= updated or any(condition.reason == "ProgressDeadlineExceeded" for condition in status.conditions or ()):
        return ""
    return f"{updated} of {total} pods are of the newest template"


def _stateful_rollout(workload: WireWorkload) -> str:
    """Pods of the old revision are left that it will replace by itself."""
    status, strategy = workload.status, workload.spec.update_strategy
    if status.current_revision == status.update_revision or (strategy and strategy.type == "OnDelete"):
        return ""
    partition = strategy.rolling_update.partition if strategy and strategy.rolling_update else None
    replicas = 1 if workload.spec.replicas is None else workload.spec.replicas
    updated, expected = status.updated_replicas or 0, max(0, replicas - (partition or 0))
    return f"{updated} of {expected} pods are of the newest template" if updated < expected else ""
