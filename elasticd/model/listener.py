"""The protocol of those who are told what the loop does.

Knows the records that are told; knows nothing of who listens.
"""

from collections.abc import Set as AbstractSet
from typing import Protocol

from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Ref


class Listener(Protocol):
    """Someone who is told what has been written to the journal. Must not block or raise."""

    def decided(self, decision: Decision) -> None:
        """A decision was made."""

    def acted(self, outcome: Outcome) -> None:
        """An action was carried out, or not."""

    def ticked(self, lag: float, unchanged: int) -> None:
        """A tick has ended: how late it began, and how many workloads had no new sample."""

    def governed(self, keys: AbstractSet[tuple[str, Ref]]) -> None:
        """From now on these workloads are governed, each under its policy's name, and no others."""
