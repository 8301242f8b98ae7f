"""Lets a claim of a pod be bound for a node: keeps a volume for it, or notes the node for which one is provisioned.

The API server, its controllers and the provisioner do the rest. Either write says how things shall be of an object in
the version that was judged, so that one whose reply was lost is not repeated: the next plan sees what became of it.
Knows the fields and preconditions; knows nothing of which volume a claim gets.
"""

from typing import Any

from msgspec.structs import replace

from elasticd.cluster.kubernetes.session import ApiError, Request, Session, encode
from elasticd.cluster.kubernetes.watch.discovery import CLAIMS, VOLUMES
from elasticd.cluster.kubernetes.watch.storage import StorageStores
from elasticd.cluster.kubernetes.wire.objects import meta_of
from elasticd.cluster.kubernetes.write.answers import conflict, other_uid, refused_by
from elasticd.cluster.kubernetes.write.budget import Allowed, Budget
from elasticd.model.actions import Answer, BindClaim
from elasticd.model.volumes import SELECTED_NODE

BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""Annotation of a volume that was not chosen by a user, so that its binding may be undone."""


class ClaimBinder:
    """Writes claims and volumes, within the budget, and makes it known in `stores` before the watch tells of it."""

    def __init__(self, session: Session, budget: Budget, stores: StorageStores) -> None:
        self._session, self._budget, self._stores = session, budget, stores

    async def bind(self, action: BindClaim, allowed: Allowed) -> Answer:
        """Write, if the object still is the one that was judged and it is `allowed` when its turn comes."""
        if stop := await self._budget.turn(allowed):
            return stop
        try:
            body = await self._session.send(_request(action))
        except ApiError as error:
            self._budget.pause(error.quiet)
            if error.code == 409 and not other_uid(error):
                return conflict(409, f"it changed: {error}")
            if error.code == 404 or other_uid(error):
                return conflict(404, f"it is gone: {error}")
            return refused_by(error)
        self._assume(action, meta_of(body).resource_version)
        return Answer("done", 200)

    def _assume(self, action: BindClaim, version: str) -> None:
        ref = action.workload
        if not action.volume:
            claim = self._stores.claims.get((ref.namespace, ref.name))
            if claim is not None and claim.uid == action.uid:
                self._stores.claims.put(replace(claim, node=action.node, version=version), listed=False)
            return
        volume = self._stores.volumes.get(("", action.volume))
        if volume is not None and volume.uid == action.volume_uid:
            kept = replace(volume, claim=(ref.namespace, ref.name, action.uid), version=version)
            self._stores.volumes.put(kept, listed=False)


def _request(action: BindClaim) -> Request:
    ref = action.workload
    if not action.volume:
        body = {"metadata": _judged(action.uid, action.version, {SELECTED_NODE: action.node})}
        return CLAIMS.request("patch", ref.namespace, ref.name, body=encode(body))
    annotations = {} if action.by_user else {BY_CONTROLLER: "yes"}
    claim = {"apiVersion": "v1", "kind": ref.kind, "namespace": ref.namespace, "name": ref.name, "uid": action.uid}
    body = {"metadata": _judged(action.volume_uid, action.version, annotations), "spec": {"claimRef": claim}}
    return VOLUMES.request("patch", "", action.volume, body=encode(body))


def _judged(uid: str, version: str, annotations: dict[str, str]) -> dict[str, Any]:
    """The metadata of a patch that changes only the object that was judged, in that version."""
    return {"uid": uid, "resourceVersion": version, **({"annotations": annotations} if annotations else {})}
