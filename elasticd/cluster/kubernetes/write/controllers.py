"""Asks the API server, just before a pod is moved, whether its controller would recreate it.

Knows how a controller is read, and that it may not be readable; knows nothing of evictions.
"""

from collections.abc import Collection, Mapping

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from elasticd.base.clock import Clock
from elasticd.base.text import counted
from elasticd.cluster.kubernetes.session import ApiError, Session, decoded
from elasticd.cluster.kubernetes.watch.discovery import Discovery, Resource
from elasticd.cluster.kubernetes.watch.store import PodStore
from elasticd.cluster.kubernetes.wire.objects import UNREAD, LabelSelector, ObjectMeta, Wire, WireList
from elasticd.cluster.kubernetes.wire.selector import SelectorError, parse_selector, to_text
from elasticd.cluster.kubernetes.write.answers import refused_by
from elasticd.model.actions import OUTDATED, Answer
from elasticd.model.controllers import lacks_more_than_may
from elasticd.model.workload import Pod

RESOURCES = {
    "ReplicaSet": Resource("/apis/apps/v1", "replicasets"),
    "StatefulSet": Resource("/apis/apps/v1", "statefulsets"),
    "ReplicationController": Resource("/api/v1", "replicationcontrollers"),
    "Job": Resource("/apis/batch/v1", "jobs"),
}
"""Where the controllers of Kubernetes are that recreate pods of theirs."""


class _Spec(Wire, frozen=True):
    replicas: int | None = None
    min_ready_seconds: int | None = None
    selector: Raw = UNREAD
    completions: int | None = None


class _Status(Wire, frozen=True):
    replicas: int | None = None
    ready_replicas: int = 0
    succeeded: int = 0


class _Controller(ObjectMeta, frozen=True):
    spec: _Spec = _Spec()
    status: _Status = _Status()


_CONTROLLERS = msgspec.json.Decoder(WireList[_Controller])


class Controllers:
    """The controllers of pods, each read when it is asked for; their pods are those that the watch shows."""

    def __init__(self, session: Session, discovery: Discovery, pods: PodStore, clock: Clock) -> None:
        self._session, self._discovery, self._pods, self._clock = session, discovery, pods, clock

    async def why_not_recreated(
        self, namespace: str, controller: tuple[str, str, str], labels: Mapping[str, str], *, ready: bool = False
    ) -> Answer | None:
        """Why the controller of this kind (see `controller_kind`), name and UID would not recreate a pod with these
        labels; None: it would, or there is none. `ready`: the pod is, and would be missed, so none goes while the
        controller has too few, as where a quota or a webhook refuses what it creates, or kube-controller-manager is
        away: what it wrote last of them is no proof. Nor does one go while it has too many, as it may delete others, or
        while it says that fewer are ready than the watch shows, which may have fallen silent."""
        kind, name, uid = controller
        if kind not in RESOURCES:
            return await self._why_unserved(kind) if "/" in kind else None
        # By a list: the right to that is needed anyway.
        request = RESOURCES[kind].request("list", namespace)
        request = replace(request, params={"fieldSelector": f"metadata.name={name}"})
        try:
            found = decoded(await self._session.send(request), _CONTROLLERS, "list").items or ()
        except ApiError as error:
            if error.code != 403:
                return refused_by(error)
            message = f"whether {kind} {name} would recreate it cannot be read: {error.message}"
            return Answer("refused", 403, message, "ControllersUnread")
        present = next((each for each in found if each.metadata.uid == uid), None)
        if why := _why_not(kind, present, labels):
            return Answer("refused", message=f"nothing would recreate it: {kind} {name} {why}", reason="NoController")
        if not ready or present is None:
            return None
        pods = [pod for pod in self._pods.all_of(namespace) if pod.owner[2] == uid]
        return (
            _why_missed(kind, present, pods)
            or self._why_not_available(kind, present, pods)
            or _why_unlike_watched(kind, present, pods)
        )

    def _why_not_available(self, kind: str, controller: _Controller, pods: Collection[Pod]) -> Answer | None:
        """Why no ready pod goes while another has not been ready for minReadySeconds: it may replace one that went."""
        wanted, seconds = controller.spec.replicas, controller.spec.min_ready_seconds
        if not seconds or wanted is None:
            return None
        ready, now = [pod for pod in pods if pod.is_active and pod.ready], self._clock.now()
        available = sum(pod.is_available(seconds, now) for pod in ready)
        if available == len(ready) or not lacks_more_than_may(wanted, available):
            return None
        lack = f"{available} of {wanted} pods of {kind} {controller.metadata.name} are ready"
        return Answer("refused", message=f"{lack}, for {seconds} s (minReadySeconds)", reason="NotReplaced")

    async def _why_unserved(self, kind: str) -> Answer | None:
        """A kind (GROUP/VERSION/KIND) may not be served any more, in whatever version."""
        *group, _, name = kind.split("/")
        try:
            if await self._discovery.serves("/".join(group), name):
                return None
        except ApiError as error:
            return refused_by(error)
        message = f"nothing would recreate it: the server does not serve {'/'.join(group)} {name}"
        return Answer("refused", message=message, reason="NoController")


