"""A week played with forecasts and without: what is not served, what it costs, and how calm the counts are.

Knows the week and the policies; knows nothing of how a forecast is made.
"""

import asyncio
import csv
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import nan
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.demand import Demand
from elasticd.cluster.simulated.options import MetricsOptions, NodeTable, WorkloadTable
from elasticd.config import ScenarioSettings
from elasticd.lab.figures import figures
from elasticd.lab.ideal import ideal
from elasticd.lab.papers import Axis, Chart, Claim, Line, judged
from elasticd.lab.papers.forecast.loads import ANOMALIES, BEGUN, DAY, HOLIDAY, STEP, Load, make_load
from elasticd.lab.papers.seconds import strategy_of
from elasticd.lab.runs import Run, WorkloadTrack
from elasticd.lab.simulate import run as play
from elasticd.lab.simulate import serving
from elasticd.model.policy import Bounds, Policy, Target
from elasticd.model.workload import Ref
from elasticd.ports.source import Source
from elasticd.registry import Registry
from elasticd.sources.forecast import ForecastSource
from elasticd.sources.recording import RecordingSource
from elasticd.sources.resource_metrics import ResourceMetrics

START = 300.0
"""Seconds until a new pod serves: a large image, or a cache that fills."""

LEAD = 600.0
"""Seconds that the forecast is asked ahead."""

INTERVAL = 60.0
LEAST, MOST = 2, 40


def _hpa(target: float) -> dict[str, Any]:
    metrics = [{"type": "Resource", "resource": "cpu", "utilization": target}]
    return {"type": "hpa", "period": INTERVAL, "metrics": metrics}


FORECAST = {"type": "forecast", "series": "load_forecast", "target": 0.8, "lead": LEAD}
REACTIVE, RICH, BOTH = "hpa, target 80 %", "hpa, target 60 %", "forecast and hpa, target 80 %"
WAYS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    REACTIVE: [_hpa(80)],
    RICH: [_hpa(60)],
    BOTH: [FORECAST, _hpa(80)],
}
IDEAL = "whoever knows the future"

DAYS = 7
PARTS: Mapping[str, tuple[int, ...]] = {
    "the week": tuple(range(DAYS)),
    "ordinary days": tuple(day for day in range(DAYS) if day not in (HOLIDAY, HOLIDAY + 1, ANOMALIES)),
    "the holiday": (HOLIDAY,),
    "the day with a crowd and an outage": (ANOMALIES,),
}


class Week(NamedTuple):
    """What a way came to: by day replica-hours, and core-hours demanded and not served; all changes and flaps; and by
    half hour the mean count and the core-hours that were not served."""

    hours: tuple[float, ...]
    demand: tuple[float, ...]
    unserved: tuple[float, ...]
    changes: int
    flaps: int
    counts: tuple[float, ...]
    lost: tuple[float, ...]

    def share(self, days: Sequence[int]) -> float:
        """The part of the demand of these days that was not served, in percent."""
        return 100 * sum(self.unserved[day] for day in days) / sum(self.demand[day] for day in days)

    def cost(self, days: Sequence[int]) -> float:
        """The replica-hours of these days."""
        return sum(self.hours[day] for day in days)


Key = tuple[str, int]
"""A way and a seed."""


def cluster(load: Load, seed: int) -> Simulated:
    """One workload of pods of one core on nodes that are large enough."""
    rows = tuple((place * STEP, float(cores)) for place, cores in enumerate(load.week))
    web = WorkloadTable(
        name="web",
        replicas=3,
        cpu="1",
        cpu_limit="1",
        start_seconds=START,
        stop_seconds=5.0,
        demand=Demand(table=rows, interpolate="linear"),
    )
    nodes = (NodeTable(name="node", count=5, cpu="8", memory="32Gi"),)
    return Simulated(nodes=nodes, workloads=(web,), metrics=MetricsOptions(resolution=30.0, noise=0.05), seed=seed)


