"""Strategy topsis: weights, closeness, and what it says where something is not known."""

from math import isnan, log, sqrt
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from elasticd.api import Scores
from elasticd.kit.node_table import NodeTable
from elasticd.lab.papers.bald_eagle.pool import BANDWIDTH, DISK
from elasticd_plugins.topsis import (
    Topsis,
    Weights,
    closeness,
    combined,
    compared,
    consistency,
    entropy_weights,
)
from tests.kit.pools import GIB, columns, node, planned, pod

ALIKE = ((1.0,) * 5,) * 5
SAATY = (
    (1.0, 2.0, 4.0, 4.0, 8.0),
    (0.5, 1.0, 2.0, 2.0, 4.0),
    (0.25, 0.5, 1.0, 1.0, 2.0),
    (0.25, 0.5, 1.0, 1.0, 2.0),
    (0.125, 0.25, 0.5, 0.5, 1.0),
)


def decoded(**options: Any) -> Topsis:
    return msgspec.convert({"type": "topsis", **options}, Topsis)


def scored(strategy: Topsis, view: NodeTable, **pending: Any) -> list[float]:
    found = strategy.score_nodes(pod=pod("p", **pending), nodes=view)
    assert isinstance(found, Scores)
    return [float(one) for one in found.values]


# Options


def changed(row: int, column: int, value: float) -> list[list[float]]:
    """SAATY with one comparison and its reverse replaced."""
    rows = [list(one) for one in SAATY]
    rows[row][column], rows[column][row] = value, 1 / value
    return rows


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param(
            {"weights": {"cpu": 0.3}},
            "weights: must come to 1 with those left out, which are 0.2 each, is 1.1",
            id="weights",
        ),
        pytest.param(
            {"weights": {"cpu": 0.4, "io": 0.0}, "pairwise": ALIKE},
            "pairwise: must be left out beside weights, is given",
            id="both",
        ),
        pytest.param({"pairwise": SAATY[:4]}, "pairwise: must have 5 rows, is 4 rows", id="rows"),
        pytest.param({"pairwise": [row[:4] for row in SAATY]}, "Expected `array` of length >= 5", id="columns"),
        pytest.param(
            {"pairwise": [[2.0, *SAATY[0][1:]], *SAATY[1:]]},
            "pairwise: must have cpu to cpu and cpu to cpu multiply to 1, is 4",
            id="with itself",
        ),
        pytest.param(
            {"pairwise": [[1.0, 3.0, *SAATY[0][2:]], *SAATY[1:]]},
            "pairwise: must have memory to cpu and cpu to memory multiply to 1, is 1.5",
            id="not the reverse",
        ),
        pytest.param(
            {"pairwise": changed(0, 4, 1 / 9)}, "pairwise: must have a consistency ratio <= 0.1, is", id="inconsistent"
        ),
    ],
)
def test_options_that_contradict_themselves_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=problem.replace(".", r"\.")):
        decoded(**options)


@pytest.mark.parametrize(("more", "less"), [(9, 0.111), (9, 0.11), (9, 1 / 9), (7, 0.143), (3, 0.333)])
def test_a_part_may_be_rounded_as_people_write_it(more: float, less: float) -> None:
    rows = [[1.0, *[more] * 4], *[[less, 1.0, 1.0, 1.0, 1.0]] * 4]
    weights = compared(np.array(decoded(pairwise=rows).pairwise))
    assert weights == pytest.approx([more / (more + 4), *[1 / (more + 4)] * 4], rel=0.02)


def test_a_part_less_than_a_ninth_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match=r">= 0\.11"):
        decoded(pairwise=[[1.0, 9.0, *SAATY[0][2:]], [0.1, *SAATY[1][1:]], *SAATY[2:]])


def test_it_reads_the_series_of_nodes_that_are_named() -> None:
    assert (Topsis().reads(), Topsis().reads_of_nodes()) == ((), ())
    assert decoded(use={"cpu": "cpu", "io": "writes"}).reads_of_nodes() == ("cpu", "writes")


# Weights


@pytest.mark.parametrize(
    ("pairwise", "weights", "ratio"),
    [
        pytest.param(ALIKE, [0.2] * 5, 0.0, id="all alike"),
        pytest.param(SAATY, [8 / 17, 4 / 17, 2 / 17, 2 / 17, 1 / 17], 0.0, id="each follows from the others"),
    ],
)
def test_comparisons_give_weights_and_how_far_they_contradict_each_other(
    pairwise: Any, weights: list[float], ratio: float
) -> None:
    assert compared(np.array(pairwise)) == pytest.approx(weights)
    assert consistency(np.array(pairwise)) == pytest.approx(ratio, abs=1e-12)


