"""What a pod that found no place is told would have to change."""

import numpy as np
import pytest

from elasticd.placements import Selection
from elasticd.placing.lack import lacking
from tests.pools import GIB, columns, node, pod

BIG, SMALL = node("big", cpu=4), node("small", cpu=2)
ON_BIG, ON_SMALL = pod("x", cpu=4, on="big"), pod("y", cpu=1.4, on="small")


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        pytest.param(1, 1, "small is nearest: pods there would have to request 400m cpu less", id="the least lack"),
        pytest.param(
            1, 9 * GIB, "small is nearest: pods there would have to request 400m cpu and 1.1Gi memory less", id="two"
        ),
        pytest.param(0.5, 1, "small has room: what else is in the way there would have to leave it", id="a port"),
    ],
)
def test_the_nearest_node_is_named_with_what_it_lacks(cpu: float, memory: float, expected: str) -> None:
    view = columns([BIG, SMALL], [ON_BIG, ON_SMALL])
    assert lacking(view, pod("p", cpu=cpu, memory=memory), np.array([True, True]), None) == expected


def test_a_binding_that_no_node_matches_is_named() -> None:
    bound = Selection(np.array([False]), "hostname in [node4]")
    assert (
        lacking(columns([BIG]), pod("p"), np.array([True]), bound) == "a node would have to match hostname in [node4]"
    )


def test_where_labels_are_in_the_way_everywhere_nothing_is_claimed() -> None:
    assert lacking(columns([BIG]), pod("p"), np.array([False]), None) == ""


def test_an_empty_pool_is_said_to_be_empty() -> None:
    assert lacking(columns([]), pod("p"), np.array([], dtype=np.bool_), None).endswith("it has none")


def test_a_request_that_no_node_can_meet_is_named() -> None:
    found = lacking(columns([BIG, SMALL]), pod("p", cpu=9), np.array([False, False]), None)
    assert found == "it requests 9 cpu, and no node has more than 4"


def test_where_a_node_has_room_what_filters_would_have_otherwise_is_told_first() -> None:
    mends = {"keep_free.cpu of strategy filters is less than 3": 1}
    found = lacking(columns([BIG]), pod("p", cpu=2), np.array([True]), None, mends)
    assert found.startswith("keep_free.cpu of strategy filters is less than 3 (1 node); or big has room: ")


def test_what_filters_would_have_otherwise_is_told_by_how_many_nodes_it_helps() -> None:
    mends = {"nodes are uncordoned": 1, "it tolerates {x: y}": 2}
    found = lacking(columns([BIG]), pod("p"), np.array([False]), None, mends)
    assert found == "it tolerates {x: y} (2 nodes); or nodes are uncordoned (1 node)"
