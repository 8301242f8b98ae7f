"""A queue in virtual time: from none to one, to as many as it needs, and back to none, step by step."""

from itertools import pairwise
from typing import Any

import pytest

from elasticd.api import Policy, Strategy
from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.demand import Demand
from elasticd.cluster.simulated.options import NodeTable, SimulatedSeries, WorkloadTable
from elasticd.decision.workload.zero import ZERO
from elasticd.limits.behavior import RateLimit, Stabilization
from elasticd.model.policy import Bounds, Target, Trust
from elasticd.model.records import Outcome
from elasticd.runtime.loop import QUANTUM
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.testing import simulate
from elasticd_plugins.cadence import Cadence
from elasticd_plugins.event import Event
from tests.kit import faults
from tests.kit.plugins.builders import decode

RATES = {"up": [{"type": "Pods", "value": 2, "period": 10}], "down": [{"type": "Pods", "value": 1, "period": 30}]}
QUEUE = [{"series": "queue", "average_value": 10}]


class Told(faults.Told):
    """Remembers the changes that were made, as (time, before, after), and the marks."""

    def __init__(self) -> None:
        super().__init__(least=0)

    def acted(self, outcome: Outcome) -> None:
        super().acted(outcome)
        self.scaled = [(at, before, after) for at, before, after in self.scaled if before != after]

    @property
    def marks(self) -> list[tuple[float, str | None]]:
        """When zero was marked, and when no longer."""
        return [(one.at, mark.annotations[ZERO]) for one in self.made for mark in one.marks]


async def play(queue: str, *voices: Strategy, seconds: float = 900, replicas: int = 0, **options: Any) -> Told:
    """The changes made to a workload whose queue is this formula of the time."""
    table = WorkloadTable(
        name="web", replicas=replicas, series=(SimulatedSeries(name="queue", demand=Demand(formula=queue)),)
    )
    cluster = Simulated(nodes=(NodeTable(name="node", cpu="64", memory="64Gi"),), workloads=(table,))
    limits = (decode(RateLimit, **RATES),)
    given: dict[str, Any] = {"replicas": Bounds(9, 0), "limits": limits, "interval": 10.0, "jitter": 0.0, **options}
    policy = Policy(name="p", strategies=voices, workload=Target("default", "web"), mode="act", **given)
    told = Told()
    await simulate(cluster, [policy], seconds, sources=[ResourceMetrics()], listeners=[told])
    return told


def event(**options: Any) -> Event:
    return decode(Event, triggers=QUEUE, **options)


ARRIVES = "0 if t < 100 else 60 if t < 400 else 0"


async def test_a_queue_wakes_a_workload_that_scales_within_its_limits() -> None:
    told = await play(ARRIVES, event(cooldown=60), replicas=1)
    sleep, *grow = told.scaled[:4]
    assert sleep[1:] == (1, 0)
    assert 60 <= sleep[0] <= 75
    assert [(before, after) for _, before, after in grow] == [(0, 2), (2, 4), (4, 6)]
    assert 100 <= grow[0][0] <= 105
    assert all(later - earlier >= 10 for (earlier, *_), (later, *_) in pairwise(grow))
    shrink = told.scaled[4:]
    assert [(before, after) for _, before, after in shrink] == [(6, 5), (5, 4), (4, 3), (3, 2), (2, 1), (1, 0)]
    assert all(later - earlier >= 30 for (earlier, *_), (later, *_) in pairwise(shrink))
    assert shrink[0][0] >= 400
    assert shrink[-1][0] >= 460


async def test_every_zero_is_marked_until_the_workload_runs_again() -> None:
    told = await play(ARRIVES, event(cooldown=60), replicas=1)
    (first, second) = [at for at, _, after in told.scaled if after == 0]
    woken = next(at for at, before, _ in told.scaled if before == 0)
    assert told.marks == [(first, "p"), (pytest.approx(woken + 5), None), (second, "p")]


async def test_a_workload_created_with_zero_replicas_is_not_started() -> None:
    assert (await play(ARRIVES, event(cooldown=60), replicas=0)).scaled == []


@pytest.mark.slow
async def test_the_cooldown_keeps_what_stabilization_lets_go() -> None:
    """Messages come every 100 s; with a cooldown of 150 s it stays awake, with one of 60 s it sleeps in between."""
    queue = "5 if t % 100 < 20 else 0"
    awake = await play(queue, event(cooldown=150), replicas=1)
    assert awake.scaled == []
    dozing = await play(queue, event(cooldown=60), replicas=1)
    assert len(dozing.scaled) > 8
    steady = (decode(Stabilization, down=150.0),)
    held = await play(queue, event(cooldown=0), replicas=1, limits=steady)
    assert held.scaled == []