def test_a_comparison_against_the_others_makes_them_less_consistent() -> None:
    ratios = [consistency(np.array(changed(0, 4, value))) for value in (8, 4, 1, 1 / 4)]
    assert ratios == sorted(ratios)
    assert ratios[1] < 0.1 < ratios[3]


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        pytest.param([[0.5, 0.2], [0.5, 0.6]], [0.0, 1.0], id="only where nodes differ"),
        pytest.param([[0.5, 0.5], [0.5, 0.5]], [0.0, 0.0], id="nodes do not differ"),
        pytest.param([[0.0, 0.0], [0.0, 0.0]], [0.0, 0.0], id="nothing is used"),
        pytest.param([[0.0, 0.5], [1.0, 0.5]], [1.0, 0.0], id="one node has it all"),
        pytest.param([[0.5, 0.1]], [0.0, 0.0], id="one node"),
        pytest.param(np.zeros((0, 2)), [0.0, 0.0], id="no node"),
    ],
)
def test_entropy_weights(present: Any, expected: list[float]) -> None:
    assert entropy_weights(np.array(present)) == pytest.approx(expected)


def test_entropy_weights_by_hand() -> None:
    first = -(0.25 * log(0.25) + 0.75 * log(0.75)) / log(2)
    second = -(0.4 * log(0.4) + 0.6 * log(0.6)) / log(2)
    expected = np.array([1 - first, 1 - second]) / (2 - first - second)
    assert entropy_weights(np.array([[0.1, 0.4], [0.3, 0.6]])) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("mine", "entropy", "expected"),
    [
        pytest.param([0.5, 0.5], [0.8, 0.2], [0.8, 0.2], id="entropy decides"),
        pytest.param([0.8, 0.2], [0.5, 0.5], [0.8, 0.2], id="mine decide"),
        pytest.param([0.8, 0.2], [0.2, 0.8], [0.5, 0.5], id="product"),
        pytest.param([0.8, 0.2], [0.0, 0.0], [0.8, 0.2], id="nodes do not differ"),
        pytest.param([1.0, 0.0], [0.0, 1.0], [1.0, 0.0], id="they differ in what does not count"),
    ],
)
def test_both_weights_together(mine: Any, entropy: Any, expected: Any) -> None:
    assert combined(np.array(mine), np.array(entropy)) == pytest.approx(expected)


# Closeness


def test_closeness_by_hand() -> None:
    found = closeness(np.array([[0.3, 0.4], [0.4, 0.3], [0.6, 0.8]]), np.array([0.5, 0.5]))
    length = [sqrt(0.3**2 + 0.4**2 + 0.6**2), sqrt(0.4**2 + 0.3**2 + 0.8**2)]
    to_best, to_worst = 0.1 / length[1], sqrt((0.3 / length[0]) ** 2 + (0.4 / length[1]) ** 2)
    assert found[0] == pytest.approx(to_worst / (to_best + to_worst))
    assert found[2] == 0.0
    assert found[1] > found[2]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        pytest.param([[0.1, 0.2], [0.5, 0.6]], [1.0, 0.0], id="best and worst"),
        pytest.param([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.5], id="nodes do not differ"),
        pytest.param([[0.0, 0.0], [0.0, 0.0]], [0.5, 0.5], id="nothing is used"),
        pytest.param([[0.5, 0.1]], [0.5], id="one node"),
        pytest.param(np.zeros((0, 2)), [], id="no node"),
    ],
)
def test_closeness_at_its_ends(table: Any, expected: list[float]) -> None:
    assert closeness(np.array(table), np.array([0.5, 0.5])).tolist() == expected


@pytest.mark.slow
@given(
    rows=some.lists(some.tuples(*[some.floats(0, 2)] * 5), min_size=1, max_size=8),
    weights=some.tuples(*[some.floats(0, 1)] * 5),
)
@settings(max_examples=200, deadline=None)
def test_closeness_lies_in_0_to_1_and_favours_less_use(rows: Any, weights: Any) -> None:
    table = np.array(rows)
    found = closeness(table, combined(np.array(weights), entropy_weights(table)))
    assert ((found >= 0) & (found <= 1)).all()
    for one in range(len(rows)):
        for other in range(len(rows)):
            if (table[one] <= table[other]).all():
                assert found[one] >= found[other] - 1e-9


