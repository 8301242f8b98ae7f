"""What plans by bald eagle search cost, and what they come to: `make bench`.

Every figure is printed with the machine it was measured on, in seconds of CPU; nothing here passes or fails. The tables
are those of docs/bald-eagle.md: `python tests/bench/eagle.py imbalance` prints one of them.
"""

import sys
from collections.abc import Callable, Sequence
from time import process_time
from typing import Any

import numpy as np
from msgspec.structs import replace

from elasticd.api import Candidate, Node, Pod
from elasticd_plugins.bald_eagle import BaldEagle, BaldEaglePlain
from tests.kit.imbalance import imbalance
from tests.kit.measuring import alone, machine
from tests.kit.paper_pool import FOUR, balanced_allocation, least_requested, one_by_one, paper_pool, used_parts
from tests.kit.plugins.benchmarks import BENCHMARKS, FLOCK, iterations
from tests.kit.pools import GIB, columns, node, planned, pod

Eagles = BaldEagle | BaldEaglePlain
RUNS = 10
ALONE = BaldEagle(batch=1, iterations=1, eagles=2)
"""Hardly a search: what it begins with."""


def placed(strategy: Eagles, nodes: Sequence[Node], pods: Sequence[Pod]) -> tuple[dict[int, int], float, float]:
    """Where pods went, their mean S_N, and the seconds it took."""
    view = columns(nodes)
    candidates = [Candidate(one, np.ones(len(nodes), dtype=np.bool_)) for one in pods]
    began = process_time()
    found = strategy.place_pods(pods=candidates, nodes=view)
    seconds = process_time() - began
    score = float(np.mean([one.score for one in found])) if found else 0.0
    return {one.pod: one.node for one in found}, score, seconds


def best(strategy: Eagles, pods: int, nodes: int, times: int) -> float:
    """The shortest of several times."""
    pool = paper_pool(pods, nodes)
    return min(placed(strategy, *pool)[2] for _ in range(times))


def times() -> None:
    """What plans cost."""
    ways: dict[str, Eagles] = {
        "bald-eagle": BaldEagle(),
        "bald-eagle, all 60 iterations": BaldEagle(patience=60),
        "bald-eagle-plain": BaldEaglePlain(),
    }
    for label, strategy in ways.items():
        for pods, nodes, repeats in ((50, 100, 7), (1800, 31, 2), (1000, 5000, 1)):
            print(f"{label}: {pods} pods on {nodes} nodes: {best(strategy, pods, nodes, repeats):.3f} s")
    nodes_, pods_ = paper_pool(1800, 31)
    began = process_time()
    planned([BaldEagle()], columns(nodes_), pods_)
    print(f"bald-eagle: a whole plan with decisions, 1800 pods on 31 nodes: {process_time() - began:.3f} s")


LRA, BRA = "least-requested (LRA)", "balanced-allocation (BRA)"
WAYS: dict[str, Callable[[list[Node], list[Pod]], tuple[dict[int, int], float]]] = {
    LRA: lambda *pool: (one_by_one(least_requested, *pool), 0.0),
    BRA: lambda *pool: (one_by_one(balanced_allocation, *pool), 0.0),
    "each pod on its best node by S_N": lambda *pool: placed(ALONE, *pool)[:2],
    "bald-eagle": lambda *pool: placed(BaldEagle(), *pool)[:2],
    "bald-eagle, greedy = false": lambda *pool: placed(BaldEagle(greedy=False), *pool)[:2],
    "the same, printed = true": lambda *pool: placed(BaldEagle(greedy=False, printed=True), *pool)[:2],
    "bald-eagle-plain": lambda *pool: placed(BaldEaglePlain(), *pool)[:2],
}
COUNTS, SEEDS = (600, 1200, 1800), range(1, 6)


def uneven() -> None:
    """The paper's imbalance, the mean Z of eq. (34), in percent: the mean of five pools, and how much more or less than
    by LRA and by BRA that is."""
    print("| mean Z on 31 nodes, beside LRA and BRA | 600 pods | 1,200 pods | 1,800 pods |")
    print("|---|---|---|---|")
    pools = {count: [paper_pool(count, seed=seed) for seed in SEEDS] for count in COUNTS}
    found = {(label, count): _imbalance(label, pools[count]) for label in WAYS for count in COUNTS}
    for label in WAYS:
        cells = [_beside(found[label, count], found[LRA, count], found[BRA, count]) for count in COUNTS]
        print(f"| {label} | {' | '.join(cells)} |")


