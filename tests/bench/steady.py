"""What a poll and a decision cost, on one core: `make bench`.

Every figure is printed with the machine it was measured on; nothing here passes or fails.
"""

import asyncio
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from timeit import repeat
from typing import Any

from elasticd.base.clock import WallClock
from elasticd.base.decode import convert
from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.demand import Demand
from elasticd.cluster.simulated.options import MetricsOptions, NodeTable, WorkloadTable
from elasticd.daemon import tune_interpreter
from elasticd.decision.decide import Case, decide
from elasticd.journal import Journal
from elasticd.kit.history import begin
from elasticd.model.listener import Notice, Ticked
from elasticd.model.policy import Bounds, Policy, Select, Strategy
from elasticd.model.records import Decision
from elasticd.registry import Hooks, discover
from elasticd.runtime.loop import Loop
from elasticd.runtime.workers import DecisionWorker
from elasticd.sources.poller import opened
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.telemetry.metrics import DaemonMetrics
from elasticd.testing import observation, simulate
from tests.kit.measuring import alone, machine

WORKLOADS, PODS, SECONDS = 1000, 10, 12


def cluster(workloads: int = WORKLOADS, resolution: float = 1.0) -> Simulated:
    """Nodes enough for workloads of ten pods at half their requests, measured so often."""
    table = WorkloadTable(
        name="web",
        namespace="bench",
        count=workloads,
        replicas=PODS,
        cpu="200m",
        start_seconds=0,
        demand=Demand(formula="1 + 0.02*sin(t)"),
    )
    return Simulated(
        nodes=(NodeTable(name="node", count=workloads // 8 + 1, cpu="32", memory="128Gi"),),
        workloads=(table,),
        metrics=MetricsOptions(resolution=resolution),
    )


def hpa(utilization: int = 50, **options: Any) -> Strategy:
    """The hpa strategy: at 50 % the pods are right as they are, at 80 % a window holds them."""
    table = {"metrics": [{"type": "Resource", "resource": "cpu", "utilization": utilization}], **options}
    return convert(table, discover().strategies["hpa"].type, "bench")  # type: ignore[no-any-return]


def policy(interval: float, utilization: int = 50, jitter: float = 0.0) -> Policy:
    """The hpa strategy for all of them."""
    return Policy(
        name="bench",
        replicas=Bounds(min=1, max=100),
        strategies=(hpa(utilization, period=interval),),
        select=Select(namespaces=("bench",)),
        mode="act",
        jitter=jitter,
        interval=interval,
    )


class Count:
    """A listener that counts."""

    def __init__(self) -> None:
        self.decisions, self.lags = 0, [0.0]

    def on(self, record: Notice) -> None:
        """Count a decision; keep a tick's lag."""
        if isinstance(record, Decision):
            self.decisions += 1
        elif isinstance(record, Ticked) and record.lag is not None:
            self.lags.append(record.lag)


async def live(label: str, rule: Policy) -> None:
    """The whole path in real time: observe, decide in its thread, journal on disk, metrics."""
    tune_interpreter()
    clock, count = WallClock(), Count()
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            simulated = await stack.enter_async_context(cluster().open(clock))
            journal = Journal(Path(folder))
            stack.callback(journal.close)
            loop = Loop(simulated, journal, clock, [DaemonMetrics(), count], DecisionWorker())
            loop.set_sources(await stack.enter_async_context(opened([ResourceMetrics(every=1.0)], loop.site)))
            loop.apply([rule])
            task = asyncio.create_task(loop.run())
            await asyncio.sleep(5)
            count.decisions, count.lags, cpu, wall = 0, [], time.process_time(), time.monotonic()
            await asyncio.sleep(SECONDS)
            cpu, wall = time.process_time() - cpu, time.monotonic() - wall
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    lag = sorted(count.lags)
    print(f"{WORKLOADS} workloads of {PODS} pods at 1 s, {label}, in real time for {wall:.0f} s:")
    each, late = cpu / count.decisions * 1e6, lag[int(len(lag) * 0.99)] * 1e3
    print(f"  {cpu / wall:.1%} of one core, {count.decisions / wall:.0f} decisions/s, {each:.0f} us a decision")
    print(f"  ticks begin late by {late:.0f} ms at the 99th percentile")


def virtual() -> None:
    """A day of one workload, and as many decisions as one core can make."""
    for label, workloads, seconds, interval, resolution in (
        ("a day of one workload at 30 s, metrics every 15 s", 1, 86400.0, 30.0, 15.0),
        ("a day of one workload at 30 s, metrics every second", 1, 86400.0, 30.0, 1.0),
        ("a minute of 1,000 workloads at 1 s", 1000, 60.0, 1.0, 1.0),
    ):
        count, cpu, simulated = Count(), time.process_time(), cluster(workloads, resolution)
        asyncio.run(simulate(simulated, [policy(interval)], seconds, sources=[ResourceMetrics()], listeners=[count]))
        cpu = time.process_time() - cpu
        print(f"{label}, in virtual time: {cpu:.2f} s of one core, {count.decisions / cpu:.0f} decisions/s")


def single() -> None:
    """Judgement alone: one hpa decision over ten pods."""
    strategy, seen = hpa(), observation([0.5] * PODS)
    rule = policy(1.0)
    case = Case(rule, seen, begin(seen.at, PODS), Hooks((strategy,)))
    best = min(repeat(lambda: decide(case), number=1000, repeat=5)) / 1000
    print(f"one hpa decision over {PODS} pods: {best * 1e6:.0f} us")


def main() -> None:
    """Print all figures."""
    print(machine())
    alone()
    single()
    virtual()
    for state, utilization in (("right as they are", 50), ("held by a window", 80)):
        for pace, jitter in (("no jitter", 0.0), ("default jitter", 0.1)):
            asyncio.run(live(f"{state}, {pace}", policy(1.0, utilization, jitter)))


if __name__ == "__main__":
    main()
