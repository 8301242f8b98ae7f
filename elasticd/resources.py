"""What containers should request, and the change of a pod that is made for it.

Frozen records: cores or bytes by resource. Knows nothing of who recommends, judges or changes.
"""

from msgspec import Struct

Sizes = dict[str, dict[str, float]]
"""Amounts by container, then resource."""


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


class Resize(Struct, frozen=True, gc=False, tag="resize"):
    """Set what containers of a running pod request, if it still is the one that was judged and requests what it did
    `before`."""

    namespace: str
    pod: str
    uid: str
    before: Sizes
    after: Sizes
    reason: str = ""


class Sizing(Struct, frozen=True, gc=False):
    """What containers should request, the pods that are to request it now, and why others are left as they are."""

    resources: tuple[Resources, ...] = ()
    resizes: tuple[Resize, ...] = ()
    unresized: str = ""
