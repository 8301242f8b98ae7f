"""All limits at once: they hold the current count, in whatever order, and contradict nothing."""

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.api import Change, Container, Node, Past, Pod, Point, Room, Strategy
from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.demand import Demand
from elasticd.cluster.simulated.options import NodeTable, WorkloadTable
from elasticd.kit.windows import Rate
from elasticd.limits.behavior import Cooldown, RateLimit, Rollout, Stabilization
from elasticd.limits.capacity import Capacity
from elasticd.limits.staged import Guard, Stage, Staged
from elasticd.model.policy import Bounds, Policy, Target
from elasticd.model.workload import Quality, Ref, Sample, Series
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.testing import judge, simulate
from tests.kit.plugins.builders import NOW, OLD, Wants, seen

COUNTS = some.integers(0, 30)
CHANGES = some.lists(some.tuples(some.integers(0, 900), COUNTS, COUNTS), max_size=4)


def limits(then: Any, forbids: Any) -> list[Strategy]:
    return [
        Stabilization(up=30),
        RateLimit(up=(Rate("Pods", 3, 30),), down=(Rate("Percent", 30, 60),)),
        Cooldown(after_up=60, after_down=60),
        Capacity(),
        Rollout(forbids=forbids),
        Staged(up=Stage(50, 30), down=Stage(25), guards=(Guard(series="errors", above=0.1),), window=60, then=then),
    ]


@pytest.mark.slow
@given(
    current=COUNTS,
    wish=COUNTS,
    changes=CHANGES,
    error=some.one_of(some.none(), some.floats(0, 0.3)),
    room=some.floats(0, 20),
    rollout=some.booleans(),
    then=some.sampled_from(["continue", "pause", "rollback"]),
    forbids=some.sampled_from(["down", "both"]),
)
def test_limits_agree_in_any_order_and_hold_where_they_contradict(
    current: int, wish: int, changes: Any, error: float | None, room: float, rollout: bool, then: Any, forbids: Any
) -> None:
    pod = Pod("shop", "a", "a", "Running", "n", containers=(Container("main", {"cpu": 1.0}),), ready=True)
    quality = Quality.ERROR if error is None else Quality.FRESH
    samples = () if error is None else (Sample(error, NOW, NOW),)
    shown = seen(current, (pod,), Series("errors", "t", quality, samples, "", NOW))
    workload = replace(shown.workload, rollout="busy" if rollout else "")
    shown = replace(shown, workload=workload, rooms=(Room(Node("n", "n", ready=True), {"cpu": room, "pods": 9.0}),))
    made = tuple(Change(NOW - age, before, after) for age, before, after in sorted(changes, reverse=True))
    points = {"errors": tuple(Point(NOW - age, (error or 0.0), 0) for age in (700, 300, 80, 20))}
    past = Past(OLD, changes=made, points=dict(points))
    chosen = limits(then, forbids)
    orders = [chosen, chosen[::-1], *list(permutations(chosen))[::97]]
    found = [
        judge(Wants(replicas=wish), seen=shown, past=past, limits=order, bounds=(0, 40)) for order in map(list, orders)
    ]
    assert all(one == found[0] for one in found)
    first = found[0]
    assert first.failures == ()
    back = [limit for limit in first.limits if limit.takes_back]
    assert all(limit.clamp(current) == current for limit in first.limits if not limit.takes_back)
    if not back:
        assert first.reason != "LimitsContradict"
        assert min(current, wish) <= first.replicas <= max(current, wish)
    elif first.reason != "LimitsContradict":
        assert all(limit.clamp(first.replicas) == first.replicas for limit in back)
    else:
        assert first.replicas == current


async def test_a_workload_grows_until_nodes_are_full_without_waiting_pods() -> None:
    """Two nodes of two cores, pods of half a core, a load for far more."""
    table = WorkloadTable(name="web", namespace="shop", replicas=2, cpu="500m", demand=Demand(formula="20"))
    cluster = Simulated(nodes=(NodeTable(name="node", count=2, cpu="2", memory="8Gi"),), workloads=(table,))
    rules = Policy(
        name="p",
        replicas=Bounds(max=40),
        strategies=(Wants(replicas=30),),
        limits=(Capacity(),),
        workload=Target("shop", "web"),
        mode="act",
        interval=10,
        jitter=0,
    )
    journal = await simulate(cluster, [rules], 120, sources=[ResourceMetrics()])
    last = journal.latest("p", Ref("shop", "Deployment", "web"))
    assert last is not None
    assert (last.current, last.verdict, last.reason, last.wish) == (8, "hold", "NoCapacity", 30)
    assert last.message == "room for 0 more pods (cpu 0.5, memory 256Mi); 0 wait for a node"
