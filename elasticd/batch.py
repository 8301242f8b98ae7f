"""What a job set is made of.

Frozen records, as those of model.py; knows nothing of templates or of how Jobs come and go.
"""

from typing import Literal

from msgspec import Struct

JOB_KIND = ("batch/v1", "Job")
"""apiVersion and kind of a job set: a Job alone cannot be scaled, so a reference of this kind is always to a set."""


class Job(Struct, frozen=True, gc=False):
    """A Job of a job set: the `number`th, from the template of this hash. Times are the API's, in whole seconds.

    `result` is empty while it is in flight, which it is until it has ended, also before it has a pod.
    """

    name: str
    uid: str
    template: str = ""
    number: int = 0
    created: float = 0.0
    ended: float = 0.0
    result: Literal["", "Complete", "Failed"] = ""
    deleted: bool = False
