"""Who leads: one Lease, held by one of several daemons.

Knows the rules of client-go's leader election. A holder that cannot renew stops leading on its own clock well before
others may take over on theirs; nobody trusts a time that another clock wrote. Knows nothing of what leading is for.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from elasticd.base.clock import Clock
from elasticd.base.errors import UNREADABLE
from elasticd.base.news import LastReported
from elasticd.cluster.kubernetes.session import ApiError, Request, Session, encode
from elasticd.cluster.kubernetes.watch.discovery import LEASES
from elasticd.cluster.kubernetes.watch.versions import is_older
from elasticd.cluster.kubernetes.wire.objects import LeaseSpec, ObjectMeta, WireLease

logger = logging.getLogger(__name__)

_NEVER = float("-inf")

_MOST_TRANSITIONS = 2**31 - 1
"""The server refuses a Lease with more."""

_WRITTEN = 16
"""Renewals that are remembered: of the last few the reply may be lost."""

HOLDER = "elasticd.io/last-holder"
"""Annotation of the Lease: who held it last, also after it was released, and when that one took it from somebody else,
in seconds since the epoch on its own clock."""

DISRUPTED = "elasticd.io/last-disruption"
"""Annotation of the Lease: who held it last, and when that one last made a pod go, or was about to, on its own clock. A
Lease without it tells that none ever was."""

POLICIES = "elasticd.io/policies"
"""Annotation of the Lease: who held it last, and what `config.digest` says of the policies of that one."""

Name = Annotated[str, Meta(min_length=1, max_length=253)]


class LeaseSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[cluster.lease]` table. Times in seconds."""

    enabled: Annotated[bool, Meta(description="whether several daemons share the cluster")] = True
    name: Annotated[Name, Meta(description="of the Lease")] = "elasticd"
    namespace: Annotated[str, Meta(description='of the Lease; empty: the pod\'s own, else "elasticd"')] = ""
    duration: Annotated[float, Meta(ge=1, description="others wait this long before they take over")] = 15.0
    renew: Annotated[float, Meta(gt=0, description="the leader stops after this long without a renewal")] = 10.0
    retry: Annotated[float, Meta(gt=0, description="between two attempts to take or renew it")] = 2.0

    def __post_init__(self) -> None:
        if self.renew >= self.duration:
            raise ValueError(f"renew: must be < duration = {self.duration:g}, is {self.renew:g}")
        if self.retry >= self.renew:
            raise ValueError(f"retry: must be < renew = {self.renew:g}, is {self.retry:g}")


