"""From the eviction of one pod to its being there again, driven only by what is found.

So any daemon goes on where another has stopped:

    the pod is there            nothing was done to it: after a quiet time the record is removed
    it is being deleted         wait
    it is gone                  create it, if the record is still there: if not, another daemon has
    it is there, made anew      remove the record

Two that do the same at once do it once: a name can be taken once, and the record goes last. Knows these steps; knows
nothing of why a pod was evicted.
"""

import logging

from elasticd.clock import Clock
from elasticd.cluster.kubernetes.budget import Budget
from elasticd.cluster.kubernetes.discovery import PODS
from elasticd.cluster.kubernetes.manifest import RESTORED
from elasticd.cluster.kubernetes.pod_state import read_pod
from elasticd.cluster.kubernetes.restorations import Records, Restoration
from elasticd.cluster.kubernetes.session import ApiError, Request, Session
from elasticd.model import Ref

logger = logging.getLogger(__name__)

QUIET = 30.0
"""Seconds for which a pod that has a record must be seen untouched before nobody is thought to be about to evict it:
longer than a request that is under way lasts."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0


class Course:
    """One pod's. `fault` is what keeps it from being made anew, in one line."""

    def __init__(
        self,
        one: Restoration,
        session: Session,
        budget: Budget,
        clock: Clock,
        records: Records,
        *,
        evicted: bool,
    ) -> None:
        """`evicted`: we did it ourselves just now."""
        self.one, self.fault = one, ""
        self._session, self._budget, self._clock, self._records = session, budget, clock, records
        self._record_unsure, self._untouched_since = evicted, 0.0

    async def run(self) -> None:
        """Go on until nothing is left to do. Who leads does not matter any more: nobody else may know of it yet."""
        pause = FIRST_PAUSE
        while not await self._tried():
            await self._clock.sleep_until(self._clock.now() + pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _tried(self) -> bool:
        fault = ""
        try:
            return await self._step()
        except ApiError as error:
            self._budget.pause(error.quiet)
            fault = str(error)
        except Exception:
            logger.exception("%s: cannot be made anew", self.one.pod)
            fault = "internal error, see the log"
        finally:
            where = f"ConfigMap {self._records.home}/{self.one.name}"
            self.fault = f"{self.one.pod} has yet to be made anew, from {where}: {fault}" if fault else ""
        return False

    async def _step(self) -> bool:
        """Do what is next; whether all is done."""
        if self._record_unsure:  # who took over before the eviction may have thought that there would be none
            await self._records.write(self.one)
            self._record_unsure = False
        found = await read_pod(self._session, self.one.pod)
        if found is None:
            return await self._create()
        if found.uid == self.one.uid and (found.deleted or self._unquiet()):
            return False
        if found.uid != self.one.uid and found.annotations.get(RESTORED) != self.one.uid:
            logger.warning("%s is not made anew: another pod has its name", self.one.pod)
        await self._records.remove(self.one)
        return True

    def _unquiet(self) -> bool:
        now = self._clock.now()
        self._untouched_since = self._untouched_since or now
        return now - self._untouched_since < QUIET

    async def _create(self) -> bool:
        if not await self._records.has(self.one):
            return True
        if not await self._budget.take(LONGEST_PAUSE):
            return False
        try:
            await self._session.send(creation(self.one.pod, self.one.manifest.encode()))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return False  # by whom, the next look shows
        await self._records.remove(self.one)
        return True


def creation(pod: Ref, manifest: bytes, **params: str) -> Request:
    """The request that creates a pod in its namespace."""
    return Request(verb="create", path=PODS.path(pod.namespace), resource="pods", body=manifest, params=params)