def _why_missed(kind: str, controller: _Controller, pods: Collection[Pod]) -> Answer | None:
    """Why a ready pod of a controller that has these would be missed. Of a StatefulSet those that are about to end
    count as created, as their names are taken until then; too many are those that no controller has told to go yet."""
    whose, wanted = f"{kind} {controller.metadata.name}", controller.spec.replicas
    active = sum(pod.is_active for pod in pods)
    ending = sum(pod.deleted and not pod.has_ended for pod in pods) if kind == "StatefulSet" else 0
    if lack := _lack(controller, active + ending):
        return Answer("refused", message=f"{whose} {lack}", reason="NotReplaced")
    if wanted is None or active <= wanted:
        return None
    message = f"{whose} has {counted(active, 'pod')}, is to have {wanted}, and has yet to delete the others"
    return Answer("refused", message=message, reason="Scaling")


def _why_unlike_watched(kind: str, controller: _Controller, pods: Collection[Pod]) -> Answer | None:
    """Why no ready pod goes while its controller knows of others that are not ready, and the watch does not."""
    wanted, told = controller.spec.replicas, controller.status.ready_replicas
    shown = sum(pod.is_active and pod.ready is True for pod in pods)
    if wanted is None or controller.status.replicas is None or told >= shown or not lacks_more_than_may(wanted, told):
        return None
    message = f"{kind} {controller.metadata.name} says that {told} of its pods are ready, the watch of pods {shown}"
    return Answer("refused", message=f"{message}: it is judged anew", reason=OUTDATED)


def _lack(controller: _Controller, present: int) -> str:
    """Which pods a controller has yet to create; empty: few enough. A Job has no such counts."""
    wanted, counted_last = controller.spec.replicas, controller.status.replicas
    created = present if counted_last is None else min(present, counted_last)
    if wanted is None or not lacks_more_than_may(wanted, created):
        return ""
    return f"has {created} of {counted(wanted, 'pod')}, and would not replace it either"


def _why_not(kind: str, controller: _Controller | None, labels: Mapping[str, str]) -> str:
    """What keeps a controller from recreating a pod; empty: nothing. One that is being deleted creates none, while the
    garbage collector takes it from its pods one by one; nor does one that does not select the pod any more, which it
    has yet to release; nor a Job of a work queue once a pod of it has succeeded."""
    if controller is None:
        return "is gone"
    if controller.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if kind == "Job" and controller.spec.completions is None and controller.status.succeeded:
        return "has no completions, and a pod of it has succeeded"
    try:
        return "" if _selects(kind, controller.spec.selector, labels) else "does not select it any more"
    except (SelectorError, msgspec.MsgspecError):
        return "has a selector that cannot be read"


def _selects(kind: str, selector: Raw, labels: Mapping[str, str]) -> bool:
    if kind == "ReplicationController":
        return msgspec.json.decode(selector, type=dict[str, str]).items() <= labels.items()
    return parse_selector(to_text(msgspec.json.decode(selector, type=LabelSelector))).matches(labels)