class Elector:
    """One candidate. `leading` may be asked at any time, and is false as soon as the last renewal is too old."""

    def __init__(
        self,
        session: Session,
        clock: Clock,
        settings: LeaseSettings,
        identity: str,
        time_of_day: Callable[[], float] = time.time,
    ) -> None:
        self._session, self._clock, self._settings, self._identity = session, clock, settings, identity
        self._time_of_day = time_of_day
        self._until, self._until_time = _NEVER, _NEVER
        """When leadership ends without another renewal, by the clock and by the time of day: the clock stands still
        while a virtual machine is paused."""
        self.since = _NEVER
        """When it last began to lead, as far back as others may have led before."""
        self.taken_over = _NEVER
        """When the lease was last taken from somebody else."""
        self.last_disruption = _NEVER
        """When we, or who led before us, last made a pod go, by our clock, as the lease says or will; where it is not
        known exactly, the latest that it can have been."""
        self.abandoned = _NEVER
        """When the lease was last taken from a daemon that did not release it, also this one before its restart, and
        that had made pods go; or was made anew, as somebody had deleted it."""
        self._last_spec: LeaseSpec | None = None
        self._spec_since = 0.0
        self._version = ""
        self._tells_disruption = False
        """Whether the lease says that pods were made to go."""
        self._seen = False
        """Whether a lease was ever there: one that is gone may have said anything."""
        self._stepping = asyncio.Lock()
        self._restored = False
        """Whether etcd was restored from a backup since we last led, so that it is not known who led after that."""
        self._raw: dict[str, Any] | None = None
        self._written = deque[str](maxlen=_WRITTEN)
        """The renewTimes that this process wrote, or tried to: what has another is somebody else's, whatever name it
        has."""
        self._twin = False
        """Whether another process was seen to hold the lease in our name."""
        self.why_blind: Callable[[], str] = lambda: ""
        """Why another should lead, as this daemon does not see the cluster; empty: it does."""
        self.note_rollback: Callable[[str, str], None] = lambda before, after: None
        """Is told the versions when the lease is an earlier one than was read before."""
        self._reported, self._other_reported = LastReported(first=False), LastReported(first="")
        self.fault = ""
        self.policies = ""
        """A digest of the policies in force, how many act, and how many there are; empty: not known yet."""
        self._leaders_policies = ""
        """The same of the leader, as last seen; empty: it does not say."""

    def note_disruption(self) -> None:
        """A pod was made to go: the next renewal says so."""
        self.last_disruption = self._clock.now()

    async def foretell_disruption(self) -> str:
        """Have the lease say that pods are made to go before the first one is: the next renewal may come too late for
        whoever leads next. Returns why it does not; empty: it does."""
        if not self._tells_disruption:
            self.note_disruption()
            await self.step()
        return "" if self._tells_disruption else self.fault or "another daemon leads"

    @property
    def leading(self) -> bool:
        return self._clock.now() < self._until and self._time_of_day() < self._until_time

    @property
    def leader(self) -> str:
        """Who holds the lease, as last seen; empty: nobody, or it has run out since."""
        spec = self._last_spec
        if spec is None or self._clock.now() >= self._spec_since + self._lasts(spec):
            return ""
        return spec.holder_identity or ""

    @property
    def other_policies(self) -> str:
        """That the leader has other policies than this daemon; empty: it has the same, or it is not known."""
        theirs, leader = self._leaders_policies, self.leader
        if self.leading or leader in ("", self._identity) or not self.policies or theirs in ("", self.policies):
            return ""
        (_, acting, every), (_, ours, all_ours) = theirs.split(" "), self.policies.split(" ")
        lease = f"{self._settings.namespace}/{self._settings.name}"
        return (
            f"{leader} leads with other policies than these: {acting} of {every} act there, {ours} of {all_ours} here, "
            "and a digest of all their keys, defaults included, differs (compare the files, and the versions of "
            f"elasticd and plugins); all that share the Lease {lease} need the same, and others a Lease of their own"
        )

    def _lasts(self, spec: LeaseSpec) -> float:
        return float(spec.lease_duration_seconds or self._settings.duration)

    async def run(self) -> None:
        while True:
            started = self._clock.now()
            try:
                await self.step()
            except Exception:
                # A fault of ours must not end the daemon: without a renewal it stops leading by itself.
                logger.exception("the lease cannot be kept")
                self._raw = None
            await self._clock.sleep_until(started + self._settings.retry)

    async def step(self) -> None:
        async with self._stepping:
            await self._attempt()

    async def _attempt(self) -> None:
        try:
            if blind := self.why_blind():
                self._miss(blind)  # it runs out
            else:
                await self._step()
                self.fault = self._twin_fault()
        except (ApiError, *UNREADABLE) as error:
            self._miss(str(error))
        self._tell()

    def _miss(self, fault: str) -> None:
        self._raw = None  # whatever happened, look before the next write
        if not self.fault:
            logger.warning("lease %s/%s: %s", self._settings.namespace, self._settings.name, fault)
        self.fault = fault

    def _tell(self) -> None:
        leading = self.leading
        if self._reported.changed(leading):
            logger.info("%s %s", self._identity, "leads" if leading else "no longer leads")
        if self._other_reported.changed(other := self.other_policies) and other:
            logger.warning("%s", other)

    async def _step(self) -> None:
        if self._raw is not None:  # ours when last written: one request renews it
            try:
                return await self._claim(self._raw)
            except ApiError as error:
                if error.code not in (404, 409):
                    raise
                if error.code == 404:
                    self._until = _NEVER  # deleted: anybody may already have made a new one
        return await self._look_and_claim()

    async def _look_and_claim(self) -> None:
        self._raw = None
        try:
            raw = await self._send("get", self._settings.name)
        except ApiError as error:
            if error.code != 404:
                raise
            self._last_spec = None
            return await self._claim(None)
        spec = msgspec.convert(raw, WireLease).spec
        self._note_version(raw)
        annotations = msgspec.convert(raw, ObjectMeta).metadata.annotations or {}
        self._leaders_policies = _policies_of(annotations.get(POLICIES, ""), spec.holder_identity or "")
        self._seen = True
        if spec != self._last_spec:
            self._note_twin(spec)
            self._last_spec, self._spec_since = spec, self._clock.now()
        if self._may_take(spec):
            return await self._claim(raw)
        self._until = _NEVER
        return None

    def _note_version(self, raw: dict[str, Any]) -> None:
        """Notice a lease that is older than the last one, as after a restore of etcd: who it names need not be who led
        last, and what we wrote into it ourselves is of no use to know who leads now."""
        version = _version_of(raw)
        if is_older(version, than=self._version):
            logger.info("the lease is an earlier one, as after a restore of etcd: it is left to run out")
            self.note_rollback(self._version, version)
            self._restored, self._last_spec = True, None
            self._written.clear()
        self._version = version

    def _note_twin(self, spec: LeaseSpec) -> None:
        """Note that somebody else changes the lease in our name: one that merely died does not."""
        last = self._last_spec
        if last is None or self._wrote(spec):
            return
        held = spec.holder_identity == self._identity
        released = not spec.holder_identity and last.holder_identity == self._identity and not self._wrote(last)
        if (held or released) and not self._twin:
            self._twin = True
            logger.error("%s", self._twin_text())

    def _twin_fault(self) -> str:
        """What a twin that holds the lease is told for; empty: another, whose name is its own, holds it by now."""
        last = self._last_spec
        held = last is not None and last.holder_identity == self._identity and not self._wrote(last)
        return self._twin_text() if self._twin and held and not self.leading else ""

    def _twin_text(self) -> str:
        return (
            f'another elasticd leads as "{self._identity}" too: give each process its own [cluster] identity, or leave '
            "it out"
        )

    def _wrote(self, spec: LeaseSpec) -> bool:
        return spec.renew_time in self._written

    def _may_take(self, spec: LeaseSpec) -> bool:
        """Whether it is free, ours, or unchanged for so long, on our clock, that its holder must have stopped. One that
        another process wrote in our name, such as this daemon's before its restart, is not ours."""
        if not spec.holder_identity or (spec.holder_identity == self._identity and self._wrote(spec)):
            return True
        return self._clock.now() >= self._spec_since + self._lasts(spec)

    async def _claim(self, raw: dict[str, Any] | None) -> None:
        """Write ourselves as the holder. Leadership counts from before the request, however long it took."""
        started, started_time = self._clock.now(), self._time_of_day()
        spec = self._claimed((raw or {}).get("spec") or {}, self._stamped(started))
        meta = (raw or {}).get("metadata") or {"name": self._settings.name, "namespace": self._settings.namespace}
        annotations = meta.get("annotations") or {}
        holder = ((raw or {}).get("spec") or {}).get("holderIdentity") or ""
        # Known before the request, whose reply may be lost.
        was = msgspec.convert((raw or {}).get("spec") or {}, LeaseSpec)
        self.taken_over = (
            started
            if self._restored or (self._twin and not self._wrote(was))
            else self._last_takeover(annotations.get(HOLDER, ""), holder, started)
        )
        is_deleted = raw is None and self._seen
        if is_deleted or (DISRUPTED in annotations and was.holder_identity and not self._wrote(was)):
            self.abandoned = started
        noted = started if is_deleted else self._noted_disruption(annotations, was, started)
        self.last_disruption = max(self.last_disruption, noted)
        # What others wrote into it (labels, new fields) is written back as it was read.
        lease = {**(raw or {}), "metadata": {**meta, "annotations": {**annotations, **self._notes()}}, "spec": spec}
        self._raw = await self._write(lease, creates=raw is None)
        self._version, self._restored = _version_of(self._raw), False
        self._tells_disruption = DISRUPTED in lease["metadata"]["annotations"]
        self._seen = True
        if not self.leading:
            self.since = self._clock.now()
        self._until, self._until_time = started + self._settings.renew, started_time + self._settings.renew
        self._last_spec, self._spec_since = msgspec.convert(self._raw, WireLease).spec, started
        self._leaders_policies = ""

    async def _write(self, lease: dict[str, Any], *, creates: bool) -> dict[str, Any]:
        """Create or update the lease; returns it as it is now. One that is in conflict, and is as it was written, was
        written: a proxy has sent it twice, and given the second answer. Raises ApiError."""
        try:
            return await (self._create(lease) if creates else self._send("update", self._settings.name, lease))
        except ApiError as error:
            if error.code != 409:
                raise
            raw = await self._send("get", self._settings.name)
            spec = raw.get("spec") or {}
            if any(spec.get(key) != lease["spec"][key] for key in ("holderIdentity", "renewTime")):
                raise error from None
            return raw

    def _notes(self) -> dict[str, str]:
        times = {HOLDER: self.taken_over, DISRUPTED: self.last_disruption}
        noted = {key: f"{self._identity} {at:.3f}" for key, at in times.items() if at > _NEVER}
        return {**noted, POLICIES: f"{self._identity} {self.policies}"} if self.policies else noted

    def _last_takeover(self, note: str, holder: str, now: float) -> float:
        """When the lease was last taken from somebody else, by the note of who held it last; now, if it was not we, or
        the clock was set back since, so that it is not known how long ago that was."""
        at = self._noted_time(note, now) if holder in ("", self._identity) else None
        return now if at is None else at

    def _noted_disruption(self, annotations: dict[str, str], was: LeaseSpec, now: float) -> float:
        """When a pod was last made to go, by the notes of who led last. Somebody else may have done so until we took
        over, unless that one released the lease: then it says how long before that, by its own clock."""
        note = annotations.get(DISRUPTED, "")
        if self.taken_over < now:
            ours = self._noted_time(note, now)
            return _NEVER if ours is None else ours
        if not (note or self._restored) and self.last_disruption == _NEVER:
            return _NEVER
        identity, _, at = note.rpartition(" ")
        is_last = identity == annotations.get(HOLDER, "").rpartition(" ")[0]
        if was.holder_identity or not is_last or self._restored:
            return now
        try:
            return now - max(0.0, datetime.fromisoformat(was.renew_time or "").timestamp() - float(at))
        except ValueError:
            return now

    def _noted_time(self, note: str, now: float) -> float | None:
        """The time in a note of ours, which is not ahead of the clock; None: it is another's, or none can be read."""
        identity, _, at = note.rpartition(" ")
        try:
            return min(now, float(at)) if identity == self._identity else None
        except ValueError:
            return None

    async def _create(self, lease: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self._send("create", "", lease)
        except ApiError as error:
            if error.code == 404 and "namespaces" in error.message:
                raise ValueError(self._homeless()) from error
            raise

    def _homeless(self) -> str:
        name = self._settings.namespace
        return (
            f'namespace "{name}" must be there, is not: create it (kubectl create namespace {name}), name another one '
            "in [cluster.lease] namespace, or set [cluster.lease] enabled = false if no other elasticd acts here"
        )

    def _claimed(self, before: dict[str, Any], stamp: str) -> dict[str, Any]:
        ours = before.get("holderIdentity") == self._identity
        transitions = before.get("leaseTransitions") or 0
        return {
            **before,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": math.ceil(self._settings.duration),
            "acquireTime": before.get("acquireTime") or stamp if ours else stamp,
            "renewTime": stamp,
            "leaseTransitions": transitions if ours or not before else min(transitions + 1, _MOST_TRANSITIONS),
        }

    async def release(self) -> None:
        """Stop leading, and release the lease so that others can take over at once, if the server can be reached."""
        may_hold = self.leading or self._raw is not None
        self._until = _NEVER
        raw, self._raw = self._raw, None
        why: Exception | None = None
        # A renewal that was cut off may have been carried out, so what was written last need not be what is there.
        for lease in (raw, None) if may_hold else ():
            try:
                return await self._give_up(lease or await self._send("get", self._settings.name))
            except (ApiError, *UNREADABLE) as error:
                why = error
        if why is not None:
            logger.info("the lease was not released: %s", why)
        return None

    async def _give_up(self, raw: dict[str, Any]) -> None:
        before = msgspec.convert(raw.get("spec") or {}, LeaseSpec)
        spec = {**(raw.get("spec") or {}), "leaseDurationSeconds": 1, "renewTime": self._stamped(self._clock.now())}
        if spec.pop("holderIdentity", None) == self._identity and self._wrote(before):
            meta = raw["metadata"]
            noted = {**meta, "annotations": {**(meta.get("annotations") or {}), **self._notes()}}
            await self._send("update", self._settings.name, {**raw, "metadata": noted, "spec": spec})

    async def _send(
        self, verb: Literal["get", "create", "update"], name: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        request = Request(
            verb=verb,
            path=LEASES.path(self._settings.namespace, name),
            resource="leases",
            body=encode(body) if body is not None else None,
            timeout=self._settings.renew / 2,  # so that a request that hangs leaves time for another
        )
        return msgspec.json.decode(await self._session.send(request), type=dict[str, Any])

    def _stamped(self, now: float) -> str:
        """A time for the lease, by which we know it again."""
        stamp = _stamp(now)
        self._written.append(stamp)
        return stamp


def _policies_of(note: str, holder: str) -> str:
    """What a note says of the holder's policies; empty: it is another's, as where the holder is of an earlier version,
    or garbled."""
    identity, *policies = note.rsplit(" ", 3)
    readable = len(policies) == 3 and all(number.isdecimal() for number in policies[1:])
    return " ".join(policies) if readable and identity == holder else ""


def _version_of(raw: dict[str, Any]) -> str:
    return msgspec.convert(raw, ObjectMeta).metadata.resource_version


def _stamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
