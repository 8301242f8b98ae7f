"""Brings one evicted pod back until its copy has run. Each step follows only from the state of the cluster.

So any daemon can continue where another has stopped:

    the pod is there               nothing was done to it: after a quiet time it is changed, so that an eviction which
                                   the network still delivers is refused, as it names the version; then the record is
                                   removed
    it is being deleted            wait
    it is there, and was being     etcd was put back to an older state, and its kubelet has ended it, or will not: note
    deleted before                 in the record, which may be gone too, that it was evicted; the leader evicts it again
    it is gone                     create it, if the record is still there: if not, another daemon has; without owners
                                   that are gone
    its copy is there              note that in the record, and wait until it has run; while it waits for a node, tell
                                   what the server would now create otherwise
    its copy has run               remove the record; likewise where a controller has adopted it, whose pod it is then
    its copy ended before it ran   evict that, so that its name is free
    its copy is gone               create it again, each time after a longer pause; but where the server remembers that
                                   it ran or was adopted, its deletion was intended: remove the record
    another has its name           wait until the name is free, unless it is the same pod, created by somebody else
    its namespace is gone, or one  remove the record: all that was in a namespace is gone with it, and a later one of
    of its name has taken its      its name may be somebody else's
    place

A copy that disappears before it ran is created again: the server does not tell a deletion by a person from one by the
pod garbage collector. If two daemons do the same at once, it happens once: a name can be taken only once, and the
record is removed last. Knows these steps; knows nothing of why a pod was evicted.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from elasticd.base.backoff import Backoff
from elasticd.base.clock import Clock
from elasticd.base.errors import UNREADABLE
from elasticd.base.text import one_line
from elasticd.cluster.kubernetes.restore.copies import difference_from, read_compared
from elasticd.cluster.kubernetes.restore.namespaces import Namespaces
from elasticd.cluster.kubernetes.restore.owners import Owners
from elasticd.cluster.kubernetes.restore.places import promise_of
from elasticd.cluster.kubernetes.restore.records import Records, Restoration
from elasticd.cluster.kubernetes.session import ApiError, Request, Session, encode
from elasticd.cluster.kubernetes.watch.discovery import PODS
from elasticd.cluster.kubernetes.watch.store import NodeStore, PodStore
from elasticd.cluster.kubernetes.watch.versions import is_older
from elasticd.cluster.kubernetes.wire.convert import controller_of
from elasticd.cluster.kubernetes.wire.manifest import is_equivalent, trial_of
from elasticd.cluster.kubernetes.wire.objects import PodStatus, WatchEvent, WirePod
from elasticd.cluster.kubernetes.write.answers import NOT_LEADING
from elasticd.cluster.kubernetes.write.budget import Budget
from elasticd.cluster.kubernetes.write.late_evictions import void_evictions
from elasticd.cluster.kubernetes.write.pods import PodState, PodWriter, read_pod
from elasticd.model.actions import Announce, Evict
from elasticd.model.moves import NAME_TAKEN, RESTORED, Underway
from elasticd.model.workload import Ref

logger = logging.getLogger(__name__)

PAUSES = Backoff(0.5, 10.0)
"""Between attempts at one step."""

GLANCE = 0.25
"""Between looks at what the watch shows of an evicted pod, which cost nothing."""

WAITS = Backoff(10.0, 300.0)
"""Before a pod is made again of which a second copy went before it ran; the first is followed by another at once."""

WAITING, GONE, UNTOUCHED = "waiting for a node", "gone", "untouched"

NAMESPACE_GONE = "its namespace was deleted"

LONGEST = 300
"""Characters of what is told of another scheduler."""

LATE = 60.0
"""Seconds for which a step may last before it is reported."""

_STATEFUL_POD = "statefulset.kubernetes.io/pod-name"
"""The label of a StatefulSet's pod that has its name."""


class RestorerParts(Struct, frozen=True):
    """What restoring pods needs. `identity` is the daemon's name, which others may have too; `lease` are namespace and
    name of its Lease, empty where it has none. A recorded pod that stays untouched for `quiet` seconds is not expected
    to be evicted any more: that is longer than a request in flight lasts. `rolled_back`: whether etcd was put back of
    late."""

    session: Session
    budget: Budget
    clock: Clock
    records: Records
    writer: PodWriter
    namespaces: Namespaces
    owners: Owners
    pods: PodStore
    nodes: NodeStore
    leading: Callable[[], bool]
    announce: Callable[[Announce], None]
    identity: str = ""
    quiet: float = 30.0
    lease: str = ""
    rolled_back: Callable[[], bool] = lambda: False


