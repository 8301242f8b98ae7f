"""What a pod that found no place is told would have to change."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from elasticd.api import Disk, Expression, Port, Repel, Term
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.filter_score import UNBOUND, Filtered
from elasticd.decision.pool.remedies import lacking
from elasticd.kit.bindings import BindingRule, LabelRule
from elasticd.kit.node_table import NodeTable
from elasticd.model.placement import Mend, PoolObservation, Refusal, Selection
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.model.workload import Pod
from elasticd.registry import Hooks
from elasticd_plugins.binding import BindingRules
from elasticd_plugins.filters import Filters
from tests.kit.pools import GIB, NOW, columns, node, planned, pod

BIG, SMALL = node("big", cpu=4), node("small", cpu=2)
ON_BIG, ON_SMALL = pod("x", cpu=4, on="big"), pod("y", cpu=1.4, on="small")
ONCE = "big is nearest: once those that are leaving it have left"
NEAREST = "small is nearest: pods that stay there would have to request 400m cpu less"


def told(
    view: NodeTable,
    waiting: Pod,
    curable: bool = True,
    bound: Selection | None = None,
    said: Sequence[Refusal] = (),
    yields: Mapping[str, int] | None = None,
    fits: bool = False,
) -> str:
    """What is said of nodes that are all curable, or none of which is."""
    none = np.zeros(len(view.names), dtype=np.bool_)
    case = PoolCase(
        PoolPolicy(name="pool", pool=PoolSelect(), strategies=()), PoolObservation(NOW, (waiting,)), view, Hooks(())
    )
    return lacking(case, Filtered(waiting, none | fits, none | curable, {}, bound, refusals=tuple(said)), yields or {})


def refusal(mend: str, *nodes: bool, **more: Any) -> Refusal:
    return Refusal("why", np.array(nodes), mends=(Mend(mend),), **more)


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        pytest.param(1, 1, NEAREST, id="the least lack"),
        pytest.param(1, 9 * GIB, NEAREST.replace("cpu", "cpu and 1088Mi memory"), id="two"),
        pytest.param(0.5, 1, "small has room: what else is in the way there would have to leave it", id="a port"),
    ],
)
def test_the_nearest_node_is_named_with_what_it_lacks(cpu: float, memory: float, expected: str) -> None:
    view = columns([BIG, SMALL], [ON_BIG, ON_SMALL])
    assert told(view, pod("p", cpu=cpu, memory=memory)) == expected


def test_a_binding_that_no_node_matches_is_named() -> None:
    bound = Selection(np.array([False]), "hostname in [node4]")
    expected = "a node would have to match hostname in [node4]"
    assert told(columns([BIG]), pod("p"), bound=bound, fits=True) == expected
    assert told(columns([BIG]), pod("p"), bound=bound) == f"{expected}, and to be fit for it otherwise"


def test_binding_that_does_not_count_need_not_be_matched() -> None:
    bound = Selection(np.array([False]), "d in [ssd]; zone in [z] (left out)", match="d in [ssd]")
    assert told(columns([BIG]), pod("p"), bound=bound, fits=True) == "a node would have to match d in [ssd]"


def test_weak_binding_without_matching_node_is_not_the_obstacle() -> None:
    bound = Selection(np.array([False]), "zone in [z]", "any")
    said = [refusal("nodes are uncordoned", True)]
    assert told(columns([BIG]), pod("p"), curable=False, bound=bound, said=said) == "nodes are uncordoned (1 node)"


def test_where_labels_are_in_the_way_everywhere_nothing_is_claimed() -> None:
    assert told(columns([BIG]), pod("p"), curable=False) == ""


def test_an_empty_pool_is_said_to_be_empty() -> None:
    assert told(columns([]), pod("p")).endswith("it has none")


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        pytest.param(9, 1, "it requests 9 cpu, and no node has more than 4", id="more than any has"),
        pytest.param(
            3.5, 20 * GIB, "no node has as much as it requests of everything at once", id="more than any has together"
        ),
        pytest.param(3.5, 1, "", id="what one has"),
    ],
)
def test_a_request_that_no_node_can_meet_is_named(cpu: float, memory: float, expected: str) -> None:
    nodes = [BIG, node("large", cpu=1, memory=64 * GIB)]
    assert told(columns(nodes), pod("p", cpu=cpu, memory=memory), curable=False) == expected


def test_shortage_reported_by_a_filter_outweighs_the_requests_of_pods() -> None:
    view = columns([BIG], [pod("x", cpu=1, on="big"), pod("z", cpu=1, on="big", deleted=True)])
    keeps = Refusal("why", np.array([True]), curable=True, missing={"cpu": np.array([1500])})
    nearest = f"{ONCE}, pods that stay there would have to request 500m cpu less"
    assert told(view, pod("p", cpu=2.5), said=[keeps]) == nearest


@pytest.mark.parametrize(
    ("said", "bound", "expected"),
    [
        pytest.param(
            [refusal("nodes get ready", True, False), refusal("it tolerates {x: }", False, True)],
            None,
            "it tolerates {x: } (1 node); or nodes get ready (1 node)",
            id="each where it alone is in the way",
        ),
        pytest.param(
            [refusal("nodes get ready", True, True), refusal("it tolerates {x: }", False, True)],
            None,
            "nodes get ready (1 node)",
            id="and not where something else is too",
        ),
        pytest.param(
            [refusal("nodes get ready", True, True), refusal("it tolerates {x: }", True, True)],
            None,
            "no one thing alone would do",
            id="where several things are in the way everywhere",
        ),
        pytest.param(
            [refusal("it tolerates {x: }", True, False), refusal("nodes get ready", False, True)],
            Selection(np.array([True, False]), "d in [ssd]"),
            "it tolerates {x: } (1 node)",
            id="on the nodes to which it is bound",
        ),
        pytest.param(
            [refusal("it tolerates {x: }", True, False), refusal("nodes get ready", False, True)],
            Selection(np.array([True, False]), "d in [ssd]", full="any"),
            "it tolerates {x: } (1 node); or nodes get ready (1 node)",
            id="or on all, where that does not bind",
        ),
    ],
)
def test_what_would_do_alone_is_reported_by_how_many_nodes(
    said: list[Refusal], bound: Selection | None, expected: str
) -> None:
    assert told(columns([BIG, SMALL]), pod("p"), curable=False, bound=bound, said=said) == expected


def test_a_node_that_fits_may_be_made_to_match() -> None:
    bound = Selection(np.array([True, False]), "d in [ssd]")
    unbound = Refusal(UNBOUND, np.array([False, True]), mends=(Mend("nodes match"),))
    said = [Refusal("closed", np.array([True, False])), unbound]
    assert told(columns([BIG, SMALL]), pod("p"), curable=False, bound=bound, said=said) == "nodes match (1 node)"


def test_remedy_for_preemption_is_reported_beside_what_is_missing() -> None:
    view = columns([SMALL], [ON_SMALL])
    found = told(view, pod("p", cpu=1), yields={"PodDisruptionBudget shop/b lets more of its pods go": 1})
    assert found == f"{NEAREST}; or PodDisruptionBudget shop/b lets more of its pods go (1 node)"


@pytest.mark.parametrize("seen", [True, False], ids=["seen to leave", "told to leave"])
def test_pods_that_are_leaving_are_not_asked_to_request_less(seen: bool) -> None:
    going = pod("z", cpu=3, on="big")
    view = columns([BIG, SMALL], [pod("y", cpu=2, on="small"), pod("x", cpu=1, on="big"), replace(going, deleted=seen)])
    if not seen:
        assert view.leave(view.names.index("big"), going.uid)
    view.take(view.names.index("big"), pod("preemptor", cpu=3))
    nearest = f"{ONCE}, pods that stay there would have to request 200m cpu less"
    assert told(view, pod("p", cpu=0.2)) == nearest


def test_a_node_that_will_have_room_is_told_as_such() -> None:
    view = columns([BIG], [replace(ON_BIG, deleted=True)])
    assert told(view, pod("p", cpu=1)) == "big has room once those that are leaving it have left"


LEFT = "once those that are leaving it have left"
PORT: dict[str, Any] = {"ports": (Port(80),)}
LESS, LEAVES = "pods that stay there would have to request 400m cpu less", "what else is in the way there would have to"


def said(waiting: Pod, *there: Pod, **more: Any) -> str:
    """Of a node of two cores and ten pods, with the filters."""
    (decision,) = planned([Filters(**more)], columns([node("n", cpu=2, pods=10)], there), [waiting])
    return decision.mend


@pytest.mark.parametrize(
    ("there", "waiting", "expected"),
    [
        pytest.param(
            [pod("x", 1.4, on="n", **PORT)], pod("p", 1), f"n is nearest: {LESS}", id="a port that nobody wants"
        ),
        pytest.param(
            [pod("x", 1.4, on="n", **PORT)],
            pod("p", 1, **PORT),
            f"n is nearest: {LESS}, and {LEAVES} leave it",
            id="a port too",
        ),
        pytest.param(
            [pod("x", 1.4, on="n"), pod("y", 0, on="n", disks=(Disk("rbd", "v"),))],
            pod("p", 1, disks=(Disk("rbd", "v"),)),
            f"n is nearest: {LESS}, and {LEAVES} leave it",
            id="a disk, which is looked at last",
        ),
        pytest.param(
            [pod("x", 1.4, on="n"), pod("y", 0, on="n", repels=(Repel("zone", (Expression("a", "Exists"),)),))],
            pod("p", 1, labels={"b": ""}),
            f"n is nearest: {LESS}",
            id="one that keeps others off",
        ),
        pytest.param(
            [pod("x", 1, on="n", **PORT), pod("y", 1, on="n", deleted=True)],
            pod("p", 1, **PORT),
            f"n has room {LEFT}: {LEAVES} leave it",
            id="a port of one that stays beside one that leaves",
        ),
        pytest.param(
            [pod("x", 1, on="n", deleted=True, **PORT)],
            pod("p", 1.5, **PORT),
            f"n has room {LEFT}",
            id="a port of one that leaves",
        ),
        pytest.param(
            [pod(f"x{index}", 0.1, on="n") for index in range(10)],
            pod("p", 0.1),
            "n is nearest: 1 pod there would have to leave",
            id="too many pods",
        ),
        pytest.param(
            [pod(f"x{index}", 0.2, on="n", deleted=index == 0) for index in range(11)],
            pod("p", 0.4),
            f"n is nearest: {LEFT}, 1 pod there would have to leave besides, and {LESS} with those that leave",
            id="too many pods and too much, beside one that leaves",
        ),
    ],
)
def test_all_obstacles_of_the_nearest_node_are_reported(there: list[Pod], waiting: Pod, expected: str) -> None:
    assert said(waiting, *there).split("; or ")[0] == expected


def test_the_nearest_node_is_one_that_lacks_only_amounts() -> None:
    view = columns([node("a", cpu=2), node("b", cpu=2)], [pod("x", 1.4, on="a", **PORT), pod("y", 1.6, on="b")])
    (decision,) = planned([Filters()], view, [pod("p", 1, **PORT)])
    assert decision.mend.startswith("b is nearest: pods that stay there would have to request 600m cpu less")


def test_keep_free_counts_even_if_a_port_is_also_missing() -> None:
    there = [pod("x", 0, on="n", **PORT), pod("y", 1.95, on="n")]
    nearest = "n is nearest: pods that stay there would have to request 750m cpu less"
    assert said(pod("p", 0.1, **PORT), *there, keep_free={"cpu": "700m"}) == f"{nearest}, and {LEAVES} leave it"


@pytest.mark.parametrize(
    ("options", "asks", "mend"),
    [
        pytest.param({}, 4, "it requests at most 500m cpu (1 node)", id="a request"),
        pytest.param(
            {"keep_free": {"cpu": "3"}},
            0.1,
            "keep_free.cpu of strategy filters is at most 400m (1 node)",
            id="keep_free",
        ),
    ],
)
def test_largest_amount_is_that_of_nodes_a_binding_allows(options: dict[str, Any], asks: float, mend: str) -> None:
    rule = BindingRule(expressions=(LabelRule("disk", "in", ("ssd",)),))
    nodes = [node("a", cpu=0.5, labels={"disk": "ssd"}), node("b", cpu=2)]
    (decision,) = planned([Filters(**options), BindingRules(rules=(rule,))], columns(nodes), [pod("p", asks)])
    assert decision.mend == mend


def test_request_too_large_for_the_bound_nodes_is_reported() -> None:
    bound = Selection(np.array([False, True]), "d in [ssd]")
    found = told(columns([BIG, SMALL]), pod("p", cpu=3), curable=False, bound=bound)
    assert found == "it requests 3 cpu, and no node to which it is bound has more than 2"


@pytest.mark.parametrize(
    "asks",
    [
        pytest.param({"selector": {"pool": "b"}}, id="a selector"),
        pytest.param({"affinity": (Term((Expression("pool", "NotIn", ("a",)),)),)}, id="an affinity"),
    ],
)
def test_labels_that_contradict_the_pool_are_not_asked_for(asks: dict[str, Any]) -> None:
    pool = PoolSelect(nodes={"pool": "a"})
    (decision,) = planned([Filters()], columns([node("n", labels={"pool": "a"})]), [pod("p", **asks)], pool=pool)
    told = "its nodeSelector or node affinity would have to allow nodes of the pool: all have pool=a"
    assert decision.mend == told
    also = pod("p", selector={"pool": "a", "disk": "ssd"})
    (decision,) = planned([Filters()], columns([node("n", labels={"pool": "a"})]), [also], pool=pool)
    assert decision.mend == "nodes get the labels pool=a, disk=ssd (1 node)"
