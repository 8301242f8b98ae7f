"""Double threshold: scales when the last few utilisations agree, by an amount that depends on how fast they grow.

Knows the last utilisations of a workload and its pods' requests; knows nothing of what was decided from them.
"""

from collections.abc import Sequence
from math import ceil, floor
from typing import Annotated, Literal

from elasticd.api import (
    NEVER,
    Band,
    Limit,
    Measure,
    Meta,
    Observation,
    Past,
    Point,
    Policy,
    Poll,
    Recommendation,
    Series,
    Strategy,
    Struct,
    Workload,
    hookimpl,
)
from elasticd.kit import Rate, Rates, point_of, request_of, restrain, serving, timeline

EXACT = 1e-9
"""Tolerance of sums of doubles: 200 sin(30 pi/180) is 99.99999999999999, and a sum may be as far off the other way."""

GAP = 3.0
"""Samples further apart than this many of the slowest polls do not count as successive."""

STEP = 5
"""Seconds in which one of the paper's containers starts or stops; they do so one after another."""

TASK = Rates((Rate("Pods", 1, STEP),))

Percent = Annotated[float, Meta(gt=0, description="percent of the requests")]
Growth = Annotated[float, Meta(ge=0, description='relative growth per second (0.1 = 10 %); per sample in mode "paper"')]


class _Queue(Struct, frozen=True, gc=False):
    """The last utilisations, oldest first: `whole` of all pods together in percent of one pod's request, `each` per
    pod; `growth` from each to the next; `pods`, how many pods the last covers."""

    whole: tuple[float, ...]
    each: tuple[float, ...]
    growth: tuple[float, ...]
    pods: int

    @property
    def mean_growth(self) -> float:
        return sum(self.growth) / len(self.growth)


class _Pods(Struct, frozen=True, gc=False):
    """The mean request of a ready pod, and how many pods have no sample: of the ready and of the starting ones."""

    request: float
    missing: int
    starting: int


