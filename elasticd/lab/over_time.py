"""What runs did over time, as charts: the demand, the replicas of each policy, and the demand that was not served.

Pure: runs in, charts out. Knows nothing of how they are drawn.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import ceil, isnan, nan
from statistics import fmean
from typing import Literal

from elasticd.lab.charts import Axis, Chart, Line
from elasticd.lab.figures import first_count
from elasticd.lab.ideal import COMPARED
from elasticd.lab.runs import Run, Runs, WorkloadTrack
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
