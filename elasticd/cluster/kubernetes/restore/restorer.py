"""Evicts pods that have no controller, and makes each anew under its own name: none is lost, whatever ends when.

What a pod is made from is written into the cluster first, which also claims it: another daemon that wants the same pod
finds the record. What is then to be done follows from what is found, see course. Knows what must hold before a pod is
evicted, and who goes on after that; knows nothing of who shall go.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from elasticd.cluster.kubernetes.restore.records import Restoration
from elasticd.cluster.kubernetes.restore.steps import RestorationSteps, RestorerParts, creation
from elasticd.cluster.kubernetes.session import ApiError, encode
from elasticd.cluster.kubernetes.wire.convert import MIRROR
from elasticd.cluster.kubernetes.wire.manifest import remade, tried
from elasticd.cluster.kubernetes.write.answers import conflict, refused_by, spent
from elasticd.cluster.kubernetes.write.idempotent import Allowed
from elasticd.cluster.kubernetes.write.pod_state import PodState, read_pod
from elasticd.model.actions import Answer, Evict
from elasticd.model.moves import Underway

T = TypeVar("T")

AGAIN = 30.0
"""Seconds between two looks for records that others have left."""


class Restorer:
    """Evicts and makes anew. What follows an eviction goes on in the background, and `run` takes up what is left."""

    def __init__(self, shop: RestorerParts) -> None:
        self._shop, self._evictor, self._records = shop, shop.evictor, shop.records
        self._courses: dict[str, RestorationSteps] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._preparing: set[str] = set()
        self._fault = ""
        self.patience = 30.0

    @property
    def fault(self) -> str:
        """What is wrong, in a line for each pod; empty when nothing is."""
        return "; ".join(filter(None, [self._fault, *[one.fault for one in self._courses.values()]]))

    @property
    def underway(self) -> list[Underway]:
        """The pods that are being made anew."""
        return [one.underway for one in self._courses.values()]

    async def close(self) -> None:
        """Stop; what is not finished is written down."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def evict(self, action: Evict, allowed: Allowed) -> Answer:
        """Let the pod be evicted, if it would come back."""
        if action.uid in self._courses or action.uid in self._preparing:
            return Answer("refused", 0, "it is being made anew already", "UnderWay")
        self._preparing.add(action.uid)
        try:
            found = await self._prepare(action, allowed)
            if isinstance(found, Answer):
                return found
            answer = await self._evictor.evict(action, allowed, partial(_unfit, action))
            evicted = answer.result == "done" and not answer.reason
            if evicted or (answer.result == "failed" and (answer.code == 0 or answer.code >= 500)):
                self._begin(found, evicted=evicted)
            else:
                with contextlib.suppress(ApiError):  # a record that stays is found later, and nothing has been done
                    await self._records.remove(found)
            return answer
        finally:
            self._preparing.discard(action.uid)

    async def _prepare(self, action: Evict, allowed: Allowed) -> Restoration | Answer:
        """Write down what the pod is made from, once the server has said that it would create it."""
        try:
            found = await read_pod(self._shop.session, action.workload)
        except ApiError as error:
            return refused_by(error)
        if stop := _unfit(action, found):
            return stop
        assert found is not None, "one that is gone is not fit"  # noqa: S101
        manifest = remade(msgspec.json.decode(found.body), self._shop.clock.now())
        text = encode(manifest).decode()
        one = Restoration(
            action.workload, action.uid, text, self._shop.identity, why=action.reason, since=found.version
        )
        trial = creation(one.pod, encode(tried(manifest)), dryRun="All")
        tried_out = await self._written(partial(self._shop.session.send, trial), allowed)
        if isinstance(tried_out, Answer):
            return tried_out
        claimed = await self._written(partial(self._records.claim, one), allowed)
        return claimed or Answer("refused", 409, "another elasticd makes it anew", "UnderWay")

    async def _written(self, write: Callable[[], Awaitable[T]], allowed: Allowed) -> T | Answer:
        if not await self._shop.budget.take(self.patience):
            return spent(f"the write budget is spent for the next {self.patience:g} s")
        if stop := allowed():
            return stop
        try:
            return await write()
        except ApiError as error:
            self._shop.budget.pause(error.quiet)
            return Answer("refused", error.code, f"it might not come back: {error}", "NotRestorable")

    async def run(self) -> None:
        """Take up, for ever, what was begun and not finished, by whomever; while this daemon leads."""
        while True:
            if self._shop.leading():
                await self._look()
            await self._shop.clock.sleep_until(self._shop.clock.now() + (AGAIN if self._shop.leading() else 1.0))

    async def _look(self) -> None:
        try:
            found, odd = await self._records.all()
        except ApiError as error:
            self._fault = f"what has yet to be made anew cannot be looked for: {error}"
            return
        self._fault = f"no records of pods to be made anew, left alone: {', '.join(odd)}" if odd else ""
        for one in found:
            if one.uid not in self._courses and one.uid not in self._preparing:
                self._begin(one, evicted=False)

    def _begin(self, one: Restoration, *, evicted: bool) -> None:
        course = RestorationSteps(one, self._shop, evicted=evicted)
        self._courses[one.uid] = course
        task = asyncio.create_task(self._follow(course), name=one.name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, course: RestorationSteps) -> None:
        try:
            await course.run()
        finally:
            del self._courses[course.one.uid]


def _unfit(action: Evict, found: PodState | None) -> Answer | None:
    """Why it is not made anew."""
    if found is None or found.uid != action.uid:
        return conflict(404, "it is gone")
    if found.deleted:
        return conflict(409, "it is being deleted")
    pod: Any = msgspec.json.decode(found.body)
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return conflict(409, "it has ended, and would run a second time")
    if any(one.get("controller") for one in pod["metadata"].get("ownerReferences") or ()):
        return conflict(409, "it has a controller, which makes another")
    if MIRROR in found.annotations:
        return conflict(409, "a kubelet runs it from a file")
    return None
