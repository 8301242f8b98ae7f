"""Filters on random pools: as a plain look at one node after the other, and never more than a node has."""

from collections.abc import Sequence
from math import inf
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.api import (
    Disk,
    Expression,
    Node,
    Nodes,
    Pod,
    PodTerm,
    Port,
    Scores,
    Strategy,
    Taint,
    Term,
    Toleration,
    TopologySpread,
    hookimpl,
)
from elasticd.kit import needed, whole
from elasticd.kit.node_table import NodeTable
from elasticd_plugins.filters import Filters
from elasticd_plugins.filters.neighbours import SPREAD, UNLABELLED
from tests.kit.pools import GIB, columns, node, planned, pod

pytestmark = pytest.mark.slow

KEYS, VALUES, NUMBERS = ("zone", "disk"), ("a", "b", "ssd"), ("1", "2", "x")
NAMES = ("n0", "n1", "n2", "n3", "n4")
OUTSIDE = "outside"
"""A label of nodes that are not of the pool."""

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
GPU = "example.com/gpu"

cores = some.sampled_from((0.0, 0.1, 0.3, 0.5, 1.0, 2.5))
bytes_ = some.sampled_from((0.0, 1.0, GIB / 2, GIB, 3 * GIB))
gpus = some.one_of(some.just({}), some.builds(lambda count: {GPU: count}, some.sampled_from((0.0, 1.0, 2.0))))
taints = some.lists(
    some.builds(Taint, some.sampled_from(KEYS), some.sampled_from(EFFECTS), some.sampled_from(VALUES)), max_size=2
).map(tuple)
tolerations = some.lists(
    some.one_of(
        some.builds(
            Toleration,
            some.sampled_from(KEYS),
            some.sampled_from(("Equal", "Exists")),
            some.sampled_from(VALUES),
            some.sampled_from(("", *EFFECTS)),
        ),
        some.just(Toleration("", "Exists")),
        some.just(Toleration("node.kubernetes.io/not-ready", "Exists")),
    ),
    max_size=2,
).map(tuple)
rules = some.one_of(
    some.builds(
        Expression,
        some.sampled_from(KEYS),
        some.sampled_from(("In", "NotIn")),
        some.lists(some.sampled_from(VALUES), min_size=1, max_size=2).map(tuple),
    ),
    some.builds(Expression, some.sampled_from(KEYS), some.sampled_from(("Exists", "DoesNotExist"))),
    some.builds(
        Expression, some.just("cores"), some.sampled_from(("Gt", "Lt")), some.tuples(some.sampled_from(NUMBERS))
    ),
)
names = some.builds(
    Expression, some.just("metadata.name"), some.sampled_from(("In", "NotIn")), some.tuples(some.sampled_from(NAMES))
)
terms = some.builds(
    Term, some.lists(rules, max_size=2).map(tuple), some.one_of(some.just(()), some.tuples(names), some.just(()))
)
ports = some.lists(
    some.builds(
        Port,
        some.sampled_from((80, 81)),
        some.sampled_from(("TCP", "UDP")),
        some.sampled_from(("", "0.0.0.0", "10.0.0.1", "10.0.0.2")),
    ),
    max_size=2,
).map(tuple)
disks = some.lists(
    some.builds(Disk, some.sampled_from(("gce", "ebs")), some.sampled_from("de"), some.booleans(), some.booleans()),
    max_size=1,
).map(tuple)
pod_terms = some.lists(
    some.builds(
        PodTerm,
        some.sampled_from((*KEYS, "kubernetes.io/hostname")),
        some.sampled_from((None, (), (Expression("app", "In", ("a",)),))),
        some.sampled_from((None, (), ("shop",), ("other",))),
    ),
    max_size=2,
).map(tuple)
spreads = some.lists(
    some.builds(
        TopologySpread,
        some.sampled_from((*KEYS, "kubernetes.io/hostname")),
        some.integers(1, 2),
        some.sampled_from((None, (), (Expression("app", "In", ("a",)),))),
        some.sampled_from((True, True, False)),
        some.integers(1, 3),
        some.sampled_from(((), ("app",))),
        some.booleans(),
        some.booleans(),
    ),
    max_size=2,
).map(tuple)


