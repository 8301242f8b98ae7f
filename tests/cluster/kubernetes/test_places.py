"""Which pods wait and which are on each node: kept up pod by pod, and told to who asked."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.cluster.kubernetes.watch.store import NodeStore, Places, PodStore, affects_placement
from elasticd.model.pod_spec import Needs
from elasticd.model.workload import Node, Pod
from tests.kit.pools import pod

WAITS, RUNS = pod("p"), pod("p", on="n")


@pytest.mark.parametrize(
    ("one", "pending", "on"),
    [
        pytest.param(WAITS, ["p"], {}, id="one that waits"),
        pytest.param(RUNS, [], {"n": ["p"]}, id="one that runs"),
        pytest.param(replace(WAITS, deleted=True), [], {}, id="one that waits and is being deleted"),
        pytest.param(replace(RUNS, deleted=True), [], {"n": ["p"]}, id="one that is being deleted takes its room"),
        pytest.param(replace(RUNS, phase="Succeeded"), [], {}, id="one that has ended"),
        pytest.param(replace(RUNS, phase="Failed"), [], {}, id="one that failed"),
        pytest.param(replace(WAITS, phase="Failed"), [], {}, id="one that failed before it had a node"),
    ],
)
def test_a_snapshot_shows_where_a_pod_is(one: Pod, pending: list[str], on: dict[str, list[str]]) -> None:
    store = PodStore()
    store.put(one, listed=True)
    places = store.places()
    assert [found.name for found in places.pending()] == pending
    assert {node: [found.name for found in pods] for node, pods in places.on_nodes().items()} == on


def test_pod_sequences_are_the_same_objects_while_nothing_changes() -> None:
    store = PodStore()
    for one in (pod("b"), pod("a"), pod("x", on="n"), pod("y", on="m")):
        store.put(one, listed=True)
    places = store.places()
    pending, on = places.pending(), dict(places.on_nodes())
    assert [one.name for one in pending] == ["a", "b"]
    store.put(pod("y", on="m"), listed=False)  # it says what was known
    store.put(pod("z", on="n"), listed=False)
    assert places.pending() is pending
    assert places.on_nodes()["m"] is on["m"]
    assert [one.name for one in places.on_nodes()["n"]] == ["x", "z"]


def test_recreated_pod_replaces_the_old_one_of_its_name() -> None:
    store = PodStore()
    places = store.places()
    store.put(RUNS, listed=False)
    store.put(replace(WAITS, uid="other"), listed=False)
    assert (places.pending()[0].uid, dict(places.on_nodes())) == ("other", {})


STEPS = some.lists(
    some.tuples(
        some.sampled_from("abcd"),
        some.sampled_from(["", "n", "m"]),
        some.sampled_from(["Pending", "Running", "Failed"]),
        some.booleans(),
        some.booleans(),
    ),
    max_size=30,
)


@given(steps=STEPS)
def test_kept_up_they_are_what_they_would_be_made_anew(steps: Any) -> None:
    kept, pods = Places(), dict[str, Pod]()
    for name, node, phase, deleted, gone in steps:
        old = pods.pop(name, None)
        if not gone:
            pods[name] = replace(pod(name, on=node), phase=phase, deleted=deleted)
        kept.change(old, pods.get(name))
        kept.on_nodes()
    anew = Places(pods.values())
    assert (kept.pending(), dict(kept.on_nodes())) == (anew.pending(), dict(anew.on_nodes()))


SMALLER = replace(RUNS, needs=Needs(requests={"cpu": 0.01}))


@pytest.mark.parametrize(
    ("old", "new", "stirred"),
    [
        pytest.param(None, WAITS, True, id="one comes that waits"),
        pytest.param(WAITS, replace(WAITS, nominated="n"), True, id="one that waits changes"),
        pytest.param(None, RUNS, False, id="one comes that is on a node"),
        pytest.param(WAITS, RUNS, False, id="one is bound"),
        pytest.param(RUNS, None, True, id="one is gone from a node"),
        pytest.param(RUNS, replace(RUNS, phase="Succeeded"), True, id="one ends"),
        pytest.param(RUNS, replace(RUNS, uid="other"), True, id="another has come in its place"),
        pytest.param(RUNS, SMALLER, True, id="one asks for less than before"),
        pytest.param(RUNS, replace(RUNS, ready=True), False, id="one is ready"),
        pytest.param(RUNS, replace(RUNS, deleted=True), False, id="one is being deleted, and not gone"),
        pytest.param(replace(RUNS, ready=True), replace(RUNS, ready=False), True, id="one has failed"),
        pytest.param(RUNS, replace(RUNS, ready=False), False, id="one that was not ready is not"),
        pytest.param(WAITS, None, False, id="one that waited is gone"),
        pytest.param(replace(RUNS, phase="Failed"), None, False, id="one that had ended is gone"),
    ],
)
def test_changes_that_let_pods_be_placed_are_announced(old: Pod | None, new: Pod | None, stirred: bool) -> None:
    assert affects_placement(old, new) is stirred
    store, told = PodStore(), list[str]()
    if old is not None:
        store.put(old, listed=True)
    store.placement_callbacks.append(lambda: told.append("stirred"))
    if new is not None:
        store.put(new, listed=False)
    else:
        store.remove(WAITS)
    assert told == ["stirred"] * stirred


def test_callbacks_hear_of_nodes_that_appear_change_and_disappear() -> None:
    store, told = NodeStore(), list[int]()
    store.placement_callbacks.append(lambda: told.append(len(told)))
    one = Node("n", "u", ready=True)
    for change in (one, one, replace(one, ready=False)):
        store.put(change, listed=False)
    assert (len(told), store.get("n")) == (2, replace(one, ready=False))
    store.remove(one)
    store.remove(one)
    assert (len(told), store.get("n")) == (3, None)


def test_an_assumed_state_holds_at_once_despite_older_events() -> None:
    store = PodStore()
    store.put(WAITS, listed=True)
    store.assume(WAITS.ref, WAITS.uid, node="n", waits=None)
    for listed in (False, True):  # a list may have been begun before
        store.put(WAITS, listed=listed)
        assert store.get("shop", "p") == replace(WAITS, node="n")
    store.assume(WAITS.ref, WAITS.uid, deleted=True)
    store.put(RUNS, listed=False)
    assert store.get("shop", "p") == replace(WAITS, node="n", deleted=True)
    store.put(RUNS, listed=True)
    assert store.get("shop", "p") == RUNS


@pytest.mark.parametrize(("name", "uid"), [("p", "another"), ("q", "uid-q")], ids=["another pod", "an unknown pod"])
def test_nothing_is_assumed_of_a_different_pod(name: str, uid: str) -> None:
    store = PodStore()
    store.put(WAITS, listed=True)
    store.assume(replace(WAITS, name=name).ref, uid, node="n")
    assert store.get("shop", "p") == WAITS
    assert len(store) == 1