def write_past(file: Path, load: Load) -> None:
    """The load of the past and of the week as a recording: a forecast sees of it only what has been."""
    first = BEGUN.timestamp() - len(load.past) * STEP
    with file.open("w", encoding="utf-8", newline="") as text:
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(("time", "series", "subject", "key", "value"))
        for place, cores in enumerate(np.r_[load.past, load.week].tolist()):
            rows.writerow((f"{first + place * STEP:.0f}", "load", "workload", "default/Deployment/web", f"{cores:g}"))


def sources(file: Path) -> list[Source]:
    """The forecast, learnt from a recording of three weeks and of what came since."""
    past = RecordingSource(file=str(file), start="recorded")
    forecast = ForecastSource(
        of="recording", series="load", days=21.0, step=STEP, horizon=3600.0, refit=7200.0, valid=10800.0
    )
    return [past, forecast]


def run(registry: Registry, key: Key) -> Week:
    """Play the week of this seed in this way, or, for IDEAL, find what would have been enough."""
    way, seed = key
    load = make_load(seed)
    world = cluster(load, seed)
    if way == IDEAL:
        return _summed_up(ideal(asked(load), serving(world)))
    scenario = ScenarioSettings(hours=DAYS * 24.0, step=INTERVAL, start=BEGUN)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "load.csv"
        write_past(file, load)
        more = sources(file) if FORECAST in WAYS[way] else []
        played = asyncio.run(play(world, [policy(registry, way)], scenario, sources=[ResourceMetrics(), *more]))
    return _summed_up(played)


def asked(load: Load) -> Run:
    """The week's demand in steps, as it is played, and nothing else."""
    steps = np.arange(0.5, DAYS * 86400 / INTERVAL)
    demand = np.interp(steps * INTERVAL / STEP, np.arange(len(load.week)), load.week).tolist()
    track = WorkloadTrack(demand=demand, peak=demand)
    return Run(BEGUN.timestamp(), INTERVAL, {Ref("default", "Deployment", "web"): track})


def policy(registry: Registry, way: str) -> Policy:
    """The policy of a way."""
    return Policy(
        name="paper",
        workload=Target(namespace="default", name="web"),
        replicas=Bounds(min=LEAST, max=MOST),
        strategies=tuple(strategy_of(registry, table) for table in WAYS[way]),
        interval=INTERVAL,
        mode="act",
    )


def _summed_up(played: Run) -> Week:
    (track,) = played.workloads.values()
    counts, demand, unserved = (
        np.array(values, dtype=np.float64) for values in (track.replicas, track.demand, track.unserved)
    )
    unserved[: round(2 * START / played.step)] = 0.0  # the first pods start then
    hours, total = played.step / 3600, figures(played)

    def by(places: int, values: Any) -> tuple[float, ...]:
        return tuple(values.reshape(places, -1).sum(axis=1).tolist())

    return Week(
        by(DAYS, counts * hours),
        by(DAYS, demand * hours),
        by(DAYS, unserved * hours),
        total.changes,
        total.flaps,
        by(DAYS * DAY, counts / (STEP / played.step)),
        by(DAYS * DAY, unserved * hours),
    )


def claims(found: Mapping[Key, Week], seeds: Sequence[int]) -> Iterator[Claim]:
    """For each part of the week what was not served and what it cost, and what follows for the claims."""
    for part, days in PARTS.items():
        yield from _part(part, days, found, seeds)
    part = "the week: how calm the counts are"
    for way in WAYS:
        for figure, what in (("changes", "changes"), ("flaps", "changes that are taken back within 10 minutes")):
            values = tuple(float(getattr(found[way, seed], figure)) for seed in seeds)
            yield Claim(part, f"{what}: {way}", "", values, "no claim", "", ".0f")


