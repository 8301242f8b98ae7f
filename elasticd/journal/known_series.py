"""How many series could be trusted of late, and since when others are lost: what the breaker of `[disruption]` asks."""

from collections import deque
from collections.abc import Set as AbstractSet

from elasticd.model.records import Decision
from elasticd.model.workload import Ref, Series

REMEMBERED = 600.0
"""Seconds for which it is remembered how many could be trusted."""


def is_known(series: Series) -> bool:
    """Whether its samples can be trusted; that it is empty may count as zero, and may be a loss."""
    return series.trusted and not series.presumed


def counted_series(decision: Decision) -> tuple[Series, ...]:
    """The series of a decision, of which a loss counts: not those of a workload without pods, which may have ended with
    them, as where somebody scales many to zero for a night."""
    return decision.series if decision.current else ()


def _count_known(decision: Decision | None) -> int:
    return sum(map(is_known, counted_series(decision))) if decision else 0


class KnownSeries:
    """The series of the last decisions about workloads."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, int]] = deque()
        """When how many could be trusted: the last count, and those before that were greater than all later ones."""
        self._lost: dict[Ref, dict[str, float]] = {}
        """Since when series of a workload have no samples that can be trusted, by its last decision in mode act."""

    def take(self, record: Decision, before: Decision | None) -> None:
        """Take in a decision, and the last one `before` by the same policy about the same workload."""
        self._count(record.at, _count_known(record) - _count_known(before))
        if record.mode == "act" and record.series:
            since = self._lost.pop(record.workload, {})
            lost = {series.name: since.get(series.name, record.at) for series in record.series if not is_known(series)}
            if lost:
                self._lost[record.workload] = lost

    def _count(self, at: float, change: int) -> None:
        count = change + (self._counts[-1][1] if self._counts else 0)
        while self._counts and self._counts[-1][1] <= count:
            self._counts.pop()
        self._counts.append((at, count))
        while self._counts[0][0] < at - REMEMBERED:
            self._counts.popleft()

    def keep(self, governed: AbstractSet[Ref], count: int) -> None:
        """Drop what is not of these workloads, of which so many series can be trusted."""
        self._lost = {ref: lost for ref, lost in self._lost.items() if ref in governed}
        if self._counts and count < self._counts[-1][1]:
            self._counts.append((self._counts[-1][0], count))

    @property
    def counts(self) -> tuple[tuple[float, int], ...]:
        """When how many could be trusted in the last ten minutes, the oldest first; greater than all later ones."""
        return tuple(self._counts)

    def lost_since(self, ref: Ref) -> float | None:
        """When the series was lost that decisions about a workload in mode act lack last; None: they lack none."""
        return max(self._lost.get(ref, {}).values(), default=None)
