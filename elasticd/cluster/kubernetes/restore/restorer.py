"""Evicts pods that have no controller and recreates each under its own name; none is lost, even if daemons die.

The manifest of a pod is written to the cluster first, which also claims the pod: another daemon that wants it finds the
record. The next step follows from the state of the cluster, see steps. Knows what must hold before a pod is evicted,
and how to continue after that; knows nothing of why pods are evicted.
"""

import asyncio
import contextlib
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec

from elasticd.base.tasks import cancel
from elasticd.cluster.kubernetes.restore.copies import Compared, Copies, read_compared
from elasticd.cluster.kubernetes.restore.places import place_for, promise_of
from elasticd.cluster.kubernetes.restore.records import LeftAlone, Restoration
from elasticd.cluster.kubernetes.restore.steps import RestorationSteps, RestorerParts, creation
from elasticd.cluster.kubernetes.session import ApiError, encode
from elasticd.cluster.kubernetes.wire.convert import MIRROR
from elasticd.cluster.kubernetes.wire.manifest import RESUMED, recreation, trial_of
from elasticd.cluster.kubernetes.write.answers import conflict, refused_by
from elasticd.cluster.kubernetes.write.budget import Allowed
from elasticd.cluster.kubernetes.write.pods import PodState, read_pod
from elasticd.model.actions import Announce, Answer, Evict
from elasticd.model.moves import RESTORED, Promise, Underway
from elasticd.model.workload import Pod, Ref

logger = logging.getLogger(__name__)

T = TypeVar("T")

AGAIN = 30.0
"""Seconds between two looks for records that others have left."""

SHOWN = 3600.0
"""Seconds for which it is shown that a pod is not created again."""

LATE = 600.0
"""Seconds after which it is reported that daemons of another Lease have not brought a pod back."""

_REMEMBERED = 10_000
_NAMED = 5
"""How many records that do not count are told of one by one."""


