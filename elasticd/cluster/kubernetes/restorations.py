"""What must be made anew, written into the cluster before anything is taken away: one ConfigMap for each pod.

Knows how such a record is written, found and removed; knows nothing of when.
"""

from typing import Any

import msgspec
from msgspec import Struct

from elasticd.cluster.kubernetes.discovery import CONFIG_MAPS
from elasticd.cluster.kubernetes.session import ApiError, Request, Session, encode
from elasticd.cluster.kubernetes.wire import ObjectMeta
from elasticd.cluster.kubernetes.wire_template import Wire
from elasticd.model import Ref

LABEL = "elasticd.io/restore"


class Restoration(Struct, frozen=True):
    """A pod that has been evicted, or is about to be, and from what it is made anew."""

    pod: Ref
    uid: str
    manifest: str

    @property
    def name(self) -> str:
        """Of its ConfigMap."""
        return f"elasticd-restore-{self.uid}"


class _WireRecord(ObjectMeta, frozen=True):
    data: dict[str, str] | None = None


class _WireRecords(Wire, frozen=True):
    items: list[_WireRecord] | None = None


class _Manifest(ObjectMeta, frozen=True):
    """Of the pod: only its name."""


class Records:
    """The ConfigMaps in the daemon's own namespace, `home`."""

    def __init__(self, session: Session, home: str) -> None:
        self._session, self.home = session, home

    async def write(self, one: Restoration) -> None:
        """Let there be a record; one that is there stays. Raises ApiError."""
        meta = {"name": one.name, "namespace": self.home, "labels": {LABEL: "pod"}}
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        body["data"] = {"uid": one.uid, "pod": one.manifest}
        path = CONFIG_MAPS.path(self.home)
        try:
            await self._session.send(Request(verb="create", path=path, resource="configmaps", body=encode(body)))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    async def has(self, one: Restoration) -> bool:
        """Whether there still is one. Raises ApiError."""
        try:
            await self._session.send(Request(verb="get", path=self._path(one), resource="configmaps"))
        except ApiError as error:
            if error.code == 404:
                return False
            raise
        return True

    async def remove(self, one: Restoration) -> None:
        """Let there be none. Raises ApiError."""
        try:
            await self._session.send(Request(verb="delete", path=self._path(one), resource="configmaps"))
        except ApiError as error:
            if error.code != 404:
                raise

    async def all(self) -> list[Restoration]:
        """All that there are. One that cannot be read is left alone. Raises ApiError."""
        path, only = CONFIG_MAPS.path(self.home), {"labelSelector": LABEL}
        body = await self._session.send(Request(verb="list", path=path, resource="configmaps", params=only))
        try:
            found = msgspec.json.decode(body, type=_WireRecords).items or []
        except (msgspec.DecodeError, ValueError) as error:
            raise ApiError(500, "Unreadable", f"the server's answer is no list of ConfigMaps: {error}") from error
        return [one for one in map(_restoration, found) if one is not None]

    def _path(self, one: Restoration) -> str:
        return CONFIG_MAPS.path(self.home, one.name)


def _restoration(found: _WireRecord) -> Restoration | None:
    data = found.data or {}
    uid, manifest = data.get("uid", ""), data.get("pod", "")
    try:
        meta = msgspec.json.decode(manifest, type=_Manifest).metadata
    except (msgspec.DecodeError, ValueError):
        return None
    made = Restoration(Ref(meta.namespace, "Pod", meta.name, "v1"), uid, manifest)
    return made if made.name == found.metadata.name else None
