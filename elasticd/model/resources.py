"""Requests of containers.

Frozen records: cores or bytes by resource. Knows nothing of who recommends, judges or changes.
"""

from msgspec import Struct

Sizes = dict[str, dict[str, float]]
"""Amounts by container, then resource."""


class Resizing(Struct, frozen=True, gc=False):
    """A pod whose resize is not complete: `state` is Deferred (no room on its node now), Infeasible (never) or
    InProgress, `message` is its kubelet's."""

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
