"""Preemption as the thesis tells it: its table 6-11 and its figure 6-4."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.api import (
    Pod,
    PoolSelect,
)
from elasticd.model.actions import Bind, Evict, Nominate
from elasticd_plugins.filters import Filters
from elasticd_plugins.preemption import Preemption
from tests.kit.pools import MIB, NOW, columns, node, planned, pod
from tests.kit.preemption import OLD, PAPER, decode, running

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
class Figure:
    """One node with room for so many pods, to which batches are given until nothing moves any more."""

    def __init__(self, strategy: Preemption, room: int) -> None:
        self.strategy, self.node = strategy, node("node3", cpu=4, memory=room * 50.0 * MIB, pods=1000)
        self.on: list[Pod] = []
        self.waiting: list[Pod] = []
        self.made = 0

    def offer(self, batch: Sequence[str]) -> None:
        for kind in batch:
            self.come(pod(f"p{self.made:04}", 0.01, 50 * MIB, restart=kind))
        while self._step():
            pass

    def come(self, one: Pod) -> None:
        """It waits, newer than all others."""
        self.made += 1
        self.waiting.append(replace(one, uid=f"uid-{self.made}", created=NOW + self.made, phase="Pending", node=""))

    def _step(self) -> bool:
        """Plan once, and do it all: those who are evicted wait anew."""
        view = columns([self.node], self.on)
        decisions = planned([Filters(), self.strategy], view, self.waiting, pool=PoolSelect(order="fifo"))
        actions = [action for one in decisions for action in one.actions]
        bound = {action.uid for action in actions if isinstance(action, Bind)}
        gone = {action.uid for action in actions if isinstance(action, Evict)}
        noted = {action.uid: action.node for action in actions if isinstance(action, Nominate)}
        came = [replace(one, node="node3", phase="Running", started=OLD) for one in self.waiting if one.uid in bound]
        left = [one for one in self.on if one.uid in gone]
        self.waiting = [replace(one, nominated=noted.get(one.uid, one.nominated)) for one in self.waiting]
        self.waiting = [one for one in self.waiting if one.uid not in bound]
        self.on = [one for one in self.on if one.uid not in gone] + came
        for one in left:
            self.come(one)
        return bool(actions)

    @property
    def counts(self) -> tuple[int, ...]:
        kinds = [one.needs.restart for one in self.on]
        return tuple(kinds.count(kind) for kind in ("Always", "OnFailure", "Never"))


ORDERS = {
    "important first": ["Always", "OnFailure", "Never"] * 10,
    "important last": ["Never", "OnFailure", "Always"] * 10,
    "by class": ["Never"] * 10 + ["Always"] * 10 + ["OnFailure"] * 10,
}
FIGURE = {
    150: (50, 50, 50),
    180: (60, 60, 30),
    210: (70, 70, 10),
    240: (80, 70, 0),
    300: (100, 50, 0),
    390: (130, 20, 0),
    450: (150, 0, 0),
    480: (150, 0, 0),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "order"), [("paper", "important last"), ("paper", "by class"), ("product", "important first")]
)
def test_t4_figure_6_4_holds_for_any_batch_order(mode: str, order: str) -> None:
    figure, found = Figure(decode(mode=mode), 150), {}
    for requested in range(30, 481, 30):
        figure.offer(ORDERS[order])
        found[requested] = figure.counts
    assert {requested: found[requested] for requested in FIGURE} == FIGURE


@pytest.mark.slow
@given(some.data(), some.integers(2, 12), some.sampled_from(["paper", "product"]))
@settings(max_examples=25)
def test_t4_counts_do_not_depend_on_the_batch_order(data: some.DataObject, room: int, mode: str) -> None:
    figure = Figure(decode(mode=mode), room)
    for batch in range(1, 5):
        figure.offer(data.draw(some.permutations(["Always", "OnFailure", "Never"] * 2)))
        each = 2 * batch
        always = min(each, room)
        failure = min(each, room - always)
        assert figure.counts == (always, failure, min(each, room - always - failure))