class RestorationSteps:
    """The restoration of one pod. `fault` is what keeps it from running again, in one line."""

    def __init__(self, restoration: Restoration, parts: RestorerParts, *, evicted: bool) -> None:
        """`evicted`: we did it ourselves just now."""
        self.restoration, self.fault, self.promise = restoration, "", promise_of(restoration)
        self._parts, self._records, self._clock = parts, parts.records, parts.clock
        self._record_unsure, self._untouched_since, self._was_leaving = evicted, 0.0, evicted
        self._at, self._since, self._attempts = "", parts.clock.now(), 0
        self._copy, self._copy_there = restoration.made, bool(restoration.made)
        self._recreated = bool(restoration.made)
        self._copy_may_have_run = not evicted
        self._lost, self._wait_until, self._waits_for = 0, 0.0, ""
        self._rejected_by, self._why_ended = frozenset[str](), ""
        self._compared_at, self._differs = 0.0, ""
        self.over = False
        """Whether it was given up."""
        self._refused = ""
        """Why the API server did not create it when that was last tried."""
        self._complete = False
        """Whether nothing is left to do but to remove the record, which may be refused for long."""

    @property
    def underway(self) -> Underway:
        restoration, step = self.restoration, self._at or "begun"
        return Underway(
            restoration.pod,
            restoration.uid,
            "anew",
            step,
            self._since,
            fault=self.fault,
            why=restoration.why,
            over=self.over,
            rejected_by=self._rejected_by,
            copy=self._copy if step == WAITING else "",
            runs=self._complete or step == UNTOUCHED,
        )

    @property
    def why_refused(self) -> str:
        """Why the pod is away and was not created when that was last tried; empty: it was, or was not tried yet."""
        return self._refused if self._at == GONE else ""

    async def run(self) -> None:
        """Go on until nothing is left to do."""
        while not await self._attempt():
            self._attempts += 1
            await self._rest(self._clock.now() + PAUSES.delay(self._attempts))

    async def _rest(self, until: float) -> None:
        """Wait until then, or until the watch has seen that the evicted pod is gone."""
        while self._is_watched() and (now := self._clock.now()) + GLANCE < until:
            await self._clock.sleep_until(now + GLANCE)
            if not self._is_watched():
                return
        await self._clock.sleep_until(until)

    def _is_watched(self) -> bool:
        """Whether the watch shows the evicted pod."""
        pod = self._parts.pods.get(self.restoration.pod.namespace, self.restoration.pod.name)
        return pod is not None and pod.uid == self.restoration.uid

    async def _attempt(self) -> bool:
        fault = ""
        try:
            if await self._step():
                self.fault = ""
                return True
            fault = self._delay()
        except ApiError as error:
            self._parts.budget.pause(error.quiet)
            fault = str(error)
        except Exception:
            logger.exception("%s: cannot be recreated", self.restoration.pod)
            fault = "internal error, see the log"
        fault = f"{self._standing}: {fault}" if fault else ""
        if fault and not self.fault:
            logger.warning("%s", fault)
        self.fault = fault
        return False

    @property
    def _standing(self) -> str:
        """Whether the pod exists, and where its record is."""
        pod, record = self.restoration.pod, f"ConfigMap {self._records.home}/{self.restoration.name}"
        if self._complete:
            return f"{pod} needs its record no more, which is {record}"
        if self._recreated:
            return f"{pod} was recreated and has yet to run, its record is {record}"
        return f"{pod} has yet to be recreated, from {record}"

    def _delay(self) -> str:
        """Which step takes longer than it should though nothing fails; empty: none."""
        seconds = self._clock.now() - self._since
        for_long = f"{self._at} for {seconds:.0f} s{self._waits_for}{self._differs}" if seconds > LATE else ""
        if self._lost < 2:
            return for_long
        return f"{self._lost} copies of it went before they ran{self._why_ended}; now: {for_long or self._at}"

    def _enter(self, step: str, waits_for: str = "") -> None:
        self._waits_for = f" ({waits_for})" if waits_for else ""
        if step != self._at:
            self._at, self._since, self._attempts = step, self._clock.now(), 0
            self._compared_at, self._differs = self._since, ""

    async def _step(self) -> bool:
        """Do the next step; return whether the restoration is complete."""
        if self._complete and self._parts.rolled_back():
            self._complete = self.over = False  # the pod may be away again: it is looked at anew
        if self._complete and self._parts.leading():
            return await self._forget()
        state = await read_pod(self._parts.session, self.restoration.pod)
        self._recreated = state is not None and state.annotations.get(RESTORED) == self.restoration.uid
        if self._record_unsure and not self._recreated:
            await self._records.write(
                self.restoration
            )  # who took over before the eviction may have thought there would be none
        self._record_unsure = False
        if state is not None and state.uid == self.restoration.uid:
            await self._note_put_back(state)
        if not self._parts.leading():  # the present leader continues
            return await self._records.read(self.restoration) is None
        if state is None:
            return await self._create()
        if state.uid == self.restoration.uid:
            return await self._await_deletion(state)
        if self._recreated:
            return await self._follow_copy(state)
        return await self._resolve_taken_name(state)

    async def _note_put_back(self, state: PodState) -> None:
        """Record that the pod was evicted if only this daemon knows: its deletion cannot be taken back but by an etcd
        that is put back to an older state, as from a backup. Also without the lead, as the leader may not know."""
        if state.deleted:
            self._was_leaving = True
        elif self._was_leaving and not self.restoration.evicted:
            self.restoration = await self._records.record_again(self.restoration)
            text = "%s was evicted, and is there as before: etcd was put back, or a webhook has kept it"
            logger.warning(text, self.restoration.pod)

    async def _evict_again(self, state: PodState) -> bool:
        self._enter("evicted again, as it is there as before")
        await self._evict(state, "it is there as before its eviction", restore=True)
        return False

    async def _await_deletion(self, state: PodState) -> bool:
        if self.restoration.evicted and not state.deleted:
            return await self._evict_again(state)
        self._enter("leaving" if state.deleted else UNTOUCHED)
        now = self._clock.now()
        self._untouched_since = self._untouched_since or now
        if state.deleted or now - self._untouched_since < self._parts.quiet:
            return False
        return await self._void_evictions() and await self._remove_record()

    async def _void_evictions(self) -> bool:
        """Let the pod not be evicted late. False: it is to be looked at again."""
        if not await self._parts.budget.take(PAUSES.longest) or not self._parts.leading():
            return False
        restoration = self.restoration
        return await void_evictions(self._parts.session, restoration.pod, restoration.uid, self._clock.now())

    async def _create(self) -> bool:
        self._enter(GONE)
        record = await self._records.read(self.restoration)
        if record is None:
            return True
        if self._copy_may_have_run and await self._was_settled(record):
            return await self._forget_deleted()
        self._count_lost()
        if self._clock.now() < self._wait_until or not await self._parts.budget.take(PAUSES.longest):
            return False
        gone = await self._namespace_is_gone()
        if not self._parts.leading():
            return False
        if gone:
            return await self._give_up()
        await self._send_copy()
        state = await read_pod(self._parts.session, self.restoration.pod)  # made by whom, this shows
        return (
            state is not None
            and state.annotations.get(RESTORED) == self.restoration.uid
            and await self._follow_copy(state)
        )

    async def _send_copy(self) -> None:
        """Create the pod, without the owners that are gone, or Kubernetes would delete it for them. Raises ApiError."""
        manifest = msgspec.json.decode(self.restoration.manifest, type=dict[str, Any])
        missing = await self._parts.owners.missing(manifest)
        if missing:
            owners = manifest["metadata"]["ownerReferences"]
            manifest["metadata"]["ownerReferences"] = [owner for owner in owners if owner not in missing]
        if not self._parts.leading():
            return
        self._copy_may_have_run, self._why_ended = True, ""
        try:
            await self._parts.session.send(creation(self.restoration.pod, encode(manifest)))
        except ApiError as error:
            is_there = error.reason == "AlreadyExists"
            self._refused = "" if is_there else str(error)
            if is_there:
                return
            raise
        self._copy_there, self._refused = True, ""
        if missing:
            self._tell_ownerless(missing)

    def _tell_ownerless(self, missing: Sequence[Mapping[str, Any]]) -> None:
        names = ", ".join(one_line(f"{owner['kind']} {owner['name']}", LONGEST) for owner in missing)
        text = f"it was recreated without its owner, which is gone: {names}; delete it if it is not needed without"
        logger.warning("%s: %s", self.restoration.pod, text)
        self._parts.announce(Announce(self.restoration.pod, self.restoration.uid, "OwnerGone", text, warning=True))

    async def _forget_deleted(self) -> bool:
        """Remove the record of a copy that has run, or was adopted, and was deleted: if one is there, another daemon
        has created it only since it was looked for."""
        if await read_pod(self._parts.session, self.restoration.pod) is not None:
            return False
        logger.info("%s was recreated, has run or was adopted, and is gone since", self.restoration.pod)
        return await self._forget()

    async def _namespace_is_gone(self) -> bool:
        """Whether the namespace that the pod was in does not exist any more, as far as that can be known."""
        if not self.restoration.namespace:
            return False
        present = await self._parts.namespaces.uid(self.restoration.pod.namespace)
        return present is None or present not in ("", self.restoration.namespace)

    async def _give_up(self) -> bool:
        self._enter(f"given up: {NAMESPACE_GONE}")
        logger.warning("%s is not recreated: %s", self.restoration.pod, NAMESPACE_GONE)
        self.over = True
        return await self._forget()

    async def _was_settled(self, record: Restoration) -> bool:
        """Whether a deleted copy ran, or was adopted, while no daemon watched it. The server is asked once for each. If
        it was not restarted when etcd was put back it remembers what is undone: versions that etcd has not reached."""
        version = await settled_since(self._parts.session, self.restoration.pod, self.restoration.uid, record.since)
        is_settled = bool(version) and not self._parts.rolled_back()
        if is_settled:
            touched = await self._records.touch(record)  # only a write tells how far etcd is
            is_settled = not is_older(touched.version, than=version)
        self._copy_may_have_run = False
        return is_settled

    def _count_lost(self) -> None:
        """Count a copy that vanished before it ran, and set the pause before the next one."""
        if not self._copy_there:
            return
        self._copy_there, self._lost = False, self._lost + 1
        pause = WAITS.delay(self._lost - 1)
        self._wait_until = self._clock.now() + pause
        logger.warning(
            "%s was recreated, and is gone before it ran: it is made again in %g s", self.restoration.pod, pause
        )

    async def _follow_copy(self, state: PodState) -> bool:
        life = life_of(state.body)
        self._copy, self._copy_there, self._copy_may_have_run, self._refused = state.uid, True, True, ""
        self._enter(_step_of(state), life.waits)
        record = await self._records.read(self.restoration)
        if record is None:
            return True
        if life.settled:
            return await self._forget()
        if record.made != state.uid:
            await self._records.note(record, state.uid, state.version)
        if state.phase == "Failed" and state.node:
            self._rejected_by |= {state.node}
            self._why_ended = f" (the last on {state.node}{f': {life.reason}' if life.reason else ''})"
        if state.phase == "Failed" and not state.deleted:
            await self._clear_away(state)
        elif self._at == WAITING and self._clock.now() - self._compared_at >= LATE:
            await self._compare(state)
        return False

    async def _compare(self, state: PodState) -> None:
        """Ask in a dry run what the server would create now, and keep in words how the copy differs from that: only
        somebody who knows why may delete it. A webhook that answers otherwise each time makes every copy differ."""
        if not await self._parts.budget.take(PAUSES.longest):
            return
        self._compared_at, self._differs = self._clock.now(), ""
        ref, trial = self.restoration.pod, encode(trial_of(msgspec.json.decode(self.restoration.manifest)))
        try:
            answer = await self._parts.session.send(creation(ref, trial, dryRun="All"))
        except ApiError as error:
            self._parts.budget.pause(error.quiet)
            return  # it would not be created at all: this one may have a place yet
        copy, fresh = (read_compared(body, ref.name, state.uid) for body in (state.body, answer))
        if (values := difference_from(copy, fresh)) and not fresh.pod.needs.gated:  # who opens a gate may change more
            self._differs = (
                f" (it would now be created with other values of {values}: delete it, and elasticd creates it so)"
            )

    async def _clear_away(self, state: PodState) -> None:
        """Evict a copy that ended before it ran, because it holds the name that the next one needs."""
        await self._evict(state, "it ended before it ran")

    async def _evict(self, state: PodState, why: str, *, restore: bool = False) -> None:
        evict = Evict(self.restoration.pod, state.uid, state.node, why, restore=restore)
        answer = await self._parts.writer.evict(evict, lambda: None if self._parts.leading() else NOT_LEADING)
        if answer.result == "failed":
            raise ApiError(answer.code, answer.reason, f"{why}, and stays: {answer.message}")

    async def _resolve_taken_name(self, state: PodState) -> bool:
        if self._copy and state.annotations.get(RESTORED) == self._copy:
            logger.info("%s was moved on before it ran, with a record of its own", self.restoration.pod)
            return await self._forget()
        if await self._namespace_is_gone():
            return await self._give_up()
        recorded = msgspec.json.decode(self.restoration.manifest, type=dict[str, Any])
        if is_equivalent(recorded, msgspec.json.decode(state.body)):
            logger.info("%s was recreated by somebody else", self.restoration.pod)
            return await self._forget()
        if _is_of_its_set(recorded, state):
            logger.info("%s was replaced by %s %s", self.restoration.pod, *state.controller[:2])
            return await self._forget()
        self._enter(NAME_TAKEN)
        if await self._records.read(self.restoration) is None:  # a person has deleted it, as the other replaces it
            return True
        raise ApiError(409, "AlreadyExists", "another pod has its name; if that replaces it, delete the record")

    async def _forget(self) -> bool:
        """Remove the record of a pod that needs it no more, whatever becomes of it now."""
        self._complete = True
        if not self.over:
            self._enter("its record is removed")
        return await self._remove_record()

    async def _remove_record(self) -> bool:
        """Remove the record, unless another daemon has claimed the pod since."""
        record = await self._records.read(self.restoration)
        if record is None or record.by != self.restoration.by:
            return True
        return await self._records.remove(record)  # False: it is gone by now, or was changed


