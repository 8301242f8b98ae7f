"""Cuts one workload's observation out of a cluster's snapshot and the sources' readings.

Knows how series are looked up and which of several sources is taken; knows no clock and no I/O.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from elasticd.base.memo import Memo
from elasticd.decision.quality import (
    FUTURE,
    NO_SAMPLE,
    SETTLING,
    apart,
    cover,
    doubted,
    expected,
    failed,
    grade,
    unseen,
)
from elasticd.kit.unseen import why_outgrown, why_unseen
from elasticd.model.policy import Policy
from elasticd.model.workload import (
    BulkLookup,
    Observation,
    Pod,
    Quality,
    Readings,
    Ref,
    Sample,
    Series,
    Workload,
    samples_of,
)
from elasticd.ports.cluster import Snapshot


def observe(
    policy: Policy,
    workload: Workload,
    snapshot: Snapshot,
    readings: Sequence[Readings],
    names: frozenset[str] | None,
    at: float,
) -> Observation:
    """Build the observation of a workload. `names`: the series that are read, None for all there are. Each series comes
    from the first reading whose samples can be trusted; its message says which sources were passed over for that, and
    why."""
    pods = snapshot.pods(workload)
    fault = snapshot.selector_fault(workload)
    return Observation(
        at=at,
        workload=workload,
        pods=pods,
        series=series_of(policy, workload, pods, readings, names, at),
        confirmed=snapshot.confirmed_for(workload.ref),
        fault=("InvalidSelector", fault) if fault else ("", ""),
        autoscaler=snapshot.autoscaler(workload.ref),
    )


def series_of(
    policy: Policy,
    workload: Workload,
    pods: tuple[Pod, ...],
    readings: Sequence[Readings],
    names: frozenset[str] | None,
    at: float,
) -> dict[str, Series]:
    """The series of a workload with these pods, by name; `names` None: all there are. While its controller counts pods
    that are not among these, as where the watch of pods has fallen silent, the samples of the others stand for too
    few."""
    if names is None:
        names = frozenset(
            name for reading in readings for name in (*reading.pods, *reading.workloads, *reading.forecasts)
        )
    cut = _Cut(policy, workload, pods, at)
    found = {name: cut.series(name, readings) for name in _in_order(names)}
    if why := why_unseen(workload, pods):
        return {name: unseen(series, why) if _is_of_pods(series) else series for name, series in found.items()}
    return found


def _is_of_pods(series: Series) -> bool:
    """One that is presumed to be 0 may be of pods of which none is seen."""
    return series.presumed or (bool(series.samples) and bool(series.samples[0].pod))


@lru_cache(maxsize=1024)
def _in_order(names: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def on_nodes(
    names: Iterable[str], pods: Iterable[Pod], readings: Sequence[Readings], at: float, max_age: float
) -> dict[str, dict[str, float]]:
    """The value of each series on each node that runs one of these pods, by series and then by node. It comes from the
    first source that can be trusted; what no source knows is left out."""
    nodes = {pod.node for pod in pods if pod.node}
    by_series: dict[str, dict[str, float]] = {}
    for name in names:
        values = {node: _node_value(name, node, readings, at, max_age) for node in nodes}
        by_series[name] = {node: value for node, value in values.items() if value is not None}
    return by_series


def _node_value(name: str, node: str, readings: Sequence[Readings], at: float, max_age: float) -> float | None:
    for reading in readings:
        if name in reading.doubts:
            continue
        series = grade(name, reading.source, reading.nodes.get(name, {}).get(node, ()), at, max_age)
        if series.trusted:
            return sum(sample.value for sample in series.samples)
    return None


def _sample_keys(_: Ref, pods: tuple[Pod, ...]) -> tuple[tuple[str, ...], frozenset[str]]:
    """The keys of the pods' samples, and the names of the pods that should have some."""
    expected = frozenset(pod.name for pod in pods if pod.phase == "Running" and not pod.deleted)
    # What a pod uses that is being deleted or has failed stands for nobody. HPA: Groups, ignored pods.
    keys = tuple(f"{pod.namespace}/{pod.name}" for pod in pods if not pod.deleted and pod.phase != "Failed")
    return keys, expected


sample_keys = Memo(_sample_keys)
"""Of a workload and its pods, the keys of the pods' samples, and the names of the pods that should have some."""


class _Fresh(NamedTuple):
    """A series without a flaw, of which table and of which keys it was made, and when its samples were measured, first
    and last: it stays what it is until these are too old."""

    table: object
    keys: tuple[str, ...]
    source: str
    series: Series
    first: float
    last: float


_MOST_FRESH = 30_000
"""So many are kept; when there are more all are dropped."""

_fresh: dict[tuple[Ref, str], _Fresh] = {}
"""The last one of each workload and series from a table that does not change: its samples are looked at between polls
and again at the poll."""


