"""Persistent volume claims, persistent volumes, storage classes and CSINodes: their wire format and their stores.

Knows what each field means to judgement; knows nothing of which pod goes where.
"""

import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from elasticd.base.units import amount
from elasticd.cluster.kubernetes.watch.store import Key, Store
from elasticd.cluster.kubernetes.watch.versions import is_older
from elasticd.cluster.kubernetes.wire.convert import labels_of, rules_of, term_of
from elasticd.cluster.kubernetes.wire.objects import (
    Amount,
    Amounts,
    LabelSelector,
    Named,
    NodeTerms,
    ObjectMeta,
    Wire,
)
from elasticd.model.pod_spec import Expression, Term
from elasticd.model.volumes import SELECTED_NODE, Storage, StorageCapacity, StorageClass, Volume, VolumeClaim

T = TypeVar("T")

_BOUND = "pv.kubernetes.io/bind-completed"
_CLASS = "volume.beta.kubernetes.io/storage-class"
"""Annotation of claims and volumes that wins over the field storageClassName."""


class WireRequests(Wire, frozen=True):
    """What a claim requests."""

    requests: Amounts = None


class WireClaimSpec(Wire, frozen=True):
    """What a claim asks for, and what it got."""

    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str | None = None
    access_modes: tuple[str, ...] | None = None
    resources: WireRequests = WireRequests()
    selector: LabelSelector | None = None
    volume_attributes_class_name: str | None = None


class WirePhase(Wire, frozen=True):
    """The phase of a claim or volume."""

    phase: str = ""


class WireClaim(ObjectMeta, frozen=True):
    """A PersistentVolumeClaim."""

    spec: WireClaimSpec = WireClaimSpec()
    status: WirePhase = WirePhase()


class WireCsiSource(Wire, frozen=True):
    """The CSI driver of a volume, and the volume's name there."""

    driver: str = ""
    volume_handle: str = ""


class WireClaimRef(Wire, frozen=True):
    """The claim of a volume."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class WireVolumeAffinity(Wire, frozen=True):
    """On which nodes a volume can be used."""

    required: NodeTerms | None = None


class WireVolumeSpec(Wire, frozen=True):
    """What a volume is."""

    capacity: Amounts = None
    access_modes: tuple[str, ...] | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: WireVolumeAffinity | None = None
    claim_ref: WireClaimRef | None = None
    csi: WireCsiSource | None = None
    host_path: Named | None = None
    aws_elastic_block_store: Named | None = None
    gce_persistent_disk: Named | None = None
    azure_disk: Named | None = None
    cinder: Named | None = None


class WirePersistentVolume(ObjectMeta, frozen=True):
    """A PersistentVolume."""

    spec: WireVolumeSpec = WireVolumeSpec()
    status: WirePhase = WirePhase()


class _TopologyRule(Wire, frozen=True):
    key: str = ""
    values: tuple[str, ...] | None = None


class WireTopologyTerm(Wire, frozen=True):
    """Labels of nodes for which volumes can be made, all of which must hold."""

    match_label_expressions: list[_TopologyRule] | None = None


class WireStorageClass(ObjectMeta, frozen=True):
    """A StorageClass."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[WireTopologyTerm] | None = None


class _Count(Wire, frozen=True):
    count: int | None = None


class WireDriver(Wire, frozen=True):
    """A CSI driver on a node."""

    name: str = ""
    allocatable: _Count | None = None


class _CsiNodeSpec(Wire, frozen=True):
    drivers: list[WireDriver] | None = None


class WireCsiNode(ObjectMeta, frozen=True):
    """A CSINode."""

    spec: _CsiNodeSpec = _CsiNodeSpec()


class _CsiDriverSpec(Wire, frozen=True):
    storage_capacity: bool | None = None


class WireCsiDriver(ObjectMeta, frozen=True):
    """A CSIDriver."""

    spec: _CsiDriverSpec = _CsiDriverSpec()


class WireCapacity(ObjectMeta, frozen=True):
    """A CSIStorageCapacity."""

    storage_class_name: str = ""
    capacity: Amount | None = None
    maximum_volume_size: Amount | None = None
    node_topology: LabelSelector | None = None


class CsiDriver(NamedTuple):
    """A CSI driver, and whether it says how much storage it has left."""

    name: str
    tracked: bool


class Attachable(NamedTuple):
    """How many volumes a node takes, by CSI driver."""

    name: str
    limits: dict[str, int]


def to_claim(wire: WireClaim) -> VolumeClaim:
    """A claim of the model."""
    meta, spec = wire.metadata, wire.spec
    annotations = meta.annotations or {}
    controller = next((owner.uid for owner in meta.owner_references or () if owner.controller), "")
    return VolumeClaim(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        class_name=sys.intern(annotations.get(_CLASS, spec.storage_class_name or "")),
        size=amount((spec.resources.requests or {}).get("storage", 0)),
        modes=spec.access_modes or (),
        kind=spec.volume_mode or "Filesystem",
        attributes=spec.volume_attributes_class_name or "",
        selector=rules_of(spec.selector),
        volume=spec.volume_name,
        bound=bool(spec.volume_name) and _BOUND in annotations,
        node=annotations.get(SELECTED_NODE, ""),
        lost=wire.status.phase == "Lost",
        deleted=meta.deletion_timestamp is not None,
        owner=controller,
    )


