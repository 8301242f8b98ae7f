"""The strategy balanced-allocation: BRA of TBESK, B_score of the thesis."""

from math import nan
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd_plugins.balanced_allocation import BalancedAllocation
from elasticd_plugins.least_requested import LeastRequested
from tests.kit.pools import GIB, columns, node, planned, pod


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        pytest.param(2.0, 4.0, 10.0, id="half and half"),
        pytest.param(2.8, 2.4, 6.0, id="0.7 and 0.3: the example of (5-19)"),
        pytest.param(1.0, 6.0, 5.0, id="a quarter and three"),
        pytest.param(4.0, 4.0, 0.0, id="cpu just used up"),
        pytest.param(4.0, 8.0, 0.0, id="both just used up, though evenly"),
        pytest.param(2.0, 8.5, 0.0, id="too little memory"),
    ],
)
def test_it_is_10_less_the_difference_with_the_pod_there(cpu: float, memory: float, expected: float) -> None:
    view = columns([node("a", cpu=4, memory=8 * GIB)], [pod("old", cpu / 2, memory / 2 * GIB, on="a")])
    said = BalancedAllocation().score_nodes(pod("p", cpu / 2, memory / 2 * GIB), view)
    assert said.values == pytest.approx([expected])


def test_amounts_with_rounding_errors_still_use_a_node_up() -> None:
    view = columns([node("a", cpu=0.049, memory=49.0)])
    assert BalancedAllocation().score_nodes(pod("p", 0.049, 49.0), view).values.tolist() == [0.0]


def test_it_prefers_the_node_that_the_pod_evens_out() -> None:
    old = [pod("cpu", 2, GIB, on="a"), pod("memory", 0.5, 4 * GIB, on="b")]
    view = columns([node("a"), node("b")], old)
    (decision,) = planned([BalancedAllocation()], view, [pod("p", 0.1, 3 * GIB)])
    assert decision.node == "a"


def test_of_three_resources_the_two_farthest_apart_count() -> None:
    view = columns([node("a", resources={"example.com/gpu": 4})])
    new = pod("p", 2, 2 * GIB, resources={"example.com/gpu": 3})
    said = BalancedAllocation(resources=("cpu", "memory", "example.com/gpu")).score_nodes(new, view)
    assert said.values == pytest.approx([5.0])


def test_a_resource_that_a_node_lacks_counts_as_used_up() -> None:
    said = BalancedAllocation(resources=("cpu", "example.com/gpu")).score_nodes(pod("p"), columns([node("a")]))
    assert said.values.tolist() == [0.0]


def test_scoring_by_use_reads_measurements_and_leaves_unknown_nan() -> None:
    use = {"cpu": {"a": 1.15, "b": 1.0}, "memory": {"a": 5.3 * GIB, "b": nan}}
    said = BalancedAllocation(of="use").score_nodes(pod("p", 1, GIB), columns([node("a"), node("b")], (), use))
    assert said.values == pytest.approx([7.5, nan], nan_ok=True)  # 2 of 4 cores, 6 of 8 GiB
    assert BalancedAllocation(of="use").reads_of_nodes() == ("cpu", "memory")


def test_no_nodes_have_no_scores() -> None:
    assert BalancedAllocation().score_nodes(pod("p"), columns([])).values.tolist() == []


def test_with_least_requested_the_scores_sum_as_in_kube_scheduler() -> None:
    view = columns([node("a"), node("b", cpu=8)], [pod("old", 1, GIB, on="a")])
    (decision,) = planned([LeastRequested(), BalancedAllocation()], view, [pod("p", 1, 2 * GIB)])
    # b: L is the mean of 8.75 and 7.5, B 10 - 1.25; a: L is the mean of 5 and 6.25, B 10 - 1.25
    totals = {one.node: one.total for one in decision.scores}
    assert totals == pytest.approx({"b": 8.125 + 8.75, "a": 5.625 + 8.75})


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        pytest.param({"resources": ["cpu"]}, "length >= 2", id="one resource"),
        pytest.param({"resources": ["cpu", "cpu"]}, "resources: must name each once, is cpu, cpu", id="twice"),
        pytest.param({"of": "limits"}, "Invalid enum value 'limits'", id="of"),
        pytest.param({"weight": 1001}, "<= 1000", id="weight"),
    ],
)
def test_nonsense_is_refused(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=problem):
        msgspec.convert({"type": "balanced-allocation", **table}, BalancedAllocation)


@given(st.lists(st.tuples(st.floats(0, 8), st.floats(0, 16)), min_size=1, max_size=8))
def test_it_is_from_0_to_10(taken: list[tuple[float, float]]) -> None:
    nodes = [node(f"n{index}") for index in range(len(taken))]
    old = [pod(f"p{index}", cpu, memory * GIB, on=f"n{index}") for index, (cpu, memory) in enumerate(taken)]
    said = BalancedAllocation().score_nodes(pod("p", 0.1, 0.1 * GIB), columns(nodes, old)).values
    assert np.all((said >= 0) & (said <= 10))