@some.composite
def nodes_of(draw: some.DrawFn) -> list[Node]:
    return [
        node(
            name,
            cpu=draw(cores),
            memory=draw(bytes_),
            pods=draw(some.integers(0, 4)),
            resources=draw(gpus),
            labels=draw(some.dictionaries(some.sampled_from(KEYS), some.sampled_from(VALUES)))
            | draw(some.one_of(some.just({}), some.builds(lambda value: {"cores": value}, some.sampled_from(NUMBERS)))),
            taints=draw(taints),
            unschedulable=draw(some.sampled_from((False, False, False, True))),
        )
        for name in draw(some.lists(some.sampled_from(NAMES), unique=True))
    ]


@some.composite
def pods_of(draw: some.DrawFn, prefix: str, places: Sequence[str] = ("",)) -> list[Pod]:
    return [
        pod(
            f"{prefix}{index}",
            cpu=draw(cores),
            memory=draw(bytes_),
            on=draw(some.sampled_from(places)),
            resources=draw(gpus),
            selector=draw(some.dictionaries(some.sampled_from(KEYS), some.sampled_from(VALUES), max_size=1)),
            affinity=draw(some.one_of(some.none(), some.none(), some.lists(terms, max_size=2).map(tuple))),
            tolerations=draw(tolerations),
            ports=draw(ports),
            disks=draw(disks),
            repels=draw(some.one_of(some.just(()), pod_terms)),
            attracts=draw(some.one_of(some.just(()), some.just(()), pod_terms)),
            spread=draw(some.one_of(some.just(()), spreads)),
            labels=draw(some.dictionaries(some.just("app"), some.sampled_from(VALUES))),
            priority=draw(some.integers(0, 2)),
        )
        for index in range(draw(some.integers(0, 6)))
    ]


@some.composite
def pools(draw: some.DrawFn) -> tuple[list[Node], list[Pod], list[Pod]]:
    """Nodes, pods on them and pods that wait."""
    nodes = draw(nodes_of())
    there = draw(pods_of("on", [one.name for one in nodes])) if nodes else []
    return nodes, there, draw(pods_of("new"))


def has(one: Node, resource: str) -> int:
    return whole(resource, one.allocatable.get(resource, 0.0))


def taken(pods: Sequence[Pod], resource: str) -> int:
    return sum(needed(one).get(resource, 0) for one in pods)


def share_ports(asked: Pod, there: Sequence[Pod]) -> bool:
    return any(port.clashes(other) for one in there for other in one.needs.ports for port in asked.needs.ports)


def share_disks(asked: Pod, there: Sequence[Pod]) -> bool:
    return any(disk.clashes(other) for one in there for other in one.needs.disks for disk in asked.needs.disks)


def repelled(asked: Pod, one: Node, nodes: Sequence[Node], pods: Sequence[Pod]) -> bool:
    labels = {node.name: node.labels for node in nodes}
    return any(
        rule.keeps_off(other.namespace, asked.namespace, asked.labels)
        and rule.topology in one.labels
        and labels[other.node].get(rule.topology) == one.labels[rule.topology]
        for other in pods
        for rule in other.needs.repels
    )


def is_near(asked: Pod, one: Node, nodes: Sequence[Node], pods: Sequence[Pod], terms: Sequence[PodTerm]) -> list[bool]:
    """For each of these terms of the pod, whether the node is near a pod that all of them select."""
    labels = {node.name: node.labels for node in nodes}
    chosen = [
        labels[other.node]
        for other in pods
        if all(term.selects(asked.namespace, other.namespace, other.labels) for term in terms)
    ]
    return [
        term.topology in one.labels and any(has.get(term.topology) == one.labels[term.topology] for has in chosen)
        for term in terms
    ]


def attracted(asked: Pod, one: Node, nodes: Sequence[Node], pods: Sequence[Pod]) -> bool:
    terms = asked.needs.attracts
    if all(is_near(asked, one, nodes, pods, terms)):
        return True
    anywhere = any(any(is_near(asked, other, nodes, pods, terms)) for other in nodes)
    selects_itself = all(term.selects(asked.namespace, asked.namespace, asked.labels) for term in terms)
    return not anywhere and selects_itself and all(term.topology in one.labels for term in terms)


def too_near(asked: Pod, one: Node, nodes: Sequence[Node], pods: Sequence[Pod]) -> bool:
    return any(is_near(asked, one, nodes, pods, (term,))[0] for term in asked.needs.repels)


def hard(asked: Pod) -> list[TopologySpread]:
    return [spread for spread in asked.needs.spread if spread.hard]


