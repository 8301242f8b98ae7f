"""How evenly the bald eagle paper's pods lie on its 31 nodes: imbalance, and the bands of bandwidth and disk.

Knows the paper's section 5.2; knows nothing of how pods are placed.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from elasticd.lab.papers import Axis, Chart, Claim, Line, Verdict, judged
from elasticd.lab.papers.bald_eagle.placing import BRA, GREEDY, LRA, PLAIN, SEARCHES, TBESK, TOPSIS, WAYS, place
from elasticd.lab.papers.bald_eagle.pool import FOUR, Floats, paper_pool, used_parts
from elasticd.lab.papers.imbalance import imbalance
from elasticd.registry import Registry

COUNTS = (600, 1200, 1800)
NODES = 31
RESOURCES = dict(zip(("cpu", "memory", "bandwidth", "disk"), range(len(FOUR)), strict=True))


class Placed(NamedTuple):
    """What one way came to: the used parts, (nodes, resources), 1 is all; how many pods have no node; and, of a search,
    the mean S_N of those that have one."""

    used: Floats
    waiting: int
    score: float

    def range(self, resource: str) -> tuple[float, float]:
        """The least and the most used node, in percent."""
        column = 100 * self.used[:, RESOURCES[resource]]
        return float(column.min()), float(column.max())

    @property
    def imbalance(self) -> float:
        """Z_avg in percent."""
        return 100 * imbalance(self.used)


Key = tuple[int, str, int]
"""How many pods, by which way, and the seed."""


def run(registry: Registry, key: Key) -> Placed:
    """Place so many pods, which follow from the seed."""
    count, way, seed = key
    pool = paper_pool(count, NODES, seed + 1)
    places, score = place(registry, way, pool)
    return Placed(used_parts(places, *pool), count - len(places), score)


def requested(count: int, seeds: Sequence[int]) -> dict[str, float]:
    """How much of all nodes so many pods request, in percent by resource: the mean over the seeds."""
    each = []
    for seed in seeds:
        nodes, pods = paper_pool(count, NODES, seed + 1)
        asked = [sum(pod.counted[resource] for pod in pods) for resource in FOUR]
        each.append(np.divide(asked, [sum(node.allocatable[resource] for node in nodes) for resource in FOUR]))
    return dict(zip(RESOURCES, (100 * np.mean(each, axis=0)).tolist(), strict=True))


def claims(found: Mapping[Key, Placed], counts: Sequence[int], seeds: Sequence[int]) -> Iterator[Claim]:
    """Imbalance for each count of pods, and the bands for the most."""
    for count in counts:
        yield from _imbalance(found, count, seeds)
    yield from _bands({way: [found[counts[-1], way, seed] for seed in seeds] for way in WAYS}, counts[-1])


LESS = {LRA: 24, BRA: 21}
"""By how many percent the paper's imbalance is below that of the two scores."""


def _imbalance(found: Mapping[Key, Placed], count: int, seeds: Sequence[int]) -> Iterator[Claim]:
    part = f"{count:,} pods on {NODES} nodes: imbalance Z"
    each = {way: tuple(found[count, way, seed].imbalance for seed in seeds) for way in WAYS}
    for way, values in each.items():
        besides = (f"{fmean(values) / fmean(each[other]) - 1:+.0%} beside {other}" for other in LESS)
        yield Claim(part, way, "", values, "no claim", "%", ".1f", ", ".join(besides).replace("%", " %"))
    for way in (TBESK, GREEDY):
        for other, claimed in LESS.items():
            less = tuple(100 * (1 - own / theirs) for own, theirs in zip(each[way], each[other], strict=True))
            verdict = judged(value >= claimed for value in less)
            yield Claim(part, f"{way}: less than {other} by", f"{claimed} %", less, verdict, "%", ".0f")


BANDS = {"bandwidth": (55, 95), "disk": (43, 98)}
"""The least and the most used node by the paper's search, in percent."""
SPREADS = {"bandwidth": {LRA: 54, BRA: 60}, "disk": {LRA: 65, BRA: 80}}
"""The difference between both by the two scores."""
SHOWN = (LRA, BRA, TOPSIS, PLAIN, TBESK, GREEDY)
UNSEEN = "it depends on pods and nodes that the paper does not show"


