"""What becomes of a pool's columns as a plan is made: who is told to leave, and what would be without some."""

from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from elasticd.api import Pod, Port
from elasticd.kit.node_table import NodeTable, NodeTableBuilder
from tests.kit.pools import GIB, columns, node, pod

WEB = Port(80)
THERE = [pod("x", 1, GIB, on="a", ports=(WEB,)), pod("y", 0.5, GIB, on="a"), pod("z", 0.5, GIB, on="b")]


def view() -> NodeTable:
    return columns([node("a"), node("b")], THERE, {"cpu": {"a": 1.1, "b": 0.3}})


def has_web(one: Pod) -> bool:
    return WEB in one.needs.ports and not one.deleted


def shown(it: NodeTable) -> tuple[object, ...]:
    """All that a strategy can see."""
    amounts = [it.requested(name).tolist() for name in ("cpu", "memory", "pods")]
    use = it.use("cpu").tolist()
    return amounts, use, [it.pods(0), it.pods(1)], it.holding("web", has_web).tolist()


def test_a_leaving_pod_keeps_its_room_until_it_is_gone() -> None:
    it = view()
    before = it.requested("cpu").tolist()
    assert it.leave(0, "uid-x")
    assert it.requested("cpu").tolist() == before
    assert [(one.name, one.deleted) for one in it.pods(0)] == [("x", True), ("y", False)]
    assert not it.holding("web", has_web).any()


@pytest.mark.parametrize(
    ("index", "uid"),
    [
        pytest.param(1, "uid-x", id="it is on another node"),
        pytest.param(0, "uid-none", id="nobody has seen it"),
    ],
)
def test_who_is_not_there_cannot_be_told_to_leave(index: int, uid: str) -> None:
    it = view()
    before = shown(it)
    assert not it.leave(index, uid)
    assert shown(it) == before


def test_node_use_is_cached_until_a_pod_comes_or_goes() -> None:
    it = view()
    before = it.use("cpu")
    assert it.use("cpu") is before
    it.take(1, pod("new", 1, GIB))
    taken = it.use("cpu")
    assert taken is not before
    assert taken.tolist() == [1.1, 0.3 + 0.85]
    it.release(1, pod("new", 1, GIB))
    assert it.use("cpu") is not taken
    kept = it.use("cpu")
    with it.without(0, [THERE[0]]):
        assert it.use("cpu") is not kept
        within = it.use("cpu")
    assert it.use("cpu") is not within


def test_who_is_seen_to_leave_need_not_be_told() -> None:
    it = view()
    assert it.leave(0, "uid-x")
    assert not it.leave(0, "uid-x")


def test_leaving_out_pods_frees_their_room_and_restores_it_afterwards() -> None:
    it = view()
    before = shown(it)
    with it.without(0, THERE[:2]):
        assert it.requested("cpu").tolist() == [0, 500]
        assert it.requested("pods").tolist() == [0, 1]
        assert it.pods(0) == ()
        assert not it.holding("web", has_web).any()
        assert it.use("cpu")[0] < 0.1
    assert shown(it) == before


def test_all_is_as_before_also_where_something_is_raised() -> None:
    it = view()
    before = shown(it)
    with pytest.raises(RuntimeError), it.without(0, THERE[:1]):
        raise RuntimeError
    assert shown(it) == before


def test_a_series_first_read_without_some_pods_is_right_afterwards() -> None:
    it = view()
    with it.without(0, THERE[:1]):
        assert isnan(it.use("memory")[0])
        assert np.isclose(it.use("cpu")[0], 1.1)
    assert np.isclose(it.use("cpu")[0], 1.1)


@given(some.lists(some.tuples(some.sampled_from("ab"), some.booleans()), max_size=6), some.data())
def test_what_is_leaving_is_what_those_request_who_leave(said: list[tuple[str, bool]], data: some.DataObject) -> None:
    ledger, nodes = NodeTableBuilder(), (node("a"), node("b"))

    def seen(pods: list[tuple[str, bool]]) -> NodeTable:
        made = [pod(f"p{index}", 0.1 + index, on=on, deleted=going) for index, (on, going) in enumerate(pods)]
        return ledger.columns(nodes, {name: tuple(one for one in made if one.node == name) for name in "ab"})

    seen(said)
    it = seen([(on, going or data.draw(some.booleans())) for on, going in said])
    for index in (0, 1):
        for one in it.pods(index):
            if data.draw(some.booleans()):
                it.leave(index, one.uid)
    it.take(0, pod("new", 2))
    with it.without(0, it.pods(0)):
        assert it.leaving("cpu")[0] == it.requested("cpu")[0] == 0
    for index in (0, 1):
        leaving = [one for one in it.pods(index) if one.deleted]
        assert it.leaving("pods")[index] == len(leaving)
        assert it.leaving("cpu")[index] == sum(round(1000 * one.counted["cpu"]) for one in leaving)
