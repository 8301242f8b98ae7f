"""Filters: which nodes cannot take a pod, and why, in kube-scheduler's words.

Knows what a pod asks for, and what nodes are and have left; knows nothing of which of them is better, and nothing of
what its plan does about those that are full.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial, reduce
from itertools import chain
from typing import Annotated, ClassVar, Literal

import numpy as np

from elasticd.api import (
    LARGEST,
    Derived,
    Disk,
    Expression,
    Mask,
    Meta,
    Needs,
    Node,
    Nodes,
    Pod,
    Port,
    Refusal,
    Repel,
    Strategy,
    Struct,
    Taint,
    Term,
    Toleration,
    Whole,
    field,
    format_amount,
    hookimpl,
    needed,
    parse_quantity,
    whole,
)

Part = Literal[
    "unschedulable", "not-ready", "taints", "affinity", "ports", "resources", "pods", "disks", "anti-affinity"
]

CORDONED = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
FAILED = Taint("node.kubernetes.io/not-ready", "NoSchedule")
_SIGNS = (FAILED.key, "node.kubernetes.io/unreachable")

HOST = "kubernetes.io/hostname"
"""The label that says a node's name."""

NAMED = 20
"""Taints that are named with what they keep off, those of most nodes first; the others share a reason."""


class Filters(Strategy, tag="filters", frozen=True):
    """Refuses the nodes that kube-scheduler would refuse: without it a pod goes anywhere.

    The order is that of kube-scheduler's plugins NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts,
    NodeResourcesFit, VolumeRestrictions and, of InterPodAffinity, what pods that are there keep off. The first that
    refuses a node gives the reason; NodeResourcesFit gives one for each resource that does not suffice. Pods that are
    being deleted still take their room. Pods on nodes outside the pool are not seen, so that they keep off none.

    Two things are stricter, or milder. A node whose Ready is not True is refused also before its taint has come, unless
    the pod tolerates that taint. A pod that does not ask for a resource is not refused where that is overcommitted, as
    in current versions; 1.20 refused it.
    """

    keeps_off: ClassVar[bool] = True

    skip: Annotated[
        tuple[Part, ...],
        Meta(description="filters that are off; without resources or pods nodes may be filled beyond what they have"),
    ] = ()
    keep_free: Annotated[
        dict[str, str],
        Meta(description='of each node, by resource, what pods placed here leave free ("500m", "1Gi")'),
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what is no amount."""
        for resource, amount in self.keep_free.items():
            try:
                kept = parse_quantity(amount)
            except ValueError as error:
                raise ValueError(f"keep_free.{resource}: {error}") from None
            if kept < 0:
                raise ValueError(f"keep_free.{resource}: must be >= 0, is {amount!r}")
            if whole(resource, kept) >= LARGEST:
                most = "1T" if resource == "cpu" else "1P"
                raise ValueError(f"keep_free.{resource}: must be < {most}, is {amount!r}")

    def reads(self) -> tuple[str, ...]:
        """None: requests alone count."""
        return ()

    @hookimpl
    def filter_nodes(self, pod: Pod, nodes: Nodes) -> Sequence[Refusal]:
        """A refusal for each reason. Where no node is refused, none."""
        unfit = [one for one in self._unfit(pod.needs, nodes) if one.nodes.any()]
        stages = [list(stage(pod, nodes)) for stage in (self._ports, self._shortages, self._disks, self._repelled)]
        if not unfit and not any(stages):
            return []
        alone = _once([one.nodes for one in chain(unfit, *stages)], nodes)
        refusals: list[Refusal] = []
        left = _all(nodes)
        for one in unfit:
            refusals += _told(one, one.nodes & left, alone)
            left = left & ~one.nodes
        return refusals + _full(stages, left, alone)

    def _unfit(self, needs: Needs, nodes: Nodes) -> Iterator["_Lack"]:
        """Nodes that no room would make fit, and what would."""
        if "unschedulable" not in self.skip and needs.tolerates((CORDONED,)):
            cordoned = nodes.matching("filters: cordoned", _cordoned)
            yield _Lack("node(s) were unschedulable", cordoned, mend=_always("nodes are uncordoned"))
        if "not-ready" not in self.skip and needs.tolerates((FAILED,)):
            failed = nodes.matching("filters: failed", _failed)
            yield _Lack("node(s) were not ready", failed, mend=_always("nodes get ready"))
        if "taints" not in self.skip:
            for reason, mask, last in _untolerated(needs.tolerations, nodes.nodes):
                told = f"it tolerates {reason.partition('taint ')[2] or 'their taints'}"
                yield _Lack(reason, mask, mend=partial(_on, told, last))
        if "affinity" not in self.skip and (needs.selector or needs.affinity is not None):
            text = "node(s) didn't match Pod's node affinity/selector"
            yield _Lack(text, ~_wanted(needs, nodes), mend=partial(_relabelled, needs, nodes))

    def _ports(self, pod: Pod, nodes: Nodes) -> Iterator["_Lack"]:
        if pod.needs.ports and "ports" not in self.skip:
            clash = _any((_port_taken(one, nodes) for one in pod.needs.ports), _all(nodes))
            yield _Lack("node(s) didn't have free ports for the requested pod ports", clash, _all(nodes))

    def _shortages(self, pod: Pod, nodes: Nodes) -> Iterator["_Lack"]:
        for resource, amount in needed(pod).items():
            if amount <= 0 or ("pods" if resource == "pods" else "resources") in self.skip:
                continue
            most, before = self._most(resource, nodes), nodes.requested(resource)
            short = before > _room((resource, amount), most)
            if not short.any():
                continue
            reason = "Too many pods" if resource == "pods" else f"Insufficient {resource}"
            less = None if resource == "pods" else partial(_at_most, _LESS, resource, most, before)
            if resource not in self.keep_free:
                yield _Lack(reason, short, most >= amount, less)
                continue
            wanted, whole = before + amount, nodes.allocatable(resource)
            missing, kept = {resource: wanted - most}, short & (wanted <= whole)
            yield _Lack(reason, short & ~kept, most >= amount, less, missing)
            told = f"{reason} (keep_free keeps {self.keep_free[resource]})"
            fewer = partial(_at_most, _KEEP, resource, whole, wanted, least=0)
            yield _Lack(told, kept, most >= amount, fewer, missing)

    def _disks(self, pod: Pod, nodes: Nodes) -> Iterator["_Lack"]:
        if pod.needs.disks and "disks" not in self.skip:
            clash = _any((_disk_taken(one, nodes) for one in pod.needs.disks), _all(nodes))
            yield _Lack("node(s) had no available disk", clash, _all(nodes))

    def _repelled(self, pod: Pod, nodes: Nodes) -> Iterator["_Lack"]:
        if "anti-affinity" in self.skip:
            return
        rules = [one for one in nodes.repels() if one[1].keeps_off(one[0], pod.namespace, pod.labels)]
        if rules:
            found = [_near(home, rule, nodes) for home, rule in rules]
            near = _any((near for near, _ in found), _all(nodes))
            theirs = _any((near & ~own for near, own in found), near)
            yield _Lack("node(s) didn't satisfy existing pods anti-affinity rules", near, ~theirs)

    def _most(self, resource: str, nodes: Nodes) -> Whole:
        """What pods may request of it, of each node."""
        kept = self.keep_free.get(resource)
        found = nodes.allocatable(resource)
        return found if kept is None else _free((resource, _amount(resource, kept)), found)


class _Lack(Struct, frozen=True, eq=False):
    """Nodes that lack something; all nodes that would have it if they were empty, None: it is no matter of room; and
    what would mend it. `mend` takes nodes where nothing else is in the way, and says in a clause what would have to be
    otherwise, and for which of them that would do. `missing`: see Refusal."""

    reason: str
    nodes: Mask
    curable: Mask | None = None
    mend: Callable[[Mask], tuple[str, Mask]] | None = None
    missing: Mapping[str, Whole] = {}


def _on(mend: str, able: Mask, nodes: Mask) -> tuple[str, Mask]:
    """The same for all of them that are able to be mended so."""
    return mend, nodes & able


def _always(mend: str) -> Callable[[Mask], tuple[str, Mask]]:
    """The same for all."""
    return lambda nodes: (mend, nodes)


_LESS, _KEEP = "it requests at most {0} {1}", "keep_free.{1} of strategy filters is at most {0}"


def _at_most(mend: str, resource: str, most: Whole, before: Whole, nodes: Mask, *, least: int = 1) -> tuple[str, Mask]:
    """By an amount, the largest that would do anywhere: what lies between these two, which is `least` at least."""
    room = np.where(nodes, most - before, -1)
    found = int(room.max())
    if found < least:
        return "", nodes
    return mend.format(format_amount(resource, found, up=False), resource), room == found


def _full(stages: Sequence[Sequence[_Lack]], left: Mask, alone: Mask) -> list[Refusal]:
    """Of the nodes that are left, those where pods are in the way. Of a node that lacks several things, one of
    which fewer pods would not mend, nothing is curable."""
    refusals: list[Refusal] = []
    lacks = [one for stage in stages for one in stage]
    hopeless = _any((one.nodes & ~one.curable for one in lacks if one.curable is not None), left)
    for stage in filter(None, stages):
        for one in stage:
            nodes = one.nodes & left
            refusals += _told(one, nodes & ~hopeless, alone, curable=True)
            refusals += _told(one, nodes & hopeless, alone)
        left = left & ~_any((one.nodes for one in stage), left)
    return refusals


def _told(lack: _Lack, nodes: Mask, alone: Mask, *, curable: bool = False) -> Iterator[Refusal]:
    """Those that its mend would do for apart from those where something else is in the way too."""
    if not nodes.any():
        return
    if lack.mend is not None and (helped := nodes & alone).any():
        mend, helped = lack.mend(helped)
        yield Refusal(lack.reason, helped, curable=curable, mend=mend, missing=lack.missing)
        nodes = nodes & ~helped
    if nodes.any():
        yield Refusal(lack.reason, nodes, curable=curable, missing=lack.missing)


def _once(masks: Sequence[Mask], nodes: Nodes) -> Mask:
    """The nodes that one of these has, and no other."""
    once, more = _any(masks[:1], _all(nodes)), ~_all(nodes)
    for mask in masks[1:]:
        more |= once & mask
        once |= mask
    return once & ~more


def _cordoned(node: Node) -> bool:
    return node.unschedulable


def _failed(node: Node) -> bool:
    """Whether it is not ready and has no taint yet that says so."""
    return not node.ready and all(one.key not in _SIGNS or one.effect != "NoSchedule" for one in node.taints)


def _taints(tolerations: tuple[Toleration, ...], nodes: tuple[Node, ...]) -> tuple[tuple[str, Mask, Mask], ...]:
    """By the first taint of each node that is not tolerated, the nodes, and those of which it is the only one."""
    needs, where, last = Needs(tolerations=tolerations), dict[str, list[int]](), dict[str, list[int]]()
    known: dict[tuple[Taint, ...], tuple[str, bool]] = {(): ("", False)}
    for index, node in enumerate(nodes):
        if node.taints not in known:
            known[node.taints] = _repelling(needs, node.taints)
        reason, only = known[node.taints]
        if reason:
            where.setdefault(reason, []).append(index)
        if only:
            last.setdefault(reason, []).append(index)
    named = sorted(where, key=lambda reason: (-len(where[reason]), reason))
    others = [index for reason in named[NAMED:] for index in where[reason]]
    found = [(reason, where[reason], last.get(reason, [])) for reason in named[:NAMED]]
    found += [("node(s) had untolerated taint(s)", others, others)] if others else []
    size = len(nodes)
    return tuple((reason, _mask(size, indices), _mask(size, only)) for reason, indices, only in found)


_untolerated = Derived(_taints, most=256)


def _repelling(needs: Needs, taints: tuple[Taint, ...]) -> tuple[str, bool]:
    """Why these keep a pod off, and whether only the first of them that does."""
    first = needs.tolerates(taints)
    if first is None:
        return "", False
    return f"node(s) had untolerated taint {{{first}}}", needs.tolerates(tuple(set(taints) - {first})) is None


def _mask(size: int, indices: Sequence[int]) -> Mask:
    found = np.zeros(size, dtype=np.bool_)
    found[list(indices)] = True
    return found


def _wanted(needs: Needs, nodes: Nodes) -> Mask:
    """The nodes that selector and affinity ask for. A mask is kept for each rule, not for each combination of them."""
    found = np.ones(len(nodes.names), dtype=np.bool_)
    for key, value in needs.selector.items():
        found &= _having(Expression(key, "In", (value,)), nodes)
    if needs.affinity is not None:
        found &= _any((_term(term, nodes) for term in needs.affinity), found)
    return found


def _relabelled(needs: Needs, view: Nodes, nodes: Mask) -> tuple[str, Mask]:
    """What labels would make nodes match, and which: a node's name, and the label that says it, stay."""
    able = nodes
    if HOST in needs.selector:
        able = able & _having(Expression(HOST, "In", (needs.selector[HOST],)), view)
    if needs.affinity is not None:
        able = able & _any((_named(term, view) for term in needs.affinity), nodes)
        return f"nodes have the labels of its {'nodeSelector and ' if needs.selector else ''}node affinity", able
    return f"nodes get the labels {', '.join(f'{key}={value}' for key, value in needs.selector.items())}", able


def _named(term: Term, nodes: Nodes) -> Mask:
    """The nodes whose names a term allows."""
    rules = tuple(rule for rule in term.labels if rule.key == HOST)
    if rules or term.fields:
        return _term(Term(rules, term.fields), nodes)
    return _all(nodes) if term.labels else ~_all(nodes)


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


def _port_taken(port: Port, nodes: Nodes) -> Mask:
    return nodes.holding(("filters", port), lambda other: any(map(port.clashes, other.needs.ports)))


def _disk_taken(disk: Disk, nodes: Nodes) -> Mask:
    return nodes.holding(("filters", disk), lambda other: any(map(disk.clashes, other.needs.disks)))


def _near(home: str, rule: Repel, nodes: Nodes) -> tuple[Mask, Mask]:
    """The nodes where pods of a namespace keep others off by a rule; and those where only the node's own pods do."""
    holding = nodes.holding(
        ("filters", home, rule), lambda other: other.namespace == home and rule in other.needs.repels
    )
    places = _places(rule.topology, nodes.nodes)
    holders = np.bincount(places[holding], minlength=len(places) + 1)
    holders[0] = 0
    near = holders[places]
    return near > 0, near == holding


def _values(label: str, nodes: tuple[Node, ...]) -> Whole:
    """A number for each value of a label, from 1 on, and 0 for none."""
    numbers: dict[str | None, int] = {None: 0}
    values = (node.labels.get(label) for node in nodes)
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)


_places = Derived(_values, most=64)


def _less(amount: tuple[str, int], of: Whole) -> Whole:
    return of - amount[1]


_free = Derived(_less, most=16)
_room = Derived(_less, most=64)
"""What others may request beside an amount: many pods request the same."""


def _all(nodes: Nodes) -> Mask:
    return np.ones(len(nodes.names), dtype=np.bool_)


def _any(masks: Iterable[Mask], like: Mask) -> Mask:
    return reduce(np.logical_or, masks, np.zeros_like(like))


@lru_cache
def _amount(resource: str, quantity: str) -> int:
    return whole(resource, parse_quantity(quantity))


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    """The filters."""
    return [Filters]
