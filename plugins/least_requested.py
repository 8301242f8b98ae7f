"""Least requested: prefers the node with the largest fraction of its resources free.

Knows how allocated fractions become a score; knows nothing of how evenly a node's resources are allocated.
"""

from functools import reduce

import numpy as np

from elasticd.api import Nodes, Pod, PoolStrategy, Scores, hookimpl
from elasticd.kit import PartScored


class LeastRequested(PartScored, tag="least-requested", frozen=True):
    """Scores nodes from 0 (full) to 10 (empty): the mean over `resources` of 10 x (1 - requested / allocatable), with
    the pod there. A resource that does not suffice counts 0.

    With `of` "use" it takes measured use instead of requests, and adds an estimate for pods that were bound after the
    last measurement; a node whose use is not known is the last choice.

    Source: kube-scheduler's LeastRequestedPriority; LRA, equation (1) of TBESK (Geng, Wang 2023); equations (3-1) to
    (3-4) of Tang Rui, master thesis, UESTC 2017.
    """

    @hookimpl
    def score_nodes(self, pod: Pod, nodes: Nodes) -> Scores:
        """A score from 0 to 10 for each node; NaN where an allocated fraction is not known."""
        parts = self.parts(nodes, pod)
        free = reduce(np.add, [np.maximum(1 - part, 0) for part in parts])
        return Scores(10 / len(parts) * free, self.weight)


@hookimpl
def register_strategies() -> list[type[PoolStrategy]]:
    return [LeastRequested]
