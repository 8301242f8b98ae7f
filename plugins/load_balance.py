"""Load balance: prefers the node that is least loaded relative to the pool's mean.

Knows how the score of ImprovedLoadBalancePriority is used for a pod; knows nothing of the pool's rules.
"""

from elasticd.api import Nodes, Pod, PoolStrategy, Scores, hookimpl
from elasticd.kit import LoadScored


class LoadBalance(LoadScored, tag="load-balance", frozen=True):
    """Scores nodes by measured load relative to the pool's mean: 10 x sum of weight x ln(ratio) over the factors, where
    the ratio is mean / use of a load and own / mean of a speed. A node at the mean scores 0; one that is 10 % better in
    all factors scores about 1. The score has no bounds: beside strategies that give 0 to 10 choose `weight`
    accordingly.

    Utilisations count as at least 1 %, and ratios are cut at 1/1000 and 1000, so that all nodes of an idle pool are
    equal and the one with the most room is taken. A node whose load is not known is the last choice. A factor that is
    known of no node is left out, and the others share its weight. A node whose speed is not known gets the mean speed.

    In mode "product" pods that were bound after the last measurement count by estimate, and so does the pod itself, on
    each node in turn: a burst of pods spreads. Mode "paper" takes the last measurement alone and does not count the
    pod: a burst goes to one node.

    Source: Tang Rui, master thesis, UESTC 2017, ImprovedLoadBalancePriority, equations (5-5) to (5-18).
    """

    @hookimpl
    def score_nodes(self, pod: Pod, nodes: Nodes) -> Scores:
        """From about -69 (a thousand times the mean load) to 69; NaN where the load is not known."""
        return Scores(self.load(nodes, None if self.mode == "paper" else pod), self.weight)


@hookimpl
def register_strategies() -> list[type[PoolStrategy]]:
    return [LoadBalance]
