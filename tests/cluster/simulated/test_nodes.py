"""Which node takes a pod."""

import pytest

from elasticd.cluster.simulated.nodes import Claim, NodePool
from elasticd.model.pod_spec import Needs
from elasticd.model.workload import Node

GI = 2**30


def _node(name: str, cpu: float, memory: float, pods: int = 110) -> Node:
    return Node(name, name, True, allocatable={"cpu": cpu, "memory": memory * GI, "pods": float(pods)})


def _claim(cpu: int, memory: int) -> Claim:
    return Claim(Needs(), {"pods": 1, "cpu": cpu, "memory": memory})


@pytest.mark.parametrize(
    ("nodes", "needs", "taken"),
    [
        pytest.param([_node("a", 4, 8), _node("b", 4, 8)], [(1000, GI)] * 3, ["a", "b", "a"], id="in turn when alike"),
        pytest.param(
            [_node("a", 4, 8), _node("b", 8, 16)],
            [(2000, GI)] * 3,
            ["a", "b", "b"],
            id="by fraction, not amount",
        ),
        pytest.param([_node("a", 1, 8), _node("b", 4, 8)], [(2000, GI)], ["b"], id="only where cpu suffices"),
        pytest.param([_node("a", 4, 1), _node("b", 4, 8)], [(100, 2 * GI)], ["b"], id="only where memory suffices"),
        pytest.param([_node("a", 9, 9, 1), _node("b", 1, 9)], [(1, 1)] * 2, ["a", "b"], id="not beyond the pods"),
        pytest.param([_node("a", 1, 1)], [(700, 0), (301, 0), (300, 0)], ["a", "", "a"], id="to the last thousandth"),
        pytest.param([_node("a", 9, 9, 1)], [(0, 0)] * 2, ["a", ""], id="a pod without requests takes a place"),
    ],
)
def test_pod_goes_to_the_least_requested_node_that_fits(
    nodes: list[Node], needs: list[tuple[int, int]], taken: list[str]
) -> None:
    room = NodePool(nodes)
    assert [room.take(_claim(*need)) for need in needs] == taken


def test_node_is_judged_only_by_what_it_holds_now() -> None:
    room = NodePool([_node("a", 4, 8), _node("b", 4, 8)])
    taken = [room.take(_claim(1000, 2 * GI)), room.take(_claim(1000, 2 * GI))]
    room.give("a", _claim(1000, 2 * GI))
    assert [*taken, room.take(_claim(2000, 4 * GI)), room.take(_claim(1, 1))] == ["a", "b", "a", "b"]


def test_what_is_given_back_can_be_taken_again() -> None:
    room = NodePool([_node("a", 0.3, 1)])
    for _ in range(1000):
        assert [room.take(_claim(100, 7)) for _ in range(4)] == ["a", "a", "a", ""]
        for _ in range(3):
            room.give("a", _claim(100, 7))
