"""Whether a pod has run: by its status, or for a deleted pod by the watch events that the server still has.

Knows what a kubelet writes of containers and who ends a pod before its containers start; knows nothing of why that
counts.
"""

import msgspec
from msgspec import Raw, Struct

from elasticd.cluster.kubernetes.session import ApiError, Request, Session
from elasticd.cluster.kubernetes.watch.discovery import PODS
from elasticd.cluster.kubernetes.wire.manifest import RESTORED
from elasticd.cluster.kubernetes.wire.objects import PodStatus, WatchEvent, WirePod
from elasticd.model.workload import Ref

_TAKEN_AWAY = "DisruptionTarget"
"""The condition of a pod that is ended from outside, since Kubernetes 1.26."""

_POD = msgspec.json.Decoder(WirePod)
_EVENT = msgspec.json.Decoder(WatchEvent)


class Life(Struct, frozen=True):
    """Whether a pod has run, and `waits`: the kubelet's reason why a container is waiting; empty: none is given."""

    ran: bool
    waits: str = ""


def life_of(body: bytes | Raw) -> Life:
    """Read it from a pod's JSON: a pod has run when all its containers have started, or when it failed by itself."""
    status = _POD.decode(body).status
    containers = status.container_statuses or []
    states = [container.state for container in containers if container.state]
    waits = next((state.waiting.reason for state in states if state.waiting), "")
    return Life(
        status.phase in ("Running", "Succeeded") or (status.phase == "Failed" and _failed_itself(status)), waits
    )


def _failed_itself(status: PodStatus) -> bool:
    """Whether a failed pod ran. One that was ended before its containers started did not: the kubelet rejected it or
    had too little memory, or its node is gone."""
    containers = status.container_statuses or []
    if containers and all(container.started for container in containers):
        return True
    disrupted = status.reason or any(
        condition.type == _TAKEN_AWAY and condition.status == "True" for condition in status.conditions or ()
    )
    return not disrupted and any(
        container.started for container in [*containers, *(status.init_container_statuses or ())]
    )


async def ran_since(session: Session, pod: Ref, uid: str, since: str) -> bool:
    """Whether a copy of the pod of this UID has run since that version of it, as far as the server remembers, which is
    some minutes. It is asked for a second. Raises ApiError."""
    if not since:
        return False
    only = {"fieldSelector": f"metadata.name={pod.name}", "resourceVersion": since}
    params = {"watch": "1", "timeoutSeconds": "1", **only}
    request = Request(verb="watch", path=PODS.path(pod.namespace), resource="pods", params=params, timeout=10.0)
    try:
        body = await session.send(request)
        return any(_copy_ran(_EVENT.decode(line), uid) for line in body.splitlines() if line)
    except ApiError as error:
        if error.code in (403, 405, 410):
            return False
        raise
    except (msgspec.DecodeError, ValueError) as error:
        raise ApiError(500, "Unreadable", f"what became of {pod} cannot be read: {error}") from error


def _copy_ran(event: WatchEvent, uid: str) -> bool:
    if event.type not in ("ADDED", "MODIFIED", "DELETED"):
        return False  # ERROR: it was too long ago
    annotations = _POD.decode(event.object).metadata.annotations or {}
    return annotations.get(RESTORED) == uid and life_of(event.object).ran
