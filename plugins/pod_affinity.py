"""Pod affinity: prefers nodes near the pods that a pod likes, and away from those that it does not, or that dislike it.

Knows how preferences become a score; the filters refuse the nodes that required terms exclude.
"""

from collections.abc import Iterator
from functools import partial
from typing import Annotated

import numpy as np

from elasticd.api import Column, Mask, Meta, Nodes, Pod, PodPreference, PodTerm, PoolStrategy, Scores, Whole, hookimpl
from elasticd.kit import Weight, concerning, count_pods, domains, near


class PodAffinity(PoolStrategy, tag="pod-affinity", frozen=True):
    """Scores nodes from 0 to 10 by preferred inter-pod affinity and anti-affinity: the weights of the pod's own terms,
    once for each pod that they select, and of the terms of pods that are there and select this one. A required
    affinity of such a pod counts as one of weight `required_weight`.

    Source: kube-scheduler, score of InterPodAffinity.
    """

    required_weight: Annotated[
        int, Meta(ge=0, le=100, description="of the required affinity of pods that are there; 0: it does not count")
    ] = 1
    weight: Weight = 2.0

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def score_nodes(self, pod: Pod, nodes: Nodes, fits: Mask) -> Scores | None:
        """A score from 0 to 10 for each node; None where nobody prefers anything."""
        parts = [*self._own(pod, nodes), *self._others(pod, nodes)]
        if not parts:
            return None
        return Scores(_normalized(np.add.reduce(parts), fits), self.weight)

    def _own(self, pod: Pod, nodes: Nodes) -> Iterator[Whole]:
        for preference in pod.needs.prefers:
            if _is_known(preference.term, pod.namespace, nodes):
                yield preference.weight * near(pod.namespace, preference.term, nodes)[1]

    def _others(self, pod: Pod, nodes: Nodes) -> Iterator[Whole]:
        for home, preference in concerning(nodes.prefers(), pod, nodes):
            if _is_known(preference.term, pod.namespace, nodes):
                holders = count_pods(("prefers", home, preference), partial(_prefers, preference), nodes, (home,))
                yield preference.weight * domains(preference.term.topology, nodes).sums(holders)
        if not self.required_weight:
            return
        for home, term in concerning(nodes.attracts(), pod, nodes):
            if _is_known(term, pod.namespace, nodes):
                holders = count_pods(("attracted", home, term), partial(_attracts, term), nodes, (home,))
                yield self.required_weight * domains(term.topology, nodes).sums(holders)


def _is_known(term: PodTerm, namespace: str, nodes: Nodes) -> bool:
    """Whether it is known which pods a term selects: a preference has no effect while it is not."""
    return term.among is None or nodes.namespace(namespace) is not None


def _prefers(preference: PodPreference, pod: Pod) -> int:
    return pod.needs.prefers.count(preference)


def _attracts(term: PodTerm, pod: Pod) -> int:
    return pod.needs.attracts.count(term)


def _normalized(sums: Whole, fits: Mask) -> Column:
    """From 0 for the least of the nodes that the pod fits on to 10 for the most; 0 where all are equal."""
    own = sums[fits] if fits.any() else sums
    least, most = (int(own.min()), int(own.max())) if own.size else (0, 0)
    if least == most:
        return np.zeros(len(sums), dtype=np.float64)
    return np.clip(10 * (sums - least) / (most - least), 0, 10)


@hookimpl
def register_strategies() -> list[type[PoolStrategy]]:
    return [PodAffinity]
