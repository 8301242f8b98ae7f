"""What a status page shows of a cluster.

Knows nothing of where it came from.
"""

from msgspec import Struct


class Description(Struct, frozen=True):
    """What a status page shows of a cluster."""

    server: str
    version: str
    identity: str
    leading: bool
    leader: str
    confirmed: float
    problems: dict[str, str]
    skipped: int
    events_dropped: int
