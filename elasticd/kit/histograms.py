"""Decaying histograms of what a container uses, and what they come to.

Pure arithmetic. Values are in cores or bytes, times in seconds since the epoch. Knows weights, buckets and percentiles;
knows nothing of who is measured or asked.

Sources: Rzadca et al., Autopilot, EuroSys 2020, section 3.2 (decay, load-adjusted percentiles, S_max, S_avg, the table
of uses); the recommender of Kubernetes' Vertical Pod Autoscaler (exponential buckets, confidence, memory after a kill).
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

DAY = 86400.0

CPU_HALF_LIFE, MEMORY_HALF_LIFE = 43200.0, 172800.0
"""Autopilot's, in seconds: 12 h and 48 h. VPA has 24 h for both."""

Weigh = Literal["load", "time"]
"""What a percentile is a part of: the load (Autopilot), or the time (VPA)."""

PERCENTILES = {"p50": 0.5, "p60": 0.6, "p90": 0.9, "p95": 0.95, "p98": 0.98, "p99": 0.99}

STATISTICS = ("mean", *PERCENTILES, "max", "intermediate", "lower", "upper")
"""Autopilot's table of uses: CPU of batch jobs mean, of serving ones p95, or p90 where latency matters less; memory
p98, where nothing may be killed max, and between the two intermediate. `lower` and `upper` are VPA's bounds."""

_FAR = 60.0
"""Half-lives after which weights are counted from a new time, so that none grows beyond a double."""
_NEGLIGIBLE = 1e-12
"""Of all weight: a bucket with less is empty."""

_LARGEST = 1000.0
"""Half-lives beyond which a weight is as good as nothing, or all; a double ends at 1023."""


def weight(age: float, half_life: float) -> float:
    """What a sample counts at an age in seconds: w[tau] = 2^(-tau/half-life), Autopilot 3.2."""
    return float(2.0 ** max(-_LARGEST, min(_LARGEST, -age / half_life)))


def exponential(first: float, last: float, growth: float = 0.05) -> tuple[float, ...]:
    """The upper bounds of buckets of which each is wider than the one before by `growth`, until one reaches `last`."""
    bounds, width = [first], first
    while bounds[-1] < last:
        width *= 1 + growth
        bounds.append(bounds[-1] + width)
    return tuple(bounds)


CPU_BOUNDS = exponential(0.01, 1000.0)
"""VPA's: the first of 0.01 core as its comment says; its code has 0.001."""
MEMORY_BOUNDS = exponential(1e7, 1e12)


class Content(Struct):
    """What a histogram remembers, as it is written to disk: weights by bucket as of `reference`, the weighted sum of
    the values, the times of the first and the last sample, and the highest value of each day."""

    weights: dict[int, float] = {}
    reference: float = 0.0
    loads: float = 0.0
    count: int = 0
    first: float = 0.0
    last: float = 0.0
    peaks: dict[int, float] = {}


