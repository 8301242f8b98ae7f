"""Limit `staged`: a large change is made in stages, and the effect of each decides whether it continues.

Knows stages, what guards watch before and after a change, and what is done about it.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from math import ceil, inf
from operator import attrgetter
from statistics import median
from typing import Annotated, Literal

from elasticd.api import Change, Limit, LimitStrategy, Meta, Observation, Past, Point, Ref, Struct, hookimpl
from elasticd.kit import Memo, point_of

_SHOWING = 5
"""Points before the begin of a span, and as many after it, that show how far samples are apart."""

_SOMEWHAT = 1.5
"""How many times as far apart as they mostly are samples may be."""

_RUN = 3
"""Stages that are at most so many of their intervals apart are of one change."""

ROLLED_BACK = "RolledBack"

Outcome = Literal["good", "bad", "unknown"]
Ratio = Annotated[float, Meta(gt=1)]

GOOD: tuple[Outcome, str] = ("good", "")
_at = attrgetter("at")


class Guard(Struct, frozen=True, forbid_unknown_fields=True):
    """What must not get worse by a change: a series, or how many of the workload's pods are pending or unready.

    A series of pods is taken per pod, one of the workload as a whole as it is; of a window its mean counts. With both
    `above` and `ratio` both must be exceeded.
    """

    series: Annotated[str, Meta(description="its name")] = ""
    pods: Annotated[
        Literal["", "pending", "unready"], Meta(description="instead of a series: pods without a node, or not ready")
    ] = ""
    above: Annotated[float | None, Meta(description="in the units of the series, or pods; more is bad")] = None
    ratio: Annotated[
        Ratio | None, Meta(description="times its mean over the window before the change; more is bad")
    ] = None
    direction: Annotated[
        Literal["up", "down", "both"], Meta(description="which changes it judges: growth, shrinking or both")
    ] = "both"

    def __post_init__(self) -> None:
        if bool(self.series) == bool(self.pods):
            raise ValueError(f"series: must be given, or else pods, {'both are' if self.series else 'neither is'}")
        if self.above is None and self.ratio is None:
            raise ValueError("above: must be given unless ratio is, is missing")
        if self.pods and self.ratio is not None:
            raise ValueError(f"ratio: must be left out for pods, is {self.ratio:g}")

    def judges(self, sign: int) -> bool:
        """Whether it looks at growth (+1) or shrinking (-1)."""
        return self.direction == "both" or (self.direction == "up") == (sign > 0)

    def known(self, observation: Observation) -> bool:
        """Whether it can be judged by what is seen now."""
        return not self.series or (self.series in observation.series and observation.series[self.series].trusted)

    def look(
        self, change: Change, span: tuple[float, float], observation: Observation, past: Past
    ) -> tuple[Outcome, str]:
        """How it went in a span of time (later than its begin, up to its end) after a change, and in a sentence. The
        window before the change is as long as the span."""
        if self.pods:
            return self._judge_pods(observation)
        points = self._points_within(*span, observation, past)
        if not points:
            return "unknown", f"{self.series} has no trusted sample after the change"
        after = _mean_of(points)
        most, was = -inf if self.above is None else self.above, ""
        if self.ratio is not None:
            earlier = self._points_within(change.at - (span[1] - span[0]), change.at, observation, past)
            if not earlier:
                return "unknown", f"{self.series} has no trusted sample before the change"
            before = _mean_of(earlier)
            if before == 0 and after and self.above is None:
                return "unknown", f"{self.series} was 0 before, of which there is no ratio"
            most, was = max(most, self.ratio * before), f", was {before:g} before"
        if after > most:
            return "bad", f"{self.series} is {after:g}{was}; at most {most:g}"
        why = self._why_not_known(span, points, past)
        return ("unknown", why) if why else GOOD

    def _why_not_known(self, span: tuple[float, float], points: Sequence[Point], past: Past) -> str:
        """Why these samples do not show how it went in a span; empty: they do."""
        begin, end = span
        if points[-1].at < begin + (end - begin) / 2:
            return f"{self.series} has no trusted sample in the second half of {end - begin:g} s"
        gap = max(after - before for before, after in pairwise([begin, *(point.at for point in points)]))
        if gap > self._most_apart(span, past):
            return f"{self.series} has no trusted sample in {gap:.0f} of {end - begin:g} s"
        return ""

    def _most_apart(self, span: tuple[float, float], past: Past) -> float:
        """Seconds for which samples may lack of a span that is known: half of it, or somewhat more than they are apart,
        which those at its begin show."""
        begin, end = span
        points = past.points.get(self.series, ())
        first = bisect_right(points, begin, key=_at)
        times = [point.at for point in points[max(0, first - _SHOWING) : first + _SHOWING]]
        apart = median(after - before for before, after in pairwise(times)) if len(times) > 1 else 0.0
        return max((end - begin) / 2, _SOMEWHAT * apart)

    def newest(self, observation: Observation, past: Past) -> float:
        """When its newest sample was measured; of pods, now."""
        if self.pods:
            return observation.at
        now, points = observation.series.get(self.series), past.points.get(self.series, ())
        measured = [now.measured] if now is not None and now.trusted and now.samples else []
        return max([*measured, *(point.at for point in points[-1:])], default=-inf)

    def _judge_pods(self, observation: Observation) -> tuple[Outcome, str]:
        live = [pod for pod in observation.pods if pod.is_active]
        count = sum(not pod.node if self.pods == "pending" else pod.ready is not True for pod in live)
        most = self.above or 0.0
        return ("bad", f"{count} pods are {self.pods}; at most {most:g}") if count > most else GOOD

    def _points_within(self, begin: float, end: float, observation: Observation, past: Past) -> tuple[Point, ...]:
        """The remembered points in a span, and the present samples where they are newer."""
        now, points = observation.series.get(self.series), past.points.get(self.series, ())
        stop = bisect_right(points, end, key=_at)
        remembered = points[bisect_right(points, begin, hi=stop, key=_at) : stop]
        since = max(begin, points[-1].at) if points else begin
        if now is not None and since < now.measured <= end and now.trusted and now.samples:
            remembered = (*remembered, point_of(now))
        return remembered


@lru_cache(maxsize=4096)
def _mean_of(points: tuple[Point, ...]) -> float:
    """Cached, because a finished window is judged at every evaluation until the pause ends."""
    total = 0.0
    for point in reversed(points):
        total += point.total / (point.pods or 1)
    return total / len(points)


class Stage(Struct, frozen=True, forbid_unknown_fields=True, cache_hash=True):
    """How a change goes one way."""

    percent: Annotated[float, Meta(gt=0, le=100, description="of the whole change, in one stage; at least a pod")]
    interval: Annotated[float, Meta(ge=0, le=1800, description="seconds from one stage to the next")] = 60.0


class _Halt(Struct, frozen=True, gc=False):
    """Why a direction is halted: a reason and a sentence. `back`: the count to go back to."""

    reason: str
    message: str
    back: int | None = None


class _Way(Struct, frozen=True, gc=False):
    """A direction: +1 is growth, -1 is shrinking."""

    sign: int
    guards: tuple[Guard, ...]
    """The guards that judge it."""
    interval: float
    """Seconds from one stage to the next; without stages 0."""
    settles: float
    """Seconds for which the next change waits for one, or one is watched."""
    apart: float
    """Seconds that stages of one change may be apart, where polls are not further apart still."""


class _Trail(Struct, frozen=True, gc=False):
    """What all changes together leave to be looked at.

    `sign` is the way of the last one (0: neither). `up` is what growth may have to wait for: the last change that way,
    and the last that took one back, newest first; `down` the same of shrinking.
    """

    sign: int
    up: tuple[Change, ...]
    down: tuple[Change, ...]


class Staged(LimitStrategy, tag="staged", frozen=True):
    """Changes go in stages, `up` and `down` (a direction without is free), and are watched for `window` s.

    Guards then say whether a change went well. If one is bad, `then`: "continue" goes on all the same, "pause" makes no
    further change of that direction until it is good again, "rollback" goes back to the count before, past every
    delay and rate, and makes no such change again for `pause` s. A guard is unknown that has no trusted sample in the
    second half of the window, or for longer than half of it and than its samples are apart: that pauses too, unless
    `then` is "continue". While a guard cannot be known nothing shrinks. The opposite direction is always free.

    Reasons Staged, StageWaits, StageWatched, GuardBad, GuardUnknown, RolledBack.
    Source: Kapacity, grey change (percent, interval, observation); its stability checkers, which it names, are these.
    """

    up: Annotated[Stage | None, Meta(description="how it grows")] = None
    down: Annotated[Stage | None, Meta(description="how it shrinks")] = None
    guards: Annotated[tuple[Guard, ...], Meta(description="what must not get worse")] = ()
    window: Annotated[float, Meta(gt=0, le=900, description="seconds for which a change is watched")] = 120.0
    then: Annotated[Literal["continue", "pause", "rollback"], Meta(description="what a bad outcome leads to")] = "pause"
    pause: Annotated[float, Meta(ge=0, le=1800, description="seconds that a pause lasts at the longest")] = 1800.0

    def __post_init__(self) -> None:
        if self.up is None and self.down is None and not self.guards:
            raise ValueError("up: must be given unless down or guards are, is missing")

    def reads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(guard.series for guard in self.guards if guard.series))

    def recalls(self) -> float:
        """A window before a change, one after it, and a pause."""
        return 2 * self.window + self.pause if self.reads() else 0.0

    @hookimpl
    def limit(self, wish: int, observation: Observation, past: Past) -> Limit | None:
        """As far as the next stage, not beyond the current count while one is watched or paused, or back."""
        current = observation.workload.replicas
        trail = _trail(observation.workload.ref, past.changes)
        up_way, down_way = self._ways
        up = self._find_halt(up_way, trail, observation, past)
        down = self._find_halt(down_way, trail, observation, past)
        if up is not None and up.back is not None:
            return Limit(ROLLED_BACK, up.message, None, up.back, takes_back=True)
        if down is not None and down.back is not None:
            return Limit(ROLLED_BACK, down.message, down.back, None, takes_back=True)
        highest, lowest = current if up else None, current if down else None
        if wish > current and up is None and self.up is not None:
            return _stage_limit(self.up, self._start(up_way, observation, past), wish, current, lowest)
        if wish < current and down is None and self.down is not None:
            return _stage_limit(self.down, self._start(down_way, observation, past), wish, current, highest)
        halt = (up if wish > current else down if wish < current else None) or up or down
        return None if halt is None else _hold_limit(halt.reason, halt.message, lowest, highest)

    @cached_property
    def _ways(self) -> tuple[_Way, _Way]:
        return self._way(1, self.up), self._way(-1, self.down)

    def _way(self, sign: int, stage: Stage | None) -> _Way:
        guards = tuple(guard for guard in self.guards if guard.judges(sign))
        interval = stage.interval if stage else 0.0
        settles = max(interval, self.window if guards else 0.0)
        return _Way(sign, guards, interval, settles, max(interval, self.window if self.guards else 0.0))

    def _start(self, way: _Way, observation: Observation, past: Past) -> int:
        """The count at which the present change of this direction began."""
        current, changes = observation.workload.replicas, past.changes
        gap = _RUN * max(way.apart, past.interval or 0.0)
        if not changes or observation.at - changes[-1].at > gap:
            return current
        start = _run_start((observation.workload.ref, way.sign, gap), changes)
        return current if start is None else start

    def _find_halt(self, way: _Way, trail: _Trail, observation: Observation, past: Past) -> _Halt | None:
        """Why the count may not go further this way now: how the last change went, or that a stage was made, or taken
        back, or may have been made by another daemon; None: it may."""
        if way.guards and way.sign == trail.sign and (halt := self._judge_last(way.guards, observation, past)):
            return halt
        now = observation.at
        if way.sign < 0 and now - past.since < way.settles:
            return _Halt("StageWaits", f"what was done before {now - past.since:.0f} s ago is not known")
        for change in trail.up if way.sign > 0 else trail.down:
            age = now - change.at
            if (change.after - change.before) * way.sign > 0:
                if age < way.interval:
                    return _Halt("StageWaits", f"changed {age:.0f} s ago; next {way.interval:g} s after that")
            elif age < self.pause:
                return _Halt("GuardBad", f"rolled back {age:.0f} s ago; not again for {self.pause:g} s after that")
        if way.sign < 0:
            for guard in way.guards:
                if not guard.known(observation):
                    return _Halt("GuardUnknown", f"{guard.series} is not known, so nothing shrinks")
        return None

    def _judge_last(self, guards: Sequence[Guard], observation: Observation, past: Past) -> _Halt | None:
        """Why the last change, which went the way that these guards judge, halts the next; None: it does not."""
        last = past.changes[-1]
        age = observation.at - last.at
        if last.reason == ROLLED_BACK or age >= self.window + self.pause:
            return None
        if age < self.window:
            return _Halt("StageWatched", f"changed {age:.0f} s ago; watched for {self.window:g} s after that")
        if self.then == "continue" or last.after != observation.workload.replicas:
            return None
        return self._act_on_outcome(last, guards, observation, past)

    def _act_on_outcome(
        self, change: Change, guards: Sequence[Guard], observation: Observation, past: Past
    ) -> _Halt | None:
        window = (change.at, change.at + self.window)
        spans = dict.fromkeys(guards, window)
        outcome, why = _worst(spans, change, observation, past)
        if outcome == "good":
            return None
        # Pods are seen as they are now: what becomes of them much later is not the change's outcome.
        soon = observation.at < window[1] + max(self.window, 2 * (past.interval or 0.0))
        blaming = guards if soon else [guard for guard in guards if guard.series]
        # What was woken from none is not put back to sleep: what it was woken for still waits.
        if (
            self.then == "rollback"
            and change.before > 0
            and _worst(dict.fromkeys(blaming, window), change, observation, past)[0] == "bad"
        ):
            return _Halt(ROLLED_BACK, f"{why}, after {change.before} -> {change.after}", change.before)
        ends = {guard: guard.newest(observation, past) for guard in guards}
        is_known, is_late = all(guard.known(observation) for guard in guards), min(ends.values()) < window[1]
        if is_known and is_late and outcome == "unknown":
            age = observation.at - change.at
            return _Halt("StageWatched", f"changed {age:.0f} s ago; the last samples of {self.window:g} s are to come")
        # Of late samples, those of less than a window would be judged: what was bad might look good.
        if is_known and not is_late:
            recent = {guard: (max(change.at, end - self.window), end) for guard, end in ends.items()}
            if _worst(recent, change, observation, past)[0] == "good":
                return None
        return _Halt("GuardBad" if outcome == "bad" else "GuardUnknown", f"{why}; paused")


@lru_cache(maxsize=4096)
def _stage_limit(stage: Stage, start: int, wish: int, current: int, bound: int | None) -> Limit:
    """The limit of one stage: as far as it goes one way, to `bound` the other. Cached, as it mostly is that of the look
    before."""
    size = max(1, ceil(abs(wish - start) * stage.percent / 100))
    message = f"{size} at a time: {stage.percent:g} % of the change from {start} to {wish}"
    lowest, highest = (bound, current + size) if wish > current else (max(0, current - size), bound)
    return Limit("Staged", message, lowest, highest, gives_way=True)


@lru_cache(maxsize=4096)
def _hold_limit(reason: str, message: str, lowest: int | None, highest: int | None) -> Limit:
    return Limit(reason, message, lowest, highest, gives_way=True)


def _find_run_start(key: tuple[Ref, int, float], changes: tuple[Change, ...]) -> int | None:
    """The count at which a run of changes in one direction began: back from the last, each at most so many seconds
    apart."""
    _, sign, gap = key
    start, later = None, changes[-1].at
    for change in reversed(changes):
        if (change.after - change.before) * sign <= 0 or later - change.at > gap:
            break
        start, later = change.before, change.at
    return start


def _make_trail(_: Ref, changes: tuple[Change, ...]) -> _Trail:
    """The newest change of each kind, which is found first."""
    up: dict[str, Change] = {}
    down: dict[str, Change] = {}
    for change in reversed(changes):
        step = change.after - change.before
        same, opposite = (up, down) if step > 0 else (down, up)
        if step:
            same.setdefault("made", change)
        if step and change.reason == ROLLED_BACK:
            opposite.setdefault("taken back", change)
    last = changes[-1].after - changes[-1].before if changes else 0
    return _Trail((last > 0) - (last < 0), tuple(up.values()), tuple(down.values()))


_run_start = Memo(_find_run_start)
_trail = Memo(_make_trail)


def _worst(
    spans: Mapping[Guard, tuple[float, float]], change: Change, observation: Observation, past: Past
) -> tuple[Outcome, str]:
    """The first bad outcome of guards in their spans, else the first unknown one, else a good one."""
    worst = GOOD
    for guard, span in spans.items():
        result = guard.look(change, span, observation, past)
        if result[0] == "bad":
            return result
        if worst is GOOD:
            worst = result
    return worst
