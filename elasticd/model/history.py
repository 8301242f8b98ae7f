"""The history of one workload for decisions: recommended counts, changes, and values of series.

Frozen records; times are seconds since the epoch. Knows nothing of the journal that they come from.
"""

from itertools import takewhile

from msgspec import Struct


class Point(Struct, frozen=True, gc=False, array_like=True, cache_hash=True):
    """What a series that was trusted came to: when its newest sample was measured, the sum of its samples, and of how
    many pods (0: of the workload as a whole). `whole` False: samples of others were missing, so it was more."""

    at: float
    total: float
    pods: int
    whole: bool = True


class Run(Struct, frozen=True, gc=False, array_like=True):
    """Equal wishes in a row: the first and the last time the same count was wished for. `last` is later by as long as
    nothing was known since, so that windows stand still meanwhile."""

    first: float
    last: float
    replicas: int


class Change(Struct, frozen=True, gc=False, array_like=True):
    """A change of the count, and the reason of its decision (empty: not elasticd's)."""

    at: float
    before: int
    after: int
    reason: str = ""


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
    foreign: tuple[Change, ...] = ()
    """Changes of the count by others between two decisions, at the time of the later one."""
    count: int | None = None
    """What the count was when it was last looked at or set; None: it is not known."""
    bounds_from: int | None = None
    """What the count was when it was last found outside the policy's bounds, as it still is; None: it is not."""
    asked: Change | None = None
    """What the last decision asked for, whatever came of it."""
    resizes: dict[str, float] = {}
    """By pod's uid, when a change of its requests was last sent."""
    recommends_since: float | None = None
    """When the cluster last said that it cannot change requests in place; None: it never did."""
    uid: str = ""
    """The UID of the object whose count this was; empty: it is not known."""
    zero: str | None = None
    """The revision of the workload while it is at 0 by decision (`Decision.zero`); None: it is not."""

    def wishes(self, after: float, *, inclusive: bool = False) -> list[int]:
        """The distinct wishes later than a time (or at it, if inclusive), newest first."""
        runs = takewhile(lambda run: run.last > after or (inclusive and run.last == after), reversed(self.runs))
        return [run.replicas for run in runs]

    def others(self, at: float, count: int) -> tuple[Change, ...]:
        """The changes that somebody else made, including the one that this count, seen at this time, shows. A count
        that was asked for is ours even where the answer to that was lost."""
        if self.count is None or self.count == count or (self.asked is not None and self.asked.after == count):
            return self.foreign
        return (*self.foreign, Change(at, self.count, count))

    def changes_after(self, after: float) -> list[Change]:
        """The scalings strictly later than a time, newest first."""
        return list(takewhile(lambda change: change.at > after, reversed(self.changes)))
