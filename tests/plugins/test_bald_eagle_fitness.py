"""What a node is worth for a pod, and a plan for all: TBESK's fitness, equations (16) to (27)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from numpy.typing import NDArray

from elasticd.kit import needed
from elasticd.lab.papers.bald_eagle.pool import FOUR, TABLE_3, TABLE_4, paper_node, paper_pod
from elasticd_plugins.bald_eagle import BaldEagle
from elasticd_plugins.bald_eagle.fitness import (
    BALANCED,
    COMPRESSIBLE,
    INCOMPRESSIBLE,
    MISFIT,
    Batch,
    Pods,
    Scale,
    State,
    types,
    values,
)
from tests.kit.pools import columns

Whole = NDArray[np.int64]

NAMES = {COMPRESSIBLE: "compressible", BALANCED: "balanced", INCOMPRESSIBLE: "incompressible"}


def pods_of(needs: Any) -> Pods:
    """Pods that count for what they request."""
    amounts = np.array(needs, dtype=np.int64)
    return Pods(amounts, amounts[:, :4].astype(np.float64))


def empty(capacity: Sequence[Sequence[int]]) -> State:
    """Nodes with nothing on them."""
    amounts = np.array(capacity, dtype=np.int64)
    return State(amounts, amounts.copy(), np.zeros((len(amounts), 4)))


def of_paper(pod: int, node: int) -> tuple[Pods, State]:
    """A pod of Table 4 and an empty node of Table 3."""
    view = columns([paper_node("n", TABLE_3[node - 1])])
    amounts = needed(paper_pod("p", TABLE_4[pod - 1]))
    return (
        pods_of([[amounts[resource] for resource in FOUR]]),
        empty([[int(view.allocatable(resource)[0]) for resource in FOUR]]),
    )


TBESK_1 = [
    (1, 1, 4.202, 12.336, "compressible", 0.98023, 0.98265, 1.96289),
    (1, 2, 2.802, 15.420, "compressible", 0.98617, 0.98782, 1.97399),
    (2, 1, 1.057, 5.250, "compressible", 0.99052, 0.99106, 1.98158),
    (2, 2, 0.705, 6.563, "balanced", 0.99314, 0.99314, 1.98628),
    (3, 1, 0.478, 0.780, "incompressible", 0.99540, 0.99567, 1.99107),
    (4, 1, 2.005, 1.255, "compressible", 0.97679, 0.97781, 1.95460),
]


@pytest.mark.parametrize(
    ("pod", "node", "cpu_to_memory", "net_to_disk", "kind", "remaining", "load", "value"),
    [pytest.param(*row, id=f"pod {row[0]} on node {row[1]}") for row in TBESK_1],
)
def test_tbesk_1_pods_on_empty_nodes_match_the_paper(
    pod: int,
    node: int,
    cpu_to_memory: float,
    net_to_disk: float,
    kind: str,
    remaining: float,
    load: float,
    value: float,
) -> None:
    needs, state = of_paper(pod, node)
    parts = needs.asked[0] / state.capacity[0]
    assert parts[0] / parts[1] == pytest.approx(cpu_to_memory, abs=5e-4)
    assert parts[2] / parts[3] == pytest.approx(net_to_disk, abs=5e-4)
    assert NAMES[int(types(parts))] == kind
    scale = BaldEagle(critical=1.0).scale()
    no_load = Scale(scale.mu, np.zeros(4), scale.critical)
    assert values(needs, state, no_load)[0, 0] == pytest.approx(remaining, abs=5e-6)
    found = values(needs, state, scale)[0, 0]
    assert found - values(needs, state, no_load)[0, 0] == pytest.approx(load, abs=5e-6)
    assert found == pytest.approx(value, abs=6e-6)


def test_the_type_of_a_pod_is_relative_to_the_node() -> None:
    kinds = []
    for node in (1, 2, 3):
        needs, state = of_paper(2, node)
        kinds.append(NAMES[int(types(needs.asked[0] / state.capacity[0]))])
    assert kinds == ["compressible", "balanced", "balanced"]


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        pytest.param((0.2, 0.1, 0.2, 0.1), COMPRESSIBLE, id="cpu and bandwidth"),
        pytest.param((0.1, 0.2, 0.1, 0.2), INCOMPRESSIBLE, id="memory and disk"),
        pytest.param((0.2, 0.1, 0.1, 0.2), BALANCED, id="cpu and disk"),
        pytest.param((0.1, 0.2, 0.2, 0.1), BALANCED, id="memory and bandwidth"),
        pytest.param((0.1, 0.1, 0.2, 0.1), BALANCED, id="cpu as memory"),
        pytest.param((0.1, 0.2, 0.1, 0.1), BALANCED, id="bandwidth as disk"),
        pytest.param((0.0, 0.0, 0.0, 0.0), BALANCED, id="nothing"),
    ],
)
def test_types_of_pods(parts: tuple[float, ...], kind: int) -> None:
    assert types(np.array(parts)) == kind


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        pytest.param((100, 100, 0, 0), (0.75, 0.25, 0, 0), id="by the part of the node"),
        pytest.param((0, 0, 0, 0), (0.25, 0.25, 0.25, 0.25), id="of nothing all alike"),
        pytest.param((0, 0, 0, 7), (0.25, 0.25, 0.25, 0.25), id="of what no node has all alike"),
    ],
)
def test_weights_in_proportion_to_what_a_pod_asks_for(needs: Any, expected: Any) -> None:
    scale = BaldEagle(share="request").scale()
    found = scale.shares(np.array([needs], dtype=np.float64), np.array([[1000.0, 3000.0, 10.0, 0.0]]))
    assert found[0, 0] == pytest.approx(expected)


QUARTERS = BaldEagle(
    compressible=BaldEagle().load, incompressible=BaldEagle().load, balanced=BaldEagle().load, critical=1.0
).scale()


@pytest.mark.parametrize(
    ("left", "busy", "needs", "expected"),
    [
        pytest.param((100, 100, 100, 100), (0, 0, 0, 0), (0, 0, 0, 0), 2.0, id="nothing asked of an empty node"),
        pytest.param((100, 100, 100, 100), (0, 0, 0, 0), (100, 0, 0, 0), 1.5, id="all of one resource"),
        pytest.param((50, 100, 100, 100), (50, 0, 0, 0), (50, 0, 0, 0), 1.5, id="all that is left of one"),
        pytest.param((50, 100, 100, 100), (10, 0, 0, 0), (25, 0, 0, 0), 0.875 + 0.9125, id="less used than requested"),
        pytest.param((0, 100, 100, 100), (100, 0, 0, 0), (0, 0, 0, 0), 1.75, id="nothing left, nothing asked"),
        pytest.param((-9, 100, 100, 100), (109, 0, 0, 0), (0, 0, 0, 0), 1.7275, id="less than nothing left"),
    ],
)
def test_the_value_of_a_node_by_hand(left: Any, busy: Any, needs: Any, expected: float) -> None:
    state = State(np.full((1, 4), 100), np.array([left]), np.array([busy], dtype=np.float64))
    assert values(pods_of([needs]), state, QUARTERS)[0, 0] == pytest.approx(expected)


def test_a_resource_that_nobody_has_or_requests_counts_for_nothing() -> None:
    with_it, without = empty([[100, 100, 100, 100]]), empty([[100, 100, 0, 0]])
    needs = pods_of([[10, 10, 0, 0]])
    assert values(needs, with_it, QUARTERS)[0, 0] == values(needs, without, QUARTERS)[0, 0]
    assert without.fits(pods_of([[10, 10, 0, 0], [10, 10, 1, 0]])).tolist() == [[True], [False]]


def one_after_the_other(pods: Pods, nodes: Sequence[int], state: State, scale: Scale) -> float:
    """What the fitness means: pods in their order, each with those before it in place."""
    found, now = [], State(state.capacity, state.left.copy(), state.busy.copy())
    for index, node in enumerate(nodes):
        one = pods.only(slice(index, index + 1))
        fits = bool(now.fits(one)[0, node])
        found.append(float(values(one, now, scale)[0, node]) if fits else MISFIT)
        now.take(node, one)
    return float(np.mean(found))


@pytest.mark.slow
@given(seed=some.integers(0, 2**32), pods=some.integers(1, 8), nodes=some.integers(1, 5), extra=some.integers(0, 2))
@settings(max_examples=100, deadline=None)
def test_plans_evaluated_together_equal_those_evaluated_pod_by_pod(
    seed: int, pods: int, nodes: int, extra: int
) -> None:
    chance = np.random.default_rng(seed)
    capacity = chance.integers(40, 100, (nodes, 4 + extra)) * chance.integers(0, 2, (nodes, 4 + extra))
    state = State(capacity, capacity - chance.integers(0, 30, capacity.shape), chance.uniform(0, 90, (nodes, 4)))
    needs = chance.integers(0, 30, (pods, 4 + extra)) * chance.integers(0, 2, (pods, 4 + extra))
    asked = np.where(needs[:, :4] > 0, needs[:, :4], chance.integers(0, 2, (pods, 4)) * 7.0)
    pending = Pods(needs, asked)
    allowed = chance.random((pods, nodes)) < 0.7
    allowed[:, chance.integers(nodes)] = True
    scale = BaldEagle(share=("type", "request")[seed % 2]).scale()
    batch = Batch(pending, allowed, chance.permutation(nodes), state, scale)
    positions = chance.random((6, pods)) * batch.counts
    plans = batch.nodes(positions)
    assert allowed[np.arange(pods), plans].all()
    expected = [one_after_the_other(pending, plan.tolist(), state, scale) for plan in plans]
    assert batch.fitness(positions) == pytest.approx(expected)
    assert [min(expected) > batch.enough] == [all(one > batch.enough for one in expected)]


def test_a_coordinate_selects_an_allowed_node_in_the_given_order() -> None:
    allowed = np.array([[True, True, True], [False, True, True], [True, False, False]])
    batch = Batch(pods_of(np.ones((3, 4))), allowed, np.array([2, 0, 1]), empty([[9] * 4] * 3), QUARTERS)
    assert batch.counts.tolist() == [3, 2, 1]
    rows = np.array([[0.0, 0.0, 0.0], [1.9, 1.1, 0.9], [3.0, 2.0, 1.0]])
    assert batch.nodes(rows).tolist() == [[2, 2, 0], [0, 1, 0], [1, 1, 0]]
    for plan in ([2, 2, 0], [0, 1, 0]):
        assert batch.nodes(batch.position(np.array(plan))[None, :]).tolist() == [plan]


@pytest.mark.parametrize("count", [1, 50, 200])
def test_a_plan_with_an_unfitting_pod_is_never_enough(count: int) -> None:
    batch = Batch(
        pods_of(np.tile([1, 0, 0, 0], (count, 1))), np.ones((count, 1), dtype=np.bool_), np.array([0]),
        empty([[count - 1, 0, 0, 0]]), QUARTERS,
    )  # fmt: skip
    assert batch.fitness(np.zeros((1, count)))[0] < batch.enough
    room = Batch(
        pods_of(np.tile([1, 0, 0, 0], (count, 1))), np.ones((count, 1), dtype=np.bool_), np.array([0]),
        empty([[count, 0, 0, 0]]), QUARTERS,
    )  # fmt: skip
    assert room.fitness(np.zeros((1, count)))[0] > room.enough
