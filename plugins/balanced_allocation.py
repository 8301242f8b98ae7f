"""Balanced allocation: prefers the node whose resources are allocated in equal proportion.

Knows how allocated fractions become a score; knows nothing of how much of a node is left.
"""

from functools import reduce
from typing import Annotated

import numpy as np

from elasticd.api import Meta, Nodes, Pod, PoolStrategy, Scores, hookimpl
from elasticd.kit import PartScored, balance_score


class BalancedAllocation(PartScored, tag="balanced-allocation", frozen=True):
    """Scores nodes from 0 to 10 by how evenly their resources are allocated, with the pod there: 10 x (1 - d), where d
    is the difference between the largest and the smallest allocated fraction of `resources`. 0 where a resource would
    be used up.

    The score does not say how full a node is: use it beside least-requested, as kube-scheduler does. With `of` "use" it
    takes measured use instead of requests, and adds an estimate for pods that were bound after the last measurement; a
    node whose use is not known is the last choice.

    Source: kube-scheduler's BalancedResourceAllocation; BRA, equation (2) of TBESK (Geng, Wang 2023); equations (3-5)
    to (3-8) of Tang Rui, master thesis, UESTC 2017.
    """

    resources: Annotated[
        tuple[Annotated[str, Meta(min_length=1)], ...],
        Meta(min_length=2, description="names of resources; with `of` use, also of series of nodes"),
    ] = ("cpu", "memory")

    @hookimpl
    def score_nodes(self, pod: Pod, nodes: Nodes) -> Scores:
        """A score from 0 to 10 for each node; NaN where an allocated fraction is not known."""
        parts = self.parts(nodes, pod)
        score = balance_score(*parts)
        score[reduce(np.maximum, parts) >= 1] = 0.0
        return Scores(score, self.weight)


@hookimpl
def register_strategies() -> list[type[PoolStrategy]]:
    return [BalancedAllocation]
