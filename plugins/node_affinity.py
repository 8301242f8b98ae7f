"""Node affinity: prefers the nodes that a pod's preferred node affinity selects, and those whose taints it minds not.

Knows labels and taints of nodes; knows nothing of the pods there. The filters refuse what is required.
"""

from typing import Annotated

import numpy as np

from elasticd.api import Column, Mask, Meta, Needs, Nodes, Pod, PoolStrategy, Scores, Struct, Taint, Term, hookimpl
from elasticd.kit import ByNeeds, Weight, matching


class PreferredTerm(Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that all pods prefer."""

    weight: Annotated[int, Meta(ge=1, le=100, description="beside other terms")]
    term: Annotated[Term, Meta(description="rules about the labels and names of nodes")]


class NodeAffinity(PoolStrategy, tag="node-affinity", frozen=True):
    """Scores nodes from 0 to 10 by preferred node affinity: the weights of the terms that select a node, beside the
    most that any node has on which the pod fits.

    Source: kube-scheduler, score of NodeAffinity.
    """

    added: Annotated[tuple[PreferredTerm, ...], Meta(description="terms that all pods have beside their own")] = ()
    weight: Weight = 2.0

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def score_nodes(self, pod: Pod, nodes: Nodes, fits: Mask) -> Scores | None:
        """A score from 0 to 10 for each node; None where no node is preferred."""
        if not (self.added or pod.needs.prefers_nodes):
            return None
        sums = _preferred(pod.needs, nodes)
        for each in self.added:
            sums = sums + each.weight * matching(each.term, nodes)
        most = float(sums[fits].max()) if fits.any() else 0.0
        return Scores(np.clip(10 * sums / most, 0, 10), self.weight) if most else None


def _sum_weights(needs: Needs, nodes: Nodes) -> Column:
    sums = np.zeros(len(nodes.names), dtype=np.float64)
    for each in needs.prefers_nodes:
        sums += each.weight * matching(each.term, nodes)
    return sums


_preferred = ByNeeds(_sum_weights)


class TaintScore(PoolStrategy, tag="taint-toleration", frozen=True):
    """Scores nodes from 0 to 10: the fewer taints of effect PreferNoSchedule a node has that the pod does not tolerate,
    the better.

    Source: kube-scheduler, score of TaintToleration.
    """

    weight: Weight = 3.0

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def score_nodes(self, pod: Pod, nodes: Nodes, fits: Mask) -> Scores | None:
        """A score from 0 to 10 for each node; None where no such taint is in the way."""
        counts = _intolerable(pod.needs, nodes)
        most = float(counts[fits].max()) if fits.any() else 0.0
        return Scores(np.clip(10 - 10 * counts / most, 0, 10), self.weight) if most else None


def _count_taints(needs: Needs, nodes: Nodes) -> Column:
    counts, known = np.zeros(len(nodes.names), dtype=np.float64), dict[tuple[Taint, ...], int]()
    for index, node in enumerate(nodes.nodes):
        if node.taints:
            if node.taints not in known:
                known[node.taints] = sum(_is_in_the_way(needs, taint) for taint in node.taints)
            counts[index] = known[node.taints]
    return counts


_intolerable = ByNeeds(_count_taints)


def _is_in_the_way(needs: Needs, taint: Taint) -> bool:
    return taint.effect == "PreferNoSchedule" and not any(each.tolerates(taint) for each in needs.tolerations)


@hookimpl
def register_strategies() -> list[type[PoolStrategy]]:
    return [NodeAffinity, TaintScore]
