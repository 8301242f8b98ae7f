"""The limit `capacity`: requests against what nodes have left."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.api import Container, Node, Observation, Pod, Room
from elasticd.limits.capacity import Capacity
from elasticd.testing import check_strategy, judge
from tests.kit.plugins.builders import Wants, decode, seen

HALF = {"cpu": 0.5, "memory": 100.0}


def pod(
    name: str, node: str = "", requests: dict[str, float] | None = None, started: float | None = None, **more: Any
) -> Pod:
    containers = (Container("main", HALF if requests is None else requests),)
    return Pod(
        "shop", name, name, "Running" if node else "Pending", node, containers=containers, started=started, **more
    )


def free(cpu: float, pods: float = 110, memory: float = 1e6, **node: Any) -> Room:
    found = Node(**{"name": "n", "uid": "n", "ready": True, **node})
    return Room(found, {"cpu": cpu, "memory": memory, "pods": pods})


def shown(replicas: int, pods: tuple[Pod, ...], *rooms: Room) -> Observation:
    return replace(seen(replicas, pods), rooms=rooms)


TWO = (pod("a", "n1", started=1.0), pod("b", "n1", started=2.0))


@pytest.mark.parametrize(
    ("replicas", "pods", "rooms", "highest"),
    [
        pytest.param(2, TWO, [free(1.0)], 4, id="two more of half a core in one core"),
        pytest.param(2, TWO, [free(1.0), free(0.7)], 5, id="each node by itself: 0.2 here and 0.3 there carry none"),
        pytest.param(2, TWO, [free(0.4)], 2, id="no room: the current count, never less"),
        pytest.param(2, TWO, [free(-1.0)], 2, id="an overcommitted node owes nothing"),
        pytest.param(2, TWO, [free(8.0, pods=1)], 3, id="the node's own limit of pods"),
        pytest.param(2, TWO, [free(8.0, memory=150.0)], 3, id="the scarcest resource counts"),
        pytest.param(2, TWO, [free(8.0, ready=False)], 2, id="a node that is not ready carries none"),
        pytest.param(2, TWO, [free(8.0, unschedulable=True)], 2, id="nor one that is cordoned"),
        pytest.param(3, (*TWO, pod("c")), [free(1.0)], 4, id="a pod that waits takes its room first"),
        pytest.param(5, TWO, [free(1.0)], 5, id="so do those that are yet to be made"),
        pytest.param(2, (*TWO, pod("c", "n1", started=3.0)), [free(1.0)], 4, id="a rollout's surplus is no room"),
        pytest.param(2, (*TWO, pod("c", "n1", {"cpu": 2.0}, 3.0, deleted=True)), [free(1.0)], 4, id="one that goes"),
        pytest.param(2, (TWO[0], pod("b", "n1", {"cpu": 1.0}, 2.0)), [free(1.0)], 3, id="the newest tells requests"),
        pytest.param(2, (pod("a", "n1", {"cpu": 1.0}), TWO[1]), [free(1.0)], 3, id="one not begun is newer"),
        pytest.param(2, (pod("a", "n1", {"gpu": 1.0}), pod("b", "n1", {"gpu": 1.0})), [free(9.0)], 2, id="none has it"),
        pytest.param(1, (pod("a", "n1", {}),), [free(0.0, pods=3)], 4, id="without requests the pods' number is left"),
        pytest.param(1, (pod("a", "n1", {"cpu": 0.1}),), [free(0.1 + 0.2)], 4, id="sums of fractions are not short"),
        pytest.param(1, (pod("a", "n1", {"cpu": 0.0}),), [free(0.0, pods=2)], 3, id="a request of 0 is none"),
    ],
)
def test_it_grows_as_far_as_the_nodes_carry(
    replicas: int, pods: tuple[Pod, ...], rooms: list[Room], highest: int
) -> None:
    limit = Capacity().limit(shown(replicas, pods, *rooms))
    assert limit is not None
    assert (limit.lowest, limit.highest, limit.reason) == (None, highest, "NoCapacity")


@pytest.mark.parametrize(
    ("replicas", "pods", "rooms", "message"),
    [
        pytest.param(0, (), [free(1.0)], "no pod tells what one requests, so that it does not limit", id="no pods"),
        pytest.param(2, TWO, [], "no nodes are known, so that it does not limit", id="no nodes"),
    ],
)
def test_what_is_unknown_does_not_limit_and_is_said(
    replicas: int, pods: tuple[Pod, ...], rooms: list[Room], message: str
) -> None:
    limit = Capacity().limit(shown(replicas, pods, *rooms))
    assert limit is not None
    assert (limit.lowest, limit.highest, limit.reason, limit.message) == (None, None, "CapacityUnknown", message)
    grown = judge(Wants(replicas=9), seen=shown(max(replicas, 1), pods, *rooms), limits=[Capacity()])
    assert grown.replicas == 9


def test_only_nodes_with_the_labels_count() -> None:
    rooms = [free(1.0, labels={"pool": "batch", "zone": "a"}), free(9.0, labels={"pool": "web"}), free(9.0)]
    limits = [Capacity(nodes=nodes).limit(shown(2, TWO, *rooms)) for nodes in ({"pool": "batch"}, {"pool": "gone"})]
    assert [limit.highest for limit in limits if limit] == [4, 2]


def test_it_says_how_much_room_there_is() -> None:
    limit = Capacity().limit(shown(3, (*TWO, pod("c")), free(1.0)))
    assert limit is not None
    assert limit.message == "room for 2 more pods (cpu 0.5, memory 100); 1 wait for a node"


def test_a_decision_stops_where_no_node_could_carry_more() -> None:
    found = judge(Wants(replicas=9), seen=shown(2, TWO, free(1.0)), limits=[Capacity()])
    assert (found.verdict, found.replicas) == ("scale", 4)
    full = judge(Wants(replicas=9), seen=shown(2, TWO, free(0.1)), limits=[Capacity()])
    assert (full.verdict, full.reason) == ("hold", "NoCapacity")
    assert judge(Wants(replicas=1), seen=shown(2, TWO, free(0.1)), limits=[Capacity()]).replicas == 1


def test_a_table_of_labels_that_are_no_texts_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"nodes"):
        decode(Capacity, nodes={"pool": 3})


def test_nothing_confuses_it() -> None:
    assert Capacity().looks_at_nodes
    assert check_strategy(Capacity()) == []


AMOUNTS = some.integers(1, 40)


@given(
    sizes=some.lists(AMOUNTS, min_size=1, max_size=6),
    request=AMOUNTS,
    current=some.integers(0, 20),
    placed=some.integers(1, 20),
)
def test_what_it_allows_fits_node_by_node(sizes: list[int], request: int, current: int, placed: int) -> None:
    """Filling the nodes pod by pod comes to the same."""
    nodes = [
        Node(f"n{index}", str(index), True, allocatable={"cpu": size / 10, "pods": 8.0})
        for index, size in enumerate(sizes)
    ]
    pods = tuple(pod(f"p{index}", "elsewhere", {"cpu": request / 10}, 1.0) for index in range(placed))
    fill: dict[str, list[Pod]] = {node.name: [] for node in nodes}
    fitted = 0
    for node in nodes:
        while len(fill[node.name]) < 8 and (len(fill[node.name]) + 1) * request <= round(node.allocatable["cpu"] * 10):
            fill[node.name].append(pod(f"{node.name}-{len(fill[node.name])}", node.name, {"cpu": request / 10}))
            fitted += 1
    limit = Capacity().limit(shown(current, pods, *(Room.of(node, ()) for node in nodes)))
    full = Capacity().limit(shown(current, pods, *(Room.of(node, fill[node.name]) for node in nodes)))
    assert limit is not None
    assert full is not None
    assert limit.highest == current + max(0, fitted - max(0, current - placed))
    assert full.highest == current
