"""What containers should request.

Frozen records: cores or bytes by resource. Knows nothing of who recommends, judges or changes.
"""

from msgspec import Struct

Sizes = dict[str, dict[str, float]]
"""Amounts by container, then resource."""


class Resizing(Struct, frozen=True, gc=False):
    """A pod that has not been given yet what it requests: `state` is Deferred (its node has no room now), Infeasible
    (never) or InProgress, `message` what its kubelet says of it."""

    pod: str
    state: str
    message: str = ""


class Resources(Struct, frozen=True, gc=False):
    """What a container should request: in one pod, now; or (pod empty) in general, with what it requests at present and
    why. Without `requests` it is not known. `strategy` is set by judgement."""

    container: str
    requests: dict[str, float] = {}
    present: dict[str, float] = {}
    pod: str = ""
    reason: str = ""
    message: str = ""
    strategy: str = ""
