"""Rebalance: pods leave nodes that are more loaded than they should be, for nodes that are less.

Knows when a node has too much and who should leave it; knows nothing of what else keeps a pod where it is, nor of how
it is moved. See levels for when, memory for how long, victims for who, words for how that is
told.
"""

from collections.abc import Callable, Sequence

import numpy as np

from elasticd.api import Move, NodeLevel, Nodes, Pod, PoolObservation, PoolPast, Scores, Strategy, hookimpl

from .choice import Choice
from .levels import above, levels, taking
from .memory import heat
from .options import Options
from .words import explain


class Rebalance(Options, tag="rebalance", frozen=True):
    """Pods leave the most loaded nodes until so much is released that these are level again, if other nodes stay level
    with them; where all are level nobody moves.

    What makes a node too loaded (`by`): a score below `lower`, which is that of load-balance: 0 is the pool's mean, -1
    is 10.5 % more than that in all, -2 22 %; or use above marks, as parts of the node, or as parts above the pool's
    mean. It must be so for `observations` looks in a row, and is over when the node is calm again. Others take pods
    where their score is `upper` or above, or their use of what that node has too much of below `low`, and only as far
    as they stay calm themselves, in all resources. A node
    whose use is not known gives none and takes none, and nor does a pod whose use is not known go.

    How much is released: enough for the node to be calm ("threshold"), or down to the pool's mean ("mean"), of each
    resource of which it has too much. Of the pods that may go the one goes first that releases most of what the node
    has most too much of, without releasing more than it must, for what moving it costs; where all would release more,
    the smallest.

    A move's benefit is by how many percent of its node it lowers what that has too much, of the resource where that is
    most. Its cost is a quarter for an ordinary pod, more with its priority and its deletion cost: (1 + cost/2^27 +
    priority/2^25) / 4, from 0 to 2.5. So with `worth = 1` under [moves] an ordinary pod goes if that frees at least a
    quarter of a percent of its node, which pods do that share a node with a hundred others.

    A node that gave up pods is not looked at for `settle` seconds, for what is measured may be older. A controller of
    which a tenth of the pods (at least one) were moved is left alone for `cooldown` seconds, after the next tenth for
    twice as long, and so on, for what happened within an hour; until then none of its pods goes to a node that they
    left. Pods that are to be placed avoid nodes that are too loaded, where others will do.

    A node gives up pods by what it was measured to use; it takes pods by that and what those are thought to add that
    came too late to be measured. The pool's mean is that of what was measured for both.

    Mode "paper": by the score as last measured, at once, without memory, costs or marks for those that take pods;
    only pods of restartPolicy Never, then OnFailure, go, each by memory request and cpu use, the largest first,
    until both amounts are released, of which a pod of 0.3 cores and 512 MiB requested releases so much. They leave
    before it is known where there is a place, and wait in the queue; where they go is for the strategy static. Mode
    "product" moves the pods of controllers whatever their restartPolicy, which for these is always Always.

    Source: Tang Rui, master thesis, UESTC 2017, 5.4 and 5.5.4; of two stop rules there, and a lost figure, the amounts
    are derived. Marks, targets' own marks and observations in a row: Koordinator, LowNodeLoad. Cost: Karpenter.
    """

    @hookimpl
    def rebalance_nodes(
        self, nodes: Nodes, observation: PoolObservation, past: PoolPast, movable: Callable[[Pod], bool]
    ) -> Sequence[Move]:
        """The most loaded node's pods first."""
        gives, takes = levels(self, nodes, nodes.measured), taking(self, nodes)
        chosen = heat(self, nodes, observation.at, past, gives).hot
        if not chosen.any() or (self.mode == "product" and not takes.low.any()):
            return []
        return Choice(self, nodes, observation, past, movable, (gives, takes)).moves(chosen)

    @hookimpl
    def explain_nodes(self, nodes: Nodes, observation: PoolObservation, past: PoolPast) -> Sequence[NodeLevel]:
        """The high-load heap, those that are level, and the low-load heap from its end."""
        return explain(self, nodes, observation, past)

    @hookimpl
    def score_nodes(self, nodes: Nodes) -> Scores | None:
        """0, and much less where a node is too loaded now."""
        if self.mode == "paper" or not self.avoid:
            return None
        return Scores(np.where(above(self, nodes), -self.avoid, 0.0))


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    """Rebalance."""
    return [Rebalance]
