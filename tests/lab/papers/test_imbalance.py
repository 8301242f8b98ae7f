"""The measure by which strategies for placing are compared."""

import numpy as np
import pytest

from elasticd.lab.papers.imbalance import average_use, imbalance, imbalances, used_parts
from tests.kit.pools import columns, node


def test_servers_with_level_resources_have_no_imbalance_whatever_their_load() -> None:
    assert imbalance(np.array([[0.25, 0.25, 0.25], [0.75, 0.75, 0.75]])) == 0.0


def test_equal_servers_have_the_imbalance_of_each_server() -> None:
    """Check TBESK-Z."""
    used = np.array([[0.5, 0.6, 0.7, 0.8], [0.5, 0.6, 0.7, 0.8]])
    assert average_use(used) == pytest.approx([0.65, 0.65])
    assert imbalances(used) == pytest.approx([0.22361, 0.22361], abs=5e-6)
    assert imbalance(used) == pytest.approx(0.22361, abs=5e-6)


def test_imbalance_is_the_root_of_summed_not_mean_squares() -> None:
    used = np.array([[0.2, 0.4, 0.6, 0.8], [0.5, 0.5, 0.5, 0.5]])
    assert imbalances(used) == pytest.approx([0.2**0.5, 0.0])  # with 1/m it would be 0.05 ** 0.5
    assert imbalance(used) == pytest.approx(0.2**0.5 / 2)


def test_parts_of_nodes_are_by_what_each_has() -> None:
    view = columns([node("a", cpu=2), node("b", cpu=4)])
    assert used_parts(view, {"cpu": {"a": 1.0, "b": 1.0}}).tolist() == [[0.5], [0.25]]
