"""Claims, volumes and classes for tests of placing: of one namespace, `shop`, and sized in GiB.

Knows the model; knows no strategy.
"""

from typing import Any

from msgspec.structs import replace

from elasticd.model.actions import BindClaim
from elasticd.model.pod_spec import Expression, PodClaim, Term
from elasticd.model.volumes import Storage, StorageClass, Volume, VolumeClaim
from elasticd.model.workload import Pod
from tests.kit.pools import GIB, pod

ZONE = "topology.kubernetes.io/zone"
DRIVER = "csi.example.com"


def within(label: str, *values: str) -> tuple[Term, ...]:
    """The node affinity of a volume that is of use where a label has one of these values."""
    return (Term((Expression(label, "In", values),)),)


def volume(name: str, gib: float = 1, **more: Any) -> Volume:
    """A free volume of class `fast`, writable by one node."""
    fields: dict[str, Any] = {
        "class_name": "fast",
        "modes": ("ReadWriteOnce",),
        "available": True,
        "uid": f"uid-{name}",
        "version": "1",
    }
    return Volume(name, size=gib * GIB, **(fields | more))


def claim(name: str, gib: float = 1, **more: Any) -> VolumeClaim:
    """A claim of class `fast`; with a `volume` it is bound."""
    fields: dict[str, Any] = {
        "class_name": "fast",
        "modes": ("ReadWriteOnce",),
        "bound": "volume" in more,
        "version": "1",
    }
    return VolumeClaim("shop", name, size=gib * GIB, **({"uid": f"uid-{name}"} | fields | more))


def storage(*things: Volume | VolumeClaim | StorageClass, **more: Any) -> Storage:
    """All of these."""
    return Storage(
        {each.key: each for each in things if isinstance(each, VolumeClaim)},
        {each.name: each for each in things if isinstance(each, Volume)},
        {each.name: each for each in things if isinstance(each, StorageClass)},
        **more,
    )


def claiming(name: str, *claims: str | PodClaim, **more: Any) -> Pod:
    """A pod that uses these claims."""
    uses = tuple(PodClaim(each) if isinstance(each, str) else each for each in claims)
    return pod(name, volume_claims=uses, **{"claims": True, **more})


def with_claim(known: Storage, action: BindClaim) -> Storage:
    """The same after a claim was to be bound: with the node that is selected for it, or the volume that is kept."""
    key = action.workload.namespace, action.workload.name
    one = known.claims[key]
    if not action.volume:
        return replace(known, claims={**known.claims, key: replace(one, node=action.node)})
    kept = replace(known.volumes[action.volume], claim=(*key, one.uid), available=False)
    return replace(known, volumes={**known.volumes, kept.name: kept})


def bound_to(known: Storage, name: str, to: Volume) -> Storage:
    """The same after a claim was bound to a volume."""
    one = known.claims["shop", name]
    kept = replace(to, claim=("shop", name, one.uid), available=False)
    bound = replace(one, volume=to.name, bound=True)
    return replace(known, claims={**known.claims, one.key: bound}, volumes={**known.volumes, to.name: kept})
