"""What elasticd's own disruption budgets say of evictions; how they are counted is in tests/cluster."""

from typing import Any

import pytest

from elasticd.decision.disruption import refusal
from elasticd.kit.surge import SURGE
from elasticd.model.actions import Evict
from elasticd.model.disruption import Disruption, DisruptionState, Refused
from elasticd.model.workload import Ref

GONE = Disruption(0.0, "a", "rs", "shop", "uid-gone")


def evict(name: str = "p", reason: str = "why") -> Evict:
    return Evict(Ref("shop", "Pod", name, "v1"), f"uid-{name}", "a", reason, owner="rs")


def state(**changes: Any) -> DisruptionState:
    return DisruptionState(**{"within": 60.0, "most": {"per_node": 2}, "recent": (GONE,), **changes})


LOST = "Breaker", "lost"
BUSY = "RollingOut", "it is being rolled out"
SPENT = "Disturbed", "1 pod of node a went within 60 s, 2 would have to go at once, and 2 may"


@pytest.mark.parametrize(
    ("given", "evictions", "expected"),
    [
        pytest.param(DisruptionState(), [evict()], None, id="nothing is restricted by default"),
        pytest.param(state(), [evict()], None, id="one more may go"),
        pytest.param(state(), [evict(), evict("q")], SPENT, id="not two at once"),
        pytest.param(state(busy={"uid-p": BUSY}), [evict("q")], None, id="another pod is busy"),
        pytest.param(state(busy={"uid-p": BUSY}), [evict()], BUSY, id="a busy workload"),
        pytest.param(state(busy={"uid-p": BUSY}), [evict(), evict("q")], SPENT, id="budgets before workloads"),
        pytest.param(
            state(blackout="nightly"), [evict()], ("Blackout", "no pod is moved: nightly"), id="a blackout is first"
        ),
        pytest.param(state(breaker="lost", blackout="nightly"), [evict()], LOST, id="the breaker is earlier"),
        pytest.param(state(blackout="nightly"), [evict(reason=f"{SURGE} out")], None, id="a surge that began goes on"),
        pytest.param(state(breaker="lost"), [evict(reason=f"{SURGE} out")], LOST, id="the breaker stops it"),
    ],
)
def test_evictions_are_refused_for_the_first_reason_in_order(
    given: DisruptionState, evictions: list[Evict], expected: Refused | None
) -> None:
    assert refusal(given, evictions) == expected
