"""The strategy least-requested: LRA of TBESK, L_score of the thesis."""

from math import nan
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.kit.node_table import NodeTable
from elasticd.model.workload import Pod
from elasticd_plugins.least_requested import LeastRequested
from tests.kit.pools import GIB, MIB, columns, node, planned, pod


def scores(view: NodeTable, new: Pod, **options: Any) -> list[float]:
    said = LeastRequested(**options).score_nodes(new, view)
    return [float(one) for one in np.round(said.values, 6)]


def one(cpu: float, memory: float, **more: Any) -> NodeTable:
    """A node of 4 cores and 8 GiB on which so much is requested."""
    return columns([node("a", cpu=4, memory=8 * GIB)], [pod("old", cpu, memory * GIB, on="a")], **more)


@pytest.mark.parametrize(
    ("cpu", "memory", "new", "expected"),
    [
        pytest.param(1, 2, pod("p", 1, 2 * GIB), 5.0, id="half of both with the pod"),
        pytest.param(1, 5, pod("p", 1, 1 * GIB), 3.75, id="the mean of 5 and 2.5"),
        pytest.param(2, 4, pod("p", 2, 4 * GIB), 0.0, id="just full"),
        pytest.param(3, 2, pod("p", 3, 2 * GIB), 2.5, id="too little cpu counts 0, not less"),
        pytest.param(4, 8, pod("p", 4, 8 * GIB), 0.0, id="too little of both"),
        pytest.param(
            0.9,
            0,
            pod("p", 0, 0),
            (7.5 + 10 - 10 * 400 / 8192) / 2,
            id="no requests count as 100m and 200 MiB, of both pods",
        ),
    ],
)
def test_it_is_ten_times_the_mean_of_what_is_left(cpu: float, memory: float, new: Pod, expected: float) -> None:
    assert scores(one(cpu, memory), new) == pytest.approx([expected], abs=1e-6)


def test_pods_that_request_nothing_spread() -> None:
    view = columns([node("a"), node("b"), node("c")])
    decisions = planned([LeastRequested()], view, [pod(f"p{i}", 0, 0) for i in range(6)])
    assert [decision.node for decision in decisions] == ["a", "b", "c", "a", "b", "c"]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param(("cpu",), [7.5, 5.0], id="one"),
        pytest.param(("example.com/gpu",), [0.0, 7.5], id="one that a node has none of: 0"),
        pytest.param(("cpu", "example.com/gpu"), [3.75, 6.25], id="two"),
        pytest.param(("pods",), [9.9, 9.8], id="the number of pods"),
    ],
)
def test_any_resources_may_count(resources: tuple[str, ...], expected: list[float]) -> None:
    nodes = [node("a", pods=100), node("b", pods=100, resources={"example.com/gpu": 4})]
    view = columns(nodes, [pod("old", cpu=1, on="b")])
    new = pod("p", cpu=1, resources={"example.com/gpu": 1})
    assert scores(view, new, resources=resources) == expected


def test_scoring_by_use_reads_measurements_and_estimates_the_pod() -> None:
    use = {"cpu": {"a": 3.0, "b": 1.0}, "memory": {"a": 2 * GIB, "b": 2 * GIB}}
    view = columns([node("a"), node("b")], [pod("old", cpu=4, on="b")], use)
    new = pod("p", cpu=1, memory=GIB)
    # 3.85 and 1.85 of 4 cores, 2.7 of 8 GiB
    assert scores(view, new, of="use") == pytest.approx([5 * (0.15 / 4 + 5.3 / 8), 5 * (2.15 / 4 + 5.3 / 8)])
    assert LeastRequested(of="use").reads_of_nodes() == ("cpu", "memory")
    assert LeastRequested().reads_of_nodes() == ()


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        pytest.param({"cpu": {"a": 1.0, "b": 1.0}, "memory": {"a": 1.0}}, "a", id="of one node: the last choice"),
        pytest.param({"cpu": {"b": nan, "a": 4.0}, "memory": {"a": 1.0, "b": 1.0}}, "a", id="NaN: the last choice"),
        pytest.param({}, "a", id="of no node: the first of equals"),
    ],
)
def test_use_that_is_not_known_is_not_taken_for_none(use: dict[str, dict[str, float]], expected: str) -> None:
    (decision,) = planned([LeastRequested(of="use")], columns([node("a"), node("b")], (), use), [pod("p")])
    assert decision.node == expected


def test_a_node_of_unknown_use_is_taken_without_an_alternative() -> None:
    (decision,) = planned([LeastRequested(of="use")], columns([node("a")]), [pod("p")])
    assert (decision.verdict, decision.node) == ("bind", "a")


def test_no_nodes_have_no_scores() -> None:
    assert scores(columns([]), pod("p")) == []


def test_weight_is_what_it_counts() -> None:
    (decision,) = planned([LeastRequested(weight=2.0)], one(1, 2), [pod("p", 1, 2 * GIB)])
    assert decision.scores[0].parts == {"least-requested": 10.0}


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        pytest.param({"resources": ["cpu", "cpu"]}, "resources: must name each once, is cpu, cpu", id="twice"),
        pytest.param({"resources": [""]}, "length >= 1", id="no name"),
        pytest.param({"of": "limits"}, "Invalid enum value 'limits'", id="of"),
        pytest.param({"weight": 0}, "> 0", id="weight"),
    ],
)
def test_nonsense_is_refused(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=problem):
        msgspec.convert({"type": "least-requested", **table}, LeastRequested)


@given(st.floats(0.1, 8), st.floats(0.25, 16), st.floats(0, 8), st.floats(0, 16))
def test_scores_lie_within_0_to_10_and_fall_with_requests(
    cpu: float, memory: float, more_cpu: float, more_memory: float
) -> None:
    nodes = [node("a"), node("b")]
    old = [pod("a", cpu, memory * GIB, on="a"), pod("b", cpu + more_cpu, (memory + more_memory) * GIB, on="b")]
    first, second = LeastRequested().score_nodes(pod("p", 1, MIB), columns(nodes, old)).values
    assert 0 <= second <= first <= 10
