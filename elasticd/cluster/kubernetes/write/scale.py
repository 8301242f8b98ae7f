"""Carries out a Scale: once, and only on the workload that was judged, as it was judged.

The precondition is the resourceVersion. The uid is sent too, but a server may ignore it: Kubernetes 1.20 does for
custom resources; it honours both for Deployments, StatefulSets and ReplicaSets. No object recreated under the same
name ever has an old resourceVersion. Knows the answers of the API; knows nothing of policies or leadership.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from math import inf

import msgspec
from msgspec.structs import replace

from elasticd.base.clock import Clock
from elasticd.base.fair_semaphore import FairSemaphore
from elasticd.base.shapes import moment
from elasticd.cluster.kubernetes.session import PARTIAL_LIST, ApiError, Request, Session, Verb, decoded, encode
from elasticd.cluster.kubernetes.watch.discovery import Discovery, Resource, UnknownKindError
from elasticd.cluster.kubernetes.wire.convert import annotations_that_count
from elasticd.cluster.kubernetes.wire.objects import WireList, WireScale, WireWorkload, WorkloadMetadata
from elasticd.cluster.kubernetes.write.answers import READ_BACK_AFTER, conflict, failed, refused_by, unknown_kind
from elasticd.cluster.kubernetes.write.budget import Allowed, Budget
from elasticd.cluster.kubernetes.write.patches import BY_US
from elasticd.decision.workload.vetoes import forbidden
from elasticd.kit.surge import SURGE
from elasticd.model.actions import OUTDATED, Answer, Scale
from elasticd.model.workload import Ref, Workload

Written = Callable[[Scale, WireScale], None]

KEPT = "elasticd.io/count-kept-at"
"""Annotation of a workload whose count was to be lowered, by a write that was lost: when it was given up."""

AT_ONCE = 32
"""Writes that are under way at a time in one namespace; in all half as many more. A thousand at once would each open a
connection of its own, and greeting takes the server longer than writing."""

LAST_WORDS = 3.0
"""Seconds in which a daemon that ends gives up what has had no answer."""

_REPEATS = 3
JUDGED = 5.0
"""Seconds that a fall may wait for its turn, or where the server asks for quiet; then it is judged anew."""
_OUTDATED = Answer("refused", message=f"it waited for {JUDGED:g} s, and is judged anew", reason=OUTDATED)
_SCALE = msgspec.json.Decoder(WireScale)
_OBJECTS = msgspec.json.Decoder(WireList[WireWorkload])


class Scaler:
    """Writes scale subresources. `written` is called with the server's answer, before anything else is awaited;
    `watched` gives a workload as its watch shows it, if it does."""

    def __init__(
        self,
        session: Session,
        discovery: Discovery,
        budget: Budget,
        clock: Clock,
        written: Written,
        watched: Callable[[Ref], Workload | None] = lambda _: None,
    ) -> None:
        self._session, self._discovery, self._budget = session, discovery, budget
        self._clock, self._written, self._watched = clock, written, watched
        self._slots = FairSemaphore(AT_ONCE)

    async def scale(self, action: Scale, allowed: Allowed) -> Answer:
        """Set the count, if the workload still is the one that was judged. `allowed` is asked before each write, since
        leadership may end while a write waits for its turn."""
        ref = action.workload
        try:
            resource = await self._discovery.scalable((ref.api_version, ref.kind))
        except UnknownKindError as error:
            return unknown_kind(error)
        except ApiError as error:
            return refused_by(error)
        return await self._write(resource, action, allowed)

    async def _write(self, resource: Resource, action: Scale, allowed: Allowed) -> Answer:
        judged = self._clock.now()
        # Without a version there would be no precondition, so it is read first.
        verdict: Answer | str = action.version or await self._look_again(resource, action, 0)
        quiet: ApiError | None = None
        for _ in range(1 + _REPEATS):
            if isinstance(verdict, Answer):
                return verdict
            # One that would be too old by then takes no turn from others.
            too_old = _too_old_at(action, judged, quiet)
            left = too_old - self._clock.now()
            if stop := _OUTDATED if left <= 0 else await self._budget.turn(patience=min(left, self._budget.patience)):
                return stop
            try:
                with self._budget.urgent():
                    async with self._slots.slot(action.workload.namespace):
                        if stop := allowed() or (_OUTDATED if self._clock.now() >= too_old else None):
                            return stop
                        async with self._unanswered(resource, action, allowed):
                            scale = await self._patch(resource, action, verdict)
            except ApiError as error:
                self._budget.pause(error.quiet)
                if quiet is None and 0 < error.quiet <= self._budget.patience:
                    quiet = error
                else:
                    async with self._unanswered(resource, action, allowed):
                        verdict = await self._after(error, resource, action, allowed, quiet)
            else:
                self._written(action, scale)
                return Answer("done", 200)
        if isinstance(verdict, Answer):
            return verdict
        return conflict(409, f"it changed {1 + _REPEATS} times while it was being written")

    async def _patch(self, resource: Resource, action: Scale, version: str) -> WireScale:
        metadata = {"uid": action.uid, "resourceVersion": version}
        body = encode({"metadata": metadata, "spec": {"replicas": action.after}})
        return await self._send("patch", resource, action, body)

    async def _after(
        self, error: ApiError, resource: Resource, action: Scale, allowed: Allowed, quiet: ApiError | None
    ) -> Answer | str:
        """What a failed write means: an answer, or the version with which to try again. `quiet` is the answer to an
        earlier write that asked for quiet: a 503 may yet have been carried out."""
        if error.code == 409:
            return await self._look_again(resource, action, 409, quiet if quiet and quiet.code >= 500 else None)
        if error.code == 404:
            return conflict(404, "it is gone")
        if error.code >= 500 or (error.code == 0 and error.sent):
            return await self._read_back(error, resource, action, allowed)
        return failed(error.code, error.message)

    async def _look_again(
        self, resource: Resource, action: Scale, code: int, lost: ApiError | None = None
    ) -> Answer | str:
        """A version moves with each status update: it is a conflict only if the workload or its count is another, or it
        has been marked since, as one that changes hands. The version is that of the marks, which are read first."""
        try:
            listed = await self._session.send(_metadata_request(resource, action))
            objects = decoded(listed, _OBJECTS, "list").items
            scale = await self._send("get", resource, action)
        except ApiError as error:
            return conflict(error.code, f"it changed, and cannot be read again: {error}")
        if code and scale.replicas == action.after:
            return self._done_all_the_same(lost, scale, action)
        if (difference := _another(scale, action)) or scale.replicas != action.before:
            return conflict(code, difference or f"it has {scale.replicas} replicas, not {action.before}")
        if not objects:
            return conflict(404, "it is gone")
        metadata = objects[0].metadata
        if difference := self._unlike_judged(scale, metadata, action):
            return conflict(code or 409, difference)
        return self._read_marks(metadata, action) or _not_repeated(code, action) or metadata.resource_version

    def _unlike_judged(self, scale: WireScale, metadata: WorkloadMetadata, action: Scale) -> str:
        """What of a workload is another than its watch shows, which may have fallen silent: how many pods its
        controller counts, or a label by which a policy may have selected it. Empty: nothing."""
        counted = scale.status.replicas or 0
        if action.counted is not None and counted > action.counted:
            return f"its controller counts {counted} pods, not {action.counted}"
        known = self._watched(action.workload)
        differs = known is not None and known.labels != (metadata.labels or {})
        return "its labels have changed" if differs else ""

    def _read_marks(self, metadata: WorkloadMetadata, action: Scale) -> Answer | None:
        """Refuse what a mark forbids that was written since the workload was judged; and a surge's change without its
        note, which somebody has removed: nothing would tell that it has to be taken back."""
        annotations = annotations_that_count(metadata)
        if action.reason.startswith(SURGE) and SURGE not in annotations:
            return conflict(409, f"somebody has removed its annotation {SURGE}")
        if action.reason.startswith(SURGE) and action.removes is None:  # what a surge added is taken back all the same
            return None
        why = forbidden(annotations, action.before, action.after, self._clock.now())
        return conflict(409, why) if why else None

    async def _read_back(self, lost: ApiError, resource: Resource, action: Scale, allowed: Allowed) -> Answer:
        """The write may or may not have been carried out: only reading tells, and it is never repeated blindly."""
        for seconds in READ_BACK_AFTER:
            await self._clock.sleep_until(self._clock.now() + seconds)
            try:
                scale = await self._send("get", resource, action)
            except ApiError as error:
                if error.code == 404:
                    return conflict(404, f"it is gone ({lost})")
                continue
            answer = self._judge(lost, scale, action)
            if answer.result != "failed" or action.after > action.before:
                return answer
            why = allowed() or await self._give_up(resource, action)
            return answer if why is None else failed(lost.code, f"{answer.message}, but may be later: {why.message}")
        return failed(lost.code, f"{lost}; whether it was carried out cannot be read back")

    @asynccontextmanager
    async def _unanswered(self, resource: Resource, action: Scale, allowed: Allowed) -> AsyncIterator[None]:
        """A write has no answer yet in the block. If that is cancelled, as when the daemon ends, it is given up."""
        try:
            yield
        except asyncio.CancelledError:
            if action.after < action.before and allowed() is None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LAST_WORDS):
                        await self._give_up(resource, action)
            raise

    async def _give_up(self, resource: Resource, action: Scale) -> Answer | None:
        """Change the workload: a scale-in that the network delivers later names an earlier version, and is refused."""
        metadata = {"uid": action.uid, "annotations": {KEPT: moment(self._clock.now()) or ""}}
        ref, body = action.workload, encode({"metadata": metadata})
        try:
            await self._session.send(
                replace(resource.request("patch", ref.namespace, ref.name, body=body), params=BY_US)
            )
        except ApiError as error:
            return refused_by(error)
        return None

    def _done_all_the_same(self, lost: ApiError | None, scale: WireScale, action: Scale) -> Answer:
        """The count is as it was to be, and the last write was in conflict: an earlier one was carried out, or a proxy
        has sent one twice and given the second answer, or somebody else wants the same. It counts as ours, as rates
        and `[disruption]` must not let more go for it."""
        lost = lost or ApiError(409, "Conflict", "another had changed it, or a proxy sent it twice")
        return self._judge(lost, scale, action)

    def _judge(self, lost: ApiError, scale: WireScale, action: Scale) -> Answer:
        if difference := _another(scale, action):
            return conflict(lost.code, difference)
        if scale.replicas == action.after:
            self._written(action, scale)
            return Answer("done", lost.code, f"the reply was lost ({lost}), but it was carried out")
        if scale.replicas == action.before:
            return failed(lost.code, f"{lost}; it was not carried out")
        return conflict(lost.code, f"it has {scale.replicas} replicas, not {action.before} ({lost})")

    async def _send(self, verb: Verb, resource: Resource, action: Scale, body: bytes | None = None) -> WireScale:
        request = resource.request(verb, action.workload.namespace, action.workload.name, "scale", body)
        return decoded(await self._session.send(request), _SCALE, "Scale")


def _too_old_at(action: Scale, judged: float, quiet: ApiError | None) -> float:
    """When a fall is not sent any more, as load may be back. A growth, and what a 503 may have carried out, are sent at
    any time."""
    falls = action.after < action.before and not action.reason.startswith(SURGE)
    return judged + JUDGED if falls and (quiet is None or quiet.code < 500) else inf


def _metadata_request(resource: Resource, action: Scale) -> Request:
    """The metadata of the workload, by a list: the right to that is needed anyway."""
    ref = action.workload
    params = {"fieldSelector": f"metadata.name={ref.name}"}
    return replace(resource.request("list", ref.namespace), params=params, accept=PARTIAL_LIST)


def _not_repeated(code: int, action: Scale) -> Answer | None:
    """That a count which a surge lowers is judged anew: a rollout that has begun would take any ready pod, and neither
    count nor marks show it."""
    if code == 409 and action.reason.startswith(SURGE) and action.after < action.before:
        return conflict(code, "it changed: whether it is being rolled out is judged anew")
    return None


def _another(scale: WireScale, action: Scale) -> str:
    """What to say when the object of this name is not the one that was judged."""
    if action.uid and scale.metadata.uid and scale.metadata.uid != action.uid:
        return "it was deleted and recreated"
    return ""
