"""Workloads and who scales them, on the wire: Deployments, StatefulSets, ReplicaSets and HorizontalPodAutoscalers.

Knows JSON shapes, of each as much as is used; knows nothing of what they mean.
"""

import msgspec

from elasticd.cluster.kubernetes.wire.objects import Metadata, ObjectMeta
from elasticd.cluster.kubernetes.wire.pod_template import Labels, Wire


class OwnedSpec(Wire, frozen=True):
    """Which fields of a spec a writer owns."""

    replicas: dict[str, object] | None = msgspec.field(default=None, name="f:replicas")


class OwnedFields(Wire, frozen=True):
    """Which fields of an object a writer owns."""

    spec: OwnedSpec | None = msgspec.field(default=None, name="f:spec")


class ManagedFields(Wire, frozen=True):
    """What one writer owns of an object, and since when (RFC 3339, UTC, so that texts compare as times do)."""

    manager: str = ""
    time: str = ""
    fields_v1: OwnedFields | None = msgspec.field(default=None, name="fieldsV1")


class WorkloadMetadata(Metadata, frozen=True):
    """Of a Deployment, StatefulSet or ReplicaSet."""

    generation: int = 0
    managed_fields: list[ManagedFields] | None = None


class MatchExpression(Wire, frozen=True):
    """One set-based requirement of a labelSelector object."""

    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(Wire, frozen=True):
    """A labelSelector object."""

    match_labels: Labels = None
    match_expressions: list[MatchExpression] | None = None


class RollingUpdate(Wire, frozen=True):
    """How a StatefulSet rolls out: ordinals below the partition stay as they are."""

    partition: int | None = None


class UpdateStrategy(Wire, frozen=True):
    """When a StatefulSet replaces its pods."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DeploymentStrategy(Wire, frozen=True):
    """How a Deployment replaces its pods."""

    type: str = "RollingUpdate"


class WorkloadSpec(Wire, frozen=True):
    """Of a Deployment, StatefulSet or ReplicaSet."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    update_strategy: UpdateStrategy | None = None
    strategy: DeploymentStrategy | None = None


class WorkloadCondition(Wire, frozen=True):
    """One condition of a Deployment, without its sentences."""

    type: str
    reason: str = ""


class WorkloadStatus(Wire, frozen=True):
    """Of a Deployment, StatefulSet or ReplicaSet."""

    replicas: int | None = None
    observed_generation: int | None = None
    updated_replicas: int | None = None
    current_revision: str = ""
    update_revision: str = ""
    conditions: list[WorkloadCondition] | None = None


class WireWorkload(ObjectMeta, frozen=True):
    """A Deployment, StatefulSet or ReplicaSet."""

    metadata: WorkloadMetadata
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class ScaleTarget(Wire, frozen=True):
    """What an autoscaler scales."""

    kind: str
    name: str
    api_version: str = ""


class AutoscalerSpec(Wire, frozen=True):
    """Of a HorizontalPodAutoscaler, in whichever version."""

    scale_target_ref: ScaleTarget


class WireAutoscaler(ObjectMeta, frozen=True):
    """A HorizontalPodAutoscaler."""

    spec: AutoscalerSpec
