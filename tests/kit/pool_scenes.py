"""A pool on a simulated cluster, or on a dry run over it, in virtual time: pods stand where a test puts them, a mover
looks at them, and what people are shown of it can be asked.

Knows how the parts are put together; knows nothing of what is right. Run as a program it prints what
docs/rebalance.md shows.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rich.console import Console

from elasticd.cluster.dry_run import DryRun
from elasticd.journal import Journal
from elasticd.model.listener import Notice
from elasticd.model.moves import MoveDecision
from elasticd.model.placement import PodOutcome
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect, Strategy
from elasticd.model.reports import PoolReport
from elasticd.ports.cluster import Cluster
from elasticd.runtime.loop import Loop
from elasticd.runtime.pools.mover import Mover
from elasticd.runtime.pools.placer import Placer
from elasticd.runtime.pools.report import PoolReports
from elasticd.sources.poller import opened
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.ui import nodes as show_nodes
from elasticd_plugins.filters import Filters
from elasticd_plugins.load_balance import LoadBalance
from elasticd_plugins.rebalance import Rebalance
from elasticd_plugins.rebalance.options import Marks
from tests.cluster.simulated.test_kit import START
from tests.cluster.simulated.test_placing import Placed, ours

LEVEL = Rebalance(
    by="deviation",
    marks=(Marks("cpu", 0.15, 0.05, 0.0), Marks("memory", 0.9, 0.8, 0.0)),
    observations=1,
    settle=0,
    cooldown=0,
)
"""By cpu, and at once: whatever is planned twice shows."""


class Heard:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.decisions: list[MoveDecision] = []
        self.outcomes: list[PodOutcome] = []

    def on(self, record: Notice) -> None:
        if isinstance(record, MoveDecision):
            self.decisions.append(record)
        elif isinstance(record, PodOutcome):
            self.outcomes.append(record)

    def done(self) -> list[tuple[str, str, str]]:
        """What would have been done: which pod, from where, to where."""
        went = {one.decision for one in self.outcomes if one.result == "done"}
        return [(one.pod.name, one.node, one.target) for one in self.decisions if one.id in went]


class Scene:
    """A dry run over a simulated cluster on whose nodes pods stand where the test has put them."""

    def __init__(self, real: Placed, cluster: Cluster, placer: Placer, mover: Mover, heard: Heard) -> None:
        self.real, self.cluster, self.placer, self.mover, self.heard = real, cluster, placer, mover, heard
        self.clock = real.clock

    async def until(self, t: float) -> None:
        while min(self.mover.due(), START + t + 1) <= START + t:
            await self.mover.step()
            await self.mover.actions.drain()
        await self.clock.sleep_until(START + t)

    async def on(self, t: float) -> dict[str, list[str]]:
        """Who would be where."""
        await self.until(t)
        found = (await self.placer.look(self.clock.now())).on_nodes()
        return {name: [one.name for one in pods] for name, pods in found.items() if pods}

    async def report(self) -> PoolReport:
        (found,) = await PoolReports(self.cluster, self.placer, self.mover, self.clock).nodes()
        assert isinstance(found, PoolReport)
        return found


@asynccontextmanager
async def scene(
    *workloads: dict[str, Any],
    bound: dict[str, str],
    strategies: tuple[Strategy, ...] = (),
    moves: dict[str, Any] | None = None,
    dry: bool = True,
    **options: Any,
) -> AsyncIterator[Scene]:
    """Pods by name and the node each is on; looked at every 10 s from the 20th on."""
    real = Placed(*workloads, **options)
    for name, on in bound.items():
        answer = await real.bind(0, name, on)
        assert answer.result == "done", (name, answer)
    await real.look(20)
    cluster: Cluster = DryRun(real.cluster) if dry else real.cluster
    journal, heard = Journal(), Heard()
    loop = Loop(cluster, journal, real.clock)
    async with opened([ResourceMetrics(nodes=True)], loop.site) as pollers:
        placer = Placer(cluster, loop.look, journal, real.clock)
        placer.set_sources(pollers, wait=None)
        table = MovesTable(**{"every": 10.0, "min_age": 5.0, "single": True, **(moves or {})})
        chosen = strategies or (Filters(), LoadBalance(), LEVEL)
        placer.apply([PoolPolicy(name="pool", pool=PoolSelect(), strategies=chosen, mode="act", moves=table)])
        mover = Mover(cluster, placer, journal, real.clock, [heard])
        yield Scene(real, cluster, placer, mover, heard)


def table(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "cpu": "4", "memory": "8Gi", **more}


def apps(count: int, cores: float, **more: Any) -> dict[str, Any]:
    """A Deployment whose pods use so many cores each."""
    demand = {"formula": str(count * cores)}
    return ours(replicas=count, demand=demand, start_seconds=0, labels={"app": "web"}, **more)


async def shown() -> str:
    """Four nodes of which one is twice as loaded as the others, in the second of three looks, at 80 columns."""
    stand = {f"web-{number:06d}": f"n{1 if number < 7 else 2 + number % 3}" for number in range(1, 13)}
    rule = Rebalance(by="deviation", marks=(Marks("cpu", 0.15, 0.05, 0.0),))
    strategies = (Filters(), LoadBalance(), rule)
    nodes = [table(f"n{number}") for number in range(1, 5)]
    async with scene(apps(12, 0.5), bound=stand, strategies=strategies, nodes=nodes, dry=False) as it:
        await it.until(38)
        report = await it.report()
        console = Console(width=80, color_system=None, markup=False, emoji=False, highlight=False)
        with console.capture() as captured:
            console.print(show_nodes.shown([report], it.clock.now()))
    return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())


if __name__ == "__main__":
    print(asyncio.run(shown()))
