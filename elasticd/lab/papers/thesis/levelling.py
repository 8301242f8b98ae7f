"""Levelling nodes, Table 6-12 and Figures 6-6 to 6-8 of the thesis: how far nodes' loads are apart, record by record.

Knows the nodes, pods and records of the thesis; knows nothing of how nodes are levelled.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.demand import Demand
from elasticd.cluster.simulated.options import MetricsOptions, NodeTable, WorkloadTable
from elasticd.config import ScenarioSettings
from elasticd.kit.load_score import average_score, idleness, load_score, std_score
from elasticd.lab.papers import Axis, Chart, Claim, Line, judged
from elasticd.lab.papers.thesis.pool import GIB, MIB, strategies_of
from elasticd.lab.simulate import run as play
from elasticd.model.pod_spec import Restart
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect
from elasticd.registry import Registry
from elasticd.sources.resource_metrics import ResourceMetrics

SIZES = {"node1": (1, 2), "node2": (2, 4), "node3": (4, 8)}
"""Cores and GiB."""

BATCHES, EACH = 4, 5
"""Batches of pods, and pods of each restartPolicy in one."""

APART = 300
"""Seconds from one batch to the next."""

CLASSES: tuple[Restart, ...] = ("Always", "OnFailure", "Never")
REQUEST, USED = 0.05, 96
"""Cores that a pod requests, and MiB that it uses, assumed. It requests 128Mi."""

IDLE, MEAN = 0.002, 0.06
"""Cores that a pod uses without load, and on average under load, assumed; under load by an exponential distribution."""

LOADED = (15, 290)
"""Seconds after a batch between which webbench loads the pods, assumed."""

STEP = 10
AFTER = (10, 280)
"""Seconds from a batch to its two records: just after it, and 4 min 30 s later."""

MOVES: Mapping[str, Any] = {"rerun": True, "min_age": 0.0, "every": 30.0, "per_look": 250, "worth": 0.0}
FILTERS = {"type": "filters"}
DEFAULT, PAPER, LEVEL = "default scheduler", "the thesis", "static with rebalance"
WAYS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    DEFAULT: (FILTERS, {"type": "least-requested"}, {"type": "balanced-allocation"}),
    PAPER: (FILTERS, {"type": "static", "mode": "paper"}, {"type": "rebalance", "mode": "paper"}),
    "the thesis, down to the mean": (
        FILTERS,
        {"type": "static", "mode": "paper"},
        {"type": "rebalance", "mode": "paper", "amount": "mean"},
    ),
    "static alone": (FILTERS, {"type": "static"}),
    LEVEL: (FILTERS, {"type": "static"}, {"type": "rebalance"}),
}
"""The strategies of each way. Modes are "product" unless they say otherwise."""


class Levelled(NamedTuple):
    """The score of each node at each record, NaN if nothing runs yet, and how many pods were moved."""

    scores: tuple[tuple[float, ...], ...]
    moves: int

    @property
    def deviations(self) -> list[float]:
        """stdScore of each record, equation (6-2)."""
        return [std_score(np.array(scores)) for scores in self.scores]


Key = tuple[str, int]
"""A way and a seed."""


def cluster(seed: int) -> Simulated:
    """The nodes, and sixty pods, of which each uses as much as chance will have it between two batches."""
    chance = np.random.default_rng(seed)
    nodes = [NodeTable(name=name, cpu=float(cores), memory=gib * GIB, pods=110) for name, (cores, gib) in SIZES.items()]
    pods: list[WorkloadTable] = []
    for batch in range(BATCHES):
        for kind in CLASSES * EACH:
            loads = chance.exponential(MEAN, BATCHES - batch).round(4).tolist()
            pods.append(_pod(f"p{len(pods):02}", kind, batch, loads))
    return Simulated(nodes=tuple(nodes), workloads=tuple(pods), metrics=MetricsOptions(resolution=30.0), seed=seed)


def _pod(name: str, kind: Restart, batch: int, loads: Sequence[float]) -> WorkloadTable:
    rows = [(0.0, IDLE)]
    for number, load in enumerate(loads, batch):
        rows += [(float(number * APART + LOADED[0]), load), (float(number * APART + LOADED[1]), IDLE)]
    return WorkloadTable(
        name=name,
        bare=True,
        at=float(batch * APART),
        restart_policy=kind,
        scheduler="elasticd",
        cpu=REQUEST,
        memory=128 * MIB,
        memory_per_pod=USED * MIB,
        demand=Demand(table=tuple(rows)),
    )


def policy(registry: Registry, way: str) -> PoolPolicy:
    """The policy of a way: the pod that waits longest first, and moves without a limit."""
    strategies = strategies_of(registry, WAYS[way])
    moving = any(table["type"] == "rebalance" for table in WAYS[way])
    moves = MovesTable(**MOVES) if moving else MovesTable()
    return PoolPolicy(name="paper", pool=PoolSelect(order="fifo"), strategies=strategies, mode="act", moves=moves)


def run(registry: Registry, key: Key) -> Levelled:
    """Play twenty minutes, and look at the eight records."""
    way, seed = key
    hours = BATCHES * APART / 3600
    scenario = ScenarioSettings(hours=hours, step=float(STEP), start=datetime(2017, 3, 1, tzinfo=UTC))
    sources = [ResourceMetrics(nodes=True)]
    played = asyncio.run(play(cluster(seed), [policy(registry, way)], scenario, sources=sources))
    records = [batch * APART + after for batch in range(BATCHES) for after in AFTER]
    return Levelled(
        tuple(
            _scores(
                {name: (track.used[at // STEP - 1], track.pods[at // STEP - 1]) for name, track in played.nodes.items()}
            )
            for at in records
        ),
        len(played.evicted),
    )


def _scores(used: Mapping[str, tuple[float, int]]) -> tuple[float, ...]:
    """Each node's score by the cores that are used on it and its pods, with the weights of the thesis."""
    sizes = np.array([SIZES[name] for name in used], dtype=np.float64)
    parts = np.array([(cores, pods * USED * MIB / GIB) for cores, pods in used.values()]) / sizes
    loads = [(0.5, idleness(parts[:, place], sizes[:, place])) for place in (0, 1)]
    return tuple(load_score(loads).tolist())


