"""Job sets: which Jobs to create, under which names, and which to delete.

Pure. Knows what a set has that a workload has not: Jobs end by themselves, and stay for a while. Knows nothing of
metrics, of what is in a template, or of the API.
"""

from msgspec import Struct

from elasticd.base.text import counted
from elasticd.model.actions import Create, Remove
from elasticd.model.jobs import Job
from elasticd.model.policy import JobSet
from elasticd.model.workload import Limit, Workload

AT_ONCE = 100
"""Jobs that one decision deletes at most for the sake of the history."""

IN_A_ROW = 3
"""Jobs that fail one after the other, with none completed since the first, before others are delayed."""

SHORTEST, LONGEST = 10.0, 360.0
"""Seconds between the last of these and the next Job: the Job controller's pauses between a Job's failed pods."""


class Failing(Struct, frozen=True):
    """The last `count` Jobs of a template failed, over so many seconds; none is created before `until`."""

    count: int
    seconds: float
    until: float


def grow(job: JobSet, workload: Workload, after: int, reason: str, decision: str) -> Create:
    """The action that creates as many Jobs as are missing. Numbers go on from the highest that is seen, whatever
    template it is from, or that is taken. Where some Jobs are not seen yet, their names come out again, and are found
    to be taken by what they were meant for."""
    first = 1 + max(workload.taken, *(existing.number for existing in workload.jobs), 0)
    return Create(workload.ref, workload.uid, workload.replicas, after, reason, job.template, first, decision)


def tidy(job_set: JobSet, workload: Workload, *, still: bool = False) -> tuple[Remove, ...]:
    """What to delete: Jobs of an old template if the rollout says so and not `still`, and the oldest ended ones."""
    removals, flying = [], workload.replicas
    present = [job for job in workload.jobs if not job.deleted]
    old = [job for job in present if not job.result and job.template != job_set.template]
    if old and job_set.rollout == "default" and not still:
        removals.append(_remove(workload, flying, flying - len(old), "TemplateChanged", old))
        flying -= len(old)
    surplus = [
        *_beyond_history(present, "Complete", job_set.successful_history),
        *_beyond_history(present, "Failed", job_set.failed_history),
    ]
    if surplus:
        removals.append(_remove(workload, flying, flying, "HistoryLimit", sorted(surplus, key=_age)[:AT_ONCE]))
    return tuple(removals)


def failing(job_set: JobSet, workload: Workload) -> Failing | None:
    """Whether the last Jobs of the set's template failed, so that the next would too; None: they did not. They are
    delayed by as long as Jobs have been failing, so the pauses double, however many Jobs fail at once."""
    ended = [job for job in (*workload.jobs, *workload.gone) if job.template == job_set.template and job.result]
    completed = max((job.ended for job in ended if job.result == "Complete"), default=0.0)
    failed = [job.ended for job in ended if job.result == "Failed" and job.ended > completed]
    if len(failed) < IN_A_ROW:
        return None
    first, last = min(failed), max(failed)
    return Failing(len(failed), last - first, last + min(max(last - first, SHORTEST), LONGEST))


def failing_limit(failing: Failing, current: int, at: float) -> Limit | None:
    """What keeps Jobs from being created while they fail; None: the next may be tried."""
    if at >= failing.until:
        return None
    over = f" over {failing.seconds:.0f} s" if failing.seconds else ""
    pause = failing.until - at
    message = f"the last {counted(failing.count, 'Job')} failed{over}; the next is created in {pause:.0f} s"
    return Limit("JobsFail", message, highest=current, name="jobs", bound=True)


def _beyond_history(jobs: list[Job], result: str, keep: int) -> list[Job]:
    """The ended Jobs of a result, but for the `keep` that ended last."""
    ended = sorted((job for job in jobs if job.result == result), key=_age)
    return ended[: max(0, len(ended) - keep)]


def _age(job: Job) -> tuple[float, int, str]:
    return job.ended, job.number, job.name


def _remove(workload: Workload, before: int, after: int, reason: str, jobs: list[Job]) -> Remove:
    pairs = tuple((job.name, job.uid) for job in jobs)
    return Remove(workload.ref, workload.uid, before, max(0, after), reason, pairs)
