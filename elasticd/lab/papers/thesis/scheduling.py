"""Scheduling time, Figure 6-9 of the thesis: what it takes to place 100 to 1,600 pods on 70 nodes.

Time differs from run to run, so it is measured only where it is asked for; what is counted without it is how many
nodes are compared for all pods together. Knows nothing of how they are.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from elasticd.lab.papers import Axis, Chart, Claim, Line, judged
from elasticd.lab.papers.thesis.levelling import DEFAULT, PAPER, WAYS
from elasticd.lab.papers.thesis.pool import GIB, MIB, make_node, make_pod, placed, strategies_of, table_of
from elasticd.registry import Registry

NODES = 70
COUNTS = tuple(range(100, 1601, 100))
TRIED = (DEFAULT, PAPER)


class Placed(NamedTuple):
    """What it took to place a number of pods: how many nodes were compared for them, the pods that found one, and
    seconds of CPU time."""

    compared: int
    bound: int
    seconds: float


Key = tuple[str, int, int]
"""A way, how many pods, and the seed."""


def keys(seeds: Sequence[int]) -> Iterator[Key]:
    """All that is placed."""
    yield from product(TRIED, COUNTS, seeds)


def run(registry: Registry, key: Key) -> Placed:
    """Plan all pods at once, on nodes whose use follows from the seed."""
    way, count, seed = key
    chance = np.random.default_rng(seed)
    nodes = [make_node(f"hollow-{index:02}", 4.0, 8 * GIB, pods=110) for index in range(NODES)]
    parts = chance.uniform(0.1, 0.5, (2, NODES))
    use = {
        series: {node.name: float(part * node.allocatable[series]) for node, part in zip(nodes, row, strict=True)}
        for series, row in zip(("cpu", "memory"), parts, strict=True)
    }
    table = table_of(nodes, use=use)
    pods = [make_pod(f"p{index:04}", 0.05, 64 * MIB) for index in range(count)]
    strategies = strategies_of(registry, [table for table in WAYS[way] if table["type"] != "rebalance"])
    begun = time.process_time()
    decisions = placed(strategies, table, pods)
    seconds = time.process_time() - begun
    compared = sum(decision.nodes - sum(decision.refusals.values()) for decision in decisions)
    return Placed(compared, sum(decision.verdict == "bind" for decision in decisions), seconds)


def claims(found: Mapping[Key, Placed], seeds: Sequence[int], *, times: bool) -> Iterator[Claim]:
    """Nodes compared, which repeat exactly; with `times` also seconds, which do not."""
    part = f"scheduling, Figure 6-9: {NODES} nodes, how many of them are compared for all pods"
    for way, count in product(TRIED, (COUNTS[0], COUNTS[-1])):
        compared = tuple(float(found[way, count, seed].compared) for seed in seeds)
        waiting = count - fmean(found[way, count, seed].bound for seed in seeds)
        note = f"{fmean(compared) / count:.0f} for each pod; {waiting:.0f} pods wait"
        yield Claim(part, f"{count:,} pods, {way}", "", compared, "no claim", "", ",.0f", note)
    if not times:
        note = "time differs from run to run: elasticd reproduce thesis --times measures it"
        for what, paper in SAID.items():
            yield Claim(part, what, paper, (float("nan"),), "cannot be compared", note=note)
        return
    yield from _timed(found, seeds)


FEW, MANY, JUMPS = (
    "time for 100 pods, the thesis beside the default",
    "time for 1,600 pods",
    "greatest step over median step",
)
SAID = {FEW: "equal", MANY: "slightly higher", JUMPS: "no jumps"}


def _timed(found: Mapping[Key, Placed], seeds: Sequence[int]) -> Iterator[Claim]:
    part = f"scheduling, Figure 6-9: {NODES} nodes, seconds of CPU time on this machine, which differ from run to run"
    for way, count in product(TRIED, COUNTS):
        seconds = tuple(found[way, count, seed].seconds for seed in seeds)
        yield Claim(part, f"{count:,} pods, {way}", "", seconds, "no claim", "s", ".3f")
    few, many = (_ratios(found, count, seeds) for count in (COUNTS[0], COUNTS[-1]))
    note = "confirmed means: within a fifth"
    yield Claim(part, FEW, SAID[FEW], few, judged([0.8 <= median(few) <= 1.25]), "times", ".2f", note)
    note = "confirmed means: up to a third more"
    yield Claim(part, MANY, SAID[MANY], many, judged([1 < median(many) <= 1.33]), "times", ".2f", note)
    least = [min(found[PAPER, count, seed].seconds for seed in seeds) for count in COUNTS]
    steps = [later - earlier for earlier, later in pairwise(least)]
    jump = max(steps) / median(steps)
    note = "of the least time for each number of pods; confirmed means: up to 3"
    yield Claim(part, JUMPS, SAID[JUMPS], (jump,), judged([jump <= 3]), "times", ".1f", note)


def _ratios(found: Mapping[Key, Placed], count: int, seeds: Sequence[int]) -> tuple[float, ...]:
    return tuple(found[PAPER, count, seed].seconds / found[DEFAULT, count, seed].seconds for seed in seeds)


def chart(found: Mapping[Key, Placed], seeds: Sequence[int], *, times: bool) -> Chart:
    """Figure 6-9: time by number of pods, or without times the nodes that were compared."""
    lines = []
    for way in TRIED:
        each = [[_figure(found[way, count, seed], times=times) for seed in seeds] for count in COUNTS]
        middle = tuple(map(median, each)) if times else tuple(map(fmean, each))
        lines.append(Line(way, tuple(map(float, COUNTS)), middle, tuple(map(min, each)), tuple(map(max, each))))
    y = Axis("CPU time", "s") if times else Axis("nodes compared", "thousands")
    title = f"Placing pods on {NODES} nodes, as Figure 6-9"
    name = "thesis-scheduling-time" if times else "thesis-scheduling"
    return Chart(name, title, "lines", Axis("pods"), y, tuple(lines), picture=name)


def _figure(placed: Placed, *, times: bool) -> float:
    return placed.seconds if times else placed.compared / 1000
