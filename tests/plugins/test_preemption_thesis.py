"""Preemption as the thesis tells it: its table 6-11 and its figure 6-4."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from elasticd.lab.papers.thesis.preempting import FIGURE_6_4, FilledNode
from elasticd.model.actions import Evict
from elasticd.model.pod_spec import Restart
from elasticd_plugins.filters import Filters
from tests.kit.pools import MIB, columns, node, planned, pod
from tests.kit.preemption import PAPER, decode, running

# Thesis, table 6-11 (algorithms T-3).
NODE2 = node("a", cpu=1.7, memory=3500 * MIB)  # 2 cores and 4 GB, of which the system has some
SIX = [
    running("pod1", "Never", 0.4, 800 * MIB),
    running("pod2", "OnFailure", 0.4, 800 * MIB),
    running("pod3", "Always", 0.4, 800 * MIB),
    running("pod4", "Never", 0.1, 200 * MIB),
    running("pod5", "OnFailure", 0.1, 200 * MIB),
    running("pod6", "Always", 0.1, 200 * MIB),
]


@pytest.mark.parametrize(
    ("restart", "cpu", "memory", "expected", "free"),
    [
        pytest.param("Never", 0.3, 1000, None, (200, 500), id="neverPod1"),
        pytest.param("Never", 0.5, 2000, None, (200, 500), id="neverPod2"),
        pytest.param("OnFailure", 0.3, 1000, ["pod1"], (600, 1300), id="onfailurePod1"),
        pytest.param("OnFailure", 0.5, 2000, None, (200, 500), id="onfailurePod2"),
        pytest.param("Always", 0.3, 1000, ["pod1"], (600, 1300), id="alwaysPod1"),
        pytest.param("Always", 0.5, 2000, ["pod1", "pod4", "pod2"], (1100, 2300), id="alwaysPod2"),
    ],
)
def test_t3_table_6_11_of_the_thesis(
    restart: str, cpu: float, memory: float, expected: list[str] | None, free: tuple[int, int]
) -> None:
    view = columns([NODE2], SIX)
    (decision,) = planned([Filters(), PAPER], view, [pod("new", cpu, memory * MIB, restart=restart)])
    gone = [action.workload.name for action in decision.actions if isinstance(action, Evict)]
    assert gone == (expected or [])
    assert decision.verdict == ("preempt" if expected else "wait")
    left = columns([NODE2], [one for one in SIX if one.name not in gone])
    assert free == (
        1700 - int(left.requested("cpu")[0]),
        3500 - int(left.requested("memory")[0] / MIB),
    )


def test_t3_in_product_mode_who_is_not_needed_stays() -> None:
    waiting = pod("alwaysPod2", 0.5, 2000 * MIB, restart="Always")
    (decision,) = planned([Filters(), decode()], columns([NODE2], SIX), [waiting])
    # pod4's 200Mi are not needed where pod1 and pod2 go.
    assert [one.workload.name for one in decision.actions if isinstance(one, Evict)] == ["pod1", "pod2"]


# Thesis, figure 6-4 (algorithms T-4).
CLASSES: tuple[Restart, ...] = ("Never", "Always", "OnFailure")
ORDERS: dict[str, list[Restart]] = {
    "important first": ["Always", "OnFailure", "Never"] * 10,
    "important last": ["Never", "OnFailure", "Always"] * 10,
    "by class": [kind for kind in CLASSES for _ in range(10)],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "order"), [("paper", "important last"), ("paper", "by class"), ("product", "important first")]
)
def test_t4_figure_6_4_holds_for_any_batch_order(mode: str, order: str) -> None:
    figure, found = FilledNode((Filters(), decode(mode=mode))), {}
    for requested in range(30, 481, 30):
        figure.offer(ORDERS[order])
        found[requested] = figure.counts
    assert {requested: found[requested] for requested in FIGURE_6_4} == FIGURE_6_4


@pytest.mark.slow
@given(some.data(), some.integers(2, 12), some.sampled_from(["paper", "product"]))
@settings(max_examples=25)
def test_t4_counts_do_not_depend_on_the_batch_order(data: some.DataObject, room: int, mode: str) -> None:
    figure = FilledNode((Filters(), decode(mode=mode)), room)
    for batch in range(1, 5):
        figure.offer(data.draw(some.permutations(["Always", "OnFailure", "Never"] * 2)))
        each = 2 * batch
        always = min(each, room)
        failure = min(each, room - always)
        assert figure.counts == (always, failure, min(each, room - always - failure))
