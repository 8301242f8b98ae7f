"""The Kubernetes wire format, as far as it is used.

Knows JSON shapes; knows nothing of HTTP, of the model or of what is watched. Unknown fields are ignored, so
a newer server changes nothing; an object that cannot be read costs only itself. What the pods of a template share stays
as it came (msgspec.Raw) until it is known that no pod before had the same: see convert.py.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from elasticd.base.errors import UNREADABLE

Amount = str | int | float
Amounts = dict[str, Amount] | None
Labels = dict[str, str] | None
T = TypeVar("T")
P = TypeVar("P")
Time = Annotated[datetime, Meta(tz=True)]
"""One without its offset from UTC is unreadable: it would be read as local time."""

UNREAD = Raw()
"""A part that is not there."""


class Wire(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Anything read from the API: camelCase names, never part of a cycle. Written only to be compared."""


class OwnerReference(Wire, frozen=True):
    """An owner reference of an object."""

    kind: str
    name: str
    uid: str
    controller: bool | None = None
    api_version: str = ""


class ResourceRequirements(Wire, frozen=True):
    """What a container, or a pod as a whole, requests and may use."""

    requests: Amounts = None
    limits: Amounts = None


class WirePort(Wire, frozen=True):
    """A port of a container; `host_port` is the node's, 0: none."""

    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class WireRequirement(Wire, frozen=True):
    """A rule about a label or field."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class NodeTerm(Wire, frozen=True):
    """Rules about a node, all of which must hold."""

    match_expressions: list[WireRequirement] | None = None
    match_fields: list[WireRequirement] | None = None


class NodeTerms(Wire, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: list[NodeTerm] | None = None


class LabelSelector(Wire, frozen=True):
    """A labelSelector: which objects something is about."""

    match_labels: Labels = None
    match_expressions: list[WireRequirement] | None = None


class WirePodTerm(Wire, frozen=True):
    """Pods to be near, or to keep away: those selected, on nodes that are alike by a label. The server has added to the
    selector what matchLabelKeys says."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None


class WirePodPreference(Wire, frozen=True):
    """Pods to be near, or to keep away, if that can be."""

    weight: int = 0
    pod_affinity_term: WirePodTerm = WirePodTerm()


class WireNodePreference(Wire, frozen=True):
    """Nodes to be on, if that can be."""

    weight: int = 0
    preference: NodeTerm = NodeTerm()


class Affinity(Wire, Generic[T, P], frozen=True):
    """Which nodes a pod may be on (NodeTerms), or which pods it must be near, or keep away (list[WirePodTerm]); and
    which it prefers."""

    required: T | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[P] | None = msgspec.field(default=None, name="preferredDuringSchedulingIgnoredDuringExecution")


class WireToleration(Wire, frozen=True):
    """Taints that a pod puts up with."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: float | None = None


class WireSpread(Wire, frozen=True):
    """How evenly pods must be spread."""

    topology_key: str = ""
    max_skew: int = 1
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    match_label_keys: tuple[str, ...] | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class Named(Wire, frozen=True):
    """Something of which only its being there counts."""


class WireDisk(Wire, frozen=True):
    """A disk of Google's or Amazon's, an image in a Ceph cluster, or a disk by iSCSI: each has some of these."""

    pd_name: str = ""
    volume_id: str = msgspec.field(default="", name="volumeID")
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    iqn: str = ""
    read_only: bool = False


class WireClaimUse(Wire, frozen=True):
    """The claim of a volume."""

    claim_name: str = ""


class WireInline(Wire, frozen=True):
    """A volume that a CSI driver makes for one pod."""

    read_only: bool | None = None


class WireVolume(Wire, frozen=True):
    """A volume of a pod, if it matters to where the pod can be."""

    name: str = ""
    empty_dir: Named | None = None
    host_path: Named | None = None
    persistent_volume_claim: WireClaimUse | None = None
    ephemeral: Named | None = None
    csi: WireInline | None = None
    azure_disk: Named | None = None
    cinder: Named | None = None
    gce_persistent_disk: WireDisk | None = None
    aws_elastic_block_store: WireDisk | None = None
    rbd: WireDisk | None = None
    iscsi: WireDisk | None = None
    fc: Named | None = None
    flex_volume: Named | None = None
    vsphere_volume: Named | None = None
    portworx_volume: Named | None = None
    photon_persistent_disk: Named | None = None
    scale_io: Named | None = msgspec.field(default=None, name="scaleIO")
    storageos: Named | None = None
    git_repo: Named | None = None


class Identity(Wire, frozen=True):
    """Of any object, but its labels."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    annotations: Labels = None


