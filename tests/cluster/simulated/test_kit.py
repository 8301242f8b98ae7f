"""Simulated clusters in virtual time, for the tests beside it."""

from typing import Any

import msgspec

from elasticd.base.clock import VirtualClock
from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.cluster import SimulatedCluster, SimulatedSnapshot
from elasticd.model.actions import Answer, Scale
from elasticd.model.workload import Pod, Ref, Sample, Workload
from elasticd.ports.cluster import Kind

KINDS: frozenset[Kind] = frozenset({("apps/v1", "Deployment"), ("apps/v1", "StatefulSet")})
BIG_NODE = {"name": "big", "cpu": "1000", "memory": "4Ti", "pods": 10000}
START = 1_700_000_000.0


def simulated(*workloads: dict[str, Any], **options: Any) -> Simulated:
    """The options of a cluster with these workloads, on one big node unless it is said otherwise."""
    table = {"type": "simulated", "nodes": [BIG_NODE], "workloads": list(workloads), **options}
    return msgspec.convert(table, Simulated)


class Play:
    """A simulated cluster and its clock. Times are seconds since its start."""

    def __init__(self, *workloads: dict[str, Any], start: float = START, **options: Any) -> None:
        self.start = start
        self.clock = VirtualClock(start)
        self.cluster: SimulatedCluster = simulated(*workloads, **options).build(self.clock)

    async def look(self, t: float) -> SimulatedSnapshot:
        """What is seen at a time."""
        await self.clock.sleep_until(self.start + t)
        return await self.cluster.observe(self.start + t, KINDS)

    async def workload(self, t: float, name: str = "web") -> Workload:
        """One workload at a time."""
        return next(w for w in (await self.look(t)).workloads() if w.ref.name == name)

    async def pods(self, t: float, name: str = "web") -> dict[str, Pod]:
        """A workload's pods at a time, by name."""
        snapshot = await self.look(t)
        return {pod.name: pod for pod in snapshot.pods(await self.workload(t, name))}

    async def scale(self, t: float, after: int, name: str = "web") -> Answer:
        """Scale a workload as it is at a time."""
        return await self.cluster.act(scale_to(await self.workload(t, name), after))

    async def samples(self, t: float, series: str = "cpu", name: str = "web") -> list[Sample]:
        """The samples of a workload's pods at a time."""
        keys = [f"default/{pod}" for pod in await self.pods(t, name)]
        readings = await self.cluster.usage(self.start + t)
        return [sample for key in keys for sample in readings.pods[series].get(key, ())]


def scale_to(workload: Workload, after: int) -> Scale:
    """The action that scales a workload from what it was seen to be."""
    return Scale(workload.ref, workload.uid, workload.version, workload.replicas, after, "test")


def web(**options: Any) -> dict[str, Any]:
    """A workload's table."""
    return {"name": "web", **options}


WEB = Ref("default", "Deployment", "web")
