"""From the eviction of one pod to its running again, driven only by what is found.

So any daemon goes on where another has stopped:

    the pod is there            nothing was done to it: after a quiet time the record is removed
    it is being deleted         wait
    it is gone                  create it, if the record is still there: if not, another daemon has
    it is there, made anew      note that in the record, wait until it runs, remove the record
    it was made anew, and went  whoever took it away wanted that: remove the record
    another has its name        wait until the name is free, unless it is the same but for who made it

Two that do the same at once do it once: a name can be taken once, and the record goes last. Knows these steps; knows
nothing of why a pod was evicted.
"""

import logging
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from elasticd.clock import Clock
from elasticd.cluster.kubernetes.budget import Budget
from elasticd.cluster.kubernetes.discovery import PODS
from elasticd.cluster.kubernetes.manifest import RESTORED, alike
from elasticd.cluster.kubernetes.pod_state import PodState, read_pod
from elasticd.cluster.kubernetes.restorations import Records, Restoration
from elasticd.cluster.kubernetes.session import ApiError, Request, Session
from elasticd.model import Ref
from elasticd.moves import Underway

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0

LATE = 60.0
"""Seconds for which a step may last before somebody is told that it does."""


class Workshop(Struct, frozen=True):
    """What pods are made anew with. `identity` tells this daemon from others; a pod that was seen untouched for `quiet`
    seconds is not thought to be about to be evicted: longer than a request that is under way lasts."""

    session: Session
    budget: Budget
    clock: Clock
    records: Records
    leading: Callable[[], bool]
    identity: str = ""
    quiet: float = 30.0


class Course:
    """One pod's. `fault` is what keeps it from running again, in one line."""

    def __init__(self, one: Restoration, shop: Workshop, *, evicted: bool) -> None:
        """`evicted`: we did it ourselves just now."""
        self.one, self.fault = one, ""
        self._shop, self._records, self._clock = shop, shop.records, shop.clock
        self._record_unsure, self._untouched_since = evicted, 0.0
        self._at, self._since = "", shop.clock.now()

    @property
    def underway(self) -> Underway:
        """As a person looks at it."""
        one, step = self.one, self._at or "begun"
        return Underway(one.pod, one.uid, "anew", step, self._since, fault=self.fault, why=one.why)

    async def run(self) -> None:
        """Go on until nothing is left to do."""
        pause = FIRST_PAUSE
        while not await self._tried():
            await self._clock.sleep_until(self._clock.now() + pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _tried(self) -> bool:
        fault = ""
        try:
            if await self._step():
                return True
            late = self._clock.now() - self._since
            fault = f"{self._at} for {late:.0f} s" if late > LATE else ""
        except ApiError as error:
            self._shop.budget.pause(error.quiet)
            fault = str(error)
        except Exception:
            logger.exception("%s: cannot be made anew", self.one.pod)
            fault = "internal error, see the log"
        where = f"ConfigMap {self._records.home}/{self.one.name}"
        fault = f"{self.one.pod} has yet to be made anew, from {where}: {fault}" if fault else ""
        if fault and not self.fault:
            logger.warning("%s", fault)
        self.fault = fault
        return False

    def _reached(self, step: str) -> None:
        if step != self._at:
            self._at, self._since = step, self._clock.now()

    async def _step(self) -> bool:
        """Do what is next; whether all is done."""
        found = await read_pod(self._shop.session, self.one.pod)
        if self._record_unsure and (found is None or found.annotations.get(RESTORED) != self.one.uid):
            await self._records.write(
                self.one
            )  # who took over before the eviction may have thought there would be none
        self._record_unsure = False
        if not self._shop.leading():  # who leads now goes on
            return await self._records.read(self.one) is None
        if found is None:
            return await self._create()
        if found.uid == self.one.uid:
            return await self._still_there(found)
        if found.annotations.get(RESTORED) == self.one.uid:
            return await self._made(found)
        return await self._taken(found)

    async def _still_there(self, found: PodState) -> bool:
        self._reached("leaving" if found.deleted else "untouched")
        now = self._clock.now()
        self._untouched_since = self._untouched_since or now
        if found.deleted or now - self._untouched_since < self._shop.quiet:
            return False
        return await self._forget()

    async def _create(self) -> bool:
        self._reached("gone")
        record = await self._records.read(self.one)
        if record is None:
            return True
        if record.made:
            logger.info("%s was made anew, and is gone since", self.one.pod)
            return await self._forget()
        if not await self._shop.budget.take(LONGEST_PAUSE) or not self._shop.leading():
            return False
        try:
            await self._shop.session.send(creation(self.one.pod, self.one.manifest.encode()))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        found = await read_pod(self._shop.session, self.one.pod)  # made by whom, this shows
        return found is not None and found.annotations.get(RESTORED) == self.one.uid and await self._made(found)

    async def _made(self, found: PodState) -> bool:
        self._reached("made anew, on no node" if not found.node else "starting")
        record = await self._records.read(self.one)
        if record is None:
            return True
        if record.made != found.uid:
            await self._records.note(record, found.uid)
        return (found.phase not in ("", "Pending") or found.deleted) and await self._forget()

    async def _taken(self, found: PodState) -> bool:
        if alike(msgspec.json.decode(self.one.manifest, type=dict[str, Any]), msgspec.json.decode(found.body)):
            logger.info("%s was made anew by somebody else", self.one.pod)
            return await self._forget()
        self._reached("its name is taken")
        raise ApiError(409, "AlreadyExists", "another pod has its name")

    async def _forget(self) -> bool:
        """Remove the record, unless another daemon has claimed the pod since."""
        record = await self._records.read(self.one)
        if record is not None and record.by == self.one.by:
            await self._records.remove(record)
        return True


def creation(pod: Ref, manifest: bytes, **params: str) -> Request:
    """The request that creates a pod in its namespace."""
    return Request(verb="create", path=PODS.path(pod.namespace), resource="pods", body=manifest, params=params)
