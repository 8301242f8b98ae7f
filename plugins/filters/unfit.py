"""What no room on a node would mend: that it is cordoned or not ready, its taints, and its labels.

Knows nodes' own records; knows nothing of pods on them.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from elasticd.api import Expression, Mask, Mend, Needs, Node, Nodes, Taint, Term, Toleration
from elasticd.kit import Derived, whole_number

from .lacks import Mended, all_of, any_of

CORDONED = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
FAILED = Taint("node.kubernetes.io/not-ready", "NoSchedule")
SIGNS = frozenset({FAILED.key, "node.kubernetes.io/unreachable"})
"""Keys of the taints that say that a node is not ready."""

HOST = "kubernetes.io/hostname"
"""The label that says a node's name."""

NAMED = 20
"""Taints that are named with what they keep off, those of most nodes first; the others share a reason."""

READY = "nodes get ready"


def cordoned(node: Node) -> bool:
    """Whether it is to get no pods."""
    return node.unschedulable


def failed(node: Node) -> bool:
    """Whether it is not ready and has no taint yet that says so."""
    return not node.ready and all(one.key not in SIGNS or one.effect != "NoSchedule" for one in node.taints)


State = frozenset[str]
"""Keys of taints of which nothing is told where the node's own state is told: it is cordoned, or not ready."""


def _tainted(asked: tuple[tuple[Toleration, ...], State], nodes: tuple[Node, ...]) -> tuple[tuple[str, str, Mask], ...]:
    """By the first taint of each node that is not tolerated, and by what would do: the nodes."""
    tolerations, told = asked
    needs, where = Needs(tolerations=tolerations), dict[str, dict[str, list[int]]]()
    known: dict[tuple[tuple[Taint, ...], bool, bool], tuple[str, str] | None] = {}
    for index, node in enumerate(nodes):
        key = node.taints, node.unschedulable, node.ready
        if node.taints and key not in known:
            known[key] = _repelling(needs, node, told)
        if found := known.get(key):
            reason, mend = found
            where.setdefault(reason, {}).setdefault(mend, []).append(index)
    named = sorted(where, key=lambda reason: (-sum(map(len, where[reason].values())), reason))
    others = [index for reason in named[NAMED:] for indices in where[reason].values() for index in indices]
    size = len(nodes)
    groups = [(reason, mend, _mask(size, at)) for reason in named[:NAMED] for mend, at in where[reason].items()]
    if others:
        groups.append(("node(s) had untolerated taint(s)", "it tolerates their taints", _mask(size, others)))
    return tuple(groups)


tainted = Derived(_tainted, most=256)


def _repelling(needs: Needs, node: Node, told: State) -> tuple[str, str] | None:
    """Why a node's taints keep a pod off, and what would do, empty where that is not one thing; None: they do not, or
    come with what is told of its state."""
    state = (told & {CORDONED.key} if node.unschedulable else frozenset()) | (
        told & SIGNS if failed(node) else frozenset()
    )
    keeping = [one for one in node.taints if one.key not in state and needs.tolerates((one,)) is not None]
    if not keeping:
        return None
    return f"node(s) had untolerated taint {{{keeping[0]}}}", _mend(node, keeping)


def _mend(node: Node, keeping: Sequence[Taint]) -> str:
    if not node.ready and all(one.key in SIGNS for one in keeping):
        return READY
    # One toleration without an effect is for all effects.
    return f"it tolerates {{{keeping[0]}}}" if len({(one.key, one.value) for one in keeping}) == 1 else ""


def _mask(size: int, indices: Sequence[int]) -> Mask:
    found = np.zeros(size, dtype=np.bool_)
    found[list(indices)] = True
    return found


def wanted(needs: Needs, nodes: Nodes) -> Mask:
    """The nodes that selector and affinity ask for. A mask is kept for each rule, not for each combination of them."""
    found = np.ones(len(nodes.names), dtype=np.bool_)
    for key, value in needs.selector.items():
        found &= _having(Expression(key, "In", (value,)), nodes)
    if needs.affinity is not None:
        found &= any_of((_term(term, nodes) for term in needs.affinity), found)
    return found


def relabelled(needs: Needs, view: Nodes) -> Mended:
    """What labels would make nodes match, and which: a node's name, and the label that says it, stay."""
    able = all_of(view)
    if HOST in needs.selector:
        able = able & _having(Expression(HOST, "In", (needs.selector[HOST],)), view)
    if needs.affinity is not None:
        terms = [term for term in needs.affinity if _possible(needs.selector, term)]
        able = able & any_of((_named(term, view) for term in terms), able)
        both = "nodeSelector and " if needs.selector else ""
        return (Mend(f"nodes have the labels of its {both}node affinity"),), able
    labels = ", ".join(f"{key}={value}" for key, value in needs.selector.items())
    return (Mend(f"nodes get the labels {labels}"),), able


def _possible(selector: Mapping[str, str], term: Term) -> bool:
    """Whether any labels are such as a selector and a term ask for."""
    by_key = {key: [rule for rule in term.labels if rule.key == key] for key in {rule.key for rule in term.labels}}
    return all(
        any(all(rule.matches(labels) for rule in rules) for labels in _tried(selector, key, rules))
        for key, rules in by_key.items()
    )


def _tried(selector: Mapping[str, str], key: str, rules: Sequence[Expression]) -> Iterator[Mapping[str, str]]:
    """A label with values of which one is right, if any is, and without."""
    if key in selector:
        yield selector
        return
    yield {}
    for rule in rules:
        step = {"Gt": 1, "Lt": -1}.get(rule.operator, 0)
        for value in rule.values or ("any",):
            mark = whole_number(value) if step else None
            yield {key: value if mark is None else str(mark + step)}


def _named(term: Term, nodes: Nodes) -> Mask:
    """The nodes whose names a term allows."""
    rules = tuple(rule for rule in term.labels if rule.key == HOST)
    if rules or term.fields:
        return _term(Term(rules, term.fields), nodes)
    return all_of(nodes) if term.labels else ~all_of(nodes)


def _term(term: Term, nodes: Nodes) -> Mask:
    found = np.full(len(nodes.names), bool(term.labels or term.fields), dtype=np.bool_)
    for rule in term.labels:
        found &= _having(rule, nodes)
    for rule in term.fields:
        found &= _called(rule, nodes)
    return found


def _having(rule: Expression, nodes: Nodes) -> Mask:
    return nodes.matching(("filters: label", rule), lambda node: rule.matches(node.labels))


def _called(rule: Expression, nodes: Nodes) -> Mask:
    """Looked up and not kept: there are as many names as nodes."""
    found = np.full(len(nodes.names), rule.operator == "NotIn" and rule.names(""), dtype=np.bool_)
    for value in rule.values:
        place = bisect_left(nodes.names, value)
        if nodes.names[place : place + 1] == (value,):
            found[place] = rule.names(value)
    return found
