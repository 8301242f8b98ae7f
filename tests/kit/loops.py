"""The daemon's loop on a virtual clock, with a cluster and sources that a test steers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from elasticd.api import (
    Bounds,
    Observation,
    Pod,
    Policy,
    Recommendation,
    Ref,
    Sample,
    Strategy,
    Workload,
    hookimpl,
)
from elasticd.base.clock import VirtualClock
from elasticd.journal import Journal, Key
from elasticd.model.actions import Action, Answer, Scale
from elasticd.model.disruption import PolicyCaps
from elasticd.model.listener import Governed, Listener, Notice, Ticked
from elasticd.model.moves import Promise, Underway
from elasticd.model.policy import Target
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Readings
from elasticd.ports.cluster import Kind, View
from elasticd.ports.source import Source
from elasticd.runtime.loop import Loop
from elasticd.runtime.workers import Decider
from elasticd.sources.poller import SourcePoller
from tests.kit.clusters import Alone, Unasked

WEB, DB = Ref("shop", "Deployment", "web"), Ref("shop", "Deployment", "db")


class Meters(Source, tag="meter", frozen=True):
    """What the meter is, in TOML."""


class Want(Strategy, tag="want", frozen=True):
    """As many replicas as the series says."""

    series: str = "load"

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation:
        found = observation.series[self.series]
        if not found.samples:
            return Recommendation(None, "NoSample", found.message)
        return Recommendation(int(found.samples[0].value), "Wanted")


class Meter:
    """A source of the series `load` of every workload; each read finds a new sample unless it is stuck."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.load: dict[Ref, float] = {}
        self.asked: list[float] = []
        self.stuck_at: float | None = None
        self.wait: Callable[[], Awaitable[object]] | None = None

    async def read(self, now: float) -> Readings:
        self.asked.append(now)
        if self.wait is not None:
            await self.wait()
        measured = now if self.stuck_at is None else self.stuck_at
        samples = {str(ref): (Sample(value, measured, now),) for ref, value in self.load.items()}
        return Readings("meter", now, workloads={"load": samples})


class Snapshot(Alone):
    """What the cluster has now."""

    def __init__(self, cluster: "Cluster", now: float) -> None:
        self.confirmed = now if cluster.proved is None else cluster.proved
        self.version = cluster.version
        self._workloads, self._pods = dict(cluster.has), dict(cluster.its_pods)

    def workloads(self) -> list[Workload]:
        return list(self._workloads.values())

    def workload(self, ref: Ref) -> Workload | None:
        return self._workloads.get(ref)

    def pods(self, workload: Workload) -> tuple[Pod, ...]:
        return self._pods.get(workload.ref, ())

    def confirmed_for(self, ref: Ref) -> float:
        return self.confirmed

    def changes_since(self, earlier: object) -> None:
        return None

    def selector_fault(self, workload: Workload) -> str:
        return ""

    def nodes(self) -> tuple[()]:
        return ()


class Cluster(Unasked):
    """A cluster whose replicas change at once, and that can be told to be difficult."""

    def __init__(self) -> None:
        self.leading = True
        self.taken_over = None
        self.last_disruption = float("-inf")
        self.lease = ""
        self.version = 1
        self.has: dict[Ref, Workload] = {}
        self.its_pods: dict[Ref, tuple[Pod, ...]] = {}
        self.acts: list[Action] = []
        self.on_act: Callable[[Action], Awaitable[Answer]] | None = None
        self.trouble: dict[Kind, str] = {}
        self.proved: float | None = None
        """When it was last heard of; None: just now."""

    def put(self, ref: Ref, replicas: int, **labels: str) -> None:
        self.has[ref] = Workload(ref, f"uid-{ref.name}", "1", replicas, labels=labels)
        self.version += 1

    def remove(self, ref: Ref) -> None:
        del self.has[ref]
        self.version += 1

    honours_deletion_costs = True

    def restoring(self) -> Sequence[Underway]:
        return ()

    async def promises(self) -> Sequence[Promise]:
        return ()

    def problems(self) -> dict[Kind, str]:
        return self.trouble

    def views(self) -> Sequence[View]:
        return ()

    def describe(self) -> object:
        return {}

    async def observe(self, now: float, kinds: object) -> Snapshot:
        return Snapshot(self, now)

    def gated(self) -> asyncio.Event:
        """From now on an action is done when this is set."""
        gate = asyncio.Event()

        async def slowly(action: Action) -> Answer:
            await gate.wait()
            return Answer("done", 200)

        self.on_act = slowly
        return gate

    async def act(self, action: Action) -> Answer:
        self.acts.append(action)
        if self.on_act is not None:
            return await self.on_act(action)
        if isinstance(action, Scale):
            self.has[action.workload] = replace(self.has[action.workload], replicas=action.after)
        return Answer("done", 200)


class Told:
    """A listener that keeps everything it is told."""

    def __init__(self) -> None:
        self.made: list[Decision] = []
        self.outcomes: list[Outcome] = []
        self.ticks: list[tuple[float, int]] = []
        self.idle_ticks = 0
        self.keys: set[Key] = set()

    def on(self, record: Notice) -> None:
        match record:
            case Decision():
                self.made.append(record)
            case Outcome():
                self.outcomes.append(record)
            case Ticked(float(lag), unchanged):
                self.ticks.append((lag, unchanged))
            case Ticked():
                self.idle_ticks += 1
            case Governed(keys):
                self.keys = set(keys)
            case _:
                pass


class Play(Told):
    """A loop on such a cluster, with everything it told."""

    def __init__(
        self,
        *policies: Policy,
        folder: Path | None = None,
        worker: Decider | None = None,
        listeners: Sequence[Listener] = (),
        caps: PolicyCaps | None = None,
        clock: VirtualClock | None = None,
        **loads: float,
    ) -> None:
        super().__init__()
        self.clock, self.cluster = clock or VirtualClock(), Cluster()
        self.meter = Meter(self.clock)
        self.journal = Journal(folder)
        self.poller = SourcePoller(self.meter, Meters(), self.clock)
        self.loop = Loop(self.cluster, self.journal, self.clock, [self, *listeners], worker)
        self.loop.set_sources([self.poller])
        for name, load in (loads or {"web": 3}).items():
            ref = Ref("shop", "Deployment", name)
            self.cluster.put(ref, 3)
            self.meter.load[ref] = load
        self.loop.apply(policies, caps=caps)

    async def to(self, time: float) -> "Play":
        """Let everything happen up to that time."""
        while True:
            due = self.loop._schedule.next() if self.cluster.leading else None
            if min(self.clock.now() + 1.0, float("inf") if due is None else due) > time:
                await self.clock.sleep_until(time)
                return self
            await self.loop.step()
            await self.loop.actions.drain()

    def times(self, policy: str = "p") -> list[float]:
        return [round(one.at, 6) for one in self.made if one.policy == policy]

    def told(self, policy: str = "p") -> list[tuple[str, str]]:
        return [(one.verdict, one.reason) for one in self.made if one.policy == policy]

    def last(self, policy: str = "p") -> Decision:
        return [one for one in self.made if one.policy == policy][-1]


def policy(name: str = "p", *strategies: Strategy, **changes: Any) -> Policy:
    fields: dict[str, Any] = {
        "replicas": Bounds(min=1, max=20),
        "strategies": strategies or (Want(),),
        "workload": Target("shop", "web"),
        "mode": "act",
        "jitter": 0.0,
    }
    return Policy(name=name, **(fields | changes))


def gaps(times: Sequence[float]) -> list[float]:
    return [round(later - sooner, 6) for sooner, later in pairwise(times)]
