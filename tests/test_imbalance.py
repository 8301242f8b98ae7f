"""The measure by which strategies for placing are compared."""

import numpy as np
import pytest

from tests.imbalance import average_use, imbalance, imbalances, requested_parts, used_parts
from tests.pools import GIB, columns, node, pod


def test_an_even_cluster_has_none() -> None:
    assert imbalance(np.full((3, 5), 0.7)) == 0.0


def test_it_is_the_root_of_the_sum_of_squares_and_not_of_their_mean() -> None:
    used = np.array([[0.2, 0.4, 0.6, 0.8], [0.5, 0.5, 0.5, 0.5]])
    assert average_use(used) == pytest.approx([0.5, 0.5])
    assert imbalances(used) == pytest.approx([0.2**0.5, 0.0])  # with 1/m it would be 0.05 ** 0.5
    assert imbalance(used) == pytest.approx(0.2**0.5 / 2)


def test_parts_of_nodes_are_by_what_each_has() -> None:
    view = columns([node("a", cpu=2), node("b", cpu=4)], [pod("p", cpu=1, memory=2 * GIB, on="b")])
    assert requested_parts(view, ("cpu", "memory")).tolist() == [[0.0, 0.25], [0.0, 0.25]]
    assert used_parts(view, {"cpu": {"a": 1.0, "b": 1.0}}).tolist() == [[0.5, 0.25]]
