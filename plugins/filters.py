"""Filters: which nodes cannot take a pod, and why, in kube-scheduler's words.

Knows what a pod asks for, and what nodes are and have left; knows nothing of which of them is better, and nothing of
what its plan does about those that are full.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, reduce
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
        refusals: list[Refusal] = []
        left = np.ones(len(nodes.names), dtype=np.bool_)
        for reason, mask, mend in self._unfit(pod.needs, nodes):
            refused = left & mask
            if refused.any():
                refusals.append(Refusal(reason, refused, mend=mend))
                left &= ~refused
        return refusals + self._full(pod, nodes, left)

    def _unfit(self, needs: Needs, nodes: Nodes) -> Iterator[tuple[str, Mask, str]]:
        """Nodes that no room would make fit, and what would."""
        if "unschedulable" not in self.skip and needs.tolerates((CORDONED,)):
            yield "node(s) were unschedulable", nodes.matching("filters: cordoned", _cordoned), "nodes are uncordoned"
        if "not-ready" not in self.skip and needs.tolerates((FAILED,)):
            yield "node(s) were not ready", nodes.matching("filters: failed", _failed), "nodes get ready"
        if "taints" not in self.skip:
            for reason, mask in _untolerated(needs.tolerations, nodes.nodes):
                yield reason, mask, f"it tolerates {reason.partition('taint ')[2] or 'their taints'}"
        if "affinity" not in self.skip and (needs.selector or needs.affinity is not None):
            text = "node(s) didn't match Pod's node affinity/selector"
            yield text, ~_wanted(needs, nodes), "nodes get the labels that its nodeSelector and affinity ask for"

    def _full(self, pod: Pod, nodes: Nodes, left: Mask) -> list[Refusal]:
        """Of the nodes that are left, those where pods are in the way. Of a node that lacks several things, one of
        which fewer pods would not mend, nothing is curable."""
        refusals: list[Refusal] = []
        stages = [list(stage(pod, nodes)) for stage in (self._ports, self._shortages, self._disks, self._repelled)]
        if not any(stages):
            return []
        hopeless = _any((one.nodes & ~one.curable for stage in stages for one in stage), left)
        for stage in stages:
            for one in stage:
                refusals += _split(one, one.nodes & left, hopeless)
            left = left & ~_any((one.nodes for one in stage), left) if stage else left
        return refusals

    def _ports(self, pod: Pod, nodes: Nodes) -> Iterator["_Lack"]:
        if pod.needs.ports and "ports" not in self.skip:
            clash = _any((_port_taken(one, nodes) for one in pod.needs.ports), _all(nodes))
            yield _Lack("node(s) didn't have free ports for the requested pod ports", clash, _all(nodes))

    def _shortages(self, pod: Pod, nodes: Nodes) -> Iterator["_Lack"]:
        for resource, amount in needed(pod).items():
            if amount <= 0 or ("pods" if resource == "pods" else "resources") in self.skip:
                continue
            most, requested = self._most(resource, nodes), nodes.requested(resource)
            short = requested > _room((resource, amount), most)
            if not short.any():
                continue
            reason = "Too many pods" if resource == "pods" else f"Insufficient {resource}"
            kept = short & (requested + amount <= nodes.allocatable(resource))
            yield _Lack(reason, short & ~kept, most >= amount)
            if kept.any():
                amount_kept = self.keep_free[resource]
                mend = f"keep_free.{resource} of strategy filters is less than {amount_kept}"
                yield _Lack(f"{reason} (keep_free keeps {amount_kept})", kept, most >= amount, mend)

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
    """Nodes that lack something, and all nodes that would have it if they were empty; and what else would mend it."""

    reason: str
    nodes: Mask
    curable: Mask
    mend: str = ""


def _split(lack: _Lack, nodes: Mask, hopeless: Mask) -> list[Refusal]:
    """Those that fewer pods would mend apart from those that they would not."""
    parts = (
        Refusal(lack.reason, nodes & ~hopeless, curable=True, mend=lack.mend),
        Refusal(lack.reason, nodes & hopeless, mend=lack.mend),
    )
    return [part for part in parts if part.nodes.any()]


def _cordoned(node: Node) -> bool:
    return node.unschedulable


def _failed(node: Node) -> bool:
    """Whether it is not ready and has no taint yet that says so."""
    return not node.ready and all(one.key not in _SIGNS or one.effect != "NoSchedule" for one in node.taints)


def _taints(tolerations: tuple[Toleration, ...], nodes: tuple[Node, ...]) -> tuple[tuple[str, Mask], ...]:
    """By the first taint of each node that is not tolerated, the nodes."""
    needs, where = Needs(tolerations=tolerations), dict[str, list[int]]()
    known: dict[tuple[Taint, ...], str] = {(): ""}
    for index, node in enumerate(nodes):
        reason = known.get(node.taints)
        if reason is None:
            taint = needs.tolerates(node.taints)
            reason = known[node.taints] = "" if taint is None else f"node(s) had untolerated taint {{{taint}}}"
        if reason:
            where.setdefault(reason, []).append(index)
    named = sorted(where, key=lambda reason: (-len(where[reason]), reason))
    others = [index for reason in named[NAMED:] for index in where[reason]]
    found = [(reason, where[reason]) for reason in named[:NAMED]]
    found += [("node(s) had untolerated taint(s)", others)] if others else []
    return tuple((reason, _mask(len(nodes), indices)) for reason, indices in found)


_untolerated = Derived(_taints, most=256)


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