class Histogram:
    """Values in buckets, whose weight halves in each half-life. What is beyond the last bound is in the last bucket."""

    def __init__(self, bounds: Sequence[float], half_life: float, content: Content | None = None) -> None:
        self._bounds, self._half_life = bounds, half_life
        self.content = Content() if content is None else content

    def add(self, value: float, at: float) -> None:
        content = self.content
        content.first = min(content.first, at) if content.count else at
        content.last = max(content.last, at)
        content.count += 1
        self._change(value, at, 1.0)
        day = int(at // DAY)
        content.peaks[day] = max(content.peaks.get(day, 0.0), value)

    def take(self, value: float, at: float) -> None:
        """Remove a value that was added with this time, as a higher one of the same window replaces it."""
        self._change(value, at, -1.0)
        self.content.count -= 1

    def _change(self, value: float, at: float, sign: float) -> None:
        content = self.content
        if not content.weights or at - content.reference > _FAR * self._half_life:
            self._rebase(at)
        amount = sign / weight(at - content.reference, self._half_life)
        bucket = min(bisect_left(self._bounds, value), len(self._bounds) - 1)
        content.weights[bucket] = max(0.0, content.weights.get(bucket, 0.0) + amount)
        content.loads = max(0.0, content.loads + amount * value)

    def _rebase(self, at: float) -> None:
        content = self.content
        factor = weight(max(0.0, at - content.reference), self._half_life) if content.weights else 1.0
        least = _NEGLIGIBLE * sum(content.weights.values())
        content.weights = {key: value * factor for key, value in content.weights.items() if value > least}
        content.loads, content.reference = content.loads * factor, at

    def forget(self, before: float) -> None:
        peaks = self.content.peaks
        self.content.peaks = {day: value for day, value in peaks.items() if (day + 1) * DAY > before}

    def table(self, weigh: Weigh = "load") -> list[tuple[float, float]]:
        """The upper bounds of the buckets that are not empty, and the weight in each: h[k] = b[k] * sum w s for load
        (Autopilot 3.2), and the same without b[k] for time.

        For 9 samples of 1 and one of 10 the paper prints h[10] = 10 * 10; by its own formula it is 10 * 1, as its
        "9/19" says too. Either way the 90th percentile of load is 10, and that of time 1.
        """
        weights = sorted((key, value) for key, value in self.content.weights.items() if value > 0)
        return [(self._bounds[key], value * (self._bounds[key] if weigh == "load" else 1.0)) for key, value in weights]

    def percentiles(self, parts: Iterable[float], weigh: Weigh = "load") -> list[float]:
        """For each part (0 to 1, ascending) the bound below which as much of the weight is. ValueError: it is empty."""
        table = self.table(weigh)
        total = sum(value for _, value in table)
        if total <= 0:
            raise ValueError("the histogram is empty")
        bounds, index, passed = [], 0, table[0][1]
        for part in parts:
            # A bit less, so that the noise of a sum does not make 9 of 10 less than 0.9.
            while passed < part * total * (1 - 1e-9) and index < len(table) - 1:
                index += 1
                passed += table[index][1]
            bounds.append(table[index][0])
        return bounds

    def mean(self) -> float:
        """S_avg: the values' mean by weight. Of windows with as many samples each it is Autopilot's mean of means."""
        total = sum(self.content.weights.values())
        if total <= 0:
            raise ValueError("the histogram is empty")
        return self.content.loads / total

    def highest(self) -> float:
        """S_max: the bound of the highest bucket that was not empty on any of the days that are remembered."""
        peak = max(self.content.peaks.values(), default=0.0)
        return self._bounds[min(bisect_left(self._bounds, peak), len(self._bounds) - 1)]

    def days(self) -> float:
        """How far samples reach, in days, but no more than there would be of one a minute: VPA's confidence."""
        content = self.content
        return min((content.last - content.first) / DAY, content.count / (24 * 60))

    def statistics(self, weigh: Weigh = "load") -> dict[str, float]:
        """All of STATISTICS, by name. Raises ValueError when the histogram is empty."""
        percentiles = dict(zip(PERCENTILES, self.percentiles(PERCENTILES.values(), weigh), strict=True))
        lower, upper = confidence(percentiles["p50"], percentiles["p95"], self.days())
        most = self.highest()
        intermediate = max(percentiles["p60"], 0.5 * most)
        others = {"mean": self.mean(), "max": most, "intermediate": intermediate, "lower": lower, "upper": upper}
        return percentiles | others


def confidence(p50: float, p95: float, days: float) -> tuple[float, float]:
    """VPA's bounds: p50 * (1 + 0.001/days)^-2 and p95 * (1 + 1/days); with little history they are far apart."""
    days = max(days, 1e-9)
    return p50 * (1 + 0.001 / days) ** -2, p95 * (1 + 1 / days)


def after_kill(memory: float) -> float:
    """Bytes to count for a container that was killed for want of memory at so many: VPA, max(x 1.2, + 100 MB)."""
    return max(memory * 1.2, memory + 1e8)
