"""Cuts one workload's observation out of a cluster's snapshot and the sources' readings.

Knows how series are looked up and which of several sources is taken; knows no clock and no I/O.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from elasticd.base.memo import Derived
from elasticd.decision.quality import NO_SAMPLE, SETTLING, apart, cover, expected, failed, grade
from elasticd.model.bulk_lookup import samples_of
from elasticd.model.policy import Policy
from elasticd.model.workload import Observation, Pod, Quality, Readings, Ref, Sample, Series, Workload
from elasticd.ports.cluster import Snapshot


def observe(
    policy: Policy,
    workload: Workload,
    snapshot: Snapshot,
    readings: Sequence[Readings],
    names: frozenset[str] | None,
    at: float,
) -> Observation:
    """What is known of a workload now. `names` are the series that are read, None for all there are.

    Each series comes from the first of the readings whose samples of it can be trusted; which ones were passed over
    for that, and why, is told with it.
    """
    pods = snapshot.pods(workload)
    fault = snapshot.selector_fault(workload)
    return Observation(
        at=at,
        workload=workload,
        pods=pods,
        series=series_of(policy, workload.ref, pods, readings, names, at),
        confirmed=snapshot.confirmed_for(workload.ref),
        fault=("InvalidSelector", fault) if fault else ("", ""),
        autoscaler=snapshot.autoscaler(workload.ref),
    )


def series_of(
    policy: Policy,
    ref: Ref,
    pods: tuple[Pod, ...],
    readings: Sequence[Readings],
    names: frozenset[str] | None,
    at: float,
) -> dict[str, Series]:
    """The series of a workload with these pods, by name; `names` None: all there are."""
    if names is None:
        names = frozenset(name for said in readings for name in (*said.pods, *said.workloads, *said.forecasts))
    cut = _Cut(policy, ref, pods, at)
    return {name: cut.series(name, readings) for name in sorted(names)}


def on_nodes(
    names: Iterable[str], pods: Iterable[Pod], readings: Sequence[Readings], at: float, max_age: float
) -> dict[str, dict[str, float]]:
    """What each node that a pod is on comes to, by series and then by node: as the first source says of which it can be
    trusted. What nobody knows is left out."""
    nodes = {pod.node for pod in pods if pod.node}
    found: dict[str, dict[str, float]] = {}
    for name in names:
        known = {node: _of_node(name, node, readings, at, max_age) for node in nodes}
        found[name] = {node: value for node, value in known.items() if value is not None}
    return found


def _of_node(name: str, node: str, readings: Sequence[Readings], at: float, max_age: float) -> float | None:
    for said in readings:
        found = grade(name, said.source, said.nodes.get(name, {}).get(node, ()), at, max_age)
        if found.trusted:
            return sum(sample.value for sample in found.samples)
    return None


def _heard_of(_: Ref, pods: tuple[Pod, ...]) -> tuple[tuple[str, ...], int]:
    """The keys of the pods' samples, and how many pods should have some."""
    expected = sum(1 for pod in pods if pod.phase == "Running" and not pod.deleted)
    # What a pod that is being deleted uses stands for nobody. HPA: Groups, ignored pods.
    return tuple(f"{pod.namespace}/{pod.name}" for pod in pods if not pod.deleted), expected


_expected = Derived(_heard_of)


class _Cut:
    """One workload's part of what sources say: of it and its pods, of which so many are expected to be heard of."""

    def __init__(self, policy: Policy, ref: Ref, pods: tuple[Pod, ...], at: float) -> None:
        self._policy, self._trust = policy, policy.trust
        self._ref, self._pods, self._at = ref, pods, at
        self._keys, self._expected = _expected(ref, pods)

    def series(self, name: str, readings: Sequence[Readings]) -> Series:
        """The first that is trusted; else the most that is left of it; else why there is none."""
        passed: list[Series] = []
        for said in readings:
            if name in said.forecasts:
                return expected(name, said, str(self._ref), self._at)
            found = self._graded(name, said)
            if found is None:
                continue
            if found.trusted:
                return _instead(found, passed) if passed else found
            passed.append(found)
        if not passed:
            return failed(name, "", f'no source has a series "{name}"')
        if name in self._trust.zero_when_empty and (zero := self._zero(name, readings, passed)) is not None:
            return zero
        best = min(passed, key=_lack)
        others = [one for one in passed if one is not best]
        best = _instead(best, others) if others else best
        return replace(best, may_raise=True) if self._trust.unknown == "up-only" else best

    def _graded(self, name: str, said: Readings) -> Series | None:
        """What one source says of a series; None when it has no such series."""
        policy, trust = self._policy, self._trust
        fault = said.faults.get(name, "")
        samples = self._samples(name, said)
        if samples is None:
            offered = said.offers is None or name in said.offers
            fault = fault or (said.error if offered else "")
            return failed(name, said.source, fault) if fault else None
        about = self._expected if samples and samples[0].pod else 0
        found = grade(name, said.source, samples, self._at, policy.max_age, about)
        if found.quality is Quality.PARTIAL:
            found = cover(found, self._settled() | {sample.pod for sample in samples}, trust.coverage)
        if (parts := said.parts.get(name)) and (halves := samples_of(parts, self._keys)):
            found = apart(found, halves, self._settled(), self._at, policy.max_age, trust.coverage)
        if fault and not found.trusted:
            return replace(found, message=f"{found.message}; {fault}")
        return found

    def _zero(self, name: str, readings: Sequence[Readings], passed: Sequence[Series]) -> Series | None:
        """Zero, as old as the answer, where all sources of the series have answered and none has a sample of this
        workload, of which one knows all there is."""
        if any(one.quality is not Quality.EMPTY or one.message != NO_SAMPLE for one in passed):
            return None
        sources = {one.source for one in passed}
        for said in readings:
            if said.complete and said.source in sources:
                zero = [Sample(0.0, said.received, said.received)]
                found = grade(name, said.source, zero, self._at, self._policy.max_age)
                return replace(found, message=f"{NO_SAMPLE}, which the policy takes for 0") if found.trusted else None
        return None

    def _settled(self) -> set[str]:
        """The pods that have run long enough to have been measured."""
        since = self._at - SETTLING
        return {
            pod.name
            for pod in self._pods
            if pod.phase == "Running" and not pod.deleted and pod.started is not None and pod.started <= since
        }

    def _samples(self, name: str, said: Readings) -> Sequence[Sample] | None:
        by_pod, by_workload = said.pods.get(name), said.workloads.get(name)
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
    """How little there is of it: without samples is less than with any."""
    return (not series.samples, _LACKS.index(series.quality))


def _instead(series: Series, others: Sequence[Series]) -> Series:
    """The same, with what the others lack."""
    told = "; ".join(f"{one.source} {one.quality.value}: {one.message}" for one in others)
    return replace(series, message=f"{series.message}; not {told}" if series.message else f"not {told}")


def fingerprint(observation: Observation) -> tuple[object, ...]:
    """Equal for two observations between which nothing moved but the clock, or what nodes are used: that says which
    pods go, and not whether. Snapshots share the pods that did not
    change, so comparing them costs a look at their identities."""
    moved = [
        (one.quality, [sample.measured for sample in one.samples], one.apart) for one in observation.series.values()
    ]
    return (
        moved,
        observation.workload,
        observation.pods,
        observation.fault,
        observation.autoscaler,
        observation.rooms,
    )