def _is_of_its_set(recorded: Mapping[str, Any], state: PodState) -> bool:
    """Whether a StatefulSet has the name now that has left a pod without a controller before, as where it was deleted
    without its pods to change what cannot be: it makes all of its pods, and the recorded one would be in its way."""
    labels = recorded["metadata"].get("labels") or {}
    was_of_one = labels.get(_STATEFUL_POD) == recorded["metadata"]["name"]
    return was_of_one and state.controller[0].rpartition("/")[2] == "StatefulSet"


def _step_of(copy: PodState) -> str:
    """How far a copy is that has not run."""
    if copy.deleted:
        return "taken away before it ran"
    if copy.phase == "Failed":
        return "ended before it ran"
    return f"starting on {copy.node}" if copy.node else WAITING


def creation(pod: Ref, manifest: bytes, **params: str) -> Request:
    """The request that creates a pod in its namespace."""
    return replace(PODS.request("create", pod.namespace, body=manifest), params=params)


_TAKEN_AWAY = "DisruptionTarget"
"""The condition of a pod that is ended from outside, since Kubernetes 1.26."""

_POD = msgspec.json.Decoder(WirePod)
_EVENT = msgspec.json.Decoder(WatchEvent)


class Life(Struct, frozen=True):
    """Whether a pod has run, or a controller has adopted it; `waits`: the reason of the kubelet why a container is
    waiting, or of another scheduler why the pod is, and `reason`: why it has ended; empty: none is given."""

    ran: bool
    waits: str = ""
    reason: str = ""
    adopted: bool = False

    @property
    def settled(self) -> bool:
        """Whether it is not to be created again once it is gone."""
        return self.ran or self.adopted


