"""What plans by bald eagle search cost, and what they come to: `make bench`.

Every figure is printed with the machine it was measured on, in seconds of CPU; nothing here passes or fails. The tables
are those of docs/measured.md: `python tests/bench/eagle.py tight` prints one of them. What the paper measures,
`elasticd reproduce bald-eagle` measures again.
"""

import sys
from collections.abc import Sequence
from time import process_time

import numpy as np

from elasticd.api import Candidate, Node, Pod
from elasticd.lab.papers.bald_eagle.pool import (
    paper_pool,
)
from elasticd_plugins.bald_eagle import BaldEagle, BaldEaglePlain
from tests.kit.measuring import alone, machine
from tests.kit.pools import GIB, columns, node, planned, pod

Eagles = BaldEagle | BaldEaglePlain
ALONE = BaldEagle(batch=1, iterations=1, eagles=2)
"""Hardly a search: what it begins with."""


def placed(strategy: Eagles, nodes: Sequence[Node], pods: Sequence[Pod]) -> tuple[int, float]:
    """How many pods found a place, and the seconds it took."""
    view = columns(nodes)
    candidates = [Candidate(one, np.ones(len(nodes), dtype=np.bool_)) for one in pods]
    began = process_time()
    found = strategy.place_pods(pods=candidates, nodes=view)
    seconds = process_time() - began
    return len(found), seconds


def best(strategy: Eagles, pods: int, nodes: int, times: int) -> float:
    """The shortest of several times."""
    pool = paper_pool(pods, nodes)
    return min(placed(strategy, *pool)[1] for _ in range(times))


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
        count, seconds = (sum(values) for values in zip(*results, strict=True))
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


TABLES = {"times": times, "tight": tight}


def main(names: Sequence[str]) -> None:
    """Print the tables of these names, or all. What has no seconds is the same on every machine."""
    print(machine())
    alone()
    for name in names or TABLES:
        print()
        TABLES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
