"""Writes annotations on pods and workloads: what other controllers heed, and what another elasticd must find.

Knows the path of an object and that it must be the one that was judged; knows nothing of what a mark means. A mark says
how things shall be, so that one whose reply was lost is simply written again.
"""

from elasticd.cluster.kubernetes.session import ApiError, Session, encode
from elasticd.cluster.kubernetes.watch.discovery import PODS, Discovery, UnknownKindError
from elasticd.cluster.kubernetes.write.answers import conflict, other_uid, refused_by, unknown_kind
from elasticd.cluster.kubernetes.write.budget import Allowed, Budget
from elasticd.model.actions import Answer, Mark


class Marker:
    """Writes marks within the budget."""

    def __init__(self, session: Session, discovery: Discovery, budget: Budget) -> None:
        self._session, self._discovery, self._budget = session, discovery, budget

    async def mark(self, mark: Mark, allowed: Allowed) -> Answer:
        """Write the annotations, if the object has the expected UID and they are `allowed` when their turn comes."""
        if stop := await self._budget.turn(allowed):
            return stop
        try:
            await self._patch(mark)
        except UnknownKindError as error:
            return unknown_kind(error)
        except ApiError as error:
            self._budget.pause(error.quiet)
            return _explain(error, mark)
        return Answer("done", 200)

    async def _patch(self, mark: Mark) -> None:
        ref = mark.workload
        resource = PODS if mark.pod else await self._discovery.scalable((ref.api_version, ref.kind))
        metadata = {"uid": mark.uid, "annotations": mark.annotations}
        if mark.version:
            metadata["resourceVersion"] = mark.version
        body = encode({"metadata": metadata})
        await self._session.send(resource.request("patch", ref.namespace, mark.pod or ref.name, body=body))


def _explain(error: ApiError, mark: Mark) -> Answer:
    if error.code == 409 and mark.version and not other_uid(error):
        return conflict(409, f"it changed: {error}")
    if error.code in (404, 409) or other_uid(error):  # 409: the uid is another, so that what was to be marked is gone
        return conflict(404, f"it is gone: {error}")
    return refused_by(error)
