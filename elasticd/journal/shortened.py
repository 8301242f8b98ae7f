"""Shortened decisions: the journal writes one that differs from an earlier one only in its samples as that difference.

Pure. Knows decisions; of files it knows only that a reader has read the lines before.
"""

from msgspec import Struct
from msgspec.structs import replace

from elasticd.model.records import Decision
from elasticd.model.workload import Recommendation, Ref, Series

ROW = 60
"""Shortened decisions that refer to one full decision, at most: a lost line costs no more than these."""


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


class Shortener:
    """The writer's side: it knows the last full decision about each workload in the file."""

    def __init__(self) -> None:
        self._firsts: dict[tuple[str, Ref], tuple[Decision, Decision]] = {}
        self._counts: dict[tuple[str, Ref], int] = {}
        """How many shortened decisions refer to each of them."""

    def begin(self) -> None:
        """Begin a new segment, or one with unknown contents: it gets a full decision about every workload."""
        self._firsts.clear()
        self._counts.clear()

    def shorten(self, decision: Decision) -> Decision | ShortenedDecision:
        """The decision, or a shortened one, to be written next."""
        key, bare = (decision.policy, decision.workload), _without_samples(decision)
        first, like = self._firsts.get(key, (None, None))
        count = self._counts.get(key, 0)
        if first is None or bare != like or count >= ROW:
            self._firsts[key], self._counts[key] = (decision, bare), 0
            return decision
        self._counts[key] = count + 1
        recommendations = None if decision.recommendations == first.recommendations else decision.recommendations
        return ShortenedDecision(
            decision.id, decision.at, *key, first.id, decision.current, decision.series, recommendations
        )


class Expander:
    """The reader's side, for one file from its beginning: it keeps the last full decision about each workload."""

    def __init__(self) -> None:
        self._firsts: dict[tuple[str, Ref], Decision] = {}

    def saw(self, decision: Decision) -> None:
        """Take in a full decision."""
        self._firsts[decision.policy, decision.workload] = decision

    def restore(self, shortened: ShortenedDecision) -> Decision | None:
        """The full decision of a shortened one; None where the one that it refers to was lost."""
        first = self._firsts.get((shortened.policy, shortened.workload))
        return shortened.restored(first) if first is not None and shortened.agrees(first) else None


def _without_samples(decision: Decision) -> Decision:
    """The decision without the fields in which a shortened one may differ."""
    return replace(decision, id="", at=0.0, series=(), recommendations=())