TABLE_6_12 = {"node1": (0.94, 1.01, -0.26), "node2": (1.12, 1.07, 0.90), "node3": (1.06, 0.84, -0.58)}
"""cpuScore, memScore and score of each node, as printed."""


def table_6_12() -> Iterator[Claim]:
    """The scores and their spread from the printed ratios; and whether these are of nodes of 1, 2 and 4 cores."""
    part = "levelling, Table 6-12, computed from its cpuScore and memScore"
    ratios = np.array([row[:2] for row in TABLE_6_12.values()])
    scores = load_score([(0.5, ratios[:, 0]), (0.5, ratios[:, 1])])
    for name, score in zip(TABLE_6_12, scores.tolist(), strict=True):
        printed = TABLE_6_12[name][2]
        yield Claim(
            part, f"score of {name}", f"{printed:.2f}", (score,), judged([abs(score - printed) < 0.006]), "", ".2f"
        )
    yield Claim(part, "averageScore, eq. (6-1)", "", (average_score(scores),), "no claim", "", ".4f")
    yield Claim(part, "stdScore, eq. (6-2)", "", (std_score(scores),), "no claim", "", ".4f")
    for text, weights in (("1:2:4, as the nodes have", (1, 2, 4)), ("4:2:1", (4, 2, 1))):
        sums = [float(np.dot(weights, 1 / ratios[:, place]) / sum(weights)) for place in (0, 1)]
        for resource, value in zip(("cpu", "memory"), sums, strict=True):
            note = "eq. (5-8) makes it 1; two decimals explain 0.005"
            what = f"sum of w / score over sum of w, {resource}, coefficients {text}"
            yield Claim(part, what, "1", (value,), judged([abs(value - 1) <= 0.005]), "", ".3f", note)


ODD, EVEN = (3, 5, 7), (4, 6, 8)
"""Records of which the thesis speaks, counted from 1."""

CLEARLY = 2 / 3
"""A deviation of at most this part of another is clearly smaller."""


def claims(found: Mapping[Key, Levelled], seeds: Sequence[int]) -> Iterator[Claim]:
    """stdScore by record, and what the thesis says of it."""
    yield from table_6_12()
    for way in WAYS:
        yield from _compared(way, found, seeds)
    for way in (DEFAULT, PAPER, LEVEL):
        part = f"levelling, Figure 6-8: stdScore by record, {way}"
        for record in range(2 * BATCHES):
            values = tuple(found[way, seed].deviations[record] for seed in seeds)
            yield Claim(part, f"record {record + 1}", "", values, "no claim", "", ".2f")


