"""Balanced allocation: the node whose resources are taken to the same part.

Knows how parts become a score; knows nothing of how much is left.
"""

from functools import reduce
from typing import Annotated

import numpy as np

from elasticd.api import Meta, Nodes, Pod, Scores, Strategy, hookimpl
from elasticd.kit import PartScored, balance_score


class BalancedAllocation(PartScored, tag="balanced-allocation", frozen=True):
    """Scores nodes from 0 to 10: 10 less 10 times how far apart the parts of `resources` are that are taken, with the
    pod there; of more than two, the two farthest apart. 0 where one would be used up.

    It says nothing of how full a node is: use it beside least-requested, as kube-scheduler does. With `of` "use" it
    goes by what nodes really use, with what was bound and is not measured yet by estimate; a node of which that is not
    known is the last choice.
    Source: kube-scheduler's BalancedResourceAllocation; BRA, equation (2) of TBESK (Geng, Wang 2023); equations (3-5)
    to (3-8) of Tang Rui, master thesis, UESTC 2017.
    """

    resources: Annotated[
        tuple[Annotated[str, Meta(min_length=1)], ...],
        Meta(min_length=2, description="names of resources; with `of` use, also of series of nodes"),
    ] = ("cpu", "memory")

    @hookimpl
    def score_nodes(self, pod: Pod, nodes: Nodes) -> Scores:
        """From 0 to 10; NaN where it is not known."""
        parts = self.parts(nodes, pod)
        score = balance_score(*parts)
        score[reduce(np.maximum, parts) >= 1] = 0.0
        return Scores(score, self.weight)


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    """Balanced allocation."""
    return [BalancedAllocation]
