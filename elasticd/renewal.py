"""Learns how often a source has something new, so that it is asked just behind that and no sooner.

Pure: knows times of reads and of measurements; knows nothing of what was measured.
"""

from collections import deque
from statistics import median

REMEMBERED = 5
_SURE = 3
"""So many renewals seen closely make it known how often they come."""

_CLOSE = 0.45
_ALIKE = 0.3
_STEP = 0.05
_EARLY_EACH = 4
_STALLED = 3.0
_NEVER = float("-inf")


class Renewal:
    """What the reads of one source tell of its pace, or that it is known beforehand.

    `saw` is told of each read, `due` says from when on another can bring something new. Only a renewal that was seen
    closely counts: the read before it, without news, was less than half the time between the two ago, so that no other
    can have come meanwhile. Until three were, and unless all that are remembered are alike, the pace is unknown and any
    time is right; so it is for subjects that are renewed at times of their own. Then a read is due one such time after
    the last news came; when it brings none, the next is due a twentieth of that time later. Since news may have come
    long before they were seen, each fourth read is due a twentieth early; when two of those in a row bring news, or any
    come much sooner than the pace has it, it is learnt again: an outage now and then is no pace.
    """

    def __init__(self, pace: float | None = None) -> None:
        self._pace = pace
        self._newest = self._came = self._looked = _NEVER
        self._gaps: deque[float] = deque(maxlen=REMEMBERED)
        self._renewals = self._hits = 0
        self.resolution = pace
        """Seconds between renewals, as given or as seen; None while it is not known."""

    def _learnt(self) -> float | None:
        """What is known of it since the last read."""
        if self._pace is not None:
            return self._pace
        if len(self._gaps) < _SURE or max(self._gaps) - min(self._gaps) > _ALIKE * median(self._gaps):
            return None
        return median(self._gaps)

    @property
    def _early(self) -> bool:
        return self._renewals % _EARLY_EACH == 0

    def saw(self, now: float, measured: float) -> None:
        """A read at this time had this as its newest time of measurement."""
        if measured > self._newest:
            if self.resolution is not None and self._early:
                self._hits = self._hits + 1 if now < self._came + self.resolution else 0
            gap = measured - self._newest
            # News sooner than the pace has it, however seen: what was taken for a pace were gaps, or it quickened.
            if self._hits > 1 or gap < (1 - _ALIKE) * min(self._gaps, default=0.0):
                self._hits = 0
                self._gaps.clear()
            if now - self._looked <= _CLOSE * gap < float("inf"):
                self._gaps.append(gap)
            self._newest, self._came = measured, now
            self._renewals += 1
        elif self._early:
            self._hits = 0
        self._looked = now
        self.resolution = self._learnt()

    @property
    def due(self) -> float:
        """From when on a read can bring something new; minus infinity: at any time."""
        pace = self.resolution
        if pace is None or self._came == _NEVER:
            return _NEVER
        due = self._came + pace - (_STEP * pace if self._early else 0.0)
        if self._looked < due:
            return due
        stalled = self._looked - self._came > _STALLED * pace
        return self._looked + (pace if stalled else _STEP * pace)

    def before(self, now: float, when: float) -> float:
        """The last time between the two at which a read is due; `when` if there is none."""
        pace = self.resolution
        if pace is None or not now < (due := self.due) <= when:
            return when
        return due + (when - due) // pace * pace
