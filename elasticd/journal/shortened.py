"""Decisions that are like an earlier one but for what was seen, as the journal writes them: shorter.

Pure. Knows decisions; knows nothing of files, but that a reader of one has what stands before in it.
"""

from msgspec import Struct
from msgspec.structs import replace

from elasticd.model.records import Decision
from elasticd.model.workload import Recommendation, Ref, Series

ROW = 60
"""So many are told by one that stands in full: who loses that one loses no more than these."""


class ShortenedDecision(Struct, frozen=True, gc=False, tag="decision-again", omit_defaults=True):
    """A decision that is the one `of` but for its time, its series and what was recommended (None: the same)."""

    id: str
    at: float
    policy: str
    workload: Ref
    of: str
    current: int
    series: tuple[Series, ...]
    recommendations: tuple[Recommendation, ...] | None = None

    def agrees(self, first: Decision) -> bool:
        """Whether that may be the one: all that stands in both is equal, so that nobody's decision is taken for
        another's."""
        mine = self.of, self.policy, self.workload, self.current
        return mine == (first.id, first.policy, first.workload, first.current)

    def restored(self, first: Decision) -> Decision:
        """The decision as it was, from the one that it is like."""
        said = first.recommendations if self.recommendations is None else self.recommendations
        return replace(first, id=self.id, at=self.at, series=self.series, recommendations=said)


class Shortener:
    """The writer's side: what stands in the file already of each workload."""

    def __init__(self) -> None:
        self._firsts: dict[tuple[str, Ref], tuple[Decision, Decision]] = {}
        self._told: dict[tuple[str, Ref], int] = {}
        """How many have been told by each of them."""

    def begin(self) -> None:
        """Another file, or one of which it is not known what stands in it: every workload is told anew."""
        self._firsts.clear()
        self._told.clear()

    def shorten(self, decision: Decision) -> Decision | ShortenedDecision:
        """What is to be written, after what was before."""
        key, bare = (decision.policy, decision.workload), _bare(decision)
        first, like = self._firsts.get(key, (None, None))
        told = self._told.get(key, 0)
        if first is None or bare != like or told >= ROW:
            self._firsts[key], self._told[key] = (decision, bare), 0
            return decision
        self._told[key] = told + 1
        said = None if decision.recommendations == first.recommendations else decision.recommendations
        return ShortenedDecision(decision.id, decision.at, *key, first.id, decision.current, decision.series, said)


class Expander:
    """The reader's side, of one file from its beginning: no more is kept than the writer looks at."""

    def __init__(self) -> None:
        self._firsts: dict[tuple[str, Ref], Decision] = {}

    def saw(self, decision: Decision) -> None:
        """A decision that stands in full."""
        self._firsts[decision.policy, decision.workload] = decision

    def restore(self, again: ShortenedDecision) -> Decision | None:
        """The decision as it was; None where what it is like was lost."""
        first = self._firsts.get((again.policy, again.workload))
        return again.restored(first) if first is not None and again.agrees(first) else None


def _bare(decision: Decision) -> Decision:
    """What may be left out of the next one, where it is equal."""
    return replace(decision, id="", at=0.0, series=(), recommendations=())
