"""What is remembered of one workload, as judgement sees it: wishes, changes, and what series came to.

Frozen records; times are seconds since the epoch. Knows nothing of the journal that they come from.
"""

from msgspec import Struct


class Point(Struct, frozen=True, gc=False, array_like=True):
    """What a series that was trusted came to: when its newest sample was measured, the sum of its samples, and of how
    many pods (0: of the workload as a whole)."""

    at: float
    total: float
    pods: int


class Run(Struct, frozen=True, gc=False, array_like=True):
    """Equal wishes in a row: the first and the last time the same count was wished for."""

    first: float
    last: float
    replicas: int


class Change(Struct, frozen=True, gc=False, array_like=True):
    """A scaling that was carried out."""

    at: float
    before: int
    after: int


class Past(Struct, frozen=True, gc=False):
    """What the journal remembers of one workload under one policy; oldest first, an hour as long as the daemon runs.
    `since` is when the windows were last opened: what was before, or in a gap, is not known.

    Wishes are kept as runs, which loses nothing that a highest or lowest over a window could see.
    """

    since: float
    runs: tuple[Run, ...] = ()
    changes: tuple[Change, ...] = ()
    interval: float | None = None
    """The poll interval in force, in seconds; None before the first decision."""
    until: float = 0.0
    """When the last decision was made."""
    blind_since: float | None = None
    """Since when no decision has known what the workload needs; None: the last one did."""
    points: dict[str, tuple[Point, ...]] = {}
    """By series, oldest first, for as long as a strategy `recalls`. A gap shows in their times."""

    def wishes(self, after: float, *, inclusive: bool = False) -> list[int]:
        """The distinct wishes later than a time (or at it, if inclusive), newest first."""
        found: list[int] = []
        for run in reversed(self.runs):
            if run.last < after or (run.last == after and not inclusive):
                break
            found.append(run.replicas)
        return found

    def changes_after(self, after: float) -> list[Change]:
        """The scalings strictly later than a time, newest first."""
        found: list[Change] = []
        for change in reversed(self.changes):
            if change.at <= after:
                break
            found.append(change)
        return found
