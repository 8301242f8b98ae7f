"""Filters by the pods that are there: topology spread constraints, inter-pod affinity and anti-affinity."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from elasticd.api import Expression, Node, Pod, PodTerm, Taint, TopologySpread
from elasticd.kit.node_table import NodeTable, NodeTableBuilder
from elasticd_plugins.filters import Filters
from elasticd_plugins.filters.neighbours import APART, ATTRACTED, REPELLED, SPREAD, UNKNOWN, UNLABELLED
from tests.kit.pools import columns, node, planned, pod

WEB, DB = ({"app": name} for name in ("web", "db"))
IS_WEB, IS_DB = ((Expression("app", "In", (name,)),) for name in ("web", "db"))
ZONES = [node(name, labels={"zone": name[0]}) for name in ("a1", "a2", "b1", "c1")] + [node("none")]
EVEN = TopologySpread("zone", 1, IS_WEB)
OPS = (Expression("team", "In", ("ops",)),)


def on(**counts: int) -> list[Pod]:
    """So many pods of the app web on these nodes."""
    return [pod(f"{name}-{index}", on=name, labels=WEB) for name, count in counts.items() for index in range(count)]


def refused(asked: Pod, there: Sequence[Pod], nodes: Sequence[Node] = ZONES, **more: Any) -> dict[str, list[str]]:
    """The nodes that are refused, by reason; those that eviction would help have a mark."""
    view, found = table(nodes, there, **more), dict[str, list[str]]()
    for each in Filters().filter_nodes(asked, view):
        names = [name for name, refuses in zip(view.names, each.nodes, strict=True) if refuses]
        found.setdefault(each.reason, []).extend(f"{name}*" if each.curable else name for name in names)
    return {reason: sorted(names) for reason, names in found.items()}


def table(
    nodes: Sequence[Node], there: Sequence[Pod], namespaces: Mapping[str, Mapping[str, str]] | None = None
) -> NodeTable:
    by_node: dict[str, list[Pod]] = {}
    for each in there:
        by_node.setdefault(each.node, []).append(each)
    return NodeTableBuilder().columns(tuple(sorted(nodes, key=lambda each: each.name)), by_node, namespaces=namespaces)


SPREADS = [
    pytest.param(EVEN, on(a1=1), {}, ["a1*", "a2"], id="the zone with one more than the others"),
    pytest.param(EVEN, on(a1=1, a2=1), {}, ["a1", "a2"], id="one alone could not go to make room"),
    pytest.param(EVEN, on(a1=1, b1=1, c1=1), {}, [], id="as many everywhere"),
    pytest.param(TopologySpread("zone", 2, IS_WEB), on(a1=1), {}, [], id="a skew of two"),
    pytest.param(TopologySpread("zone", 1, IS_DB), on(a1=5), {}, [], id="other pods count"),
    pytest.param(TopologySpread("zone", 1, None), on(a1=5), {}, [], id="no pods count"),
    pytest.param(TopologySpread("zone", 1, ()), on(a1=5), {}, [], id="an empty selector"),
    pytest.param(
        TopologySpread("zone", 1, (), match_keys=("app",)), on(a1=1), {}, ["a1*", "a2"], id="pods with its own label"
    ),
    pytest.param(EVEN, on(a1=2), {"labels": DB}, ["a1*", "a2"], id="the pod itself does not count"),
    pytest.param(EVEN, on(a1=1), {"labels": DB}, [], id="the pod itself does not count, and there is room"),
    pytest.param(EVEN, [pod("x", on="a1", labels=WEB, deleted=True)], {}, [], id="one that is being deleted"),
    pytest.param(EVEN, [pod("x", on="a1", labels=WEB, namespace="other")], {}, [], id="one of another namespace"),
    pytest.param(EVEN, on(a1=1, b1=1), {"selector": {"zone": "a"}}, [], id="only zones that it may be in count"),
    pytest.param(
        TopologySpread("zone", 1, IS_WEB, honours_affinity=False),
        on(a1=1, b1=1),
        {"selector": {"zone": "a"}},
        ["a1*", "a2"],
        id="all zones count, by its policy",
    ),
    pytest.param(TopologySpread("zone", 1, IS_WEB, min_domains=4), on(a1=1, b1=1, c1=1), {},
                 ["a1*", "a2", "b1*", "c1*"], id="fewer zones than there must be"),
    pytest.param(TopologySpread("zone", 1, IS_WEB, match_keys=("hash",)), on(a1=1), {"labels": {**WEB, "hash": "2"}},
                 [], id="pods of another template"),
]  # fmt: skip


@pytest.mark.parametrize(("spread", "there", "asks", "nodes"), SPREADS)
def test_no_zone_gets_more_pods_than_the_skew_allows(
    spread: TopologySpread, there: list[Pod], asks: dict[str, Any], nodes: list[str]
) -> None:
    found = refused(pod("p", **{"labels": WEB, "spread": (spread,), **asks}), there)
    assert found.pop(UNLABELLED, ["none"]) == ["none"]
    assert found.pop(SPREAD, []) == nodes


def test_a_soft_constraint_refuses_nothing() -> None:
    soft = TopologySpread("zone", 1, IS_WEB, hard=False)
    assert refused(pod("p", labels=WEB, spread=(soft,)), on(a1=5)) == {}


def test_tainted_nodes_count_unless_the_policy_honours_taints() -> None:
    nodes = [*ZONES[:3], node("c1", labels={"zone": "c"}, taints=(Taint("gpu", "NoSchedule"),))]
    there = on(a1=1, b1=1)
    assert SPREAD in refused(pod("p", labels=WEB, spread=(EVEN,)), there, nodes)
    honours = TopologySpread("zone", 1, IS_WEB, honours_taints=True)
    assert SPREAD not in refused(pod("p", labels=WEB, spread=(honours,)), there, nodes)


TERM, OTHERS = PodTerm("zone", IS_WEB), PodTerm("zone", IS_WEB, ("other",))
ATTRACTIONS = [
    pytest.param((TERM,), on(a1=1), {}, ["b1", "c1", "none"], id="the zone of a pod"),
    pytest.param((TERM,), [], {}, ["a1", "a2", "b1", "c1", "none"], id="no such pod"),
    pytest.param((TERM,), [], {"labels": WEB}, ["none"], id="the first of its group goes anywhere"),
    pytest.param((TERM,), on(b1=1), {"labels": WEB}, ["a1", "a2", "c1", "none"], id="the second joins the first"),
    pytest.param((TERM, PodTerm("zone", IS_DB)), on(a1=1), {}, ["a1", "a2", "b1", "c1", "none"], id="one of two terms"),
    pytest.param((OTHERS,), on(a1=1), {}, ["a1", "a2", "b1", "c1", "none"], id="of another namespace"),
    pytest.param((TERM, PodTerm("kubernetes.io/hostname", IS_WEB)), on(a1=1), {}, ["a2", "b1", "c1", "none"],
                 id="two labels of nodes"),
]  # fmt: skip


@pytest.mark.parametrize(("terms", "there", "asks", "nodes"), ATTRACTIONS)
def test_a_pod_goes_near_the_pods_that_its_affinity_selects(
    terms: tuple[PodTerm, ...], there: list[Pod], asks: dict[str, Any], nodes: list[str]
) -> None:
    assert refused(pod("p", attracts=terms, **asks), there) == {ATTRACTED: nodes}


REPULSIONS = [
    pytest.param(TERM, on(a1=1), ["a1*", "a2"], id="the zone of a pod"),
    pytest.param(TERM, on(a1=1, a2=1), ["a1", "a2"], id="pods on two nodes of a zone"),
    pytest.param(TERM, [pod("x", on="none", labels=WEB)], [], id="a pod in no zone"),
    pytest.param(OTHERS, on(a1=1), [], id="of another namespace"),
    pytest.param(PodTerm("kubernetes.io/hostname", IS_WEB), on(a1=2), ["a1*"], id="its own node"),
]


@pytest.mark.parametrize(("term", "there", "nodes"), REPULSIONS)
def test_anti_affinity_keeps_a_pod_away_from_others(term: PodTerm, there: list[Pod], nodes: list[str]) -> None:
    assert refused(pod("p", repels=(term,)), there) == ({APART: nodes} if nodes else {})


BY_LABELS = PodTerm("zone", IS_WEB, (), OPS)


def test_namespaces_are_selected_by_their_labels() -> None:
    there = [pod("x", on="a1", labels=WEB, namespace="tools"), pod("y", on="b1", labels=WEB, namespace="shop")]
    namespaces = {"tools": {"team": "ops"}, "shop": {}}
    assert refused(pod("p", repels=(BY_LABELS,)), there, namespaces=namespaces) == {APART: ["a1*", "a2"]}
    asked = pod("p", labels=WEB, namespace="tools")
    repelling = [pod("x", on="a1", repels=(BY_LABELS,))]
    assert refused(asked, repelling, namespaces=namespaces) == {REPELLED: ["a1*", "a2"]}
    assert refused(asked, repelling, namespaces={"tools": {}}) == {}


def test_a_pod_waits_while_labels_of_namespaces_are_not_known() -> None:
    names = sorted(each.name for each in ZONES)
    assert refused(pod("p", repels=(BY_LABELS,)), [])[UNKNOWN] == names
    keeps_all_off = [pod("x", on="a1", repels=(BY_LABELS,))]
    assert refused(pod("p", labels=WEB, namespace="any"), keeps_all_off) == {REPELLED: ["a1*", "a2"]}


def test_pods_of_one_plan_spread_and_keep_apart() -> None:
    apart = PodTerm("kubernetes.io/hostname", IS_WEB)
    waiting = [pod(f"p{index}", labels=WEB, spread=(EVEN,), repels=(apart,)) for index in range(5)]
    decisions = planned([Filters()], columns(ZONES), waiting)
    assert sorted(decision.node for decision in decisions) == ["", "a1", "a2", "b1", "c1"]


def test_pods_of_one_plan_stay_together() -> None:
    waiting = [pod(f"p{index}", labels=WEB, attracts=(TERM,)) for index in range(4)]
    decisions = planned([Filters()], columns(ZONES), waiting)
    assert len({decision.node[0] for decision in decisions}) == 1


@pytest.mark.parametrize(
    ("asks", "mend"),
    [
        pytest.param({"spread": (TopologySpread("rack", 1, ()),)}, "nodes get the label rack (5 nodes)", id="a label"),
        pytest.param({"attracts": (TERM,)}, "pods that its affinity selects run there (5 nodes)", id="others"),
        pytest.param(
            {"repels": (BY_LABELS,)},
            "labels of namespaces can be read (right to list and watch namespaces) (5 nodes)",
            id="labels of namespaces",
        ),
    ],
)
def test_it_is_told_what_would_have_to_change(asks: dict[str, Any], mend: str) -> None:
    (decision,) = planned([Filters()], columns(ZONES), [pod("p", **asks)])
    assert (decision.verdict, decision.mend) == ("wait", mend)
