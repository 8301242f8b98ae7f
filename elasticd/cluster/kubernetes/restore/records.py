"""The records of pods to recreate: one ConfigMap for each pod, written before the pod is evicted.

Its name follows from the pod's UID, so that only one daemon can be the one that wrote it: the record is also the claim
to the pod. Knows how such a record is written, found and removed; knows nothing of when.
"""

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.errors import UNREADABLE
from elasticd.cluster.kubernetes.session import ApiError, Session, decoded, encode
from elasticd.cluster.kubernetes.watch.discovery import CONFIG_MAPS
from elasticd.cluster.kubernetes.wire.objects import ObjectMeta, Wire
from elasticd.model.workload import Ref

LABEL = "elasticd.io/restore"


class Restoration(Struct, frozen=True):
    """An evicted pod, or one about to be, and the manifest to recreate it from. `by` is the daemon that wrote it,
    `made` the UID of the newest copy (empty before there is one), `why` the reason of the eviction, `since` the
    resourceVersion of the pod, or of that copy, when that was written; empty: it is not known."""

    pod: Ref
    uid: str
    manifest: str
    by: str = ""
    made: str = ""
    record: str = ""
    """The UID of its ConfigMap; empty: it is not known."""
    why: str = ""
    since: str = ""

    @property
    def name(self) -> str:
        """Of its ConfigMap."""
        return f"elasticd-restore-{self.uid}"


class _WireRecord(ObjectMeta, frozen=True):
    data: dict[str, str] | None = None


class _WireRecords(Wire, frozen=True):
    items: list[_WireRecord] | None = None


_RECORDS = msgspec.json.Decoder(_WireRecords)


class _Manifest(ObjectMeta, frozen=True):
    """Of the pod: only its name."""


class Records:
    """The ConfigMaps in the daemon's own namespace, `home`."""

    def __init__(self, session: Session, home: str) -> None:
        self._session, self.home = session, home

    async def claim(self, restoration: Restoration) -> Restoration | None:
        """Write our record and return it; None: another daemon was first. On ApiError the record may exist."""
        await self.write(restoration)
        record = await self.read(restoration)
        return record if record is not None and record.by == restoration.by else None

    async def write(self, restoration: Restoration) -> None:
        """Create the record, unless there is one already. Raises ApiError."""
        meta = {"name": restoration.name, "namespace": self.home, "labels": {LABEL: "pod"}}
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        body["data"] = {
            "uid": restoration.uid,
            "pod": restoration.manifest,
            "by": restoration.by,
            "why": restoration.why,
            "since": restoration.since,
        }
        try:
            await self._session.send(CONFIG_MAPS.request("create", self.home, body=encode(body)))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    async def read(self, restoration: Restoration) -> Restoration | None:
        """The record as it is now; None: there is none any more. Raises ApiError."""
        try:
            body = await self._session.send(CONFIG_MAPS.request("get", self.home, restoration.name))
            record = _restoration(msgspec.json.decode(body, type=_WireRecord))
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        except UNREADABLE:
            record = None
        if record is None:
            raise ApiError(
                500, "Unreadable", f"ConfigMap {self.home}/{restoration.name} is no record of a pod any more"
            )
        return record

    async def note(self, restoration: Restoration, made: str, since: str) -> None:
        """Write the UID and resourceVersion of the newest copy into the record. Raises ApiError."""
        body = encode({"data": {"made": made, "since": since}})
        await self._session.send(CONFIG_MAPS.request("patch", self.home, restoration.name, body=body))

    async def remove(self, restoration: Restoration) -> None:
        """Delete this record, but not one that was written for the same pod since. Raises ApiError."""
        body = encode({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": restoration.record}})
        try:
            await self._session.send(CONFIG_MAPS.request("delete", self.home, restoration.name, body=body))
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    async def all(self) -> tuple[list[Restoration], list[str]]:
        """All readable records, and the names of the unreadable ones, which are left alone. Raises ApiError."""
        request = replace(CONFIG_MAPS.request("list", self.home), params={"labelSelector": LABEL})
        records = decoded(await self._session.send(request), _RECORDS, "list of ConfigMaps").items or []
        parsed = [(record.metadata.name, _restoration(record)) for record in records]
        return [restoration for _, restoration in parsed if restoration is not None], [
            name for name, restoration in parsed if restoration is None
        ]


def _restoration(record: _WireRecord) -> Restoration | None:
    data = record.data or {}
    uid, manifest = data.get("uid", ""), data.get("pod", "")
    try:
        meta = msgspec.json.decode(manifest, type=_Manifest).metadata
    except UNREADABLE:
        return None
    pod = Ref(meta.namespace, "Pod", meta.name, "v1")
    by, new, why, since = (data.get(key, "") for key in ("by", "made", "why", "since"))
    restoration = Restoration(pod, uid, manifest, by, new, record.metadata.uid, why, since)
    return restoration if restoration.name == record.metadata.name else None