def life_of(body: bytes | Raw) -> Life:
    """Read it from a pod's JSON: a pod has run when all its containers have started, or when it failed by itself."""
    pod = _POD.decode(body)
    status = pod.status
    containers = status.container_statuses or []
    states = [container.state for container in containers if container.state]
    waits = next((state.waiting.reason for state in states if state.waiting), "") or _why_unscheduled(status)
    return Life(
        status.phase in ("Running", "Succeeded") or (status.phase == "Failed" and _failed_itself(status)),
        waits,
        status.reason,
        bool(controller_of(pod.metadata)[0]),
    )


def _why_unscheduled(status: PodStatus) -> str:
    """What another scheduler, or the API server, says of a pod without a node; elasticd writes no such condition."""
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return one_line(": ".join(filter(None, (condition.reason, condition.message))), LONGEST)
    return ""


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


async def settled_since(session: Session, pod: Ref, uid: str, since: str) -> str:
    """The version in which a copy of the pod of this UID has run, or was adopted, since that version of it, as far as
    the server remembers, which is some minutes; empty: in none. It is asked for a second. Raises ApiError."""
    if not since:
        return ""
    only = {"fieldSelector": f"metadata.name={pod.name}", "resourceVersion": since}
    params = {"watch": "1", "timeoutSeconds": "1", **only}
    request = Request(verb="watch", path=PODS.path(pod.namespace), resource="pods", params=params, timeout=10.0)
    try:
        body = await session.send(request)
        versions = (_settled_version(_EVENT.decode(line), uid) for line in body.splitlines() if line)
        return next(filter(None, versions), "")
    except ApiError as error:
        if error.code in (403, 405, 410):
            return ""
        raise
    except UNREADABLE as error:
        raise ApiError(500, "Unreadable", f"what became of {pod} cannot be read: {error}") from error


def _settled_version(event: WatchEvent, uid: str) -> str:
    if event.type not in ("ADDED", "MODIFIED", "DELETED"):
        return ""  # ERROR: it was too long ago
    meta = _POD.decode(event.object).metadata
    is_copy = (meta.annotations or {}).get(RESTORED) == uid
    return meta.resource_version if is_copy and life_of(event.object).settled else ""