class Restorer:
    """Evicts and recreates pods. What follows an eviction runs in the background; `run` resumes what others left."""

    def __init__(self, parts: RestorerParts) -> None:
        self._parts, self._writer, self._records = parts, parts.writer, parts.records
        # Two processes may have been given one name, and each must know which records are its own.
        self._claimant = f"{parts.identity}_{secrets.token_hex(8)}"
        self._steps: dict[str, RestorationSteps] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._preparing: dict[str, Promise | None] = {}
        """By the UID of each pod that is about to be evicted, the place for its copy."""
        self._copies = Copies(parts.pods, parts.nodes, self._coming)
        self._over = deque[Underway](maxlen=_REMEMBERED)
        """Pods that are not created again."""
        self._of_others: list[Restoration] = []
        """The records that daemons of other Leases continue, as last seen."""
        self.unread = ""
        """Why the records cannot be looked for, in one line; empty: they can."""
        self._left_alone: list[LeftAlone] = []
        self._looked_at: float | None = None
        """When the last look for records began; None: there was none yet."""

    @property
    def left_alone(self) -> str:
        """Which records do not count, why, and what to do, in one line; empty: all do."""
        if not self._left_alone:
            return ""
        whys = [f"{record.name}: {record.why}" for record in self._left_alone[:_NAMED]]
        more = [f"and {len(self._left_alone) - _NAMED} more"] if self._left_alone[_NAMED:] else []
        return (
            f"ConfigMaps in {self._records.home} that do not count as records of evicted pods, so nothing is created "
            f"from them: {'; '.join(whys + more)}. Create by hand what is missing, then delete them"
        )

    @property
    def fault(self) -> str:
        """What keeps evicted pods from running again, all in one line; empty: nothing."""
        return "; ".join(steps.fault for steps in self._steps.values() if steps.fault)

    @property
    def underway(self) -> list[Underway]:
        """The pods that are being recreated, by whomever, and for a while those that are not, after all."""
        while self._over and self._over[0].since < self._parts.clock.now() - SHOWN:
            self._over.popleft()
        of_others = map(self._underway_elsewhere, self._of_others)
        return [*(steps.underway for steps in self._steps.values()), *of_others, *self._over]

    def _underway_elsewhere(self, restoration: Restoration) -> Underway:
        since = datetime.fromisoformat(restoration.written).timestamp()
        seconds, lease, fault = self._parts.clock.now() - since, restoration.lease, ""
        step = f"recorded by daemons of Lease {lease}"
        record = f"ConfigMap {self._records.home}/{restoration.name}"
        is_there = self._is_there(restoration)
        if seconds > LATE and is_there:
            step += f", and its pod is there: if none of them runs any more, delete {record}"
        elif seconds > LATE:
            fault = (
                f"{restoration.pod} was to be evicted and recreated {seconds / 60:.0f} min ago by daemons of Lease "
                f"{lease}: only they continue, its record is {record}; if none of them runs any more and the pod is "
                "missing, create it by hand, then delete the record"
            )
        pod, why = restoration.pod, restoration.why
        return Underway(pod, restoration.uid, "anew", step, since, fault=fault, why=why, runs=is_there)

    def _is_there(self, restoration: Restoration) -> bool:
        """Whether the watch shows the recorded pod and nobody deletes it, or a copy of it that is ready: then nothing
        has to be created."""
        pod = self._parts.pods.get(restoration.pod.namespace, restoration.pod.name)
        if pod is None or pod.deleted:
            return False
        return pod.uid == restoration.uid or (pod.annotations.get(RESTORED) == restoration.uid and bool(pod.ready))

    async def promises(self, led_since: float) -> list[Promise]:
        """The places for the pods that are being recreated. Looks for records first, if that was not done since this
        daemon leads."""
        if self._looked_at is None or self._looked_at < led_since:
            await self._look()
        return [steps.promise for steps in self._steps.values() if steps.promise]

    async def close(self) -> None:
        """Stop. What is unfinished is in the records, so another daemon can resume it."""
        await cancel(*self._tasks)

    async def evict(self, action: Evict, allowed: Allowed) -> Answer:
        """Evict the pod, if the server would accept its recreation."""
        if action.uid in self._steps or action.uid in self._preparing:
            return Answer("refused", 0, "it is being recreated already", "UnderWay")
        self._preparing[action.uid] = None
        try:
            prepared = self._why_none_created(action.workload.namespace) or await self._prepare(action, allowed)
            restoration = prepared if isinstance(prepared, Answer) else await self._claim(prepared, allowed)
            if isinstance(restoration, Answer):
                return restoration
            answer = await self._writer.evict(action, allowed, partial(_unfit_as_recorded, action, restoration))
            evicted = answer.result == "done" and not answer.reason
            if evicted or (answer.result == "failed" and (answer.code == 0 or answer.code >= 500)):
                self._begin(restoration, evicted=evicted)
            else:
                with contextlib.suppress(ApiError):  # a record that stays is found later, and nothing has been done
                    await self._records.remove(restoration)
            return answer
        finally:
            del self._preparing[action.uid]

    async def try_out(self, action: Evict, allowed: Allowed) -> Answer:
        """Ask whether the server would accept the pod's recreation; nothing is written."""
        prepared = self._why_none_created(action.workload.namespace) or await self._prepare(action, allowed)
        return prepared if isinstance(prepared, Answer) else Answer("done")

    async def _prepare(self, action: Evict, allowed: Allowed) -> Restoration | Answer:
        """The manifest to recreate the pod from, once the server has accepted it in a dry run, and what it would make
        of it can run where the pod can."""
        try:
            state = await read_pod(self._parts.session, action.workload)
        except ApiError as error:
            return refused_by(error)
        if stop := _unfit(action, state) or self._why_record_first(action, state):
            return stop
        assert state is not None, "one that is gone is not fit"  # noqa: S101
        try:
            namespace = await self._parts.namespaces.uid(action.workload.namespace)
        except ApiError as error:
            return refused_by(error)
        if namespace is None:
            return conflict(404, "its namespace is gone")
        manifest = recreation(msgspec.json.decode(state.body), self._parts.clock.now())
        copy = await self._tried_out(action, state, manifest, allowed)
        if isinstance(copy, Answer):
            return copy
        return Restoration(
            action.workload,
            action.uid,
            encode(manifest).decode(),
            self._claimant,
            why=action.reason,
            since=state.version,
            namespace=namespace,
            place=place_for(action, copy),
            lease=self._parts.lease,
        )

    def _why_record_first(self, action: Evict, state: PodState | None) -> Answer | None:
        """Why a pod stays that has the name of an evicted one, and is no copy of it: of two records for one name either
        pod might be created, and perhaps the older version."""
        copied = state.annotations.get(RESTORED) if state else None
        for steps in self._steps.values():
            other = steps.restoration
            if other.pod == action.workload and other.uid not in (action.uid, copied):
                record = f"ConfigMap {self._records.home}/{other.name}"
                message = (
                    f"an earlier pod of its name has yet to be recreated; if this one replaces it, delete {record}"
                )
                return Answer("refused", message=message, reason="UnderWay")
        return None

    def _why_none_created(self, namespace: str) -> Answer | None:
        """Why no other pod of a namespace is evicted: one that is away is refused, whatever a dry run says, as by a
        webhook that only looks at the real request."""
        for steps in self._steps.values():
            if steps.why_refused and steps.restoration.pod.namespace == namespace:
                message = f"{steps.restoration.pod.name} was evicted before, and cannot be created: {steps.why_refused}"
                return Answer("refused", message=message, reason="NotRestorable")
        return None

    async def _claim(self, restoration: Restoration, allowed: Allowed) -> Restoration | Answer:
        """Record the manifest."""
        self._preparing[restoration.uid] = promise_of(restoration)
        claimed = await self._written(partial(self._records.claim, restoration), allowed)
        record = f"ConfigMap {self._records.home}/{restoration.name}"
        return claimed or Answer("refused", 409, f"another elasticd recreates it, its record is {record}", "UnderWay")

    async def _tried_out(
        self, action: Evict, state: PodState, manifest: dict[str, Any], allowed: Allowed
    ) -> Pod | Answer:
        """The copy that the server would create, by a dry run; or why the pod stays."""
        ref = action.workload

        async def tried() -> tuple[Compared, Compared]:
            body = await self._parts.session.send(creation(ref, encode(trial_of(manifest)), dryRun="All"))
            pod, copy = (read_compared(each, ref.name, action.uid) for each in (state.body, body))
            return pod, copy

        compared = await self._written(tried, allowed)
        if isinstance(compared, Answer):
            return compared
        if stop := await self._written(partial(self._try_name, ref, encode(manifest)), allowed):
            return stop
        difference = self._copies.difference(*compared, action.target or action.node)
        if difference.reason:
            return Answer("refused", 0, difference.message, difference.reason)
        return compared[1].pod

    async def _try_name(self, ref: Ref, manifest: bytes) -> None:
        """Ask whether admission has anything against the pod's own name. That it exists is found only after all
        admission. Raises ApiError."""
        try:
            await self._parts.session.send(creation(ref, manifest, dryRun="All"))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    def _coming(self, node: str) -> list[Pod]:
        """The copies for which a node is kept."""
        promises = (*(steps.promise for steps in self._steps.values()), *self._preparing.values())
        return [promise.pod for promise in promises if promise is not None and promise.node == node]

    async def _written(self, write: Callable[[], Awaitable[T]], allowed: Allowed) -> T | Answer:
        if stop := await self._parts.budget.turn(allowed, self._writer.judged):
            return stop
        try:
            return await write()
        except ApiError as error:
            self._parts.budget.pause(error.quiet)
            return Answer("refused", error.code, f"it might not come back: {error}", "NotRestorable")

    async def run(self) -> None:
        """While this daemon leads, look for unfinished restorations of any daemon and resume them. Never returns."""
        while True:
            if self._parts.leading():
                await self._look()
            else:
                self.unread, self._left_alone, self._of_others = "", [], []
            await self._parts.clock.sleep_until(self._parts.clock.now() + (AGAIN if self._parts.leading() else 1.0))

    async def _look(self) -> None:
        began = self._parts.clock.now()
        try:
            restorations, left_alone = await self._records.all()
            self._tell(left_alone)
            own = [each for each in restorations if each.lease in ("", self._parts.lease)]
            self._of_others = [each for each in restorations if each not in own]
            for restoration in own:
                self._resume(restoration)
            self.unread = ""
        except ApiError as error:
            before, self.unread = self.unread, f"what has yet to be recreated cannot be looked for: {error}"
            if not before:
                logger.warning("%s", self.unread)
        self._looked_at = began

    def _resume(self, restoration: Restoration) -> None:
        """Go on, also with a record that this daemon has removed before: an etcd that was put back has it again, and
        may lack the pod."""
        if restoration.uid not in self._steps and restoration.uid not in self._preparing:
            self._begin(restoration, evicted=False)

    def _tell(self, left_alone: list[LeftAlone]) -> None:
        """Log, once, what does not count, and write an Event for each of the first few."""
        fresh = [record for record in left_alone if record not in self._left_alone]
        self._left_alone = left_alone
        if fresh:
            logger.warning("%s", self.left_alone)
        for record in fresh[:_NAMED]:
            ref = Ref(self._records.home, "ConfigMap", record.name, "v1")
            text = f"no record of an evicted pod: {record.why}"
            self._parts.announce(Announce(ref, record.uid, "NotGenuine", text, warning=True))

    def _begin(self, restoration: Restoration, *, evicted: bool) -> None:
        steps = RestorationSteps(restoration, self._parts, evicted=evicted)
        self._steps[restoration.uid] = steps
        task = asyncio.create_task(self._follow(steps), name=restoration.name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, steps: RestorationSteps) -> None:
        try:
            await steps.run()
            if steps.over:
                self._over.append(steps.underway)
        finally:
            del self._steps[steps.restoration.uid]


def _unfit_as_recorded(action: Evict, restoration: Restoration, state: PodState) -> Answer | None:
    """The same, or that it would be recreated otherwise than it is by now."""
    if stop := _unfit(action, state):
        return stop
    recorded = msgspec.json.decode(restoration.manifest)
    at = float(recorded["metadata"]["annotations"][RESUMED])
    if recreation(msgspec.json.decode(state.body), at) == recorded:
        return None
    return conflict(409, "it was changed while it was recorded")


def _unfit(action: Evict, state: PodState | None) -> Answer | None:
    """Why the pod must not be evicted and recreated; None: it may be."""
    if state is None or state.uid != action.uid:
        return conflict(404, "it is gone")
    if state.deleted:
        return conflict(409, "it is being deleted")
    pod: Any = msgspec.json.decode(state.body)
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return conflict(409, "it has ended, and would run a second time")
    if any(owner.get("controller") for owner in pod["metadata"].get("ownerReferences") or ()):
        return conflict(409, "it has a controller, which makes another")
    if MIRROR in state.annotations:
        return conflict(409, "a kubelet runs it from a file")
    return None
