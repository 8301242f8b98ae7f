"""Counts how often plugins fail in a row, and which are switched off for it.

Knows names of plugins; knows nothing of why they fail, or of who asks them.
"""

from collections.abc import Collection, Hashable

STRIKES = 5
"""Failures in a row after which a plugin is switched off."""


class FailureCounter:
    """Failures in a row, for each subject apart: a plugin that fails for one may answer for another."""

    def __init__(self) -> None:
        self.off: frozenset[str] = frozenset()
        """The plugins that have failed too often for any subject. They stay switched off."""
        self._counts: dict[Hashable, dict[str, int]] = {}

    def count(self, subject: Hashable, failed: Collection[str]) -> frozenset[str]:
        """Count the plugins that have failed now; the counts of others restart at 0. Returns those that this switches
        off."""
        counts = self._counts.pop(subject, {})
        if failed:
            counts = self._counts[subject] = {name: counts.get(name, 0) + 1 for name in failed}
        switched_off = frozenset(name for name in failed if counts[name] >= STRIKES) - self.off
        self.off |= switched_off
        return switched_off
