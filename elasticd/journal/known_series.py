"""Which series can be trusted, and which were lost of late: what the breaker of `[disruption]` asks."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from msgspec import Struct

from elasticd.model.records import Decision
from elasticd.model.workload import Ref, Series

REMEMBERED = 600.0
"""Seconds for which a lost series counts: after that it is one that is not there."""


class SeriesCounts(Struct, frozen=True):
    """How many series can be trusted, how many could be and were lost within REMEMBERED seconds, and how many there
    are."""

    known: int
    lost: int
    total: int


class _Lacking(Struct, frozen=True):
    """A series without samples that can be trusted: since when, and whether it had some before."""

    since: float
    was_known: bool


class _OfDecision(Struct, frozen=True):
    """The names of the series of a policy's last decision about a workload; of one at zero, those that were lost before
    it was."""

    known: frozenset[str] = frozenset()
    lacking: Mapping[str, _Lacking] = {}


_NONE = _OfDecision()


def is_known(series: Series) -> bool:
    """Whether its samples can be trusted; that it is empty may count as zero, and may be a loss."""
    return series.trusted and not series.presumed


class KnownSeries:
    """The series of the last decisions about workloads.

    Those of a workload at zero may end with its pods, as where somebody scales many to zero for a night, so they are
    not lost then. One that was lost before is, also where the loss counted as zero and brought the workload there.
    """

    def __init__(self) -> None:
        self._decisions: dict[Ref, dict[str, _OfDecision]] = {}
        """By workload and policy."""

    def take(self, record: Decision) -> None:
        """Take in a decision."""
        if not record.series and not record.interval_by:
            return  # no strategy was asked, and nothing was read
        decisions = self._decisions.setdefault(record.workload, {})
        decisions[record.policy] = _of(record, decisions.get(record.policy, _NONE))

    def keep(self, keys: AbstractSet[tuple[str, Ref]]) -> None:
        """Drop what is not of these policies and workloads."""
        kept = ((ref, {policy: of for policy, of in by.items() if (policy, ref) in keys}) for ref, by in self._all())
        self._decisions = {ref: decisions for ref, decisions in kept if decisions}

    def counts(self, now: float) -> SeriesCounts:
        """Count them."""
        decisions = [of for _, by_policy in self._all() for of in by_policy.values()]
        lacking = [series for of in decisions for series in of.lacking.values()]
        known = sum(len(of.known) for of in decisions)
        lost = sum(series.was_known and series.since >= now - REMEMBERED for series in lacking)
        return SeriesCounts(known, lost, known + len(lacking))

    def _all(self) -> Iterator[tuple[Ref, dict[str, _OfDecision]]]:
        return iter(self._decisions.items())


def _of(record: Decision, before: _OfDecision) -> _OfDecision:
    known = frozenset(series.name for series in record.series if is_known(series))
    lacking = {
        series.name: before.lacking.get(series.name) or _Lacking(record.at, series.name in before.known)
        for series in record.series
        if series.name not in known
    }
    if not record.current:
        known, lacking = frozenset(), {name: lacking[name] for name in before.lacking.keys() & lacking.keys()}
    return _OfDecision(known, lacking)
