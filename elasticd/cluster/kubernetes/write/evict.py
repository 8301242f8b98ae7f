"""Evicts pods through the eviction API, which keeps their disruption budgets; never by deleting them.

A pod is read first and evicted as it was read, so that of two daemons only one does it: who comes second finds it being
deleted. Knows how the API says no, in the version of policy that the server serves; knows nothing of who shall go.
"""

from collections.abc import Callable
from functools import partial

from elasticd.base.clock import Clock
from elasticd.cluster.kubernetes.session import ApiError, Request, Session, encode
from elasticd.cluster.kubernetes.watch.discovery import PODS, Discovery
from elasticd.cluster.kubernetes.write.answers import conflict, failed, refused_by
from elasticd.cluster.kubernetes.write.idempotent import Allowed, Once, plainly
from elasticd.cluster.kubernetes.write.pod_state import PodState, read_back, read_pod
from elasticd.model.actions import Answer, Evict

_SEVERAL = "more than one PodDisruptionBudget"
_BUDGET = "DisruptionBudget"
GONE = Answer("done", 404, "it was gone already", "NotFound")
TERMINATING = Answer("done", 0, "it is being deleted already", "Terminating")
TRIES = 4
"""Looks at a pod that keeps changing, as one does that is just starting, before it is left for now."""


Unfit = Callable[[PodState | None], Answer | None]
"""Why a pod is not to be evicted, by what is read of it just before."""


class Evictor:
    """Evicts."""

    def __init__(self, session: Session, discovery: Discovery, once: Once, clock: Clock) -> None:
        self._session, self._discovery, self._once, self._clock = session, discovery, once, clock

    async def evict(self, action: Evict, allowed: Allowed, unfit: Unfit | None = None) -> Answer:
        """Evict the pod, if it still is the one that the decision was about, and `unfit` has no objection to its
        present state."""
        try:
            version = await self._discovery.body_of("v1", "pods/eviction")
        except ApiError as error:
            return refused_by(error)
        if version is None:
            return failed(404, "the API server has no pods/eviction")
        answer = refused_by(ApiError(0, "NoAnswer", "it was not tried"))
        for _ in range(TRIES):
            try:
                pod = await read_pod(self._session, action.workload)
            except ApiError as error:
                return refused_by(error)
            if stop := _unfit(action, pod) or (unfit and unfit(pod)):
                return stop
            request = _eviction(action, pod.version if pod else "", version)
            answer = await self._once.send(request, allowed, partial(self._look, action), _refused)
            if (answer.result, answer.code) != ("conflict", 409):
                break
        return answer

    async def _look(self, action: Evict, lost: ApiError) -> Answer | None:
        try:
            pod = await read_back(self._session, self._clock, action.workload)
        except ApiError:
            return failed(lost.code if lost.lost else 0, f"{lost}; whether it was carried out cannot be read back")
        if pod is None or pod.uid != action.uid or pod.deleted:
            return Answer("done", lost.code, f"the reply was lost ({lost}), but it was carried out")
        return None


def _unfit(action: Evict, pod: PodState | None) -> Answer | None:
    """Why there is nothing to evict."""
    if pod is None:
        return GONE
    if pod.uid != action.uid:
        return conflict(404, "it is gone: another pod has its name")
    return TERMINATING if pod.deleted else None


def _eviction(action: Evict, resource_version: str, version: str) -> Request:
    ref = action.workload
    body = {
        "apiVersion": version,
        "kind": "Eviction",
        "metadata": {"name": ref.name, "namespace": ref.namespace},
        "deleteOptions": {"preconditions": {"uid": action.uid, "resourceVersion": resource_version}},
    }
    path = PODS.path(ref.namespace, ref.name, "eviction")
    return Request(verb="create", path=path, resource="pods/eviction", body=encode(body))


def _refused(error: ApiError) -> Answer:
    """A budget that forbids it says so with the status of a busy server, and several budgets with that of a fault."""
    if error.code == 429 and (_BUDGET in error.causes or "disruption budget" in error.message):
        return Answer("refused", 429, error.message, "Budget")
    if error.code == 500 and _SEVERAL in error.message:
        return Answer("refused", 500, error.message, "Budgets")
    return GONE if error.code == 404 else plainly(error)
