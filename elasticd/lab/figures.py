"""What a run comes to: how much it cost, how much demand was not served, and how calm it was.

Pure: a run in, figures out. Knows nothing of how it was played.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from math import isnan, nan
from statistics import fmean

import numpy as np
from msgspec import Struct

from elasticd.lab.runs import Change, Run, WorkloadTrack
from elasticd.lab.service import quantile
from elasticd.model.workload import Ref

FLAP = 600.0
"""Seconds: a change back within them is a flap."""


class Figures(Struct, frozen=True):
    """What some workloads of a run come to.

    `replica_hours` is what was asked for, whether it was ready or not; `demand` is in core-hours, `unserved` the share
    of it that no ready pod could serve. `short` and `lag` are seconds: those in which some demand was not served,
    summed over workloads, and the longest time without a break. NaN: not known. `flaps` are changes that took back the
    one before within 10 minutes. `requests` are those of HTTP services, `failed` the share of them that did; the waits
    are seconds, of those that were served. `requested` is in core-hours, of all pods that there should be.

    Of all nodes: `without_node` is how long pods waited for one, in seconds, summed over pods; `apart` the standard
    deviation between nodes of the share of their CPU that is used, the mean over time; `fullest` the highest such
    share; `occupied` how many nodes had pods, the mean over time. Of Jobs: `job_hours` is the time of those in flight,
    `most_jobs` how many there were at most; `queue` the messages in the queue, the mean over time, and `most_queued`.
    """

    replica_hours: float
    most: int
    demand: float
    unserved: float
    short: float
    lag: float
    changes: int
    flaps: int
    evictions: int
    requests: float = nan
    failed: float = nan
    wait_median: float = nan
    wait_p99: float = nan
    requested: float = nan
    without_node: float = nan
    apart: float = nan
    fullest: float = nan
    occupied: float = nan
    job_hours: float = nan
    most_jobs: float = nan
    queue: float = nan
    most_queued: float = nan


class Spread(Struct, frozen=True):
    """A figure over several seeds."""

    mean: float
    least: float
    most: float


def figures(run: Run, only: Ref | None = None) -> Figures:
    """The figures of all workloads together, or of one. Pods are named after their workload."""
    tracks = run.workloads if only is None else {only: run.workloads[only]}
    owner = None if only is None else (only.namespace, only.name)
    evicted = [pod for pod in run.evicted if owner in (None, (pod.namespace, pod.name.rpartition("-")[0]))]
    changes = {ref: run.changes.get(ref, []) for ref in tracks}
    hours = run.step / 3600
    demand = demanded(run, tracks.values())
    unserved = nan if any(map(_unknown, tracks.values())) else sum(_known(each.unserved) for each in tracks.values())
    return Figures(
        replica_hours=sum(_replica_seconds(run, ref, track) for ref, track in tracks.items()) / 3600,
        most=max((max(track.replicas, default=0) for track in tracks.values()), default=0),
        demand=demand,
        unserved=unserved * hours / demand if demand else 0.0,
        short=sum(sum(track.short) for track in tracks.values()),
        lag=nan if isnan(unserved) else max((track.lag for track in tracks.values()), default=0.0),
        changes=sum(map(len, changes.values())),
        flaps=sum(map(flaps, changes.values())),
        evictions=len(evicted),
        **_of_requests([track for track in tracks.values() if track.requests]),
        **_requested(run, tracks.values()),
        **(_of_nodes(run) if only is None and run.nodes else {}),
        **(_of_jobs(run) if only is None and run.jobs else {}),
    )


def demanded(run: Run, tracks: Iterable[WorkloadTrack]) -> float:
    """The demand of these of its workloads, in core-hours."""
    return sum(_known(track.demand) for track in tracks) * (run.step / 3600)


def _of_requests(tracks: Sequence[WorkloadTrack]) -> dict[str, float]:
    if not tracks:
        return {}
    requests = sum(_known(track.requests) for track in tracks)
    waits = [each for track in tracks for each in track.waits]
    return {
        "requests": requests,
        "failed": sum(_known(track.failed) for track in tracks) / requests if requests else 0.0,
        "wait_median": quantile(waits, 0.5),
        "wait_p99": quantile(waits, 0.99),
    }


def _requested(run: Run, tracks: Collection[WorkloadTrack]) -> dict[str, float]:
    if not all(track.pod_requests for track in tracks):
        return {}
    return {"requested": sum(map(_requested_cores, tracks)) * run.step / 3600}


def _requested_cores(track: WorkloadTrack) -> float:
    """The cores that the pods of a workload should have, summed over steps."""
    starts = [first for first, _ in track.pod_requests[1:]]
    parts = zip(track.pod_requests, [0, *starts], [*starts, len(track.replicas)], strict=True)
    return sum(cores * sum(track.replicas[first:last]) for (_, cores), first, last in parts)


def _of_nodes(run: Run) -> dict[str, float]:
    with np.errstate(invalid="ignore"):
        used = np.array([np.asarray(track.used) / track.cores for track in run.nodes.values()])
    if np.isnan(used).all(axis=0).any():  # for some time there was no node
        return {}
    occupied = np.array([track.pods for track in run.nodes.values()]) > 0
    return {
        "without_node": float(sum(run.waiting)) * run.step,
        "apart": float(np.nanstd(used, axis=0).mean()),
        "fullest": float(np.nanmax(used)),
        "occupied": float(occupied.sum(axis=0).mean()),
    }


def _of_jobs(run: Run) -> dict[str, float]:
    queued = np.sum([track.queue for track in run.jobs.values()], axis=0)
    in_flight = np.sum([track.in_flight for track in run.jobs.values()], axis=0)
    return {
        "job_hours": float(in_flight.sum()) * run.step / 3600,
        "most_jobs": float(in_flight.max()),
        "queue": float(queued.mean()),
        "most_queued": float(queued.max()),
    }


def spreads(all_figures: Sequence[Figures]) -> dict[str, Spread]:
    """Each figure over the seeds."""
    columns = {name: [getattr(each, name) for each in all_figures] for name in Figures.__struct_fields__}
    return {name: Spread(fmean(values), min(values), max(values)) for name, values in columns.items()}


def flaps(changes: Sequence[Change]) -> int:
    """How many changes took back the one before soon after it."""
    return sum(
        (later.after - later.before) * (earlier.after - earlier.before) < 0 and later.at - earlier.at <= FLAP
        for earlier, later in pairwise(changes)
    )


def first_count(run: Run, ref: Ref) -> int:
    """The count of a workload at the start."""
    if changes := run.changes.get(ref):
        return changes[0].before
    replicas = run.workloads[ref].replicas
    return replicas[-1] if replicas else 0


def _replica_seconds(run: Run, ref: Ref, track: WorkloadTrack) -> float:
    """The integral of the count over the time of the run, exact between changes."""
    changes = run.changes.get(ref, [])
    end = run.begun + run.step * len(track.replicas)
    times = [run.begun, *(change.at for change in changes), end]
    counts = [first_count(run, ref), *(change.after for change in changes)]
    return sum(
        count * max(0.0, min(after, end) - before)
        for count, before, after in zip(counts, times, times[1:], strict=False)
    )


def _known(values: Sequence[float]) -> float:
    total = sum(values)  # nearly always all are known, and a fleet has millions
    return sum(value for value in values if not isnan(value)) if isnan(total) else total


def _unknown(track: WorkloadTrack) -> bool:
    """Whether it is not known what of its demand was served."""
    if not isnan(sum(track.unserved)):
        return False
    return any(isnan(lost) and not isnan(asked) for lost, asked in zip(track.unserved, track.demand, strict=True))
