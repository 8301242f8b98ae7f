"""Which series can be trusted, and which were lost of late: what the breaker of `[disruption]` asks."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from math import inf

from msgspec import Struct

from elasticd.model.records import BY_HAND, DISABLED, Decision
from elasticd.model.workload import Ref, Series

LOST_WITHIN = 600.0
"""Seconds for which a lost series counts: after that it is one that is not there."""

BURST = 60.0
"""Seconds within which series are lost together, and longer where a workload is looked at so rarely that a source that
fails is noticed later. Those of queues that are absent while they are empty go at any time, and are noticed at once."""

RECOUNTED = 0.05
"""Seconds after which series are counted again, if nothing was decided meanwhile."""


class SeriesCounts(Struct, frozen=True):
    """How many series can be trusted, how many could be and were lost within LOST_WITHIN seconds, how many there are,
    how many of the lost ones were lost together, and how many within BURST seconds."""

    known: int
    lost: int
    total: int
    together: int = 0
    just_lost: int = 0


class _Lacking(Struct, frozen=True):
    """A series without samples that can be trusted: since when, whether it had some before, and within how many seconds
    of it others are lost together with it."""

    since: float
    was_known: bool
    within: float = BURST

    def belongs(self, first: float, last: float) -> bool:
        """Whether it was lost with those that had been lost together between these times."""
        return first - self.within <= self.since <= last + self.within - BURST


class _OfDecision(Struct, frozen=True):
    """The names of the series of a policy's last decision about a workload; of one at zero, those that were lost before
    it was."""

    known: frozenset[str] = frozenset()
    lacking: Mapping[str, _Lacking] = {}
    interval: float = 0.0


_NONE = _OfDecision()


def is_known(series: Series) -> bool:
    """Whether its samples can be trusted; that it is empty may count as zero, and may be a loss. That a controller
    counts more pods than are seen is none: it may be late, as after a fall of many counts."""
    return (series.trusted or series.unseen) and not series.presumed


class KnownSeries:
    """The series of the last decisions about workloads.

    Those of a workload at zero may end with its pods, as where somebody scales many to zero for a night, so they are
    not lost then. One that was lost before is, also where the loss counted as zero and brought the workload there, but
    not where a person did.
    """

    def __init__(self) -> None:
        self._decisions: dict[tuple[str, Ref], _OfDecision] = {}
        """By policy and workload."""
        self._governed: AbstractSet[tuple[str, Ref]] | None = None
        """Those that count; None: all."""
        self._others_since: dict[tuple[str, Ref], float] = {}
        """Since when others count no longer."""
        self._former: dict[Ref, tuple[str, Ref]] = {}
        """Those of others by workload that another policy is about now, or the same by another name; before it is known
        what is governed, the last by workload."""
        self._bursts: deque[tuple[float, float]] = deque()
        """From when until when so many had been lost together that the breaker held, oldest first."""
        self._counted_at, self._last_counts = -inf, SeriesCounts(0, 0, 0)

    def take(self, record: Decision) -> None:
        """Take in a decision."""
        if not record.series and not record.interval_by:
            return  # no strategy was asked, and nothing was read
        key = (record.policy, record.workload)
        self._counted_at = -inf
        before = self._decisions.get(key) or self._decisions.get(self._former.get(record.workload, key), _NONE)
        self._decisions[key] = _of(record, before)
        if self._governed is None:  # the policy may be renamed between records of the journal
            self._former[record.workload] = key

    def keep(self, governed: AbstractSet[tuple[str, Ref]], now: float) -> None:
        """From now on only these policies and workloads count. What was known of others is kept for as long as it may
        matter: the cluster may show a workload later, as to a daemon that has just been started."""
        self._counted_at = -inf
        others = {key: self._others_since.get(key, now) for key in self._decisions if key not in governed}
        self._governed = governed
        self._others_since = {key: since for key, since in others.items() if since >= now - LOST_WITHIN}
        refs = {ref for _, ref in governed}
        newest_last = sorted(self._others_since, key=self._others_since.__getitem__)
        self._former = {key[1]: key for key in newest_last if key[1] in refs}
        self._decisions = {
            key: of for key, of in self._decisions.items() if key in governed or key in self._others_since
        }

    def clear(self) -> None:
        """Forget all, as another daemon has led for long, or none."""
        self._decisions, self._governed, self._others_since, self._former = {}, None, {}, {}
        self._bursts.clear()
        self._counted_at = -inf

    def lost_together(self, at: float) -> None:
        """What was lost within a moment before this time was lost together, and counts until it is there again, or for
        LOST_WITHIN seconds."""
        while self._bursts and self._bursts[0][1] < at - LOST_WITHIN:
            self._bursts.popleft()
        first, last = self._bursts.pop() if self._bursts else (at, at)
        if not first <= at <= last + BURST:
            self._bursts.append((first, last))
            first = at
        self._bursts.append((first, at))

    def counts(self, now: float, is_there: Callable[[Ref], bool] = lambda _: True) -> SeriesCounts:
        """Count those of workloads that are there: the others, as of one that was deleted, never come back. Where many
        falls ask at once, they are counted once."""
        if not self._counted_at <= now < self._counted_at + RECOUNTED:
            decisions = [self._decisions[key] for key in self._counted(now) if is_there(key[1])]
            lacking = [series for of in decisions for series in of.lacking.values()]
            known = sum(len(of.known) for of in decisions)
            lost = [series for series in lacking if series.was_known and series.since >= now - LOST_WITHIN]
            together = sum(any(each.belongs(*burst) for burst in self._bursts) for each in lost)
            just_lost = sum(each.since >= now - each.within for each in lost)
            self._last_counts = SeriesCounts(known, len(lost), known + len(lacking), together, just_lost)
            self._counted_at = now
        return self._last_counts

    def _counted(self, now: float) -> Iterable[tuple[str, Ref]]:
        """Those that count: also those of former policies until the present one has decided about a workload, for as
        long as a loss counts."""
        if self._governed is None:
            return self._decisions.keys()
        own = [key for key in self._decisions if key in self._governed]
        decided = {ref for _, ref in own}
        former = (key for ref, key in self._former.items() if ref not in decided and key in self._decisions)
        return [*own, *(key for key in former if self._others_since[key] >= now - LOST_WITHIN)]


def _of(record: Decision, before: _OfDecision) -> _OfDecision:
    known = frozenset(series.name for series in record.series if is_known(series))
    rarely = min(LOST_WITHIN, max(BURST, before.interval + BURST / 2))
    lacking = {
        series.name: before.lacking.get(series.name)
        or _Lacking(record.at, series.name in before.known, BURST if series.presumed else rarely)
        for series in record.series
        if series.name not in known
    }
    if not record.current:
        # A veto, as of an HPA that has come, has its reason told in place of that.
        reasons = {record.reason, *(condition.reason for condition in record.conditions)}
        lost = before.lacking.keys() & lacking.keys() if reasons.isdisjoint((DISABLED, BY_HAND)) else ()
        known, lacking = frozenset(), {name: lacking[name] for name in lost}
    return _OfDecision(known, lacking, record.interval)
