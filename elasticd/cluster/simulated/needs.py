"""What the pods of a simulated cluster ask of nodes, as it is written in TOML.

Knows the keys, which are those of a pod's spec in Kubernetes, and their bounds; knows nothing of what a scheduler makes
of them.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct, convert, field

from elasticd.cluster.simulated.tables import CountedTable, Quantity, further
from elasticd.model.pod_spec import Disk, Expression, Needs, Port, Restart, Taint, Term, Toleration

OWN = "default-scheduler"
"""The name of the simulation's own scheduler. It leaves all other pods pending until somebody binds them."""

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

T = TypeVar("T")


def plain(table: object, kind: type[T]) -> T:
    """The record of the model that a table stands for."""
    return convert(table, kind, from_attributes=True)


class TaintTable(Taint, frozen=True, forbid_unknown_fields=True):
    """A taint of a node."""

    def __post_init__(self) -> None:
        if not self.key:
            raise ValueError("key: must not be empty, is")


class TolerationTable(Toleration, frozen=True, forbid_unknown_fields=True):
    """A taint that pods put up with."""

    def __post_init__(self) -> None:
        if not self.key and self.operator != "Exists":
            raise ValueError('operator: must be Exists without a key, is "Equal"')
        if self.value and self.operator == "Exists":
            raise ValueError(f'value: must be left out with the operator Exists, is "{self.value}"')
        if self.effect and self.effect not in _EFFECTS:
            raise ValueError(f'effect: must be one of {", ".join(_EFFECTS)}, or left out, is "{self.effect}"')


class PortTable(Port, frozen=True, forbid_unknown_fields=True):
    """A port of the node that each pod takes."""

    def __post_init__(self) -> None:
        if not 1 <= self.number <= 65535:
            raise ValueError(f"number: must be in [1, 65535], is {self.number}")
        if self.protocol not in ("TCP", "UDP", "SCTP"):
            raise ValueError(f'protocol: must be TCP, UDP or SCTP, is "{self.protocol}"')


class DiskTable(Disk, frozen=True, forbid_unknown_fields=True):
    """A disk that each pod names."""


class ExpressionTable(Expression, frozen=True, forbid_unknown_fields=True):
    """A rule about a label."""


class TermTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Rules about a node's labels, and about its name, all of which must hold."""

    labels: tuple[ExpressionTable, ...] = ()
    fields: tuple[ExpressionTable, ...] = ()


class PodTable(CountedTable, frozen=True):
    """What the pods of a table ask of nodes, beside cpu and memory."""

    scheduler: Annotated[
        str, Meta(min_length=1, description="default-scheduler is the simulation's own; other pods wait to be bound")
    ] = OWN
    restart_policy: Restart = "Always"
    priority: Annotated[int, Meta(ge=-(2**31), le=2_000_001_000)] = 0
    priority_class: str = ""
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"
    node_selector: dict[str, str] = field(default_factory=dict)
    node_affinity: Annotated[
        tuple[TermTable, ...] | None, Meta(description="required terms, of which one must hold")
    ] = None
    tolerations: tuple[TolerationTable, ...] = ()
    ports: tuple[PortTable, ...] = ()
    disks: tuple[DiskTable, ...] = ()
    annotations: Annotated[dict[str, str], Meta(description="of each pod")] = field(default_factory=dict)
    resources: Annotated[
        dict[str, Quantity], Meta(description="what each pod requests beside cpu and memory, such as ephemeral-storage")
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        further(self.resources)

    def needs(self, requests: Mapping[str, float], grace: float) -> Needs:
        """The same as the model has it. `grace`: seconds that its pods take to stop."""
        affinity = self.node_affinity
        return Needs(
            scheduler=self.scheduler,
            restart=self.restart_policy,
            priority=self.priority,
            priority_class=self.priority_class,
            preempts=self.preemption_policy != "Never",
            requests=dict(requests),
            selector=self.node_selector,
            affinity=None if affinity is None else plain(affinity, tuple[Term, ...]),
            tolerations=plain(self.tolerations, tuple[Toleration, ...]),
            ports=plain(self.ports, tuple[Port, ...]),
            disks=plain(self.disks, tuple[Disk, ...]),
            grace=max(30.0, grace),
        )


def placing(table: PodTable) -> dict[str, Any]:
    """Those options of a table that say what its pods ask of nodes."""
    return {
        name: getattr(table, name) for name in PodTable.__struct_fields__ if name not in CountedTable.__struct_fields__
    }