class DoubleThreshold(Strategy, tag="double-threshold", frozen=True):
    """More pods when the last `samples` utilisations are all above `high`, fewer when all are below `low`.

    Utilisation is use / requests of one pod, in percent. Above `high` it recommends as many pods as bring utilisation
    to `high` (rounded up), below `low` as many as bring it to `low` (rounded down, at least 1), else the current count.
    Each direction has three bands. Jitter: not all samples agree, or one grew the other way by more than `rise` (0.028
    if left out) or `fall`; the count stays. Regular: provide for the present load. Fast: all growths are above `surge`,
    or all below -`plunge`; provide for the load `ahead` seconds on at the mean growth, at most twice and at least half
    of the present load, and with utilisation not above `high` now. A constant load cannot make the count flip: with the
    policy's min = n (at least 1), `low` must be at most high * n / (n + 1).

    Growth is relative, per second. It is that of the pods' sum or of their mean, whichever is nearer to 0, and 0 where
    their signs differ, so that neither a new pod nor a missing sample looks like load. After a load of 0 it is 0.
    Samples further apart than three slowest polls do not count as successive; until there are enough successive samples
    the count stays. Pods without a sample count as idle when others ask for more, and as fully used when they ask for
    less. Starting pods count as idle; what they already use is in the sums, where past samples cannot tell them apart.

    It asks for polls every `slow` s, `medium` s above `low` and `fast` s above `high`; where the load is not known the
    interval in force stays.

    In mode "paper" thresholds and count refer to the sum of the pods' utilisations, and growth is per sample. Samples
    all above `low` that all grow by more than `rise` (left out: 0) give sum / `target` pods. Samples all above `high`
    that all grow by more than `surge` give that and the mean growth more. Growths all below -`fall`, or all below
    -`plunge`, shrink the workload likewise. A level load changes nothing, however high. Pods come and go one each 5 s,
    and until the last of them has, nothing else is decided. This is reading R1 of the paper's example; its thresholds
    are reconstructed.

    Source: DHPA (Jiang, Wu 2021), section 3; the two marks: Datadog's WatermarkPodAutoscaler.
    """

    series: Annotated[str, Meta(min_length=1, description="name of a resource")] = "cpu"
    samples: Annotated[int, Meta(ge=2, le=60, description="utilisations that must agree")] = 3
    low: Percent = 40
    high: Percent = 80
    target: Annotated[float, Meta(gt=0, description='percent of the requests; mode "paper" only')] = 50
    rise: Growth | None = None
    surge: Growth = 0.07
    fall: Growth = 0.028
    plunge: Growth = 0.07
    ahead: Annotated[float, Meta(ge=0, le=3600, description="seconds; until a new pod serves")] = 30
    slow: Poll = 30.0
    medium: Poll = 10.0
    fast: Poll = 1.0
    mode: Annotated[
        Literal["product", "paper"], Meta(description="paper: as DHPA has it, thresholds of the sum of all pods")
    ] = "product"

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise ValueError(f"low: must be < high = {self.high:g}, is {self.low:g}")
        if self.surge < self._rise:
            raise ValueError(f"surge: must be >= rise = {self._rise:g}, is {self.surge:g}")
        if self.plunge < self.fall:
            raise ValueError(f"plunge: must be >= fall = {self.fall:g}, is {self.plunge:g}")
        if self.fast > self.medium:
            raise ValueError(f"fast: must be <= medium = {self.medium:g}, is {self.fast:g}")
        if self.medium > self.slow:
            raise ValueError(f"medium: must be <= slow = {self.slow:g}, is {self.medium:g}")

    @property
    def _rise(self) -> float:
        """The growth above which load rises. DHPA: the threshold a, which reading R1 of the example sets to 0."""
        if self.rise is None:
            return 0.0 if self.mode == "paper" else 0.028
        return self.rise

    def check(self, policy: Policy) -> str | None:
        """Refuse marks both of which one pod more or less crosses. Source: Datadog's WatermarkPodAutoscaler."""
        least = max(1, policy.replicas.min)
        most = self.high * least / (least + 1)
        if self.mode == "paper" or self.low <= most + EXACT:
            return None
        would = floor(most * 100) / 100
        why = f"high * {least} / {least + 1}, as min = {policy.replicas.min}"
        return f"low: must be <= {would:g} ({why}), or a constant load would flip the count, is {self.low:g}"

    def reads(self) -> tuple[str, ...]:
        return (self.series,)

    def recalls(self) -> float:
        return self.samples * GAP * self.slow

    def fastest(self) -> float:
        return self.fast

    def sleeps(self) -> str:
        """Without pods there is no utilisation to compare with the marks."""
        return "looks at pods alone"

    def own_pace(self) -> bool:
        return self.mode == "paper"

    def lasts(self) -> bool:
        return self.mode == "product"

    @hookimpl
    def steady_bands(self, observation: Observation) -> dict[str, Band]:
        """Between the marks a sample keeps the last ones from agreeing; outside, any may complete them."""
        series = observation.series.get(self.series)
        if series is None or not series.usable:
            return {self.series: Band()}
        pods, point = self._pods(observation, series), point_of(series)
        if isinstance(pods, str) or not series.trusted or not point.pods:
            return {self.series: NEVER}
        percent = pods.request * point.pods / 100
        if not self.low <= point.total / percent <= self.high:
            return {self.series: NEVER}
        return {self.series: Band(self.low * percent * (1 + EXACT), self.high * percent * (1 - EXACT))}

    @hookimpl
    def recommend_replicas(self, workload: Workload, observation: Observation, past: Past) -> Recommendation:
        """The count by the queue; the present one while it is not full. None where the load is not known."""
        series = observation.series.get(self.series)
        if series is None or not series.usable:
            return Recommendation(None, "SeriesUnknown", series.message if series else f"no series {self.series}")
        pods = self._pods(observation, series)
        if isinstance(pods, str):
            return Recommendation(None, "LoadUnknown", pods)
        queue = self._queue(timeline(series, past), pods.request)
        current = workload.replicas
        if len(queue.whole) < self.samples:
            message = f"{len(queue.whole)} of {self.samples} samples that are at most {GAP * self.slow:g} s apart"
            return Recommendation(current, "QueueNotFull", message)
        paper = self.mode == "paper"
        if paper:
            task = _task(past, observation.at, current)
            replicas, reason = self._as_in_the_paper(queue, current) if task is None else (task, "TaskRunning")
        else:
            replicas, reason = self._by_marks(queue, pods, current)
        utilisations, set_point = (queue.whole, self.target) if paper else (queue.each, self.high)
        measure = Measure(self.series, f"{utilisations[-1]:.4g}%", f"{set_point:g}%", replicas)
        return Recommendation(replicas, reason, self._describe(utilisations, queue.growth), (measure,))

    @hookimpl
    def limit(self, wish: int, observation: Observation, past: Past) -> Limit | None:
        """In mode "paper": one pod each 5 s. DHPA, section 3.3."""
        return restrain(wish, observation, past, TASK, TASK) if self.mode == "paper" else None

    @hookimpl
    def poll_interval(self, observation: Observation, past: Past) -> float:
        """`slow`, `medium` or `fast`, in seconds. DHPA: the base thresholds."""
        series = observation.series.get(self.series)
        pods = self._pods(observation, series) if series is not None and series.trusted else ""
        if series is None or isinstance(pods, str):
            return self.medium if past.interval is None else past.interval
        now = self._queue(timeline(series, past)[-1:], pods.request)
        busy = now.whole[-1] if self.mode == "paper" else now.each[-1]
        return self.fast if busy > self.high else self.medium if busy > self.low else self.slow

    def _as_in_the_paper(self, queue: _Queue, current: int) -> tuple[int, str]:
        """DHPA, eqs. (2) to (6), reading R1."""
        now, soon = queue.whole[-1], queue.whole[-1] * (1 + queue.mean_growth)
        growth, totals = queue.growth, queue.whole
        if min(growth) > self._rise and min(totals) > self.low:
            fast = min(growth) > self.surge and min(totals) > self.high
            want = ceil((soon if fast else now) / self.target - EXACT)
            return max(current, want), "LoadSurges" if fast else "LoadRises"
        if max(growth) < min(0.0, -self.fall):
            fast = max(growth) < -self.plunge and max(totals) < self.low
            want = ceil((soon if fast else now) / self.target - EXACT)
            return min(current, max(1, want)), "LoadPlunges" if fast else "LoadFalls"
        return current, "Jitter"

    def _by_marks(self, queue: _Queue, pods: _Pods, current: int) -> tuple[int, str]:
        """The count in mode "product". Pods without a sample count as idle for growing, as fully used for shrinking."""
        total, counted = queue.whole[-1], queue.pods + pods.missing
        most = total + max(100.0, self.high) * pods.missing
        over, under = total / (counted + pods.starting) > self.high, most / counted < self.low
        steady = queue.each[:-1]
        if over and min(steady) > self.high:
            return self._expand(queue, current)
        if under and max(steady) < self.low:
            return self._contract(queue, most, current)
        return current, "Jitter" if over or under else "BetweenMarks"

    def _expand(self, queue: _Queue, current: int) -> tuple[int, str]:
        if min(queue.growth) < -self.fall:
            return current, "Jitter"
        fast = min(queue.growth) > self.surge
        factor = min(2.0, 1 + queue.mean_growth * self.ahead) if fast else 1.0
        want = ceil(queue.whole[-1] * factor / self.high - EXACT)
        return max(current, want), "LoadSurges" if fast else "AboveHighMark"

    def _contract(self, queue: _Queue, most: float, current: int) -> tuple[int, str]:
        if max(queue.growth) > self._rise:
            return current, "Jitter"
        fast = max(queue.growth) < -self.plunge
        want = max(1, floor(most / self.low + EXACT))
        if fast:  # not fewer than the present load needs
            soon = most * max(0.5, 1 + queue.mean_growth * self.ahead)
            want = max(1, floor(soon / self.low + EXACT), ceil(most / self.high - EXACT))
        return min(current, want), "LoadPlunges" if fast else "BelowLowMark"

    def _describe(self, values: Sequence[float], growth: Sequence[float]) -> str:
        per = "sample" if self.mode == "paper" else "s"
        return f"{', '.join(f'{x:.4g}' for x in values)} %; growth {', '.join(f'{r:+.3g}' for r in growth)} per {per}"

    def _pods(self, observation: Observation, series: Series) -> _Pods | str:
        sampled = {sample.pod for sample in series.samples}
        if not sampled - {""}:
            return f"{self.series} is not of pods, so it is no part of their requests"
        split = serving(observation.pods, sampled)
        if not split.ready:
            return "no pod is ready"
        requests = {pod.name: request_of(pod, self.series) for pod in split.ready}
        if lacking := [name for name, request in requests.items() if not request]:
            return f"missing request for {self.series} in Pod {lacking[0]}"
        silent = sum(1 for pod in split.starting if pod.name not in sampled)
        return _Pods(sum(requests.values()) / len(requests), len(split.missing), silent)

    def _queue(self, points: Sequence[Point], request: float) -> _Queue:
        """The last successive points as utilisations of pods with this request. Points before a gap are left out."""
        last = [point for point in points[-self.samples :] if point.pods]
        for index in range(len(last) - 1, 0, -1):
            if last[index].at - last[index - 1].at > GAP * self.slow:
                last = last[index:]
                break
        growth = tuple(map(self._growth, last, last[1:]))
        totals = tuple(100 * point.total / request for point in last)
        each = tuple(100 * point.total / request / point.pods for point in last)
        return _Queue(totals, each, growth, last[-1].pods if last else 0)

    def _growth(self, before: Point, after: Point) -> float:
        """Growth of the load from one point to the next, relative to the first."""
        growth = _relative(before.total, after.total)
        if self.mode == "paper":
            return growth
        growth_per_pod = _relative(before.total / before.pods, after.total / after.pods)
        if growth * growth_per_pod <= 0:
            return 0.0
        return min(growth, growth_per_pod, key=abs) / (after.at - before.at)


def _task(past: Past, now: float, current: int) -> int | None:
    """The count at which the running scale operation will end; None: none runs. DHPA: a decision is a task of one pod
    after another, and nothing else is decided before the last of them has started or stopped."""
    if not past.changes or not past.runs:
        return None
    change, wish = past.changes[-1], past.runs[-1]
    began = wish.first <= change.at and (wish.replicas - current) * (change.after - change.before) > 0
    # A task that something else limits ends with the first evaluation at which it has not progressed.
    lasts = STEP + (past.interval or 0.0) if began else STEP
    if now - change.at > lasts or (not began and now - change.at == lasts):
        return None
    return wish.replicas if began else current


def _relative(before: float, after: float) -> float:
    return (after - before) / before if before > 0 else 0.0


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    return [DoubleThreshold]
