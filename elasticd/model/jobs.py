"""What a job set is made of.

Frozen records, as those of model.py; knows nothing of templates or of how Jobs come and go.
"""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

JOB_KIND = ("batch/v1", "Job")
"""apiVersion and kind of a job set: a Job alone cannot be scaled, so a reference of this kind is always to a set."""


class Job(Struct, frozen=True, gc=False, omit_defaults=True):
    """A Job of a job set: the `number`th, from the template of this hash. Times are the API's, in whole seconds.
    `result` is empty while it is in flight, which it is until it has ended, also before it has a pod."""

    name: str
    uid: str
    template: str = ""
    number: int = 0
    created: float = 0.0
    ended: float = 0.0
    result: Literal["", "Complete", "Failed"] = ""
    deleted: bool = False
    suspended: bool = False
    """Whether somebody holds it: it is in flight, and has no pods."""


REMEMBERED = 900.0
"""Seconds for which a Job that is gone is remembered: a queue may have been measured while it was there."""


class Gone:
    """The Jobs of a set that are gone, each with the time at which it ended or was deleted."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}

    def add(self, job: Job, at: float) -> None:
        """Add a Job that was deleted, or was found to be gone, at a time; forget those that are gone for long."""
        oldest = at - REMEMBERED
        if not job.ended or job.ended >= oldest:
            self._jobs[job.uid] = job if job.ended else replace(job, ended=at)
        while self._jobs and (first := next(iter(self._jobs.values()))).ended < oldest:
            del self._jobs[first.uid]

    def back(self, uid: str) -> None:
        """Remove a Job that is there after all."""
        self._jobs.pop(uid, None)

    def all(self) -> tuple[Job, ...]:
        return tuple(self._jobs.values())
