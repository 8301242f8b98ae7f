"""Rebalance: moves pods from nodes that are too loaded to nodes that are less loaded.

Knows which node is too loaded and which pods should leave it; knows nothing of what else keeps a pod on its node, nor
of how it is moved. See levels for the load of nodes, memory for what follows from the past, victims for the choice of
pods, explanation for its text.
"""

from collections.abc import Callable, Sequence

import numpy as np

from elasticd.api import (
    Move,
    NodeLevel,
    Nodes,
    Pod,
    PoolObservation,
    PoolPast,
    PoolPolicy,
    PoolStrategy,
    Scores,
    hookimpl,
)

from .choice import Choice
from .explanation import explain
from .levels import above, levels, taking
from .memory import heat
from .options import Options


class Rebalance(Options, tag="rebalance", frozen=True):
    """Moves pods off the most loaded nodes until enough is released that these are level again, if other nodes can take
    the pods and stay level; where all nodes are level no pod moves.

    What makes a node too loaded (`by`): a score below `lower`, which is that of load-balance (0 is the pool's mean, -1
    is 10.5 % more than that in all factors, -2 is 22 %); or use above marks, as fractions of the node, or as fractions
    above the pool's mean. It must be so in `observations` evaluations in a row, and ends when the node is calm again.
    Another node takes pods where its score is `upper` or above, or its use of what the loaded node has too much of is
    below `low`, and only as far as it stays calm in all resources. A node whose use is not known gives no pod and takes
    none, and a pod whose use is not known stays.

    How much is released: enough for the node to be calm ("threshold"), or down to the pool's mean ("mean"), of each
    resource of which it has too much. Of the pods that may leave, the next one is that which releases most of the most
    exceeded resource relative to its cost, without releasing more than necessary; where all would release more, the
    smallest.

    A move's benefit is by how many percent of the node it lowers the excess, of the resource where that is most. Its
    cost is (1 + deletion cost / 2^27 + priority / 2^25) / 4, from 0 to 2.5: a quarter for an ordinary pod. So with
    `worth = 1` under [moves] an ordinary pod moves if that frees at least a quarter of a percent of its node, as pods
    do that share a node with a hundred others.

    A node that gave up pods is left alone for `settle` seconds, as its measurements may be older. A controller of which
    a tenth of the pods (at least one) were moved is left alone for `cooldown` seconds, after the next tenth for twice
    as long, and so on, counting the last hour; until then none of its pods goes to a node that they left. New pods
    avoid nodes that are too loaded, where others will do.

    A node gives up pods by its measured use. It takes pods by that and by an estimate for pods that came after the last
    measurement. The pool's mean is that of the measured use for both.

    Mode "paper": by the score as last measured, at once, without memory, costs or conditions on the nodes that take
    pods. Only pods of restartPolicy Never, then OnFailure, leave, each by memory request and cpu use, the largest
    first, until both amounts are released; a pod that requests 0.3 cores and 512 MiB releases so much. They leave
    before it is known where there is a place, and wait in the queue; where they go is for the strategy static. Mode
    "product" moves the pods of controllers whatever their restartPolicy, which for these is always Always.

    Source: Tang Rui, master thesis, UESTC 2017, 5.4 and 5.5.4; the amounts are derived from two stop rules there and a
    lost figure. Marks, marks of nodes that take pods, and observations in a row: Koordinator, LowNodeLoad. Cost:
    Karpenter.
    """

    @hookimpl
    def rebalance_nodes(
        self, nodes: Nodes, observation: PoolObservation, past: PoolPast, movable: Callable[[Pod], bool]
    ) -> Sequence[Move]:
        """The moves, those of the most loaded node first."""
        gives, takes = levels(self, nodes, nodes.measured), taking(self, nodes)
        chosen = heat(self, nodes, observation.at, past, gives).hot
        if not chosen.any() or (self.mode == "product" and not takes.low.any()):
            return []
        return Choice(self, nodes, observation, past, movable, (gives, takes)).moves(chosen)

    @hookimpl
    def explain_nodes(self, nodes: Nodes, observation: PoolObservation, past: PoolPast) -> Sequence[NodeLevel]:
        """The state of every node, the most loaded first: the high-load heap, level nodes, and the low-load heap."""
        return explain(self, nodes, observation, past)

    @hookimpl
    def score_nodes(self, nodes: Nodes) -> Scores | None:
        """0, and -`avoid` for a node that is too loaded now."""
        if self.mode == "paper" or not self.avoid:
            return None
        return Scores(np.where(above(self, nodes), -self.avoid, 0.0))

    def brings_nothing(self, policy: PoolPolicy, hooks: frozenset[str]) -> tuple[str, ...]:
        """Warn that pods of Jobs and of restartPolicy Never, which the thesis moves first, stay."""
        if self.mode == "product" or policy.moves.rerun:
            return ()
        stay = "they stay, as pods of Jobs do: rerun of [moves] is false"
        return (f'mode: "paper" moves pods of restartPolicy Never first, and {stay}',)


@hookimpl
def register_strategies() -> list[type[PoolStrategy]]:
    return [Rebalance]
