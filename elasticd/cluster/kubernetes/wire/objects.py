"""The Kubernetes wire format, as far as it is used.

Knows JSON shapes; knows nothing of HTTP, of the model or of what is watched. Unknown fields are ignored, so
a newer server changes nothing; an object that cannot be read costs only itself.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw

from elasticd.cluster.kubernetes.wire.pod_template import UNREAD, Amounts, Labels, Wire, WireVolume


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


class ListMetadata(Wire, frozen=True):
    """Of a list: where to go on from."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ObjectMeta(Wire, frozen=True):
    """An object of which only the metadata are wanted (PartialObjectMetadata, or any object)."""

    metadata: Metadata


class Envelope(Wire, frozen=True):
    """A list whose items are looked at one by one."""

    metadata: ListMetadata = ListMetadata()
    items: list[Raw] | None = None


class WatchEvent(Wire, frozen=True):
    """One line of a watch. The object is decoded later, since it may be a Status."""

    type: str
    object: Raw


class StatusCause(Wire, frozen=True):
    """One cause of a failure, in a word."""

    reason: str = ""


class StatusDetails(Wire, frozen=True):
    """What a Status says beside its message."""

    retry_after_seconds: float | None = None
    causes: list[StatusCause] | None = None


class Status(Wire, frozen=True):
    """An error, as the API reports it."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class PodMetadata(Identity, frozen=True):
    """Of a pod. Labels and owners are those of all pods of its controller, and read once for all of them."""

    creation_timestamp: datetime | None = None
    labels: Raw = UNREAD
    owner_references: Raw = UNREAD


class WireContainer(Wire, frozen=True):
    """A container of a pod. What all pods of a template share is read once for all of them: see convert_template."""

    name: str
    resources: Raw = UNREAD
    ports: Raw = UNREAD
    restart_policy: str | None = None


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
    restart_policy: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    termination_grace_period_seconds: int | None = None


class WireCondition(Wire, frozen=True):
    """One condition of a pod or node."""

    type: str
    status: str
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class Terminated(Wire, frozen=True):
    """How a container ended."""

    reason: str = ""
    finished_at: datetime | None = None


class ContainerState(Wire, frozen=True):
    """What a container does, or did: of interest is its end."""

    terminated: Terminated | None = None


class ContainerStatus(Wire, frozen=True):
    """What became of a container and of the one before it; from Kubernetes 1.33 on also what it has (`resources`), and
    what its kubelet has set aside for it (`allocated_resources`)."""

    name: str = ""
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    resources: Raw = UNREAD
    allocated_resources: Raw = UNREAD


class PodStatus(Wire, frozen=True):
    """What became of a pod."""

    phase: str = ""
    start_time: datetime | None = None
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


class WireTaint(Wire, frozen=True):
    """What keeps pods off a node."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(Wire, frozen=True):
    """A node's desired state."""

    unschedulable: bool = False
    taints: list[WireTaint] | None = None


class NodeStatus(Wire, frozen=True):
    """What a node offers."""

    allocatable: Amounts = None
    conditions: list[WireCondition] | None = None


class WireNode(Wire, frozen=True):
    """A Node."""

    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ScaleSpec(Wire, frozen=True):
    """The desired count. The API leaves out a 0."""

    replicas: int | None = None


class ScaleStatus(Wire, frozen=True):
    """The actual count, and the selector of the pods."""

    replicas: int | None = None
    selector: str = ""


class WireScale(Wire, frozen=True):
    """The scale subresource (autoscaling/v1)."""

    metadata: Metadata
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()

    @property
    def replicas(self) -> int:
        """spec.replicas."""
        return self.spec.replicas or 0