# Nodes


def test_hook_score_nodes_prefers_the_node_with_least_use() -> None:
    more: dict[str, Any] = {"resources": {BANDWIDTH: 100.0, DISK: 100.0}}
    old = [
        pod("x", cpu=2, memory=4 * GIB, on="a", resources={BANDWIDTH: 80.0}),
        pod("y", cpu=2, memory=4 * GIB, on="b"),
    ]
    (decision,) = planned([Topsis(weight=2.0)], columns([node(name, **more) for name in "abc"], old), [pod("p")])
    assert decision.node == "c"
    assert (decision.scores[0].node, decision.scores[0].parts["topsis"]) == ("c", 2.0)
    assert [one.node for one in decision.scores] == ["c", "b", "a"]


CPU, MEMORY, ALIKE_ON_BOTH = (2.0, GIB), (1.0, 4 * GIB), (1.0, GIB)


@pytest.mark.parametrize(
    ("requested", "use", "options", "expected"),
    [
        pytest.param(CPU, {}, {}, "b", id="requests"),
        pytest.param(CPU, {"cpu": {"a": 0.1, "b": 3.9}}, {"cpu": "cpu"}, "a", id="cpu in cores"),
        pytest.param(CPU, {"cpu": {"a": 0.1, "b": 3.9}}, {}, "b", id="a series that is not named"),
        pytest.param(MEMORY, {"memory": {"a": GIB, "b": 7 * GIB}}, {"memory": "memory"}, "a", id="memory in bytes"),
        pytest.param(CPU, {"cpu": {"a": float("nan"), "b": 1.5}}, {"cpu": "cpu"}, "b", id="of one: requests"),
        pytest.param(CPU, {}, {"cpu": "cpu", "memory": "memory"}, "b", id="known of none: requests"),
        pytest.param(ALIKE_ON_BOTH, {"w": {"a": 1.0, "b": 9.0}}, {"io": "w"}, "a", id="io beside equal requests"),
    ],
)
def test_what_nodes_use(
    requested: tuple[float, float], use: dict[str, dict[str, float]], options: dict[str, str], expected: str
) -> None:
    view = columns([node("a"), node("b")], [pod("x", *requested, on="a"), pod("y", 1.0, GIB, on="b")], use)
    found = scored(decoded(use=options), view)
    assert "ab"[int(np.argmax(found))] == expected


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param({"a": 1.0, "c": 9.0}, [1.0, None, 0.0], id="not of one node"),
        pytest.param({"a": 1.0}, [0.5, None, None], id="of one node alone"),
        pytest.param({}, [None, None, None], id="of none"),
    ],
)
def test_a_node_of_unknown_io_scores_nothing_where_io_counts(
    known: dict[str, float], expected: list[float | None]
) -> None:
    found = scored(decoded(use={"io": "w"}), columns([node(name) for name in "abc"], use={"w": known}))
    assert [None if isnan(one) else one for one in found] == expected


@pytest.mark.parametrize(
    ("nodes", "pending", "expected"),
    [
        pytest.param([node("a")], {}, [0.5], id="one node"),
        pytest.param([node("a"), node("b")], {"cpu": 0, "memory": 0}, [0.5, 0.5], id="a pod that requests nothing"),
        pytest.param([node("a"), node("b", cpu=8)], {"memory": 0}, [0.0, 1.0], id="the larger of two empty nodes"),
        pytest.param([node("a", cpu=0), node("b", cpu=0)], {}, [0.5, 0.5], id="nodes that have nothing"),
    ],
)
def test_small_pools(nodes: Any, pending: dict[str, float], expected: list[float]) -> None:
    assert scored(Topsis(), columns(nodes), **pending) == expected


def test_without_nodes_it_says_nothing() -> None:
    assert Topsis().score_nodes(pod=pod("p"), nodes=columns([])) is None


def test_comparisons_instead_of_weights_give_the_same_scores() -> None:
    old = [pod("x", cpu=2, on="a"), pod("y", memory=4 * GIB, on="b")]
    view = columns([node("a"), node("b"), node("c")], old)
    by_weights = Topsis(weights=Weights(8 / 17, 4 / 17, 2 / 17, 2 / 17, 1 / 17))
    assert scored(by_weights, view) == pytest.approx(scored(decoded(pairwise=SAATY), view))
    assert scored(by_weights, view) != pytest.approx(scored(Topsis(weights=Weights(0.1, 0.9, 0, 0, 0)), view))
