"""What a pod that found no place is told would have to change."""

from collections.abc import Mapping

import numpy as np
import pytest
from msgspec.structs import replace

from elasticd.columns import Columns
from elasticd.model import Pod
from elasticd.placements import Selection
from elasticd.placing.lack import lacking
from elasticd.placing.look import Found
from tests.pools import GIB, columns, node, pod

BIG, SMALL = node("big", cpu=4), node("small", cpu=2)
ON_BIG, ON_SMALL = pod("x", cpu=4, on="big"), pod("y", cpu=1.4, on="small")
NEAREST = "small is nearest: pods that stay there would have to request 400m cpu less"


def told(
    view: Columns,
    waiting: Pod,
    curable: bool = True,
    bound: Selection | None = None,
    mends: dict[str, int] | None = None,
    yields: Mapping[str, int] | None = None,
) -> str:
    """What is said of nodes that are all curable, or none of which is."""
    none = np.zeros(len(view.names), dtype=np.bool_)
    return lacking(view, waiting, Found(none, none | curable, {}, bound, mends=mends or {}), yields or {})


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        pytest.param(1, 1, NEAREST, id="the least lack"),
        pytest.param(1, 9 * GIB, NEAREST.replace("cpu", "cpu and 1.1Gi memory"), id="two"),
        pytest.param(0.5, 1, "small has room: what else is in the way there would have to leave it", id="a port"),
    ],
)
def test_the_nearest_node_is_named_with_what_it_lacks(cpu: float, memory: float, expected: str) -> None:
    view = columns([BIG, SMALL], [ON_BIG, ON_SMALL])
    assert told(view, pod("p", cpu=cpu, memory=memory)) == expected


def test_a_binding_that_no_node_matches_is_named() -> None:
    bound = Selection(np.array([False]), "hostname in [node4]")
    assert told(columns([BIG]), pod("p"), bound=bound) == "a node would have to match hostname in [node4]"


def test_where_labels_are_in_the_way_everywhere_nothing_is_claimed() -> None:
    assert told(columns([BIG]), pod("p"), curable=False) == ""


def test_an_empty_pool_is_said_to_be_empty() -> None:
    assert told(columns([]), pod("p")).endswith("it has none")


def test_a_request_that_no_node_can_meet_is_named() -> None:
    found = told(columns([BIG, SMALL]), pod("p", cpu=9), curable=False)
    assert found == "it requests 9 cpu, and no node has more than 4"


def test_where_a_node_has_room_what_filters_would_have_otherwise_is_told_first() -> None:
    mends = {"keep_free.cpu of strategy filters is less than 3": 1}
    found = told(columns([BIG]), pod("p", cpu=2), mends=mends)
    assert found.startswith("keep_free.cpu of strategy filters is less than 3 (1 node); or big has room: ")


def test_what_filters_would_have_otherwise_is_told_by_how_many_nodes_it_helps() -> None:
    mends = {"nodes are uncordoned": 1, "it tolerates {x: y}": 2}
    found = told(columns([BIG]), pod("p"), curable=False, mends=mends)
    assert found == "it tolerates {x: y} (2 nodes); or nodes are uncordoned (1 node)"


def test_what_would_let_others_give_way_is_told_beside_what_is_missing() -> None:
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
    nearest = "big is nearest: pods that stay there would have to request 200m cpu less"
    assert told(view, pod("p", cpu=0.2)) == nearest


def test_a_node_that_will_have_room_is_told_as_such() -> None:
    view = columns([BIG], [replace(ON_BIG, deleted=True)])
    assert told(view, pod("p", cpu=1)) == "big has room once those that are leaving it have left"
