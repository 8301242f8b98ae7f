"""Writes annotations on pods and workloads: what other controllers heed, and what another elasticd must find.

Knows the path of an object and that it must be the one that was judged; knows nothing of what a mark means. A mark says
how things shall be, so that one whose reply was lost is simply written again.
"""

from collections.abc import Callable

from elasticd.cluster.kubernetes.session import MERGE_PATCH, ApiError, Request, Session, encode
from elasticd.cluster.kubernetes.watch.discovery import PODS, Discovery, UnknownKindError
from elasticd.cluster.kubernetes.write.answers import NOT_LEADING, conflict, refused_by, spent, unknown_kind
from elasticd.cluster.kubernetes.write.budget import Budget
from elasticd.cluster.kubernetes.write.idempotent import another
from elasticd.model.actions import Answer, Mark


class Marker:
    """Writes marks within the budget. `patience` is how many seconds one may wait for its turn."""

    def __init__(self, session: Session, discovery: Discovery, budget: Budget) -> None:
        self._session, self._discovery, self._budget = session, discovery, budget
        self.patience = 30.0

    async def mark(self, mark: Mark, allowed: Callable[[], bool]) -> Answer:
        """Write the annotations, if the object has the expected UID and `allowed` is true when their turn comes."""
        if not await self._budget.take(self.patience):
            return spent(f"the write budget is spent for the next {self.patience:g} s")
        if not allowed():
            return NOT_LEADING
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
        await self._session.send(
            Request(
                verb="patch",
                path=resource.path(ref.namespace, mark.pod or ref.name),
                resource=resource.plural,
                body=encode({"metadata": metadata}),
                content_type=MERGE_PATCH,
            )
        )


def _explain(error: ApiError, mark: Mark) -> Answer:
    if error.code == 409 and mark.version and not another(error):
        return conflict(409, f"it changed: {error}")
    if error.code in (404, 409) or another(error):  # 409: the uid is another, so that what was to be marked is gone
        return conflict(404, f"it is gone: {error}")
    return refused_by(error)
