"""The records of pods to recreate: one ConfigMap for each pod, written before the pod is evicted.

Its name follows from the pod's UID, so that only one daemon can be the one that wrote it: the record is also the claim
to the pod. A record counts only if it is genuine: it has elasticd's seal, and the server created it at about the time
that is sealed in it, so it is no copy of an earlier one. One that is being deleted, and is kept by a finalizer, is
deleted. A deletion names the version of the record, and one that is found is changed before it is relied on: so a
deletion that the network delivers late is refused. Knows how such a record is written, checked, found and removed;
knows nothing of when.
"""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.errors import UNREADABLE
from elasticd.base.shapes import moment
from elasticd.cluster.kubernetes.restore.seal import SEAL, SealKey
from elasticd.cluster.kubernetes.session import ApiError, Session, decoded, encode
from elasticd.cluster.kubernetes.watch.discovery import CONFIG_MAPS
from elasticd.cluster.kubernetes.wire.objects import Metadata, ObjectMeta, WireList
from elasticd.model.rights import RESTORE_KEY
from elasticd.model.workload import Ref

LABEL = "elasticd.io/restore"

CLAIMED = "elasticd.io/claimed-again-at"
"""Annotation of a record that was changed for the sake of its version, as where it was there already when its daemon
wanted to evict the pod."""

WINDOW = 300.0
"""Seconds at most between the time that is sealed in a record and that of its creation, by the server's clock."""


class Restoration(Struct, frozen=True):
    """An evicted pod, or one about to be, and the manifest to recreate it from. `by` is the process that wrote it,
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
    written: str = ""
    """When its ConfigMap was written, by the clock of the daemon that did, as the API writes times."""
    namespace: str = ""
    """The UID of the pod's namespace; empty: it is not known."""
    place: str = ""
    """The place that was found for its copy, as JSON (Place); empty: none was, or it is not known."""
    lease: str = ""
    """Namespace and name of the Lease whose daemons continue it; empty: any does, as earlier versions wrote none."""
    evicted: str = ""
    """When it was seen that its pod had been evicted, though etcd, which was put back, knows nothing of it; empty: the
    pod itself tells."""
    others: tuple[tuple[str, str], ...] = ()
    """What a newer version of elasticd has written beside: it is sealed with the rest."""
    version: str = ""
    """The resourceVersion of its ConfigMap, as last read; empty: it is not known."""

    @property
    def name(self) -> str:
        """Of its ConfigMap."""
        return f"elasticd-restore-{self.uid}"

    def data(self) -> dict[str, str]:
        """Of its ConfigMap, without the seal."""
        return {
            **dict(self.others),
            "uid": self.uid,
            "pod": self.manifest,
            "by": self.by,
            "made": self.made,
            "why": self.why,
            "since": self.since,
            "written": self.written,
            **({"namespace": self.namespace} if self.namespace else {}),
            **({"place": self.place} if self.place else {}),
            **({"lease": self.lease} if self.lease else {}),
            **({"evicted": self.evicted} if self.evicted else {}),
        }


class LeftAlone(Struct, frozen=True):
    """A ConfigMap that has the label of records and is none, by its name and UID, and why it is none."""

    name: str
    uid: str
    why: str


