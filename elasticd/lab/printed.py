"""What `elasticd simulate` prints: the figures of what was tried, side by side.

Knows figures and the terminal; knows nothing of how they were made.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from elasticd.base.shapes import moment
from elasticd.base.text import counted, one_line
from elasticd.lab.figures import Figures, Spread, demanded, figures, spreads
from elasticd.lab.runs import Run, Runs
from elasticd.lab.scenario import Scenario, decides_counts, moves_pods, play_all
from elasticd.lab.tune import AS_IT_IS, IMPOSSIBLE, Point, Trial, Tuned, trade_off, violation
from elasticd.model.workload import Ref
from elasticd.ui.terminal import make_table, seconds

Shown = Callable[[float], str]

Columns = Mapping[str, tuple[str, Shown]]


def milliseconds(value: float) -> str:
    """A short time as a person says it: 12 ms, 1.5 s."""
    if value < 0.001:
        return "<1 ms"
    return f"{value * 1000:.0f} ms" if value < 1 else seconds(value)


COLUMNS: Columns = {
    "replica_hours": ("replica-hours", "{:.1f}".format),
    "most": ("most", "{:.0f}".format),
    "unserved": ("unserved", "{:.2%}".format),
    "short": ("short for", seconds),
    "lag": ("longest", seconds),
    "changes": ("changes", "{:.0f}".format),
    "flaps": ("flaps", "{:.0f}".format),
    "evictions": ("evictions", "{:.0f}".format),
}
"""Figures that are printed, by name: their titles, and how a value is written."""

SERVED: Columns = {
    "failed": ("failed", "{:.3%}".format),
    "wait_median": ("wait", milliseconds),
    "wait_p99": ("p99", milliseconds),
}
"""Figures of services."""

REQUESTED: Columns = {"requested": ("core-hours requested", "{:.2f}".format)}
"""Where what pods request changes."""

NODES: Columns = {
    "evictions": COLUMNS["evictions"],
    "without_node": ("without node", seconds),
    "apart": ("apart", "{:.1%}".format),
    "fullest": ("fullest", "{:.0%}".format),
    "occupied": ("nodes", "{:.1f}".format),
}
"""Figures of pools."""

JOBS: Columns = {
    "job_hours": ("Job-hours", "{:.1f}".format),
    "most_jobs": ("most Jobs", "{:.0f}".format),
    "queue": ("queue", "{:.1f}".format),
    "most_queued": ("longest queue", "{:.0f}".format),
}
"""Figures of sets of Jobs."""


def compared(scenario: Scenario, runs: Runs, *, each: bool, price: float = 0.0) -> Iterator[RenderableType]:
    """A row for each candidate; with `each` also one for each of its workloads. `price`: of a replica for an hour."""
    table, first = scenario.table, next(iter(runs.values()))[0]
    demand = demanded(first, first.workloads.values())
    what = f"{counted(len(first.workloads), 'workload')}, demand {demand:.3g} core-hours"
    if not first.workloads:
        what = f"{counted(len(first.jobs), 'set')} of Jobs" if first.jobs else counted(len(first.nodes), "node")
    head = f"{table.hours:.4g} h from {moment(first.begun)}, {what}, {counted(table.seeds, 'seed')}"
    yield Text(head, style="bold")
    shown = columns(scenario, runs, price)
    titles = [title for title, _ in shown.values()]
    rows = ([name, *cells(shown, by_seed, price)] for name, by_seed in runs.items())
    yield make_table("policies", *titles, rows=rows)
    if each:
        rows = (
            [str(ref), name, *cells(shown, by_seed, price, ref)]
            for ref in first.workloads
            for name, by_seed in runs.items()
        )
        yield Text()
        yield make_table("workload", "policies", *titles, rows=rows)
    for name, by_seed in runs.items():
        for failure, times in sorted(by_seed[0].failures.items()):
            yield Text(one_line(f"{name}: {counted(times, 'decision')}: {failure}"), style="yellow")


def columns(scenario: Scenario, runs: Runs, price: float) -> Columns:
    """The figures that are shown: those of what some policy decides, and of what there is."""
    tracks = [track for by_seed in runs.values() for run in by_seed for track in run.workloads.values()]
    counted, pools, jobs = decides_counts(scenario), moves_pods(scenario), bool(scenario.cluster.jobs)
    return {
        **(COLUMNS if counted or not (pools or jobs) else {}),
        **(SERVED if any(track.requests for track in tracks) else {}),
        **(REQUESTED if any(len(track.pod_requests) > 1 for track in tracks) else {}),
        **(NODES if pools else {}),
        **(JOBS if jobs else {}),
        **({"cost": ("cost", "{:.2f}".format)} if price else {}),
    }


def cells(shown: Columns, by_seed: Sequence[Run], price: float, ref: Ref | None = None) -> list[str]:
    """A row of these figures, over all seeds; of one workload, or of all together."""
    of_seeds = [figures(run, ref) for run in by_seed if ref is None or ref in run.workloads]
    if not of_seeds:
        return ["-"] * len(shown)
    spread = spreads(of_seeds)
    hours = spread["replica_hours"]
    spread["cost"] = Spread(hours.mean * price, hours.least * price, hours.most * price)
    return [_cell(spread[name], write) for name, (_, write) in shown.items()]


def _cell(spread: Spread, write: Shown) -> str:
    """The mean, and from where to where the seeds are, if that makes a difference."""
    if isnan(spread.mean):
        return "-"
    least, mean, most = write(spread.least), write(spread.mean), write(spread.most)
    return mean if least == most else f"{mean} ({least} to {most})"


def record(runs: Runs, first_seed: int) -> list[dict[str, object]]:
    """The same for a machine: of each run its figures, and those of each workload."""
    return [
        {
            "policies": name,
            "seed": seed,
            "since": run.begun,
            "figures": figures(run),
            "workloads": {str(ref): figures(run, ref) for ref in run.workloads},
            "failures": run.failures,
        }
        for name, by_seed in runs.items()
        for seed, run in enumerate(by_seed, first_seed)
    ]


def searching(
    most: int, play: Callable[[Sequence[Point]], list[Trial]], run: Callable[..., list[Trial]]
) -> list[Trial]:
    """Search, with a bar of the points that were played, of `most`."""
    with progress_bar() as progress:
        bar = progress.add_task("points", total=most)

        def heard(points: Sequence[Point]) -> list[Trial]:
            trials = play(points)
            progress.update(bar, advance=len(trials))
            return trials

        return run(heard)


def tuned(found: Tuned) -> Iterator[RenderableType]:
    """The options that were found, what else was possible, and how they did on what they were not searched on."""
    options = [wanted.path for wanted in found.ranges]
    kept = violation(found.best.figures, found.limits, found.days) == 0
    days = f"{found.days:.3g}"
    yield Text(f"{counted(len(found.trials), 'point')} over {days} day{'' if days == '1' else 's'}", style="bold")
    shown = [trial for trial in trade_off(found.trials) if trial.figures != IMPOSSIBLE]
    shown += [] if found.best in shown else [found.best]
    rows = [
        [
            ">" if trial == found.best else "",
            *map("{:g}".format, trial.point),
            *_tuned_cells(trial.figures, found.days),
        ]
        for trial in shown
    ]
    rows.append(["", AS_IT_IS, *[""] * (len(options) - 1), *_tuned_cells(found.before, found.days)])
    titles = ("replica-hours", "unserved", "changes a day")
    yield make_table("", *options, *titles, rows=rows)
    if not kept:
        yield Text("no point keeps the limits: > is the one that is nearest to them", style="yellow")
    yield Text()
    yield Text("afterwards, which was not searched on", style="bold")
    judged = ([name, *_tuned_cells(came, None)] for name, came in found.judged.items())
    yield make_table("policy", "replica-hours", "unserved", "changes", rows=judged)
    yield Text()
    yield Text("set in the policy", style="bold")
    for path, value in zip(options, found.best.point, strict=True):
        yield Text(one_line(f"  {path} = {value:g}"))


def tuned_record(found: Tuned) -> dict[str, object]:
    """The same for a machine, with every point that was played."""
    options = [wanted.path for wanted in found.ranges]

    def named(trial: Trial) -> dict[str, object]:
        return {"options": dict(zip(options, trial.point, strict=True)), "figures": trial.figures}

    return {
        "days": found.days,
        "limits": {"unserved": found.limits.unserved, "changes": found.limits.changes},
        "best": named(found.best),
        "as_it_is": found.before,
        "held_out": found.judged,
        "trials": [named(trial) for trial in found.trials],
    }


def _tuned_cells(came: Figures, days: float | None) -> list[str]:
    changes = f"{came.changes}" if days is None else f"{came.changes / days:.1f}"
    return [f"{came.replica_hours:.1f}", f"{came.unserved:.3%}", changes]


def with_bar(scenario: Scenario, jobs: int | None, dask: str = "", study: Path | None = None) -> dict[str, list[Run]]:
    """Play each candidate with each seed, with a bar."""
    with progress_bar() as progress:
        bar = progress.add_task("", total=len(scenario.candidates) * scenario.table.seeds * scenario.table.hours * 3600)

        def passed(name: str, seconds: float) -> None:
            progress.update(bar, description=one_line(name), advance=seconds)

        return play_all(scenario, passed, jobs, dask, study)


def progress_bar() -> Progress:
    """A bar on a terminal, which is gone when the work is done."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
