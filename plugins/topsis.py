"""TOPSIS: scores nodes by how near each is to the best and how far from the worst of all nodes, over five criteria.

Knows weights by judgement (AHP) and by entropy, and how they are combined; knows no other strategy's score.
"""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from elasticd.api import Column, Meta, Nodes, Pod, PoolStrategy, Scores, Struct, Whole, hookimpl
from elasticd.kit import weighed

Floats = NDArray[np.float64]

CRITERIA = ("cpu", "memory", "bandwidth", "disk", "io")

_RANDOM_INDEX = 1.12
"""Saaty's random index: the mean inconsistency of random comparisons of five criteria."""

_CONSISTENT = 0.1
"""Saaty's largest acceptable consistency ratio."""

Weight = Annotated[float, Meta(ge=0, le=1, description="of the five, which come to 1")]
Ratio = Annotated[float, Meta(ge=0.11, le=9)]  # 1/9, as people write it
Row = Annotated[tuple[Ratio, ...], Meta(min_length=5, max_length=5)]
Name = Annotated[str, Meta(description="series of nodes, in the resource's unit (cpu: cores); empty: requests instead")]


class Weights(Struct, frozen=True, forbid_unknown_fields=True):
    """How much each criterion counts. They sum to 1."""

    cpu: Weight = 0.2
    memory: Weight = 0.2
    bandwidth: Weight = 0.2
    disk: Weight = 0.2
    io: Weight = 0.2

    @property
    def all(self) -> tuple[float, ...]:
        return self.cpu, self.memory, self.bandwidth, self.disk, self.io


class UseSeries(Struct, frozen=True, forbid_unknown_fields=True):
    """The series of what nodes use."""

    cpu: Name = ""
    memory: Name = ""
    bandwidth: Name = ""
    disk: Name = ""
    io: Annotated[str, Meta(description="series of nodes, in any unit; empty: it does not count")] = ""

    @property
    def all(self) -> tuple[str, ...]:
        return self.cpu, self.memory, self.bandwidth, self.disk, self.io


class Topsis(PoolStrategy, tag="topsis", frozen=True):
    """Prefers the node whose use, with the pod there, is nearest to the least and farthest from the most use of all
    nodes.

    Each criterion is a used fraction of a node. For cpu, memory, bandwidth and disk it is (use + the pod's request) /
    allocatable, where use is what is requested or what a series measures, and a pod without a request counts by
    elasticd's default. For io it is what a series measures. A criterion's weight is the product of two weights: one by
    judgement, given as `weights` or computed from `pairwise` comparisons (AHP, geometric means of the rows), and the
    entropy weight, which grows with how much nodes differ at present relative to what they use. The score is TOPSIS'
    relative closeness, from 0 to 1; 0.5 where nodes do not differ.

    Where a series is not known of a node, requests count instead; for io there is no substitute, and the node has no
    score.

    Source: Zhang, Wang, "Kubernetes scheduling algorithm of TOPSIS based on combined weight", Computer Systems &
    Applications 31(1), 2022 (CWT), by its abstract. How the two weights are combined and which normalisation of TOPSIS
    is used it does not say; here it is the product, and division by each column's Euclidean length.
    """

    weight: Annotated[float, Meta(ge=0, le=1e6, description="of its score beside other strategies'")] = 1.0
    weights: Annotated[Weights, Meta(description="of the criteria, by judgement")] = Weights()
    pairwise: Annotated[
        tuple[Row, ...],
        Meta(description="instead of weights: how much more each criterion counts than each other, 1/9 (0.111) to 9"),
    ] = ()
    bandwidth: Annotated[str, Meta(min_length=1, description="the resource")] = "elasticd.io/bandwidth"
    disk: Annotated[str, Meta(min_length=1, description="the resource")] = "ephemeral-storage"
    use: Annotated[UseSeries, Meta(description="of what nodes really use")] = UseSeries()

    def __post_init__(self) -> None:
        total = sum(self.weights.all)
        if abs(total - 1) > 1e-6:
            raise ValueError(f"weights: must come to 1 with those left out, which are 0.2 each, is {total:.6g}")
        if not self.pairwise:
            return
        if self.weights != Weights():
            raise ValueError("pairwise: must be left out beside weights, is given")
        if len(self.pairwise) != len(CRITERIA):
            raise ValueError(f"pairwise: must have {len(CRITERIA)} rows, is {len(self.pairwise)} rows")
        for row, first in enumerate(CRITERIA):
            for column, second in enumerate(CRITERIA[: row + 1]):
                product = self.pairwise[row][column] * self.pairwise[column][row]
                if abs(product - 1) > 0.02:
                    pair = f"{first} to {second} and {second} to {first}"
                    raise ValueError(f"pairwise: must have {pair} multiply to 1, is {product:.3g}")
        ratio = consistency(np.array(self.pairwise))
        if ratio > _CONSISTENT:
            raise ValueError(f"pairwise: must have a consistency ratio <= {_CONSISTENT}, is {ratio:.3f}")

    def reads(self) -> tuple[str, ...]:
        return ()

    def reads_of_nodes(self) -> tuple[str, ...]:
        return tuple(name for name in self.use.all if name)

    @hookimpl
    def score_nodes(self, pod: Pod, nodes: Nodes) -> Scores | None:
        """A score from 0 to 1 for each node; NaN where a criterion is not known."""
        if not nodes.names:
            return None
        present, added = self.used(pod, nodes)
        measured = ~np.isnan(present).any(axis=1)
        scores = np.full(len(nodes.names), np.nan)
        judged = np.array(self.weights.all) if not self.pairwise else compared(np.array(self.pairwise))
        weights = combined(judged, entropy_weights(present[measured]))
        scores[measured] = closeness((present + added)[measured], weights)
        return Scores(scores, self.weight)

    def used(self, pod: Pod, nodes: Nodes) -> tuple[Floats, Floats]:
        """The used fraction of each node, and what the pod would add to it, (nodes, criteria); nothing for io."""
        resources = ("cpu", "memory", self.bandwidth, self.disk)
        present, added = np.zeros((len(nodes.names), len(CRITERIA))), np.zeros((len(nodes.names), len(CRITERIA)))
        for column, (resource, series) in enumerate(zip(resources, self.use.all, strict=False)):
            capacity = nodes.allocatable(resource)
            request = weighed(pod, resource)
            present[:, column] = _ratio(_used(nodes, resource, series), capacity)
            added[:, column] = _ratio(np.full(len(capacity), float(request)), capacity)
        if self.use.io:
            present[:, -1] = nodes.use(self.use.io)
        return present, added


