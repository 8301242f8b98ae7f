"""What could have been at best, and what was: a scaler that knows the future, and the counts of a recording.

Pure but for the recording, which it is given. Knows demand and counts; knows nothing of policies.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil, isnan, nan

from msgspec.structs import replace

from elasticd.lab.runs import Change, Run, ServingPod, WorkloadTrack
from elasticd.model.workload import Ref

IDEAL, RECORDED = "(ideal)", "(what was)"
COMPARED = (IDEAL, RECORDED)
"""Under which names they stand beside policies."""

Counts = Sequence[tuple[float, int]]
"""The counts of a workload: each from a time on."""

ROUNDING = 1e-9
"""Of a pod: what is above a whole number by no more is of the arithmetic."""


def without_policies(played: Run) -> Run:
    """A run with the same demand in which nothing has been counted yet."""
    tracks = {ref: WorkloadTrack(demand=track.demand, peak=track.peak) for ref, track in played.workloads.items()}
    return Run(played.begun, played.step, tracks)


def ideal(played: Run, pods: Mapping[Ref, ServingPod]) -> Run:
    """The least counts with which all demand of a run would have been served, by whoever knows it beforehand.

    Counts change at the ends of steps, and are enough for the highest demand within a step; where demand is not known,
    the count stays.
    """
    run = without_policies(played)
    same: dict[tuple[int, int, ServingPod], Ref] = {}
    for ref, track in run.workloads.items():
        # Workloads of one table share their demand; that of a fleet is looked at once.
        first = same.setdefault((id(track.demand), id(track.peak), pods[ref]), ref)
        if first == ref:
            _fill_ideal(run, ref, pods[ref])
        run.workloads[ref], run.changes[ref] = run.workloads[first], run.changes[first]
    return run


def _fill_ideal(run: Run, ref: Ref, pod: ServingPod) -> None:
    track = run.workloads[ref]
    needed = _needed(track.peak, pod.capacity)
    ahead = ceil(pod.start_seconds / run.step)
    asked = [int(max(needed[index : index + ahead + 1])) for index in range(len(needed))]
    _fill(run, ref, [(run.begun + run.step * index, count) for index, count in enumerate(asked)])
    track.unserved = [nan if isnan(demand) else 0.0 for demand in track.demand]
    track.short = [0.0] * len(asked)
    track.ready = needed


def _needed(peak: Sequence[float], capacity: float) -> list[int]:
    """The pods that serve the peak of each step: at least one, and as many as before where it is not known."""
    counts: list[int] = []
    for value in peak:
        last = counts[-1] if counts else 1
        counts.append(last if isnan(value) else max(1, ceil(value / capacity - ROUNDING)))
    return counts


def recorded(played: Run, ref: Ref, counts: Counts) -> Run:
    """What a recording says of the counts that there were. What was not served then is not known."""
    run = without_policies(replace(played, workloads={ref: played.workloads[ref]}))
    track = run.workloads[ref]
    _fill(run, ref, counts)
    track.unserved = [nan] * len(track.demand)
    track.short = [nan] * len(track.demand)
    track.lag = nan
    track.ready = list(track.replicas)
    return run


def _fill(run: Run, ref: Ref, counts: Counts) -> None:
    """The changes that these counts are, and the count at the end of each step."""
    distinct = list(_distinct(counts))
    run.changes[ref] = [Change(at, before, after) for (_, before), (at, after) in pairwise(distinct)]
    track, index = run.workloads[ref], 0
    for end in (run.begun + run.step * (number + 1) for number in range(len(track.demand))):
        while index + 1 < len(distinct) and distinct[index + 1][0] < end:
            index += 1
        track.replicas.append(distinct[index][1])


def _distinct(counts: Counts) -> Iterator[tuple[float, int]]:
    """The counts that differ from the one before."""
    last = None
    for at, count in counts:
        if count != last:
            last = count
            yield at, count