class NotGenuineError(ApiError):
    """A record is not elasticd's own, or not any more. Its message says which, and why."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "NotGenuine", message, sent=False)


class _WireRecord(ObjectMeta, frozen=True):
    data: dict[str, str] | None = None


_RECORD = msgspec.json.Decoder(_WireRecord)
_RECORDS = msgspec.json.Decoder(WireList[_WireRecord])


class _Manifest(ObjectMeta, frozen=True):
    """Of the pod: only its name."""


class Records:
    """The ConfigMaps in the daemon's own namespace, `home`."""

    def __init__(self, session: Session, home: str, now: Callable[[], float]) -> None:
        """`now`: the time of day, which the server's is compared with."""
        self._session, self.home, self._now, self._key = session, home, now, SealKey(session, home)

    async def claim(self, restoration: Restoration) -> Restoration | None:
        """Write our record and return it; None: another daemon was first. Raises NotGenuineError if it would not count,
        as with a wrong clock, or the other one does not. On ApiError the record may exist."""
        await self._key.keep(create=True)
        written = await self._write(restoration)
        try:
            record = await self._read(restoration, new=True)
        except NotGenuineError:
            with contextlib.suppress(ApiError):
                if written is not None:
                    await self.remove(written)
            raise
        if record is None or record.by != restoration.by:
            return None
        return record if written is not None else await self.touch(record)

    async def touch(self, record: Restoration) -> Restoration:
        """Change this record as it is there, and return it in its new version. Raises ApiError."""
        meta = {"uid": record.record, "annotations": {CLAIMED: moment(self._now()) or ""}}
        body = encode({"metadata": meta})
        changed = await self._session.send(CONFIG_MAPS.request("patch", self.home, record.name, body=body))
        return replace(record, version=decoded(changed, _RECORD, "ConfigMap").metadata.resource_version)

    async def write(self, restoration: Restoration) -> Restoration | None:
        """Create the record, and return it; None: there is one already. Raises ApiError."""
        await self._key.keep(create=False)  # in an etcd that was put back there may be another key, or none
        return await self._write(restoration)

    async def _write(self, restoration: Restoration) -> Restoration | None:
        meta = {"name": restoration.name, "namespace": self.home, "labels": {LABEL: "pod"}}
        now = datetime.fromtimestamp(self._now(), UTC)
        data = self._sealed(replace(restoration, written=f"{now:%Y-%m-%dT%H:%M:%SZ}"))
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
        try:
            created = await self._session.send(CONFIG_MAPS.request("create", self.home, body=encode(body)))
        except ApiError as error:
            if error.reason == "AlreadyExists" or await self._is_there(restoration):
                return None
            raise
        made = decoded(created, _RECORD, "ConfigMap").metadata
        return replace(restoration, record=made.uid, version=made.resource_version)

    async def _is_there(self, restoration: Restoration) -> bool:
        """Whether a record exists whose creation was refused: a quota that it has used up itself, or a webhook, refuses
        it before the server looks whether its name is taken."""
        with contextlib.suppress(ApiError):
            await self._session.send(CONFIG_MAPS.request("get", self.home, restoration.name))
            return True
        return False

    async def read(self, restoration: Restoration) -> Restoration | None:
        """The record as it is now; None: there is none any more. Raises ApiError."""
        return await self._read(restoration)

    async def _read(self, restoration: Restoration, *, new: bool = False) -> Restoration | None:
        """The same; `new`: no pod was evicted yet, and admission must have left it a record that lasts."""
        try:
            body = await self._session.send(CONFIG_MAPS.request("get", self.home, restoration.name))
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        wire = decoded(body, _RECORD, "ConfigMap")
        if wire.metadata.deletion_timestamp:
            return None
        checked = self._check(wire)
        if isinstance(checked, str) and await self._key.read():  # it may have been sealed with a newer key
            checked = self._check(wire)
        if new and not isinstance(checked, str):
            checked = _why_lost(wire.metadata) or checked
        if isinstance(checked, str):
            raise NotGenuineError(f"ConfigMap {self.home}/{restoration.name} does not count: {checked}")
        return checked

    async def note(self, restoration: Restoration, made: str, since: str) -> None:
        """Write the UID and resourceVersion of the newest copy into this record: one of its name that was written since
        is left alone, however late this arrives, as its seal would fit no more. Raises ApiError."""
        data = self._sealed(replace(restoration, made=made, since=since))
        changed = {key: data[key] for key in ("made", "since", SEAL)}
        body = encode({"metadata": {"uid": restoration.record}, "data": changed})
        await self._session.send(CONFIG_MAPS.request("patch", self.home, restoration.name, body=body))

    async def record_again(self, restoration: Restoration) -> Restoration:
        """Record that its pod was evicted, of which etcd, that was put back to an older state, does not know; it may
        lack the record too. Raises ApiError."""
        await self._key.keep(create=False)
        evicted = replace(restoration, evicted=moment(self._now()) or "")
        record = await self.read(restoration)
        if record is None:
            return await self._write(replace(evicted, made="")) or evicted
        if not record.evicted:
            data = self._sealed(replace(record, evicted=evicted.evicted))
            changed = {key: data[key] for key in ("evicted", SEAL)}
            body = encode({"metadata": {"uid": record.record}, "data": changed})
            await self._session.send(CONFIG_MAPS.request("patch", self.home, restoration.name, body=body))
        return evicted

    async def remove(self, restoration: Restoration) -> bool:
        """Delete this record, but not one that was written for the same pod since, or claimed again; return whether it
        was there. Raises ApiError."""
        named = {"uid": restoration.record, **({"resourceVersion": restoration.version} if restoration.version else {})}
        body = encode({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": named})
        try:
            await self._session.send(CONFIG_MAPS.request("delete", self.home, restoration.name, body=body))
        except ApiError as error:
            if error.code in (404, 409):
                return False
            raise
        return True

    async def all(self) -> tuple[list[Restoration], list[LeftAlone]]:
        """All genuine records, and those that are none. Writes the key again if it is gone. Raises ApiError."""
        records = await self._list()
        if records:
            await self._key.keep(create=False)
        checked = [(record.metadata, self._check(record)) for record in records]
        return [record for _, record in checked if isinstance(record, Restoration)], [
            LeftAlone(meta.name, meta.uid, why) for meta, why in checked if isinstance(why, str)
        ]

    async def listed(self) -> list[Restoration]:
        """What looks like a record, whoever wrote it, without a look at the key. Raises ApiError."""
        found = [_restoration(record) for record in await self._list()]
        return [restoration for restoration in found if restoration is not None]

    async def _list(self) -> list[_WireRecord]:
        request = replace(CONFIG_MAPS.request("list", self.home), params={"labelSelector": LABEL})
        records = decoded(await self._session.send(request), _RECORDS, "list of ConfigMaps").items or []
        return [record for record in records if not record.metadata.deletion_timestamp]

    def _sealed(self, restoration: Restoration) -> dict[str, str]:
        data = restoration.data()
        return {**data, SEAL: self._key.seal(restoration.name, data)}

    def _check(self, record: _WireRecord) -> Restoration | str:
        """What a record says, if it is elasticd's own, or why it does not count."""
        if not self._key.fits(record.metadata.name, record.data or {}):
            return f"somebody else wrote or changed it, or Secret {RESTORE_KEY} has another key than it was sealed with"
        restoration, created = _restoration(record), record.metadata.creation_timestamp
        if restoration is None or created is None:
            return "it has no manifest of a pod that can be read"
        apart = (created - datetime.fromisoformat(restoration.written)).total_seconds()
        if abs(apart) <= WINDOW:
            return restoration
        when = f"{abs(apart):.0f} s {'after' if apart > 0 else 'before'}"
        return f"it was created {when} the time in it: it is a copy, or elasticd's clock and the API server's differ"


def _why_lost(metadata: Metadata) -> str:
    """Why the next daemon would not find a record, as admission has changed its metadata; empty: it would."""
    if LABEL not in (metadata.labels or {}):
        return f"its label {LABEL} was removed, as by a webhook"
    if metadata.owner_references:
        return "it was given an owner, as by a webhook, with which it would be deleted"
    return ""


def _restoration(record: _WireRecord) -> Restoration | None:
    data = record.data or {}
    by, made, why, since, written = (data.get(key, "") for key in ("by", "made", "why", "since", "written"))
    try:
        meta = msgspec.json.decode(data.get("pod", ""), type=_Manifest).metadata
        datetime.fromisoformat(written)
    except UNREADABLE:
        return None
    pod, uid, manifest = Ref(meta.namespace, "Pod", meta.name, "v1"), data.get("uid", ""), data.get("pod", "")
    namespace, place, lease, evicted = (data.get(key, "") for key in ("namespace", "place", "lease", "evicted"))
    restoration = Restoration(
        pod, uid, manifest, by, made, record.metadata.uid, why, since, written, namespace, place, lease, evicted
    )
    others = tuple(item for item in data.items() if item[0] not in restoration.data() and item[0] != SEAL)
    known = replace(restoration, others=others, version=record.metadata.resource_version)
    return known if restoration.name == record.metadata.name else None