def to_volume(wire: WirePersistentVolume) -> Volume:
    """A persistent volume of the model."""
    meta, spec = wire.metadata, wire.spec
    affinity = spec.node_affinity.required if spec.node_affinity else None
    claim, csi = spec.claim_ref, spec.csi or WireCsiSource()
    return Volume(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        class_name=sys.intern((meta.annotations or {}).get(_CLASS, spec.storage_class_name)),
        size=amount((spec.capacity or {}).get("storage", 0)),
        modes=spec.access_modes or (),
        kind=spec.volume_mode or "Filesystem",
        attributes=spec.volume_attributes_class_name or "",
        labels=labels_of(meta),
        terms=None if affinity is None else tuple(map(term_of, affinity.node_selector_terms or ())),
        claim=None if claim is None else (claim.namespace, claim.name, claim.uid),
        available=wire.status.phase == "Available",
        deleted=meta.deletion_timestamp is not None,
        driver=sys.intern(csi.driver),
        handle=csi.volume_handle,
        local=spec.host_path is not None,
        unsupported=next((name for name, source in _limited(spec) if source is not None), ""),
    )


def _limited(spec: WireVolumeSpec) -> list[tuple[str, Named | None]]:
    """The sources of which kube-scheduler, or the CSI driver that they are migrated to, limits the number on a node."""
    return [
        ("awsElasticBlockStore", spec.aws_elastic_block_store),
        ("gcePersistentDisk", spec.gce_persistent_disk),
        ("azureDisk", spec.azure_disk),
        ("cinder", spec.cinder),
    ]


def to_storage_class(wire: WireStorageClass) -> StorageClass:
    """A storage class of the model."""
    terms = wire.allowed_topologies
    return StorageClass(
        name=wire.metadata.name,
        provisioner=wire.provisioner,
        waits=wire.volume_binding_mode == "WaitForFirstConsumer",
        topologies=tuple(map(_topology, terms)) if terms else None,
    )


def _topology(term: WireTopologyTerm) -> Term:
    rules = term.match_label_expressions or ()
    return Term(tuple([Expression(rule.key, "In", rule.values or ()) for rule in rules]))


def to_attachable(wire: WireCsiNode) -> Attachable:
    """The limits of a node."""
    drivers = [(each.name, each.allocatable.count) for each in wire.spec.drivers or () if each.allocatable is not None]
    limits = {sys.intern(name): count for name, count in drivers if count is not None}
    return Attachable(sys.intern(wire.metadata.name), limits)


def to_csi_driver(wire: WireCsiDriver) -> CsiDriver:
    """A CSI driver."""
    return CsiDriver(wire.metadata.name, wire.spec.storage_capacity is True)


def to_capacity(wire: WireCapacity) -> StorageCapacity:
    """The storage that is left; the size of the largest volume is the more exact figure."""
    size = wire.capacity if wire.maximum_volume_size is None else wire.maximum_volume_size
    return StorageCapacity(
        namespace=sys.intern(wire.metadata.namespace),
        name=wire.metadata.name,
        class_name=wire.storage_class_name,
        size=amount(size),
        nodes=rules_of(wire.node_topology),
    )


class StorageStore(Store[T], Generic[T]):
    """All objects of one of these kinds."""

    def __init__(self) -> None:
        super().__init__(_key)
        self._all: dict[Key, T] | None = None
        self._by_name: dict[str, T] | None = None
        self.placement_callbacks: list[Callable[[], None]] = []

    def get(self, key: Key) -> T | None:
        """An object by its namespace (empty: it has none) and name."""
        return self._items.get(key)

    def all(self) -> Mapping[Key, T]:
        """All of them by namespace and name; the same mapping while nothing changed."""
        if self._all is None:
            self._all = dict(self._items)
        return self._all

    def by_name(self) -> Mapping[str, T]:
        """The same by name alone, for a kind without namespaces."""
        if self._by_name is None:
            self._by_name = {name: item for (_, name), item in self._items.items()}
        return self._by_name

    def _changed(self, old: T | None, new: T | None) -> None:
        self._all = self._by_name = None
        for callback in self.placement_callbacks:
            callback()

    def _goes_back(self, old: T, new: T, *, listed: bool) -> bool:
        """Our own writes are known at once; what the watch tells of the time before them comes later."""
        before, after = (getattr(item, "version", "") for item in (old, new))
        return not listed and is_older(after, than=before)


def _key(item: Any) -> Key:
    return getattr(item, "namespace", ""), item.name


class StorageStores:
    """All that is known of volumes."""

    def __init__(self) -> None:
        self.claims, self.volumes = StorageStore[VolumeClaim](), StorageStore[Volume]()
        self.classes, self.nodes = StorageStore[StorageClass](), StorageStore[Attachable]()
        self.drivers, self.capacities = StorageStore[CsiDriver](), StorageStore[StorageCapacity]()
        self._storage, self._parts = Storage(), tuple[Mapping[Any, Any], ...]()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call this back whenever any of it changes."""
        for store in (self.claims, self.volumes, self.classes, self.nodes, self.drivers, self.capacities):
            store.placement_callbacks.append(callback)

    def storage(self, unknown: tuple[str, ...] = (), *, capacities_served: bool = True) -> Storage:
        """All of it; the same object while nothing changed. `unknown`: the resources that were never read."""
        claims, volumes, classes = self.claims.all(), self.volumes.by_name(), self.classes.by_name()
        nodes, drivers, capacities = self.nodes.by_name(), self.drivers.by_name(), self.capacities.all()
        parts = (claims, volumes, classes, nodes, drivers, capacities)
        same = len(parts) == len(self._parts) and all(map(operator.is_, parts, self._parts))
        if unknown != self._storage.unknown or not same:
            self._parts = parts
            limits = {name: node.limits for name, node in nodes.items() if node.limits}
            tracked = frozenset(name for name, driver in drivers.items() if driver.tracked and capacities_served)
            self._storage = Storage(claims, volumes, classes, limits, tracked, tuple(capacities.values()), unknown)
        return self._storage
