"""Bald eagle search (TBESK): its four test functions, and its 1,800 pods on 31 nodes.

Source: Geng, Wang, "Improved Bald Eagle Search Algorithm for Kubernetes Resource Scheduling Application", Computer
Systems & Applications 32(4), 2023.
"""

from collections.abc import Sequence
from itertools import product

from elasticd.lab.papers import Reproduction, Rows, Work, paragraphs, summed_up
from elasticd.lab.papers.bald_eagle import evenness, searching
from elasticd.lab.papers.bald_eagle.placing import BRA, LRA, TBESK, WAYS
from elasticd.registry import discover

RUNS = 10


def reproduce(
    seeds: Sequence[int], work: Work, counts: Sequence[int] = evenness.COUNTS, runs: int = RUNS
) -> Reproduction:
    """Runs each search on each function, `runs` times for a seed, and places each count of pods in each way."""
    registry, functions = discover(), list(searching.keys(seeds))
    pools = list(product(counts, WAYS, seeds))
    found = work.each(product(functions, [runs]), lambda key: searching.run(*key), searching.Ten, then=len(pools))
    tens = {key: ten for (key, _), ten in found.items()}
    placed = work.each(pools, lambda key: evenness.run(registry, key), evenness.Placed)
    claims = (*searching.claims(tens, seeds), *evenness.claims(placed, counts, seeds))
    return Reproduction(
        "bald-eagle",
        "place pods in batches, so that four resources are used evenly",
        "Geng, Wang, Computer Systems & Applications 32(4), 2023 (TBESK)",
        (_describe(counts[-1], seeds), *SETUP),
        claims,
        FINDINGS,
        UNKNOWN,
        (*searching.charts(tens, seeds[0]), *evenness.charts(placed, counts, seeds)),
        "elasticd simulate config/scenarios/bald-eagle/elasticd.toml --out-nodes nodes.csv",
        summed_up(claims, _main(counts[-1])),
    )


def _main(most: int) -> Rows:
    """Its rows in the table of all papers; the pools have at most so many pods."""
    pool = f"{most:,} pods on {evenness.NODES} nodes"
    return {
        "the search finds the least value of Griewank, Ackley and Sphere": ("", "TBESK: worst"),
        "it needs as few iterations as the paper says": ("", "TBESK: mean iterations"),
        "it needs fewer iterations than BES": ("", "iterations fewer than BES"),
        f"imbalance is 24 % below LRA, {most:,} pods": (f"{pool}: imbalance", f"{TBESK}: less than {LRA}"),
        f"imbalance is 21 % below BRA, {most:,} pods": (f"{pool}: imbalance", f"{TBESK}: less than {BRA}"),
        "no node is above 100 %, but some of LRA and BRA are": (f"{pool}: room", "nodes above 100 %"),
        "cpu differs little between LRA, BRA and the search": (f"{pool}: room", "cpu, "),
        "memory differs little between them": (f"{pool}: room", "memory, "),
        "bandwidth and disk of the most and the least used node": ("", "least used node: "),
    }


def _describe(count: int, seeds: Sequence[int]) -> str:
    asked = evenness.requested(count, seeds)
    text = ", ".join(f"{percent:.0f} % of {resource}" for resource, percent in asked.items())
    return (
        f"{evenness.NODES} nodes of the three kinds in Table 3 take turns. Pods are drawn from the four of Table 4, "
        f"within a fifth, so that {count:,} of them request {text}; each seed draws others."
    )


SETUP = paragraphs(
    """
Imbalance Z is eqs. (32) to (34): how unevenly each server uses its own four resources, the mean over the servers. LRA
and BRA place pods one by one where cpu and memory suffice, as the default scheduler of the paper does, which looks at
nothing else; all others look at all four resources.

The functions have dimension 10, 50 eagles and at most 1,000 iterations. Each seed has ten runs of its own. Iterations
are those after which the best value was found.
"""
)
FINDINGS = paragraphs(
    """
Both searches reach the least value of Griewank, Ackley and Sphere, as the paper says. What is left of Quartic is the
smallest of the random numbers that it adds, so the paper's best and worst are what chance alone gives.

Both need two to five times as many iterations as the paper reports. TBESK needs fewer than BES with every seed on
Ackley and Sphere, and only with some on Quartic and Griewank.

The optimum of all four functions is at 0, which steps that scale positions approach anyway. If it is moved by 30 % of
the bound, some runs of both searches miss it on Griewank and Ackley, and TBESK's no less than those of BES.

24 % less imbalance than LRA comes out for the paper's own search, but with some seeds at 600 pods. With `greedy`,
elasticd's default, it does so at 1,800 pods alone, where it is then the most even.

21 % less than BRA does not come out. BRA balances cpu and memory on each node, so Z is low while nodes are nearly
empty; only at 1,800 pods the search is more even. The search looks for the highest S_N, which is not the lowest Z.

TBESK's additions to the search make no difference for pods: BES is as even, and so is the swoop as printed. While
there is room, no search finds a higher S_N than placing each pod on its best node.

No node is above 100 %, as no plan may exceed what a node has. LRA and BRA exceed it since they do not look at bandwidth
and disk. TOPSIS compares nodes with each other, and not the resources of one, so it is the least even by Z.

BRA does differ from the others in cpu and memory: it fills some nodes and leaves others.
"""
)
UNKNOWN = paragraphs(
    """
28 of the 31 nodes and 1,796 of the 1,800 pods. So what LRA, BRA and TBESK leave of bandwidth and disk cannot be
compared in numbers. Disk-heavy pods are three in four here, or disk would be used far less than in the paper.

The bounds of the functions, the number of eagles and of iterations, and when a search stops. Here bounds are the usual
ones, 1.28, 600, 32 and 100.

What tSSA, tSBO and tPSO are, and their parameters. They are compared by the iterations that the paper reports.

The weights of resources, the critical load and how many pods are searched for at a time. elasticd's defaults are used.

Which position stays after mutation, and how a position becomes a node. Here the best, and the node's number.

Whether eqs. (11) and (12), which differ from BES, are meant as printed. Both are measured.

For how many pods the 24 and 21 % are.
"""
)
