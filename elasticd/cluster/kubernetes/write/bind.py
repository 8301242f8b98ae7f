"""Puts pods on nodes, and notes on a pod which node is being made free for it.

A pod is bound once: the API server refuses a second time, and one that is not the pod that was judged. Knows how a
binding is written and read back; knows nothing of why a pod goes where.
"""

from functools import partial

from elasticd.base.clock import Clock
from elasticd.cluster.kubernetes.session import MERGE_PATCH, ApiError, Request, Session, encode
from elasticd.cluster.kubernetes.watch.discovery import PODS
from elasticd.cluster.kubernetes.write.answers import conflict, failed
from elasticd.cluster.kubernetes.write.idempotent import Allowed, Once, nothing
from elasticd.cluster.kubernetes.write.pod_state import read_back
from elasticd.model.actions import Answer, Bind, Nominate


class Binder:
    """Binds and nominates."""

    def __init__(self, session: Session, once: Once, clock: Clock) -> None:
        self._session, self._once, self._clock = session, once, clock

    async def bind(self, action: Bind, allowed: Allowed) -> Answer:
        """Put the pod on the node, if it still is the one that was judged and is on none."""
        return await self._once.send(_binding(action), allowed, partial(self._look, action))

    async def _look(self, action: Bind, lost: ApiError) -> Answer | None:
        try:
            pod = await read_back(self._session, self._clock, action.workload)
        except ApiError:
            return failed(lost.code, f"{lost}; whether it was carried out cannot be read back")
        if pod is None or pod.uid != action.uid:
            return conflict(404, f"it is gone ({lost})")
        if pod.node == action.node:
            return Answer("done", lost.code, f"the reply was lost ({lost}), but it was carried out")
        if pod.node:
            return conflict(409, f"it is on {pod.node} already")
        return conflict(409, "it is being deleted") if pod.deleted else None

    async def nominate(self, action: Nominate, allowed: Allowed) -> Answer:
        """Set or clear the pod's nominated node."""
        return await self._once.send(_nomination(action), allowed, nothing)


def _binding(action: Bind) -> Request:
    ref = action.workload
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": ref.name, "namespace": ref.namespace, "uid": action.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": action.node},
    }
    path = PODS.path(ref.namespace, ref.name, "binding")
    return Request(verb="create", path=path, resource="pods/binding", body=encode(body))


def _nomination(action: Nominate) -> Request:
    body = {"metadata": {"uid": action.uid}, "status": {"nominatedNodeName": action.node or None}}
    return Request(
        verb="patch",
        path=PODS.path(action.workload.namespace, action.workload.name, "status"),
        resource="pods/status",
        body=encode(body),
        content_type=MERGE_PATCH,
    )
