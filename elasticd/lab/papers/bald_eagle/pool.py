"""The 31 nodes and 1,800 pods of the bald eagle paper, as far as it shows them, and the two scores it compares with.

The paper lists three nodes (Table 3) and four pods (Table 4). Here the nodes take turns; a pod has cpu, memory and
bandwidth of one row and disk of one, the fourth three times in four, all within a fifth, so that 1,800 of them ask for
about half of all cpu and memory, 80 % of the bandwidth and 70 % of the disk, which is where the paper's results lie.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from elasticd.model.pod_spec import Needs
from elasticd.model.workload import Container, Node, Pod

Floats = NDArray[np.float64]

BANDWIDTH, DISK = "elasticd.io/bandwidth", "ephemeral-storage"
FOUR = ("cpu", "memory", BANDWIDTH, DISK)
MIB, GIGA = 2.0**20, 10**9
TABLE_3 = ((16, 24574, 30, 800), (32, 32768, 30, 1000), (64, 49512, 40, 1200))
"""Cores, MiB, Gb/s, GB of three nodes."""
TABLE_4 = ((0.58, 212, 0.68, 1.47), (0.17, 247, 0.38, 1.93), (0.07, 225, 0.05, 1.71), (0.5, 383, 0.7, 14.87))
"""The same of four pods."""


def paper_node(name: str, row: Sequence[float]) -> Node:
    """A node of Table 3."""
    amounts = zip(FOUR, row, (1, MIB, GIGA, GIGA), strict=True)
    allocatable = {"pods": 500.0, **{resource: float(amount * unit) for resource, amount, unit in amounts}}
    return Node(name, f"uid-{name}", True, labels={"kubernetes.io/hostname": name}, allocatable=allocatable)


def paper_pod(name: str, row: Sequence[float]) -> Pod:
    """A pod of Table 4."""
    cpu, *others = row
    amounts = zip(FOUR[1:], others, (MIB, GIGA, GIGA), strict=True)
    requests = {"cpu": round(cpu, 3), **{resource: float(round(amount * unit)) for resource, amount, unit in amounts}}
    needs = Needs(scheduler="elasticd", requests=requests)
    return Pod("default", name, f"uid-{name}", "Pending", containers=(Container("main", requests),), needs=needs)


def paper_pool(pods: int = 1800, nodes: int = 31, seed: int = 1) -> tuple[list[Node], list[Pod]]:
    """So many of both; another seed draws other pods."""
    chance = np.random.default_rng(seed)
    rows, disks = chance.integers(0, 4, pods), chance.choice(4, pods, p=(0.08, 0.08, 0.08, 0.76))
    factors, table = chance.uniform(0.8, 1.2, (pods, 4)), np.array(TABLE_4)
    amounts = np.column_stack([table[rows, :3], table[disks, 3]]) * factors
    return (
        [paper_node(f"n{index:02}", TABLE_3[index % 3]) for index in range(nodes)],
        [paper_pod(f"p{index:04}", amounts[index].tolist()) for index in range(pods)],
    )


def least_requested(used: Floats) -> Floats:
    """LRA, eq. (1): used parts of cpu and memory, (nodes, 2), to 0 to 10."""
    return (10 * (1 - used)).mean(axis=1)  # type: ignore[no-any-return]


def balanced_allocation(used: Floats) -> Floats:
    """BRA, eq. (2)."""
    return 10 - 10 * np.abs(used[:, 0] - used[:, 1])


def one_by_one(score: Callable[[Floats], Floats], nodes: Sequence[Node], pods: Sequence[Pod]) -> dict[int, int]:
    """Each pod on the node with the highest score of those with enough cpu and memory, as the default scheduler places
    it, which looks at nothing else; of equal ones on the first."""
    capacity, used = _amounts(nodes)[:, :2], np.zeros((len(nodes), 2))
    found = {}
    for index, one in enumerate(pods):
        after = (used + np.array([one.counted["cpu"], one.counted["memory"]])) / capacity
        best = int(np.argmax(np.where((after <= 1).all(axis=1), score(after), -np.inf)))
        found[index] = best
        used[best] = after[best] * capacity[best]
    return found


def used_parts(places: dict[int, int], nodes: Sequence[Node], pods: Sequence[Pod]) -> Floats:
    """How much of each of the four resources is used on each node then, (nodes, resources), 1 is all."""
    used = np.zeros((len(nodes), len(FOUR)))
    for index, best in places.items():
        used[best] += [pods[index].counted[resource] for resource in FOUR]
    return used / _amounts(nodes)


def _amounts(nodes: Sequence[Node]) -> Floats:
    return np.array([[one.allocatable[resource] for resource in FOUR] for one in nodes])