def _used(nodes: Nodes, resource: str, series: str) -> Column:
    requested = nodes.weighed(resource).astype(np.float64)
    if not series:
        return requested
    used = nodes.use(series) * (1000 if resource == "cpu" else 1)
    return np.where(np.isnan(used), requested, used)


def compared(pairwise: Floats) -> Floats:
    """AHP's weights of criteria from pairwise comparisons: the geometric means of the rows; they sum to 1."""
    means = np.exp(np.log(pairwise).mean(axis=1))
    return means / means.sum()  # type: ignore[no-any-return]


def consistency(pairwise: Floats) -> float:
    """Saaty's consistency ratio; 0 where no comparisons contradict each other."""
    weights, count = compared(pairwise), len(pairwise)
    most = float((pairwise @ weights / weights).mean())
    return (most - count) / (count - 1) / _RANDOM_INDEX


def entropy_weights(present: Floats) -> Floats:
    """The weight of each criterion by how much nodes differ in it; `present` is (nodes, criteria). They sum to 1, or
    are all 0 where nodes do not differ."""
    nodes, criteria = present.shape
    totals = present.sum(axis=0)
    if nodes < 2:
        return np.zeros(criteria)
    parts = present / np.where(totals > 0, totals, 1)
    logs = np.log(np.where(parts > 0, parts, 1))
    entropy = np.where(totals > 0, -(parts * logs).sum(axis=0) / np.log(nodes), 1.0)
    differing = np.where(1 - entropy > 1e-12, 1 - entropy, 0.0)
    return differing / differing.sum() if differing.any() else differing


def combined(judged: Floats, entropy: Floats) -> Floats:
    """The product of both weights, normalised to a sum of 1; the judged weights alone where the product is 0."""
    product = judged * entropy
    weights = product if product.sum() > 0 else judged
    total = weights.sum()
    return weights / total if total > 0 else weights


def closeness(table: Floats, weights: Floats) -> Floats:
    """TOPSIS: the distance of each row to the worst, divided by the sum of its distances to best and worst, where the
    least in each column is best. From 0 to 1; 0.5 where rows do not differ."""
    if not len(table):
        return np.zeros(0)
    lengths = np.sqrt((table**2).sum(axis=0))
    rated = weights * table / np.where(lengths > 0, lengths, 1)
    to_best = np.sqrt(((rated - rated.min(axis=0)) ** 2).sum(axis=1))
    to_worst = np.sqrt(((rated - rated.max(axis=0)) ** 2).sum(axis=1))
    both = to_best + to_worst
    return np.where(both > 0, to_worst / np.where(both > 0, both, 1), 0.5)


def _ratio(amount: Column, capacity: Whole) -> Floats:
    return np.where(capacity > 0, amount / np.where(capacity > 0, capacity, 1), 0.0)


@hookimpl
def register_strategies() -> list[type[PoolStrategy]]:
    return [Topsis]
