"""Listeners of the loops, and the records that they get.

Knows the records; knows nothing of who listens.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

from msgspec import Struct

from elasticd.model.moves import MoveDecision
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Ref


class Ticked(Struct, frozen=True):
    """A tick has ended: by how many seconds it began late (None: nothing was due, as for a daemon that stands by), and
    how many workloads had no new sample."""

    lag: float | None = None
    unchanged: int = 0


IDLE_TICK = Ticked()


class Governed(Struct, frozen=True):
    """From now on these workloads are governed, each under its policy's name, and no others."""

    keys: AbstractSet[tuple[str, Ref]]


class PoolsApplied(Struct, frozen=True):
    """From now on the pool policies of these names are in force, and no others."""

    names: AbstractSet[str]


class PodsPlanned(Struct, frozen=True):
    """A plan for the pending pods of a pool was made, in so many seconds."""

    policy: str
    seconds: float


class PodsWaiting(Struct, frozen=True):
    """So many pods of a pool wait now, by reason."""

    policy: str
    counts: Mapping[str, int]


class MovesPlanned(Struct, frozen=True):
    """The moves of a pool's pods were planned, in so many seconds. `failing`: how many of them failed when they were
    last tried, and are tried again."""

    policy: str
    seconds: float
    failing: int = 0


class MoveTakenBack(Struct, frozen=True):
    """The pod with this UID stays: its replacement was made in vain."""

    uid: str


Notice = (
    Decision | Outcome | PodDecision | PodOutcome | MoveDecision | Ticked | Governed
    | PoolsApplied | PodsPlanned | PodsWaiting | MovesPlanned | MoveTakenBack
)  # fmt: skip
"""What listeners hear: what has been written to the journal, and what a loop has done otherwise."""


class Listener(Protocol):
    """Someone who hears of every record, and picks those that concern him. Must not block or raise."""

    def on(self, record: Notice) -> None:
        """Take in a record."""


def tell(listeners: Iterable[Listener], record: Notice) -> None:
    """Tell all listeners of a record."""
    for listener in listeners:
        listener.on(record)
