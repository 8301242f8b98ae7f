"""Conditions of nodes that no free room would change: cordoned, not ready, tainted, or without the right labels.

Knows nodes' own fields; knows nothing of pods on them.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from elasticd.api import Expression, Mask, Mend, Needs, Node, Nodes, Taint, Term, Toleration
from elasticd.kit import Memo, any_of, every_node, matching, whole_number, with_label

from .refusals import Mended

CORDONED = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
FAILED = Taint("node.kubernetes.io/not-ready", "NoSchedule")
SIGNS = frozenset({FAILED.key, "node.kubernetes.io/unreachable"})
"""Keys of the taints that mark a node as not ready."""

HOST = "kubernetes.io/hostname"
"""The label with a node's name."""

NAMED = 20
"""How many taints get a reason of their own, those of the most nodes first; the others share one."""

READY = "nodes get ready"


def failed(node: Node) -> bool:
    """Whether the node is not ready but has no NoSchedule taint for this yet."""
    return not node.ready and all(taint.key not in SIGNS or taint.effect != "NoSchedule" for taint in node.taints)


def _group_by_taint(
    pod_key: tuple[tuple[Toleration, ...], frozenset[str]], nodes: tuple[Node, ...]
) -> tuple[tuple[str, str, Mask], ...]:
    """(reason, remedy, mask of nodes) by the first taint of each node that the pod does not tolerate, but for those
    whose keys are `explained`: the node's own condition is reported, that it is cordoned or not ready."""
    tolerations, explained = pod_key
    needs, where = Needs(tolerations=tolerations), dict[str, dict[str, list[int]]]()
    by_taints: dict[tuple[tuple[Taint, ...], bool, bool], tuple[str, str] | None] = {}
    for index, node in enumerate(nodes):
        key = node.taints, node.unschedulable, node.ready
        if node.taints and key not in by_taints:
            by_taints[key] = _repelling(needs, node, explained)
        if repelling := by_taints.get(key):
            reason, remedy = repelling
            where.setdefault(reason, {}).setdefault(remedy, []).append(index)
    reasons = sorted(where, key=lambda reason: (-sum(map(len, where[reason].values())), reason))
    unnamed = [index for reason in reasons[NAMED:] for indices in where[reason].values() for index in indices]
    size = len(nodes)
    groups = [(reason, remedy, _mask(size, at)) for reason in reasons[:NAMED] for remedy, at in where[reason].items()]
    if unnamed:
        groups.append(("node(s) had untolerated taint(s)", "it tolerates their taints", _mask(size, unnamed)))
    return tuple(groups)


tainted = Memo(_group_by_taint, most=256)


def _repelling(needs: Needs, node: Node, explained: frozenset[str]) -> tuple[str, str] | None:
    """The reason why a node's taints keep a pod off, and the remedy, empty where it is not one thing. None: they do
    not, or its condition, which is reported already, explains them."""
    state = (explained & {CORDONED.key} if node.unschedulable else frozenset()) | (
        explained & SIGNS if failed(node) else frozenset()
    )
    repelling = [taint for taint in node.taints if taint.key not in state and needs.tolerates((taint,)) is not None]
    if not repelling:
        return None
    # A toleration without an effect tolerates all effects.
    mend = f"it tolerates {{{repelling[0]}}}" if len({(taint.key, taint.value) for taint in repelling}) == 1 else ""
    if not node.ready and all(taint.key in SIGNS for taint in repelling):
        mend = READY
    return f"node(s) had untolerated taint {{{repelling[0]}}}", mend


def _mask(size: int, indices: Sequence[int]) -> Mask:
    mask = np.zeros(size, dtype=np.bool_)
    mask[list(indices)] = True
    return mask


def relabelled(needs: Needs, view: Nodes) -> Mended:
    """The labels that would make nodes match, and the nodes that could get them: names are fixed."""
    able = every_node(view)
    if HOST in needs.selector:
        able = able & with_label(Expression(HOST, "In", (needs.selector[HOST],)), view)
    if needs.affinity is not None:
        terms = [term for term in needs.affinity if _possible(needs.selector, term)]
        able = able & any_of((_allowed_by_name(term, view) for term in terms), able)
        both = "nodeSelector and " if needs.selector else ""
        return (Mend(f"nodes have the labels of its {both}node affinity"),), able
    labels = ", ".join(f"{key}={value}" for key, value in needs.selector.items())
    return (Mend(f"nodes get the labels {labels}"),), able


def _possible(selector: Mapping[str, str], term: Term) -> bool:
    """Whether any set of labels can match both the selector and the term."""
    by_key = {key: [rule for rule in term.labels if rule.key == key] for key in {rule.key for rule in term.labels}}
    return all(
        any(all(rule.matches(labels) for rule in rules) for labels in _sample_labels(selector, key, rules))
        for key, rules in by_key.items()
    )


def _sample_labels(selector: Mapping[str, str], key: str, rules: Sequence[Expression]) -> Iterator[Mapping[str, str]]:
    """Candidate values of a label, of which one matches all rules if any value does; and the label left out."""
    if key in selector:
        yield selector
        return
    yield {}
    for rule in rules:
        step = {"Gt": 1, "Lt": -1}.get(rule.operator, 0)
        for value in rule.values or ("any",):
            mark = whole_number(value) if step else None
            yield {key: value if mark is None else str(mark + step)}


def _allowed_by_name(term: Term, nodes: Nodes) -> Mask:
    rules = tuple(rule for rule in term.labels if rule.key == HOST)
    if rules or term.fields:
        return matching(Term(rules, term.fields), nodes)
    return every_node(nodes) if term.labels else ~every_node(nodes)
