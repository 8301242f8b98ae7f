"""Static scheduling: pods go to nodes that are less loaded than the pool, never to those that are more.

Knows the two queues of nodes by load; knows nothing of what moves pods away from a node.
"""

from collections.abc import Sequence
from typing import Annotated

from elasticd.api import Mend, Meta, Nodes, Refusal, Scores, Strategy, hookimpl
from elasticd.kit import LoadScored

HIGH = "node(s) had a load above the pool's"


class Static(LoadScored, tag="static", frozen=True):
    """Takes the best of the low-load queue (nodes that score above 0) that fits, then the best of those in neither
    queue; nodes of the high-load queue (below 0) are refused, so that a pod may wait though there is room.

    The score is that of load-balance, and does not look at the pod. A node of which it is not known is in neither
    queue, and the last choice. Pods that are bound to nodes are not kept off these. The thesis places in order "fifo".

    In mode "product" the score counts what was bound and is not measured yet by estimate, and is new for each pod: a
    burst spreads, where by the thesis it all goes to the head of the queue until the next measurement (mode "paper").
    And there `band` keeps nodes in neither queue that are as good as level; by the thesis it is 0.
    Source: Tang Rui, master thesis, UESTC 2017, 5.3 (load queues) and 5.5.3 (static scheduling).
    """

    band: Annotated[
        float, Meta(ge=0, le=100, description="scores up to so far from 0 are in neither queue; 1: about 10 %")
    ] = 1.0

    @hookimpl
    def filter_nodes(self, nodes: Nodes) -> Sequence[Refusal]:
        """Those of the high-load queue."""
        band = 0.0 if self.mode == "paper" else self.band
        return [Refusal(HIGH, self.load(nodes) < -band, yields=True, mends=(Mend("their load falls to the pool's"),))]

    @hookimpl
    def score_nodes(self, nodes: Nodes) -> Scores:
        """As load-balance, without the pod: so the low-load queue goes first, best first."""
        return Scores(self.load(nodes), self.weight)


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    """Static."""
    return [Static]