class Metadata(Identity, frozen=True):
    """Of any object."""

    labels: Labels = None
    generation: int = 0
    creation_timestamp: Time | None = None
    owner_references: list[OwnerReference] | None = None


class ListMetadata(Wire, frozen=True):
    """Of a list: the token with which to continue."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ObjectMeta(Wire, frozen=True):
    """The metadata of an object (PartialObjectMetadata, or any object)."""

    metadata: Metadata


class WireList(Wire, Generic[T], frozen=True):
    """A list; of Raw, if the items are decoded one by one. Every API server's has a kind, and items, which may be null:
    any other object, such as what a proxy says in the server's place, is no empty list."""

    kind: str
    items: list[T] | None
    metadata: ListMetadata = ListMetadata()


class WatchEvent(Wire, frozen=True):
    """One line of a watch. The object is decoded later, since it may be a Status."""

    type: str
    object: Raw


class Reason(Wire, frozen=True):
    """Something of which only the reason is used: one cause of a failure, a waiting container, a condition."""

    reason: str = ""


class _StatusDetails(Wire, frozen=True):
    name: str = ""
    retry_after_seconds: float | None = None
    causes: list[Reason] | None = None


class Status(Wire, frozen=True):
    """An error, as the API reports it."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _StatusDetails | None = None


class PodMetadata(Identity, frozen=True):
    """Of a pod. Labels and owners are those of all pods of its controller, and read once for all of them. Who wrote
    what is read only of a pod that was resized."""

    creation_timestamp: Time | None = None
    labels: Raw = UNREAD
    owner_references: Raw = UNREAD
    managed_fields: Raw = UNREAD


class WireContainer(Wire, frozen=True):
    """A container of a pod. What all pods of a template share is read once for all of them: see convert.py."""

    name: str
    image: str = ""
    resources: Raw = UNREAD
    ports: Raw = UNREAD
    restart_policy: str | None = None
    restart_policy_rules: Raw = UNREAD
    resize_policy: Raw = UNREAD


class RestartRule(Wire, frozen=True):
    """What the end of a container does."""

    action: str = ""


class ResizePolicy(Wire, frozen=True):
    """What a change in place of a resource does to its container."""

    resource_name: str = ""
    restart_policy: str = ""


class WireAffinity(Wire, frozen=True):
    """Which nodes and pods a pod wants to be on and near."""

    node_affinity: Raw = UNREAD
    pod_affinity: Raw = UNREAD
    pod_anti_affinity: Raw = UNREAD


class PodSpec(Wire, frozen=True):
    """What a pod wants."""

    node_name: str = ""
    containers: list[WireContainer] | None = None
    init_containers: list[WireContainer] | None = None
    volumes: tuple[WireVolume, ...] | None = None
    resources: Raw = UNREAD
    overhead: Raw = UNREAD
    node_selector: Raw = UNREAD
    affinity: WireAffinity | None = None
    tolerations: Raw = UNREAD
    topology_spread_constraints: Raw = UNREAD
    resource_claims: Raw = UNREAD
    scheduling_gates: Raw = UNREAD
    workload_ref: Raw = UNREAD
    scheduling_group: Raw = UNREAD
    scheduler_name: str = ""
    host_network: bool = False
    host_users: bool | None = None
    restart_policy: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    termination_grace_period_seconds: int | None = None


class WireCondition(Wire, frozen=True):
    """One condition of a pod or node."""

    type: str
    status: str
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""


class _Terminated(Wire, frozen=True):
    reason: str = ""
    started_at: str | None = None
    finished_at: Time | None = None


class ContainerState(Wire, frozen=True):
    """What a container does, or did: one of these."""

    running: Raw = UNREAD
    terminated: _Terminated | None = None
    waiting: Reason | None = None

    @property
    def started(self) -> bool:
        """Whether it was started. A kubelet that cannot find a container calls it terminated, without a start time."""
        running = bytes(self.running) not in (b"", b"null")
        return running or (self.terminated is not None and bool(self.terminated.started_at))


class ContainerStatus(Wire, frozen=True):
    """What became of a container and of the one before it; from Kubernetes 1.33 on also what it has (`resources`), and
    what its kubelet has set aside for it (`allocated_resources`)."""

    name: str = ""
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    resources: Raw = UNREAD
    allocated_resources: Raw = UNREAD

    @property
    def started(self) -> bool:
        """Whether it, or the one before it, was started."""
        return any(state is not None and state.started for state in (self.state, self.last_state))


class PodStatus(Wire, frozen=True):
    """What became of a pod."""

    phase: str = ""
    reason: str = ""
    start_time: Time | None = None
    nominated_node_name: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: list[WireCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: Raw = UNREAD
    allocated_resources: Raw = UNREAD


class WirePod(Wire, frozen=True):
    """A Pod."""

    metadata: PodMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class _WireTaint(Wire, frozen=True):
    key: str
    effect: str
    value: str = ""


class NodeSpec(Wire, frozen=True):
    """A node's desired state."""

    unschedulable: bool = False
    taints: list[_WireTaint] | None = None