def _bands(placed: Mapping[str, Sequence[Placed]], count: int) -> Iterator[Claim]:
    for resource, (least, most) in BANDS.items():
        part = f"{count:,} pods on {NODES} nodes: {resource}"
        for way in SHOWN:
            highest = tuple(one.range(resource)[1] for one in placed[way])
            paper, verdict = _claimed_most(way, most, highest)
            note = UNSEEN if paper and verdict != "confirmed" else ""
            yield Claim(part, f"most used node: {way}", paper, highest, verdict, "%", ".0f", note)
        for way in (TBESK, GREEDY):
            lowest = tuple(one.range(resource)[0] for one in placed[way])
            yield Claim(part, f"least used node: {way}", f"{least} %", lowest, "cannot be compared", "%", ".0f", UNSEEN)
        for way, spread in SPREADS[resource].items():
            between = tuple(one.range(resource)[1] - one.range(resource)[0] for one in placed[way])
            what = f"most less least used: {way}"
            yield Claim(part, what, f"{spread} %", between, "cannot be compared", "%", ".0f", UNSEEN)
    yield from _above(placed, f"{count:,} pods on {NODES} nodes: room")


def _claimed_most(way: str, most: int, highest: Sequence[float]) -> tuple[str, Verdict]:
    if way in (LRA, BRA):
        return "above 100 %", judged(value > 100 for value in highest)
    if way in (TBESK, GREEDY):
        return f"{most} %", "cannot be compared"
    return "", "no claim"


def _above(placed: Mapping[str, Sequence[Placed]], part: str) -> Iterator[Claim]:
    for way in SHOWN:
        over = tuple(float((one.used > 1).any(axis=1).sum()) for one in placed[way])
        paper, verdict = "", judged(value == 0 for value in over)
        if way in (LRA, BRA):
            paper, verdict = "some", judged(value > 0 for value in over)
        elif way in (TBESK, GREEDY):
            paper = "none"
        yield Claim(part, f"nodes above 100 %: {way}", paper, over, verdict if paper else "no claim", "", ".1f")
    for way in (TOPSIS, PLAIN, TBESK, GREEDY):
        waiting = tuple(float(one.waiting) for one in placed[way])
        yield Claim(part, f"pods without a node: {way}", "", waiting, "no claim", "", ".1f")
    for way in SEARCHES:
        scores = tuple(one.score for one in placed[way])
        yield Claim(part, f"mean S_N, the more the better: {way}", "", scores, "no claim", "", ".4f")
    for resource in ("cpu", "memory"):
        spreads = [
            [one.range(resource)[1] - one.range(resource)[0] for one in placed[way]] for way in (LRA, BRA, TBESK)
        ]
        apart = tuple(max(values) - min(values) for values in zip(*spreads, strict=True))
        what = f"{resource}, most less least: how far LRA, BRA and TBESK differ"
        verdict = judged(value <= 10 for value in apart)
        yield Claim(part, what, "no large difference", apart, verdict, "%", ".0f", "up to 10 points means confirmed")


def charts(found: Mapping[Key, Placed], counts: Sequence[int], seeds: Sequence[int]) -> Iterator[Chart]:
    """Imbalance by count of pods; and the nodes' use of each resource, with the first seed."""
    lines = []
    for way in WAYS:
        each = [[found[count, way, seed].imbalance for seed in seeds] for count in counts]
        low, high = tuple(map(min, each)), tuple(map(max, each))
        lines.append(Line(way, tuple(f"{count:,}" for count in counts), tuple(map(fmean, each)), low, high))
    axes = Axis("pods"), Axis("imbalance Z", "%")
    name, title = "bald-eagle-imbalance", f"Imbalance on {NODES} nodes: the less, the more even"
    yield Chart(name, title, "bars", *axes, tuple(lines), picture=name)
    for resource, column in RESOURCES.items():
        lines = []
        for way in SHOWN:
            values = 100 * np.sort(found[counts[-1], way, seeds[0]].used[:, column])
            lines.append(Line(way, tuple(map(float, range(1, NODES + 1))), tuple(values.tolist())))
        title = f"{counts[-1]:,} pods: {resource} of each node, from the least to the most used"
        axes = Axis("node"), Axis(resource, "%")
        yield Chart(f"bald-eagle-{resource}", title, "lines", *axes, tuple(lines), picture="bald-eagle-nodes")
