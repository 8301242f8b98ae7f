"""Learns how often a source is updated, so that it is read just after each update and no sooner.

Pure: knows times of reads and of measurements; knows nothing of what was measured.
"""

from collections import deque
from itertools import pairwise
from math import ceil, inf
from statistics import median

REMEMBERED = 5
_ENOUGH_GAPS = 3
"""The pace is known after so many closely observed updates."""

_TRACKED = 16
"""The exact pace is measured over so many updates in a row: closely observed ones are mostly late ones."""

_CLOSE = 0.6
_ALIKE = 0.3

_STEP = 0.1
"""Seconds, at most, between a read without an update and the next; a twentieth of the pace if that is less."""

_LATER = 0.25
"""Part of the time by which an update is late, to wait before the next read: the later, the fewer the reads."""

_EASE = 16
"""An update that the first read finds moves the expected time earlier, by the uncertainty divided by this."""

_PROBE_EVERY = 16
"""One update in so many is looked for at half the pace, in case the source has become faster."""

_LEARNING = 1.0
"""Seconds between reads, at most, while the pace is being learnt."""

_SHORTEST = 0.1
"""Seconds between unasked reads, at least."""

_GIVE_UP = 12
"""After so many updates without a pace the source is taken to have none."""

_SILENT, _LONGEST = 0.05, 15.0
"""Between reads of a source of unknown pace: part of the time since the last update, and seconds at most."""

_COST_TO_LEARN, _COST = 4.0, 10.0
"""Multiples of a read's duration, at least, between reads of a source whose pace is being learnt, or cannot be."""

_NEVER = -inf


class Pace:
    """The update period (pace) of one source, given or learnt from its reads, and when to read next.

    `saw` records each read. `due` is the time from which a read can bring an update; `unasked` is when to read without
    being asked, so that an update is known soon after it came.

    Only a closely observed update counts: so short a time after a read without it that no other can have come between.
    With fewer than three, or when the remembered gaps differ, the pace is unknown and any time is due; so it is for
    subjects that are updated at times of their own. Once the pace is known, the next update is expected one period
    after the last. If a read comes before the update, others follow until it is there, which shows when it came. If the
    first read finds it, it may have come long before: each such read in a row lets the next one come a little earlier.
    A rare outage does not change the pace.
    """

    def __init__(self, pace: float | None = None, every: float = 0.0) -> None:
        """`every`: seconds between two reads, at least."""
        self._pace, self._every = pace, every
        self._newest = self._came_at = self._read_at = self._first_read_at = self._expected = _NEVER
        self._gap = inf
        self._gaps: deque[float] = deque(maxlen=REMEMBERED)
        self._update_times: deque[float] = deque(maxlen=_TRACKED)
        self._uncertainty = self._took = 0.0
        self._updates = self._found_at_once = self._updates_without_pace = 0
        self.resolution = pace
        """Seconds between updates, as given or as learnt; None while it is not known."""
        self.due = _NEVER
        """The time from which a read can bring an update; minus infinity: any time."""
        self.unasked = _NEVER
        """When to read without being asked."""

    def _estimate(self) -> float | None:
        """The pace as far as the remembered gaps show it; None if they do not."""
        if self._pace is not None:
            return self._pace
        needed = _ENOUGH_GAPS if self._updates_without_pace < _GIVE_UP else REMEMBERED
        if len(self._gaps) < needed or max(self._gaps) - min(self._gaps) > _ALIKE * median(self._gaps):
            return None
        gap, track = median(self._gaps), self._update_times
        updates = sum(max(1, round((later - sooner) / gap)) for sooner, later in pairwise(track))
        exact = (track[-1] - track[0]) / updates if updates >= _ENOUGH_GAPS else gap
        return exact if abs(exact - gap) < _ALIKE / 2 * gap else gap

    @property
    def _probes(self) -> bool:
        """Whether to check now and then if the source has become faster: its pace is learnt, and slow."""
        return self._pace is None and self.resolution is not None and self.resolution > 4 * max(_LEARNING, self._took)

    def _step(self, pace: float) -> float:
        return max(min(pace / 20, _STEP), 2 * self._took, self._every)

    def saw(self, now: float, measured: float, took: float = 0.0) -> None:
        """Record a read: when it began, its newest time of measurement, and the seconds it took."""
        self._took, read_before = took, self._read_at
        if self._first_read_at == _NEVER:
            self._first_read_at = now
        if measured > self._newest:
            self._note(now, measured - self._newest)
            self._update_times.append(measured)
            self._expect(now)
            self._newest, self._came_at = measured, now
        self._read_at = now
        pace = self._estimate()
        if pace is not None and self.resolution is None:
            # Reads were far apart while learning: the update may have come right after the read before this one.
            came = read_before if self._came_at == now and now - read_before < pace else self._came_at
            self._expected, self._uncertainty, self._updates_without_pace = came + pace, self._step(pace), 0
        self.resolution = pace
        self.due = self._find_due()
        self.unasked = self._find_unasked()

    def _note(self, now: float, gap: float) -> None:
        """Remember the gap between two updates, if it was closely observed."""
        self._gap = gap
        self._updates += 1
        self._updates_without_pace += self.resolution is None
        # An update much sooner than expected: the learnt pace was wrong, or the source has become faster.
        sooner = self._probes and now < self._expected - (self.resolution or 0.0) / 4
        if sooner or gap < (1 - _ALIKE) * min(self._gaps, default=0.0):
            self._gaps.clear()
            self._update_times.clear()
        if now - self._read_at <= _CLOSE * gap < inf:
            self._gaps.append(gap)

    def _expect(self, now: float) -> None:
        """Compute when the next update is expected."""
        pace = self.resolution
        if pace is None:
            return
        if self._expected == _NEVER:  # when it came is unknown, so look for the next one from now on
            self._expected = now
            return
        if self._read_at < self._expected:
            self._found_at_once += 1
            following = min(now, self._expected) + pace - self._uncertainty * self._found_at_once / _EASE
        else:
            self._found_at_once, self._uncertainty = 0, now - self._read_at
            coarse = self._uncertainty > 2 * self._step(pace)
            following = (self._read_at if coarse else now) + pace
        self._expected = following + max(0, ceil((now - following) / pace)) * pace

    def _find_due(self) -> float:
        pace = self.resolution
        if pace is None or self._expected == _NEVER:
            return _NEVER
        if self._read_at < self._expected:
            half, is_probe = self._expected - pace / 2, self._probes and self._updates % _PROBE_EVERY == 0
            return half if is_probe and self._read_at < half else self._expected
        late = self._read_at - self._expected
        return self._read_at + max(min(_LATER * late, pace), self._step(pace))

    def _find_unasked(self) -> float:
        if self.resolution is not None:
            return max(self.due, self._read_at)
        learning = self._updates_without_pace < _GIVE_UP
        step = min(_LEARNING, _CLOSE * 0.75 * self._gap) if learning else _LEARNING
        silent = min(_SILENT * (self._read_at - max(self._came_at, self._first_read_at)), _LONGEST)
        cost = (_COST_TO_LEARN if learning else _COST) * self._took
        return self._read_at + max(step, silent, cost, self._every, _SHORTEST)

    def before(self, now: float, when: float) -> float:
        """The last time between `now` and `when` at which a read is due; `when` if there is none."""
        pace = self.resolution
        if pace is None or not now < (due := self.due) <= when:
            return when
        return due + (when - due) // pace * pace
