"""Where a pod may be by the pods that are there: topology spread constraints, inter-pod affinity and anti-affinity.

Knows pods, and the labels of nodes that they are counted by; knows nothing of room.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from elasticd.api import Mask, Mend, Needs, Nodes, Pod
from elasticd.kit import (
    any_of,
    concerning,
    counting_nodes,
    domains,
    every_node,
    holders,
    matching_pods,
    near,
    selected_by,
    spaces_of,
    spreading,
)

from .refusals import Lack, Mended

SPREAD = "node(s) didn't match pod topology spread constraints"
ATTRACTED = "node(s) didn't match pod affinity rules"
APART = "node(s) didn't match pod anti-affinity rules"
REPELLED = "node(s) didn't satisfy existing pods anti-affinity rules"
UNLABELLED = f"{SPREAD} (missing required label)"
UNKNOWN = "node(s) cannot be compared: the labels of namespaces are not known"


def unlabelled(needs: Needs, nodes: Nodes) -> Iterator[Lack]:
    """Nodes without the label of a spread constraint."""
    for topology in dict.fromkeys(spread.topology for spread in needs.spread if spread.hard):
        mend = Mend(f"nodes get the label {topology}")
        yield Lack(UNLABELLED, ~domains(topology, nodes).labelled, mends=partial(_everywhere, mend, nodes))


def uneven(pod: Pod, needs: Needs, nodes: Nodes) -> Iterator[Lack]:
    """Nodes where the pod would make the skew of a spread constraint (of `needs`) too large."""
    spreads = [pair for pair in zip(needs.spread, counting_nodes(needs, nodes), strict=True) if pair[0].hard]
    if not spreads:
        return
    crowded, curable = ~every_node(nodes), every_node(nodes)
    for spread, counted in spreads:
        state = spreading(pod, spread, nodes, counted)
        crowded |= state.domains.labelled & (state.skew > spread.max_skew)
        curable &= state.least_skew <= spread.max_skew
    yield Lack(SPREAD, crowded, curable)


def unknown(pod: Pod, nodes: Nodes) -> Iterator[Lack]:
    """All nodes, where the pod selects other pods by labels of their namespaces that are not known."""
    terms = (*pod.needs.attracts, *pod.needs.repels)
    if any(term.among is not None for term in terms) and nodes.namespace(pod.namespace) is None:
        mend = Mend("labels of namespaces can be read (right to list and watch namespaces)")
        yield Lack(UNKNOWN, every_node(nodes), mends=partial(_everywhere, mend, nodes))


def apart_from_wanted(pod: Pod, nodes: Nodes) -> Iterator[Lack]:
    """Nodes that are not near pods which all terms of the pod's affinity select. Where there is none at all, the first
    of a group that is to be together may go anywhere that has the labels."""
    home, terms = pod.namespace, pod.needs.attracts
    if not terms:
        return
    rules = [selected_by(home, term, nodes) for term in terms]
    counts = matching_pods(
        ("attracts", home, terms), lambda other: all(rule(other) for rule in rules), nodes, spaces_of(home, terms)
    )
    labelled = [domains(term.topology, nodes) for term in terms]
    totals = [values.totals(counts) for values in labelled]
    there = [total[values.of_node] > 0 for total, values in zip(totals, labelled, strict=True)]
    if not any(total.any() for total in totals) and all(rule(pod) for rule in rules):
        there = [values.labelled for values in labelled]
    mend = Mend("pods that its affinity selects run there")
    yield Lack(ATTRACTED, ~np.logical_and.reduce(there), mends=partial(_everywhere, mend, nodes))


def too_near(pod: Pod, nodes: Nodes) -> Iterator[Lack]:
    """Nodes near pods that the pod's anti-affinity selects."""
    if terms := pod.needs.repels:
        found = [near(pod.namespace, term, nodes) for term in terms]
        masks = [(there > 0, there > own) for own, there in found]
        yield _closed(APART, masks, nodes)


def kept_off(pod: Pod, nodes: Nodes) -> Iterator[Lack]:
    """Nodes near pods whose anti-affinity selects the pod."""
    if rules := concerning(nodes.repels(), pod, nodes):
        found = [(holders(home, term, nodes), domains(term.topology, nodes)) for home, term in rules]
        masks = [((there := values.sums(own)) > 0, there > own.here) for own, values in found]
        yield _closed(REPELLED, masks, nodes)


def _closed(reason: str, masks: Sequence[tuple[Mask, Mask]], nodes: Nodes) -> Lack:
    """The union of pairs of masks: the nodes that pods close, and those that pods of other nodes close too."""
    nowhere = ~every_node(nodes)
    others = any_of((near_it & others for near_it, others in masks), nowhere)
    return Lack(reason, any_of((near_it for near_it, _ in masks), nowhere), ~others)


def _everywhere(mend: Mend, nodes: Nodes) -> Mended:
    return (mend,), every_node(nodes)
