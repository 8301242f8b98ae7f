"""What the pods of a template have alike, in the wire format: what they ask of a node before they run.

Knows JSON shapes; knows nothing of the model. A pod's parts of these shapes stay as they came (msgspec.Raw) until it is
known that no pod before it had the same: see convert_template.
"""

import msgspec
from msgspec import Raw, Struct

Amount = str | int | float
Amounts = dict[str, Amount] | None
Labels = dict[str, str] | None


UNREAD = Raw()
"""A part that is not there."""


class Wire(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Anything read from the API: camelCase names, never part of a cycle. Written only to be compared."""


class OwnerReference(Wire, frozen=True):
    """Whose an object is."""

    kind: str
    name: str
    uid: str
    controller: bool | None = None


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


class NodeAffinity(Wire, frozen=True):
    """Which nodes a pod may be on."""

    required: NodeTerms | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class PodSelector(Wire, frozen=True):
    """A labelSelector about pods."""

    match_labels: Labels = None
    match_expressions: list[WireRequirement] | None = None


class PodTerm(Wire, frozen=True):
    """Pods to be near, or to keep away: those selected, on nodes that are alike by a label."""

    topology_key: str = ""
    label_selector: PodSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: PodSelector | None = None


class PodAffinity(Wire, frozen=True):
    """Which pods a pod must be near, or keep away."""

    required: list[PodTerm] | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class WireToleration(Wire, frozen=True):
    """Taints that a pod puts up with."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class SpreadConstraint(Wire, frozen=True):
    """How evenly pods must be spread."""

    when_unsatisfiable: str = ""


class Named(Wire, frozen=True):
    """Something of which only its being there counts."""


class GceDisk(Wire, frozen=True):
    """A disk of Google's."""

    pd_name: str = ""
    read_only: bool = False


class AwsDisk(Wire, frozen=True):
    """A disk of Amazon's."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class RbdImage(Wire, frozen=True):
    """An image in a Ceph cluster."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class IscsiDisk(Wire, frozen=True):
    """A disk by iSCSI."""

    iqn: str = ""
    read_only: bool = False


class WireVolume(Wire, frozen=True):
    """A volume of a pod, if it matters to where the pod can be. Not its name: that of a token's volume is chance."""

    empty_dir: Named | None = None
    host_path: Named | None = None
    persistent_volume_claim: Named | None = None
    ephemeral: Named | None = None
    azure_disk: Named | None = None
    cinder: Named | None = None
    gce_persistent_disk: GceDisk | None = None
    aws_elastic_block_store: AwsDisk | None = None
    rbd: RbdImage | None = None
    iscsi: IscsiDisk | None = None