def _part(part: str, days: Sequence[int], found: Mapping[Key, Week], seeds: Sequence[int]) -> Iterator[Claim]:
    share = {way: tuple(found[way, seed].share(days) for seed in seeds) for way in WAYS}
    cost = {way: tuple(found[way, seed].cost(days) for seed in seeds) for way in (*WAYS, IDEAL)}
    for way, values in share.items():
        yield Claim(part, f"demand not served: {way}", "", values, "no claim", "%", ".3f")
    for way, values in cost.items():
        yield Claim(part, f"replica-hours: {way}", "", values, "no claim", "", ",.0f")
    yield _less(part, share, f"replica-hours {fmean(cost[BOTH]) / fmean(cost[REACTIVE]) - 1:+.0%}".replace("%", " %"))
    saved = tuple(100 * (1 - own / other) for own, other in zip(cost[BOTH], cost[RICH], strict=True))
    note = f"unserved {fmean(share[BOTH]):.3f} and {fmean(share[RICH]):.3f} %; AHPA's figure is of its own services"
    verdict = judged(value >= 20 for value in saved)
    yield Claim(part, f"replica-hours saved beside {RICH}", "20 %", saved, verdict, "%", "z.0f", note)


def _less(part: str, share: Mapping[str, Sequence[float]], note: str) -> Claim:
    """By how much less is unserved with a forecast than without."""
    what, pairs = "less is unserved than with the hpa alone by", list(zip(share[BOTH], share[REACTIVE], strict=True))
    if not all(other for _, other in pairs):
        note = f"the hpa alone leaves nothing unserved; {note}"
        return Claim(part, what, "less", (nan,), "cannot be compared", "%", "z.0f", note)
    less = tuple(100 * (1 - own / other) for own, other in pairs)
    return Claim(part, what, "less", less, judged(value > 0 for value in less), "%", "z.0f", note)


def charts(found: Mapping[Key, Week], seed: int) -> Iterator[Chart]:
    """The week of this seed: demand, counts, and what was not served."""
    load, picture, axis = make_load(seed), "forecast-week", Axis("day of the week, from Monday", "d")
    places = tuple((place + 0.5) / DAY for place in range(DAYS * DAY))
    edges = tuple(place / DAY for place in range(DAYS * DAY))
    demand = Line("demand", edges, tuple(load.week.tolist()), look="area")
    title = "Demand: Wednesday is a holiday, Thursday has a crowd and an outage"
    line = partial(Chart, kind="lines", x=axis, picture=picture)
    yield line("forecast-demand", title, y=Axis("demand", "cores"), lines=(demand,))
    counts = [Line(way, places, found[way, seed].counts) for way in WAYS]
    counts.append(Line(IDEAL, places, found[IDEAL, seed].counts, look="reference"))
    yield line("forecast-replicas", "Replicas, means of half hours", y=Axis("replicas"), lines=tuple(counts))
    lost = [Line(way, places, tuple(np.cumsum(found[way, seed].lost).tolist())) for way in WAYS]
    yield line("forecast-unserved", "Demand not served so far", y=Axis("unserved", "core-hours"), lines=tuple(lost))


def bars(found: Mapping[Key, Week], seeds: Sequence[int]) -> Iterator[Chart]:
    """What is not served in each part of the week, and what the week costs, over all seeds."""
    picture, parts = "forecast-parts", Axis("part of the week")
    for name, title, unit, figure, ways in (
        ("unserved", "Demand not served", "%", Week.share, tuple(WAYS)),
        ("cost", "Replica-hours a day", "", lambda week, days: week.cost(days) / len(days), (*WAYS, IDEAL)),
    ):
        lines = []
        for way in ways:
            each = [[figure(found[way, seed], days) for seed in seeds] for days in PARTS.values()]
            ranges = tuple(map(fmean, each)), tuple(map(min, each)), tuple(map(max, each))
            lines.append(Line(way, tuple(PARTS), *ranges, look="reference" if way == IDEAL else "line"))
        y = Axis("demand not served" if unit else "replica-hours a day", unit)
        yield Chart(f"forecast-{name}-parts", title, "bars", parts, y, tuple(lines), picture=picture)