def _imbalance(label: str, pools: Sequence[tuple[list[Node], list[Pod]]]) -> float:
    return float(np.mean([100 * imbalance(used_parts(WAYS[label](*pool)[0], *pool)) for pool in pools]))


def _beside(own: float, *others: float) -> str:
    return f"{own:.1f} ({', '.join(f'{own / other - 1:+.0%}' for other in others)})"


def spread() -> None:
    """How 1,800 pods lie on 31 nodes: the least and the most used node of each resource, in percent."""
    nodes, pods = paper_pool()
    asked = [sum(one.counted[resource] for one in pods) for resource in FOUR]
    whole = [sum(one.allocatable[resource] for one in nodes) for resource in FOUR]
    shares = zip(FOUR, np.divide(asked, whole), strict=True)
    print("1,800 pods ask 31 nodes for", ", ".join(f"{100 * share:.0f} % of {name}" for name, share in shares))
    print("| 1,800 pods on 31 nodes | cpu | memory | bandwidth | disk | mean S_N |")
    print("|---|---|---|---|---|---|")
    for label, place in WAYS.items():
        places, score = place(nodes, pods)
        parts = used_parts(places, nodes, pods)
        each = zip(100 * parts.min(axis=0), 100 * parts.max(axis=0), strict=True)
        columns_ = " | ".join(f"{low:.0f} to {high:.0f} %" for low, high in each)
        print(f"| {label} | {columns_} | {f'{score:.4f}' if score else '-'} |")


def tight(trials: int = 100) -> None:
    """Pods that fill eight nodes exactly, less the smallest: how many find a place."""
    chance = np.random.default_rng(5)
    pools = [_filling(chance) for _ in range(trials)]
    ways: dict[str, Eagles] = {
        "each pod on its best node by S_N": ALONE,
        "bald-eagle-plain": BaldEaglePlain(batch=50),
        "bald-eagle, greedy = false": BaldEagle(batch=50, greedy=False),
        "bald-eagle": BaldEagle(batch=50),
        "bald-eagle, iterations = 1000": BaldEagle(batch=50, iterations=1000),
    }
    total = sum(len(pods) for _, pods in pools)
    print(f"| {total} pods that would fit, in {trials} pools of 8 nodes, batch = 50 | placed | seconds a pool |")
    print("|---|---|---|")
    for label, strategy in ways.items():
        results = [placed(strategy, *pool) for pool in pools]
        count, seconds = sum(len(places) for places, _, _ in results), sum(one[2] for one in results)
        print(f"| {label} | {count} | {seconds / trials:.2f} |")


def _filling(chance: np.random.Generator) -> tuple[list[Node], list[Pod]]:
    sizes: list[int] = []
    for _ in range(8):
        left = 100
        while left > 0:
            sizes.append(min(left, int(chance.integers(15, 60))))
            left -= sizes[-1]
    kept = [size for size in sizes if size > 4]
    chance.shuffle(kept)
    nodes = [node(f"n{index}", cpu=10, memory=64 * GIB) for index in range(8)]
    return nodes, [pod(f"p{index}", cpu=size / 10, memory=GIB) for index, size in enumerate(kept)]


def functions() -> None:
    """The paper's functions, dimension 10, 50 eagles, at most 1,000 iterations, ten runs."""
    print("| function | search | best | worst | mean iterations | the paper: best, worst, mean iterations |")
    print("|---|---|---|---|---|---|")
    for name, one in BENCHMARKS.items():
        for label, improved, paper in (("TBESK", True, one.tbesk), ("BES", False, one.bes)):
            catches = [one.run(replace(FLOCK, improved=improved), seed) for seed in range(RUNS)]
            values: list[Any] = [-catch.fitness for catch in catches]
            mean = np.mean([iterations(catch) for catch in catches])
            told = f"{paper[0]:.4g}, {paper[1]:.4g}, {paper[2]}"
            print(f"| {name} | {label} | {min(values):.4g} | {max(values):.4g} | {mean:.0f} | {told} |")


TABLES = {"times": times, "imbalance": uneven, "spread": spread, "tight": tight, "functions": functions}


def main(names: Sequence[str]) -> None:
    """Print the tables of these names, or all. What has no seconds is the same on every machine."""
    print(machine())
    alone()
    for name in names or TABLES:
        print()
        TABLES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
