"""Topology spread: prefers nodes in zones, racks or the like that have fewer pods of a kind, as soft constraints ask.

Knows how counts of pods become a score; the filters refuse the nodes that hard constraints exclude.
"""

from math import log

import numpy as np

from elasticd.api import Column, Mask, Nodes, Pod, PoolStrategy, Scores, TopologySpread, hookimpl
from elasticd.kit import (
    HOSTNAME,
    CountingNodes,
    DefaultSpread,
    Weight,
    counted_pods,
    counting_nodes,
    domains,
    spread_needs,
    spreading,
)


class SpreadScore(PoolStrategy, tag="topology-spread", frozen=True):
    """Scores nodes from 0 to 10 by the pod's topology spread constraints with whenUnsatisfiable ScheduleAnyway: the
    fewer matching pods there are in a node's zone (or other label), the better; nodes without one of the labels get 0.

    Several constraints add up, each weighted by the logarithm of the number of its values among the nodes that the pod
    fits on, so that many hosts do not outweigh few zones.

    Source: kube-scheduler, score of PodTopologySpread.
    """

    default_spread: DefaultSpread = ()
    weight: Weight = 2.0

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def score_nodes(self, pod: Pod, nodes: Nodes, fits: Mask) -> Scores | None:
        """A score from 0 to 10 for each node; None for a pod without soft constraints."""
        needs = spread_needs(pod, self.default_spread)
        soft = [each for each in zip(needs.spread, counting_nodes(needs, nodes), strict=True) if not each[0].hard]
        if not soft:
            return None
        scored = fits.copy()
        for spread, _ in soft:
            if spread.needs_all:
                scored &= domains(spread.topology, nodes).labelled
        counts = [_count(pod, spread, nodes, counted, scored) for spread, counted in soft]
        return Scores(_normalized(np.floor(np.add.reduce(counts) + 0.5), scored), self.weight)


def _count(pod: Pod, spread: TopologySpread, nodes: Nodes, counted: CountingNodes, scored: Mask) -> Column:
    """The pods of each node's value, weighted; 0 for nodes without the label."""
    values = domains(spread.topology, nodes)
    if spread.topology == HOSTNAME:
        there, size = counted_pods(pod, spread, nodes)[0].here, int(np.count_nonzero(scored))
    else:
        there = spreading(pod, spread, nodes, counted).there
        size = int(np.count_nonzero(values.present(scored)))
    return np.where(values.labelled, there * log(size + 2) + (spread.max_skew - 1), 0.0)


def _normalized(counts: Column, scored: Mask) -> Column:
    """10 for the fewest pods of all scored nodes, less for more; 0 for nodes that are not scored."""
    own = counts[scored]
    if not own.size or not own.max():
        return np.where(scored, 10.0, 0.0)
    fewest, most = own.min(), own.max()
    return np.where(scored, np.clip(10 * (most + fewest - counts) / most, 0, 10), 0.0)


@hookimpl
def register_strategies() -> list[type[PoolStrategy]]:
    return [SpreadScore]
