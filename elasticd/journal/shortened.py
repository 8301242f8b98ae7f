"""Shortened decisions: a decision that earlier versions wrote as its difference from one before it in its segment.

Only read: decisions are written in full now (docs/decisions/006). Knows nothing of files.
"""

from msgspec import Struct
from msgspec.structs import replace

from elasticd.model.records import Decision
from elasticd.model.workload import Recommendation, Ref, Series


class ShortenedDecision(Struct, frozen=True, gc=False, tag="decision-again", omit_defaults=True):
    """A decision that equals the one with id `of` but for its id, time, series and recommendations (None: the same)."""

    id: str
    at: float
    policy: str
    workload: Ref
    of: str
    current: int
    series: tuple[Series, ...]
    recommendations: tuple[Recommendation, ...] | None = None

    def agrees(self, first: Decision) -> bool:
        """Whether `first` may be the full decision: all fields that both have are equal, so that no decision is
        restored from another workload's."""
        mine = self.of, self.policy, self.workload, self.current
        return mine == (first.id, first.policy, first.workload, first.current)

    def restored(self, first: Decision) -> Decision:
        """The full decision, restored from the one that it refers to."""
        recommendations = first.recommendations if self.recommendations is None else self.recommendations
        return replace(first, id=self.id, at=self.at, series=self.series, recommendations=recommendations)


class Expander:
    """Restores the shortened decisions of one segment, read from its beginning: it keeps the last full decision about
    each workload."""

    def __init__(self) -> None:
        self._firsts: dict[tuple[str, Ref], Decision] = {}

    def saw(self, decision: Decision) -> None:
        self._firsts[decision.policy, decision.workload] = decision

    def restore(self, shortened: ShortenedDecision) -> Decision | None:
        """The full decision of a shortened one; None where the one that it refers to was lost."""
        first = self._firsts.get((shortened.policy, shortened.workload))
        return shortened.restored(first) if first is not None and shortened.agrees(first) else None