def skew(asked: Pod, spread: TopologySpread, one: Node, nodes: Sequence[Node], pods: Sequence[Pod]) -> float:
    """By the rule of the API: the pods there and the pod itself, less those where there are fewest. Values that no node
    of the pool has are left out as if a node affinity excluded them."""
    needs, rules = asked.needs, spread.selector(asked.labels)

    def counts(labels: dict[str, str]) -> bool:
        return rules is not None and all(rule.matches(labels) for rule in rules)

    def counts_beside(labels: dict[str, str]) -> bool:
        return bool(rules) and counts(labels)

    by_value: dict[str, int] = {}
    domains = set[str]()
    for each in nodes:
        left_out = (
            (spread.honours_affinity and not needs.wants(each.name, each.labels))
            or (spread.honours_taints and needs.tolerates(each.taints) is not None)
            or any(other.topology not in each.labels for other in hard(asked))
        )
        if not left_out:
            here = [other for other in pods if other.node == each.name and other.namespace == asked.namespace]
            value = each.labels[spread.topology]
            by_value[value] = by_value.get(value, 0) + sum(counts_beside(other.labels) for other in here)
            if OUTSIDE not in each.labels or not spread.honours_affinity:
                domains.add(value)
    numbers = [number for value, number in by_value.items() if value in domains]
    fewest = 0 if len(domains) < spread.min_domains else min(numbers, default=inf)
    own = one.labels.get(spread.topology)
    return by_value.get(own, 0) + counts(asked.labels) - fewest if own is not None else 0


