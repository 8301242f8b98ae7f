"""Data types for volumes: claims, persistent volumes, storage classes, and how many volumes nodes take.

Frozen records. Knows what each of them asks for and offers; knows no nodes, and nothing of how they are watched.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from elasticd.model.pod_spec import Expression, Term

ClaimKey = tuple[str, str]
"""Namespace and name of a claim."""

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node for which its volume is to be provisioned."""

UNLIMITED = 2**31
"""More volumes than any node has."""

ONE_POD = "ReadWriteOncePod"
"""The access mode of a claim that only one pod may use."""

SEVERAL_NODES = frozenset(("ReadWriteMany", "ReadOnlyMany"))
"""The access modes of claims that pods of several nodes may use at the same time."""


class VolumeClaim(Struct, frozen=True, gc=False, omit_defaults=True):
    """A PersistentVolumeClaim: a request for a volume of at least `size` bytes, with all these access modes."""

    namespace: str
    name: str
    uid: str
    version: str = ""
    class_name: str = ""
    """Of its StorageClass; empty: none."""
    size: float = 0.0
    modes: tuple[str, ...] = ()
    kind: str = "Filesystem"
    """Its volumeMode: Filesystem or Block."""
    attributes: str = ""
    """Of its VolumeAttributesClass."""
    selector: tuple[Expression, ...] | None = None
    """What the labels of its volume must obey; None: anything."""
    volume: str = ""
    """The volume that it is bound to, or will be; empty: none."""
    bound: bool = False
    """Whether it is completely bound to `volume`."""
    node: str = ""
    """The node that was selected for it, so that a volume is provisioned for that node; empty: none."""
    lost: bool = False
    deleted: bool = False
    owner: str = ""
    """The UID of its controller, a pod where it was made for that pod alone."""

    @property
    def key(self) -> ClaimKey:
        return self.namespace, self.name


class Volume(Struct, frozen=True, gc=False, omit_defaults=True):
    """A PersistentVolume of `size` bytes."""

    name: str
    uid: str = ""
    version: str = ""
    class_name: str = ""
    size: float = 0.0
    modes: tuple[str, ...] = ()
    kind: str = "Filesystem"
    attributes: str = ""
    labels: dict[str, str] = {}
    terms: tuple[Term, ...] | None = None
    """Its node affinity: terms of which one must hold; None: it can be used on every node."""
    claim: tuple[str, str, str] | None = None
    """Namespace, name and UID (empty: any) of the claim that it is kept for; None: it is free."""
    available: bool = False
    """Whether its phase is Available."""
    deleted: bool = False
    driver: str = ""
    """Its CSI driver, and its name there (`handle`); empty: it has none."""
    handle: str = ""
    local: bool = False
    """Whether it is a folder of whichever node the pod is on (hostPath)."""
    unsupported: str = ""
    """The type of its source, if the number of such volumes on a node is limited in a way that is not known here."""

    def kept_for(self, claim: VolumeClaim) -> bool:
        """Whether it is bound to a claim, or kept for it."""
        return self.claim is not None and self.claim[:2] == claim.key and self.claim[2] in ("", claim.uid)

    def serves(self, claim: VolumeClaim) -> bool:
        """Whether it is large enough for a claim and of its kind, and stays."""
        return self.size >= claim.size and (self.kind, self.attributes, self.deleted) == (
            claim.kind,
            claim.attributes,
            False,
        )

    def suits(self, claim: VolumeClaim) -> bool:
        """Whether it is free and has all that a claim of its class asks for."""
        if self.claim is not None or not self.available or not self.serves(claim):
            return False
        if not set(claim.modes) <= set(self.modes):
            return False
        return claim.selector is None or all(rule.matches(self.labels) for rule in claim.selector)


class StorageClass(Struct, frozen=True, gc=False, omit_defaults=True):
    """How volumes of a class are made: by which provisioner, and for which nodes (`topologies`: terms of which one
    must hold; None: all). `waits`: not before a pod needs them (WaitForFirstConsumer)."""

    name: str
    provisioner: str = ""
    waits: bool = False
    topologies: tuple[Term, ...] | None = None


class StorageCapacity(Struct, frozen=True, gc=False, omit_defaults=True):
    """How large a volume of a class can be that a CSI driver makes for the nodes whose labels obey `nodes` (None: for
    none; empty: for all). NaN: it is not known."""

    namespace: str
    name: str
    class_name: str
    size: float
    nodes: tuple[Expression, ...] | None = None


class Storage(Struct, frozen=True, eq=False):
    """All that is known of volumes. A mapping stays the same object while nothing in it changes. `unknown` names the
    resources that could not be read, as the API calls them."""

    claims: Mapping[ClaimKey, VolumeClaim] = {}
    volumes: Mapping[str, Volume] = {}
    classes: Mapping[str, StorageClass] = {}
    limits: Mapping[str, Mapping[str, int]] = {}
    """How many volumes nodes take: by node, then by CSI driver."""
    tracked: frozenset[str] = frozenset()
    """The CSI drivers that say how much storage they have left."""
    capacities: tuple[StorageCapacity, ...] = ()
    """What they say."""
    unknown: tuple[str, ...] = ()


class Volumes(Protocol):
    """Claims and volumes at one moment of a plan, with what the plan has decided about them so far."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """The resources that could not be read, as the API calls them; empty: all is known."""

    def claim(self, key: ClaimKey) -> VolumeClaim | None:
        """A claim by its namespace and name."""

    def volume(self, name: str) -> Volume | None:
        """A persistent volume."""

    def storage_class(self, name: str) -> StorageClass | None:
        """A storage class."""

    def free(self, class_name: str) -> Sequence[Volume]:
        """The persistent volumes of a class (empty: of none) that are available and kept for no claim, the smallest
        first, then by name."""

    def kept(self, claim: VolumeClaim) -> Volume | None:
        """The persistent volume of its class that is kept for a claim and serves it."""

    def capacities_of(self, found: StorageClass) -> Sequence[StorageCapacity] | None:
        """What the CSI driver of a class says of the storage that it has left for that class; None: it says nothing."""

    def limits_of(self, driver: str, nodes: tuple[str, ...]) -> NDArray[np.int64]:
        """How many volumes of a CSI driver each of these nodes takes; UNLIMITED where nothing is said."""