FLAPS = "60 if t % 120 < 60 else 10"


@pytest.mark.parametrize(
    ("options", "flaps"),
    [
        pytest.param({}, False, id="as it is, as the HPA that KEDA makes"),
        pytest.param({"downscale_stabilization": 120}, False, id="a window that is longer than the pause"),
        pytest.param({"downscale_stabilization": 0}, True, id="none"),
    ],
)
async def test_an_intermittent_queue_does_not_flap_the_count(options: dict[str, Any], flaps: bool) -> None:
    told = await play(FLAPS, event(**options), replicas=6)
    assert any(after < before for _, before, after in told.scaled) == flaps


@pytest.mark.slow
async def test_the_window_delays_the_fall_and_cooldown_alone_delays_zero() -> None:
    told = await play("60 if t < 100 else 10 if t < 600 else 0", event(), replicas=6, seconds=1200, limits=())
    (few, *_), (none, *_) = told.scaled
    assert [(before, after) for _, before, after in told.scaled] == [(6, 1), (1, 0)]
    assert 390 <= few <= 401
    assert 890 <= none <= 910


async def test_a_window_longer_than_the_cooldown_does_not_delay_zero() -> None:
    told = await play("60 if t < 100 else 0", event(cooldown=60), replicas=6, limits=())
    ((at, before, after),) = told.scaled
    assert (before, after) == (6, 0)
    assert 150 <= at <= 170


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "pace"),
    [
        pytest.param({}, 5.0, id="as it is"),
        pytest.param({"period_at_zero": 2}, 2.0, id="faster"),
        pytest.param({"period_at_zero": 20}, 20.0, id="slower"),
    ],
)
async def test_the_clock_at_zero(options: dict[str, Any], pace: float) -> None:
    told = await play("0", event(cooldown=30, **options), Cadence(), replicas=1)
    asleep = [one.at for one in told.made if one.at > told.scaled[-1][0] + 30]
    # A look is taken along by a tick in which the source is read.
    assert all(pace - QUANTUM <= later - earlier <= pace + 1e-6 for earlier, later in pairwise(asleep))


FAILS = "1 if t < 100 else 30 if t < 300 or t > 700 or t == 600 else 1 / 0"
"""Unknown from the 300th to the 700th second. (A formula must have a value at 600, where it is tried.)"""


@pytest.mark.parametrize(
    ("trust", "during"),
    [
        pytest.param({}, 3, id="KEDA currentReplicas: hold"),
        pytest.param({"unknown": "fallback", "replicas": 2, "may_lower": True}, 2, id="KEDA static, fewer"),
        pytest.param({"unknown": "fallback", "replicas": 5, "may_lower": True}, 5, id="KEDA static, more"),
        pytest.param({"unknown": "fallback", "replicas": 2}, 3, id="KEDA currentReplicasIfHigher, fewer"),
        pytest.param({"unknown": "fallback", "replicas": 5}, 5, id="KEDA currentReplicasIfHigher, more"),
        pytest.param({"unknown": "ceiling", "replicas": 2}, 2, id="KEDA currentReplicasIfLower, fewer"),
        pytest.param({"unknown": "ceiling", "replicas": 5}, 3, id="KEDA currentReplicasIfLower, more"),
    ],
)
async def test_keda_s_fallbacks_are_the_policy_s_trust(trust: dict[str, Any], during: int) -> None:
    at_once = event(cooldown=30, downscale_stabilization=0)
    told = await play(FAILS, at_once, replicas=1, trust=Trust(**{"after": 30.0, **trust} if trust else {}))
    assert told.counts(500, 600) == {during}
    assert told.counts(850, 900) == {3}


@pytest.mark.slow
async def test_unknown_is_neither_woken_nor_put_to_sleep() -> None:
    told = await play("5 if t < 50 or t >= 600 else 0 if t < 200 else 1 / 0", event(cooldown=60), replicas=1)
    assert [(before, after) for at, before, after in told.scaled if at < 600] == [(1, 0)]
    assert [(before, after) for at, before, after in told.scaled if at >= 600] == [(0, 1)]
    busy = "5 if t < 180 or t >= 600 else 0 if t < 200 else 1 / 0"
    late = await play(busy, event(cooldown=60), replicas=1, seconds=590)
    assert late.scaled == []
