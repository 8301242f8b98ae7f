"""What pods leave of nodes, whatever comes, changes and goes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.cluster.kubernetes.watch.store import Places, PodStore
from elasticd.model.workload import Container, Node, Pod, Room

NODE = Node("n", "n", True, allocatable={"cpu": 4.0, "memory": 100.0, "pods": 10.0})
NODES = (NODE, Node("m", "m", True, allocatable={"cpu": 2.0, "pods": 5.0}))


def pod(name: str = "a", node: str = "n", cpu: float = 1.0, phase: str = "Running", **more: Any) -> Pod:
    return Pod("shop", name, f"uid-{name}", phase, node, containers=(Container("main", {"cpu": cpu}),), **more)


@pytest.mark.parametrize(
    ("one", "free"),
    [
        pytest.param(pod(), {"cpu": 3.0, "memory": 100.0, "pods": 9.0}, id="what it requests"),
        pytest.param(pod(requests={"cpu": 0.5}), {"cpu": 3.5, "memory": 100.0, "pods": 9.0}, id="the pod's own first"),
        pytest.param(pod(deleted=True), {"cpu": 3.0, "memory": 100.0, "pods": 9.0}, id="until it is gone"),
        pytest.param(pod(cpu=9.0), {"cpu": -5.0, "memory": 100.0, "pods": 9.0}, id="more than there is"),
    ],
)
def test_a_pod_leaves(one: Pod, free: dict[str, float]) -> None:
    assert Room.of(NODE, [one]).free == free
    assert NODE.allocatable["cpu"] == 4.0


def test_requests_of_containers_add_up_and_unknown_resources_are_skipped() -> None:
    one = Pod(
        "shop", "a", "a", "Running", "n", containers=(Container("x", {"cpu": 1, "gpu": 1}), Container("y", {"cpu": 2}))
    )
    assert one.requested() == {"cpu": 3.0, "gpu": 1.0}
    assert Room.of(NODE, [one]).free == {"cpu": 1.0, "memory": 100.0, "pods": 9.0}


def test_the_same_rooms_are_given_while_nothing_changed() -> None:
    places = Places()
    places.change(None, pod())
    first = places.rooms(NODES)
    assert places.rooms(NODES) is first
    places.change(pod(), pod(phase="Pending", ready=True))
    assert places.rooms(NODES) is first, "a pod's readiness takes no room"
    places.change(None, pod("b", "m"))
    second = places.rooms(NODES)
    assert second[0] is first[0]
    assert (first[1].free["pods"], second[1].free["pods"]) == (5.0, 4.0)
    assert places.rooms((NODES[0],)) == (first[0],)


@pytest.mark.parametrize(
    ("old", "new", "cpu"),
    [
        pytest.param(None, pod(node=""), 4.0, id="one without a node takes none"),
        pytest.param(pod(node=""), pod(), 3.0, id="until it is bound"),
        pytest.param(pod(), pod(phase="Succeeded"), 4.0, id="one that has ended takes none"),
        pytest.param(pod(), pod(phase="Failed"), 4.0, id="nor one that failed"),
        pytest.param(pod(), None, 4.0, id="nor one that is gone"),
        pytest.param(pod(), pod(cpu=2.0), 2.0, id="one that was resized"),
        pytest.param(pod(), pod(node="m"), 4.0, id="one of the same name elsewhere"),
    ],
)
def test_a_pod_changes(old: Pod | None, new: Pod | None, cpu: float) -> None:
    places = Places()
    if old is not None:
        places.change(None, old)
        places.rooms(NODES)
    places.change(old, new)
    assert places.rooms(NODES)[0].free["cpu"] == cpu


STEPS = some.lists(
    some.tuples(some.sampled_from("abcd"), some.sampled_from(["", "n", "m"]), some.sampled_from([0.1, 0.2, 0.7]),
                some.sampled_from(["Pending", "Running", "Succeeded"]), some.booleans()),
    max_size=25,
)  # fmt: skip


@given(before=STEPS, after=STEPS)
def test_kept_up_it_is_what_it_would_be_made_anew(before: Any, after: Any) -> None:
    kept, pods = PodStore(), dict[str, Pod]()
    for index, (name, node, cpu, phase, gone) in enumerate([*before, ("", "", 0, "", False), *after]):
        if not name:
            kept.places()  # it is asked for from here on
        elif gone and name in pods:
            kept.remove(pods.pop(name))
        else:
            # None leaves its node: it is another of its name.
            last = pods.get(name)
            uid = last.uid if last is not None and (node or not last.node) else f"{name}-{index}"
            pods[name] = replace(pod(name, node, cpu, phase), uid=uid)
            kept.put(pods[name], listed=bool(index % 2))
    anew = PodStore()
    for one in pods.values():
        anew.put(one, listed=True)
    assert {one.node.name: one.free for one in kept.places().rooms(NODES)} == {
        one.node.name: pytest.approx(one.free) for one in anew.places().rooms(NODES)
    }
    kept.retain("", ())
    assert [one.free for one in kept.places().rooms(NODES)] == [one.allocatable for one in NODES]
