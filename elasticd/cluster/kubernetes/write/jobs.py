"""Creates and deletes the Jobs of a set: each once, whatever the server answers.

A Job's name follows from the decision, so a name that is taken by a Job of the set is that very Job, created by a write
whose reply was lost, or by a daemon that died after it. A deletion names the UID. Knows the answers of the API; knows
nothing of policies or leadership.
"""

import msgspec
from msgspec.structs import replace

from elasticd.base.clock import Clock, ServerTime
from elasticd.cluster.kubernetes.session import ApiError, Session, decoded, encode
from elasticd.cluster.kubernetes.watch.discovery import JOBS
from elasticd.cluster.kubernetes.watch.job_store import JobStore
from elasticd.cluster.kubernetes.wire.jobs import PlacedJob, WireJob, stamped, to_job
from elasticd.cluster.kubernetes.write.answers import READ_BACK_AFTER, conflict, failed, refused_by, spent
from elasticd.cluster.kubernetes.write.budget import Allowed, Budget
from elasticd.model.actions import Answer, Create, Remove

_REPEATS = 3
_JOB = msgspec.json.Decoder(WireJob)
_MADE = Answer("done", 201)
_THERE = Answer("done", 200)


class Jobs:
    """Writes Jobs, and stores the server's answers before the next decision."""

    def __init__(self, session: Session, budget: Budget, clock: Clock, times: ServerTime, store: JobStore) -> None:
        self._session, self._budget, self._clock, self._times, self._store = session, budget, clock, times, store

    async def create(self, action: Create, allowed: Allowed) -> Answer:
        """Create the Jobs one after another, until one cannot be. `allowed` is asked before each write."""
        created, existing, answer = 0, 0, _MADE
        for name in action.names():
            answer = await self._create(action, name, allowed)
            if answer.result != "done":
                break
            created, existing = created + (answer is _MADE), existing + (answer is not _MADE)
        return _summed(action, created, existing, answer)

    async def _create(self, action: Create, name: str, allowed: Allowed) -> Answer:
        job = stamped(action.manifest, name, action.workload.name, action.template, action.decision)
        request = JOBS.request("create", action.workload.namespace, body=encode(job))
        answer = _MADE
        for _ in range(1 + _REPEATS):
            if stop := await self._budget.turn(allowed):
                return stop
            try:
                self._remember(await self._session.send(request))
                return _MADE
            except ApiError as error:
                self._budget.pause(error.quiet)
                answer = refused_by(error)
                if error.reason == "AlreadyExists" or error.code >= 500 or (error.code == 0 and error.sent):
                    outcome = await self._read_back(action, name, error)
                    if outcome is not None:
                        return outcome
                elif error.quiet > self._budget.patience or error.code not in (
                    409,
                    429,
                ):  # a quota conflicts with itself
                    return answer
        return answer

    async def _read_back(self, action: Create, name: str, lost: ApiError) -> Answer | None:
        """Whether the Job is there after all; None when it is not, so that it may be created again under its name."""
        request = JOBS.request("get", action.workload.namespace, name)
        for seconds in READ_BACK_AFTER:
            await self._clock.sleep_until(self._clock.now() + seconds)
            try:
                placed = self._remember(await self._session.send(request))
            except ApiError as error:
                if error.code == 404:
                    return None
                continue
            if placed.set != action.workload:
                self._store.skip(action.workload, placed.job.number)
                return conflict(409, f"the Job {name} is there, and is not of this set")
            if placed.job.deleted:
                return conflict(409, f"the Job {name} is there, and is being deleted")
            return _THERE
        return failed(lost.code, f"{lost}; whether {name} was created cannot be read back")

    def _remember(self, body: bytes) -> PlacedJob:
        """Put the server's picture of a Job into the store at once. Raises ApiError when it is no Job."""
        placed = to_job(decoded(body, _JOB, "Job"), self._times.offset())
        if placed.set.name:
            self._store.put(placed, listed=False)
        return placed

    async def remove(self, action: Remove, allowed: Allowed) -> Answer:
        """Delete the Jobs one after another, until one cannot be. Those that have ended may wait for a quiet time."""
        gone, urgent = 0, action.after < action.before
        for name, uid in action.jobs:
            if not (await self._budget.take(self._budget.patience) if urgent else self._budget.spare()):
                return _short(action, gone, spent("the write budget is short"))
            if stop := allowed():
                return _short(action, gone, stop)
            try:
                await self._delete(action, name, uid)
            except ApiError as error:
                self._budget.pause(error.quiet)
                if error.code not in (404, 409):  # it is gone, or another has its name
                    return _short(action, gone, refused_by(error))
            self._store.forget(action.workload, name, uid)
            gone += 1
        return Answer("done", 200, f"deleted {gone} Jobs")

    async def _delete(self, action: Remove, name: str, uid: str) -> None:
        options = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        await self._session.send(JOBS.request("delete", action.workload.namespace, name, body=encode(options)))


def _summed(action: Create, created: int, existing: int, last: Answer) -> Answer:
    """One answer for all Jobs of an action: done when at least one exists, with the count that does."""
    note = f"{existing} had been created before" if existing else ""
    if last.result == "done":
        return Answer("done", 201 if created else 200, note)
    if not created + existing:
        return last
    message = f"{created + existing} of {action.after - action.before} Jobs are there: {last.message}"
    return Answer("done", last.code, message, "Partly", after=action.before + created + existing)


def _short(action: Remove, gone: int, last: Answer) -> Answer:
    """The answer for a deletion that stopped early, with the count that remains: Jobs in flight are deleted first."""
    after = max(action.after, action.before - gone)
    return replace(last, message=f"{gone} of {len(action.jobs)} Jobs were deleted: {last.message}", after=after)