class _NodeStatus(Wire, frozen=True):
    allocatable: Amounts = None
    capacity: Amounts = None
    conditions: list[WireCondition] | None = None
    images: list[Raw] | None = None


class WireImage(Wire, frozen=True):
    """An image that a node has. The nodes of a cluster have the same: each is read once."""

    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class WireNode(ObjectMeta, frozen=True):
    """A Node."""

    spec: NodeSpec = NodeSpec()
    status: _NodeStatus = _NodeStatus()


class ScaleCount(Wire, frozen=True):
    """The desired count (the API leaves out a 0), or the actual one and the selector of the pods."""

    replicas: int | None = None
    selector: str = ""


class WireScale(ObjectMeta, frozen=True):
    """The scale subresource (autoscaling/v1)."""

    spec: ScaleCount = ScaleCount()
    status: ScaleCount = ScaleCount()

    @property
    def replicas(self) -> int:
        return self.spec.replicas or 0


class LeaseSpec(Wire, frozen=True):
    """Who leads, and since when."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class WireLease(ObjectMeta, frozen=True):
    """A Lease (coordination.k8s.io/v1)."""

    spec: LeaseSpec = LeaseSpec()


class ContainerUsage(Wire, frozen=True):
    """What one container used; the values are read leniently, since they come from outside."""

    name: str = ""
    usage: dict[str, Any] | None = None


class UsageMetrics(Wire, frozen=True):
    """PodMetrics or NodeMetrics."""

    metadata: Identity
    timestamp: Time
    window: str = ""
    containers: list[ContainerUsage] | None = None
    usage: dict[str, Any] | None = None


class _EventSeries(Wire, frozen=True):
    count: int | None = None
    last_observed_time: Time | None = None


class WireEvent(ObjectMeta, frozen=True):
    """An Event of a kubelet, with the fields that are used."""

    message: str = ""
    count: int | None = None
    source: dict[str, str] | None = None
    """The reporter, in the form used until 1.19 and still used by kubelets."""
    reporting_component: str = ""
    reporting_instance: str = ""
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    event_time: Time | None = None
    series: _EventSeries | None = None


class ObjectReference(Wire, frozen=True):
    """Which object something is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    api_version: str = ""