def reasons(asked: Pod, one: Node, nodes: Sequence[Node], pods: Sequence[Pod]) -> set[str]:
    """What is said of one node, filter by filter, written down without a thought for speed."""
    there = [other for other in pods if other.node == one.name]
    needs, cordoned = asked.needs, Taint("node.kubernetes.io/unschedulable", "NoSchedule")
    taint = needs.tolerates(one.taints)
    stages = (
        {"node(s) were unschedulable"} if one.unschedulable and needs.tolerates((cordoned,)) else set(),
        {f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"} if taint else set(),
        set() if needs.wants(one.name, one.labels) else {"node(s) didn't match Pod's node affinity/selector"},
        {UNLABELLED} if any(spread.topology not in one.labels for spread in hard(asked)) else set(),
        set() if attracted(asked, one, nodes, pods) else {"node(s) didn't match pod affinity rules"},
        {"node(s) didn't have free ports for the requested pod ports"} if share_ports(asked, there) else set(),
        {
            "Too many pods" if resource == "pods" else f"Insufficient {resource}"
            for resource, amount in needed(asked).items()
            if amount > 0 and taken(there, resource) + amount > has(one, resource)
        },
        {"node(s) had no available disk"} if share_disks(asked, there) else set(),
        {SPREAD} if any(skew(asked, each, one, nodes, pods) > each.max_skew for each in hard(asked)) else set(),
        {"node(s) didn't match pod anti-affinity rules"} if too_near(asked, one, nodes, pods) else set(),
        {"node(s) didn't satisfy existing pods anti-affinity rules"} if repelled(asked, one, nodes, pods) else set(),
    )
    anti_affinity = set[str]().union(*stages[-2:])
    return next((stage for stage in stages[:-2] if stage), anti_affinity)


def split(nodes: Sequence[Node], there: Sequence[Pod]) -> NodeTable:
    """A pool of the nodes without the label OUTSIDE, among the others."""
    view = columns([each for each in nodes if OUTSIDE not in each.labels], there)
    if others := [each for each in nodes if OUTSIDE in each.labels]:
        view.outside = columns(others, there)
    return view


@given(pools(), some.sets(some.sampled_from(NAMES)))
def test_all_nodes_at_once_are_as_one_after_the_other(
    pool: tuple[list[Node], list[Pod], list[Pod]], outside: set[str]
) -> None:
    nodes, there, new = pool
    nodes = [replace(each, labels=each.labels | {OUTSIDE: ""}) if each.name in outside else each for each in nodes]
    view, filters = split(nodes, there), Filters()
    for asked in new:
        refusals = filters.filter_nodes(asked, view)
        for index, one in enumerate(view.nodes):
            others = [other for other in there if other.node != one.name]
            said = [refusal for refusal in refusals if refusal.nodes[index]]
            assert {refusal.reason for refusal in said} == reasons(asked, one, nodes, there)
            assert len({refusal.reason for refusal in said}) == len(said), "a node is counted once for each reason"
            if said and not asked.needs.attracts:
                curable = all(refusal.curable for refusal in said)
                assert curable is (reasons(asked, one, nodes, others) == set()), (
                    "curable: it would fit if the node were empty"
                )


apps = some.sampled_from(({"app": "a"}, {"app": "a"}, {"app": "b"}))
some_terms = some.one_of(some.just(()), some.just(()), pod_terms)


@some.composite
def neighbourhoods(draw: some.DrawFn) -> tuple[list[Node], list[Pod], Pod]:
    """Nodes with labels, some outside the pool, pods on them that differ in labels and anti-affinity alone, and a pod
    with terms about such pods."""
    zones, places = some.sampled_from("ab"), some.sampled_from(NAMES)
    nodes = [
        node(name, labels={"zone": draw(zones), "disk": draw(zones)} | ({OUTSIDE: ""} if draw(some.booleans()) else {}))
        for name in NAMES
    ]
    there = [
        pod(f"on{index}", on=draw(places), labels=draw(apps), repels=draw(some_terms))
        for index in range(draw(some.integers(1, 5)))
    ]
    asked: dict[str, Any] = {"spread": draw(spreads), "attracts": draw(some_terms), "repels": draw(some_terms)}
    return nodes, there, pod("new", labels=draw(apps), **asked)


@given(neighbourhoods())
def test_pods_outside_a_pool_count_for_the_terms_of_others(board: tuple[list[Node], list[Pod], Pod]) -> None:
    nodes, there, asked = board
    view = split(nodes, there)
    refusals = Filters().filter_nodes(asked, view)
    for index, one in enumerate(view.nodes):
        said = {refusal.reason for refusal in refusals if refusal.nodes[index]}
        assert said == reasons(asked, one, nodes, there)


class Wild(Strategy, tag="wild", frozen=True):
    """Scores by place, whatever there is."""

    scores: tuple[float, ...]

    @hookimpl
    def score_nodes(self, nodes: Nodes) -> Scores:
        places = len(nodes.names)
        return Scores(np.resize(np.array(self.scores, dtype=np.float64), places))


wild = some.builds(
    lambda scores: Wild(scores=tuple(scores)),
    some.lists(some.one_of(some.just(float("nan")), some.floats(-1e9, 1e9)), min_size=1, max_size=5),
)


@given(pools(), wild)
def test_whatever_scores_say_no_node_is_overfilled(pool: tuple[list[Node], list[Pod], list[Pod]], scores: Wild) -> None:
    nodes, there, new = pool
    by_uid = {one.uid: one for one in new}
    bound: dict[str, list[Pod]] = {}
    for decision in planned([Filters(), scores], columns(nodes, there), new):
        if decision.verdict == "bind":
            bound.setdefault(decision.node, []).append(by_uid[decision.uid])
    for one in nodes:
        came, here = bound.get(one.name, []), [other for other in there if other.node == one.name]
        for resource in {name for other in came for name, amount in needed(other).items() if amount > 0}:
            assert taken([*here, *came], resource) <= has(one, resource)
        for index, asked in enumerate(came):
            assert not share_ports(asked, [*here, *came[:index]])
            assert not share_disks(asked, [*here, *came[:index]])
        if came:
            assert len(here) + len(came) <= has(one, "pods")


@given(pools(), wild, some.sets(some.sampled_from(NAMES)))
def test_a_pod_waits_only_where_no_node_would_take_it(
    pool: tuple[list[Node], list[Pod], list[Pod]], scores: Wild, outside: set[str]
) -> None:
    nodes, there, new = pool
    nodes = [replace(each, labels=each.labels | {OUTSIDE: ""}) if each.name in outside else each for each in nodes]
    by_uid = {one.uid: one for one in new}
    for decision in planned([Filters(), scores], split(nodes, there), new):
        asked = by_uid[decision.uid]
        inside = [one for one in nodes if OUTSIDE not in one.labels]
        fits = [one.name for one in inside if not reasons(asked, one, nodes, there)]
        assert (decision.verdict == "bind") is bool(fits)
        if fits:
            assert decision.node in fits
            there = [*there, replace(asked, node=decision.node)]


@given(pools(), wild, some.randoms())
def test_equal_pools_give_equal_plans(
    pool: tuple[list[Node], list[Pod], list[Pod]], scores: Wild, chance: Random
) -> None:
    nodes, there, new = pool
    first = planned([Filters(), scores], columns(nodes, there), new)
    for some_list in (nodes, there, new):
        chance.shuffle(some_list)
    assert repr(planned([scores, Filters()], columns(nodes, there), new)) == repr(first)