class _Cut:
    """Cuts the series of one workload and its pods out of the readings of all sources."""

    def __init__(self, policy: Policy, workload: Workload, pods: tuple[Pod, ...], at: float) -> None:
        self._policy, self._trust, self._workload = policy, policy.trust, workload
        self._ref, self._pods, self._at = workload.ref, pods, at
        self._keys, self._expected = sample_keys(self._ref, pods)

    def series(self, name: str, readings: Sequence[Readings]) -> Series:
        """The first that is trusted, else the one with most of its samples, else one that says why not."""
        if (known := self._known(name, readings)) is not None:
            return known
        passed: list[Series] = []
        for reading in readings:
            if name in reading.forecasts:
                return expected(name, reading, str(self._ref), self._at)
            series = self._grade_reading(name, reading)
            if series is None:
                continue
            if series.quality is not Quality.ERROR:
                series = self._doubt(series, reading)
            if series.trusted:
                return _explain_choice(series, passed) if passed else series
            passed.append(series)
        if not passed:
            return failed(name, "", f'no source has a series "{name}"')
        if name in self._trust.zero_when_empty and (zero := self._zero_of_empty(name, readings, passed)) is not None:
            return zero
        best = min(passed, key=_lack)
        passed_over = [series for series in passed if series is not best]
        best = _explain_choice(best, passed_over) if passed_over else best
        return replace(best, may_raise=True) if self._trust.unknown == "up-only" else best

    def _known(self, name: str, readings: Sequence[Readings]) -> Series | None:
        """The series as it was graded before, where the first source has the same samples of the same pods for it, and
        none of them has become too old."""
        before = _fresh.get((self._ref, name))
        if before is None or before.keys is not self._keys:
            return None
        first = readings[0] if readings else None
        if first is None or first.pods.get(name) is not before.table or first.source != before.source:
            return None
        if first.forecasts or first.parts or first.doubts or first.doubted_workloads:
            return None
        in_time = self._at - self._policy.max_age <= before.first and before.last <= self._at + FUTURE
        return before.series if in_time else None

    def _doubt(self, series: Series, reading: Readings) -> Series:
        if why := reading.doubts.get(series.name):
            return doubted(series, why)
        if not reading.doubted_workloads and not reading.counted:
            return series
        why, counted = reading.doubted_workloads.get(str(self._ref)), reading.counted.get(str(self._ref))
        if not why and counted is not None:  # the watches may have been silent until now
            why = why_outgrown(self._workload, counted)
        return unseen(series, why) if why else series

    def _keep(self, table: object, series: Series) -> None:
        if len(_fresh) >= _MOST_FRESH:
            _fresh.clear()
        times = [sample.measured for sample in series.samples]
        _fresh[self._ref, series.name] = _Fresh(table, self._keys, series.source, series, min(times), series.measured)

    def _grade_reading(self, name: str, reading: Readings) -> Series | None:
        """Grade what one source has of a series; None when it has no such series."""
        policy, trust = self._policy, self._trust
        fault = reading.faults.get(name, "")
        samples = self._samples(name, reading)
        if samples is None:
            offered = reading.offers is None or name in reading.offers
            fault = fault or (reading.error if offered else "")
            return failed(name, reading.source, fault) if fault else None
        about = self._expected if samples and samples[0].pod else frozenset()
        series = grade(name, reading.source, samples, self._at, policy.max_age, about)
        table: object = reading.pods.get(name)
        if about and series.quality is Quality.FRESH and isinstance(table, BulkLookup):
            self._keep(table, series)
        if series.quality is Quality.PARTIAL:
            series = cover(series, self._settled() | {sample.pod for sample in samples}, trust.coverage)
        if (parts := reading.parts.get(name)) and (halves := samples_of(parts, self._keys)):
            series = apart(series, halves, self._settled(), self._at, policy.max_age, trust.coverage)
        if fault and not series.trusted:
            return replace(series, message=f"{series.message}; {fault}")
        return series

    def _zero_of_empty(self, name: str, readings: Sequence[Readings], passed: Sequence[Series]) -> Series | None:
        """A series of 0, as old as the answer, where every source of it has answered without a sample of this workload,
        and one of them would know of any. None elsewhere."""
        if any(series.quality is not Quality.EMPTY or series.message != NO_SAMPLE for series in passed):
            return None
        sources = {series.source for series in passed}
        for reading in readings:
            if reading.complete and reading.source in sources:
                zero = [Sample(0.0, reading.received, reading.received)]
                graded = grade(name, reading.source, zero, self._at, self._policy.max_age)
                message = f"{NO_SAMPLE}, which the policy takes for 0"
                return replace(graded, message=message, presumed=True) if graded.trusted else None
        return None

    def _settled(self) -> set[str]:
        """The pods that have run long enough to have been measured."""
        since = self._at - SETTLING
        return {
            pod.name
            for pod in self._pods
            if pod.phase == "Running" and not pod.deleted and pod.started is not None and pod.started <= since
        }

    def _samples(self, name: str, reading: Readings) -> Sequence[Sample] | None:
        by_pod, by_workload = reading.pods.get(name), reading.workloads.get(name)
        if by_pod is None and by_workload is None:
            return None
        # Not by their truth: a source may compute its samples when they are looked up, and counting is looking at all.
        samples: Sequence[Sample] = ()
        if by_pod is not None:
            samples = samples_of(by_pod, self._keys)
        if not samples and by_workload is not None:
            samples = by_workload.get(str(self._ref), ())
        return samples


_LACKS = (Quality.PARTIAL, Quality.STALE, Quality.INVALID, Quality.EMPTY, Quality.ERROR)


def _lack(series: Series) -> tuple[bool, int]:
    """Sort key: the more samples are lacking, the greater; without any sample is greatest."""
    return (not series.samples, _LACKS.index(series.quality))


def _explain_choice(chosen: Series, passed_over: Sequence[Series]) -> Series:
    reasons = "; ".join(f"{series.source} {series.quality.value}: {series.message}" for series in passed_over)
    return replace(chosen, message=f"{chosen.message}; not {reasons}" if chosen.message else f"not {reasons}")


def fingerprint(observation: Observation) -> tuple[object, ...]:
    """A value that is equal for two observations between which only the clock moved, or what nodes use: that says which
    pods go, and not whether. Snapshots share the pods that did not change, so comparing them costs a look at their
    identities."""
    measurements = [
        (series.quality, [sample.measured for sample in series.samples], series.apart)
        for series in observation.series.values()
    ]
    return (
        measurements,
        observation.workload,
        observation.pods,
        observation.fault,
        observation.autoscaler,
        observation.rooms,
    )
