"""Pods counted by node: as a look at each pod would count them, whatever a plan does."""

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.api import Expression, Pod, PodTerm
from elasticd.kit.node_table import NodeTable, NodeTableBuilder
from tests.kit.pools import node, pod

NODES = tuple(node(name) for name in "abc")
APART = PodTerm("zone", ())
TEMPLATES = [
    pod("web", labels={"app": "web"}),
    pod("db", labels={"app": "db"}, repels=(APART,)),
    pod("api", labels={"app": "web"}, namespace="other", priority=1),
]


def copy(template: int, serial: int, on: str = "") -> Pod:
    return replace(TEMPLATES[template], name=f"p{serial}", uid=f"uid-{serial}", node=on)


def is_web(one: Pod) -> int:
    return 0 if one.deleted else int(one.labels["app"] == "web")


def counted(view: NodeTable, key: str) -> list[int]:
    """The same total under another key, which is counted anew."""
    return [int(each) for each in view.total(key, is_web)]


def by_hand(view: NodeTable) -> list[int]:
    return [sum(map(is_web, view.pods(index))) for index in range(len(NODES))]


steps = some.lists(
    some.tuples(some.sampled_from(("take", "release", "leave")), some.integers(0, 2), some.integers(0, 2)), max_size=12
)
boards = some.lists(some.lists(some.integers(0, 2), max_size=4), min_size=3, max_size=3)


def as_pods(board: list[list[int]], known: dict[tuple[str, int], Pod]) -> dict[str, tuple[Pod, ...]]:
    return {
        name: tuple(
            known.setdefault((name, place), copy(template, 10 * index + place, name))
            for place, template in enumerate(residents)
        )
        for index, (name, residents) in enumerate(zip("abc", board, strict=True))
    }


@given(some.lists(boards, min_size=1, max_size=3), steps)
def test_totals_follow_the_plan_and_the_cluster(
    all_boards: list[list[list[int]]], moves: list[tuple[str, int, int]]
) -> None:
    builder = NodeTableBuilder()
    for board in all_boards:
        view = builder.columns(NODES, as_pods(board, {}))
        assert counted(view, "first") == by_hand(view)
        for serial, (step, index, template) in enumerate(moves):
            if step == "take":
                view.take(index, copy(template, 100 + serial, NODES[index].name))
            elif residents := view.pods(index):
                if step == "release":
                    view.release(index, residents[-1])
                else:
                    view.leave(index, residents[0].uid)
            assert counted(view, "first") == counted(view, f"step {serial}") == by_hand(view)


def test_totals_are_as_before_after_a_look_without_some() -> None:
    view = NodeTableBuilder().columns(NODES, {"a": (copy(0, 1, "a"), copy(2, 2, "a"))})
    with view.without(0, [view.pods(0)[0]]):
        assert counted(view, "inside") == [1, 0, 0]
    assert counted(view, "inside") == counted(view, "outside") == [2, 0, 0]


@pytest.mark.parametrize("weight", [1, -1, 63, -64, 64, 127, -128, 2**15 - 1, 2**31 - 1, -(2**31), 2**40])
def test_totals_hold_sums_of_any_size(weight: int) -> None:
    view = NodeTableBuilder().columns(NODES, {"a": (copy(0, 1, "a"),)})
    assert view.total("weighed", lambda _: weight).tolist() == [weight, 0, 0]
    for serial in range(3):
        view.take(0, copy(0, 2 + serial, "a"))
    assert view.total("weighed", lambda _: weight).tolist() == [4 * weight, 0, 0]


def test_only_pods_of_the_named_namespaces_count() -> None:
    view = NodeTableBuilder().columns(NODES, {"a": (copy(0, 1, "a"), copy(2, 2, "a"))})
    assert view.total("other", is_web, ("other", "none")).tolist() == [1, 0, 0]


def test_terms_of_pods_are_known_once_they_are_placed() -> None:
    view = NodeTableBuilder().columns(NODES, {"a": (copy(0, 1, "a"),)})
    assert not view.repels()
    view.take(1, copy(1, 2, "b"))
    assert list(view.repels()) == [("shop", APART)]
    assert not view.prefers()


def test_counts_stay_when_only_labels_of_nodes_change() -> None:
    builder, there = NodeTableBuilder(), {"a": (copy(0, 1, "a"),)}
    before = builder.columns(NODES, there).requested("cpu").tolist()
    relabelled = (node("a", labels={"zone": "z"}), *NODES[1:])
    after = builder.columns(relabelled, there)
    assert after.requested("cpu").tolist() == before
    zoned = after.matching("zoned", lambda one: Expression("zone", "Exists").matches(one.labels))
    assert zoned.tolist() == [True, False, False]