class MetricValue(Wire, frozen=True):
    """A value of custom.metrics.k8s.io or external.metrics.k8s.io. v1beta1 calls the window of both `window`."""

    timestamp: Time
    value: Any = None
    described_object: ObjectReference = ObjectReference()
    window: Any = None
    window_seconds: Any = None


class _OwnedSpec(Wire, frozen=True):
    template: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="f:template")
    replicas: dict[str, object] | None = msgspec.field(default=None, name="f:replicas")


class _OwnedAnnotations(Wire, frozen=True):
    surge: dict[str, object] | None = msgspec.field(default=None, name="f:elasticd.io/surge")
    zero: dict[str, object] | None = msgspec.field(default=None, name="f:elasticd.io/scaled-to-zero")
    fence: dict[str, object] | None = msgspec.field(default=None, name="f:elasticd.io/fenced")


class _OwnedMetadata(Wire, frozen=True):
    annotations: _OwnedAnnotations | None = msgspec.field(default=None, name="f:annotations")


class _OwnedFields(Wire, frozen=True):
    metadata: _OwnedMetadata | None = msgspec.field(default=None, name="f:metadata")
    spec: _OwnedSpec | None = msgspec.field(default=None, name="f:spec")


class ManagedFields(Wire, frozen=True):
    """What one writer owns of an object, and since when (RFC 3339, UTC, so that texts compare as times do)."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: str = ""
    fields_v1: _OwnedFields | None = msgspec.field(default=None, name="fieldsV1")

    def has(self, annotation: Literal["surge", "zero", "fence"]) -> bool:
        """Whether this annotation of elasticd is among them."""
        metadata = self.fields_v1.metadata if self.fields_v1 else None
        owned = metadata.annotations if metadata else None
        return owned is not None and getattr(owned, annotation) is not None

    @property
    def is_undo(self) -> bool:
        """Whether it is what `kubectl rollout undo` wrote: `kubectl annotate`, `replace` and others have longer names,
        and `kubectl apply --server-side` applies."""
        return (self.manager, self.operation, self.subresource) == ("kubectl", "Update", "")

    @property
    def has_template(self) -> bool:
        """Whether part of the template is among them."""
        return self.fields_v1 is not None and self.fields_v1.spec is not None and bool(self.fields_v1.spec.template)


class WorkloadMetadata(Metadata, frozen=True):
    """What is said of a workload besides its spec, and by whom."""

    managed_fields: list[ManagedFields] | None = None


class RollingUpdate(Wire, frozen=True):
    """How a StatefulSet rolls out: ordinals below the partition stay as they are."""

    partition: int | None = None


class UpdateStrategy(Wire, frozen=True):
    """When a StatefulSet replaces its pods (`updateStrategy`), and how a Deployment does (`strategy`)."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class Ordinals(Wire, frozen=True):
    """How a StatefulSet numbers its pods."""

    start: int = 0


class _WorkloadSpec(Wire, frozen=True):
    replicas: int | None = None
    min_ready_seconds: int | None = None
    pod_management_policy: str = ""
    ordinals: Ordinals | None = None
    selector: LabelSelector | None = None
    update_strategy: UpdateStrategy | None = None
    strategy: UpdateStrategy | None = None


class _WorkloadStatus(Wire, frozen=True):
    replicas: int | None = None
    observed_generation: int | None = None
    updated_replicas: int | None = None
    current_revision: str = ""
    update_revision: str = ""
    conditions: list[Reason] | None = None


class WireWorkload(ObjectMeta, frozen=True):
    """A Deployment, StatefulSet or ReplicaSet."""

    metadata: WorkloadMetadata
    spec: _WorkloadSpec = _WorkloadSpec()
    status: _WorkloadStatus = _WorkloadStatus()


class ScalingRules(Wire, frozen=True):
    """One direction of an HPA's behavior, as far as it says whether it scales at all."""

    select_policy: str = ""


class ScalingBehavior(Wire, frozen=True):
    """An HPA's behavior."""

    scale_up: ScalingRules | None = None
    scale_down: ScalingRules | None = None


