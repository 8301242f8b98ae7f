"""Protocols of those who are told what is decided about pods, and what came of it.

Knows the records; knows nothing of who listens.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol, runtime_checkable

from elasticd.model.moves import MoveDecision
from elasticd.model.placement import PodDecision, PodOutcome


@runtime_checkable
class PlacingListener(Protocol):
    """Someone who is told what has been written to the journal. Must not block or raise."""

    def placing(self, decision: PodDecision) -> None:
        """A decision about a pod was made, and is not the one that was made before."""

    def placed(self, outcome: PodOutcome) -> None:
        """Something was done for it, or not."""

    def planned(self, policy: str, seconds: float) -> None:
        """A plan was made, in this time."""

    def waiting(self, policy: str, counts: Mapping[str, int]) -> None:
        """So many pods of the pool wait now, by reason."""

    def pools(self, names: AbstractSet[str]) -> None:
        """From now on these policies are in force, and no others."""


@runtime_checkable
class MovingListener(Protocol):
    """Someone who is told what has been written to the journal. Must not block or raise."""

    def looked(self, policy: str, seconds: float) -> None:
        """A pool was looked at for pods that should leave their nodes, and what is done was planned in this time."""

    def moving(self, decision: MoveDecision) -> None:
        """It was decided that a pod is moved, or otherwise than before that it is not."""

    def placed(self, outcome: PodOutcome) -> None:
        """Something was done for it, or not."""
