"""What must be written so that the claims of a pod are bound for its node.

Knows which step was taken already; knows nothing of how a node is chosen.
"""

from collections.abc import Iterable

from elasticd.kit.volume_view import VolumeView
from elasticd.model.actions import BindClaim
from elasticd.model.volumes import Volume, VolumeClaim
from elasticd.model.workload import Ref


def claim_actions(
    bindings: Iterable[tuple[VolumeClaim, Volume | None]], node: str, view: VolumeView
) -> list[BindClaim]:
    """The writes for claims, each with the volume that it gets (None: one is provisioned), if the pod goes to a node;
    `view` then shows what they change. There is none for a claim of which only the binding is missing."""
    actions: list[BindClaim] = []
    for claim, volume in bindings:
        ref = Ref(claim.namespace, "PersistentVolumeClaim", claim.name, "v1")
        if volume is not None and volume.claim != (*claim.key, claim.uid):
            by_user = volume.kept_for(claim)
            actions.append(BindClaim(ref, claim.uid, volume.version, node, volume.name, volume.uid, by_user))
            view.keep(volume, claim)
        elif volume is None and not claim.node:
            actions.append(BindClaim(ref, claim.uid, claim.version, node))
            view.select(claim, node)
    return actions
