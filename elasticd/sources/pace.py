"""Learns how often a source has something new, so that it is asked just behind that and no sooner.

Pure: knows times of reads and of measurements; knows nothing of what was measured.
"""

from collections import deque
from itertools import pairwise
from math import ceil, inf
from statistics import median

REMEMBERED = 5
_SURE = 3
"""So many renewals seen closely make it known how often they come."""

_TRACK = 16
"""So many renewals in a row say how often exactly: those seen closely are mostly those that came late."""

_CLOSE = 0.6
_ALIKE = 0.3

_STEP = 0.25
"""Seconds, at most, between a read that found nothing new and the next; a twentieth of the pace if that is less."""

_LATER = 0.25
"""Of the time by which news are late, after which they are looked for again: what stays away is asked for ever less."""

_EASE = 16
"""Renewals seen by the first read move the expected time earlier, by so small a part of what is not known of it."""

_PROBE = 16
"""Of so many renewals, one is looked for at half its time, for a source that has become quicker."""

_LEARNING = 1.0
"""Seconds between reads, at most, while the pace is not known."""

_SHORTEST = 0.1
"""Seconds between reads that nobody asks for, where nothing else says how many."""

_STUBBORN = 12
"""After so many renewals without a pace there is none to be known."""

_SILENT, _LONGEST = 0.05, 15.0
"""Of the time without news, and seconds at most, between reads of a source of unknown pace that says nothing new."""

_COST_TO_LEARN, _COST = 4.0, 10.0
"""Times what a read takes, at least, between reads of a source whose pace is being learnt, or cannot be."""

_NEVER = -inf


class Pace:
    """What the reads of one source tell of its pace, or that it is known beforehand.

    `saw` is told of each read. `due` says from when on another can bring something new, `unasked` when there should be
    one though nobody asks, so that what is new is known soon after it came.

    Only a renewal that was seen closely counts: between the read before it, without news, and the one that had them no
    other can have come. Until three were, and unless all that are remembered are alike, the pace is unknown and any
    time is right; so it is for subjects that are renewed at times of their own. Then the next renewal is expected one
    such time after the last. A read that comes before it is followed by others until it is there, and says when that
    was. One that finds it there at once may have come long after it: each that does lets the next one come a little
    sooner, the more of them in a row. An outage now and then is no pace.
    """

    def __init__(self, pace: float | None = None, every: float = 0.0) -> None:
        """`every`: seconds that pass between two reads at least."""
        self._pace, self._every = pace, every
        self._newest = self._came = self._looked = self._first = self._expected = _NEVER
        self._gap = inf
        self._gaps: deque[float] = deque(maxlen=REMEMBERED)
        self._track: deque[float] = deque(maxlen=_TRACK)
        self._width = self._took = 0.0
        self._renewals = self._in_time = self._unlike = 0
        self.resolution = pace
        """Seconds between renewals, as given or as seen; None while it is not known."""

    def _learnt(self) -> float | None:
        """What is known of it since the last read."""
        if self._pace is not None:
            return self._pace
        sure = _SURE if self._unlike < _STUBBORN else REMEMBERED
        if len(self._gaps) < sure or max(self._gaps) - min(self._gaps) > _ALIKE * median(self._gaps):
            return None
        gap, track = median(self._gaps), self._track
        renewals = sum(max(1, round((later - sooner) / gap)) for sooner, later in pairwise(track))
        exact = (track[-1] - track[0]) / renewals if renewals >= _SURE else gap
        return exact if abs(exact - gap) < _ALIKE / 2 * gap else gap

    @property
    def _probes(self) -> bool:
        """Whether it would matter if it were quicker than is known, and can be found out."""
        return self._pace is None and self.resolution is not None and self.resolution > 4 * max(_LEARNING, self._took)

    def _step(self, pace: float) -> float:
        return max(min(pace / 20, _STEP), 2 * self._took, self._every)

    def saw(self, now: float, measured: float, took: float = 0.0) -> None:
        """A read that was begun at this time, and took so many seconds, had this as its newest time of measurement."""
        self._took, looked_before = took, self._looked
        if self._first == _NEVER:
            self._first = now
        if measured > self._newest:
            self._note(now, measured - self._newest)
            self._track.append(measured)
            self._expect(now)
            self._newest, self._came = measured, now
        self._looked = now
        pace = self._learnt()
        if pace is not None and self.resolution is None:
            # While it was learnt reads were far apart: the renewal may have come right after the read before this one.
            came = looked_before if self._came == now and now - looked_before < pace else self._came
            self._expected, self._width, self._unlike = came + pace, self._step(pace), 0
        self.resolution = pace

    def _note(self, now: float, gap: float) -> None:
        """Remember the time between two renewals, if it is one."""
        self._gap = gap
        self._renewals += 1
        self._unlike += self.resolution is None
        # News sooner than the pace has it, however seen: what was taken for a pace were gaps, or it quickened.
        sooner = self._probes and now < self._expected - (self.resolution or 0.0) / 4
        if sooner or gap < (1 - _ALIKE) * min(self._gaps, default=0.0):
            self._gaps.clear()
            self._track.clear()
        if now - self._looked <= _CLOSE * gap < inf:
            self._gaps.append(gap)

    def _expect(self, now: float) -> None:
        """When the renewal after this one is expected."""
        pace = self.resolution
        if pace is None:
            return
        if self._expected == _NEVER:  # it came at any time before: it is looked for from now on
            self._expected = now
            return
        if self._looked < self._expected:
            self._in_time += 1
            following = min(now, self._expected) + pace - self._width * self._in_time / _EASE
        else:
            self._in_time, self._width = 0, now - self._looked
            coarse = self._width > 2 * self._step(pace)
            following = (self._looked if coarse else now) + pace
        self._expected = following + max(0, ceil((now - following) / pace)) * pace

    @property
    def due(self) -> float:
        """From when on a read can bring something new; minus infinity: at any time."""
        pace = self.resolution
        if pace is None or self._expected == _NEVER:
            return _NEVER
        if self._looked < self._expected:
            half = self._expected - pace / 2
            return half if self._probes and self._renewals % _PROBE == 0 and self._looked < half else self._expected
        late = self._looked - self._expected
        return self._looked + max(min(_LATER * late, pace), self._step(pace))

    @property
    def unasked(self) -> float:
        """When there should be a read though nobody asks for one."""
        if self._looked == _NEVER or self.resolution is not None:
            return max(self.due, self._looked)
        learning = self._unlike < _STUBBORN
        step = min(_LEARNING, _CLOSE * 0.75 * self._gap) if learning else _LEARNING
        silent = min(_SILENT * (self._looked - max(self._came, self._first)), _LONGEST)
        cost = (_COST_TO_LEARN if learning else _COST) * self._took
        return self._looked + max(step, silent, cost, self._every, _SHORTEST)

    def before(self, now: float, when: float) -> float:
        """The last time between the two at which a read is due; `when` if there is none."""
        pace = self.resolution
        if pace is None or not now < (due := self.due) <= when:
            return when
        return due + (when - due) // pace * pace
