"""Load balance in the loop for pods: what was bound a moment ago counts before anybody has measured it."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Literal

import pytest

from elasticd.api import Strategy
from elasticd.base.clock import VirtualClock
from elasticd.journal import Journal
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.model.workload import Node, Readings, Sample
from elasticd.runtime.pools.placer import Placer
from elasticd.sources.poller import opened
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.testing import site
from elasticd_plugins.load_balance import LoadBalance
from elasticd_plugins.static import Static
from tests.kit.board import Board
from tests.kit.pools import GIB, MIB, NOW, node, pod

NODES = [node("node1", 1, 2 * GIB), node("node2", 2, 4 * GIB), node("node3", 4, 8 * GIB)]


class Measured(Board):
    """All nodes are a tenth used at first, node2 a little less, and are not measured again."""

    async def usage(self, now: float) -> Readings:
        return Readings("test", now)

    async def node_usage(self, now: float) -> Readings:
        def sample(one: Node, resource: str) -> tuple[Sample, ...]:
            part = 0.09 if one.name == "node2" else 0.1
            return (Sample(part * one.allocatable[resource], NOW, now),)

        series = {kind: {one.name: sample(one, kind) for one in NODES} for kind in ("cpu", "memory")}
        return Readings("test", now, nodes=series)


async def placed(strategies: Sequence[Strategy], count: int) -> Counter[str]:
    """Where pods go that come one at a time, a second apart."""
    clock = VirtualClock(NOW)
    board = Measured(clock, NODES, ())
    placer = Placer(board, board.observe, Journal(), clock)
    async with AsyncExitStack() as stack:
        pollers = await stack.enter_async_context(opened([ResourceMetrics(nodes=True)], site(board, clock)))
        stack.push_async_callback(placer.actions.drain, 0)
        placer.set_sources(pollers, wait=None)
        placer.apply([PoolPolicy(name="pool", pool=PoolSelect(), strategies=tuple(strategies), mode="act")])
        for index in range(count):
            board.add(pod(f"p{index}", 0.1, 200 * MIB))
            while not board.pods[f"p{index}"].node:
                await placer.step()
                await asyncio.sleep(0)
            await clock.sleep_until(clock.now() + 1)
    return Counter(one.node for one in board.pods.values())


@pytest.mark.parametrize("kind", [LoadBalance, Static])
async def test_pods_that_come_one_by_one_between_two_measurements_spread(kind: type[LoadBalance | Static]) -> None:
    found = await placed([kind()], 14)
    assert [found["node1"], found["node2"], found["node3"]] == [pytest.approx(one, abs=1) for one in (2, 4, 8)]


@pytest.mark.parametrize("kind", [LoadBalance, Static])
async def test_in_mode_paper_all_pods_take_the_least_loaded_node(
    kind: type[LoadBalance | Static],
) -> None:
    mode: Literal["paper"] = "paper"
    assert await placed([kind(mode=mode)], 14) == {"node2": 14}
