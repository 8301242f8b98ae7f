"""Static scheduling: places pods on nodes that are less loaded than the pool's mean, never on more loaded ones.

Knows the two queues of nodes by load; knows nothing of what moves pods off a node.
"""

from collections.abc import Sequence
from typing import Annotated

from elasticd.api import Mend, Meta, Nodes, PoolStrategy, Refusal, Scores, hookimpl
from elasticd.kit import LoadScored

HIGH = "node(s) had a load above the pool's"


class Static(LoadScored, tag="static", frozen=True):
    """Places a pod on the best node that fits of the low-load queue (score above 0), else on the best of those in
    neither queue. Nodes of the high-load queue (score below 0) are refused, so a pod may wait although there is room.

    The score is that of load-balance, without the pod itself. A node whose score is not known is in neither queue and
    is the last choice. A pod that is bound to nodes by labels is not kept off these. The thesis places pods in order
    "fifo".

    In mode "product" the score adds an estimate for pods that were bound after the last measurement, and is computed
    anew for each pod, so a burst spreads; in the thesis (mode "paper") all of a burst goes to the head of the queue
    until the next measurement. `band` is the part around 0 that belongs to neither queue; in the thesis it is 0.

    Source: Tang Rui, master thesis, UESTC 2017, 5.3 (load queues) and 5.5.3 (static scheduling).
    """

    band: Annotated[
        float, Meta(ge=0, le=100, description="scores up to so far from 0 are in neither queue; 1: about 10 %")
    ] = 1.0

    @hookimpl
    def filter_nodes(self, nodes: Nodes) -> Sequence[Refusal]:
        band = 0.0 if self.mode == "paper" else self.band
        return [Refusal(HIGH, self.load(nodes) < -band, yields=True, mends=(Mend("their load falls to the pool's"),))]

    @hookimpl
    def score_nodes(self, nodes: Nodes) -> Scores:
        """The score of load-balance without the pod: the low-load queue comes first, its best node first."""
        return Scores(self.load(nodes), self.weight)


@hookimpl
def register_strategies() -> list[type[PoolStrategy]]:
    return [Static]
