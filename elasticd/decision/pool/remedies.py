"""What would have to change for a pod that found no place."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from elasticd.base.text import counted
from elasticd.base.units import format_amount
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.filter_score import SHOWN, UNBOUND, Filtered, fits_without
from elasticd.kit.node_table import NodeTable, needed
from elasticd.model.placement import Mask, Refusal, Whole

_TOLD = 3

NOTHING = "no one thing alone would do"


def lacking(case: PoolCase, filtered: Filtered, yields: Mapping[str, int], own: Sequence[str] = ()) -> str:
    """Tell in a sentence what would have to change for a pod; empty where no filter has said why it is refused.

    It names what is missing on the node that lacks least, of those where only other pods are in the way; or what else
    would do by itself, and on how many nodes; or what would let it preempt others: `yields`, with numbers of nodes, and
    what of the pod's `own`.
    """
    columns, pod, bound = case.columns, filtered.pod, filtered.bound
    if not columns.names:
        return "a node would have to be in the pool: it has none"
    if pod.needs.excludes(case.policy.pool.nodes):
        labels = ", ".join(f"{key}={value}" for key, value in case.policy.pool.nodes.items())
        return f"its nodeSelector or node affinity would have to allow nodes of the pool: all have {labels}"
    if bound is not None and not bound.nodes.any() and bound.unmatched == "any":
        bound = None  # as if it were bound to none
    if bound is not None and not bound.nodes.any():
        fit = "" if filtered.fits.any() else ", and to be fit for it otherwise"
        return f"a node would have to match {bound.match or bound.why}{fit}"
    within = np.ones(len(columns.names), dtype=np.bool_) if bound is None or bound.full == "any" else bound.nodes
    places = np.flatnonzero(filtered.curable & within)
    mends = _count_remedies(filtered.refusals, within)
    if len(places):
        texts = [_nearest_node(case, filtered, places), _list_remedies(mends), _list_remedies(yields), *own]
    else:
        texts = [_list_remedies(mends) or _explain_too_large(columns, needed(pod), within)]
    return "; or ".join(filter(None, texts)) or (NOTHING if filtered.refusals else "")


def _count_remedies(refusals: Sequence[Refusal], within: Mask) -> Mapping[str, int]:
    """Count on how many nodes each remedy would do by itself.

    Nodes to which the pod is not bound count only where its binding is to change, and nodes that several filters refuse
    not at all. Of amounts the largest is named that would do for a node.
    """
    once, several = np.zeros((2, len(within)), dtype=np.bool_)
    for refusal in refusals:
        several |= once & refusal.nodes
        once |= refusal.nodes
    counts, amounts = Counter[str](), dict[tuple[str, str], tuple[int, int]]()
    for refusal in refusals:
        if not refusal.mends:
            continue
        nodes = refusal.nodes & ~several & (within | (refusal.reason == UNBOUND))
        for mend in refusal.mends:
            if mend.most is None:
                counts[mend.text] += int(np.count_nonzero(nodes))
                continue
            key, amount = (mend.text, mend.resource), int(np.max(mend.most, where=nodes, initial=-1))
            before, count = amounts.get(key, (mend.least, 0))
            if amount >= before:
                count = count if amount == before else 0
                amounts[key] = amount, count + int(np.count_nonzero(nodes & (mend.most == amount)))
    for (text, resource), (amount, count) in amounts.items():
        counts[text.format(format_amount(resource, amount, up=False))] = count
    return counts


def _nearest_node(case: PoolCase, filtered: Filtered, places: NDArray[np.intp]) -> str:
    """Describe the node that lacks the smallest share of what it has once leaving pods have left, and what it lacks; of
    the first few rather one where amounts alone are in the way."""
    columns, share = case.columns, np.zeros(len(places), dtype=np.float64)
    requests = needed(filtered.pod).items()
    missing = {resource: _shortage(columns, resource, amount, filtered.refusals) for resource, amount in requests}
    short = {name: np.maximum(lack - columns.leaving(name), 0)[places] for name, lack in missing.items()}
    for name, lack in short.items():
        share += lack / np.maximum(columns.allocatable(name)[places], 1)
    text = ""
    for best in map(int, np.argsort(share, kind="stable")[:SHOWN]):
        index, less = int(places[best]), {name: int(lack[best]) for name, lack in short.items() if lack[best]}
        leaves = any(lack[index] > less.get(name, 0) for name, lack in missing.items())
        blocked = _is_blocked(case, filtered, index, less)
        if not blocked or not text:
            text = _describe_node(columns.names[index], less, leaves=leaves, blocked=blocked)
        if not blocked:
            break
    return text


def _is_blocked(case: PoolCase, filtered: Filtered, index: int, less: Mapping[str, int]) -> bool:
    """Whether a filter would refuse the node still, if so much less were requested there and all who are leaving had
    left. Asked only where something else than amounts may be in the way."""
    needs = filtered.pod.needs
    picky = needs.ports or needs.disks or needs.repels or needs.spread or case.columns.repels()
    return bool(picky) and not fits_without(case, filtered, index, less=less)


def _describe_node(node: str, less: Mapping[str, int], *, leaves: bool, blocked: bool) -> str:
    """What would have to change about the pods on a node, in a sentence."""
    first = "once those that are leaving it have left" if leaves else ""
    amounts = [f"{format_amount(name, lack, up=True)} {name}" for name, lack in less.items() if name != "pods"]
    lack, count = " and ".join(amounts), less.get("pods")
    wants = [f"{counted(count, 'pod')} there would have to leave{' besides' if leaves else ''}"] if count else []
    if amounts:
        wants.append(
            f"pods that stay there would have to request {lack} less{' with those that leave' if count else ''}"
        )
    if wants:
        wants += ["what else is in the way there would have to leave it"] if blocked else []
        return f"{node} is nearest: {first}{', ' if first else ''}{', and '.join(wants)}"
    room = f"{node} has room{' ' if first else ''}{first}"
    return f"{room}: what else is in the way there would have to leave it" if blocked or not leaves else room


def _shortage(columns: NodeTable, resource: str, amount: int, refusals: Sequence[Refusal]) -> Whole:
    """How much of a resource each node lacks; negative: it has more than is needed."""
    shortage = columns.requested(resource) + amount - columns.allocatable(resource)
    for refusal in refusals:
        if resource in refusal.missing:
            shortage[refusal.nodes] = np.maximum(shortage, refusal.missing[resource])[refusal.nodes]
    return shortage


def _explain_too_large(columns: NodeTable, need: Mapping[str, int], within: Mask) -> str:
    """Say that the pod requests more than any node has, of one resource or of all together; empty: it does not."""
    whose = "no node" if within.all() else "no node to which it is bound"
    for resource, amount in need.items():
        most = int(columns.allocatable(resource)[within].max())
        if amount > most:
            requested, has = format_amount(resource, amount, up=True), format_amount(resource, most, up=False)
            return f"it requests {requested} {resource}, and {whose} has more than {has}"
    if not np.logical_and.reduce([columns.allocatable(name)[within] >= amount for name, amount in need.items()]).any():
        return f"{whose} has as much as it requests of everything at once"
    return ""


def _list_remedies(mends: Mapping[str, int]) -> str:
    helpful = sorted(((mend, count) for mend, count in mends.items() if count), key=lambda pair: (-pair[1], pair[0]))
    return "; or ".join(f"{mend} ({counted(count, 'node')})" for mend, count in helpful[:_TOLD])
