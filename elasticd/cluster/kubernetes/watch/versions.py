"""Compares resourceVersions, and tells once when the API server's went back, as after a restore of etcd from a backup.

Knows nothing of what is read of the server, or of what its reader does about it.
"""

import logging

from elasticd.base.clock import Clock

logger = logging.getLogger(__name__)

SHOWN = 600.0
"""Seconds for which it is a problem that versions went back."""

_SAME = 60.0
"""Seconds within which others that see it report the same restore."""


def is_older(version: str, than: str) -> bool:
    """Whether a resourceVersion is older than another. Both must be whole numbers, as all of Kubernetes' are; of others
    nothing can be said."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


class Rollbacks:
    """What is known of the server's versions having gone back."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = float("-inf")
        self._text = ""
        self.count = 0
        """How often versions went back: who has read anything before the last time reads it anew."""

    def note(self, resource: str, before: str, after: str) -> None:
        """A list of a resource, or the Lease, had version `after`, and one that was read earlier had `before`."""
        now = self._clock.now()
        if now - self._at < _SAME:
            return
        self._at = now
        self.count += 1
        self._text = (
            f"the API server's resourceVersions went back (of {resource}, from {before} to {after}), as when etcd is "
            "restored from a backup: everything is listed anew"
        )
        logger.warning("%s", self._text)

    @property
    def problem(self) -> str:
        """What happened, in one line; empty: nothing did of late."""
        return self._text if self._clock.now() - self._at < SHOWN else ""
