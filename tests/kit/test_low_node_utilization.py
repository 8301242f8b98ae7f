"""The baseline that rebalance is compared with does what descheduler's LowNodeUtilization is published to do."""

from typing import Any

import pytest
from msgspec.structs import replace

from elasticd_plugins.filters import Filters
from elasticd_plugins.least_requested import LeastRequested
from tests.kit.low_node_utilization import README, LowNodeUtilization
from tests.kit.uneven import CPU, Load, Uneven

CPU_ALONE = {"cpu": (30.0, 50.0)}


def pool(**load: float) -> Uneven:
    """Four nodes over-used of twenty, at 14 of 16 cores; the others use 4."""
    return Uneven((Filters(), LeastRequested()), load=Load(**{"busy": 1.4, "idle": 0.4, **load}))


def evicted(baseline: LowNodeUtilization, found: Uneven) -> list[str]:
    """On which nodes, in order."""
    return [one.node for one in baseline(found)]


@pytest.mark.parametrize(
    ("baseline", "load", "acts"),
    [
        pytest.param(LowNodeUtilization(README), {}, False, id="by requests all are equal"),
        pytest.param(LowNodeUtilization(CPU_ALONE, by="metrics"), {}, True, id="by metrics some are over and under"),
        pytest.param(LowNodeUtilization(README, by="metrics"), {}, False, id="none is under in all resources"),
        pytest.param(LowNodeUtilization(CPU_ALONE, by="metrics"), {"idle": 0.6}, False, id="none is under"),
        pytest.param(LowNodeUtilization(CPU_ALONE, by="metrics"), {"busy": 0.6}, False, id="none is over"),
        pytest.param(LowNodeUtilization({"cpu": (10.0, 10.0)}, by="metrics", deviation=True), {}, True, id="deviation"),
        pytest.param(
            LowNodeUtilization({"cpu": (60.0, 60.0)}, by="metrics", deviation=True), {}, False, id="not so far apart"
        ),
    ],
)
def test_eviction_needs_both_over_used_and_under_used_nodes(
    baseline: LowNodeUtilization, load: dict[str, Any], acts: bool
) -> None:
    assert bool(evicted(baseline, pool(**load))) is acts


def test_the_most_used_node_is_relieved_first_to_its_threshold() -> None:
    """Most used by the sum of thousandths of a core and bytes, as it sorts them: so by memory."""
    found = pool()
    on = evicted(LowNodeUtilization(CPU_ALONE, by="metrics"), found)
    used, memory = found.measured[0]["cpu"], found.measured[0]["memory"]
    assert list(dict.fromkeys(on)) == sorted(set(on), key=lambda name: -(1000 * used[name] + memory[name]))
    for name in set(on):
        first = [one.pod for one in found.replicas if one.pod.node == name][: on.count(name)]
        gone = sum(found.measured[1]["cpu"][f"shop/{one.name}"] for one in first)
        assert used[name] - gone <= 0.5 * CPU


def test_eviction_stops_when_under_used_nodes_have_no_room_left() -> None:
    crowded = LowNodeUtilization({"cpu": (30.0, 31.0)}, by="metrics")
    assert (
        0
        < len(evicted(crowded, pool()))
        < len(evicted(LowNodeUtilization({"cpu": (30.0, 45.0)}, by="metrics"), pool()))
    )


def test_the_baseline_runs_every_five_minutes_and_spares_new_pods() -> None:
    baseline, found = LowNodeUtilization(CPU_ALONE, by="metrics"), pool()
    counts = [found.step(baseline) for _ in range(21)]
    assert [index for index, count in enumerate(counts) if count] == [0, 10, 20]
    late = Uneven((Filters(), LeastRequested()))
    for one in late.replicas:
        one.pod = replace(one.pod, started=late.at)
    assert evicted(baseline, late) == []
