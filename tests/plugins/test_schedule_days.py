"""The schedule through whole days, in virtual time: changes at the very second, beside the hpa and the cadence."""

from typing import Any

import pytest

from elasticd.api import Strategy
from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.demand import Demand
from elasticd.cluster.simulated.options import NodeTable, WorkloadTable
from elasticd.model.policy import Bounds, Policy, Target
from elasticd.registry import discover
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.testing import simulate
from tests.kit.clocks import moment
from tests.kit.loops import Told
from tests.kit.plugins.builders import Wants, decode
from tests.plugins.test_schedule import EVENING, LUNCH, MONDAY, MORNING, OFFICE, schedule

pytestmark = pytest.mark.slow

STEADY = Demand(formula="0.2")
RUSH = Demand(table=((0, 0.2), (3600, 1.5), (7200, 0.2)))
"""Cores: two pods of 200m at half of that, and fifteen from an hour after the start, for an hour."""


def bundled(name: str, **options: Any) -> Strategy:
    kind: type[Strategy] = discover().strategies[name].type
    return decode(kind, **options)


def hpa() -> Strategy:
    metrics = [{"type": "Resource", "resource": "cpu", "utilization": 50}]
    return bundled("hpa", metrics=metrics, behavior={"scale_down": {"stabilization_window": 60}})


async def lived(
    start: str, *strategies: Strategy, interval: float = 30.0, hours: float = 24, demand: Demand = STEADY
) -> Told:
    """What is decided and done about a workload of four pods from a time on."""
    table = WorkloadTable(name="web", namespace="shop", replicas=4, demand=demand)
    cluster = Simulated(nodes=(NodeTable(name="node", count=2, cpu="8", memory="32Gi"),), workloads=(table,))
    bounds, told = Bounds(min=1, max=100), Told()
    target = Target("shop", "web")
    rule = Policy(name="p", replicas=bounds, strategies=strategies, workload=target, mode="act", interval=interval)
    sources, began = [ResourceMetrics()], moment(start)
    await simulate(cluster, [rule], hours * 3600, sources=sources, listeners=[told], start=began)
    assert [one.failures for one in told.made if one.failures] == []
    assert {one.result for one in told.outcomes} <= {"done"}
    return told


def late(told: Told, times: list[str]) -> list[float]:
    """By how many seconds each change came after its time."""
    return [one.at - moment(time) for one, time in zip(told.outcomes, times, strict=True)]


def counts(told: Told) -> list[int]:
    return [one.after for one in told.outcomes]


@pytest.mark.parametrize("interval", [37.0, 30.0, 1800.0])
async def test_a_schedule_changes_on_the_second_at_any_poll_interval(interval: float) -> None:
    told = await lived(MONDAY.format("00:00:13"), schedule(OFFICE, LUNCH, default=2), interval=interval)
    assert counts(told) == [2, 10, 14, 10, 2]
    edges = [MONDAY.format(time) for time in ("00:00:13", "08:00", "12:00", "13:00", "20:00")]
    assert all(0 <= seconds < 0.1 for seconds in late(told, edges)[1:])


async def test_a_schedule_adds_few_looks_to_those_of_the_interval() -> None:
    begun = MONDAY.format("00:00:13")
    with_it = await lived(begun, schedule(OFFICE, LUNCH, default=2), interval=60.0)
    without = await lived(begun, Wants(replicas=2), interval=60.0)
    assert 0 < len(with_it.made) - len(without.made) < 20


async def test_a_start_skipped_by_daylight_saving_comes_at_the_change() -> None:
    night = schedule({**OFFICE, "start": "30 2 * * *", "end": "0 6 * * *"}, default=4)
    told = await lived("2026-03-29T00:00+01:00", night, hours=8)
    assert counts(told) == [10, 4]
    edges = ["2026-03-29T03:00+02:00", "2026-03-29T06:00+02:00"]
    assert all(0 <= seconds < 0.1 for seconds in late(told, edges))


async def test_a_cadence_keeps_its_pace_beside_it() -> None:
    """An edge is looked at besides: as a poll interval, the cadence would take it for its own."""
    cadence = bundled("cadence", slow=300.0, medium=60.0)
    told = await lived(MONDAY.format("07:00"), schedule(OFFICE, default=4), cadence, hours=2)
    assert {(one.interval, one.interval_by) for one in told.made} <= {(60.0, "cadence"), (300.0, "cadence")}
    assert counts(told) == [10]
    assert 0 <= late(told, [MONDAY.format("08:00")])[0] < 0.1


async def test_a_daemon_down_at_an_instant_catches_up_after_restart() -> None:
    told = await lived(MONDAY.format("11:23:45"), schedule(instants=[MORNING, EVENING]), hours=0.1)
    assert counts(told) == [8]
    assert late(told, [MONDAY.format("11:23:45")])[0] < 1


async def test_the_hpa_stays_between_the_floor_and_the_ceiling() -> None:
    """The rates of the hpa hold for the way to the floor, and its window for the way to the ceiling."""
    tea: dict[str, Any] = {"name": "tea", "start": "30 8 * * *", "end": "45 8 * * *", "replicas": 12, "as": "ceiling"}
    rules = schedule(OFFICE, {**tea, "zone": "Europe/Berlin"})
    told = await lived(MONDAY.format("07:10"), hpa(), rules, hours=13.2, demand=RUSH)

    def replicas(time: str) -> int:
        """What was decided last before this time."""
        return [one for one in told.made if one.at < moment(MONDAY.format(time))][-1].replicas

    found = {
        time: replicas(time)
        for time in ("07:59:59", "08:00:01", "08:00:31", "08:29", "08:40", "08:50", "09:30", "20:20")
    }
    assert found == {
        "07:59:59": 2, "08:00:01": 6, "08:00:31": 10, "08:29": 15, "08:40": 12, "08:50": 15, "09:30": 10, "20:20": 2,
    }  # fmt: skip
