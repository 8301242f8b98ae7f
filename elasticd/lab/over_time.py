"""What runs did over time, as charts: the demand, the replicas of each policy, and the demand that was not served.

Pure: runs in, charts out. Knows nothing of how they are drawn.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import ceil, isnan, nan
from statistics import fmean
from typing import Literal

from elasticd.lab.charts import Axis, Chart, Line
from elasticd.lab.figures import first_count
from elasticd.lab.ideal import COMPARED
from elasticd.lab.runs import NodeTrack, Run, Runs, WorkloadTrack
from elasticd.model.workload import Ref

POINTS = 720
"""Of demand in a chart, at most: more are joined, and their mean is shown."""
MINUTES = 90
"""Up to so many, times are in minutes."""

DAYS = 72
"""Hours: longer runs are shown in days."""

Points = tuple[tuple[float, ...], tuple[float, ...]]
"""Times since the start, in the unit of the axis, and values."""


def run_charts(runs: Runs, only: Ref | None = None) -> list[Chart]:
    """Demand, replicas and unserved demand of one workload, or of all together, with the first seed."""
    first = {name: by_seed[0] for name, by_seed in runs.items()}
    played = next(iter(first.values()))
    refs = [ref for ref in played.workloads if only in (None, ref)]
    of = str(refs[0]) if len(refs) == 1 else f"all {len(refs)} workloads"
    unit, scale = _unit(played.steps * played.step)
    time = Axis("time since the start", unit)
    demand = Line("demand", *_means(played, only, lambda track: track.demand, scale), look="area")
    counts = [Line(name, *_replicas(run, only, scale), look=_look(name)) for name, run in first.items()]
    tried = {name: run for name, run in first.items() if name not in COMPARED}
    lost = [Line(name, *_unserved(run, only, scale)) for name, run in tried.items()]
    return [
        Chart("demand", f"Demand of {of}", "steps", time, Axis("demand", "cores"), (demand,)),
        Chart("replicas", "Replicas", "steps", time, Axis("replicas"), tuple(counts)),
        Chart("unserved", "Demand not served so far", "lines", time, Axis("unserved", "core-hours"), tuple(lost)),
    ]


def plot_charts(runs: Runs) -> list[Chart]:
    """What --plot draws: those of run_charts; what pods request, where that changes, without counts where none of them
    does; and sets of Jobs; of what there is, with the first seed."""
    first = {name: by_seed[0] for name, by_seed in runs.items()}
    played = next(iter(first.values()))
    counts = run_charts(runs) if played.workloads or not played.jobs else []
    resized = any(len(track.pod_requests) > 1 for run in first.values() for track in run.workloads.values())
    if resized and not any(any(run.changes.values()) for name, run in first.items() if name not in COMPARED):
        counts = counts[:1]
    return [*counts, *(_request_charts(first) if resized else ()), *(_job_charts(first) if played.jobs else ())]


def _request_charts(first: Mapping[str, Run]) -> Iterator[Chart]:
    """What a pod of each workload requests and uses."""
    played = next(iter(first.values()))
    unit, scale = _unit(played.steps * played.step)
    for ref in played.workloads:
        lines = []
        for name, run in first.items():
            if run.workloads[ref].pod_requests:
                of = f"{name}: " if len(first) > 2 else ""
                lines.append(Line(f"{of}requested", *_held(run, run.workloads[ref].pod_requests, scale)))
                lines.append(Line(f"{of}used", *_means(run, ref, _used_by_pod, scale), look="reference"))
        time, cpu = Axis("time since the start", unit), Axis("CPU of a pod", "cores")
        yield Chart("request", f"What a pod of {ref} requests and uses", "steps", time, cpu, tuple(lines))


def _held(run: Run, changes: Sequence[tuple[int, float]], scale: float) -> Points:
    """What holds from the beginning of a step on, until the next entry and the end."""
    times = [step * run.step / scale for step, _ in changes]
    return (*times, run.steps * run.step / scale), (*(value for _, value in changes), changes[-1][1])


def _used_by_pod(track: WorkloadTrack) -> list[float]:
    served = zip(track.demand, track.unserved, track.ready, strict=True)
    return [(demand - lost) / pods if pods else nan for demand, lost, pods in served]


def _job_charts(first: Mapping[str, Run]) -> Iterator[Chart]:
    """The queue and the Jobs in flight of each set of Jobs."""
    played = next(iter(first.values()))
    unit, scale = _unit(played.steps * played.step)
    time = Axis("time since the start", unit)
    for ref in played.jobs:
        tracks = {name: (run, run.jobs[ref]) for name, run in first.items() if ref in run.jobs}
        queues = [Line(name, *_ended(run, track.queue, scale)) for name, (run, track) in tracks.items()]
        jobs = [Line(name, *_ended(run, track.in_flight, scale)) for name, (run, track) in tracks.items()]
        yield Chart("queue", f"Messages in the queue of {ref}", "steps", time, Axis("messages"), tuple(queues))
        yield Chart("jobs", "Jobs in flight", "steps", time, Axis("Jobs"), tuple(jobs))


def node_charts(runs: Runs) -> list[Chart]:
    """What each node had over time, and which pods waited and were evicted, of each candidate with the first seed."""
    several = sum(name not in COMPARED for name in runs) > 1
    charts = [_node_charts(by_seed[0], several * name) for name, by_seed in runs.items() if name not in COMPARED]
    return [chart for each in charts for chart in each]


def _node_charts(run: Run, name: str) -> Iterator[Chart]:
    unit, scale = _unit(run.steps * run.step)
    time, before = Axis("time since the start", unit), f"{name}: " if name else ""
    for title, of in _OF_NODES.items():
        rows = tuple(Line(node, *_percents(run, *of(track), scale)) for node, track in run.nodes.items())
        yield Chart(title, f"{before}{title} of each node", "rows", time, Axis("of the node", "%"), rows)
    lines = (
        Line("pods that wait for a node", *_ended(run, run.waiting, scale)),
        Line("evictions so far", *_ended(run, run.evictions, scale)),
    )
    if any(line.y and max(line.y) > 0 for line in lines):
        yield Chart(
            "pods", f"{before}Pods that wait for a node, and evictions so far", "steps", time, Axis("pods"), lines
        )


_OF_NODES: Mapping[str, Callable[[NodeTrack], tuple[Sequence[float], float]]] = {
    "CPU requested": lambda track: (track.requested, track.cores),
    "Memory requested": lambda track: (track.memory, track.bytes),
    "CPU used": lambda track: (track.used, track.cores),
}
"""What is drawn of nodes: the amounts, and of what they are a part."""


def _percents(run: Run, amounts: Sequence[float], whole: float, scale: float) -> Points:
    means = [_mean(part) / whole * 100 for part in _parts(amounts, _joined(run.steps))]
    return _ends(run, scale), (*means, *(means[-1:] or [nan]))


def _ended(run: Run, counts: Sequence[float], scale: float) -> Points:
    """What was at the end of each step, or of a few: of these the last."""
    last = [float(part[-1]) for part in _parts(counts, _joined(run.steps))]
    return _ends(run, scale), (*last, *(last[-1:] or [nan]))


def _unit(seconds: float) -> tuple[str, float]:
    """In what times of a run of so many seconds are shown, and how many seconds that is."""
    if seconds <= MINUTES * 60:
        return "min", 60.0
    return ("h", 3600.0) if seconds <= DAYS * 3600 else ("d", 86400.0)


def _look(name: str) -> Literal["line", "reference"]:
    return "reference" if name in COMPARED else "line"


def point_seconds(run: Run) -> float:
    """How long each point of demand in a chart is the mean of."""
    return run.step * _joined(run.steps)


def _means(run: Run, only: Ref | None, of: Callable[[WorkloadTrack], Sequence[float]], scale: float) -> Points:
    """The mean of a few steps at a time, each held until the next."""
    parts = _parts(_totals(run, only, of), _joined(run.steps))
    means = [_mean(part) for part in parts]
    return _ends(run, scale), (*means, *(means[-1:] or [nan]))


def _unserved(run: Run, only: Ref | None, scale: float) -> Points:
    """What was not served from the start until each time, in core-hours; what is not known adds nothing."""
    parts = _parts(_totals(run, only, lambda track: track.unserved), _joined(run.steps))
    sums = accumulate((sum(value for value in part if not isnan(value)) for part in parts), initial=0.0)
    return _ends(run, scale), tuple(value * run.step / 3600 for value in sums)


def _totals(run: Run, only: Ref | None, of: Callable[[WorkloadTrack], Sequence[float]]) -> list[float]:
    """The sum over the workloads in each step."""
    tracks = [track for ref, track in run.workloads.items() if only in (None, ref)]
    if not tracks:
        return [nan] * run.steps
    return [_total(values) for values in zip(*map(of, tracks), strict=True)]


def _parts(values: Sequence[float], joined: int) -> list[Sequence[float]]:
    return [values[first : first + joined] for first in range(0, len(values), joined)]


def _ends(run: Run, scale: float) -> tuple[float, ...]:
    """The start, and the end of each part."""
    ends = [min(end + _joined(run.steps), run.steps) for end in range(0, run.steps, _joined(run.steps))]
    return tuple(end * run.step / scale for end in (0, *ends))


def _replicas(run: Run, only: Ref | None, scale: float) -> Points:
    """The count, exactly when it changes."""
    refs = [ref for ref in run.workloads if only in (None, ref)]
    end = run.begun + run.steps * run.step
    changes = sorted((each.at, each.after - each.before) for ref in refs for each in run.changes.get(ref, []))
    changes = [(at, more) for at, more in changes if at <= end]
    first = sum(first_count(run, ref) for ref in refs)
    counts = list(accumulate((more for _, more in changes), initial=first))
    times = [0.0, *(max(0.0, at - run.begun) / scale for at, _ in changes), (end - run.begun) / scale]
    return tuple(times), (*map(float, counts), float(counts[-1]))


def _total(values: Sequence[float]) -> float:
    known = [value for value in values if not isnan(value)]
    return sum(known) if known else nan


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not isnan(value)]
    return fmean(known) if known else nan


def _joined(steps: int) -> int:
    return max(1, ceil(steps / POINTS))
