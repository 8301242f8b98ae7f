"""Asks the API server, just before a pod is moved, whether its controller would recreate it.

Knows how a controller is read, and that it may not be readable; knows nothing of evictions.
"""

import msgspec
from msgspec.structs import replace

from elasticd.cluster.kubernetes.session import PARTIAL_LIST, ApiError, Session, decoded
from elasticd.cluster.kubernetes.watch.discovery import Discovery, Resource
from elasticd.cluster.kubernetes.wire.objects import ObjectMeta, WireList
from elasticd.cluster.kubernetes.write.answers import refused_by
from elasticd.model.actions import Answer

RESOURCES = {
    "ReplicaSet": Resource("/apis/apps/v1", "replicasets"),
    "StatefulSet": Resource("/apis/apps/v1", "statefulsets"),
    "ReplicationController": Resource("/api/v1", "replicationcontrollers"),
}
"""Where the controllers of Kubernetes are that recreate every pod of theirs."""

_CONTROLLERS = msgspec.json.Decoder(WireList[ObjectMeta])


class Controllers:
    """The controllers of pods, each read when it is asked for."""

    def __init__(self, session: Session, discovery: Discovery) -> None:
        self._session, self._discovery = session, discovery

    async def why_not_recreated(self, namespace: str, controller: tuple[str, str, str]) -> Answer | None:
        """Why the controller of this kind (see `controller_kind`), name and UID would not recreate a pod; None: it
        would, or is a Job, or there is none."""
        kind, name, uid = controller
        if "/" in kind:
            return await self._why_unserved(kind)
        return await self._why_leaving(namespace, kind, name, uid) if kind in RESOURCES else None

    async def _why_leaving(self, namespace: str, kind: str, name: str, uid: str) -> Answer | None:
        """One that is being deleted creates no pods, while the garbage collector takes it from its pods one by one."""
        # By a list: the right to that is needed anyway.
        request = RESOURCES[kind].request("list", namespace)
        request = replace(request, params={"fieldSelector": f"metadata.name={name}"}, accept=PARTIAL_LIST)
        try:
            found = decoded(await self._session.send(request), _CONTROLLERS, "list").items or ()
        except ApiError as error:
            if error.code != 403:
                return refused_by(error)
            message = f"whether {kind} {name} would recreate it cannot be read: {error.message}"
            return Answer("refused", 403, message, "ControllersUnread")
        if any(each.metadata.uid == uid and each.metadata.deletion_timestamp is None for each in found):
            return None
        is_there = any(each.metadata.uid == uid for each in found)
        what = "is being deleted" if is_there else "is gone"
        return Answer("refused", message=f"nothing would recreate it: {kind} {name} {what}", reason="NoController")

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
