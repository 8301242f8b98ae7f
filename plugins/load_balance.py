"""Load balance: the node that is least loaded beside the others.

Knows how the score of ImprovedLoadBalancePriority is used for a pod; knows nothing of the pool's rules.
"""

from elasticd.api import Nodes, Pod, Scores, Strategy, hookimpl
from elasticd.kit import LoadScored


class LoadBalance(LoadScored, tag="load-balance", frozen=True):
    """Scores nodes by what they really use: 10 x sum of part x ln(ratio to the pool's mean); 0 is the mean, about 1 is
    10 % better in all. A score has no bounds: beside strategies that give 0 to 10 choose `weight` accordingly.

    Utilisations count as 1 % at least, ratios as 1/1000 to 1000, so that in an idle pool all nodes are equal and the
    one with the most room is taken. A load that is not known of a node makes it the last choice; one that is known of
    no node is left out, and the other factors share its part. A speed that is not known of a node is taken for the
    mean one.

    In mode "product" what was bound and is not measured yet counts by estimate, and so does the pod itself, on each
    node in turn: pods that come in a burst spread. Mode "paper" takes the last measurement for all, and the pod not at
    all: then a burst goes to one node.
    Source: Tang Rui, master thesis, UESTC 2017, ImprovedLoadBalancePriority, equations (5-5) to (5-18).
    """

    @hookimpl
    def score_nodes(self, pod: Pod, nodes: Nodes) -> Scores:
        """From about -69 (a thousand times the mean) to 69; NaN where a load is not known."""
        return Scores(self.load(nodes, None if self.mode == "paper" else pod), self.weight)


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    """Load balance."""
    return [LoadBalance]