def _compared(way: str, found: Mapping[Key, Levelled], seeds: Sequence[int]) -> Iterator[Claim]:
    """The mean stdScore at odd and at even records, the latter beside the default scheduler's."""
    part = f"levelling, Figures 6-6 to 6-8: {way}"
    odd, even = (_means(found, way, seeds, records) for records in (ODD, EVEN))
    if way == DEFAULT:
        apart = judged(late > early for early, late in zip(odd, even, strict=True))
        yield Claim(part, "mean stdScore at records 3, 5, 7", "close", odd, "no claim", "", ".2f")
        note = "confirmed means: more than at 3, 5, 7"
        yield Claim(part, "mean stdScore at records 4, 6, 8", "apart", even, apart, "", ".2f", note)
        return
    theirs, claimed = [_means(found, DEFAULT, seeds, records) for records in (ODD, EVEN)], way.startswith(PAPER)
    alike = judged(abs(own - other) <= 0.5 for own, other in zip(odd, theirs[0], strict=True))
    less = tuple(100 * (1 - own / other) for own, other in zip(even, theirs[1], strict=True))
    smaller = judged(value >= 100 * (1 - CLEARLY) for value in less)

    begun, later = _means(found, way, seeds, (1, 2)), _means(found, way, seeds, range(3, 2 * BATCHES + 1))
    nearer = judged(late < early for early, late in zip(begun, later, strict=True))
    note = f"the default scheduler's is {fmean(theirs[0]):.2f}"
    more = f"{note}; confirmed means: within 0.5 of it"
    what, paper = "mean stdScore at records 3, 5, 7", "as the default scheduler's"
    yield Claim(part, what, paper, odd, alike, "", ".2f", more) if claimed else _beside(part, what, odd, "", note)
    what, more = "less than the default scheduler's at 4, 6, 8 by", "confirmed means: by a third at least"
    yield Claim(part, what, "clearly", less, smaller, "%", "z.0f", more) if claimed else _beside(part, what, less, "%")
    what, paper = "mean stdScore at records 3 to 8", "nearer to 0 than at 1 and 2"
    yield Claim(part, what, paper, later, nearer, "", ".2f") if claimed else _beside(part, what, later)
    moves = tuple(float(found[way, seed].moves) for seed in seeds)
    yield Claim(part, "pods moved", "", moves, "no claim", "", ".0f")


def _beside(part: str, what: str, values: tuple[float, ...], unit: str = "", note: str = "") -> Claim:
    """What the thesis says nothing of."""
    return Claim(part, what, "", values, "no claim", unit, "z.0f" if unit else ".2f", note)


def _means(found: Mapping[Key, Levelled], way: str, seeds: Sequence[int], records: Sequence[int]) -> tuple[float, ...]:
    """The mean stdScore of these records, by seed."""
    return tuple(fmean(found[way, seed].deviations[record - 1] for record in records) for seed in seeds)


def charts(found: Mapping[Key, Levelled], seeds: Sequence[int]) -> Iterator[Chart]:
    """Figures 6-6 and 6-7, the nodes' scores with the first seed, and Figure 6-8 over all seeds."""
    numbers = tuple(float(record) for record in range(1, 2 * BATCHES + 1))
    axis = Axis("record")
    for figure, way in (("6-6", DEFAULT), ("6-7", PAPER)):
        columns = zip(*found[way, seeds[0]].scores, strict=True)
        lines = tuple(Line(name, numbers, scores) for name, scores in zip(SIZES, columns, strict=True))
        title = f"Scores of nodes, {way}, as Figure {figure}: 0 is the mean load"
        yield Chart(f"thesis-scores-{figure}", title, "lines", axis, Axis("score"), lines, picture="thesis-scores")
    bars = []
    for way in WAYS:
        each = [[found[way, seed].deviations[record] for seed in seeds] for record in range(2 * BATCHES)]
        names = tuple(
            f"{record} ({'just after' if record % 2 else '4.5 min after'})" for record in range(1, 2 * BATCHES + 1)
        )
        bars.append(Line(way, names, tuple(map(fmean, each)), tuple(map(min, each)), tuple(map(max, each))))
    title = "Deviation of the nodes' scores (stdScore), as Figure 6-8"
    yield Chart("thesis-deviation", title, "bars", axis, Axis("stdScore"), tuple(bars), picture="thesis-deviation")
