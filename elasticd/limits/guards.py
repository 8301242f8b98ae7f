"""What is watched after a change, and whether it went well.

Knows a guard's series, before and after a change, and pods as they are; knows nothing of what is done about it.
"""

from bisect import bisect_right
from functools import lru_cache
from math import inf
from operator import attrgetter
from typing import Annotated, Literal

from elasticd.api import Change, Meta, Observation, Past, Point, Struct
from elasticd.kit import point_of

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
        begin, end = span
        after = self._mean_within(begin, end, observation, past)
        if after is None:
            return "unknown", f"{self.series} has no trusted sample after the change"
        most, was = -inf if self.above is None else self.above, ""
        if self.ratio is not None:
            before = self._mean_within(change.at - (end - begin), change.at, observation, past)
            if before is None:
                return "unknown", f"{self.series} has no trusted sample before the change"
            if before == 0 and self.above is None:
                return ("unknown", f"{self.series} was 0 before, of which there is no ratio") if after else GOOD
            most, was = max(most, self.ratio * before), f", was {before:g} before"
        return ("bad", f"{self.series} is {after:g}{was}; at most {most:g}") if after > most else GOOD

    def _judge_pods(self, observation: Observation) -> tuple[Outcome, str]:
        live = [pod for pod in observation.pods if not pod.deleted and pod.phase in ("Pending", "Running")]
        if self.pods == "pending":
            count = sum(1 for pod in live if not pod.node)
        else:
            count = sum(1 for pod in live if pod.ready is not True)
        most = self.above or 0.0
        return ("bad", f"{count} pods are {self.pods}; at most {most:g}") if count > most else GOOD

    def _mean_within(self, begin: float, end: float, observation: Observation, past: Past) -> float | None:
        """The mean of the remembered points in a span, and of the present samples where they are newer; None: there is
        none."""
        now, points = observation.series.get(self.series), past.points.get(self.series, ())
        stop = bisect_right(points, end, key=_at)
        remembered = points[bisect_right(points, begin, hi=stop, key=_at) : stop]
        since = max(begin, points[-1].at) if points else begin
        if now is not None and since < now.measured <= end and now.trusted and now.samples:
            remembered = (*remembered, point_of(now))
        return _mean_of(remembered) if remembered else None


@lru_cache(maxsize=4096)
def _mean_of(points: tuple[Point, ...]) -> float:
    """Cached, as a window that is over is asked about at every look until the pause is."""
    total = 0.0
    for point in reversed(points):
        total += point.total / (point.pods or 1)
    return total / len(points)