class LeaseSpec(Wire, frozen=True):
    """Who leads, and since when."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class WireLease(Wire, frozen=True):
    """A Lease (coordination.k8s.io/v1)."""

    metadata: Metadata
    spec: LeaseSpec = LeaseSpec()


class ContainerUsage(Wire, frozen=True):
    """What one container used; the values are read leniently, since they come from outside."""

    name: str = ""
    usage: dict[str, Any] | None = None


class UsageMetrics(Wire, frozen=True):
    """PodMetrics or NodeMetrics."""

    metadata: Identity
    timestamp: datetime
    window: str = ""
    containers: list[ContainerUsage] | None = None
    usage: dict[str, Any] | None = None


class EventSource(Wire, frozen=True):
    """The reporter of an Event, in the form used until 1.19 and still used by kubelets."""

    component: str = ""
    host: str = ""


class EventSeries(Wire, frozen=True):
    """How often an Event of the newer kind was repeated."""

    count: int | None = None
    last_observed_time: datetime | None = None


class WireEvent(Wire, frozen=True):
    """An Event, as far as it tells what a kubelet did."""

    metadata: Metadata
    message: str = ""
    count: int | None = None
    source: EventSource | None = None
    reporting_component: str = ""
    reporting_instance: str = ""
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: EventSeries | None = None


class ObjectReference(Wire, frozen=True):
    """Which object something is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""


class MetricValue(Wire, frozen=True):
    """A value of custom.metrics.k8s.io or external.metrics.k8s.io. v1beta1 calls the window of both `window`."""

    timestamp: datetime
    value: Any = None
    described_object: ObjectReference = ObjectReference()
    window: Any = None
    window_seconds: Any = None


W = TypeVar("W", bound=WirePod | WireNode | WireEvent | ObjectMeta)
M = TypeVar("M")
Fault = tuple[Metadata, str]
"""An object that cannot be read, and why."""


class Codec(Generic[W, M]):
    """Decodes lists and single objects of one type into records of the model."""

    def __init__(self, wire: type[W], convert: Callable[..., M], offset: Callable[[], float] | None = None) -> None:
        """`convert` takes a decoded object and, if `offset` is given, its result: the seconds to add to times. It is
        called once a page."""
        self._one = msgspec.json.Decoder(wire)
        self._list = msgspec.json.Decoder(_list_of(wire))
        self._convert, self._offset = convert, offset

    def _now(self) -> Callable[[W], M]:
        if self._offset is None:
            return self._convert
        convert, offset = self._convert, self._offset()
        return lambda decoded: convert(decoded, offset)

    def one(self, body: bytes | Raw) -> tuple[str, M]:
        """One object's resourceVersion and record. Raises msgspec.DecodeError or ValueError when it is unreadable."""
        decoded = self._one.decode(body)
        return decoded.metadata.resource_version, self._now()(decoded)

    def page(self, body: bytes) -> tuple[ListMetadata, list[M], list[Fault]]:
        """A page of a list: where it ends, the objects, and which were skipped and why.

        Raises msgspec.DecodeError when it is no list at all.
        """
        try:
            page, convert = self._list.decode(body), self._now()
            return page.metadata, [convert(item) for item in page.items or ()], []
        except (msgspec.ValidationError, ValueError):
            return self._page_with_faults(body)

    def _page_with_faults(self, body: bytes) -> tuple[ListMetadata, list[M], list[Fault]]:
        envelope = _ENVELOPE.decode(body)
        objects: list[M] = []
        faults: list[Fault] = []
        for raw in envelope.items or ():
            try:
                objects.append(self.one(raw)[1])
            except (msgspec.DecodeError, ValueError) as error:
                faults.append((meta_of(raw), str(error)))
        return envelope.metadata, objects, faults


def _list_of(wire: type[W]) -> type[Any]:
    fields = [("metadata", ListMetadata, ListMetadata()), ("items", list[wire] | None, None)]  # type: ignore[valid-type]
    return msgspec.defstruct(f"{wire.__name__}List", fields, gc=False)


_ENVELOPE = msgspec.json.Decoder(Envelope)
_META = msgspec.json.Decoder(ObjectMeta)


def meta_of(raw: bytes | Raw) -> Metadata:
    """The metadata of an object that may otherwise be unreadable; empty when they are too."""
    try:
        return _META.decode(raw).metadata
    except (msgspec.DecodeError, ValueError):
        return Metadata()