class _AutoscalerSpec(Wire, frozen=True):
    scale_target_ref: ObjectReference
    min_replicas: int | None = None
    max_replicas: int = 0
    behavior: ScalingBehavior | None = None


class WireAutoscaler(ObjectMeta, frozen=True):
    """A HorizontalPodAutoscaler."""

    spec: _AutoscalerSpec


class ApiResource(Wire, frozen=True):
    """One line of discovery. `group` and `version` are those of its body, where they are others than the list's."""

    name: str
    kind: str
    namespaced: bool = False
    group: str = ""
    version: str = ""

    @property
    def body(self) -> str:
        return f"{self.group}/{self.version}" if self.group and self.version else self.version


class _GroupVersion(Wire, frozen=True):
    group_version: str


class ApiGroup(Wire, frozen=True):
    """The versions of a group."""

    versions: list[_GroupVersion] | None = None
    preferred_version: _GroupVersion | None = None


class FoundGroup(ApiGroup, frozen=True, kw_only=True):
    """An answer of discovery: one group. Like a list it says what it is: an object that does not would be a group of no
    versions, and its kinds would count as not served."""

    kind: Literal["APIGroup"]


class FoundGroups(Wire, frozen=True):
    """An answer of discovery: all groups."""

    kind: Literal["APIGroupList"]
    groups: list[ApiGroup] | None


class FoundResources(Wire, frozen=True):
    """An answer of discovery: all that a group and version serve."""

    kind: Literal["APIResourceList"]
    resources: list[ApiResource] | None


class Version(Wire, frozen=True):
    """The answer of /version."""

    git_version: str = "unknown"


W = TypeVar("W", bound=WirePod | ObjectMeta)
M = TypeVar("M")
Fault = tuple[Metadata, str]
"""An object that cannot be read, and why."""


class Codec(Generic[W, M]):
    """Decodes lists and single objects of one type into records of the model."""

    def __init__(self, wire: type[W], convert: Callable[..., M], offset: Callable[[], float] | None = None) -> None:
        """`convert` takes a decoded object and, if `offset` is given, its result: the seconds to add to times. It is
        called once a page."""
        self._one = msgspec.json.Decoder(wire)
        self._list = msgspec.json.Decoder(WireList[wire])  # type: ignore[valid-type]
        self._convert, self._offset = convert, offset

    def _arguments(self) -> tuple[float, ...]:
        return () if self._offset is None else (self._offset(),)

    def one(self, body: bytes | Raw) -> tuple[str, M]:
        """One object's resourceVersion and record. Raises UNREADABLE when it cannot be read."""
        decoded = self._one.decode(body)
        return decoded.metadata.resource_version, self._convert(decoded, *self._arguments())

    def page(self, body: bytes) -> tuple[ListMetadata, list[M], list[Fault]]:
        """A page of a list: where it ends, the objects, and which were skipped and why. Raises UNREADABLE when it
        is no list at all."""
        convert, arguments = self._convert, self._arguments()
        try:
            page = self._list.decode(body)
            return page.metadata, [convert(item, *arguments) for item in page.items or ()], []
        except UNREADABLE:
            return self._page_with_faults(body)

    def _page_with_faults(self, body: bytes) -> tuple[ListMetadata, list[M], list[Fault]]:
        page = RAW_LIST.decode(body)
        objects, faults = list[M](), list[Fault]()
        for raw in page.items or ():
            try:
                objects.append(self.one(raw)[1])
            except UNREADABLE as error:
                faults.append((meta_of(raw), str(error)))
        return page.metadata, objects, faults


RAW_LIST = msgspec.json.Decoder(WireList[Raw])
_META = msgspec.json.Decoder(ObjectMeta)


def meta_of(raw: bytes | Raw) -> Metadata:
    """The metadata of an object that may otherwise be unreadable; empty when they are too."""
    try:
        return _META.decode(raw).metadata
    except UNREADABLE:
        return Metadata()
