"""Least requested: the node of which the smallest part is taken.

Knows how parts become a score; knows nothing of how evenly the resources of a node are taken.
"""

from functools import reduce

import numpy as np

from elasticd.api import Nodes, Pod, Scores, Strategy, hookimpl
from elasticd.kit import PartScored


class LeastRequested(PartScored, tag="least-requested", frozen=True):
    """Scores nodes from 0 (full) to 10 (empty): the mean over `resources` of 10 x (1 - taken / allocatable), with the
    pod there. A resource of which there is too little counts 0.

    With `of` "use" it goes by what nodes really use, with what was bound and is not measured yet by estimate; a node of
    which that is not known is the last choice.
    Source: kube-scheduler's LeastRequestedPriority; LRA, equation (1) of TBESK (Geng, Wang 2023); equations (3-1) to
    (3-4) of Tang Rui, master thesis, UESTC 2017.
    """

    @hookimpl
    def score_nodes(self, pod: Pod, nodes: Nodes) -> Scores:
        """From 0 to 10; NaN where it is not known."""
        parts = self.parts(nodes, pod)
        free = reduce(np.add, [np.maximum(1 - part, 0) for part in parts])
        return Scores(10 / len(parts) * free, self.weight)


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    """Least requested."""
    return [LeastRequested]
